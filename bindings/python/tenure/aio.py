"""Contexts, leases and elections for asyncio, on libtenure's driven form: no thread, the event loop does the work.

    async with aio.Context("redis://localhost") as context:
        async with await context.acquire("job-1", wait=10) as lease:
            while lease.valid:
                await step(lease.token)

The calls to the store are made in the loop, many leases at a time. Each blocks the loop for one round trip, and for the
context's `timeout` at most when the store does not answer. Leases are not renewed while a coroutine blocks the loop.
"""

import asyncio
from contextlib import asynccontextmanager
from ctypes import c_void_p
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Dict, List, Optional, Tuple, Type

from . import _context, _election
from . import _native as native
from ._context import Event, Info
from ._errors import E_TIMEOUT, error_of
from ._native import lib

__all__ = ["Context", "Election", "Event", "Info", "Lease"]


class Lease(_context.Lease):
    """As tenure.Lease. As an asynchronous context manager it is released at the end."""

    def __init__(self, context: "Context", handle: c_void_p) -> None:
        super().__init__(context._context, handle)
        self._aio = context

    def on_lost(self, function: Optional[Callable[[str], None]]) -> None:
        """Calls the function once, in the event loop, when the lease ends without having been released."""
        if function is None:
            super().on_lost(None)
        else:
            wanted = function
            super().on_lost(lambda reason: self._aio._call_soon(wanted, reason))
        self._aio._arm()

    async def lost(self) -> str:
        """Waits until the lease ends without having been released; returns the reason."""
        future: "asyncio.Future[str]" = self._aio._loop.create_future()

        def set_reason(reason: str) -> None:
            if not future.done():
                future.set_result(reason)

        self.on_lost(set_reason)
        return await future

    def release(self) -> None:
        """Stop the work first. It is invalid at once; the release is sent by the event loop. Twice does nothing."""
        if self._free.detach():
            if self.context.is_open:
                lib.tenure_lease_drop(self._handle)
                self._aio._arm()
            else:
                lib.tenure_lease_free(self._handle)

    async def __aenter__(self) -> "Lease":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        self.release()


