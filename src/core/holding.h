/*
 * The life of one held target, as one instance sees it: what may be believed about its lease, which request about it is
 * in flight, and what an answer, a missing answer or an entry of the feed means. A fleet has one for each target, an
 * election has one, and a lease of the C API has one. Pure: the caller passes in the time and what happened. Its owner
 * decides whether the target is wanted, and whether its work has stopped.
 *
 *                granted                     a reason to release
 *        none -----------------> held ------------------------------> closing
 *        ^  |                    |  ^                                 |  |  |
 *        |  |                    |  +------- no reason any more ------+  |  |
 *        |  |                    |                                       |  |
 *        |<-|-- lost, expired ---+---------------------------------------+  |
 *        |  |                    |                                          |
 *        |  +--- spent token ----|------------> releasing <--- release -----+
 *        |                       +--- release ----^ |
 *        +---------------- answered ----------------+
 *
 *  - A lease is believed in `held` and `closing` only, and only before its deadline. The deadline counts from when the
 *    last confirmed request was sent. While `uncertain`, a renewal got no answer: the deadline stays, no work starts.
 *  - `releasing`: from the moment at which a release is sent, the lease is not believed, whether the release arrives
 *    or not. It is repeated until it is answered, and nothing else is sent meanwhile.
 *  - A token is spent when its release was sent or its deadline has passed. A spent token, or one below the highest
 *    that was seen, is never believed again, even if the store grants it: the store may have lost data and granted the
 *    target to another instance in between, or the release may still arrive. Such a grant is released; the next one
 *    has a new token.
 */
#ifndef TEN_CORE_HOLDING_H
#define TEN_CORE_HOLDING_H

#include "core/timing.h"
#include "rules/op.h"

enum ten_holding_state {
    TEN_HOLDING_NONE,
    TEN_HOLDING_HELD,
    TEN_HOLDING_CLOSING,
    TEN_HOLDING_RELEASING,
};

enum ten_flight {
    TEN_FLIGHT_NONE,
    TEN_FLIGHT_ACQUIRE,
    TEN_FLIGHT_RENEW,
    TEN_FLIGHT_RELEASE,
    TEN_FLIGHT_KEEP, /* instead of a release: a renewal that keeps other instances out for a while */
    TEN_FLIGHT_HAND, /* instead of a release: the lease goes to a successor */
};

typedef struct ten_holding {
    uint64_t token; /* of the lease that is held or being released, or that was last */
    uint64_t ttl_ms;
    uint64_t deadline_ms; /* 0 unless held or closing */
    uint64_t sent_ms;     /* when the last confirmed request was sent */
    uint64_t acquired_ms; /* the same for the acquire */
    uint64_t known_token; /* the highest seen, of any instance */
    uint8_t state;        /* enum ten_holding_state; every change goes through one function */
    uint8_t flight;       /* enum ten_flight: the request that has not been answered */
    uint8_t reason;       /* enum ten_reason, while releasing */
    bool uncertain : 1;
    bool expired : 1; /* its deadline has passed, or it was forced, and it was not released since */
    bool stray : 1;   /* the store says that this instance holds it, under known_token, but it has no such grant */
    bool spent : 1;   /* known_token is spent. Lower ones are never believed again in any case */
} ten_holding;

/* What a later grant needs of a holding that is at rest, in 8 bytes: tokens are below 2^53. */
typedef struct ten_holding_rest {
    uint64_t known_token : 62;
    uint64_t spent : 1;
    uint64_t stray : 1;
} ten_holding_rest;

/* ---- reading */

/* Before or after its deadline: call ten_holding_expire() first if that matters. */
static inline bool ten_holding_is_held(const ten_holding *holding) {
    return holding->deadline_ms != 0;
}
/* Whether the lease is believed and its last renewal was confirmed: results may leave, also while closing. */
bool ten_holding_is_confirmed(const ten_holding *holding, uint64_t now_ms);
/* Whether new work may start. */
bool ten_holding_may_work(const ten_holding *holding, uint64_t now_ms);

/* ---- requests. Each returns the operation, without namespace, target and holder. Nothing else may be in flight */

