/*
 * Candidates for a role, as threads of this process or as processes of their own, and what a test does to them: it sees
 * what each has lived through in memory that all share, and leaves orders there. And requests whose answer is lost, or
 * that hang on their way: between the runtime and the store, so that it works on every store.
 */
#ifndef CONFORMANCE_CANDIDATES_H
#define CONFORMANCE_CANDIDATES_H

#include "conformance/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tenure.h>

#define CANDIDATES_MAX 10u
#define NOBODY         CANDIDATES_MAX
#define TERMS_MAX      256u
#define TTL_MS         UINT64_C(60000) /* that nobody waits for */
#define RENEW_MS       UINT64_C(25500)
#define NOTICE_MS      UINT64_C(15000) /* a quarter of the TTL */

enum candidate_order { ORDER_NOTHING, ORDER_RESIGN, ORDER_YIELD, ORDER_STOP };
enum candidate_stage { STAGE_ABSENT, STAGE_CAMPAIGNS, STAGE_ENDED, STAGE_FAILED };
enum candidate_kind { IN_THREADS, IN_PROCESSES };

struct candidate {
    atomic_int order; /* set back to nothing once it is carried out */
    atomic_int stage;
    char instance[TENURE_HOLDER_MAX + 1]; /* from STAGE_CAMPAIGNS on */
    atomic_bool leads;                    /* between on_elected and on_demoted */
    atomic_bool believes;                 /* tenure_election_leads(), every other millisecond */
    atomic_uint terms;
    atomic_uint refusals; /* campaigns that failed because another led */
    atomic_uint outages;  /* the store did not answer in time: this machine is slow */
    atomic_uint disorder; /* calls of on_elected and on_demoted that did not alternate, or with another token */
    atomic_ullong token;  /* of the last term */
    atomic_ullong elected_ms;
    atomic_ullong demoted_ms;
    char reason[16]; /* of the last demotion */
};

struct arena {
    uint64_t ttl_ms;
    uint64_t renew_ms; /* 0: the default */
    uint64_t at_least_ms;
    char role[TENURE_TARGET_MAX + 1];
    atomic_uint inside; /* how many lead at this moment */
    atomic_uint most;
    atomic_uint entered;
    atomic_ullong tokens[TERMS_MAX]; /* of the terms, in their order */
    struct candidate at[CANDIDATES_MAX];
};

/* A role of the namespace `leader` that nobody else wants. */
struct election_place {
    struct place place; /* its namespace is `leader` */
    const char *role;
    struct arena *arena;
    /* A TTL whose end is waited for: short, but the store answers many times in it on a machine as busy as this one. */
    uint64_t brief_ms;
    int arena_fd;
    pid_t pids[CANDIDATES_MAX];
    pthread_t threads[CANDIDATES_MAX];
    bool has_thread[CANDIDATES_MAX];
};

int election_setup(void **state);
int election_teardown(void **state);
#define ELECTION_CASE(name) TEST_WITH(name, election_setup, election_teardown)

/* How long after the end of a lease somebody else has it, at the latest. */
uint64_t slack_ms(const struct election_place *election);
/* Whether candidates can be processes of their own. */
bool has_processes(const struct election_place *election);

/* Starts this one, and returns when it campaigns. */
void start_candidate(struct election_place *election, unsigned index, enum candidate_kind kind);
/* The same for a follower: returns when it has been refused, so that it waits for the present lease. */
void start_follower(struct election_place *election, unsigned index, enum candidate_kind kind);
/* Leaves the order; `stop` is waited for. */
void order_candidate(struct election_place *election, unsigned index, enum candidate_order order);
void stop_candidate(struct election_place *election, unsigned index);
/* SIGKILL, to a process. */
void kill_candidate(struct election_place *election, unsigned index);

/* Waits until somebody leads, other than `except` (CANDIDATES_MAX: whoever), and returns which; or the test fails. */
unsigned await_leader(struct election_place *election, unsigned except, uint64_t limit_ms);
/* Of a term with a higher token: who yields may lead again, if the others are late. */
unsigned await_term(struct election_place *election, uint64_t after_token, uint64_t limit_ms);
/* Waits until this one has been told that its term is over, and believes it. */
void await_demotion(struct election_place *election, unsigned index, const char *reason, uint64_t limit_ms);
/* Never two, tokens strictly increasing, callbacks in order; and so many terms, unless 0. */
void expect_order(struct election_place *election, unsigned terms);

/* As the store sees the role. */
ten_result read_role(const struct election_place *election);
ten_result ask_to_resign(const struct election_place *election, const char *holder);
ten_result force_role(const struct election_place *election, unsigned flag);

int candidate_worker(const char *url, unsigned index, int arena_fd);

/* ---- requests that go wrong on their way. `name` is the first part of the sender's instance id. */

/* The next requests of this kind never arrive; those after them are carried out, and their answers lost. */
void lose(const char *name, enum ten_op_kind kind, unsigned requests, unsigned answers);
/* How many of both were lost. */
unsigned count_lost(void);
/* The next request of this kind hangs, and its thread with it, until let_go(). */
void hang_request(const char *name, enum ten_op_kind kind);
bool is_hanging(void);
void let_go(void);

#endif
