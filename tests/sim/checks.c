/*
 * What must be true after every step, and when a fleet has settled. Each check compares two facts, and a failure names
 * both.
 */
#include <inttypes.h>
#include <string.h>

#include "sim.h"

/* ---- G3: whoever believes, the store agrees */

/* NULL: it is dead, or knows nothing of it. */
static const ten_holding *lease_of(const struct sim_process *process, uint32_t target) {
    return process->alive ? process->kind->lease_of(process, target) : NULL;
}

static bool believes(const struct sim_world *world, const struct sim_process *process, uint32_t target) {
    const ten_holding *lease = lease_of(process, target);
    return lease && ten_holding_is_confirmed(lease, sim_local_ms(process, world->now_us));
}

static void check_others(struct sim_world *world, const struct sim_process *process, uint32_t target) {
    for (uint32_t i = 0; i < world->live_count; i++) {
        const struct sim_process *other = world->processes[world->live[i]];
        if (other != process && (believes(world, other, target) || other->pieces[target].working))
            sim_fail(world, target, "%s believes that it holds %s, or works on it, but so does %s", process->id,
                     world->targets[target].id, other->id);
    }
}

static void check_belief(struct sim_world *world, const struct sim_process *process, uint32_t target,
                         const ten_holding *lease, const char *what) {
    const ten_lease_row *held = sim_held(world, target);
    world->stats.checks++;
    if (world->now_us < world->targets[target].excused_us) {
        check_others(world, process, target); /* the store forgot it, and lets nobody new in */
        return;
    }
    if (!held || strcmp(held->holder, process->id) != 0) {
        sim_fail(world, target, "%s %s %s with token %" PRIu64 ", but the store says: %s%s, token %" PRIu64,
                 process->id, what, world->targets[target].id, lease->token, held ? "held by " : "free",
                 held ? held->holder : "", held ? held->token : world->targets[target].highest_token);
        return;
    }
    if (held->token != lease->token)
        sim_fail(world, target, "%s %s %s with token %" PRIu64 ", but the store's token is %" PRIu64, process->id, what,
                 world->targets[target].id, lease->token, held->token);
    /* The store's millisecond ends at most a millisecond later. */
    uint64_t store_ends_us = world->now_us + (held->ends_ms - sim_store_ms(world)) * SIM_MS;
    uint64_t ends_us = sim_true_us(process, lease->deadline_ms);
    if (ends_us > store_ends_us)
        sim_fail(world, target, "%s would believe in %s until %.3f ms, but the store lets others in at %.3f ms",
                 process->id, world->targets[target].id, (double)ends_us / 1000, (double)store_ends_us / 1000);
}

static void check_piece(struct sim_world *world, struct sim_process *process, uint32_t target) {
    const struct sim_piece *piece = &process->pieces[target];
    const ten_holding *lease = lease_of(process, target);
    if (!lease)
        return;
    if (ten_holding_is_confirmed(lease, sim_local_ms(process, world->now_us)))
        check_belief(world, process, target, lease, "believes that it holds");
    else if (piece->working) {
        const ten_holding during = {.token = piece->token};
        check_belief(world, process, target, lease->deadline_ms ? lease : &during, "still works on");
    }
    sim_check_ended_in_time(world, process, target);
}

void sim_check_process(struct sim_world *world, struct sim_process *process) {
    for (uint32_t i = 0; i < world->target_count; i++)
        check_piece(world, process, i);
}

void sim_check_target(struct sim_world *world, uint32_t target) {
    for (uint32_t i = 0; i < world->live_count; i++)
        check_piece(world, world->processes[world->live[i]], target);
}

/* ---- G1: tokens grow */

void sim_check_grant(struct sim_world *world, uint32_t number, const char *holder, uint64_t token) {
    struct sim_target *target = &world->targets[number];
    world->stats.checks++;
    if (token == target->highest_token && strcmp(holder, target->highest_holder) == 0)
        return; /* recognised itself */
    if (token < target->highest_token && target->excused_us > 0)
        return; /* a late renewal put an old lease back after a loss of data; see check_belief() */
    if (token <= target->highest_token)
        sim_fail(world, number, "%s was granted %s with token %" PRIu64 ", but %s has had %" PRIu64, holder, target->id,
                 token, target->highest_holder, target->highest_token);
    if (world->roles)
        sim_check_kept(world, number, holder);
    if (target->highest_holder && strcmp(holder, target->highest_holder) != 0) {
        world->stats.takeovers++;
        world->moves++;
        target->moves++;
    }
    if (target->free_us)
        world->longest_gap_us = ten_max_u64(world->longest_gap_us, world->now_us - target->free_us);
    target->free_us = 0;
    target->highest_token = token;
    target->highest_holder = holder;
    target->moved_us = world->now_us;
}

