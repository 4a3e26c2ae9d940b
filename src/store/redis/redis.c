/*
 * The Redis backend: opening, connecting, and calling scripts. A batch is a few EVALSHA in a pipeline; whatever must be
 * atomic is inside one script (redis_*.lua). A server that restarts, forgets its scripts or is no longer the master is
 * met by connecting again and sending the same once more, which is harmless by the store contract.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "store/redis/redis_lua.h"
#include "store/redis/redis_state.h"

#define IN_FRONT 2u
static const struct {
    const char *text;
    const char *front[IN_FRONT]; /* in front of it; NULL: nothing */
} scripts[TEN_REDIS_SCRIPT_COUNT] = {
    [TEN_REDIS_APPLY] = {LUA_APPLY, {LUA_SESSION, LUA_PRELUDE}},
    [TEN_REDIS_EDIT_TARGETS] = {LUA_TARGETS, {LUA_PRELUDE}},
    [TEN_REDIS_CURSOR] = {LUA_CURSOR, {LUA_PRELUDE}},
    [TEN_REDIS_SWEEP] = {LUA_SWEEP, {LUA_PRELUDE}},
    [TEN_REDIS_CONFIRM] = {LUA_CONFIRM, {LUA_PRELUDE}},
    [TEN_REDIS_FORGET] = {LUA_FORGET, {LUA_SESSION, LUA_PRELUDE}},
    [TEN_REDIS_RECOVERY] = {LUA_RECOVERY, {LUA_PRELUDE}},
    [TEN_REDIS_BLANK] = {LUA_BLANK, {LUA_PRELUDE}},
    [TEN_REDIS_LEAN] = {LUA_LEAN, {LUA_PROOF}},
    [TEN_REDIS_LEAN_RUN] = {LUA_LEAN_RUN, {LUA_PROOF}},
    [TEN_REDIS_LEAN_BEAT] = {LUA_LEAN_BEAT, {LUA_PROOF}},
    [TEN_REDIS_LIST] = {LUA_LIST, {LUA_READABLE, LUA_SESSION}},
    [TEN_REDIS_CHANGES] = {LUA_CHANGES, {LUA_READABLE}},
    [TEN_REDIS_LIST_INSTANCES] = {LUA_INSTANCES, {LUA_READABLE}},
};

static ten_redis_store *self(ten_store *base) {
    return (ten_redis_store *)base;
}

/* ---- words --------------------------------------------------------------------------------------------- */

static void start_command(ten_redis_words *words) {
    ten_buf_clear(&words->text);
    words->text.failed = false;
    words->failed = false;
    words->count = 0;
}

static void end_word(ten_redis_words *words) {
    if (words->count == words->room) {
        size_t room = words->room ? words->room * 2 : 64;
        size_t *ends = ten_realloc(words->ends, room * sizeof *words->ends);
        if (ends)
            words->ends = ends;
        const char **starts = ends ? ten_realloc(words->starts, room * sizeof *words->starts) : NULL;
        if (starts)
            words->starts = starts;
        size_t *sizes = starts ? ten_realloc(words->sizes, room * sizeof *words->sizes) : NULL;
        if (!sizes) {
            words->failed = true;
            return;
        }
        words->sizes = sizes;
        words->room = room;
    }
    words->ends[words->count++] = words->text.size;
}

void ten_redis_word_bytes(ten_redis_words *words, const char *data, size_t size) {
    ten_buf_add(&words->text, data, size);
    end_word(words);
}

void ten_redis_word(ten_redis_words *words, const char *text) {
    ten_redis_word_bytes(words, text, strlen(text));
}

void ten_redis_word_number(ten_redis_words *words, uint64_t number) {
    char text[24];
    char *start = ten_digits_before(text + sizeof text, number);
    ten_redis_word_bytes(words, start, (size_t)(text + sizeof text - start));
}

void ten_redis_word_key(ten_redis_words *words, const ten_redis_pattern *pattern, const char *id) {
    ten_buf_text(&words->text, pattern->before);
    ten_buf_text(&words->text, id);
    ten_redis_word(words, pattern->after);
}

void ten_redis_words_free(ten_redis_words *words) {
    ten_buf_free(&words->text);
    ten_free(words->ends);
    ten_free(words->starts);
    ten_free(words->sizes);
    *words = (ten_redis_words){0};
}

void ten_redis_command(ten_redis_store *store) {
    start_command(&store->words);
}

void ten_redis_script(ten_redis_store *store, enum ten_redis_script script, size_t key_count) {
    start_command(&store->words);
    ten_redis_word(&store->words, "EVALSHA");
    ten_redis_word(&store->words, store->shas[script]);
    ten_redis_word_number(&store->words, key_count);
}

void ten_redis_script_in(ten_redis_store *store, enum ten_redis_script script, const ten_redis_space *space,
                         size_t key_count) {
    ten_redis_script(store, script, TEN_REDIS_OWN_COUNT + key_count);
    for (size_t i = 0; i < TEN_REDIS_OWN_COUNT; i++)
        ten_redis_word(&store->words, space->own[i]);
}

