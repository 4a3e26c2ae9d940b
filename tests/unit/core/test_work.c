/*
 * One piece of work under a lease (core/work.h): each move, each rule, each boundary, and that a broken record is an
 * abort. It is told the time, so nothing here waits.
 */
#include "unit/unit.h"

#include "core/work.h"

enum {
    NOW = 10000,
    ENDS = 40000,
    GRACE = 3001,
    HALF = 1500,
    KILL_AFTER = 1000,
    OVERDUE_AFTER = 200,
    TIMEOUT = 5000,
    FLUSH = 700
};

static const ten_work_rules poll_rules = {.grace_ms = GRACE,
                                          .kill_after_ms = KILL_AFTER,
                                          .kill_overdue_after_ms = OVERDUE_AFTER,
                                          .flush_ms = FLUSH,
                                          .has_result = true};
static const ten_work_rules command_rules = {
    .grace_ms = GRACE, .kill_after_ms = KILL_AFTER, .kill_overdue_after_ms = OVERDUE_AFTER};
static const ten_work_rules stopping_rules = {
    .grace_ms = GRACE, .kill_after_ms = KILL_AFTER, .stop_when_uncertain = true, .has_result = true};

static const ten_work_lease good = {.token = 7, .ends_ms = ENDS, .confirmed = true};
static const ten_work_lease uncertain = {.token = 7, .ends_ms = ENDS};
static const ten_work_lease closing = {.token = 7, .ends_ms = ENDS, .confirmed = true, .closing = true};
static const ten_work_lease lost = {.token = 7};
static const ten_work_lease newer = {.token = 8, .ends_ms = 2 * ENDS, .confirmed = true};
static const ten_work_lease renewed = {.token = 7, .ends_ms = 2 * ENDS, .confirmed = true};

static ten_work started(const ten_work_rules *rules) {
    ten_work work = {0};
    ten_work_start(&work, rules, &good, NOW + TIMEOUT, NOW);
    assert_int_equal(work.state, TEN_WORK_RUNNING);
    assert_false(ten_work_is_free(&work));
    return work;
}

static enum ten_work_step look(ten_work *work, const ten_work_lease *lease, enum ten_work_left left, uint64_t now_ms) {
    return ten_work_look(work, lease, left, now_ms);
}

/* Its program has told it to end, at NOW. */
static ten_work asked(const ten_work_rules *rules) {
    ten_work work = started(rules);
    ten_work_end(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW), TEN_WORK_ASK);
    assert_int_equal(work.state, TEN_WORK_ASKED);
    return work;
}

static ten_work withheld(void) {
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_NONE, NOW), TEN_WORK_NOTHING);
    assert_int_equal(work.state, TEN_WORK_WITHHELD);
    assert_false(ten_work_is_free(&work));
    return work;
}

static ten_work sending(void) {
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW), TEN_WORK_PUBLISH);
    assert_int_equal(work.state, TEN_WORK_SENDING);
    return work;
}

/* ---- the grace */

static void a_deadline_asks_in_the_first_half_of_the_grace_and_kills_in_the_second(void **state) {
    (void)state;
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 101), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 100), TEN_WORK_ASK);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 51), TEN_WORK_ASK);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 50), TEN_WORK_KILL);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 49), TEN_WORK_KILL);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS), TEN_WORK_KILL);
    assert_int_equal(ten_work_pressure(ENDS, 100, UINT64_MAX - 100), TEN_WORK_KILL);
    assert_int_equal(ten_work_ask_ms(ENDS, 100), ENDS - 100);
}

static void the_odd_millisecond_of_a_grace_is_for_asking(void **state) {
    (void)state;
    assert_int_equal(ten_work_pressure(ENDS, 101, ENDS - 102), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_pressure(ENDS, 101, ENDS - 101), TEN_WORK_ASK);
    assert_int_equal(ten_work_pressure(ENDS, 101, ENDS - 51), TEN_WORK_ASK);
    assert_int_equal(ten_work_pressure(ENDS, 101, ENDS - 50), TEN_WORK_KILL);
}

static void what_is_not_held_is_killed(void **state) {
    (void)state;
    assert_int_equal(ten_work_pressure(0, 100, 0), TEN_WORK_KILL);
    assert_int_equal(ten_work_ask_ms(0, 100), 0);
    assert_int_equal(ten_work_ask_ms(99, 100), 0);
}

