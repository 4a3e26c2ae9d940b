/*
 * The insides of elect, once and lock, shared by leader.c (start, turn, end), leader_facts.c (what the context's thread
 * leaves) and leader_command.c (the processes).
 */
#ifndef TEN_AGENT_LEADER_STATE_H
#define TEN_AGENT_LEADER_STATE_H

#include "agent/runner/leader.h"
#include "agent/runner/runner.h"

/* What the context's thread leaves for the loop. */
struct ten_leader_facts {
    ten_term_facts term;
    bool lost;          /* another may lead */
    const char *reason; /* of the end */
    char problem[256];  /* what the error of the term is about */
};

struct ten_leader {
    ten_runner runner;
    const ten_leader_config *config;
    tenure_election *election;
    ten_exporter *exporter;            /* NULL: no metrics are served */
    ten_exporter *leader_http;         /* the same for whether it leads */
    struct ten_leader_facts facts;     /* under the runner's lock */
    char other[TENURE_HOLDER_MAX + 1]; /* who leads, as the log has it: of ten_leader_on_event(), as the next */
    uint64_t renewed;                  /* the token whose first renewal the log has */

    ten_term term;
    ten_child child;
    ten_child ready;         /* the process of the command of a later term, prepared while another leads: then a handoff
                                does not wait for two forks and a namespace */
    uint64_t ready_again_ms; /* not before this is one made again that could not be made, or has died */
    int status;              /* how the last command ended */
    int exec_error;          /* errno, when it could not even be run; else 0 */
    const char *ending;      /* why the command was made to end, as it was logged; NULL: it was not */
    int stop_signal;
    bool stop_from_terminal; /* which has signalled the command, too */
};

/* leader_facts.c */
/* A callback of the election, on the context's thread. */
void ten_leader_on_event(const tenure_event *event, void *userdata);
/* With what may be believed of the lease at this moment. */
struct ten_leader_facts ten_leader_look_at_facts(struct ten_leader *leader);

/* leader_command.c */
/* Prepares the command's process, while another leads. */
void ten_leader_make_ready(struct ten_leader *leader);
void ten_leader_start_hook(struct ten_leader *leader, const char *hook, uint32_t belief, const char *reason);
void ten_leader_start_command(struct ten_leader *leader, const ten_term_facts *facts);
/* Why a command has to end, or had to, that no deadline was pressing. */
const char *ten_leader_why_stopped(const struct ten_leader *leader, const struct ten_leader_facts *facts);
/* The command has to end: logs the reason, once. */
void ten_leader_report_ending(struct ten_leader *leader, const struct ten_leader_facts *facts, const char *reason,
                              bool is_lost);
/* Children have died. */
void ten_leader_reap(ten_runner *runner);
enum ten_work_left ten_leader_left_of_child(struct ten_leader *leader);
int ten_leader_exit_of(int status);

#endif
