/*
 * Forgetting targets in etcd: the fence of a target that is free and not registered is removed when somebody asks for
 * it, or with the last change of it in the feed, so that ids that were used once leave nothing behind. Its next token is
 * higher all the same: it is the revision, or above the highest token that was forgotten, which the namespace remembers
 * (etcd_epoch.c). Called through store.h and by etcd_feed.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/random.h"
#include "store/etcd/etcd_cell.h"

#define FORGOTTEN_MAX 40u /* in one transaction: three comparisons each */
#define CALM_TRIES    2u  /* conflicts without a pause */
#define PAUSE_US      10000u

enum { TERM, WAIT, EPOCH, OWN };
static const enum ten_etcd_kind own_kinds[OWN] = {TEN_ETCD_TERM, TEN_ETCD_WAIT, TEN_ETCD_EPOCH};
enum { FENCE, LEASE, TARGET, KEYS };
static const enum ten_etcd_kind kinds[KEYS] = {TEN_ETCD_FENCE, TEN_ETCD_LEASE, TEN_ETCD_TARGET};

/* What is forgotten together, and what has been. */
struct forgetting {
    ten_etcd_chunk chunk;
    uint64_t revision; /* what has changed since is not forgotten */
    ten_map targets;   /* that were forgotten */
    bool settled;      /* the outcomes are final */
};

static void clear(struct forgetting *forgetting) {
    ten_etcd_chunk *chunk = &forgetting->chunk;
    ten_etcd_kv_free(&chunk->term);
    ten_etcd_kv_free(&chunk->wait);
    ten_etcd_kv_free(&chunk->epoch);
    json_decref(chunk->answer);
    chunk->answer = NULL;
}

static int read_some(ten_etcd_chunk *chunk, const ten_forget *items, size_t count) {
    ten_etcd_store *store = chunk->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; i < OWN; i++) {
        ten_etcd_key_of(store, key, chunk->namespace_name, own_kinds[i], NULL);
        ten_etcd_txn_get(&store->txn, key);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < KEYS; k++) {
            ten_etcd_key_of(store, key, chunk->namespace_name, kinds[k], items[i].id);
            ten_etcd_txn_get(&store->txn, key);
        }
    int r = ten_etcd_commit(store, false, chunk->deadline_ms, &succeeded, &chunk->answer);
    if (r < 0)
        return r;
    chunk->head = store->head;
    chunk->term = ten_etcd_kv_at(chunk->answer, TERM, &store->scratch);
    chunk->wait = ten_etcd_kv_at(chunk->answer, WAIT, &store->scratch);
    chunk->epoch = ten_etcd_kv_at(chunk->answer, EPOCH, &store->scratch);
    chunk->longest_ms = ten_etcd_number(chunk->term.value, "ttl_ms");
    return ten_etcd_epoch_take(chunk);
}

/* While leases of an earlier term may be believed, only what was released is free. */
static enum ten_forget_outcome judge(ten_etcd_chunk *chunk, const ten_etcd_kv kvs[KEYS]) {
    uint64_t now_ms = ten_boot_ms(chunk->store->base.clock);
    bool unsure = chunk->in_epoch || ten_etcd_has_vanished(chunk, &kvs[LEASE], &kvs[FENCE]);
    ten_lease_context context = {.now_ms = now_ms, .recovering_ms = unsure};
    ten_lease_row row;
    ten_etcd_row_read(&kvs[LEASE], &kvs[FENCE], now_ms, 1, &row);
    return ten_lease_row_forget(&row, kvs[TARGET].revision > 0, &context, &chunk->identity.forgot);
}

/* Adds the removal of a fence to the transaction; it happens only if the target is as it was. */
static int remove_fence(struct forgetting *forgetting, const char *id, const ten_etcd_kv *fence) {
    ten_etcd_store *store = forgetting->chunk.store;
    char key[TEN_ETCD_KEY_MAX + 1];
    for (size_t k = 0; k < KEYS; k++) {
        ten_etcd_key_of(store, key, forgetting->chunk.namespace_name, kinds[k], id);
        ten_etcd_txn_compare(&store->txn, key, k == FENCE ? fence->revision : 0);
        if (k == FENCE)
            ten_etcd_txn_delete(&store->txn, key);
    }
    ten_etcd_key_of(store, key, forgetting->chunk.namespace_name, TEN_ETCD_CHECKPOINT, id);
    ten_etcd_txn_delete(&store->txn, key);
    return ten_map_put(&forgetting->targets, id, NULL) ? TENURE_OK : ten_etcd_no_memory(store);
}

