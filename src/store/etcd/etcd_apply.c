/*
 * A batch in etcd: first the groups that it renews whole are kept alive, then what only goes on is settled by comparing
 * (etcd_renew.c), and the rest is read, decided and written in chunks, in order. Called through store.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/json.h"
#include "base/random.h"
#include "store/etcd/etcd_cell.h"

#define WRITES_FULL                                                                                                    \
    100u /* of the operations of a transaction: the last cell, its homes, the feed and the term fit in */
#define COMPARES_FULL 110u /* the same for its comparisons */
#define READS_MAX     120u
#define CALM_ROUNDS   2u /* conflicts without a pause */

/* ---- for the cells ----------------------------------------------------------------------------------------- */

uint64_t ten_etcd_left_of(const ten_etcd_chunk *chunk, uint64_t lease, uint64_t otherwise_ms) {
    for (size_t i = 0; i < chunk->lease_count; i++)
        if (chunk->leases[i] == lease)
            return chunk->left_ms[i];
    return otherwise_ms;
}

void ten_etcd_change(ten_etcd_chunk *chunk, const ten_change *change) {
    ten_buf_text(&chunk->changes, chunk->change_count++ ? "," : "[");
    ten_etcd_feed_add(&chunk->changes, change);
}

void ten_etcd_touch_other(ten_etcd_chunk *chunk, uint64_t lease) {
    const ten_etcd_group *group = ten_etcd_group_by_lease(chunk->store, lease);
    if (!group || group->is_session)
        ten_etcd_touch_lease(chunk, lease);
}

bool ten_etcd_is_touched(const ten_etcd_chunk *chunk, uint64_t lease) {
    for (size_t i = 0; i < chunk->touched_count; i++)
        if (chunk->touched[i] == lease)
            return true;
    return false;
}

void ten_etcd_touch_lease(ten_etcd_chunk *chunk, uint64_t lease) {
    char key[TEN_ETCD_KEY_MAX + 1];
    if (lease == 0 || ten_etcd_is_touched(chunk, lease))
        return;
    TEN_INVARIANT(chunk->touched_count < TEN_COUNT(chunk->touched));
    chunk->touched[chunk->touched_count++] = lease;
    ten_etcd_group_key(chunk->store, key, chunk->namespace_name, lease);
    ten_etcd_txn_touch(&chunk->store->txn, key);
}

/* ---- reading ----------------------------------------------------------------------------------------------- */

static void add_reads(ten_etcd_chunk *chunk) {
    ten_etcd_store *store = chunk->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, key, chunk->namespace_name, TEN_ETCD_TERM, NULL);
    ten_etcd_txn_get(&store->txn, key);
    ten_etcd_key_of(store, key, chunk->namespace_name, TEN_ETCD_WAIT, NULL);
    ten_etcd_txn_get(&store->txn, key);
    ten_etcd_key_of(store, key, chunk->namespace_name, TEN_ETCD_EPOCH, NULL);
    ten_etcd_txn_get(&store->txn, key);
    for (size_t i = 0; i < chunk->count; i++) {
        ten_etcd_cell *cell = &chunk->cells[i];
        if (cell->op.target)
            ten_etcd_lease_reads(chunk, cell);
        else
            ten_etcd_instance_reads(chunk, cell);
    }
}

static void note_lease(ten_etcd_chunk *chunk, uint64_t lease) {
    for (size_t i = 0; i < chunk->lease_count; i++)
        if (chunk->leases[i] == lease)
            return;
    if (lease && chunk->lease_count < TEN_COUNT(chunk->leases))
        chunk->leases[chunk->lease_count++] = lease;
}

/* Whether it matters how long etcd keeps a lease that is to hang on a session: it may end later than that. */
static bool is_end_needed(const ten_etcd_cell *cell) {
    return cell->session.lease && ten_etcd_longest_ms(&cell->kv) > cell->session.ttl_ms;
}

