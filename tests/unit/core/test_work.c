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

TEST(a_deadline_asks_in_the_first_half_of_the_grace_and_kills_in_the_second) {
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 101), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 100), TEN_WORK_ASK);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 51), TEN_WORK_ASK);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 50), TEN_WORK_KILL);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS - 49), TEN_WORK_KILL);
    assert_int_equal(ten_work_pressure(ENDS, 100, ENDS), TEN_WORK_KILL);
    assert_int_equal(ten_work_pressure(ENDS, 100, UINT64_MAX - 100), TEN_WORK_KILL);
    assert_int_equal(ten_work_ask_ms(ENDS, 100), ENDS - 100);
}

TEST(the_odd_millisecond_of_a_grace_is_for_asking) {
    assert_int_equal(ten_work_pressure(ENDS, 101, ENDS - 102), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_pressure(ENDS, 101, ENDS - 101), TEN_WORK_ASK);
    assert_int_equal(ten_work_pressure(ENDS, 101, ENDS - 51), TEN_WORK_ASK);
    assert_int_equal(ten_work_pressure(ENDS, 101, ENDS - 50), TEN_WORK_KILL);
}

TEST(what_is_not_held_is_killed) {
    assert_int_equal(ten_work_pressure(0, 100, 0), TEN_WORK_KILL);
    assert_int_equal(ten_work_ask_ms(0, 100), 0);
    assert_int_equal(ten_work_ask_ms(99, 100), 0);
}

TEST(without_a_deadline_nothing_is_demanded) {
    assert_int_equal(ten_work_pressure(UINT64_MAX, 100, NOW), TEN_WORK_NOTHING);
}

/* ---- starting */

TEST(work_starts_only_under_a_confirmed_lease) {
    const ten_work_lease none = {0};
    assert_true(ten_work_may_start(&poll_rules, &good, NOW));
    assert_false(ten_work_may_start(&poll_rules, &none, NOW));
    assert_false(ten_work_may_start(&poll_rules, &uncertain, NOW));
    assert_false(ten_work_may_start(&poll_rules, &closing, NOW));
    assert_false(ten_work_may_start(&poll_rules, &lost, NOW));
}

TEST(no_work_starts_that_would_have_to_end_at_once) {
    assert_true(ten_work_may_start(&poll_rules, &good, ENDS - GRACE - 1));
    assert_false(ten_work_may_start(&poll_rules, &good, ENDS - GRACE));
    assert_false(ten_work_may_start(&poll_rules, &good, ENDS));
}

TEST(new_work_starts_when_the_old_is_over) {
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

TEST(running_work_is_looked_at_a_grace_before_the_deadline_or_at_its_timeout) {
    ten_work work = started(&poll_rules);
    assert_int_equal(ten_work_next_ms(&work, NOW), NOW + TIMEOUT);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT - 1), TEN_WORK_NOTHING);
    work.timeout_ms = UINT64_MAX;
    assert_int_equal(ten_work_next_ms(&work, NOW), ENDS - GRACE);
    assert_int_equal(look(&work, &renewed, TEN_WORK_ALL, NOW), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_next_ms(&work, NOW), 2 * ENDS - GRACE);
}

TEST(overdue_work_is_asked_and_killed_after_a_time_of_its_own) {
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT), TEN_WORK_ASK);
    assert_int_equal(work.why, TEN_WORK_OVERDUE);
    assert_false(ten_work_is_cut_short(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT + OVERDUE_AFTER - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT + OVERDUE_AFTER), TEN_WORK_KILL);
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW + TIMEOUT + OVERDUE_AFTER + 1), TEN_WORK_PUBLISH);
}

TEST(work_that_is_told_to_end_has_its_time_to_do_so) {
    ten_work work = asked(&poll_rules);
    assert_int_equal(work.why, TEN_WORK_CANCELLED);
    assert_true(ten_work_is_cut_short(&work));
    assert_int_equal(ten_work_next_ms(&work, NOW), NOW + TEN_WORK_LOOK_MS);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + KILL_AFTER - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + KILL_AFTER), TEN_WORK_KILL);
    assert_int_equal(work.state, TEN_WORK_KILLED);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + KILL_AFTER + 20), TEN_WORK_KILL);
}

TEST(who_is_in_a_hurry_kills_at_once) {
    ten_work work = asked(&poll_rules);
    ten_work_hurry(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW), TEN_WORK_KILL);
    work = started(&poll_rules);
    ten_work_hurry(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW), TEN_WORK_KILL);
}

