/*
 * The life of one held target. Called by the fleet, the election and the leases of the C API. See holding.h.
 */
#include "core/holding.h"

#include "base/util.h"

/* Where each state leads; every change of state goes through move(). */
#define TO(state) (1u << TEN_HOLDING_##state)
static const uint8_t moves[] = {
    [TEN_HOLDING_NONE] = TO(NONE) | TO(HELD) | TO(RELEASING),
    [TEN_HOLDING_HELD] = TO(NONE) | TO(HELD) | TO(CLOSING) | TO(RELEASING),
    [TEN_HOLDING_CLOSING] = TO(NONE) | TO(HELD) | TO(CLOSING) | TO(RELEASING),
    [TEN_HOLDING_RELEASING] = TO(NONE) | TO(RELEASING),
};

static bool is_believing(enum ten_holding_state state) {
    return state == TEN_HOLDING_HELD || state == TEN_HOLDING_CLOSING;
}

static void check(const ten_holding *holding) {
    bool believing = is_believing((enum ten_holding_state)holding->state);
    TEN_INVARIANT((holding->deadline_ms != 0) == believing);
    TEN_INVARIANT(believing || !holding->uncertain);
    TEN_INVARIANT(!believing || !holding->spent);
}

static void move(ten_holding *holding, enum ten_holding_state to) {
    TEN_INVARIANT(moves[holding->state] & 1u << to);
    holding->state = (uint8_t)to;
    if (!is_believing(to)) {
        holding->deadline_ms = 0;
        holding->uncertain = false;
    }
    check(holding);
}

void ten_holding_know(ten_holding *holding, uint64_t token) {
    if (token <= holding->known_token)
        return;
    holding->known_token = token;
    holding->spent = false;
}

/* A token below the highest that was seen needs no mark. */
static void spend(ten_holding *holding, uint64_t token) {
    ten_holding_know(holding, token);
    holding->spent |= token == holding->known_token;
}

/* ---- reading */

bool ten_holding_is_confirmed(const ten_holding *holding, uint64_t now_ms) {
    return !holding->uncertain && now_ms < holding->deadline_ms;
}

bool ten_holding_may_work(const ten_holding *holding, uint64_t now_ms) {
    return holding->state == TEN_HOLDING_HELD && ten_holding_is_confirmed(holding, now_ms);
}

/* ---- requests */

static void take_off(ten_holding *holding, enum ten_flight flight) {
    TEN_INVARIANT(holding->flight == TEN_FLIGHT_NONE);
    holding->flight = (uint8_t)flight;
}

ten_op ten_holding_acquire(ten_holding *holding, const ten_timing *timing) {
    TEN_INVARIANT(holding->state == TEN_HOLDING_NONE);
    take_off(holding, TEN_FLIGHT_ACQUIRE);
    return (ten_op){.kind = TEN_OP_ACQUIRE, .ttl_ms = timing->ttl_ms};
}

ten_op ten_holding_renew(ten_holding *holding, const ten_timing *timing, uint64_t keep_ms) {
    check(holding);
    TEN_INVARIANT(ten_holding_is_held(holding));
    take_off(holding, TEN_FLIGHT_RENEW);
    bool keeps = keep_ms > timing->ttl_ms;
    return (ten_op){.kind = TEN_OP_RENEW,
                    .flags = keeps ? TEN_OP_KEEP : 0,
                    .token = holding->token,
                    .ttl_ms = keeps ? keep_ms : timing->ttl_ms};
}

ten_op ten_holding_release(ten_holding *holding, enum ten_reason reason, uint64_t keep_ms) {
    if (holding->state != TEN_HOLDING_RELEASING)
        ten_holding_disown(holding, holding->token, reason);
    take_off(holding, keep_ms ? TEN_FLIGHT_KEEP : TEN_FLIGHT_RELEASE);
    ten_op op = {.kind = TEN_OP_RELEASE, .token = holding->token, .reason = (enum ten_reason)holding->reason};
    if (keep_ms) {
        op.kind = TEN_OP_RENEW;
        op.flags = TEN_OP_KEEP;
        op.ttl_ms = keep_ms;
    }
    return op;
}

ten_op ten_holding_hand(ten_holding *holding, enum ten_reason reason, const char *successor, uint64_t ttl_ms) {
    TEN_INVARIANT(ten_holding_is_held(holding));
    ten_holding_disown(holding, holding->token, reason);
    take_off(holding, TEN_FLIGHT_HAND);
    return (ten_op){
        .kind = TEN_OP_HAND, .token = holding->token, .reason = reason, .successor = successor, .ttl_ms = ttl_ms};
}

