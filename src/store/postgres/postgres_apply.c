/*
 * A batch of operations on PostgreSQL, in one transaction and one round trip. The usual batch, renewals and heartbeats
 * that find everything as their caller believes it, is one plain UPDATE, which is undone when anything in it is
 * unusual; then the batch goes the careful way of all others (postgres_lease.sql, postgres_instance.sql).
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "store/postgres/postgres_instance_sql.h"
#include "store/postgres/postgres_lease_sql.h"
#include "store/postgres/postgres_state.h"

enum { COLUMNS = 9, LEASE_FIELDS = 11, INSTANCE_FIELDS = 5 };

#define GROUP_FLAG (1u << 16) /* beside those of store.h, for apply_leases: the operations of the step are one group */

/* Operations that one statement carries: all on one namespace, and none on the same target; or one on an instance. */
struct step {
    size_t first; /* place in batch->order */
    size_t count;
};

struct batch {
    ten_postgres_store *store;
    const ten_op *ops;
    ten_result *results;
    size_t count;
    bool has_leases;
    bool has_writes;
    bool forces;
    const ten_op *proof; /* a renewal with a token that the store never granted; NULL: none */
    bool is_complete;    /* of the hopeful way: every heartbeat was as it was believed */
    size_t renewal_count;
    size_t beat_count;
    size_t *order; /* the operations in the order of the steps */
    struct step *steps;
    size_t step_count;
    size_t before_steps; /* statements before the first */
    ten_buf lists[COLUMNS];
    ten_buf namespaces;
};

static const char *or_empty(const char *text) {
    return text ? text : "";
}

static int take_holder(ten_postgres_store *store, const char *holder, ten_result *result) {
    result->holder = holder ? ten_arena_text(&store->results, holder) : NULL;
    return holder && !result->holder ? ten_postgres_no_memory(store) : TENURE_OK;
}

static void clear_lists(struct batch *batch) {
    for (size_t i = 0; i < COLUMNS; i++)
        ten_buf_clear(&batch->lists[i]);
}

/* Sends a statement whose parameters from `first` on are the first `count` lists. */
static int send_lists(struct batch *batch, const char *statement, const char *const *before, size_t first,
                      size_t count) {
    const char *values[COLUMNS + 4];
    bool failed = false;
    for (size_t i = 0; i < first; i++)
        values[i] = before[i];
    for (size_t i = 0; i < count; i++) {
        ten_postgres_end_list(&batch->lists[i]);
        values[first + i] = ten_buf_string(&batch->lists[i]);
        failed |= batch->lists[i].failed;
    }
    return failed ? ten_postgres_no_memory(batch->store)
                  : ten_postgres_send(batch->store, statement, (int)(first + count), values);
}

/* Sends reads: `count` operations from `first` on, in that order or (NULL) as they stand in the batch. */
static int send_reads(struct batch *batch, const size_t *order, size_t first, size_t count) {
    clear_lists(batch);
    for (size_t i = first; i < first + count; i++) {
        const ten_op *op = &batch->ops[order ? order[i] : i];
        ten_postgres_add_text(&batch->lists[0], op->target);
        ten_postgres_add_number(&batch->lists[1], op->flags);
    }
    return send_lists(batch, PG_READ_LEASES, &batch->ops[order ? order[first] : first].namespace_name, 1, 2);
}

static int take_lease(ten_postgres_store *store, const PGresult *rows, int row, ten_result *result);

/* ---- the hopeful way ----------------------------------------------------------------------------------- */

/* Renewals of one holder with one TTL, and heartbeats: what an instance sends all the time. Their targets are lines. */
static bool has_only_renewals(const struct batch *batch) {
    const ten_op *first = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        const ten_op *op = &batch->ops[i];
        if (op->kind == TEN_OP_ANNOUNCE)
            continue;
        first = first ? first : op;
        if (op->kind != TEN_OP_RENEW || op->flags != 0 || !op->holder || op->ttl_ms == 0 ||
            op->ttl_ms != first->ttl_ms || strcmp(op->holder, first->holder) != 0 || strchr(op->target, '\n'))
            return false;
    }
    return true;
}

