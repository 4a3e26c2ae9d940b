/*
 * One operation on one lease in etcd: which keys it reads, what they mean, and what is written. Called by etcd_apply.c.
 */
#include <string.h>

#include "base/json.h"
#include "store/etcd/etcd_cell.h"

#define AHEAD_MS (UINT64_C(366) * 24 * 60 * 60 * 1000) /* of the clock or the floor, for tokens to be believed */

/* ---- reading ----------------------------------------------------------------------------------------------- */

static void get(ten_etcd_chunk *chunk, enum ten_etcd_kind kind, const char *name) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_key_of(chunk->store, key, chunk->namespace_name, kind, name);
    ten_etcd_txn_get(&chunk->store->txn, key);
}

/* Neighbours have the same holder, mostly. */
static void read_holder(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    const ten_etcd_cell *before = cell > chunk->cells ? cell - 1 : NULL;
    if (before && ten_etcd_wants_session(&before->op) && strcmp(before->op.holder, cell->op.holder) == 0) {
        cell->session_at = before->session_at;
        return;
    }
    cell->session_at = chunk->store->txn.operation_count;
    get(chunk, TEN_ETCD_INSTANCE, cell->op.holder);
}

void ten_etcd_lease_reads(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    const ten_etcd_txn *txn = &chunk->store->txn;
    cell->at = txn->operation_count;
    get(chunk, TEN_ETCD_LEASE, cell->op.target);
    get(chunk, TEN_ETCD_FENCE, cell->op.target);
    cell->target_at = cell->gone_at = cell->checkpoint_at = cell->session_at = SIZE_MAX;
    if (ten_etcd_wants_session(&cell->op))
        read_holder(chunk, cell);
    if ((cell->op.flags & TEN_OP_REQUIRE_TARGET) || cell->op.kind == TEN_OP_READ) {
        cell->target_at = txn->operation_count;
        get(chunk, TEN_ETCD_TARGET, cell->op.target);
    }
    if (cell->op.flags & TEN_OP_WITH_CHECKPOINT) {
        cell->checkpoint_at = txn->operation_count;
        get(chunk, TEN_ETCD_CHECKPOINT, cell->op.target);
    }
    if (cell->op.kind == TEN_OP_HAND)
        ten_etcd_hand_reads(chunk, cell);
    if (cell->op.kind != TEN_OP_ACQUIRE)
        return;
    const ten_etcd_cell *before = cell > chunk->cells ? cell - 1 : NULL;
    if (before && before->op.kind == TEN_OP_ACQUIRE && strcmp(before->op.holder, cell->op.holder) == 0) {
        cell->gone_at = before->gone_at;
        return;
    }
    cell->gone_at = txn->operation_count;
    get(chunk, TEN_ETCD_GONE, cell->op.holder);
}

void ten_etcd_lease_take(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    ten_buf *scratch = &chunk->store->scratch;
    ten_etcd_kv_free(&cell->kv);
    ten_etcd_kv_free(&cell->behind);
    cell->kv = ten_etcd_kv_at(chunk->answer, cell->at, scratch);
    cell->behind = ten_etcd_kv_at(chunk->answer, cell->at + 1, scratch);
    if (cell->target_at != SIZE_MAX) {
        ten_etcd_kv target = ten_etcd_kv_at(chunk->answer, cell->target_at, scratch);
        cell->registered = target.revision > 0;
        cell->paused = json_is_true(json_object_get(target.value, "paused"));
        ten_etcd_kv_free(&target);
    }
    if (cell->gone_at != SIZE_MAX) {
        ten_etcd_kv gone = ten_etcd_kv_at(chunk->answer, cell->gone_at, scratch);
        cell->tombstone = gone.revision;
        ten_etcd_kv_free(&gone);
    }
    if (cell->session_at != SIZE_MAX) {
        ten_etcd_kv instance = ten_etcd_kv_at(chunk->answer, cell->session_at, scratch);
        cell->session = ten_etcd_session_read(&instance);
        ten_etcd_kv_free(&instance);
    }
    if (cell->op.kind == TEN_OP_HAND)
        ten_etcd_hand_take(chunk, cell);
}

static bool was_on_session(const ten_etcd_kv *lease) {
    return lease->lease && json_is_true(json_object_get(lease->value, "session"));
}

