/*
 * Lanes. Called by the server's loop; their jobs come from request.c.
 */
#include "server/lane.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/thread.h"

#define URGENT_OPS_MAX  3000u /* of one call */
#define USUAL_OPS_MAX   1000u
#define PLAIN_JOB_COUNT 10u /* what a job without operations counts for */
#define OP_US           10u /* an operation, in time */
#define UNSIGNALLED_MAX 64u /* jobs for which the thread is not woken yet */
#define GONE_AFTER_MS   500u

/* Jobs that go together in the order of their turns, others in the order in which they came. */
struct queue {
    ten_job *first;
    uint64_t now; /* the turn of the last one that went, or the place of its account */
};

struct ten_lane {
    ten_store *store; /* the thread's alone once it runs */
    uint64_t timeout_ms;
    ten_finished *finished;
    pthread_t thread;
    pthread_mutex_t lock; /* around what follows */
    pthread_cond_t arrived;
    struct queue queues[2]; /* by urgency */
    bool closing;
    bool down;
    uint64_t errors;
    size_t unsignalled; /* the loop's own: jobs since the thread was woken */
    /* The thread's own. */
    ten_op *ops;
    ten_result *results;
    uint32_t op_room;
    uint32_t result_room;
};

/* ---- finished jobs */

int ten_finished_open(ten_finished *finished, ten_error *error) {
    *finished = (ten_finished){.fd = ten_eventfd_open()};
    finished->last = &finished->first;
    pthread_mutex_init(&finished->lock, NULL);
    return finished->fd < 0 ? ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot start the server's loop")
                            : TENURE_OK;
}

void ten_finished_close(ten_finished *finished) {
    ten_close_fd(&finished->fd);
    pthread_mutex_destroy(&finished->lock);
}

static void hand_over(ten_finished *finished, ten_job *first, ten_job **last) {
    TEN_LOCKED(&finished->lock);
    bool was_empty = finished->first == NULL;
    *finished->last = first;
    finished->last = last;
    if (was_empty)
        ten_eventfd_poke(finished->fd);
}

ten_job *ten_finished_take(ten_finished *finished) {
    ten_eventfd_clear(finished->fd);
    TEN_LOCKED(&finished->lock);
    ten_job *first = finished->first;
    finished->first = NULL;
    finished->last = &finished->first;
    return first;
}

/* ---- the thread */

uint64_t ten_job_weight(const ten_job *job) {
    return job->op_count ? job->op_count : PLAIN_JOB_COUNT;
}

/* Puts the jobs of a queue whose turn it is at *end, as long as they have at most so many operations; at least one.
 * Returns where the next one goes. */
static ten_job **take_some(struct queue *queue, size_t most, ten_job **end, size_t *count) {
    size_t taken = 0;
    while (queue->first && !queue->first->work && (taken == 0 || taken + queue->first->op_count <= most)) {
        ten_job *job = queue->first;
        queue->first = job->next;
        queue->now = job->turn;
        taken += job->op_count;
        *end = job;
        end = &job->next;
    }
    *end = NULL;
    *count += taken;
    return end;
}

/* Takes the oldest job of the account that has had the least; each of them is work on the store alone. */
static ten_job *take_plain(struct queue *queue) {
    ten_job **best = &queue->first;
    for (ten_job **at = best; *at; at = &(*at)->next)
        if (ten_account_place((*at)->account, (*at)->queue) < ten_account_place((*best)->account, (*best)->queue))
            best = at;
    ten_job *job = *best;
    if (!job)
        return NULL;
    *best = job->next;
    queue->now = ten_account_place(job->account, job->queue);
    job->next = NULL;
    return job;
}

/* The jobs of the next call: those that go together and come first, up to a bound, or one that goes alone. */
static ten_job *take_batch(ten_lane *lane, size_t *ret_count) {
    ten_job *first = NULL;
    ten_job **end = take_some(&lane->queues[TEN_URGENT], URGENT_OPS_MAX, &first, ret_count);
    struct queue *usual = &lane->queues[TEN_USUAL];
    (void)take_some(usual, USUAL_OPS_MAX, end, ret_count);
    return first ? first : take_plain(usual);
}

static bool is_empty(const ten_lane *lane) {
    return !lane->queues[TEN_USUAL].first && !lane->queues[TEN_URGENT].first;
}

static void note_state(ten_lane *lane, int error) {
    bool down = error == TENURE_E_UNREACHABLE || error == TENURE_E_TIMEOUT || error == TENURE_E_STORE ||
                error == TENURE_E_FULL || error == TENURE_E_DENIED;
    TEN_LOCKED(&lane->lock);
    lane->down = down;
    lane->errors += down;
}

