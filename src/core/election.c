/*
 * The election: one candidate for one role. Called by the driver, and by the program. See election.h.
 */
#include "core/election.h"

#include <string.h>

#include "base/hash.h"
#include "base/util.h"

#define JITTER_PART   100u /* of the TTL: over which candidates that wait for the same instant are spread */
#define JITTER_MAX_MS 20u
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

static void tell(ten_election *election, tenure_event event, const char *other) {
    ten_event_queue_put_about(election->config.events, event, election->config.role, other);
}

static void tell_term(ten_election *election, enum tenure_event_kind kind, enum ten_reason reason) {
    tell(election, (tenure_event){.kind = kind, .token = election->holding.token, .reason = ten_reason_name(reason)},
         NULL);
}

static uint64_t random_below(ten_election *election, uint64_t limit) {
    election->random = ten_hash_mix(election->random + UINT64_C(0x9e3779b97f4a7c15));
    return limit ? election->random % limit : 0;
}

static uint64_t jitter_ms(ten_election *election) {
    return random_below(election, ten_min_u64(election->config.timing.ttl_ms / JITTER_PART, JITTER_MAX_MS) + 1);
}

uint64_t ten_election_at_least_max_ms(const ten_timing *timing) {
    return TENURE_TTL_MAX_MS - timing->ttl_ms;
}

