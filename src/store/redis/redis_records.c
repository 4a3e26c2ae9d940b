/*
 * Records in Redis: how they are asked for and understood, and the calls of backend.h that read and write them. redis.lua
 * says how they are kept. A large request is cut into calls, so that none of them holds the server for more than about a
 * millisecond; each is atomic.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "store/redis/redis_state.h"

#define LAYOUT       3
#define READ_RECORDS 250u  /* in a call */
#define TOUCHES      250u  /* in a call */
#define COMMIT_PARTS 500u  /* checks and writes in a call, unless one change has more */
#define PLACES       1024u /* records of a call, at most */
#define SHARED       16u   /* records that many changes check: each is sent once */
#define ASK_AGAIN_MS 1000u /* another program's key without an end: it may be deleted at any time */

static ten_redis_store *self(ten_backend *base) {
    return (ten_redis_store *)base;
}

/* ---- what a record is ---------------------------------------------------------------------------------- */

char ten_redis_letter(enum ten_kind kind) {
    static const char letters[TEN_KIND_COUNT] = {'N', 'Q', 'I', 'T', 'L', 'C'};
    return letters[kind];
}

const ten_redis_pattern *ten_redis_plain(const ten_redis_space *space, enum ten_kind kind) {
    return kind == TEN_KIND_LEASE ? &space->lease : kind == TEN_KIND_INSTANCE ? &space->node : NULL;
}

static void add_plain(ten_redis_words *words, const ten_redis_space *space, ten_key key) {
    const ten_redis_pattern *pattern = ten_redis_plain(space, key.kind);
    if (pattern)
        ten_redis_word_key(words, pattern, key.id);
    else
        ten_redis_word(words, space->own[TEN_REDIS_RECORDS]);
}

void ten_redis_word_field(ten_redis_words *words, ten_key key) {
    ten_buf_char(&words->text, ten_redis_letter(key.kind));
    ten_redis_word(words, key.id);
}

void ten_redis_make_identity(const ten_redis_store *store, const char *replication,
                             char identity[TEN_IDENTITY_MAX + 1]) {
    const ten_redis_layout *layout = &store->layout;
    uint64_t patterns = ten_hash_mix(ten_hash_text(layout->lease_key)) ^ ten_hash_text(layout->leader_key);
    snprintf(identity, TEN_IDENTITY_MAX + 1, "redis %d %.48s %llu %016llx", LAYOUT, replication,
             (unsigned long long)ten_redis_settings_database(store->settings),
             (unsigned long long)ten_hash_mix(ten_hash_mix(patterns) ^ ten_hash_text(layout->node_key)));
}

/* The replication id in an identity; "-", which no server has, if it is not one of this store's. */
static void find_replication(const ten_redis_store *store, const char *identity, char replication[64]) {
    char same[TEN_IDENTITY_MAX + 1];
    if (sscanf(identity, "redis %*d %48s", replication) == 1) {
        ten_redis_make_identity(store, replication, same);
        if (strcmp(same, identity) == 0)
            return;
    }
    snprintf(replication, 64, "-");
}

bool ten_redis_answered(ten_redis_store *store, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 || reply->element[0]->type != REDIS_REPLY_INTEGER)
        return false;
    store->base.wall_ms = ten_redis_number(reply->element[0]);
    if (reply->elements > 1 && reply->element[1]->type == REDIS_REPLY_STRING)
        ten_redis_make_identity(store, reply->element[1]->str, store->base.identity);
    return true;
}

/* The parts of a record's text, each ended by a NUL as it stands there. */
struct parts {
    const char *version, *name, *ends, *number, *value;
};

static bool split(const redisReply *text, struct parts *parts) {
    const char **places[] = {&parts->version, &parts->name, &parts->ends, &parts->number, &parts->value};
    const char *at = text->str;
    const char *end = at + text->len;
    for (size_t i = 0; i < TEN_COUNT(places); i++) {
        if (at > end)
            return false;
        *places[i] = at;
        at += strlen(at) + 1;
    }
    return true;
}

static uint64_t left_of(const redisReply *left) {
    return left->integer < 0 ? TEN_FOREVER : ten_max_u64(ten_redis_number(left), 1);
}

