/*
 * Scenarios that the random runs are too small or too short for: crowds, churn, deploys, a suspended host, and how much
 * a change of the fleet moves.
 */
#include <inttypes.h>
#include <string.h>

#include "candidate.h"

static void add_targets(struct sim_world *world) {
    for (uint32_t i = 0; i < world->target_count; i++)
        sim_edit_target(world, i, TEN_TARGET_PUT);
}

/* ---- many start at once */

static void on_start(struct sim_world *world, uint64_t number) {
    (void)number;
    sim_start(world, 1, false);
}

static void start_crowd(struct sim_world *world, uint32_t count, uint32_t requests_max, uint32_t lists_max) {
    add_targets(world);
    world->lists_max = lists_max;
    world->calm = true;
    world->requests_max = requests_max;
    for (uint32_t i = 0; i < count; i++)
        sim_push(world, sim_random(world, SIM_SECOND), (struct sim_event){.kind = SIM_SCRIPT});
    sim_run_until(world, 3 * sim_ttl_us(world), on_start);
    if (world->failed)
        return;
    if (world->live_count != count)
        sim_fail(world, SIM_NOBODY, "%u instances were started, but %u live", count, world->live_count);
    sim_check_settled(world, true);
    if (world->refused > 2 * world->target_count)
        sim_fail(world, SIM_NOBODY, "%" PRIu64 " acquires were refused, but there are only %u targets", world->refused,
                 world->target_count);
    uint64_t moves = world->moves;
    sim_run_until(world, 4 * sim_ttl_us(world), on_start);
    if (world->moves != moves)
        sim_fail(world, SIM_NOBODY, "the crowd has settled, but %" PRIu64 " targets moved", world->moves - moves);
}

static void run_large_crowd(struct sim_world *world) {
    start_crowd(world, 1000, 40, 12);
}

static void run_crowd(struct sim_world *world) {
    start_crowd(world, 300, 40, 12);
}

/* Each of the joins is read by itself, every other reading is followed by one that finds the end, and the instances are
 * listed: 60 + 30 + 20, and some for its own start. */
static void run_small_crowd(struct sim_world *world) {
    start_crowd(world, 60, 120, 20);
}

/* ---- joining and leaving all the time */

#define CHURN_SECONDS 600u
#define CHURN_LIVE    6u

static void churn(struct sim_world *world, uint64_t number) {
    if (number < CHURN_SECONDS)
        sim_push(world, SIM_SECOND, (struct sim_event){.kind = SIM_SCRIPT, .number = number + 1});
    if (number % 2 == 0) {
        sim_start(world, 1, false);
        return;
    }
    struct sim_process *process = world->processes[world->live[sim_random(world, world->live_count)]];
    uint64_t way = sim_random(world, 3);
    if (way == 0 && !process->stopping)
        sim_stop(world, process);
    else
        sim_crash(world, process, way == 1);
}

static void run_churn(struct sim_world *world) {
    add_targets(world);
    for (uint32_t i = 0; i < CHURN_LIVE; i++)
        sim_start(world, 1, false);
    sim_run_until(world, 4 * sim_ttl_us(world), churn);
    uint64_t before = world->moves;
    sim_push(world, 0, (struct sim_event){.kind = SIM_SCRIPT});
    sim_run_until(world, world->now_us + (CHURN_SECONDS + 1) * SIM_SECOND, churn);
    /* A join or a leave has to move one part of what there is. */
    uint64_t least = (uint64_t)CHURN_SECONDS * world->target_count / (CHURN_LIVE + 1);
    if (world->moves - before > 2 * least)
        sim_fail(world, SIM_NOBODY, "%u joins and leaves have to move %" PRIu64 " targets, but %" PRIu64 " moved",
                 CHURN_SECONDS, least, world->moves - before);
    sim_run_until(world, world->now_us + 6 * sim_ttl_us(world), churn);
    if (!world->failed)
        sim_check_settled(world, true);
}

/* ---- a crash loop */

enum { CRASH_LOOP_STEADY = 3, CRASH_LOOP_TARGETS = 60, CRASH_LOOP_TTLS = 8 };

