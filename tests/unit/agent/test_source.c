/*
 * What the target sources share: a thread that makes one pass after the other and leaves what they show for the agent. The
 * kind is one of the test's own; the agent only notes what it is given.
 */
#include "unit/unit.h"

#include <semaphore.h>

#include "agent/runner/agent_state.h"
#include "agent/sources/source.h"
#include "base/alloc.h"
#include "base/io.h"

/* ---- the agent */

static struct {
    atomic_uint put;
    atomic_uint gone;
    atomic_uint all_read;
    int fd; /* something was left */
} left;

bool ten_agent_leave_target(struct ten_agent *agent, const tenure_target *target, bool removed) {
    (void)agent;
    atomic_fetch_add(!target ? &left.all_read : removed ? &left.gone : &left.put, 1);
    ten_eventfd_poke(left.fd);
    return true;
}

/* ---- a kind of source: passes that the test prepares */

enum pass { SHOWS, IS_EMPTY, FAILS, HANGS };

static struct {
    enum pass passes[8];
    atomic_uint count; /* passes that have begun */
    unsigned planned;  /* the last of them is repeated */
    bool watches;      /* it can be watched, as a file can */
    int release_fd;    /* a pass that hangs goes on */
    int begun_fd;      /* a pass has begun */
    sem_t freed;       /* the source is gone */
    atomic_uint cut;   /* how often its connection was ended */
} plan;

static int open_source(ten_source *source, const ten_agent_config *config, ten_error *error) {
    (void)config;
    (void)error;
    source->every_ms = 1;
    source->feed.list.whole = true;
    source->watch_fd = plan.watches ? ten_eventfd_open() : -1;
    return TENURE_OK;
}

static void free_source(ten_source *source) {
    (void)source;
    (void)sem_post(&plan.freed);
}

static int read_targets(ten_source *source, ten_error *error) {
    unsigned number = atomic_fetch_add(&plan.count, 1);
    enum pass pass = plan.passes[ten_min_u64(number, plan.planned - 1)];
    ten_eventfd_poke(plan.begun_fd);
    if (pass == HANGS)
        (void)ten_wait_readable(plan.release_fd, -1, UINT64_MAX);
    if (pass == FAILS)
        return ten_fail(error, TENURE_E_UNREACHABLE, "no server");
    ten_source_feed_begin(&source->feed);
    int r = pass == IS_EMPTY ? TENURE_OK : ten_source_feed_line(&source->feed, "a", 1, error);
    ten_source_feed_end(&source->feed, r == TENURE_OK, ten_now_ms());
    return r;
}

static void disconnect(ten_source *source) {
    (void)source;
    atomic_fetch_add(&plan.cut, 1);
}

const ten_source_ops ten_target_path_ops = {.size = sizeof(ten_source),
                                            .open = open_source,
                                            .free = free_source,
                                            .read = read_targets,
                                            .disconnect = disconnect};
const ten_source_ops ten_target_redis_ops;
const ten_source_ops ten_target_http_ops;

/* ---- the tests' steps */

static ten_agent_config config = {.targets = "file:test", .runner.context.ttl_ms = 1000};
static struct ten_agent *const agent = (struct ten_agent *)&left; /* nothing looks into it */

#define PLAN(...)                                                                                                      \
    plan_passes((const enum pass[]){__VA_ARGS__}, sizeof((const enum pass[]){__VA_ARGS__}) / sizeof(enum pass))

static void plan_passes(const enum pass *passes, size_t count) {
    memset(&left, 0, sizeof left);
    memset(&plan, 0, sizeof plan);
    memcpy(plan.passes, passes, count * sizeof *passes);
    plan.planned = (unsigned)count;
    left.fd = ten_eventfd_open();
    plan.release_fd = ten_eventfd_open();
    plan.begun_fd = ten_eventfd_open();
    assert_int_equal(sem_init(&plan.freed, 0, 0), 0);
}

