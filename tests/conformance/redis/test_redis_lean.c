/*
 * The lean script does what the full one does. Random operations and disturbances are carried out in two namespaces of
 * one server: in one as the store sends them, in the other always by redis_apply.lua. Outcomes must be the same, and so
 * must every key afterwards. Times are left out, and tokens are numbered in the order in which they appear.
 */
#include "conformance/redis/redis_place.h"
#include "store/redis/redis_lean.h"

#include <stdio.h>
#include <stdlib.h>

#define SEQUENCES 90u
#define STEPS     50u
#define TARGETS   6u
#define HOLDERS   3u
#define CALM      5u /* disturbances that leave the epoch alone */
#define BATCH     4u
#define TOKENS    256u
#define MORE_MS   (LONG_MS + 60000)
#define FAR_MS    UINT64_C(100000000) /* tokens are times: later than any that will come */
#define FULL_ONLY "full"              /* namespaces that start with this never take the short way */

/* ---- which way an operation goes ---- */

bool __real_ten_redis_lean_fits(const ten_op *ops, size_t count);
bool __wrap_ten_redis_lean_fits(const ten_op *ops, size_t count);
static bool was_fit; /* the last one in the other namespace */

bool __wrap_ten_redis_lean_fits(const ten_op *ops, size_t count) {
    if (strncmp(ops[0].namespace_name, FULL_ONLY, strlen(FULL_ONLY)) == 0)
        return false;
    was_fit = __real_ten_redis_lean_fits(ops, count);
    return was_fit;
}

/* ---- two sides ---- */

struct side {
    char ns[TENURE_NAMESPACE_MAX + 1];
    uint64_t tokens[TARGETS][TOKENS]; /* in the order in which they appeared */
    size_t token_counts[TARGETS];
    ten_buf state;
};

struct twins {
    struct redis_place *redis;
    redisContext *raw;
    struct side sides[2];
    uint64_t random;
    unsigned sequence, step;
    unsigned lean; /* operations that the lean script has done */
};

/* One has a name that needs escapes, which the lean script does not know. */
static const char *const targets[TARGETS] = {"t0", "t1", "t2", "t3", "t4", "t\\5"};
static const char *const holders[HOLDERS] = {"host-1", "host 2", "2"};

static unsigned any(struct twins *twins, unsigned bound) {
    twins->random = twins->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(twins->random >> 33) % bound;
}

/* In two of three sequences nothing keeps the lean script away for long. */
static bool is_calm(const struct twins *twins) {
    return twins->sequence % 3 > 0;
}

static size_t number_of(struct side *side, size_t target, uint64_t token) {
    size_t *count = &side->token_counts[target];
    for (size_t i = 0; i < *count; i++)
        if (side->tokens[target][i] == token)
            return i;
    assert_true(*count < TOKENS);
    side->tokens[target][*count] = token;
    return (*count)++;
}

static size_t target_number(const char *id) {
    for (size_t i = 0; i < TARGETS; i++)
        if (strcmp(targets[i], id) == 0)
            return i;
    return TARGETS - 1; /* escaped */
}

/* ---- the keys of a side as text ---- */

static redisReply *ask(struct twins *twins, const char *format, const char *a, const char *b) {
    redisReply *reply = redisCommand(twins->raw, format, a, b);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s %s %s: %s", format, a, b, reply ? reply->str : twins->raw->errstr);
    return reply;
}

/* A line of the feed: kind, reason, token, time, target, instance, actor. */
static void add_line(struct side *side, char *line) {
    char *fields[7] = {0};
    for (size_t i = 0; i < TEN_COUNT(fields); i++)
        fields[i] = strsep(&line, "\t");
    assert_non_null(fields[6]);
    uint64_t token = strtoull(fields[2], NULL, 10);
    ten_buf_format(&side->state, "  %s %s #%zu %s %s %s\n", fields[0], fields[1],
                   token ? number_of(side, target_number(fields[4]), token) : 999, fields[4], fields[5], fields[6]);
}

