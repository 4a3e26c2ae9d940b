/*
 * The lean heartbeat of a session does what the full one does. Heartbeats with readings, other operations and disturbances
 * are carried out in two namespaces of one server, in one of them always by redis_apply.lua. Outcomes must be the same, and
 * so must every key afterwards. Times, and numbers made from them, are left out.
 */
#include "conformance/redis/redis_place.h"
#include "store/redis/redis_lean.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define SEQUENCES 30u
#define STEPS     50u
#define TARGETS   5u
#define HOLDERS   2u
#define READS     4u
#define MORE_MS   (LONG_MS + 60000)
#define FULL_ONLY "full" /* namespaces that start with this never take the short way */

/* ---- which way an operation goes ---- */

bool __real_ten_redis_lean_fits(const ten_op *ops, size_t count);
bool __wrap_ten_redis_lean_fits(const ten_op *ops, size_t count);
static bool was_beat; /* the last one in the other namespace */

bool __wrap_ten_redis_lean_fits(const ten_op *ops, size_t count) {
    if (strncmp(ops[0].namespace_name, FULL_ONLY, strlen(FULL_ONLY)) == 0)
        return false;
    was_beat = ops[0].kind == TEN_OP_ANNOUNCE && __real_ten_redis_lean_fits(ops, count);
    return __real_ten_redis_lean_fits(ops, count);
}

/* ---- two sides ---- */

struct side {
    ten_store *store;
    char ns[TENURE_NAMESPACE_MAX + 1];
    uint64_t tokens[TARGETS];
    uint64_t versions[HOLDERS]; /* of their sessions */
    ten_buf text;
};

struct twins {
    struct redis_place *redis;
    redisContext *raw;
    struct side sides[2];
    uint64_t random;
    unsigned sequence, step;
    unsigned lean; /* heartbeats that the lean script has done */
};

static const char *const targets[TARGETS] = {"t0", "t1", "t2", "t3", "t\\4"};
static const char *const holders[HOLDERS] = {"host-1", "host 2"};

static unsigned any(struct twins *twins, unsigned bound) {
    twins->random = twins->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(twins->random >> 33) % bound;
}

/* In two of three sequences nothing keeps the lean script away for long. */
static bool is_calm(const struct twins *twins) {
    return twins->sequence % 3 > 0;
}

/* ---- all keys of a side as text ---- */

static redisReply *ask(struct twins *twins, const char *format, const char *a, const char *b) {
    redisReply *reply = redisCommand(twins->raw, format, a, b);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s %s %s: %s", format, a, b, reply ? reply->str : twins->raw->errstr);
    return reply;
}

/* Without the name of the namespace, and T for a time. */
static void add_text(struct side *side, const char *text) {
    while (*text) {
        size_t digits = strspn(text, "0123456789");
        if (strncmp(text, side->ns, strlen(side->ns)) == 0) {
            ten_buf_text(&side->text, "NS");
            text += strlen(side->ns);
        } else if (digits >= 12) {
            ten_buf_text(&side->text, "T");
            text += digits;
        } else {
            ten_buf_add(&side->text, text, digits ? digits : 1);
            text += digits ? digits : 1;
        }
    }
    ten_buf_char(&side->text, ' ');
}

static int by_text(const void *a, const void *b) {
    return strcmp((*(redisReply *const *)a)->str, (*(redisReply *const *)b)->str);
}

/* What a step of the sweeps writes, which come by chance. */
static bool is_by_chance(const char *text) {
    static const char *const names[] = {"sweep", "swept", "aged", "trimmed", "buried"};
    for (size_t i = 0; i < TEN_COUNT(names); i++)
        if (strcmp(names[i], text) == 0)
            return true;
    return false;
}

static void add_hash(struct twins *twins, struct side *side, const char *key) {
    redisReply *fields = ask(twins, "HKEYS %s", key, "");
    qsort(fields->element, fields->elements, sizeof *fields->element, by_text);
    for (size_t i = 0; i < fields->elements; i++) {
        if (is_by_chance(fields->element[i]->str))
            continue;
        redisReply *value = ask(twins, "HGET %s %s", key, fields->element[i]->str);
        add_text(side, fields->element[i]->str);
        add_text(side, value->str);
        freeReplyObject(value);
    }
    freeReplyObject(fields);
}