void ten_redis_arguments(ten_redis_store *store, const ten_redis_space *space) {
    ten_redis_word(&store->words, space->lease.before);
    ten_redis_word(&store->words, space->lease.after);
    ten_redis_word(&store->words, space->node.before);
    ten_redis_word(&store->words, space->node.after);
    ten_redis_word(&store->words, store->fresh ? "fresh" : "");
    ten_redis_word_number(&store->words, ten_redis_settings_database(store->settings));
    ten_redis_word_number(&store->words, store->wait_replicas);
    ten_redis_word(&store->words, store->sessions ? "session" : "key");
}

/* ---- sending and receiving ----------------------------------------------------------------------------- */

int ten_redis_send(ten_redis_store *store) {
    ten_redis_words *words = &store->words;
    if (words->failed || words->text.failed)
        return ten_fail_memory(&store->base.error, "a command to Redis");
    size_t start = 0;
    for (size_t i = 0; i < words->count; i++) {
        words->starts[i] = words->text.data + start;
        words->sizes[i] = words->ends[i] - start;
        start = words->ends[i];
    }
    return ten_redis_link_send(store->link, words->count, words->starts, words->sizes, &store->base.error);
}

int ten_redis_receive(ten_redis_store *store, const char *what, uint64_t deadline_ms, redisReply **ret_reply) {
    redisReply *reply = NULL;
    int r = ten_redis_link_receive(store->link, deadline_ms, &reply, &store->base.error);
    if (r < 0)
        return r;
    *ret_reply = reply;
    if (reply->type != REDIS_REPLY_ERROR)
        return TENURE_OK;
    *ret_reply = NULL;
    if (strncmp(reply->str, "NOSCRIPT", 8) != 0)
        r = ten_redis_refusal(reply, what, &store->base.error);
    freeReplyObject(reply);
    return r;
}

int ten_redis_misunderstood(ten_redis_store *store) {
    return ten_fail(&store->base.error, TENURE_E_STORE, "%s: unexpected reply to a script",
                    ten_redis_settings_name(store->settings));
}

const char *ten_redis_text(const redisReply *reply) {
    return reply && reply->str && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS) ? reply->str
                                                                                                           : "";
}

uint64_t ten_redis_number(const redisReply *reply) {
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        return reply->integer > 0 ? (uint64_t)reply->integer : 0;
    return strtoull(ten_redis_text(reply), NULL, 10);
}

/* ---- connecting ---------------------------------------------------------------------------------------- */

static int send_script(ten_redis_store *store, enum ten_redis_script script) {
    start_command(&store->words);
    ten_redis_word(&store->words, "SCRIPT");
    ten_redis_word(&store->words, "LOAD");
    for (size_t i = 0; i < IN_FRONT && scripts[script].front[i]; i++)
        ten_buf_text(&store->words.text, scripts[script].front[i]);
    ten_redis_word(&store->words, scripts[script].text);
    return ten_redis_send(store);
}

int ten_redis_load_scripts(ten_redis_store *store, uint64_t deadline_ms) {
    int r = TENURE_OK;
    for (unsigned i = 0; r == TENURE_OK && i < TEN_REDIS_SCRIPT_COUNT; i++)
        r = send_script(store, (enum ten_redis_script)i);
    for (unsigned i = 0; r == TENURE_OK && i < TEN_REDIS_SCRIPT_COUNT; i++) {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        r = ten_redis_receive(store, "loading a script", deadline_ms, &reply);
        if (r == TENURE_OK)
            snprintf(store->shas[i], sizeof store->shas[i], "%s", ten_redis_text(reply));
    }
    return r;
}

void ten_redis_disconnect(ten_redis_store *store) {
    ten_redis_link_close(store->link);
    store->link = NULL;
}

int ten_redis_connect(ten_redis_store *store, uint64_t deadline_ms) {
    if (store->link && !ten_redis_link_is_fresh(store->link)) {
        ten_redis_disconnect(store);
        ten_dial_spread(&store->dial);
    }
    if (store->link)
        return TENURE_OK;
    int r = ten_dial_wait(&store->dial, ten_redis_settings_name(store->settings), deadline_ms, &store->base.error);
    if (r < 0)
        return r;
    r = ten_redis_link_open(store->settings, TEN_REDIS_LEASES, deadline_ms, &store->link, &store->base.error);
    if (r == TENURE_OK)
        r = ten_redis_load_scripts(store, deadline_ms);
    if (r < 0)
        ten_redis_disconnect(store);
    ten_dial_note(&store->dial, r);
    return r;
}