void ten_election_init(ten_election *election, const ten_election_config *config) {
    TEN_INVARIANT(config->at_least_ms <= ten_election_at_least_max_ms(&config->timing));
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
        tell_term(election, TENURE_EVENT_STOP, reason);
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

void ten_election_keep_nothing(ten_election *election) {
    election->keep_token = 0;
    election->keep_until_ms = 0;
}

/* ---- the end of a term */

static void go_on(ten_election *election, uint64_t try_ms) {
    move(election, election->campaigns ? TEN_ELECTION_FOLLOWING : TEN_ELECTION_IDLE);
    election->try_ms = try_ms;
}

/* The holding has just ended against this instance's will. */
static void demote(ten_election *election, uint64_t now_ms, enum ten_reason reason) {
    /* Released before anything else. If only the answers get lost, campaigning again would keep the others out. */
    if (reason == TEN_REASON_EXPIRED)
        ten_holding_disown(&election->holding, election->holding.token, reason);
    election->unkept = false;
    tell_term(election, TENURE_EVENT_LOST, reason);
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

uint64_t ten_election_next_ms(const void *self, uint64_t now_ms) {
    uint64_t due = due_ms(self);
    return due == UINT64_MAX ? due : ten_max_u64(due, now_ms);
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
    uint64_t first_ms = election->config.at_least_ms + timing->ttl_ms;
    return ten_holding_renew(&election->holding, timing, election->unkept ? first_ms : keep_left_ms(election, now_ms));
}

const ten_op *ten_election_request(void *self, uint64_t now_ms, size_t *ret_count) {
    ten_election *election = self;
    if (expire(election, now_ms))
        return NULL; /* the program learns of the end before the next term can begin */
    if (due_ms(election) > now_ms)
        return NULL;
    election->sent_ms = now_ms;
    if (wants_release(election))
        election->op = release_op(election, now_ms);
    else if (ten_holding_is_held(&election->holding))
        election->op = renew_op(election, now_ms);
    else
        election->op = ten_holding_acquire(&election->holding, &election->config.timing);
    election->op.namespace_name = election->config.namespace_name;
    election->op.target = election->config.role;
    election->op.holder = election->config.instance;
    *ret_count = 1;
    return &election->op;
}

/* ---- answers */

static void begin_term(ten_election *election, uint64_t now_ms) {
    election->working = true;
    election->keep_token = election->holding.token;
    election->keep_until_ms = now_ms + election->config.at_least_ms;
    bool expired = !election->end_reason && election->heard_of_leader; /* nobody has released it */
    tell_term(election, TENURE_EVENT_ACQUIRED, expired ? TEN_REASON_EXPIRED : election->end_reason);
    election->end_reason = TEN_REASON_NONE;
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
        tell_term(election, TENURE_EVENT_RENEWED, TEN_REASON_NONE);
    else if (election->state == TEN_ELECTION_LEADING)
        begin_term(election, now_ms);
    election->unkept = false;
    if (ask == TEN_ASK_RESIGN)
        ten_election_resign(election, TEN_REASON_RESIGNED, election->config.timing.ttl_ms);
}

static void note_refused(ten_election *election, uint64_t now_ms, const ten_result *result) {
    tenure_event event = {.kind = TENURE_EVENT_ACQUIRE_FAILED, .remaining_ms = result->remaining_ms};
    const char *leader = result->outcome == TEN_HELD ? result->holder : NULL;
    if (result->outcome == TEN_HELD) {
        event.error = TENURE_E_HELD;
        event.token = result->token;
        if (result->recovering)
            event.kind = TENURE_EVENT_RECOVERING;
        election->heard_of_leader |= result->holder != NULL;
        election->try_ms = now_ms + ten_max_u64(result->remaining_ms, 1) + jitter_ms(election);
    } else {
        event.error = result->outcome == TEN_UNKNOWN ? TENURE_E_UNKNOWN_TARGET : result->error;
        election->refused = event.error == TENURE_E_GONE || event.error == TENURE_E_TOKEN;
        if (election->refused)
            event.kind = TENURE_EVENT_REFUSED;
        election->try_ms = now_ms + election->config.timing.ttl_ms;
    }
    tell(election, event, leader);
}

static void note_taken(ten_election *election, uint64_t now_ms, const ten_result *result) {
    demote(election, now_ms, result->barred ? TEN_REASON_FORCED : TEN_REASON_TAKEN);
    if (result->holder)
        election->try_ms = now_ms + ten_max_u64(result->remaining_ms, 1) + jitter_ms(election);
}

static void note_released(ten_election *election, enum ten_holding_outcome outcome, const ten_result *result) {
    enum ten_reason reason = (enum ten_reason)election->holding.reason;
    if (outcome == TEN_HOLDING_KEPT)
        tell(election,
             (tenure_event){.kind = TENURE_EVENT_KEPT,
                            .token = election->holding.token,
                            .reason = ten_reason_name(reason),
                            .remaining_ms = result->remaining_ms},
             NULL);
    else if (outcome == TEN_HOLDING_UNKEPT)
        tell_term(election, TENURE_EVENT_LOST, result->barred ? TEN_REASON_FORCED : TEN_REASON_TAKEN);
    else if (reason != TEN_REASON_EXPIRED || result->outcome == TEN_OK) /* its end was reported when it expired */
        tell_term(election, TENURE_EVENT_RELEASED, reason);
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
    case TEN_HOLDING_HANDED: /* only fleets hand over */
    case TEN_HOLDING_UNHANDED:
    case TEN_HOLDING_IGNORED:
        break;
    }
}

void ten_election_answer(void *self, uint64_t now_ms, int error, const ten_result *result) {
    ten_election *election = self;
    TEN_INVARIANT(election->holding.flight != TEN_FLIGHT_NONE);
    (void)expire(election, now_ms);
    if (error == TENURE_OK)
        take_answer(election, now_ms, result);
    else if (ten_holding_unanswered(&election->holding))
        tell(election,
             (tenure_event){.kind = TENURE_EVENT_RENEW_FAILED, .token = election->holding.token, .error = error}, NULL);
}

/* ---- the feed */

static bool is_mine(const ten_election *election, const ten_change *change) {
    return strcmp(change->instance, election->config.instance) == 0;
}

void ten_election_change(void *self, uint64_t now_ms, const ten_change *change) {
    ten_election *election = self;
    if (change->kind == TENURE_EVENT_RECOVERING) {
        ten_election_follow(election, now_ms);
        return;
    }
    ten_holding *holding = &election->holding;
    if (strcmp(change->target, election->config.role) != 0)
        return;
    if (change->kind == TENURE_EVENT_RELEASED || change->kind == TENURE_EVENT_LOST)
        election->end_reason = change->reason;
    if (change->token < holding->known_token)
        return;
    bool mine = is_mine(election, change);
    bool held = ten_holding_is_held(holding);
    if (change->kind == TENURE_EVENT_ACQUIRED && !mine) {
        if (ten_holding_hear(holding, change->token, false) == TEN_HOLDING_NEWER && held)
            lose(election, now_ms, TEN_REASON_TAKEN);
        election->try_ms = now_ms + election->config.timing.ttl_ms + jitter_ms(election);
    } else if (change->kind == TENURE_EVENT_RELEASED && !held) {
        if (!mine) /* after its own release, try_ms is set already */
            election->try_ms = ten_min_u64(election->try_ms, now_ms + jitter_ms(election) / RELEASE_JITTER_PART);
    } else if (!held || !mine || change->token != holding->token) {
        return;
    } else if (change->kind == TENURE_EVENT_ASKED) {
        election->renew_ms = now_ms; /* the answer says what is asked */
    } else if ((change->kind == TENURE_EVENT_LOST || change->kind == TENURE_EVENT_RELEASED) &&
               change->reason == TEN_REASON_FORCED) {
        lose(election, now_ms, TEN_REASON_FORCED);
        /* Others go first: they get the role when the lease has ended by the store's clock. */
        election->try_ms = now_ms + election->config.timing.ttl_ms + election->config.expiry_late_ms;
    }
}

void ten_election_follow(void *self, uint64_t now_ms) {
    ten_election *election = self;
    if (election->state == TEN_ELECTION_FOLLOWING)
        election->try_ms = ten_min_u64(election->try_ms, now_ms + jitter_ms(election));
    else if (ten_holding_is_held(&election->holding))
        election->renew_ms = ten_min_u64(election->renew_ms, now_ms);
}

/* ---- as a part of the driver */

static void notice_deadline(void *self, uint64_t now_ms) {
    (void)expire(self, now_ms);
}

static uint64_t deadline_ms(const void *self) {
    const ten_holding *holding = &((const ten_election *)self)->holding;
    return ten_holding_is_held(holding) ? holding->deadline_ms : UINT64_MAX;
}

const ten_driver_part ten_election_part = {.request = ten_election_request,
                                           .answer = ten_election_answer,
                                           .expire = notice_deadline,
                                           .next_ms = ten_election_next_ms,
                                           .deadline_ms = deadline_ms,
                                           .follow = ten_election_follow,
                                           .change = ten_election_change};
