/*
 * Waiting for a target that another instance holds, so that the acquire after its release is one request. Whoever was
 * refused, and watches, gets ready for that:
 *  - An etcd lease is granted in advance (a reserve). It lasts for half a TTL longer than what is to be attached to it,
 *    and is used as long as a whole TTL of it is left. What was attached to it moves to a group with the first renewal.
 *  - What was read when the acquire was refused is remembered. A release writes a fence that can be foretold, so the next
 *    acquire sends what it would write at once, with the comparison that the fence is just that one and everything else
 *    as it was. If it is not, the same request brings what had to be read anyway.
 * And the holder releases with one request, too: it compares the key with what it wrote itself.
 * Called by etcd_apply.c and etcd_feed.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "store/etcd/etcd_cell.h"

#define WAITS_MAX  64u
#define TTL_MIN_MS 4000u /* with a shorter one, what is granted in advance is too old before it is kept alive */
#define KEEP_MS    1000u /* for keeping a reserve alive, while nothing else is to do */

struct ten_etcd_waiting {
    ten_buf fence; /* what a release by the holder will write */
    ten_etcd_head head;
    uint64_t term_revision;
    uint64_t wait_revision;
    uint64_t epoch_revision;
    uint64_t longest_ms;
    ten_etcd_identity identity;
};

/* ---- reserves ---------------------------------------------------------------------------------------------- */

static uint64_t slack_ms(uint64_t ttl_ms) {
    return ttl_ms / 2;
}

static bool is_reserve(const ten_etcd_group *group, const char *namespace_name, const char *holder, uint64_t ttl_ms) {
    return group->reserve_ms && group->count == 0 && !group->uncertain && group->ttl_ms == ttl_ms &&
           strcmp(group->holder, holder) == 0 && strcmp(group->namespace_name, namespace_name) == 0;
}

static uint64_t left_ms(const ten_etcd_store *store, const ten_etcd_group *group) {
    return ten_sub_saturating(group->sent_ms + group->reserve_ms, ten_boot_ms(store->base.clock));
}

ten_etcd_group *ten_etcd_reserve_of(const ten_etcd_store *store, const char *namespace_name, const char *holder,
                                    uint64_t ttl_ms) {
    for (ten_etcd_group *group = store->groups; group; group = group->next)
        if (is_reserve(group, namespace_name, holder, ttl_ms) && group->term == store->head.term &&
            left_ms(store, group) >= ttl_ms)
            return group;
    return NULL;
}

static void make_reserve(ten_etcd_store *store, const ten_op *op, uint64_t deadline_ms) {
    uint64_t lease = 0;
    uint64_t lasts_ms = op->ttl_ms + slack_ms(op->ttl_ms);
    uint64_t sent_ms = ten_boot_ms(store->base.clock);
    if (ten_etcd_grant(store, lasts_ms, deadline_ms, &lease) < 0)
        return;
    ten_etcd_group *group =
        ten_etcd_group_add(store, op->namespace_name, op->holder, lease, op->ttl_ms, store->head.term);
    if (!group)
        return;
    group->member = store->head.member;
    group->kept_term = store->head.term;
    group->sent_ms = sent_ms;
    group->reserve_ms = lasts_ms;
    group->ends_ms = sent_ms + 1000 * (ten_etcd_seconds(lasts_ms) + 1);
    group->wanted_ms = sent_ms;
}

void ten_etcd_reserve_want(ten_etcd_store *store, const ten_op *op, const ten_result *result, uint64_t deadline_ms) {
    bool waits = store->watch && op->kind == TEN_OP_ACQUIRE && op->flags == 0 && !op->group &&
                 op->ttl_ms >= TTL_MIN_MS && result->outcome == TEN_HELD && !result->recovering;
    if (!waits)
        return;
    ten_error error = store->base.error;
    bool found = false;
    for (ten_etcd_group *group = store->groups; group; group = group->next)
        if (is_reserve(group, op->namespace_name, op->holder, op->ttl_ms) && group->term == store->head.term &&
            left_ms(store, group) > 0) {
            group->wanted_ms = ten_boot_ms(store->base.clock);
            found = true;
        }
    if (!found)
        make_reserve(store, op, ten_min_u64(deadline_ms, ten_now_ms() + KEEP_MS));
    store->base.error = error;
}

