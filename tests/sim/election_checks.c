/*
 * What must be true of elections, beside what is true of every lease (checks.c): terms, least times, and, in calm
 * weather, that every role has a leader in time and that whoever is asked to step down does.
 */
#include <inttypes.h>
#include <string.h>

#include "candidate.h"
#include "core/worker.h"

#define PROMPT_US  (100 * SIM_MS) /* a few round trips */
#define LOOK_OFTEN 20u            /* times in a TTL: sim_check_roles() */

/* ---- terms */

/* A least time counts by the clock of whoever is faster, the store or the leader. */
static void note_kept(struct sim_world *world, const struct sim_process *process) {
    struct sim_role *role = &world->roles[process->candidate->role];
    double least_us = (double)(role->at_least_ms * SIM_MS) / (process->rate > 1 ? process->rate : 1);
    role->kept_by = process->id;
    const ten_lease_row *held =
        sim_held(world, process->candidate->role); /* forced before its leader heard of it: not kept */
    role->kept_us = role->at_least_ms && !(held && held->barred) ? world->now_us + (uint64_t)least_us - SIM_MS : 0;
}

void sim_check_elected(struct sim_world *world, struct sim_process *process, uint64_t token) {
    uint32_t number = process->candidate->role;
    struct sim_role *role = &world->roles[number];
    const char *id = world->targets[number].id;
    world->stats.checks++;
    world->stats.terms++;
    if (process->candidate->running)
        sim_fail(world, number,
                 "%s begins a term of %s with token %" PRIu64 ", but its work of the last one still runs", process->id,
                 id, token);
    sim_check_spent(world, process, number, token);
    if (token <= role->term_token)
        sim_fail(world, number, "%s leads %s with token %" PRIu64 ", but there has been a term with %" PRIu64,
                 process->id, id, token, role->term_token);
    role->term_token = token;
    note_kept(world, process);
}

void sim_check_work_over(struct sim_world *world, struct sim_process *process) {
    uint32_t role = process->candidate->role;
    world->stats.checks++;
    if (process->pieces[role].child != SIM_CHILD_NONE)
        sim_fail(world, role, "%s says that its work on %s is over, but something of it is there", process->id,
                 world->targets[role].id);
}

/* ---- who has ended a command */

static bool ended_for_lease(const struct sim_process *process, uint64_t now_ms) {
    const struct sim_candidate *candidate = process->candidate;
    const struct sim_piece *piece = &process->pieces[candidate->role];
    const ten_holding *lease = &ten_election_slot_at(&candidate->election)->holding;
    bool expired = candidate->lost || lease->token != piece->token || now_ms >= lease->deadline_ms;
    return piece->warned || piece->asked_for_lease || expired;
}

void sim_check_command_end(struct sim_world *world, struct sim_process *process, uint64_t now_ms) {
    const struct sim_candidate *candidate = process->candidate;
    const ten_term *term = &candidate->term;
    const char *id = world->targets[candidate->role].id;
    bool for_lease = ended_for_lease(process, now_ms);
    bool by_itself = !for_lease && !process->pieces[candidate->role].asked && term->stops == 0;
    world->stats.checks++;
    if (for_lease && (term->done || !term->lost))
        sim_fail(world, candidate->role, "the command of %s on %s was ended because of the lease, but counts as %s",
                 process->id, id, term->done ? "done" : "told to stop");
    if (by_itself && !term->done)
        sim_fail(world, candidate->role, "the command of %s on %s has ended by itself, but does not count as done",
                 process->id, id);
}

void sim_check_term_over(struct sim_world *world, struct sim_process *process) {
    const struct sim_candidate *candidate = process->candidate;
    const ten_term *term = &candidate->term;
    enum ten_term_outcome outcome = ten_term_outcome(term, &candidate->facts);
    world->stats.checks++;
    if (!term->rules.once && !term->done)
        sim_fail(world, candidate->role, "%s leaves %s for good, but its command has not ended by itself", process->id,
                 world->targets[candidate->role].id);
    /* Of a command that has ended by itself, only what it left behind can have lost the lease. */
    if (term->rules.once && term->ran && term->lost && !term->done && outcome != TEN_TERM_LOST)
        sim_fail(world, candidate->role, "%s has lost its lease on %s, but leaves with the outcome %d", process->id,
                 world->targets[candidate->role].id, (int)outcome);
}

/* ---- least times */

bool sim_has_least_time(const struct sim_world *world, uint32_t role) {
    return world->roles && world->roles[role].at_least_ms > 0;
}