static void without_a_deadline_nothing_is_demanded(void **state) {
    (void)state;
    assert_int_equal(ten_work_pressure(UINT64_MAX, 100, NOW), TEN_WORK_NOTHING);
}

/* ---- starting */

static void work_starts_only_under_a_confirmed_lease(void **state) {
    (void)state;
    const ten_work_lease none = {0};
    assert_true(ten_work_may_start(&poll_rules, &good, NOW));
    assert_false(ten_work_may_start(&poll_rules, &none, NOW));
    assert_false(ten_work_may_start(&poll_rules, &uncertain, NOW));
    assert_false(ten_work_may_start(&poll_rules, &closing, NOW));
    assert_false(ten_work_may_start(&poll_rules, &lost, NOW));
}

static void no_work_starts_that_would_have_to_end_at_once(void **state) {
    (void)state;
    assert_true(ten_work_may_start(&poll_rules, &good, ENDS - GRACE - 1));
    assert_false(ten_work_may_start(&poll_rules, &good, ENDS - GRACE));
    assert_false(ten_work_may_start(&poll_rules, &good, ENDS));
}

static void new_work_starts_when_the_old_is_over(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    assert_false(ten_work_is_over(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW), TEN_WORK_PUBLISH);
    assert_true(ten_work_is_over(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW), TEN_WORK_NOTHING);
    assert_true(ten_work_is_over(&work));
    ten_work_start(&work, &poll_rules, &newer, UINT64_MAX, NOW);
    assert_int_equal(work.token, 8);
    assert_int_equal(ten_work_next_ms(&work, NOW), 2 * ENDS - GRACE);
}

/* ---- the reasons to end */

static void running_work_is_looked_at_a_grace_before_the_deadline_or_at_its_timeout(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    assert_int_equal(ten_work_next_ms(&work, NOW), NOW + TIMEOUT);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT - 1), TEN_WORK_NOTHING);
    work.timeout_ms = UINT64_MAX;
    assert_int_equal(ten_work_next_ms(&work, NOW), ENDS - GRACE);
    assert_int_equal(look(&work, &renewed, TEN_WORK_ALL, NOW), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_next_ms(&work, NOW), 2 * ENDS - GRACE);
}

static void overdue_work_is_asked_and_killed_after_a_time_of_its_own(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT), TEN_WORK_ASK);
    assert_int_equal(work.why, TEN_WORK_OVERDUE);
    assert_false(ten_work_is_cut_short(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT + OVERDUE_AFTER - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT + OVERDUE_AFTER), TEN_WORK_KILL);
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW + TIMEOUT + OVERDUE_AFTER + 1), TEN_WORK_PUBLISH);
}

static void work_that_is_told_to_end_has_its_time_to_do_so(void **state) {
    (void)state;
    ten_work work = asked(&poll_rules);
    assert_int_equal(work.why, TEN_WORK_TOLD);
    assert_true(ten_work_is_cut_short(&work));
    assert_int_equal(ten_work_next_ms(&work, NOW), NOW + TEN_WORK_LOOK_MS);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + KILL_AFTER - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + KILL_AFTER), TEN_WORK_KILL);
    assert_int_equal(work.state, TEN_WORK_KILLED);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + KILL_AFTER + 20), TEN_WORK_KILL);
}

static void who_is_in_a_hurry_kills_at_once(void **state) {
    (void)state;
    ten_work work = asked(&poll_rules);
    ten_work_hurry(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW), TEN_WORK_KILL);
    work = started(&poll_rules);
    ten_work_hurry(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW), TEN_WORK_KILL);
}

static void work_that_may_take_for_ever_to_end_is_killed_before_the_deadline(void **state) {
    (void)state;
    ten_work_rules rules = command_rules;
    rules.kill_after_ms = UINT64_MAX;
    ten_work work = asked(&rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF), TEN_WORK_KILL);
}

static void uncertain_work_goes_on_unless_the_rules_say_stop(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_ALL, NOW), TEN_WORK_NOTHING);
    work = started(&stopping_rules);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_ALL, NOW), TEN_WORK_ASK);
    assert_int_equal(work.why, TEN_WORK_UNCERTAIN);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_ALL, NOW + KILL_AFTER), TEN_WORK_KILL);
}