#define CRASH_LOOP(life_ms, count) ((life_ms) << 16 | (count))

/* The newest instance dies, and its host with it, so that each life stays announced for a TTL; then the next one starts.
 * `number`: how long it lives, in ms, and how many are to come. */
static void crash_loop(struct sim_world *world, uint64_t number) {
    uint64_t life_ms = number >> 16, count = number & 0xffff;
    for (uint32_t i = 0; i < world->live_count; i++)
        if (world->live[i] >= CRASH_LOOP_STEADY)
            sim_crash(world, world->processes[world->live[i]], true);
    if (count == 0)
        return;
    sim_start(world, 1, false);
    sim_push(world, life_ms * SIM_MS, (struct sim_event){.kind = SIM_SCRIPT, .number = CRASH_LOOP(life_ms, count - 1)});
}

/* For some time, in which no target may be free for longer than the bound. */
static void watch_crash_loop(struct sim_world *world, uint64_t life_ms) {
    uint64_t held_us[CRASH_LOOP_TARGETS];
    uint64_t bound_us = 2 * sim_ttl_us(world), longest_us = 0;
    uint64_t end_us = world->now_us + CRASH_LOOP_TTLS * sim_ttl_us(world);
    for (uint32_t i = 0; i < CRASH_LOOP_TARGETS; i++)
        held_us[i] = world->now_us;
    while (world->now_us < end_us && !world->failed) {
        sim_run_until(world, world->now_us + 20 * SIM_MS, crash_loop);
        for (uint32_t i = 0; i < CRASH_LOOP_TARGETS; i++) {
            held_us[i] = sim_held(world, i) ? world->now_us : held_us[i];
            longest_us = ten_max_u64(longest_us, world->now_us - held_us[i]);
        }
    }
    if (longest_us > bound_us)
        sim_fail(world, SIM_NOBODY,
                 "a target was free for %" PRIu64 " ms beside an instance that dies every %" PRIu64 " ms, but %" PRIu64
                 " ms is the bound",
                 longest_us / SIM_MS, life_ms, bound_us / SIM_MS);
}

/* Whoever starts again and again, and dies soon, does not keep the others from taking over. */
static void run_crash_loop(struct sim_world *world) {
    add_targets(world);
    for (uint32_t i = 0; i < CRASH_LOOP_STEADY; i++)
        sim_start(world, 1, false);
    sim_run_until(world, 4 * sim_ttl_us(world), crash_loop);
    uint64_t ttl_ms = sim_ttl_us(world) / SIM_MS;
    uint64_t lives_ms[] = {ttl_ms / 30, world->settle_ms / 2, world->settle_ms * 3 / 4, world->settle_ms * 3 / 2};
    for (uint32_t i = 0; i < TEN_COUNT(lives_ms) && !world->failed; i++) {
        uint64_t count = CRASH_LOOP_TTLS * ttl_ms / lives_ms[i];
        sim_push(world, 0, (struct sim_event){.kind = SIM_SCRIPT, .number = CRASH_LOOP(lives_ms[i], count)});
        watch_crash_loop(world, lives_ms[i]);
        sim_run_until(world, world->now_us + 4 * sim_ttl_us(world), crash_loop);
    }
}

/* ---- a rolling deploy */

static void deploy(struct sim_world *world, uint64_t number) {
    if (number % 2 == 0)
        sim_start(world, 1, false);
    else
        sim_stop(world, world->processes[number / 2]);
}

