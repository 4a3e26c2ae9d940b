/*
 * Forgetting targets in etcd: the fence of a target that is free and not registered goes with the last change of it in
 * the feed, so that ids that were used once leave nothing behind. Its next token is higher all the same: it is the
 * revision, or above the highest token that was forgotten, which the namespace remembers (etcd_epoch.c). Called by
 * etcd_feed.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_cell.h"

#define FORGOTTEN_MAX 24u /* in one transaction: three comparisons each */

enum { FENCE, LEASE, TARGET, KEYS };
static const enum ten_etcd_kind kinds[KEYS] = {TEN_ETCD_FENCE, TEN_ETCD_LEASE, TEN_ETCD_TARGET};

static int read_some(ten_etcd_chunk *chunk, const char *const *ids, size_t count) {
    ten_etcd_store *store = chunk->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, key, chunk->namespace_name, TEN_ETCD_WAIT, NULL);
    ten_etcd_get(&store->txn, key);
    ten_etcd_key_of(store, key, chunk->namespace_name, TEN_ETCD_EPOCH, NULL);
    ten_etcd_get(&store->txn, key);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < KEYS; k++) {
            ten_etcd_key_of(store, key, chunk->namespace_name, kinds[k], ids[i]);
            ten_etcd_get(&store->txn, key);
        }
    int r = ten_etcd_commit(store, false, chunk->deadline_ms, &succeeded, &chunk->answer);
    if (r < 0)
        return r;
    chunk->wait = ten_etcd_kv_at(chunk->answer, 0, &store->scratch);
    chunk->epoch = ten_etcd_kv_at(chunk->answer, 1, &store->scratch);
    ten_etcd_epoch_take(chunk);
    return TENURE_OK;
}

/* Free for sure, and nothing has happened to it since that revision. While leases of an earlier term may be believed,
 * only what was released is free. */
static bool can_be_forgotten(const ten_etcd_chunk *chunk, size_t at, const ten_etcd_kv *fence, uint64_t revision) {
    bool released = json_is_false(json_object_get(fence->value, "held"));
    bool present = json_array_size(ten_etcd_kvs(chunk->answer, at + LEASE)) > 0 ||
                   json_array_size(ten_etcd_kvs(chunk->answer, at + TARGET)) > 0;
    return fence->revision > 0 && fence->revision <= revision && !present && (released || chunk->wait.revision == 0);
}

static int forget_some(ten_etcd_chunk *chunk, const char *const *ids, size_t count, uint64_t revision) {
    ten_etcd_store *store = chunk->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded = true;
    size_t forgotten = 0;
    int r = read_some(chunk, ids, count);
    if (r < 0 || chunk->in_epoch || chunk->epoch.revision == 0)
        return r;
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; i < count; i++) {
        size_t at = 2 + i * KEYS;
        ten_etcd_kv fence = ten_etcd_kv_at(chunk->answer, at + FENCE, &store->scratch);
        if (can_be_forgotten(chunk, at, &fence, revision)) {
            uint64_t token = ten_etcd_number(fence.value, "token");
            chunk->identity.forgot = ten_max_u64(chunk->identity.forgot, token ? token : fence.revision);
            for (size_t k = 0; k < KEYS; k++) {
                ten_etcd_key_of(store, key, chunk->namespace_name, kinds[k], ids[i]);
                ten_etcd_compare(&store->txn, key, k == FENCE ? fence.revision : 0);
                if (k == FENCE)
                    ten_etcd_delete(&store->txn, key);
            }
            forgotten++;
        }
        ten_etcd_kv_free(&fence);
    }
    if (forgotten == 0)
        return TENURE_OK;
    ten_etcd_epoch_put(chunk, &chunk->identity);
    r = ten_etcd_commit(store, true, chunk->deadline_ms, &succeeded, NULL);
    return r == TENURE_OK && !succeeded ? TENURE_E_HELD : r;
}

int ten_etcd_forget(ten_etcd_store *store, const char *namespace_name, const char *const *ids, size_t count,
                    uint64_t revision, uint64_t deadline_ms) {
    ten_etcd_chunk *chunk = ten_calloc(1, sizeof *chunk);
    int r = chunk ? TENURE_OK : ten_etcd_no_memory(store);
    for (size_t at = 0, some; r == TENURE_OK && at < count; at += some) {
        some = ten_min_u64(count - at, FORGOTTEN_MAX);
        chunk->store = store;
        chunk->namespace_name = namespace_name;
        chunk->deadline_ms = deadline_ms;
        r = forget_some(chunk, ids + at, some, revision);
        ten_etcd_kv_free(&chunk->wait);
        ten_etcd_kv_free(&chunk->epoch);
        json_decref(chunk->answer);
        chunk->answer = NULL;
    }
    ten_free(chunk);
    return r;
}