static int call_once(ten_redis_store *store, const char *what, ten_redis_make_fn make, void *userdata,
                     uint64_t deadline_ms, redisReply **ret_reply) {
    int r = ten_redis_connect(store, deadline_ms);
    redisReply *reply = NULL;
    for (int tries = 0; r == TENURE_OK && !reply && tries < 2; tries++) {
        if (tries > 0)
            r = ten_redis_load_scripts(store, deadline_ms);
        if (r == TENURE_OK) {
            make(store, userdata);
            r = ten_redis_send(store);
        }
        if (r == TENURE_OK)
            r = ten_redis_receive(store, what, deadline_ms, &reply);
    }
    if (r == TENURE_OK && !reply)
        r = ten_fail(&store->base.error, TENURE_E_STORE,
                     "%s: the script cache was flushed repeatedly (NOSCRIPT); stop what runs SCRIPT FLUSH", what);
    if (r < 0)
        ten_redis_disconnect(store);
    else
        *ret_reply = reply;
    return r;
}

int ten_redis_call(ten_redis_store *store, const char *what, ten_redis_make_fn make, void *userdata,
                   uint64_t timeout_ms, redisReply **ret_reply) {
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    bool was_connected = store->link != NULL;
    int r = call_once(store, what, make, userdata, deadline_ms, ret_reply);
    if (ten_dial_worth_another(r, was_connected, deadline_ms))
        r = call_once(store, what, make, userdata, deadline_ms, ret_reply);
    return r;
}

/* ---- the handle ---------------------------------------------------------------------------------------- */

static void make_ping(ten_redis_store *store, void *userdata) {
    (void)userdata;
    start_command(&store->words);
    ten_redis_word(&store->words, "PING");
}

static int redis_ping(ten_store *base, uint64_t timeout_ms) {
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    return ten_redis_call(self(base), "PING", make_ping, NULL, timeout_ms, &reply);
}

static void redis_close(ten_store *base) {
    ten_redis_store *store = self(base);
    ten_redis_watch_close(&store->watch);
    ten_redis_disconnect(store);
    ten_redis_layout_free(&store->layout);
    ten_redis_settings_free(store->settings);
    ten_redis_words_free(&store->words);
    ten_arena_free(&store->results);
}

static int take_options(const ten_url *url, ten_redis_store *store, ten_error *error) {
    const char *replicas = ten_url_option(url, "wait_replicas");
    const char *fresh = ten_url_option(url, "fresh");
    char *end = NULL;
    if (replicas) {
        store->wait_replicas = strtoull(replicas, &end, 10);
        if (replicas[0] < '0' || replicas[0] > '9' || *end != '\0' || store->wait_replicas > 100)
            return ten_fail(error, TENURE_E_INVALID, "wait_replicas is a number of replicas, 0 to 100, not '%.20s'",
                            replicas);
    }
    if (fresh && strcmp(fresh, "1") != 0 && strcmp(fresh, "0") != 0)
        return ten_fail(error, TENURE_E_INVALID, "fresh is 1 (this Redis has never held a lease) or 0, not '%.20s'",
                        fresh);
    store->fresh = fresh && fresh[0] == '1';
    const char *leases = ten_url_option(url, "leases");
    if (leases && strcmp(leases, "session") != 0 && strcmp(leases, "key") != 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "leases is key (each lease is a key with a TTL of its own) or session (the heartbeat of an "
                        "instance renews all its leases), not '%.20s'",
                        leases);
    store->sessions = leases && strcmp(leases, "session") == 0;
    store->base.capabilities.sessions = store->sessions;
    return TENURE_OK;
}

static int redis_open(ten_store *base, const ten_url *url, uint64_t timeout_ms) {
    static const char *const options[] = {
        TEN_REDIS_LINK_OPTIONS, TEN_REDIS_LAYOUT_OPTIONS, "wait_replicas", "fresh", "leases", NULL};
    ten_redis_store *store = self(base);
    ten_redis_watch_init(store);
    int r = ten_url_check_options(url, options, &base->error);
    if (r == TENURE_OK)
        r = take_options(url, store, &base->error);
    if (r == TENURE_OK)
        r = ten_redis_settings_make(url, &store->settings, &base->error);
    if (r == TENURE_OK)
        r = ten_redis_layout_make(url, &store->layout, &base->error);
    return r < 0 ? r : ten_redis_connect(store, ten_add_saturating(ten_now_ms(), timeout_ms));
}

const ten_store_ops ten_redis_ops = {
    .name = "redis",
    .size = sizeof(ten_redis_store),
    .capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS,
                     .shared_between_processes = true,
                     .survives_restart = true,
                     .hands = true,
                     .expiry_clock = "the Redis server's clock",
                     .change_notice = "PUBLISH from the scripts"},
    .open = redis_open,
    .close = redis_close,
    .apply = ten_redis_apply,
    .check_op = ten_redis_check_op,
    .edit_targets = ten_redis_edit,
    .forget = ten_redis_forget,
    .forget_history = ten_redis_forget_history,
    .list = ten_redis_list,
    .read_targets = ten_redis_read_targets,
    .list_instances = ten_redis_list_instances,
    .list_namespaces = ten_redis_list_namespaces,
    .changes = ten_redis_changes,
    .watch = ten_redis_watch_get,
    .watch_clear = ten_redis_watch_clear,
    .ping = redis_ping,
    .recovery = ten_redis_recovery,
    .check = ten_redis_check,
};