ten_op ten_holding_acquire(ten_holding *holding, const ten_timing *timing);
/* keep_ms: for how long no other instance may get the target, whatever becomes of this one; usually 0. */
ten_op ten_holding_renew(ten_holding *holding, const ten_timing *timing, uint64_t keep_ms);
/* Ends a lease that is held, or repeats a release that was not answered; then the first reason stays. With keep_ms, the
 * lease is not released but kept for that long. */
ten_op ten_holding_release(ten_holding *holding, enum ten_reason reason, uint64_t keep_ms);
/* Ends a lease that is held by handing it over to an instance, which has it for that TTL. If that is refused or not
 * answered, it is released as usual. The successor must be valid until the answer. */
ten_op ten_holding_hand(ten_holding *holding, enum ten_reason reason, const char *successor, uint64_t ttl_ms);

/* ---- answers */

enum ten_holding_outcome {
    TEN_HOLDING_IGNORED, /* about a lease that has ended meanwhile, or is released next: it could not be handed over */
    TEN_HOLDING_GRANTED, /* held from now on */
    TEN_HOLDING_RENEWED,
    TEN_HOLDING_LATE,     /* granted or renewed, but the answer came too late to be believed */
    TEN_HOLDING_SPENT,    /* granted under a token that must not be believed: to be released */
    TEN_HOLDING_REFUSED,  /* not granted */
    TEN_HOLDING_BARRED,   /* it was forced: it cannot be renewed, and keeps others out until its deadline. Uncertain */
    TEN_HOLDING_LOST,     /* not held any more, says the store */
    TEN_HOLDING_RELEASED, /* of a release, whatever its outcome */
    TEN_HOLDING_HANDED,   /* the successor has it */
    TEN_HOLDING_KEPT,
    TEN_HOLDING_UNKEPT, /* it should have been kept, but was no longer held */
};

/* What an answer means for a claim on the target. */
typedef struct ten_meaning {
    enum ten_holding_outcome outcome;
    int error;              /* refused: why. TENURE_E_HELD: others have it, or the store is recovering */
    enum ten_reason reason; /* how the lease has ended; barred: it was forced */
    uint64_t free_ms;       /* when the lease of another holder ends, as far as the answer says; else now */
} ten_meaning;

/* The answer to the request that was sent at sent_ms. Only here is it decided what an answer means. */
ten_meaning ten_holding_answer(ten_holding *holding, const ten_timing *timing, uint64_t sent_ms, uint64_t now_ms,
                               const ten_result *result);
/* The lease was held when the store took a heartbeat that was sent at sent_ms and renewed it for ttl_ms:
 * TEN_HOLDING_RENEWED, or _LATE. Nothing about it may be in flight. */
enum ten_holding_outcome ten_holding_extend(ten_holding *holding, const ten_timing *timing, uint64_t sent_ms,
                                            uint64_t now_ms, uint64_t ttl_ms);
/* There was none, or an error: the request may have taken effect or not. True: the lease has just become uncertain. */
bool ten_holding_unanswered(ten_holding *holding);

/* ---- what else happens */

/* The store has granted this token to some instance. */
void ten_holding_know(ten_holding *holding, uint64_t token);
/* After ten_holding_lose(): the store still names this instance as the holder, so the lease has to be released. */
void ten_holding_keep_for_release(ten_holding *holding);
/* Gives up a lease whose deadline has passed. True: it has just expired. */
bool ten_holding_expire(ten_holding *holding, uint64_t now_ms);
/* The lease has ended: another instance took it, or it was forced. */
void ten_holding_lose(ten_holding *holding);
/* A renewal could not even be sent: the lease becomes uncertain. True: it has just become so. */
bool ten_holding_doubt(ten_holding *holding);
/* There is a reason to release it; there is none any more. Only while it is held. */
void ten_holding_close(ten_holding *holding);
void ten_holding_reopen(ten_holding *holding);
/* The store may hold a lease of this instance that it does not believe in: to be released. */
void ten_holding_disown(ten_holding *holding, uint64_t token, enum ten_reason reason);

enum ten_holding_news {
    TEN_HOLDING_OUTDATED, /* older than what is known */
    TEN_HOLDING_KNOWN,
    TEN_HOLDING_NEWER, /* another lease than the one that was known */
};
/* The store, by a listing or its feed, has a lease with this token. If it is newer and this instance holds the target,
 * its own lease has been taken. */
enum ten_holding_news ten_holding_hear(ten_holding *holding, uint64_t token, bool mine);

#endif