static void add_feed(struct twins *twins, struct side *side) {
    redisReply *feed = ask(twins, "ZRANGE tenure:%s:feed 0 -1", side->ns, "");
    uint64_t last = 0;
    for (size_t i = 0; i < feed->elements; i++) {
        char *rest = feed->element[i]->str;
        uint64_t cursor = strtoull(strsep(&rest, "\n"), NULL, 10);
        ten_buf_text(&side->state, "feed\n");
        uint64_t lines = 0;
        for (; rest; lines++)
            add_line(side, strsep(&rest, "\n"));
        assert_true(cursor - last >= lines); /* each line has a cursor of its own */
        last = cursor;
    }
    freeReplyObject(feed);
}

static void add_members(struct twins *twins, struct side *side, const char *set) {
    redisReply *found = ask(twins, "ZRANGE tenure:%s:%s 0 -1", side->ns, set);
    for (size_t i = 0; i < found->elements; i++)
        ten_buf_format(&side->state, "%s %s\n", set, found->element[i]->str);
    freeReplyObject(found);
}

static void add_hash_value(struct twins *twins, struct side *side, const char *hash, size_t target) {
    char field[128], command[64];
    snprintf(field, sizeof field, "%s:lease:%s", side->ns, targets[target]);
    snprintf(command, sizeof command, "HGET tenure:%%s:%s %%s", hash);
    redisReply *found = ask(twins, command, side->ns, field);
    char *text = found->str;
    if (text) {
        uint64_t token = strtoull(text, &text, 10);
        ten_buf_format(&side->state, "%s %s", hash, targets[target]);
        if (strcmp(hash, "held") != 0) /* that one starts with a time */
            ten_buf_format(&side->state, " #%zu", number_of(side, target, token));
        ten_buf_format(&side->state, "%s\n", text);
    }
    freeReplyObject(found);
}

static void add_lease_key(struct twins *twins, struct side *side, size_t target) {
    redisReply *type = ask(twins, "TYPE %s:lease:%s", side->ns, targets[target]);
    redisReply *left = ask(twins, "PTTL %s:lease:%s", side->ns, targets[target]);
    bool plain = strcmp(type->str, "string") == 0;
    redisReply *value = plain ? ask(twins, "GET %s:lease:%s", side->ns, targets[target]) : NULL;
    const char *length = left->integer < 0 ? "none" : left->integer > (long long)LONG_MS ? "more" : "long";
    ten_buf_format(&side->state, "key %s %s %s %s\n", targets[target], type->str, value ? value->str : "", length);
    freeReplyObject(type);
    freeReplyObject(left);
    if (value)
        freeReplyObject(value);
}

static void add_epoch(struct twins *twins, struct side *side) {
    redisReply *epoch = ask(twins, "HMGET tenure:%s:epoch began provisional ttl forgotten database", side->ns, "");
    for (size_t i = 0; i < epoch->elements; i++) {
        const char *text = epoch->element[i]->str ? epoch->element[i]->str : "none";
        bool is_time = i < 2 && strlen(text) > 10;
        ten_buf_format(&side->state, "epoch %s\n", is_time ? "then" : text);
    }
    freeReplyObject(epoch);
}

static void look(struct twins *twins, struct side *side) {
    ten_buf_clear(&side->state);
    add_epoch(twins, side);
    for (size_t i = 0; i < TARGETS; i++) {
        add_lease_key(twins, side, i);
        add_hash_value(twins, side, "fence", i);
        add_hash_value(twins, side, "held", i);
        add_hash_value(twins, side, "marks", i);
        add_hash_value(twins, side, "checkpoint", i);
    }
    add_feed(twins, side);
    add_members(twins, side, "ids");
    add_members(twins, side, "gone");
    add_members(twins, side, "nodes");
}