/* It may be somebody else's by now, although the store names this one: it lost data, or the release is on its way. */
void sim_check_spent(struct sim_world *world, const struct sim_process *process, uint32_t target, uint64_t token) {
    const struct sim_piece *piece = &process->pieces[target];
    world->stats.checks++;
    if (token == piece->released_token || token == piece->expired_token)
        sim_fail(world, target, "%s believes in %s with token %" PRIu64 ", but %s", process->id,
                 world->targets[target].id, token,
                 token == piece->released_token ? "it has sent a release of it, which may arrive"
                                                : "has let the deadline of that token pass before");
}

/* ---- G5 and the work */

void sim_check_work_start(struct sim_world *world, struct sim_process *process, uint32_t target) {
    world->stats.checks++;
    if (process->pieces[target].unconfirmed)
        sim_fail(world, target, "%s starts work on %s, but its last renewal was not confirmed", process->id,
                 world->targets[target].id);
    const ten_holding *lease = lease_of(process, target);
    uint64_t left_ms = ten_sub_saturating(lease->deadline_ms, sim_local_ms(process, world->now_us));
    if (process->guarded && left_ms <= world->work_rules.grace_ms)
        sim_fail(world, target, "%s starts work on %s, but it has to end in %" PRIu64 " ms, and the grace is %" PRIu64,
                 process->id, world->targets[target].id, left_ms, world->work_rules.grace_ms);
    for (uint32_t i = 0; i < world->live_count; i++) {
        const struct sim_process *other = world->processes[world->live[i]];
        if (other->pieces[target].working)
            sim_fail(world, target, "%s starts work on %s, but %s is still at it", process->id,
                     world->targets[target].id, other->id);
    }
}

/* Of a process without a warden, only belief has to end in time. */
void sim_check_ended_in_time(struct sim_world *world, struct sim_process *process, uint32_t target) {
    const struct sim_piece *piece = &process->pieces[target];
    const ten_holding *lease = lease_of(process, target);
    if (!process->guarded || !piece->working || !lease || !lease->deadline_ms || lease->token != piece->token)
        return;
    world->stats.checks++;
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    if (now_ms >= lease->deadline_ms)
        sim_fail(world, target,
                 "%s still works on %s at %" PRIu64 ", but its deadline was %" PRIu64 ", and it has a warden",
                 process->id, world->targets[target].id, now_ms, lease->deadline_ms);
}

void sim_check_ended_before_expiry(struct sim_world *world, struct sim_process *process, uint32_t target) {
    world->stats.checks++;
    if (process->guarded && process->pieces[target].working)
        sim_fail(world, target, "the lease of %s on %s has expired, but its work is still there, and it has a warden",
                 process->id, world->targets[target].id);
}

void sim_check_release(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t token) {
    const struct sim_piece *piece = &process->pieces[target];
    world->stats.checks++;
    if (sim_has_outgoing(piece, token))
        sim_fail(world, target, "%s releases %s with token %" PRIu64 ", but a message of it has yet to leave",
                 process->id, world->targets[target].id, token);
    if (token != piece->token || (!piece->working && piece->machine.state == TEN_WORK_IDLE))
        return;
    sim_fail(world, target, "%s releases %s with token %" PRIu64 ", but %s", process->id, world->targets[target].id,
             token, piece->working ? "something of its work is there" : "has yet to publish or discard its result");
}

void sim_check_publish(struct sim_world *world, struct sim_process *process, uint32_t number) {
    struct sim_target *target = &world->targets[number];
    const struct sim_piece *piece = &process->pieces[number];
    uint64_t token = piece->token;
    world->stats.publishes++;
    if (piece->warned && process->fleet)
        sim_fail(world, number, "%s publishes %s, but the warden has ended the work because of its lease", process->id,
                 target->id);
    if (piece->unconfirmed)
        sim_fail(world, number, "%s publishes %s, but its last renewal was not confirmed", process->id, target->id);
    if (token == piece->released_token)
        sim_fail(world, number, "%s publishes %s with token %" PRIu64 ", but it has sent a release of it", process->id,
                 target->id, token);
    const ten_holding published = {.token = token, .deadline_ms = lease_of(process, number)->deadline_ms};
    check_belief(world, process, number, &published, "publishes");
    if (token < target->published_token)
        sim_fail(world, number, "%s publishes %s with token %" PRIu64 ", but %" PRIu64 " has been published",
                 process->id, target->id, token, target->published_token);
    target->published_token = token;
    target->published_us = world->now_us;
}

