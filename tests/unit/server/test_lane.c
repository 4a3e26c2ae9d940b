/*
 * Lanes: which jobs go to the store together, in which order, and what becomes of those that cannot be carried out. The
 * store is the memory store, behind a door (--wrap) that the test holds shut while it puts jobs into the lane, and that
 * writes down each call. The lane's clock is moved by the test.
 */
#include "unit/unit.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/io.h"
#include "server/lane.h"

enum { TIMEOUT = 1000, OPS_MAX = 4096, CALLS_MAX = 16, TTL = 30000 };

/* ---- the door to the store */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool shut;
static bool waiting; /* the lane is at the door */
static int failure;  /* what the next call returns instead */
static size_t call_count;
static struct call {
    size_t count;
    char first[16];
    char last[16];
    uint32_t groups[4];
} calls[CALLS_MAX];
static _Atomic(uint64_t) later_ms;

int __real_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    int r = __real_clock_gettime(clock, now);
    now->tv_sec += clock == CLOCK_BOOTTIME ? (time_t)(later_ms / 1000) : 0;
    return r;
}

static void write_down(const ten_op *ops, size_t count) {
    struct call *call = &calls[call_count++ % CALLS_MAX];
    *call = (struct call){.count = count};
    snprintf(call->first, sizeof call->first, "%s", ops[0].target);
    snprintf(call->last, sizeof call->last, "%s", ops[count - 1].target);
    for (size_t i = 0; i < count && i < TEN_COUNT(call->groups); i++)
        call->groups[i] = ops[i].group;
}

static void pass_door(void) {
    waiting = true;
    pthread_cond_broadcast(&moved);
    while (shut)
        pthread_cond_wait(&moved, &lock);
    waiting = false;
}

int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count,
                           uint64_t timeout_ms) {
    pthread_mutex_lock(&lock);
    write_down(ops, count);
    pass_door();
    int failed = failure;
    failure = TENURE_OK;
    pthread_mutex_unlock(&lock);
    return failed < 0 ? ten_fail(&store->error, failed, "the store is away")
                      : __real_ten_store_apply(store, ops, results, count, timeout_ms);
}

static void open_door(void) {
    pthread_mutex_lock(&lock);
    shut = false;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}

/* Whoever ends the lane waits for its thread: the end was asked for by then. */
int __real_pthread_join(pthread_t thread, void **ret_value);
int __wrap_pthread_join(pthread_t thread, void **ret_value);

int __wrap_pthread_join(pthread_t thread, void **ret_value) {
    open_door();
    return __real_pthread_join(thread, ret_value);
}

/* ---- jobs */

struct test_job {
    ten_job job; /* first */
    ten_op *ops;
    int error;
    enum ten_outcome outcome; /* of its last operation */
    unsigned done;            /* its place among those that are finished; 0: it is not */
};

struct fixture {
    ten_finished finished;
    ten_lane *lane;
    ten_account greedy, modest;
    unsigned done; /* by the lane's thread */
};

static struct fixture *own;

static void finish(ten_job *job, int error, const char *message, const ten_result *results) {
    struct test_job *mine = (struct test_job *)job;
    (void)message;
    mine->error = error;
    if (error == TENURE_OK && results && job->op_count)
        mine->outcome = results[job->op_count - 1].outcome;
    mine->done = ++own->done;
}

static void make(struct test_job *job, const char *target, size_t count) {
    *job = (struct test_job){.job = {.finish = finish, .op_count = count, .client_fd = -1}};
    job->ops = calloc(count, sizeof *job->ops);
    for (size_t i = 0; i < count; i++)
        job->ops[i] =
            (ten_op){.kind = TEN_OP_ACQUIRE, .namespace_name = "unit", .target = target, .holder = "me", .ttl_ms = TTL};
    job->job.ops = job->ops;
}

static void put(struct fixture *fixture, struct test_job *job, enum ten_urgency urgency, ten_account *account) {
    ten_lane_put(fixture->lane, &job->job, urgency, account, 0);
    ten_lane_tell(fixture->lane);
}

static void hold_door(void) {
    pthread_mutex_lock(&lock);
    shut = true;
    call_count = 0;
    pthread_mutex_unlock(&lock);
}

static void wait_at_door(void) {
    pthread_mutex_lock(&lock);
    while (!waiting)
        pthread_cond_wait(&moved, &lock);
    pthread_mutex_unlock(&lock);
}

/* The lane is busy with this job, so that what is put next is there together. */
static void occupy(struct fixture *fixture, struct test_job *job) {
    hold_door();
    make(job, "busy", 1);
    put(fixture, job, TEN_USUAL, &fixture->modest);
    wait_at_door();
}

