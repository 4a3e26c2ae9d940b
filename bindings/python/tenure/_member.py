"""The fleet member: targets are shared out by a plan, held under leases, handed over and taken over."""

import enum
import weakref
from contextlib import contextmanager
from ctypes import byref, c_uint64, c_void_p, sizeof
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, List, Optional, Type

from . import _native as native
from ._context import Context, Event, event_function, next_event
from ._errors import E_HELD, E_TIMEOUT, check
from ._native import lib, text, utf8


class MemberState(enum.IntEnum):
    UNKNOWN = 0
    HELD = 1
    OWNED = 1  # LeaseManager's word for it
    OTHER = 2
    UNCERTAIN = 3


@dataclass(frozen=True)
class MemberInfo:
    """A target as this instance sees it. `planned` is the instance that the plan names; times are Unix times."""

    target: str
    holder: str
    planned: str
    state: MemberState
    token: int
    acquired_at: float
    renewed_at: float


class Member:
    """One instance of a fleet, on a context, which must stay open. As a context manager it is stopped at the end.

    The targets are those given here or by put(); or with `targets_from_store` those of the registry.
    """

    def __init__(self, context: Context, targets: Iterable[str] = (), *, targets_from_store: bool = False,
                 namespace: Optional[str] = None, settle: Optional[float] = None, weight: int = 1,
                 on_event: Optional[Callable[[Event], None]] = None) -> None:
        wanted = native.names(targets)
        callback = event_function(on_event, {})
        options = native.MemberOptions(
            size=sizeof(native.MemberOptions), flags=native.TARGETS_FROM_STORE if targets_from_store else 0,
            weight=weight, namespace_name=utf8(namespace), settle_ms=native.milliseconds(settle), on_event=callback)
        self.context = context
        self._handle = c_void_p()
        check(lib.tenure_member_open(context._open(), byref(options), byref(self._handle)))
        self._close = weakref.finalize(self, lambda handle, _callback: lib.tenure_member_close(handle), self._handle,
                                       callback)
        for target in wanted:
            self.put(target)

    def stop(self, wait: float = 10.0) -> None:
        """Releases everything and leaves; waits up to that long for work that is under way. Then it is closed."""
        if self._close.alive:
            try:
                if self.context.is_open:
                    check(native.wait_in_slices(lambda ms: int(lib.tenure_member_stop(self._handle, ms)),
                                                native.milliseconds(wait), [E_TIMEOUT]))
            finally:
                self._close()

    @property
    def instance_id(self) -> str:
        return self.context.instance_id

    def put(self, target: str, *, paused: bool = False) -> None:
        check(lib.tenure_member_put(self._open(), utf8(target), native.PAUSED if paused else 0))

    def remove(self, target: str) -> None:
        check(lib.tenure_member_remove(self._open(), utf8(target)))

    def acquire(self, target: str) -> None:
        """Takes it whatever the plan says, and keeps it until it is released. Raises Held when another has it."""
        check(lib.tenure_member_acquire(self._open(), utf8(target)))

    def release(self, target: str) -> None:
        """Once no work is under way on it."""
        check(lib.tenure_member_release(self._open(), utf8(target)))

    def is_held(self, target: str) -> bool:
        """Whether this instance may work on it now: a local read."""
        return bool(lib.tenure_member_is_held(self._open(), utf8(target)))

    def confirm(self, target: str) -> None:
        """Asks the store. Raises Lost when it is not held at this moment."""
        check(lib.tenure_member_confirm(self._open(), utf8(target)))

    @contextmanager
    def work(self, target: str) -> Iterator[int]:
        """Work on a target, with its token; it is not handed over before the block is left. Raises Lost when not held."""
        token = c_uint64()
        check(lib.tenure_member_begin(self._open(), utf8(target), byref(token)))
        try:
            yield token.value
        finally:
            if self._close.alive:
                lib.tenure_member_end(self._handle, utf8(target))

    def held(self) -> List[str]:
        return self._names(lib.tenure_member_list_held)

    def instances(self) -> List[str]:
        return self._names(lib.tenure_member_list_instances)

    def read(self, target: str) -> MemberInfo:
        found = native.MemberInfoStruct(size=sizeof(native.MemberInfoStruct))
        check(lib.tenure_member_read(self._open(), utf8(target), byref(found)))
        return MemberInfo(text(found.target), text(found.holder), text(found.planned), MemberState(found.state),
                          found.token, found.acquired_at_ms / 1000, found.renewed_at_ms / 1000)

    def set_weight(self, weight: int) -> None:
        """0 hands everything over and gets nothing more."""
        check(lib.tenure_member_set_weight(self._open(), weight))

    def next_event(self, wait: Optional[float] = 0.0) -> Optional[Event]:
        """None when none came in time."""
        return next_event(lib.tenure_member_next_event, self._open(), wait, {})

    def _names(self, function: Any) -> List[str]:
        found: List[str] = []

        def each(name: bytes, _: Any) -> int:
            found.append(text(name))
            return 0

        check(function(self._open(), native.NameFunction(each), None))
        return found

    def _open(self) -> c_void_p:
        if not self._close.alive:
            raise ValueError("the fleet member is closed")
        return self._handle

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.stop()


class LeaseManager(Member):
    """A fleet member with a context of its own, and other names for the same: owned, preferred_owner, strict_check."""

    def __init__(self, store: Optional[str] = None, *, targets: Iterable[str] = (), targets_from_store: bool = False,
                 namespace: Optional[str] = None, name: Optional[str] = None, ttl: Optional[float] = None,
                 renew: Optional[float] = None, settle: Optional[float] = None, weight: int = 1) -> None:
        native.names(targets)
        context = Context(store, namespace=namespace, name=name, ttl=ttl, renew=renew)
        super().__init__(context, targets, targets_from_store=targets_from_store, settle=settle, weight=weight)

    def start(self) -> "LeaseManager":
        """It has joined the fleet already."""
        return self

    def stop(self, wait: float = 10.0) -> None:
        try:
            super().stop(wait)
        finally:
            self.context.close()

    put_target = Member.put
    remove_target = Member.remove
    is_owned = Member.is_held
    strict_check = Member.confirm
    owned = Member.held
    live_instances = Member.instances
    lease_info = Member.read

    def try_acquire(self, target: str) -> bool:
        """Takes it whatever the plan says, and keeps it until it is released. True also when it is owned already."""
        code = lib.tenure_member_acquire(self._open(), utf8(target))
        if code != E_HELD:
            check(code)
        return bool(code == 0)

    def preferred_owner(self, target: str) -> str:
        """The instance that the plan names; "" when nobody is there."""
        return self.read(target).planned

    def __enter__(self) -> "LeaseManager":
        return self
