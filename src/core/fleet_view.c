/*
 * The fleet's view of the other instances: which are alive, who holds what, and the plan that follows from it. Called
 * by the fleet's other files, and by the runtime and the simulator with lists and changes.
 */
#include <string.h>

#include "base/alloc.h"
#include "core/fleet_state.h"

/* ---- the plan */

static void on_moved(uint32_t number, uint32_t from, uint32_t to, void *userdata) {
    ten_fleet *fleet = userdata;
    (void)from;
    (void)to;
    fleet->moved_count++;
    if (ten_fleet_knows(fleet, number)) {
        struct ten_fleet_target *target = &fleet->targets[number];
        /* It has another planned holder now, about which past failures to take it say nothing. */
        target->strikes = 0;
        if (target->held)
            ten_fleet_held(fleet, number)->keep_ms = 0;
        /* A live holder hands it over, so trying can wait. The lease of a dead one expires when it expires. */
        if (target->when_ms && target->holder < TEN_OUTSIDER)
            target->when_ms = ten_max_u64(target->when_ms, fleet->now_ms + fleet->config.timing.ttl_ms);
        ten_fleet_look(fleet, number);
    }
}

ten_plan *ten_fleet_make_plan(ten_fleet *fleet) {
    return ten_plan_new(on_moved, fleet);
}

void ten_fleet_settle(ten_fleet *fleet) {
    if (ten_fleet_is_gathering(fleet))
        return;
    fleet->moved_count = 0;
    /* Out of memory: the plan stays as it was; settled again at the next occasion. */
    (void)ten_plan_settle(fleet->plan);
    if (fleet->moved_count > 0)
        ten_event_queue_put(fleet->config.events,
                            (tenure_event){.kind = TENURE_EVENT_PLAN_CHANGED, .count = fleet->moved_count});
}

bool ten_fleet_is_eligible(const ten_fleet *fleet, uint32_t number) {
    const struct ten_fleet_instance *instance = &fleet->instances[number];
    return instance->known && fleet->now_ms >= instance->since_ms + fleet->config.settle_ms;
}

/* ---- the other instances */

static bool make_room(ten_fleet *fleet, uint32_t number) {
    uint32_t before = fleet->instance_room;
    if (!TEN_GROW(fleet->instances, fleet->instance_room, number + 1))
        return false;
    memset(fleet->instances + before, 0, (fleet->instance_room - before) * sizeof *fleet->instances);
    return true;
}

static void tell_instance(ten_fleet *fleet, enum tenure_event_kind kind, const char *id) {
    ten_event_queue_put_about(fleet->config.events, (tenure_event){.kind = kind}, NULL, id);
}

uint32_t ten_fleet_put_instance(ten_fleet *fleet, const char *id, uint32_t weight) {
    uint32_t number = ten_plan_set_instance(fleet->plan, id, weight);
    if (number == TEN_NOBODY)
        return TEN_NOBODY;
    if (!make_room(fleet, number)) {
        ten_plan_remove_instance(fleet->plan, number);
        return TEN_NOBODY;
    }
    struct ten_fleet_instance *instance = &fleet->instances[number];
    if (!instance->known) {
        *instance = (struct ten_fleet_instance){.known = true, .since_ms = fleet->now_ms};
        if (strcmp(id, fleet->config.instance) != 0) {
            fleet->view.joined_ms = fleet->now_ms;
            tell_instance(fleet, TENURE_EVENT_JOINED, id);
        }
    }
    return number;
}

/* What a dead instance held is free now or in a moment: its leases were renewed with its heartbeats. */
static void free_targets_of(ten_fleet *fleet, uint32_t number) {
    for (uint32_t i = 0; i < fleet->target_bound; i++) {
        struct ten_fleet_target *target = &fleet->targets[i];
        if (!ten_fleet_is_known(target) || target->holder != number)
            continue;
        target->end_reason = TEN_REASON_EXPIRED;
        ten_fleet_note(fleet, i, TEN_NOBODY, fleet->now_ms, TEN_NEWS_NONE);
        ten_fleet_look(fleet, i);
    }
}

static void remove_instance(ten_fleet *fleet, uint32_t number) {
    if (number == fleet->self || !fleet->instances[number].known)
        return;
    tell_instance(fleet, TENURE_EVENT_LEFT, ten_plan_instance_id(fleet->plan, number));
    free_targets_of(fleet, number);
    fleet->instances[number] = (struct ten_fleet_instance){0};
    ten_plan_remove_instance(fleet->plan, number);
}

void ten_fleet_instances_begin(ten_fleet *fleet) {
    for (uint32_t i = 0; i < fleet->instance_room; i++)
        fleet->instances[i].listed = false;
}

