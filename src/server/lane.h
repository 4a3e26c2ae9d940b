/*
 * A lane: a thread with a handle on the store, and the jobs that wait for it. Jobs that have arrived meanwhile go to
 * the store as one batch, so that a hundred renewals cost about what one does. There is one lane for leases, one for
 * what fleets read all the time, and one for everything that may take long, so that a long listing delays no renewal
 * and no reader of the feed. Accounts take turns: however much one of them sends, the job of another waits for no
 * more than one turn of each. Work on the store alone is charged with the time that it takes, and so is the writing
 * of answers.
 */
#ifndef TEN_SERVER_LANE_H
#define TEN_SERVER_LANE_H

#include <pthread.h>

#include "core/budget.h"
#include "store/store.h"

typedef struct ten_job ten_job;
struct ten_job {
    ten_job *next;
    uint64_t put_ms; /* when it came into its lane */
    uint64_t turn;   /* its place there, if it goes together with others */
    ten_account *account;
    unsigned queue; /* of the account */
    int client_fd;  /* of a job that only reads: whose client has gone is not carried out. -1: none */
    const ten_op *ops;
    size_t op_count;
    /* Work on the store alone; NULL: its operations are sent together with those of other jobs. */
    int (*work)(ten_job *job, ten_store *store);
    /* Called in the lane's thread with the results, which are valid during the call, or with an error and its message.
     */
    void (*finish)(ten_job *job, int error, const char *message, const ten_result *results);
};

/* Where finished jobs go, of every lane. */
typedef struct ten_finished {
    pthread_mutex_t lock;
    ten_job *first;
    ten_job **last;
    int fd; /* an eventfd: readable when there are some */
} ten_finished;

int ten_finished_open(ten_finished *finished, ten_error *error);
void ten_finished_close(ten_finished *finished);
/* All of them, oldest first; NULL: none. */
ten_job *ten_finished_take(ten_finished *finished);

typedef struct ten_lane ten_lane;

/* Opens the store and starts the thread. */
int ten_lane_open(const char *url, uint64_t timeout_ms, ten_finished *finished, ten_lane **ret_lane, ten_error *error);
/* Ends the thread. Jobs that still wait are finished with an error. */
void ten_lane_close(ten_lane *lane);
/* Urgent jobs go first; the others get at least a quarter of each call. `queue` is the first of two numbers for
 * ten_account_turn(). */
void ten_lane_put(ten_lane *lane, ten_job *job, enum ten_urgency urgency, ten_account *account, unsigned queue);
/* What a job counts for: its operations, or what work on the store alone is worth. */
uint64_t ten_job_weight(const ten_job *job);
/* Wakes the thread for what was put: once for all that has come together, not for each. */
void ten_lane_tell(ten_lane *lane);
const ten_capabilities *ten_lane_capabilities(const ten_lane *lane);
const char *ten_lane_store_name(const ten_lane *lane);
/* Calls that failed. */
uint64_t ten_lane_errors(ten_lane *lane);
/* Whether the last call was answered. */
bool ten_lane_is_up(ten_lane *lane);

#endif
