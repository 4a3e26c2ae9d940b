/*
 * Scenarios of elections, by name: each fault on its own, so that a failure says which; and crowds and long runs that
 * the random ones are too small for. Role 0 is the one looked at.
 */
#include <inttypes.h>
#include <string.h>

#include "candidate.h"

enum { LOOK = 1 };

static void script(struct sim_world *world, uint64_t number) {
    if (number != LOOK)
        return;
    if (world->calm)
        sim_check_roles(world);
    sim_push(world, sim_ttl_us(world) / 20, (struct sim_event){.kind = SIM_SCRIPT, .number = LOOK});
}

static void run_for(struct sim_world *world, uint64_t for_us) {
    sim_run_until(world, world->now_us + for_us, script);
}

static void run_for_ttls(struct sim_world *world, double ttls) {
    run_for(world, (uint64_t)((double)sim_ttl_us(world) * ttls));
}

/* So many candidates, and the leader that they have after a moment. */
static struct sim_process *start_election(struct sim_world *world, enum sim_style style, uint32_t count) {
    world->roles[0].style = style;
    world->roles[0].endless = style == SIM_COMMAND && world->roles[0].pause_us == 0;
    for (uint32_t i = 0; i < count; i++)
        sim_candidate_start(world, 0);
    world->calm = true;
    sim_begin_role_checks(world);
    sim_push(world, 0, (struct sim_event){.kind = SIM_SCRIPT, .number = LOOK});
    run_for(world, 100 * SIM_MS);
    struct sim_process *leader = sim_leader_of(world, 0);
    if (!leader)
        sim_fail(world, 0, "%u candidates have started, but nobody leads", count);
    return world->failed ? NULL : leader;
}

static void expect_another(struct sim_world *world, const struct sim_process *former, const char *when) {
    const struct sim_process *leader = sim_leader_of(world, 0);
    if (!leader || leader == former)
        sim_fail(world, 0, "%s, another than %s should lead, but it is %s", when, former->id,
                 leader ? leader->id : "nobody");
}

static void expect_unbelieving(struct sim_world *world, const struct sim_process *process, const char *when) {
    if (sim_is_leader(world, process))
        sim_fail(world, 0, "%s, %s should not believe that it leads, but does", when, process->id);
    if (process->pieces[0].working)
        sim_fail(world, 0, "%s, %s should not work any more, but does", when, process->id);
}

/* ---- deaths */

static void run_deaths(struct sim_world *world) {
    struct sim_process *leader = start_election(world, SIM_COMMAND, 3);
    static const char *const ways[] = {"after the death of its host", "after its death", "after its graceful stop"};
    const double ttls[] = {1.1, 0.1, 0.3};
    for (uint32_t i = 0; i < TEN_COUNT(ways) && !world->failed; i++) {
        if (i == 2)
            sim_stop(world, leader);
        else
            sim_crash(world, leader, i == 0);
        run_for(world, 100 * SIM_MS);
        run_for_ttls(world, ttls[i]);
        expect_another(world, leader, ways[i]);
        leader = sim_leader_of(world, 0);
        sim_candidate_start(world, 0);
    }
}

/* ---- pauses */

static void run_pause(struct sim_world *world) {
    struct sim_process *leader = start_election(world, SIM_COMMAND, 2);
    if (!leader)
        return;
    world->calm = false;
    sim_pause(world, leader, 2 * sim_ttl_us(world));
    run_for_ttls(world, 0.999);
    expect_unbelieving(world, leader, "stopped for nearly a TTL");
    run_for_ttls(world, 0.2);
    expect_another(world, leader, "stopped for longer than a TTL");
    run_for_ttls(world, 1);
    expect_unbelieving(world, leader, "woken");
}

static void run_suspend(struct sim_world *world) {
    struct sim_process *leader = start_election(world, SIM_FUNCTION, 2);
    if (!leader)
        return;
    world->calm = false;
    sim_pause(world, leader, 3 * sim_ttl_us(world));
    run_for(world, 3 * sim_ttl_us(world) - 1);
    expect_unbelieving(world, leader, "suspended for 3 TTL");
    expect_another(world, leader, "suspended for 3 TTL");
    run_for_ttls(world, 1);
    expect_unbelieving(world, leader, "woken");
}

