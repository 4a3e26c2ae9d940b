/*
 * The election: one candidate for one role. What the program wants, and which request comes next. Called by the engine,
 * and by the program. See election.h; answers and the feed are in election_answer.c.
 */
#include "core/election.h"

#include <string.h>

#include "base/hash.h"
#include "core/election_state.h"

#define JITTER_PART   100u /* of the TTL: over which candidates that do not know their turn are spread */
#define JITTER_MAX_MS 20u
/* After a release the spread is much smaller: the role is free, and waiting only prolongs that. */
#define RELEASE_JITTER_PART 16u
#define NEW_RANK            4u

/* Where each state leads; every change of state goes through ten_election_move(). From idle to leading: a grant that
 * arrives after it was withdrawn is accepted in order to be released. */
#define TO(state) (1u << TEN_ELECTION_##state)
static const uint8_t moves[] = {
    [TEN_ELECTION_IDLE] = TO(IDLE) | TO(FOLLOWING) | TO(LEADING),
    [TEN_ELECTION_FOLLOWING] = TO(IDLE) | TO(FOLLOWING) | TO(LEADING),
    [TEN_ELECTION_LEADING] = TO(FOLLOWING) | TO(LEADING) | TO(STEPPING_DOWN),
    [TEN_ELECTION_STEPPING_DOWN] = TO(IDLE) | TO(FOLLOWING) | TO(STEPPING_DOWN),
};

/* A term has all of its slots. Without a term, what is left of one is closing: it is released when its work is over. */
static void check(const ten_election *election) {
    TEN_ELECTION_EACH(election, slot) {
        if (ten_election_leads(election))
            TEN_INVARIANT(ten_holding_is_held(&slot->holding));
        else
            TEN_INVARIANT(slot->holding.state != TEN_HOLDING_HELD);
    }
}

void ten_election_move(ten_election *election, enum ten_election_state to) {
    TEN_INVARIANT(moves[election->state] & 1u << to);
    election->state = to;
    check(election);
}

void ten_election_tell(ten_election *election, tenure_event event, const char *other) {
    ten_event_queue_put_about(election->config.events, event, ten_election_slot_at(election)->target, other);
}

static void tell_slot(ten_election *election, const ten_election_slot *slot, enum tenure_event_kind kind,
                      enum ten_reason reason) {
    tenure_event event = {.kind = kind, .token = slot->holding.token, .reason = ten_reason_name(reason)};
    ten_event_queue_put_about(election->config.events, event, slot->target, NULL);
}

void ten_election_tell_term(ten_election *election, enum tenure_event_kind kind, enum ten_reason reason) {
    tell_slot(election, ten_election_slot_at(election), kind, reason);
}

uint64_t ten_election_at_least_max_ms(const ten_timing *timing) {
    return TENURE_TTL_MAX_MS - timing->ttl_ms;
}

void ten_election_init(ten_election *election, const ten_election_config *config) {
    TEN_INVARIANT(config->at_least_ms <= ten_election_at_least_max_ms(&config->timing));
    *election = (ten_election){.config = *config, .random = config->seed, .own = {.target = config->role}};
    for (uint32_t i = 0; i < ten_election_count(election); i++)
        ten_election_slot_of(election, i)->try_ms = UINT64_MAX;
    election->looked = ten_election_count(election) == 1;
    ten_turns_init(&election->turns, config->role, config->instance, config->timing.ttl_ms);
}

void ten_election_free(ten_election *election) {
    ten_turns_free(&election->turns);
}

/* ---- reading */

const ten_election_slot *ten_election_slot_at(const ten_election *election) {
    return ten_election_slot_of(election, ten_election_first(election));
}

uint64_t ten_election_deadline_ms(const ten_election *election) {
    uint64_t deadline_ms = UINT64_MAX;
    if (!ten_election_leads(election))
        return 0;
    TEN_ELECTION_EACH(election, slot)
        deadline_ms = ten_min_u64(deadline_ms, slot->holding.deadline_ms);
    return deadline_ms;
}

bool ten_election_is_leader(const ten_election *election, uint64_t now_ms) {
    bool may_work = !election->unkept && ten_election_leads(election);
    TEN_ELECTION_EACH(election, slot)
        may_work = may_work && ten_holding_may_work(&slot->holding, now_ms);
    return may_work;
}