void ten_fleet_instance(ten_fleet *fleet, const ten_instance *instance) {
    bool own = strcmp(instance->instance, fleet->config.instance) == 0;
    uint32_t number = ten_fleet_put_instance(fleet, instance->instance, own ? fleet->own.weight : instance->weight);
    if (number == TEN_NOBODY)
        return;
    fleet->instances[number].listed = true;
    fleet->instances[number].foreign = instance->ttl_ms == 0;
    fleet->instances[number].has_session = instance->has_session;
    fleet->instances[number].ends_ms = fleet->now_ms + instance->remaining_ms;
}

/* The next list is due when the first heartbeat expires that is not renewed until then: so a dead instance is noticed
 * at that instant. */
static uint64_t next_list_ms(const ten_fleet *fleet) {
    uint64_t next_ms = fleet->now_ms + fleet->config.timing.renew_ms;
    for (uint32_t i = 0; i < fleet->instance_room; i++)
        if (fleet->instances[i].known && i != fleet->self)
            next_ms = ten_min_u64(next_ms, fleet->instances[i].ends_ms + 1);
    return ten_max_u64(next_ms, fleet->now_ms + 1);
}

void ten_fleet_instances_end(ten_fleet *fleet, int error) {
    if (error < 0) {
        fleet->view.next_list_ms = fleet->now_ms + ten_max_u64(fleet->config.timing.renew_ms / 8, 1);
        return;
    }
    /* An instance that leaves says so. One that is missing although its heartbeat has not expired was forgotten by a
     * store that lost data, and will announce itself again: redistributing its targets would only be undone. */
    for (uint32_t i = 0; i < fleet->instance_room; i++)
        if (fleet->instances[i].known && !fleet->instances[i].listed && fleet->now_ms >= fleet->instances[i].ends_ms)
            remove_instance(fleet, i);
    bool first = !fleet->view.listed;
    fleet->view.listed = true;
    fleet->view.last_list_ms = fleet->now_ms;
    fleet->view.next_list_ms = next_list_ms(fleet);
    ten_fleet_choose_session_use(fleet);
    ten_fleet_settle(fleet);
    for (uint32_t i = 0; first && i < fleet->target_bound; i++)
        if (ten_fleet_is_known(&fleet->targets[i]))
            ten_fleet_look(fleet, i);
}

/* ---- who holds what */

/* The store has a lease of this instance that it does not believe in, and never will: it was released, or its deadline
 * has passed, and then the store lost that, or a late request brought it back. On a session it would not end by itself.
 */
static void release_old(ten_fleet *fleet, uint32_t number, uint64_t token) {
    ten_holding holding = ten_fleet_holding(fleet, number);
    const struct ten_fleet_held *known = ten_fleet_held(fleet, number);
    if (holding.state != TEN_HOLDING_NONE || holding.flight != TEN_FLIGHT_NONE || holding.stray ||
        (known && known->busy))
        return;
    struct ten_fleet_held *held = ten_fleet_hold(fleet, number);
    if (!held)
        return; /* out of memory */
    ten_holding_disown(&held->holding, token, TEN_REASON_STORE);
    ten_fleet_look(fleet, number);
}

static void note_holder(ten_fleet *fleet, uint32_t number, const char *holder, uint64_t token, uint64_t remaining_ms,
                        bool handed) {
    struct ten_fleet_target *target = &fleet->targets[number];
    bool mine = holder && strcmp(holder, fleet->config.instance) == 0;
    ten_holding holding = ten_fleet_holding(fleet, number);
    enum ten_holding_news news = ten_holding_hear(&holding, token, mine);
    ten_fleet_set_holding(fleet, number, &holding);
    if (news == TEN_HOLDING_OUTDATED) {
        if (!mine)
            ten_fleet_doubt_session_lease(fleet, number);
        return;
    }
    if (mine) {
        if (holding.stray)
            ten_fleet_look(fleet, number);
        if (holding.stray && news == TEN_HOLDING_NEWER) /* handed over to this instance, perhaps */
            ten_fleet_note(fleet, number, TEN_NOBODY, fleet->now_ms, TEN_NEWS_NONE);
        return;
    }
    uint32_t instance = holder ? ten_plan_find_instance(fleet->plan, holder) : TEN_NOBODY;
    if (instance != TEN_NOBODY && news == TEN_HOLDING_NEWER && !handed) /* it need not live to be given something */
        fleet->instances[instance].active_ms = fleet->now_ms;
    ten_fleet_note(fleet, number, holder && instance == TEN_NOBODY ? TEN_OUTSIDER : instance,
                   fleet->now_ms + (holder ? ten_max_u64(remaining_ms, 1) : 0),
                   handed ? TEN_NEWS_HANDED : TEN_NEWS_NONE);
    /* The planned holder has taken it, after all. It may not know yet of what this instance handed over to it. */
    if (holder && instance == ten_plan_holder(fleet->plan, number) && !target->handed_over)
        target->strikes = 0;
    if (ten_fleet_is_held(fleet, number))
        ten_fleet_lost(fleet, number, TEN_REASON_TAKEN);
    else
        ten_fleet_look(fleet, number);
}

