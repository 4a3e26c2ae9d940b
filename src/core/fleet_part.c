/*
 * The fleet as a part of the engine (core/engine.h): what each event is for it. Here is also which targets there are,
 * when they come from the store's registry: the engine brings listings of everything and single registrations that have
 * changed. What is due when is in fleet_request.c.
 *
 * While registrations are being read, only some of them are known. An instance that planned with those would acquire
 * targets that the whole plan gives to others. So plan, acquires and releases wait until all have been read; after the
 * first time not for longer than the settle time: others may go on registering.
 *
 * Removals come one by one through the feed. If entries of it were missed, a listing lacks what was removed. It may
 * also be that of a store which lost data: so it is believed after the feed has shown that no epoch had begun, and for
 * a TTL from the beginning of an epoch it is not believed.
 */
#include "core/fleet_state.h"

bool ten_fleet_is_gathering(const ten_fleet *fleet) {
    return !fleet->reading.complete || fleet->now_ms < fleet->reading.until_ms;
}

static void gather(ten_fleet *fleet) {
    if (fleet->reading.until_ms == 0)
        fleet->reading.until_ms = fleet->now_ms + fleet->config.settle_ms;
}

static void end_registrations(ten_fleet *fleet) {
    fleet->reading.until_ms = 0;
    ten_fleet_settle(fleet);
}

static void begin_listing(ten_fleet *fleet) {
    fleet->reading.overflow_told = false;
    for (uint32_t i = 0; i < fleet->target_bound; i++) {
        struct ten_fleet_target *target = &fleet->targets[i];
        target->heard = false;
        if (target->registration == TEN_REGISTRATION_READ)
            target->registration = TEN_REGISTRATION_UNREAD;
    }
}

/* Whether a registration changes what is planned. */
static bool is_new(const ten_fleet *fleet, const ten_row *row) {
    uint32_t number = ten_plan_find_target(fleet->plan, row->target.id);
    return number == TEN_NOBODY || !ten_fleet_is_known(&fleet->targets[number]) ||
           ten_fleet_is_removed(&fleet->targets[number]) || fleet->targets[number].paused != row->target.paused ||
           ten_fleet_is_new_pin(fleet, number, &row->pin);
}

/* A fleet that begins with a part of the targets would have another plan than the others. One that is at work goes on:
 * all instances would stop at the same moment. */
static void refuse(ten_fleet *fleet, const char *id) {
    tenure_event event = {
        .kind = TENURE_EVENT_ACQUIRE_FAILED, .error = TENURE_E_TOO_MANY, .count = fleet->config.targets_max};
    if (fleet->end.stopping || fleet->reading.overflow_told)
        return;
    fleet->reading.overflow_told = true;
    if (fleet->reading.complete) {
        ten_event_queue_put_about(fleet->config.events, event, id, NULL);
        return;
    }
    event.kind = TENURE_EVENT_REFUSED;
    ten_event_queue_put(fleet->config.events, event);
    ten_fleet_stop(fleet, fleet->now_ms);
}

static void take_row(ten_fleet *fleet, const ten_row *row) {
    if (fleet->config.registry && row->registered) {
        if (is_new(fleet, row)) /* a fleet that reads again what it knows goes on meanwhile */
            gather(fleet);
        uint32_t number = ten_fleet_put_target(fleet, fleet->now_ms, row->target.id, row->target.paused);
        if (number == TEN_NOBODY && ten_fleet_is_full(fleet))
            refuse(fleet, row->target.id);
        if (number != TEN_NOBODY) { /* else it comes back with the next listing */
            fleet->targets[number].registration = TEN_REGISTRATION_READ;
            ten_fleet_note_pin(fleet, number, &row->pin);
        }
    }
    ten_fleet_note_row(fleet, row);
}

static void remove_registration(ten_fleet *fleet, uint32_t number) {
    fleet->targets[number].registration = TEN_REGISTRATION_NONE;
    ten_event_queue_put_about(fleet->config.events, (tenure_event){.kind = TENURE_EVENT_TARGET_REMOVED},
                              ten_plan_target_id(fleet->plan, number), NULL);
    ten_fleet_remove_target(fleet, fleet->now_ms, number);
}

/* Marks the registrations that a complete listing did not have. True: there are some. */
static bool mark_missing(ten_fleet *fleet) {
    bool found = false;
    for (uint32_t i = 0; i < fleet->target_bound; i++) {
        struct ten_fleet_target *target = &fleet->targets[i];
        if (target->registration == TEN_REGISTRATION_UNREAD)
            target->registration = TEN_REGISTRATION_MISSING;
        found |= target->registration == TEN_REGISTRATION_MISSING;
    }
    return found;
}

static bool end_listing(ten_fleet *fleet) {
    fleet->reading.complete = true;
    ten_fleet_note_unlisted(fleet);
    end_registrations(fleet);
    return mark_missing(fleet);
}

static uint64_t believe_listing(ten_fleet *fleet) {
    if (fleet->now_ms < fleet->view.recovering_until_ms)
        return fleet->view.recovering_until_ms;
    for (uint32_t i = 0; i < fleet->target_bound; i++)
        if (fleet->targets[i].registration == TEN_REGISTRATION_MISSING)
            remove_registration(fleet, i);
    return UINT64_MAX;
}

static void unregister(ten_fleet *fleet, const char *id) {
    uint32_t number = ten_plan_find_target(fleet->plan, id);
    if (number != TEN_NOBODY && ten_fleet_is_known(&fleet->targets[number]))
        remove_registration(fleet, number);
}

/* ---- the engine */

void ten_fleet_step(void *part, const ten_engine_event *event, ten_part_update *update) {
    ten_fleet *fleet = part;
    fleet->now_ms = event->now_ms;
    switch (event->kind) {
    case TEN_ON_TIMER:
        ten_fleet_expire(fleet);
        break;
    case TEN_ON_REQUEST:
        update->ops = ten_fleet_request(fleet, &update->count);
        break;
    case TEN_ON_ANSWER:
        ten_fleet_answer(fleet, event->error, event->results);
        break;
    case TEN_ON_FOLLOW:
        ten_fleet_follow(fleet);
        break;
    case TEN_ON_CHANGE:
        ten_fleet_change(fleet, event->change);
        break;
    case TEN_ON_INSTANCES:
        ten_fleet_instances_begin(fleet);
        break;
    case TEN_ON_INSTANCE:
        ten_fleet_instance(fleet, event->instance);
        break;
    case TEN_ON_INSTANCES_END:
        ten_fleet_instances_end(fleet, event->error);
        break;
    case TEN_ON_LISTING:
        begin_listing(fleet);
        break;
    case TEN_ON_ROW:
        take_row(fleet, event->row);
        break;
    case TEN_ON_LISTING_END:
        update->lacks = end_listing(fleet);
        break;
    case TEN_ON_CHECKED:
        update->at_ms = believe_listing(fleet);
        break;
    case TEN_ON_REREAD:
        update->target = ten_fleet_reread(fleet);
        break;
    case TEN_ON_ABSENT:
        unregister(fleet, event->target);
        break;
    case TEN_ON_READ_END:
        end_registrations(fleet);
        break;
    default:
        break;
    }
}
