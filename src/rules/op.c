/*
 * The words of the vocabulary, as logs, the API and the stores have them: one list for each, read in both directions.
 */
#include "rules/op.h"

#include <string.h>

#include "base/util.h"

static const char *const op_kinds[] = {
    [TEN_OP_ACQUIRE] = "acquire", [TEN_OP_RENEW] = "renew",       [TEN_OP_RELEASE] = "release",
    [TEN_OP_READ] = "read",       [TEN_OP_ANNOUNCE] = "announce", [TEN_OP_LEAVE] = "leave",
    [TEN_OP_ASK] = "ask",         [TEN_OP_HAND] = "hand",         [TEN_OP_CHECKPOINT] = "checkpoint",
};

static const char *const outcomes[] = {
    [TEN_ERROR] = "error", [TEN_OK] = "ok", [TEN_HELD] = "held", [TEN_LOST] = "lost", [TEN_UNKNOWN] = "unknown",
};

static const char *const reasons[TEN_REASON_COUNT] = {
    [TEN_REASON_NONE] = "",
    [TEN_REASON_SHUTDOWN] = "shutdown",
    [TEN_REASON_REBALANCE] = "rebalance",
    [TEN_REASON_DRAIN] = "drain",
    [TEN_REASON_REMOVED] = "removed",
    [TEN_REASON_FORCED] = "forced",
    [TEN_REASON_RESIGNED] = "resigned",
    [TEN_REASON_DONE] = "done",
    [TEN_REASON_EXPIRED] = "expired",
    [TEN_REASON_TAKEN] = "taken",
    [TEN_REASON_STORE] = "store",
    [TEN_REASON_CRASHED] = "crashed",
    [TEN_REASON_PAUSED] = "paused",
    [TEN_REASON_PINNED] = "pinned",
    [TEN_REASON_PINNED_AWAY] = "pinned_away",
    [TEN_REASON_UNPINNED] = "unpinned",
};

static const char *const events[TEN_EVENT_COUNT] = {
    [TENURE_EVENT_ACQUIRED] = "lease_acquired",
    [TENURE_EVENT_ACQUIRE_FAILED] = "lease_acquire_failed",
    [TENURE_EVENT_RENEWED] = "lease_renewed",
    [TENURE_EVENT_RENEW_FAILED] = "lease_renew_failed",
    [TENURE_EVENT_LOST] = "lease_lost",
    [TENURE_EVENT_STOP] = "lease_closing",
    [TENURE_EVENT_RELEASED] = "lease_released",
    [TENURE_EVENT_JOINED] = "instance_joined",
    [TENURE_EVENT_LEFT] = "instance_left",
    [TENURE_EVENT_PLAN_CHANGED] = "plan_changed",
    [TENURE_EVENT_STORE_DOWN] = "store_down",
    [TENURE_EVENT_STORE_UP] = "store_up",
    [TENURE_EVENT_RECOVERING] = "store_recovering",
    [TENURE_EVENT_REFUSED] = "instance_refused",
    [TENURE_EVENT_STOPPED] = "instance_stopped",
    [TENURE_EVENT_KEPT] = "lease_kept",
    [TENURE_EVENT_UNOWNED] = "target_unowned",
    [TENURE_EVENT_INSTANCE_CHANGED] = "instance_changed",
    [TENURE_EVENT_TARGET_ADDED] = "target_added",
    [TENURE_EVENT_TARGET_CHANGED] = "target_changed",
    [TENURE_EVENT_TARGET_REMOVED] = "target_removed",
    [TENURE_EVENT_ASKED] = "lease_asked",
    [TENURE_EVENT_CRON_STARTED] = "cron_started",
    [TENURE_EVENT_CRON_ENDED] = "cron_ended",
    [TENURE_EVENT_CRON_LOST] = "cron_lost",
    [TENURE_EVENT_CRON_MISSED] = "cron_missed",
    [TENURE_EVENT_UNANNOUNCED] = "instance_unannounced",
};

static const char *const actions[] = {
    [TEN_TARGET_PUT] = "put",       [TEN_TARGET_REMOVE] = "remove", [TEN_TARGET_PAUSE] = "pause",
    [TEN_TARGET_RESUME] = "resume", [TEN_TARGET_PIN] = "pin",       [TEN_TARGET_UNPIN] = "unpin",
};

