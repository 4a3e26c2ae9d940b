/*
 * Candidates in the simulator: one process is one candidate for one role, with work of one of three kinds. A role is a
 * target of the world, with what elections add to it beside it.
 */
#ifndef SIM_CANDIDATE_H
#define SIM_CANDIDATE_H

#include "core/election.h"
#include "core/term.h"
#include "sim.h"

enum sim_style {
    SIM_FUNCTION, /* the program's own: small pieces, one after the other. It has no warden, and may run too long */
    SIM_COMMAND,  /* runs on until it is told to stop, or ends by itself; its warden ends it before the deadline */
    SIM_ONCE,     /* the same, but one term is all that its process wants */
};

#define SIM_SLOTS_MAX 4u

struct sim_role {
    enum sim_style style; /* of its candidates */
    /* Roles that follow each other can be the slots of one: then all of them say which is the first, and how many there
     * are. 0: it has no slots. */
    uint32_t first;
    uint32_t slots;
    uint64_t at_least_ms;
    enum ten_election_announces announces;
    uint64_t failback_ms; /* UINT64_MAX: never */
    enum ten_restart restart;
    bool has_begin_hook;
    bool has_end_hook;
    bool endless;        /* its commands do not end by themselves */
    uint64_t pause_us;   /* after one that did; 0: any, up to a TTL */
    uint64_t term_token; /* the highest that anybody was elected with */
    uint64_t kept_us;    /* nobody but its leader gets it before */
    const char *kept_by;
    uint64_t asked_us; /* its leader was asked to resign; 0: it was not */
    uint64_t asked_token;
    uint64_t led_us;  /* when it last had a leader, or could not have one */
    uint64_t held_us; /* when it was last seen held in the store, or could not be */
};

struct sim_candidate {
    ten_election election;
    char metadata[64];
    ten_election_slot slots[SIM_SLOTS_MAX];
    ten_op ops[SIM_SLOTS_MAX + 1];
    uint32_t terms;
    int64_t priority;
    ten_term term; /* of a command; a function has its own way */
    ten_term_facts facts;
    bool lost;     /* the lease of the term that was facts of */
    bool reaped;   /* it has facts of the end of its child */
    uint32_t role; /* with slots: the one that it leads, or led last */
    bool in_term;  /* was told that it leads, and not yet that it no longer does */
    bool told;     /* to stop its function */
    bool running;  /* its work does, whether or not it still may; pieces[role].working: it may */
    uint64_t pause_us;
    uint64_t rests_until_us; /* others go first; UINT64_MAX: it steps down */
};

/* candidate.c: what src/runtime does around an election */
struct sim_process *sim_candidate_start(struct sim_world *world, uint32_t role);
struct sim_process *sim_candidate_start_with(struct sim_world *world, uint32_t role, int64_t priority);
struct sim_process *sim_candidate_start_timed(struct sim_world *world, uint32_t role, int64_t priority,
                                              const ten_timing *timing);
/* The program wants to step down. */
void sim_candidate_resign(struct sim_world *world, struct sim_process *process, enum ten_reason reason,
                          uint64_t pause_us);
bool sim_is_leader(const struct sim_world *world, const struct sim_process *process);
/* Whether it is a candidate for it, or for one of the slots of which it is one. */
bool sim_is_candidate(const struct sim_world *world, const struct sim_process *process, uint32_t role);
/* Makes so many roles, from this one on, the slots of one. */
void sim_make_slots(struct sim_world *world, uint32_t first, uint32_t count);
/* Who leads it, or is stepping down; NULL: nobody. */
struct sim_process *sim_leader_of(const struct sim_world *world, uint32_t role);

/* candidate_work.c: the work of a term, and its warden */
void sim_term_init(struct sim_world *world, struct sim_process *process);
void sim_term_begins(struct sim_world *world, struct sim_process *process);
void sim_term_ends(struct sim_world *world, struct sim_process *process, bool at_once, enum ten_reason reason);
/* Something was facts from the election. */
void sim_term_hears(struct sim_world *world, struct sim_process *process);
void sim_term_stop(struct sim_world *world, struct sim_process *process);
void sim_look_for_term_work(struct sim_world *world, struct sim_process *process);
void sim_look_at_term_work(struct sim_world *world, struct sim_process *process, uint32_t role, uint64_t work);

/* election_checks.c: what must be true, beside checks.c */
/* It says that the work of its term is over. */
void sim_check_work_over(struct sim_world *world, struct sim_process *process);
/* The end of its command was noticed: who has ended it decides what that means. */
void sim_check_command_end(struct sim_world *world, struct sim_process *process, uint64_t now_ms);
/* It leaves, and was not told to. */
void sim_check_term_over(struct sim_world *world, struct sim_process *process);
void sim_check_elected(struct sim_world *world, struct sim_process *process, uint64_t token);
/* In calm weather, looked at often: every role has a leader in time, and whoever is asked to step down does. */
void sim_check_roles(struct sim_world *world);
void sim_begin_role_checks(struct sim_world *world);
/* Asks the leader to resign, and remembers it; false: there is none. */
bool sim_ask_leader(struct sim_world *world, uint32_t role);

/* election_run.c */
struct sim_world *sim_election_world(uint64_t seed, uint32_t roles, uint64_t ttl_ms);

#endif
