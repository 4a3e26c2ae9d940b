/*
 * The guard's rules on a clock that the test tells: each rule by itself; then whole lives of a guard from seeds, with a
 * store that is cut off, slow, forgetful and honest, judged against what the store really granted; then the same with
 * each planted bug, which has to be found.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "core/guard.h"
#include "mutants/mutants.h"

enum ten_mutant ten_mutant;

#define TTL_MS   UINT64_C(1000)
#define START_MS UINT64_C(50000)

static ten_guard make_guard(size_t max_targets, bool accept_expired) {
    ten_guard guard;
    ten_guard_init(&guard, &(ten_guard_config){
                               .cache_ttl_ms = TTL_MS, .accept_expired = accept_expired, .max_targets = max_targets});
    return guard;
}

static enum ten_guard_verdict check(ten_guard *guard, uint64_t now_ms, const char *target, uint64_t token) {
    uint64_t newest;
    return ten_guard_check(guard, now_ms, target, token, &newest);
}

/* A read that was sent and answered at once. */
static enum ten_guard_verdict answer(ten_guard *guard, uint64_t now_ms, const char *target, uint64_t token,
                                     uint64_t stored) {
    uint64_t newest;
    return ten_guard_answer(guard, now_ms, now_ms, target, token, &(ten_result){.outcome = TEN_OK, .token = stored},
                            &newest);
}

static enum ten_guard_verdict no_answer(ten_guard *guard, uint64_t now_ms, const char *target, uint64_t token) {
    uint64_t newest;
    return ten_guard_answer(guard, now_ms, now_ms, target, token, NULL, &newest);
}

static enum ten_guard_verdict bound(ten_guard *guard, uint64_t now_ms, const char *target, uint64_t token,
                                    uint64_t stored) {
    uint64_t newest;
    return ten_guard_answer(guard, now_ms, now_ms, target, token,
                            &(ten_result){.outcome = TEN_OK, .token = stored, .recovering = true}, &newest);
}

static void granted(ten_guard *guard, const char *target, uint64_t token) {
    ten_guard_change(guard, &(ten_change){.kind = TENURE_EVENT_ACQUIRED, .target = target, .token = token});
}

/* ---- the rules */

TEST(the_store_is_asked_before_the_first_acceptance) {
    ten_guard guard = make_guard(10, false);
    assert_int_equal(check(&guard, START_MS, "a", 7), TEN_GUARD_ASK);
    assert_int_equal(answer(&guard, START_MS, "a", 7, 7), TEN_GUARD_ACCEPT);
    assert_int_equal(check(&guard, START_MS + 1, "a", 7), TEN_GUARD_ACCEPT);
    ten_guard_free(&guard);
}

TEST(a_token_below_the_newest_is_refused_without_asking) {
    ten_guard guard = make_guard(10, true);
    uint64_t newest = 0;
    answer(&guard, START_MS, "a", 7, 7);
    assert_int_equal(ten_guard_check(&guard, START_MS, "a", 6, &newest), TEN_GUARD_STALE);
    assert_int_equal(newest, 7);
    ten_guard_reached(&guard, false);
    assert_int_equal(check(&guard, START_MS + 10 * TTL_MS, "a", 6), TEN_GUARD_STALE);
    assert_int_equal(answer(&guard, START_MS, "b", 3, 9), TEN_GUARD_STALE);
    ten_guard_free(&guard);
}

TEST(a_higher_token_is_believed_only_when_the_store_has_it) {
    ten_guard guard = make_guard(10, true);
    answer(&guard, START_MS, "a", 7, 7);
    assert_int_equal(check(&guard, START_MS, "a", 8), TEN_GUARD_ASK);
    assert_int_equal(answer(&guard, START_MS, "a", 8, 7), TEN_GUARD_UNGRANTED);
    assert_int_equal(check(&guard, START_MS, "a", 7), TEN_GUARD_ACCEPT);
    assert_int_equal(no_answer(&guard, START_MS, "a", 8), TEN_GUARD_UNCONFIRMED);
    ten_guard_reached(&guard, false);
    assert_int_equal(check(&guard, START_MS, "a", 8), TEN_GUARD_UNCONFIRMED);
    ten_guard_reached(&guard, true);
    assert_int_equal(answer(&guard, START_MS, "a", 8, 8), TEN_GUARD_ACCEPT);
    assert_int_equal(check(&guard, START_MS, "a", 7), TEN_GUARD_STALE);
    ten_guard_free(&guard);
}