static const char *const forgets[TEN_FORGET_OUTCOMES] = {"forgotten", "held", "registered", "unknown", "recovering"};

/* Those with flags first: of an operation the first that fits is its word. */
static const struct {
    const char *word;
    enum ten_op_kind kind;
    unsigned flags;
} op_words[] = {
    {"force_now", TEN_OP_RELEASE, TEN_OP_FORCE_NOW},
    {"force", TEN_OP_RELEASE, TEN_OP_FORCE},
    {"keep", TEN_OP_RENEW, TEN_OP_KEEP},
    {"acquire_fresh", TEN_OP_ACQUIRE, TEN_OP_FRESH},
    {"acquire_checkpoint", TEN_OP_ACQUIRE, TEN_OP_WITH_CHECKPOINT},
    {"read_checkpoint", TEN_OP_READ, TEN_OP_WITH_CHECKPOINT},
};

/* Where the word stands in the list; `count` when it does not. */
static unsigned find(const char *word, const char *const *words, size_t count) {
    unsigned i = 0;
    while (i < count && (!word || strcmp(word, words[i]) != 0))
        i++;
    return i;
}

const char *ten_op_word(const ten_op *op) {
    for (size_t i = 0; i < TEN_COUNT(op_words); i++)
        if (op->kind == op_words[i].kind && (op->flags & op_words[i].flags) != 0)
            return op_words[i].word;
    return op_kinds[op->kind];
}

bool ten_op_word_parse(const char *word, enum ten_op_kind *ret_kind, unsigned *ret_flags) {
    for (size_t i = 0; word && i < TEN_COUNT(op_words); i++) {
        if (strcmp(word, op_words[i].word) == 0) {
            *ret_kind = op_words[i].kind;
            *ret_flags = op_words[i].flags;
            return true;
        }
    }
    unsigned kind = find(word, op_kinds, TEN_COUNT(op_kinds));
    if (kind == TEN_COUNT(op_kinds))
        return false;
    *ret_kind = kind;
    *ret_flags = 0;
    return true;
}

size_t ten_op_group_length(const ten_op *ops, size_t count) {
    size_t length = 1;
    while (ops[0].group && length < count && ops[length].group == ops[0].group)
        length++;
    return length;
}

const char *ten_outcome_name(enum ten_outcome outcome) {
    return outcomes[outcome];
}

bool ten_outcome_parse(const char *word, enum ten_outcome *ret_outcome) {
    unsigned outcome = find(word, outcomes, TEN_COUNT(outcomes));
    if (outcome < TEN_COUNT(outcomes))
        *ret_outcome = outcome;
    return outcome < TEN_COUNT(outcomes);
}

const char *ten_reason_name(enum ten_reason reason) {
    return (unsigned)reason < TEN_REASON_COUNT ? reasons[reason] : "";
}

enum ten_reason ten_reason_parse(const char *word) {
    size_t reason = find(word, reasons, TEN_REASON_COUNT);
    return reason == TEN_REASON_COUNT ? TEN_REASON_NONE : (enum ten_reason)reason;
}

const char *ten_change_reason(const ten_change *change) {
    return change->result ? change->result : ten_reason_name(change->reason);
}

const char *ten_event_name(enum tenure_event_kind kind) {
    return (unsigned)kind < TEN_EVENT_COUNT ? events[kind] : "";
}

int ten_event_parse(const char *word) {
    return (int)find(word, events, TEN_EVENT_COUNT);
}

const char *ten_op_action_name(enum ten_target_action action) {
    return actions[action];
}

bool ten_op_action_parse(const char *word, enum ten_target_action *ret_action) {
    unsigned action = find(word, actions, TEN_COUNT(actions));
    if (action < TEN_COUNT(actions))
        *ret_action = action;
    return action < TEN_COUNT(actions);
}

const char *ten_forget_name(enum ten_forget_outcome outcome) {
    return forgets[outcome];
}

bool ten_forget_parse(const char *word, enum ten_forget_outcome *ret_outcome) {
    unsigned outcome = find(word, forgets, TEN_COUNT(forgets));
    if (outcome < TEN_COUNT(forgets))
        *ret_outcome = outcome;
    return outcome < TEN_COUNT(forgets);
}
