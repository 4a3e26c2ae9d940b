/*
 * Handing a lease over in etcd. A token is the revision at which the key of its lease was created, and one transaction
 * cannot delete a key and create it, so a hand takes two steps:
 *  1. The key is deleted, so that the old token fits nothing any more, and the fence says for whom the target is
 *     reserved and by which etcd lease ("handed", "lease"). An acquire compares the fence: as long as that etcd lease
 *     is there, only the successor gets the target.
 *  2. A key of the successor is created, attached to that etcd lease, which nobody keeps alive, and the feed tells of
 *     both: had it told of the first, successors would come and get in the way of the second.
 * An acquire of the successor does the same as the second step, and attaches the key to what the successor keeps alive.
 * If the first step was the last thing that its sender did, the target is the successor's when it acquires, or free when
 * the etcd lease ends; whoever writes next tells the feed of the release. The same operation, sent again, goes on with
 * the second step; a release by the former holder takes the reservation back. Called by etcd_lease.c and etcd_apply.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_cell.h"

/* An etcd lease for what one call hands over to one successor. */
struct ten_etcd_handed {
    ten_etcd_handed *next;
    char *namespace_name;
    char *successor;
    uint64_t ttl_ms; /* that was asked for; it may end earlier */
    uint64_t lease;
    uint64_t term;
    uint64_t ends_ms; /* boot clock */
};

/* ---- etcd leases ------------------------------------------------------------------------------------------- */

static void free_handed(ten_etcd_handed *handed) {
    ten_free(handed->namespace_name);
    ten_free(handed->successor);
    ten_free(handed);
}

void ten_etcd_hands_free(ten_etcd_store *store) {
    while (store->handed) {
        ten_etcd_handed *handed = store->handed;
        store->handed = handed->next;
        free_handed(handed);
    }
}

static uint64_t left_of(const ten_etcd_store *store, const ten_etcd_handed *handed) {
    return ten_sub_saturating(handed->ends_ms, ten_boot_ms(store->base.clock));
}

uint64_t ten_etcd_handed_ms(const ten_etcd_store *store, uint64_t lease) {
    for (const ten_etcd_handed *handed = store->handed; handed; handed = handed->next)
        if (handed->lease == lease)
            return left_of(store, handed);
    return 0;
}

static ten_etcd_handed *find(const ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    for (ten_etcd_handed *handed = chunk->store->handed; handed; handed = handed->next)
        if (handed->ttl_ms == cell->op.ttl_ms && handed->term == chunk->head.term &&
            left_of(chunk->store, handed) > 0 && strcmp(handed->successor, cell->op.successor) == 0 &&
            strcmp(handed->namespace_name, chunk->namespace_name) == 0)
            return handed;
    return NULL;
}

uint64_t ten_etcd_hand_known_ms(const ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    const ten_etcd_handed *handed = find(chunk, cell);
    return handed ? left_of(chunk->store, handed) : 0;
}

/* It ends with the successor's heartbeat at the latest, by etcd's whole seconds. */
static int grant(ten_etcd_chunk *chunk, const ten_etcd_cell *cell, ten_etcd_handed **ret_handed) {
    ten_etcd_store *store = chunk->store;
    uint64_t lease = 0;
    uint64_t lasts_ms = ten_min_u64(cell->op.ttl_ms, ten_etcd_successor_ms(chunk, cell));
    int r = ten_etcd_grant(store, lasts_ms, chunk->deadline_ms, &lease);
    if (r < 0)
        return r;
    ten_etcd_handed *handed = ten_calloc(1, sizeof *handed);
    if (!handed)
        return ten_etcd_no_memory(store);
    *handed = (ten_etcd_handed){.next = store->handed,
                                .namespace_name = ten_strdup(chunk->namespace_name),
                                .successor = ten_strdup(cell->op.successor),
                                .ttl_ms = cell->op.ttl_ms,
                                .lease = lease,
                                .term = store->head.term,
                                .ends_ms = ten_boot_ms(store->base.clock) + lasts_ms};
    if (!handed->namespace_name || !handed->successor) {
        free_handed(handed);
        return ten_etcd_no_memory(store);
    }
    store->handed = *ret_handed = handed;
    return TENURE_OK;
}