/* Heartbeats, which renew the leases on their sessions, and then some leases that are read. */
static bool has_only_beats_and_reads(const struct batch *batch) {
    size_t beats = 0;
    while (beats < batch->count && batch->ops[beats].kind == TEN_OP_ANNOUNCE)
        beats++;
    for (size_t i = beats; i < batch->count; i++)
        if (batch->ops[i].kind != TEN_OP_READ || (batch->ops[i].flags & TEN_OP_WITH_CHECKPOINT))
            return false;
    return beats > 0;
}

/* In one namespace. */
static bool is_usual(const struct batch *batch) {
    for (size_t i = 0; i < batch->count; i++)
        if (strcmp(batch->ops[i].namespace_name, batch->ops[0].namespace_name) != 0)
            return false;
    return has_only_renewals(batch) || has_only_beats_and_reads(batch);
}

/* How much of its TTL every lease must have left, and how much time the statement may take: whoever renews in time has
 * more than that. */
#define SLACK_PART 4u

static int by_target(const void *a, const void *b) {
    return strcmp((*(const ten_op *const *)a)->target, (*(const ten_op *const *)b)->target);
}

/* The renewals of the batch in the order of their targets, as everybody takes locks; freed by the caller. */
static int sort_renewals(const struct batch *batch, const ten_op ***ret_sorted, size_t *ret_count) {
    const ten_op **sorted = ten_calloc(batch->count, sizeof *sorted);
    size_t count = 0;
    bool in_order = true;
    if (!sorted)
        return ten_postgres_no_memory(batch->store);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->ops[i].kind != TEN_OP_RENEW)
            continue;
        sorted[count++] = &batch->ops[i];
        in_order &= count < 2 || by_target(&sorted[count - 2], &sorted[count - 1]) <= 0;
    }
    if (!in_order)
        qsort(sorted, count, sizeof *sorted, by_target);
    *ret_sorted = sorted;
    *ret_count = count;
    return TENURE_OK;
}

static int send_renewals(struct batch *batch) {
    char ttl[TEN_DIGITS_SIZE];
    char slack[TEN_DIGITS_SIZE];
    const ten_op **sorted = NULL;
    int r = sort_renewals(batch, &sorted, &batch->renewal_count);
    clear_lists(batch);
    for (size_t i = 0; r == TENURE_OK && i < batch->renewal_count; i++) {
        if (i > 0)
            ten_buf_char(&batch->lists[0], '\n');
        ten_buf_text(&batch->lists[0], sorted[i]->target);
        ten_postgres_add_number(&batch->lists[1], sorted[i]->token);
    }
    ten_postgres_end_list(&batch->lists[1]);
    if (r == TENURE_OK && (batch->lists[0].failed || batch->lists[1].failed))
        r = ten_postgres_no_memory(batch->store);
    if (r == TENURE_OK && batch->renewal_count > 0) {
        const ten_op *op = sorted[0];
        const char *values[] = {op->namespace_name,
                                op->holder,
                                ten_digits(ttl, op->ttl_ms),
                                ten_digits(slack, op->ttl_ms / SLACK_PART),
                                ten_buf_string(&batch->lists[0]),
                                ten_buf_string(&batch->lists[1])};
        r = ten_postgres_send(batch->store, PG_RENEW_PLAINLY, TEN_COUNT(values), values);
    }
    ten_free(sorted);
    return r;
}

