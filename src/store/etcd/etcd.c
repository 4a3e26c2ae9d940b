/*
 * The etcd backend: opening, closing and what its files share. Leases on a consensus store, spoken to by the HTTP/JSON
 * gateway. etcd_state.h says how they are kept and why. Called through store.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_state.h"

#define TTL_MIN_MS 2000u /* etcd's own floor: one and a half election time-outs, rounded up to seconds */
#define LATE_MS    2500u /* rounded up to seconds; looked for twice a second; and its end is agreed on */
#define LAST_MS    100u  /* of a lease's last second, how much is left is not known */
#define GRANTS_MAX 3u

int ten_etcd_no_memory(ten_etcd_store *store) {
    return ten_fail_memory(&store->base.error, "the etcd store");
}

void ten_etcd_key_of(const ten_etcd_store *store, char key[TEN_ETCD_KEY_MAX + 1], const char *namespace_name,
                     enum ten_etcd_kind kind, const char *name) {
    ten_etcd_key(key, store->settings.prefix, namespace_name, kind, name);
}

/* ---- requests ---------------------------------------------------------------------------------------------- */

int ten_etcd_ask(ten_etcd_store *store, const char *path, const char *body, bool once, uint64_t deadline_ms,
                 json_t **ret_answer) {
    ten_etcd_call call = {.path = path, .body = body, .once = once};
    int r = ten_etcd_perform(store->link, &call, 1, deadline_ms, &store->base.error);
    store->answers = r == TENURE_OK;
    if (r == TENURE_OK)
        r = call.error;
    if (r < 0)
        return r;
    store->head = call.head;
    *ret_answer = call.answer;
    return TENURE_OK;
}

/* A member answers a transaction that only compares by itself, also when it has no quorum (etcd takes it for
 * serializable). A read in one of the branches makes it linearizable. */
static void make_linearizable(ten_etcd_store *store) {
    char key[TEN_ETCD_KEY_MAX + 1];
    if (store->txn.operation_count > 0 || store->txn.otherwise_count > 0)
        return;
    snprintf(key, sizeof key, "%s/ping", store->settings.prefix);
    ten_etcd_txn_get_otherwise(&store->txn, key);
}

int ten_etcd_commit(ten_etcd_store *store, bool once, uint64_t deadline_ms, bool *ret_succeeded, json_t **ret_answer) {
    make_linearizable(store);
    const char *body = ten_etcd_txn_body(&store->txn);
    json_t *answer = NULL;
    TEN_INVARIANT(store->txn.compare_count <= TEN_ETCD_TXN_MAX && store->txn.operation_count <= TEN_ETCD_TXN_MAX);
    int r = body ? ten_etcd_ask(store, "/v3/kv/txn", body, once, deadline_ms, &answer) : ten_etcd_no_memory(store);
    if (r < 0)
        return r;
    *ret_succeeded = json_is_true(json_object_get(answer, "succeeded"));
    if (ret_answer)
        *ret_answer = answer;
    else
        json_decref(answer);
    return TENURE_OK;
}

/* The same member has shown the same term before and after: so it was granted in that term. */
int ten_etcd_grant(ten_etcd_store *store, uint64_t ttl_ms, uint64_t deadline_ms, uint64_t *ret_lease) {
    char body[64];
    snprintf(body, sizeof body, "{\"TTL\":\"%llu\"}", (unsigned long long)ten_etcd_seconds(ttl_ms));
    for (unsigned i = 0; i < GRANTS_MAX; i++) {
        ten_etcd_head before = store->head;
        json_t *answer = NULL;
        int r = ten_etcd_ask(store, "/v3/lease/grant", body, false, deadline_ms, &answer);
        if (r < 0)
            return r;
        uint64_t lease = ten_etcd_number(answer, "ID");
        bool long_enough = ten_etcd_number(answer, "TTL") * 1000 >= ttl_ms;
        json_decref(answer);
        if (lease == 0 || !long_enough)
            return ten_fail(&store->base.error, TENURE_E_STORE, "etcd at %s did not grant a lease of %llu ms",
                            ten_etcd_endpoint(store->link), (unsigned long long)ttl_ms);
        if (store->head.member == before.member && store->head.term == before.term) {
            *ret_lease = lease;
            return TENURE_OK;
        }
    }
    return ten_fail(&store->base.error, TENURE_E_UNREACHABLE, "etcd is changing its leader; try again");
}

