/*
 * The namespaces that a Redis has. There is no index of them: SCAN walks the keys in steps, each of which is short, and the
 * names are taken from our own keys. For people (`tenure namespaces`, GET /api/v1); nothing on the way of a lease calls it.
 */
#include <string.h>

#include "base/id.h"
#include "store/common/name_list.h"
#include "store/redis/redis_state.h"

#define PREFIX "tenure:"
#define KEYS   "1000" /* that one step looks at: under a millisecond of the server's time */

/* The keys that are there only while a namespace has targets, counters or instances. False: out of memory. */
static bool add_key(ten_name_list *names, const char *key) {
    static const char *const endings[] = {":ids", ":nodes", ":targets", ":fence"};
    const char *last = strrchr(key, ':');
    size_t before = strlen(PREFIX);
    if (!last || strncmp(key, PREFIX, before) != 0 || last <= key + before ||
        (size_t)(last - key) - before > TENURE_NAMESPACE_MAX)
        return true;
    for (size_t i = 0; i < TEN_COUNT(endings); i++) {
        if (strcmp(last, endings[i]) != 0)
            continue;
        char name[TENURE_NAMESPACE_MAX + 1];
        ten_error error;
        snprintf(name, sizeof name, "%.*s", (int)((size_t)(last - key) - before), key + before);
        return ten_id_check_namespace(name, &error) < 0 || ten_name_list_add(names, name);
    }
    return true;
}

static void make_step(ten_redis_store *store, void *userdata) {
    const char *const words[] = {"SCAN", userdata, "MATCH", PREFIX "*", "COUNT", KEYS};
    ten_redis_command(store);
    for (size_t i = 0; i < TEN_COUNT(words); i++)
        ten_redis_word(&store->words, words[i]);
}

static int scan(ten_redis_store *store, ten_name_list *names, uint64_t deadline_ms) {
    char cursor[32] = "0";
    int r;
    do {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
        r = ten_redis_call(store, "listing namespaces", make_step, cursor, left_ms, &reply);
        if (r == TENURE_OK &&
            (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[1]->type != REDIS_REPLY_ARRAY))
            r = ten_redis_misunderstood(store);
        const redisReply *keys = r == TENURE_OK ? reply->element[1] : NULL;
        for (size_t i = 0; keys && r == TENURE_OK && i < keys->elements; i++)
            if (!add_key(names, ten_redis_text(keys->element[i])))
                r = ten_fail_memory(&store->base.error, "a list of namespaces");
        if (r == TENURE_OK)
            snprintf(cursor, sizeof cursor, "%s", ten_redis_text(reply->element[0]));
    } while (r == TENURE_OK && strcmp(cursor, "0") != 0);
    return r;
}

int ten_redis_list_namespaces(ten_store *base, tenure_name_fn each, void *userdata, uint64_t timeout_ms) {
    ten_name_list names = {0};
    int r = scan((ten_redis_store *)base, &names, ten_add_saturating(ten_now_ms(), timeout_ms));
    if (r < 0)
        names.count = 0;
    int stopped = ten_name_list_end(&names, each, userdata);
    return r < 0 ? r : stopped;
}