void ten_etcd_reserves_keep(ten_etcd_store *store) {
    ten_error error = store->base.error;
    uint64_t now_ms = ten_boot_ms(store->base.clock);
    for (ten_etcd_group *group = store->groups, *next; group; group = next) {
        next = group->next;
        bool spare = group->reserve_ms && group->count == 0 && !group->uncertain;
        bool waits = now_ms - group->wanted_ms < 2 * group->ttl_ms + KEEP_MS; /* a candidate asks once in a TTL */
        bool aged = now_ms - group->sent_ms > slack_ms(group->ttl_ms) / 4;
        if (spare && waits && aged && left_ms(store, group) > 0 &&
            ten_etcd_group_keep(store, &group, ten_now_ms() + KEEP_MS) < 0)
            break;
    }
    store->base.error = error;
}

/* ---- what is remembered ------------------------------------------------------------------------------------ */

static void forget(ten_etcd_waiting *waiting) {
    if (waiting)
        ten_buf_free(&waiting->fence);
    ten_free(waiting);
}

void ten_etcd_waits_free(ten_etcd_store *store) {
    const ten_map_entry *entry;
    for (size_t at = 0; (entry = ten_map_next(&store->waits, &at));)
        forget(entry->value);
    ten_map_free(&store->waits);
}

void ten_etcd_wait_note(ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    ten_etcd_store *store = chunk->store;
    const char *holder = json_string_value(json_object_get(cell->kv.value, "holder"));
    bool waits = store->watch && cell->op.kind == TEN_OP_ACQUIRE && cell->op.flags == 0 && !cell->op.group &&
                 cell->result->outcome == TEN_HELD && cell->kv.revision > 0 && holder && !chunk->in_epoch;
    if (!waits)
        return;
    forget(ten_map_remove(&store->waits, cell->key));
    ten_etcd_waiting *waiting = store->waits.count < WAITS_MAX ? ten_calloc(1, sizeof *waiting) : NULL;
    if (!waiting)
        return;
    ten_etcd_write_fence(&waiting->fence, false, holder, 0, 0);
    ten_json_number(&waiting->fence, "token", cell->row.token);
    ten_json_close(&waiting->fence);
    waiting->head = chunk->head;
    waiting->term_revision = chunk->term.revision;
    waiting->wait_revision = chunk->wait.revision;
    waiting->epoch_revision = chunk->epoch.revision;
    waiting->longest_ms = chunk->longest_ms;
    waiting->identity = chunk->identity;
    if (waiting->fence.failed || !ten_map_put(&store->waits, cell->key, waiting))
        forget(waiting);
}

/* ---- the acquire ------------------------------------------------------------------------------------------- */

static void compare_key(ten_etcd_chunk *chunk, enum ten_etcd_kind kind, uint64_t revision) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_key_of(chunk->store, key, chunk->namespace_name, kind, NULL);
    ten_etcd_txn_compare(&chunk->store->txn, key, revision);
}

/* As if this had been read: released by the holder, and all else as it was. */
static bool foretell(ten_etcd_chunk *chunk, const ten_etcd_waiting *waiting) {
    ten_etcd_cell *cell = &chunk->cells[0];
    chunk->head = chunk->store->head;
    chunk->term = (ten_etcd_kv){.revision = waiting->term_revision};
    chunk->wait = (ten_etcd_kv){.revision = waiting->wait_revision};
    chunk->epoch = (ten_etcd_kv){.revision = waiting->epoch_revision};
    chunk->identity = waiting->identity;
    chunk->longest_ms = waiting->longest_ms;
    chunk->in_epoch = false;
    cell->kv = (ten_etcd_kv){0};
    cell->behind = (ten_etcd_kv){.revision = 1, .value = json_loads(waiting->fence.data, 0, NULL)};
    cell->foretold = waiting->fence.data;
    return cell->behind.value != NULL;
}

