/*
 * Terms and epochs of a namespace in etcd. A term begins with each change of leader (etcd_state.h says why). An epoch
 * begins when the namespace is older than it was: a snapshot was restored, or somebody deleted keys. Then nobody new is
 * let in for the longest TTL, living holders put their leases back, and new tokens are above the wall clock in ms.
 * Called by etcd_apply.c with what a chunk has read.
 *
 * What proves a loss:
 *  - another cluster id than the one that is written beside the data, or a raft term below that one;
 *  - raft's index is behind the revision by more than it was before. Each revision needs an entry of raft's log, so that
 *    index - revision (the lead) never shrinks; a restored snapshot keeps its revisions and begins a new log;
 *  - a renewal with a token above the counter of its target (etcd_lease.c).
 */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "store/etcd/etcd_cell.h"

#define LAYOUT 2u /* of the keys of a namespace and what is in them */
#define EPOCH_MIN_MS                                                                                                   \
    UINT64_C(30000) /* TTLs that were granted after a snapshot are not known: the usual one, at least */

static void key_of(const ten_etcd_chunk *chunk, char key[TEN_ETCD_KEY_MAX + 1], enum ten_etcd_kind kind) {
    ten_etcd_key_of(chunk->store, key, chunk->namespace_name, kind, NULL);
}

/* ---- what is written beside the data ----------------------------------------------------------------------- */

int ten_etcd_check_layout(ten_etcd_store *store, const char *namespace_name, const json_t *epoch) {
    uint64_t layout = ten_etcd_number(epoch, "layout");
    if (!epoch || layout == LAYOUT)
        return TENURE_OK;
    return ten_fail(
        &store->base.error, TENURE_E_SCHEMA,
        "the namespace %s has the layout %llu of another version of Tenure, which this one does not use (it "
        "knows %u): use another namespace, or another prefix (etcd://HOSTS/PREFIX)",
        namespace_name, (unsigned long long)ten_max_u64(layout, 1), LAYOUT);
}

int ten_etcd_enter(ten_etcd_store *store, const char *namespace_name, uint64_t deadline_ms) {
    uintptr_t connections = (uintptr_t)ten_etcd_connections(store->link) + 1;
    if ((uintptr_t)ten_map_get(&store->entered, namespace_name) == connections)
        return TENURE_OK;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    json_t *answer = NULL;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_EPOCH, NULL);
    ten_etcd_txn_get(&store->txn, key);
    int r = ten_etcd_commit(store, false, deadline_ms, &succeeded, &answer);
    if (r < 0)
        return r;
    ten_etcd_kv epoch = ten_etcd_kv_at(answer, 0, &store->scratch);
    r = ten_etcd_check_layout(store, namespace_name, epoch.value);
    ten_etcd_kv_free(&epoch);
    json_decref(answer);
    if (r == TENURE_OK)
        (void)ten_map_put(&store->entered, namespace_name, (void *)connections);
    return r;
}

int ten_etcd_epoch_take(ten_etcd_chunk *chunk) {
    const json_t *value = chunk->epoch.value;
    const json_t *index = json_object_get(value, "index");
    const char *cluster = json_string_value(json_object_get(value, "cluster"));
    chunk->identity = (ten_etcd_identity){.cluster = cluster ? strtoull(cluster, NULL, 16) : 0,
                                          .floor = ten_etcd_number(value, "floor"),
                                          .forgot = ten_etcd_number(value, "forgot"),
                                          .at = ten_etcd_number(value, "at"),
                                          .lead = INT64_MIN};
    if (json_is_integer(json_object_get(value, "lead")))
        chunk->identity.lead = json_integer_value(json_object_get(value, "lead"));
    /* The index was read before the revision at which this was written: the lead was at least so much. */
    if (json_is_integer(index))
        chunk->identity.lead = json_integer_value(index) - (int64_t)chunk->epoch.revision;
    chunk->in_epoch = json_is_true(json_object_get(chunk->wait.value, "epoch"));
    return ten_etcd_check_layout(chunk->store, chunk->namespace_name, value);
}

