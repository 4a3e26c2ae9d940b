/*
 * A candidate: what its program hears and does. Its calls are carrier.c's business, its work and its warden are in
 * candidate_work.c.
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
    if (!holder || !holder->alive || holder->candidate->role != role)
        return NULL;
    bool leads = sim_is_leader(world, holder) || holder->candidate->election.state == TEN_ELECTION_STEPPING_DOWN;
    return leads ? holder : NULL;
}

bool sim_is_candidate(const struct sim_world *world, const struct sim_process *process, uint32_t role) {
    const struct sim_role *slots = &world->roles[role];
    uint32_t own = process->candidate->role;
    return own == role || (slots->slots && own >= slots->first && own < slots->first + slots->slots);
}

void sim_make_slots(struct sim_world *world, uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; i++) {
        world->roles[i] = world->roles[first];
        world->roles[i].first = first;
        world->roles[i].slots = count;
    }
}

/* ---- events */

static void rest(struct sim_world *world, struct sim_candidate *candidate, uint64_t pause_us) {
    candidate->rests_until_us = world->now_us + pause_us;
}

static void on_end(struct sim_world *world, struct sim_process *process, const tenure_event *event) {
    struct sim_candidate *candidate = process->candidate;
    bool demoted = event->kind == TENURE_EVENT_LOST;
    enum ten_reason reason = ten_reason_parse(event->reason);
    if (demoted && world->calm && reason != TEN_REASON_FORCED)
        sim_fail(world, candidate->role, "%s lost %s (%s) in calm weather: its renewals came too late or not at all",
                 process->id, world->targets[candidate->role].id, event->reason);
    if (reason == TEN_REASON_EXPIRED)
        process->pieces[candidate->role].expired_token = event->token;
    if (reason == TEN_REASON_RESIGNED || reason == TEN_REASON_FORCED)
        candidate->pause_us = sim_ttl_us(world) * 11 / 10;
    if (demoted)
        rest(world, candidate, reason == TEN_REASON_FORCED ? candidate->pause_us : 0);
    else
        candidate->rests_until_us = UINT64_MAX;
    sim_term_ends(world, process, demoted, reason);
}

static void on_event(struct sim_world *world, struct sim_process *process, const tenure_event *event) {
    static const char *const names[] = {[TENURE_EVENT_ACQUIRED] = "is elected",
                                        [TENURE_EVENT_STOP] = "steps down",
                                        [TENURE_EVENT_LOST] = "is demoted",
                                        [TENURE_EVENT_RELEASED] = "released",
                                        [TENURE_EVENT_KEPT] = "keeps it, ms:",
                                        [TENURE_EVENT_RENEWED] = "renewed",
                                        [TENURE_EVENT_RENEW_FAILED] = "renewal failed",
                                        [TENURE_EVENT_ACQUIRE_FAILED] = "campaign failed, ms:",
                                        [TENURE_EVENT_RECOVERING] = "store recovers",
                                        [TENURE_EVENT_STORE_DOWN] = "store down",
                                        [TENURE_EVENT_STORE_UP] = "store up",
                                        [TENURE_EVENT_REFUSED] = "refused",
                                        [TENURE_EVENT_UNANNOUNCED] = "not announced"};
    struct sim_candidate *candidate = process->candidate;
    bool about_time = event->kind == TENURE_EVENT_KEPT || event->kind == TENURE_EVENT_ACQUIRE_FAILED;
    if (event->kind != TENURE_EVENT_RENEWED)
        sim_note(world, names[event->kind], process->number, candidate->role,
                 about_time ? event->remaining_ms : event->token);
    switch (event->kind) {
    case TENURE_EVENT_ACQUIRED:
        candidate->terms++;
        if (world->roles[candidate->role].slots)
            candidate->role = world->roles[candidate->role].first + candidate->election.at;
        sim_check_elected(world, process, event->token);
        sim_term_begins(world, process);
        break;
    case TENURE_EVENT_STOP:
    case TENURE_EVENT_LOST:
        on_end(world, process, event);
        break;
    case TENURE_EVENT_KEPT:
        world->stats.keeps++;
        /* fall through */
    case TENURE_EVENT_RELEASED:
        if (candidate->rests_until_us == UINT64_MAX)
            rest(world, candidate, candidate->pause_us);
        break;
    case TENURE_EVENT_UNANNOUNCED:
        return; /* it changes nothing for the work */
    case TENURE_EVENT_REFUSED:
        sim_fail(world, candidate->role, "%s lives, but was refused (%d)", process->id, event->error);
        break;
    default:
        break;
    }
    sim_term_hears(world, process);
}

