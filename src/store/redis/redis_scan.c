/*
 * What goes through many records of Redis: scans, namespaces, the feed, and the search for heartbeats that another
 * program wrote. All of it in steps that keep nobody waiting. redis.lua has the scripts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/random.h"
#include "rules/feed.h"
#include "rules/instance_row.h"
#include "store/redis/redis_state.h"

#define SCAN_STEP    500u  /* records that a call looks at */
#define FEED_STEP    200u  /* commits: each tells of as much as a call carries out */
#define SWEEP_KEYS   1000u /* that one step looks at: under a millisecond of the server's time */
#define SWEEP_GAP_MS 1000u /* between two steps of a namespace, whoever takes them */
#define SWEEP_BEATS  8u    /* heartbeats between two steps of an instance, on average, if leases hang on sessions */
#define NAME_SIZE    (TENURE_NAMESPACE_MAX + 1u)
#define ADOPTED      16u /* instances that one step takes in */

static ten_redis_store *self(ten_backend *base) {
    return (ten_redis_store *)base;
}

/* ---- scans --------------------------------------------------------------------------------------------- */

struct scanning {
    const ten_redis_space *space;
    const ten_scan *scan;
    char after[TENURE_HOLDER_MAX + 1];
    size_t given;
    bool more;
    ten_record_fn each;
    void *userdata;
    int stopped; /* what the callback has returned */
};

static void make_scan(ten_redis_store *store, void *userdata, size_t at) {
    static const char *const names[] = {
        [TEN_SCAN_ALL] = "", [TEN_SCAN_NAMED] = "named", [TEN_SCAN_UNNAMED] = "unnamed"};
    const struct scanning *state = userdata;
    ten_redis_words *words = &store->words;
    char letter = ten_redis_letter(state->scan->kind);
    (void)at;
    ten_redis_script(store, TEN_REDIS_SCAN, 3);
    ten_redis_word(words, state->space->own[TEN_REDIS_RECORDS]);
    ten_redis_word(words, state->space->own[TEN_REDIS_EPOCH]);
    ten_redis_word(words, state->space->own[TEN_REDIS_IDS]);
    ten_buf_format(&words->text, "(%c", letter);
    ten_redis_word(words, state->after);
    ten_buf_format(&words->text, "(%c", letter + 1);
    ten_redis_word(words, "");
    bool filters = state->scan->names == TEN_SCAN_UNNAMED;
    ten_redis_word_number(words, filters ? SCAN_STEP : ten_min_u64(state->scan->limit - state->given, SCAN_STEP));
    ten_redis_word(words, names[state->scan->names]);
    const ten_redis_pattern *plain = ten_redis_plain(state->space, state->scan->kind);
    if (plain) {
        ten_redis_word(words, plain->before);
        ten_redis_word(words, plain->after);
    }
}

static int take_scan(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct scanning *state = userdata;
    (void)at;
    if (!ten_redis_answered(store, reply) || reply->elements % 4 != 3)
        return ten_redis_misunderstood(store);
    int r = TENURE_OK;
    for (size_t part = 2;
         r == TENURE_OK && !state->stopped && state->given < state->scan->limit && part + 4 < reply->elements;
         part += 4) {
        const char *field = ten_redis_text(reply->element[part]);
        if (field[0] == '\0')
            return ten_redis_misunderstood(store);
        ten_record record = {.key = {state->scan->kind, field + 1}};
        r = ten_redis_take_record(store, reply->element + part + 1, &record);
        if (r < 0 || (record.version == 0 && !record.foreign))
            continue;
        state->given++;
        state->stopped = state->each(&record, state->userdata);
    }
    const char *last = ten_redis_text(reply->element[reply->elements - 1]);
    state->more = last[0] != '\0';
    ten_copy_text(state->after, sizeof state->after, state->more ? last + 1 : "");
    return r;
}

static int scan_records(ten_redis_store *store, const ten_scan *scan, ten_record_fn each, void *userdata,
                        uint64_t deadline_ms) {
    struct scanning state = {.scan = scan, .more = true, .each = each, .userdata = userdata};
    ten_copy_text(state.after, sizeof state.after, scan->after);
    int r = ten_redis_space_get(&store->layout, scan->namespace_name, &state.space, store->base.error);
    while (r == TENURE_OK && state.more && !state.stopped && state.given < scan->limit)
        r = ten_redis_call(store, "listing records", 1, make_scan, take_scan, &state, deadline_ms);
    return r < 0 ? r : state.stopped;
}

