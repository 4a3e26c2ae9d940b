/*
 * Programs with leases in the simulator: one process is one context with its lease book (core/lease_book.h), and a
 * program that acquires, renews, releases and frees leases on the targets of the world, and works under them.
 */
#ifndef SIM_LESSEE_H
#define SIM_LESSEE_H

#include "core/lease_book.h"
#include "sim.h"

#define SIM_HANDLES 2u /* on one target */

enum sim_lease_call { SIM_CALL_NONE, SIM_CALL_ACQUIRE, SIM_CALL_RENEW, SIM_CALL_RELEASE };
enum sim_lease_end { SIM_END_NOT, SIM_END_RELEASE, SIM_END_DROP, SIM_END_FREE };

/* A handle, as src/runtime/context_lease.c has it. */
struct sim_lease {
    ten_book_lease *entry; /* NULL: there is no handle */
    ten_book_user user;    /* if it is not renewed by the book, its program does it */
    bool pending;          /* its acquire has no outcome yet */
    bool failed;
    bool lost; /* its program was told so */
    uint64_t token;
    enum sim_lease_call call; /* its program waits for the answer, until call_until_ms */
    uint64_t call_until_ms;
    ten_book_wait wait;
    enum sim_lease_end end; /* when its work is over */
};

/* What one process knows of one target. */
struct sim_tenancy {
    struct sim_lease handles[SIM_HANDLES];
    uint64_t believed_token; /* the deadline of this one passes at believed_until_ms, whoever looks */
    uint64_t believed_until_ms;
    uint64_t lost_token;  /* of the last event about a loss */
    uint64_t ended_token; /* the last one that its program released or dropped */
    uint64_t freed_token; /* the last one that it freed, and did not acquire again: that ends by its TTL */
    uint32_t overdue;     /* how often it was acquired long after its program wanted it */
    bool asked;           /* its program asked for a renewal that was not sent yet */
    uint64_t dropped_us;  /* its program released it or stopped acquiring, and has no handle since; 0: not */
    uint64_t releasing_us;
    uint64_t forced_us;
    uint64_t closed_token; /* it was held when its context was closed */
};

struct sim_lessee {
    ten_lease_book *book;
    struct sim_tenancy *tenancies; /* by target */
    bool closed;                   /* the book was told to stop */
    uint64_t closed_us;
    uint64_t closes_ms;
};

/* lessee.c */
struct sim_process *sim_lessee_start(struct sim_world *world);
/* The operator forces a target, and remembers it. */
void sim_force_lease(struct sim_world *world, uint32_t target);
/* Whether a handle of the process may be believed. */
bool sim_has_lease(const struct sim_world *world, const struct sim_process *process, uint32_t target);

/* lease_checks.c */
/* A request is sent: it must be one that the program wants. */
void sim_check_lease_request(struct sim_world *world, struct sim_process *process, uint32_t target, const ten_op *op);
/* In calm weather, looked at often. */
void sim_check_leases(struct sim_world *world);
void sim_begin_lease_checks(struct sim_world *world);

#endif