static void add_string(struct twins *twins, struct side *side, const char *key) {
    redisReply *value = ask(twins, "GET %s", key, "");
    redisReply *left = ask(twins, "PTTL %s", key, "");
    add_text(side, value->str);
    ten_buf_text(&side->text, left->integer < 0 ? "none" : left->integer > (long long)LONG_MS ? "more" : "long");
    freeReplyObject(value);
    freeReplyObject(left);
}

static void add_set(struct twins *twins, struct side *side, const char *key) {
    redisReply *members = ask(twins, "ZRANGE %s 0 -1", key, "");
    if (!strstr(key, ":feed")) /* else by times, of which two may be the same */
        qsort(members->element, members->elements, sizeof *members->element, by_text);
    for (size_t i = 0; i < members->elements; i++)
        add_text(side, members->element[i]->str);
    freeReplyObject(members);
}

static void add_key(struct twins *twins, struct side *side, const char *key) {
    redisReply *type = ask(twins, "TYPE %s", key, "");
    add_text(side, key);
    if (strcmp(type->str, "hash") == 0)
        add_hash(twins, side, key);
    else if (strcmp(type->str, "string") == 0)
        add_string(twins, side, key);
    else if (strcmp(type->str, "zset") == 0)
        add_set(twins, side, key);
    ten_buf_char(&side->text, '\n');
    freeReplyObject(type);
}

static void look(struct twins *twins, struct side *side) {
    char pattern[96];
    ten_buf_clear(&side->text);
    snprintf(pattern, sizeof pattern, "*%s:*", side->ns);
    redisReply *keys = ask(twins, "KEYS %s", pattern, "");
    qsort(keys->element, keys->elements, sizeof *keys->element, by_text);
    for (size_t i = 0; i < keys->elements; i++)
        if (!strstr(keys->element[i]->str, ":idle"))
            add_key(twins, side, keys->element[i]->str);
    freeReplyObject(keys);
}

/* The message of a failure has room for about a thousand characters. */
static void fail_differently(const struct twins *twins) {
    print_message("# ---- lean\n%s\n# ---- full\n", ten_buf_string(&twins->sides[0].text));
    print_message("%s\n", ten_buf_string(&twins->sides[1].text));
    fail_msg("sequence %u, step %u: the keys differ", twins->sequence, twins->step);
}

static void compare_keys(struct twins *twins) {
    look(twins, &twins->sides[0]);
    look(twins, &twins->sides[1]);
    if (strcmp(ten_buf_string(&twins->sides[0].text), ten_buf_string(&twins->sides[1].text)) != 0)
        fail_differently(twins);
}

/* ---- operations ---- */

struct step {
    ten_op ops[1 + READS];
    size_t targets[1 + READS];
    size_t holder;
    size_t count;
};

static ten_op choose_op(struct twins *twins, enum ten_op_kind kind, size_t holder, size_t target) {
    ten_op op = {.kind = kind,
                 .holder = holders[holder],
                 .target = targets[target],
                 .flags = TEN_OP_SESSION,
                 .ttl_ms = any(twins, 25) ? LONG_MS : MORE_MS};
    if (kind == TEN_OP_ANNOUNCE || kind == TEN_OP_LEAVE)
        op.target = NULL;
    if (kind == TEN_OP_ANNOUNCE) {
        op.weight = any(twins, 15) ? 1 : 2;
        op.metadata = any(twins, 15) ? "port 80" : NULL;
    } else if (kind == TEN_OP_LEAVE) {
        op.ttl_ms = any(twins, 2) ? 0 : LONG_MS;
        op.flags = 0;
    } else if (kind == TEN_OP_RELEASE && !is_calm(twins) && any(twins, 4) == 0) {
        op.flags = TEN_OP_FORCE;
        op.holder = NULL;
    } else if (kind == TEN_OP_ASK) {
        op.ask = any(twins, 2) ? TEN_ASK_RESIGN : TEN_ASK_UNDO;
        op.flags = 0;
        op.holder = NULL;
    } else if (kind == TEN_OP_READ) {
        op = (ten_op){.kind = kind, .target = targets[target]};
    }
    return op;
}

