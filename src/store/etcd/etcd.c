/*
 * The etcd backend: opening, closing and its requests. Records on a consensus store, spoken to by the HTTP/JSON
 * gateway. etcd_state.h says how they are kept and why. Called through backend.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_state.h"
#include "store/record_store.h"

#define TTL_MIN_MS 2000u /* etcd's own floor: one and a half election time-outs, rounded up to seconds */
#define LATE_MS    2500u /* TTLs are rounded up to seconds, looked at twice a second; ends go through the log */
#define GRANTS_MAX 3u

int ten_etcd_no_memory(ten_etcd_store *store) {
    return ten_fail_memory(store->base.error, "the etcd store");
}

int ten_etcd_use(ten_etcd_store *store, const char *namespace_name) {
    store->dir = (ten_etcd_dir){store->settings.prefix, namespace_name};
    store->space = namespace_name ? ten_map_get(&store->spaces, namespace_name) : NULL;
    if (store->space || !namespace_name)
        return TENURE_OK;
    store->space = ten_calloc(1, sizeof *store->space);
    if (store->space && ten_map_put(&store->spaces, namespace_name, store->space))
        return TENURE_OK;
    ten_free(store->space);
    store->space = NULL;
    return ten_etcd_no_memory(store);
}

int ten_etcd_begin(ten_etcd_store *store, const char *namespace_name, uint64_t timeout_ms) {
    store->deadline_ms = ten_now_ms() + timeout_ms;
    store->is_older = false;
    return ten_etcd_use(store, namespace_name);
}

/* ---- requests ---------------------------------------------------------------------------------------------- */

/* The answer's `Date` is in whole seconds: each answer narrows the bounds of the member's clock. */
static void note_clock(ten_etcd_store *store, long server_time_s, uint64_t sent_ms) {
    if (server_time_s <= 0)
        return;
    uint64_t least = (uint64_t)server_time_s * 1000 - ten_boot_ms(store->base.clock);
    uint64_t most = (uint64_t)server_time_s * 1000 + 999 - sent_ms;
    uint64_t both_least = ten_max_u64(least, store->clock_least);
    uint64_t both_most = ten_min_u64(most, store->clock_most);
    bool agrees =
        store->clock_known && both_least <= both_most; /* else the clock was set, or another member answered */
    store->clock_least = agrees ? both_least : least;
    store->clock_most = agrees ? both_most : most;
    store->clock_known = true;
}

/* This host's clock is finer than whole seconds: it is taken, moved into the bounds of the member's clock. */
void ten_etcd_tell_clock(ten_etcd_store *store) {
    uint64_t boot_ms = ten_boot_ms(store->base.clock);
    uint64_t apart = ten_wall_ms(store->base.clock) - boot_ms;
    if (store->clock_known)
        apart = ten_min_u64(ten_max_u64(apart, store->clock_least), store->clock_most);
    store->base.wall_ms = boot_ms + apart;
}

int ten_etcd_ask(ten_etcd_store *store, const char *path, const char *body, bool once, json_t **ret_answer) {
    ten_etcd_call call = {.path = path, .body = body, .once = once};
    uint64_t sent_ms = ten_boot_ms(store->base.clock);
    int r = ten_etcd_perform(store->link, &call, 1, store->deadline_ms, store->base.error);
    store->answers = r == TENURE_OK;
    if (r == TENURE_OK)
        r = call.error;
    if (r < 0)
        return r;
    note_clock(store, call.server_time_s, sent_ms);
    store->head = call.head;
    *ret_answer = call.answer;
    return TENURE_OK;
}

int ten_etcd_send(ten_etcd_store *store, bool once, json_t **ret_answer) {
    const char *body = ten_etcd_txn_body(&store->txn);
    int r = body ? ten_etcd_ask(store, "/v3/kv/txn", body, once, ret_answer) : ten_etcd_no_memory(store);
    if (r < 0)
        return r;
    ten_etcd_tell_clock(store);
    bool is_older = store->head.revision < store->revision;
    store->revision = store->head.revision;
    if (!is_older)
        return TENURE_OK;
    json_decref(*ret_answer);
    *ret_answer = NULL;
    store->is_older = true;
    store->checked = 0;
    return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "etcd at %s is older than it was; try again",
                    ten_etcd_endpoint(store->link));
}