/* How long ago that was; 0: nobody knows. */
static uint64_t ago_ms(const ten_redis_store *store, uint64_t at_ms) {
    return at_ms ? ten_sub_saturating(store->base.wall_ms, at_ms) : TEN_FOREVER;
}

/* Whether a lease's key has what this record says. */
static bool is_ours(const struct parts *parts, const redisReply *content) {
    size_t size = strlen(parts->name);
    if (size == 0 || content->len < size || memcmp(content->str, parts->name, size) != 0)
        return false;
    return parts->ends[0] == 'k' ? content->len == size : content->str[size] == '\t';
}

static void take_life(const ten_redis_store *store, const char *ends, const redisReply *content, const redisReply *left,
                      ten_record *record) {
    uint64_t now_ms = store->base.wall_ms;
    if (ends[0] == 'k') {
        uint64_t end_ms = record->key.kind == TEN_KIND_LEASE ? ten_redis_number(left) : strtoull(ends + 1, NULL, 10);
        record->alive = content != NULL;
        record->left_ms = content ? left_of(left) : 0;
        record->ended_ms = content ? 0 : ago_ms(store, end_ms);
    } else {
        ends += ends[0] == 'i';
        uint64_t end_ms = strtoull(ends, NULL, 10);
        record->alive = ends[0] == 'F' || end_ms > now_ms;
        record->left_ms = ends[0] == 'F' ? TEN_FOREVER : ten_sub_saturating(end_ms, now_ms);
        record->ended_ms = ago_ms(store, end_ms);
    }
}

int ten_redis_take_record(ten_redis_store *store, redisReply *const *parts, ten_record *record) {
    const redisReply *content = parts[1]->type == REDIS_REPLY_STRING ? parts[1] : NULL;
    bool is_lease = record->key.kind == TEN_KIND_LEASE;
    struct parts found = {"0", "", "0", "0", ""};
    *record = (ten_record){.key = record->key};
    if (parts[0]->type == REDIS_REPLY_STRING && !split(parts[0], &found))
        return ten_redis_misunderstood(store);
    record->version = strtoull(found.version, NULL, 10);
    record->number = strtoull(found.number, NULL, 10);
    record->foreign = is_lease && content && !is_ours(&found, content);
    if (record->foreign) {
        record->alive = true;
        record->left_ms = parts[2]->integer < 0 ? ASK_AGAIN_MS : left_of(parts[2]);
    } else {
        take_life(store, found.ends, content, parts[2], record);
    }
    if (record->version && record->key.kind == TEN_KIND_INSTANCE && found.ends[0] == 'k' && content)
        record->number = ten_min_u64(ten_redis_number(content), UINT32_MAX);
    record->value = ten_arena_text(&store->texts, found.value);
    record->name = ten_arena_text(&store->texts, record->foreign ? content->str : found.name);
    return record->value && record->name ? TENURE_OK : ten_fail_memory(store->base.error, "a record");
}

/* ---- reading ------------------------------------------------------------------------------------------- */

struct reading {
    const ten_redis_space *space;
    ten_record *records;
    size_t count;
};

static void make_read(ten_redis_store *store, void *userdata, size_t at) {
    const struct reading *reading = userdata;
    size_t end = ten_min_u64(reading->count, (at + 1) * READ_RECORDS);
    ten_redis_script(store, TEN_REDIS_READ, 2 + end - at * READ_RECORDS);
    ten_redis_word(&store->words, reading->space->own[TEN_REDIS_RECORDS]);
    ten_redis_word(&store->words, reading->space->own[TEN_REDIS_EPOCH]);
    for (size_t i = at * READ_RECORDS; i < end; i++)
        add_plain(&store->words, reading->space, reading->records[i].key);
    for (size_t i = at * READ_RECORDS; i < end; i++)
        ten_redis_word_field(&store->words, reading->records[i].key);
}

static int take_read(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    const struct reading *reading = userdata;
    size_t end = ten_min_u64(reading->count, (at + 1) * READ_RECORDS);
    if (!ten_redis_answered(store, reply) || reply->elements != 2 + 3 * (end - at * READ_RECORDS))
        return ten_redis_misunderstood(store);
    int r = TENURE_OK;
    for (size_t i = at * READ_RECORDS, part = 2; r == TENURE_OK && i < end; i++, part += 3)
        r = ten_redis_take_record(store, reply->element + part, &reading->records[i]);
    return r;
}