/* A listing shows that a target is free which another instance was known to hold: the entry of the feed that said so
 * was missed. It is not free for this instance while the store refuses it: it is recovering, or the lease cannot be
 * had. */
static void note_free(ten_fleet *fleet, uint32_t number, uint64_t token) {
    struct ten_fleet_target *target = &fleet->targets[number];
    if (token < ten_fleet_known_token(fleet, number) || ten_fleet_is_held(fleet, number) ||
        target->news == TEN_NEWS_BARREN || target->holder == TEN_NOBODY ||
        fleet->now_ms < fleet->view.recovering_until_ms)
        return;
    target->end_reason = TEN_REASON_NONE;
    ten_fleet_note(fleet, number, TEN_NOBODY, fleet->now_ms, TEN_NEWS_NONE);
    ten_fleet_look(fleet, number);
}

void ten_fleet_note_row(ten_fleet *fleet, const ten_row *row) {
    uint32_t number = ten_plan_find_target(fleet->plan, row->target.id);
    bool mine = fleet->config.sessions && row->holder && strcmp(row->holder, fleet->config.instance) == 0;
    if (number == TEN_NOBODY && mine && !row->registered)
        number = ten_fleet_put_unwanted(fleet, row->target.id);
    if (number == TEN_NOBODY || !ten_fleet_is_known(&fleet->targets[number]) ||
        ten_fleet_flight(fleet, number) != TEN_FLIGHT_NONE)
        return;
    if (row->holder)
        note_holder(fleet, number, row->holder, row->token, row->remaining_ms, false);
    if (mine && !row->barred)
        release_old(fleet, number, row->token);
    if (!row->holder)
        note_free(fleet, number, row->token);
}

/* A listing has no row for what is free and not registered. If it was taken since its page was read, an
 * acquire is refused, and says who holds it. */
void ten_fleet_note_unlisted(ten_fleet *fleet) {
    for (uint32_t i = 0; i < fleet->target_bound; i++) {
        const struct ten_fleet_target *target = &fleet->targets[i];
        if (ten_fleet_is_known(target) && !target->heard && ten_fleet_flight(fleet, i) == TEN_FLIGHT_NONE)
            note_free(fleet, i, ten_fleet_known_token(fleet, i));
    }
}

static void note_released(ten_fleet *fleet, uint32_t number, const ten_change *change) {
    struct ten_fleet_target *target = &fleet->targets[number];
    if (ten_fleet_is_held(fleet, number) && change->token >= ten_fleet_holding(fleet, number).token)
        ten_fleet_doubt_session_lease(fleet, number);
    if (change->token < ten_fleet_known_token(fleet, number) || ten_fleet_is_held(fleet, number))
        return;
    target->end_reason = (uint8_t)change->reason;
    ten_fleet_note(fleet, number, TEN_NOBODY, fleet->now_ms, TEN_NEWS_NONE);
    ten_fleet_look(fleet, number);
}

/* When to try a target whose lease was forced. The feed does not say when that ends. A holder that lives releases it as
 * soon as its work has stopped; for another it is tried when its heartbeat ends, as without the force. Should the lease
 * last longer than that, the refusal says so. */
static uint64_t forced_ms(const ten_fleet *fleet, const struct ten_fleet_target *target) {
    uint64_t ends_ms = target->holder < TEN_OUTSIDER ? fleet->instances[target->holder].ends_ms : target->when_ms;
    return ten_max_u64(ends_ms, fleet->now_ms);
}

/* A lease that was forced is barred: it cannot be renewed, and the target is free when it ends or is released. */
static void note_forced(ten_fleet *fleet, uint32_t number, uint64_t token) {
    const struct ten_fleet_target *target = &fleet->targets[number];
    ten_holding holding = ten_fleet_holding(fleet, number);
    ten_holding_know(&holding, token);
    ten_fleet_set_holding(fleet, number, &holding);
    bool own = ten_fleet_is_held(fleet, number);
    uint64_t when_ms = own ? fleet->now_ms : forced_ms(fleet, target);
    if (own)
        ten_fleet_lost(fleet, number, TEN_REASON_FORCED);
    if (!ten_fleet_is_known(target))
        return;
    ten_fleet_note(fleet, number, TEN_OUTSIDER, when_ms, TEN_NEWS_NONE);
    ten_fleet_look(fleet, number);
}