TEST(what_is_cached_serves_for_its_ttl_when_the_store_is_down) {
    ten_guard guard = make_guard(10, false);
    ten_guard lenient = make_guard(10, true);
    answer(&guard, START_MS, "a", 7, 7);
    answer(&lenient, START_MS, "a", 7, 7);
    ten_guard_reached(&guard, false);
    ten_guard_reached(&lenient, false);
    assert_int_equal(check(&guard, START_MS + TTL_MS - 1, "a", 7), TEN_GUARD_ACCEPT);
    assert_int_equal(check(&guard, START_MS + TTL_MS, "a", 7), TEN_GUARD_UNCONFIRMED);
    assert_int_equal(check(&guard, START_MS, "b", 1), TEN_GUARD_UNCONFIRMED);
    assert_int_equal(check(&lenient, START_MS + TTL_MS, "a", 7), TEN_GUARD_ACCEPT_EXPIRED);
    assert_int_equal(check(&lenient, START_MS, "b", 1), TEN_GUARD_UNCONFIRMED);
    ten_guard_reached(&guard, true);
    assert_int_equal(check(&guard, START_MS + TTL_MS, "a", 7), TEN_GUARD_ASK);
    ten_guard_free(&guard);
    ten_guard_free(&lenient);
}

TEST(an_answer_counts_from_its_sending) {
    ten_guard guard = make_guard(10, false);
    const ten_result seven = {.outcome = TEN_OK, .token = 7};
    uint64_t newest;
    assert_int_equal(ten_guard_answer(&guard, START_MS + 900, START_MS, "a", 7, &seven, &newest), TEN_GUARD_ACCEPT);
    ten_guard_reached(&guard, false);
    assert_int_equal(check(&guard, START_MS + TTL_MS, "a", 7), TEN_GUARD_UNCONFIRMED);
    assert_int_equal(ten_guard_answer(&guard, START_MS + TTL_MS, START_MS, "b", 7, &seven, &newest),
                     TEN_GUARD_UNCONFIRMED);
    ten_guard_free(&guard);
}

TEST(the_feed_confirms_what_was_read_since_it_is_followed) {
    ten_guard guard = make_guard(10, false);
    answer(&guard, START_MS, "before", 7, 7);
    ten_guard_follow(&guard, START_MS + 1);
    answer(&guard, START_MS + 2, "after", 7, 7);
    assert_int_equal(check(&guard, START_MS + 3, "before", 7), TEN_GUARD_ASK);
    for (uint64_t now_ms = START_MS; now_ms < START_MS + 5 * TTL_MS; now_ms += TTL_MS / 2) {
        ten_guard_fed(&guard, now_ms);
        assert_int_equal(check(&guard, now_ms + TTL_MS / 2, "after", 7), TEN_GUARD_ACCEPT);
    }
    /* A gap takes nothing back that was confirmed before it. */
    ten_guard_follow(&guard, START_MS + 5 * TTL_MS);
    assert_int_equal(check(&guard, START_MS + 5 * TTL_MS, "after", 7), TEN_GUARD_ASK);
    ten_guard_reached(&guard, false);
    assert_int_equal(check(&guard, START_MS + 5 * TTL_MS, "after", 7), TEN_GUARD_ACCEPT);
    assert_int_equal(check(&guard, START_MS + 5 * TTL_MS + TTL_MS / 2, "after", 7), TEN_GUARD_UNCONFIRMED);
    assert_int_equal(check(&guard, START_MS + 2 * TTL_MS, "before", 7), TEN_GUARD_UNCONFIRMED);
    ten_guard_free(&guard);
}

TEST(the_feed_raises_the_newest_token) {
    ten_guard guard = make_guard(10, false);
    ten_guard_follow(&guard, START_MS);
    answer(&guard, START_MS, "a", 7, 7);
    granted(&guard, "a", 8);
    assert_int_equal(check(&guard, START_MS + 1, "a", 7), TEN_GUARD_STALE);
    assert_int_equal(check(&guard, START_MS + 1, "a", 8), TEN_GUARD_ACCEPT);
    granted(&guard, "a", 3);
    assert_int_equal(check(&guard, START_MS + 1, "a", 7), TEN_GUARD_STALE);
    granted(&guard, "new", 1); /* read, though not by asking */
    assert_int_equal(check(&guard, START_MS + 1, "new", 1), TEN_GUARD_ACCEPT);
    ten_guard_change(&guard, &(ten_change){.kind = TENURE_EVENT_RELEASED, .target = "a", .token = 99});
    assert_int_equal(check(&guard, START_MS + 1, "a", 8), TEN_GUARD_ACCEPT);
    ten_guard_free(&guard);
}

