/*
 * The identity of the store, the terms of its leaders, and what is known of a namespace. See etcd_state.h.
 *
 * PREFIX/store has the identity: a random text that every commit and touch compares. It becomes another one when the
 * store is found older than it was, which is looked for with each new connection. What proves it, beside PREFIX/log:
 *  - another cluster id than the one that is written there, or a raft term below that one;
 *  - raft's index is behind the revision by more than it was before. Each revision needs an entry of raft's log, so
 *    that index - revision (the lead) never shrinks; a restored snapshot keeps its revisions and begins a new log.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "store/etcd/etcd_state.h"

#define LOOKS_MAX 4u

/* ---- the store --------------------------------------------------------------------------------------------- */

ten_etcd_key ten_etcd_store_key(const ten_etcd_store *store) {
    return ten_etcd_top_key(store->settings.prefix, "store");
}

/* The index of raft's log, as the member that answered the reading has it; 0: not known. */
static uint64_t read_index(const ten_etcd_store *store) {
    ten_error error = {0};
    ten_etcd_call call = {.path = "/v3/maintenance/status", .body = "{}"};
    int r = ten_etcd_perform_here(store->link, &call, store->deadline_ms, &error);
    bool same = r == TENURE_OK && call.head.member == store->head.member;
    uint64_t index = same ? ten_etcd_number(call.answer, "raftIndex") : 0;
    ten_etcd_calls_free(&call, 1);
    return index;
}

/* The index was read before the revision at which PREFIX/log was written: the lead was at least as large then. */
static bool has_lost(const ten_etcd_store *store, const ten_etcd_kv *log, uint64_t index) {
    unsigned long long cluster = 0;
    unsigned long long term = 0;
    unsigned long long index_then = 0;
    if (sscanf(log->value, "%llx %llu %llu", &cluster, &term, &index_then) != 3)
        return false;
    int64_t lead = (int64_t)index - (int64_t)store->head.revision;
    bool is_shorter = index && index_then && lead < (int64_t)index_then - (int64_t)log->revision;
    return is_shorter || cluster != store->head.cluster || term > store->head.term;
}

/* Gives the store a new identity, unless another client has done so. */
static int put_identity(ten_etcd_store *store, uint64_t revision, uint64_t index) {
    char text[TEN_IDENTITY_MAX + 1];
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_txn_compare(&store->txn, ten_etcd_store_key(store).text, revision);
    snprintf(text, sizeof text, "etcd-%016llx", (unsigned long long)ten_random_u64());
    ten_etcd_txn_put(&store->txn, ten_etcd_store_key(store).text, text, 0);
    snprintf(text, sizeof text, "%llx %llu %llu", (unsigned long long)store->head.cluster,
             (unsigned long long)store->head.term, (unsigned long long)index);
    ten_etcd_txn_put(&store->txn, ten_etcd_top_key(store->settings.prefix, "log").text, text, 0);
    ten_etcd_get(&store->txn.otherwise, ten_etcd_store_key(store).text);
    return ten_etcd_send_only(store, true);
}

static int look_at_store(ten_etcd_store *store, bool *ret_known) {
    json_t *answer = NULL;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_get(&store->txn.operations, ten_etcd_store_key(store).text);
    ten_etcd_get(&store->txn.operations, ten_etcd_top_key(store->settings.prefix, "log").text);
    int r = ten_etcd_send(store, false, &answer);
    *ret_known = false;
    if (r < 0)
        return store->is_older ? TENURE_OK : r;
    uint64_t index = read_index(store);
    ten_etcd_kv found = ten_etcd_kv_at(answer, 1, &store->scratch);
    bool lost = has_lost(store, &found, index);
    found = ten_etcd_kv_at(answer, 0, &store->scratch);
    if (found.revision && !lost) {
        ten_copy_text(store->base.identity, sizeof store->base.identity, found.value);
        *ret_known = true;
    } else {
        r = put_identity(store, found.revision, index); /* the next look finds it */
    }
    json_decref(answer);
    return r < 0 && store->is_older ? TENURE_OK : r;
}

