/*
 * The store contract: a random history of operations on leases and sessions has the same outcomes on every store as on the
 * memory store, which has the rules of rules/lease_row.c and rules/instance_row.c as they are. Nothing expires here; the
 * other topics have that. A failure names its seed; HISTORY_SEED repeats it.
 */
#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"

#define TARGETS 4u
#define HOLDERS 3u
#define TOKENS  3u /* of a target: the last ones that were granted */
#define STEPS   400u
#define BATCH   8u

static const char *const targets[TARGETS] = {"t", "u", "v", "w"};
static const char *const holders[HOLDERS] = {"a", "b", "c"};

/* What both stores have given for the same thing. */
struct pair {
    uint64_t rule;
    uint64_t real;
};

struct history {
    const struct place *place;
    ten_store *rules;
    uint64_t seed;
    unsigned step;
    struct pair tokens[TARGETS][TOKENS];
    struct pair sessions[HOLDERS];
    struct pair versions[HOLDERS];
    bool may_tell_more[HOLDERS];
    bool is_followed; /* the operation that is compared, by others in its batch */
};

static unsigned pick(struct history *history, unsigned bound) {
    history->seed = history->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(history->seed >> 33) % bound;
}

static bool chance(struct history *history, unsigned of_hundred) {
    return pick(history, 100) < of_hundred;
}

static unsigned number_of(const char *const *names, unsigned count, const char *name) {
    unsigned i = 0;
    while (i < count && strcmp(names[i], name) != 0)
        i++;
    assert_in_range(i, 0, count - 1);
    return i;
}

/* ---- operations */

static const enum ten_op_kind kinds[] = {TEN_OP_ANNOUNCE, TEN_OP_ANNOUNCE, TEN_OP_ACQUIRE, TEN_OP_ACQUIRE,
                                         TEN_OP_ACQUIRE,  TEN_OP_ACQUIRE,  TEN_OP_RENEW,   TEN_OP_RENEW,
                                         TEN_OP_RENEW,    TEN_OP_RELEASE,  TEN_OP_RELEASE, TEN_OP_READ,
                                         TEN_OP_READ,     TEN_OP_ASK,      TEN_OP_HAND,    TEN_OP_LEAVE};

static ten_op choose_instance_op(struct history *history, enum ten_op_kind kind, const char *holder) {
    return (ten_op){.kind = kind,
                    .flags = kind == TEN_OP_ANNOUNCE && chance(history, 85) ? TEN_OP_SESSION : 0,
                    .holder = holder,
                    .ttl_ms = kind == TEN_OP_ANNOUNCE ? LONG_MS : 0,
                    .weight = kind == TEN_OP_ANNOUNCE};
}

static unsigned choose_flags(struct history *history, enum ten_op_kind kind) {
    unsigned flags = kind != TEN_OP_READ && kind != TEN_OP_ASK && chance(history, 60) ? TEN_OP_SESSION : 0;
    if (kind == TEN_OP_ACQUIRE && chance(history, 10))
        flags |= TEN_OP_FRESH;
    if (kind == TEN_OP_RELEASE && chance(history, 30))
        flags |= chance(history, 50) ? TEN_OP_FORCE : TEN_OP_FORCE_NOW;
    return flags;
}

static ten_op choose_op(struct history *history, struct pair *ret_token) {
    enum ten_op_kind kind = kinds[pick(history, TEN_COUNT(kinds))];
    const char *holder = holders[pick(history, HOLDERS)];
    *ret_token = (struct pair){0};
    if (kind == TEN_OP_ANNOUNCE || (kind == TEN_OP_LEAVE && chance(history, 30)))
        return choose_instance_op(history, kind, holder);
    if (kind == TEN_OP_LEAVE)
        kind = TEN_OP_READ;
    unsigned target = pick(history, TARGETS);
    ten_op op = {.kind = kind, .target = targets[target], .flags = choose_flags(history, kind)};
    bool forced = op.flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW);
    bool named =
        kind == TEN_OP_ACQUIRE || kind == TEN_OP_HAND || (kind != TEN_OP_READ && chance(history, forced ? 30 : 70));
    if (named)
        op.holder = holder;
    if (kind == TEN_OP_RENEW || kind == TEN_OP_RELEASE || kind == TEN_OP_HAND)
        *ret_token = history->tokens[target][chance(history, 85) ? 0 : pick(history, TOKENS)];
    if (kind == TEN_OP_ACQUIRE || kind == TEN_OP_HAND || (kind == TEN_OP_RENEW && chance(history, 70)))
        /* Well apart from the end of a session, and from that of the successor's heartbeat. */
        op.ttl_ms = kind != TEN_OP_HAND && chance(history, 50) ? 2 * LONG_MS : LONG_MS / 2;
    if (kind == TEN_OP_HAND)
        op.successor = holders[pick(history, HOLDERS)];
    if (kind == TEN_OP_ASK)
        op.ask = chance(history, 70) ? TEN_ASK_RESIGN : TEN_ASK_UNDO;
    return op;
}