static void note_lease_of(ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    ten_etcd_store *store = chunk->store;
    const char *holder = json_string_value(json_object_get(cell->kv.value, "holder"));
    bool acquires = cell->op.kind == TEN_OP_ACQUIRE;
    bool own = acquires && holder && strcmp(holder, cell->op.holder) == 0;
    bool forced = cell->op.kind == TEN_OP_RELEASE && (cell->op.flags & TEN_OP_FORCE);
    bool reserved = ten_etcd_reserved_for(&cell->kv, &cell->behind) != NULL;
    uint64_t lease = ten_etcd_lease_of(&cell->kv, &cell->behind);
    bool read = cell->op.kind == TEN_OP_READ && ten_etcd_session_left_ms(store, lease) == 0;
    bool needed = (own || cell->op.kind == TEN_OP_RENEW) && is_end_needed(cell);
    if (((acquires && !own) || read || forced || reserved || needed) && ten_etcd_handed_ms(store, lease) == 0)
        note_lease(chunk, lease);
    if (acquires && cell->kv.revision == 0 && ten_etcd_session_left_ms(store, cell->session.lease) == 0)
        note_lease(chunk, cell->session.lease);
    if (cell->op.kind == TEN_OP_HAND && ten_etcd_hand_known_ms(chunk, cell) == 0)
        note_lease(chunk, cell->successor.lease);
}

/* How long others still hold is asked for where the answer tells it. */
static int ask_time_left(ten_etcd_chunk *chunk) {
    chunk->lease_count = 0;
    bool vanished = chunk->in_epoch;
    for (size_t i = 0; i < chunk->count; i++) {
        const ten_etcd_cell *cell = &chunk->cells[i];
        if (cell->settled)
            continue;
        if (!cell->op.target) {
            if (cell->op.kind == TEN_OP_LEAVE && cell->op.ttl_ms)
                note_lease(chunk, cell->session.lease);
            continue;
        }
        vanished |= ten_etcd_has_vanished(chunk, &cell->kv, &cell->behind);
        note_lease_of(chunk, cell);
    }
    if (vanished)
        note_lease(chunk, chunk->wait.lease);
    if (chunk->lease_count == 0)
        return TENURE_OK;
    int r = ten_etcd_time_left(chunk->store, chunk->leases, chunk->left_ms, chunk->lease_count, chunk->deadline_ms);
    chunk->wait_left_ms = ten_etcd_left_of(chunk, chunk->wait.lease, 0);
    return r;
}

/* The answer to the reading is there. */
static int take_read(ten_etcd_chunk *chunk) {
    ten_etcd_store *store = chunk->store;
    chunk->head = store->head;
    chunk->read_at = ++store->step;
    ten_etcd_kv_free(&chunk->term);
    ten_etcd_kv_free(&chunk->wait);
    ten_etcd_kv_free(&chunk->epoch);
    chunk->term = ten_etcd_kv_at(chunk->answer, 0, &store->scratch);
    chunk->wait = ten_etcd_kv_at(chunk->answer, 1, &store->scratch);
    chunk->epoch = ten_etcd_kv_at(chunk->answer, 2, &store->scratch);
    int r = ten_etcd_epoch_take(chunk);
    if (r < 0)
        return r;
    chunk->longest_ms = ten_etcd_number(chunk->term.value, "ttl_ms");
    for (size_t i = 0; i < chunk->count; i++) {
        if (chunk->cells[i].op.target)
            ten_etcd_lease_take(chunk, &chunk->cells[i]);
        else
            ten_etcd_instance_take(chunk, &chunk->cells[i]);
    }
    return ask_time_left(chunk);
}

static int read_chunk(ten_etcd_chunk *chunk) {
    ten_etcd_store *store = chunk->store;
    bool succeeded;
    add_reads(chunk);
    json_decref(chunk->answer);
    chunk->answer = NULL;
    int r = ten_etcd_commit(store, false, chunk->deadline_ms, &succeeded, &chunk->answer);
    return r < 0 ? r : take_read(chunk);
}

/* ---- writing ----------------------------------------------------------------------------------------------- */

