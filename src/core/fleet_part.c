/*
 * The fleet as a part of the engine (core/engine.h): what each event is for it, and when it wants something.
 */
#include "core/fleet_state.h"

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
        ten_fleet_begin_listing(fleet);
        break;
    case TEN_ON_ROW:
        ten_fleet_row(fleet, event->row);
        break;
    case TEN_ON_LISTING_END:
        update->lacks = ten_fleet_end_listing(fleet);
        break;
    case TEN_ON_CHECKED:
        update->at_ms = ten_fleet_believe_listing(fleet);
        break;
    case TEN_ON_REREAD:
        update->target = ten_fleet_reread(fleet);
        break;
    case TEN_ON_ABSENT:
        ten_fleet_unregistered(fleet, event->target);
        break;
    case TEN_ON_READ_END:
        ten_fleet_registrations_end(fleet);
        break;
    default:
        break;
    }
}

void ten_fleet_due(const void *part, uint64_t now_ms, ten_part_due *due) {
    const ten_fleet *fleet = part;
    due->next_ms = ten_fleet_next_ms(fleet, now_ms);
    due->urgent_ms = ten_fleet_urgent_ms(fleet);
    due->deadline_ms = ten_fleet_deadline_ms(fleet);
    due->reread_ms = ten_fleet_reread_ms(fleet);
    if (fleet->announced && !fleet->left && !fleet->refused)
        due->instances_ms = fleet->next_list_ms;
}