/* Leases first, instances after: as everybody takes their locks, who has no need of the namespace. */
static int send_usual(ten_postgres_store *store, void *userdata) {
    struct batch *batch = userdata;
    batch->is_complete = true;
    batch->beat_count = 0;
    int r = send_renewals(batch);
    for (size_t i = 0; r == TENURE_OK && i < batch->count; i++) {
        const ten_op *op = &batch->ops[i];
        char ttl[TEN_DIGITS_SIZE];
        char weight[TEN_DIGITS_SIZE];
        char flags[TEN_DIGITS_SIZE];
        const char *values[] = {op->namespace_name,          op->holder,
                                ten_digits(ttl, op->ttl_ms), ten_digits(weight, op->weight),
                                or_empty(op->metadata),      ten_digits(flags, op->flags)};
        if (op->kind != TEN_OP_ANNOUNCE)
            continue;
        batch->beat_count++;
        r = ten_postgres_send(store, PG_BEAT, TEN_COUNT(values), values);
    }
    bool reads = r == TENURE_OK && batch->ops[batch->count - 1].kind == TEN_OP_READ;
    return reads ? send_reads(batch, NULL, batch->beat_count, batch->count - batch->beat_count) : r;
}

/* The n-th heartbeat of the batch was answered. */
static void take_beat(struct batch *batch, size_t number, const PGresult *rows) {
    size_t at = 0;
    for (size_t beats = 0; at < batch->count; at++)
        if (batch->ops[at].kind == TEN_OP_ANNOUNCE && beats++ == number)
            break;
    batch->is_complete &= PQntuples(rows) == 1;
    if (PQntuples(rows) != 1)
        return;
    batch->results[at].session = ten_postgres_number(rows, 0, 0);
    batch->results[at].session_version = batch->results[at].session ? ten_postgres_number(rows, 0, 1) : 0;
}

static int take_reads(struct batch *batch, const PGresult *rows) {
    size_t count = batch->count - batch->beat_count;
    if (PQntuples(rows) != (int)count || PQnfields(rows) != LEASE_FIELDS)
        return ten_postgres_misunderstood(batch->store);
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = take_lease(batch->store, rows, (int)i, &batch->results[batch->beat_count + i]);
    return r;
}

static int take_usual(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata) {
    struct batch *batch = userdata;
    if (statement == 0 && batch->renewal_count > 0)
        return PQntuples(result) == 1 && ten_postgres_number(result, 0, 0) == batch->renewal_count
                   ? TENURE_OK
                   : ten_postgres_misunderstood(store);
    size_t beat = statement - (batch->renewal_count > 0);
    if (beat >= batch->beat_count)
        return take_reads(batch, result);
    take_beat(batch, beat, result);
    return TENURE_OK;
}