static void run_deploy(struct sim_world *world) {
    enum { COUNT = 6 };
    add_targets(world);
    world->calm = true;
    for (uint32_t i = 0; i < COUNT; i++)
        sim_start(world, 1, false);
    sim_run_until(world, 4 * sim_ttl_us(world), deploy);
    world->longest_gap_us = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        sim_push(world, 2 * i * 2 * sim_ttl_us(world), (struct sim_event){.kind = SIM_SCRIPT, .number = 2 * i});
        sim_push(world, (2 * i + 1) * 2 * sim_ttl_us(world),
                 (struct sim_event){.kind = SIM_SCRIPT, .number = 2 * i + 1});
    }
    sim_run_until(world, world->now_us + (4 * COUNT + 4) * sim_ttl_us(world), deploy);
    uint64_t bound_us = (COUNT * world->rank_delay_ms + 50) * SIM_MS;
    if (world->longest_gap_us > bound_us)
        sim_fail(world, SIM_NOBODY,
                 "a target was free for %" PRIu64 " ms during the deploy, but %" PRIu64 " ms is the bound",
                 world->longest_gap_us / SIM_MS, bound_us / SIM_MS);
    if (!world->failed)
        sim_check_settled(world, true);
}

/* ---- pins */

static void nothing(struct sim_world *world, uint64_t number) {
    (void)world;
    (void)number;
}

/* Runs for so many TTLs, in which nobody may be without an owner for longer than a handover takes. */
static void run_pinned(struct sim_world *world, uint64_t ttls, const char *when) {
    world->longest_gap_us = 0;
    sim_run_until(world, world->now_us + ttls * sim_ttl_us(world), nothing);
    uint64_t bound_us = (world->live_count * world->rank_delay_ms + 50) * SIM_MS;
    if (!world->failed && world->longest_gap_us > bound_us)
        sim_fail(world, SIM_NOBODY, "a target was free for %" PRIu64 " ms %s, but %" PRIu64 " ms is the bound",
                 world->longest_gap_us / SIM_MS, when, bound_us / SIM_MS);
    if (!world->failed)
        sim_check_settled(world, true);
}

/* No more targets have moved than a plan that changed once can move. */
static void check_moves(struct sim_world *world, uint64_t before, uint64_t bound, const char *when) {
    if (!world->failed && world->moves - before > bound)
        sim_fail(world, SIM_NOBODY, "%" PRIu64 " targets moved %s, but %" PRIu64 " is the bound", world->moves - before,
                 when, bound);
}

/* Who holds what. */
static const char **note_holders(const struct sim_world *world) {
    const char **holders = sim_allocate(world->target_count, sizeof *holders);
    for (uint32_t i = 0; i < world->target_count; i++)
        holders[i] = sim_held(world, i) ? sim_find_process(world, sim_held(world, i)->holder)->id : "";
    return holders;
}

static uint32_t count_elsewhere(const struct sim_world *world, const char *const *holders) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->target_count; i++)
        count += !sim_held(world, i) || strcmp(sim_held(world, i)->holder, holders[i]) != 0;
    return count;
}

/* The same fleet without pins has the same plan as before. */
static void check_back(struct sim_world *world, const char *const *holders, const char *when) {
    if (!world->failed && count_elsewhere(world, holders) > 0)
        sim_fail(world, SIM_NOBODY, "%u targets are not where they were before they were pinned, %s",
                 count_elsewhere(world, holders), when);
}

/* Pins are set, end, are taken back; the instance that they name drains, comes back and dies. Nothing moves twice, nobody
 * is without an owner in between, and the shares stay even. */