static void put_homes(ten_etcd_chunk *chunk, size_t count) {
    char key[TEN_ETCD_KEY_MAX + 1];
    for (size_t i = 0; i < count; i++) {
        ten_etcd_group *home = chunk->cells[i].settled ? NULL : chunk->cells[i].home;
        bool seen = false;
        for (size_t j = 0; home && j < i && !seen; j++)
            seen = chunk->cells[j].home == home && !chunk->cells[j].settled;
        if (!home || seen || home->revision > 0)
            continue;
        ten_etcd_group_key(chunk->store, key, chunk->namespace_name, home->lease);
        ten_etcd_txn_put(&chunk->store->txn, key, "{}", home->lease);
    }
}

/* Nothing has been decided yet. */
static void begin_decision(ten_etcd_chunk *chunk, bool withheld) {
    ten_etcd_txn_clear(&chunk->store->txn);
    ten_buf_clear(&chunk->changes);
    chunk->change_count = chunk->touched_count = chunk->left_count = 0;
    chunk->raised = false;
    chunk->shown_token = chunk->shown_ttl_ms = 0;
    chunk->withheld = withheld;
}

/* Whether one of the targets of a group is refused: what was decided for that is decided once more. */
static int judge_group(ten_etcd_chunk *chunk, bool *ret_withheld) {
    uint64_t longest_ms = chunk->longest_ms;
    int r = TENURE_OK;
    *ret_withheld = false;
    begin_decision(chunk, false);
    for (size_t i = 0; r == TENURE_OK && chunk->cells[0].op.group && i < chunk->count; i++) {
        if (chunk->cells[i].settled)
            continue;
        r = ten_etcd_lease_decide(chunk, &chunk->cells[i]);
        *ret_withheld |= chunk->cells[i].result->outcome != TEN_OK;
    }
    chunk->longest_ms = longest_ms;
    return r;
}

/* Decides as many as fit into one transaction, which a group always does; how many those are. */
int ten_etcd_decide(ten_etcd_chunk *chunk, size_t *ret_count) {
    ten_etcd_store *store = chunk->store;
    const ten_etcd_group *home = NULL;
    size_t homes = 0;
    size_t i = 0;
    bool withheld;
    int judged = judge_group(chunk, &withheld);
    if (judged < 0)
        return judged;
    begin_decision(chunk, withheld);
    for (; i < chunk->count && store->txn.operation_count + homes < WRITES_FULL &&
           store->txn.compare_count < COMPARES_FULL;
         i++) {
        ten_etcd_cell *cell = &chunk->cells[i];
        if (cell->settled)
            continue;
        cell->again = false;
        int r = cell->op.target ? ten_etcd_lease_decide(chunk, cell) : ten_etcd_instance_decide(chunk, cell);
        if (r == TENURE_OK && cell->op.target)
            r = ten_etcd_lease_write(chunk, cell);
        if (r < 0)
            return r;
        if (cell->again)
            break; /* what comes after it comes after it */
        homes += cell->home && cell->home->revision == 0 && cell->home != home;
        home = cell->home;
    }
    *ret_count = i;
    put_homes(chunk, i);
    return TENURE_OK;
}

static void finish_changes(ten_etcd_chunk *chunk) {
    if (chunk->change_count == 0)
        return;
    ten_buf_char(&chunk->changes, ']');
    ten_etcd_feed_put(chunk->store, chunk->namespace_name, ten_buf_string(&chunk->changes), chunk->change_count);
}

static int write_chunk(ten_etcd_chunk *chunk, bool *ret_succeeded) {
    ten_etcd_store *store = chunk->store;
    if (chunk->raised)
        ten_etcd_term_put(chunk, chunk->longest_ms);
    finish_changes(chunk);
    if (chunk->changes.failed)
        return ten_etcd_no_memory(store);
    *ret_succeeded = true;
    if (store->txn.compare_count == 0 && store->txn.operation_count == 0)
        return TENURE_OK;
    return ten_etcd_commit(store, store->txn.operation_count > 0, chunk->deadline_ms, ret_succeeded, NULL);
}

/* Without room nothing is written: what wanted to is refused. */
static void refuse_writes(ten_etcd_chunk *chunk, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ten_etcd_cell *cell = &chunk->cells[i];
        if (cell->settled || cell->again || !cell->wrote)
            continue;
        *cell->result = (ten_result){.outcome = TEN_ERROR, .error = TENURE_E_FULL};
        cell->settled = true;
    }
    ten_etcd_txn_clear(&chunk->store->txn);
    ten_buf_clear(&chunk->changes);
    chunk->change_count = chunk->left_count = 0;
    chunk->raised = false;
}