/* 1: the batch is done. */
static int go_hopefully(struct batch *batch, uint64_t deadline_ms) {
    ten_postgres_work work = {.what = "renewing leases",
                              .namespaces = batch->namespaces.data,
                              .hopeful = true,
                              .send = send_usual,
                              .take = take_usual,
                              .userdata = batch};
    int r = ten_postgres_transact(batch->store, &work, deadline_ms);
    if (r < 0 || r == TEN_POSTGRES_REFUSED || !batch->is_complete)
        return r < 0 ? r : 0;
    const char *holder = NULL; /* of all renewals */
    for (size_t i = 0; i < batch->count; i++) {
        const ten_op *op = &batch->ops[i];
        if (op->kind == TEN_OP_READ)
            continue;
        batch->results[i].outcome = TEN_OK;
        batch->results[i].token = op->token;
        batch->results[i].ttl_ms = batch->results[i].remaining_ms = op->ttl_ms;
        if (op->kind != TEN_OP_RENEW)
            continue;
        holder = holder ? holder : ten_arena_text(&batch->store->results, op->holder);
        if (!holder)
            return ten_postgres_no_memory(batch->store);
        batch->results[i].holder = holder;
    }
    return 1;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static size_t segment_length(const struct batch *batch, size_t first) {
    size_t length = 1;
    bool checkpoints = batch->ops[first].kind == TEN_OP_CHECKPOINT;
    if (!batch->ops[first].target)
        return 1;
    while (first + length < batch->count && batch->ops[first + length].target &&
           (batch->ops[first + length].kind == TEN_OP_CHECKPOINT) == checkpoints &&
           batch->ops[first + length].group == batch->ops[first].group &&
           strcmp(batch->ops[first].namespace_name, batch->ops[first + length].namespace_name) == 0)
        length++;
    return length;
}

/* Operations on different targets do not disturb each other: the second one on a target goes into the second step, and
 * so on. */
static int add_segment(struct batch *batch, size_t first, size_t length, ten_map *times, uintptr_t *turns) {
    uintptr_t most = 1;
    for (size_t i = 0; i < length; i++) {
        const char *target = batch->ops[first + i].target;
        turns[i] = target ? (uintptr_t)ten_map_get(times, target) + 1 : 1;
        most = turns[i] > most ? turns[i] : most;
        if (target && !ten_map_put(times, target, (void *)turns[i]))
            return ten_postgres_no_memory(batch->store);
    }
    size_t at = first;
    for (uintptr_t turn = 1; turn <= most; turn++) {
        struct step *step = &batch->steps[batch->step_count++];
        *step = (struct step){.first = at};
        for (size_t i = 0; i < length; i++)
            if (turns[i] == turn)
                batch->order[at++] = first + i;
        step->count = at - step->first;
    }
    return TENURE_OK;
}

static int cut_into_steps(struct batch *batch) {
    uintptr_t *turns = ten_calloc(batch->count, sizeof *turns);
    batch->order = ten_calloc(batch->count, sizeof *batch->order);
    batch->steps = ten_calloc(batch->count, sizeof *batch->steps);
    int r = turns && batch->order && batch->steps ? TENURE_OK : ten_postgres_no_memory(batch->store);
    for (size_t i = 0, length; r == TENURE_OK && i < batch->count; i += length) {
        ten_map times = {0};
        length = segment_length(batch, i);
        r = add_segment(batch, i, length, &times, turns);
        ten_map_free(&times);
    }
    ten_free(turns);
    return r;
}

/* ---- out ----------------------------------------------------------------------------------------------- */

/* The sessions on which somebody else's leases hang. */
static int send_session_locks(struct batch *batch) {
    clear_lists(batch);
    for (size_t i = 0; i < batch->count; i++) {
        const ten_op *op = &batch->ops[i];
        if (!op->target || op->kind == TEN_OP_READ || op->kind == TEN_OP_CHECKPOINT)
            continue;
        ten_postgres_add_text(&batch->lists[0], op->namespace_name);
        ten_postgres_add_text(&batch->lists[1], op->target);
        ten_postgres_add_text(&batch->lists[2], op->holder);
        ten_postgres_add_number(&batch->lists[3], op->flags);
    }
    if (batch->lists[0].size == 0)
        return TENURE_OK;
    batch->before_steps++;
    return send_lists(batch, PG_LOCK_SESSIONS, NULL, 0, 4);
}

/* The namespaces, then rows for what is new, then all locks on leases, in the order of the keys: two batches cannot wait
 * for each other. All that writes into the feed of a namespace waits for it in the end, and would keep others from its
 * leases meanwhile: a hundred instances that start at once stood in each other's way like that. Renewals do not. */
static int send_locks(struct batch *batch) {
    const char *namespaces = batch->namespaces.data;
    batch->before_steps++;
    int r = ten_postgres_send(batch->store, PG_LOCK_NAMESPACES, 1, &namespaces);
    clear_lists(batch);
    for (size_t i = 0; i < batch->count; i++) {
        const ten_op *op = &batch->ops[i];
        if (op->kind != TEN_OP_ACQUIRE && op->kind != TEN_OP_RENEW)
            continue;
        ten_postgres_add_text(&batch->lists[0], ten_op_kind_name(op->kind));
        ten_postgres_add_text(&batch->lists[1], op->namespace_name);
        ten_postgres_add_text(&batch->lists[2], op->target);
        ten_postgres_add_number(&batch->lists[3], op->ttl_ms);
        ten_postgres_add_number(&batch->lists[4], op->flags);
    }
    if (r == TENURE_OK && batch->lists[0].size > 0) {
        batch->before_steps++;
        r = send_lists(batch, PG_MAKE_LEASES, NULL, 0, 5);
    }
    clear_lists(batch);
    for (size_t i = 0; i < batch->count; i++) {
        if (!batch->ops[i].target)
            continue;
        ten_postgres_add_text(&batch->lists[0], batch->ops[i].namespace_name);
        ten_postgres_add_text(&batch->lists[1], batch->ops[i].target);
    }
    batch->before_steps++;
    if (r == TENURE_OK)
        r = send_lists(batch, PG_LOCK_LEASES, NULL, 0, 2);
    return r < 0 ? r : send_session_locks(batch);
}

static int send_leases(struct batch *batch, const struct step *step) {
    clear_lists(batch);
    const char *namespace_name = batch->ops[batch->order[step->first]].namespace_name;
    for (size_t i = 0; i < step->count; i++) {
        const ten_op *op = &batch->ops[batch->order[step->first + i]];
        ten_buf *list = batch->lists;
        ten_postgres_add_text(list++, ten_op_kind_name(op->kind));
        ten_postgres_add_text(list++, op->target);
        ten_postgres_add_text(list++, op->holder);
        ten_postgres_add_number(list++, op->token);
        ten_postgres_add_number(list++, op->ttl_ms);
        ten_postgres_add_number(list++, op->flags | (op->group ? GROUP_FLAG : 0));
        ten_postgres_add_text(list++, ten_reason_name(op->reason));
        ten_postgres_add_text(list++, or_empty(op->kind == TEN_OP_HAND ? op->successor : op->actor));
        ten_postgres_add_number(list++, op->ask);
    }
    return send_lists(batch, PG_APPLY_LEASES, &namespace_name, 1, COLUMNS);
}

static int send_checkpoints(struct batch *batch, const struct step *step) {
    clear_lists(batch);
    const char *namespace_name = batch->ops[batch->order[step->first]].namespace_name;
    for (size_t i = 0; i < step->count; i++) {
        const ten_op *op = &batch->ops[batch->order[step->first + i]];
        ten_postgres_add_text(&batch->lists[0], op->target);
        ten_postgres_add_text(&batch->lists[1], op->holder);
        ten_postgres_add_number(&batch->lists[2], op->token);
        ten_postgres_add_text(&batch->lists[3], op->checkpoint);
    }
    return send_lists(batch, PG_WRITE_CHECKPOINTS, &namespace_name, 1, 4);
}

/* Whether a step brings checkpoints along: then a second statement reads them. */
static bool brings_checkpoints(const struct batch *batch, const struct step *step) {
    for (size_t i = 0; i < step->count; i++)
        if (batch->ops[batch->order[step->first + i]].flags & TEN_OP_WITH_CHECKPOINT)
            return true;
    return false;
}

static int send_checkpoint_reads(struct batch *batch, const struct step *step) {
    clear_lists(batch);
    const char *namespace_name = batch->ops[batch->order[step->first]].namespace_name;
    for (size_t i = 0; i < step->count; i++)
        ten_postgres_add_text(&batch->lists[0], batch->ops[batch->order[step->first + i]].target);
    return send_lists(batch, PG_READ_CHECKPOINTS, &namespace_name, 1, 1);
}

/* The statements before apply_instance are locks. */
#define STATEMENTS_FOR_INSTANCE 3u

static int send_instance(ten_postgres_store *store, const ten_op *op) {
    char ttl[TEN_DIGITS_SIZE];
    char weight[TEN_DIGITS_SIZE];
    char ask[TEN_DIGITS_SIZE];
    char flags[TEN_DIGITS_SIZE];
    const char *key[] = {op->namespace_name, op->holder};
    const char *values[] = {op->namespace_name,
                            ten_op_kind_name(op->kind),
                            op->holder,
                            ten_digits(ttl, op->ttl_ms),
                            ten_digits(weight, op->weight),
                            or_empty(op->metadata),
                            ten_reason_name(op->reason),
                            or_empty(op->actor),
                            ten_digits(ask, op->ask),
                            ten_digits(flags, op->flags)};
    int r = ten_postgres_send(store, PG_LOCK_NAMESPACE, 1, key);
    if (r == TENURE_OK)
        r = ten_postgres_send(store, PG_LOCK_INSTANCE, 2, key);
    return r < 0 ? r : ten_postgres_send(store, PG_APPLY_INSTANCE, TEN_COUNT(values), values);
}

static int send_steps(ten_postgres_store *store, void *userdata) {
    struct batch *batch = userdata;
    batch->before_steps = 0;
    int r = batch->has_leases && batch->has_writes ? send_locks(batch) : TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < batch->step_count; i++) {
        const ten_op *op = &batch->ops[batch->order[batch->steps[i].first]];
        r = !op->target                     ? send_instance(store, op)
            : op->kind == TEN_OP_CHECKPOINT ? send_checkpoints(batch, &batch->steps[i])
            : batch->has_writes             ? send_leases(batch, &batch->steps[i])
                                : send_reads(batch, batch->order, batch->steps[i].first, batch->steps[i].count);
        if (r == TENURE_OK && brings_checkpoints(batch, &batch->steps[i]))
            r = send_checkpoint_reads(batch, &batch->steps[i]);
    }
    return r;
}