static int forget_one(struct forgetting *forgetting, ten_forget *item, size_t at) {
    ten_etcd_chunk *chunk = &forgetting->chunk;
    ten_etcd_kv kvs[KEYS];
    for (size_t k = 0; k < KEYS; k++)
        kvs[k] = ten_etcd_kv_at(chunk->answer, at + k, &chunk->store->scratch);
    bool changed = kvs[FENCE].revision > forgetting->revision;
    bool again = ten_map_key(&forgetting->targets, item->id) != NULL; /* it was named twice */
    item->outcome = changed || again ? TEN_FORGET_UNKNOWN : judge(chunk, kvs);
    int r = item->outcome == TEN_FORGET_DONE ? remove_fence(forgetting, item->id, &kvs[FENCE]) : TENURE_OK;
    for (size_t k = 0; k < KEYS; k++)
        ten_etcd_kv_free(&kvs[k]);
    return r;
}

/* One try: read what is there, remove what can be removed. */
static int forget_some(struct forgetting *forgetting, ten_forget *items, size_t count) {
    ten_etcd_chunk *chunk = &forgetting->chunk;
    ten_etcd_store *store = chunk->store;
    bool current = false;
    clear(forgetting);
    int r = read_some(chunk, items, count);
    if (r == TENURE_OK && chunk->term.revision == 0 && chunk->epoch.revision == 0)
        current = true; /* nothing was ever leased here, and nothing is written */
    else if (r == TENURE_OK)
        r = ten_etcd_epoch_check(chunk, &current);
    if (r < 0 || !current)
        return r;
    size_t before = forgetting->targets.count;
    chunk->index = 0;
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = forget_one(forgetting, &items[i], OWN + i * KEYS);
    forgetting->settled = r == TENURE_OK && forgetting->targets.count == before;
    if (r < 0 || forgetting->settled)
        return r;
    ten_etcd_epoch_put(chunk, &chunk->identity);
    r = ten_etcd_commit(store, true, chunk->deadline_ms, &forgetting->settled, NULL);
    for (size_t i = 0; r == TENURE_OK && !forgetting->settled && i < count; i++)
        if (items[i].outcome == TEN_FORGET_DONE)
            (void)ten_map_remove(&forgetting->targets, items[i].id);
    return r;
}

static struct forgetting *begin(ten_etcd_store *store, const char *namespace_name, uint64_t revision,
                                uint64_t deadline_ms) {
    struct forgetting *forgetting = ten_calloc(1, sizeof *forgetting);
    if (!forgetting)
        return NULL;
    forgetting->chunk.store = store;
    forgetting->chunk.namespace_name = namespace_name;
    forgetting->chunk.deadline_ms = deadline_ms;
    forgetting->revision = revision;
    return forgetting;
}

static void end(struct forgetting *forgetting) {
    clear(forgetting);
    ten_map_free(&forgetting->targets);
    ten_free(forgetting);
}

/* What is left out here would never be found again: its last change leaves the feed. So it is all or nothing. */
int ten_etcd_forget_aged(ten_etcd_store *store, const char *namespace_name, ten_forget *items, size_t count,
                         uint64_t revision, uint64_t deadline_ms) {
    struct forgetting *forgetting = begin(store, namespace_name, revision, deadline_ms);
    int r = forgetting ? TENURE_OK : ten_etcd_no_memory(store);
    for (size_t at = 0, some; r == TENURE_OK && at < count; at += some) {
        some = ten_min_u64(count - at, FORGOTTEN_MAX);
        forgetting->settled = false;
        r = forget_some(forgetting, items + at, some);
        for (size_t i = at; r == TENURE_OK && i < at + some; i++)
            if (!forgetting->settled || items[i].outcome == TEN_FORGET_RECOVERING)
                r = TENURE_E_HELD;
    }
    if (forgetting)
        end(forgetting);
    return r;
}

static int forget_named(struct forgetting *forgetting, ten_forget *items, size_t count) {
    int r = TENURE_OK;
    forgetting->settled = false;
    for (unsigned tries = 0; r == TENURE_OK && !forgetting->settled; tries++) {
        if (ten_now_ms() >= forgetting->chunk.deadline_ms)
            return ten_fail(&forgetting->chunk.store->base.error, TENURE_E_TIMEOUT,
                            "other clients of etcd changed the same keys again and again; try again");
        if (tries > CALM_TRIES)
            ten_sleep_us(ten_random_u64() % PAUSE_US);
        r = forget_some(forgetting, items, count);
    }
    return r;
}

int ten_etcd_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    struct forgetting *forgetting = begin(store, namespace_name, UINT64_MAX, deadline_ms);
    int r = forgetting ? TENURE_OK : ten_etcd_no_memory(store);
    for (size_t at = 0, some; r == TENURE_OK && at < count; at += some) {
        some = ten_min_u64(count - at, FORGOTTEN_MAX);
        r = forget_named(forgetting, items + at, some);
    }
    if (forgetting)
        end(forgetting);
    return r;
}