/* ---- namespaces ---------------------------------------------------------------------------------------- */

/* There is no index of namespaces: SCAN walks the keys in steps, each of which is short. For people; nothing on the way
 * of a lease calls it. */
struct walk {
    char cursor[32];
    const char *after; /* those behind it are wanted */
    ten_buf names;     /* of NAME_SIZE bytes each, some of them twice */
};

static void make_walk(ten_redis_store *store, void *userdata, size_t at) {
    const struct walk *walk = userdata;
    const char *const words[] = {"SCAN", walk->cursor, "MATCH", TEN_REDIS_OWN_PREFIX "*:records", "COUNT"};
    (void)at;
    ten_redis_command(store);
    for (size_t i = 0; i < TEN_COUNT(words); i++)
        ten_redis_word(&store->words, words[i]);
    ten_redis_word_number(&store->words, SWEEP_KEYS);
}

static int take_walk(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct walk *walk = userdata;
    (void)at;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[1]->type != REDIS_REPLY_ARRAY)
        return ten_redis_misunderstood(store);
    for (size_t i = 0; i < reply->element[1]->elements; i++) {
        const char *key = ten_redis_text(reply->element[1]->element[i]);
        size_t size = ten_sub_saturating(strlen(key), strlen(TEN_REDIS_OWN_PREFIX) + strlen(":records"));
        char name[NAME_SIZE] = "";
        ten_error error;
        if (size == 0 || size >= sizeof name)
            continue;
        memcpy(name, key + strlen(TEN_REDIS_OWN_PREFIX), size);
        if (strcmp(name, walk->after) > 0 && ten_id_check_namespace(name, &error) == TENURE_OK)
            ten_buf_add(&walk->names, name, sizeof name);
    }
    snprintf(walk->cursor, sizeof walk->cursor, "%s", ten_redis_text(reply->element[0]));
    return walk->names.failed ? ten_fail_memory(store->base.error, "a list of namespaces") : TENURE_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

static int scan_namespaces(ten_redis_store *store, const ten_scan *scan, ten_record_fn each, void *userdata,
                           uint64_t deadline_ms) {
    struct walk walk = {.cursor = "0", .after = scan->after};
    int stopped = 0;
    int r;
    do
        r = ten_redis_call(store, "listing namespaces", 1, make_walk, take_walk, &walk, deadline_ms);
    while (r == TENURE_OK && strcmp(walk.cursor, "0") != 0);
    if (walk.names.size > 0)
        qsort(walk.names.data, walk.names.size / NAME_SIZE, NAME_SIZE, by_name);
    size_t given = 0;
    for (size_t at = 0; r == TENURE_OK && !stopped && given < scan->limit && at < walk.names.size; at += NAME_SIZE) {
        const char *name = walk.names.data + at;
        ten_record record = {.key = {TEN_KIND_NAMESPACE, ""}};
        if (at > 0 && strcmp(name - NAME_SIZE, name) == 0)
            continue;
        r = ten_redis_read(&store->base, name, &record, 1, ten_sub_saturating(deadline_ms, ten_now_ms()));
        if (r < 0 || record.version == 0)
            continue;
        record.key.id = name;
        given++;
        stopped = each(&record, userdata);
    }
    ten_buf_free(&walk.names);
    return r < 0 ? r : stopped;
}

int ten_redis_scan(ten_backend *base, const ten_scan *scan, ten_record_fn each, void *userdata, uint64_t timeout_ms) {
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    ten_arena_reset(&self(base)->texts);
    return scan->namespace_name ? scan_records(self(base), scan, each, userdata, deadline_ms)
                                : scan_namespaces(self(base), scan, each, userdata, deadline_ms);
}

/* ---- the feed ------------------------------------------------------------------------------------------ */

struct feeding {
    const ten_redis_space *space;
    uint64_t after;
    size_t limit;
    size_t given;
    bool more; /* there may be some that the last call did not bring */
    ten_feed_range *range;
    bool ranged; /* it is set */
    ten_entry_fn each;
    void *userdata;
    int stopped;
};

static size_t wanted_commits(const struct feeding *state) {
    return ten_min_u64(state->limit - state->given, FEED_STEP);
}

