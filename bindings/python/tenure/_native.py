"""libtenure's functions and structures as ctypes sees them: what the rest of the package calls. No logic."""

import ctypes
import ctypes.util
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_int, c_size_t, c_uint32, c_uint64,
                    c_void_p)
from typing import Any, Optional

TARGET_SIZE = 256
HOLDER_SIZE = 256
FOREVER_MS = 2**64 - 1


class Options(Structure):
    _fields_ = [("size", c_size_t), ("namespace_name", c_char_p), ("instance_name", c_char_p), ("ttl_ms", c_uint64),
                ("margin_ms", c_uint64), ("timeout_ms", c_uint64)]


class InfoStruct(Structure):
    _fields_ = [("target", c_char * TARGET_SIZE), ("holder", c_char * HOLDER_SIZE), ("token", c_uint64),
                ("ttl_ms", c_uint64), ("remaining_ms", c_uint64), ("acquired_at_ms", c_uint64),
                ("renewed_at_ms", c_uint64), ("expires_at_ms", c_uint64), ("registered", c_bool), ("paused", c_bool),
                ("barred", c_bool)]


class EventStruct(Structure):
    _fields_ = [("kind", c_int), ("name", c_char_p), ("target", c_char * TARGET_SIZE), ("instance", c_char * HOLDER_SIZE),
                ("reason", c_char_p), ("token", c_uint64), ("remaining_ms", c_uint64), ("count", c_uint64),
                ("error", c_int), ("free_ms", c_uint64)]


class LeaseInfoStruct(Structure):
    _fields_ = [("target", c_char * TARGET_SIZE), ("holder", c_char * HOLDER_SIZE), ("planned", c_char * HOLDER_SIZE),
                ("state", c_int), ("token", c_uint64), ("acquired_at_ms", c_uint64), ("last_renewed_at_ms", c_uint64)]


EventFunction = CFUNCTYPE(None, POINTER(EventStruct), c_void_p)
ElectedFunction = CFUNCTYPE(None, c_void_p, c_uint64, c_void_p)
DemotedFunction = CFUNCTYPE(None, c_void_p, c_uint64, c_char_p, c_void_p)
LeaderFunction = CFUNCTYPE(c_int, c_void_p, c_void_p)
NameFunction = CFUNCTYPE(c_int, c_char_p, c_void_p)
InfoFunction = CFUNCTYPE(c_int, POINTER(InfoStruct), c_void_p)


class MemberOptions(Structure):
    _fields_ = [("size", c_size_t), ("namespace_name", c_char_p), ("instance_name", c_char_p), ("ttl_ms", c_uint64),
                ("renew_ms", c_uint64), ("margin_ms", c_uint64), ("timeout_ms", c_uint64), ("settle_ms", c_uint64),
                ("weight", c_uint32), ("targets_from_store", c_bool), ("on_event", EventFunction), ("userdata", c_void_p)]


class ElectionOptions(Structure):
    _fields_ = [("size", c_size_t), ("namespace_name", c_char_p), ("instance_name", c_char_p), ("ttl_ms", c_uint64),
                ("renew_ms", c_uint64), ("margin_ms", c_uint64), ("timeout_ms", c_uint64), ("on_elected", ElectedFunction),
                ("on_demoted", DemotedFunction), ("on_event", EventFunction), ("userdata", c_void_p),
                ("at_least_ms", c_uint64)]


class GuardOptions(Structure):
    _fields_ = [("size", c_size_t), ("namespace_name", c_char_p), ("cache_ttl_ms", c_uint64), ("timeout_ms", c_uint64),
                ("max_targets", c_size_t), ("on_expired_accept", c_bool), ("on_event", EventFunction),
                ("userdata", c_void_p)]


