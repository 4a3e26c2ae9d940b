/*
 * Who may have how much: each rule by itself; then whole lives of a server from seeds, in which greedy principals and
 * strangers ask for all that they can get while a modest principal renews its leases; then the same with each planted
 * bug, which has to be found.
 */
#include "unit/unit.h"

#include "core/budget.h"
#include "mutants/mutants.h"

enum ten_mutant ten_mutant;

#define TOTAL   UINT64_C(1000)
#define RESERVE UINT64_C(100)
#define FACTOR  4u

static ten_budget make_budget(void) {
    ten_budget_rule rules[TEN_RESOURCE_COUNT];
    for (size_t i = 0; i < TEN_RESOURCE_COUNT; i++)
        rules[i] = (ten_budget_rule){.total = TOTAL, .reserve = RESERVE, .factor = FACTOR};
    ten_budget budget;
    ten_budget_init(&budget, rules);
    return budget;
}

#define WHAT TEN_RESOURCE_MEMORY

/* As much as it can get, one by one. */
static uint64_t grab(ten_budget *budget, ten_grant *grant, ten_account *account, enum ten_urgency urgency) {
    while (ten_budget_resize(budget, grant, account, WHAT, grant->amount + 1, urgency))
        ;
    return grant->amount;
}

TEST(greedy_accounts_get_equal_parts_and_leave_one) {
    ten_budget budget = make_budget();
    ten_account accounts[3] = {0};
    ten_grant grants[3] = {0};
    assert_int_equal(grab(&budget, &grants[0], &accounts[0], TEN_USUAL), TOTAL * 4 / 5);
    uint64_t second = grab(&budget, &grants[1], &accounts[1], TEN_USUAL);
    assert_int_equal(second, (TOTAL - TOTAL * 4 / 5) * 4 / 5);
    /* Who asks again after the others came gets no more than they have. */
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < 3; i++) {
            ten_budget_return(&budget, &grants[i], WHAT);
            grab(&budget, &grants[i], &accounts[i], TEN_USUAL);
        }
    assert_true(budget.used[WHAT] < TOTAL);
    assert_int_equal(accounts[0].used[WHAT] + accounts[1].used[WHAT] + accounts[2].used[WHAT], budget.used[WHAT]);
}

TEST(only_what_is_urgent_has_the_reserve) {
    ten_budget budget = make_budget();
    ten_account hog = {0};
    ten_account fleet = {0};
    ten_grant grant = {0};
    ten_grant renewal = {0};
    ten_budget_note(&budget, &grant, &hog, WHAT, TOTAL);
    assert_false(ten_budget_resize(&budget, &renewal, &fleet, WHAT, 1, TEN_USUAL));
    assert_int_equal(fleet.refused[WHAT], 1);
    assert_false(ten_budget_has_room(&budget, &fleet, WHAT, 1, TEN_USUAL));
    assert_true(ten_budget_has_room(&budget, &fleet, WHAT, 10, TEN_URGENT));
    assert_true(ten_budget_resize(&budget, &renewal, &fleet, WHAT, 10, TEN_URGENT));
    assert_int_equal(budget.reserved[WHAT], 10);
    ten_budget_return(&budget, &renewal, WHAT);
    assert_int_equal(budget.reserved[WHAT], 0);
    assert_null(renewal.account);
    /* The hog's own urgent requests leave something of it to others. */
    ten_grant more = {0};
    grab(&budget, &more, &hog, TEN_URGENT);
    assert_int_equal(budget.reserved[WHAT], RESERVE * 4 / 5);
}

TEST(strangers_share_a_small_part) {
    ten_budget budget = make_budget();
    ten_account one = {.stranger = true};
    ten_account other = {.stranger = true};
    ten_account principal = {0};
    ten_grant grants[3] = {0};
    uint64_t first = grab(&budget, &grants[0], &one, TEN_URGENT);
    uint64_t second = grab(&budget, &grants[1], &other, TEN_URGENT);
    assert_true(first + second <= TOTAL / TEN_STRANGERS_PART && second > 0);
    assert_int_equal(grab(&budget, &grants[2], &principal, TEN_USUAL), TOTAL * 4 / 5);
}

TEST(a_refusal_changes_nothing_and_less_is_always_granted) {
    ten_budget budget = make_budget();
    ten_account account = {0};
    ten_grant grant = {0};
    assert_true(ten_budget_resize(&budget, &grant, &account, WHAT, 500, TEN_USUAL));
    assert_false(ten_budget_resize(&budget, &grant, &account, WHAT, 2000, TEN_URGENT));
    assert_int_equal(grant.amount, 500);
    assert_int_equal(budget.used[WHAT], 500);
    ten_budget_note(&budget, &grant, &account, WHAT, 2000);
    assert_int_equal(budget.used[WHAT], 2000);
    assert_true(ten_budget_resize(&budget, &grant, &account, WHAT, 1999, TEN_USUAL));
    ten_budget_note(&budget, &grant, &account, WHAT, 3);
    ten_budget_return(&budget, &grant, WHAT);
    ten_budget_return(&budget, &grant, WHAT);
    assert_int_equal(budget.used[WHAT], 0);
    assert_int_equal(account.used[WHAT], 0);
}