TEST(a_store_that_forgot_lowers_nothing_and_confirms_nothing) {
    ten_guard guard = make_guard(10, false);
    ten_guard_follow(&guard, START_MS);
    answer(&guard, START_MS, "a", 7, 7);
    ten_guard_follow(&guard, START_MS + 10);
    assert_int_equal(answer(&guard, START_MS + 20, "a", 5, 5), TEN_GUARD_STALE);
    assert_int_equal(answer(&guard, START_MS + 20, "a", 7, 5), TEN_GUARD_ACCEPT);
    assert_int_equal(answer(&guard, START_MS + TTL_MS, "a", 7, 5), TEN_GUARD_UNCONFIRMED);
    /* Its holder lives, and puts the lease back. */
    assert_int_equal(answer(&guard, START_MS + TTL_MS, "a", 7, 7), TEN_GUARD_ACCEPT);
    ten_guard_free(&guard);
}

TEST(a_bound_of_a_recovering_store_is_not_taken_for_a_token) {
    ten_guard guard = make_guard(10, false);
    assert_int_equal(bound(&guard, START_MS, "a", 7, 1000), TEN_GUARD_UNCONFIRMED);
    assert_int_equal(bound(&guard, START_MS, "a", 1000, 1000), TEN_GUARD_UNCONFIRMED);
    assert_int_equal(answer(&guard, START_MS, "a", 7, 7), TEN_GUARD_ACCEPT);
    ten_guard_follow(&guard, START_MS + 10);
    assert_int_equal(bound(&guard, START_MS + 20, "a", 7, 1000), TEN_GUARD_ACCEPT);
    assert_int_equal(bound(&guard, START_MS + TTL_MS, "a", 7, 1000), TEN_GUARD_UNCONFIRMED);
    ten_guard_free(&guard);
}

TEST(a_full_guard_forgets_the_least_used_and_asks_for_it_again) {
    ten_guard guard = make_guard(2, false);
    answer(&guard, START_MS, "a", 7, 7);
    answer(&guard, START_MS, "b", 7, 7);
    assert_int_equal(check(&guard, START_MS, "a", 7), TEN_GUARD_ACCEPT);
    answer(&guard, START_MS, "c", 7, 7);
    assert_int_equal(guard.entries.count, 2);
    assert_int_equal(check(&guard, START_MS, "a", 7), TEN_GUARD_ACCEPT);
    assert_int_equal(check(&guard, START_MS, "b", 6), TEN_GUARD_ASK);
    assert_int_equal(answer(&guard, START_MS, "b", 6, 7), TEN_GUARD_STALE);
    granted(&guard, "d", 1); /* a change that nobody asked for pushes nobody out */
    assert_int_equal(guard.entries.count, 2);
    assert_int_equal(check(&guard, START_MS, "b", 7), TEN_GUARD_ACCEPT);
    ten_guard_free(&guard);
}

TEST(ids_that_were_never_leased_take_no_place) {
    ten_guard guard = make_guard(2, false);
    answer(&guard, START_MS, "a", 7, 7);
    for (int i = 0; i < 100; i++) {
        char target[24];
        snprintf(target, sizeof target, "made-up-%d", i);
        assert_int_equal(answer(&guard, START_MS, target, 1, 0), TEN_GUARD_UNGRANTED);
    }
    assert_int_equal(check(&guard, START_MS, "a", 7), TEN_GUARD_ACCEPT);
    ten_guard_free(&guard);
}

TEST(without_memory_nothing_is_remembered_and_nothing_is_wrong) {
    for (long skip = 0; skip < 4; skip++) {
        ten_guard guard = make_guard(2, false);
        ten_guard_follow(&guard, START_MS);
        ten_alloc_fail_after(skip);
        assert_int_equal(answer(&guard, START_MS, "a", 7, 7), TEN_GUARD_ACCEPT);
        bool failed = ten_alloc_has_failed();
        ten_alloc_fail_after(-1);
        granted(&guard, "a", 6); /* a change from before that read */
        assert_int_equal(check(&guard, START_MS, "a", 6), failed ? TEN_GUARD_ASK : TEN_GUARD_STALE);
        ten_guard_free(&guard);
    }
}

