/*
 * The fleet: targets without a holder. They are searched for whenever a heartbeat was answered, so that an unreachable
 * store causes no false reports. One instance reports such a target, once until it has had a holder again: its planned
 * holder or, if it has none, the instance whose id sorts first. Called by fleet_answer.c.
 */
#include <string.h>

#include "core/fleet_state.h"

/* As far as this instance knows. A live instance renews what it holds. */
static bool has_holder(const ten_fleet *fleet, uint32_t number) {
    const struct ten_fleet_target *target = &fleet->targets[number];
    if (ten_fleet_is_held(fleet, number))
        return true;
    if (target->holder == TEN_OUTSIDER)
        return target->when_ms > fleet->now_ms && target->news != TEN_NEWS_BARREN;
    return target->holder != TEN_NOBODY && target->holder != fleet->self;
}

static bool is_first_by_name(const ten_fleet *fleet) {
    for (uint32_t i = 0; i < fleet->instance_room; i++) {
        const char *id = fleet->instances[i].known ? ten_plan_instance_id(fleet->plan, i) : NULL;
        if (id && strcmp(id, fleet->config.instance) < 0)
            return false;
    }
    return true;
}

static bool is_mine_to_tell(const ten_fleet *fleet, uint32_t number) {
    uint32_t planned = ten_plan_holder(fleet->plan, number);
    return planned == fleet->self || (planned == TEN_NOBODY && is_first_by_name(fleet));
}

/* For what this instance held until now, this is not known. */
static uint64_t since_when_ms(const ten_fleet *fleet, const struct ten_fleet_target *target) {
    uint64_t known_ms = target->when_ms ? target->when_ms : fleet->now_ms;
    return ten_max_u64(ten_min_u64(known_ms, fleet->now_ms), 1);
}

void ten_fleet_look_for_unowned(ten_fleet *fleet) {
    ten_fleet_unowned found = {0};
    for (uint32_t i = 0; i < fleet->target_bound; i++) {
        struct ten_fleet_target *target = &fleet->targets[i];
        if (ten_fleet_flight(fleet, i) == TEN_FLIGHT_ACQUIRE)
            continue; /* its answer comes next */
        if (!ten_fleet_is_planned(target) || has_holder(fleet, i)) {
            target->unowned_ms = 0;
            target->unowned_told = false;
            continue;
        }
        if (target->unowned_ms == 0)
            target->unowned_ms = since_when_ms(fleet, target);
        found.count++;
        found.since_ms = found.since_ms ? ten_min_u64(found.since_ms, target->unowned_ms) : target->unowned_ms;
        uint64_t free_ms = fleet->now_ms - target->unowned_ms;
        if (free_ms <= fleet->config.timing.ttl_ms || target->unowned_told || !is_mine_to_tell(fleet, i))
            continue;
        target->unowned_told = true;
        ten_fleet_tell(fleet, i,
                       (tenure_event){.kind = TENURE_EVENT_UNOWNED,
                                      .token = ten_fleet_known_token(fleet, i),
                                      .reason = ten_reason_name((enum ten_reason)target->end_reason),
                                      .free_ms = free_ms});
    }
    fleet->unowned = found;
}

ten_fleet_unowned ten_fleet_get_unowned(const ten_fleet *fleet) {
    return fleet->unowned;
}

size_t ten_fleet_planned_count(const ten_fleet *fleet) {
    return fleet->self == TEN_NOBODY ? 0 : ten_plan_share(fleet->plan, fleet->self);
}

uint64_t ten_fleet_margin_ms(const ten_fleet *fleet, uint64_t now_ms) {
    uint64_t deadline_ms = ten_fleet_deadline_ms(fleet);
    return deadline_ms == UINT64_MAX ? 0 : ten_sub_saturating(deadline_ms, now_ms);
}