bool sim_is_keeping(const struct sim_world *world, const struct sim_process *process) {
    if (!process->candidate)
        return false;
    ten_worker_end end = {
        .signalled = true, .gone = true, .ready = true, .keep_until_ms = process->candidate->term.keep_until_ms};
    return !ten_worker_may_release(&end, sim_local_ms(process, world->now_us));
}

void sim_forget_promises(struct sim_world *world, uint32_t role) {
    world->roles[role].kept_us = 0;
    world->roles[role].asked_us = 0;
}

void sim_check_kept(struct sim_world *world, uint32_t number, const char *holder) {
    const struct sim_role *role = &world->roles[number];
    world->stats.checks++;
    if (world->now_us < role->kept_us && strcmp(holder, role->kept_by) != 0)
        sim_fail(world, number, "%s got %s, but %s was to keep it for %.3f ms longer", holder,
                 world->targets[number].id, role->kept_by, (double)(role->kept_us - world->now_us) / 1000);
}

/* ---- asking */

bool sim_ask_leader(struct sim_world *world, uint32_t number) {
    struct sim_role *role = &world->roles[number];
    const ten_lease_row *held = sim_held(world, number);
    if (!sim_ask_to_resign(world, number))
        return false;
    world->stats.asks++;
    role->asked_us = world->now_us;
    role->asked_token = held->token;
    return true;
}

static void check_asked(struct sim_world *world, uint32_t number) {
    const struct sim_role *role = &world->roles[number];
    const struct sim_process *leader = sim_leader_of(world, number);
    if (role->asked_us == 0 || world->now_us < role->asked_us + PROMPT_US || !leader)
        return;
    const ten_election *election = &leader->candidate->election;
    world->stats.checks++;
    if (election->state == TEN_ELECTION_LEADING && ten_election_slot_at(election)->holding.token == role->asked_token)
        sim_fail(world, number, "%s was asked to step down %.3f ms ago, but leads %s", leader->id,
                 (double)(world->now_us - role->asked_us) / 1000, world->targets[number].id);
}

/* ---- that there is a leader */

static bool anybody_could(const struct sim_world *world, uint32_t role) {
    for (uint32_t i = 0; i < world->live_count; i++) {
        const struct sim_process *process = world->processes[world->live[i]];
        const struct sim_candidate *candidate = process->candidate;
        if (sim_is_candidate(world, process, role) && !process->stopping && !candidate->running &&
            !candidate->election.drained && candidate->rests_until_us < world->now_us && !sim_is_paused(world, process))
            return true;
    }
    return false;
}

static void check_led(struct sim_world *world, uint32_t number) {
    struct sim_role *role = &world->roles[number];
    const ten_lease_row *held = sim_held(world, number);
    bool led = sim_leader_of(world, number) || world->now_us < role->kept_us || !anybody_could(world, number);
    world->stats.checks++;
    if (led)
        role->led_us = world->now_us;
    if (led || held)
        role->held_us = world->now_us;
    /* Whoever waits for the end of a lease counts by a clock of its own, and hears of a term without its TTL. */
    uint64_t lease_us = ten_max_u64(world->timing.ttl_ms, role->at_least_ms) * SIM_MS;
    uint64_t free_us = lease_us / 10 + PROMPT_US + sim_ttl_us(world) / LOOK_OFTEN;
    if (world->granted_ms)
        free_us += (world->timing.ttl_ms - world->granted_ms) * SIM_MS;
    if (role->at_least_ms) /* what is left of a least time can be less than the TTL that the others were told */
        free_us += sim_ttl_us(world);
    if (world->now_us - role->held_us > free_us)
        sim_fail(world, number, "%s has been free for %.3f ms, but nobody takes it", world->targets[number].id,
                 (double)(world->now_us - role->held_us) / 1000);
    if (world->now_us - role->led_us > lease_us + free_us)
        sim_fail(world, number, "%s has had no leader for %.3f ms, but the store says: %s", world->targets[number].id,
                 (double)(world->now_us - role->led_us) / 1000, held ? held->holder : "free");
}

void sim_check_roles(struct sim_world *world) {
    for (uint32_t i = 0; i < world->target_count && !world->failed; i++) {
        check_led(world, i);
        check_asked(world, i);
    }
}

void sim_begin_role_checks(struct sim_world *world) {
    for (uint32_t i = 0; i < world->target_count; i++) {
        struct sim_role *role = &world->roles[i];
        role->led_us = role->held_us = world->now_us;
        if (role->asked_us) /* a notice may have been lost: the next renewal brings it */
            role->asked_us = world->now_us + world->timing.renew_ms * SIM_MS * 11 / 10;
    }
}
