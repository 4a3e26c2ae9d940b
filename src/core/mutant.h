/*
 * Planted bugs. The simulator is worth something only if it finds them, so the core has places where a test build can
 * go wrong on purpose: TEN_MUTANT(NAME) is false in every build but tests/sim, where one mutant at a time is switched
 * on.
 */
#ifndef TEN_CORE_MUTANT_H
#define TEN_CORE_MUTANT_H

/* X(name, what goes wrong) */
#define TEN_MUTANTS(X)                                                                                                 \
    X(NONE, "nothing")                                                                                                 \
    X(DEADLINE_FROM_RECEIPT, "the deadline counts from the answer's arrival, not from the request's sending")          \
    X(NO_MARGIN, "the deadline has no margin")                                                                         \
    X(LATE_ANSWER_COUNTS, "an answer that comes after its own deadline revives the lease")                             \
    X(LONGER_TTL_COUNTS, "the longer of the asked and the granted TTL counts")                                         \
    X(NO_DEADLINE, "a lease is believed until the store says otherwise")                                               \
    X(UNCERTAIN_WORKS, "a failed renewal does not pause the work")                                                     \
    X(LOST_IGNORED, "a renewal that is answered with lost is taken for good")                                          \
    X(ERROR_IS_OK, "a batch that failed is taken for granted")                                                         \
    X(HELD_IS_OK, "a refused acquire is taken for a grant")                                                            \
    X(RELEASE_BEFORE_STOP, "a lease is released while its work is still running")                                      \
    X(RELEASE_NOT_BELIEVED, "the lease is believed after its release was sent")                                        \
    X(OLD_TOKEN, "a new grant keeps the old token")                                                                    \
    X(RAW_HASH, "weights are not mixed")                                                                               \
    X(NO_QUOTA, "plain rendezvous without quotas")                                                                     \
    X(NO_STAGGER, "fallbacks do not wait for their rank")                                                              \
    X(NO_FALLBACK, "only the planned instance ever acquires")                                                          \
    X(NO_RETRY_AT_END, "a refused acquire is never tried again")                                                       \
    X(NO_RENEWAL, "leases are not renewed")                                                                            \
    X(NO_HEARTBEAT, "the instance is announced once and never again")                                                  \
    X(NO_HANDOVER, "a holder that is no longer planned keeps its target")                                              \
    X(NO_SETTLE, "targets are handed to instances that have only just appeared")                                       \
    X(LEFT_NOT_NOTICED, "instances that expire stay in the plan")                                                      \
    X(FEED_IGNORED, "releases by others are not noticed")                                                              \
    X(PAUSE_IGNORED, "a paused target goes on being worked on")                                                        \
    X(STOP_FORGETS, "a stopping instance does not give its targets back")                                              \
    X(LIST_AT_EVERY_CHANGE, "instances are listed at every change")                                                    \
    X(NO_BACKOFF, "a failing store is asked without a pause")                                                          \
    X(NOT_KEPT, "a role is not kept for its least time when its process dies")                                         \
    X(RELEASE_KEPT, "a role is given back before its least time is over")                                              \
    X(CAMPAIGN_WHILE_WORKING, "a new term begins while the work of the old one still runs")                            \
    X(ASK_IGNORED, "a leader that is asked to resign does not look")                                                   \
    X(PING_PONG, "a fallback holder hands back at once, again and again")

enum ten_mutant {
#define X(name, what) TEN_MUTANT_##name,
    TEN_MUTANTS(X)
#undef X
        TEN_MUTANT_COUNT
};

#ifdef TEN_MUTATIONS
extern enum ten_mutant ten_mutant;
#define TEN_MUTANT(name) (ten_mutant == TEN_MUTANT_##name)
#else
#define TEN_MUTANT(name) 0
#endif

#endif