bool ten_election_is_gone(const ten_election *election) {
    bool released = election->state == TEN_ELECTION_IDLE && !election->announced && election->op_count == 0;
    TEN_ELECTION_EACH(election, slot)
        released = released && slot->holding.state == TEN_HOLDING_NONE;
    return released;
}

/* ---- turns */

static bool is_holder(const void *arg, uint64_t instance) {
    const ten_election *election = arg;
    for (uint32_t i = 0; i < ten_election_count(election); i++)
        if (ten_election_slot_of(election, i)->holder == instance)
            return true;
    return false;
}

/* SIZE_MAX: it takes part in no line. One that has come just now does not know its place yet. */
static size_t rank(const ten_election *election) {
    if (!election->config.has_turns || election->announce_refused || !election->announced)
        return SIZE_MAX;
    size_t known = ten_turns_rank(&election->turns, is_holder, election);
    return known == SIZE_MAX ? NEW_RANK : known;
}

uint64_t ten_election_turn_ms(ten_election *election, uint64_t free_ms, bool released) {
    size_t own_rank = rank(election);
    if (own_rank != SIZE_MAX)
        return ten_add_saturating(free_ms, ten_turns_delay_ms(&election->turns, own_rank));
    uint64_t limit_ms = ten_min_u64(election->config.timing.ttl_ms / JITTER_PART, JITTER_MAX_MS) + 1;
    uint64_t jitter_ms = ten_jitter(&election->random, limit_ms);
    /* Those who want all of several and were in each other's way must not meet again. */
    bool shortens = released && election->config.wants != TEN_ELECTION_ALL;
    return ten_add_saturating(free_ms, shortens ? jitter_ms / RELEASE_JITTER_PART : jitter_ms);
}

/* When to read the feed after a notice: a candidate further back in the line reads later, and the release together with
 * what came of it. */
static uint64_t feed_ms(ten_election *election, uint64_t now_ms) {
    size_t own_rank = election->state == TEN_ELECTION_FOLLOWING ? rank(election) : SIZE_MAX;
    election->turns.noticed_ms = now_ms;
    return own_rank == SIZE_MAX ? now_ms : now_ms + ten_turns_delay_ms(&election->turns, own_rank);
}

static uint64_t instances_ms(const ten_election *election) {
    bool looks = election->state == TEN_ELECTION_FOLLOWING ||
                 (election->state == TEN_ELECTION_LEADING && election->config.failback_ms != UINT64_MAX);
    bool wanted = election->config.has_turns && election->announced && looks;
    return wanted ? election->turns.list_ms : UINT64_MAX;
}

/* ---- what the program wants */

void ten_election_campaign(ten_election *election, uint64_t now_ms) {
    election->campaigns = true;
    if (election->state == TEN_ELECTION_IDLE) {
        ten_election_move(election, TEN_ELECTION_FOLLOWING);
        for (uint32_t i = 0; i < ten_election_count(election); i++)
            ten_election_slot_of(election, i)->try_ms = now_ms;
    }
}

void ten_election_step_down(ten_election *election, enum ten_reason reason, uint64_t pause_ms) {
    election->leave_reason = reason;
    election->leave_pause_ms = pause_ms;
    TEN_ELECTION_EACH(election, slot)
        ten_holding_close(&slot->holding);
    ten_election_move(election, TEN_ELECTION_STEPPING_DOWN);
    if (election->working)
        ten_election_tell_term(election, TENURE_EVENT_STOP, reason);
}

void ten_election_withdraw(ten_election *election, enum ten_reason reason) {
    election->campaigns = false;
    if (election->state == TEN_ELECTION_LEADING)
        ten_election_step_down(election, reason, 0);
    else if (election->state == TEN_ELECTION_FOLLOWING)
        ten_election_move(election, TEN_ELECTION_IDLE);
}

void ten_election_resign(ten_election *election, enum ten_reason reason, uint64_t pause_ms) {
    if (election->state == TEN_ELECTION_LEADING)
        ten_election_step_down(election, reason, pause_ms);
}

void ten_election_set_fit(ten_election *election, bool is_fit, uint64_t now_ms) {
    if (election->unfit != is_fit)
        return;
    election->unfit = !is_fit;
    if (!is_fit && election->state == TEN_ELECTION_LEADING)
        ten_election_step_down(election, TEN_REASON_RESIGNED, 0);
    election->beat_ms = now_ms;
}