static void wrong_settings(void *arg) {
    ten_guard guard;
    ten_guard_init(&guard, arg);
}

TEST(a_guard_without_room_or_time_is_a_broken_invariant) {
    assert_aborts(wrong_settings, &(ten_guard_config){.cache_ttl_ms = 0, .max_targets = 1});
    assert_aborts(wrong_settings, &(ten_guard_config){.cache_ttl_ms = 1, .max_targets = 0});
}

/* ---- whole lives, from seeds */

enum { TARGETS = 6, ROOM = 4, GRANTS = 64, FEED = 512, STEPS = 1500 };

struct truth {
    uint64_t tokens[GRANTS]; /* as they were granted, with their times */
    uint64_t at_ms[GRANTS];
    size_t count;
    uint64_t stored;  /* what the store remembers */
    bool forgotten;   /* a bound is all that it has */
    uint64_t highest; /* that the guard read or accepted since it last forgot the target */
    bool was_read;
};

struct life {
    uint64_t random;
    uint64_t now_ms;
    bool reachable;
    bool accept_expired;
    ten_guard guard;
    struct truth truths[TARGETS];
    ten_change feed[FEED];
    size_t feed_count;
    size_t feed_read;
    size_t asked;
    size_t checks;
    const char *wrong; /* what went wrong; NULL: nothing */
};

static const char *const names[TARGETS] = {"t0", "t1", "t2", "t3", "t4", "t5"};

static uint64_t below(struct life *life, uint64_t limit) {
    life->random = ten_hash_mix(life->random + UINT64_C(0x9e3779b97f4a7c15));
    return life->random % limit;
}

static void complain(struct life *life, bool wrong, const char *what) {
    if (wrong && !life->wrong)
        life->wrong = what;
}

static bool was_granted(const struct truth *truth, uint64_t token) {
    for (size_t i = 0; i < truth->count; i++)
        if (truth->tokens[i] == token)
            return true;
    return false;
}

/* Since when something newer than this token has been granted; UINT64_MAX: nothing has. */
static uint64_t superseded_ms(const struct truth *truth, uint64_t token) {
    uint64_t since_ms = UINT64_MAX;
    for (size_t i = 0; i < truth->count; i++)
        if (truth->tokens[i] > token)
            since_ms = ten_min_u64(since_ms, truth->at_ms[i]);
    return since_ms;
}

static void tell(struct life *life, size_t target) {
    life->feed[life->feed_count++] =
        (ten_change){.kind = TENURE_EVENT_ACQUIRED, .target = names[target], .token = life->truths[target].stored};
}

static void grant(struct life *life, size_t target) {
    struct truth *truth = &life->truths[target];
    if (truth->count == GRANTS || life->feed_count == FEED)
        return;
    uint64_t last = truth->count ? truth->tokens[truth->count - 1] : 0;
    truth->stored = last + 1 + below(life, 3);
    truth->forgotten = false;
    truth->tokens[truth->count] = truth->stored;
    truth->at_ms[truth->count++] = life->now_ms;
    tell(life, target);
}

/* The store comes back older than it was; the feed has a gap. Its holders may put their leases back later. */
static void lose_data(struct life *life) {
    for (size_t i = 0; i < TARGETS; i++) {
        struct truth *truth = &life->truths[i];
        if (truth->count > 1 && below(life, 2) == 0) {
            truth->stored = truth->tokens[truth->count - 2];
            truth->at_ms[truth->count - 1] = UINT64_MAX; /* as if it had not been, for whoever has not heard of it */
        } else if (truth->count > 0)
            truth->forgotten = true;
    }
    life->feed_read = life->feed_count;
    ten_guard_follow(&life->guard, life->now_ms);
}

static void put_back(struct life *life, size_t target) {
    struct truth *truth = &life->truths[target];
    if (truth->count == 0 || life->feed_count == FEED)
        return;
    truth->stored = truth->tokens[truth->count - 1];
    truth->at_ms[truth->count - 1] = ten_min_u64(truth->at_ms[truth->count - 1], life->now_ms);
    truth->forgotten = false;
    tell(life, target);
}