static void a_poll_that_was_not_renewed_in_time_is_killed_soon_and_discarded(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    work.timeout_ms = UINT64_MAX;
    uint64_t late_ms = ENDS - GRACE;
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, late_ms - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, late_ms), TEN_WORK_ASK);
    assert_int_equal(work.why, TEN_WORK_LATE);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, late_ms + 49), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, late_ms + 50), TEN_WORK_KILL);
    /* Its result may be half of one, whatever the lease is now. */
    assert_int_equal(look(&work, &renewed, TEN_WORK_NONE, late_ms + 60), TEN_WORK_DISCARD);
}

/* It exits, and the lease is renewed before anybody looks. */
static void what_the_warden_ended_for_the_lease_is_discarded_although_that_is_renewed(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    ten_work_ended_for_lease(&work);
    assert_int_equal(look(&work, &renewed, TEN_WORK_NONE, ENDS), TEN_WORK_DISCARD);
    assert_true(ten_work_is_free(&work));
    work = started(&poll_rules);
    ten_work_ended_for_lease(&work);
    assert_int_equal(look(&work, &renewed, TEN_WORK_LEFTOVERS, ENDS), TEN_WORK_ASK);
    assert_int_equal(look(&work, &renewed, TEN_WORK_NONE, ENDS), TEN_WORK_DISCARD);
    work = asked(&poll_rules);
    ten_work_ended_for_lease(&work);
    assert_int_equal(look(&work, &renewed, TEN_WORK_NONE, ENDS), TEN_WORK_DISCARD);
}

static void a_command_that_was_not_renewed_in_time_has_half_of_the_grace(void **state) {
    (void)state;
    ten_work work = started(&command_rules);
    work.timeout_ms = UINT64_MAX;
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE), TEN_WORK_ASK);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE + HALF - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE + HALF), TEN_WORK_KILL);
}

static void who_slept_into_the_second_half_of_the_grace_kills_without_asking(void **state) {
    (void)state;
    ten_work work = started(&command_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF), TEN_WORK_KILL);
    assert_int_equal(work.why, TEN_WORK_LATE);
    work = started(&command_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF - 1), TEN_WORK_ASK);
}

static void work_is_killed_before_the_deadline_although_its_time_to_end_is_not_over(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    work.timeout_ms = UINT64_MAX;
    ten_work_end(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE - 1), TEN_WORK_ASK);
    work.kill_ms = ENDS;
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF), TEN_WORK_KILL);
    assert_int_equal(work.why, TEN_WORK_TOLD);
}

static void work_of_a_lost_lease_is_killed_after_50_ms(void **state) {
    (void)state;
    const ten_work_lease *leases[] = {&lost, &newer};
    for (size_t i = 0; i < TEN_COUNT(leases); i++) {
        ten_work work = started(&command_rules);
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, NOW), TEN_WORK_ASK);
        assert_int_equal(work.why, TEN_WORK_LOST);
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, NOW + 49), TEN_WORK_NOTHING);
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, NOW + 50), TEN_WORK_KILL);
    }
}

static void a_loss_shortens_the_time_of_work_that_is_ending(void **state) {
    (void)state;
    ten_work work = asked(&poll_rules);
    assert_int_equal(look(&work, &lost, TEN_WORK_ALL, NOW + 10), TEN_WORK_NOTHING);
    assert_int_equal(work.why, TEN_WORK_LOST);
    assert_int_equal(look(&work, &lost, TEN_WORK_ALL, NOW + 59), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &lost, TEN_WORK_ALL, NOW + 60), TEN_WORK_KILL);
    /* Nearly over: it does not become longer. */
    work = asked(&poll_rules);
    assert_int_equal(look(&work, &lost, TEN_WORK_ALL, NOW + KILL_AFTER - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &lost, TEN_WORK_ALL, NOW + KILL_AFTER), TEN_WORK_KILL);
}

/* The others are let in at the deadline that was known last. */
static void the_last_deadline_of_a_lost_lease_still_counts(void **state) {
    (void)state;
    ten_work work = started(&command_rules);
    work.timeout_ms = UINT64_MAX;
    ten_work_end(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE - 1), TEN_WORK_ASK);
    work.kill_ms = 2 * ENDS;
    assert_int_equal(look(&work, &lost, TEN_WORK_ALL, ENDS - HALF - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &lost, TEN_WORK_ALL, ENDS - HALF), TEN_WORK_KILL);
}