static void run_pins(struct sim_world *world) {
    enum { COUNT = 4, PINS = 5 };
    struct sim_process *processes[COUNT];
    add_targets(world);
    world->calm = true;
    for (uint32_t i = 0; i < COUNT; i++)
        processes[i] = sim_start(world, 1, false);
    sim_run_until(world, 4 * sim_ttl_us(world), nothing);
    const char **holders = note_holders(world);
    uint64_t before = world->moves;
    for (uint32_t i = 0; i < PINS; i++)
        sim_pin(world, i, processes[1], false, 6 * sim_ttl_us(world));
    for (uint32_t i = PINS, found = 0; i < world->target_count && found < PINS && !world->failed; i++)
        if (strcmp(sim_held(world, i)->holder, processes[2]->id) == 0 && ++found)
            sim_pin(world, i, processes[2], true, 6 * sim_ttl_us(world));
    run_pinned(world, 4, "while targets were pinned");
    check_moves(world, before, count_elsewhere(world, holders), "when targets were pinned");
    before = world->moves;
    uint32_t to_move = count_elsewhere(world, holders);
    /* The clocks are further apart than the store: who is first to see the end of a pin could hand over at once. */
    world->weather = (struct sim_weather){.delay_us = SIM_MS / 10, .spread_us = SIM_MS / 10};
    sim_run_until(world, world->now_us + 4 * sim_ttl_us(world), nothing);
    world->weather = (struct sim_weather){.delay_us = SIM_MS, .spread_us = 2 * SIM_MS};
    check_moves(world, before, to_move, "when pins ended");
    check_back(world, holders, "when pins had ended");
    sim_pin(world, 0, processes[3], false, 1000 * sim_ttl_us(world));
    sim_pin(world, 1, processes[3], false, 1000 * sim_ttl_us(world));
    run_pinned(world, 2, "while targets were pinned again");
    sim_set_weight(world, processes[3], 0);
    run_pinned(world, 2, "when the instance that they were pinned to was drained");
    sim_set_weight(world, processes[3], 1);
    run_pinned(world, 2, "when it took its share again");
    sim_pin(world, 0, NULL, false, 0);
    sim_pin(world, 1, NULL, false, 0);
    run_pinned(world, 2, "when pins were taken back");
    check_back(world, holders, "when pins were taken back");
    free(holders);
    world->calm = false;
    sim_crash(world, processes[3], true);
    sim_run_until(world, world->now_us + 3 * sim_ttl_us(world), nothing);
    if (!world->failed)
        sim_check_settled(world, true);
}

/* ---- a suspended host */

static void suspend(struct sim_world *world, uint64_t number) {
    (void)world;
    (void)number;
}

static void run_suspend(struct sim_world *world) {
    add_targets(world);
    struct sim_process *sleeper = sim_start(world, 1, false);
    sim_start(world, 1, false);
    sim_run_until(world, 4 * sim_ttl_us(world), suspend);
    uint32_t held = (uint32_t)ten_fleet_owned_count(sleeper->fleet);
    sim_pause(world, sleeper, 3 * sim_ttl_us(world));
    sim_run_until(world, world->now_us + 3 * sim_ttl_us(world) - 1, suspend);
    for (uint32_t i = 0; i < world->target_count && !world->failed; i++) {
        ten_holding lease = ten_fleet_holding(sleeper->fleet, sleeper->pieces[i].number);
        if (ten_holding_is_confirmed(&lease, sim_local_ms(sleeper, world->now_us)))
            sim_fail(world, i, "%s slept for 3 TTL, but believes in %s", sleeper->id, world->targets[i].id);
        if (!sim_is_covered(world, i))
            sim_fail(world, i, "%s slept for 3 TTL, but nobody took %s over", sleeper->id, world->targets[i].id);
    }
    if (held == 0)
        sim_fail(world, SIM_NOBODY, "%s should have held something", sleeper->id);
    sim_run_until(world, world->now_us + 4 * sim_ttl_us(world), suspend);
    if (!world->failed)
        sim_check_settled(world, true);
}

/* The store has granted everything, but the answer waits for 2 TTL: others have it by then. */
static void run_late_answer(struct sim_world *world) {
    add_targets(world);
    struct sim_process *sleeper = sim_start(world, 1, false);
    for (uint32_t i = 0; i < 100000 && !sim_held(world, 0) && !world->failed; i++)
        sim_run_until(world, world->now_us + SIM_MS / 10, suspend);
    sim_pause(world, sleeper, 2 * sim_ttl_us(world));
    sim_start(world, 1, false);
    sim_run_until(world, world->now_us + 6 * sim_ttl_us(world), suspend);
    if (!world->failed)
        sim_check_settled(world, true);
}

/* ---- a flood of registrations */

#define FLOOD_FIRST 20u
#define EDITS_MAX   4000u

/* Somebody edits the registry all the time. */
static void edit_often(struct sim_world *world, uint64_t number) {
    sim_edit_target(world, world->target_count - 1, number % 2 ? TEN_TARGET_RESUME : TEN_TARGET_PAUSE);
    if (number + 1 < EDITS_MAX)
        sim_push(world, 5 * SIM_MS, (struct sim_event){.kind = SIM_SCRIPT, .number = number + 1});
}

