/*
 * The list of planted bugs. The simulator is worth something only if it finds them, so the core that it runs is a copy
 * which goes wrong on purpose at each TEN_MUTANT(NAME) that the diffs in core/ put there; one mutant at a time is
 * switched on. What is installed is built from src/core, where there are none. See README.md.
 */
#ifndef TEN_MUTANTS_H
#define TEN_MUTANTS_H

#include <stddef.h>

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
    X(HAND_OLD_TOKEN, "a lease that is handed over keeps its token")                                                   \
    X(RELEASE_NOT_BELIEVED, "the lease is believed after its release was sent")                                        \
    X(OLD_TOKEN, "a new grant keeps the old token")                                                                    \
    X(SPENT_BELIEVED, "a token is believed again after its release was sent or its deadline passed")                   \
    X(RAW_HASH, "weights are not mixed")                                                                               \
    X(NO_QUOTA, "plain rendezvous without quotas")                                                                     \
    X(PIN_IGNORED, "a pin has no effect")                                                                              \
    X(PIN_AWAY_IGNORED, "a target that is kept away from an instance stays there")                                     \
    X(PIN_TO_DRAINED, "a pin to an instance that drains has an effect")                                                \
    X(PIN_UNCOUNTED, "pinned targets do not count for the quota of their instance")                                    \
    X(PIN_STAYS, "a pin never ends")                                                                                   \
    X(PIN_NOT_TAKEN_BACK, "a pin that was taken back goes on")                                                         \
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
    X(STOP_FORGETS, "a stopping instance does not release its targets")                                                \
    X(LIST_AT_EVERY_CHANGE, "instances are listed at every change")                                                    \
    X(NO_BACKOFF, "a failing store is asked without a pause")                                                          \
    X(RENEWALS_STARVE, "renewals wait until nothing else is left to do")                                               \
    X(LISTS_FOR_EVER, "a listing that is complete is followed by the next one")                                        \
    X(OVERRUN_IS_LOSS, "entries of the feed that were missed are taken for a loss of data")                            \
    X(LISTING_RESTARTS, "a listing begins anew when entries of the feed were missed")                                  \
    X(WAKE_UP_LOST, "a notice does not lead to a reading of the feed")                                                 \
    X(NOT_KEPT, "a role is not kept for its least time when its process dies")                                         \
    X(RELEASE_KEPT, "a role is released before its least time is over")                                                \
    X(CAMPAIGN_WHILE_WORKING, "a new term begins while the work of the old one still runs")                            \
    X(CAMPAIGN_WHILE_DRAINED, "a drained candidate campaigns")                                                         \
    X(NO_TURNS, "candidates do not take turns: a release makes all of them try")                                       \
    X(LONG_TURNS, "a candidate that does not take its turn is waited for for long")                                    \
    X(NO_ROTATION, "whoever has led stands first in the line again")                                                   \
    X(NO_FAILBACK, "a leader does not step down for a better candidate")                                               \
    X(FAILBACK_AT_ONCE, "a leader steps down for a better candidate as soon as it sees one")                           \
    X(UNFIT_LEADS, "a leader that is not able to do the work goes on")                                                 \
    X(SLOT_FORSAKEN, "a slot that may have been granted is left for another one")                                      \
    X(ASK_IGNORED, "a leader that is asked to resign does not look")                                                   \
    X(OWN_TTL_COUNTS, "a candidate waits for its own TTL, however short the leader's lease is")                        \
    X(FORCED_BELIEVED, "a refused renewal of a forced lease counts as a renewal")                                      \
    X(NEWCOMERS_AWAITED, "a free target waits for each newcomer that is planned for it, however many come and die")    \
    X(NO_GRACE, "work begins to end at the deadline, and not before")                                                  \
    X(KILL_TOO_LATE, "work that does not end when asked is killed at the deadline, and not before")                    \
    X(STARTS_UNCERTAIN, "work starts under an uncertain lease")                                                        \
    X(STARTS_LATE, "work starts that has to end at once")                                                              \
    X(WITHHELD_PUBLISHED, "a result is published while its lease is uncertain")                                        \
    X(PUBLISH_LOST, "a result is published although its lease was lost")                                               \
    X(PUBLISH_AFTER_RELEASE, "a target is released while its result waits to be published")                            \
    X(RELEASE_UNSENT, "a target is released while its message has yet to leave")                                       \
    X(SENT_LATE, "a message that has not left by its deadline is not dropped")                                         \
    X(LEFTOVERS_IGNORED, "work counts as over while something that it started is there")                               \
    X(RESTART_BESIDE, "the next hook or command starts while something of the last one is there")                      \
    X(EXIT_STATUS_DECIDES, "a command that was ended because of the lease counts as done if it exits with 0")          \
    X(HOOK_THEN_COMMAND, "the command starts after its hook, whatever has become of the lease")                        \
    X(KEEP_FORGOTTEN, "the warden does not know for how long a role is to be kept")                                    \
    X(PING_PONG, "a fallback holder releases its target at once, again and again")                                     \
    X(PROOF_IGNORED, "a token above the counter is answered with lost, and begins no epoch")                           \
    X(FORGOTTEN_IGNORED, "a target that comes back is granted as if no token of it had been forgotten")                \
    X(SESSION_VERSION_IGNORED, "a heartbeat renews all leases, whatever version it reports")                           \
    X(SESSION_FROM_RECEIPT, "the deadline of leases on a session counts from the arrival of the heartbeat's answer")   \
    X(SESSION_FROM_ACQUIRE, "a lease that is acquired on a session counts from its acquire, not from the heartbeat")   \
    X(SESSION_READ_UNSEEN, "a lease whose session was touched is read, but not compared")                              \
    X(SESSION_NEVER_UNCERTAIN, "a heartbeat that fails does not pause the work")                                       \
    X(SESSION_OUTLIVES, "leases stay on a session whose heartbeat has expired")                                        \
    X(SESSION_EPOCH_IGNORED, "a new epoch does not change the version of a session")                                   \
    X(SESSION_ENDS_EARLY, "an instance that leaves ends its session at once")                                          \
    X(SESSION_UNTOUCHED, "whoever touches a lease does not raise the version of its session")                          \
    X(SESSION_FORCED_STAYS, "a forced lease stays on its session, and never ends")                                     \
    X(SESSION_EXPIRED_KEPT, "a lease that has expired for its holder stays on the session, and never ends")            \
    X(CHECKPOINT_ANY_TOKEN, "a checkpoint is taken from whoever names itself as the holder, under whatever token")     \
    X(CHECKPOINT_ENDED, "a checkpoint is taken under the token of a lease that has ended")                             \
    X(CHECKPOINT_IN_EPOCH, "a checkpoint is taken while it is not known who holds the target")                         \
    X(BOOK_NO_RENEWAL, "a context does not renew its leases")                                                          \
    X(BOOK_MANUAL_RENEWED, "a lease that its program renews is renewed by the context, too")                           \
    X(BOOK_FREED_RENEWED, "a lease that was freed goes on being renewed")                                              \
    X(BOOK_FORGETS, "the token of a lease that was freed is forgotten, and believed again after its deadline")         \
    X(BOOK_CLAIM_STAYS, "whoever lost a lease has a claim on the next one of the same target")                         \
    X(BOOK_LOST_RENEWED, "a lease is renewed after its program was told that it is lost")                              \
    X(BOOK_LOST_SILENTLY, "the program is not told that a lease is lost")                                              \
    X(BOOK_FAILS_SILENTLY, "the program is not told that a target could not be acquired")                              \
    X(BOOK_NEVER_GIVES_UP, "an acquire is tried after its time is over")                                               \
    X(BOOK_STOP_FORGETS, "a context that is closed does not release its leases")                                       \
    X(BOOK_DROP_FORGOTTEN, "a lease that is dropped is not released")                                                  \
    X(BOOK_UNWANTED_KEPT, "what is granted after it was dropped is kept")                                              \
    X(BOOK_RELEASE_ONCE, "a release that was not answered is not repeated")                                            \
    X(BOOK_RELEASE_BELIEVED, "a lease is believed until its release is sent, and not only until it is called for")     \
    X(BOOK_ABANDONED_SENT, "a renewal that its caller gave up waiting for is sent later")                              \
    X(BOOK_ABANDONED_BELIEVED, "a lease is believed although the caller gave up waiting for its renewal")              \
    X(BOOK_FORCE_UNHEARD, "a forced end is not heard of before the next renewal")

