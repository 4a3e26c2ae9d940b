/*
 * The fleet: targets that are pinned in the store's registry. The engine brings pins with the registrations; the plan
 * (core/plan_pin.c) knows what a pin means for it. This file knows when a pin ends.
 *
 * That a target was pinned or unpinned comes to all instances through the feed, in the same order as what is handed
 * over because of it. The end of a pin does not: the store says how much is left whenever the registration is read, and
 * each instance reads it again shortly before, and at the end. So they learn of the end within moments, but not at
 * once. The first would hand targets over to an instance that still sees the pin, and would get them back. So for the
 * settle time from the end of a pin nothing is handed over.
 */
#include "core/fleet_state.h"

#define NEAR_MS    200u /* so near to its end the clocks do not differ any more */
#define EARLY_PART 8u   /* of what is left: more than clocks differ */
#define RETRY_MS   1000u

static void note_next(ten_fleet *fleet) {
    uint32_t count;
    const ten_plan_pin *pins = ten_plan_pins(fleet->plan, &count);
    fleet->pins.next_ms = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++)
        fleet->pins.next_ms = ten_min_u64(fleet->pins.next_ms, pins[i].look_ms);
}

void ten_fleet_forget_pin(ten_fleet *fleet, uint32_t number) {
    if (!ten_plan_find_pin(fleet->plan, number))
        return;
    (void)ten_plan_pin_target(fleet->plan, number, NULL, false);
    note_next(fleet);
}

bool ten_fleet_is_new_pin(const ten_fleet *fleet, uint32_t number, const ten_pin *row) {
    const ten_plan_pin *pin = ten_plan_find_pin(fleet->plan, number);
    return row->instance ? !pin || pin->until_ms != row->until_ms : pin != NULL;
}

/* It was taken back, or has ended. */
static void unpin(ten_fleet *fleet, const ten_plan_pin *pin) {
    if (fleet->now_ms + fleet->config.settle_ms >= pin->ends_ms)
        fleet->pins.rest_until_ms = fleet->now_ms + fleet->config.settle_ms;
    ten_fleet_forget_pin(fleet, pin->target);
}

/* Out of memory: it is not pinned for this instance until its registration is read again. */
void ten_fleet_note_pin(ten_fleet *fleet, uint32_t number, const ten_pin *row) {
    ten_plan_pin *pin = ten_plan_find_pin(fleet->plan, number);
    if (!row->instance) {
        if (pin)
            unpin(fleet, pin);
        return;
    }
    if (!ten_plan_pin_target(fleet->plan, number, row->instance, row->away)) {
        ten_fleet_forget_pin(fleet, number);
        return;
    }
    pin = ten_plan_find_pin(fleet->plan, number);
    /* Clocks do not run alike: the longer it still is, the earlier before its end it is read again. */
    uint64_t early_ms = row->left_ms > NEAR_MS ? row->left_ms / EARLY_PART : 0;
    pin->until_ms = row->until_ms;
    pin->ends_ms = ten_add_saturating(fleet->now_ms, row->left_ms);
    pin->look_ms = pin->ends_ms - early_ms;
    note_next(fleet);
}

uint64_t ten_fleet_reread_ms(const ten_fleet *fleet) {
    return fleet->end.stopping || fleet->end.refused || fleet->end.left ? UINT64_MAX : fleet->pins.next_ms;
}

/* Should the answer not come, it is read again later. */
const char *ten_fleet_reread(ten_fleet *fleet) {
    if (fleet->now_ms < ten_fleet_reread_ms(fleet))
        return NULL;
    uint32_t count;
    ten_plan_pin *pins = ten_plan_pins(fleet->plan, &count);
    for (ten_plan_pin *pin = pins; pin < pins + count; pin++) {
        if (fleet->now_ms < pin->look_ms)
            continue;
        pin->look_ms = fleet->now_ms + ten_max_u64(fleet->config.settle_ms, RETRY_MS);
        note_next(fleet);
        return ten_plan_target_id(fleet->plan, pin->target);
    }
    return NULL;
}