static void make_feed(ten_redis_store *store, void *userdata, size_t at) {
    const struct feeding *state = userdata;
    ten_redis_words *words = &store->words;
    (void)at;
    ten_redis_script(store, TEN_REDIS_READ_FEED, 3);
    ten_redis_word(words, state->space->own[TEN_REDIS_RECORDS]);
    ten_redis_word(words, state->space->own[TEN_REDIS_EPOCH]);
    ten_redis_word(words, state->space->own[TEN_REDIS_FEED]);
    ten_redis_word_number(words, state->after);
    ten_redis_word_number(words, wanted_commits(state));
}

/* What a commit has told: "number NUL time NUL how many before it", and of each entry "NUL id NUL text". */
static void give_entries(struct feeding *state, const redisReply *told) {
    const char *end = told->str + told->len;
    const char *at = memchr(told->str, '\0', told->len);
    uint64_t number = strtoull(told->str, NULL, 10);
    uint64_t at_ms = at ? strtoull(at + 1, NULL, 10) : 0;
    at = at ? memchr(at + 1, '\0', (size_t)(end - at - 1)) : NULL;
    at = at ? memchr(at + 1, '\0', (size_t)(end - at - 1)) : NULL;
    for (; at && at < end && !state->stopped && state->given < state->limit; number++) {
        const char *id = at + 1;
        const char *text = id + strlen(id) + 1;
        if (text > end)
            return;
        at = text + strlen(text);
        if (number <= state->after)
            continue;
        state->after = number;
        if (text[0] == '\0')
            continue; /* it was taken out */
        ten_entry entry = {.id = id, .text = text, .number = number, .at_ms = at_ms};
        state->given++;
        state->stopped = state->each(&entry, state->userdata);
    }
}

static int take_feed(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct feeding *state = userdata;
    (void)at;
    if (!ten_redis_answered(store, reply) || reply->elements < 4)
        return ten_redis_misunderstood(store);
    if (!state->ranged)
        *state->range = (ten_feed_range){ten_redis_number(reply->element[2]), ten_redis_number(reply->element[3])};
    state->ranged = true;
    state->more = reply->elements - 4 == wanted_commits(state);
    for (size_t i = 4; i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_STRING)
            give_entries(state, reply->element[i]);
    return TENURE_OK;
}

int ten_redis_feed(ten_backend *base, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                   void *userdata, ten_feed_range *ret_range, uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    struct feeding state = {.after = after, .limit = limit, .range = ret_range, .each = each, .userdata = userdata};
    int r = ten_redis_space_get(&store->layout, namespace_name, &state.space, base->error);
    ten_notice_watch_reconnect(base);
    do
        r = r < 0 ? r : ten_redis_call(store, "reading changes", 1, make_feed, take_feed, &state, deadline_ms);
    while (r == TENURE_OK && !state.stopped && state.more && state.given < limit);
    return r < 0 ? r : state.stopped;
}

struct unfeeding {
    const ten_redis_space *space;
    const char *const *ids;
    size_t count;
    uint64_t after;
    bool through;
};

static void make_unfeed(ten_redis_store *store, void *userdata, size_t at) {
    const struct unfeeding *state = userdata;
    (void)at;
    ten_redis_script(store, TEN_REDIS_UNFEED, 1);
    ten_redis_word(&store->words, state->space->own[TEN_REDIS_FEED]);
    ten_redis_word_number(&store->words, state->after);
    ten_redis_word_number(&store->words, FEED_STEP);
    for (size_t i = 0; i < state->count; i++)
        ten_redis_word(&store->words, state->ids[i]);
}

static int take_unfeed(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct unfeeding *state = userdata;
    (void)store, (void)at;
    state->through = reply->type != REDIS_REPLY_STRING;
    state->after = ten_redis_number(reply);
    return TENURE_OK;
}

int ten_redis_unfeed(ten_backend *base, const char *namespace_name, const char *const *ids, size_t count,
                     uint64_t timeout_ms) {
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    struct unfeeding state = {.ids = ids, .count = count};
    int r = ten_redis_space_get(&self(base)->layout, namespace_name, &state.space, base->error);
    while (r == TENURE_OK && !state.through)
        r = ten_redis_call(self(base), "forgetting changes", 1, make_unfeed, take_unfeed, &state, deadline_ms);
    return r;
}

/* ---- heartbeats of other programs ---------------------------------------------------------------------- */