/* What has been written is known, and final unless its home turns out not to count; then false. */
static bool take_written(ten_etcd_chunk *chunk, size_t count) {
    bool confirmed = true;
    for (size_t i = 0; i < count; i++) {
        ten_etcd_cell *cell = &chunk->cells[i];
        if (cell->settled)
            continue;
        ten_etcd_wait_note(chunk, cell);
        if (cell->op.target)
            ten_etcd_lease_written(chunk, cell);
        else
            ten_etcd_instance_written(chunk, cell);
        ten_etcd_group *home = cell->home;
        bool counts = home              ? ten_etcd_is_confirmed(chunk->store, home)
                      : cell->own_lease ? chunk->store->head.term == chunk->head.term
                                        : true;
        cell->granted = home != NULL;
        cell->settled = counts && cell->write != TEN_ETCD_RESERVE; /* its second step is the next round's */
        confirmed &= counts;
        if (home && home->revision == 0)
            home->revision = chunk->store->head.revision;
    }
    return confirmed;
}

/* Others' etcd leases that keys have left: where their handle has closed, and these were the last, they end. */
static void end_left(ten_etcd_chunk *chunk) {
    ten_etcd_store *store = chunk->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    json_t *answer = NULL;
    uint64_t ended[TEN_ETCD_CELLS_MAX];
    size_t count = 0;
    ten_etcd_head head = store->head;
    ten_error error = store->base.error;
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; i < chunk->left_count; i++) {
        ten_etcd_group_key(store, key, chunk->namespace_name, chunk->left[i]);
        ten_etcd_txn_get(&store->txn, key);
    }
    if (ten_etcd_commit(store, false, chunk->deadline_ms, &succeeded, &answer) == TENURE_OK) {
        for (size_t i = 0; i < chunk->left_count; i++) {
            size_t gone = 0;
            bool first = true;
            for (size_t j = 0; j < chunk->left_count; j++) {
                gone += chunk->left[j] == chunk->left[i];
                first &= j >= i || chunk->left[j] != chunk->left[i];
            }
            ten_etcd_kv group = ten_etcd_kv_at(answer, i, &store->scratch);
            if (first && ten_etcd_number(group.value, "closed") == gone)
                ended[count++] = chunk->left[i];
            ten_etcd_kv_free(&group);
        }
        json_decref(answer);
        ten_etcd_revoke(store, ended, count, chunk->deadline_ms);
    }
    store->head = head;
    store->base.error = error;
}

/* The answer is missing: what this would have attached may be attached. */
static void doubt_attached(ten_etcd_chunk *chunk) {
    for (size_t i = 0; i < chunk->count; i++)
        if (chunk->cells[i].home)
            chunk->cells[i].home->uncertain = true;
}

/* The homes that were used did not count, or are not there: the next round keeps them alive once more, or finds
 * others. */
static void doubt_homes(ten_etcd_chunk *chunk) {
    for (size_t i = 0; i < chunk->count; i++) {
        ten_etcd_group *home = chunk->cells[i].home;
        if (home) {
            home->home_in = 0;
            home->uncertain |= home->reserve_ms > 0; /* it is not used again */
        }
        chunk->cells[i].home = NULL;
    }
}

static bool is_settled(const ten_etcd_chunk *chunk) {
    for (size_t i = 0; i < chunk->count; i++)
        if (!chunk->cells[i].settled)
            return false;
    return true;
}

static bool is_rest_known(const ten_etcd_chunk *chunk) {
    for (size_t i = 0; i < chunk->count; i++)
        if (!chunk->cells[i].settled && !(chunk->cells[i].reserved && chunk->cells[i].behind.value))
            return false;
    return chunk->store->head.term == chunk->head.term;
}