static void what_is_overdue_can_be_told_to_end_too(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT), TEN_WORK_ASK);
    ten_work_end(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT), TEN_WORK_NOTHING);
    assert_true(ten_work_is_cut_short(&work));
    assert_int_equal(work.kill_ms, NOW + TIMEOUT + OVERDUE_AFTER);
}

/* ---- what it leaves */

static void leftovers_are_asked_then_killed_after_50_ms_and_keep_the_target(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_LEFTOVERS, NOW), TEN_WORK_ASK);
    assert_int_equal(work.why, TEN_WORK_BY_ITSELF);
    assert_false(ten_work_is_free(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_LEFTOVERS, NOW + 49), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_LEFTOVERS, NOW + 50), TEN_WORK_KILL);
    assert_int_equal(look(&work, &good, TEN_WORK_LEFTOVERS, NOW + 70), TEN_WORK_KILL);
    assert_false(ten_work_is_free(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW + 80), TEN_WORK_PUBLISH);
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW + 80), TEN_WORK_NOTHING);
    assert_true(ten_work_is_free(&work));
}

static void work_that_exited_by_itself_is_not_cut_short_by_an_uncertain_lease(void **state) {
    (void)state;
    ten_work work = started(&stopping_rules);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_LEFTOVERS, NOW), TEN_WORK_ASK);
    assert_false(ten_work_is_cut_short(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW + 10), TEN_WORK_PUBLISH);
}

static void what_was_left_under_a_lease_that_is_lost_is_discarded(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_LEFTOVERS, NOW), TEN_WORK_ASK);
    assert_int_equal(look(&work, &lost, TEN_WORK_LEFTOVERS, NOW + 10), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW + 20), TEN_WORK_DISCARD);
}

/* ---- its result */

static void a_result_is_published_under_the_same_confirmed_lease_alone(void **state) {
    (void)state;
    const struct {
        const ten_work_lease *lease;
        uint64_t now_ms;
        enum ten_work_step step;
    } cases[] = {{&good, NOW, TEN_WORK_PUBLISH},       {&closing, NOW, TEN_WORK_PUBLISH},
                 {&good, ENDS - 1, TEN_WORK_PUBLISH},  {&good, ENDS, TEN_WORK_DISCARD},
                 {&uncertain, ENDS, TEN_WORK_DISCARD}, {&lost, NOW, TEN_WORK_DISCARD},
                 {&newer, NOW, TEN_WORK_DISCARD},      {&renewed, ENDS, TEN_WORK_PUBLISH}};
    for (size_t i = 0; i < TEN_COUNT(cases); i++) {
        ten_work work = started(&poll_rules);
        assert_int_equal(look(&work, cases[i].lease, TEN_WORK_NONE, cases[i].now_ms), cases[i].step);
        assert_int_equal(ten_work_is_free(&work), cases[i].step == TEN_WORK_DISCARD);
        assert_int_equal(look(&work, cases[i].lease, TEN_WORK_NONE, cases[i].now_ms), TEN_WORK_NOTHING);
        assert_true(ten_work_is_free(&work));
        assert_int_equal(ten_work_next_ms(&work, NOW), UINT64_MAX);
        assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW), TEN_WORK_NOTHING);
    }
}

static void an_uncertain_result_is_withheld_until_the_lease_is_confirmed(void **state) {
    (void)state;
    ten_work work = withheld();
    assert_int_equal(ten_work_next_ms(&work, NOW), ENDS);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_NONE, ENDS - 1), TEN_WORK_NOTHING);
    assert_false(ten_work_is_free(&work));
    assert_int_equal(look(&work, &renewed, TEN_WORK_NONE, ENDS - 1), TEN_WORK_PUBLISH);
    assert_int_equal(work.send_until_ms, 2 * ENDS);
}

static void a_withheld_result_is_discarded_at_the_deadline_or_with_the_lease(void **state) {
    (void)state;
    ten_work work = withheld();
    assert_int_equal(look(&work, &uncertain, TEN_WORK_NONE, ENDS), TEN_WORK_DISCARD);
    work = withheld();
    assert_int_equal(look(&work, &lost, TEN_WORK_NONE, NOW), TEN_WORK_DISCARD);
    work = withheld();
    assert_int_equal(look(&work, &newer, TEN_WORK_NONE, NOW), TEN_WORK_DISCARD);
}

static void a_withheld_result_does_not_mind_being_told_to_end(void **state) {
    (void)state;
    ten_work work = withheld();
    ten_work_end(&work);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_NONE, NOW), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW), TEN_WORK_PUBLISH);
}

