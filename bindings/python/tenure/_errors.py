"""From libtenure's codes to exceptions."""

from typing import Dict, Optional, Type

from ._native import lib, text


class TenureError(Exception):
    """A call failed. `code` is libtenure's, `name` its name, `retryable` whether the same call may succeed later."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message or text(lib.tenure_strerror(code)))
        self.code = code
        self.name = text(lib.tenure_error_name(code))
        self.retryable = bool(lib.tenure_error_retryable(code))


class Held(TenureError):
    """Another instance holds it."""


class Lost(TenureError):
    """The lease or the leadership is over: stop the work."""


class Unreachable(TenureError):
    """The store is out of reach, or did not answer in time."""


class Denied(TenureError):
    """The store refused the credentials."""


class Stale(TenureError):
    """The token is not the newest."""


class Cancelled(TenureError):
    """Context.cancel() ended the wait."""


E_HELD, E_LOST, E_UNKNOWN_TARGET, E_TIMEOUT = -3, -4, -5, -6
_CLASSES: Dict[str, Type[TenureError]] = {
    "TENURE_E_HELD": Held,
    "TENURE_E_LOST": Lost,
    "TENURE_E_TIMEOUT": Unreachable,
    "TENURE_E_UNREACHABLE": Unreachable,
    "TENURE_E_DENIED": Denied,
    "TENURE_E_STALE": Stale,
    "TENURE_E_CANCELLED": Cancelled,
}


def error_of(code: int, message: Optional[bytes] = None) -> TenureError:
    return _CLASSES.get(text(lib.tenure_error_name(code)), TenureError)(code, text(message))


def check(code: int) -> int:
    """Raises what the calling thread's last call said, if it failed."""
    if code < 0:
        raise error_of(code, lib.tenure_message(None))
    return code