static void wait_for(struct fixture *fixture, size_t count) {
    while (count > 0) {
        struct pollfd polled = {.fd = fixture->finished.fd, .events = POLLIN};
        assert_int_equal(poll(&polled, 1, (int)HANG_MS), 1);
        for (ten_job *job = ten_finished_take(&fixture->finished); job && count > 0; job = job->next)
            count--;
    }
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    ten_error error;
    later_ms = 0;
    failure = TENURE_OK;
    shut = false;
    own = fixture;
    assert_int_equal(ten_finished_open(&fixture->finished, &error), TENURE_OK);
    assert_int_equal(ten_lane_open("memory:unit-lane", TIMEOUT, &fixture->finished, &fixture->lane, &error), TENURE_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    ten_lane_close(fixture->lane);
    ten_finished_close(&fixture->finished);
    free(fixture);
    return 0;
}

#define LANE(name) TEST_WITH(name, set_up, tear_down)

/* ---- together, and in which order */

LANE(jobs_that_come_while_the_store_works_go_there_as_one_call) {
    struct fixture *fixture = *state;
    struct test_job busy, jobs[3];
    occupy(fixture, &busy);
    for (size_t i = 0; i < TEN_COUNT(jobs); i++) {
        make(&jobs[i], (const char *[]){"a", "b", "c"}[i], 2);
        put(fixture, &jobs[i], TEN_USUAL, &fixture->modest);
    }
    open_door();
    wait_for(fixture, 4);
    assert_int_equal(call_count, 2);
    assert_int_equal(calls[1].count, 6);
    assert_string_equal(calls[1].first, "a");
    assert_string_equal(calls[1].last, "c");
    for (size_t i = 0; i < TEN_COUNT(jobs); i++) {
        assert_int_equal(jobs[i].error, TENURE_OK);
        assert_int_equal(jobs[i].outcome, TEN_OK);
        free(jobs[i].ops);
    }
    free(busy.ops);
}

LANE(urgent_jobs_go_before_those_that_came_earlier) {
    struct fixture *fixture = *state;
    struct test_job busy, usual, urgent;
    occupy(fixture, &busy);
    make(&usual, "usual", 1);
    make(&urgent, "urgent", 1);
    put(fixture, &usual, TEN_USUAL, &fixture->modest);
    put(fixture, &urgent, TEN_URGENT, &fixture->modest);
    open_door();
    wait_for(fixture, 3);
    assert_string_equal(calls[1].first, "urgent");
    assert_string_equal(calls[1].last, "usual");
    assert_true(urgent.done < usual.done);
    free(busy.ops);
    free(usual.ops);
    free(urgent.ops);
}

LANE(a_greedy_account_does_not_keep_the_job_of_another_waiting) {
    struct fixture *fixture = *state;
    struct test_job busy, many[4], one;
    occupy(fixture, &busy);
    for (size_t i = 0; i < TEN_COUNT(many); i++) {
        make(&many[i], "many", 600);
        put(fixture, &many[i], TEN_USUAL, &fixture->greedy);
    }
    make(&one, "one", 1);
    put(fixture, &one, TEN_USUAL, &fixture->modest);
    open_door();
    wait_for(fixture, 6);
    /* A call has at most 1,000 usual operations, so the greedy account needs four. */
    assert_int_equal(call_count, 5);
    assert_true(one.done <= 3);
    for (size_t i = 0; i < TEN_COUNT(many); i++)
        free(many[i].ops);
    free(busy.ops);
    free(one.ops);
}

LANE(groups_of_two_jobs_stay_two_groups) {
    struct fixture *fixture = *state;
    struct test_job busy, one, other;
    occupy(fixture, &busy);
    make(&one, "g-1", 2);
    make(&other, "g-2", 2);
    one.ops[0].group = one.ops[1].group = other.ops[0].group = other.ops[1].group = 1;
    one.ops[1].target = "g-3";
    other.ops[1].target = "g-4";
    put(fixture, &one, TEN_USUAL, &fixture->modest);
    put(fixture, &other, TEN_USUAL, &fixture->modest);
    open_door();
    wait_for(fixture, 3);
    assert_int_equal(calls[1].count, 4);
    assert_int_equal(calls[1].groups[0], calls[1].groups[1]);
    assert_int_equal(calls[1].groups[2], calls[1].groups[3]);
    assert_int_not_equal(calls[1].groups[0], calls[1].groups[2]);
    free(busy.ops);
    free(one.ops);
    free(other.ops);
}

static int count_work(ten_job *job, ten_store *store) {
    (void)job;
    (void)store;
    return TENURE_OK;
}

LANE(work_on_the_store_alone_is_done_for_the_account_that_has_had_least) {
    struct fixture *fixture = *state;
    struct test_job busy, first, second, modest;
    occupy(fixture, &busy);
    struct test_job *const jobs[] = {&first, &second, &modest};
    for (size_t i = 0; i < TEN_COUNT(jobs); i++) {
        make(jobs[i], "", 0);
        jobs[i]->job.work = count_work;
        jobs[i]->job.ops = NULL;
    }
    ten_account_charge(&fixture->greedy, TEN_USUAL, 1000000);
    put(fixture, &first, TEN_USUAL, &fixture->greedy);
    put(fixture, &second, TEN_USUAL, &fixture->greedy);
    put(fixture, &modest, TEN_USUAL, &fixture->modest);
    open_door();
    wait_for(fixture, 4);
    assert_true(modest.done < first.done);
    assert_true(first.done < second.done);
    free(busy.ops);
    for (size_t i = 0; i < TEN_COUNT(jobs); i++)
        free(jobs[i]->ops);
}

/* ---- what cannot be carried out */

LANE(a_job_that_the_store_refuses_harms_no_other) {
    struct fixture *fixture = *state;
    struct test_job busy, good, wrong, better;
    occupy(fixture, &busy);
    make(&good, "good", 1);
    make(&wrong, "wrong", 1);
    make(&better, "better", 1);
    wrong.ops[0].ttl_ms = TENURE_TTL_MAX_MS + 1;
    put(fixture, &good, TEN_USUAL, &fixture->modest);
    put(fixture, &wrong, TEN_USUAL, &fixture->modest);
    put(fixture, &better, TEN_USUAL, &fixture->modest);
    open_door();
    wait_for(fixture, 4);
    assert_true(wrong.error < 0);
    assert_int_equal(good.error, TENURE_OK);
    assert_int_equal(better.error, TENURE_OK);
    /* Those that fit went together again. */
    assert_int_equal(calls[call_count - 1].count, 2);
    free(busy.ops);
    free(good.ops);
    free(wrong.ops);
    free(better.ops);
}

LANE(a_store_that_is_away_is_told_apart_from_one_that_answers) {
    struct fixture *fixture = *state;
    struct test_job job;
    assert_true(ten_lane_is_up(fixture->lane));
    failure = TENURE_E_UNREACHABLE;
    make(&job, "away", 1);
    put(fixture, &job, TEN_USUAL, &fixture->modest);
    wait_for(fixture, 1);
    assert_int_equal(job.error, TENURE_E_UNREACHABLE);
    assert_false(ten_lane_is_up(fixture->lane));
    assert_int_equal(ten_lane_errors(fixture->lane), 1);
    put(fixture, &job, TEN_USUAL, &fixture->modest);
    wait_for(fixture, 1);
    assert_int_equal(job.error, TENURE_OK);
    assert_true(ten_lane_is_up(fixture->lane));
    assert_int_equal(ten_lane_errors(fixture->lane), 1);
    free(job.ops);
}

LANE(what_has_waited_for_two_time_outs_is_refused_without_a_call) {
    struct fixture *fixture = *state;
    struct test_job busy, late;
    occupy(fixture, &busy);
    make(&late, "late", 1);
    put(fixture, &late, TEN_URGENT, &fixture->modest);
    later_ms = 2 * TIMEOUT + 1000;
    open_door();
    wait_for(fixture, 2);
    assert_int_equal(busy.error, TENURE_OK);
    assert_int_equal(late.error, TENURE_E_TIMEOUT);
    assert_int_equal(call_count, 1);
    free(busy.ops);
    free(late.ops);
}

LANE(what_a_client_no_longer_waits_for_is_not_carried_out) {
    struct fixture *fixture = *state;
    struct test_job busy, listing;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    occupy(fixture, &busy);
    make(&listing, "", 0);
    listing.job.work = count_work;
    listing.job.ops = NULL;
    listing.job.client_fd = ends[0];
    put(fixture, &listing, TEN_USUAL, &fixture->modest);
    close(ends[1]);
    later_ms = TIMEOUT;
    open_door();
    wait_for(fixture, 2);
    assert_int_equal(listing.error, TENURE_E_CANCELLED);
    close(ends[0]);
    free(busy.ops);
    free(listing.ops);
}

LANE(jobs_that_wait_when_the_lane_ends_are_finished_with_an_error) {
    struct fixture *fixture = *state;
    struct test_job busy, waits;
    occupy(fixture, &busy);
    make(&waits, "waits", 1);
    put(fixture, &waits, TEN_USUAL, &fixture->modest);
    ten_lane_close(fixture->lane);
    fixture->lane = NULL;
    assert_int_equal(busy.error, TENURE_OK);
    assert_int_equal(waits.error, TENURE_E_CANCELLED);
    assert_int_equal(call_count, 1);
    free(busy.ops);
    free(waits.ops);
}