/* Reading what was registered takes longer than a TTL. */
static void run_flood(struct sim_world *world) {
    world->weather.delay_us = 10 * SIM_MS;
    for (uint32_t i = 0; i < FLOOD_FIRST; i++)
        sim_edit_target(world, i, TEN_TARGET_PUT);
    for (unsigned i = 0; i < 2; i++)
        sim_start(world, 1, false);
    sim_run_until(world, 3 * sim_ttl_us(world), suspend);
    world->calm = true;
    for (uint32_t i = FLOOD_FIRST; i < world->target_count; i++)
        sim_edit_target(world, i, TEN_TARGET_PUT);
    sim_push(world, 0, (struct sim_event){.kind = SIM_SCRIPT});
    sim_run_until(world, world->now_us + 20 * sim_ttl_us(world), edit_often);
    if (!world->failed)
        sim_check_settled(world, true);
}

/* ---- a feed that is overrun all the time */

static bool *targets_of(const struct sim_world *world, const struct sim_process *holder) {
    bool *held = sim_allocate(world->target_count, sizeof *held);
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_lease_row *row = sim_held(world, i);
        held[i] = row && strcmp(row->holder, holder->id) == 0;
    }
    return held;
}

/* Overrun is not loss: whoever reads everything again goes on meanwhile. A page of the listing takes longer than the
 * pause between two readings of the feed, so one that begins anew each time would not end. */
static void run_overrun(struct sim_world *world) {
    enum { COUNT = 4, REMOVED = 7 };
    world->weather.delay_us = 10 * SIM_MS;
    add_targets(world);
    for (uint32_t i = 0; i < COUNT; i++)
        sim_start(world, 1, false);
    sim_run_until(world, 4 * sim_ttl_us(world), edit_often);
    world->weather.overrun = 1;
    world->calm = true;
    sim_push(world, 0, (struct sim_event){.kind = SIM_SCRIPT});
    sim_run_until(world, world->now_us + sim_ttl_us(world), edit_often);

    sim_edit_target(world, REMOVED, TEN_TARGET_REMOVE);
    sim_run_until(world, world->now_us + sim_ttl_us(world) / 2, edit_often);
    if (!world->failed && sim_held(world, REMOVED))
        sim_fail(world, REMOVED, "%s was removed half a TTL ago, but is held", world->targets[REMOVED].id);

    struct sim_process *victim = world->processes[1];
    bool *held = targets_of(world, victim);
    sim_crash(world, victim, true);
    sim_run_until(world,
                  world->now_us + sim_ttl_us(world) * 21 / 20 + COUNT * world->rank_delay_ms * SIM_MS + 200 * SIM_MS,
                  edit_often);
    for (uint32_t i = 0; i + 1 < world->target_count && !world->failed; i++)
        if (held[i] && !sim_is_covered(world, i) && !sim_is_changing_hands(world, i))
            sim_fail(world, i, "%s was held by %s, whose host died: nobody has taken it over", world->targets[i].id,
                     victim->id);
    free(held);

    /* A successor that hears late of its turn gets some of them later: half of its share will do. */
    struct sim_process *newcomer = sim_start(world, 1, false);
    sim_run_until(world, world->now_us + 3 * sim_ttl_us(world), edit_often);
    if (!world->failed && ten_fleet_owned_count(newcomer->fleet) < world->target_count / COUNT / 2)
        sim_fail(world, SIM_NOBODY, "%s joined 3 TTL ago, but has %zu targets", newcomer->id,
                 ten_fleet_owned_count(newcomer->fleet));
}

/* ---- a loss that the store does not notice */

/* Whoever holds something shows the store what it has lost: the first renewal begins an epoch, and everybody puts its
 * leases back under the tokens that they had. Later tokens are above all of them. */