TEST(work_that_may_take_for_ever_to_end_is_killed_before_the_deadline) {
    ten_work_rules rules = command_rules;
    rules.kill_after_ms = UINT64_MAX;
    ten_work work = asked(&rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF), TEN_WORK_KILL);
}

TEST(uncertain_work_goes_on_unless_the_rules_say_stop) {
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_ALL, NOW), TEN_WORK_NOTHING);
    work = started(&stopping_rules);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_ALL, NOW), TEN_WORK_ASK);
    assert_int_equal(work.why, TEN_WORK_UNCERTAIN);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_ALL, NOW + KILL_AFTER), TEN_WORK_KILL);
}

TEST(a_poll_that_was_not_renewed_in_time_is_killed_soon_and_discarded) {
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
TEST(what_the_warden_ended_for_the_lease_is_discarded_although_that_is_renewed) {
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

TEST(a_command_that_was_not_renewed_in_time_has_half_of_the_grace) {
    ten_work work = started(&command_rules);
    work.timeout_ms = UINT64_MAX;
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE), TEN_WORK_ASK);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE + HALF - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE + HALF), TEN_WORK_KILL);
}

TEST(who_slept_into_the_second_half_of_the_grace_kills_without_asking) {
    ten_work work = started(&command_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF), TEN_WORK_KILL);
    assert_int_equal(work.why, TEN_WORK_LATE);
    work = started(&command_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF - 1), TEN_WORK_ASK);
}

TEST(work_is_killed_before_the_deadline_although_its_time_to_end_is_not_over) {
    ten_work work = started(&poll_rules);
    work.timeout_ms = UINT64_MAX;
    ten_work_end(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE - 1), TEN_WORK_ASK);
    work.kill_ms = ENDS;
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - HALF), TEN_WORK_KILL);
    assert_int_equal(work.why, TEN_WORK_CANCELLED);
}

TEST(work_of_a_lost_lease_is_killed_after_50_ms) {
    const ten_work_lease *leases[] = {&lost, &newer};
    for (size_t i = 0; i < TEN_COUNT(leases); i++) {
        ten_work work = started(&command_rules);
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, NOW), TEN_WORK_ASK);
        assert_int_equal(work.why, TEN_WORK_LOST);
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, NOW + 49), TEN_WORK_NOTHING);
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, NOW + 50), TEN_WORK_KILL);
    }
}

TEST(a_loss_shortens_the_time_of_work_that_is_ending) {
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
TEST(the_last_deadline_of_a_lost_lease_still_counts) {
    ten_work work = started(&command_rules);
    work.timeout_ms = UINT64_MAX;
    ten_work_end(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, ENDS - GRACE - 1), TEN_WORK_ASK);
    work.kill_ms = 2 * ENDS;
    assert_int_equal(look(&work, &lost, TEN_WORK_ALL, ENDS - HALF - 1), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &lost, TEN_WORK_ALL, ENDS - HALF), TEN_WORK_KILL);
}

TEST(what_is_overdue_can_be_told_to_end_too) {
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT), TEN_WORK_ASK);
    ten_work_end(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW + TIMEOUT), TEN_WORK_NOTHING);
    assert_true(ten_work_is_cut_short(&work));
    assert_int_equal(work.kill_ms, NOW + TIMEOUT + OVERDUE_AFTER);
}

/* ---- what it leaves */

TEST(leftovers_are_asked_then_killed_after_50_ms_and_keep_the_target) {
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

TEST(work_that_exited_by_itself_is_not_cut_short_by_an_uncertain_lease) {
    ten_work work = started(&stopping_rules);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_LEFTOVERS, NOW), TEN_WORK_ASK);
    assert_false(ten_work_is_cut_short(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW + 10), TEN_WORK_PUBLISH);
}

TEST(what_was_left_under_a_lease_that_is_lost_is_discarded) {
    ten_work work = started(&poll_rules);
    assert_int_equal(look(&work, &good, TEN_WORK_LEFTOVERS, NOW), TEN_WORK_ASK);
    assert_int_equal(look(&work, &lost, TEN_WORK_LEFTOVERS, NOW + 10), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW + 20), TEN_WORK_DISCARD);
}

/* ---- its result */

TEST(a_result_is_published_under_the_same_confirmed_lease_alone) {
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

TEST(an_uncertain_result_is_withheld_until_the_lease_is_confirmed) {
    ten_work work = withheld();
    assert_int_equal(ten_work_next_ms(&work, NOW), ENDS);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_NONE, ENDS - 1), TEN_WORK_NOTHING);
    assert_false(ten_work_is_free(&work));
    assert_int_equal(look(&work, &renewed, TEN_WORK_NONE, ENDS - 1), TEN_WORK_PUBLISH);
    assert_int_equal(work.send_until_ms, 2 * ENDS);
}

