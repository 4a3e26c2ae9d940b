"""One instance of a fleet: targets are shared out by a plan, held under leases, handed over and taken over."""

import enum
import weakref
from contextlib import contextmanager
from ctypes import byref, c_bool, c_uint64, c_void_p, create_string_buffer, sizeof
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Iterable, Iterator, List, Optional, Type

from . import _native as native
from ._errors import E_TIMEOUT, error_of
from ._native import lib, text, utf8


class LeaseState(enum.IntEnum):
    UNKNOWN = 0
    OWNED = 1
    OTHER = 2
    UNCERTAIN = 3


@dataclass(frozen=True)
class LeaseInfo:
    target: str
    holder: str
    planned: str
    state: LeaseState
    token: int
    acquired_at: float
    last_renewed_at: float


@dataclass(frozen=True)
class Event:
    """What the log would say: `name` is lease_acquired, lease_lost..."""

    name: str
    target: str
    instance: str
    reason: str
    token: int


class LeaseManager:
    """One instance of a fleet. As a context manager it is started, and stopped at the end. Durations are seconds.

    The targets are those given here or by put_target(); or with `targets_from_store` those of the registry.
    """

    def __init__(self, store: Optional[str] = None, *, targets: Iterable[str] = (), targets_from_store: bool = False,
                 namespace: Optional[str] = None, name: Optional[str] = None, ttl: Optional[float] = None,
                 renew: Optional[float] = None, settle: Optional[float] = None, weight: int = 1) -> None:
        options = native.MemberOptions(
            size=sizeof(native.MemberOptions), namespace_name=utf8(namespace), instance_name=utf8(name),
            ttl_ms=native.milliseconds(ttl), renew_ms=native.milliseconds(renew), settle_ms=native.milliseconds(settle),
            weight=weight, targets_from_store=targets_from_store)
        self._handle = c_void_p()
        done = lib.tenure_member_open(native.store_url(store), byref(options), byref(self._handle))
        if done < 0:
            raise error_of(done, lib.tenure_member_message(None))
        self._close = weakref.finalize(self, lib.tenure_member_close, self._handle)
        for target in targets:
            self.put_target(target)

    def start(self) -> "LeaseManager":
        self._fail(lib.tenure_member_start(self._open()))
        return self

    def stop(self, wait: float = 10.0) -> None:
        """Gives everything back and leaves; waits up to that long for work that is under way. Then it is closed."""
        if self._close.alive:
            done = lib.tenure_member_stop(self._handle, native.milliseconds(wait))
            message = lib.tenure_member_message(self._handle) if done < 0 else None
            self._close()
            if done < 0:
                raise error_of(done, message)

    @property
    def instance_id(self) -> str:
        return text(lib.tenure_member_instance_id(self._open()))

    def put_target(self, target: str, *, paused: bool = False) -> None:
        self._fail(lib.tenure_member_put_target(self._open(), utf8(target), paused))

    def remove_target(self, target: str) -> None:
        self._fail(lib.tenure_member_remove_target(self._open(), utf8(target)))

    def try_acquire(self, target: str) -> bool:
        """Takes it whatever the plan says, and keeps it until it is released. True also when it is owned already."""
        acquired = c_bool()
        self._fail(lib.tenure_member_try_acquire(self._open(), utf8(target), byref(acquired)))
        return acquired.value

    def release(self, target: str) -> None:
        self._fail(lib.tenure_member_release(self._open(), utf8(target)))

    def is_owned(self, target: str) -> bool:
        """Whether this instance may work on it now: a local read."""
        return bool(lib.tenure_member_is_held(self._open(), utf8(target)))

    def strict_check(self, target: str) -> None:
        """Asks the store. Raises Lost when it is not held at this moment."""
        self._fail(lib.tenure_member_strict_check(self._open(), utf8(target)))

    @contextmanager
    def work(self, target: str) -> Iterator[int]:
        """Work on a target, with its token; it is not handed over before the block is left. Raises Lost when not owned."""
        token = c_uint64()
        self._fail(lib.tenure_member_begin(self._open(), utf8(target), byref(token)))
        try:
            yield token.value
        finally:
            if self._close.alive:
                lib.tenure_member_end(self._handle, utf8(target))

    def owned(self) -> List[str]:
        return self._names(lib.tenure_member_held)

    def live_instances(self) -> List[str]:
        return self._names(lib.tenure_member_live_instances)

    def preferred_owner(self, target: str) -> str:
        """The instance that the plan names; "" when nobody is there."""
        instance = create_string_buffer(native.HOLDER_SIZE)
        self._fail(lib.tenure_member_planned_holder(self._open(), utf8(target), instance))
        return text(instance.value)

    def lease_info(self, target: str) -> LeaseInfo:
        found = native.LeaseInfoStruct()
        self._fail(lib.tenure_member_lease_info(self._open(), utf8(target), byref(found)))
        return LeaseInfo(text(found.target), text(found.holder), text(found.planned), LeaseState(found.state), found.token,
                         found.acquired_at_ms / 1000, found.last_renewed_at_ms / 1000)

    def set_weight(self, weight: int) -> None:
        """0 hands everything over and gets nothing more."""
        self._fail(lib.tenure_member_set_weight(self._open(), weight))

    def next_event(self, wait: float = 0.0) -> Optional[Event]:
        """None when none came in time."""
        event = native.EventStruct()
        done = lib.tenure_member_next_event(self._open(), native.milliseconds(wait), byref(event))
        if done == E_TIMEOUT:
            return None
        self._fail(done)
        return Event(text(event.name), text(event.target), text(event.instance), text(event.reason), event.token)

    def _names(self, function: Any) -> List[str]:
        found: List[str] = []

        def each(name: bytes, _: Any) -> int:
            found.append(text(name))
            return 0

        self._fail(function(self._open(), native.NameFunction(each), None))
        return found

    def _open(self) -> c_void_p:
        if not self._close.alive:
            raise ValueError("the fleet member is closed")
        return self._handle

    def _fail(self, done: int) -> None:
        if done < 0:
            raise error_of(done, lib.tenure_member_message(self._handle))

    def __enter__(self) -> "LeaseManager":
        return self.start()

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.stop()