/* The one candidate that there is wakes while its work still runs: its next term has to wait for the end of it. */
static void run_overtime(struct sim_world *world) {
    struct sim_process *leader = start_election(world, SIM_FUNCTION, 1);
    world->calm = false;
    world->long_work = true;
    for (uint32_t i = 0; i < 40 && !world->failed; i++) {
        sim_pause(world, leader, 2 * sim_ttl_us(world));
        run_for_ttls(world, 6);
        if (sim_leader_of(world, 0) != leader)
            sim_fail(world, 0, "%s has been awake for 4 TTL and is the only candidate, but does not lead", leader->id);
    }
    if (world->stats.overtimes < 10)
        sim_fail(world, 0, "work should have run too long 10 times, but did %" PRIu64 " times", world->stats.overtimes);
}

/* ---- answers that are lost or late */

static void run_until_held(struct sim_world *world) {
    for (uint32_t i = 0; i < 1000 && !sim_held(world, 0) && !world->failed; i++)
        run_for(world, SIM_MS / 10);
}

static void run_lost_answer(struct sim_world *world) {
    struct sim_process *candidate = sim_candidate_start(world, 0);
    run_until_held(world);
    candidate->cut_replies = true;
    run_for_ttls(world, 0.1);
    candidate->cut_replies = false;
    run_for_ttls(world, 0.3);
    const ten_lease_row *held = sim_held(world, 0);
    if (!sim_is_leader(world, candidate) || !held || held->token != 1)
        sim_fail(world, 0, "%s should have recognised itself and lead with token 1, but the store's is %" PRIu64,
                 candidate->id, held ? held->token : 0);
}

static void run_late_answer(struct sim_world *world) {
    struct sim_process *candidate = sim_candidate_start(world, 0);
    run_until_held(world);
    sim_pause(world, candidate, 2 * sim_ttl_us(world));
    sim_candidate_start(world, 0);
    run_for_ttls(world, 1.2);
    expect_another(world, candidate, "while its answer waits for 2 TTL");
    run_for_ttls(world, 1);
    expect_unbelieving(world, candidate, "with an answer that is 2 TTL old");
}

/* ---- partitions */

static void run_one_way(struct sim_world *world) {
    for (uint32_t way = 0; way < 2 && !world->failed; way++) {
        struct sim_process *leader = way ? sim_leader_of(world, 0) : start_election(world, SIM_COMMAND, 3);
        if (!leader)
            return;
        world->calm = false;
        leader->cut_requests = way == 0;
        leader->cut_replies = way == 1;
        run_for_ttls(world, 0.999);
        expect_unbelieving(world, leader, "cut off for nearly a TTL");
        run_for_ttls(world, 1);
        expect_another(world, leader, "cut off for 2 TTL");
        leader->cut_requests = leader->cut_replies = false;
        run_for_ttls(world, 1.5);
        if (!world->failed && !sim_leader_of(world, 0))
            sim_fail(world, 0, "1.5 TTL after the end of the partition somebody should lead, but nobody does");
    }
}

/* The slowest clock leads, the fastest waits. */
static void run_clocks(struct sim_world *world) {
    struct sim_process *slow = sim_candidate_start(world, 0);
    slow->rate = 0.95;
    run_until_held(world);
    struct sim_process *fast = sim_candidate_start(world, 0);
    fast->offset_us += (fast->rate - 1.05) * (double)world->now_us;
    fast->rate = 1.05;
    for (uint32_t i = 0; i < 20 && !world->failed; i++) {
        run_for_ttls(world, 2);
        struct sim_process *leader = sim_leader_of(world, 0);
        if (!leader)
            sim_fail(world, 0, "in good weather somebody should lead, but nobody does");
        else {
            leader->cut_requests = leader->cut_replies = true;
            run_for_ttls(world, 1.2);
            expect_another(world, leader, "cut off for 1.2 TTL");
            leader->cut_requests = leader->cut_replies = false;
        }
    }
}

/* ---- the store fails */

static void run_outage(struct sim_world *world) {
    struct sim_process *leader = start_election(world, SIM_COMMAND, 4);
    if (!leader)
        return;
    world->calm = false;
    world->requests_max = 30;
    world->weather.refusing = true;
    run_for_ttls(world, 3);
    expect_unbelieving(world, leader, "without a store for 3 TTL");
    world->weather.refusing = false;
    run_for_ttls(world, 0.3);
    if (!world->failed && !sim_leader_of(world, 0))
        sim_fail(world, 0, "the store has been back for 0.3 TTL, but nobody leads");
}