/* ---- in ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *verdict;
    enum ten_outcome outcome;
    int error;
} meanings[] = {
    {"extended", TEN_OK, 0},
    {"on session", TEN_OK, 0},
    {"recognised", TEN_OK, 0},
    {"given", TEN_OK, 0},
    {"handed", TEN_OK, 0},
    {"held", TEN_HELD, 0},
    {"withheld", TEN_HELD, 0},
    {"lost", TEN_LOST, 0},
    {"proof", TEN_LOST, 0}, /* and the store has lost data */
    {"freed", TEN_OK, 0},
    {"kept", TEN_OK, 0},
    {"read", TEN_OK, 0},
    {"bound", TEN_OK, 0}, /* free, and its token may have been forgotten */
    {"recovering", TEN_HELD, 0},
    {"put back", TEN_OK, 0},
    {"noted", TEN_LOST, 0},
    {"barred", TEN_OK, 0},
    {"asked", TEN_OK, 0},
    {"unknown", TEN_UNKNOWN, 0},
    {"joined", TEN_OK, 0},
    {"changed", TEN_OK, 0},
    {"beaten", TEN_OK, 0},
    {"left", TEN_OK, 0},
    {"gone", TEN_ERROR, TENURE_E_GONE},
    {"token", TEN_ERROR, TENURE_E_TOKEN},
    {"ttl", TEN_ERROR, TENURE_E_TTL},
};

