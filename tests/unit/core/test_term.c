/*
 * The terms of a candidate that runs a command (core/term.h): each step from hook to hook, each reason to end, what the
 * election is told, when a command is started again, and what comes of it all. It is told the time, so nothing waits.
 */
#include "unit/unit.h"

#include "core/term.h"

enum {
    NOW = 100000,
    ENDS = 130000,
    GRACE = 3000,
    KILL_AFTER = 10000,
    HOOK = 10000,
    STEADY = 10000,
    AT_LEAST = 60000,
    WAIT_UNTIL = 101000
};

struct fixture {
    ten_term term;
    ten_term_facts facts;
    enum ten_work_left left;
    uint64_t now_ms;
};

static const ten_backoff backoff = {.min_ms = 200, .max_ms = 10000, .steady_ms = STEADY};

static ten_term_rules plain(void) {
    return (ten_term_rules){
        .work = {.grace_ms = GRACE, .kill_after_ms = KILL_AFTER, .kill_overdue_after_ms = TEN_WORK_KILL_LOST_AFTER_MS},
        .restart = TEN_RESTART_ALWAYS};
}

static ten_term_rules with_hooks(void) {
    ten_term_rules rules = plain();
    rules.has_begin_hook = rules.has_end_hook = true;
    return rules;
}

static ten_term_rules once(void) {
    ten_term_rules rules = plain();
    rules.once = true;
    rules.at_least_ms = AT_LEAST;
    rules.wait_until_ms = WAIT_UNTIL;
    return rules;
}

static void set_up(struct fixture *f, ten_term_rules rules) {
    *f = (struct fixture){.left = TEN_WORK_NONE, .now_ms = NOW};
    ten_term_init(&f->term, &rules, &backoff);
}

static void elect(struct fixture *f, uint64_t token) {
    f->facts = (ten_term_facts){.lease = {.token = token, .ends_ms = f->now_ms + ENDS - NOW, .confirmed = true}};
}

static void lose(struct fixture *f) {
    f->facts.over = true;
    f->facts.lease.ends_ms = 0;
}

static enum ten_term_step next(struct fixture *f) {
    return ten_term_next(&f->term, &f->facts, f->left, f->now_ms);
}

static void assert_next(struct fixture *f, enum ten_term_step step) {
    assert_int_equal(next(f), step);
    if (step == TEN_TERM_START_BEGIN_HOOK || step == TEN_TERM_START_COMMAND || step == TEN_TERM_START_END_HOOK)
        f->left = TEN_WORK_ALL;
}

static void assert_resigns(struct fixture *f, enum ten_reason reason, uint64_t pause_ms) {
    assert_next(f, TEN_TERM_RESIGN);
    assert_int_equal(f->term.resign_reason, reason);
    assert_int_equal(f->term.resign_pause_ms, pause_ms);
}

static void assert_outcome(const struct fixture *f, enum ten_term_outcome outcome) {
    assert_int_equal(ten_term_outcome(&f->term, &f->facts), outcome);
}

/* Its process has exited, and left nothing. */
static void exits(struct fixture *f, bool failed) {
    f->left = TEN_WORK_NONE;
    ten_term_exited(&f->term, &f->facts, &(ten_term_exit){.failed = failed}, f->now_ms);
}

/* The same, after the warden has signalled it because of the lease. */
static void exits_warned(struct fixture *f, bool failed) {
    f->left = TEN_WORK_NONE;
    ten_term_exited(&f->term, &f->facts, &(ten_term_exit){.failed = failed, .ended_for_lease = true}, f->now_ms);
}

static void run_command(struct fixture *f, ten_term_rules rules) {
    set_up(f, rules);
    elect(f, 7);
    assert_next(f, TEN_TERM_START_COMMAND);
    assert_next(f, TEN_TERM_NOTHING);
    assert_int_equal(f->term.state, TEN_TERM_COMMAND);
    assert_true(ten_term_works(&f->term));
}

/* ---- one after the other */