/* The guard's, which its own test finds. */
#define TEN_GUARD_MUTANTS(X)                                                                                           \
    X(GUARD_LOWER, "a token below the newest one is accepted")                                                         \
    X(GUARD_FIRST_UNASKED, "the first token of a target is believed without asking the store")                         \
    X(GUARD_HIGHER_UNASKED, "a higher token is believed without asking the store")                                     \
    X(GUARD_UNGRANTED, "a token that the store never granted is accepted")                                             \
    X(GUARD_FORGETS, "an answer can lower the newest token")                                                           \
    X(GUARD_NEVER_EXPIRES, "what is cached serves for ever")                                                           \
    X(GUARD_FROM_RECEIPT, "a confirmation counts from the answer's arrival, not from the request's sending")           \
    X(GUARD_GAP_IGNORED, "the feed confirms what was read before a gap in it")                                         \
    X(GUARD_FLOOR_IS_TOKEN, "a bound of a store that forgot is taken for a token that was granted")                    \
    X(GUARD_POLICY_IS_BLIND, "the policy accepts what the store never confirmed")                                      \
    X(GUARD_NO_EVICTION, "targets are never forgotten")                                                                \
    X(GUARD_EVICTS_USED, "the most recently used target is forgotten first")                                           \
    X(GUARD_FEED_IGNORED, "changes of the feed do not raise the newest token")                                         \
    X(GUARD_ASKS_ALWAYS, "the store is asked for each message")