static bool may_try(ten_etcd_chunk *chunk, const ten_etcd_waiting *waiting) {
    ten_etcd_store *store = chunk->store;
    const ten_op *op = &chunk->cells[0].op;
    return waiting->head.term == store->head.term && waiting->head.cluster == store->head.cluster &&
           ten_etcd_is_checked(chunk) && ten_etcd_reserve_of(store, op->namespace_name, op->holder, op->ttl_ms);
}

/* Only the plain case: the token is the revision, and nothing else has to be written. */
static bool is_plain(const ten_etcd_chunk *chunk) {
    const ten_etcd_cell *cell = &chunk->cells[0];
    return cell->write == TEN_ETCD_ATTACH && cell->effect.acquired && !cell->named && !chunk->raised && cell->home &&
           cell->home->reserve_ms && chunk->shown_token == 0;
}

static int prepare_acquire(ten_etcd_chunk *chunk, bool *ret_prepared) {
    ten_etcd_cell *cell = &chunk->cells[0];
    ten_etcd_waiting *waiting = ten_map_remove(&chunk->store->waits, cell->key);
    if (!waiting)
        return TENURE_OK;
    size_t count;
    int r = TENURE_OK;
    if (may_try(chunk, waiting) && foretell(chunk, waiting))
        r = ten_etcd_decide(chunk, &count);
    *ret_prepared = r == TENURE_OK && cell->foretold && is_plain(chunk);
    compare_key(chunk, TEN_ETCD_TERM, waiting->term_revision);
    compare_key(chunk, TEN_ETCD_WAIT, waiting->wait_revision);
    compare_key(chunk, TEN_ETCD_EPOCH, waiting->epoch_revision);
    cell->foretold = NULL;
    forget(waiting);
    return r;
}

/* ---- the release ------------------------------------------------------------------------------------------- */

/* This handle wrote the key: if nobody has written it since, nobody has written the fence either. */
static int prepare_release(ten_etcd_chunk *chunk, bool *ret_prepared) {
    ten_etcd_cell *cell = &chunk->cells[0];
    const ten_op *op = &cell->op;
    const ten_etcd_hold *hold = ten_etcd_hold_find(chunk->store, cell->key);
    if (!hold || !op->holder || op->token == 0 || op->token != hold->token ||
        strcmp(hold->group->holder, op->holder) != 0 || !ten_etcd_is_checked(chunk))
        return TENURE_OK;
    json_int_t ttl_ms = (json_int_t)hold->group->ttl_ms;
    json_t *value =
        json_pack("{s:s,s:I,s:I}", "holder", op->holder, "ttl_ms", ttl_ms, "token", (json_int_t)hold->token);
    if (!value)
        return ten_etcd_no_memory(chunk->store);
    chunk->head = chunk->store->head;
    cell->kv = (ten_etcd_kv){.revision = hold->revision, .lease = hold->group->lease, .value = value};
    cell->behind = (ten_etcd_kv){.revision = 1};
    cell->foretold = "";
    size_t count;
    int r = ten_etcd_decide(chunk, &count);
    *ret_prepared = r == TENURE_OK && cell->write == TEN_ETCD_REMOVE;
    cell->foretold = NULL;
    return r;
}

int ten_etcd_prepare_at_once(ten_etcd_chunk *chunk, bool *ret_prepared) {
    const ten_op *op = &chunk->cells[0].op;
    *ret_prepared = false;
    if (chunk->count != 1 || op->flags != 0 || op->group || chunk->store->is_full)
        return TENURE_OK;
    return op->kind == TEN_OP_ACQUIRE   ? prepare_acquire(chunk, ret_prepared)
           : op->kind == TEN_OP_RELEASE ? prepare_release(chunk, ret_prepared)
                                        : TENURE_OK;
}