static struct step choose(struct twins *twins) {
    static const enum ten_op_kind kinds[] = {TEN_OP_ANNOUNCE, TEN_OP_ANNOUNCE, TEN_OP_ANNOUNCE, TEN_OP_ANNOUNCE,
                                             TEN_OP_ANNOUNCE, TEN_OP_ANNOUNCE, TEN_OP_ACQUIRE,  TEN_OP_ACQUIRE,
                                             TEN_OP_ACQUIRE,  TEN_OP_ACQUIRE,  TEN_OP_RELEASE};
    struct step step = {.holder = any(twins, 5) == 0, .count = 1};
    enum ten_op_kind rare = any(twins, 2) ? TEN_OP_ASK : TEN_OP_LEAVE;
    enum ten_op_kind kind = is_calm(twins) || any(twins, 12) ? kinds[any(twins, TEN_COUNT(kinds))] : rare;
    step.targets[0] = any(twins, TARGETS);
    step.ops[0] = choose_op(twins, kind, step.holder, step.targets[0]);
    if (kind == TEN_OP_ANNOUNCE)
        step.count += any(twins, 2) ? 0 : 1 + any(twins, READS);
    for (size_t i = 1; i < step.count; i++) {
        step.targets[i] = any(twins, TARGETS);
        step.ops[i] = choose_op(twins, TEN_OP_READ, step.holder, step.targets[i]);
    }
    return step;
}

/* As text: what must be the same on both sides. */
static void describe(struct side *side, const struct step *step, size_t i, const ten_result *result, char *text,
                     size_t size) {
    const ten_op *op = &step->ops[i];
    bool beats = op->kind == TEN_OP_ANNOUNCE;
    bool of_lease = op->target && result->token;
    const char *token = !of_lease ? "" : result->token == side->tokens[step->targets[i]] ? "same" : "new";
    long long moved = beats && result->session_version && side->versions[step->holder]
                          ? (long long)(result->session_version - side->versions[step->holder])
                          : 0;
    if (of_lease)
        side->tokens[step->targets[i]] = result->token;
    if (beats && result->session_version)
        side->versions[step->holder] = result->session_version;
    snprintf(text, size, "%s %s: %d %d %s ttl %llu left %d %s%s%s%s%s ask %d since %d session %d version %lld",
             ten_op_kind_name(op->kind), op->target ? op->target : op->holder, (int)result->outcome, result->error,
             token, (unsigned long long)result->ttl_ms,
             result->remaining_ms == 0        ? 0
             : result->remaining_ms > LONG_MS ? 2
                                              : 1,
             result->holder ? result->holder : "-", result->barred ? " barred" : "",
             result->recovering ? " recovering" : "", result->registered ? " registered" : "",
             result->paused ? " paused" : "", (int)result->ask, result->acquired_at_ms != 0, result->session != 0,
             moved > 8 ? 9 : moved /* an epoch has begun: from a time */);
}