static void charge(ten_lane *lane, const ten_job *job, uint64_t weight) {
    TEN_LOCKED(&lane->lock);
    ten_account_charge(job->account, job->queue, weight);
}

/* Its account has paid for the operations when it got its turn; an answer that takes long to write is paid for here. */
static ten_job **finish_batch(ten_lane *lane, ten_job *first, int error) {
    const ten_result *results = lane->results;
    ten_job **last = &first->next;
    uint64_t began_us = ten_boot_us();
    for (ten_job *job = first; job; job = job->next) {
        job->finish(job, error, lane->store->error.message, results);
        last = &job->next;
        if (job->work)
            continue;
        if (results) /* none yet, where the first jobs of all are refused */
            results += job->op_count;
        uint64_t ended_us = ten_boot_us();
        if (ended_us - began_us >= OP_US)
            charge(lane, job, (ended_us - began_us) / OP_US);
        began_us = ended_us;
    }
    return last;
}

static bool is_callers_fault(int error) {
    return error == TENURE_E_INVALID || error == TENURE_E_TTL || error == TENURE_E_TOKEN ||
           error == TENURE_E_UNSUPPORTED;
}

static void run_batch(ten_lane *lane, ten_job *first, size_t count);

/* An operation that the store refuses fails its whole batch. The requests that cannot be carried out at all are
 * answered by themselves, and the others go together again: a client that sends such requests must not make all
 * renewals go one by one. If it is none of them, each is sent by itself, so that the one that is refused harms no
 * other. */
static void run_apart(ten_lane *lane, ten_job *first) {
    ten_job *fit = NULL;
    ten_job **end = &fit;
    size_t count = 0;
    bool found = false;
    for (ten_job *job = first, *next; job; job = next) {
        next = job->next;
        job->next = NULL;
        if (ten_store_check_ops(lane->store, job->ops, job->op_count) < 0) {
            found = true;
            run_batch(lane, job, job->op_count);
        } else {
            *end = job;
            end = &job->next;
            count += job->op_count;
        }
    }
    if (found && fit) {
        run_batch(lane, fit, count);
        return;
    }
    for (ten_job *next; fit; fit = next) {
        next = fit->next;
        fit->next = NULL;
        run_batch(lane, fit, fit->op_count);
    }
}

/* Its account pays for what the others have waited. */
static int run_plain(ten_lane *lane, ten_job *job) {
    uint64_t began_us = ten_boot_us();
    int error = job->work(job, lane->store);
    charge(lane, job, ten_boot_us() - began_us);
    return error;
}

/* The operations of a job, from that place on. Its groups get other numbers than those of the jobs beside it. */
static void add_ops(ten_lane *lane, const ten_job *job, size_t at) {
    memcpy(&lane->ops[at], job->ops, job->op_count * sizeof *lane->ops);
    for (size_t i = 0; i < job->op_count; i++) {
        bool goes_on = i > 0 && job->ops[i].group == job->ops[i - 1].group;
        if (job->ops[i].group)
            lane->ops[at + i].group = goes_on ? lane->ops[at + i - 1].group : (uint32_t)(at + i) + 1;
    }
}

static void run_batch(ten_lane *lane, ten_job *first, size_t count) {
    int error;
    if (first->work) {
        error = run_plain(lane, first);
    } else if (!TEN_GROW(lane->ops, lane->op_room, (uint32_t)count) ||
               !TEN_GROW(lane->results, lane->result_room, (uint32_t)count)) {
        error = ten_fail_memory(&lane->store->error, "a batch");
    } else {
        size_t at = 0;
        for (const ten_job *job = first; job; at += job->op_count, job = job->next)
            add_ops(lane, job, at);
        error = ten_store_apply(lane->store, lane->ops, lane->results, count, lane->timeout_ms);
    }
    if (first->next && is_callers_fault(error)) {
        run_apart(lane, first);
        return;
    }
    ten_job **last = finish_batch(lane, first, error);
    note_state(lane, error);
    hand_over(lane->finished, first, last);
}

/* What has waited for so long is no longer waited for: when the store hangs, the queue would take a time-out for each.
 */
static void refuse_batch(ten_lane *lane, ten_job *first, int error, const char *message) {
    (void)ten_fail(&lane->store->error, error, "%s", message);
    ten_job **last = finish_batch(lane, first, error);
    hand_over(lane->finished, first, last);
}