struct sweeping {
    const ten_redis_space *space;
    bool evicts;
    size_t count;
    struct {
        char instance[TENURE_HOLDER_MAX + 1];
        uint64_t weight;
    } found[ADOPTED];
};

static void make_sweep(ten_redis_store *store, void *userdata, size_t at) {
    const struct sweeping *state = userdata;
    ten_redis_words *words = &store->words;
    (void)at;
    ten_redis_script(store, TEN_REDIS_SWEEP, 1);
    ten_redis_word(words, state->space->own[TEN_REDIS_RECORDS]);
    ten_redis_word(words, state->space->node_glob);
    ten_redis_word(words, state->space->node.before);
    ten_redis_word(words, state->space->node.after);
    ten_redis_word_number(words, SWEEP_KEYS);
    ten_redis_word_number(words, SWEEP_GAP_MS);
}

static int take_sweep(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct sweeping *state = userdata;
    (void)store, (void)at;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return TENURE_OK; /* it was not time yet */
    const char *eviction = ten_redis_text(reply->element[0]);
    state->evicts = eviction[0] != '\0' && strcmp(eviction, "noeviction") != 0;
    for (size_t i = 1; i + 1 < reply->elements && state->count < ADOPTED; i += 2) {
        ten_copy_text(state->found[state->count].instance, sizeof state->found[0].instance,
                      ten_redis_text(reply->element[i]));
        state->found[state->count++].weight = ten_min_u64(ten_redis_number(reply->element[i + 1]), UINT32_MAX);
    }
    return TENURE_OK;
}

/* From now on it has a record, and lives as long as its key. Who never says its TTL takes no part in what the fleet
 * agrees on. */
static void adopt(ten_redis_store *store, const char *namespace_name, const char *identity, uint64_t epoch,
                  const char *instance, uint64_t weight, uint64_t deadline_ms) {
    TEN_CLEANUP(ten_buf_free) ten_buf value = {0};
    TEN_CLEANUP(ten_buf_free) ten_buf text = {0};
    uint64_t wall_ms = store->base.wall_ms;
    ten_instance_row row = {.exists = true, .since_ms = wall_ms};
    ten_change change = {
        .kind = TENURE_EVENT_JOINED, .namespace_name = namespace_name, .target = "", .instance = instance, .actor = ""};
    ten_instance_row_write(&value, NULL, &row, 0, wall_ms, NULL);
    ten_feed_write(&text, &change, wall_ms);
    if (value.failed || text.failed)
        return;
    ten_key key = {TEN_KIND_INSTANCE, instance};
    ten_check check = {.key = key};
    ten_write write = {.kind = TEN_WRITE_PUT,
                       .key = key,
                       .value = ten_buf_string(&value),
                       .name = instance,
                       .number = weight,
                       .life = TEN_LIFE_AS_IT_IS};
    ten_entry entry = {.text = ten_buf_string(&text)};
    ten_commit_change changes = {
        .checks = &check, .check_count = 1, .writes = &write, .write_count = 1, .entries = &entry, .entry_count = 1};
    ten_commit commit = {
        .namespace_name = namespace_name, .identity = identity, .epoch = epoch, .changes = &changes, .count = 1};
    (void)ten_redis_carry_out(store, &commit, deadline_ms); /* a failure costs nothing: the next step finds it again */
}

void ten_redis_sweep(ten_redis_store *store, const char *namespace_name, const char *identity, uint64_t epoch,
                     uint64_t deadline_ms) {
    struct sweeping state = {0};
    /* Where leases hang on sessions there are no other programs to be found: it is enough to hear of the policy of
     * eviction now and then. */
    if (store->base.capabilities->sessions && ten_random_u64() % SWEEP_BEATS != 0)
        return;
    ten_error kept = *store->base.error;
    int r = ten_redis_space_get(&store->layout, namespace_name, &state.space, store->base.error);
    if (r == TENURE_OK)
        r = ten_redis_call(store, "looking for instances", 1, make_sweep, take_sweep, &state, deadline_ms);
    for (size_t i = 0; r == TENURE_OK && i < state.count; i++)
        adopt(store, namespace_name, identity, epoch, state.found[i].instance, state.found[i].weight, deadline_ms);
    /* It was set to evict while this was connected. The next call connects again, and is refused with the reason. */
    if (state.evicts)
        ten_redis_disconnect(store);
    *store->base.error = kept;
}