/* Reads what is not known. *ret_current: and nothing has to be read again. */
static int look(ten_etcd_chunk *chunk, bool *ret_current) {
    *ret_current = chunk->known;
    if (chunk->known) {
        chunk->known = false;
        chunk->head = chunk->store->head;
        return TENURE_OK;
    }
    int r = chunk->has_read ? take_read(chunk) : read_chunk(chunk);
    chunk->has_read = false;
    return r == TENURE_OK ? ten_etcd_epoch_check(chunk, ret_current) : r;
}

/* What is foretold may be so: then one request is enough. If not, it has brought what the first round reads. */
static int try_at_once(ten_etcd_chunk *chunk) {
    ten_etcd_store *store = chunk->store;
    bool prepared, succeeded = false;
    int r = ten_etcd_prepare_at_once(chunk, &prepared);
    if (r < 0 || !prepared)
        return r;
    finish_changes(chunk);
    ten_etcd_txn writes = store->txn;
    store->txn = (ten_etcd_txn){0};
    add_reads(chunk);
    writes.otherwise = store->txn.operations;
    writes.otherwise_count = store->txn.operation_count;
    store->txn.operations = (ten_buf){0};
    ten_etcd_txn_free(&store->txn);
    store->txn = writes;
    r = chunk->changes.failed ? ten_etcd_no_memory(store)
                              : ten_etcd_commit(store, true, chunk->deadline_ms, &succeeded, &chunk->answer);
    if (r < 0 && r != TENURE_E_GONE)
        doubt_attached(chunk);
    if (r == TENURE_E_GONE || (r == TENURE_OK && succeeded && !take_written(chunk, 1)))
        doubt_homes(chunk);
    chunk->has_read = r == TENURE_OK && !succeeded;
    if (r == TENURE_OK && succeeded)
        ten_etcd_feed_trim(store, chunk->namespace_name, chunk->deadline_ms);
    return r == TENURE_E_GONE ? TENURE_OK : r;
}

/* A round: read, decide, write. It may settle all, some or none. */
static int one_round(ten_etcd_chunk *chunk) {
    size_t count = 0;
    bool succeeded = false;
    bool current = false;
    int r = look(chunk, &current);
    if (r < 0 || !current)
        return r;
    chunk->store->head = chunk->head;
    r = ten_etcd_decide(chunk, &count);
    if (r == TENURE_OK && chunk->shown_token)
        return ten_etcd_begin_epoch(chunk);
    if (r == TENURE_OK && chunk->store->is_full)
        refuse_writes(chunk, count);
    if (r == TENURE_OK)
        r = write_chunk(chunk, &succeeded);
    if (r < 0 && r != TENURE_E_GONE)
        doubt_attached(chunk);
    bool doubt = r == TENURE_E_GONE || (r == TENURE_OK && succeeded && !take_written(chunk, count));
    if (doubt)
        doubt_homes(chunk);
    chunk->known = r == TENURE_OK && succeeded && is_rest_known(chunk);
    if (r == TENURE_E_GONE)
        ten_etcd_hands_free(chunk->store);
    if (r == TENURE_OK && succeeded && chunk->change_count > 0)
        ten_etcd_feed_trim(chunk->store, chunk->namespace_name, chunk->deadline_ms);
    if (r == TENURE_OK && succeeded && chunk->left_count > 0)
        end_left(chunk);
    return r == TENURE_E_GONE ? TENURE_OK : r;
}

static int apply_chunk(ten_etcd_chunk *chunk) {
    int r = try_at_once(chunk);
    for (unsigned rounds = 0; r == TENURE_OK && !is_settled(chunk); rounds++) {
        if (ten_now_ms() >= chunk->deadline_ms)
            return ten_fail(&chunk->store->base.error, TENURE_E_TIMEOUT,
                            "etcd did not finish the batch within the time-out: it is slow, or other clients keep "
                            "changing the same keys; try again, or use a longer --timeout");
        if (rounds > CALM_ROUNDS)
            ten_sleep_us(ten_random_u64() % (1000u * ten_min_u64(rounds, 20)));
        r = one_round(chunk);
    }
    return r;
}

/* ---- the batch --------------------------------------------------------------------------------------------- */