/* The budget's, which its own test finds. */
#define TEN_BUDGET_MUTANTS(X)                                                                                          \
    X(BUDGET_UNSHARED, "one account can take all that is free")                                                        \
    X(BUDGET_RESERVE_OPEN, "requests that are not urgent use the reserve")                                             \
    X(BUDGET_RESERVE_UNSHARED, "one account can take the whole reserve")                                               \
    X(BUDGET_STRANGERS_EQUAL, "clients without a token have the share of a principal")                                 \
    X(BUDGET_STRANGERS_URGENT, "clients without a token use the reserve")                                              \
    X(BUDGET_RETURN_FORGOTTEN, "what a request has used stays used after it was refused more")                         \
    X(BUDGET_TIME_FOR_FIRST, "an account that uses little time is refused because others use much")                    \
    X(BUDGET_TIME_UNBOUNDED, "one account can keep the thread busy all the time")                                      \
    X(BUDGET_TIME_KEPT, "the time that an account has used is never forgotten")                                        \
    X(BUDGET_OWN_WAY, "a principal that uses much time keeps itself from renewing")                                    \
    X(BUDGET_FIRST_COME, "a queue lets jobs go in the order of their arrival, whoever sent them")                      \
    X(BUDGET_BY_COUNT, "accounts read equally often, however long their readings take")                                \
    X(BUDGET_SAVED_UP, "an account that was away goes before all others until it has caught up")                       \
    X(BUDGET_REFUSED_AT_ONCE, "a flood of requests is refused as fast as it comes")                                    \
    X(BUDGET_NEWEST_GOES, "of the connections without a token the newest is closed first")                             \
    X(BUDGET_LOGS_ALL, "each refusal is a line in the log")

/* Those of jobs, which `sim --cron` finds. */
#define TEN_CRON_MUTANTS(X)                                                                                            \
    X(CRON_START_FIRST, "a command starts before its instant is written down")                                         \
    X(CRON_CLOCK_DECIDES, "what runs next depends on the host's clock, and not on what ran last")                      \
    X(CRON_NEW_UNWRITTEN, "from when on a new job counts is not written down")                                         \
    X(CRON_LOST_AGAIN, "an instant whose end is not known runs again")                                                 \
    X(CRON_CLAIM_KEPT, "a claim is not taken back when its command cannot start")                                      \
    X(CRON_ALL_IS_LATEST, "of several instants that were missed, only the latest runs, whatever the policy")           \
    X(CRON_STALE_STARTS, "a command starts although its instant could not be written down")                            \
    X(CRON_OVERLAP_PASSES, "instants that came before a late run are passed over with those that came during it")      \
    X(CRON_EARLY, "an instant runs before its time")                                                                   \
    X(CRON_DONE_AGAIN, "after a takeover the last instant runs again")                                                 \
    X(CRON_FORGETS, "a takeover forgets what came more than a minute before it")                                       \
    X(CRON_OLDEST, "with missed=latest the oldest of the missed instants runs")                                        \
    X(CRON_LOST_SILENT, "the history does not have a run whose runner died")                                           \
    X(CRON_LOG_KEPT, "the history keeps what belongs to a claim that was taken back")                                  \
    X(CRON_SET_BACK, "an instant runs again because the clock was set back while it ran")                              \
    X(CRON_HOUR_TWICE, "a fixed time runs twice when the clock is set back by an hour")                                \
    X(CRON_HOUR_LEFT_OUT, "a fixed time that the clock passes over does not run")