static bool is_over(const struct sim_process *process) {
    return process->stopping && ten_election_is_gone(&process->candidate->election) && !process->candidate->running;
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

static const ten_holding *lease_of(const struct sim_process *process, uint32_t target) {
    return process->candidate->role == target ? &ten_election_slot_at(&process->candidate->election)->holding : NULL;
}

static void describe(const struct sim_process *process, uint64_t now) {
    static const char *const states[] = {"idle", "following", "leading", "stepping down"};
    const struct sim_candidate *candidate = process->candidate;
    printf("role %u, %s, token %" PRIu64 ", its clock says %" PRIu64 " and to look at %" PRIu64 "%s%s", candidate->role,
           states[candidate->election.state], ten_election_slot_at(&candidate->election)->holding.token, now,
           ten_engine_look(&process->engine, now).next_ms, candidate->running ? ", works" : "",
           candidate->told ? ", was told to stop" : "");
}

static void end(struct sim_process *process) {
    process->candidate->running = false;
    ten_election_free(&process->candidate->election);
}

static const struct sim_kind candidate_kind = {.on_event = on_event,
                                               .is_over = is_over,
                                               .look_for_work = sim_look_for_term_work,
                                               .look_at_work = sim_look_at_term_work,
                                               .warden_looks = sim_warden_looks,
                                               .stop = stop,
                                               .lease_of = lease_of,
                                               .describe = describe,
                                               .end = end};

struct sim_process *sim_candidate_start(struct sim_world *world, uint32_t role) {
    return sim_candidate_start_with(world, role, 0);
}

struct sim_process *sim_candidate_start_with(struct sim_world *world, uint32_t role, int64_t priority) {
    return sim_candidate_start_timed(world, role, priority, &world->timing);
}

struct sim_process *sim_candidate_start_timed(struct sim_world *world, uint32_t role, int64_t priority,
                                              const ten_timing *timing) {
    struct sim_process *process = sim_process_new(world, &candidate_kind);
    struct sim_candidate *candidate = sim_allocate(1, sizeof *candidate);
    process->candidate = candidate;
    process->guarded = world->roles[role].style != SIM_FUNCTION;
    candidate->role = role;
    candidate->priority = priority;
    (void)snprintf(candidate->metadata, sizeof candidate->metadata, "{\"role\":\"%s\",\"priority\":%d}",
                   world->targets[role].id, (int)priority);
    ten_election_config config = {.namespace_name = SIM_NAMESPACE,
                                  .role = world->targets[role].id,
                                  .instance = process->id,
                                  .timing = *timing,
                                  .at_least_ms = world->roles[role].at_least_ms,
                                  .seed = sim_random(world, UINT64_MAX),
                                  .events = &process->events,
                                  .announces = world->roles[role].announces,
                                  .has_turns = world->roles[role].announces != TEN_ELECTION_SILENT,
                                  .priority = candidate->priority,
                                  .failback_ms = world->roles[role].failback_ms,
                                  .metadata = candidate->metadata};
    if (world->roles[role].slots) {
        config.slot_count = world->roles[role].slots;
        config.slots = candidate->slots;
        config.ops = candidate->ops;
        for (uint32_t i = 0; i < config.slot_count; i++)
            candidate->slots[i].target = world->targets[world->roles[role].first + i].id;
    }
    ten_election_init(&candidate->election, &config);
    sim_term_init(world, process);
    ten_election_campaign(&candidate->election, now_ms(world, process));
    sim_note(world, "starts", process->number, role, 0);
    sim_carrier_start(
        world, process,
        (ten_engine_config){
            .step = ten_election_step, .due = ten_election_due, .part = &candidate->election, .feed_in_turns = true});
    sim_push(world, sim_random(world, world->work_us),
             (struct sim_event){.kind = SIM_WORK, .process = process->number});
    sim_drive(world, process);
    return process;
}