TEST(a_term_is_hook_command_and_hook_one_after_the_other) {
    struct fixture f;
    set_up(&f, with_hooks());
    assert_next(&f, TEN_TERM_NOTHING);
    elect(&f, 7);
    assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
    assert_next(&f, TEN_TERM_NOTHING);
    exits(&f, false);
    assert_next(&f, TEN_TERM_START_COMMAND);
    assert_next(&f, TEN_TERM_NOTHING);
    exits(&f, false);
    assert_resigns(&f, TEN_REASON_DONE, 200);
    assert_next(&f, TEN_TERM_START_END_HOOK);
    assert_next(&f, TEN_TERM_NOTHING);
    exits(&f, true);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_int_equal(f.term.state, TEN_TERM_WAITING);
    assert_next(&f, TEN_TERM_NOTHING); /* the same term does not begin again */
}

TEST(without_hooks_there_is_the_command_alone) {
    struct fixture f;
    run_command(&f, plain());
    exits(&f, false);
    assert_resigns(&f, TEN_REASON_DONE, 200);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_false(ten_term_works(&f.term));
}

TEST(nothing_goes_on_while_something_of_the_work_is_left) {
    struct fixture f;
    run_command(&f, plain());
    exits(&f, false);
    f.left = TEN_WORK_LEFTOVERS;
    assert_resigns(&f, TEN_REASON_DONE, 200);
    assert_next(&f, TEN_TERM_ASK);
    assert_int_equal(ten_term_next_ms(&f.term, &f.facts, f.now_ms), NOW + TEN_WORK_LOOK_MS);
    f.now_ms += 49;
    assert_next(&f, TEN_TERM_NOTHING);
    f.now_ms += 1;
    assert_next(&f, TEN_TERM_KILL);
    assert_next(&f, TEN_TERM_KILL);
    f.left = TEN_WORK_NONE;
    assert_next(&f, TEN_TERM_WORK_OVER);
}

TEST(a_hook_that_could_not_be_started_is_passed_over) {
    struct fixture f;
    set_up(&f, with_hooks());
    elect(&f, 7);
    assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
    f.left = TEN_WORK_NONE;
    assert_next(&f, TEN_TERM_START_COMMAND);
}

TEST(a_command_that_could_not_be_started_is_done_and_has_failed) {
    struct fixture f;
    ten_term_rules rules = plain();
    rules.restart = TEN_RESTART_NEVER;
    set_up(&f, rules);
    elect(&f, 7);
    assert_next(&f, TEN_TERM_START_COMMAND);
    exits(&f, true);
    assert_resigns(&f, TEN_REASON_DONE, UINT64_MAX);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_int_equal(f.term.state, TEN_TERM_OVER);
    assert_outcome(&f, TEN_TERM_COMMAND_END);
}

/* Another instance may be able to run it. */
TEST(a_role_is_not_kept_for_a_command_that_could_not_be_started) {
    for (int unstarted = 0; unstarted < 2; unstarted++) {
        struct fixture f;
        run_command(&f, once());
        ten_term_exit how = {.failed = true, .unstarted = unstarted};
        ten_term_exited(&f.term, &f.facts, &how, f.now_ms);
        f.left = TEN_WORK_NONE;
        assert_resigns(&f, TEN_REASON_DONE, UINT64_MAX);
        assert_int_equal(f.term.unstarted, unstarted);
        assert_int_equal(f.term.keep_until_ms, unstarted ? 0 : NOW + AT_LEAST);
        assert_next(&f, TEN_TERM_WORK_OVER);
        assert_outcome(&f, TEN_TERM_COMMAND_END);
    }
}

/* ---- beginning */

TEST(a_term_that_is_over_before_its_work_began_has_none) {
    struct fixture f;
    set_up(&f, with_hooks());
    elect(&f, 7);
    f.facts.over = true;
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_next(&f, TEN_TERM_NOTHING);
    elect(&f, 8);
    assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
}

