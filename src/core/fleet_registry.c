/*
 * The fleet: which targets there are, when they come from the store's registry. The engine brings listings of
 * everything and single registrations that have changed.
 *
 * While registrations are being read, only some of them are known. Whoever planned with those would acquire targets
 * that the whole plan gives to others. So plan, acquires and releases wait until all have been read; after the first
 * time not for longer than the settle time: others may go on registering.
 *
 * Removals come one by one through the feed. If entries of it were missed, a listing lacks what was removed. It may also
 * be that of a store which lost data: so it is believed after the feed has shown that no epoch had begun, and for a TTL
 * from the beginning of an epoch it is not believed.
 */
#include "core/fleet_state.h"

bool ten_fleet_is_gathering(const ten_fleet *fleet) {
    return !fleet->read_once || fleet->now_ms < fleet->gathering_until_ms;
}

static void gather(ten_fleet *fleet) {
    if (fleet->gathering_until_ms == 0)
        fleet->gathering_until_ms = fleet->now_ms + fleet->settle_ms;
}

void ten_fleet_registrations_end(ten_fleet *fleet) {
    fleet->gathering_until_ms = 0;
    ten_fleet_settle(fleet);
}

void ten_fleet_begin_listing(ten_fleet *fleet) {
    fleet->overflow_told = false;
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

/* A fleet that begins with a part of the targets would have another plan than the others. One that is at work goes on: all
 * instances would stop at the same moment. */
static void refuse(ten_fleet *fleet, const char *id) {
    tenure_event event = {.kind = TENURE_EVENT_ACQUIRE_FAILED, .error = TENURE_E_TOO_MANY, .count = fleet->targets_max};
    if (fleet->stopping || fleet->overflow_told)
        return;
    fleet->overflow_told = true;
    if (fleet->read_once) {
        ten_event_queue_put_about(fleet->events, event, id, NULL);
        return;
    }
    event.kind = TENURE_EVENT_REFUSED;
    ten_event_queue_put(fleet->events, event);
    ten_fleet_stop(fleet, fleet->now_ms);
}

void ten_fleet_row(ten_fleet *fleet, const ten_row *row) {
    if (fleet->registry && row->registered) {
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
    ten_event_queue_put_about(fleet->events, (tenure_event){.kind = TENURE_EVENT_TARGET_REMOVED},
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

bool ten_fleet_end_listing(ten_fleet *fleet) {
    fleet->read_once = true;
    ten_fleet_note_unlisted(fleet);
    ten_fleet_registrations_end(fleet);
    return mark_missing(fleet);
}

uint64_t ten_fleet_believe_listing(ten_fleet *fleet) {
    if (fleet->now_ms < fleet->recovering_until_ms)
        return fleet->recovering_until_ms;
    for (uint32_t i = 0; i < fleet->target_bound; i++)
        if (fleet->targets[i].registration == TEN_REGISTRATION_MISSING)
            remove_registration(fleet, i);
    return UINT64_MAX;
}

void ten_fleet_unregistered(ten_fleet *fleet, const char *id) {
    uint32_t number = ten_plan_find_target(fleet->plan, id);
    if (number != TEN_NOBODY && ten_fleet_is_known(&fleet->targets[number]))
        remove_registration(fleet, number);
}