/* When this leader steps down for a candidate with a higher priority. */
static uint64_t failback_ms(const ten_election *election) {
    if (election->config.failback_ms == UINT64_MAX || election->state != TEN_ELECTION_LEADING || !election->working)
        return UINT64_MAX;
    uint64_t seen_ms = ten_turns_better_ms(&election->turns, election->config.priority);
    uint64_t least_ms = election->began_ms + election->config.timing.ttl_ms;
    return seen_ms == UINT64_MAX ? seen_ms
                                 : ten_max_u64(ten_add_saturating(seen_ms, election->config.failback_ms), least_ms);
}

void ten_election_stopped(ten_election *election) {
    election->working = false;
}

void ten_election_keep_nothing(ten_election *election) {
    election->keep_token = 0;
    election->keep_until_ms = 0;
}

/* ---- the end of a term */

static void go_on(ten_election *election, uint64_t try_ms) {
    ten_election_move(election, election->campaigns ? TEN_ELECTION_FOLLOWING : TEN_ELECTION_IDLE);
    /* A candidate that lets others go first does so for every slot. */
    for (uint32_t i = 0; i < ten_election_count(election); i++) {
        ten_election_slot *other = ten_election_slot_of(election, i);
        other->try_ms = ten_max_u64(other->try_ms, try_ms);
    }
    TEN_ELECTION_EACH(election, slot)
        slot->try_ms = try_ms;
}

void ten_election_demote(ten_election *election, const ten_election_slot *lost, uint64_t now_ms,
                         enum ten_reason reason) {
    election->unkept = false;
    tell_slot(election, lost, TENURE_EVENT_LOST, reason);
    TEN_ELECTION_EACH(election, slot)
        if (slot->holding.state == TEN_HOLDING_HELD)
            ten_holding_close(&slot->holding);
    if (election->state == TEN_ELECTION_LEADING)
        ten_election_move(election, TEN_ELECTION_FOLLOWING);
    go_on(election, reason == TEN_REASON_FORCED ? now_ms + ten_election_forced_pause_ms(election) : now_ms);
}

bool ten_election_expire(ten_election *election, uint64_t now_ms) {
    const ten_election_slot *expired = NULL;
    TEN_ELECTION_EACH(election, slot) {
        if (!ten_holding_expire(&slot->holding, now_ms))
            continue;
        /* Released before anything else. If only the answers get lost, campaigning again would keep the others out. */
        ten_holding_disown(&slot->holding, slot->holding.token, slot->barred ? TEN_REASON_FORCED : TEN_REASON_EXPIRED);
        expired = expired && !slot->barred ? expired : slot;
    }
    if (!expired || !ten_election_leads(election))
        return false;
    ten_election_demote(election, expired, now_ms, (enum ten_reason)expired->holding.reason);
    return true;
}

/* ---- when there is something to send */

static bool ends(const ten_election_slot *slot) {
    return slot->holding.state == TEN_HOLDING_RELEASING || slot->holding.state == TEN_HOLDING_CLOSING;
}

static bool wants_release(const ten_election *election) {
    bool any = false;
    TEN_ELECTION_EACH(election, slot)
        any |= ends(slot);
    return any && !election->working;
}

/* When the slots that it wants are free, as far as is known. */
static uint64_t try_ms(const ten_election *election) {
    if (election->unsure)
        return ten_election_slot_at(election)->try_ms;
    bool all = election->config.wants == TEN_ELECTION_ALL;
    uint64_t found_ms = all ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < ten_election_count(election); i++) {
        uint64_t each_ms = ten_election_slot_of(election, i)->try_ms;
        found_ms = all ? ten_max_u64(found_ms, each_ms) : ten_min_u64(found_ms, each_ms);
    }
    return found_ms;
}

static uint64_t lease_due_ms(const ten_election *election) {
    if (wants_release(election))
        return 0;
    if (ten_election_leads(election))
        return election->renew_ms;
    bool may_campaign = election->state == TEN_ELECTION_FOLLOWING && !election->refused && !election->working &&
                        !election->unfit && !election->drained;
    /* While the role is kept, this instance is its holder in the store: a campaign would only shorten that. */
    return may_campaign ? ten_max_u64(ten_max_u64(try_ms(election), election->pause_until_ms), election->keep_until_ms)
                        : UINT64_MAX;
}