TEST(a_term_begins_when_new_work_may_start) {
    struct fixture f;
    set_up(&f, plain());
    elect(&f, 7);
    f.facts.lease.confirmed = false;
    assert_next(&f, TEN_TERM_NOTHING);
    f.facts.lease.confirmed = true;
    f.now_ms = ENDS - GRACE;
    assert_next(&f, TEN_TERM_NOTHING);
    f.now_ms--;
    assert_next(&f, TEN_TERM_START_COMMAND);
}

TEST(after_its_hook_the_command_waits_until_the_lease_is_confirmed) {
    struct fixture f;
    set_up(&f, with_hooks());
    elect(&f, 7);
    assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
    f.facts.lease.confirmed = false;
    exits(&f, false);
    assert_next(&f, TEN_TERM_NOTHING);
    assert_int_equal(f.term.state, TEN_TERM_READY);
    assert_int_equal(ten_term_next_ms(&f.term, &f.facts, f.now_ms), UINT64_MAX);
    f.facts.lease.confirmed = true;
    assert_next(&f, TEN_TERM_START_COMMAND);
}

TEST(a_term_that_ends_before_its_command_began_has_its_last_hook) {
    struct fixture f;
    for (int way = 0; way < 3; way++) {
        set_up(&f, with_hooks());
        elect(&f, 7);
        assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
        f.facts.lease.confirmed = false;
        exits(&f, false);
        assert_next(&f, TEN_TERM_NOTHING);
        if (way == 0) {
            f.facts.over = true;
        } else if (way == 1) {
            lose(&f);
        } else {
            ten_term_stop(&f.term);
            assert_resigns(&f, TEN_REASON_SHUTDOWN, UINT64_MAX);
        }
        assert_next(&f, TEN_TERM_START_END_HOOK);
        assert_false(f.term.ran);
    }
}

/* Also when the process dies before its work has begun. */
TEST(a_role_is_kept_from_the_moment_in_which_its_term_was_heard_of) {
    struct fixture f;
    set_up(&f, once());
    assert_int_equal(f.term.keep_until_ms, 0);
    elect(&f, 7);
    f.facts.over = true;
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_int_equal(f.term.keep_until_ms, NOW + AT_LEAST);
    run_command(&f, once());
    assert_int_equal(f.term.keep_until_ms, NOW + AT_LEAST);
    f.now_ms += 1000;
    assert_next(&f, TEN_TERM_NOTHING);
    assert_int_equal(f.term.keep_until_ms, NOW + AT_LEAST);
    ten_term_rules rules = once();
    rules.at_least_ms = UINT64_MAX;
    run_command(&f, rules);
    assert_int_equal(f.term.keep_until_ms, UINT64_MAX);
}

/* ---- hooks that take too long */

TEST(a_hook_that_takes_too_long_is_ended_and_the_term_goes_on) {
    struct fixture f;
    set_up(&f, with_hooks());
    elect(&f, 7);
    assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
    assert_int_equal(ten_term_next_ms(&f.term, &f.facts, f.now_ms), NOW + HOOK);
    f.now_ms = NOW + HOOK - 1;
    assert_next(&f, TEN_TERM_NOTHING);
    f.now_ms++;
    assert_next(&f, TEN_TERM_ASK);
    f.now_ms += 50;
    assert_next(&f, TEN_TERM_KILL);
    exits(&f, true);
    assert_next(&f, TEN_TERM_START_COMMAND);
}

TEST(no_deadline_presses_the_hook_of_the_end) {
    struct fixture f;
    set_up(&f, with_hooks());
    elect(&f, 7);
    assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
    lose(&f);
    assert_next(&f, TEN_TERM_ASK);
    exits(&f, true);
    assert_next(&f, TEN_TERM_START_END_HOOK);
    f.now_ms += HOOK - 1;
    assert_next(&f, TEN_TERM_NOTHING);
    f.now_ms++;
    assert_next(&f, TEN_TERM_ASK);
}

/* ---- the lease presses */