static bool was_held(const ten_etcd_kv *fence) {
    return json_is_true(json_object_get(fence->value, "held"));
}

static uint64_t token_of(const ten_etcd_kv *kv, uint64_t implied) {
    uint64_t token = ten_etcd_number(kv->value, "token");
    return token ? token : implied;
}

bool ten_etcd_has_vanished(const ten_etcd_chunk *chunk, const ten_etcd_kv *lease, const ten_etcd_kv *fence) {
    return lease->revision == 0 && was_held(fence) && ten_etcd_number(fence->value, "term") != chunk->head.term &&
           chunk->wait.revision > 0;
}

const char *ten_etcd_reserved_for(const ten_etcd_kv *lease, const ten_etcd_kv *fence) {
    const char *successor = json_string_value(json_object_get(fence->value, "handed"));
    return lease->revision == 0 && successor && successor[0] ? successor : NULL;
}

uint64_t ten_etcd_lease_of(const ten_etcd_kv *lease, const ten_etcd_kv *fence) {
    return ten_etcd_reserved_for(lease, fence) ? ten_etcd_number(fence->value, "lease") : lease->lease;
}

/* A key that somebody else put there, whatever it is, is a lease that others hold: nobody may enter. */
static const char *holder_of(const json_t *value) {
    const char *holder = json_string_value(json_object_get(value, "holder"));
    return holder && holder[0] ? holder : "?";
}

void ten_etcd_row_read(const ten_etcd_kv *lease, const ten_etcd_kv *fence, uint64_t now_ms, uint64_t left_ms,
                       ten_lease_row *row) {
    *row = (ten_lease_row){.exists = lease->revision > 0 || fence->revision > 0};
    if (lease->revision > 0) {
        snprintf(row->holder, sizeof row->holder, "%.255s", holder_of(lease->value));
        row->token = token_of(lease, lease->created);
        row->ttl_ms = ten_etcd_number(lease->value, "ttl_ms");
        row->acquired_at_ms = ten_etcd_number(lease->value, "acquired_at_ms");
        row->barred = !lease->value || json_is_true(json_object_get(lease->value, "barred"));
        row->ask = (enum ten_ask)ten_etcd_number(lease->value, "ask");
        row->ends_ms = now_ms + ten_max_u64(left_ms, 1);
        row->session = was_on_session(lease) ? ten_etcd_session_number(lease->lease) : 0;
    } else if (fence->revision > 0) {
        row->token = token_of(fence, fence->revision);
        const char *successor = left_ms > 0 ? ten_etcd_reserved_for(lease, fence) : NULL;
        if (successor) {
            snprintf(row->holder, sizeof row->holder, "%.255s", successor);
            row->ttl_ms = ten_etcd_number(fence->value, "ttl_ms");
            row->ends_ms = now_ms + left_ms;
        } else if (was_held(fence))
            snprintf(row->holder, sizeof row->holder, "%.255s", holder_of(fence->value));
        row->barred = json_is_true(json_object_get(fence->value, "barred"));
    }
}

/* ---- deciding ---------------------------------------------------------------------------------------------- */

static enum ten_etcd_write write_for(const ten_etcd_cell *cell, bool barred_before) {
    if (cell->result->outcome != TEN_OK)
        return TEN_ETCD_NOTHING;
    switch (cell->op.kind) {
    case TEN_OP_ACQUIRE:
    case TEN_OP_RENEW: /* what is on the session goes on with that */
        return cell->row.session && !cell->effect.row_changed ? TEN_ETCD_NOTHING : TEN_ETCD_ATTACH;
    case TEN_OP_RELEASE:
        if ((cell->op.flags & TEN_OP_FORCE) && !(cell->op.flags & TEN_OP_FORCE_NOW))
            return barred_before ? TEN_ETCD_NOTHING : TEN_ETCD_BAR;
        return TEN_ETCD_REMOVE;
    case TEN_OP_HAND:
        return cell->passes ? TEN_ETCD_PASS : cell->effect.released ? TEN_ETCD_RESERVE : TEN_ETCD_NOTHING;
    case TEN_OP_ASK:
        return TEN_ETCD_ASK;
    case TEN_OP_CHECKPOINT:
        return TEN_ETCD_KEEP;
    case TEN_OP_READ:
    case TEN_OP_ANNOUNCE:
    case TEN_OP_LEAVE:
        break;
    }
    return TEN_ETCD_NOTHING;
}