TEST(the_threads_time_is_shared) {
    ten_budget budget = make_budget();
    ten_account hogs[3] = {0};
    ten_account fleet = {0};
    uint64_t spent[3] = {0};
    /* Requests of 10 ms each, as many as are let in: the thread does nothing else. */
    uint64_t now_us = UINT64_C(1000000000);
    uint64_t end_us = now_us + UINT64_C(20000000);
    while (now_us < end_us) {
        for (size_t i = 0; i < 3; i++) {
            if (ten_budget_may_spend(&budget, &hogs[i], TEN_USUAL, now_us / 1000)) {
                ten_budget_spend(&budget, &hogs[i], TEN_USUAL, 10000, now_us / 1000);
                spent[i] += 10000;
                now_us += 10000;
            }
        }
        now_us += 100;
        assert_true(ten_budget_may_spend(&budget, &fleet, TEN_URGENT, now_us / 1000));
        assert_true(ten_budget_may_spend(&budget, &fleet, TEN_USUAL, now_us / 1000));
    }
    for (size_t i = 0; i < 3; i++) {
        assert_true(spent[i] > 4000000 && spent[i] < 7000000);
        assert_true(hogs[i].refused[TEN_RESOURCE_TIME] > 0);
    }
    assert_int_equal(fleet.refused[TEN_RESOURCE_TIME], 0);
    /* Who does much of something else can renew all the same; who calls much urgent is refused that, too. */
    ten_budget_spend(&budget, &fleet, TEN_URGENT, 200, now_us / 1000);
    ten_budget_spend(&budget, &hogs[0], TEN_USUAL, 1000000, now_us / 1000);
    assert_false(ten_budget_may_spend(&budget, &hogs[0], TEN_USUAL, now_us / 1000));
    assert_true(ten_budget_may_spend(&budget, &hogs[0], TEN_URGENT, now_us / 1000));
    ten_budget_spend(&budget, &hogs[0], TEN_URGENT, 1000000, now_us / 1000);
    assert_false(ten_budget_may_spend(&budget, &hogs[0], TEN_URGENT, now_us / 1000));
    /* A while later nothing is left of that. */
    assert_true(ten_budget_may_spend(&budget, &hogs[0], TEN_USUAL, now_us / 1000 + 10000));
}

TEST(a_principal_alone_has_all_the_time) {
    ten_budget budget = make_budget();
    ten_account only = {0};
    ten_account stranger = {.stranger = true};
    for (uint64_t now_ms = 1000; now_ms < 6000; now_ms += 10) {
        ten_budget_spend(&budget, &stranger, TEN_USUAL, 100, now_ms);
        assert_true(ten_budget_may_spend(&budget, &only, TEN_USUAL, now_ms));
        ten_budget_spend(&budget, &only, TEN_USUAL, 10000, now_ms);
    }
}

TEST(accounts_take_turns) {
    ten_account hog = {0};
    ten_account fleet = {0};
    uint64_t last = 0;
    for (int i = 0; i < 100; i++)
        last = ten_account_turn(&hog, 0, 0, 1000);
    assert_int_equal(last, 99000);
    assert_int_equal(ten_account_turn(&fleet, 0, 5000, 10), 5000);
    assert_int_equal(ten_account_turn(&fleet, 0, 5000, 10), 5010);
    assert_int_equal(ten_account_turn(&fleet, 1, 0, 10), 0);
    assert_int_equal(ten_account_turn(&hog, 0, 200000, 10), 200000);
}

TEST(the_oldest_stranger_of_the_fullest_address_goes_first) {
    ten_stranger few = {.of_address = 2, .since_ms = 1};
    ten_stranger old = {.of_address = 300, .since_ms = 50};
    ten_stranger fresh = {.of_address = 300, .since_ms = 60};
    assert_true(ten_stranger_goes_first(&old, &few));
    assert_false(ten_stranger_goes_first(&few, &fresh));
    assert_true(ten_stranger_goes_first(&old, &fresh));
    assert_false(ten_stranger_goes_first(&fresh, &old));
}

TEST(lines_of_the_log_are_bounded_and_counted) {
    ten_line_gate gate = {0};
    uint64_t missed = 9;
    assert_true(ten_line_gate_pass(&gate, 1000, 0, &missed));
    assert_int_equal(missed, 0);
    for (uint64_t now_ms = 1; now_ms < 1000; now_ms++)
        assert_false(ten_line_gate_pass(&gate, 1000, now_ms, &missed));
    assert_true(ten_line_gate_pass(&gate, 1000, 1000, &missed));
    assert_int_equal(missed, 999);
}