TEST(a_command_that_was_not_renewed_in_time_is_ended_and_the_election_told) {
    struct fixture f;
    run_command(&f, plain());
    assert_int_equal(ten_term_next_ms(&f.term, &f.facts, f.now_ms), ENDS - GRACE);
    f.now_ms = ENDS - GRACE - 1;
    assert_next(&f, TEN_TERM_NOTHING);
    f.now_ms++;
    assert_next(&f, TEN_TERM_ASK);
    assert_resigns(&f, TEN_REASON_STORE, 0);
    assert_next(&f, TEN_TERM_NOTHING);
    f.now_ms = ENDS - GRACE / 2 - 1;
    assert_next(&f, TEN_TERM_NOTHING);
    f.now_ms++;
    assert_next(&f, TEN_TERM_KILL);
    exits(&f, true);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_int_equal(f.term.state, TEN_TERM_WAITING);
}

TEST(an_uncertain_command_goes_on_unless_the_rules_say_stop) {
    struct fixture f;
    run_command(&f, plain());
    f.facts.lease.confirmed = false;
    assert_next(&f, TEN_TERM_NOTHING);
    ten_term_rules rules = plain();
    rules.work.stop_when_uncertain = true;
    run_command(&f, rules);
    f.facts.lease.confirmed = false;
    assert_next(&f, TEN_TERM_ASK);
    assert_resigns(&f, TEN_REASON_STORE, 0);
    f.now_ms += KILL_AFTER;
    assert_next(&f, TEN_TERM_KILL);
}

TEST(a_command_whose_term_is_over_is_asked_and_has_its_time) {
    struct fixture f;
    run_command(&f, plain());
    f.facts.over = true;
    assert_next(&f, TEN_TERM_ASK);
    f.now_ms += KILL_AFTER - 1;
    assert_next(&f, TEN_TERM_NOTHING);
    f.now_ms++;
    assert_next(&f, TEN_TERM_KILL);
}

TEST(a_command_that_lost_its_lease_is_killed_after_50_ms) {
    struct fixture f;
    run_command(&f, plain());
    lose(&f);
    assert_next(&f, TEN_TERM_ASK);
    f.now_ms += 49;
    assert_next(&f, TEN_TERM_NOTHING);
    f.now_ms++;
    assert_next(&f, TEN_TERM_KILL);
    exits(&f, true);
    assert_next(&f, TEN_TERM_WORK_OVER);
}

/* This process was stopped meanwhile, or the warden came first. The lease may even have been renewed since. */
TEST(a_command_that_the_warden_ended_is_not_done_whatever_its_status) {
    struct fixture f;
    for (int failed = 0; failed < 2; failed++) {
        run_command(&f, once());
        exits_warned(&f, failed);
        assert_resigns(&f, TEN_REASON_STORE, 0);
        assert_next(&f, TEN_TERM_WORK_OVER);
        assert_false(f.term.done);
        assert_outcome(&f, TEN_TERM_LOST);
    }
}

TEST(a_lease_that_has_expired_when_the_end_is_noticed_was_lost) {
    struct fixture f;
    for (int way = 0; way < 2; way++) {
        run_command(&f, once());
        if (way == 0)
            lose(&f);
        else
            f.now_ms = ENDS;
        exits(&f, false);
        assert_resigns(&f, TEN_REASON_STORE, 0);
        assert_next(&f, TEN_TERM_WORK_OVER);
        assert_outcome(&f, TEN_TERM_LOST);
    }
}

/* In the grace, but nobody has told it to: it has ended by itself. */
TEST(a_command_that_ends_before_it_is_signalled_is_done) {
    struct fixture f;
    for (uint64_t now_ms = ENDS - GRACE - 1; now_ms < ENDS; now_ms += GRACE) {
        run_command(&f, once());
        f.now_ms = now_ms;
        exits(&f, true);
        assert_resigns(&f, TEN_REASON_DONE, UINT64_MAX);
        assert_true(f.term.done);
    }
}