/* ---- answers */

/* Believes an acquire or a renewal from the moment at which it was sent. False: it came after its own deadline. */
static bool believe(ten_holding *holding, const ten_timing *timing, uint64_t sent_ms, uint64_t now_ms,
                    const ten_result *result) {
    uint64_t ttl_ms = ten_min_u64(timing->ttl_ms, result->ttl_ms);
    uint64_t deadline_ms = sent_ms + ten_sub_saturating(ttl_ms, timing->margin_ms);
    if (now_ms >= deadline_ms) {
        /* The store may have granted less than before: the old deadline is too late then. */
        holding->deadline_ms = ten_min_u64(holding->deadline_ms, deadline_ms);
        return false;
    }
    holding->ttl_ms = ttl_ms;
    holding->deadline_ms = deadline_ms;
    holding->sent_ms = sent_ms;
    holding->uncertain = false;
    return true;
}

static enum ten_holding_outcome answer_acquire(ten_holding *holding, const ten_timing *timing, uint64_t sent_ms,
                                               uint64_t now_ms, const ten_result *result) {
    if (result->outcome != TEN_OK) {
        if (result->outcome == TEN_HELD)
            ten_holding_know(holding, result->token);
        return TEN_HOLDING_REFUSED;
    }
    if (result->token < holding->known_token || (result->token == holding->known_token && holding->spent)) {
        ten_holding_disown(holding, result->token, TEN_REASON_STORE);
        return TEN_HOLDING_SPENT;
    }
    if (!believe(holding, timing, sent_ms, now_ms, result))
        return TEN_HOLDING_LATE;
    ten_holding_know(holding, result->token);
    holding->token = result->token;
    holding->acquired_ms = sent_ms;
    holding->expired = holding->stray = false;
    move(holding, TEN_HOLDING_HELD);
    return TEN_HOLDING_GRANTED;
}

/* Its own lease is still there, under the same token, but barred. */
static bool is_forced(const ten_holding *holding, const ten_result *result) {
    return result->outcome == TEN_LOST && result->barred && result->token == holding->token;
}

static enum ten_holding_outcome answer_renewal(ten_holding *holding, const ten_timing *timing, uint64_t sent_ms,
                                               uint64_t now_ms, const ten_result *result) {
    if (!ten_holding_is_held(holding))
        return TEN_HOLDING_IGNORED;
    if (is_forced(holding, result)) {
        (void)ten_holding_doubt(holding);
        return TEN_HOLDING_BARRED;
    }
    if (result->outcome != TEN_OK) {
        ten_holding_lose(holding);
        return TEN_HOLDING_LOST;
    }
    /* After the deadline that it should have extended, another instance may have held the target, and the store may
     * have lost that lease. */
    holding->uncertain = now_ms >= holding->deadline_ms || !believe(holding, timing, sent_ms, now_ms, result);
    check(holding);
    return holding->uncertain ? TEN_HOLDING_LATE : TEN_HOLDING_RENEWED;
}

enum ten_holding_outcome ten_holding_extend(ten_holding *holding, const ten_timing *timing, uint64_t sent_ms,
                                            uint64_t now_ms, uint64_t ttl_ms) {
    return answer_renewal(holding, timing, sent_ms, now_ms, &(ten_result){.outcome = TEN_OK, .ttl_ms = ttl_ms});
}

/* Refused: it is still in the store, and is released next. */
static enum ten_holding_outcome answer_hand(ten_holding *holding, const ten_result *result) {
    if (result->outcome != TEN_OK && result->outcome != TEN_LOST)
        return TEN_HOLDING_IGNORED;
    ten_holding_know(holding, result->token);
    move(holding, TEN_HOLDING_NONE);
    return result->outcome == TEN_OK ? TEN_HOLDING_HANDED : TEN_HOLDING_RELEASED;
}