/* Those of a shelf of records, which tests/backend finds: what it promises, broken (tests/backend/shelf.c), */
#define TEN_SHELF_MUTANTS(X)                                                                                           \
    X(SHELF_LIFE_UNCHECKED, "a commit does not look whether a record is alive")                                        \
    X(SHELF_VERSION_UNCHECKED, "a commit does not compare versions")                                                   \
    X(SHELF_ABSENCE_UNCHECKED, "two that make the same record have both made it")                                      \
    X(SHELF_VERSION_REPEATS, "a version comes again")                                                                  \
    X(SHELF_OLD_CONFLICT, "a conflict brings a record as it was before")                                               \
    X(SHELF_CONFLICT_SILENT, "a conflict is not told")                                                                 \
    X(SHELF_HALF_DONE, "a part of a change is carried out although its checks do not hold")                            \
    X(SHELF_SHORTENS, "a life is the last that was written, and not the latest")                                       \
    X(SHELF_WITH_IGNORED, "a life does not take the end of another record")                                            \
    X(SHELF_RAISE_IGNORED, "a record that is raised keeps its version")                                                \
    X(SHELF_IDENTITY_IGNORED, "a commit does not look whether it is the store that its caller relies on")              \
    X(SHELF_EPOCH_IGNORED, "a commit does not compare the epoch")                                                      \
    X(SHELF_FEED_ORDER, "the entries of a commit do not have the order of its changes")                                \
    X(SHELF_TOUCH_REVIVES, "a touch extends what is dead")                                                             \
    X(SHELF_TOUCH_ANY_VERSION, "a touch extends what has changed")                                                     \
    X(SHELF_TOUCH_ANY_NAME, "a touch extends what has another name")                                                   \
    X(SHELF_SCAN_UNFILTERED, "a scan for names gives all")

/* and what is made of shelves, gone wrong (store/). */
#define TEN_APPLY_MUTANTS(X)                                                                                           \
    X(APPLY_HINT_BELIEVED, "an answer rests on what was known before the call")                                        \
    X(APPLY_FLOOR_UNCHECKED, "a grant on an absent record does not check the record of the namespace")                 \
    X(APPLY_FORGOTTEN_UNKNOWN, "the namespace does not remember the tokens that it forgot")                            \
    X(APPLY_LONGEST_UNKNOWN, "the namespace does not remember the longest TTL")                                        \
    X(APPLY_SESSION_UNCHECKED, "a grant on a session does not check that the session is alive")                        \
    X(APPLY_CHECKPOINT_UNCHECKED, "an acquire returns a checkpoint that it has not checked")                           \
    X(APPLY_FORCE_SHORTENS, "a forced lease ends when its session would have ended by what was read before")           \
    X(APPLY_BEAT_BY_VERSION, "a heartbeat fails if somebody else has touched a lease of its session")                  \
    X(APPLY_BURIED_RAISED, "whoever takes a lease of a dead session raises its record")                                \
    X(APPLY_SESSION_COMES_AGAIN, "the number of a session comes again")                                                \
    X(APPLY_ENDLESS, "a batch is tried again for ever")

/* Redis' own, which redis_planted finds (store/redis/). */
#define TEN_REDIS_MUTANTS(X)                                                                                           \
    X(REDIS_FORMER_ID, "a promoted replica is taken for the server that it was a replica of")                          \
    X(REDIS_FOREIGN_EXTENDED, "a renewal extends a key that another program has set")                                  \
    X(REDIS_CHANGE_UNSEEN, "a renewal does not notice that others have written since the last one")                    \
    X(REDIS_READ_BELIEVED, "a lease that no replica has is believed because it was read")

enum ten_mutant {
#define X(name, what) TEN_MUTANT_##name,
    TEN_MUTANTS(X) TEN_MUTANT_COUNT,
    TEN_GUARD_MUTANTS(X) TEN_MUTANT_GUARD_END,
    TEN_BUDGET_MUTANTS(X) TEN_MUTANT_BUDGET_END,
    TEN_CRON_MUTANTS(X) TEN_MUTANT_CRON_END,
    TEN_SHELF_MUTANTS(X) TEN_APPLY_MUTANTS(X) TEN_REDIS_MUTANTS(X)
#undef X
        TEN_MUTANT_END
};

/* The one that is switched on. It is defined by the program: tests/sim, tests/faults/mutant.c, tests/backend, the tests of
 * guard and budget. */
extern enum ten_mutant ten_mutant;

/* Some of them, for a program whose cases have to find each (find.c). */
struct ten_mutant_name {
    enum ten_mutant mutant;
    const char *name, *what;
};
#define TEN_MUTANT_NAME(name, what) {TEN_MUTANT_##name, #name, what},
/* Runs all cases with each of them, in a process of its own; how many were not found. */
int ten_mutants_find(const struct ten_mutant_name *mutants, size_t count);

#define TEN_MUTANT(name) (ten_mutant == TEN_MUTANT_##name)

#endif
