/*
 * The namespaces that an etcd has. The keys of a namespace lie together, so each step reads the first key behind the last
 * namespace: the cost is that of the namespaces, not of what is in them. Called through store.h, for people.
 */
#include <string.h>

#include "base/encode.h"
#include "store/common/name_list.h"
#include "store/etcd/etcd_state.h"

/* The namespace of the first key from `from` on; "": there is none. */
static int find_next(ten_etcd_store *store, const char *prefix, const char *from, char name[TENURE_NAMESPACE_MAX + 1],
                     uint64_t deadline_ms) {
    json_t *answer = NULL;
    bool succeeded;
    name[0] = '\0';
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_txn_get_all(&store->txn, prefix, &(struct ten_etcd_range){.from = from, .limit = 1, .keys_only = true});
    int r = ten_etcd_commit(store, false, deadline_ms, &succeeded, &answer);
    if (r < 0)
        return r;
    const char *text = json_string_value(json_object_get(json_array_get(ten_etcd_kvs(answer, 0), 0), "key"));
    size_t size = strlen(prefix);
    if (text && ten_base64_decode(&store->scratch, text) && store->scratch.size > size) {
        const char *rest = ten_buf_string(&store->scratch) + size;
        size_t length = ten_min_u64(strcspn(rest, "/"), TENURE_NAMESPACE_MAX);
        memcpy(name, rest, length);
        name[length] = '\0';
    }
    json_decref(answer);
    return TENURE_OK;
}

/* What stays of a namespace when all in it is forgotten (its term, its feed) does not count. */
static int is_used(ten_etcd_store *store, const char *name, uint64_t deadline_ms, bool *ret_used) {
    static const enum ten_etcd_kind kinds[] = {TEN_ETCD_FENCE, TEN_ETCD_TARGET, TEN_ETCD_INSTANCE};
    char key[TEN_ETCD_KEY_MAX + 1];
    json_t *answer = NULL;
    bool succeeded;
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; i < TEN_COUNT(kinds); i++) {
        ten_etcd_key_of(store, key, name, kinds[i], NULL);
        ten_etcd_txn_get_all(&store->txn, key, &(struct ten_etcd_range){.limit = 1, .keys_only = true});
    }
    int r = ten_etcd_commit(store, false, deadline_ms, &succeeded, &answer);
    *ret_used = false;
    for (size_t i = 0; r == TENURE_OK && i < TEN_COUNT(kinds); i++)
        *ret_used |= json_array_size(ten_etcd_kvs(answer, i)) > 0;
    json_decref(answer);
    return r;
}

int ten_etcd_list_namespaces(ten_store *base, tenure_name_fn each, void *userdata, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    uint64_t deadline_ms = ten_now_ms() + timeout_ms;
    char prefix[TEN_ETCD_PREFIX_MAX + 2];
    char from[TEN_ETCD_KEY_MAX + 1];
    ten_name_list names = {0};
    char name[TENURE_NAMESPACE_MAX + 1];
    snprintf(prefix, sizeof prefix, "%s/", store->settings.prefix);
    snprintf(from, sizeof from, "%s", prefix);
    int r = find_next(store, prefix, from, name, deadline_ms);
    while (r == TENURE_OK && name[0]) {
        bool used = false;
        r = is_used(store, name, deadline_ms, &used);
        if (r == TENURE_OK && used && !ten_name_list_add(&names, name))
            r = ten_etcd_no_memory(store);
        /* '0' follows '/': behind all keys of the namespace. */
        snprintf(from, sizeof from, "%s%s0", prefix, name);
        if (r == TENURE_OK)
            r = find_next(store, prefix, from, name, deadline_ms);
    }
    /* "a-b/" comes before "a/" among the keys. */
    if (r < 0)
        names.count = 0;
    int stopped = ten_name_list_end(&names, each, userdata);
    return r < 0 ? r : stopped;
}