/* A token that was never granted is no proof, and none is wanted without a name. */
static bool is_sensible(const ten_op *op, const struct pair *token) {
    bool needs = op->kind == TEN_OP_RENEW || op->kind == TEN_OP_RELEASE || op->kind == TEN_OP_HAND;
    return !needs || token->real != 0 || (op->flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW));
}

/* ---- what must agree */

static void describe(char text[256], const ten_op *op, const ten_result *result) {
    snprintf(
        text, 256,
        "%s %s by %s flags %x ttl %llu: outcome %d error %d holder %s session %s barred %d ask %d ttl %llu left %llu",
        ten_op_word(op), op->target ? op->target : "-", op->holder ? op->holder : "-", op->flags,
        (unsigned long long)op->ttl_ms, (int)result->outcome, result->error, result->holder ? result->holder : "-",
        result->session ? "yes" : "no", result->barred, (int)result->ask, (unsigned long long)result->ttl_ms,
        (unsigned long long)result->remaining_ms);
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The session of an instance is another one on both stores, or on none; so is its version. But a heartbeat with a new
 * version, which sends its holder to look at its leases, may tell of what came behind it in its batch, too: on etcd both
 * are one transaction. */
static bool same_session(struct history *history, const ten_op *op, const ten_result *rule, const ten_result *real) {
    const char *holder = op->kind == TEN_OP_ANNOUNCE ? op->holder : rule->holder;
    if ((rule->session != 0) != (real->session != 0))
        return false;
    if (rule->session == 0)
        return true;
    unsigned number = number_of(holders, HOLDERS, holder);
    struct pair *session = &history->sessions[number], *version = &history->versions[number];
    if (op->kind != TEN_OP_ANNOUNCE)
        return session->rule == rule->session && session->real == real->session;
    bool goes_on = session->rule == rule->session;
    bool real_is_old = version->real == real->session_version;
    bool same = goes_on == (session->real == real->session) &&
                (!goes_on || (version->rule == rule->session_version) == real_is_old ||
                 (real_is_old && history->may_tell_more[number]));
    history->may_tell_more[number] = history->is_followed && !(goes_on && real_is_old);
    *session = (struct pair){rule->session, real->session};
    *version = (struct pair){rule->session_version, real->session_version};
    return same;
}

static bool same_token(struct history *history, const ten_op *op, const ten_result *rule, const ten_result *real) {
    if (!op->target || !rule->holder)
        return true;
    struct pair *tokens = history->tokens[number_of(targets, TARGETS, op->target)];
    if (tokens[0].rule == rule->token && tokens[0].real == real->token)
        return true;
    if (tokens[0].rule == rule->token || tokens[0].real >= real->token)
        return false;
    memmove(&tokens[1], &tokens[0], (TOKENS - 1) * sizeof *tokens);
    tokens[0] = (struct pair){rule->token, real->token};
    return true;
}

static bool same_end(const ten_op *op, const ten_result *rule, const ten_result *real) {
    if (op->kind != TEN_OP_READ)
        return true;
    uint64_t apart_ms = rule->remaining_ms > real->remaining_ms ? rule->remaining_ms - real->remaining_ms
                                                                : real->remaining_ms - rule->remaining_ms;
    return rule->ttl_ms == real->ttl_ms && apart_ms < LONG_MS / 8;
}

static void compare(struct history *history, uint64_t seed, const ten_op *op, const ten_result *rule,
                    const ten_result *real) {
    bool details = rule->outcome != TEN_UNKNOWN && op->target && op->kind != TEN_OP_RELEASE;
    bool same = rule->outcome == real->outcome && rule->error == real->error;
    same = same && ten_result_is_withheld(rule) == ten_result_is_withheld(real);
    if (same && details)
        same = same_text(rule->holder, real->holder) && rule->barred == real->barred && same_end(op, rule, real) &&
               (op->kind == TEN_OP_ACQUIRE || rule->ask == real->ask) && same_token(history, op, rule, real);
    if (same && (details || op->kind == TEN_OP_ANNOUNCE) && rule->outcome == TEN_OK)
        same = same_session(history, op, rule, real);
    if (same)
        return;
    char left[256], right[256];
    describe(left, op, rule);
    describe(right, op, real);
    fail_msg("seed %llu, step %u: by the rules\n  %s\nbut here\n  %s", (unsigned long long)seed, history->step, left,
             right);
}

/* Adds an operation to both batches. */
static void add(const struct history *history, ten_op op, struct pair token, ten_op *rules, ten_op *reals,
                unsigned *count) {
    op.namespace_name = history->place->ns;
    rules[*count] = reals[*count] = op;
    rules[*count].token = token.rule;
    reals[(*count)++].token = token.real;
}

/* Acquires of some targets, beginning with any, as a group. */
static void add_group(struct history *history, ten_op *rules, ten_op *reals, unsigned *count) {
    const char *holder = holders[pick(history, HOLDERS)];
    unsigned first = pick(history, TARGETS), some = 2 + pick(history, TARGETS - 1);
    ten_op op = {.kind = TEN_OP_ACQUIRE,
                 .flags = choose_flags(history, TEN_OP_ACQUIRE),
                 .holder = holder,
                 .ttl_ms = LONG_MS / 2,
                 .group = 1};
    if (op.flags & TEN_OP_SESSION)
        add(history, choose_instance_op(history, TEN_OP_ANNOUNCE, holder), (struct pair){0}, rules, reals, count);
    for (unsigned i = 0; i < some; i++) {
        op.target = targets[(first + i) % TARGETS];
        add(history, op, (struct pair){0}, rules, reals, count);
    }
}

static void step(struct history *history, uint64_t seed) {
    ten_op rules[BATCH], reals[BATCH];
    ten_result rule[BATCH], real[BATCH];
    bool groups = chance(history, 10);
    unsigned count = 0, wanted = groups ? 0 : chance(history, 70) ? 1 : 1 + pick(history, BATCH / 2);
    if (groups)
        add_group(history, rules, reals, &count);
    for (unsigned i = 0; i < wanted; i++) {
        struct pair token;
        ten_op op = choose_op(history, &token);
        /* What has left the session ends when that would have ended: a moment later it is put back, and not before. */
        bool joins = (op.kind == TEN_OP_ACQUIRE || op.kind == TEN_OP_RENEW) && (op.flags & TEN_OP_SESSION) && op.holder;
        if (!is_sensible(&op, &token) || (joins && count > 0))
            continue;
        if (joins)
            add(history, choose_instance_op(history, TEN_OP_ANNOUNCE, op.holder), (struct pair){0}, rules, reals,
                &count);
        add(history, op, token, rules, reals, &count);
    }
    sleep_ms(3);
    if (count == 0)
        return;
    assert_int_equal(ten_store_apply(history->rules, rules, rule, count, CALL_MS), 0);
    assert_int_equal(ten_store_apply(history->place->store, reals, real, count, CALL_MS), 0);
    for (unsigned i = 0; i < count; i++) {
        history->is_followed = i + 1 < count;
        compare(history, seed, &rules[i], &rule[i], &real[i]);
    }
}

CASE(a_random_history_has_the_outcomes_of_the_rules) {
    const struct place *place = *state;
    if (!place->store->capabilities.sessions)
        return;
    const char *given = getenv("HISTORY_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : ten_random_u64() >> 16;
    struct history history = {.place = place, .rules = open_store("memory:"), .seed = seed};
    uint64_t end_ms = now_ms() + LONG_MS / 8; /* on a machine that is away for long, leases would expire */
    for (; history.step < STEPS && now_ms() < end_ms; history.step++)
        step(&history, seed);
    ten_store_close(history.rules);
}