static void compare_keys(struct twins *twins) {
    look(twins, &twins->sides[0]);
    look(twins, &twins->sides[1]);
    if (strcmp(ten_buf_string(&twins->sides[0].state), ten_buf_string(&twins->sides[1].state)) != 0)
        fail_msg("sequence %u, step %u: the keys differ\n---- lean\n%s---- full\n%s", twins->sequence, twins->step,
                 ten_buf_string(&twins->sides[0].state), ten_buf_string(&twins->sides[1].state));
}

/* ---- operations ---- */

/* The floor of an epoch is a time. Before one may begin, the clock gets past all tokens, which are times that grow by one:
 * else it would be chance which is higher. */
static void pass_tokens(void) {
    sleep_ms(STEPS / 2);
}

/* What an operation is in either namespace; the token is that with a number, or one above the last, or none. */
struct step {
    ten_op op;
    size_t target;
    unsigned token; /* 0: none; 1: the last one known; 2: the one before; 3: one that was never granted */
};

static uint64_t token_of(const struct side *side, const struct step *step) {
    size_t count = side->token_counts[step->target];
    if (step->token == 0 || count == 0)
        return 0;
    if (step->token == 2)
        return side->tokens[step->target][count > 1 ? count - 2 : 0];
    return side->tokens[step->target][count - 1] + (step->token == 3 ? FAR_MS : 0);
}

static void choose_release(struct twins *twins, struct step *step) {
    static const unsigned flags[] = {0, 0, 0, 0, 0, TEN_OP_FORCE, TEN_OP_FORCE_NOW};
    static const enum ten_reason reasons[] = {TEN_REASON_NONE, TEN_REASON_DONE, TEN_REASON_CRASHED};
    step->op.flags = is_calm(twins) ? 0 : flags[any(twins, TEN_COUNT(flags))];
    step->op.reason = reasons[any(twins, TEN_COUNT(reasons))];
    step->op.actor = any(twins, 4) ? NULL : "some\tone";
    step->op.ttl_ms = 0;
}

static struct step choose(struct twins *twins, enum ten_op_kind kind) {
    static const unsigned acquire_flags[] = {0, 0, 0, TEN_OP_FRESH, TEN_OP_REQUIRE_TARGET, TEN_OP_WITH_CHECKPOINT};
    static const unsigned tokens[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2, 3};
    struct step step = {.target = any(twins, TARGETS), .token = tokens[any(twins, TEN_COUNT(tokens))]};
    step.op = (ten_op){.kind = kind,
                       .target = targets[step.target],
                       .holder = holders[any(twins, any(twins, 4) ? 1 : HOLDERS)],
                       .ttl_ms = any(twins, 12) ? LONG_MS : MORE_MS};
    if (kind == TEN_OP_ACQUIRE)
        step.op.flags = acquire_flags[any(twins, TEN_COUNT(acquire_flags))];
    else if (kind == TEN_OP_RENEW)
        step.op.flags = any(twins, 4) ? 0 : TEN_OP_KEEP;
    else if (kind == TEN_OP_RELEASE)
        choose_release(twins, &step);
    else if (kind == TEN_OP_CHECKPOINT)
        step.op.checkpoint = any(twins, 2) ? "so far" : "";
    else if (kind == TEN_OP_ASK)
        step.op.ask = any(twins, 2) ? TEN_ASK_RESIGN : TEN_ASK_UNDO;
    if ((kind == TEN_OP_RENEW || kind == TEN_OP_RELEASE) && step.token > 0 && any(twins, 5) == 0)
        step.op.holder = NULL;
    return step;
}