static int take_verdict(ten_postgres_store *store, const char *verdict, ten_result *result) {
    *result = (ten_result){0};
    for (size_t i = 0; i < TEN_COUNT(meanings); i++) {
        if (strcmp(meanings[i].verdict, verdict) == 0) {
            result->outcome = meanings[i].outcome;
            result->error = meanings[i].error;
            return TENURE_OK;
        }
    }
    return ten_postgres_misunderstood(store);
}

static int take_lease(ten_postgres_store *store, const PGresult *rows, int row, ten_result *result) {
    const char *verdict = PQgetvalue(rows, row, 0);
    const char *holder = ten_postgres_text(rows, row, 4);
    int64_t left_ms = strtoll(PQgetvalue(rows, row, 3), NULL, 10);
    int r = take_verdict(store, verdict, result);
    if (r < 0 || result->outcome == TEN_ERROR || result->outcome == TEN_UNKNOWN)
        return r;
    result->token = ten_postgres_number(rows, row, 1);
    result->registered = ten_postgres_flag(rows, row, 6);
    result->paused = ten_postgres_flag(rows, row, 7);
    result->recovering = strcmp(verdict, "recovering") == 0 || strcmp(verdict, "bound") == 0;
    if (result->recovering && result->outcome == TEN_HELD)
        result->remaining_ms = (uint64_t)left_ms;
    if (result->recovering || !holder || left_ms <= 0)
        return TENURE_OK;
    result->ttl_ms = ten_postgres_number(rows, row, 2);
    result->remaining_ms = (uint64_t)left_ms;
    result->barred = ten_postgres_flag(rows, row, 5);
    result->ask = (enum ten_ask)ten_postgres_number(rows, row, 8);
    result->acquired_at_ms = ten_postgres_number(rows, row, 9);
    result->session = ten_postgres_number(rows, row, 10);
    return take_holder(store, holder, result);
}