static ten_source *open_planned(void) {
    ten_source *source = NULL;
    ten_error error;
    assert_int_equal(ten_source_open(&config, NULL, agent, &source, &error), TENURE_OK);
    assert_non_null(source);
    return source;
}

static void wait_until(atomic_uint *counter, unsigned wanted, int fd) {
    while (atomic_load(counter) < wanted) {
        assert_int_equal(ten_wait_readable(fd, -1, 10000), 1);
        ten_eventfd_clear(fd);
    }
}

static void close_planned(ten_source *source) {
    ten_source_close(source);
    (void)sem_wait(&plan.freed);
    ten_close_fd(&left.fd);
    ten_close_fd(&plan.release_fd);
    ten_close_fd(&plan.begun_fd);
}

/* ---- */

TEST(what_passes_show_is_left_for_the_agent_as_differences) {
    PLAN(SHOWS, SHOWS, IS_EMPTY);
    ten_source *source = open_planned();
    wait_until(&left.gone, 1, left.fd);
    wait_until(&plan.count, 4, plan.begun_fd);
    assert_int_equal(atomic_load(&left.put), 1);
    assert_int_equal(atomic_load(&left.gone), 1);
    assert_int_equal(atomic_load(&left.all_read), 1);
    close_planned(source);
}

TEST(a_pass_that_failed_cuts_the_connection_and_is_made_again) {
    PLAN(FAILS, SHOWS);
    ten_source *source = open_planned();
    wait_until(&left.all_read, 1, left.fd);
    assert_int_equal(atomic_load(&plan.cut), 1);
    assert_int_equal(atomic_load(&left.put), 1);
    close_planned(source);
}

TEST(a_first_pass_that_fails_is_the_error_of_a_source_that_can_be_watched) {
    PLAN(FAILS);
    plan.watches = true;
    ten_source *source = NULL;
    ten_error error;
    assert_int_equal(ten_source_open(&config, NULL, agent, &source, &error), TENURE_E_UNREACHABLE);
    assert_string_equal(error.message, "no server");
    assert_null(source);
    close_planned(NULL);
}

TEST(a_source_that_can_be_watched_is_read_when_it_is_asked_to) {
    PLAN(SHOWS, IS_EMPTY);
    plan.watches = true;
    ten_source *source = open_planned();
    assert_int_equal(atomic_load(&plan.count), 1);
    ten_source_reread(source);
    wait_until(&left.gone, 1, left.fd);
    close_planned(source);
}

TEST(a_source_that_was_closed_while_it_hung_reports_nothing_and_goes_when_it_can) {
    PLAN(HANGS);
    ten_source *source = open_planned();
    wait_until(&plan.count, 1, plan.begun_fd);
    ten_source_close(source);
    assert_int_equal(sem_trywait(&plan.freed), -1);
    ten_eventfd_poke(plan.release_fd);
    (void)sem_wait(&plan.freed);
    assert_int_equal(atomic_load(&left.put) + atomic_load(&left.all_read), 0);
}

TEST(targets_of_the_store_have_no_source_and_functions_of_none_do_nothing) {
    ten_agent_config of_store = {.targets = "store"};
    ten_source *source = NULL;
    ten_error error;
    assert_int_equal(ten_source_check(&of_store, &error), TENURE_OK);
    assert_int_equal(ten_source_open(&of_store, NULL, agent, &source, &error), TENURE_OK);
    assert_null(source);
    ten_source_reread(source);
    assert_false(ten_source_hangs(source));
    ten_source_close(source);
}

TEST(a_source_of_an_unknown_kind_is_refused_before_anything_starts) {
    ten_agent_config unknown = {.targets = "ftp://host/list"};
    ten_error error;
    assert_int_equal(ten_source_check(&unknown, &error), TENURE_E_INVALID);
    assert_contains(error.message, "there is no target source 'ftp:");
}
