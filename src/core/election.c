/*
 * The election: one candidate for one role. Called by the runtime and by the simulator. See election.h.
 */
#include "core/election.h"

#include <string.h>

#include "base/hash.h"
#include "base/util.h"

#define BACKOFF_MIN_MS 50u
#define JITTER_PART    100u /* of the TTL: over which candidates that wait for the same instant are spread */
#define JITTER_MAX_MS  20u
/* After a release the spread is much smaller: the role is free, and waiting only prolongs that. */
#define RELEASE_JITTER_PART 16u

/* moves[from][to]; every change of state goes through move(). */
static const bool moves[4][4] = {
    /* From idle to leading: a grant that arrives after it was withdrawn is accepted in order to be released. */
    [TEN_ELECTION_IDLE] = {[TEN_ELECTION_IDLE] = true, [TEN_ELECTION_FOLLOWING] = true, [TEN_ELECTION_LEADING] = true},
    [TEN_ELECTION_FOLLOWING] =
        {[TEN_ELECTION_IDLE] = true, [TEN_ELECTION_FOLLOWING] = true, [TEN_ELECTION_LEADING] = true},
    [TEN_ELECTION_LEADING] =
        {[TEN_ELECTION_FOLLOWING] = true, [TEN_ELECTION_LEADING] = true, [TEN_ELECTION_STEPPING_DOWN] = true},
    [TEN_ELECTION_STEPPING_DOWN] =
        {[TEN_ELECTION_IDLE] = true, [TEN_ELECTION_FOLLOWING] = true, [TEN_ELECTION_STEPPING_DOWN] = true},
};

static void move(ten_election *election, enum ten_election_state to) {
    TEN_INVARIANT(moves[election->state][to]);
    election->state = to;
    bool holds = to == TEN_ELECTION_LEADING || to == TEN_ELECTION_STEPPING_DOWN;
    TEN_INVARIANT(holds == ten_holding_is_held(&election->holding));
}

static void tell(ten_election *election, ten_election_event event) {
    /* The program did not take them in time: drop the oldest. */
    if (election->event_count == TEN_ELECTION_EVENTS) {
        election->event_first = (election->event_first + 1) % TEN_ELECTION_EVENTS;
        election->event_count--;
    }
    election->events[(election->event_first + election->event_count++) % TEN_ELECTION_EVENTS] = event;
}

bool ten_election_event_take(ten_election *election, ten_election_event *ret_event) {
    if (election->event_count == 0)
        return false;
    *ret_event = election->events[election->event_first];
    election->event_first = (election->event_first + 1) % TEN_ELECTION_EVENTS;
    election->event_count--;
    return true;
}

static uint64_t random_below(ten_election *election, uint64_t limit) {
    election->random = ten_hash_mix(election->random + UINT64_C(0x9e3779b97f4a7c15));
    return limit ? election->random % limit : 0;
}

static uint64_t jitter_ms(ten_election *election) {
    return random_below(election, ten_min_u64(election->config.timing.ttl_ms / JITTER_PART, JITTER_MAX_MS) + 1);
}

void ten_election_init(ten_election *election, const ten_election_config *config) {
    *election = (ten_election){.config = *config, .try_ms = UINT64_MAX, .random = config->seed};
}

bool ten_election_is_leader(const ten_election *election, uint64_t now_ms) {
    return !election->unkept && ten_holding_may_work(&election->holding, now_ms);
}

/* ---- what the program wants */

void ten_election_campaign(ten_election *election, uint64_t now_ms) {
    election->campaigns = true;
    if (election->state == TEN_ELECTION_IDLE) {
        move(election, TEN_ELECTION_FOLLOWING);
        election->try_ms = now_ms;
    }
}

static void step_down(ten_election *election, enum ten_reason reason, uint64_t pause_ms) {
    election->leave_reason = reason;
    election->leave_pause_ms = pause_ms;
    ten_holding_close(&election->holding);
    move(election, TEN_ELECTION_STEPPING_DOWN);
    if (election->working)
        tell(election,
             (ten_election_event){.kind = TEN_ELECTION_STEP_DOWN, .token = election->holding.token, .reason = reason});
}

void ten_election_withdraw(ten_election *election, enum ten_reason reason) {
    election->campaigns = false;
    if (election->state == TEN_ELECTION_LEADING)
        step_down(election, reason, 0);
    else if (election->state == TEN_ELECTION_FOLLOWING)
        move(election, TEN_ELECTION_IDLE);
}

void ten_election_resign(ten_election *election, enum ten_reason reason, uint64_t pause_ms) {
    if (election->state == TEN_ELECTION_LEADING)
        step_down(election, reason, pause_ms);
}