static bool is_leaving(const ten_election *election) {
    return election->announced && (!election->campaigns || election->unfit) && !ten_election_leads(election);
}

static bool is_present(const ten_election *election) {
    bool wanted = election->config.announces == TEN_ELECTION_ALWAYS ||
                  (election->config.announces == TEN_ELECTION_WAITING && election->waits);
    return wanted && !election->announce_refused && !election->refused &&
           ((election->campaigns && !election->unfit) || ten_election_leads(election));
}

static uint64_t presence_due_ms(const ten_election *election) {
    if (is_leaving(election))
        return 0;
    return is_present(election) ? election->beat_ms : UINT64_MAX;
}

static uint64_t due_ms(const ten_election *election) {
    return ten_min_u64(failback_ms(election), ten_min_u64(lease_due_ms(election), presence_due_ms(election)));
}

/* ---- requests */

static void add_op(ten_election *election, ten_op op, const ten_election_slot *slot) {
    ten_op *ops = election->config.slots ? election->config.ops : election->own_ops;
    op.namespace_name = election->config.namespace_name;
    op.target = slot ? slot->target : NULL;
    op.holder = election->config.instance;
    ops[election->op_count++] = op;
}

/* How much of at_least_ms is left: until then no other instance may get the role. */
static uint64_t keep_left_ms(const ten_election *election, uint64_t now_ms) {
    bool own = ten_election_slot_at(election)->holding.token == election->keep_token;
    return own ? ten_sub_saturating(election->keep_until_ms, now_ms) : 0;
}

static void add_releases(ten_election *election, uint64_t now_ms) {
    bool steps_down = election->state == TEN_ELECTION_STEPPING_DOWN;
    uint64_t keep_ms = keep_left_ms(election, now_ms);
    if (keep_ms)
        keep_ms = ten_max_u64(keep_ms, ten_max_u64(TENURE_TTL_MIN_MS, election->config.ttl_min_ms));
    enum ten_reason reason = steps_down ? election->leave_reason : TEN_REASON_RESIGNED;
    TEN_ELECTION_EACH(election, slot) {
        if (steps_down && slot->barred && ten_holding_is_held(&slot->holding))
            tell_slot(election, slot, TENURE_EVENT_LOST, TEN_REASON_FORCED);
        if (ends(slot)) /* the force has also ended what should have been kept */
            add_op(election,
                   slot->barred ? ten_holding_release(&slot->holding, TEN_REASON_FORCED, 0)
                                : ten_holding_release(&slot->holding, reason, keep_ms),
                   slot);
    }
    if (!steps_down)
        return;
    election->unkept = false;
    uint64_t again_ms = ten_add_saturating(election->sent_ms, election->leave_pause_ms);
    if (election->leave_reason == TEN_REASON_DONE)
        election->pause_until_ms = again_ms;
    go_on(election, again_ms);
}

static void add_renewals(ten_election *election, uint64_t now_ms) {
    const ten_timing *timing = &election->config.timing;
    uint64_t first_ms = election->config.at_least_ms + timing->ttl_ms;
    uint64_t keep_ms = election->unkept ? first_ms : keep_left_ms(election, now_ms);
    TEN_ELECTION_EACH(election, slot)
        add_op(election, ten_holding_renew(&slot->holding, timing, keep_ms), slot);
}

/* Any of the slots that may be free. Not always the first: candidates that come together would all want that. */
static void choose_slot(ten_election *election, uint64_t now_ms) {
    uint32_t count = ten_election_count(election);
    uint32_t start = (uint32_t)ten_jitter(&election->random, count);
    for (uint32_t i = 0; i < count && !election->unsure; i++) {
        uint32_t number = (start + i) % count;
        if (ten_election_slot_of(election, number)->try_ms > now_ms)
            continue;
        election->at = number;
        return;
    }
}