/* ---- what is kept */

static void run_until_elected(struct sim_world *world) {
    uint64_t token = world->roles[0].term_token;
    for (uint32_t i = 0; i < 2000 && world->roles[0].term_token == token && !world->failed; i++)
        run_for_ttls(world, 0.01);
    if (world->roles[0].term_token == token)
        sim_fail(world, 0, "20 TTL have passed since the term of %" PRIu64 " began, but there is no other", token);
}

static void run_kept(struct sim_world *world) {
    struct sim_role *role = &world->roles[0];
    role->at_least_ms = 4 * world->timing.ttl_ms;
    (void)start_election(world, SIM_ONCE, 8);
    for (uint32_t way = 0; way < 6 && !world->failed; way++) {
        uint64_t kept_us = role->kept_us;
        if (way % 3 < 2) /* else its work ends by itself */
            sim_crash(world, sim_find_process(world, role->kept_by), way % 3 == 0);
        run_until_elected(world);
        /* The others may have been told of a TTL more. */
        if (world->now_us > kept_us + 3 * sim_ttl_us(world) / 2)
            sim_fail(world, 0, "the role was to be kept until %.3f ms, but nobody got it before %.3f ms",
                     (double)kept_us / 1000, (double)world->now_us / 1000);
    }
}

/* ---- work that is over */

static void run_done(struct sim_world *world) {
    world->roles[0].pause_us = sim_ttl_us(world) / 4; /* the least that a command takes is twice as much */
    const struct sim_process *former = start_election(world, SIM_COMMAND, 2);
    for (uint32_t i = 0; i < 200 && !world->failed; i++) {
        run_until_elected(world);
        expect_another(world, former, "when its work is over");
        former = sim_leader_of(world, 0);
        run_for_ttls(world, 0.2);
    }
}

/* ---- many */

static void run_crowd(struct sim_world *world) {
    enum { COUNT = 20 };
    world->requests_max = 15;
    for (uint32_t i = 0; i < 5 && !world->failed; i++) {
        uint64_t refused = world->refused;
        struct sim_process *leader = i ? sim_leader_of(world, 0) : start_election(world, SIM_FUNCTION, COUNT);
        if (i && leader) {
            sim_crash(world, leader, true);
            run_for_ttls(world, 1.2);
            expect_another(world, leader, "after the death of its host");
            sim_candidate_start(world, 0);
        }
        if (world->refused - refused > 4 * COUNT)
            sim_fail(world, 0, "%u candidates wanted the role once, but %" PRIu64 " campaigns were refused", COUNT,
                     world->refused - refused);
    }
}

static void run_handoffs(struct sim_world *world) {
    enum { COUNT = 1000, REQUESTS = 40 };
    const struct sim_process *leader = start_election(world, SIM_FUNCTION, 4);
    world->longest_gap_us = 0;
    uint64_t requests = world->stats.requests;
    for (uint32_t i = 0; i < COUNT && !world->failed; i++) {
        if (!sim_ask_leader(world, 0))
            sim_fail(world, 0, "after %u handoffs nobody leads", i);
        run_for_ttls(world, 0.4 + (double)sim_random(world, 100) / 1000);
        expect_another(world, leader, "after it was asked to resign");
        leader = sim_leader_of(world, 0);
    }
    for (uint32_t i = 0; i < 4 && !world->failed; i++)
        if (world->processes[i]->candidate->terms < COUNT / 8)
            sim_fail(world, 0, "of %u terms %s had only %u: whoever has led should go to the end of the line", COUNT,
                     world->processes[i]->id, world->processes[i]->candidate->terms);
    if (world->longest_gap_us > 50 * SIM_MS)
        sim_fail(world, 0, "the role was free for %.3f ms in a handoff, but 50 ms is the bound",
                 (double)world->longest_gap_us / 1000);
    if (!world->failed && world->stats.requests - requests > (uint64_t)COUNT * REQUESTS)
        sim_fail(world, 0, "%u handoffs took %" PRIu64 " requests, but %u each is the bound", COUNT,
                 world->stats.requests - requests, REQUESTS);
}

