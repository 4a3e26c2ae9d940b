/*
 * The work of a term, which takes time to stop, and its warden, which ends a command before the deadline whether or not
 * the candidate runs. A function of the program has no warden: what it does after the deadline is not counted as
 * belief, but no new term of its candidate may begin before it has ended.
 */
#include "candidate.h"

static enum sim_style style_of(const struct sim_world *world, const struct sim_process *process) {
    return world->roles[process->candidate->role].style;
}

static void push_end(struct sim_world *world, const struct sim_process *process, uint64_t delay_us) {
    uint32_t role = process->candidate->role;
    sim_push(
        world, delay_us,
        (struct sim_event){
            .kind = SIM_WORK_LOOK, .process = process->number, .target = role, .number = process->pieces[role].work});
}

/* By then it has to be over: a command a grace before the deadline as it is now, so that there is time to end it. */
static uint64_t until_ms(const struct sim_world *world, const struct sim_process *process) {
    uint64_t grace_ms = style_of(world, process) == SIM_FUNCTION ? 0 : world->work_rules.grace_ms;
    return ten_sub_saturating(process->candidate->election.lease.deadline_ms, grace_ms);
}

static void set_warden(struct sim_world *world, const struct sim_process *process) {
    uint32_t role = process->candidate->role;
    uint64_t at_us = sim_true_us(process, until_ms(world, process));
    sim_push(world, ten_sub_saturating(at_us, world->now_us),
             (struct sim_event){
                 .kind = SIM_WARDEN, .process = process->number, .target = role, .number = process->pieces[role].work});
}

/* ---- its beginning */

static uint64_t length_us(struct sim_world *world, const struct sim_role *role) {
    uint64_t ttl_us = sim_ttl_us(world);
    if (role->endless)
        return 10000 * ttl_us;
    if (role->style == SIM_COMMAND)
        return ttl_us / 2 + sim_random(world, 8 * ttl_us);
    if (role->style == SIM_ONCE)
        return ttl_us / 10 + sim_random(world, 3 * ttl_us);
    if (world->long_work && sim_chance(world, 0.05))
        return ttl_us / 2 + sim_random(world, 2 * ttl_us);
    return ttl_us / 100 + sim_random(world, ttl_us / 10);
}

static void start_work(struct sim_world *world, struct sim_process *process) {
    struct sim_candidate *candidate = process->candidate;
    struct sim_piece *piece = &process->pieces[candidate->role];
    sim_check_work_start(world, process, candidate->role);
    world->stats.works++;
    world->targets[candidate->role].worked_us = world->now_us;
    candidate->running = true;
    piece->working = true;
    piece->work++;
    piece->token = candidate->election.lease.token;
    sim_note(world, "starts work", process->number, candidate->role, piece->token);
    push_end(world, process, length_us(world, &world->roles[candidate->role]));
    set_warden(world, process);
}

static void start_if_it_may(struct sim_world *world, struct sim_process *process) {
    const struct sim_candidate *candidate = process->candidate;
    /* No work is begun that would have to end at once. */
    if (candidate->in_term && !candidate->running && sim_is_leader(world, process) &&
        sim_local_ms(process, world->now_us) < until_ms(world, process))
        start_work(world, process);
}

void sim_term_begins(struct sim_world *world, struct sim_process *process) {
    process->candidate->in_term = true;
    process->candidate->told = false;
    start_if_it_may(world, process);
}

void sim_look_for_term_work(struct sim_world *world, struct sim_process *process) {
    start_if_it_may(world, process);
    sim_push(world, world->work_us, (struct sim_event){.kind = SIM_WORK, .process = process->number});
}

/* ---- its end */

static void report_end(struct sim_process *process) {
    ten_election_stopped(&process->candidate->election);
}

void sim_term_ends(struct sim_world *world, struct sim_process *process, bool at_once) {
    struct sim_candidate *candidate = process->candidate;
    struct sim_piece *piece = &process->pieces[candidate->role];
    candidate->in_term = false;
    candidate->told = candidate->running;
    if (style_of(world, process) == SIM_ONCE) {
        process->stopping = true;
        ten_election_withdraw(&candidate->election, TEN_REASON_SHUTDOWN);
    }
    if (!candidate->running) {
        report_end(process);
        return;
    }
    uint64_t ttl_us = sim_ttl_us(world);
    uint64_t most_us = world->long_work && sim_chance(world, 0.2) ? ttl_us * 3 / 2 : ttl_us / 5;
    if (at_once) {
        if (style_of(world, process) == SIM_FUNCTION)
            world->stats.overtimes++;
        else
            most_us = 20 * SIM_MS;
        piece->working = false;
    }
    push_end(world, process, sim_random(world, most_us));
}

/* Nobody told it to: a program that has nothing more to do, or that its warden had to end. */
static void end_by_itself(struct sim_world *world, struct sim_process *process, bool done) {
    enum ten_reason reason = done ? TEN_REASON_DONE : TEN_REASON_EXPIRED;
    if (style_of(world, process) == SIM_ONCE) {
        process->stopping = true;
        ten_election_withdraw(&process->candidate->election, reason);
    } else {
        uint64_t pause_us = world->roles[process->candidate->role].pause_us;
        sim_candidate_resign(world, process, reason, pause_us ? pause_us : sim_random(world, sim_ttl_us(world)));
    }
    report_end(process);
}

void sim_term_work_ends(struct sim_world *world, struct sim_process *process, uint32_t role, uint64_t work) {
    struct sim_candidate *candidate = process->candidate;
    struct sim_piece *piece = &process->pieces[role];
    if (!candidate->running || piece->work != work)
        return; /* it has ended, in another way */
    bool in_time = piece->working;
    candidate->running = false;
    piece->working = false;
    sim_note(world, in_time ? "work has ended" : "work has been ended", process->number, role, piece->token);
    if (in_time && sim_is_leader(world, process))
        sim_check_publish(world, process, role);
    if (candidate->told)
        report_end(process);
    else if (style_of(world, process) == SIM_FUNCTION)
        return; /* the next piece follows, and nobody hears of this one */
    else
        end_by_itself(world, process, in_time);
    candidate->told = false;
    sim_drive(world, process);
}

void sim_term_warden_looks(struct sim_world *world, struct sim_process *process, uint32_t role, uint64_t work) {
    struct sim_piece *piece = &process->pieces[role];
    if (!piece->working || piece->work != work)
        return;
    if (sim_local_ms(process, world->now_us) < until_ms(world, process)) {
        set_warden(world, process);
        return;
    }
    piece->working = false;
    if (style_of(world, process) == SIM_FUNCTION) {
        world->stats.overtimes++;
        return;
    }
    sim_note(world, "its warden ends the work", process->number, role, piece->token);
    push_end(world, process, 0); /* its candidate hears of it when it runs */
}