static bool is_late(const ten_lane *lane, const ten_job *job) {
    return ten_now_ms() - job->put_ms > 2 * lane->timeout_ms;
}

/* A client that did not get an answer in time comes again on another connection. If the lane is behind, what it asked
 * for first would be read in vain, and delay all the others. A client that only ends its half of the connection is
 * served unless it has waited for long. */
static bool is_abandoned(const ten_job *job) {
    struct pollfd polled = {.fd = job->client_fd, .events = POLLRDHUP};
    return job->client_fd >= 0 && ten_now_ms() - job->put_ms > GONE_AFTER_MS && poll(&polled, 1, 0) == 1;
}

static void *run(void *arg) {
    ten_lane *lane = arg;
    for (;;) {
        pthread_mutex_lock(&lane->lock);
        while (is_empty(lane) && !lane->closing)
            pthread_cond_wait(&lane->arrived, &lane->lock);
        size_t count = 0;
        ten_job *first = take_batch(lane, &count);
        bool closing = lane->closing;
        pthread_mutex_unlock(&lane->lock);
        if (!first)
            return NULL;
        if (closing)
            refuse_batch(lane, first, TENURE_E_CANCELLED, "the server is stopping");
        else if (is_abandoned(first))
            refuse_batch(lane, first, TENURE_E_CANCELLED, "the client has hung up");
        else if (is_late(lane, first))
            refuse_batch(lane, first, TENURE_E_TIMEOUT, "the store did not answer in time");
        else
            run_batch(lane, first, count);
    }
}

/* ---- for the loop */

void ten_lane_put(ten_lane *lane, ten_job *job, enum ten_urgency urgency, ten_account *account, unsigned queue) {
    job->put_ms = ten_now_ms();
    pthread_mutex_lock(&lane->lock);
    struct queue *into = &lane->queues[urgency];
    job->account = account;
    job->queue = queue + (unsigned)urgency;
    if (job->work)
        ten_account_join(account, job->queue, into->now);
    else
        job->turn = ten_account_turn(account, job->queue, into->now, ten_job_weight(job));
    ten_job **at = &into->first;
    while (*at && (job->work || (*at)->turn <= job->turn))
        at = &(*at)->next;
    job->next = *at;
    *at = job;
    pthread_mutex_unlock(&lane->lock);
    lane->unsignalled++;
    if (lane->unsignalled >= UNSIGNALLED_MAX)
        ten_lane_tell(lane);
}

void ten_lane_tell(ten_lane *lane) {
    if (lane->unsignalled > 0)
        pthread_cond_signal(&lane->arrived);
    lane->unsignalled = 0;
}

bool ten_lane_is_up(ten_lane *lane) {
    TEN_LOCKED(&lane->lock);
    return !lane->down;
}

uint64_t ten_lane_errors(ten_lane *lane) {
    TEN_LOCKED(&lane->lock);
    return lane->errors;
}

const char *ten_lane_store_name(const ten_lane *lane) {
    return lane->store->ops->name;
}

const ten_capabilities *ten_lane_capabilities(const ten_lane *lane) {
    return &lane->store->capabilities;
}

static void free_lane(ten_lane *lane) {
    ten_store_close(lane->store);
    pthread_mutex_destroy(&lane->lock);
    pthread_cond_destroy(&lane->arrived);
    ten_free(lane->ops);
    ten_free(lane->results);
    ten_free(lane);
}

int ten_lane_open(const char *url, uint64_t timeout_ms, ten_finished *finished, ten_lane **ret_lane, ten_error *error) {
    ten_lane *lane = ten_calloc(1, sizeof *lane);
    if (!lane)
        return ten_fail_memory(error, "the server");
    lane->timeout_ms = timeout_ms;
    lane->finished = finished;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->arrived, NULL);
    ten_store_config config = {.timeout_ms = timeout_ms};
    int r = ten_store_open(url, &config, &lane->store, error);
    if (r == TENURE_OK && ten_thread_start(&lane->thread, run, lane) != 0)
        r = ten_fail(error, TENURE_E_SYSTEM, "cannot start a thread of the server");
    if (r < 0) {
        free_lane(lane);
        return r;
    }
    *ret_lane = lane;
    return TENURE_OK;
}

void ten_lane_close(ten_lane *lane) {
    if (!lane)
        return;
    pthread_mutex_lock(&lane->lock);
    lane->closing = true;
    pthread_cond_signal(&lane->arrived);
    pthread_mutex_unlock(&lane->lock);
    pthread_join(lane->thread, NULL);
    free_lane(lane);
}