/* What an earlier version has left: the URL says that nobody uses it any more. */
static void make_removal(ten_redis_store *store, void *userdata, size_t at) {
    static const char *const names[] = {"epoch", "fence", "held",    "marks", "feed",       "nodes",   "instances",
                                        "gone",  "ids",   "targets", "idle",  "checkpoint", "sessions"};
    (void)at;
    ten_redis_command(store);
    ten_redis_word(&store->words, "DEL");
    for (size_t i = 0; i < TEN_COUNT(names); i++) {
        ten_buf_format(&store->words.text, TEN_REDIS_OWN_PREFIX "%s:", (const char *)userdata);
        ten_redis_word(&store->words, names[i]);
    }
}

static int take_nothing(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    (void)store, (void)userdata, (void)at, (void)reply;
    return TENURE_OK;
}

struct exchange {
    const ten_redis_space *space;
    const char *identity;
    bool found;
};

static void make_exchanged(ten_redis_store *store, void *userdata, size_t at) {
    const struct exchange *exchange = userdata;
    (void)at;
    ten_redis_script(store, TEN_REDIS_EXCHANGED, 1);
    ten_redis_word(&store->words, exchange->space->own[TEN_REDIS_RECORDS]);
    ten_redis_word_number(&store->words, ten_redis_settings_database(store->settings));
    ten_redis_word(&store->words, exchange->identity);
}

static int take_exchanged(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    (void)store, (void)at;
    ((struct exchange *)userdata)->found = ten_redis_number(reply) > 0;
    return TENURE_OK;
}

/* Before a namespace begins: whether it lies in another database, from which this one was exchanged. */
static int look_elsewhere(ten_redis_store *store, const ten_redis_space *space, const char *identity,
                          uint64_t deadline_ms, bool *ret_found) {
    struct exchange exchange = {.space = space, .identity = identity};
    int r = ten_redis_call(store, "beginning a namespace", 1, make_exchanged, take_exchanged, &exchange, deadline_ms);
    *ret_found = exchange.found;
    return r;
}

/* Nobody can tell an empty Redis from one that lost everything. `fresh` says that it is empty, and is wrong of a database that
 * was exchanged. */
static int judge_loss(ten_redis_store *store, const struct reading *reading, uint64_t deadline_ms) {
    bool found = false;
    int r = TENURE_OK;
    for (size_t i = 0; i < reading->count; i++) {
        if (reading->records[i].key.kind != TEN_KIND_NAMESPACE)
            continue;
        bool is_new = store->fresh && reading->records[i].version == 0;
        if (is_new)
            r = look_elsewhere(store, reading->space, store->base.identity, deadline_ms, &found);
        store->base.lost = !is_new || found;
    }
    return r;
}

int ten_redis_read(ten_backend *base, const char *namespace_name, ten_record *records, size_t count,
                   uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    struct reading reading = {.records = records, .count = count};
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    size_t calls = (count + READ_RECORDS - 1) / READ_RECORDS;
    ten_arena_reset(&store->texts);
    int r = ten_redis_space_get(&store->layout, namespace_name, &reading.space, base->error);
    if (r == TENURE_OK)
        r = ten_redis_call(store, "reading records", calls, make_read, take_read, &reading, deadline_ms);
    if (r != TENURE_E_SCHEMA || !store->fresh || !strstr(base->error->message, "LAYOUT before"))
        return r < 0 ? r : judge_loss(store, &reading, deadline_ms);
    r = ten_redis_call(store, "removing what an earlier version wrote", 1, make_removal, take_nothing,
                       (char *)namespace_name, deadline_ms);
    if (r == TENURE_OK)
        r = ten_redis_call(store, "reading records", calls, make_read, take_read, &reading, deadline_ms);
    return r < 0 ? r : judge_loss(store, &reading, deadline_ms);
}

/* ---- what a write relies on ---------------------------------------------------------------------------- */

/* The identity and the epoch, as the scripts compare them. */
struct reliance {
    char replication[96]; /* a line of INFO */
    char space[TEN_IDENTITY_MAX + 32];
    size_t space_size; /* it has NULs in it */
};