static bool is_granted(const ten_etcd_cell *cell) {
    return cell->effect.acquired && (cell->op.kind == TEN_OP_ACQUIRE || cell->passes);
}

/* The token of a new grant is the revision at which it will be written, unless there were higher ones: after an epoch
 * they are written out. */
static bool has_new_token(const ten_etcd_cell *cell) {
    return is_granted(cell) && !cell->named;
}

static void choose_token(const ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    uint64_t least = ten_max_u64(cell->row.token, chunk->identity.forgot + 1);
    cell->named = is_granted(cell) && chunk->head.revision + 1 < least;
    if (!cell->named)
        return;
    cell->row.token = cell->result->token = least;
    if (least > TENURE_TOKEN_MAX)
        *cell->result = (ten_result){.outcome = TEN_ERROR, .error = TENURE_E_TOKEN};
}

/* After an epoch tokens start at the wall clock in ms; revisions are far below it. A number beyond is a mistake, which
 * would use the target up. */
static bool is_plausible(const ten_etcd_chunk *chunk, uint64_t token, uint64_t wall_ms) {
    return token <= ten_max_u64(wall_ms, chunk->identity.floor) + AHEAD_MS;
}

/* A renewal that says for whom, for how long and under which token, and the token was granted by a store that knew more
 * than this one. One from below the floor is of an earlier epoch: that loss is known. */
static bool shows_loss(ten_etcd_chunk *chunk, const ten_etcd_cell *cell, uint64_t wall_ms) {
    const ten_op *op = &cell->op;
    if (op->kind != TEN_OP_RENEW || !op->holder || op->ttl_ms == 0 || chunk->in_epoch || op->token <= cell->row.token ||
        op->token < chunk->identity.floor || !is_plausible(chunk, op->token, wall_ms))
        return false;
    chunk->shown_token = ten_max_u64(chunk->shown_token, op->token);
    if (!(op->flags & TEN_OP_KEEP))
        chunk->shown_ttl_ms = ten_max_u64(chunk->shown_ttl_ms, op->ttl_ms);
    return true;
}

static void tell_feed(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    ten_change changes[TEN_LEASE_CHANGES_MAX];
    size_t count = ten_lease_row_changes(&cell->row, &cell->op, &cell->effect, changes);
    for (size_t i = 0; i < count; i++) {
        if (changes[i].kind == TENURE_EVENT_ACQUIRED && has_new_token(cell))
            changes[i].token = 0;
        ten_etcd_change(chunk, &changes[i]);
    }
}

/* What the shared rules are to know of the epoch. */
static void read_epoch(const ten_etcd_chunk *chunk, ten_etcd_cell *cell, ten_lease_context *context) {
    bool vanished = ten_etcd_has_vanished(chunk, &cell->kv, &cell->behind);
    bool mistaken = cell->op.kind == TEN_OP_RENEW && !is_plausible(chunk, cell->op.token, context->wall_ms);
    context->token_floor = chunk->identity.floor;
    if ((chunk->in_epoch || vanished) && !mistaken)
        context->recovering_ms = ten_max_u64(chunk->wait_left_ms, 1);
    if (cell->row.exists)
        return;
    /* Its fence may have been removed: its last token is not known, but the highest that was forgotten is. */
    if (cell->op.kind == TEN_OP_RENEW)
        cell->row.token = chunk->identity.forgot;
    else if (cell->op.kind == TEN_OP_READ && chunk->identity.forgot)
        context->token_floor = ten_max_u64(context->token_floor, chunk->identity.forgot + 1);
}

/* The operation, and a target that is reserved for a successor, as the shared rules are to see them. The successor takes
 * it as one that is free; and nobody has been granted a token yet under which it could be renewed. */
