"""The guard: for receivers of what holders send, to refuse what a stale one still sends."""

import weakref
from ctypes import byref, c_void_p, sizeof
from types import TracebackType
from typing import Optional, Type

from . import _native as native
from ._context import Context
from ._errors import check
from ._native import lib, utf8


class Guard:
    """Says whether tokens are current. It uses the context that it is given, which must stay open."""

    def __init__(self, context: Context, *, namespace: Optional[str] = None, cache_ttl: Optional[float] = None,
                 accept_expired: bool = False) -> None:
        options = native.GuardOptions(size=sizeof(native.GuardOptions),
                                      flags=native.ACCEPT_EXPIRED if accept_expired else 0,
                                      namespace_name=utf8(namespace), cache_ttl_ms=native.milliseconds(cache_ttl))
        self._context = context
        self._handle = c_void_p()
        check(lib.tenure_guard_open(context._open(), byref(options), byref(self._handle)))
        self._close = weakref.finalize(self, lib.tenure_guard_close, self._handle)

    def check(self, target: str, token: int) -> None:
        """Returns when the token is current. Raises Stale, Unreachable when it cannot be confirmed, or TenureError."""
        if not self._close.alive:
            raise ValueError("the guard is closed")
        if not 0 <= token < 2**64:
            raise ValueError(f"{token} is not a token")
        check(lib.tenure_guard_check(self._handle, utf8(target), token))

    def close(self) -> None:
        self._close()

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