static enum ten_holding_outcome outcome_of(ten_holding *holding, const ten_timing *timing, uint64_t sent_ms,
                                           uint64_t now_ms, const ten_result *result) {
    enum ten_flight flight = (enum ten_flight)holding->flight;
    holding->flight = TEN_FLIGHT_NONE;
    switch (flight) {
    case TEN_FLIGHT_ACQUIRE:
        return answer_acquire(holding, timing, sent_ms, now_ms, result);
    case TEN_FLIGHT_RENEW:
        return answer_renewal(holding, timing, sent_ms, now_ms, result);
    case TEN_FLIGHT_RELEASE:
        move(holding, TEN_HOLDING_NONE);
        return TEN_HOLDING_RELEASED;
    case TEN_FLIGHT_KEEP:
        move(holding, TEN_HOLDING_NONE);
        return result->outcome == TEN_OK ? TEN_HOLDING_KEPT : TEN_HOLDING_UNKEPT;
    case TEN_FLIGHT_HAND:
        return answer_hand(holding, result);
    case TEN_FLIGHT_NONE:
        break;
    }
    return TEN_HOLDING_IGNORED;
}

static enum ten_reason reason_of(const ten_holding *holding, enum ten_holding_outcome outcome,
                                 const ten_result *result) {
    if (outcome != TEN_HOLDING_BARRED && outcome != TEN_HOLDING_LOST && outcome != TEN_HOLDING_UNKEPT)
        return (enum ten_reason)holding->reason;
    if (is_forced(holding, result))
        return TEN_REASON_FORCED;
    return result->holder ? TEN_REASON_TAKEN : TEN_REASON_STORE;
}

static int error_of(const ten_result *result) {
    return result->outcome == TEN_HELD      ? TENURE_E_HELD
           : result->outcome == TEN_UNKNOWN ? TENURE_E_UNKNOWN_TARGET
                                            : result->error;
}

ten_meaning ten_holding_answer(ten_holding *holding, const ten_timing *timing, uint64_t sent_ms, uint64_t now_ms,
                               const ten_result *result) {
    enum ten_holding_outcome outcome = outcome_of(holding, timing, sent_ms, now_ms, result);
    bool other = (result->outcome == TEN_HELD || result->holder) && outcome != TEN_HOLDING_BARRED;
    return (ten_meaning){.outcome = outcome,
                         .error = error_of(result),
                         .reason = reason_of(holding, outcome, result),
                         .free_ms = now_ms + (other ? ten_max_u64(result->remaining_ms, 1) : 0)};
}

bool ten_holding_unanswered(ten_holding *holding) {
    bool renewal = holding->flight == TEN_FLIGHT_RENEW;
    holding->flight = TEN_FLIGHT_NONE;
    return renewal && ten_holding_doubt(holding);
}

bool ten_holding_doubt(ten_holding *holding) {
    if (!ten_holding_is_held(holding) || holding->uncertain)
        return false;
    holding->uncertain = true;
    check(holding);
    return true;
}

/* ---- what else happens */

bool ten_holding_expire(ten_holding *holding, uint64_t now_ms) {
    if (!ten_holding_is_held(holding) || now_ms < holding->deadline_ms)
        return false;
    spend(holding, holding->token);
    holding->expired = true;
    move(holding, TEN_HOLDING_NONE);
    return true;
}

void ten_holding_lose(ten_holding *holding) {
    TEN_INVARIANT(ten_holding_is_held(holding));
    move(holding, TEN_HOLDING_NONE);
}

void ten_holding_keep_for_release(ten_holding *holding) {
    TEN_INVARIANT(holding->state == TEN_HOLDING_NONE);
    spend(holding, holding->token);
    holding->expired = true;
}

void ten_holding_close(ten_holding *holding) {
    TEN_INVARIANT(ten_holding_is_held(holding));
    move(holding, TEN_HOLDING_CLOSING);
}

void ten_holding_reopen(ten_holding *holding) {
    TEN_INVARIANT(ten_holding_is_held(holding));
    move(holding, TEN_HOLDING_HELD);
}

void ten_holding_disown(ten_holding *holding, uint64_t token, enum ten_reason reason) {
    holding->token = token;
    holding->reason = (uint8_t)reason;
    holding->expired = holding->stray = false;
    holding->deadline_ms = 0;
    spend(holding, token);
    move(holding, TEN_HOLDING_RELEASING);
}

enum ten_holding_news ten_holding_hear(ten_holding *holding, uint64_t token, bool mine) {
    bool held = ten_holding_is_held(holding);
    if (token < holding->known_token || (held && token <= holding->token))
        return TEN_HOLDING_OUTDATED;
    bool newer = token > holding->known_token;
    ten_holding_know(holding, token);
    /* An acquire of this instance, whose answer was lost. It is acquired again, or released. */
    holding->stray = mine && !held && holding->flight != TEN_FLIGHT_ACQUIRE && (newer || holding->stray);
    return newer ? TEN_HOLDING_NEWER : TEN_HOLDING_KNOWN;
}