static int take_instance(ten_postgres_store *store, const ten_op *op, const PGresult *rows, ten_result *result) {
    if (PQntuples(rows) != 1 || PQnfields(rows) != INSTANCE_FIELDS)
        return ten_postgres_misunderstood(store);
    int r = take_verdict(store, PQgetvalue(rows, 0, 0), result);
    if (result->error == TENURE_E_TTL)
        result->ttl_ms = ten_postgres_number(rows, 0, 1);
    if (result->outcome == TEN_OK && op->kind == TEN_OP_ANNOUNCE) {
        result->ttl_ms = result->remaining_ms = op->ttl_ms;
        result->ask = (enum ten_ask)ten_postgres_number(rows, 0, 2);
        result->session = ten_postgres_number(rows, 0, 3);
        result->session_version = result->session ? ten_postgres_number(rows, 0, 4) : 0;
    }
    return r;
}

static int take_checkpoints(const struct batch *batch, const struct step *step, const PGresult *rows) {
    ten_postgres_store *store = batch->store;
    if (PQntuples(rows) != (int)step->count || PQnfields(rows) != 2)
        return ten_postgres_misunderstood(store);
    for (size_t i = 0; i < step->count; i++) {
        size_t place = batch->order[step->first + i];
        const char *value = ten_postgres_text(rows, (int)i, 0);
        if (!value || !(batch->ops[place].flags & TEN_OP_WITH_CHECKPOINT) || batch->results[place].outcome != TEN_OK)
            continue;
        batch->results[place].checkpoint = ten_arena_text(&store->results, value);
        batch->results[place].checkpoint_token = ten_postgres_number(rows, (int)i, 1);
        if (!batch->results[place].checkpoint)
            return ten_postgres_no_memory(store);
    }
    return TENURE_OK;
}

static int take_step(ten_postgres_store *store, size_t statement, const PGresult *rows, void *userdata) {
    struct batch *batch = userdata;
    size_t at = batch->before_steps;
    for (size_t i = 0; statement >= at && i < batch->step_count; i++) {
        const struct step *step = &batch->steps[i];
        const ten_op *op = &batch->ops[batch->order[step->first]];
        at += op->target ? 1 : STATEMENTS_FOR_INSTANCE;
        bool brings = op->target && brings_checkpoints(batch, step);
        if (brings && statement == at)
            return take_checkpoints(batch, step, rows);
        if (statement + 1 != at) {
            at += brings;
            continue;
        }
        if (!op->target)
            return take_instance(store, op, rows, &batch->results[batch->order[step->first]]);
        if (PQntuples(rows) != (int)step->count || PQnfields(rows) != LEASE_FIELDS)
            return ten_postgres_misunderstood(store);
        int r = TENURE_OK;
        for (size_t j = 0; r == TENURE_OK && j < step->count; j++) {
            size_t place = batch->order[step->first + j];
            r = take_lease(store, rows, (int)j, &batch->results[place]);
            if (strcmp(PQgetvalue(rows, (int)j, 0), "proof") == 0)
                batch->proof = &batch->ops[place];
        }
        return r;
    }
    return TENURE_OK; /* a lock */
}

/* ---- the batch ----------------------------------------------------------------------------------------- */

static int go_carefully(struct batch *batch, uint64_t deadline_ms) {
    int r = cut_into_steps(batch);
    if (r < 0)
        return r;
    ten_postgres_work work = {.what = "a batch of leases",
                              .namespaces = batch->has_writes ? batch->namespaces.data : NULL,
                              .once = batch->forces,
                              .send = send_steps,
                              .take = take_step,
                              .userdata = batch};
    return ten_postgres_transact(batch->store, &work, deadline_ms);
}