static void read_feed(struct life *life) {
    if (!life->reachable) {
        ten_guard_reached(&life->guard, false);
        return;
    }
    ten_guard_reached(&life->guard, true);
    if (below(life, 40) == 0) { /* it was too long ago */
        life->feed_read = life->feed_count;
        ten_guard_follow(&life->guard, life->now_ms);
        return;
    }
    for (; life->feed_read < life->feed_count; life->feed_read++) {
        const ten_change *change = &life->feed[life->feed_read];
        struct truth *truth = &life->truths[change->target[1] - '0'];
        ten_guard_change(&life->guard, change);
        if (ten_map_get(&life->guard.entries, change->target)) {
            truth->was_read = true;
            truth->highest = ten_max_u64(truth->highest, change->token);
        }
    }
    ten_guard_fed(&life->guard, life->now_ms);
}

/* What the guard forgets may be asked for again: it starts anew. */
static void note_evicted(struct life *life, const char *was_first) {
    size_t known = 0;
    for (size_t i = 0; i < TARGETS; i++) {
        bool there = ten_map_get(&life->guard.entries, names[i]) != NULL;
        known += there;
        if (!there)
            life->truths[i].was_read = false;
        if (!there && life->truths[i].highest && was_first && strcmp(names[i], was_first) == 0 &&
            life->guard.entries.count == ROOM)
            complain(life, true, "the target that was used last was forgotten");
        if (!there)
            life->truths[i].highest = 0;
    }
    complain(life, known > ROOM, "more targets are remembered than there is room for");
}

static void judge(struct life *life, size_t target, uint64_t token, enum ten_guard_verdict verdict) {
    struct truth *truth = &life->truths[target];
    if (verdict != TEN_GUARD_ACCEPT && verdict != TEN_GUARD_ACCEPT_EXPIRED)
        return;
    uint64_t since_ms = superseded_ms(truth, token);
    complain(life, !truth->was_read, "accepted without having read the store");
    complain(life, token < truth->highest, "accepted a token below one that it accepted or read");
    complain(life, !was_granted(truth, token), "accepted a token that was never granted");
    complain(life, verdict == TEN_GUARD_ACCEPT && ten_add_saturating(since_ms, TTL_MS) <= life->now_ms,
             "accepted a stale token for longer than the cache's TTL");
    complain(life, verdict == TEN_GUARD_ACCEPT_EXPIRED && !life->accept_expired,
             "accepted by a policy that it has not");
    truth->highest = ten_max_u64(truth->highest, token);
}

static enum ten_guard_verdict ask(struct life *life, size_t target, uint64_t token) {
    struct truth *truth = &life->truths[target];
    uint64_t sent_ms = life->now_ms;
    uint64_t newest;
    life->asked++;
    ten_result result = {.outcome = TEN_OK, .token = truth->stored};
    if (truth->forgotten)
        result = (ten_result){.outcome = TEN_OK, .token = 1000000, .recovering = true};
    if (below(life, 3) == 0) /* somebody takes it while the answer is under way */
        grant(life, target);
    life->now_ms += below(life, 4) == 0 ? below(life, 2 * TTL_MS) : below(life, 20);
    if (!life->reachable) {
        ten_guard_reached(&life->guard, false);
        return ten_guard_answer(&life->guard, life->now_ms, sent_ms, names[target], token, NULL, &newest);
    }
    bool tells = !result.recovering && result.token >= truth->highest;
    if (tells && result.token > 0) {
        truth->was_read = true;
        truth->highest = ten_max_u64(truth->highest, result.token);
    }
    enum ten_guard_verdict verdict =
        ten_guard_answer(&life->guard, life->now_ms, sent_ms, names[target], token, &result, &newest);
    complain(life,
             tells && token == result.token && token > 0 && life->now_ms < sent_ms + TTL_MS &&
                 verdict != TEN_GUARD_ACCEPT,
             "refused the token that the store has just told");
    complain(life, newest == 1000000, "took a bound for a token");
    return verdict;
}

static uint64_t some_token(struct life *life, const struct truth *truth) {
    uint64_t last = truth->count ? truth->tokens[truth->count - 1] : 0;
    switch (below(life, 8)) {
    case 0:
        return last + 1 + below(life, 3); /* forged */
    case 1:
    case 2:
        return truth->count > 1 ? truth->tokens[below(life, truth->count)] : last + 1;
    default:
        return last ? last : 1;
    }
}

