/*
 * A worker as its warden judges it (core/worker.h), and the pauses between starts (core/backoff.h). It is told the time,
 * so nothing here waits.
 */
#include "unit/unit.h"

#include "core/worker.h"

enum { TTL = 3000, RETRY = 69, LOST = 5, NOW = 100000 };

static ten_worker worker_with(bool one_shot) {
    ten_worker worker;
    ten_worker_rules rules = {.ttl_ms = TTL, .retry_exit = RETRY, .one_shot = one_shot, .lost_exit = LOST};
    ten_worker_init(&worker, &rules);
    ten_worker_started(&worker, NOW);
    return worker;
}

static const ten_worker_end killed = {.signalled = true, .gone = true, .ready = true};

TEST(pauses_double_up_to_the_longest_and_begin_anew_after_a_steady_run) {
    ten_backoff backoff = {.min_ms = 100, .max_ms = 5000, .steady_ms = 30000};
    const uint64_t expected[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
    for (size_t i = 0; i < TEN_COUNT(expected); i++)
        assert_int_equal(ten_backoff_pause_ms(&backoff, 29999), expected[i]);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(ten_backoff_pause_ms(&backoff, 0), 5000);
    assert_int_equal(ten_backoff_pause_ms(&backoff, 30000), 100);
    assert_int_equal(ten_backoff_pause_ms(&backoff, 0), 200);
}

TEST(a_worker_is_useless_half_a_ttl_after_its_last_deadline) {
    ten_worker worker = worker_with(false);
    assert_int_equal(ten_worker_look(&worker, NOW, 0, false, NOW + TTL / 2), TEN_WORKER_FINE);
    assert_int_equal(ten_worker_look(&worker, NOW, 0, false, NOW + TTL / 2 + 1), TEN_WORKER_PAST_DEADLINES);
    assert_int_equal(ten_worker_look(&worker, 0, 0, false, UINT64_MAX), TEN_WORKER_FINE); /* it holds nothing */
}

TEST(a_one_shot_worker_that_is_killed_past_its_deadlines_has_lost_its_lease) {
    const ten_worker_end end = {.signalled = true, .exit_code = 137};
    const ten_worker_end exited = {.exit_code = 7};
    for (int one_shot = 0; one_shot < 2; one_shot++) {
        ten_worker worker = worker_with(one_shot);
        assert_int_equal(ten_worker_exit_code(&worker, &end, false), 137);
        (void)ten_worker_look(&worker, NOW, 0, false, NOW + TTL / 2);
        assert_int_equal(ten_worker_exit_code(&worker, &end, false), 137); /* by somebody else */
        (void)ten_worker_look(&worker, NOW, 0, false, NOW + TTL / 2 + 1);
        assert_int_equal(ten_worker_exit_code(&worker, &end, false), one_shot ? LOST : 137);
        assert_int_equal(ten_worker_exit_code(&worker, &exited, false), 7);
    }
}

TEST(one_that_was_asked_to_end_before_it_began_has_ended_well) {
    for (int one_shot = 0; one_shot < 2; one_shot++) {
        ten_worker worker = worker_with(one_shot);
        const ten_worker_end asked = {.signalled = true, .exit_code = 143};
        const ten_worker_end begun = {.signalled = true, .exit_code = 137, .begun = true};
        const ten_worker_end failed = {.exit_code = 3};
        assert_int_equal(ten_worker_exit_code(&worker, &asked, true), one_shot ? 143 : 0);
        assert_int_equal(ten_worker_exit_code(&worker, &asked, false), 143);
        assert_int_equal(ten_worker_exit_code(&worker, &begun, true), 137); /* it did not hear of it */
        assert_int_equal(ten_worker_exit_code(&worker, &failed, true), 3);
    }
}

/* Looks for a while, as often as it should, at a loop that makes `turn` turns between two looks. Leases are renewed. */
static enum ten_worker_state watch_loop(ten_worker *worker, uint64_t *now_ms, uint64_t for_ms, uint64_t turn) {
    enum ten_worker_state state = TEN_WORKER_FINE;
    uint64_t step_ms = ten_worker_look_ms(worker);
    for (uint64_t end_ms = *now_ms + for_ms; state == TEN_WORKER_FINE && *now_ms < end_ms; *now_ms += step_ms)
        state = ten_worker_look(worker, *now_ms + TTL, worker->turns + turn, false, *now_ms);
    return state;
}

/* Its leases may be renewed all the time: nobody else gets them, and nobody works. */
TEST(a_worker_whose_loop_hangs_is_useless_before_a_ttl_is_over) {
    ten_worker worker = worker_with(false);
    uint64_t now_ms = NOW;
    assert_int_equal(watch_loop(&worker, &now_ms, 10 * TTL, 1), TEN_WORKER_FINE);
    uint64_t hung_ms = now_ms;
    assert_int_equal(watch_loop(&worker, &now_ms, TTL, 0), TEN_WORKER_HUNG);
    assert_true(now_ms - hung_ms > 2000);
}

TEST(a_worker_that_is_not_in_its_loop_does_not_hang) {
    ten_worker worker = worker_with(false);
    uint64_t now_ms = NOW;
    assert_int_equal(watch_loop(&worker, &now_ms, 10 * TTL, 0), TEN_WORKER_FINE); /* it starts */
    assert_int_equal(watch_loop(&worker, &now_ms, TTL, 1), TEN_WORKER_FINE);
    worker.turns = 0; /* it ends */
    assert_int_equal(watch_loop(&worker, &now_ms, 10 * TTL, 0), TEN_WORKER_FINE);
}

/* It does not renew either: its deadlines are for that. */
TEST(a_worker_that_is_stopped_is_left_to_its_deadlines) {
    ten_worker worker = worker_with(false);
    uint64_t now_ms = NOW;
    assert_int_equal(watch_loop(&worker, &now_ms, TTL, 1), TEN_WORKER_FINE);
    uint64_t last_end_ms = worker.silent_end_ms + 1; /* a renewal was on its way when it was stopped */
    for (; now_ms <= last_end_ms + TTL / 2; now_ms += 10)
        assert_int_equal(ten_worker_look(&worker, last_end_ms, worker.turns, false, now_ms), TEN_WORKER_FINE);
    assert_int_equal(ten_worker_look(&worker, last_end_ms, worker.turns, false, now_ms), TEN_WORKER_PAST_DEADLINES);
}

/* Stopped as it is, it does not hear of it. One that is continued in time ends by itself. */
TEST(a_worker_that_does_not_hear_that_it_is_asked_to_end_is_useless) {
    ten_worker worker = worker_with(false);
    uint64_t now_ms = NOW;
    assert_int_equal(watch_loop(&worker, &now_ms, TTL, 1), TEN_WORKER_FINE);
    for (uint64_t end_ms = now_ms + 10 * TTL; now_ms < end_ms; now_ms += 10) /* it holds nothing */
        assert_int_equal(ten_worker_look(&worker, 0, worker.turns, false, now_ms), TEN_WORKER_FINE);
    uint64_t asked_ms = now_ms;
    enum ten_worker_state found = TEN_WORKER_FINE;
    for (; found == TEN_WORKER_FINE && now_ms < asked_ms + TTL; now_ms += 10)
        found = ten_worker_look(&worker, 0, worker.turns, true, now_ms);
    assert_int_equal(found, TEN_WORKER_HUNG);
    assert_true(now_ms - asked_ms > 2000);
    worker = worker_with(false);
    for (uint64_t end_ms = now_ms + 10 * TTL; now_ms < end_ms; now_ms += 10) /* its loop takes its time to end */
        assert_int_equal(ten_worker_look(&worker, 0, worker.turns + 1, true, now_ms), TEN_WORKER_FINE);
}

/* Its thread that renews may be the first to run. */
TEST(a_worker_that_wakes_before_its_deadlines_has_time_to_turn) {
    ten_worker worker = worker_with(false);
    uint64_t now_ms = NOW;
    assert_int_equal(watch_loop(&worker, &now_ms, TTL, 1), TEN_WORKER_FINE);
    uint64_t last_end_ms = now_ms + TTL;
    for (uint64_t woken_ms = now_ms + TTL * 3 / 4; now_ms < woken_ms; now_ms += 10)
        assert_int_equal(ten_worker_look(&worker, last_end_ms, worker.turns, false, now_ms), TEN_WORKER_FINE);
    assert_int_equal(watch_loop(&worker, &now_ms, 500, 0), TEN_WORKER_FINE);
    assert_int_equal(watch_loop(&worker, &now_ms, TTL, 1), TEN_WORKER_FINE);
}

/* The machine slept, or nobody got the processor: the worker is given its time, too. */
TEST(a_pause_of_the_warden_is_not_the_workers) {
    ten_worker worker = worker_with(false);
    uint64_t now_ms = NOW;
    assert_int_equal(watch_loop(&worker, &now_ms, TTL, 1), TEN_WORKER_FINE);
    now_ms += 100 * TTL;
    assert_int_equal(ten_worker_look(&worker, now_ms, worker.turns, false, now_ms), TEN_WORKER_FINE);
    assert_int_equal(watch_loop(&worker, &now_ms, 1000, 0), TEN_WORKER_FINE);
    assert_int_equal(watch_loop(&worker, &now_ms, TTL, 0), TEN_WORKER_HUNG);
}

TEST(a_worker_that_died_of_a_signal_is_followed_by_another) {
    ten_worker worker = worker_with(false);
    const ten_worker_end ended = {.exit_code = 0};
    const ten_worker_end failed = {.exit_code = 1};
    assert_true(ten_worker_is_wanted_again(&worker, &killed, false));
    assert_false(ten_worker_is_wanted_again(&worker, &killed, true));
    assert_false(ten_worker_is_wanted_again(&worker, &ended, false));
    assert_false(ten_worker_is_wanted_again(&worker, &failed, false));
    worker = worker_with(true);
    assert_false(ten_worker_is_wanted_again(&worker, &killed, false));
}

TEST(without_a_store_only_a_worker_that_follows_another_is_followed) {
    ten_worker worker = worker_with(false);
    const ten_worker_end no_store = {.exit_code = RETRY};
    assert_false(ten_worker_is_wanted_again(&worker, &no_store, false));
    assert_int_equal(ten_worker_pause_ms(&worker, NOW + 10), 100);
    assert_true(ten_worker_is_wanted_again(&worker, &no_store, false));
    assert_false(ten_worker_is_wanted_again(&worker, &no_store, true));
}

/* Its file of targets is away for a moment, say: the one before it could read it. */
TEST(one_that_cannot_begin_is_followed_only_if_it_follows_another) {
    ten_worker worker = worker_with(false);
    const ten_worker_end not_begun = {.exit_code = 2, .ready = true};
    const ten_worker_end begun = {.exit_code = 2, .ready = true, .begun = true};
    const ten_worker_end nothing_to_do = {.exit_code = 0};
    assert_false(ten_worker_is_wanted_again(&worker, &not_begun, false));
    assert_int_equal(ten_worker_pause_ms(&worker, NOW + 10), 100);
    assert_true(ten_worker_is_wanted_again(&worker, &not_begun, false));
    assert_false(ten_worker_is_wanted_again(&worker, &not_begun, true));
    assert_false(ten_worker_is_wanted_again(&worker, &begun, false));
    assert_false(ten_worker_is_wanted_again(&worker, &nothing_to_do, false));
}

TEST(a_worker_that_lived_for_30_s_starts_the_pauses_anew) {
    ten_worker worker = worker_with(false);
    assert_int_equal(ten_worker_pause_ms(&worker, NOW + 10), 100);
    assert_int_equal(ten_worker_pause_ms(&worker, NOW + 29999), 200);
    assert_int_equal(ten_worker_pause_ms(&worker, NOW + 30000), 100);
}

TEST(leases_of_the_dead_are_released_when_all_is_gone_and_nothing_keeps_them) {
    ten_worker_end end = killed;
    assert_true(ten_worker_may_release(&end, NOW));
    end.keep_until_ms = NOW;
    assert_true(ten_worker_may_release(&end, NOW));
    assert_false(ten_worker_may_release(&end, NOW - 1));
    end = killed;
    end.gone = false;
    assert_false(ten_worker_may_release(&end, NOW));
    end = killed;
    end.ready = false; /* it never had an instance */
    assert_false(ten_worker_may_release(&end, NOW));
    end = killed;
    end.signalled = false; /* it has released them itself */
    assert_false(ten_worker_may_release(&end, NOW));
}
