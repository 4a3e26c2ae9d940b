"""The guard: for who receives what holders send, and wants to refuse what a stale one still sends."""

import weakref
from ctypes import byref, c_void_p, sizeof
from types import TracebackType
from typing import Optional, Type

from . import _native as native
from ._errors import error_of
from ._native import lib, utf8


class Guard:
    def __init__(self, store: Optional[str] = None, *, namespace: Optional[str] = None,
                 cache_ttl: Optional[float] = None) -> None:
        options = native.GuardOptions(size=sizeof(native.GuardOptions), namespace_name=utf8(namespace),
                                      cache_ttl_ms=native.milliseconds(cache_ttl))
        self._handle = c_void_p()
        done = lib.tenure_guard_open(native.store_url(store), byref(options), byref(self._handle))
        if done < 0:
            raise error_of(done, lib.tenure_guard_message(None))
        self._close = weakref.finalize(self, lib.tenure_guard_close, self._handle)

    def check(self, target: str, token: int) -> None:
        """Returns when the token is current. Raises Stale, or Unreachable when nobody can tell, or TenureError."""
        if not self._close.alive:
            raise ValueError("the guard is closed")
        if not 0 <= token < 2**64:
            raise ValueError(f"{token} is not a token")
        done = lib.tenure_guard_check(self._handle, utf8(target), token)
        if done < 0:
            raise error_of(done, lib.tenure_guard_message(self._handle))

    def close(self) -> None:
        self._close()

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