static void settle_operation(ten_etcd_cell *cell, ten_lease_row *row) {
    const char *successor = ten_etcd_reserved_for(&cell->kv, &cell->behind);
    bool takes = successor && cell->op.kind == TEN_OP_ACQUIRE && strcmp(successor, cell->op.holder) == 0;
    if (takes || (successor && (cell->op.kind == TEN_OP_ASK || cell->op.kind == TEN_OP_RENEW)))
        row->holder[0] = '\0';
    ten_etcd_take_back(cell, row);
    bool own = cell->op.kind == TEN_OP_ACQUIRE && cell->kv.revision > 0 && strcmp(row->holder, cell->op.holder) == 0;
    if (own && cell->granted)
        cell->op.flags &= ~(unsigned)TEN_OP_FRESH; /* this very call has got it */
    if (own && row->session == 0)                  /* never shortened */
        cell->op.ttl_ms = ten_max_u64(cell->op.ttl_ms, row->ttl_ms);
}

/* As it was read with the lease, in the same transaction; what is written afterwards compares the lease. */
static int take_checkpoint(const ten_etcd_chunk *chunk, const ten_etcd_cell *cell, ten_result *result) {
    ten_etcd_store *store = chunk->store;
    if (cell->checkpoint_at == SIZE_MAX || result->outcome != TEN_OK)
        return TENURE_OK;
    ten_etcd_kv kv = ten_etcd_kv_at(chunk->answer, cell->checkpoint_at, &store->scratch);
    const char *value = json_string_value(json_object_get(kv.value, "value"));
    result->checkpoint = value ? ten_arena_text(&store->results, value) : NULL;
    result->checkpoint_token = ten_etcd_number(kv.value, "token");
    bool failed = value && !result->checkpoint;
    ten_etcd_kv_free(&kv);
    return failed ? ten_etcd_no_memory(store) : TENURE_OK;
}

/* What is left of what was read, as far as it was asked for. */
static uint64_t left_of(const ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    uint64_t lease = ten_etcd_lease_of(&cell->kv, &cell->behind);
    uint64_t known_ms = ten_etcd_session_left_ms(chunk->store, lease);
    uint64_t ttl_ms = ten_etcd_number(cell->kv.value, "ttl_ms");
    return ten_etcd_left_of(chunk, lease,
                            known_ms ? known_ms : ten_max_u64(ttl_ms, ten_etcd_handed_ms(chunk->store, lease)));
}

/* The end of what its own holder acquires. */
static void settle_end(ten_etcd_cell *cell, ten_lease_context *context) {
    bool own = cell->kv.revision > 0 && cell->op.kind == TEN_OP_ACQUIRE && cell->row.ends_ms > context->now_ms &&
               strcmp(cell->row.holder, cell->op.holder) == 0;
    bool joins = context->session.id && context->session.ends_ms >= cell->row.ends_ms;
    if (!own || cell->row.session || joins)
        return;
    context->session = (ten_session){0};
    cell->row.ends_ms = context->now_ms + 1; /* so that it is extended: what etcd says is left is not believed */
}

int ten_etcd_lease_decide(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    ten_etcd_store *store = chunk->store;
    ten_result *result = cell->result;
    ten_lease_context context = {.now_ms = ten_boot_ms(store->base.clock), .wall_ms = ten_wall_ms(store->base.clock)};
    *result = (ten_result){0};
    cell->write = TEN_ETCD_NOTHING;
    cell->named = false;
    cell->home = NULL;
    cell->passes = false;
    cell->own_lease = 0;
    cell->kept_ms = ten_etcd_number(cell->kv.value, "kept_ms");
    ten_etcd_row_read(&cell->kv, &cell->behind, context.now_ms, left_of(chunk, cell), &cell->row);
    if ((cell->op.flags & TEN_OP_REQUIRE_TARGET) && !cell->registered && !cell->row.exists) {
        result->outcome = TEN_UNKNOWN;
        return TENURE_OK;
    }
    if (cell->tombstone) {
        result->error = TENURE_E_GONE;
        return TENURE_OK;
    }
    bool barred_before = cell->row.barred;
    settle_operation(cell, &cell->row);
    read_epoch(chunk, cell, &context);
    context.withheld = chunk->withheld;
    if (shows_loss(chunk, cell, context.wall_ms))
        return TENURE_OK; /* nothing is written in this round */
    int r = ten_etcd_session_offer(chunk, cell, &context);
    if (r < 0)
        return r;
    settle_end(cell, &context);
    if (cell->op.kind == TEN_OP_HAND)
        ten_etcd_hand_decide(chunk, cell, &context);
    else
        ten_lease_row_apply(&cell->row, &cell->op, &context, result, &cell->effect);
    ten_etcd_tell_former(cell);
    choose_token(chunk, cell);
    result->registered = cell->registered;
    result->paused = cell->registered && cell->paused;
    if (result->holder && !(result->holder = ten_arena_text(&store->results, result->holder)))
        return ten_etcd_no_memory(store);
    cell->write = write_for(cell, barred_before);
    if (cell->write == TEN_ETCD_ATTACH && !(cell->op.flags & TEN_OP_KEEP) && cell->row.ttl_ms > chunk->longest_ms) {
        chunk->longest_ms = cell->row.ttl_ms;
        chunk->raised = true;
    }
    if (cell->write != TEN_ETCD_NOTHING && cell->write != TEN_ETCD_RESERVE)
        tell_feed(chunk, cell);
    return take_checkpoint(chunk, cell, result);
}