static void expect_same(const struct twins *twins, const struct step *step, ten_result *results, struct side *sides) {
    ten_result a = results[0], b = results[1];
    size_t numbers[2];
    for (size_t i = 0; i < 2; i++)
        numbers[i] = results[i].token && !results[i].recovering /* a bound then, and made from a time */
                         ? number_of(&sides[i], step->target, results[i].token)
                         : TOKENS;
    bool same = a.outcome == b.outcome && a.error == b.error && numbers[0] == numbers[1] && a.ttl_ms == b.ttl_ms &&
                (a.remaining_ms > LONG_MS) == (b.remaining_ms > LONG_MS) &&
                (a.remaining_ms > 0) == (b.remaining_ms > 0) && !a.holder == !b.holder &&
                (!a.holder || strcmp(a.holder, b.holder) == 0) && a.barred == b.barred &&
                a.recovering == b.recovering && a.ask == b.ask && !a.checkpoint == !b.checkpoint &&
                (!a.checkpoint || strcmp(a.checkpoint, b.checkpoint) == 0);
    if (!same)
        fail_msg("sequence %u, step %u: %s of %s by %s: lean has outcome %d, token %zu, ttl %llu, left %llu, holder %s,"
                 " ask %d, full %d, %zu, %llu, %llu, %s, %d",
                 twins->sequence, twins->step, ten_op_kind_name(step->op.kind), step->op.target,
                 step->op.holder ? step->op.holder : "its token", (int)a.outcome, numbers[0],
                 (unsigned long long)a.ttl_ms, (unsigned long long)a.remaining_ms, a.holder ? a.holder : "nobody",
                 (int)a.ask, (int)b.outcome, numbers[1], (unsigned long long)b.ttl_ms,
                 (unsigned long long)b.remaining_ms, b.holder ? b.holder : "nobody", (int)b.ask);
}