int ten_etcd_time_left(ten_etcd_store *store, const uint64_t *leases, uint64_t *left_ms, size_t count,
                       uint64_t deadline_ms) {
    ten_etcd_call *calls = ten_calloc(count ? count : 1, sizeof *calls);
    char(*bodies)[40] = ten_calloc(count ? count : 1, sizeof *bodies);
    int r = calls && bodies ? TENURE_OK : ten_etcd_no_memory(store);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        snprintf(bodies[i], sizeof bodies[i], "{\"ID\":\"%llu\"}", (unsigned long long)leases[i]);
        calls[i] = (ten_etcd_call){.path = "/v3/lease/timetolive", .body = bodies[i]};
    }
    if (r == TENURE_OK && count > 0)
        r = ten_etcd_perform(store->link, calls, count, deadline_ms, &store->base.error);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        /* Whole seconds, rounded down; -1 when it has gone. */
        const char *text = json_string_value(json_object_get(calls[i].answer, "TTL"));
        long long seconds = calls[i].error < 0 ? -1 : text ? strtoll(text, NULL, 10) : 0;
        left_ms[i] = seconds < 0 ? 0 : seconds == 0 ? LAST_MS : (uint64_t)seconds * 1000;
    }
    if (calls)
        ten_etcd_calls_free(calls, count);
    ten_free(calls);
    ten_free(bodies);
    return r;
}

void ten_etcd_revoke(ten_etcd_store *store, const uint64_t *leases, size_t count, uint64_t deadline_ms) {
    ten_etcd_call *calls = ten_calloc(count ? count : 1, sizeof *calls);
    char(*bodies)[40] = ten_calloc(count ? count : 1, sizeof *bodies);
    ten_error error = {0};
    for (size_t i = 0; calls && bodies && i < count; i++) {
        snprintf(bodies[i], sizeof bodies[i], "{\"ID\":\"%llu\"}", (unsigned long long)leases[i]);
        calls[i] = (ten_etcd_call){.path = "/v3/lease/revoke", .body = bodies[i]};
    }
    if (calls && bodies && count > 0) {
        (void)ten_etcd_perform(store->link, calls, count, deadline_ms, &error);
        ten_etcd_calls_free(calls, count);
    }
    ten_free(calls);
    ten_free(bodies);
}

/* ---- the table --------------------------------------------------------------------------------------------- */

static int ping(ten_store *base, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    snprintf(key, sizeof key, "%s/ping", store->settings.prefix);
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_txn_get(&store->txn, key);
    int r = ten_etcd_commit(store, false, ten_now_ms() + timeout_ms, &succeeded, NULL);
    /* Without the permission it is a round trip all the same; check() tells what is missing. */
    return r == TENURE_E_DENIED && ten_etcd_is_known(store->link) ? TENURE_OK : r;
}

static void close_store(ten_store *base) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    ten_etcd_watch_close(store->watch);
    if (store->answers)
        ten_etcd_groups_close(store);
    ten_etcd_groups_free(store);
    ten_etcd_hands_free(store);
    ten_etcd_waits_free(store);
    ten_map_free(&store->checked);
    ten_map_free(&store->entered);
    ten_etcd_link_close(store->link);
    ten_etcd_settings_free(&store->settings);
    ten_arena_free(&store->results);
    ten_etcd_txn_free(&store->txn);
    ten_buf_free(&store->scratch);
    ten_buf_free(&store->value);
}

static int open_store(ten_store *base, const ten_url *url, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    (void)timeout_ms; /* it connects when it is first used */
    int r = ten_etcd_settings_read(url, &store->settings, &base->error);
    return r < 0 ? r : ten_etcd_link_open(&store->settings, &store->link, &base->error);
}

const ten_store_ops ten_etcd_ops = {
    .name = "etcd",
    .size = sizeof(ten_etcd_store),
    .capabilities = {.ttl_min_ms = TTL_MIN_MS,
                     .ttl_min_reason = "etcd's leases have whole seconds and a floor of 2 s",
                     .expiry_late_ms = LATE_MS,
                     .shared_between_processes = true,
                     .survives_restart = true,
                     .hands = true,
                     .sessions = true,
                     .watches_in_thread = true,
                     .expiry_clock = "the etcd leader's, in whole seconds, anew at a change of leader",
                     .change_notice = "watch"},
    .open = open_store,
    .close = close_store,
    .apply = ten_etcd_apply,
    .edit_targets = ten_etcd_edit_targets,
    .forget = ten_etcd_forget,
    .forget_history = ten_etcd_forget_history,
    .list = ten_etcd_list,
    .read_targets = ten_etcd_read_targets,
    .list_instances = ten_etcd_list_instances,
    .list_namespaces = ten_etcd_list_namespaces,
    .changes = ten_etcd_changes,
    .watch = ten_etcd_watch_open,
    .watch_clear = ten_etcd_watch_clear,
    .ping = ping,
    .check = ten_etcd_check,
};
