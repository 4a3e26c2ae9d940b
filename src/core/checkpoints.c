/*
 * The checkpoints of what a fleet member holds. See checkpoints.h.
 */
#include "core/checkpoints.h"

#include <string.h>

#include "base/alloc.h"
#include "base/util.h"

struct ten_checkpoint_entry {
    char *target;
    uint64_t token;
    char *value; /* as the store has it; NULL: none */
    char *next;  /* to be written; NULL: nothing */
    bool sent;
    bool dropped; /* while it was in flight: it is freed with the answer */
    ten_checkpoint_entry *after;
};

void ten_checkpoints_init(ten_checkpoints *checkpoints) {
    checkpoints->last = &checkpoints->first;
}

static void free_entry(ten_checkpoint_entry *entry) {
    ten_free(entry->target);
    ten_free(entry->value);
    ten_free(entry->next);
    ten_free(entry);
}

void ten_checkpoints_free(ten_checkpoints *checkpoints) {
    const ten_map_entry *found;
    for (size_t at = 0; (found = ten_map_next(&checkpoints->entries, &at));)
        free_entry(found->value);
    for (size_t i = 0; i < checkpoints->sent_count; i++)
        if (checkpoints->sent[i]->dropped)
            free_entry(checkpoints->sent[i]);
    ten_map_free(&checkpoints->entries);
}

/* ---- entries */

static ten_checkpoint_entry *make_entry(ten_checkpoints *checkpoints, const char *target) {
    ten_checkpoint_entry *entry = ten_map_get(&checkpoints->entries, target);
    if (entry)
        return entry;
    entry = ten_calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->target = ten_strdup(target);
    if (entry->target && ten_map_put(&checkpoints->entries, target, entry))
        return entry;
    free_entry(entry);
    return NULL;
}

static void leave_queue(ten_checkpoints *checkpoints, const ten_checkpoint_entry *entry) {
    TEN_UNLINK(checkpoints->first, entry, after);
    checkpoints->last = &checkpoints->first;
    while (*checkpoints->last)
        checkpoints->last = &(*checkpoints->last)->after;
}

static void enter_queue(ten_checkpoints *checkpoints, ten_checkpoint_entry *entry) {
    entry->after = NULL;
    *checkpoints->last = entry;
    checkpoints->last = &entry->after;
}

static void tell(const ten_checkpoints *checkpoints, const char *target, uint64_t token, int error) {
    ten_event_queue_publish(checkpoints->events,
                            &(ten_fact){.kind = TEN_FACT_WRITTEN, .id = target, .token = token, .error = error});
}

void ten_checkpoints_drop(ten_checkpoints *checkpoints, const char *target) {
    ten_checkpoint_entry *entry = ten_map_remove(&checkpoints->entries, target);
    if (!entry)
        return;
    if (entry->next)
        tell(checkpoints, target, entry->token, TENURE_E_LOST);
    if (entry->sent) {
        entry->dropped = true;
        return;
    }
    if (entry->next)
        leave_queue(checkpoints, entry);
    free_entry(entry);
}

bool ten_checkpoints_grant(ten_checkpoints *checkpoints, const char *target, uint64_t token, const char *value) {
    const ten_checkpoint_entry *known = ten_map_get(&checkpoints->entries, target);
    /* The same grant once more, while a write of it is under way: that knows better. */
    if (known && known->token == token && known->next)
        return true;
    ten_checkpoints_drop(checkpoints, target);
    if (!value)
        return true;
    ten_checkpoint_entry *entry = make_entry(checkpoints, target);
    char *copy = entry ? ten_strdup(value) : NULL;
    if (!copy) {
        ten_checkpoints_drop(checkpoints, target);
        return false;
    }
    entry->token = token;
    entry->value = copy;
    return true;
}

