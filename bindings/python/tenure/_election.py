"""Leader election: continuous (start, is_leader, stop), for a block (with, async with), and for a function.

The one-shot forms run inside tenure_leader_only(), in a thread: a leader that is asked to resign then keeps the role
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
from ._errors import E_HELD, E_LOST, error_of
from ._native import lib, text, utf8

DEFAULT_TTL = 30.0


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


def _demoted(work: _Work) -> Any:
    """The role is given back when this returns: when the work has stopped, or its lease is over by itself."""

    def on_demoted(election: Any, _token: int, _reason: bytes, _userdata: Any) -> None:
        work.wait_until_none(lib.tenure_election_remaining_ms(election) / 1000)

    return native.DemotedFunction(on_demoted)


class _Term:
    """One call of tenure_leader_only() in a thread of its own, from the answer of the store to leave()."""

    def __init__(self, url: Optional[bytes], role: str, options: native.ElectionOptions, wait_ms: int) -> None:
        self.handle: Any = None
        self.token = 0
        self.done = 0
        self.message = b""
        self._answered = threading.Event()
        self._left = threading.Event()
        self._arguments = (url, utf8(role), byref(options), wait_ms, native.LeaderFunction(self._lead), None)
        self._thread = threading.Thread(target=self._run, name=f"tenure-{role}", daemon=True)
        self._thread.start()
        self._answered.wait()

    def _run(self) -> None:
        self.done = lib.tenure_leader_only(*self._arguments)
        self.message = lib.tenure_message(None) if self.done < 0 else b""
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
        return self.done


class LeaderElection:
    """One candidate for a role. Durations are seconds.

    `at_least`: from the start of a term the role is kept this long, also when the work is over before, so that a
    replica whose clock is behind does not run it again. None is the TTL for the one-shot forms, and 0 for start().
    `wait`: how long the one-shot forms wait for the role; by default they ask once.
    """

    def __init__(self, role: str, store: Optional[str] = None, *, namespace: Optional[str] = None,
                 name: Optional[str] = None, ttl: Optional[float] = None, renew: Optional[float] = None,
                 wait: float = 0.0, at_least: Optional[float] = None) -> None:
        self.role = role
        self._url = native.store_url(store)
        self._settings = (utf8(namespace), utf8(name), native.milliseconds(ttl), native.milliseconds(renew))
        self._ttl = ttl or DEFAULT_TTL
        self._wait_ms = native.milliseconds(wait)
        self._at_least = at_least
        self._term: Optional[_Term] = None
        self._handle: Optional[c_void_p] = None
        self._stop: Any = None
        self._work = _Work()
        self._on_demoted = _demoted(self._work)

    def _options(self, at_least: float) -> native.ElectionOptions:
        namespace, name, ttl_ms, renew_ms = self._settings
        return native.ElectionOptions(size=sizeof(native.ElectionOptions), namespace_name=namespace, instance_name=name,
                                      ttl_ms=ttl_ms, renew_ms=renew_ms, at_least_ms=native.milliseconds(at_least))

    def _current(self) -> Any:
        term = self._term
        return term.handle if term else self._handle

    # ---- looking

    @property
    def is_leader(self) -> bool:
        """A local read that turns false by itself. Ask before each step of the work."""
        handle = self._current()
        return handle is not None and bool(lib.tenure_is_leader(handle))

    @property
    def token(self) -> int:
        """The token of the term; 0 when it does not lead. Everything that the work sends should carry it."""
        handle = self._current()
        return int(lib.tenure_election_token(handle)) if handle is not None else 0

    @property
    def instance_id(self) -> str:
        handle = self._current()
        return text(lib.tenure_election_instance_id(handle)) if handle is not None else ""

    # ---- continuous

    def start(self) -> "LeaderElection":
        """Campaigns in a thread of the library's, until stop()."""
        if self._current() is not None:
            raise RuntimeError(f"the election of {self.role} has been started already")
        options = self._options(self._at_least or 0.0)
        options.on_demoted = self._on_demoted
        handle = c_void_p()
        done = lib.tenure_election_start(self._url, utf8(self.role), byref(options), byref(handle))
        if done < 0:
            raise error_of(done, lib.tenure_message(None))
        self._handle = handle
        # The callback must live as long as the election does.
        self._stop = weakref.finalize(self, lambda _callback: lib.tenure_election_stop(handle), self._on_demoted)
        return self

    def stop(self) -> None:
        """Steps down once the work is done, gives the role back. Twice is nothing."""
        stop, self._stop = self._stop, None
        if stop:
            stop()
        self._handle = None

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Whether it leads, after up to that long. Raises what makes it impossible to know."""
        if self._handle is None:
            raise RuntimeError("start() it first")
        done = lib.tenure_election_wait(self._handle, native.milliseconds(seconds, native.FOREVER_MS))
        if done < 0 and done != E_HELD:
            raise error_of(done, lib.tenure_message(None))
        return bool(done == 0)

    def resign(self) -> None:
        """Steps down and lets others go first, for one TTL."""
        if self._handle is None:
            raise RuntimeError("start() it first")
        done = lib.tenure_election_resign(self._handle)
        if done < 0:
            raise error_of(done, lib.tenure_message(None))

    @contextmanager
    def work(self) -> Iterator[int]:
        """Work that is not cut in two: the role is not handed over before it is left. Raises Lost when not leading."""
        self._work.add(1)
        try:
            token = self.token
            if token == 0 or not self.is_leader:
                raise error_of(E_LOST, f"this instance does not lead {self.role}".encode())
            yield token
        finally:
            self._work.add(-1)

    # ---- for a block

    def __enter__(self) -> "LeaderElection":
        """Comes back when it is known who leads: look at is_leader."""
        if self._current() is not None or self._term:
            raise RuntimeError(f"the election of {self.role} has been started already")
        options = self._options(self._ttl if self._at_least is None else self._at_least)
        term = _Term(self._url, self.role, options, self._wait_ms)
        if term.token == 0:
            done = term.leave()
            if done < 0 and done != E_HELD:
                raise error_of(done, term.message)
        else:
            self._term = term
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        """Raises Lost when the leadership was lost before the block was left, unless something else went wrong in it."""
        term, self._term = self._term, None
        if term and term.leave() == E_LOST and value is None:
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
