/*
 * The fleet: which targets it knows, what the program wants of each, and who has it. Called by the runtime and by the
 * simulator, and by the fleet's other files. When to acquire or release one is decided in fleet_request.c.
 */
#include "base/alloc.h"
#include "core/fleet_state.h"

#define ROW(a, b, c, d, e, f, g, h, i)                                                                                 \
    {                                                                                                                  \
        TEN_TARGET_##a, TEN_TARGET_##b, TEN_TARGET_##c, TEN_TARGET_##d, TEN_TARGET_##e, TEN_TARGET_##f,                \
            TEN_TARGET_##g, TEN_TARGET_##h, TEN_TARGET_##i                                                             \
    }

/* What the program wants after a move, by what it wanted before; NO: that does not happen. */
/* clang-format off */
static const uint8_t moves[TEN_MOVES][TEN_TARGET_NO] = {
    /*                       unused   planned    claimed    unclaimed  extra    removed  revoked    unwanted dropped */
    [TEN_MOVE_PUT]     = ROW(PLANNED, PLANNED,   CLAIMED,   UNCLAIMED, CLAIMED, PLANNED, UNCLAIMED, PLANNED, UNCLAIMED),
    [TEN_MOVE_CLAIM]   = ROW(EXTRA,   CLAIMED,   CLAIMED,   CLAIMED,   EXTRA,   CLAIMED, CLAIMED,   EXTRA,   EXTRA),
    [TEN_MOVE_UNCLAIM] = ROW(NO,      UNCLAIMED, UNCLAIMED, UNCLAIMED, DROPPED, REVOKED, REVOKED,   DROPPED, DROPPED),
    [TEN_MOVE_REMOVE]  = ROW(NO,      REMOVED,   REMOVED,   REVOKED,   UNWANTED, REMOVED, REVOKED,  UNWANTED, DROPPED),
    [TEN_MOVE_HAND]    = ROW(UNWANTED, NO,       NO,        NO,        NO,      NO,      NO,        NO,      NO),
    [TEN_MOVE_END]     = ROW(NO,      PLANNED,   CLAIMED,   PLANNED,   EXTRA,   REMOVED, REMOVED,   UNWANTED, UNWANTED),
    [TEN_MOVE_FORGET]  = ROW(NO,      NO,        NO,        NO,        NO,      UNUSED,  UNUSED,    UNUSED,  UNUSED),
};
/* clang-format on */

/* ---- what is wanted */

void ten_fleet_move(ten_fleet *fleet, uint32_t number, enum ten_fleet_move move) {
    struct ten_fleet_target *target = &fleet->targets[number];
    bool is_new = target->want == TEN_TARGET_UNUSED;
    TEN_INVARIANT(moves[move][target->want] != TEN_TARGET_NO);
    target->want = moves[move][target->want] & 15u;
    if (target->want == TEN_TARGET_UNUSED) {
        TEN_INVARIANT(target->held == 0);
        *target = (struct ten_fleet_target){.holder = TEN_NOBODY};
        fleet->known_count--;
        ten_fleet_changed(fleet, number);
        return;
    }
    if (is_new)
        target->when_ms = fleet->now_ms;
    ten_plan_set_aside(fleet->plan, number, !ten_fleet_is_planned(target));
    if (!is_new)
        return;
    fleet->known_count++;
    ten_fleet_changed(fleet, number);
}

static bool make_room(ten_fleet *fleet, uint32_t number) {
    if (!ten_timers_reserve(&fleet->looks, number + 1) ||
        (fleet->config.make_room && !fleet->config.make_room(fleet->config.userdata, number)))
        return false;
    if (!TEN_GROW(fleet->targets, fleet->target_room, number + 1))
        return false;
    while (fleet->target_bound <= number)
        fleet->targets[fleet->target_bound++] = (struct ten_fleet_target){.holder = TEN_NOBODY};
    return true;
}

bool ten_fleet_is_full(const ten_fleet *fleet) {
    return fleet->known_count >= fleet->config.targets_max;
}

/* The number of a target; the caller moves it if it was not known. TEN_NOBODY: out of memory, or one too many. */
static uint32_t number_of(ten_fleet *fleet, const char *id) {
    if (ten_fleet_is_full(fleet) && ten_plan_find_target(fleet->plan, id) == TEN_NOBODY)
        return TEN_NOBODY;
    uint32_t number = ten_plan_add_target(fleet->plan, id);
    if (number == TEN_NOBODY || make_room(fleet, number))
        return number;
    ten_plan_remove_target(fleet->plan, number);
    return TEN_NOBODY;
}

uint32_t ten_fleet_put_target(ten_fleet *fleet, uint64_t now_ms, const char *id, bool paused) {
    fleet->now_ms = now_ms;
    uint32_t number = number_of(fleet, id);
    if (number == TEN_NOBODY)
        return TEN_NOBODY;
    fleet->targets[number].paused = paused;
    ten_fleet_move(fleet, number, TEN_MOVE_PUT);
    ten_fleet_look(fleet, number);
    return number;
}

void ten_fleet_remove_target(ten_fleet *fleet, uint64_t now_ms, uint32_t number) {
    fleet->now_ms = now_ms;
    ten_fleet_forget_pin(fleet, number);
    ten_fleet_move(fleet, number, TEN_MOVE_REMOVE);
    ten_fleet_look(fleet, number);
}

uint32_t ten_fleet_claim(ten_fleet *fleet, uint64_t now_ms, const char *id) {
    fleet->now_ms = now_ms;
    uint32_t number = number_of(fleet, id);
    if (number == TEN_NOBODY)
        return TEN_NOBODY;
    ten_fleet_move(fleet, number, TEN_MOVE_CLAIM);
    fleet->targets[number].when_ms = ten_min_u64(fleet->targets[number].when_ms, now_ms);
    ten_fleet_look(fleet, number);
    return number;
}

void ten_fleet_unclaim(ten_fleet *fleet, uint64_t now_ms, uint32_t number) {
    fleet->now_ms = now_ms;
    ten_fleet_move(fleet, number, TEN_MOVE_UNCLAIM);
    if (!ten_fleet_is_held(fleet, number))
        ten_fleet_move(fleet, number, TEN_MOVE_END);
    ten_fleet_look(fleet, number);
}

/* It is known only until it is released. */
uint32_t ten_fleet_put_unwanted(ten_fleet *fleet, const char *id) {
    uint32_t number = number_of(fleet, id);
    if (number != TEN_NOBODY)
        ten_fleet_move(fleet, number, TEN_MOVE_HAND);
    return number;
}

void ten_fleet_forget(ten_fleet *fleet, uint32_t number) {
    ten_timers_clear(&fleet->looks, number);
    ten_fleet_drop(fleet, number);
    ten_fleet_forget_pin(fleet, number);
    ten_fleet_move(fleet, number, TEN_MOVE_FORGET);
    ten_plan_remove_target(fleet->plan, number);
}

/* ---- who has it */

void ten_fleet_note(ten_fleet *fleet, uint32_t number, uint32_t holder, uint64_t when_ms, enum ten_fleet_news news) {
    struct ten_fleet_target *target = &fleet->targets[number];
    target->holder = holder;
    target->when_ms = when_ms;
    target->news = news & 3u;
    target->heard |= holder != TEN_NOBODY && holder != fleet->self;
}
