/*
 * A member of a fleet: what its program hears and does. Its calls are carrier.c's business, its work and its warden are
 * in work.c.
 */
#include <inttypes.h>
#include <string.h>

#include "sim.h"

/* ---- targets */

static void know_number(struct sim_process *process, uint32_t target, uint32_t number) {
    if (number >= process->by_number_room) {
        uint32_t room = number * 2 + 16;
        uint32_t *by_number = sim_allocate(room, sizeof *by_number);
        for (uint32_t i = 0; i < room; i++)
            by_number[i] = i < process->by_number_room ? process->by_number[i] : SIM_NOBODY;
        free(process->by_number);
        process->by_number = by_number;
        process->by_number_room = room;
    }
    uint32_t former = process->by_number[number];
    if (former != SIM_NOBODY && former != target && process->pieces[former].number == number)
        process->pieces[former].number = SIM_NOBODY;
    process->by_number[number] = target;
    process->pieces[target].number = number;
}

/* What may be believed about a target of the fleet has changed. */
static void note_belief(const struct sim_owner *owner, uint32_t number) {
    const char *id = ten_plan_target_id(ten_fleet_plan(owner->process->fleet), number);
    uint32_t known = number < owner->process->by_number_room ? owner->process->by_number[number] : SIM_NOBODY;
    if (id && (known == SIM_NOBODY || strcmp(owner->world->targets[known].id, id) != 0))
        know_number(owner->process, sim_target_number(owner->world, id), number);
}

/* ---- claims */

void sim_claim(struct sim_world *world, struct sim_process *process, uint32_t target) {
    struct sim_piece *piece = &process->pieces[target];
    world->stats.claims++;
    sim_note(world, "claims", process->number, target, 0);
    uint32_t number = ten_fleet_claim(process->fleet, sim_local_ms(process, world->now_us), world->targets[target].id);
    know_number(process, target, number);
    piece->claim = ten_fleet_may_work(process->fleet, number, sim_local_ms(process, world->now_us)) ? SIM_CLAIM_HOLDS
                                                                                                    : SIM_CLAIM_WAITS;
    sim_carrier_tell(world, process, (ten_engine_event){.kind = TEN_ON_CALLER});
    sim_drive(world, process);
}

static void unclaim(struct sim_world *world, struct sim_process *process, uint32_t target) {
    const char *id = world->targets[target].id;
    uint32_t number = ten_plan_find_target(ten_fleet_plan(process->fleet), id);
    process->pieces[target].claim = SIM_CLAIM_NONE;
    sim_note(world, "claims no more", process->number, target, 0);
    if (number != TEN_PLAN_NONE)
        ten_fleet_unclaim(process->fleet, sim_local_ms(process, world->now_us), number);
}

/* As tenure_member_acquire(): what cannot be acquired at once is not waited for. */
static void take_answer(struct sim_world *world, struct sim_process *process, const tenure_event *event,
                        uint32_t target) {
    bool acquired = event->kind == TENURE_EVENT_ACQUIRED;
    bool refused = event->kind == TENURE_EVENT_ACQUIRE_FAILED || event->kind == TENURE_EVENT_RECOVERING ||
                   event->kind == TENURE_EVENT_STORE_DOWN;
    for (uint32_t i = 0; i < world->target_count && (acquired || refused); i++) {
        struct sim_piece *piece = &process->pieces[i];
        if (piece->claim != SIM_CLAIM_WAITS || (target != SIM_NOBODY && target != i))
            continue;
        piece->claim = SIM_CLAIM_HOLDS;
        if (refused)
            unclaim(world, process, i);
    }
}

/* A claim lasts for some looks, and none is left when all is calm. */
static void look_for_work(struct sim_world *world, struct sim_process *process) {
    for (uint32_t i = 0; i < world->target_count; i++)
        if (process->pieces[i].claim == SIM_CLAIM_HOLDS && (!world->long_work || sim_random(world, 20) == 0))
            unclaim(world, process, i);
    sim_look_for_work(world, process);
}

/* ---- events of the fleet */

/* As it happens: when the program is told, the plan may be another one. */
static void on_fact(void *userdata, const ten_fact *fact) {
    struct sim_owner *owner = userdata;
    const tenure_event *event = fact->event;
    if (fact->kind == TEN_FACT_BELIEF)
        note_belief(owner, fact->target);
    if (fact->kind != TEN_FACT_EVENT)
        return;
    enum ten_reason reason = ten_reason_parse(event->reason);
    if (event->kind == TENURE_EVENT_STOP && (reason == TEN_REASON_REBALANCE || reason == TEN_REASON_DRAIN))
        sim_check_handover(owner->world, owner->process, sim_target_number(owner->world, event->target));
}