static void clear_chunk(ten_etcd_chunk *chunk) {
    for (size_t i = 0; i < chunk->count; i++) {
        ten_etcd_kv_free(&chunk->cells[i].kv);
        ten_etcd_kv_free(&chunk->cells[i].behind);
        ten_etcd_kv_free(&chunk->cells[i].successor);
        json_decref(chunk->cells[i].fence);
    }
    ten_etcd_kv_free(&chunk->term);
    ten_etcd_kv_free(&chunk->wait);
    ten_etcd_kv_free(&chunk->epoch);
    json_decref(chunk->answer);
    chunk->answer = NULL;
    chunk->known = chunk->has_read = false;
    chunk->count = 0;
}

static bool is_in(const ten_etcd_chunk *chunk, const char *key) {
    for (size_t i = 0; i < chunk->count; i++)
        if (strcmp(chunk->cells[i].key, key) == 0)
            return true;
    return false;
}

static bool is_successor(const ten_etcd_chunk *chunk, const char *instance) {
    for (size_t i = 0; i < chunk->count; i++)
        if (chunk->cells[i].op.kind == TEN_OP_HAND && strcmp(chunk->cells[i].op.successor, instance) == 0)
            return true;
    return false;
}

/* Whether one of them is about an instance, and the other hands over to it, or hangs on its session: what comes first
 * decides then. */
static bool is_before(const ten_etcd_chunk *chunk, const ten_op *op) {
    char key[TEN_ETCD_KEY_MAX + 1];
    if (!op->target)
        return is_successor(chunk, op->holder);
    const char *instance = op->kind == TEN_OP_HAND ? op->successor : ten_etcd_wants_session(op) ? op->holder : NULL;
    if (!instance)
        return false;
    ten_etcd_key_of(chunk->store, key, op->namespace_name, TEN_ETCD_INSTANCE, instance);
    return is_in(chunk, key);
}

/* Takes operations from *at on, as many as can be decided together. */
static void fill_chunk(ten_etcd_chunk *chunk, const ten_op *ops, ten_result *results, const bool *settled, size_t count,
                       size_t *at) {
    size_t reads = 3;
    size_t compares = 0; /* of hands: what does not fit into the first transaction would take one more of each */
    chunk->namespace_name = ops[*at].namespace_name;
    for (; *at < count && chunk->count < TEN_ETCD_CELLS_MAX && reads + 6 <= READS_MAX && compares + 4 <= COMPARES_FULL;
         (*at)++) {
        const ten_op *op = &ops[*at];
        if (settled[*at])
            continue;
        ten_etcd_cell *cell = &chunk->cells[chunk->count];
        char key[TEN_ETCD_KEY_MAX + 1];
        ten_etcd_key_of(chunk->store, key, op->namespace_name, op->target ? TEN_ETCD_LEASE : TEN_ETCD_INSTANCE,
                        op->target ? op->target : op->holder);
        /* A token is known only when its transaction has been carried out: what comes after has its own. */
        if (strcmp(op->namespace_name, chunk->namespace_name) != 0 || is_in(chunk, key) || is_before(chunk, op) ||
            (chunk->count > 0 && op->group != chunk->cells[0].op.group)) /* a group has a chunk of its own */
            return;
        *cell = (ten_etcd_cell){.op = *op, .result = &results[*at]};
        memcpy(cell->key, key, sizeof key);
        bool same_holder = chunk->count > 0 && op->kind == TEN_OP_ACQUIRE && cell[-1].op.kind == TEN_OP_ACQUIRE &&
                           strcmp(cell[-1].op.holder, op->holder) == 0;
        bool with_target = (op->flags & TEN_OP_REQUIRE_TARGET) || op->kind == TEN_OP_READ;
        bool with_checkpoint = (op->flags & TEN_OP_WITH_CHECKPOINT) != 0;
        reads += op->target ? 2u + with_target + with_checkpoint + (op->kind == TEN_OP_ACQUIRE && !same_holder) +
                                  ten_etcd_wants_session(op)
                            : 6u;
        if (op->kind == TEN_OP_HAND) {
            size_t more = is_successor(chunk, op->successor) ? 0 : 2;
            reads += more;
            compares += 2 + more;
        }
        chunk->count++;
    }
}