static struct reliance rely_on(const ten_redis_store *store, const char *identity, uint64_t epoch) {
    struct reliance reliance;
    char replication[64];
    find_replication(store, identity, replication);
    snprintf(reliance.replication, sizeof reliance.replication, "\r\nmaster_replid:%s\r\n", replication);
    reliance.space_size = (size_t)snprintf(reliance.space, sizeof reliance.space, "%c%s%cF%c%llu%c", 0, identity, 0, 0,
                                           (unsigned long long)epoch, 0);
    return reliance;
}

/* An answer to one that relied on another epoch. */
static bool is_other(const redisReply *reply) {
    return reply->elements == 2 && reply->element[1]->type == REDIS_REPLY_STRING;
}

/* With wait_replicas nothing counts that is not on that many replicas: a failover would lose it. WAIT is about what its own
 * connection has written last. That may be nothing, if the call was sent again and had been carried out before: so there is
 * always something. */
static int wait_for_replicas(ten_redis_store *store, const ten_redis_space *space, uint64_t deadline_ms) {
    uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
    char number[24];
    char time[24];
    if (store->wait_replicas == 0)
        return TENURE_OK;
    snprintf(number, sizeof number, "%llu", (unsigned long long)store->wait_replicas);
    /* Redis looks after its waiting clients ten times a second: its own "not enough" is to come before our deadline. */
    snprintf(time, sizeof time, "%llu",
             (unsigned long long)ten_max_u64(ten_sub_saturating(left_ms, left_ms / 4 + 100), 1));
    const char *const mark[] = {"HSET", space->own[TEN_REDIS_RECORDS], "waited", number};
    const char *const words[] = {"WAIT", number, time};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *marked = NULL;
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    int r = ten_redis_link_ask(store->link, deadline_ms, &marked, store->base.error, mark, TEN_COUNT(mark));
    if (r == TENURE_OK)
        r = ten_redis_link_ask(store->link, deadline_ms, &reply, store->base.error, words, TEN_COUNT(words));
    uint64_t count = r == TENURE_OK ? ten_redis_number(reply) : 0;
    if (r == TENURE_OK && count < store->wait_replicas)
        r = ten_fail(store->base.error, TENURE_E_TIMEOUT,
                     "%s: %llu of the %llu replicas that wait_replicas asks for have acknowledged the change in "
                     "time, so it does not count; start the others, or lower wait_replicas",
                     ten_redis_settings_name(store->settings), (unsigned long long)count,
                     (unsigned long long)store->wait_replicas);
    if (r < 0)
        ten_redis_disconnect(store);
    return r;
}

/* ---- commit -------------------------------------------------------------------------------------------- */

struct committing {
    const ten_redis_space *space;
    ten_commit *commit;
    struct reliance reliance;
    size_t *firsts; /* change with which each call begins; and behind the last */
    size_t done;    /* calls that were carried out */
    bool other;
    bool writes_space;
    char channel[TENURE_NAMESPACE_MAX + 48];
    ten_key places[PLACES]; /* the records of the call that is put together */
    size_t numbers[PLACES]; /* under which the server knows it: those with a plain key come first */
    size_t place_count;
    size_t shared[SHARED];
    size_t shared_count;
};

static bool is_same_key(ten_key a, ten_key b) {
    return a.kind == b.kind && strcmp(a.id, b.id) == 0;
}

static size_t add_place(struct committing *state, ten_key key) {
    TEN_INVARIANT(state->place_count < PLACES);
    state->places[state->place_count] = key;
    if (key.kind <= TEN_KIND_INSTANCE && state->shared_count < SHARED)
        state->shared[state->shared_count++] = state->place_count;
    return state->place_count++;
}

/* Where the record is among those of the call. Those of targets are one change's own. */
static size_t place_of(struct committing *state, ten_key key, size_t own) {
    for (size_t i = 0; key.kind <= TEN_KIND_INSTANCE && i < state->shared_count; i++)
        if (is_same_key(state->places[state->shared[i]], key))
            return state->shared[i];
    for (size_t i = own; i < state->place_count; i++)
        if (is_same_key(state->places[i], key))
            return i;
    return add_place(state, key);
}

static void add_place_number(ten_redis_words *words, struct committing *state, ten_key key, size_t own) {
    ten_redis_word_number(words, state->numbers[place_of(state, key, own)]);
}