/* Its command exits with 0 when it is asked to end, as good services do. */
TEST(after_a_lost_lease_it_campaigns_again_whatever_the_policy_and_the_status) {
    struct fixture f;
    enum { ASKED, UNCERTAIN, LOST, WARNED, WAYS };
    for (int i = 0; i < WAYS * 3 * 2; i++) {
        ten_term_rules rules = plain();
        rules.restart = (enum ten_restart)(i / WAYS % 3);
        rules.work.stop_when_uncertain = i % WAYS == UNCERTAIN;
        bool failed = i / WAYS / 3;
        run_command(&f, rules);
        if (i % WAYS == ASKED)
            f.now_ms = ENDS - GRACE;
        else if (i % WAYS == UNCERTAIN)
            f.facts.lease.confirmed = false;
        else if (i % WAYS == LOST)
            lose(&f);
        if (i % WAYS == WARNED) {
            exits_warned(&f, failed);
        } else {
            assert_next(&f, TEN_TERM_ASK);
            exits(&f, failed);
        }
        while (f.term.state == TEN_TERM_COMMAND)
            (void)next(&f);
        assert_int_equal(f.term.state, TEN_TERM_WAITING);
        assert_false(f.term.done);
        elect(&f, 8);
        assert_next(&f, TEN_TERM_START_COMMAND);
    }
}

TEST(once_that_was_ended_because_of_the_lease_says_so_although_it_is_stopped_then) {
    struct fixture f;
    run_command(&f, once());
    f.now_ms = ENDS - GRACE;
    assert_next(&f, TEN_TERM_ASK);
    ten_term_stop(&f.term);
    exits(&f, false);
    assert_next(&f, TEN_TERM_RESIGN);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_outcome(&f, TEN_TERM_LOST);
}

/* ---- delays before the command */

TEST(after_its_hook_the_lease_is_looked_at_again) {
    struct fixture f;
    for (int way = 0; way < 3; way++) {
        set_up(&f, with_hooks());
        elect(&f, 7);
        assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
        assert_next(&f, TEN_TERM_NOTHING);
        if (way == 0)
            f.now_ms = ENDS - GRACE;
        else if (way == 1)
            f.facts.lease.closing = true;
        else
            lose(&f);
        exits(&f, false);
        assert_next(&f, way == 2 ? TEN_TERM_START_END_HOOK : TEN_TERM_NOTHING);
        assert_false(f.term.ran);
    }
}

/* ---- stopping */

TEST(the_command_hears_of_a_stop_as_this_program_did) {
    struct fixture f;
    run_command(&f, plain());
    ten_term_stop(&f.term);
    assert_resigns(&f, TEN_REASON_SHUTDOWN, UINT64_MAX);
    assert_next(&f, TEN_TERM_PASS_STOP);
    assert_next(&f, TEN_TERM_NOTHING);
    exits(&f, true);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_int_equal(f.term.state, TEN_TERM_OVER);
    assert_false(f.term.done);
    assert_outcome(&f, TEN_TERM_ENDED);
}

TEST(a_second_stop_hurries) {
    struct fixture f;
    run_command(&f, plain());
    ten_term_stop(&f.term);
    ten_term_stop(&f.term);
    assert_resigns(&f, TEN_REASON_SHUTDOWN, UINT64_MAX);
    assert_next(&f, TEN_TERM_KILL);
}

TEST(a_stop_leaves_the_hook_of_the_end_alone_but_a_second_does_not) {
    struct fixture f;
    set_up(&f, with_hooks());
    elect(&f, 7);
    assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
    f.facts.over = true;
    assert_next(&f, TEN_TERM_ASK);
    exits(&f, true);
    assert_next(&f, TEN_TERM_START_END_HOOK);
    ten_term_stop(&f.term);
    assert_resigns(&f, TEN_REASON_SHUTDOWN, UINT64_MAX);
    assert_next(&f, TEN_TERM_NOTHING);
    ten_term_stop(&f.term);
    assert_next(&f, TEN_TERM_KILL);
}

