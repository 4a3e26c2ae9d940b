/*
 * The state of a lease book, shared by its files: lease_book.c (entries, those who wait, what the program wants) and
 * lease_book_part.c (requests, answers, the feed).
 */
#ifndef TEN_CORE_LEASE_BOOK_STATE_H
#define TEN_CORE_LEASE_BOOK_STATE_H

#include "base/map.h"
#include "base/timers.h"
#include "base/util.h"
#include "core/lease_book.h"

struct ten_lease_book {
    ten_lease_book_config config;
    ten_map by_target;
    ten_book_lease **leases; /* by number; NULL: free */
    uint32_t *free_numbers;
    uint32_t free_count;
    uint32_t room;
    ten_timers due;       /* when the next request about a lease is due */
    ten_timers deadlines; /* when a lease ends */
    ten_timers rests;     /* when the store must have ended a lease that rests */
    size_t followers;     /* leases for which the feed is followed */
    uint64_t random;
    bool stopping;

    ten_op *ops; /* the request in flight */
    uint32_t *op_numbers;
    uint32_t op_count;
    uint64_t sent_ms;
    size_t renewed_count; /* in the answer that is being taken */
};

/* Reports an event about the lease. */
void ten_lease_book_tell(ten_lease_book *book, const ten_book_lease *lease, tenure_event event, const char *instance);
/* What may be believed about it has changed. */
void ten_lease_book_changed(ten_lease_book *book, ten_book_lease *lease);
/* Schedules the next request about it, unless one is in flight. */
void ten_lease_book_look(ten_lease_book *book, const ten_book_lease *lease, uint64_t at_ms);
/* When there is something to send about it; UINT64_MAX: not before something happens. */
uint64_t ten_lease_book_due_ms(const ten_lease_book *book, const ten_book_lease *lease, uint64_t now_ms);
/* Looks at it then. */
void ten_lease_book_plan(ten_lease_book *book, const ten_book_lease *lease, uint64_t now_ms);
/* Whether the feed is followed for it: it waits for another holder's end, or for its own. */
void ten_lease_book_count_follower(ten_lease_book *book, ten_book_lease *lease);
/* The claims on it have changed: what is no longer wanted is not sent. */
void ten_lease_book_recount(ten_lease_book *book, ten_book_lease *lease);
/* Frees it when nothing is left of it, or lets it rest. */
void ten_lease_book_tidy(ten_lease_book *book, ten_book_lease *lease);

/* Whether a user has this claim on it. */
bool ten_lease_book_is_claimed(const ten_book_lease *lease, enum ten_book_claim claim);
/* A user waits for it, and it is not held, or is about to be released. */
bool ten_lease_book_is_acquiring(const ten_book_lease *lease);
/* Those who waited hold it now. */
void ten_lease_book_grant(ten_book_lease *lease);
/* Those that have this claim lose it. */
void ten_lease_book_drop_claims(ten_book_lease *lease, enum ten_book_claim claim);
/* Those whose time is over learn that it was refused; false: none did. */
bool ten_lease_book_refuse_overdue(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, int error,
                                   const ten_result *result);
/* It is no longer acquired. */
void ten_lease_book_give_up(ten_lease_book *book, ten_book_lease *lease, int error, const ten_result *result);
void ten_lease_book_answer_wait(ten_book_wait *wait, int error, const ten_result *result);
/* Answers those who wait for one of these kinds, as bits, and takes them out. */
void ten_lease_book_answer_waits(ten_book_lease *lease, unsigned kinds, int error, const ten_result *result);

#endif
