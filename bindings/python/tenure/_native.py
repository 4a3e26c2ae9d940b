"""libtenure's functions and structures as ctypes sees them: what the rest of the package calls. No logic."""

import ctypes
import ctypes.util
import os
import time
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint32,
                    c_uint64, c_void_p)
from typing import Any, Callable, Iterable, List, Optional, Sequence

TARGET_SIZE = 256
HOLDER_SIZE = 256
FOREVER_MS = 2**64 - 1


DRIVEN = 1
MANUAL, ASYNC = 1, 2
WORK_ELSEWHERE = 1
TARGETS_FROM_STORE = 1
PAUSED = 1
ACCEPT_EXPIRED = 1


class EventStruct(Structure):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("error", c_int), ("token", c_uint64), ("remaining_ms", c_uint64),
                ("count", c_uint64), ("free_ms", c_uint64), ("reason", c_char_p), ("target", c_char * TARGET_SIZE),
                ("instance", c_char * HOLDER_SIZE), ("message", c_char_p), ("lease", c_void_p)]


class InfoStruct(Structure):
    _fields_ = [("size", c_size_t), ("token", c_uint64), ("ttl_ms", c_uint64), ("remaining_ms", c_uint64),
                ("acquired_at_ms", c_uint64), ("renewed_at_ms", c_uint64), ("expires_at_ms", c_uint64),
                ("registered", c_bool), ("paused", c_bool), ("barred", c_bool), ("target", c_char * TARGET_SIZE),
                ("holder", c_char * HOLDER_SIZE), ("pin_instance", c_char * HOLDER_SIZE), ("pin_remaining_ms", c_uint64),
                ("pin_away", c_bool)]


class MemberInfoStruct(Structure):
    _fields_ = [("size", c_size_t), ("state", c_int), ("token", c_uint64), ("acquired_at_ms", c_uint64),
                ("renewed_at_ms", c_uint64), ("target", c_char * TARGET_SIZE), ("holder", c_char * HOLDER_SIZE),
                ("planned", c_char * HOLDER_SIZE)]


EventFunction = CFUNCTYPE(None, POINTER(EventStruct), c_void_p)
LostFunction = CFUNCTYPE(None, c_void_p, c_char_p, c_void_p)
ElectedFunction = CFUNCTYPE(None, c_void_p, c_uint64, c_void_p)
DemotedFunction = CFUNCTYPE(None, c_void_p, c_uint64, c_char_p, c_void_p)
LeaderFunction = CFUNCTYPE(c_int, c_void_p, c_void_p)
NameFunction = CFUNCTYPE(c_int, c_char_p, c_void_p)
InfoFunction = CFUNCTYPE(c_int, POINTER(InfoStruct), c_void_p)


class Options(Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint), ("namespace_name", c_char_p), ("instance_name", c_char_p),
                ("ttl_ms", c_uint64), ("renew_ms", c_uint64), ("margin_ms", c_uint64), ("timeout_ms", c_uint64),
                ("on_event", EventFunction), ("userdata", c_void_p), ("address", c_char_p), ("labels", POINTER(c_char_p)),
                ("label_count", c_size_t)]


class MemberOptions(Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint), ("weight", c_uint32), ("namespace_name", c_char_p),
                ("settle_ms", c_uint64), ("on_event", EventFunction), ("userdata", c_void_p),
                ("max_targets", c_uint32)]


class ElectionOptions(Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint), ("namespace_name", c_char_p), ("at_least_ms", c_uint64),
                ("on_elected", ElectedFunction), ("on_demoted", DemotedFunction), ("on_event", EventFunction),
                ("userdata", c_void_p), ("count", c_uint32)]


class GuardOptions(Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint), ("namespace_name", c_char_p), ("cache_ttl_ms", c_uint64),
                ("max_targets", c_size_t), ("on_event", EventFunction), ("userdata", c_void_p)]