void sim_check_leave(struct sim_world *world, struct sim_process *process, uint32_t number, uint64_t token) {
    struct sim_target *target = &world->targets[number];
    world->stats.messages++;
    if (token == process->pieces[number].released_token)
        sim_fail(world, number, "a message of %s about %s with token %" PRIu64 " leaves, but it has sent a release",
                 process->id, target->id, token);
    const ten_holding sent = {.token = token, .deadline_ms = sim_local_ms(process, world->now_us)};
    check_belief(world, process, number, &sent, "sends a message about");
    if (token < target->left_token)
        sim_fail(world, number,
                 "a message of %s about %s with token %" PRIu64 " leaves, but one of %" PRIu64 " has left", process->id,
                 target->id, token, target->left_token);
    target->left_token = token;
}

/* ---- handing over */

void sim_check_handover(struct sim_world *world, struct sim_process *process, uint32_t target) {
    const ten_plan *plan = ten_fleet_plan(process->fleet);
    uint32_t planned = ten_plan_holder(plan, process->pieces[target].number);
    if (planned == TEN_PLAN_NONE)
        return;
    const struct sim_process *successor = sim_find_process(world, ten_plan_instance_id(plan, planned));
    world->stats.checks++;
    uint64_t there_us = world->now_us - successor->announced_us;
    if (there_us + SIM_MS < world->settle_ms * SIM_MS * 9 / 10)
        sim_fail(world, target,
                 "%s hands %s to %s, which has been there for %.3f ms, but settling takes %" PRIu64 " ms", process->id,
                 world->targets[target].id, successor->id, (double)there_us / 1000, world->settle_ms);
}

/* ---- requests */

void sim_check_requests(struct sim_world *world, struct sim_process *process) {
    uint64_t second = world->now_us / SIM_SECOND;
    if (process->second != second) {
        process->second = second;
        process->requests = 0;
        process->lists = 0;
    }
    if (++process->requests > world->requests_max)
        sim_fail(world, SIM_NOBODY, "%s has sent %u requests in a second, but %u is the bound", process->id,
                 process->requests, world->requests_max);
    if (process->engine.call.kind == TEN_CALL_INSTANCES && ++process->lists > world->lists_max)
        sim_fail(world, SIM_NOBODY, "%s has listed the instances %u times in a second, but %u is the bound",
                 process->id, process->lists, world->lists_max);
}

/* ---- G6, and that everything is worked on */

bool sim_is_covered(const struct sim_world *world, uint32_t target) {
    const ten_lease_row *held = sim_held(world, target);
    const struct sim_process *holder = held ? sim_find_process(world, held->holder) : NULL;
    return holder && !holder->stopping && believes(world, holder, target);
}

bool sim_anybody_is_lame(const struct sim_world *world) {
    for (uint32_t i = 0; i < world->live_count; i++)
        if (world->processes[world->live[i]]->lame)
            return true;
    return false;
}

uint64_t sim_turns_us(const struct sim_world *world) {
    uint64_t delays = world->live_count + 1 + (sim_anybody_is_lame(world) ? 2 * SIM_FALLBACK_DELAYS : 0);
    return delays * world->rank_delay_ms * SIM_MS;
}

bool sim_is_changing_hands(const struct sim_world *world, uint32_t target) {
    const ten_lease_row *held = sim_held(world, target);
    if (held && sim_find_process(world, held->holder)->pieces[target].released_token == held->token)
        return true;
    return world->targets[target].released_us > 0 &&
           world->now_us < world->targets[target].released_us + sim_turns_us(world) + 50 * SIM_MS;
}

bool sim_anybody_can(const struct sim_world *world) {
    for (uint32_t i = 0; i < world->live_count; i++) {
        const struct sim_process *process = world->processes[world->live[i]];
        if (!process->lame && !process->stopping && process->weight > 0)
            return true;
    }
    return false;
}

static bool takes_part(const struct sim_process *process) {
    return process->alive && !process->stopping && process->weight > 0;
}