/* ---- its message */

static void a_target_is_busy_until_the_message_has_left(void **state) {
    (void)state;
    const ten_work_lease *leases[] = {&good, &closing, &uncertain, &renewed};
    for (size_t i = 0; i < TEN_COUNT(leases); i++) {
        ten_work work = sending();
        assert_false(ten_work_is_free(&work));
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, NOW + 10), TEN_WORK_NOTHING);
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, ENDS - 1), TEN_WORK_NOTHING);
        assert_false(ten_work_is_free(&work));
        assert_int_equal(look(&work, leases[i], TEN_WORK_NONE, ENDS - 1), TEN_WORK_NOTHING);
        assert_true(ten_work_is_free(&work));
    }
}

/* Else a sink that hangs would keep the target for ever. */
static void a_message_is_dropped_at_the_deadline_that_was_known_when_it_was_published(void **state) {
    (void)state;
    ten_work work = sending();
    assert_int_equal(look(&work, &renewed, TEN_WORK_ALL, NOW), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_next_ms(&work, NOW), ENDS);
    assert_int_equal(look(&work, &renewed, TEN_WORK_ALL, ENDS), TEN_WORK_DROP);
    assert_true(ten_work_is_free(&work));
    assert_int_equal(look(&work, &renewed, TEN_WORK_ALL, ENDS), TEN_WORK_NOTHING);
}

static void a_message_is_dropped_with_its_lease(void **state) {
    (void)state;
    const ten_work_lease *leases[] = {&lost, &newer};
    for (size_t i = 0; i < TEN_COUNT(leases); i++) {
        ten_work work = sending();
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, NOW), TEN_WORK_DROP);
        assert_true(ten_work_is_free(&work));
    }
}

static void when_its_program_stops_a_message_has_a_moment_to_leave(void **state) {
    (void)state;
    ten_work work = sending();
    ten_work_flush(&work);
    assert_int_equal(ten_work_next_ms(&work, NOW + 5), NOW + 5);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + 5), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_next_ms(&work, NOW + 5), NOW + 5 + FLUSH);
    ten_work_flush(&work); /* once more does not give it more time */
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + 4 + FLUSH), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + 5 + FLUSH), TEN_WORK_DROP);
    /* Of work that is still running then, the message has this moment when it is published. */
    work = started(&poll_rules);
    ten_work_flush(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW + 100), TEN_WORK_PUBLISH);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + 100), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_next_ms(&work, NOW + 100), NOW + 100 + FLUSH);
    /* But never longer than its lease. */
    work = sending();
    ten_work_flush(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - 10), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &renewed, TEN_WORK_ALL, ENDS), TEN_WORK_DROP);
}

static void who_is_in_a_hurry_does_not_wait_for_the_message(void **state) {
    (void)state;
    ten_work work = sending();
    ten_work_hurry(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW), TEN_WORK_DROP);
    assert_true(ten_work_is_free(&work));
}

static void work_without_a_result_is_free_when_nothing_of_it_is_left(void **state) {
    (void)state;
    const ten_work_lease *leases[] = {&good, &uncertain, &lost};
    for (size_t i = 0; i < TEN_COUNT(leases); i++) {
        ten_work work = started(&command_rules);
        assert_int_equal(look(&work, leases[i], TEN_WORK_NONE, NOW), TEN_WORK_NOTHING);
        assert_true(ten_work_is_free(&work));
    }
}