TEST(a_process_is_made_ready_while_it_waits_and_another_leads_or_it_has_led) {
    struct fixture f;
    set_up(&f, with_hooks());
    assert_false(ten_term_wants_ready(&f.term, &f.facts));
    f.facts.held = true;
    assert_true(ten_term_wants_ready(&f.term, &f.facts));
    elect(&f, 1);
    assert_false(ten_term_wants_ready(&f.term, &f.facts));
    assert_next(&f, TEN_TERM_START_BEGIN_HOOK);
    f.facts.held = true;
    assert_false(ten_term_wants_ready(&f.term, &f.facts));
    run_command(&f, plain());
    assert_false(ten_term_wants_ready(&f.term, &f.facts));
    exits(&f, true);
    assert_next(&f, TEN_TERM_RESIGN);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_true(ten_term_wants_ready(&f.term, &f.facts));
    set_up(&f, plain());
    f.facts.held = f.facts.refused = true;
    assert_false(ten_term_wants_ready(&f.term, &f.facts));
    f.facts.refused = false;
    ten_term_stop(&f.term);
    assert_false(ten_term_wants_ready(&f.term, &f.facts));
}

TEST(a_stop_while_waiting_ends_it) {
    struct fixture f;
    set_up(&f, plain());
    ten_term_stop(&f.term);
    assert_resigns(&f, TEN_REASON_SHUTDOWN, UINT64_MAX);
    assert_next(&f, TEN_TERM_NOTHING);
    assert_int_equal(f.term.state, TEN_TERM_OVER);
    assert_next(&f, TEN_TERM_NOTHING);
    assert_outcome(&f, TEN_TERM_ENDED);
}

/* The election keeps the first reason, and does not campaign again. */
TEST(of_two_reasons_to_resign_the_first_is_told) {
    struct fixture f;
    run_command(&f, plain());
    exits(&f, true);
    ten_term_stop(&f.term);
    assert_resigns(&f, TEN_REASON_DONE, UINT64_MAX);
    assert_next(&f, TEN_TERM_WORK_OVER);
}

/* ---- again */

TEST(a_command_is_started_again_as_the_policy_says) {
    const struct {
        enum ten_restart restart;
        bool failed;
        bool again;
    } cases[] = {{TEN_RESTART_NEVER, true, false},     {TEN_RESTART_NEVER, false, false},
                 {TEN_RESTART_ON_FAILURE, true, true}, {TEN_RESTART_ON_FAILURE, false, false},
                 {TEN_RESTART_ALWAYS, true, true},     {TEN_RESTART_ALWAYS, false, true}};
    for (size_t i = 0; i < TEN_COUNT(cases); i++) {
        struct fixture f;
        ten_term_rules rules = plain();
        rules.restart = cases[i].restart;
        run_command(&f, rules);
        exits(&f, cases[i].failed);
        assert_resigns(&f, TEN_REASON_DONE, cases[i].again ? 200 : UINT64_MAX);
        assert_next(&f, TEN_TERM_WORK_OVER);
        assert_int_equal(f.term.state, cases[i].again ? TEN_TERM_WAITING : TEN_TERM_OVER);
    }
}

TEST(brief_commands_are_started_after_longer_and_longer_pauses) {
    struct fixture f;
    set_up(&f, plain());
    const uint64_t pauses_ms[] = {200, 400, 800, 200};
    for (size_t i = 0; i < TEN_COUNT(pauses_ms); i++) {
        elect(&f, i + 1);
        assert_next(&f, TEN_TERM_START_COMMAND);
        f.now_ms += i == 3 ? STEADY : STEADY - 1;
        exits(&f, false);
        assert_resigns(&f, TEN_REASON_DONE, pauses_ms[i]);
        assert_next(&f, TEN_TERM_WORK_OVER);
    }
}

/* ---- once */

TEST(once_ends_with_its_command) {
    struct fixture f;
    run_command(&f, once());
    exits(&f, true);
    assert_resigns(&f, TEN_REASON_DONE, UINT64_MAX);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_int_equal(f.term.state, TEN_TERM_OVER);
    assert_outcome(&f, TEN_TERM_COMMAND_END);
}