static void send_message(struct life *life) {
    size_t target = below(life, TARGETS);
    uint64_t token = some_token(life, &life->truths[target]);
    uint64_t newest = 0;
    const char *first = life->guard.first ? life->guard.first->target : NULL;
    char was_first[8] = "";
    if (first)
        snprintf(was_first, sizeof was_first, "%s", first);
    life->checks++;
    enum ten_guard_verdict verdict = ten_guard_check(&life->guard, life->now_ms, names[target], token, &newest);
    if (verdict == TEN_GUARD_ASK)
        verdict = ask(life, target, token);
    complain(life,
             newest > 0 && newest < life->truths[target].highest && verdict == TEN_GUARD_ACCEPT &&
                 token < life->truths[target].highest,
             "the newest token went down");
    judge(life, target, token, verdict);
    note_evicted(life, strcmp(was_first, names[target]) == 0 ? NULL : was_first);
}

static const char *live(uint64_t seed) {
    static struct life life;
    life = (struct life){.random = seed, .now_ms = START_MS, .reachable = true, .accept_expired = seed % 2};
    life.guard = make_guard(ROOM, life.accept_expired);
    ten_guard_follow(&life.guard, life.now_ms);
    for (int step = 0; step < STEPS && !life.wrong; step++) {
        uint64_t dice = below(&life, 100);
        life.now_ms += below(&life, 50);
        if (dice < 60)
            send_message(&life);
        else if (dice < 75)
            read_feed(&life);
        else if (dice < 84)
            grant(&life, below(&life, TARGETS));
        else if (dice < 92)
            life.reachable = below(&life, 3) != 0;
        else if (dice < 93)
            lose_data(&life);
        else if (dice < 97)
            put_back(&life, below(&life, TARGETS));
        else
            life.now_ms += below(&life, 2 * TTL_MS);
    }
    ten_guard_free(&life.guard);
    return life.wrong;
}

/* Nothing happens and the store is there: the feed alone confirms, and nobody asks. */
static const char *live_quietly(void) {
    static struct life life;
    life = (struct life){.random = 1, .now_ms = START_MS, .reachable = true};
    life.guard = make_guard(ROOM, false);
    ten_guard_follow(&life.guard, life.now_ms);
    for (size_t i = 0; i < ROOM; i++)
        grant(&life, i);
    for (int step = 0; step < 1000; step++) {
        life.now_ms += 100;
        ten_guard_fed(&life.guard, life.now_ms);
        uint64_t newest;
        size_t target = (size_t)step % ROOM;
        uint64_t token = life.truths[target].stored;
        life.feed_read = life.feed_count;
        if (ten_guard_check(&life.guard, life.now_ms, names[target], token, &newest) == TEN_GUARD_ASK) {
            life.asked++;
            ten_guard_answer(&life.guard, life.now_ms, life.now_ms, names[target], token,
                             &(ten_result){.outcome = TEN_OK, .token = token}, &newest);
        }
    }
    /* A change of the feed takes effect without a question, too. */
    grant(&life, 0);
    ten_guard_change(&life.guard, &life.feed[life.feed_count - 1]);
    uint64_t newest;
    bool stale =
        ten_guard_check(&life.guard, life.now_ms, names[0], life.truths[0].tokens[0], &newest) == TEN_GUARD_STALE;
    ten_guard_free(&life.guard);
    complain(&life, life.asked > ROOM, "asked although the feed had confirmed");
    complain(&life, !stale, "a change of the feed had no effect");
    return life.wrong;
}

static const char *find_something(uint64_t seeds, uint64_t *ret_seed) {
    const char *wrong = live_quietly();
    for (*ret_seed = 1; !wrong && *ret_seed <= seeds; ++*ret_seed)
        wrong = live(*ret_seed);
    return wrong;
}

TEST(whole_lives_keep_the_guarantee) {
    uint64_t seed;
    ten_mutant = TEN_MUTANT_NONE;
    const char *wrong = find_something(2000, &seed);
    if (wrong)
        fail_msg("seed %llu: %s", (unsigned long long)seed - 1, wrong);
}

#ifdef TEN_PLANTED
TEST(each_planted_bug_is_found) {
    static const char *const sentences[] = {
#define X(name, what) what,
        TEN_GUARD_MUTANTS(X)
#undef X
    };
    for (size_t i = 0; i < TEN_COUNT(sentences); i++) {
        uint64_t seed;
        ten_mutant = (enum ten_mutant)(TEN_MUTANT_COUNT + 1 + (int)i);
        const char *wrong = find_something(500, &seed);
        ten_mutant = TEN_MUTANT_NONE;
        if (!wrong)
            fail_msg("nobody noticed that %s", sentences[i]);
    }
}
#endif
