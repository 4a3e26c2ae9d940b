/*
 * The Redis backend: opening, connecting, and calling scripts. Whatever must be atomic is inside one script
 * (redis.lua); a large commit is a few of them in a pipeline. A server that restarts, forgets its scripts or is no
 * longer the master is met by connecting again and sending the same once more: a commit that was carried out conflicts
 * with itself then, and shows it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "store/record_store.h"
#include "store/redis/redis_lua.h"
#include "store/redis/redis_state.h"

#define IN_FLIGHT 4u /* calls */
#define RELOADS   3u /* of scripts that the server has forgotten again */

static const char *const scripts[TEN_REDIS_SCRIPT_COUNT] = {
    [TEN_REDIS_READ] = LUA_READ,   [TEN_REDIS_COMMIT] = LUA_COMMIT,       [TEN_REDIS_TOUCH] = LUA_TOUCH,
    [TEN_REDIS_SCAN] = LUA_SCAN,   [TEN_REDIS_READ_FEED] = LUA_FEED,      [TEN_REDIS_UNFEED] = LUA_UNFEED,
    [TEN_REDIS_SWEEP] = LUA_SWEEP, [TEN_REDIS_EXCHANGED] = LUA_EXCHANGED,
};

_Static_assert(offsetof(ten_redis_store, watch) == offsetof(ten_noticing, watch), "see notice_watch.h");

static ten_redis_store *self(ten_backend *base) {
    return (ten_redis_store *)base;
}

/* ---- words --------------------------------------------------------------------------------------------- */

static void end_word(ten_redis_words *words) {
    ten_redis_add_word(&words->done, words->text.data, words->text.size);
    words->done.failed |= words->text.failed;
    words->count++;
    ten_buf_clear(&words->text);
}

void ten_redis_word_bytes(ten_redis_words *words, const char *data, size_t size) {
    ten_buf_add(&words->text, data, size);
    end_word(words);
}

void ten_redis_word(ten_redis_words *words, const char *text) {
    ten_redis_word_bytes(words, text, strlen(text));
}

void ten_redis_add_number(ten_redis_words *words, uint64_t number) {
    char text[24];
    char *start = ten_digits_before(text + sizeof text, number);
    ten_buf_add(&words->text, start, (size_t)(text + sizeof text - start));
}

void ten_redis_word_number(ten_redis_words *words, uint64_t number) {
    ten_redis_add_number(words, number);
    end_word(words);
}

void ten_redis_word_key(ten_redis_words *words, const ten_redis_pattern *pattern, const char *id) {
    ten_buf_text(&words->text, pattern->before);
    ten_buf_text(&words->text, id);
    ten_redis_word(words, pattern->after);
}

void ten_redis_command(ten_redis_store *store) {
    ten_redis_words *words = &store->words;
    ten_buf_clear(&words->text);
    ten_buf_clear(&words->done);
    words->text.failed = words->done.failed = false;
    words->count = 0;
}

void ten_redis_script(ten_redis_store *store, enum ten_redis_script script, size_t key_count) {
    ten_redis_command(store);
    ten_redis_word(&store->words, "EVALSHA");
    ten_redis_word(&store->words, store->shas[script]);
    ten_redis_word_number(&store->words, key_count);
}

/* ---- sending and receiving ----------------------------------------------------------------------------- */

/* The next reply. An error reply is an error, but NOSCRIPT, which is *ret_reply NULL. */
static int receive(ten_redis_store *store, const char *what, uint64_t deadline_ms, redisReply **ret_reply) {
    redisReply *reply = NULL;
    int r = ten_redis_link_receive(store->link, deadline_ms, &reply, store->base.error);
    if (r < 0)
        return r;
    *ret_reply = reply;
    if (reply->type != REDIS_REPLY_ERROR)
        return TENURE_OK;
    *ret_reply = NULL;
    if (strncmp(reply->str, "NOSCRIPT", 8) != 0)
        r = ten_redis_refusal(reply, what, store->base.error);
    freeReplyObject(reply);
    return r;
}