/* Those with a plain key, then the others, and the namespace's as the last. How many have one. */
static size_t number_places(struct committing *state, size_t order[PLACES]) {
    size_t count = 0;
    for (size_t i = 1; i < state->place_count; i++)
        if (ten_redis_plain(state->space, state->places[i].kind))
            order[count++] = i;
    size_t plain = count;
    for (size_t i = 1; i < state->place_count; i++)
        if (!ten_redis_plain(state->space, state->places[i].kind))
            order[count++] = i;
    order[count] = 0;
    for (size_t i = 0; i <= count; i++)
        state->numbers[order[i]] = i + 1;
    return plain;
}

static void add_checks(ten_redis_words *words, struct committing *state, const ten_commit_change *change, size_t own) {
    static const char *const lives[] = {[TEN_CHECK_EITHER] = "",
                                        [TEN_CHECK_ALIVE] = "alive",
                                        [TEN_CHECK_DEAD] = "dead",
                                        [TEN_CHECK_FOREIGN] = "foreign"};
    for (size_t i = 0; i < change->check_count; i++) {
        const ten_check *check = &change->checks[i];
        add_place_number(words, state, check->key, own);
        if (check->version == TEN_VERSION_ANY)
            ten_redis_word(words, "");
        else
            ten_redis_word_number(words, check->version);
        ten_redis_word(words, lives[check->life]);
    }
}

static const char *life_letter(const ten_write *write) {
    const ten_life *life = &write->life;
    if (write->kind != TEN_WRITE_PUT)
        return write->kind == TEN_WRITE_RAISE ? "R" : "X";
    if (life->kind != TEN_LIFE_LATEST)
        return life->kind == TEN_LIFE_ENDED ? "D" : "F";
    return life->as_it_is ? "K" : life->with.id || life->ttl_ms == 0 ? "W" : "T";
}

/* What other programs are to read. */
static void add_content(ten_redis_words *words, const ten_write *write) {
    bool shows = write->kind == TEN_WRITE_PUT && write->name[0] != '\0';
    if (shows && write->key.kind == TEN_KIND_LEASE) {
        ten_buf_text(&words->text, write->name);
        if (write->life.session)
            ten_buf_format(&words->text, "\tsession %llu", (unsigned long long)write->life.session);
    } else if (shows && write->key.kind == TEN_KIND_INSTANCE) {
        ten_buf_format(&words->text, "%llu", (unsigned long long)write->number);
    }
    ten_redis_word(words, "");
}

static void add_writes(ten_redis_words *words, struct committing *state, const ten_commit_change *change, size_t own) {
    for (size_t i = 0; i < change->write_count; i++) {
        const ten_write *write = &change->writes[i];
        bool puts = write->kind == TEN_WRITE_PUT;
        add_place_number(words, state, write->key, own);
        ten_redis_word(words, life_letter(write));
        ten_redis_word_number(words, puts ? write->life.ttl_ms : 0);
        if (puts && write->life.with.id)
            add_place_number(words, state, write->life.with, own);
        else
            ten_redis_word(words, "0");
        ten_redis_word(words, puts ? write->name : "");
        if (puts) {
            ten_buf_format(&words->text, "%llu%c", (unsigned long long)write->number, 0);
            ten_redis_word(words, write->value);
        } else {
            ten_redis_word(words, "");
        }
        add_content(words, write);
    }
}

static void add_change(ten_redis_words *words, struct committing *state, const ten_commit_change *change) {
    size_t own = state->place_count;
    ten_redis_word_number(words, change->check_count);
    ten_redis_word_number(words, change->write_count);
    ten_redis_word_number(words, change->entry_count);
    add_checks(words, state, change, own);
    add_writes(words, state, change, own);
    for (size_t i = 0; i < change->entry_count; i++) {
        ten_redis_word(words, change->entries[i].id ? change->entries[i].id : "");
        ten_redis_word(words, change->entries[i].text);
    }
}

static void add_changes(ten_redis_words *words, struct committing *state, size_t at) {
    state->place_count = state->shared_count = 0;
    (void)add_place(state, (ten_key){TEN_KIND_NAMESPACE, ""});
    for (size_t i = state->firsts[at]; i < state->firsts[at + 1]; i++)
        add_change(words, state, &state->commit->changes[i]);
}