TEST(a_withheld_result_is_discarded_at_the_deadline_or_with_the_lease) {
    ten_work work = withheld();
    assert_int_equal(look(&work, &uncertain, TEN_WORK_NONE, ENDS), TEN_WORK_DISCARD);
    work = withheld();
    assert_int_equal(look(&work, &lost, TEN_WORK_NONE, NOW), TEN_WORK_DISCARD);
    work = withheld();
    assert_int_equal(look(&work, &newer, TEN_WORK_NONE, NOW), TEN_WORK_DISCARD);
}

TEST(a_withheld_result_does_not_mind_being_told_to_end) {
    ten_work work = withheld();
    ten_work_end(&work);
    assert_int_equal(look(&work, &uncertain, TEN_WORK_NONE, NOW), TEN_WORK_NOTHING);
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW), TEN_WORK_PUBLISH);
}

/* ---- its message */

TEST(a_target_is_busy_until_the_message_has_left) {
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
TEST(a_message_is_dropped_at_the_deadline_that_was_known_when_it_was_published) {
    ten_work work = sending();
    assert_int_equal(look(&work, &renewed, TEN_WORK_ALL, NOW), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_next_ms(&work, NOW), ENDS);
    assert_int_equal(look(&work, &renewed, TEN_WORK_ALL, ENDS), TEN_WORK_DROP);
    assert_true(ten_work_is_free(&work));
    assert_int_equal(look(&work, &renewed, TEN_WORK_ALL, ENDS), TEN_WORK_NOTHING);
}

TEST(a_message_is_dropped_with_its_lease) {
    const ten_work_lease *leases[] = {&lost, &newer};
    for (size_t i = 0; i < TEN_COUNT(leases); i++) {
        ten_work work = sending();
        assert_int_equal(look(&work, leases[i], TEN_WORK_ALL, NOW), TEN_WORK_DROP);
        assert_true(ten_work_is_free(&work));
    }
}

TEST(when_its_program_stops_a_message_has_a_moment_to_leave) {
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

TEST(who_is_in_a_hurry_does_not_wait_for_the_message) {
    ten_work work = sending();
    ten_work_hurry(&work);
    assert_int_equal(look(&work, &good, TEN_WORK_ALL, NOW), TEN_WORK_DROP);
    assert_true(ten_work_is_free(&work));
}

TEST(work_without_a_result_is_free_when_nothing_of_it_is_left) {
    const ten_work_lease *leases[] = {&good, &uncertain, &lost};
    for (size_t i = 0; i < TEN_COUNT(leases); i++) {
        ten_work work = started(&command_rules);
        assert_int_equal(look(&work, leases[i], TEN_WORK_NONE, NOW), TEN_WORK_NOTHING);
        assert_true(ten_work_is_free(&work));
    }
}

TEST(idle_work_needs_nothing) {
    ten_work work = {0};
    assert_true(ten_work_is_free(&work));
    assert_int_equal(look(&work, &good, TEN_WORK_NONE, NOW), TEN_WORK_NOTHING);
    assert_int_equal(ten_work_next_ms(&work, NOW), UINT64_MAX);
}

/* ---- broken records */

static void start_again(void *arg) {
    ten_work_start(arg, &poll_rules, &good, UINT64_MAX, NOW);
}

TEST(starting_beside_work_that_is_not_over_aborts) {
    ten_work works[] = {started(&poll_rules), asked(&poll_rules), withheld(), sending()};
    for (size_t i = 0; i < TEN_COUNT(works); i++)
        assert_aborts(start_again, &works[i]);
}

static void start_uncertain(void *arg) {
    ten_work_start(arg, &poll_rules, &uncertain, UINT64_MAX, NOW);
}

TEST(starting_under_an_uncertain_lease_aborts) {
    ten_work work = {0};
    assert_aborts(start_uncertain, &work);
}

static void kill_late(void *arg) {
    look(arg, &good, TEN_WORK_ALL, NOW);
}

/* It would never be killed. */
TEST(work_that_was_asked_without_an_end_of_asking_aborts) {
    ten_work work = asked(&poll_rules);
    work.kill_ms = 0;
    assert_aborts(kill_late, &work);
}

static void finish(void *arg) {
    look(arg, &uncertain, TEN_WORK_NONE, NOW);
}

TEST(work_without_a_token_aborts) {
    ten_work work = started(&poll_rules);
    ten_work_lease none = {.ends_ms = ENDS};
    work.token = none.token;
    assert_aborts(finish, &work);
}