# Name, result, arguments. A c_char_p result is copied by ctypes at once.
_FUNCTIONS: "list[tuple[str, Any, list[Any]]]" = [
    ("version", c_char_p, []), ("strerror", c_char_p, [c_int]), ("error_name", c_char_p, [c_int]),
    ("error_retryable", c_bool, [c_int]), ("event_name", c_char_p, [c_int]),
    ("open", c_int, [c_char_p, POINTER(Options), POINTER(c_void_p)]), ("close", c_int, [c_void_p]),
    ("message", c_char_p, [c_void_p]), ("instance_id", c_char_p, [c_void_p]), ("cancel", None, [c_void_p]),
    ("next_event", c_int, [c_void_p, c_uint64, POINTER(EventStruct)]),
    ("fd", c_int, [c_void_p]), ("timeout_ms", c_int, [c_void_p]), ("process", c_int, [c_void_p]),
    ("acquire", c_int, [c_void_p, c_char_p, c_uint64, c_uint, POINTER(c_void_p)]),
    ("acquire_any", c_int, [c_void_p, POINTER(c_char_p), c_size_t, c_uint64, c_uint, POINTER(c_void_p)]),
    ("lease_wait", c_int, [c_void_p, c_uint64]),
    ("renew", c_int, [c_void_p]), ("release", c_int, [c_void_p]), ("lease_free", None, [c_void_p]),
    ("lease_drop", None, [c_void_p]),
    ("lease_valid", c_bool, [c_void_p]), ("lease_token", c_uint64, [c_void_p]),
    ("lease_remaining_ms", c_uint64, [c_void_p]), ("lease_ttl_ms", c_uint64, [c_void_p]),
    ("lease_target", c_char_p, [c_void_p]), ("lease_on_lost", c_int, [c_void_p, LostFunction, c_void_p]),
    ("checkpoint_write", c_int, [c_void_p, c_char_p, c_size_t]),
    ("checkpoint_read", c_int, [c_void_p, c_char_p, POINTER(c_size_t)]),
    ("target_checkpoint", c_int, [c_void_p, c_char_p, c_char_p, POINTER(c_size_t), POINTER(c_uint64)]),
    ("target_read", c_int, [c_void_p, c_char_p, POINTER(InfoStruct)]),
    ("target_list", c_int, [c_void_p, c_int, InfoFunction, c_void_p]),
    ("member_open", c_int, [c_void_p, POINTER(MemberOptions), POINTER(c_void_p)]),
    ("member_stop", c_int, [c_void_p, c_uint64]), ("member_close", None, [c_void_p]),
    ("member_put", c_int, [c_void_p, c_char_p, c_uint]), ("member_remove", c_int, [c_void_p, c_char_p]),
    ("member_acquire", c_int, [c_void_p, c_char_p]), ("member_release", c_int, [c_void_p, c_char_p]),
    ("member_is_held", c_bool, [c_void_p, c_char_p]),
    ("member_begin", c_int, [c_void_p, c_char_p, POINTER(c_uint64)]), ("member_end", c_int, [c_void_p, c_char_p]),
    ("member_confirm", c_int, [c_void_p, c_char_p]),
    ("member_read", c_int, [c_void_p, c_char_p, POINTER(MemberInfoStruct)]),
    ("member_list_held", c_int, [c_void_p, NameFunction, c_void_p]),
    ("member_list_instances", c_int, [c_void_p, NameFunction, c_void_p]),
    ("member_set_weight", c_int, [c_void_p, c_uint32]),
    ("member_next_event", c_int, [c_void_p, c_uint64, POINTER(EventStruct)]),
    ("election_open", c_int, [c_void_p, c_char_p, POINTER(ElectionOptions), POINTER(c_void_p)]),
    ("election_close", None, [c_void_p]), ("election_leads", c_bool, [c_void_p]), ("election_slot", c_int, [c_void_p]),
    ("election_token", c_uint64, [c_void_p]), ("election_remaining_ms", c_uint64, [c_void_p]),
    ("election_wait", c_int, [c_void_p, c_uint64]), ("election_resign", c_int, [c_void_p]),
    ("election_work_over", c_int, [c_void_p]),
    ("election_run", c_int, [c_void_p, c_char_p, POINTER(ElectionOptions), c_uint64, LeaderFunction, c_void_p]),
    ("guard_open", c_int, [c_void_p, POINTER(GuardOptions), POINTER(c_void_p)]), ("guard_close", None, [c_void_p]),
    ("guard_check", c_int, [c_void_p, c_char_p, c_uint64]),
]


def _load() -> Any:
    """TENURE_LIBRARY, or the library that the system has."""
    name = os.environ.get("TENURE_LIBRARY") or ctypes.util.find_library("tenure") or "libtenure.so.0"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"libtenure cannot be loaded ({error}); install libtenure0, or name it in TENURE_LIBRARY") from None
    for short, result, arguments in _FUNCTIONS:
        function = getattr(library, "tenure_" + short, None)
        if function is None:
            raise ImportError(f"{name} has no tenure_{short}; this package needs libtenure 0.3 or later")
        function.restype = result
        function.argtypes = arguments
    return library


lib = _load()


def library_version() -> str:
    return text(lib.tenure_version())


def text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


def utf8(value: Optional[str]) -> Optional[bytes]:
    """For C, which would end it at a NUL."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"a name must be a string, not {value!r}")
    if "\0" in value:
        raise ValueError("a NUL character cannot be part of a name")
    return value.encode("utf-8", "surrogateescape")


def milliseconds(seconds: Optional[float], none: int = 0) -> int:
    """From Python's seconds; None is `none`, usually the library's default."""
    if seconds is None:
        return none
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"a duration must be a number of seconds, such as 30 or 0.5, not {seconds!r}")
    if not 0 <= seconds < 2**40:
        raise ValueError(f"{seconds!r} is not a duration in seconds")
    # What is more than nothing must not become the default.
    return max(round(seconds * 1000), 1) if seconds > 0 else 0


def store_url(store: Optional[str]) -> Optional[bytes]:
    """The store that was named, TENURE_STORE, or the library's default."""
    return utf8(store or os.environ.get("TENURE_STORE") or None)


def names(targets: Iterable[str]) -> List[str]:
    """A string is an iterable of strings, too, and never meant as one."""
    if isinstance(targets, (str, bytes)):
        raise TypeError(f"targets must be a list of names, not one string: [{targets!r}]")
    return list(targets)


SLICE_MS = 200
CHECKPOINT_MAX = 4096


def wait_in_slices(call: Callable[[int], int], wait_ms: int, again: Sequence[int]) -> int:
    """A call that waits so many milliseconds, as several short ones: Python handles signals (Ctrl-C) between them.

    It is repeated while it returns one of `again`, and time is left. Returns what it returned last.
    """
    end = None if wait_ms == FOREVER_MS else time.monotonic() + wait_ms / 1000
    while True:
        left_ms = SLICE_MS if end is None else max(round((end - time.monotonic()) * 1000), 0)
        code = call(min(left_ms, SLICE_MS))
        if code not in again or (end is not None and left_ms <= SLICE_MS):
            return code