int ten_etcd_confirm(ten_etcd_store *store) {
    for (unsigned i = 0; i < LOOKS_MAX; i++) {
        bool known = false;
        if (store->checked == ten_etcd_connections(store->link) + 1)
            return TENURE_OK;
        int r = look_at_store(store, &known);
        if (r < 0)
            return r;
        if (known)
            store->checked = ten_etcd_connections(store->link) + 1;
    }
    return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "etcd: the connections broke repeatedly; try again");
}

int ten_etcd_enter(ten_etcd_store *store) {
    ten_arena_reset(&store->texts);
    store->call++;
    store->is_older = false;
    store->is_full = false;
    return ten_etcd_confirm(store);
}

int ten_etcd_enter_as(ten_etcd_store *store, const char *identity) {
    int r = ten_etcd_enter(store);
    if (r < 0)
        return r;
    if (strcmp(store->base.identity, identity) != 0)
        return TEN_OTHER_EPOCH;
    ten_etcd_groups_begin(store, identity);
    return TENURE_OK;
}

/* ---- a namespace ------------------------------------------------------------------------------------------- */

void ten_etcd_state_get(const ten_etcd_store *store, ten_etcd_list *list) {
    ten_etcd_get(list, ten_etcd_store_key(store).text);
    ten_etcd_get(list, ten_etcd_place(&store->dir, TEN_ETCD_EPOCH, NULL).text);
    ten_etcd_get_all(list, ten_etcd_place(&store->dir, TEN_ETCD_STATE, NULL).text, &(struct ten_etcd_range){0});
}

static void take_item(ten_etcd_store *store, ten_etcd_space *space, const json_t *item) {
    unsigned long long first = 0;
    unsigned long long second = 0;
    const char *slash = strrchr(ten_etcd_kv_key(item, &store->scratch), '/');
    char name[16];
    ten_copy_text(name, sizeof name, slash ? slash + 1 : "");
    ten_etcd_kv kv = ten_etcd_kv_read(item, &store->scratch);
    (void)sscanf(kv.value, "%llu %llu", &first, &second);
    if (strcmp(name, "term") == 0) {
        space->term = first;
        space->longest_ms = second;
        space->term_revision = kv.revision;
    } else if (strcmp(name, "wait") == 0) {
        space->wait_revision = kv.revision;
        space->wait_lease = kv.lease;
    } else if (strcmp(name, "newest") == 0) {
        space->base = first;
        space->last = first + kv.revision * TEN_ETCD_PLACES + second - 1;
    } else if (strcmp(name, "trimmed") == 0) {
        space->cut = first;
        space->cut_at = second;
        space->cut_revision = kv.revision;
    }
}

int ten_etcd_state_take(ten_etcd_store *store, const json_t *answer) {
    ten_etcd_kv kv = ten_etcd_kv_at(answer, 0, &store->scratch);
    ten_copy_text(store->base.identity, sizeof store->base.identity, kv.value);
    kv = ten_etcd_kv_at(answer, 1, &store->scratch);
    if (kv.value[0] == '{')
        return ten_fail(
            store->base.error, TENURE_E_SCHEMA,
            "the namespace %s was written by another version of Tenure, whose layout this one does not use: "
            "use another namespace, or another prefix (etcd://HOSTS/PREFIX)",
            store->dir.namespace_name);
    *store->space = (ten_etcd_space){.known = true};
    ten_copy_text(store->space->epoch, sizeof store->space->epoch, kv.value);
    const json_t *items = ten_etcd_kvs(answer, 2);
    for (size_t i = 0; i < json_array_size(items); i++)
        take_item(store, store->space, json_array_get(items, i));
    return TENURE_OK;
}

void ten_etcd_state_begin(ten_etcd_store *store) {
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_state_get(store, &store->txn.operations);
}

int ten_etcd_state_send(ten_etcd_store *store, json_t **ret_answer) {
    int r = ten_etcd_send(store, false, ret_answer);
    return r < 0 ? r : ten_etcd_state_take(store, *ret_answer);
}