int ten_checkpoints_write(ten_checkpoints *checkpoints, const char *target, uint64_t token, const char *value) {
    ten_checkpoint_entry *entry = make_entry(checkpoints, target);
    if (!entry)
        return TENURE_E_NOMEM;
    if (entry->token > token)
        return TENURE_E_LOST;
    if (entry->next)
        return TENURE_E_INVALID;
    char *copy = ten_strdup(value);
    if (!copy)
        return TENURE_E_NOMEM;
    entry->token = token;
    entry->next = copy;
    enter_queue(checkpoints, entry);
    return TENURE_OK;
}

const char *ten_checkpoints_value(const ten_checkpoints *checkpoints, const char *target, uint64_t token) {
    const ten_checkpoint_entry *entry = ten_map_get(&checkpoints->entries, target);
    return entry && entry->token == token ? entry->value : NULL;
}

/* ---- as a part of the engine */

static const ten_op *request(ten_checkpoints *checkpoints, uint64_t now_ms, size_t *ret_count) {
    TEN_INVARIANT(checkpoints->sent_count == 0);
    if (now_ms < checkpoints->wait_until_ms)
        return NULL;
    while (checkpoints->first && checkpoints->sent_count < TEN_CHECKPOINTS_BATCH) {
        ten_checkpoint_entry *entry = checkpoints->first;
        checkpoints->first = entry->after;
        entry->sent = true;
        checkpoints->ops[checkpoints->sent_count] = (ten_op){.kind = TEN_OP_CHECKPOINT,
                                                             .namespace_name = checkpoints->namespace_name,
                                                             .target = entry->target,
                                                             .holder = checkpoints->instance,
                                                             .token = entry->token,
                                                             .checkpoint = entry->next};
        checkpoints->sent[checkpoints->sent_count++] = entry;
    }
    if (!checkpoints->first)
        checkpoints->last = &checkpoints->first;
    *ret_count = checkpoints->sent_count;
    return checkpoints->sent_count > 0 ? checkpoints->ops : NULL;
}

/* How the write has ended; 1: it has not, and is sent again. */
static int outcome_of(const ten_result *result) {
    switch (result->outcome) {
    case TEN_OK:
        return TENURE_OK;
    case TEN_HELD: /* the store recovers */
        return 1;
    case TEN_ERROR:
        return result->error;
    case TEN_LOST:
    case TEN_UNKNOWN:
        break;
    }
    return TENURE_E_LOST;
}

static void end_write(ten_checkpoints *checkpoints, ten_checkpoint_entry *entry, int error) {
    char *written = entry->next;
    entry->next = NULL;
    if (error == TENURE_OK) {
        ten_free(entry->value);
        entry->value = written[0] ? written : NULL;
    }
    if (error != TENURE_OK || !written[0])
        ten_free(written);
    tell(checkpoints, entry->target, entry->token, error);
}

static void answer(ten_checkpoints *checkpoints, uint64_t now_ms, int error, const ten_result *results) {
    size_t count = checkpoints->sent_count;
    checkpoints->sent_count = 0;
    for (size_t i = 0; i < count; i++) {
        ten_checkpoint_entry *entry = checkpoints->sent[i];
        int ended = error < 0 ? 1 : outcome_of(&results[i]);
        entry->sent = false;
        if (entry->dropped) {
            free_entry(entry);
        } else if (ended == 1) {
            if (error == TENURE_OK)
                checkpoints->wait_until_ms =
                    ten_max_u64(checkpoints->wait_until_ms, now_ms + ten_max_u64(results[i].remaining_ms, 1));
            enter_queue(checkpoints, entry);
        } else {
            end_write(checkpoints, entry, ended);
        }
    }
}

void ten_checkpoints_step(void *part, const ten_engine_event *event, ten_part_update *update) {
    if (event->kind == TEN_ON_REQUEST)
        update->ops = request(part, event->now_ms, &update->count);
    else if (event->kind == TEN_ON_ANSWER)
        answer(part, event->now_ms, event->error, event->results);
}

void ten_checkpoints_due(const void *part, uint64_t now_ms, ten_part_due *due) {
    const ten_checkpoints *checkpoints = part;
    due->follows = false;
    if (checkpoints->first)
        due->next_ms = ten_max_u64(now_ms, checkpoints->wait_until_ms);
}