/* ---- whole lives */

#define GREEDY 4u
#define HELD   64u

struct life {
    uint64_t random;
    uint64_t now_ms;
    ten_budget budget;
    ten_account greedy[GREEDY]; /* the last is a stranger */
    ten_account fleet;
    ten_grant grants[GREEDY][HELD];
    const char *wrong;
};

static uint64_t below(struct life *life, uint64_t bound) {
    life->random = life->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (life->random >> 33) % bound;
}

static void complain(struct life *life, bool wrong, const char *sentence) {
    if (wrong && !life->wrong)
        life->wrong = sentence;
}

static void check_sums(struct life *life) {
    uint64_t used = 0;
    uint64_t reserved = 0;
    uint64_t in_accounts = life->fleet.used[WHAT] + life->fleet.reserved[WHAT];
    for (size_t i = 0; i < GREEDY; i++) {
        for (size_t k = 0; k < HELD; k++) {
            used += life->grants[i][k].amount - life->grants[i][k].reserved;
            reserved += life->grants[i][k].reserved;
        }
        in_accounts += life->greedy[i].used[WHAT] + life->greedy[i].reserved[WHAT];
    }
    const ten_budget *budget = &life->budget;
    complain(life, used != budget->used[WHAT] + budget->strangers[WHAT], "what is used is not what was granted");
    complain(life, reserved != budget->reserved[WHAT], "the reserve is not what was granted of it");
    complain(life, in_accounts != used + reserved, "the accounts do not have what was granted");
    complain(life, budget->strangers[WHAT] > TOTAL / TEN_STRANGERS_PART, "strangers have more than their part");
    complain(life, life->greedy[GREEDY - 1].reserved[WHAT] > 0, "a stranger has some of the reserve");
}

static void ask_greedily(struct life *life) {
    size_t who = below(life, GREEDY);
    ten_grant *grant = &life->grants[who][below(life, HELD)];
    if (below(life, 4) == 0)
        ten_budget_return(&life->budget, grant, WHAT);
    else
        (void)ten_budget_resize(&life->budget, grant, &life->greedy[who], WHAT, grant->amount + below(life, 300),
                                below(life, 4) == 0 ? TEN_URGENT : TEN_USUAL);
    for (int i = 0; i < 3; i++)
        if (ten_budget_may_spend(&life->budget, &life->greedy[who], TEN_USUAL, life->now_ms))
            ten_budget_spend(&life->budget, &life->greedy[who], TEN_USUAL, 20000, life->now_ms);
}

/* The fleet asks for little. What it asks for is in the reserve that others have left, whatever they do. */
static void renew(struct life *life) {
    ten_grant grant = {0};
    complain(life, !ten_budget_resize(&life->budget, &grant, &life->fleet, WHAT, 1, TEN_URGENT),
             "a renewal was refused memory");
    ten_budget_return(&life->budget, &grant, WHAT);
    complain(life, !ten_budget_may_spend(&life->budget, &life->fleet, TEN_URGENT, life->now_ms),
             "a renewal was refused time");
    ten_budget_spend(&life->budget, &life->fleet, TEN_URGENT, 200, life->now_ms);
}

static const char *live(uint64_t seed) {
    static struct life life;
    life = (struct life){.random = seed, .now_ms = 5000 + seed, .budget = make_budget()};
    life.greedy[GREEDY - 1].stranger = true;
    for (int step = 0; step < 2000 && !life.wrong; step++) {
        life.now_ms += below(&life, 4);
        ask_greedily(&life);
        if (below(&life, 5) == 0)
            renew(&life);
        check_sums(&life);
    }
    /* After a pause there is time for everybody. */
    for (size_t i = 0; i < GREEDY; i++)
        complain(&life, !ten_budget_may_spend(&life.budget, &life.greedy[i], TEN_USUAL, life.now_ms + 10000),
                 "time that was used is not forgotten");
    return life.wrong;
}