/* ---- writing ----------------------------------------------------------------------------------------------- */

static void write_lease_value(ten_buf *value, const ten_etcd_cell *cell) {
    const ten_lease_row *row = &cell->row;
    bool implied = has_new_token(cell) || (cell->kv.revision > 0 && cell->kv.created == row->token);
    ten_buf_clear(value);
    ten_json_open(value);
    ten_json_text(value, "holder", row->holder);
    ten_json_number(value, "ttl_ms", row->ttl_ms);
    ten_json_number(value, "acquired_at_ms", row->acquired_at_ms);
    if (row->barred)
        ten_json_bool(value, "barred", true);
    if (row->ask)
        ten_json_number(value, "ask", row->ask);
    if (row->session)
        ten_json_bool(value, "session", true);
    if (cell->kept_ms)
        ten_json_number(value, "kept_ms", cell->kept_ms);
    if (!implied)
        ten_json_number(value, "token", row->token);
    ten_json_close(value);
}

void ten_etcd_write_fence(ten_buf *value, bool held, const char *holder, uint64_t term, uint64_t lease) {
    ten_buf_clear(value);
    ten_json_open(value);
    ten_json_bool(value, "held", held);
    ten_json_text(value, "holder", holder);
    ten_json_number(value, "term", term);
    ten_json_number(value, "lease", lease);
}

static void put_fence(ten_etcd_chunk *chunk, ten_etcd_cell *cell, bool held, uint64_t term, uint64_t lease) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_buf *value = &chunk->store->value;
    bool leaves = cell->row.holder[0] == '\0' || cell->write == TEN_ETCD_RESERVE;
    ten_etcd_write_fence(value, held, leaves ? cell->effect.former_holder : cell->row.holder, term, lease);
    if (cell->row.barred)
        ten_json_bool(value, "barred", true);
    if (cell->write == TEN_ETCD_RESERVE) {
        ten_json_text(value, "handed", cell->op.successor);
        ten_json_number(value, "from", cell->op.token);
        ten_json_text(value, "reason", ten_reason_name(cell->op.reason));
        ten_json_number(value, "ttl_ms", cell->row.ttl_ms);
    }
    if (!has_new_token(cell))
        ten_json_number(value, "token", cell->row.token);
    ten_json_close(value);
    ten_etcd_key_of(chunk->store, key, chunk->namespace_name, TEN_ETCD_FENCE, cell->op.target);
    if (cell->write == TEN_ETCD_RESERVE) {
        json_decref(cell->fence);
        cell->fence = json_loads(ten_buf_string(value), 0, NULL);
    }
    if (cell->foretold && cell->foretold[0])
        ten_etcd_txn_compare_value(&chunk->store->txn, key, cell->foretold);
    else if (!cell->foretold)
        ten_etcd_txn_compare(&chunk->store->txn, key, cell->behind.revision);
    ten_etcd_txn_put(&chunk->store->txn, key, ten_buf_string(value), 0);
}

static void put_lease(ten_etcd_chunk *chunk, ten_etcd_cell *cell, uint64_t lease) {
    write_lease_value(&chunk->store->value, cell);
    ten_etcd_txn_put(&chunk->store->txn, cell->key, ten_buf_string(&chunk->store->value), lease);
    cell->wrote = true;
}

/* A holder that is declared gone meanwhile gets nothing any more. */
static void compare_tombstone(ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    char key[TEN_ETCD_KEY_MAX + 1];
    if (cell->op.kind != TEN_OP_ACQUIRE)
        return;
    ten_etcd_key_of(chunk->store, key, chunk->namespace_name, TEN_ETCD_GONE, cell->op.holder);
    ten_etcd_txn_compare(&chunk->store->txn, key, 0);
}