int ten_redis_misunderstood(ten_redis_store *store) {
    return ten_fail(store->base.error, TENURE_E_STORE, "%s: unexpected reply to a script",
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

static int load_scripts(ten_redis_store *store, uint64_t deadline_ms) {
    int r = TENURE_OK;
    for (unsigned i = 0; r == TENURE_OK && i < TEN_REDIS_SCRIPT_COUNT; i++) {
        const char *const words[] = {"SCRIPT", "LOAD", scripts[i]};
        r = ten_redis_link_send(store->link, TEN_COUNT(words), words, NULL, store->base.error);
    }
    for (unsigned i = 0; r == TENURE_OK && i < TEN_REDIS_SCRIPT_COUNT; i++) {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        r = receive(store, "loading a script", deadline_ms, &reply);
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
    int r = ten_dial_wait(&store->dial, ten_redis_settings_name(store->settings), deadline_ms, store->base.error);
    if (r < 0)
        return r;
    r = ten_redis_link_open(store->settings, TEN_REDIS_LEASES, deadline_ms, &store->link, store->base.error);
    if (r == TENURE_OK)
        r = load_scripts(store, deadline_ms);
    if (r < 0)
        ten_redis_disconnect(store);
    ten_dial_note(&store->dial, r);
    return r;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

struct calls {
    const char *what;
    size_t count;
    ten_redis_make_fn make;
    ten_redis_take_fn take;
    void *userdata;
    uint64_t deadline_ms;
};

/* How far they have come. */
struct progress {
    size_t taken;   /* so many have their answers */
    size_t sent;    /* so many were sent on this connection */
    bool forgotten; /* the server did not know a script: it and those behind it are sent again */
};

static int send_some(ten_redis_store *store, const struct calls *calls, struct progress *progress) {
    int r = TENURE_OK;
    while (r == TENURE_OK && !progress->forgotten && !store->enough && progress->sent < calls->count &&
           progress->sent < progress->taken + IN_FLIGHT) {
        calls->make(store, calls->userdata, progress->sent++);
        r = ten_redis_link_send_words(store->link, store->words.count, &store->words.done, store->base.error);
        if (r == TENURE_OK && calls->count > 1) /* the server starts while the next is put together */
            r = ten_redis_link_flush(store->link, calls->deadline_ms, store->base.error);
    }
    return r;
}

/* Until all are answered, or the server has forgotten a script. What it has answered behind that is not looked at: sent
 * again, it is answered again. */
static int exchange(ten_redis_store *store, const struct calls *calls, struct progress *progress) {
    size_t heard = progress->sent = progress->taken;
    progress->forgotten = false;
    int r = send_some(store, calls, progress);
    while (r == TENURE_OK && heard < progress->sent) {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        r = receive(store, calls->what, calls->deadline_ms, &reply);
        heard++;
        progress->forgotten |= r == TENURE_OK && !reply;
        if (r == TENURE_OK && !progress->forgotten)
            r = calls->take(store, calls->userdata, progress->taken++, reply);
        if (r == TENURE_OK)
            r = send_some(store, calls, progress);
    }
    return r;
}

static int call_once(ten_redis_store *store, const struct calls *calls, struct progress *progress) {
    int r = ten_redis_connect(store, calls->deadline_ms);
    for (unsigned tries = 0; r == TENURE_OK && (tries == 0 || progress->forgotten); tries++) {
        if (tries > RELOADS)
            r = ten_fail(store->base.error, TENURE_E_STORE,
                         "%s: the script cache was flushed repeatedly (NOSCRIPT); stop what runs SCRIPT FLUSH",
                         ten_redis_settings_name(store->settings));
        else if (tries > 0)
            r = load_scripts(store, calls->deadline_ms);
        if (r == TENURE_OK)
            r = exchange(store, calls, progress);
    }
    if (r < 0)
        ten_redis_disconnect(store);
    return r;
}

int ten_redis_call(ten_redis_store *store, const char *what, size_t count, ten_redis_make_fn make,
                   ten_redis_take_fn take, void *userdata, uint64_t deadline_ms) {
    struct calls calls = {what, count, make, take, userdata, deadline_ms};
    struct progress progress = {0};
    bool was_connected = store->link != NULL;
    store->enough = false;
    int r = call_once(store, &calls, &progress);
    if (ten_dial_worth_another(r, was_connected, deadline_ms))
        r = call_once(store, &calls, &progress);
    return r;
}

/* ---- the handle ---------------------------------------------------------------------------------------- */

static void redis_close(ten_backend *base) {
    ten_redis_store *store = self(base);
    ten_notice_watch_close(base);
    ten_redis_disconnect(store);
    ten_redis_layout_free(&store->layout);
    ten_redis_settings_free(store->settings);
    ten_buf_free(&store->words.text);
    ten_buf_free(&store->words.done);
    ten_free(store->parts);
    ten_arena_free(&store->texts);
}

static int take_options(const ten_url *url, ten_redis_store *store, ten_error *error) {
    const char *replicas = ten_url_option(url, "wait_replicas");
    const char *fresh = ten_url_option(url, "fresh");
    const char *leases = ten_url_option(url, "leases");
    uint64_t is_fresh = 0;
    if (replicas && !ten_digits_parse(replicas, 100, &store->wait_replicas))
        return ten_fail(error, TENURE_E_INVALID, "wait_replicas is a number of replicas, 0 to 100, not '%.20s'",
                        replicas);
    if (fresh && !ten_digits_parse(fresh, 1, &is_fresh))
        return ten_fail(error, TENURE_E_INVALID, "fresh is 1 (this Redis has never held a lease) or 0, not '%.20s'",
                        fresh);
    if (leases && strcmp(leases, "session") != 0 && strcmp(leases, "key") != 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "leases is key (each lease is a key with a TTL of its own) or session (the heartbeat of an "
                        "instance renews all its leases), not '%.20s'",
                        leases);
    store->fresh = is_fresh;
    store->base.capabilities->sessions = leases && strcmp(leases, "session") == 0;
    return TENURE_OK;
}

static const ten_backend_ops redis_ops;
static const ten_backend_ops confirming_ops;

static int redis_open(ten_backend *base, const ten_url *url, uint64_t timeout_ms) {
    static const char *const options[] = {
        TEN_REDIS_LINK_OPTIONS, TEN_REDIS_LAYOUT_OPTIONS, "wait_replicas", "fresh", "leases", NULL};
    ten_redis_store *store = self(base);
    ten_notice_watch_init(base, &ten_redis_notice_ops);
    int r = ten_url_check_options(url, options, base->error);
    if (r == TENURE_OK)
        r = take_options(url, store, base->error);
    if (r == TENURE_OK)
        r = ten_redis_settings_make(url, &store->settings, base->error);
    if (r == TENURE_OK)
        r = ten_redis_layout_make(url, &store->layout, base->error);
    base->ops = store->wait_replicas > 0 ? &confirming_ops : &redis_ops;
    base->lost = true; /* as far as anybody can tell */
    base->lost_ms = TEN_FOREVER;
    return r < 0 ? r : ten_redis_connect(store, ten_add_saturating(ten_now_ms(), timeout_ms));
}

static int check_op(ten_store *base, const ten_op *op) {
    ten_redis_store *store = self(((ten_record_store *)base)->backend);
    const ten_redis_space *space;
    int r = ten_redis_space_get(&store->layout, op->namespace_name, &space, &base->error);
    return r == TENURE_OK && op->target ? ten_redis_space_check(space, op->target, &base->error) : r;
}

#define REDIS_OPS                                                                                                      \
    .size = sizeof(ten_redis_store), .open = redis_open, .close = redis_close, .read = ten_redis_read,                 \
    .commit = ten_redis_commit, .touch = ten_redis_touch, .scan = ten_redis_scan, .feed = ten_redis_feed,              \
    .unfeed = ten_redis_unfeed, .watch = ten_notice_watch_get, .watch_clear = ten_notice_watch_clear,                  \
    .check = ten_redis_check, .tokens_from_clock = true

static const ten_backend_ops redis_ops = {REDIS_OPS};
static const ten_backend_ops confirming_ops = {REDIS_OPS, .confirms = true, .confirms_reads = true};

const ten_store_ops ten_redis_ops = TEN_RECORD_STORE("redis", &redis_ops, .check_op = check_op,
                                                     .capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS,
                                                                      .shared_between_processes = true,
                                                                      .survives_restart = true,
                                                                      .hands = true,
                                                                      .expiry_clock = "the Redis server's clock",
                                                                      .change_notice = "PUBLISH from the scripts"});