TEST(once_that_lost_its_lease_says_so) {
    struct fixture f;
    run_command(&f, once());
    lose(&f);
    assert_next(&f, TEN_TERM_ASK);
    exits(&f, true);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_int_equal(f.term.state, TEN_TERM_OVER);
    assert_outcome(&f, TEN_TERM_LOST);
    f.term.stops = 1; /* also when it was told to stop meanwhile */
    assert_outcome(&f, TEN_TERM_LOST);
}

TEST(once_that_is_stopped_ends_as_its_command_does) {
    struct fixture f;
    run_command(&f, once());
    ten_term_stop(&f.term);
    assert_resigns(&f, TEN_REASON_SHUTDOWN, UINT64_MAX);
    assert_next(&f, TEN_TERM_PASS_STOP);
    exits(&f, true);
    assert_next(&f, TEN_TERM_WORK_OVER);
    assert_outcome(&f, TEN_TERM_COMMAND_END);
}

TEST(once_waits_for_the_role_until_its_time_is_over) {
    struct fixture f;
    set_up(&f, once());
    f.facts.held = true;
    assert_int_equal(ten_term_next_ms(&f.term, &f.facts, f.now_ms), WAIT_UNTIL);
    f.now_ms = WAIT_UNTIL - 1;
    assert_next(&f, TEN_TERM_NOTHING);
    assert_int_equal(f.term.state, TEN_TERM_WAITING);
    f.now_ms++;
    f.facts.recovering_until_ms = WAIT_UNTIL + 500; /* that the store lets nobody in says nothing */
    assert_next(&f, TEN_TERM_NOTHING);
    assert_int_equal(f.term.state, TEN_TERM_WAITING);
    assert_int_equal(ten_term_next_ms(&f.term, &f.facts, f.now_ms), WAIT_UNTIL + 500);
    f.now_ms += 500;
    assert_next(&f, TEN_TERM_NOTHING);
    assert_int_equal(f.term.state, TEN_TERM_OVER);
    assert_outcome(&f, TEN_TERM_NOT_ELECTED);
}

TEST(once_that_has_heard_nothing_waits_for_an_answer_without_spinning) {
    struct fixture f;
    set_up(&f, once());
    f.now_ms = WAIT_UNTIL;
    assert_next(&f, TEN_TERM_NOTHING);
    assert_int_equal(f.term.state, TEN_TERM_WAITING);
    assert_int_equal(ten_term_next_ms(&f.term, &f.facts, f.now_ms), UINT64_MAX);
    f.facts.error = TENURE_E_UNREACHABLE;
    assert_next(&f, TEN_TERM_NOTHING);
    assert_int_equal(f.term.state, TEN_TERM_OVER);
    assert_outcome(&f, TEN_TERM_UNKNOWN);
}

TEST(once_that_is_stopped_before_it_got_the_role_says_so) {
    struct fixture f;
    set_up(&f, once());
    ten_term_stop(&f.term);
    assert_resigns(&f, TEN_REASON_SHUTDOWN, UINT64_MAX);
    assert_next(&f, TEN_TERM_NOTHING);
    assert_outcome(&f, TEN_TERM_STOPPED);
}

TEST(an_instance_that_is_refused_ends) {
    struct fixture f;
    set_up(&f, plain());
    f.facts.refused = true;
    f.facts.error = TENURE_E_GONE;
    assert_next(&f, TEN_TERM_NOTHING);
    assert_int_equal(f.term.state, TEN_TERM_OVER);
    assert_outcome(&f, TEN_TERM_REFUSED);
}

/* ---- broken records */

static void look(void *arg) {
    (void)next(arg);
}

/* Two commands would run. */
TEST(a_new_term_beside_work_that_is_not_over_aborts) {
    struct fixture f;
    run_command(&f, plain());
    f.term.state = TEN_TERM_WAITING;
    elect(&f, 8);
    assert_aborts(look, &f);
}
