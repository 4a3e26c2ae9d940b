/*
 * What the sinks share: a thread that takes one step after the other until its queue is empty. The kind is one of the
 * test's own, which notes what it is given.
 */
#include "unit/unit.h"

#include <semaphore.h>

#include "agent/sinks/sink.h"
#include "base/io.h"

#define NEVER UINT64_MAX

static struct {
    char sent[64];       /* what has left, one after the other */
    atomic_uint failing; /* steps that fail, from now on */
    atomic_uint cut;     /* how often the connection was ended */
    atomic_bool hangs;   /* a step waits for release_fd */
    int release_fd;
    int sent_fd; /* something has left */
    sem_t freed; /* the sink is gone */
} server;

static int open_sink(ten_sink *sink, const char *text, const ten_agent_config *config, ten_error *error) {
    (void)sink;
    (void)config;
    return strcmp(text, "file:bad") == 0 ? ten_fail(error, TENURE_E_INVALID, "bad") : TENURE_OK;
}

static void free_sink(ten_sink *sink) {
    (void)sink;
    (void)sem_post(&server.freed);
}

static void name(const ten_sink *sink, const ten_message *message, ten_buf *to) {
    (void)sink;
    ten_buf_text(to, message->target);
}

static int step(ten_sink *sink, ten_error *error) {
    if (!ten_outbox_has_waiting(&sink->outbox)) {
        ten_side_thread_wait(&sink->thread, UINT64_MAX);
        return TENURE_OK;
    }
    if (atomic_load(&server.hangs))
        (void)ten_wait_readable(server.release_fd, -1, UINT64_MAX);
    ten_outgoing *outgoing = ten_outbox_send_next(&sink->outbox);
    if (!outgoing)
        return TENURE_OK;
    if (atomic_load(&server.failing) > 0) {
        atomic_fetch_sub(&server.failing, 1);
        return ten_fail(error, TENURE_E_UNREACHABLE, "no server");
    }
    size_t used = strlen(server.sent);
    snprintf(server.sent + used, sizeof server.sent - used, "%s=%s ", outgoing->name, outgoing->json);
    ten_outbox_finish(&sink->outbox, outgoing, false);
    ten_eventfd_poke(server.sent_fd);
    return TENURE_OK;
}

static void cut(ten_sink *sink, int error) {
    (void)sink;
    assert_int_equal(error, TENURE_E_UNREACHABLE);
    atomic_fetch_add(&server.cut, 1);
}

const ten_sink_ops ten_sink_lines_ops = {
    .size = sizeof(ten_sink), .open = open_sink, .free = free_sink, .name = name, .step = step, .cut = cut};
const ten_sink_ops ten_sink_redis_ops;
const ten_sink_ops ten_sink_mqtt_ops;

/* ---- the tests' steps */

static const ten_agent_config config;

static ten_sink *open_to_server(void) {
    ten_sink *sink = NULL;
    ten_error error;
    memset(&server, 0, sizeof server);
    server.release_fd = ten_eventfd_open();
    server.sent_fd = ten_eventfd_open();
    assert_int_equal(sem_init(&server.freed, 0, 0), 0);
    assert_int_equal(ten_sink_open("-", &config, &sink, &error), TENURE_OK);
    return sink;
}

static bool put(ten_sink *sink, const char *target, const char *line, uint64_t ends_ms) {
    const ten_message message = {.namespace_name = "poll", .target = target, .instance = "i", .token = 7};
    return ten_sink_put(sink, &message, NULL, ends_ms, line, strlen(line));
}

static uint64_t close_server(ten_sink *sink, uint64_t flush_ms) {
    ten_sink_event event;
    ten_sink_close(sink, flush_ms, &event);
    ten_eventfd_poke(server.release_fd);
    (void)sem_wait(&server.freed);
    ten_close_fd(&server.release_fd);
    ten_close_fd(&server.sent_fd);
    return event.dropped;
}

/* ---- */

TEST(a_message_leaves_under_the_name_of_its_place_and_without_the_newline) {
    ten_sink *sink = open_to_server();
    assert_true(put(sink, "a", "{}\n", NEVER));
    assert_int_equal(ten_wait_readable(server.sent_fd, -1, 10000), 1);
    assert_int_equal(close_server(sink, 0), 0);
    assert_string_equal(server.sent, "a={} ");
}

TEST(what_was_not_confirmed_when_a_step_failed_is_sent_again_in_order) {
    ten_sink *sink = open_to_server();
    ten_sink_event event;
    atomic_store(&server.failing, 2);
    assert_true(put(sink, "a", "1\n", NEVER));
    assert_true(put(sink, "b", "2\n", NEVER));
    while (ten_outbox_count(&sink->outbox) > 0)
        assert_int_equal(ten_wait_readable(server.sent_fd, -1, 10000), 1);
    ten_outbox_take_event(&sink->outbox, &event);
    assert_string_equal(event.problem.message, "no server");
    assert_true(event.works_again);
    assert_int_equal(close_server(sink, 0), 0);
    assert_string_equal(server.sent, "a=1 b=2 ");
    assert_int_equal(atomic_load(&server.cut), 2);
}

TEST(a_sink_that_is_closed_has_a_moment_to_send_what_waits) {
    ten_sink *sink = open_to_server();
    atomic_store(&server.hangs, true);
    assert_true(put(sink, "a", "1\n", NEVER));
    atomic_store(&server.hangs, false);
    ten_eventfd_poke(server.release_fd);
    assert_int_equal(close_server(sink, 10000), 0);
    assert_string_equal(server.sent, "a=1 ");
}

TEST(what_a_sink_that_hangs_could_not_send_is_counted_as_dropped) {
    ten_sink *sink = open_to_server();
    atomic_store(&server.hangs, true);
    assert_true(put(sink, "a", "1\n", NEVER));
    assert_true(put(sink, "b", "2\n", NEVER));
    assert_int_equal(close_server(sink, 0), 2);
}

TEST(a_sink_that_cannot_be_opened_or_is_unknown_is_refused) {
    ten_sink *sink = NULL;
    ten_error error;
    assert_int_equal(sem_init(&server.freed, 0, 0), 0);
    assert_int_equal(ten_sink_open("file:bad", &config, &sink, &error), TENURE_E_INVALID);
    assert_int_equal(sem_trywait(&server.freed), 0);
    assert_int_equal(ten_sink_open("file:", &config, &sink, &error), TENURE_E_INVALID);
    assert_contains(error.message, "there is no sink 'file:'");
    assert_null(sink);
}