static void on_event(struct sim_world *world, struct sim_process *process, const tenure_event *event) {
    static const char *const names[] = {[TENURE_EVENT_ACQUIRED] = "acquired",
                                        [TENURE_EVENT_ACQUIRE_FAILED] = "acquire failed",
                                        [TENURE_EVENT_RENEWED] = "renewed",
                                        [TENURE_EVENT_RENEW_FAILED] = "renewal failed",
                                        [TENURE_EVENT_LOST] = "lost",
                                        [TENURE_EVENT_STOP] = "stop",
                                        [TENURE_EVENT_RELEASED] = "released",
                                        [TENURE_EVENT_JOINED] = "sees one join",
                                        [TENURE_EVENT_LEFT] = "sees one leave",
                                        [TENURE_EVENT_PLAN_CHANGED] = "plan changed",
                                        [TENURE_EVENT_STORE_DOWN] = "store down",
                                        [TENURE_EVENT_STORE_UP] = "store up",
                                        [TENURE_EVENT_RECOVERING] = "store recovers",
                                        [TENURE_EVENT_REFUSED] = "refused",
                                        [TENURE_EVENT_STOPPED] = "stopped",
                                        [TENURE_EVENT_UNOWNED] = "tells that it is nobody's",
                                        [TENURE_EVENT_TARGET_REMOVED] = "hears that it is not registered"};
    uint32_t target = event->target[0] ? sim_target_number(world, event->target) : SIM_NOBODY;
    enum ten_reason reason = ten_reason_parse(event->reason);
    if (event->kind != TENURE_EVENT_RENEWED)
        sim_note(world, names[event->kind], process->number, target, event->token ? event->token : event->count);
    sim_work_hears(world, process, event, target);
    take_answer(world, process, event, target);
    switch (event->kind) {
    case TENURE_EVENT_LOST:
        if (reason == TEN_REASON_EXPIRED)
            process->pieces[target].expired_token = event->token;
        if (world->calm)
            sim_fail(world, target, "%s lost %s (%s) in calm weather: its renewals came too late or not at all",
                     process->id, world->targets[target].id, event->reason);
        break;
    case TENURE_EVENT_ACQUIRED:
        sim_check_spent(world, process, target, event->token);
        break;
    case TENURE_EVENT_REFUSED:
        sim_fail(world, SIM_NOBODY, "%s lives, but was refused (%d)", process->id, event->error);
        break;
    case TENURE_EVENT_STOPPED:
        process->stopped = true;
        break;
    default:
        break;
    }
}

/* Its program says which work has ended. */
static void report(struct sim_world *world, struct sim_process *process) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    for (uint32_t i = 0; i < world->target_count; i++) {
        struct sim_piece *piece = &process->pieces[i];
        if (!piece->unreported)
            continue;
        piece->unreported = false;
        if (piece->busy)
            (void)ten_fleet_end_work(process->fleet, now_ms, piece->number);
        piece->busy = false;
    }
}

static bool is_over(const struct sim_process *process) {
    return process->stopped;
}

/* ---- what happens to it */

static void stop(struct sim_world *world, struct sim_process *process) {
    for (uint32_t i = 0; i < world->target_count; i++)
        sim_flush_outgoing(process, i);
    ten_fleet_stop(process->fleet, sim_local_ms(process, world->now_us));
}

static void end(struct sim_process *process) {
    ten_fleet_free(process->fleet);
    process->fleet = NULL;
}

void sim_set_weight(struct sim_world *world, struct sim_process *process, uint32_t weight) {
    sim_note(world, "gets the weight", process->number, SIM_NOBODY, weight);
    process->weight = weight;
    ten_fleet_set_weight(process->fleet, sim_local_ms(process, world->now_us), weight);
    sim_drive(world, process);
}

static const ten_holding *lease_of(const struct sim_process *process, uint32_t target) {
    struct sim_piece *piece = &process->pieces[target];
    if (piece->number == SIM_NOBODY)
        return NULL;
    piece->lease = ten_fleet_holding(process->fleet, piece->number);
    return &piece->lease;
}

static void describe(const struct sim_process *process, uint64_t now_ms) {
    printf("weight %u, owns %zu, its clock says %" PRIu64 " and to look at %" PRIu64, process->weight,
           ten_fleet_owned_count(process->fleet), now_ms, ten_engine_look(&process->engine, now_ms).next_ms);
}

static const struct sim_kind member = {.report = report,
                                       .on_event = on_event,
                                       .is_over = is_over,
                                       .look_for_work = look_for_work,
                                       .look_at_work = sim_look_at_work,
                                       .warden_looks = sim_warden_looks,
                                       .stop = stop,
                                       .lease_of = lease_of,
                                       .describe = describe,
                                       .end = end};

struct sim_process *sim_start(struct sim_world *world, uint32_t weight, bool lame) {
    struct sim_process *process = sim_process_new(world, &member);
    process->weight = weight;
    process->lame = lame;
    process->plain = sim_chance(world, world->plain);
    ten_fleet_config config = {.namespace_name = SIM_NAMESPACE,
                               .instance = process->id,
                               .timing = world->timing,
                               .settle_ms = world->settle_ms,
                               .rank_delay_ms = world->rank_delay_ms,
                               .weight = weight,
                               .seed = sim_random(world, UINT64_MAX),
                               .registry = true,
                               .hands = true,
                               .sessions = !process->plain,
                               .events = &process->events};
    process->owner = (struct sim_owner){.world = world, .process = process};
    process->events.publish = on_fact;
    process->events.userdata = &process->owner;
    process->fleet = ten_fleet_new(&config, sim_local_ms(process, world->now_us));
    if (!process->fleet)
        abort();
    sim_carrier_start(
        world, process,
        (ten_engine_config){.step = ten_fleet_step, .due = ten_fleet_due, .part = process->fleet, .lists = true});
    sim_note(world, lame ? "starts, lame, with weight" : "starts, with weight", process->number, SIM_NOBODY, weight);
    sim_push(world, sim_random(world, world->work_us),
             (struct sim_event){.kind = SIM_WORK, .process = process->number});
    sim_drive(world, process);
    return process;
}
