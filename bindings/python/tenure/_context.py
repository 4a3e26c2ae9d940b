"""Contexts and leases: one instance on one store, and the leases that it holds and renews."""

import time
import weakref
from ctypes import byref, c_char_p, c_size_t, c_void_p, create_string_buffer, sizeof
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Callable, List, Mapping, MutableMapping, Optional, Sequence, Type

from . import _native as native
from ._errors import E_HELD, E_TIMEOUT, check
from ._native import lib, text, utf8


@dataclass(frozen=True)
class Info:
    """What the store says of one target. `holder` is "" when it is free; times are Unix times, for display."""

    target: str
    holder: str
    token: int
    ttl: float
    remaining: float
    expires_at: float
    registered: bool
    paused: bool


@dataclass(frozen=True)
class Event:
    """What the log would say: `name` is lease_acquired, lease_lost... `error` is a code of libtenure, or 0,
    and `message` describes it. `lease` is the Lease that a context's event is about; None when there is none, or no
    longer, or not yet: acquire() has not returned. `free` says for how long an unowned target has been free."""

    name: str
    target: str
    instance: str
    reason: str
    token: int
    error: int = 0
    count: int = 0
    remaining: float = 0.0
    message: str = ""
    free: float = 0.0
    lease: Optional["Lease"] = field(default=None, compare=False, repr=False)


Leases = Mapping[int, "Lease"]  # by the address of their handle


def _info(found: native.InfoStruct) -> Info:
    return Info(text(found.target), text(found.holder), found.token, found.ttl_ms / 1000, found.remaining_ms / 1000,
                found.expires_at_ms / 1000, found.registered, found.paused)


def event_of(event: native.EventStruct, leases: Leases) -> Event:
    return Event(text(lib.tenure_event_name(event.kind)), text(event.target), text(event.instance), text(event.reason),
                 event.token, event.error, event.count, event.remaining_ms / 1000,
                 text(event.message), event.free_ms / 1000, leases.get(event.lease) if event.lease else None)


def event_function(on_event: Optional[Callable[[Event], None]], leases: Leases) -> Any:
    """For C; NULL when there is none. Whoever passes it to C has to keep it."""
    if on_event is None:
        return native.EventFunction()
    function = on_event

    def call(event: Any, _userdata: Any) -> None:
        function(event_of(event.contents, leases))

    return native.EventFunction(call)


def next_event(function: Any, handle: c_void_p, wait: Optional[float], leases: Leases) -> Optional[Event]:
    event = native.EventStruct(size=sizeof(native.EventStruct))
    code = native.wait_in_slices(lambda ms: int(function(handle, ms, byref(event))),
                                 native.milliseconds(wait, native.FOREVER_MS), [E_TIMEOUT])
    if code == E_TIMEOUT:
        return None
    check(code)
    return event_of(event, leases)


def _read_checkpoint(read: Callable[[Any, Any], int]) -> Optional[str]:
    buffer = create_string_buffer(native.CHECKPOINT_MAX + 1)
    size = c_size_t()
    check(read(buffer, byref(size)))
    return text(buffer.value) if size.value else None