static unsigned long long script_calls(struct twins *twins) {
    redisReply *reply = ask(twins, "INFO commandstats", "", "");
    const char *found = strstr(reply->str, "cmdstat_evalsha:calls=");
    unsigned long long calls = found ? strtoull(found + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
    freeReplyObject(reply);
    return calls;
}

static void operate(struct twins *twins) {
    struct step step = choose(twins);
    char texts[2][1 + READS][300];
    for (size_t i = 0; i < 2; i++) {
        struct side *side = &twins->sides[i];
        ten_result results[1 + READS];
        for (size_t j = 0; j < step.count; j++) {
            step.ops[j].namespace_name = side->ns;
            step.ops[j].token =
                step.ops[j].kind == TEN_OP_RELEASE && step.ops[j].holder ? side->tokens[step.targets[j]] : 0;
        }
        unsigned long long before = script_calls(twins);
        was_beat = false;
        assert_int_equal(ten_store_apply(side->store, step.ops, results, step.count, CALL_MS), TENURE_OK);
        twins->lean += i == 0 && was_beat && script_calls(twins) == before + 1;
        for (size_t j = 0; j < step.count; j++)
            describe(side, &step, j, &results[j], texts[i][j], sizeof texts[i][j]);
    }
    for (size_t j = 0; j < step.count; j++)
        if (strcmp(texts[0][j], texts[1][j]) != 0)
            fail_msg("sequence %u, step %u:\nlean %s\nfull %s", twins->sequence, twins->step, texts[0][j], texts[1][j]);
}

/* ---- disturbances: each is a command with the namespace, and a target or a holder ---- */

static const char *const of_targets[] = {
    "DEL %s:lease:%s",
    "SET %s:lease:%s somebody PX 270000",
    "HSET tenure:%s:targets %s +{}",
    "HSET tenure:%s:targets %s -{}",
    "HDEL tenure:%s:targets %s",
};
static const char *const of_holders[] = {
    "DEL %s:node:%s",                /* its heartbeat has ended */
    "SET %s:node:%s 7 XX PX 240000", /* one that no index has would be found by the sweep, which comes by chance */
    "HDEL tenure:%s:sessions %s",
    "ZADD tenure:%s:nodes 1000 %s",
    "ZADD tenure:%s:nodes 1000 dead-%s",
    "HDEL tenure:%s:instances %s",
    "ZADD tenure:%s:gone 9000000000000 %s",
    "ZREM tenure:%s:gone %s",
};
static const char *const of_all[] = {
    "DEL tenure:%s:sessions",
    "DEL tenure:%s:epoch",
    "HSET tenure:%s:epoch server another",
    "HSET tenure:%s:epoch began 0 provisional 0",
    "HSET tenure:%s:epoch began 0 provisional 0",
    "HSET tenure:%s:epoch began 9000000000000",
    "DEL tenure:%s:marks",
};

static void disturb_with(struct twins *twins, const char *format, const char *word) {
    /* Where tokens and numbers of sessions are times, the clock gets past all that were granted. */
    sleep_ms(STEPS / 2);
    for (size_t i = 0; i < 2; i++)
        freeReplyObject(ask(twins, format, twins->sides[i].ns, word));
}

static void disturb(struct twins *twins) {
    unsigned what = any(twins, is_calm(twins) ? 3 : 4);
    if (what < 2)
        disturb_with(twins, of_targets[any(twins, TEN_COUNT(of_targets))], targets[any(twins, TARGETS)]);
    else if (what == 2)
        disturb_with(twins, of_holders[any(twins, TEN_COUNT(of_holders))], holders[any(twins, HOLDERS)]);
    else
        disturb_with(twins, of_all[any(twins, TEN_COUNT(of_all))], "");
}

static void run_sequence(struct twins *twins) {
    twins->random = twins->sequence + 1;
    for (size_t i = 0; i < 2; i++) {
        struct side *side = &twins->sides[i];
        side->store = i == 0 ? twins->redis->place.store : twins->redis->place.other;
        snprintf(side->ns, sizeof side->ns, "%s%u", i == 0 ? "lean" : FULL_ONLY, twins->sequence);
        memset(side->tokens, 0, sizeof side->tokens);
        memset(side->versions, 0, sizeof side->versions);
    }
    for (twins->step = 0; twins->step < STEPS; twins->step++) {
        if (any(twins, 12) == 0)
            disturb(twins);
        operate(twins);
        if (any(twins, 4) == 0)
            compare_keys(twins);
    }
    compare_keys(twins);
}

REDIS_CASE(the_lean_heartbeat_does_what_the_full_one_does) {
    struct twins *twins = calloc(1, sizeof *twins);
    assert_non_null(twins);
    twins->redis = *state;
    redis_place_open(twins->redis, "fresh=1&leases=session");
    twins->raw = redisConnect("127.0.0.1", twins->redis->server.port);
    assert_non_null(twins->raw);
    for (twins->sequence = 0; twins->sequence < SEQUENCES; twins->sequence++)
        run_sequence(twins);
    print_message("# the lean script has done %u heartbeats in %u steps\n", twins->lean, SEQUENCES * STEPS);
    assert_true(twins->lean > SEQUENCES * STEPS / 12);
    for (size_t i = 0; i < 2; i++)
        ten_buf_free(&twins->sides[i].text);
    redisFree(twins->raw);
    free(twins);
}

/* ---- what times say, and what comes too seldom by chance ---- */

static ten_result beat_and_read(struct place *place, ten_result *ret_read) {
    const ten_op ops[] = {{.kind = TEN_OP_ANNOUNCE,
                           .namespace_name = place->ns,
                           .holder = "a",
                           .ttl_ms = LONG_MS,
                           .weight = 1,
                           .flags = TEN_OP_SESSION},
                          {.kind = TEN_OP_READ, .namespace_name = place->ns, .target = "t"}};
    ten_result results[TEN_COUNT(ops)];
    was_beat = false;
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    assert_true(was_beat);
    *ret_read = results[1];
    return results[0];
}

/* Its instance has a session, and a lease on it. */
static struct place *open_with_lease(void **state) {
    struct redis_place *redis = *state;
    ten_result read;
    redis_place_open(redis, "fresh=1&leases=session");
    struct place *place = &redis->place;
    (void)beat_and_read(place, &read);
    const ten_op op = {.kind = TEN_OP_ACQUIRE,
                       .namespace_name = place->ns,
                       .target = "t",
                       .holder = "a",
                       .ttl_ms = LONG_MS,
                       .flags = TEN_OP_SESSION};
    ten_result result;
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, CALL_MS), TENURE_OK);
    expect_outcome(result, TEN_OK);
    assert_true(result.session != 0);
    return place;
}