/* The changes name the numbers of records, which come before them: so they are put together twice, first to find the records. */
static void make_commit(ten_redis_store *store, void *userdata, size_t at) {
    struct committing *state = userdata;
    ten_redis_words *words = &store->words;
    size_t order[PLACES];
    ten_redis_command(store);
    add_changes(words, state, at);
    size_t plain = number_places(state, order);
    size_t count = state->place_count;
    ten_redis_script(store, TEN_REDIS_COMMIT, 3 + plain);
    ten_redis_word(words, state->space->own[TEN_REDIS_RECORDS]);
    ten_redis_word(words, state->space->own[TEN_REDIS_IDS]);
    ten_redis_word(words, state->space->own[TEN_REDIS_FEED]);
    for (size_t i = 0; i < plain; i++)
        add_plain(words, state->space, state->places[order[i]]);
    ten_redis_word(words, state->reliance.replication);
    ten_redis_word_bytes(words, state->reliance.space, state->writes_space ? 0 : state->reliance.space_size);
    ten_redis_word_number(words, state->commit->least_number);
    ten_redis_word(words, state->channel);
    ten_redis_word_number(words, count);
    for (size_t i = 0; i < count; i++)
        ten_redis_word_field(words, state->places[order[i]]);
    ten_redis_word(words, "number");
    add_changes(words, state, at);
}

/* In the place of a key is something else. It is not an error of the batch, so only the message says where. */
static int fail_type(ten_redis_store *store, const struct committing *state, const ten_commit_change *change,
                     const char *type) {
    const char *id = "";
    for (size_t i = 0; i < change->write_count; i++)
        if (change->writes[i].key.kind == TEN_KIND_LEASE)
            id = change->writes[i].key.id;
    return ten_fail(
        store->base.error, TENURE_E_STORE,
        "the Redis key %s%s%s holds a %s that is not Tenure's: delete or rename it, or choose other keys with "
        "lease_key= in the store's URL",
        state->space->lease.before, id, state->space->lease.after, type);
}

static int take_conflict(ten_redis_store *store, ten_commit_change *change, const redisReply *reply, size_t *part) {
    int r = TENURE_OK;
    change->conflict = true;
    if (reply->elements < *part + 3 * change->check_count)
        return ten_redis_misunderstood(store);
    for (size_t i = 0; r == TENURE_OK && i < change->check_count; i++, *part += 3) {
        change->checks[i].present.key = change->checks[i].key;
        r = ten_redis_take_record(store, reply->element + *part, &change->checks[i].present);
    }
    return r;
}

static int take_commit(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct committing *state = userdata;
    size_t first = state->firsts[at];
    size_t last = state->firsts[at + 1];
    if (!ten_redis_answered(store, reply) || reply->elements < 2)
        return ten_redis_misunderstood(store);
    if (is_other(reply)) {
        state->other = true;
        return TENURE_OK;
    }
    state->done++;
    for (size_t i = first; i < last; i++)
        for (size_t j = 0; j < state->commit->changes[i].write_count; j++) {
            ten_write *write = &state->commit->changes[i].writes[j];
            write->version = write->kind == TEN_WRITE_REMOVE ? 0 : ten_redis_number(reply->element[1]);
        }
    int r = TENURE_OK;
    for (size_t part = 2; r == TENURE_OK && part < reply->elements;) {
        long long place = reply->element[part++]->integer;
        size_t change = first + (size_t)(place < 0 ? -place : place) - 1;
        if (change < first || change >= last || (place < 0 && part == reply->elements))
            return ten_redis_misunderstood(store);
        if (place < 0)
            state->commit->changes[change].error =
                fail_type(store, state, &state->commit->changes[change], ten_redis_text(reply->element[part++]));
        else
            r = take_conflict(store, &state->commit->changes[change], reply, &part);
    }
    return r;
}

static size_t parts_of(const ten_commit_change *change) {
    return change->check_count + 2 * change->write_count + 1;
}

/* Whole changes, as many in each call as it bears. The number of calls. */
static size_t cut(const ten_commit *commit, size_t *firsts) {
    size_t calls = 0;
    size_t parts = 0;
    for (size_t i = 0; i < commit->count; i++) {
        size_t more = parts_of(&commit->changes[i]);
        if (i == 0 || parts + more > COMMIT_PARTS) {
            firsts[calls++] = i;
            parts = 0;
        }
        parts += more;
    }
    firsts[calls] = commit->count;
    return calls;
}