int ten_etcd_hand_lease(ten_etcd_chunk *chunk, ten_etcd_cell *cell, uint64_t *ret_lease, uint64_t *ret_term) {
    ten_etcd_handed *handed = find(chunk, cell);
    int r = handed ? TENURE_OK : grant(chunk, cell, &handed);
    if (r < 0)
        return r;
    *ret_lease = handed->lease;
    *ret_term = handed->term;
    return TENURE_OK;
}

/* ---- the successor ----------------------------------------------------------------------------------------- */

static void key_of(const ten_etcd_chunk *chunk, char key[TEN_ETCD_KEY_MAX + 1], enum ten_etcd_kind kind,
                   const ten_etcd_cell *cell) {
    ten_etcd_key_of(chunk->store, key, chunk->namespace_name, kind, cell->op.successor);
}

static bool same_successor(const ten_etcd_cell *a, const ten_etcd_cell *b) {
    return a->op.kind == TEN_OP_HAND && b->op.kind == TEN_OP_HAND && strcmp(a->op.successor, b->op.successor) == 0;
}

void ten_etcd_hand_reads(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_txn *txn = &chunk->store->txn;
    for (const ten_etcd_cell *before = chunk->cells; before < cell; before++)
        if (same_successor(before, cell)) {
            cell->successor_at = before->successor_at;
            return;
        }
    cell->successor_at = txn->operation_count;
    key_of(chunk, key, TEN_ETCD_INSTANCE, cell);
    ten_etcd_txn_get(txn, key);
    key_of(chunk, key, TEN_ETCD_GONE, cell);
    ten_etcd_txn_get(txn, key);
}

void ten_etcd_hand_take(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    ten_buf *scratch = &chunk->store->scratch;
    ten_etcd_kv_free(&cell->successor);
    cell->successor = ten_etcd_kv_at(chunk->answer, cell->successor_at, scratch);
    ten_etcd_kv gone = ten_etcd_kv_at(chunk->answer, cell->successor_at + 1, scratch);
    cell->successor_gone = gone.revision > 0;
    ten_etcd_kv_free(&gone);
}

uint64_t ten_etcd_successor_ms(const ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    uint64_t left_ms = ten_etcd_left_of(chunk, cell->successor.lease, ten_etcd_hand_known_ms(chunk, cell));
    return ten_etcd_ready_ms(&cell->successor, cell->successor_gone, ten_boot_ms(chunk->store->base.clock), left_ms);
}

void ten_etcd_compare_successor(ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    char key[TEN_ETCD_KEY_MAX + 1];
    for (const ten_etcd_cell *before = chunk->cells; before < cell; before++)
        if (!before->settled && before->write == TEN_ETCD_RESERVE && same_successor(before, cell))
            return;
    key_of(chunk, key, TEN_ETCD_INSTANCE, cell);
    ten_etcd_txn_compare(&chunk->store->txn, key, cell->successor.revision);
    key_of(chunk, key, TEN_ETCD_GONE, cell);
    ten_etcd_txn_compare(&chunk->store->txn, key, 0);
}

/* ---- deciding ---------------------------------------------------------------------------------------------- */

/* Who has reserved the target for its successor, and under which token it was held. */
static const char *former_of(const ten_etcd_kv *fence, uint64_t *ret_token) {
    const char *holder = json_string_value(json_object_get(fence->value, "holder"));
    *ret_token = ten_etcd_number(fence->value, "from");
    return holder ? holder : "?";
}