static uint64_t session_end(void **state, const struct place *place) {
    const char *text = redis_text(*state, "HGET tenure:%s:sessions a", place->ns);
    return strtoull(strchr(text, ' '), NULL, 10);
}

REDIS_CASE(a_lean_heartbeat_makes_session_and_instance_last) {
    struct place *place = open_with_lease(state);
    ten_result read;
    uint64_t before_ms = session_end(state, place);
    double score = strtod(redis_text(*state, "ZSCORE tenure:%s:nodes a", place->ns), NULL);
    redis_command(*state, "PEXPIRE %s:node:a 1000", place->ns);
    sleep_ms(30);
    expect_outcome(beat_and_read(place, &read), TEN_OK);
    assert_true(session_end(state, place) >= before_ms + 30);
    assert_true(strtod(redis_text(*state, "ZSCORE tenure:%s:nodes a", place->ns), NULL) >= score + 30);
    assert_true(strtoull(redis_text(*state, "PTTL %s:node:a", place->ns), NULL, 10) > LONG_MS / 2);
    expect_outcome(read, TEN_OK);
    expect_holder(read, "a");
    assert_int_equal(read.ttl_ms, LONG_MS);
    assert_true(read.remaining_ms > LONG_MS / 2);
}

static void set_session(void **state, const struct place *place, uint64_t number, uint64_t end_ms, uint64_t ttl_ms) {
    redis_command(*state, "EVAL redis.call('HSET',KEYS[1],'a','%llu\\032%llu\\032%llu\\0320') 1 tenure:%s:sessions",
                  (unsigned long long)number, (unsigned long long)end_ms, (unsigned long long)ttl_ms, place->ns);
}

REDIS_CASE(a_heartbeat_with_a_shorter_ttl_does_not_shorten_a_session) {
    struct place *place = open_with_lease(state);
    ten_result read;
    uint64_t number = beat_and_read(place, &read).session;
    set_session(state, place, number, UINT64_C(9000000000000), MORE_MS);
    assert_int_equal(beat_and_read(place, &read).session, number);
    assert_int_equal(session_end(state, place), UINT64_C(9000000000000));
}

REDIS_CASE(an_end_is_put_right_after_the_clock_went_back) {
    struct place *place = open_with_lease(state);
    ten_result read;
    uint64_t number = beat_and_read(place, &read).session;
    set_session(state, place, number, UINT64_C(9000000000000), LONG_MS);
    redis_command(*state, "ZADD tenure:%s:nodes 9000000000000 a", place->ns); /* by the last heartbeat */
    assert_int_equal(beat_and_read(place, &read).session, number);
    assert_true(session_end(state, place) < UINT64_C(9000000000000));
}

REDIS_CASE(a_session_that_has_ended_never_comes_back) {
    struct place *place = open_with_lease(state);
    ten_result read;
    uint64_t number = beat_and_read(place, &read).session;
    set_session(state, place, number, 1000, LONG_MS);
    assert_true(beat_and_read(place, &read).session > number);
    expect_holder(read, NULL);
}

REDIS_CASE(a_lease_whose_record_somebody_deleted_is_its_holders_nevertheless) {
    struct place *place = open_with_lease(state);
    ten_result read;
    redis_command(*state, "DEL tenure:%s:held", place->ns);
    expect_outcome(beat_and_read(place, &read), TEN_OK);
    expect_outcome(read, TEN_OK);
    expect_holder(read, "a");
    assert_int_equal(read.ttl_ms, LONG_MS);
}

REDIS_CASE(an_instance_that_was_ended_stays_ended) {
    struct place *place = open_with_lease(state);
    ten_result read;
    redis_command(*state, "ZADD tenure:%s:gone 9000000000000 a", place->ns);
    ten_result result = beat_and_read(place, &read);
    expect_outcome(result, TEN_ERROR);
    assert_int_equal(result.error, TENURE_E_GONE);
}

REDIS_CASE(the_dead_are_buried_by_the_living) {
    struct place *place = open_with_lease(state);
    ten_result read;
    redis_command(*state, "ZADD tenure:%s:nodes 1000 dead", place->ns);
    expect_outcome(beat_and_read(place, &read), TEN_OK);
    assert_string_equal(redis_text(*state, "ZCARD tenure:%s:nodes", place->ns), "1");
}