void ten_election_stopped(ten_election *election) {
    election->working = false;
}

/* ---- the end of a term */

static void go_on(ten_election *election, uint64_t try_ms) {
    move(election, election->campaigns ? TEN_ELECTION_FOLLOWING : TEN_ELECTION_IDLE);
    election->try_ms = try_ms;
}

/* The holding has just ended against this instance's will. */
static void demote(ten_election *election, uint64_t now_ms, enum ten_reason reason) {
    uint64_t token = election->holding.token;
    /* Released before anything else. If only the answers get lost, campaigning again would keep the others out. */
    if (reason == TEN_REASON_EXPIRED)
        ten_holding_disown(&election->holding, token, reason);
    election->unkept = false;
    tell(election, (ten_election_event){.kind = TEN_ELECTION_DEMOTED, .token = token, .reason = reason});
    if (election->state == TEN_ELECTION_LEADING)
        move(election, TEN_ELECTION_FOLLOWING);
    go_on(election, now_ms);
}

static void lose(ten_election *election, uint64_t now_ms, enum ten_reason reason) {
    ten_holding_lose(&election->holding);
    demote(election, now_ms, reason);
}

/* True: a term has just ended. */
static bool expire(ten_election *election, uint64_t now_ms) {
    if (!ten_holding_expire(&election->holding, now_ms))
        return false;
    demote(election, now_ms, TEN_REASON_EXPIRED);
    return true;
}

/* ---- requests */

static bool wants_release(const ten_election *election) {
    bool ends = election->holding.state == TEN_HOLDING_RELEASING || election->holding.state == TEN_HOLDING_CLOSING;
    return ends && !election->working;
}

static uint64_t due_ms(const ten_election *election) {
    if (wants_release(election))
        return 0;
    if (ten_holding_is_held(&election->holding))
        return election->renew_ms;
    bool may_campaign = election->state == TEN_ELECTION_FOLLOWING && !election->refused && !election->working;
    /* While the role is kept, this instance is its holder in the store: a campaign would only shorten that. */
    return may_campaign ? ten_max_u64(ten_max_u64(election->try_ms, election->pause_until_ms), election->keep_until_ms)
                        : UINT64_MAX;
}

uint64_t ten_election_next_ms(const ten_election *election, uint64_t now_ms) {
    const ten_holding *holding = &election->holding;
    uint64_t ends_ms = ten_holding_is_held(holding) ? holding->deadline_ms : UINT64_MAX;
    if (holding->flight != TEN_FLIGHT_NONE)
        return ends_ms;
    uint64_t due = due_ms(election);
    if (due != UINT64_MAX)
        due = ten_max_u64(ten_max_u64(due, election->retry_ms), now_ms);
    return ten_min_u64(due, ends_ms);
}

/* How much of at_least_ms is left: until then no other instance may get the role. */
static uint64_t keep_left_ms(const ten_election *election, uint64_t now_ms) {
    bool own = election->holding.token == election->keep_token;
    return own ? ten_sub_saturating(election->keep_until_ms, now_ms) : 0;
}

static ten_op release_op(ten_election *election, uint64_t now_ms) {
    bool first = election->holding.state == TEN_HOLDING_CLOSING;
    uint64_t keep_ms = keep_left_ms(election, now_ms);
    if (keep_ms)
        keep_ms = ten_max_u64(keep_ms, ten_max_u64(TENURE_TTL_MIN_MS, election->config.ttl_min_ms));
    ten_op op = ten_holding_release(&election->holding, election->leave_reason, keep_ms);
    if (first) {
        election->unkept = false;
        uint64_t again_ms = ten_add_saturating(election->sent_ms, election->leave_pause_ms);
        if (election->leave_reason == TEN_REASON_DONE)
            election->pause_until_ms = again_ms;
        go_on(election, again_ms);
    }
    return op;
}

static ten_op renew_op(ten_election *election, uint64_t now_ms) {
    const ten_timing *timing = &election->config.timing;
    uint64_t first_ms = ten_min_u64(election->config.at_least_ms + timing->ttl_ms, TENURE_TTL_MAX_MS);
    return ten_holding_renew(&election->holding, timing, election->unkept ? first_ms : keep_left_ms(election, now_ms));
}

bool ten_election_request(ten_election *election, uint64_t now_ms, ten_op *ret_op) {
    if (expire(election, now_ms))
        return false; /* the program learns of the end before the next term can begin */
    if (election->holding.flight != TEN_FLIGHT_NONE || due_ms(election) > now_ms || election->retry_ms > now_ms)
        return false;
    election->sent_ms = now_ms;
    ten_op op;
    if (wants_release(election))
        op = release_op(election, now_ms);
    else if (ten_holding_is_held(&election->holding))
        op = renew_op(election, now_ms);
    else
        op = ten_holding_acquire(&election->holding, &election->config.timing);
    op.namespace_name = election->config.namespace_name;
    op.target = election->config.role;
    op.holder = election->config.instance;
    *ret_op = op;
    return true;
}