/* One greedy account beside a modest one is left something to ask for, but never everything. */
static const char *live_alone(void) {
    static struct life life;
    life = (struct life){.random = 1, .now_ms = 5000, .budget = make_budget()};
    uint64_t busy_ms = 0;
    for (int step = 0; step < 5000; step++, life.now_ms++) {
        if (step % 50 == 0)
            ten_budget_spend(&life.budget, &life.fleet, TEN_URGENT, 50, life.now_ms);
        if (ten_budget_may_spend(&life.budget, &life.greedy[0], TEN_USUAL, life.now_ms)) {
            ten_budget_spend(&life.budget, &life.greedy[0], TEN_USUAL, 1000, life.now_ms);
            busy_ms++;
        }
    }
    ten_budget_spend(&life.budget, &life.greedy[0], TEN_USUAL, 1000000, life.now_ms);
    complain(&life, !ten_budget_may_spend(&life.budget, &life.greedy[0], TEN_URGENT, life.now_ms),
             "a principal kept itself from renewing");
    complain(&life, busy_ms > 4500, "one account had all of the thread's time");
    complain(&life, busy_ms < 2500, "a greedy account had too little of the thread's time");
    complain(&life, grab(&life.budget, &life.grants[0][0], &life.greedy[0], TEN_USUAL) > TOTAL * 4 / 5,
             "one account had more than its part");
    grab(&life.budget, &life.grants[0][1], &life.greedy[0], TEN_URGENT);
    complain(&life, life.budget.reserved[WHAT] > RESERVE * 4 / 5, "one account had the whole reserve");
    uint64_t last = 0;
    for (int i = 0; i < 100; i++)
        last = ten_account_turn(&life.greedy[0], 0, 0, 1000);
    complain(&life, ten_account_turn(&life.fleet, 0, 0, 1) >= last, "a queue let one account go before all others");
    ten_stranger old = {.of_address = 3, .since_ms = 1};
    ten_stranger fresh = {.of_address = 3, .since_ms = 2};
    complain(&life, ten_stranger_goes_first(&fresh, &old), "the newest connection was closed first");
    ten_line_gate gate = {0};
    uint64_t missed;
    uint64_t lines = 0;
    for (uint64_t now_ms = 0; now_ms < 1000; now_ms++)
        lines += ten_line_gate_pass(&gate, 1000, now_ms, &missed);
    complain(&life, lines != 1, "too many lines were logged");
    return life.wrong;
}

/* Two accounts read: one a little at a time, one a lot. Both have jobs waiting all the time. */
static const char *read_together(void) {
    static struct life life;
    life = (struct life){.random = 1};
    ten_account *readers[] = {&life.fleet, &life.greedy[0]};
    const uint64_t weights[] = {1, 100};
    uint64_t time[] = {0, 0};
    uint64_t now = 0;
    for (int i = 0; i < 10000; i++) {
        for (size_t who = 0; who < 2; who++)
            ten_account_join(readers[who], 2, now);
        size_t next = ten_account_place(readers[1], 2) < ten_account_place(readers[0], 2);
        now = ten_account_place(readers[next], 2);
        ten_account_charge(readers[next], 2, weights[next]);
        time[next] += weights[next];
    }
    complain(&life, time[0] * 10 < time[1] * 9 || time[1] * 10 < time[0] * 9, "readers got unequal time");
    /* Who was away for long is not ahead of the others for as long. */
    ten_account_join(&life.greedy[1], 2, now);
    complain(&life, ten_account_place(&life.greedy[1], 2) < now, "an account saved up time that it did not use");
    /* Refusals: one at a time is told soon, a flood is not, and nobody waits for ever. */
    uint64_t longest_ms = 0;
    complain(&life, ten_account_refusal_ms(&life.greedy[2], 5000) > 0, "a single refusal was withheld for long");
    for (int i = 0; i < 1000; i++)
        longest_ms = ten_account_refusal_ms(&life.greedy[2], 5000);
    complain(&life, longest_ms < 2000, "refusals were told without a bound");
    complain(&life, longest_ms > 10000, "a refusal was never told");
    complain(&life, ten_account_refusal_ms(&life.greedy[2], 60000) > 0, "a refusal waited for those of long ago");
    return life.wrong;
}

static const char *find_something(uint64_t seeds, uint64_t *ret_seed) {
    const char *wrong = live_alone();
    if (!wrong)
        wrong = read_together();
    for (*ret_seed = 1; !wrong && *ret_seed <= seeds; ++*ret_seed)
        wrong = live(*ret_seed);
    return wrong;
}

TEST(whole_lives_keep_the_fleet_going) {
    uint64_t seed;
    ten_mutant = TEN_MUTANT_NONE;
    const char *wrong = find_something(300, &seed);
    if (wrong)
        fail_msg("seed %llu: %s", (unsigned long long)seed - 1, wrong);
}

#ifdef TEN_PLANTED
TEST(each_planted_bug_is_found) {
    static const char *const sentences[] = {
#define X(name, what) what,
        TEN_BUDGET_MUTANTS(X)
#undef X
    };
    for (size_t i = 0; i < TEN_COUNT(sentences); i++) {
        uint64_t seed;
        ten_mutant = (enum ten_mutant)(TEN_MUTANT_GUARD_END + 1 + (int)i);
        const char *wrong = find_something(100, &seed);
        ten_mutant = TEN_MUTANT_NONE;
        if (!wrong)
            fail_msg("nobody noticed that %s", sentences[i]);
    }
}
#endif
