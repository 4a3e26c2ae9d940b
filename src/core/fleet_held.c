/*
 * The fleet: the targets that this instance has to do with, apart from all that it knows of. Of the others it keeps
 * only what a later grant needs: the highest token seen, and whether that is spent. Called by the fleet's other files.
 */
#include "base/alloc.h"
#include "core/fleet_state.h"

#define ROOM_MIN  16u
#define ROOM_PART 16u /* a large array is moved by the kernel, not copied: it grows often, and wastes little */

/* ---- places */

static bool make_room(ten_fleet *fleet) {
    if (fleet->held.free || fleet->held.bound < fleet->held.room)
        return true;
    uint32_t room = fleet->held.room + fleet->held.room / ROOM_PART + ROOM_MIN;
    struct ten_fleet_held *held = ten_realloc(fleet->held.list, room * sizeof *held);
    if (!held)
        return false;
    fleet->held.list = held;
    fleet->held.room = room;
    return true;
}

static uint32_t take_place(ten_fleet *fleet) {
    if (!fleet->held.free)
        return fleet->held.bound++;
    uint32_t place = fleet->held.free - 1;
    fleet->held.free = fleet->held.list[place].newer;
    return place;
}

struct ten_fleet_held *ten_fleet_hold(ten_fleet *fleet, uint32_t number) {
    if (fleet->targets[number].held)
        return ten_fleet_held(fleet, number);
    if (!make_room(fleet))
        return NULL;
    uint32_t place = take_place(fleet);
    fleet->held.list[place] = (struct ten_fleet_held){
        .holding = ten_fleet_holding(fleet, number), .older = TEN_NOBODY, .newer = TEN_NOBODY, .used = true};
    fleet->targets[number].held = place + 1;
    return &fleet->held.list[place];
}

void ten_fleet_drop(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (!held)
        return;
    TEN_INVARIANT(!held->in_order);
    *held = (struct ten_fleet_held){.newer = fleet->held.free};
    fleet->held.free = fleet->targets[number].held;
    fleet->targets[number].held = 0;
}

void ten_fleet_let_go(ten_fleet *fleet, uint32_t number) {
    const struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (!held || held->busy || held->in_order || held->holding.state != TEN_HOLDING_NONE ||
        held->holding.flight != TEN_FLIGHT_NONE || held->holding.expired)
        return;
    ten_holding holding = held->holding;
    ten_fleet_drop(fleet, number);
    ten_fleet_set_holding(fleet, number, &holding);
}

/* ---- holdings */

ten_holding ten_fleet_holding(const ten_fleet *fleet, uint32_t number) {
    const struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    ten_holding_rest rest = fleet->targets[number].rest;
    return held ? held->holding
                : (ten_holding){.known_token = rest.known_token, .spent = rest.spent, .stray = rest.stray};
}

void ten_fleet_set_holding(ten_fleet *fleet, uint32_t number, const ten_holding *holding) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (held)
        held->holding = *holding;
    else
        fleet->targets[number].rest = (ten_holding_rest){
            .known_token = holding->known_token & UINT64_MAX >> 2, .spent = holding->spent, .stray = holding->stray};
}

/* ---- held targets, the oldest renewal first */

static void unlink_held(ten_fleet *fleet, struct ten_fleet_held *held) {
    if (held->older != TEN_NOBODY)
        ten_fleet_held(fleet, held->older)->newer = held->newer;
    else
        fleet->held.oldest = held->newer;
    if (held->newer != TEN_NOBODY)
        ten_fleet_held(fleet, held->newer)->older = held->older;
    else
        fleet->held.newest = held->older;
    held->in_order = false;
    fleet->held.count--;
}

void ten_fleet_leave_order(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (!held || !held->in_order)
        return;
    ten_fleet_set_check(fleet, held, TEN_FLEET_SURE);
    unlink_held(fleet, held);
}

void ten_fleet_enter_order(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (held->in_order)
        unlink_held(fleet, held);
    /* Usually it is the newest. What is acquired on a session counts from the last heartbeat, which may be older than
     * the renewals of a few that are not on it. */
    uint32_t older = fleet->held.newest;
    while (older != TEN_NOBODY && ten_fleet_held(fleet, older)->holding.sent_ms > held->holding.sent_ms)
        older = ten_fleet_held(fleet, older)->older;
    held->older = older;
    held->newer = older == TEN_NOBODY ? fleet->held.oldest : ten_fleet_held(fleet, older)->newer;
    if (held->older != TEN_NOBODY)
        ten_fleet_held(fleet, held->older)->newer = number;
    else
        fleet->held.oldest = number;
    if (held->newer != TEN_NOBODY)
        ten_fleet_held(fleet, held->newer)->older = number;
    else
        fleet->held.newest = number;
    held->in_order = true;
    fleet->held.count++;
}