/* Until so many us after the beginning. The calls that everybody has sent since then. */
static uint64_t count_calls(struct sim_world *world, uint64_t began_us, uint64_t for_us, uint64_t before) {
    run_for(world, began_us + for_us - world->now_us);
    return world->stats.requests - before;
}

/* Sixty candidates that know each other. Whoever leads is asked to resign: one tries, and each reads the feed once. What
 * a handoff costs is what is sent beyond the heartbeats of the same time without one. */
static void run_line(struct sim_world *world) {
    enum { COUNT = 60, HANDOFFS = 20, CALLS = COUNT + 20 };
    const uint64_t each_us = sim_ttl_us(world) * 6 / 10;
    uint64_t busy = 0, idle = 0;
    const struct sim_process *leader = start_election(world, SIM_FUNCTION, COUNT);
    run_for_ttls(world, 2);
    for (uint32_t i = 0; i < HANDOFFS && !world->failed; i++) {
        uint64_t refused = world->refused, before = world->stats.requests, began_us = world->now_us;
        leader = sim_leader_of(world, 0);
        if (!leader || !sim_ask_leader(world, 0))
            sim_fail(world, 0, "after %u handoffs nobody leads", i);
        for (uint32_t ms = 0; ms < 400 && sim_leader_of(world, 0) == leader && !world->failed; ms++) {
            refused = world->refused;
            run_for(world, SIM_MS);
        }
        run_for(world, 60 * SIM_MS);
        expect_another(world, leader, "after it was asked to resign");
        /* Some try in this moment because the lease would have ended now, had it not been renewed. */
        if (world->refused - refused > COUNT / 3)
            sim_fail(world, 0, "one release made %" PRIu64 " candidates try in vain", world->refused - refused);
        busy += count_calls(world, began_us, each_us, before);
        before = world->stats.requests;
        idle += count_calls(world, world->now_us, each_us, before);
    }
    if (!world->failed && busy > idle + HANDOFFS * CALLS)
        sim_fail(world, 0, "a handoff took %" PRIu64 " calls on average, but %u is the bound", (busy - idle) / HANDOFFS,
                 CALLS);
}

static void run_dead_first(struct sim_world *world) {
    struct sim_process *leader = start_election(world, SIM_COMMAND, 5);
    run_for_ttls(world, 1);
    if (!leader)
        return;
    for (uint32_t i = 0; i < 5; i++) /* the next in the line cannot be reached, and nobody knows that yet */
        if (world->processes[i] != leader && i < 3)
            world->processes[i]->cut_requests = true;
    world->longest_gap_us = 0;
    sim_stop(world, leader);
    run_for_ttls(world, 0.2);
    expect_another(world, leader, "while the next in the line are cut off");
    if (!world->failed && world->longest_gap_us > 150 * SIM_MS)
        sim_fail(world, 0, "the role was free for %.3f ms, although three candidates live",
                 (double)world->longest_gap_us / 1000);
}

/* Whoever waits with a longer TTL than the leader's gets the role when the leader's lease ends, and not after its own TTL. */
static void run_longer_ttl(struct sim_world *world) {
    ten_timing patient = {.ttl_ms = 30 * world->timing.ttl_ms};
    ten_timing_defaults(&patient);
    struct sim_process *first = start_election(world, SIM_FUNCTION, 2);
    world->calm = false;
    if (!first)
        return;
    struct sim_process *other = world->processes[world->processes[0] == first];
    struct sim_process *waiter = sim_candidate_start_timed(world, 0, -1, &patient);
    run_for_ttls(world, 2);
    sim_stop(world, first);
    for (uint32_t ms = 0; ms < 1000 && sim_leader_of(world, 0) != other && !world->failed; ms++)
        run_for(world, SIM_MS);
    run_for_ttls(world, 0.1);
    sim_crash(world, other, true);
    run_for_ttls(world, 1.3);
    if (!world->failed && sim_leader_of(world, 0) != waiter)
        sim_fail(world, 0, "%s died 1.3 TTL ago, and %s waits, but does not lead", other->id, waiter->id);
}

/* ---- priorities */