static void idle_work_needs_nothing(void **state) {
    (void)state;
    ten_work work = {0};
    assert_true(ten_work_is_free(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_next_ms(&work, NOW), UINT64_MAX);
}

/* ---- broken records */

static void start_again(void *arg) {
    ten_work_start(arg, &poll_rules, &good, UINT64_MAX, NOW);
}

static void starting_beside_work_that_is_not_over_aborts(void **state) {
    (void)state;
    ten_work works[] = {started(&poll_rules), asked(&poll_rules), withheld(), sending()};
    for (size_t i = 0; i < TEN_COUNT(works); i++)
        assert_aborts(start_again, &works[i]);
}

static void start_uncertain(void *arg) {
    ten_work_start(arg, &poll_rules, &uncertain, UINT64_MAX, NOW);
}

static void starting_under_an_uncertain_lease_aborts(void **state) {
    (void)state;
    ten_work work = {0};
    assert_aborts(start_uncertain, &work);
}

static void kill_late(void *arg) {
    look(arg, &good, TEN_WORK_ALL, NOW);
}

/* It would never be killed. */
static void work_that_was_asked_without_an_end_of_asking_aborts(void **state) {
    (void)state;
    ten_work work = asked(&poll_rules);
    work.kill_ms = 0;
    assert_aborts(kill_late, &work);
}

static void finish(void *arg) {
    look(arg, &uncertain, TEN_WORK_NONE, NOW);
}

static void work_without_a_token_aborts(void **state) {
    (void)state;
    ten_work work = started(&poll_rules);
    ten_work_lease none = {.ends_ms = ENDS};
    work.token = none.token;
    assert_aborts(finish, &work);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_asks_in_the_first_half_of_the_grace_and_kills_in_the_second),
        cmocka_unit_test(the_odd_millisecond_of_a_grace_is_for_asking),
        cmocka_unit_test(what_is_not_held_is_killed),
        cmocka_unit_test(without_a_deadline_nothing_is_demanded),
        cmocka_unit_test(work_starts_only_under_a_confirmed_lease),
        cmocka_unit_test(no_work_starts_that_would_have_to_end_at_once),
        cmocka_unit_test(new_work_starts_when_the_old_is_over),
        cmocka_unit_test(running_work_is_looked_at_a_grace_before_the_deadline_or_at_its_timeout),
        cmocka_unit_test(overdue_work_is_asked_and_killed_after_a_time_of_its_own),
        cmocka_unit_test(work_that_is_told_to_end_has_its_time_to_do_so),
        cmocka_unit_test(who_is_in_a_hurry_kills_at_once),
        cmocka_unit_test(work_that_may_take_for_ever_to_end_is_killed_before_the_deadline),
        cmocka_unit_test(uncertain_work_goes_on_unless_the_rules_say_stop),
        cmocka_unit_test(a_poll_that_was_not_renewed_in_time_is_killed_soon_and_discarded),
        cmocka_unit_test(what_the_warden_ended_for_the_lease_is_discarded_although_that_is_renewed),
        cmocka_unit_test(a_command_that_was_not_renewed_in_time_has_half_of_the_grace),
        cmocka_unit_test(who_slept_into_the_second_half_of_the_grace_kills_without_asking),
        cmocka_unit_test(work_is_killed_before_the_deadline_although_its_time_to_end_is_not_over),
        cmocka_unit_test(work_of_a_lost_lease_is_killed_after_50_ms),
        cmocka_unit_test(a_loss_shortens_the_time_of_work_that_is_ending),
        cmocka_unit_test(the_last_deadline_of_a_lost_lease_still_counts),
        cmocka_unit_test(what_is_overdue_can_be_told_to_end_too),
        cmocka_unit_test(leftovers_are_asked_then_killed_after_50_ms_and_keep_the_target),
        cmocka_unit_test(work_that_exited_by_itself_is_not_cut_short_by_an_uncertain_lease),
        cmocka_unit_test(what_was_left_under_a_lease_that_is_lost_is_discarded),
        cmocka_unit_test(a_result_is_published_under_the_same_confirmed_lease_alone),
        cmocka_unit_test(an_uncertain_result_is_withheld_until_the_lease_is_confirmed),
        cmocka_unit_test(a_withheld_result_is_discarded_at_the_deadline_or_with_the_lease),
        cmocka_unit_test(a_withheld_result_does_not_mind_being_told_to_end),
        cmocka_unit_test(a_target_is_busy_until_the_message_has_left),
        cmocka_unit_test(a_message_is_dropped_at_the_deadline_that_was_known_when_it_was_published),
        cmocka_unit_test(a_message_is_dropped_with_its_lease),
        cmocka_unit_test(when_its_program_stops_a_message_has_a_moment_to_leave),
        cmocka_unit_test(who_is_in_a_hurry_does_not_wait_for_the_message),
        cmocka_unit_test(work_without_a_result_is_free_when_nothing_of_it_is_left),
        cmocka_unit_test(idle_work_needs_nothing),
        cmocka_unit_test(starting_beside_work_that_is_not_over_aborts),
        cmocka_unit_test(starting_under_an_uncertain_lease_aborts),
        cmocka_unit_test(work_that_was_asked_without_an_end_of_asking_aborts),
        cmocka_unit_test(work_without_a_token_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