class Lease:
    """A lease that this process holds. Check `valid` before each step; it is a clock read and turns false by itself.

    The context renews it, unless it was acquired with manual=True. As a context manager it is released at the end.
    """

    def __init__(self, context: "Context", handle: c_void_p) -> None:
        self.context = context
        self.target = text(lib.tenure_lease_target(handle))
        self._handle = handle
        # C may call it until the handle is freed.
        self._callbacks: List[Any] = []
        self._free = weakref.finalize(self, lambda handle, _callbacks: lib.tenure_lease_free(handle), handle,
                                      self._callbacks)
        self._free.atexit = False  # closing the context releases it, and freeing it would not
        context._leases[handle.value or 0] = self

    @property
    def valid(self) -> bool:
        return self._free.alive and bool(lib.tenure_lease_valid(self._handle))

    @property
    def token(self) -> int:
        return int(lib.tenure_lease_token(self._open()))

    @property
    def remaining(self) -> float:
        return float(lib.tenure_lease_remaining_ms(self._handle) / 1000) if self._free.alive else 0.0

    @property
    def ttl(self) -> float:
        return float(lib.tenure_lease_ttl_ms(self._open()) / 1000)

    def renew(self) -> None:
        """Now. Raises Lost when it is over. After any other error it is invalid until a later renewal succeeds."""
        check(lib.tenure_renew(self._open()))

    def checkpoint(self) -> Optional[str]:
        """What the holders before, or this one, have left beside the lease; None: nothing."""
        return _read_checkpoint(lambda buffer, size: int(lib.tenure_checkpoint_read(self._open(), buffer, size)))

    def set_checkpoint(self, value: str) -> None:
        """Keeps up to 4,096 bytes for the next holder; "" removes it. Raises Lost, and writes nothing, if it is stale."""
        data = value.encode()
        check(lib.tenure_checkpoint_write(self._open(), data, len(data)))

    def on_lost(self, function: Optional[Callable[[str], None]]) -> None:
        """Calls the function once, with the reason, when the lease ends without having been released.

        It runs in the context's thread, must return soon, and must not call what needs the store. None: not any more.
        """
        call: Any = native.LostFunction()
        if function is not None:
            wanted = function
            call = native.LostFunction(lambda _lease, reason, _userdata: wanted(text(reason)))
        self._callbacks.append(call)
        check(lib.tenure_lease_on_lost(self._open(), call, None))

    def release(self) -> None:
        """Stop the work first. Releasing twice, or what is not held any more, does nothing.

        If the store does not answer, the context repeats it until the lease has expired.
        """
        if self._free.alive:
            if self.context.is_open:
                lib.tenure_release(self._handle)
            if self.context._leases.get(self._handle.value or 0) is self:
                del self.context._leases[self._handle.value or 0]  # the next handle may have the same address
            self._free()

    def _open(self) -> c_void_p:
        if not self._free.alive:
            raise ValueError(f"the lease on {self.target} was released")
        self.context._open()
        return self._handle

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.release()


