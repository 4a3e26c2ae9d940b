/*
 * The names of reasons and changes, as used in logs, in the API and by the stores.
 */
#include "core/op.h"

const char *ten_reason_name(enum ten_reason reason) {
    static const char *const names[TEN_REASON_COUNT] = {
        "", "shutdown", "rebalance", "drain", "removed", "forced", "resigned", "done", "expired", "taken", "store"};
    return (unsigned)reason < TEN_REASON_COUNT ? names[reason] : "";
}

const char *ten_change_name(enum ten_change_kind kind) {
    static const char *const names[TEN_CHANGE_COUNT] = {
        "lease_acquired", "lease_released", "lease_lost",     "instance_joined",  "instance_changed", "instance_left",
        "target_added",   "target_changed", "target_removed", "store_recovering", "lease_asked",      "target_unowned"};
    return (unsigned)kind < TEN_CHANGE_COUNT ? names[kind] : "";
}