bool sim_is_pinned(const struct sim_world *world, uint32_t number) {
    const struct sim_target *target = &world->targets[number];
    if (target->pinned == SIM_NOBODY || world->now_us >= target->pinned_until_us || !target->registered ||
        target->paused || !takes_part(world->processes[target->pinned]))
        return false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->live_count; i++) {
        count += takes_part(world->processes[world->live[i]]);
    }
    return count > 1 || !target->pinned_away;
}

/* Targets are where their pins say. */
static void check_pin(struct sim_world *world, uint32_t number) {
    const struct sim_target *target = &world->targets[number];
    const ten_lease_row *held = sim_held(world, number);
    if (!held || !sim_is_pinned(world, number) || sim_is_changing_hands(world, number))
        return;
    const struct sim_process *named = world->processes[target->pinned];
    world->stats.checks++;
    if ((strcmp(held->holder, named->id) == 0) == target->pinned_away)
        sim_fail(world, number, "%s is %s %s, but %s holds it", target->id,
                 target->pinned_away ? "kept away from" : "pinned to", named->id, held->holder);
}

static void check_coverage(struct sim_world *world, uint32_t number) {
    const struct sim_target *target = &world->targets[number];
    const ten_lease_row *held = sim_held(world, number);
    bool wanted = target->registered && !target->paused && sim_anybody_can(world);
    world->stats.checks++;
    if (wanted && !sim_is_covered(world, number) && !sim_is_changing_hands(world, number))
        sim_fail(world, number, "%s should have an owner, but the store says: %s", target->id,
                 held ? held->holder : "free");
    if (wanted && target->worked_us + 4 * world->work_us + world->timing.ttl_ms * SIM_MS * 3 < world->now_us)
        sim_fail(world, number, "%s should be worked on, but was last at %.3f ms", target->id,
                 (double)target->worked_us / 1000);
    if (!target->registered || target->paused) {
        if (held)
            sim_fail(world, number, "%s is paused or removed, but %s still holds it", target->id, held->holder);
    }
}

/* How many targets it holds because of pins. */
static uint32_t pinned_load_of(const struct sim_world *world, const struct sim_process *process) {
    uint32_t load = 0;
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_lease_row *held = sim_held(world, i);
        load += held && strcmp(held->holder, process->id) == 0 && sim_is_pinned(world, i);
    }
    return load;
}

static uint32_t load_of(const struct sim_world *world, const struct sim_process *process) {
    uint32_t load = 0;
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_lease_row *held = sim_held(world, i);
        load += held && strcmp(held->holder, process->id) == 0;
    }
    return load;
}

/* Two of the same weight whose loads differ by more than one; false: there are none. One that holds nothing but what is
 * pinned may hold more. */
static bool find_unequal(const struct sim_world *world, const struct sim_process *found[2]) {
    for (uint32_t i = 0; i < world->live_count; i++) {
        found[0] = world->processes[world->live[i]];
        uint32_t load = load_of(world, found[0]);
        for (uint32_t j = 0; j < i; j++) {
            found[1] = world->processes[world->live[j]];
            uint32_t other = load_of(world, found[1]);
            if (found[0]->weight == found[1]->weight && ((load > other + 1 && load > pinned_load_of(world, found[0])) ||
                                                         (other > load + 1 && other > pinned_load_of(world, found[1]))))
                return true;
        }
    }
    return false;
}

bool sim_is_balanced(const struct sim_world *world) {
    const struct sim_process *found[2];
    return !find_unequal(world, found);
}

static void check_spread(struct sim_world *world) {
    const struct sim_process *found[2];
    if (find_unequal(world, found))
        sim_fail(world, SIM_NOBODY, "%s holds %u targets, but %s, with the same weight, %u", found[0]->id,
                 load_of(world, found[0]), found[1]->id, load_of(world, found[1]));
    for (uint32_t i = 0; i < world->live_count; i++) {
        const struct sim_process *process = world->processes[world->live[i]];
        world->stats.checks++;
        if (process->weight == 0 && load_of(world, process) > 0 && sim_anybody_can(world))
            sim_fail(world, SIM_NOBODY, "%s is drained, but holds %u targets", process->id, load_of(world, process));
    }
}

void sim_check_settled(struct sim_world *world, bool with_spread) {
    for (uint32_t i = 0; i < world->target_count; i++)
        check_coverage(world, i);
    for (uint32_t i = 0; i < world->target_count && with_spread && !world->failed; i++)
        check_pin(world, i);
    if (with_spread && !world->failed)
        check_spread(world);
}