/* Whoever has the highest priority leads when the role becomes free, and after the failback also when it was led. */
static void run_failback(struct sim_world *world) {
    world->roles[0].style = SIM_COMMAND;
    world->roles[0].endless = true;
    world->roles[0].failback_ms = world->timing.ttl_ms / 2;
    for (uint32_t i = 0; i < 3; i++)
        sim_candidate_start_with(world, 0, 1);
    run_for_ttls(world, 2);
    struct sim_process *former = sim_leader_of(world, 0);
    struct sim_process *better = sim_candidate_start_with(world, 0, 5);
    run_for_ttls(world, 0.3);
    if (!world->failed && sim_leader_of(world, 0) != former)
        sim_fail(world, 0, "%s was there for too short a time, but the leader has stepped down for it", better->id);
    run_for_ttls(world, 2.2);
    if (!world->failed && sim_leader_of(world, 0) != better)
        sim_fail(world, 0, "%s has the highest priority and has been there for 2.5 TTL, but does not lead", better->id);
    uint64_t token = world->roles[0].term_token;
    run_for_ttls(world, 10);
    if (!world->failed && world->roles[0].term_token != token)
        sim_fail(world, 0, "the role changed hands, although its best candidate led");
    sim_crash(world, better, true);
    run_for_ttls(world, 2);
    expect_another(world, better, "after its death");
    token = world->roles[0].term_token;
    run_for_ttls(world, 10);
    if (!world->failed && world->roles[0].term_token != token)
        sim_fail(world, 0, "the role changed hands, although all candidates are equal");
}

/* A leader that becomes unfit makes way at once; with nobody fit nobody leads; whoever is fit again does. */
static void run_unfit(struct sim_world *world) {
    struct sim_process *leader = start_election(world, SIM_COMMAND, 2);
    run_for_ttls(world, 1);
    if (!leader)
        return;
    world->calm = false;
    ten_election_set_fit(&leader->candidate->election, false, sim_local_ms(leader, world->now_us));
    sim_drive(world, leader);
    run_for_ttls(world, 0.5);
    expect_another(world, leader, "while it is unfit");
    struct sim_process *other = sim_leader_of(world, 0);
    if (world->failed)
        return;
    ten_election_set_fit(&other->candidate->election, false, sim_local_ms(other, world->now_us));
    sim_drive(world, other);
    run_for_ttls(world, 3);
    if (sim_held(world, 0))
        sim_fail(world, 0, "nobody is fit, but somebody leads");
    ten_election_set_fit(&leader->candidate->election, true, sim_local_ms(leader, world->now_us));
    sim_drive(world, leader);
    run_for_ttls(world, 0.5);
    if (!world->failed && sim_leader_of(world, 0) != leader)
        sim_fail(world, 0, "%s is fit again and alone, but does not lead", leader->id);
}

/* A leader that is drained makes way when its work is over, and nobody who is drained leads; whoever may again does. */
static void run_drained(struct sim_world *world) {
    struct sim_process *leader = start_election(world, SIM_COMMAND, 2);
    run_for_ttls(world, 1);
    if (!leader)
        return;
    world->calm = false;
    if (!sim_ask_instance(world, leader, TEN_ASK_DRAIN))
        sim_fail(world, 0, "%s is not announced", leader->id);
    run_for_ttls(world, 0.2);
    expect_another(world, leader, "while it is drained");
    const struct sim_process *other = sim_leader_of(world, 0);
    if (world->failed)
        return;
    run_for_ttls(world, 3); /* it stays announced, and so it can be undone */
    (void)sim_ask_instance(world, other, TEN_ASK_DRAIN);
    run_for_ttls(world, 3);
    if (sim_held(world, 0))
        sim_fail(world, 0, "everybody is drained, but somebody leads");
    if (!sim_ask_instance(world, leader, TEN_ASK_UNDO))
        sim_fail(world, 0, "%s is no longer announced", leader->id);
    run_for_ttls(world, 0.2);
    if (!world->failed && sim_leader_of(world, 0) != leader)
        sim_fail(world, 0, "%s may lead again and is alone, but does not", leader->id);
}

/* ---- slots */

static uint32_t held_slots(const struct sim_world *world, const struct sim_process *process) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_lease_row *held = sim_held(world, i);
        count += held && strcmp(held->holder, process->id) == 0;
    }
    return count;
}

