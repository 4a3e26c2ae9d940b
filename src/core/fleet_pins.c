/*
 * The fleet: targets that are pinned in the store's registry. The engine brings pins with the registrations; the plan
 * (core/plan_pin.c) knows what a pin means for it. This file knows when a pin ends.
 *
 * That a target was pinned or unpinned comes to all instances through the feed, in the same order as what is handed
 * over because of it. The end of a pin does not: the store says how much is left whenever the registration is read, and
 * each instance reads it again shortly before, and at the end. So they hear of the end within moments, but not at once.
 * Who heard of it first would hand targets over to one that still sees the pin, and would get them back. So for the
 * settle time from the end of a pin nothing is handed over.
 */
#include <string.h>

#include "base/alloc.h"
#include "core/fleet_state.h"

#define NEAR_MS    200u /* so near to its end the clocks do not differ any more */
#define EARLY_PART 8u   /* of what is left: more than clocks differ */
#define RETRY_MS   1000u

/* The place of the target's pin, or where it would be inserted. */
static uint32_t find_place(const ten_fleet *fleet, uint32_t target) {
    return ten_place_of(fleet->pins.list, fleet->pins.count, sizeof *fleet->pins.list, target);
}

static struct ten_fleet_pin *find(const ten_fleet *fleet, uint32_t target) {
    uint32_t place = fleet->pins.count ? find_place(fleet, target) : 0;
    return place < fleet->pins.count && fleet->pins.list[place].target == target ? &fleet->pins.list[place] : NULL;
}

static void note_next(ten_fleet *fleet) {
    fleet->pins.next_ms = UINT64_MAX;
    for (uint32_t i = 0; i < fleet->pins.count; i++)
        fleet->pins.next_ms = ten_min_u64(fleet->pins.next_ms, fleet->pins.list[i].look_ms);
}

void ten_fleet_forget_pin(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_pin *pin = find(fleet, number);
    if (!pin)
        return;
    (void)ten_plan_pin(fleet->plan, number, NULL, false);
    size_t place = (size_t)(pin - fleet->pins.list);
    fleet->pins.count--;
    memmove(pin, pin + 1, (fleet->pins.count - place) * sizeof *pin);
    note_next(fleet);
}

bool ten_fleet_is_new_pin(const ten_fleet *fleet, uint32_t number, const ten_pin *row) {
    const struct ten_fleet_pin *pin = find(fleet, number);
    return row->instance ? !pin || pin->until_ms != row->until_ms : pin != NULL;
}

/* Taken back by somebody, of which the feed has told; or it has ended. */
static void unpin(ten_fleet *fleet, const struct ten_fleet_pin *pin) {
    if (fleet->now_ms + fleet->config.settle_ms >= pin->ends_ms)
        fleet->pins.rest_until_ms = fleet->now_ms + fleet->config.settle_ms;
    ten_fleet_forget_pin(fleet, pin->target);
}

static struct ten_fleet_pin *add(ten_fleet *fleet, uint32_t number) {
    if (!TEN_GROW(fleet->pins.list, fleet->pins.room, fleet->pins.count + 1))
        return NULL;
    struct ten_fleet_pin *pin = &fleet->pins.list[find_place(fleet, number)];
    memmove(pin + 1, pin, (size_t)(fleet->pins.list + fleet->pins.count - pin) * sizeof *pin);
    *pin = (struct ten_fleet_pin){.target = number};
    fleet->pins.count++;
    return pin;
}

/* Out of memory: it is not pinned for this instance until its registration is read again. */
void ten_fleet_note_pin(ten_fleet *fleet, uint32_t number, const ten_pin *row) {
    struct ten_fleet_pin *pin = find(fleet, number);
    if (!row->instance) {
        if (pin)
            unpin(fleet, pin);
        return;
    }
    if (!pin)
        pin = add(fleet, number);
    if (!pin)
        return;
    if (!ten_plan_pin(fleet->plan, number, row->instance, row->away)) {
        ten_fleet_forget_pin(fleet, number);
        return;
    }
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
    for (uint32_t i = 0; i < fleet->pins.count; i++) {
        struct ten_fleet_pin *pin = &fleet->pins.list[i];
        if (fleet->now_ms < pin->look_ms)
            continue;
        pin->look_ms = fleet->now_ms + ten_max_u64(fleet->config.settle_ms, RETRY_MS);
        note_next(fleet);
        return ten_plan_target_id(fleet->plan, pin->target);
    }
    return NULL;
}
