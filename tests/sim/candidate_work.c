/*
 * The work of a term. A command is core/term.h's to decide on, as in `elect` and `once`; here are the lengths of commands
 * and hooks. A function of the program is a piece of work (core/work.h) after the other while its candidate leads. It has
 * no warden: what it does after the deadline is not counted as belief, but no new term of its candidate may begin before
 * it has ended.
 */
#include "candidate.h"

static bool is_function(const struct sim_world *world, const struct sim_process *process) {
    return world->roles[process->candidate->role].style == SIM_FUNCTION;
}

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

/* Tokens of two slots can be equal. */
static uint64_t term_of(const struct sim_candidate *candidate) {
    return TEN_TERM_ID(ten_election_slot_at(&candidate->election)->holding.token, candidate->election.at);
}

static ten_term_facts look_at_facts(const struct sim_world *world, const struct sim_process *process) {
    const struct sim_candidate *candidate = process->candidate;
    const ten_holding *lease = &ten_election_slot_at(&candidate->election)->holding;
    ten_term_facts facts = candidate->facts;
    facts.lease.ends_ms = candidate->lost ? 0 : lease->deadline_ms;
    facts.lease.confirmed = ten_holding_is_held(lease) && !lease->uncertain;
    facts.lease.closing = !sim_is_leader(world, process) || term_of(candidate) != facts.lease.token;
    return facts;
}

/* ---- a function */

static void look_at_function(struct sim_world *world, struct sim_process *process) {
    struct sim_candidate *candidate = process->candidate;
    ten_work_lease lease = look_at_facts(world, process).lease;
    uint64_t length = length_us(world, &world->roles[candidate->role]);
    bool over = !candidate->running || sim_carry_work(world, process, candidate->role, &lease);
    if (over && candidate->told)
        ten_election_stopped(&candidate->election);
    candidate->told &= !over;
    candidate->running = !over || (candidate->in_term && sim_start_work(world, process, candidate->role,
                                                                        &world->function_rules, &lease, length));
}

static void stop_function(struct sim_world *world, struct sim_process *process, bool at_once) {
    struct sim_candidate *candidate = process->candidate;
    candidate->told |= candidate->in_term; /* once a term: one that steps down can expire meanwhile */
    candidate->in_term = false;
    ten_work_end(&process->pieces[candidate->role].machine);
    if (at_once)
        sim_child_overruns(world, process, candidate->role);
}

/* ---- a command */

void sim_term_init(struct sim_world *world, struct sim_process *process) {
    const struct sim_role *role = &world->roles[process->candidate->role];
    ten_term_rules rules = {.work = world->work_rules,
                            .restart = role->restart,
                            .once = role->style == SIM_ONCE,
                            .has_begin_hook = role->has_begin_hook,
                            .has_end_hook = role->has_end_hook,
                            .at_least_ms = role->at_least_ms,
                            .wait_until_ms = UINT64_MAX};
    rules.work.has_result = false;
    uint64_t pause_ms = role->pause_us ? role->pause_us / SIM_MS : sim_random(world, world->timing.ttl_ms / 4);
    ten_backoff backoff = {.min_ms = pause_ms,
                           .max_ms = role->pause_us ? pause_ms : world->timing.ttl_ms,
                           .steady_ms = world->timing.ttl_ms};
    ten_term_init(&process->candidate->term, &rules, &backoff);
}

static void start_child(struct sim_world *world, struct sim_process *process, enum ten_term_step step) {
    struct sim_candidate *candidate = process->candidate;
    uint64_t token = TEN_TERM_TOKEN(candidate->term.token);
    uint64_t longest_us = sim_ttl_us(world) / 5;
    if (world->long_work && sim_chance(world, 0.4)) /* through a few renewals, or longer than a hook may run */
        longest_us = sim_chance(world, 0.25) ? 20 * SIM_SECOND : 2 * sim_ttl_us(world);
    uint64_t hook_us = sim_random(world, longest_us);
    if (step == TEN_TERM_START_END_HOOK)
        sim_note(world, "starts the hook of the end", process->number, candidate->role, token);
    else
        sim_note_start(world, process, candidate->role,
                       step == TEN_TERM_START_COMMAND ? "starts its command" : "starts the first hook", token);
    candidate->reaped = false;
    sim_child_start(world, process, candidate->role, token, step != TEN_TERM_START_END_HOOK,
                    step == TEN_TERM_START_COMMAND ? length_us(world, &world->roles[candidate->role]) : hook_us);
}

static void resign(struct sim_world *world, struct sim_process *process) {
    const ten_term *term = &process->candidate->term;
    if (term->resign_pause_ms == UINT64_MAX)
        ten_election_withdraw(&process->candidate->election, term->resign_reason);
    else
        sim_candidate_resign(world, process, term->resign_reason, term->resign_pause_ms * SIM_MS);
}

