/*
 * A candidate: what src/runtime/candidate.c does around ten_election. One thread: while a call is under way it neither
 * sends, nor reads the feed, nor hears of events. Its work and its warden are in candidate_work.c.
 */
#include "candidate.h"

#include <inttypes.h>
#include <string.h>

static uint64_t now_ms(const struct sim_world *world, const struct sim_process *process) {
    return sim_local_ms(process, world->now_us);
}

bool sim_is_leader(const struct sim_world *world, const struct sim_process *process) {
    return process->alive && ten_election_is_leader(&process->candidate->election, now_ms(world, process));
}

struct sim_process *sim_leader_of(const struct sim_world *world, uint32_t role) {
    const ten_lease_row *held = sim_held(world, role);
    struct sim_process *holder = held ? sim_find_process(world, held->holder) : NULL;
    if (!holder || !holder->alive)
        return NULL;
    bool leads = sim_is_leader(world, holder) || holder->candidate->election.state == TEN_ELECTION_STEPPING_DOWN;
    return leads ? holder : NULL;
}

/* ---- events */

static void rest(struct sim_world *world, struct sim_candidate *candidate, uint64_t pause_us) {
    candidate->rests_until_us = world->now_us + pause_us;
}

static void on_end(struct sim_world *world, struct sim_process *process, const ten_election_event *event) {
    struct sim_candidate *candidate = process->candidate;
    bool demoted = event->kind == TEN_ELECTION_DEMOTED;
    if (demoted && world->calm && event->reason != TEN_REASON_FORCED)
        sim_fail(world, candidate->role, "%s lost %s (%s) in calm weather: its renewals came too late or not at all",
                 process->id, world->targets[candidate->role].id, ten_reason_name(event->reason));
    if (event->reason == TEN_REASON_RESIGNED || event->reason == TEN_REASON_FORCED)
        candidate->pause_us = sim_ttl_us(world) * 11 / 10;
    if (demoted)
        rest(world, candidate, event->reason == TEN_REASON_FORCED ? candidate->pause_us : 0);
    else
        candidate->rests_until_us = UINT64_MAX;
    sim_term_ends(world, process, demoted, event->reason);
}

static void on_event(struct sim_world *world, struct sim_process *process, const ten_election_event *event) {
    static const char *const names[] = {
        [TEN_ELECTION_ELECTED] = "is elected",          [TEN_ELECTION_STEP_DOWN] = "steps down",
        [TEN_ELECTION_DEMOTED] = "is demoted",          [TEN_ELECTION_RELEASED] = "released",
        [TEN_ELECTION_KEPT] = "keeps it, ms:",          [TEN_ELECTION_RENEWED] = "renewed",
        [TEN_ELECTION_RENEW_FAILED] = "renewal failed", [TEN_ELECTION_CAMPAIGN_FAILED] = "campaign failed, ms:",
        [TEN_ELECTION_RECOVERING] = "store recovers",   [TEN_ELECTION_STORE_DOWN] = "store down",
        [TEN_ELECTION_STORE_UP] = "store up",           [TEN_ELECTION_REFUSED] = "refused"};
    struct sim_candidate *candidate = process->candidate;
    bool about_time = event->kind == TEN_ELECTION_KEPT || event->kind == TEN_ELECTION_CAMPAIGN_FAILED;
    if (event->kind != TEN_ELECTION_RENEWED)
        sim_note(world, names[event->kind], process->number, candidate->role,
                 about_time ? event->remaining_ms : event->token);
    switch (event->kind) {
    case TEN_ELECTION_ELECTED:
        sim_check_elected(world, process, event->token);
        sim_term_begins(world, process);
        break;
    case TEN_ELECTION_STEP_DOWN:
    case TEN_ELECTION_DEMOTED:
        on_end(world, process, event);
        break;
    case TEN_ELECTION_KEPT:
        world->stats.keeps++;
        /* fall through */
    case TEN_ELECTION_RELEASED:
        if (candidate->rests_until_us == UINT64_MAX)
            rest(world, candidate, candidate->pause_us);
        break;
    case TEN_ELECTION_REFUSED:
        sim_fail(world, candidate->role, "%s lives, but was refused (%d)", process->id, event->error);
        break;
    default:
        break;
    }
    sim_term_hears(world, process);
}

static bool take_events(struct sim_world *world, struct sim_process *process) {
    ten_election_event event;
    bool any = false;
    for (; ten_election_event_take(&process->candidate->election, &event); any = true)
        on_event(world, process, &event);
    return any;
}

/* ---- calls */

static bool start_call(struct sim_world *world, struct sim_process *process) {
    ten_op op;
    if (process->feed_due) {
        process->feed_due = false; /* a notice that comes meanwhile counts */
        sim_send(world, process, SIM_CHANGES, NULL, 0);
    } else if (ten_election_request(&process->candidate->election, now_ms(world, process), &op)) {
        sim_send(world, process, SIM_APPLY, &op, 1);
    } else {
        return false;
    }
    return true;
}