# Name, result, arguments. A c_char_p result is copied by ctypes at once.
_FUNCTIONS: "list[tuple[str, Any, list[Any]]]" = [
    ("version", c_char_p, []), ("strerror", c_char_p, [c_int]), ("error_name", c_char_p, [c_int]),
    ("error_retryable", c_bool, [c_int]),
    ("open", c_int, [c_char_p, POINTER(Options), POINTER(c_void_p)]), ("close", None, [c_void_p]),
    ("message", c_char_p, [c_void_p]), ("instance_id", c_char_p, [c_void_p]), ("cancel", None, [c_void_p]),
    ("acquire", c_int, [c_void_p, c_char_p, c_uint64, POINTER(c_void_p)]),
    ("renew", c_int, [c_void_p]), ("release", c_int, [c_void_p]), ("lease_free", None, [c_void_p]),
    ("lease_valid", c_bool, [c_void_p]), ("lease_token", c_uint64, [c_void_p]),
    ("lease_remaining_ms", c_uint64, [c_void_p]), ("lease_ttl_ms", c_uint64, [c_void_p]),
    ("get_info", c_int, [c_void_p, c_char_p, POINTER(InfoStruct)]),
    ("list", c_int, [c_void_p, c_int, InfoFunction, c_void_p]),
    ("member_open", c_int, [c_char_p, POINTER(MemberOptions), POINTER(c_void_p)]), ("member_start", c_int, [c_void_p]),
    ("member_stop", c_int, [c_void_p, c_uint64]), ("member_close", None, [c_void_p]),
    ("member_message", c_char_p, [c_void_p]), ("member_instance_id", c_char_p, [c_void_p]),
    ("member_put_target", c_int, [c_void_p, c_char_p, c_bool]), ("member_remove_target", c_int, [c_void_p, c_char_p]),
    ("member_try_acquire", c_int, [c_void_p, c_char_p, POINTER(c_bool)]),
    ("member_release", c_int, [c_void_p, c_char_p]), ("member_is_held", c_bool, [c_void_p, c_char_p]),
    ("member_begin", c_int, [c_void_p, c_char_p, POINTER(c_uint64)]), ("member_end", None, [c_void_p, c_char_p]),
    ("member_strict_check", c_int, [c_void_p, c_char_p]),
    ("member_lease_info", c_int, [c_void_p, c_char_p, POINTER(LeaseInfoStruct)]),
    ("member_held", c_int, [c_void_p, NameFunction, c_void_p]),
    ("member_live_instances", c_int, [c_void_p, NameFunction, c_void_p]),
    ("member_planned_holder", c_int, [c_void_p, c_char_p, c_char_p]),
    ("member_set_weight", c_int, [c_void_p, c_uint32]),
    ("member_next_event", c_int, [c_void_p, c_uint64, POINTER(EventStruct)]),
    ("election_start", c_int, [c_char_p, c_char_p, POINTER(ElectionOptions), POINTER(c_void_p)]),
    ("election_stop", None, [c_void_p]), ("is_leader", c_bool, [c_void_p]), ("election_token", c_uint64, [c_void_p]),
    ("election_remaining_ms", c_uint64, [c_void_p]), ("election_instance_id", c_char_p, [c_void_p]),
    ("election_wait", c_int, [c_void_p, c_uint64]), ("election_resign", c_int, [c_void_p]),
    ("leader_only", c_int, [c_char_p, c_char_p, POINTER(ElectionOptions), c_uint64, LeaderFunction, c_void_p]),
    ("guard_open", c_int, [c_char_p, POINTER(GuardOptions), POINTER(c_void_p)]), ("guard_close", None, [c_void_p]),
    ("guard_message", c_char_p, [c_void_p]), ("guard_check", c_int, [c_void_p, c_char_p, c_uint64]),
]


def _load() -> Any:
    """TENURE_LIBRARY, or the library that the system has."""
    name = os.environ.get("TENURE_LIBRARY") or ctypes.util.find_library("tenure") or "libtenure.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"libtenure cannot be loaded ({error}); install libtenure1, or name it in TENURE_LIBRARY") from None
    for short, result, arguments in _FUNCTIONS:
        function = getattr(library, "tenure_" + short)
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
    if "\0" in value:
        raise ValueError("a NUL character cannot be part of a name")
    return value.encode("utf-8", "surrogateescape")


def milliseconds(seconds: Optional[float], none: int = 0) -> int:
    """From Python's seconds; None is `none`, usually the library's default."""
    if seconds is None:
        return none
    if not 0 <= seconds < 2**40:
        raise ValueError(f"{seconds!r} is not a duration in seconds")
    # What is more than nothing must not become the default.
    return max(round(seconds * 1000), 1) if seconds > 0 else 0


def store_url(store: Optional[str]) -> Optional[bytes]:
    """The store that was named, TENURE_STORE, or the library's default."""
    return utf8(store or os.environ.get("TENURE_STORE") or None)