/* ---- answers */

static void begin_term(ten_election *election, uint64_t now_ms) {
    election->working = true;
    election->keep_token = election->holding.token;
    election->keep_until_ms = now_ms + election->config.at_least_ms;
    tell(election, (ten_election_event){.kind = TEN_ELECTION_ELECTED, .token = election->holding.token});
}

static void plan_renewal(ten_election *election) {
    uint64_t interval_ms = election->config.timing.renew_ms;
    election->renew_ms = election->sent_ms + interval_ms - random_below(election, interval_ms / 10 + 1);
}

static void note_granted(ten_election *election, uint64_t now_ms) {
    plan_renewal(election);
    move(election, TEN_ELECTION_LEADING);
    /* at_least_ms counts from now, the lease from when its request was sent. */
    uint64_t covered_ms = ten_sub_saturating(election->holding.ttl_ms, now_ms - election->sent_ms);
    election->unkept = election->config.at_least_ms > covered_ms;
    if (election->unkept)
        election->renew_ms = now_ms;
    if (!election->campaigns) /* withdrawn before the answer arrived */
        step_down(election, TEN_REASON_SHUTDOWN, 0);
    else if (!election->unkept)
        begin_term(election, now_ms);
}

static void note_renewed(ten_election *election, uint64_t now_ms, enum ten_ask ask) {
    plan_renewal(election);
    if (!election->unkept)
        tell(election, (ten_election_event){.kind = TEN_ELECTION_RENEWED, .token = election->holding.token});
    else if (election->state == TEN_ELECTION_LEADING)
        begin_term(election, now_ms);
    election->unkept = false;
    if (ask == TEN_ASK_RESIGN)
        ten_election_resign(election, TEN_REASON_RESIGNED, election->config.timing.ttl_ms);
}

static void note_refused(ten_election *election, uint64_t now_ms, const ten_result *result) {
    ten_election_event event = {.kind = TEN_ELECTION_CAMPAIGN_FAILED, .remaining_ms = result->remaining_ms};
    if (result->outcome == TEN_HELD) {
        event.error = TENURE_E_HELD;
        event.token = result->token;
        if (result->recovering)
            event.kind = TEN_ELECTION_RECOVERING;
        snprintf(event.other, sizeof event.other, "%s", result->holder ? result->holder : "");
        election->try_ms = now_ms + ten_max_u64(result->remaining_ms, 1) + jitter_ms(election);
    } else {
        event.error = result->outcome == TEN_UNKNOWN ? TENURE_E_UNKNOWN_TARGET : result->error;
        election->refused = event.error == TENURE_E_GONE || event.error == TENURE_E_TOKEN;
        if (election->refused)
            event.kind = TEN_ELECTION_REFUSED;
        election->try_ms = now_ms + election->config.timing.ttl_ms;
    }
    tell(election, event);
}

static void note_taken(ten_election *election, uint64_t now_ms, const ten_result *result) {
    demote(election, now_ms, result->barred ? TEN_REASON_FORCED : TEN_REASON_TAKEN);
    if (result->holder)
        election->try_ms = now_ms + ten_max_u64(result->remaining_ms, 1) + jitter_ms(election);
}

static void note_released(ten_election *election, enum ten_holding_outcome outcome, const ten_result *result) {
    ten_election_event event = {.kind = TEN_ELECTION_RELEASED,
                                .token = election->holding.token,
                                .reason = (enum ten_reason)election->holding.reason};
    if (outcome == TEN_HOLDING_KEPT) {
        event.kind = TEN_ELECTION_KEPT;
        event.remaining_ms = result->remaining_ms;
    } else if (outcome == TEN_HOLDING_UNKEPT) {
        event.kind = TEN_ELECTION_DEMOTED;
        event.reason = result->barred ? TEN_REASON_FORCED : TEN_REASON_TAKEN;
    }
    /* The end of an expired lease was reported when it expired. */
    if (event.reason != TEN_REASON_EXPIRED || result->outcome == TEN_OK)
        tell(election, event);
}