static void drive(struct sim_world *world, struct sim_process *process) {
    const ten_election *election = &process->candidate->election;
    if (process->calling)
        return;
    (void)take_events(world, process);
    /* Instead of a request there can be a deadline that has passed: that is told before anything else is done. */
    while (!start_call(world, process) && take_events(world, process))
        ;
    if (process->calling)
        return;
    process->stopped = process->stopping && election->state == TEN_ELECTION_IDLE && election->unreleased == 0 &&
                       !process->candidate->running;
    if (!process->stopped && ten_election_next_ms(election, now_ms(world, process)) <= now_ms(world, process))
        sim_fail(world, process->candidate->role,
                 "%s says that something is due now, but has nothing to send: it would spin", process->id);
}

static uint64_t next_us(struct sim_world *world, struct sim_process *process) {
    uint64_t next_ms = ten_election_next_ms(&process->candidate->election, now_ms(world, process));
    return process->calling || next_ms == UINT64_MAX ? UINT64_MAX : sim_true_us(process, next_ms);
}

/* ---- answers */

static void answer_changes(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                           int error) {
    ten_election *election = &process->candidate->election;
    uint64_t before = process->cursor;
    if (error < 0 && error != TENURE_E_RESYNC)
        return; /* read again after the next request that succeeds, or notice */
    process->cursor = answer->cursor;
    if (error == TENURE_E_RESYNC) {
        ten_election_resync(election, now_ms(world, process));
        return;
    }
    process->feed_due |= before != UINT64_MAX && process->cursor != before;
    for (uint32_t i = 0; i < answer->count; i++)
        ten_election_change(election, now_ms(world, process), &answer->changes[i].change);
}

static void answer_call(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                        int error) {
    if (process->call_kind == SIM_CHANGES) {
        answer_changes(world, process, answer, error);
        return;
    }
    ten_election_answer(&process->candidate->election, now_ms(world, process), error,
                        error == TENURE_OK ? &answer->operations[0].result : NULL);
    process->feed_due |= error == TENURE_OK; /* a notice can be lost */
}

/* ---- what happens to it */

static void stop(struct sim_world *world, struct sim_process *process) {
    sim_term_stop(world, process);
}

void sim_candidate_resign(struct sim_world *world, struct sim_process *process, enum ten_reason reason,
                          uint64_t pause_us) {
    uint64_t pause_ms = pause_us / SIM_MS;
    sim_note(world, "wants to step down for ms:", process->number, process->candidate->role, pause_ms);
    ten_election_resign(&process->candidate->election, reason, pause_ms);
    process->candidate->pause_us = pause_us * 11 / 10; /* by its own clock */
}

static const ten_lease *lease_of(const struct sim_process *process, uint32_t target) {
    return process->candidate->role == target ? &process->candidate->election.lease : NULL;
}

static void describe(const struct sim_process *process, uint64_t now) {
    static const char *const states[] = {"idle", "following", "leading", "stepping down"};
    const struct sim_candidate *candidate = process->candidate;
    printf("role %u, %s, token %" PRIu64 ", its clock says %" PRIu64 " and to look at %" PRIu64 "%s%s", candidate->role,
           states[candidate->election.state], candidate->election.lease.token, now,
           ten_election_next_ms(&candidate->election, now), candidate->running ? ", works" : "",
           candidate->told ? ", was told to stop" : "");
}

static void end(struct sim_process *process) {
    process->candidate->running = false;
}

static const struct sim_kind candidate_kind = {.drive = drive,
                                               .next_us = next_us,
                                               .answer = answer_call,
                                               .look_for_work = sim_look_for_term_work,
                                               .look_at_work = sim_look_at_term_work,
                                               .warden_looks = sim_warden_looks,
                                               .stop = stop,
                                               .lease_of = lease_of,
                                               .describe = describe,
                                               .end = end};

struct sim_process *sim_candidate_start(struct sim_world *world, uint32_t role) {
    struct sim_process *process = sim_process_new(world, &candidate_kind);
    struct sim_candidate *candidate = sim_allocate(1, sizeof *candidate);
    process->candidate = candidate;
    process->guarded = world->roles[role].style != SIM_FUNCTION;
    candidate->role = role;
    ten_election_config config = {.namespace_name = SIM_NAMESPACE,
                                  .role = world->targets[role].id,
                                  .instance = process->id,
                                  .timing = world->timing,
                                  .at_least_ms = world->roles[role].at_least_ms,
                                  .seed = sim_random(world, UINT64_MAX)};
    ten_election_init(&candidate->election, &config);
    sim_term_init(world, process);
    ten_election_campaign(&candidate->election, now_ms(world, process));
    sim_note(world, "starts", process->number, role, 0);
    process->feed_due = true; /* sets the cursor to this moment */
    sim_push(world, sim_random(world, world->work_us),
             (struct sim_event){.kind = SIM_WORK, .process = process->number});
    sim_drive(world, process);
    return process;
}