static void note_lease_change(ten_fleet *fleet, const ten_change *change) {
    bool handed = change->kind == TENURE_EVENT_ACQUIRED && change->reason != TEN_REASON_NONE;
    bool mine = change->kind == TENURE_EVENT_ACQUIRED && strcmp(change->instance, fleet->config.instance) == 0;
    uint32_t number = ten_plan_find_target(fleet->plan, change->target);
    /* Handed over to this instance, in whose list of targets it is not (any more); or a late acquire of its own, which
     * on a session does not end by itself. */
    if (number == TEN_NOBODY && mine && (handed || fleet->config.sessions) && !ten_fleet_is_gathering(fleet))
        number = ten_fleet_put_unwanted(fleet, change->target);
    if (number == TEN_NOBODY || !ten_fleet_is_known(&fleet->targets[number]))
        return;
    if (change->kind == TENURE_EVENT_ACQUIRED) {
        note_holder(fleet, number, change->instance, change->token, fleet->config.timing.ttl_ms, handed);
        /* A late renewal has put it back. */
        if (mine && fleet->config.sessions && fleet->now_ms < fleet->view.recovering_until_ms)
            release_old(fleet, number, change->token);
    } else if (change->kind == TENURE_EVENT_RELEASED) {
        note_released(fleet, number, change);
    } else if (change->reason == TEN_REASON_FORCED && change->token >= ten_fleet_known_token(fleet, number)) {
        note_forced(fleet, number, change->token);
    }
}

/* Lists of a large fleet are long, and when many instances join at once, every instance wants one. So there is a
 * minimum time between two lists, which grows with the fleet. */
static void want_list(ten_fleet *fleet) {
    uint64_t gap_ms = fleet->config.rank_delay_ms / 2 + ten_plan_instance_count(fleet->plan);
    fleet->view.next_list_ms =
        ten_min_u64(fleet->view.next_list_ms, ten_max_u64(fleet->now_ms, fleet->view.last_list_ms + gap_ms));
}

static void note_instance_change(ten_fleet *fleet, const ten_change *change) {
    uint32_t number = ten_plan_find_instance(fleet->plan, change->instance);
    if (strcmp(change->instance, fleet->config.instance) == 0) {
        /* What is asked of this instance comes with the answer to its heartbeat. While it stops, this is its own
         * heartbeat without weight: what was handed over to it came before. */
        if (change->kind == TENURE_EVENT_INSTANCE_CHANGED && fleet->end.stopping)
            fleet->end.parted = true;
        else if (change->kind == TENURE_EVENT_INSTANCE_CHANGED)
            fleet->own.next_beat_ms = fleet->now_ms;
    } else if (change->kind == TENURE_EVENT_LEFT) {
        if (number != TEN_NOBODY)
            remove_instance(fleet, number);
    } else {
        /* If a known instance joins, its heartbeat had expired, and its leases with it. */
        if (change->kind == TENURE_EVENT_JOINED && number != TEN_NOBODY)
            free_targets_of(fleet, number);
        want_list(fleet);
    }
}

/* The store may have lost data: what it said before counts no more, and what it says now is doubted for a TTL. */
static void begin_epoch(ten_fleet *fleet) {
    if (fleet->own.announced)
        fleet->view.next_list_ms = fleet->now_ms;
    fleet->own.start_ms =
        fleet->now_ms; /* the other instances have to be seen again, as after a start: see turn_ms() */
    fleet->view.recovering_until_ms = fleet->now_ms + fleet->config.timing.ttl_ms;
    for (uint32_t i = 0; i < fleet->target_bound; i++) {
        if (!ten_fleet_is_known(&fleet->targets[i]) || ten_fleet_is_held(fleet, i))
            continue;
        ten_fleet_note(fleet, i, TEN_NOBODY, fleet->now_ms, TEN_NEWS_NONE);
        ten_fleet_look(fleet, i);
    }
}

void ten_fleet_change(ten_fleet *fleet, const ten_change *change) {
    switch (change->kind) {
    case TENURE_EVENT_ACQUIRED:
    case TENURE_EVENT_RELEASED:
    case TENURE_EVENT_LOST:
        note_lease_change(fleet, change);
        break;
    case TENURE_EVENT_JOINED:
    case TENURE_EVENT_INSTANCE_CHANGED:
    case TENURE_EVENT_LEFT:
        if (fleet->own.announced)
            note_instance_change(fleet, change);
        break;
    case TENURE_EVENT_RECOVERING:
        begin_epoch(fleet);
        break;
    default: /* targets are read by the engine; only roles are asked for */
        break;
    }
}

/* The first time, and after entries of the feed were missed. That costs only another look: the listing of targets,
 * which the engine makes, corrects who holds what, and the list of instances who is there. Nothing is put off. */
void ten_fleet_follow(ten_fleet *fleet) {
    if (fleet->own.announced)
        want_list(fleet);
    if (!fleet->view.followed)
        fleet->own.start_ms = fleet->now_ms;
    fleet->view.followed = true;
}