class Context:
    """As tenure.Context, for one event loop. Open it inside a coroutine, and close it or use `async with`.

    `on_event` is called in the event loop. `sync` is the context that tenure.Member and tenure.Guard can be opened on;
    what they say of threads does not hold then: the loop does their work, too.
    """

    def __init__(self, store: Optional[str] = None, *, namespace: Optional[str] = None, name: Optional[str] = None,
                 ttl: Optional[float] = None, renew: Optional[float] = None, timeout: Optional[float] = None,
                 on_event: Optional[Callable[[Event], None]] = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: Optional[asyncio.TimerHandle] = None
        self._on_event = on_event
        self._pending: List[Tuple[c_void_p, str, "asyncio.Future[None]"]] = []
        self._outcomes: Dict[str, int] = {}  # of targets that a pending acquire is about, since the last look
        self._context = _context.Context(store, namespace=namespace, name=name, ttl=ttl, renew=renew, timeout=timeout,
                                         driven=True, on_event=self._event)
        self._fd = self._context.fd
        self._loop.add_reader(self._fd, self._process)
        self._arm()

    @property
    def sync(self) -> _context.Context:
        return self._context

    @property
    def instance_id(self) -> str:
        return self._context.instance_id

    async def acquire(self, target: str, wait: Optional[float] = 0.0, manual: bool = False) -> Lease:
        """Waits up to `wait` seconds (None: without end). Raises Held when another instance holds it still."""
        handle = self._context._acquire(target, wait, native.ASYNC | (native.MANUAL if manual else 0))
        future: "asyncio.Future[None]" = self._loop.create_future()
        entry = (handle, target, future)
        self._pending.append(entry)
        self._arm()
        try:
            await future
        except BaseException:
            # Also when this task was cancelled although the lease has been granted meanwhile.
            if entry in self._pending:
                self._pending.remove(entry)
            lib.tenure_lease_drop(handle)
            self._arm()
            raise
        return Lease(self, handle)

    def info(self, target: str) -> Info:
        return self._context.info(target)

    async def close(self) -> None:
        """Ends what was opened on it and releases what is held, without blocking the loop."""
        if not self._context.is_open:
            return
        self._loop.remove_reader(self._fd)
        if self._timer:
            self._timer.cancel()
        await self._loop.run_in_executor(None, self._context.close)
        for _handle, _target, future in self._pending:
            future.cancel()

    # ---- the loop's part

    def _arm(self) -> None:
        """After everything that may have changed when the context is to be called next."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._context.is_open:
            timeout = self._context.timeout()
            if timeout is not None:
                self._timer = self._loop.call_later(timeout, self._process)

    def _process(self) -> None:
        if not self._context.is_open:
            return
        try:
            self._context.process()
            self._settle()
        finally:
            self._arm()

    def _event(self, event: Event) -> None:
        """Inside tenure_process(), or in the thread that closes the context: nothing is done here."""
        if event.name in ("lease_acquired", "lease_acquire_failed"):
            self._outcomes[event.target] = event.error
        if self._on_event:
            self._call_soon(self._on_event, event)

    def _call_soon(self, function: Callable[[Any], None], argument: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, argument)

    def _settle(self) -> None:
        """Wakes those whose acquire has an outcome."""
        while self._outcomes:
            outcomes, self._outcomes = self._outcomes, {}
            for entry in [entry for entry in self._pending if entry[1] in outcomes]:
                self._settle_one(entry, outcomes[entry[1]])

    def _settle_one(self, entry: "Tuple[c_void_p, str, asyncio.Future[None]]", error: int) -> None:
        handle, _target, future = entry
        code = lib.tenure_lease_wait(handle, 0)
        if code == E_TIMEOUT and error != E_TIMEOUT:
            return  # the event was about another acquire of the same target
        self._pending.remove(entry)
        if future.done():
            return
        if code < 0:
            future.set_exception(error_of(code, lib.tenure_message(None)))
        else:
            future.set_result(None)

    async def __aenter__(self) -> "Context":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()


class Election:
    """As tenure.Election, in the event loop. The role is released when no work() is under way any more.

    `on_elected` and `on_demoted` are called inside the loop's work, must return at once, and must not await.
    """

    def __init__(self, context: Context, role: str, *, namespace: Optional[str] = None, at_least: float = 0.0,
                 on_elected: Optional[Callable[[int], None]] = None,
                 on_demoted: Optional[Callable[[int, str], None]] = None) -> None:
        self._aio = context
        self._on_elected = on_elected
        self._on_demoted = on_demoted
        self._waiting: List["asyncio.Future[None]"] = []
        self._working = 0
        self._ends = False  # the term is over, or is to end, and its work goes on
        self._idle: List["asyncio.Future[None]"] = []
        self._election = _election.Election(context.sync, role, namespace=namespace, at_least=at_least,
                                            on_elected=self._elected, on_demoted=self._demoted, _elsewhere=True)
        context._arm()

    @property
    def leads(self) -> bool:
        """A local read that turns false by itself."""
        return self._election.leads

    @property
    def token(self) -> int:
        """The token of the term; 0 when it does not lead."""
        return self._election.token

    async def wait(self) -> int:
        """Waits until this instance leads, and returns the token. asyncio.wait_for() bounds it."""
        while not self.leads:
            future: "asyncio.Future[None]" = self._aio._loop.create_future()
            self._waiting.append(future)
            try:
                await future
            finally:
                if future in self._waiting:
                    self._waiting.remove(future)
        return self.token

    def resign(self) -> None:
        """Steps down and lets others go first, for one TTL."""
        self._election.resign()
        self._aio._arm()

    @asynccontextmanager
    async def work(self) -> AsyncIterator[int]:
        """Work that is not cut in two: the role is renewed, and not released, before it is left. It gets the token.

        Raises Lost when not leading. Check `leads` in it: the lease can be lost all the same.
        """
        token = self._election._token_of_term()
        self._working += 1
        try:
            yield token
        finally:
            self._working -= 1
            self._let_go()
            self._aio._arm()

    async def close(self) -> None:
        """Waits until no work() is under way, steps down and releases the role."""
        while self._working > 0:
            future: "asyncio.Future[None]" = self._aio._loop.create_future()
            self._idle.append(future)
            await future
        self._election.close()
        self._aio._arm()

    def _demoted(self, token: int, reason: str) -> None:
        try:
            if self._on_demoted:
                self._on_demoted(token, reason)
        finally:
            self._ends = True
            self._let_go()

    def _let_go(self) -> None:
        if self._working > 0:
            return
        if self._ends:
            self._ends = False
            self._election._work_over()
        idle, self._idle = self._idle, []
        for future in idle:
            if not future.done():
                future.set_result(None)

    def _elected(self, token: int) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        if self._on_elected:
            self._on_elected(token)

    async def __aenter__(self) -> "Election":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()