static int apply_rest(ten_etcd_store *store, const ten_op *ops, ten_result *results, const bool *settled, size_t count,
                      uint64_t deadline_ms) {
    size_t at = 0;
    while (at < count && settled[at])
        at++;
    if (at == count)
        return TENURE_OK;
    ten_etcd_chunk *chunk = ten_calloc(1, sizeof *chunk);
    if (!chunk)
        return ten_etcd_no_memory(store);
    chunk->store = store;
    chunk->deadline_ms = deadline_ms;
    int r = TENURE_OK;
    while (r == TENURE_OK && at < count) {
        fill_chunk(chunk, ops, results, settled, count, &at);
        r = apply_chunk(chunk);
        clear_chunk(chunk);
        while (at < count && settled[at])
            at++;
    }
    ten_buf_free(&chunk->changes);
    ten_free(chunk);
    return r;
}

/* A heartbeat that goes on with its session, and what its holder reads with it. */
static bool is_of_session(ten_etcd_store *store, const ten_op *op) {
    char key[TEN_ETCD_KEY_MAX + 1];
    if (op->kind != TEN_OP_ANNOUNCE)
        return op->kind == TEN_OP_READ;
    ten_etcd_key_of(store, key, op->namespace_name, TEN_ETCD_INSTANCE, op->holder);
    const ten_etcd_hold *hold = ten_etcd_hold_find(store, key);
    return hold && hold->group->is_session;
}

/* Without room: what need not write. The others stay unsettled. */
static int apply_of_sessions(ten_etcd_store *store, const ten_op *ops, ten_result *results, bool *settled, size_t count,
                             uint64_t deadline_ms) {
    bool *others = ten_calloc(count, sizeof *others);
    if (!others)
        return ten_etcd_no_memory(store);
    for (size_t i = 0; i < count; i++)
        others[i] = settled[i] || !is_of_session(store, &ops[i]);
    int r = apply_rest(store, ops, results, others, count, deadline_ms);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        settled[i] |= !others[i] && results[i].error != TENURE_E_FULL;
    ten_free(others);
    return r;
}

static int apply_all(ten_etcd_store *store, const ten_op *ops, ten_result *results, bool *settled, size_t count,
                     uint64_t deadline_ms) {
    store->call++;
    ten_etcd_hands_free(store);
    int r = ten_etcd_keep_homes(store, ops, count, deadline_ms);
    if (r == TENURE_OK)
        r = ten_etcd_renew_steady(store, ops, results, settled, count, deadline_ms);
    if (r == TENURE_OK && store->is_full)
        return apply_of_sessions(store, ops, results, settled, count, deadline_ms);
    if (r == TENURE_OK)
        r = apply_rest(store, ops, results, settled, count, deadline_ms);
    if (r == TENURE_OK)
        ten_etcd_learn_revisions(store);
    return r;
}

/* etcd has no room for what this batch would write. What only goes on writes nothing, and goes on; the rest fails. */
static int renew_what_goes_on(ten_etcd_store *store, const ten_op *ops, ten_result *results, bool *settled,
                              size_t count, uint64_t deadline_ms) {
    ten_error error = store->base.error;
    size_t renewed = 0;
    store->is_full = true;
    int r = apply_all(store, ops, results, settled, count, deadline_ms);
    store->is_full = false;
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        renewed += settled[i] && ops[i].kind != TEN_OP_READ;
        if (!settled[i])
            results[i] = (ten_result){.outcome = TEN_ERROR, .error = TENURE_E_FULL};
    }
    store->base.error = error;
    return r == TENURE_OK && renewed > 0 ? TENURE_OK : TENURE_E_FULL;
}

int ten_etcd_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    bool *settled = ten_calloc(count, sizeof *settled);
    if (!settled)
        return ten_etcd_no_memory(store);
    ten_arena_reset(&store->results);
    int r = apply_all(store, ops, results, settled, count, deadline_ms);
    if (r == TENURE_E_FULL) {
        memset(settled, 0, count * sizeof *settled);
        r = renew_what_goes_on(store, ops, results, settled, count, deadline_ms);
    }
    if (r == TENURE_OK && count == 1)
        ten_etcd_reserve_want(store, ops, results, deadline_ms);
    ten_free(settled);
    return r;
}