int ten_etcd_state_read(ten_etcd_store *store) {
    json_t *answer = NULL;
    ten_etcd_state_begin(store);
    int r = ten_etcd_state_send(store, &answer);
    json_decref(answer);
    return r;
}

void ten_etcd_epoch_value(ten_buf *value, const char *identity, uint64_t epoch) {
    ten_buf_clear(value);
    ten_buf_format(value, "%s %llu", identity, (unsigned long long)epoch);
}

void ten_etcd_rely_begin(ten_etcd_store *store, const ten_etcd_reliance *on) {
    ten_etcd_txn *txn = &store->txn;
    ten_etcd_txn_clear(txn);
    ten_etcd_txn_compare_value(txn, ten_etcd_store_key(store).text, on->identity);
    ten_etcd_epoch_value(&store->value, on->identity, on->epoch);
    if (!on->is_written)
        ten_etcd_txn_compare_value(txn, ten_etcd_place(&store->dir, TEN_ETCD_EPOCH, NULL).text,
                                   ten_buf_string(&store->value));
    ten_etcd_state_get(store, &store->txn.otherwise);
}

int ten_etcd_rely_send(ten_etcd_store *store, const ten_etcd_reliance *on, bool once, json_t **ret_answer,
                       bool *ret_held) {
    int r = ten_etcd_send(store, once, ret_answer);
    *ret_held = r == TENURE_OK && ten_etcd_succeeded(*ret_answer);
    if (r < 0 || *ret_held)
        return r;
    r = ten_etcd_state_take(store, *ret_answer);
    ten_etcd_epoch_value(&store->value, on->identity, on->epoch);
    bool same = strcmp(store->base.identity, on->identity) == 0 &&
                (on->is_written || strcmp(store->space->epoch, ten_buf_string(&store->value)) == 0);
    return r < 0 ? r : same ? TENURE_OK : TEN_OTHER_EPOCH;
}

/* ---- terms ------------------------------------------------------------------------------------------------- */

bool ten_etcd_is_in_doubt(const ten_etcd_store *store) {
    const ten_etcd_space *space = store->space;
    return space->wait_revision || (space->term_revision && space->term != store->head.term);
}

/* If the leader has changed since the term was written, lives that have vanished are in doubt until the longest TTL has
 * passed. */
int ten_etcd_set_term(ten_etcd_store *store, uint64_t ttl_ms) {
    ten_etcd_space *space = store->space;
    uint64_t term = store->head.term;
    uint64_t longest_ms = ten_max_u64(space->longest_ms, ttl_ms);
    if (space->term_revision && space->term == term && longest_ms == space->longest_ms)
        return TENURE_OK;
    bool begins = space->term_revision && space->term != term && space->longest_ms > 0;
    uint64_t lease = 0;
    int r = begins ? ten_etcd_grant(store, longest_ms, &lease) : TENURE_OK;
    if (r < 0 || store->head.term != term)
        return r; /* the leader has changed again: the next answer names the term */
    ten_etcd_key key = ten_etcd_place(&store->dir, TEN_ETCD_TERM, NULL);
    char value[48];
    json_t *answer = NULL;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_txn_compare(&store->txn, key.text, space->term_revision);
    snprintf(value, sizeof value, "%llu %llu", (unsigned long long)term, (unsigned long long)longest_ms);
    ten_etcd_txn_put(&store->txn, key.text, value, 0);
    if (lease)
        ten_etcd_txn_put(&store->txn, ten_etcd_place(&store->dir, TEN_ETCD_WAIT, NULL).text, "", lease);
    ten_etcd_state_get(store, &store->txn.otherwise);
    r = ten_etcd_send(store, true, &answer);
    if (r == TENURE_OK && !ten_etcd_succeeded(answer)) {
        r = ten_etcd_state_take(store, answer);
    } else if (r == TENURE_OK) {
        space->term = term;
        space->longest_ms = longest_ms;
        space->term_revision = store->head.revision;
        space->wait_revision = lease ? store->head.revision : space->wait_revision;
        space->wait_lease = lease ? lease : space->wait_lease;
    }
    json_decref(answer);
    return r;
}