static void run_silent_loss(struct sim_world *world) {
    enum { COUNT = 4 };
    add_targets(world);
    for (uint32_t i = 0; i < COUNT; i++)
        sim_start(world, 1, false);
    sim_run_until(world, 4 * sim_ttl_us(world), suspend);
    ten_lease_row *before = sim_allocate(world->target_count, sizeof *before);
    for (uint32_t i = 0; i < world->target_count && !world->failed; i++) {
        const ten_lease_row *row = sim_held(world, i);
        if (row)
            before[i] = *row;
        else
            sim_fail(world, i, "nobody holds %s after 4 TTL", world->targets[i].id);
    }
    sim_lose_data_silently(world);
    sim_run_until(world, world->now_us + sim_ttl_us(world) * 3 / 4, suspend);
    if (!world->failed && !sim_is_recovering(world))
        sim_fail(world, SIM_NOBODY, "every holder has shown its token, but no epoch has begun");
    for (uint32_t i = 0; i < world->target_count && !world->failed; i++) {
        const ten_lease_row *row = sim_held(world, i);
        if (!row || strcmp(row->holder, before[i].holder) != 0 || row->token != before[i].token)
            sim_fail(world, i, "%s had %s under token %" PRIu64 ", and has not put it back", before[i].holder,
                     world->targets[i].id, before[i].token);
    }
    free(before);
    sim_crash(world, world->processes[1], true);
    sim_start(world, 1, false);
    sim_run_until(world, world->now_us + 5 * sim_ttl_us(world), suspend);
    if (!world->failed)
        sim_check_settled(world, true);
}

/* ---- a store that comes back older */

/* It remembers the session of a holder, but not all of its leases. The first heartbeat after that must not be taken for
 * their renewal: should the holder be cut off then, it would believe in them after the end of the quarantine. */
static void run_older(struct sim_world *world) {
    add_targets(world);
    struct sim_process *process = sim_start(world, 1, false);
    sim_run_until(world, 4 * sim_ttl_us(world), suspend);
    uint64_t lost_us = world->now_us;
    sim_lose_data(world, false);
    while (!world->failed && world->now_us < lost_us + sim_ttl_us(world)) {
        sim_run_until(world, world->now_us + SIM_MS, suspend);
        for (uint32_t i = 0; i < world->target_count && !world->failed; i++) {
            const ten_holding *lease = process->kind->lease_of(process, i);
            if (!sim_held(world, i) && lease && sim_true_us(process, lease->deadline_ms) > lost_us + sim_ttl_us(world))
                sim_fail(world, i, "%s believes in %s for longer, but the store has forgotten that lease", process->id,
                         world->targets[i].id);
        }
    }
    for (uint32_t i = 0; i < world->target_count && !world->failed; i++)
        if (!sim_held(world, i))
            sim_fail(world, i, "%s has not put %s back", process->id, world->targets[i].id);
}

/* ---- what others do to the leases of a session */

/* Leases are forced, one after the other, and the feed never says so: only the version of the session does. */
static void run_forced_unheard(struct sim_world *world) {
    add_targets(world);
    sim_start(world, 1, false);
    sim_run_until(world, 4 * sim_ttl_us(world), suspend);
    world->weather.overrun = world->weather.notice_lost = 1;
    for (uint32_t i = 0; i < 20 && !world->failed; i++) {
        sim_force(world, i * 3);
        sim_run_until(world, world->now_us + sim_ttl_us(world) / 2, suspend);
    }
}

/* ---- what a join moves */

static void count_move(uint32_t target, uint32_t from, uint32_t to, void *userdata) {
    (void)target;
    (void)to;
    *(uint64_t *)userdata += from != TEN_PLAN_NONE;
}