/* Adds it to the transaction, which happens only if nobody else has written it. */
void ten_etcd_epoch_put(ten_etcd_chunk *chunk, const ten_etcd_identity *identity) {
    ten_etcd_store *store = chunk->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    char text[32];
    ten_buf *value = &store->value;
    ten_buf_clear(value);
    ten_json_open(value);
    ten_json_number(value, "layout", LAYOUT);
    snprintf(text, sizeof text, "%llx", (unsigned long long)identity->cluster);
    ten_json_text(value, "cluster", text);
    snprintf(text, sizeof text, "%lld", (long long)identity->lead);
    if (chunk->index)
        ten_json_number(value, "index", chunk->index);
    else if (identity->lead != INT64_MIN)
        ten_json_raw(value, "lead", text);
    if (identity->floor)
        ten_json_number(value, "floor", identity->floor);
    if (identity->forgot)
        ten_json_number(value, "forgot", identity->forgot);
    if (identity->at)
        ten_json_number(value, "at", identity->at);
    ten_json_close(value);
    key_of(chunk, key, TEN_ETCD_EPOCH);
    ten_etcd_txn_compare(&store->txn, key, chunk->epoch.revision);
    ten_etcd_txn_put(&store->txn, key, ten_buf_string(value), 0);
}

void ten_etcd_term_put(ten_etcd_chunk *chunk, uint64_t longest_ms) {
    char key[TEN_ETCD_KEY_MAX + 1];
    char value[80];
    key_of(chunk, key, TEN_ETCD_TERM);
    ten_etcd_txn_compare(&chunk->store->txn, key, chunk->term.revision);
    snprintf(value, sizeof value, "{\"term\":%llu,\"ttl_ms\":%llu}", (unsigned long long)chunk->head.term,
             (unsigned long long)longest_ms);
    ten_etcd_txn_put(&chunk->store->txn, key, value, 0);
}

/* ---- signs of a loss --------------------------------------------------------------------------------------- */

/* How long raft's log is by the member that answered the reading, or 0: not known. */
static uint64_t read_index(const ten_etcd_chunk *chunk) {
    ten_error error = {0};
    ten_etcd_call call = {.path = "/v3/maintenance/status", .body = "{}"};
    int r = ten_etcd_perform_here(chunk->store->link, &call, chunk->deadline_ms, &error);
    bool same = r == TENURE_OK && call.head.member == chunk->head.member;
    uint64_t index = same ? ten_etcd_number(call.answer, "raftIndex") : 0;
    ten_etcd_calls_free(&call, 1);
    return index;
}

bool ten_etcd_is_checked(const ten_etcd_chunk *chunk) {
    uintptr_t checked = (uintptr_t)ten_map_get(&chunk->store->checked, chunk->namespace_name);
    return checked == (uintptr_t)ten_etcd_connections(chunk->store->link) + 1;
}

/* Looked at when there may be another etcd behind the address than before: with each new connection. */
static bool is_log_shorter(ten_etcd_chunk *chunk) {
    ten_etcd_store *store = chunk->store;
    uint64_t connections = ten_etcd_connections(store->link);
    chunk->index = 0;
    if (ten_etcd_is_checked(chunk))
        return false;
    chunk->index = read_index(chunk);
    if (chunk->index == 0)
        return false;
    (void)ten_map_put(&store->checked, chunk->namespace_name, (void *)((uintptr_t)connections + 1));
    return (int64_t)chunk->index - (int64_t)chunk->head.revision < chunk->identity.lead;
}

static bool has_lost(ten_etcd_chunk *chunk) {
    const ten_etcd_identity *identity = &chunk->identity;
    bool shorter = is_log_shorter(chunk);
    return shorter || (identity->cluster && chunk->head.cluster && identity->cluster != chunk->head.cluster) ||
           ten_etcd_number(chunk->term.value, "term") > chunk->head.term;
}

/* ---- beginning --------------------------------------------------------------------------------------------- */