static void add_campaign(ten_election *election, uint64_t now_ms) {
    if (!election->looked && !election->unsure) { /* a campaign without an answer comes first: it may have a slot */
        for (uint32_t i = 0; i < ten_election_count(election); i++)
            add_op(election, (ten_op){.kind = TEN_OP_READ}, ten_election_slot_of(election, i));
        return;
    }
    if (election->config.wants == TEN_ELECTION_ANY && ten_election_count(election) > 1)
        choose_slot(election, now_ms);
    bool grouped = election->config.wants == TEN_ELECTION_ALL && ten_election_count(election) <= TEN_GROUP_MAX;
    TEN_ELECTION_EACH(election, slot) {
        ten_op op = ten_holding_acquire(&slot->holding, &election->config.timing);
        op.group = grouped;
        add_op(election, op, slot);
    }
}

/* The heartbeat travels with another request, if there is one soon enough. */
static void add_presence(ten_election *election, uint64_t now_ms) {
    const ten_timing *timing = &election->config.timing;
    if (is_leaving(election)) {
        add_op(election, (ten_op){.kind = TEN_OP_LEAVE, .reason = TEN_REASON_SHUTDOWN}, NULL);
        return;
    }
    uint64_t early_ms = election->op_count ? timing->renew_ms / 2 : 0;
    if (!is_present(election) || election->beat_ms > now_ms + early_ms)
        return;
    /* Its weight is 0, so that no fleet of the same namespace plans a target for it. */
    add_op(election, (ten_op){.kind = TEN_OP_ANNOUNCE, .ttl_ms = timing->ttl_ms, .metadata = election->config.metadata},
           NULL);
    election->announced = true;
    election->beat_ms = now_ms + timing->renew_ms;
}

static const ten_op *request(ten_election *election, uint64_t now_ms, size_t *ret_count) {
    if (ten_election_expire(election, now_ms))
        return NULL; /* the program learns of the end before the next term can begin */
    if (failback_ms(election) <= now_ms)
        ten_election_resign(election, TEN_REASON_RESIGNED, election->config.timing.ttl_ms);
    if (due_ms(election) > now_ms)
        return NULL;
    election->op_count = 0;
    if (lease_due_ms(election) <= now_ms) {
        election->sent_ms = now_ms;
        if (wants_release(election))
            add_releases(election, now_ms);
        else if (ten_election_leads(election))
            add_renewals(election, now_ms);
        else
            add_campaign(election, now_ms);
    }
    add_presence(election, now_ms);
    *ret_count = election->op_count;
    if (election->op_count == 0)
        return NULL;
    return election->config.slots ? election->config.ops : election->own_ops;
}

/* ---- as a part of the engine */

void ten_election_step(void *part, const ten_engine_event *event, ten_part_update *update) {
    ten_election *election = part;
    uint64_t now_ms = event->now_ms;
    switch (event->kind) {
    case TEN_ON_TIMER:
        (void)ten_election_expire(election, now_ms);
        break;
    case TEN_ON_NOTICE:
        update->at_ms = feed_ms(election, now_ms);
        break;
    case TEN_ON_REQUEST:
        update->ops = request(election, now_ms, &update->count);
        break;
    case TEN_ON_ANSWER:
        ten_election_answer(election, now_ms, event->error, event->results);
        break;
    case TEN_ON_INSTANCES:
        ten_turns_list_begin(&election->turns);
        break;
    case TEN_ON_INSTANCES_END:
        ten_turns_list_end(&election->turns, event->error == TENURE_OK);
        /* Again from time to time: an instance whose host has died leaves no word. */
        election->turns.list_ms = now_ms + election->config.timing.ttl_ms / (event->error == TENURE_OK ? 1 : 4);
        break;
    case TEN_ON_INSTANCE:
        ten_turns_list(&election->turns, event->instance, now_ms);
        break;
    case TEN_ON_CHANGE:
        ten_election_change(election, now_ms, event->change);
        break;
    case TEN_ON_FOLLOW:
        ten_election_follow(election, now_ms);
        break;
    default:
        break;
    }
}

void ten_election_due(const void *part, uint64_t now_ms, ten_part_due *due) {
    const ten_election *election = part;
    uint64_t next_ms = due_ms(election);
    due->next_ms = next_ms == UINT64_MAX ? next_ms : ten_max_u64(next_ms, now_ms);
    due->urgent_ms = 0;
    due->instances_ms = instances_ms(election);
    TEN_ELECTION_EACH(election, slot)
        if (ten_holding_is_held(&slot->holding))
            due->deadline_ms = ten_min_u64(due->deadline_ms, slot->holding.deadline_ms);
}