static bool is_by_former(const ten_etcd_cell *cell) {
    uint64_t token;
    const char *holder = former_of(&cell->behind, &token);
    return token == cell->op.token && (!cell->op.holder || strcmp(holder, cell->op.holder) == 0);
}

/* Whether it is this very operation that has reserved the target, in this call or in an earlier one. */
static bool is_resumed(const ten_etcd_cell *cell) {
    const char *successor = ten_etcd_reserved_for(&cell->kv, &cell->behind);
    return cell->row.holder[0] && successor && strcmp(successor, cell->op.successor) == 0 && is_by_former(cell);
}

void ten_etcd_take_back(const ten_etcd_cell *cell, ten_lease_row *row) {
    bool forced = (cell->op.flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW)) != 0;
    if (cell->op.kind != TEN_OP_RELEASE || forced || row->holder[0] == '\0' ||
        !ten_etcd_reserved_for(&cell->kv, &cell->behind) || !is_by_former(cell))
        return;
    snprintf(row->holder, sizeof row->holder, "%.255s", former_of(&cell->behind, &row->token));
}

void ten_etcd_tell_former(ten_etcd_cell *cell) {
    ten_lease_effect *effect = &cell->effect;
    bool tells = effect->acquired || effect->released || effect->lost;
    if (!tells || !ten_etcd_reserved_for(&cell->kv, &cell->behind))
        return;
    if (effect->acquired) {
        effect->released = true;
        effect->reason = ten_reason_parse(json_string_value(json_object_get(cell->behind.value, "reason")));
    }
    snprintf(effect->former_holder, sizeof effect->former_holder, "%.255s",
             former_of(&cell->behind, &effect->former_token));
    /* What others have been told of the reservation. */
    cell->row.token = ten_max_u64(cell->row.token, ten_etcd_number(cell->behind.value, "token"));
}

/* The second step: the target is granted like one that is free. */
static void pass(ten_etcd_cell *cell, const ten_lease_context *context) {
    uint64_t ends_ms = cell->row.ends_ms;
    ten_op op = {.kind = TEN_OP_ACQUIRE, .holder = cell->op.successor, .ttl_ms = cell->row.ttl_ms};
    cell->row.holder[0] = '\0';
    ten_lease_row_apply(&cell->row, &op, context, cell->result, &cell->effect);
    cell->row.ends_ms = ends_ms;
    cell->result->remaining_ms = ten_sub_saturating(ends_ms, context->now_ms);
    cell->passes = true;
}

/* What was written is what would be read next. */
void ten_etcd_hand_written(const ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    cell->reserved = true;
    ten_etcd_kv_free(&cell->kv);
    ten_etcd_kv_free(&cell->behind);
    cell->kv = (ten_etcd_kv){0};
    cell->behind = (ten_etcd_kv){.revision = chunk->store->head.revision, .value = cell->fence};
    cell->fence = NULL;
}

/* Somebody came between the steps: the successor, which has it, or a forced release. */
static void describe(ten_etcd_cell *cell, const ten_lease_context *context) {
    ten_op op = {.kind = TEN_OP_READ};
    bool successor =
        ten_lease_row_is_held(&cell->row, context->now_ms) && strcmp(cell->row.holder, cell->op.successor) == 0;
    ten_lease_row_apply(&cell->row, &op, context, cell->result, &cell->effect);
    cell->result->outcome = successor ? TEN_OK : TEN_LOST;
}

void ten_etcd_hand_decide(ten_etcd_chunk *chunk, ten_etcd_cell *cell, const ten_lease_context *context) {
    ten_lease_context known = *context;
    if (is_resumed(cell) && context->recovering_ms == 0) {
        pass(cell, context);
    } else if (cell->reserved) {
        describe(cell, context);
    } else {
        known.successor_ms = ten_etcd_successor_ms(chunk, cell);
        ten_lease_row_apply(&cell->row, &cell->op, &known, cell->result, &cell->effect);
        cell->effect.acquired = false; /* that is the second step's */
    }
}