int ten_etcd_send_only(ten_etcd_store *store, bool once) {
    json_t *answer = NULL;
    int r = ten_etcd_send(store, once, &answer);
    json_decref(answer);
    return r;
}

/* If the same member has named the same term before and after, the lease was granted in that term. */
int ten_etcd_grant(ten_etcd_store *store, uint64_t ttl_ms, uint64_t *ret_lease) {
    char body[64];
    snprintf(body, sizeof body, "{\"TTL\":\"%llu\"}", (unsigned long long)ten_etcd_seconds(ttl_ms));
    for (unsigned i = 0; i < GRANTS_MAX; i++) {
        ten_etcd_head before = store->head;
        json_t *answer = NULL;
        int r = ten_etcd_ask(store, "/v3/lease/grant", body, false, &answer);
        if (r < 0)
            return r;
        uint64_t lease = ten_etcd_number(answer, "ID");
        bool long_enough = ten_etcd_number(answer, "TTL") * 1000 >= ttl_ms;
        json_decref(answer);
        if (lease == 0 || !long_enough)
            return ten_fail(store->base.error, TENURE_E_STORE, "etcd at %s did not grant a lease of %llu ms",
                            ten_etcd_endpoint(store->link), (unsigned long long)ttl_ms);
        if (store->head.member == before.member && store->head.term == before.term) {
            *ret_lease = lease;
            return TENURE_OK;
        }
    }
    return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "etcd is changing its leader; try again");
}

int ten_etcd_ask_all(ten_etcd_store *store, ten_etcd_call *calls, size_t count) {
    return count ? ten_etcd_perform(store->link, calls, count, store->deadline_ms, store->base.error) : TENURE_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------- */

static void free_spaces(ten_etcd_store *store) {
    const ten_map_entry *entry;
    for (size_t at = 0; (entry = ten_map_next(&store->spaces, &at));)
        ten_free(entry->value);
    ten_map_free(&store->spaces);
}

static void close_store(ten_backend *base) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    ten_stream_watch_close(store->watch);
    if (store->answers)
        ten_etcd_groups_close(store);
    ten_etcd_groups_free(store);
    free_spaces(store);
    ten_etcd_link_close(store->link);
    ten_etcd_settings_free(&store->settings);
    ten_arena_free(&store->texts);
    ten_etcd_txn_free(&store->txn);
    ten_etcd_txn_free(&store->part);
    ten_buf_free(&store->scratch);
    ten_buf_free(&store->value);
}

static int open_store(ten_backend *base, const ten_url *url, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    (void)timeout_ms; /* it connects when it is first used */
    base->lost_ms = TEN_FOREVER;
    int r = ten_etcd_settings_read(url, &store->settings, base->error);
    return r < 0 ? r : ten_etcd_link_open(&store->settings, &store->link, base->error);
}

static const ten_backend_ops etcd_ops = {
    .size = sizeof(ten_etcd_store),
    .quarantine_min_ms = TENURE_TTL_DEFAULT_MS,
    .open = open_store,
    .close = close_store,
    .read = ten_etcd_read,
    .commit = ten_etcd_commit,
    .touch = ten_etcd_touch,
    .scan = ten_etcd_scan,
    .feed = ten_etcd_feed,
    .unfeed = ten_etcd_unfeed,
    .watch = ten_etcd_watch_open,
    .watch_clear = ten_etcd_watch_clear,
    .check = ten_etcd_check,
};

const ten_store_ops ten_etcd_ops =
    TEN_RECORD_STORE("etcd", &etcd_ops,
                     .capabilities = {.ttl_min_ms = TTL_MIN_MS,
                                      .ttl_min_reason = "etcd's leases have whole seconds and a floor of 2 s",
                                      .expiry_late_ms = LATE_MS,
                                      .shared_between_processes = true,
                                      .survives_restart = true,
                                      .hands = true,
                                      .sessions = true,
                                      .watches_in_thread = true,
                                      .expiry_clock = "the etcd leader's, in whole seconds, anew at a change of leader",
                                      .change_notice = "watch"});