static int finish(ten_etcd_chunk *chunk) {
    bool succeeded;
    int r = ten_etcd_commit(chunk->store, true, chunk->deadline_ms, &succeeded, NULL);
    return r == TENURE_E_GONE ? TENURE_OK : r;
}

/* The leader has changed since this namespace was last looked at: from now on leases are counted in the new term. What
 * vanished without being released is not given away before the longest TTL has passed. An epoch's wait begins anew. */
static int begin_term(ten_etcd_chunk *chunk) {
    ten_etcd_store *store = chunk->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    uint64_t longest_ms = chunk->longest_ms;
    uint64_t wait_ms = ten_max_u64(longest_ms, chunk->in_epoch ? EPOCH_MIN_MS : 0);
    uint64_t lease = 0;
    if (chunk->index == 0)
        chunk->index = read_index(chunk);
    store->head = chunk->head;
    int r = wait_ms ? ten_etcd_grant(store, wait_ms, chunk->deadline_ms, &lease) : TENURE_OK;
    if (r < 0)
        return r;
    if (store->head.term != chunk->head.term)
        return TENURE_OK; /* it has changed again: the next reading tells */
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_term_put(chunk, longest_ms);
    ten_etcd_identity identity = chunk->identity;
    identity.cluster = chunk->head.cluster;
    ten_etcd_epoch_put(chunk, &identity);
    key_of(chunk, key, TEN_ETCD_WAIT);
    if (lease)
        ten_etcd_txn_put(&store->txn, key, chunk->in_epoch ? "{\"epoch\":true}" : "{}", lease);
    return finish(chunk);
}

int ten_etcd_begin_epoch(ten_etcd_chunk *chunk) {
    ten_etcd_store *store = chunk->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    uint64_t longest_ms = ten_max_u64(chunk->longest_ms, chunk->shown_ttl_ms);
    uint64_t lease = 0;
    if (chunk->index == 0)
        chunk->index = read_index(chunk);
    store->head = chunk->head;
    int r = ten_etcd_grant(store, ten_max_u64(longest_ms, EPOCH_MIN_MS), chunk->deadline_ms, &lease);
    if (r < 0)
        return r;
    if (store->head.term != chunk->head.term)
        return TENURE_OK;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_term_put(chunk, longest_ms);
    ten_etcd_identity identity = chunk->identity;
    identity.cluster = chunk->head.cluster;
    identity.lead = INT64_MIN;
    identity.at = chunk->head.revision;
    identity.floor = ten_max_u64(identity.floor, ten_wall_ms(store->base.clock));
    identity.floor = ten_max_u64(identity.floor, ten_max_u64(chunk->shown_token, chunk->head.revision) + 1);
    ten_etcd_epoch_put(chunk, &identity);
    key_of(chunk, key, TEN_ETCD_WAIT);
    ten_etcd_txn_compare(&store->txn, key, chunk->wait.revision);
    ten_etcd_txn_put(&store->txn, key, "{\"epoch\":true}", lease);
    return finish(chunk);
}

int ten_etcd_epoch_check(ten_etcd_chunk *chunk, bool *ret_current) {
    bool lost = has_lost(chunk);
    bool of_this_term = chunk->term.revision > 0 && ten_etcd_number(chunk->term.value, "term") == chunk->head.term;
    /* Without room nobody can write that the term is another: what only reads goes on. */
    of_this_term |= chunk->store->is_full && chunk->term.revision > 0;
    *ret_current = !lost && of_this_term && chunk->epoch.revision > 0;
    if (lost)
        return ten_etcd_begin_epoch(chunk);
    if (!of_this_term)
        return begin_term(chunk);
    if (*ret_current)
        return TENURE_OK;
    if (chunk->index == 0)
        chunk->index = read_index(chunk);
    ten_etcd_txn_clear(&chunk->store->txn);
    chunk->identity.cluster = chunk->head.cluster;
    ten_etcd_epoch_put(chunk, &chunk->identity);
    return finish(chunk);
}
