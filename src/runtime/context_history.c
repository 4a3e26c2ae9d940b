/*
 * The history of a namespace: reads the whole feed, the fleet's TTL, and of one target what is kept beside its lease,
 * and lets the core understand them. Called by
 * tenure_history_read() and by the server.
 */
#include "runtime/context_history.h"

#include "core/history.h"
#include "core/timing.h"

#define PAGE ((size_t)2 * TEN_FEED_MAX) /* all of it */

static int take_ttl(const ten_instance *instance, void *userdata) {
    uint64_t *ttl_ms = userdata;
    *ttl_ms = ten_max_u64(*ttl_ms, instance->ttl_ms);
    return 0;
}

static int read_feed(ten_history *history, ten_store *store, const char *namespace_name, uint64_t timeout_ms) {
    uint64_t cursor = TEN_CURSOR_OLDEST;
    uint64_t before;
    int r;
    do {
        before = cursor;
        r = store->ops->changes(store, namespace_name, &cursor, PAGE, ten_history_add, history, timeout_ms);
        /* A server has pages of its own. Entries from before an epoch can be read from the oldest on, and not from
         * there: if they fill a page, that is what is seen. */
    } while (r == TENURE_OK && cursor != before && cursor != 0);
    return r == TENURE_E_RESYNC ? TENURE_OK : r;
}

/* A job of `tenure cron` keeps its runs there. */
static int read_runs(ten_history *history, ten_store *store, const char *namespace_name, const char *target,
                     uint64_t timeout_ms) {
    ten_op op = {
        .kind = TEN_OP_READ, .flags = TEN_OP_WITH_CHECKPOINT, .namespace_name = namespace_name, .target = target};
    ten_result result;
    int r = ten_store_apply(store, &op, &result, 1, timeout_ms);
    if (r == TENURE_OK && result.outcome == TEN_ERROR)
        r = result.error;
    if (r < 0)
        return r;
    return result.outcome == TEN_OK ? ten_history_add_runs(history, namespace_name, result.checkpoint, result.holder)
                                    : TENURE_OK;
}

int ten_context_history_list(ten_store *store, const char *namespace_name, const ten_history_query *query,
                             ten_change_fn each, void *userdata, uint64_t timeout_ms) {
    ten_timing timing = {0};
    ten_timing_defaults(&timing);
    uint64_t fleet_ttl_ms = 0;
    int r = store->ops->list_instances(store, namespace_name, take_ttl, &fleet_ttl_ms, timeout_ms);
    if (r < 0)
        return r;
    uint64_t now_ms = ten_wall_ms(store->clock);
    ten_history *history =
        ten_history_new(&(ten_history_config){.target = query->target,
                                              .now_ms = now_ms,
                                              .since_ms = query->for_ms ? ten_sub_saturating(now_ms, query->for_ms) : 0,
                                              .ttl_ms = fleet_ttl_ms ? fleet_ttl_ms : timing.ttl_ms,
                                              .limit = query->limit});
    if (!history)
        return ten_fail_memory(&store->error, "the history");
    r = read_feed(history, store, namespace_name, timeout_ms);
    if (r == TENURE_OK && query->target)
        r = read_runs(history, store, namespace_name, query->target, timeout_ms);
    if (r == TENURE_OK)
        r = ten_history_each(history, namespace_name, each, userdata);
    if (r == TENURE_E_NOMEM)
        ten_fail(&store->error, r, "out of memory for the history");
    ten_history_free(history);
    return r;
}