/* Whether the commit writes the namespace's record; *ret_makes: which was not there. */
static bool writes_space(const ten_commit *commit, bool *ret_makes) {
    bool writes = false;
    *ret_makes = false;
    for (size_t i = 0; i < commit->count; i++) {
        const ten_commit_change *change = &commit->changes[i];
        for (size_t j = 0; j < change->write_count; j++)
            writes |= change->writes[j].key.kind == TEN_KIND_NAMESPACE;
        for (size_t j = 0; j < change->check_count; j++)
            *ret_makes |= change->checks[j].key.kind == TEN_KIND_NAMESPACE && change->checks[j].version == 0;
    }
    return writes;
}

static int run_commit(ten_redis_store *store, struct committing *state, uint64_t deadline_ms) {
    bool makes;
    bool found;
    state->writes_space = writes_space(state->commit, &makes);
    int r = state->writes_space && makes
                ? look_elsewhere(store, state->space, state->commit->identity, deadline_ms, &found)
                : TENURE_OK;
    if (r == TENURE_OK)
        r = ten_redis_call(store, "a commit", cut(state->commit, state->firsts), make_commit, take_commit, state,
                           deadline_ms);
    if (r < 0 || (state->other && state->done == 0))
        return r < 0 ? r : TEN_OTHER_EPOCH;
    if (state->other)
        return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "%s: an epoch began in the middle of a commit",
                        ten_redis_settings_name(store->settings));
    memmove(store->base.identity, state->commit->identity, strlen(state->commit->identity) + 1);
    return wait_for_replicas(store, state->space, deadline_ms);
}

/* A lease that could never be had is not registered either. */
static int check_keys(ten_redis_store *store, const ten_redis_space *space, const ten_commit_change *change) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < change->write_count; i++)
        if (change->writes[i].key.kind == TEN_KIND_TARGET)
            r = ten_redis_space_check(space, change->writes[i].key.id, store->base.error);
    return r;
}

int ten_redis_carry_out(ten_redis_store *store, ten_commit *commit, uint64_t deadline_ms) {
    struct committing state = {.commit = commit, .reliance = rely_on(store, commit->identity, commit->epoch)};
    state.firsts = ten_malloc((commit->count + 1) * sizeof *state.firsts);
    int r = state.firsts ? ten_redis_space_get(&store->layout, commit->namespace_name, &state.space, store->base.error)
                         : ten_fail_memory(store->base.error, "a commit");
    for (size_t i = 0; i < commit->count; i++) {
        commit->changes[i].conflict = false;
        commit->changes[i].error = 0;
    }
    for (size_t i = 0; r == TENURE_OK && i < commit->count; i++)
        r = check_keys(store, state.space, &commit->changes[i]);
    if (r == TENURE_OK) {
        snprintf(state.channel, sizeof state.channel, "%s@%llu", state.space->own[TEN_REDIS_FEED],
                 (unsigned long long)ten_redis_settings_database(store->settings));
        r = run_commit(store, &state, deadline_ms);
    }
    ten_free(state.firsts);
    return r;
}

static bool announces(const ten_commit *commit) {
    for (size_t i = 0; i < commit->count; i++)
        for (size_t j = 0; j < commit->changes[i].write_count; j++) {
            const ten_write *write = &commit->changes[i].writes[j];
            if (write->key.kind == TEN_KIND_INSTANCE && write->kind == TEN_WRITE_PUT && write->name[0] != '\0')
                return true;
        }
    return false;
}

int ten_redis_commit(ten_backend *base, ten_commit *commit, uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    ten_arena_reset(&store->texts);
    int r = ten_redis_carry_out(store, commit, deadline_ms);
    if (r == TENURE_OK && announces(commit))
        ten_redis_sweep(store, commit->namespace_name, commit->identity, commit->epoch, deadline_ms);
    return r;
}

/* ---- touch --------------------------------------------------------------------------------------------- */

struct touching {
    const ten_redis_space *space;
    struct reliance reliance;
    ten_touch *touches;
    size_t *firsts; /* touch with which each call begins; and behind the last */
    size_t done;
    bool other;
};

static bool goes_with(const ten_touch *first, const ten_touch *touch) {
    return first->ttl_ms == touch->ttl_ms && strcmp(first->name, touch->name) == 0;
}