/* What there is to know before anything is sent. */
static int look_at(struct batch *batch) {
    const char *last = "";
    for (size_t i = 0; i < batch->count; i++) {
        const ten_op *op = &batch->ops[i];
        batch->has_leases |= op->target != NULL;
        batch->has_writes |= op->kind != TEN_OP_READ;
        batch->forces |= (op->flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW)) != 0;
        if (strcmp(last, op->namespace_name) != 0)
            ten_postgres_add_text(&batch->namespaces, op->namespace_name);
        last = op->namespace_name;
    }
    ten_postgres_end_list(&batch->namespaces);
    return batch->namespaces.failed ? ten_postgres_no_memory(batch->store) : TENURE_OK;
}

static int apply_batch(struct batch *batch, uint64_t deadline_ms) {
    int r = look_at(batch);
    if (r == TENURE_OK && is_usual(batch))
        r = go_hopefully(batch, deadline_ms);
    if (r == TENURE_OK)
        r = go_carefully(batch, deadline_ms);
    ten_buf_free(&batch->namespaces);
    for (size_t i = 0; i < COLUMNS; i++)
        ten_buf_free(&batch->lists[i]);
    ten_free(batch->order);
    ten_free(batch->steps);
    return r < 0 ? r : TENURE_OK;
}

/* ---- a token that the store never granted -------------------------------------------------------------- */

static int send_proof(ten_postgres_store *store, void *userdata) {
    const ten_op *op = userdata;
    char ttl[TEN_DIGITS_SIZE];
    const char *values[] = {op->namespace_name, ten_digits(ttl, op->flags & TEN_OP_KEEP ? 0 : op->ttl_ms)};
    return ten_postgres_send(store, PG_PROVE_LOSS, TEN_COUNT(values), values);
}

/* Renewals that were lost go once more, alone: in the epoch that begins now they may put their leases back. */
static int renew_in_epoch(const struct batch *batch, uint64_t deadline_ms) {
    ten_op proof = *batch->proof;
    ten_postgres_work work = {
        .what = "noting a loss of data", .send = send_proof, .take = ten_postgres_take_nothing, .userdata = &proof};
    struct batch again = {.store = batch->store};
    ten_op *ops = ten_calloc(batch->count, sizeof *ops);
    ten_result *results = ten_calloc(batch->count, sizeof *results);
    int r =
        ops && results ? ten_postgres_transact(batch->store, &work, deadline_ms) : ten_postgres_no_memory(batch->store);
    for (size_t i = 0; r == TENURE_OK && i < batch->count; i++)
        if (batch->ops[i].kind == TEN_OP_RENEW && batch->results[i].outcome == TEN_LOST)
            ops[again.count++] = batch->ops[i];
    again.ops = ops;
    again.results = results;
    if (r == TENURE_OK)
        r = apply_batch(&again, deadline_ms);
    for (size_t i = 0, at = 0; r == TENURE_OK && i < batch->count; i++)
        if (batch->ops[i].kind == TEN_OP_RENEW && batch->results[i].outcome == TEN_LOST)
            batch->results[i] = results[at++];
    ten_free(ops);
    ten_free(results);
    return r;
}

static size_t count_acquires(const ten_op *ops, size_t count) {
    size_t acquires = 0;
    for (size_t i = 0; i < count; i++)
        acquires += ops[i].kind == TEN_OP_ACQUIRE;
    return acquires;
}

int ten_postgres_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    ten_postgres_store *store = (ten_postgres_store *)base;
    struct batch batch = {.store = store, .ops = ops, .results = results, .count = count};
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    ten_arena_reset(&store->results);
    int r = apply_batch(&batch, deadline_ms);
    if (r == TENURE_OK && batch.proof)
        r = renew_in_epoch(&batch, deadline_ms);
    if (r == TENURE_OK)
        ten_postgres_forget_aged(store, count_acquires(ops, count), deadline_ms);
    return r;
}