static unsigned long long script_calls(struct twins *twins) {
    redisReply *reply = ask(twins, "INFO commandstats", "", "");
    const char *found = strstr(reply->str, "cmdstat_evalsha:calls=");
    unsigned long long calls = found ? strtoull(found + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
    freeReplyObject(reply);
    return calls;
}

/* On both sides; each has a handle of its own, whose results live on. */
static void apply_steps(struct twins *twins, const struct step *steps, size_t count) {
    ten_result results[2][BATCH];
    for (size_t i = 0; i < 2; i++) {
        struct side *side = &twins->sides[i];
        ten_op ops[BATCH];
        for (size_t j = 0; j < count; j++) {
            ops[j] = steps[j].op;
            ops[j].namespace_name = side->ns;
            ops[j].token = token_of(side, &steps[j]);
        }
        unsigned long long before = script_calls(twins);
        was_fit = false;
        ten_store *store = i == 0 ? twins->redis->place.store : twins->redis->place.other;
        assert_int_equal(ten_store_apply(store, ops, results[i], count, CALL_MS), TENURE_OK);
        twins->lean += i == 0 && was_fit && script_calls(twins) == before + 1;
    }
    for (size_t j = 0; j < count; j++)
        expect_same(twins, &steps[j], (ten_result[]){results[0][j], results[1][j]}, twins->sides);
}

static void operate(struct twins *twins) {
    static const enum ten_op_kind kinds[] = {TEN_OP_ACQUIRE, TEN_OP_ACQUIRE, TEN_OP_ACQUIRE, TEN_OP_RENEW,
                                             TEN_OP_RENEW,   TEN_OP_RELEASE, TEN_OP_RELEASE, TEN_OP_RELEASE,
                                             TEN_OP_RELEASE, TEN_OP_READ};
    struct step steps[BATCH];
    size_t count = any(twins, 3) ? 1 : 1 + any(twins, BATCH);
    enum ten_op_kind rare = any(twins, 2) ? TEN_OP_ASK : TEN_OP_CHECKPOINT;
    enum ten_op_kind kind = is_calm(twins) || any(twins, 20) ? kinds[any(twins, TEN_COUNT(kinds))] : rare;
    for (size_t i = 0; i < count; i++) {
        steps[i] = choose(twins, kind);
        if (kind == TEN_OP_RENEW && steps[i].token == 3)
            pass_tokens();            /* it proves a loss */
        if (i > 0 && any(twins, 4)) { /* usually a run */
            ten_op op = steps[0].op;
            op.target = steps[i].op.target;
            steps[i].op = op;
        }
    }
    apply_steps(twins, steps, count);
}

/* ---- disturbances: each is a command, with the namespace and a target ---- */

static const char *const disturbances[] = {
    "DEL %s:lease:%s", /* as if it had expired */
    "DEL %s:lease:%s",
    "DEL %s:lease:%s",
    "SET %s:lease:%s somebody PX 270000",
    "SET %s:lease:%s no\\body",
    "PERSIST %s:lease:%s",
    "DEL tenure:%s:marks",
    "DEL tenure:%s:epoch",
    "HSET tenure:%s:epoch server another",
    "HSET tenure:%s:epoch database 7",
    "HSET tenure:%s:epoch began 0 provisional 0",
    "HSET tenure:%s:epoch began 0 provisional 0",
    "HSET tenure:%s:epoch began 0 provisional 0",
    "HSET tenure:%s:epoch began 1000",
    "HSET tenure:%s:epoch began 9000000000000",
    "HSET tenure:%s:epoch provisional 1000000000000",
    "HDEL tenure:%s:fence %s",
    "HSET tenure:%s:epoch forgotten 1900000000000",
    "ZADD tenure:%s:gone 9000000000000 2",
    "ZREM tenure:%s:gone 2",
};

static void disturb(struct twins *twins) {
    const char *format = disturbances[any(twins, is_calm(twins) ? CALM : TEN_COUNT(disturbances))];
    const char *target = targets[any(twins, TARGETS)];
    pass_tokens();
    for (size_t i = 0; i < 2; i++) {
        char key[128];
        snprintf(key, sizeof key, "%s:lease:%s", twins->sides[i].ns, target);
        bool of_fence = strncmp(format, "HDEL", 4) == 0;
        freeReplyObject(ask(twins, format, twins->sides[i].ns, of_fence ? key : target));
    }
}

static void push_a_list(struct twins *twins) {
    const char *target = targets[any(twins, TARGETS)];
    for (size_t i = 0; i < 2; i++) {
        freeReplyObject(ask(twins, "DEL %s:lease:%s", twins->sides[i].ns, target));
        freeReplyObject(ask(twins, "RPUSH %s:lease:%s x", twins->sides[i].ns, target));
    }
}

/* ---- sequences ---- */

static void run_sequence(struct twins *twins) {
    twins->random = twins->sequence + 1;
    for (size_t i = 0; i < 2; i++) {
        struct side *side = &twins->sides[i];
        snprintf(side->ns, sizeof side->ns, "%s%u", i == 0 ? "lean" : FULL_ONLY, twins->sequence);
        memset(side->token_counts, 0, sizeof side->token_counts);
    }
    for (twins->step = 0; twins->step < STEPS; twins->step++) {
        unsigned what = any(twins, 60);
        if (what == 0)
            push_a_list(twins);
        else if (what < 6)
            disturb(twins);
        else
            operate(twins);
        if (what < 6 || any(twins, 8) == 0)
            compare_keys(twins);
    }
    compare_keys(twins);
}

REDIS_CASE(the_lean_script_does_what_the_full_one_does) {
    struct twins *twins = calloc(1, sizeof *twins);
    assert_non_null(twins);
    twins->redis = *state;
    redis_place_open(twins->redis, "fresh=1");
    twins->raw = redisConnect("127.0.0.1", twins->redis->server.port);
    assert_non_null(twins->raw);
    for (twins->sequence = 0; twins->sequence < SEQUENCES; twins->sequence++)
        run_sequence(twins);
    print_message("# %u of %u steps were done by the lean script\n", twins->lean, SEQUENCES * STEPS);
    assert_true(twins->lean > SEQUENCES * STEPS / 12);
    for (size_t i = 0; i < 2; i++)
        ten_buf_free(&twins->sides[i].state);
    redisFree(twins->raw);
    free(twins);
}