static void make_touch(ten_redis_store *store, void *userdata, size_t at) {
    const struct touching *state = userdata;
    ten_redis_words *words = &store->words;
    const ten_touch *first = &state->touches[state->firsts[at]];
    const ten_touch *end = &state->touches[state->firsts[at + 1]];
    ten_redis_script(store, TEN_REDIS_TOUCH, 1 + (size_t)(end - first));
    ten_redis_word(words, state->space->own[TEN_REDIS_RECORDS]);
    for (const ten_touch *touch = first; touch < end; touch++)
        add_plain(words, state->space, touch->key);
    ten_redis_word(words, state->reliance.replication);
    ten_redis_word_bytes(words, state->reliance.space, state->reliance.space_size);
    ten_redis_word_number(words, first->ttl_ms);
    ten_redis_word(words, first->name);
    ten_redis_word_number(words, (size_t)(end - first));
    for (const ten_touch *touch = first; touch < end; touch++)
        ten_redis_word_field(words, touch->key);
    for (const ten_touch *touch = first; touch < end; touch++) {
        if (touch->version != TEN_VERSION_ANY)
            ten_buf_format(&words->text, "%llu%c%s%ck", (unsigned long long)touch->version, 0, touch->name, 0);
        ten_redis_word(words, "");
    }
}

static int take_touch(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct touching *state = userdata;
    ten_touch *first = &state->touches[state->firsts[at]];
    size_t count = state->firsts[at + 1] - state->firsts[at];
    if (!ten_redis_answered(store, reply))
        return ten_redis_misunderstood(store);
    if (is_other(reply)) {
        state->other = true;
        return TENURE_OK;
    }
    state->done++;
    for (size_t i = 0; i < count; i++) {
        first[i].extended = true;
        first[i].present = first[i].version;
    }
    if (reply->elements % 3 != 1)
        return ten_redis_misunderstood(store);
    for (size_t part = 1; part < reply->elements; part += 3) {
        uint64_t place = ten_redis_number(reply->element[part]);
        if (place < 1 || place > count)
            return ten_redis_misunderstood(store);
        first[place - 1].extended = ten_redis_number(reply->element[part + 1]) == 1;
        first[place - 1].present = ten_redis_number(reply->element[part + 2]);
    }
    return TENURE_OK;
}

static void make_ping(ten_redis_store *store, void *userdata, size_t at) {
    (void)userdata, (void)at;
    ten_redis_command(store);
    ten_redis_word(&store->words, "PING");
}

static int run_touches(ten_redis_store *store, struct touching *state, size_t count, uint64_t deadline_ms) {
    size_t calls = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || i - state->firsts[calls - 1] == TOUCHES ||
            !goes_with(&state->touches[state->firsts[calls - 1]], &state->touches[i]))
            state->firsts[calls++] = i;
    state->firsts[calls] = count;
    int r = ten_redis_call(store, "renewing leases", calls, make_touch, take_touch, state, deadline_ms);
    if (r < 0 || (state->other && state->done == 0))
        return r < 0 ? r : TEN_OTHER_EPOCH;
    if (state->other)
        return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "%s: an epoch began in the middle of renewals",
                        ten_redis_settings_name(store->settings));
    return wait_for_replicas(store, state->space, deadline_ms);
}

int ten_redis_touch(ten_backend *base, const char *namespace_name, const char *identity, uint64_t epoch,
                    ten_touch *touches, size_t count, uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    if (!namespace_name || count == 0)
        return ten_redis_call(store, "PING", 1, make_ping, take_nothing, NULL, deadline_ms);
    struct touching state = {.touches = touches, .reliance = rely_on(store, identity, epoch)};
    state.firsts = ten_malloc((count + 1) * sizeof *state.firsts);
    int r = state.firsts ? ten_redis_space_get(&store->layout, namespace_name, &state.space, base->error)
                         : ten_fail_memory(base->error, "renewals");
    if (r == TENURE_OK)
        r = run_touches(store, &state, count, deadline_ms);
    ten_free(state.firsts);
    bool beats = false;
    for (size_t i = 0; i < count; i++)
        beats |= touches[i].key.kind == TEN_KIND_INSTANCE;
    if (r == TENURE_OK && beats)
        ten_redis_sweep(store, namespace_name, identity, epoch, deadline_ms);
    return r;
}
