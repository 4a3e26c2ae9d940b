"""Clients and leases: the part of libtenure for who wants one lease and renews it as it goes."""

import weakref
from ctypes import byref, c_void_p, sizeof
from dataclasses import dataclass
from types import TracebackType
from typing import Any, List, Optional, Type

from . import _native as native
from ._errors import error_of
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


def _info(found: native.InfoStruct) -> Info:
    return Info(text(found.target), text(found.holder), found.token, found.ttl_ms / 1000, found.remaining_ms / 1000,
                found.expires_at_ms / 1000, found.registered, found.paused)


class Lease:
    """A lease that this process holds. Ask `valid` before each step; it is a clock read and turns false by itself.

    As a context manager it is released at the end. It does not renew itself: call renew() at a third of its TTL.
    """

    def __init__(self, client: "Client", target: str, handle: c_void_p) -> None:
        self.client = client
        self.target = target
        self._handle = handle
        self._free = weakref.finalize(self, lib.tenure_lease_free, handle)

    @property
    def valid(self) -> bool:
        return self._free.alive and bool(lib.tenure_lease_valid(self._handle))

    @property
    def token(self) -> int:
        self._check_open()
        return int(lib.tenure_lease_token(self._handle))

    @property
    def remaining(self) -> float:
        return float(lib.tenure_lease_remaining_ms(self._handle) / 1000) if self._free.alive else 0.0

    @property
    def ttl(self) -> float:
        self._check_open()
        return float(lib.tenure_lease_ttl_ms(self._handle) / 1000)

    def renew(self) -> None:
        """Raises Lost when it is over. After any other error it is uncertain: invalid until a later renewal succeeds."""
        self._check_open()
        done = lib.tenure_renew(self._handle)
        if done < 0:
            raise error_of(done, lib.tenure_message(self.client._handle))

    def release(self) -> None:
        """Stop the work first. Releasing twice, or what is no longer held, is nothing."""
        if self._free.alive:
            lib.tenure_release(self._handle)
            self._free()

    def _check_open(self) -> None:
        if not self._free.alive:
            raise ValueError(f"the lease on {self.target} was released")

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.release()


class Client:
    """A client of a store, with an instance id of its own, which holds its leases. Durations are seconds."""

    def __init__(self, store: Optional[str] = None, *, namespace: Optional[str] = None, name: Optional[str] = None,
                 ttl: Optional[float] = None, timeout: Optional[float] = None) -> None:
        options = native.Options(sizeof(native.Options), utf8(namespace), utf8(name), native.milliseconds(ttl), 0,
                                 native.milliseconds(timeout))
        self._handle = c_void_p()
        done = lib.tenure_open(native.store_url(store), byref(options), byref(self._handle))
        if done < 0:
            raise error_of(done, lib.tenure_message(None))
        self._leases: "weakref.WeakSet[Lease]" = weakref.WeakSet()
        self._close = weakref.finalize(self, lib.tenure_close, self._handle)

    @property
    def instance_id(self) -> str:
        return text(lib.tenure_instance_id(self._open()))

    def acquire(self, target: str, wait: Optional[float] = 0.0) -> Lease:
        """Waits up to `wait` seconds (None: without end). Raises Held when another has it still."""
        handle = c_void_p()
        wait_ms = native.milliseconds(wait, native.FOREVER_MS)
        self._fail(lib.tenure_acquire(self._open(), utf8(target), wait_ms, byref(handle)))
        lease = Lease(self, target, handle)
        self._leases.add(lease)
        return lease

    def info(self, target: str) -> Info:
        found = native.InfoStruct()
        self._fail(lib.tenure_get_info(self._open(), utf8(target), byref(found)))
        return _info(found)

    def list(self) -> List[Info]:
        """Every target that is registered or was ever leased."""
        found: List[Info] = []

        def each(info: Any, _: Any) -> int:
            found.append(_info(info.contents))
            return 0

        self._fail(lib.tenure_list(self._open(), 0, native.InfoFunction(each), None))
        return found

    def close(self) -> None:
        """Leases that are still held end by their TTL."""
        for lease in list(self._leases) if self._close.alive else []:
            lease._free()
        self._close()

    def _open(self) -> c_void_p:
        if not self._close.alive:
            raise ValueError("the client is closed")
        return self._handle

    def _fail(self, done: int) -> None:
        if done < 0:
            raise error_of(done, lib.tenure_message(self._handle))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
