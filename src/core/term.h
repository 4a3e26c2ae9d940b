/*
 * The terms of one candidate that runs a command: the hook of a term's beginning, the command, the hook of its end, one
 * after the other, each a piece of work (core/work.h). It is pure: the caller passes in the time, the events of the
 * election and the state of the processes; it returns what to start, signal or report. The leader (src/agent/runner)
 * and the simulator carry that out.
 *
 *   waiting ---> beginning ---> ready ---> command ---> ending ---> waiting
 *      |            |             |                      ^  |
 *      v            +-------------+--- the term is over -+  v
 *     over                                                 over
 *
 *   waiting     for a term; over when refused, when it has waited long enough, or when asked to stop
 *   beginning   the first hook runs; left out if there is none
 *   ready       until the lease is confirmed and not near its deadline
 *   command     until it ends by itself or is made to
 *   ending      the last hook runs; left out if there is none. Over after the only term, when asked to stop, or when
 *               the command has ended by itself and is not to be started again. After a lost lease it always waits for
 *               another term, whatever the exit status of the command
 *
 * Invariant: nothing starts, and no term ends, while something of the work before it is left.
 */
#ifndef TEN_CORE_TERM_H
#define TEN_CORE_TERM_H

#include "core/backoff.h"
#include "core/work.h"
#include "rules/op.h"

/* Whether a command that has ended by itself is started again, in a later term. */
enum ten_restart { TEN_RESTART_NEVER, TEN_RESTART_ON_FAILURE, TEN_RESTART_ALWAYS };

typedef struct ten_term_rules {
    ten_work_rules work;
    enum ten_restart restart;
    bool once; /* one term is all that is wanted */
    bool has_begin_hook;
    bool has_end_hook;
    uint64_t at_least_ms;   /* from the beginning of a term, no other instance gets the role */
    uint64_t wait_until_ms; /* once: then it waits for the role no longer */
} ten_term_rules;

/* What the election has said by now. */
typedef struct ten_term_facts {
    ten_work_lease lease;         /* of the latest term that has begun; without a token: none has */
    bool over;                    /* that term has ended, or is to */
    bool forced;                  /* by an operator, who took the lease away */
    bool held;                    /* another leads */
    bool refused;                 /* this instance can never lead */
    int error;                    /* why, or of the store; else 0 */
    uint64_t recovering_until_ms; /* the store grants nothing before that */
} ten_term_facts;

enum ten_term_state {
    TEN_TERM_WAITING,
    TEN_TERM_BEGINNING,
    TEN_TERM_READY, /* the command starts as soon as the lease allows it */
    TEN_TERM_COMMAND,
    TEN_TERM_ENDING,
    TEN_TERM_OVER,
};

/* What to do now. */
enum ten_term_step {
    TEN_TERM_NOTHING,
    TEN_TERM_START_BEGIN_HOOK,
    TEN_TERM_START_COMMAND,
    TEN_TERM_START_END_HOOK,
    TEN_TERM_ASK,       /* everything of the work to end */
    TEN_TERM_PASS_STOP, /* the same, in the way in which this program was asked to stop */
    TEN_TERM_KILL,      /* everything of the work */
    TEN_TERM_RESIGN,    /* resign_reason, resign_pause_ms; UINT64_MAX: withdraw */
    TEN_TERM_WORK_OVER, /* report to the election that the work of the term is over */
};

/* What came of it, when it is over. */
enum ten_term_outcome {
    TEN_TERM_ENDED,       /* nothing to report */
    TEN_TERM_REFUSED,     /* facts.error says why */
    TEN_TERM_COMMAND_END, /* as the command has ended */
    TEN_TERM_LOST,        /* the lease was lost while the command ran, or the command was ended because of it */
    TEN_TERM_STOPPED,     /* before it got the role */
    TEN_TERM_UNKNOWN,     /* who has the role: facts.error says why */
    TEN_TERM_NOT_ELECTED,
};

/* How the process of the hook or the command has ended. */
typedef struct ten_term_exit {
    bool failed;
    bool unstarted;       /* the command could not be run at all */
    bool ended_for_lease; /* the warden had signalled it before, or kept it from starting, because of the lease */
} ten_term_exit;

typedef struct ten_term {
    ten_term_rules rules;
    ten_backoff backoff;
    enum ten_term_state state;
    ten_work work;          /* the hook or the command that runs */
    uint64_t token;         /* of the latest term whose work has begun, or never will */
    uint64_t known_token;   /* of the latest that is known */
    uint64_t keep_until_ms; /* at_least_ms of that */
    uint64_t began_ms;      /* the command did */
    bool ran;               /* a command was started at all */
    bool done;              /* the command of this term has ended by itself, or could not be started */
    bool failed;            /* the last one has */
    bool unstarted;         /* the command of this term could not be run: the role is not kept for it */
    bool lost;              /* the lease of this term, or its work was ended because of it */
    unsigned stops;         /* how often this program was asked to stop */
    bool passes;            /* the work does not know of it yet */
    bool resigns;           /* the election does not know of it yet */
    enum ten_reason resign_reason;
    uint64_t resign_pause_ms;
} ten_term;

void ten_term_init(ten_term *term, const ten_term_rules *rules, const ten_backoff *backoff);

/* This program was asked to stop; twice: without waiting. */
void ten_term_stop(ten_term *term);
/* The process of the hook or the command has exited, or could not be started. Who ended a command decides what its end
 * means, and not its exit status: if it was signalled because of the lease, or if the lease has expired when its end is
 * noticed, then the lease was lost. Else it has ended by itself, or was asked to stop. */
void ten_term_exited(ten_term *term, const ten_term_facts *facts, const ten_term_exit *how, uint64_t now_ms);
/* What to do now; to be called until it is nothing. `left`: of what was started last. */
enum ten_term_step ten_term_next(ten_term *term, const ten_term_facts *facts, enum ten_work_left left, uint64_t now_ms);
/* When to call it again if nothing happens before; UINT64_MAX: never. */
uint64_t ten_term_next_ms(const ten_term *term, const ten_term_facts *facts, uint64_t now_ms);

/* Whether it waits for a term and will wait for a while, because another leads or it has just led itself: then the
 * process of its command can be made, though not the command started. */
bool ten_term_wants_ready(const ten_term *term, const ten_term_facts *facts);
/* Whether a hook or the command runs. */
bool ten_term_works(const ten_term *term);
enum ten_term_outcome ten_term_outcome(const ten_term *term, const ten_term_facts *facts);

#endif