/* Its process signals a command, and is asked for nothing else than to lead. */
static void note_asked(struct sim_process *process) {
    const struct sim_candidate *candidate = process->candidate;
    struct sim_piece *piece = &process->pieces[candidate->role];
    if (piece->child != SIM_CHILD_RUNS || candidate->term.state != TEN_TERM_COMMAND)
        return;
    piece->asked_for_lease |=
        !piece->asked && candidate->term.stops == 0 && (!candidate->facts.over || candidate->lost);
    piece->asked = true;
}

static void carry_out(struct sim_world *world, struct sim_process *process, enum ten_term_step step) {
    switch (step) {
    case TEN_TERM_START_BEGIN_HOOK:
    case TEN_TERM_START_COMMAND:
    case TEN_TERM_START_END_HOOK:
        start_child(world, process, step);
        break;
    case TEN_TERM_ASK:
    case TEN_TERM_PASS_STOP:
    case TEN_TERM_KILL:
        note_asked(process);
        sim_child_signal(world, process, process->candidate->role, step == TEN_TERM_KILL);
        break;
    case TEN_TERM_RESIGN:
        resign(world, process);
        break;
    case TEN_TERM_WORK_OVER:
        sim_check_work_over(world, process);
        ten_election_stopped(&process->candidate->election);
        break;
    case TEN_TERM_NOTHING:
        break;
    }
}

/* The kernel has told of the end of a child. What it wrote last counts like a result. */
static void reap(struct sim_world *world, struct sim_process *process, const ten_term_facts *facts, uint64_t now_ms) {
    struct sim_candidate *candidate = process->candidate;
    const struct sim_piece *piece = &process->pieces[candidate->role];
    candidate->reaped = true;
    bool failed = piece->killed ? !piece->exited_well : sim_chance(world, 0.3);
    ten_term_exit how = {.failed = failed, .ended_for_lease = piece->warned};
    if (candidate->term.state == TEN_TERM_COMMAND && !piece->killed && sim_is_leader(world, process))
        sim_check_publish(world, process, candidate->role);
    ten_term_exited(&candidate->term, facts, &how, now_ms);
    if (candidate->term.state == TEN_TERM_COMMAND)
        sim_check_command_end(world, process, now_ms);
}

static void go_on(struct sim_world *world, struct sim_process *process) {
    struct sim_candidate *candidate = process->candidate;
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    enum ten_term_step step;
    do {
        ten_term_facts facts = look_at_facts(world, process);
        enum ten_work_left left = sim_child_left(world, process, candidate->role, &candidate->term.work);
        if (left != TEN_WORK_ALL && !candidate->reaped)
            reap(world, process, &facts, now_ms);
        step = ten_term_next(&candidate->term, &facts, left, now_ms);
        carry_out(world, process, step);
    } while (step != TEN_TERM_NOTHING && step != TEN_TERM_KILL && !world->failed);
    candidate->running = candidate->term.state != TEN_TERM_WAITING && candidate->term.state != TEN_TERM_OVER;
    if (candidate->term.state == TEN_TERM_OVER && !process->stopping) {
        sim_check_term_over(world, process);
        process->stopping = true;
        ten_election_withdraw(&candidate->election, TEN_REASON_SHUTDOWN);
    }
    sim_look_later(world, process, candidate->role, ten_term_next_ms(&candidate->term, &candidate->facts, now_ms));
}

/* ---- what its candidate hears */

void sim_term_begins(struct sim_world *world, struct sim_process *process) {
    struct sim_candidate *candidate = process->candidate;
    (void)world;
    candidate->in_term = true;
    candidate->told = candidate->lost = false;
    candidate->facts = (ten_term_facts){.lease.token = term_of(candidate)};
}

void sim_term_ends(struct sim_world *world, struct sim_process *process, bool at_once, enum ten_reason reason) {
    struct sim_candidate *candidate = process->candidate;
    uint32_t role = candidate->role;
    if (at_once && reason == TEN_REASON_EXPIRED)
        sim_check_ended_before_expiry(world, process, role);
    candidate->facts.over = true;
    candidate->lost |= at_once;
    if (is_function(world, process))
        stop_function(world, process, at_once);
}

void sim_term_hears(struct sim_world *world, struct sim_process *process) {
    if (is_function(world, process))
        look_at_function(world, process);
    else
        go_on(world, process);
}

void sim_look_for_term_work(struct sim_world *world, struct sim_process *process) {
    sim_term_hears(world, process);
    sim_push(world, world->work_us, (struct sim_event){.kind = SIM_WORK, .process = process->number});
    sim_drive(world, process);
}

void sim_look_at_term_work(struct sim_world *world, struct sim_process *process, uint32_t role, uint64_t work) {
    if (process->pieces[role].work == work)
        sim_term_hears(world, process);
    sim_drive(world, process);
}

void sim_term_stop(struct sim_world *world, struct sim_process *process) {
    if (is_function(world, process)) {
        ten_election_withdraw(&process->candidate->election, TEN_REASON_SHUTDOWN);
        return;
    }
    ten_term_stop(&process->candidate->term);
    if (sim_random(world, 8) == 0) /* somebody is in a hurry */
        ten_term_stop(&process->candidate->term);
    go_on(world, process);
}