static void run_slots(struct sim_world *world) {
    world->roles[0].style = SIM_COMMAND;
    world->roles[0].endless = true;
    sim_make_slots(world, 0, world->target_count);
    for (uint32_t i = 0; i < 8; i++)
        sim_candidate_start(world, 0);
    run_for_ttls(world, 1);
    for (uint32_t i = 0; i < world->target_count && !world->failed; i++)
        if (!sim_leader_of(world, i))
            sim_fail(world, i, "eight candidates have started, but nobody has this slot");
    for (uint32_t i = 0; i < 100 && !world->failed; i++) {
        uint32_t slot = (uint32_t)sim_random(world, world->target_count);
        struct sim_process *leader = sim_leader_of(world, slot);
        if (leader && i % 2)
            sim_crash(world, leader, i % 4 == 1);
        else if (leader)
            sim_ask_leader(world, slot);
        if (leader && i % 2)
            sim_candidate_start(world, 0);
        run_for_ttls(world, 1.5);
        for (uint32_t j = 0; j < world->live_count && !world->failed; j++)
            if (held_slots(world, world->processes[world->live[j]]) > 1)
                sim_fail(world, slot, "%s has more than one slot", world->processes[world->live[j]]->id);
    }
}

static void run_slot_lost_answer(struct sim_world *world) {
    world->roles[0].style = SIM_COMMAND;
    sim_make_slots(world, 0, world->target_count);
    for (uint32_t i = 0; i < 20 && !world->failed; i++) {
        struct sim_process *candidate = sim_candidate_start(world, 0);
        for (uint32_t j = 0; j < 1000 && !candidate->candidate->election.looked && !world->failed; j++)
            run_for(world, SIM_MS / 10);
        candidate->cut_replies = true;
        run_for_ttls(world, 0.3);
        candidate->cut_replies = false;
        run_for_ttls(world, 0.4);
        if (!sim_is_leader(world, candidate) || held_slots(world, candidate) != 1)
            sim_fail(world, 0, "%s missed the answer to its campaign, and has %u slots now", candidate->id,
                     held_slots(world, candidate));
        sim_stop(world, candidate);
        run_for_ttls(world, 2);
    }
}

/* ---- all of them */

#define SCENARIO(sentence, function)                                                                                   \
    { .name = sentence, .run = function, .finds_mutants = true, .election = true, .targets = 1, .ttl_ms = 2000 }

#define SLOTS(sentence, function)                                                                                      \
    { .name = sentence, .run = function, .finds_mutants = true, .election = true, .targets = 3, .ttl_ms = 2000 }

const struct sim_scenario sim_election_scenarios[] = {
    SCENARIO("a dead leader's role is taken over when its lease ends, or as soon as its warden releases it",
             run_deaths),
    SCENARIO("a leader that is stopped for longer than the TTL has lost its role and its work", run_pause),
    SCENARIO("a suspended leader believes nothing when it wakes", run_suspend),
    SCENARIO("a candidate whose old work still runs begins no new term", run_overtime),
    SCENARIO("a candidate that misses the answer to its campaign recognises itself", run_lost_answer),
    SCENARIO("an answer that is read after its deadline makes no leader", run_late_answer),
    SCENARIO("a leader that is cut off in one direction steps down in time", run_one_way),
    SCENARIO("clocks that run 10 % apart make no second leader", run_clocks),
    SCENARIO("a store that refuses everybody is asked seldom, and there is a leader soon after", run_outage),
    SCENARIO("a role with a least time is kept for it, although its process dies", run_kept),
    SCENARIO("whose work is over lets others go first", run_done),
    SCENARIO("twenty candidates that start at once have one leader, and send few requests", run_crowd),
    SCENARIO("in a thousand handoffs the role is never free for long, and everybody gets a turn", run_handoffs),
    SCENARIO("a release makes one of sixty candidates try", run_line),
    SCENARIO("dead candidates at the head of the line cost a short delay each", run_dead_first),
    SCENARIO("a candidate with a long TTL does not wait for it when the leader's is short", run_longer_ttl),
    SCENARIO("a better candidate leads after the failback, and the role stays with it", run_failback),
    SCENARIO("an unfit leader makes way, and leads again when it is fit", run_unfit),
    SCENARIO("a drained leader makes way, and leads again when that is undone", run_drained),
    SLOTS("every slot of a role has one holder, and nobody has two", run_slots),
    SLOTS("a candidate that misses the answer to its campaign gets the same slot, and no other", run_slot_lost_answer),
};
const size_t sim_election_scenario_count = TEN_COUNT(sim_election_scenarios);
