/*
 * The handle of a store that is made of a backend, and its feed. The operations are apply.c's, the listings
 * listing.c's.
 */
#include "store/record_store.h"

#include <string.h>

#include "base/alloc.h"
#include "rules/feed.h"

static ten_backend *backend_of(ten_store *base) {
    return ((ten_record_store *)base)->backend;
}

int ten_record_store_open(ten_store *base, const ten_url *url, uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    const ten_backend_ops *ops = base->ops->backend;
    store->backend = ten_calloc(1, ops->size);
    store->round = ten_apply_round_new();
    if (!store->backend || !store->round)
        return ten_apply_no_memory(store);
    *store->backend =
        (ten_backend){.ops = ops, .clock = base->clock, .error = &base->error, .capabilities = &base->capabilities};
    int r = ops->open(store->backend, url, timeout_ms);
    /* Leases that are attached to a session are renewed by its heartbeat, and not each by itself. */
    store->cache.room = base->capabilities.sessions ? 16384 : 131072;
    return r;
}

void ten_record_store_close(ten_store *base) {
    ten_record_store *store = (ten_record_store *)base;
    if (store->backend && store->backend->ops)
        store->backend->ops->close(store->backend);
    ten_free(store->backend);
    ten_apply_round_free(store);
    ten_record_cache_free(&store->cache);
    ten_arena_free(&store->results);
    ten_arena_free(&store->texts);
    ten_buf_free(&store->value);
    ten_buf_free(&store->decoded);
}

int ten_record_store_watch(ten_store *base, const char *namespace_name, int *ret_fd) {
    return base->ops->backend->watch(backend_of(base), namespace_name, ret_fd);
}

void ten_record_store_watch_clear(ten_store *base) {
    base->ops->backend->watch_clear(backend_of(base));
}

int ten_record_store_ping(ten_store *base, uint64_t timeout_ms) {
    return base->ops->backend->touch(backend_of(base), NULL, "", 0, NULL, 0, timeout_ms);
}

int ten_record_store_check(ten_store *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    return base->ops->backend->check(backend_of(base), each, userdata, timeout_ms);
}

/* ---- the feed ------------------------------------------------------------------------------------------- */

struct reading {
    ten_record_store *store;
    const char *namespace_name;
    uint64_t *cursor;
    size_t given;
    bool from_oldest; /* the history: epochs are a part of it */
    bool epoch;       /* one has begun since the cursor */
    ten_change_fn each;
    void *userdata;
};

enum { STOP_AT_EPOCH = 1 << 20 };

static int give_entry(const ten_entry *entry, void *userdata) {
    struct reading *reading = userdata;
    ten_change change;
    reading->given++;
    if (!ten_feed_read(entry->text, entry->at_ms, &change, &reading->store->decoded)) {
        *reading->cursor = entry->number; /* a kind that a newer version writes is nothing to this one */
        return 0;
    }
    bool begins = change.kind == TENURE_EVENT_RECOVERING && change.reason != TEN_REASON_FORCED; /* else it is over */
    if (begins && !reading->from_oldest) {
        reading->epoch = true;
        return STOP_AT_EPOCH;
    }
    *reading->cursor = change.cursor = entry->number;
    change.namespace_name = reading->namespace_name;
    return reading->each ? reading->each(&change, reading->userdata) : 0;
}

/* Whether an epoch has begun since the cursor, as far as is known; what this handle has not heard of yet stands in the
 * feed. */
static int look_for_epoch(ten_record_store *store, const char *namespace_name, uint64_t cursor, bool fresh,
                          uint64_t timeout_ms, bool *ret_epoch) {
    ten_known *known = ten_record_cache_get(&store->cache, namespace_name, TEN_KIND_NAMESPACE, "");
    ten_record record = {.key = {TEN_KIND_NAMESPACE, ""}};
    ten_namespace_row row;
    int r = TENURE_OK;
    if (!known)
        return ten_apply_no_memory(store);
    if (fresh || !ten_record_cache_is_known(&store->cache, known)) {
        r = store->backend->ops->read(store->backend, namespace_name, &record, 1, timeout_ms);
        if (r < 0)
            return r;
        ten_apply_answered(store);
        if (!ten_record_cache_set(&store->cache, known, &record))
            return ten_apply_no_memory(store);
    }
    *ret_epoch = ten_namespace_row_read(&known->record, &row) && cursor < row.first;
    return r;
}

int ten_record_store_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit,
                             ten_change_fn each, void *userdata, uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    ten_backend *backend = store->backend;
    ten_feed_range range = {0};
    uint64_t from = *cursor;
    struct reading reading = {.store = store,
                              .namespace_name = namespace_name,
                              .cursor = cursor,
                              .from_oldest = from == TEN_CURSOR_OLDEST,
                              .each = each,
                              .userdata = userdata};
    int r = TENURE_OK;
    if (from == TEN_CURSOR_NOW || reading.from_oldest) {
        r = backend->ops->feed(backend, namespace_name, 0, 0, give_entry, &reading, &range, timeout_ms);
        if (r == TENURE_OK)
            *cursor = reading.from_oldest ? range.before : range.last;
        if (r < 0 || !reading.from_oldest)
            return r;
        from = range.before;
    }
    if (!reading.from_oldest)
        r = look_for_epoch(store, namespace_name, from, false, timeout_ms, &reading.epoch);
    if (r == TENURE_OK)
        r = backend->ops->feed(backend, namespace_name, from, reading.epoch ? 0 : limit, give_entry, &reading, &range,
                               timeout_ms);
    if (r != TENURE_OK && !reading.epoch)
        return r;
    bool missed = from < range.before || from > range.last;
    reading.epoch |= from > range.last; /* from the future: the store that gave it is gone */
    if (missed && !reading.epoch)
        r = look_for_epoch(store, namespace_name, from, true, timeout_ms, &reading.epoch);
    if (r < 0)
        return r;
    if (missed || reading.epoch) {
        *cursor = range.last;
        return ten_store_missed(base, namespace_name, range.last, reading.epoch, each, userdata);
    }
    if (reading.given < limit)
        *cursor = ten_max_u64(*cursor, range.last);
    return TENURE_OK;
}
