/*
 * Records in Redis: how they are asked for and understood, and the calls of backend.h that read and touch them.
 * redis.lua says how they are kept. A large request is cut into calls, so that none of them holds the server for more
 * than about a millisecond; each is atomic.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "base/hash.h"
#include "store/redis/redis_state.h"

#define LAYOUT       3
#define READ_RECORDS 250u  /* in a call */
#define TOUCHES      250u  /* in a call */
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

void ten_redis_word_plain(ten_redis_words *words, const ten_redis_space *space, ten_key key) {
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

void ten_redis_add_version(ten_redis_words *words, uint64_t version) {
    char text[24];
    char *start = ten_digits_before(text + sizeof text, version);
    size_t size = (size_t)(text + sizeof text - start);
    ten_buf_add(&words->text, "0000000000000000", size < TEN_REDIS_VERSION_SIZE ? TEN_REDIS_VERSION_SIZE - size : 0);
    ten_buf_add(&words->text, start, size);
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
static const char *find_replication(ten_redis_store *store, const char *identity) {
    char same[TEN_IDENTITY_MAX + 1];
    if (strcmp(store->replied.identity, identity) == 0)
        return store->replied.replication;
    if (sscanf(identity, "redis %*d %48s", store->replied.replication) == 1) {
        ten_redis_make_identity(store, store->replied.replication, same);
        memcpy(store->replied.identity, same, sizeof same);
        if (strcmp(same, identity) == 0)
            return store->replied.replication;
    }
    return "-";
}

bool ten_redis_answered(ten_redis_store *store, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || reply->element[0]->type != REDIS_REPLY_STRING)
        return false;
    store->base.wall_ms = ten_redis_number(reply->element[0]);
    if (reply->element[1]->type != REDIS_REPLY_STRING)
        return true;
    if (strcmp(store->replied.replication, reply->element[1]->str) != 0) {
        snprintf(store->replied.replication, sizeof store->replied.replication, "%.48s", reply->element[1]->str);
        ten_redis_make_identity(store, store->replied.replication, store->replied.identity);
    }
    memcpy(store->base.identity, store->replied.identity, sizeof store->base.identity);
    return true;
}

uint64_t ten_redis_take_times(ten_redis_store *store, const redisReply *reply) {
    char *end;
    store->base.wall_ms = strtoull(reply->str, &end, 10);
    return strtoull(end, NULL, 10);
}

/* The parts of a record's text, each ended by a NUL but for the first three. */
struct parts {
    const char *version;
    char letter;
    const char *ends;
    const char *name, *number, *value;
};

static bool split(const redisReply *text, struct parts *parts) {
    const char **places[] = {&parts->name, &parts->number, &parts->value};
    const char *end = text->str + text->len;
    const char *at = text->str + TEN_REDIS_HEAD_SIZE;
    for (size_t i = 0; i < TEN_COUNT(places); i++) {
        if (at > end)
            return false;
        *places[i] = at;
        at += strlen(at) + 1;
    }
    parts->version = text->str;
    parts->letter = text->str[TEN_REDIS_VERSION_SIZE];
    parts->ends = text->str + TEN_REDIS_VERSION_SIZE + 1;
    return true;
}

/* Up to so many digits, whatever stands behind them. */
static uint64_t digits(const char *text, size_t size) {
    uint64_t number = 0;
    for (size_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(text[i] - '0');
    return number;
}

static uint64_t left_of(const redisReply *left) {
    return left->integer < 0 ? TEN_FOREVER : ten_max_u64(ten_redis_number(left), 1);
}

/* How long ago that was; 0: not known. */
static uint64_t ago_ms(const ten_redis_store *store, uint64_t at_ms) {
    return at_ms ? ten_sub_saturating(store->base.wall_ms, at_ms) : TEN_FOREVER;
}

/* Whether a lease's key has what this record says. */
static bool is_ours(const struct parts *parts, const redisReply *content) {
    size_t size = strlen(parts->name);
    if (size == 0 || content->len < size || memcmp(content->str, parts->name, size) != 0)
        return false;
    return parts->letter == 'k' ? content->len == size : parts->letter == 'n' && content->str[size] == '\t';
}

/* Of a lease on a session, whose record somebody has deleted: no other program's names have a tab. */
static bool is_left_over(const redisReply *content) {
    static const char mark[] = "\tsession ";
    const char *at = strstr(content->str, mark);
    return at && at[strlen(mark)] != '\0' && strspn(at + strlen(mark), "0123456789") == strlen(at + strlen(mark));
}

static void take_life(const ten_redis_store *store, const struct parts *parts, const redisReply *content,
                      const redisReply *left, ten_record *record) {
    uint64_t end_ms = digits(parts->ends, TEN_REDIS_END_SIZE);
    bool is_endless = end_ms == TEN_REDIS_FOREVER;
    if (parts->letter == 'k') {
        uint64_t known_ms = record->key.kind == TEN_KIND_LEASE ? ten_redis_number(left) : is_endless ? 0 : end_ms;
        record->alive = content != NULL;
        record->left_ms = content ? left_of(left) : 0;
        record->ended_ms = content ? 0 : ago_ms(store, known_ms);
    } else {
        record->alive = end_ms > store->base.wall_ms;
        record->left_ms = is_endless ? TEN_FOREVER : ten_sub_saturating(end_ms, store->base.wall_ms);
        record->ended_ms = ago_ms(store, end_ms);
    }
}

int ten_redis_take_record(ten_redis_store *store, redisReply *const *parts, ten_record *record) {
    const redisReply *content = parts[1]->type == REDIS_REPLY_STRING ? parts[1] : NULL;
    bool is_lease = record->key.kind == TEN_KIND_LEASE;
    struct parts found = {"0", '-', "0", "", "0", ""};
    *record = (ten_record){.key = record->key};
    if (parts[0]->type == REDIS_REPLY_STRING && !split(parts[0], &found))
        return ten_redis_misunderstood(store);
    record->version = digits(found.version, TEN_REDIS_VERSION_SIZE);
    record->number = strtoull(found.number, NULL, 10);
    record->foreign =
        is_lease && content && !is_ours(&found, content) && !(record->version == 0 && is_left_over(content));
    if (record->foreign) {
        record->alive = true;
        record->left_ms = parts[2]->integer < 0 ? ASK_AGAIN_MS : left_of(parts[2]);
    } else {
        take_life(store, &found, content, parts[2], record);
    }
    if (record->version && record->key.kind == TEN_KIND_INSTANCE && found.letter == 'k' && content)
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
        ten_redis_word_plain(&store->words, reading->space, reading->records[i].key);
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

/* What an earlier version has left; the URL says that it is not used any more. */
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
int ten_redis_look_elsewhere(ten_redis_store *store, const ten_redis_space *space, const char *identity,
                             uint64_t deadline_ms, bool *ret_found) {
    struct exchange exchange = {.space = space, .identity = identity};
    int r = ten_redis_call(store, "beginning a namespace", 1, make_exchanged, take_exchanged, &exchange, deadline_ms);
    *ret_found = exchange.found;
    return r;
}

/* An empty Redis cannot be told from one that lost everything. `fresh` says that it is empty, and is wrong of a
 * database that was exchanged. */
static int judge_loss(ten_redis_store *store, const struct reading *reading, uint64_t deadline_ms) {
    bool found = false;
    int r = TENURE_OK;
    for (size_t i = 0; i < reading->count; i++) {
        if (reading->records[i].key.kind != TEN_KIND_NAMESPACE)
            continue;
        bool is_new = store->fresh && reading->records[i].version == 0;
        if (is_new)
            r = ten_redis_look_elsewhere(store, reading->space, store->base.identity, deadline_ms, &found);
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

int ten_redis_rely_on(ten_redis_store *store, const char *namespace_name, const char *identity, uint64_t epoch,
                      ten_redis_reliance *ret_reliance) {
    ten_redis_reliance reliance = {0};
    snprintf(reliance.replication, sizeof reliance.replication, "\r\nmaster_replid:%s\r\n",
             find_replication(store, identity));
    reliance.space_size = (size_t)snprintf(reliance.space, sizeof reliance.space, "%s%c%llu%c", identity, 0,
                                           (unsigned long long)epoch, 0);
    *ret_reliance = reliance;
    return ten_redis_space_get(&store->layout, namespace_name, &ret_reliance->names, store->base.error);
}

bool ten_redis_is_other(ten_redis_store *store, ten_redis_reliance *reliance, const redisReply *reply) {
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[1]->type == REDIS_REPLY_STRING)
        reliance->other = store->enough = true;
    else
        reliance->done++;
    return reliance->other;
}

/* With wait_replicas nothing counts that is not on that many replicas: a failover would lose it. WAIT is about what its
 * own connection has written last. That may be nothing, if the call was sent again and had been carried out before: so
 * there is always something. */
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

int ten_redis_settle(ten_redis_store *store, const ten_redis_reliance *reliance, const char *what,
                     uint64_t deadline_ms) {
    if (reliance->other && reliance->done == 0)
        return TEN_OTHER_EPOCH;
    if (reliance->other)
        return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "%s: an epoch began in the middle of %s",
                        ten_redis_settings_name(store->settings), what);
    return wait_for_replicas(store, reliance->names, deadline_ms);
}

/* ---- touch --------------------------------------------------------------------------------------------- */

struct touching {
    ten_redis_reliance reliance;
    ten_touch *touches;
    size_t *firsts; /* touch with which each call begins; and behind the last */
    bool compares;  /* all versions, whatever is known of them */
    bool unproved;  /* a call has found that something has changed since then */
};

static bool goes_with(const ten_touch *first, const ten_touch *touch) {
    return first->ttl_ms == touch->ttl_ms && strcmp(first->name, touch->name) == 0;
}

/* No other client can have written any of them since this handle wrote it, or a touch compared its version. */
static bool is_proved(const ten_redis_store *store, const struct touching *state, size_t at) {
    const ten_redis_alone *alone = &store->alone;
    bool proved = !state->compares && alone->space == state->reliance.names;
    for (size_t i = state->firsts[at]; proved && i < state->firsts[at + 1]; i++) {
        const ten_touch *touch = &state->touches[i];
        proved = touch->key.kind == TEN_KIND_LEASE && touch->seen >= alone->first;
    }
    return proved;
}

static void make_touch(ten_redis_store *store, void *userdata, size_t at) {
    const struct touching *state = userdata;
    ten_redis_words *words = &store->words;
    const ten_touch *first = &state->touches[state->firsts[at]];
    const ten_touch *end = &state->touches[state->firsts[at + 1]];
    ten_redis_script(store, TEN_REDIS_TOUCH, 1 + (size_t)(end - first));
    ten_redis_word(words, state->reliance.names->own[TEN_REDIS_RECORDS]);
    for (const ten_touch *touch = first; touch < end; touch++)
        ten_redis_word_plain(words, state->reliance.names, touch->key);
    ten_redis_word(words, state->reliance.replication);
    ten_redis_word_bytes(words, state->reliance.space, state->reliance.space_size);
    ten_redis_word_number(words, first->ttl_ms);
    ten_redis_word(words, first->name);
    if (is_proved(store, state, at)) {
        ten_redis_add_version(words, store->alone.last);
        ten_redis_word(words, "");
        return;
    }
    ten_redis_word(words, "");
    for (const ten_touch *touch = first; touch < end; touch++)
        ten_redis_word_field(words, touch->key);
    for (const ten_touch *touch = first; touch < end; touch++) {
        if (touch->version != TEN_VERSION_ANY)
            ten_redis_add_version(words, touch->version);
        ten_redis_word(words, "");
    }
}

/* Those that were not extended, and those of any version. */
static int take_others(ten_redis_store *store, ten_touch *first, size_t count, const redisReply *reply) {
    for (size_t part = 3; part < reply->elements; part += 3) {
        uint64_t place = ten_redis_number(reply->element[part]);
        if (place < 1 || place > count)
            return ten_redis_misunderstood(store);
        first[place - 1].extended = ten_redis_number(reply->element[part + 1]) == 1;
        first[place - 1].present = ten_redis_number(reply->element[part + 2]);
    }
    return TENURE_OK;
}

static int take_touch(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply) {
    struct touching *state = userdata;
    ten_touch *first = &state->touches[state->firsts[at]];
    size_t count = state->firsts[at + 1] - state->firsts[at];
    bool is_usual = reply->type == REDIS_REPLY_STRING;
    if (!is_usual && !ten_redis_answered(store, reply))
        return ten_redis_misunderstood(store);
    if (ten_redis_is_other(store, &state->reliance, reply))
        return TENURE_OK;
    if (!is_usual && reply->elements % 3 != 0)
        return ten_redis_misunderstood(store);
    uint64_t number = is_usual ? ten_redis_take_times(store, reply) : ten_redis_number(reply->element[2]);
    if (number == 0 && state->compares)
        return ten_redis_misunderstood(store);
    if (number == 0) {
        state->unproved = store->enough = true;
        return TENURE_OK;
    }
    for (size_t i = 0; i < count; i++) {
        first[i].extended = true;
        first[i].present = first[i].version;
        first[i].seen = number;
    }
    int r = is_usual ? TENURE_OK : take_others(store, first, count, reply);
    ten_redis_note_number(store, state->reliance.names, number, number);
    return r;
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
    int r = TENURE_OK;
    do {
        state->compares = state->unproved;
        state->unproved = false;
        state->reliance.done = 0;
        r = ten_redis_call(store, "renewing leases", calls, make_touch, take_touch, state, deadline_ms);
    } while (r == TENURE_OK && state->unproved && !state->reliance.other);
    return r < 0 ? r : ten_redis_settle(store, &state->reliance, "renewals", deadline_ms);
}

int ten_redis_touch(ten_backend *base, const char *namespace_name, const char *identity, uint64_t epoch,
                    ten_touch *touches, size_t count, uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    if (!namespace_name || count == 0)
        return ten_redis_call(store, "PING", 1, make_ping, take_nothing, NULL, deadline_ms);
    struct touching state = {.touches = touches};
    state.firsts = ten_malloc((count + 1) * sizeof *state.firsts);
    int r = state.firsts ? ten_redis_rely_on(store, namespace_name, identity, epoch, &state.reliance)
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