class Context:
    """One instance on one store: it holds and renews leases, and members, elections and guards are opened on it.

    Durations are seconds. `on_event` is called in the context's thread with an Event for what happens to the leases;
    without it, take them from next_event(). `address` (HOST:PORT) and `labels` travel with the heartbeat of a member,
    for whoever looks for this instance. tenure.aio has the same for asyncio.
    """

    def __init__(self, store: Optional[str] = None, *, namespace: Optional[str] = None, name: Optional[str] = None,
                 ttl: Optional[float] = None, renew: Optional[float] = None, timeout: Optional[float] = None,
                 driven: bool = False, on_event: Optional[Callable[[Event], None]] = None,
                 address: Optional[str] = None, labels: Optional[Mapping[str, str]] = None) -> None:
        self._leases: MutableMapping[int, Lease] = weakref.WeakValueDictionary()
        callback = event_function(on_event, self._leases)
        options = native.Options(
            size=sizeof(native.Options), flags=native.DRIVEN if driven else 0, namespace_name=utf8(namespace),
            instance_name=utf8(name), ttl_ms=native.milliseconds(ttl), renew_ms=native.milliseconds(renew),
            timeout_ms=native.milliseconds(timeout), on_event=callback, address=utf8(address))
        texts = [utf8(f"{name}={value}") for name, value in (labels or {}).items()]
        if texts:
            options.labels = (c_char_p * len(texts))(*texts)
            options.label_count = len(texts)
        self._handle = c_void_p()
        check(lib.tenure_open(native.store_url(store), byref(options), byref(self._handle)))
        self._close = weakref.finalize(self, lambda handle, _callback: lib.tenure_close(handle), self._handle, callback)

    @property
    def instance_id(self) -> str:
        return text(lib.tenure_instance_id(self._open()))

    @property
    def is_open(self) -> bool:
        return self._close.alive

    def acquire(self, target: str, wait: Optional[float] = 0.0, manual: bool = False) -> Lease:
        """Waits up to `wait` seconds (None: without end). Raises Held when another instance holds it still.

        It goes on trying while the store does not answer. Ctrl-C ends the wait. manual: the caller renews it, at a
        third of its TTL.
        """
        flags = native.MANUAL if manual else 0
        wait_ms = native.milliseconds(wait, native.FOREVER_MS)
        if wait_ms == 0:
            return Lease(self, self._acquire(target, wait, flags))
        handle = self._acquire(target, wait, flags | native.ASYNC)
        try:
            self._await(handle)
        except BaseException:
            lib.tenure_lease_drop(handle)
            raise
        return Lease(self, handle)

    def acquire_any(self, targets: Sequence[str], wait: Optional[float] = 0.0, manual: bool = False) -> Lease:
        """The first that is free, in their order; the lease's `target` says which."""
        wanted = native.names(targets)
        names = (c_char_p * len(wanted))(*[utf8(target) for target in wanted])
        handle = c_void_p()
        check(native.wait_in_slices(
            lambda ms: int(lib.tenure_acquire_any(self._open(), names, len(wanted), ms, native.MANUAL if manual else 0,
                                                  byref(handle))),
            native.milliseconds(wait, native.FOREVER_MS), [E_HELD]))
        return Lease(self, handle)

    def info(self, target: str) -> Info:
        found = native.InfoStruct(size=sizeof(native.InfoStruct))
        check(lib.tenure_target_read(self._open(), utf8(target), byref(found)))
        return _info(found)

    def checkpoint(self, target: str) -> Optional[str]:
        """What is kept beside the lease of a target, held or not; None: nothing."""
        return _read_checkpoint(
            lambda buffer, size: int(lib.tenure_target_checkpoint(self._open(), utf8(target), buffer, size, None)))

    def list(self) -> List[Info]:
        """Every target that is registered or was ever leased."""
        found: List[Info] = []

        def each(info: Any, _: Any) -> int:
            found.append(_info(info.contents))
            return 0

        check(lib.tenure_target_list(self._open(), 0, native.InfoFunction(each), None))
        return found

    def next_event(self, wait: Optional[float] = 0.0) -> Optional[Event]:
        """None when none came in time."""
        return next_event(lib.tenure_next_event, self._open(), wait, self._leases)

    def cancel(self) -> None:
        """Ends the waits of other threads on this context: they raise Cancelled, now and from now on."""
        lib.tenure_cancel(self._open())

    # ---- the driven form: wait until fd is readable, for at most timeout(), and call process()

    @property
    def fd(self) -> int:
        return check(lib.tenure_fd(self._open()))

    def timeout(self) -> Optional[float]:
        """Seconds until process() has something to do; None: not before fd is readable."""
        timeout_ms = lib.tenure_timeout_ms(self._open())
        return timeout_ms / 1000 if timeout_ms >= 0 else None

    def process(self) -> None:
        check(lib.tenure_process(self._open()))

    def close(self) -> None:
        """Ends what was opened on it and releases what is held. What cannot be released ends by its TTL."""
        self._close()

    def _acquire(self, target: str, wait: Optional[float], flags: int) -> c_void_p:
        handle = c_void_p()
        wait_ms = native.milliseconds(wait, native.FOREVER_MS)
        check(lib.tenure_acquire(self._open(), utf8(target), wait_ms, flags, byref(handle)))
        return handle

    def _await(self, handle: c_void_p) -> None:
        """The outcome of an acquire in the background. One that is a time-out itself is there at once."""
        code = E_TIMEOUT
        while code == E_TIMEOUT:
            start = time.monotonic()
            code = lib.tenure_lease_wait(handle, native.SLICE_MS)
            if code == E_TIMEOUT and time.monotonic() - start < native.SLICE_MS / 2000:
                break
        check(code)

    def _open(self) -> c_void_p:
        if not self._close.alive:
            raise ValueError("the context is closed")
        return self._handle

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
