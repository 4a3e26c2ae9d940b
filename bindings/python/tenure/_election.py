"""Leader election: on a context (Election), or with one of its own: continuous, for a block, and for a function.

The one-shot forms run inside tenure_election_run(), in a thread: a leader that is asked to resign then keeps the role
until the block is left, and a late replica does not run the same job again (at_least).
"""

import asyncio
import functools
import inspect
import threading
import weakref
from contextlib import contextmanager
from ctypes import byref, c_void_p, sizeof
from types import TracebackType
from typing import Any, Callable, Iterator, Optional, Type, TypeVar, cast

from . import _native as native
from ._context import Context
from ._errors import E_HELD, E_LOST, E_TIMEOUT, check, error_of
from ._native import lib, text, utf8

DEFAULT_TTL = 30.0
_RETRYABLE = [code for code in range(-100, 0) if lib.tenure_error_retryable(code)]  # the campaign goes on


class _Work:
    """How much work is under way, for a term that is to end only when there is none."""

    def __init__(self) -> None:
        self.count = 0
        self.changed = threading.Condition()

    def add(self, number: int) -> None:
        with self.changed:
            self.count += number
            self.changed.notify_all()

    def wait_until_none(self, seconds: float) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.count == 0, seconds)


def _elected(function: Optional[Callable[[int], None]]) -> Any:
    if function is None:
        return native.ElectedFunction()
    wanted = function
    return native.ElectedFunction(lambda _election, token, _userdata: wanted(token))


def _demoted(work: Optional[_Work], function: Optional[Callable[[int, str], None]]) -> Any:
    """The role is released when this returns: when the work has stopped, or its lease has expired.

    Without `work` it is released later: see tenure_election_work_over().
    """

    def on_demoted(election: Any, token: int, reason: bytes, _userdata: Any) -> None:
        try:
            if function is not None:
                function(token, text(reason))
        finally:
            if work is not None:
                work.wait_until_none(lib.tenure_election_remaining_ms(election) / 1000)

    return native.DemotedFunction(on_demoted)


class _Term:
    """One call of tenure_election_run() in a thread of its own, from the answer of the store to leave()."""

    def __init__(self, context: Context, role: str, options: native.ElectionOptions, wait_ms: int) -> None:
        self.handle: Any = None
        self.token = 0
        self.code = 0
        self.message = b""
        self._answered = threading.Event()
        self._left = threading.Event()
        self._arguments = (context._open(), utf8(role), byref(options), wait_ms, native.LeaderFunction(self._lead), None)
        self._thread = threading.Thread(target=self._run, name=f"tenure-{role}", daemon=True)
        self._thread.start()
        self._answered.wait()

    def _run(self) -> None:
        self.code = lib.tenure_election_run(*self._arguments)
        self.message = lib.tenure_message(None) if self.code < 0 else b""
        self._answered.set()

    def _lead(self, election: Any, _argument: Any) -> int:
        self.handle = c_void_p(election)
        self.token = lib.tenure_election_token(self.handle)
        self._answered.set()
        self._left.wait()
        self.handle = None
        return 0

    def leave(self) -> int:
        self._left.set()
        self._thread.join()
        return self.code