/* A token that is no revision was chosen above what the namespace has forgotten: it counts only if nothing has been
 * forgotten since. The target may have been leased and forgotten meanwhile, and then it has no fence again. */
static void compare_forgotten(ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    char key[TEN_ETCD_KEY_MAX + 1];
    if (!cell->named || cell->behind.revision > 0)
        return;
    ten_etcd_key_of(chunk->store, key, chunk->namespace_name, TEN_ETCD_EPOCH, NULL);
    ten_etcd_txn_compare(&chunk->store->txn, key, chunk->epoch.revision);
}

/* For how long the lease must be kept at least: its holder may believe in it until the end of the session that it
 * leaves, or has left. What etcd says is left of that is not believed. */
static uint64_t least_ms(const ten_etcd_cell *cell) {
    bool left = cell->op.kind == TEN_OP_ACQUIRE && ten_etcd_number(cell->kv.value, "kept_ms") > 0;
    return left || was_on_session(&cell->kv) ? ten_etcd_longest_ms(&cell->kv) : 0;
}

static int attach_for(ten_etcd_chunk *chunk, ten_etcd_cell *cell, uint64_t kept_ms) {
    int r = ten_etcd_grant(chunk->store, kept_ms, chunk->deadline_ms, &cell->own_lease);
    if (r < 0)
        return r;
    cell->kept_ms = kept_ms;
    put_lease(chunk, cell, cell->own_lease);
    put_fence(chunk, cell, true, chunk->head.term, cell->own_lease);
    return TENURE_OK;
}

/* It counts from the last heartbeat: nothing is kept alive here. */
static void attach_to_session(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    put_lease(chunk, cell, cell->session.lease);
    put_fence(chunk, cell, true, cell->session.term, cell->session.lease);
    compare_forgotten(chunk, cell);
}

static int attach(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    compare_tombstone(chunk, cell);
    cell->kept_ms = 0;
    /* A holder that believes in what it lost to a hand is told. */
    if (cell->kv.revision == 0 && was_held(&cell->behind))
        ten_etcd_touch_other(chunk, ten_etcd_number(cell->behind.value, "lease"));
    if (cell->row.session) {
        attach_to_session(chunk, cell);
        return TENURE_OK;
    }
    if (least_ms(cell) > cell->row.ttl_ms)
        return attach_for(chunk, cell, least_ms(cell));
    if (is_granted(cell))
        cell->home = ten_etcd_reserve_of(chunk->store, chunk->namespace_name, cell->row.holder, cell->row.ttl_ms);
    int r = cell->home ? TENURE_OK
                       : ten_etcd_home(chunk->store, chunk->namespace_name, cell->row.holder, cell->row.ttl_ms,
                                       chunk->deadline_ms, &cell->home);
    if (r < 0)
        return r;
    bool there = !cell->effect.acquired && cell->kv.lease == cell->home->lease &&
                 ten_etcd_number(cell->kv.value, "ttl_ms") == cell->row.ttl_ms;
    if (there)
        return TENURE_OK;
    put_lease(chunk, cell, cell->home->lease);
    put_fence(chunk, cell, true, cell->home->term, cell->home->lease);
    compare_forgotten(chunk, cell);
    return TENURE_OK;
}

/* Kept until whoever held it cannot believe in it any more, by an etcd lease that its holder does not keep alive. */
static int bar(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    uint64_t lease = ten_etcd_lease_of(&cell->kv, &cell->behind);
    uint64_t longest_ms = ten_max_u64(cell->row.ttl_ms, cell->kept_ms);
    uint64_t left_ms = ten_min_u64(ten_etcd_left_of(chunk, lease, cell->row.ttl_ms) + 1000, longest_ms);
    int r = ten_etcd_grant(chunk->store, left_ms, chunk->deadline_ms, &cell->own_lease);
    if (r < 0)
        return r;
    put_lease(chunk, cell, cell->own_lease);
    put_fence(chunk, cell, true, chunk->store->head.term, cell->own_lease);
    return TENURE_OK;
}

