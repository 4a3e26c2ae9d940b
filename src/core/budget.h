/*
 * Who may have how much of a server: its connections, memory, event streams, namespaces, the places in its queues, and
 * the time of the thread that speaks HTTP. Pure: src/server reports what is asked for, and carries out the answer.
 *
 * One rule for every resource: an account may have `factor` times as much as is still free. So one account alone gets
 * factor / (factor + 1) of the whole, n greedy ones get equal parts, and they always leave something for one more.
 * How many there are need not be known. Renewals, heartbeats and releases have a reserve beside that, which nothing
 * else can use; accounts share it by the same rule. Clients that have not shown a token (strangers) share one part in
 * TEN_STRANGERS_PART of the whole, so they can take nothing from principals.
 */
#ifndef TEN_CORE_BUDGET_H
#define TEN_CORE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEN_STRANGERS_PART 8u

/* X(name, word for metrics and messages) */
#define TEN_RESOURCES(X)                                                                                               \
    X(CONNECTIONS, "connections")                                                                                      \
    X(MEMORY, "memory")         /* bytes: bodies that arrive, what was parsed from them, answers not yet taken */      \
    X(STREAMS, "streams")       /* of events */                                                                        \
    X(NAMESPACES, "namespaces") /* that somebody writes to */                                                          \
    X(FEEDS, "feeds")           /* namespaces that somebody streams */                                                 \
    X(GAUGES, "gauges")         /* namespaces in the metrics */                                                        \
    X(WAITING, "waiting")       /* operations in the queues before the store */                                        \
    X(TIME, "time")             /* of the thread that speaks HTTP; only refusals are counted under this name */

enum ten_resource {
#define X(name, word) TEN_RESOURCE_##name,
    TEN_RESOURCES(X)
#undef X
        TEN_RESOURCE_COUNT
};
const char *ten_resource_name(enum ten_resource resource);

/* What is urgent: a lease is lost if it does not get through. */
enum ten_urgency { TEN_USUAL, TEN_URGENT };

#define TEN_ACCOUNT_QUEUES 6u

/* What one principal has; or, where none is known, one address. Zeroed before its first use. */
typedef struct ten_account {
    char name[64]; /* for metrics and the log */
    bool stranger; /* a token is required, and was not shown */
    uint64_t used[TEN_RESOURCE_COUNT];
    uint64_t reserved[TEN_RESOURCE_COUNT]; /* of the reserve */
    uint64_t refused[TEN_RESOURCE_COUNT];
    uint64_t level_us;  /* time spent on it, leaking */
    uint64_t urgent_us; /* of that, on what may be urgent */
    uint64_t level_ms;  /* when that was reckoned */
    uint64_t turns[TEN_ACCOUNT_QUEUES];
    uint64_t refusal_sent_ms; /* when its latest refusal is sent */
} ten_account;

typedef struct ten_budget_rule {
    uint64_t total;
    uint64_t reserve; /* beside it */
    unsigned factor;
} ten_budget_rule;

typedef struct ten_budget {
    ten_budget_rule rules[TEN_RESOURCE_COUNT];
    uint64_t used[TEN_RESOURCE_COUNT];      /* by principals */
    uint64_t strangers[TEN_RESOURCE_COUNT]; /* by strangers */
    uint64_t reserved[TEN_RESOURCE_COUNT];
    uint64_t level_us; /* of all */
    uint64_t strangers_us;
    uint64_t level_ms;
} ten_budget;

void ten_budget_init(ten_budget *budget, const ten_budget_rule rules[TEN_RESOURCE_COUNT]);

/* How much of one resource something has. Zeroed before its first use. */
typedef struct ten_grant {
    ten_account *account;
    uint64_t amount;   /* in all */
    uint64_t reserved; /* of that, from the reserve */
} ten_grant;

/* Makes it so much. Less is always granted. False: refused and counted, and nothing has changed. A grant keeps its
 * account as long as its amount is not 0. */
bool ten_budget_resize(ten_budget *budget, ten_grant *grant, ten_account *account, enum ten_resource resource,
                       uint64_t amount, enum ten_urgency urgency);
/* The same for what is there already and cannot be refused. */
void ten_budget_note(ten_budget *budget, ten_grant *grant, ten_account *account, enum ten_resource resource,
                     uint64_t amount);
/* Gives all of it back. */
void ten_budget_return(ten_budget *budget, ten_grant *grant, enum ten_resource resource);
/* Whether an account that has nothing yet could get so much. Counts nothing. */
bool ten_budget_has_room(const ten_budget *budget, const ten_account *account, enum ten_resource resource,
                         uint64_t amount, enum ten_urgency urgency);

/* The thread has spent so long on a request of this account. */
void ten_budget_spend(ten_budget *budget, ten_account *account, enum ten_urgency urgency, uint64_t spent_us,
                      uint64_t now_ms);
/* Whether it may spend more; a refusal is counted. Time that is not needed is gone, unlike the rest, so a principal
 * that is alone may use all of it. One that uses little is never refused; for what is urgent only urgent time counts,
 * so none keeps itself from renewing. */
bool ten_budget_may_spend(ten_budget *budget, ten_account *account, enum ten_urgency urgency, uint64_t now_ms);

/* How long a refusal is delayed. It costs nearly as much as an answer, and a client that ignores Retry-After comes
 * again at once. So the refusals of one account are sent one after the other, at a bounded rate. */
uint64_t ten_account_refusal_ms(ten_account *account, uint64_t now_ms);

/* The place of a job in a queue: what has a lower number goes first. An account's jobs follow each other at the
 * distance of their weights, so accounts take turns however much one of them sends. queue_now: the number of the job
 * that the queue let go last. */
uint64_t ten_account_turn(ten_account *account, unsigned queue, uint64_t queue_now, uint64_t weight);

/* The same for jobs whose weight is known only when they are done, such as a listing: the account with the lowest place
 * goes next, and its place moves on by what its job has taken. So accounts get equal time, not equally many jobs. An
 * account that joins, or comes again, starts where the queue is: time that it did not use is gone. */
void ten_account_join(ten_account *account, unsigned queue, uint64_t queue_now);
uint64_t ten_account_place(const ten_account *account, unsigned queue);
void ten_account_charge(ten_account *account, unsigned queue, uint64_t weight);

/* Which of two strangers' connections is closed first, when there are too many. */
typedef struct ten_stranger {
    uint64_t of_address; /* connections that its address has */
    uint64_t since_ms;   /* when it came */
} ten_stranger;
bool ten_stranger_goes_first(const ten_stranger *one, const ten_stranger *other);

/* At most one line in every_ms. False: not now, and it is counted. ret_missed: those since the last line. */
typedef struct ten_line_gate {
    uint64_t opened_ms;
    uint64_t missed;
    bool opened;
} ten_line_gate;
bool ten_line_gate_pass(ten_line_gate *gate, uint64_t every_ms, uint64_t now_ms, uint64_t *ret_missed);

#endif