class Election:
    """A candidate for a role, on a context, which must stay open. It campaigns until it is closed.

    `at_least`: from the start of a term the role is kept this long, also when the work is over before. `on_elected`
    gets the token, `on_demoted` the token and the reason. They run in the context's thread and must return soon; the
    role is released when on_demoted has returned and no work() is under way. `count`: so many lead at a time, each in a
    slot of its own.
    """

    def __init__(self, context: Context, role: str, *, namespace: Optional[str] = None, at_least: float = 0.0,
                 on_elected: Optional[Callable[[int], None]] = None,
                 on_demoted: Optional[Callable[[int, str], None]] = None, count: int = 0,
                 _elsewhere: bool = False) -> None:
        self.role = role
        self.context = context
        self._work = _Work()
        callbacks = (_elected(on_elected), _demoted(None if _elsewhere else self._work, on_demoted))
        options = native.ElectionOptions(
            size=sizeof(native.ElectionOptions), flags=native.WORK_ELSEWHERE if _elsewhere else 0,
            namespace_name=utf8(namespace),
            at_least_ms=native.milliseconds(at_least), on_elected=callbacks[0], on_demoted=callbacks[1], count=count)
        self._handle = c_void_p()
        check(lib.tenure_election_open(context._open(), utf8(role), byref(options), byref(self._handle)))
        # The callbacks must live as long as the election does.
        self._close = weakref.finalize(self, lambda handle, _callbacks: lib.tenure_election_close(handle), self._handle,
                                       callbacks)

    @property
    def slot(self) -> Optional[int]:
        """The number of the slot that it leads; None when it does not lead."""
        slot = int(lib.tenure_election_slot(self._handle)) if self._close.alive else -1
        return slot if slot >= 0 else None

    @property
    def leads(self) -> bool:
        """A local read that turns false by itself. Check before each step of the work."""
        return self._close.alive and bool(lib.tenure_election_leads(self._handle))

    @property
    def token(self) -> int:
        """The token of the term; 0 when it does not lead. Everything that the work sends should carry it."""
        return int(lib.tenure_election_token(self._handle)) if self._close.alive else 0

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Whether it leads, after up to that long. Raises what makes it impossible to know."""
        code = native.wait_in_slices(lambda ms: int(lib.tenure_election_wait(self._open(), ms)),
                                     native.milliseconds(seconds, native.FOREVER_MS), _RETRYABLE)
        if code not in (E_HELD, E_TIMEOUT):
            check(code)
        return code == 0

    def resign(self) -> None:
        """Steps down and lets others go first, for one TTL."""
        check(lib.tenure_election_resign(self._open()))

    @contextmanager
    def work(self) -> Iterator[int]:
        """Work that is not cut in two: the role is not released before it is left. Raises Lost when not leading."""
        self._work.add(1)
        try:
            yield self._token_of_term()
        finally:
            self._work.add(-1)

    def _token_of_term(self) -> int:
        token = self.token
        if token == 0 or not self.leads:
            raise error_of(E_LOST, f"this instance does not lead {self.role}".encode())
        return token

    def _work_over(self) -> None:
        if self._close.alive:
            lib.tenure_election_work_over(self._handle)

    def close(self) -> None:
        """Steps down once the work is done, and releases the role. Twice does nothing."""
        self._close()

    def _open(self) -> c_void_p:
        if not self._close.alive:
            raise ValueError(f"the election of {self.role} is closed")
        return self._handle

    def __enter__(self) -> "Election":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


class LeaderElection:
    """A candidate with a context of its own. Durations are seconds.

    `at_least`: from the start of a term the role is kept this long, also when the work is over before, so that a
    replica whose clock is behind does not run it again. None is the TTL for the one-shot forms, and 0 for start().
    `wait`: how long the one-shot forms wait for the role; by default they ask once.
    """

    def __init__(self, role: str, store: Optional[str] = None, *, namespace: Optional[str] = None,
                 name: Optional[str] = None, ttl: Optional[float] = None, renew: Optional[float] = None,
                 wait: float = 0.0, at_least: Optional[float] = None) -> None:
        self.role = role
        self._store = store
        self._settings = {"name": name, "ttl": ttl, "renew": renew}
        self._namespace = namespace
        self._ttl = ttl or DEFAULT_TTL
        self._wait_ms = native.milliseconds(wait)
        self._at_least = at_least
        self._context: Optional[Context] = None
        self._term: Optional[_Term] = None
        self._election: Optional[Election] = None

    def _open(self) -> Context:
        if self._context is not None:
            raise RuntimeError(f"the election of {self.role} has been started already")
        return Context(self._store, **self._settings)  # type: ignore[arg-type]

    # ---- reading

    @property
    def is_leader(self) -> bool:
        """A local read that turns false by itself. Check before each step of the work."""
        term, election = self._term, self._election
        if term:
            handle = term.handle
            return handle is not None and bool(lib.tenure_election_leads(handle))
        return election is not None and election.leads

    @property
    def token(self) -> int:
        """The token of the term; 0 when it does not lead. Everything that the work sends should carry it."""
        term, election = self._term, self._election
        if term:
            handle = term.handle
            return int(lib.tenure_election_token(handle)) if handle is not None else 0
        return election.token if election else 0

    @property
    def instance_id(self) -> str:
        return self._context.instance_id if self._context else ""

    # ---- continuous

    def start(self) -> "LeaderElection":
        """Campaigns in a thread of the library's, until stop()."""
        context = self._open()
        self._election = Election(context, self.role, namespace=self._namespace, at_least=self._at_least or 0.0)
        self._context = context
        return self

    def stop(self) -> None:
        """Steps down once the work is done, and releases the role. Twice does nothing."""
        election, self._election = self._election, None
        if election:
            election.close()
            election.context.close()
            self._context = None

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Whether it leads, after up to that long. Raises what makes it impossible to know."""
        return self._started().wait(seconds)

    def resign(self) -> None:
        """Steps down and lets others go first, for one TTL."""
        self._started().resign()

    @contextmanager
    def work(self) -> Iterator[int]:
        """Work that is not cut in two: the role is not released before it is left. Raises Lost when not leading."""
        with self._started().work() as token:
            yield token

    def _started(self) -> Election:
        if self._election is None:
            raise RuntimeError("start() it first")
        return self._election

    # ---- for a block

    def __enter__(self) -> "LeaderElection":
        """Comes back when it is known who leads: look at is_leader."""
        context = self._open()
        at_least = self._ttl if self._at_least is None else self._at_least
        options = native.ElectionOptions(size=sizeof(native.ElectionOptions), namespace_name=utf8(self._namespace),
                                         at_least_ms=native.milliseconds(at_least))
        term = _Term(context, self.role, options, self._wait_ms)
        if term.token:
            self._context, self._term = context, term
            return self
        code = term.leave()
        context.close()
        if code < 0 and code != E_HELD:
            raise error_of(code, term.message)
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        """Raises Lost when the leadership was lost before the block was left, unless something else went wrong in it."""
        term, self._term = self._term, None
        context, self._context = self._context, None
        if not term or not context:
            return
        code = term.leave()
        context.close()
        if code == E_LOST and value is None:
            raise error_of(E_LOST, term.message)

    async def __aenter__(self) -> "LeaderElection":
        return await asyncio.get_running_loop().run_in_executor(None, self.__enter__)

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.__exit__, kind, value, trace)


Function = TypeVar("Function", bound=Callable[..., Any])


def leader_only(role: str, store: Optional[str] = None, **options: Any) -> Callable[[Function], Function]:
    """Runs the function only where this process gets the role, and returns None elsewhere; async functions, too.

    The options are those of LeaderElection. The role is renewed while the function runs, however long.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            with LeaderElection(role, store, **options) as election:
                return function(*arguments, **named) if election.token else None

        @functools.wraps(function)
        async def run_async(*arguments: Any, **named: Any) -> Any:
            async with LeaderElection(role, store, **options) as election:
                return await function(*arguments, **named) if election.token else None

        return cast(Function, run_async if inspect.iscoroutinefunction(function) else run)

    return decorate