static void take_answer(ten_election *election, uint64_t now_ms, const ten_result *result) {
    ten_holding *holding = &election->holding;
    const ten_timing *timing = &election->config.timing;
    enum ten_holding_outcome outcome = ten_holding_answer(holding, timing, election->sent_ms, now_ms, result);
    switch (outcome) {
    case TEN_HOLDING_GRANTED:
        note_granted(election, now_ms);
        break;
    case TEN_HOLDING_RENEWED:
        note_renewed(election, now_ms, result->ask);
        break;
    case TEN_HOLDING_LATE: /* a campaign is tried again, a renewed lease expires */
        (void)expire(election, now_ms);
        break;
    case TEN_HOLDING_SPENT:
        /* A store that lost data may grant more tokens below those that were seen: pause between the tries. */
        election->try_ms = now_ms + (holding->token < holding->known_token ? timing->ttl_ms / 4 : 0);
        break;
    case TEN_HOLDING_REFUSED:
        note_refused(election, now_ms, result);
        break;
    case TEN_HOLDING_LOST:
        note_taken(election, now_ms, result);
        break;
    case TEN_HOLDING_RELEASED:
    case TEN_HOLDING_KEPT:
    case TEN_HOLDING_UNKEPT:
        note_released(election, outcome, result);
        break;
    case TEN_HOLDING_IGNORED:
        break;
    }
}

static void note_failure(ten_election *election, uint64_t now_ms, int error) {
    if (!election->down)
        tell(election, (ten_election_event){.kind = TEN_ELECTION_STORE_DOWN, .error = error});
    election->down = true;
    if (ten_holding_unanswered(&election->holding))
        tell(election,
             (ten_election_event){.kind = TEN_ELECTION_RENEW_FAILED, .token = election->holding.token, .error = error});
    uint64_t most_ms = ten_max_u64(election->config.timing.renew_ms / 4, BACKOFF_MIN_MS);
    uint64_t backoff_ms = ten_min_u64(UINT64_C(1) * BACKOFF_MIN_MS << ten_min_u64(election->failures, 10), most_ms);
    election->retry_ms = now_ms + backoff_ms / 2 + random_below(election, backoff_ms / 2 + 1);
    election->failures++;
}

void ten_election_answer(ten_election *election, uint64_t now_ms, int error, const ten_result *result) {
    TEN_INVARIANT(election->holding.flight != TEN_FLIGHT_NONE);
    expire(election, now_ms);
    if (error < 0) {
        note_failure(election, now_ms, error);
        return;
    }
    if (election->down)
        tell(election, (ten_election_event){.kind = TEN_ELECTION_STORE_UP});
    election->down = false;
    election->failures = 0;
    election->retry_ms = 0;
    take_answer(election, now_ms, result);
}

/* ---- the feed */

static bool is_mine(const ten_election *election, const ten_change *change) {
    return strcmp(change->instance, election->config.instance) == 0;
}

void ten_election_change(ten_election *election, uint64_t now_ms, const ten_change *change) {
    if (change->kind == TEN_STORE_RECOVERING) {
        ten_election_resync(election, now_ms);
        return;
    }
    ten_holding *holding = &election->holding;
    if (strcmp(change->target, election->config.role) != 0 || change->token < holding->known_token)
        return;
    bool mine = is_mine(election, change);
    bool held = ten_holding_is_held(holding);
    if (change->kind == TEN_LEASE_ACQUIRED && !mine) {
        if (ten_holding_hear(holding, change->token, false) == TEN_HOLDING_NEWER && held)
            lose(election, now_ms, TEN_REASON_TAKEN);
        election->try_ms = now_ms + election->config.timing.ttl_ms + jitter_ms(election);
    } else if (change->kind == TEN_LEASE_RELEASED && !held) {
        if (!mine) /* after its own release, try_ms is set already */
            election->try_ms = ten_min_u64(election->try_ms, now_ms + jitter_ms(election) / RELEASE_JITTER_PART);
    } else if (!held || !mine || change->token != holding->token) {
        return;
    } else if (change->kind == TEN_LEASE_ASKED) {
        election->renew_ms = now_ms; /* the answer says what is asked */
    } else if ((change->kind == TEN_LEASE_LOST || change->kind == TEN_LEASE_RELEASED) &&
               change->reason == TEN_REASON_FORCED) {
        lose(election, now_ms, TEN_REASON_FORCED);
        /* Others go first: they get the role when the lease has ended by the store's clock. */
        election->try_ms = now_ms + election->config.timing.ttl_ms + election->config.expiry_late_ms;
    }
}

void ten_election_resync(ten_election *election, uint64_t now_ms) {
    if (election->state == TEN_ELECTION_FOLLOWING)
        election->try_ms = ten_min_u64(election->try_ms, now_ms + jitter_ms(election));
    else if (ten_holding_is_held(&election->holding))
        election->renew_ms = ten_min_u64(election->renew_ms, now_ms);
}