/* See etcd_hand.c. */
static int reserve(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    uint64_t lease = 0, term = 0;
    int r = ten_etcd_hand_lease(chunk, cell, &lease, &term);
    if (r < 0)
        return r;
    ten_etcd_compare_successor(chunk, cell);
    ten_etcd_txn_delete(&chunk->store->txn, cell->key);
    put_fence(chunk, cell, false, term, lease);
    cell->wrote = true;
    return TENURE_OK;
}

static void pass(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    uint64_t lease = ten_etcd_number(cell->behind.value, "lease");
    put_lease(chunk, cell, lease);
    put_fence(chunk, cell, true, ten_etcd_number(cell->behind.value, "term"), lease);
}

/* The comparison of the lease's key is the fence: whoever is not its holder any more changes nothing. */
static void keep(ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_buf *value = &chunk->store->value;
    ten_etcd_key_of(chunk->store, key, chunk->namespace_name, TEN_ETCD_CHECKPOINT, cell->op.target);
    if (cell->op.checkpoint[0] == '\0') {
        ten_etcd_txn_delete(&chunk->store->txn, key);
        return;
    }
    ten_buf_clear(value);
    ten_json_open(value);
    ten_json_number(value, "token", cell->op.token);
    ten_json_text(value, "value", cell->op.checkpoint);
    ten_json_close(value);
    ten_etcd_txn_put(&chunk->store->txn, key, ten_buf_string(value), 0);
}

/* The key has been written: whoever keeps alive what it was attached to is told, unless it did it itself. */
static void tell_holder(ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    if (was_on_session(&cell->kv)) {
        if (cell->effect.touched_session)
            ten_etcd_touch_lease(chunk, cell->kv.lease);
        return;
    }
    if (cell->kv.lease == 0 || ten_etcd_group_by_lease(chunk->store, cell->kv.lease))
        return;
    ten_etcd_touch_lease(chunk, cell->kv.lease);
    if (cell->write != TEN_ETCD_ASK && chunk->left_count < TEN_COUNT(chunk->left))
        chunk->left[chunk->left_count++] = cell->kv.lease;
}

int ten_etcd_lease_write(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    int r = TENURE_OK;
    cell->wrote = false;
    if (cell->write == TEN_ETCD_NOTHING)
        return TENURE_OK;
    ten_etcd_txn_compare(&chunk->store->txn, cell->key, cell->kv.revision);
    if (cell->write == TEN_ETCD_ATTACH)
        r = attach(chunk, cell);
    else if (cell->write == TEN_ETCD_BAR)
        r = bar(chunk, cell);
    else if (cell->write == TEN_ETCD_ASK)
        put_lease(chunk, cell, cell->kv.lease);
    else if (cell->write == TEN_ETCD_KEEP)
        keep(chunk, cell);
    else if (cell->write == TEN_ETCD_RESERVE)
        r = reserve(chunk, cell);
    else if (cell->write == TEN_ETCD_PASS)
        pass(chunk, cell);
    if (cell->write == TEN_ETCD_REMOVE) {
        ten_etcd_txn_delete(&chunk->store->txn, cell->key);
        put_fence(chunk, cell, false, 0, 0);
        cell->wrote = true;
    }
    if (r == TENURE_OK && cell->wrote)
        tell_holder(chunk, cell);
    return r;
}

void ten_etcd_lease_written(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    ten_etcd_store *store = chunk->store;
    if (has_new_token(cell))
        cell->result->token = store->head.revision;
    ten_etcd_hold *hold = NULL;
    if (cell->write == TEN_ETCD_NOTHING)
        ten_etcd_hold_doubt(store, cell->key, &cell->kv);
    else if (cell->write == TEN_ETCD_ATTACH && cell->home)
        hold = ten_etcd_hold_set(store, cell->home, cell->key);
    else if (cell->write == TEN_ETCD_ASK || cell->write == TEN_ETCD_KEEP)
        hold = ten_etcd_hold_find(store, cell->key);
    else
        ten_etcd_hold_drop(store, cell->key);
    if (cell->write == TEN_ETCD_RESERVE)
        ten_etcd_hand_written(chunk, cell);
    if (!hold)
        return;
    hold->revision = cell->wrote ? store->head.revision : cell->kv.revision;
    hold->token = cell->write == TEN_ETCD_ATTACH ? cell->result->token : cell->row.token;
    hold->ask = cell->row.ask;
}