static void run_plan(struct sim_world *world) {
    uint64_t moves = 0;
    uint64_t least = 0;
    for (uint32_t fleet = 0; fleet < 20; fleet++) {
        ten_plan *plan = ten_plan_new(count_move, &moves);
        char id[40];
        for (uint32_t i = 0; i < world->target_count; i++)
            ten_plan_add_target(plan, world->targets[i].id);
        for (uint32_t i = 0; i < 11; i++) {
            if (i == 10)
                ten_plan_settle(plan);
            snprintf(id, sizeof id, "node-%u-%u", i, fleet);
            ten_plan_set_instance(plan, id, 1);
        }
        ten_plan_settle(plan);
        ten_plan_free(plan);
        least += world->target_count / 11;
        world->stats.checks++;
    }
    if (moves > 2 * least)
        sim_fail(world, SIM_NOBODY, "joins have to move %" PRIu64 " targets, but the plans moved %" PRIu64, least,
                 moves);
}

/* ---- all of them */

const struct sim_scenario sim_scenarios[] = {
    {.name = "a join moves little more than it must",
     .run = run_plan,
     .finds_mutants = true,
     .targets = 100,
     .ttl_ms = 3000},
    {.name = "a suspended host believes nothing when it wakes",
     .run = run_suspend,
     .finds_mutants = true,
     .targets = 10,
     .ttl_ms = 3000},
    {.name = "in a rolling deploy no target is free for longer than its handover",
     .run = run_deploy,
     .finds_mutants = true,
     .targets = 30,
     .ttl_ms = 3000},
    {.name = "an answer that is read after its deadline gives no lease",
     .run = run_late_answer,
     .finds_mutants = true,
     .targets = 10,
     .ttl_ms = 3000},
    {.name = "registering hundreds of targets at once delays no renewal",
     .slow = true,
     .run = run_flood,
     .finds_mutants = true,
     .targets = 320,
     .ttl_ms = 3000},
    {.name = "targets go where they are pinned, without a gap and without moving twice",
     .run = run_pins,
     .finds_mutants = true,
     .targets = 60,
     .ttl_ms = 3000},
    {.name = "a feed that is overrun all the time postpones neither a takeover nor a handover",
     .run = run_overrun,
     .finds_mutants = true,
     .targets = 60,
     .ttl_ms = 3000},
    {.name = "a loss that the store does not notice is proved by the first renewal, and costs nobody a lease",
     .run = run_silent_loss,
     .finds_mutants = true,
     .targets = 30,
     .ttl_ms = 3000},
    {.name = "a store that comes back without some leases of a session gets them back, one by one",
     .run = run_older,
     .finds_mutants = true,
     .targets = 60,
     .ttl_ms = 3000},
    {.name = "a holder notices by the version of its session alone that a lease was forced",
     .run = run_forced_unheard,
     .finds_mutants = true,
     .targets = 60,
     .ttl_ms = 3000},
    {.name = "sixty instances that start in the same second share out a hundred targets",
     .run = run_small_crowd,
     .finds_mutants = true,
     .targets = 100,
     .ttl_ms = 6000},
    {.name = "three hundred instances that start in the same second send a bounded number of requests",
     .run = run_crowd,
     .targets = 150,
     .ttl_ms = 30000},
    {.name = "a thousand instances that start in the same second send a bounded number of requests",
     .run = run_large_crowd,
     .large = true,
     .targets = 500,
     .ttl_ms = 30000},
    {.name = "an instance in a crash loop keeps no target free for long",
     .run = run_crash_loop,
     .finds_mutants = true,
     .slow = true,
     .targets = CRASH_LOOP_TARGETS,
     .ttl_ms = 3000},
    {.name = "instances that join and leave every second for ten minutes move a bounded number of targets",
     .run = run_churn,
     .targets = 60,
     .ttl_ms = 3000},
};
const size_t sim_scenario_count = TEN_COUNT(sim_scenarios);

bool sim_run_scenario(const struct sim_scenario *scenario, uint64_t seed, struct sim_stats *stats, bool verbose,
                      const char *mutant) {
    struct sim_world *world = scenario->election ? sim_election_world(seed, scenario->targets, scenario->ttl_ms)
                                                 : sim_world_new(seed, scenario->targets, scenario->ttl_ms);
    world->verbose = verbose;
    scenario->run(world);
    bool good = !world->failed;
    if (!good)
        sim_show_failure(world, mutant);
    stats->failures += !good;
    stats->steps += world->stats.steps;
    sim_world_free(world);
    return good;
}
