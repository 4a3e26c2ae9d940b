/*
 * The log: the same keys in both formats, one line an event whatever the text was, and a reader that is slow, stuck or
 * gone never stops whoever logs. Real time and a real pipe, because they are the subject.
 */
#include "unit/unit.h"

#include <sys/ioctl.h>

#include <jansson.h>
#include <pthread.h>

#include "base/io.h"
#include "base/log.h"

struct fixture {
    struct fake_clock fake;
    ten_clock clock;
    int ends[2];
    ten_log *log;
};

static void fixture_open(struct fixture *fixture, enum ten_log_format format, size_t ring_size) {
    ten_error error = {0};
    fixture->clock = fake_clock_make(&fixture->fake);
    assert_int_equal(pipe2(fixture->ends, O_CLOEXEC), 0);
    ten_log_config config = {.fd = fixture->ends[1],
                             .format = format,
                             .level = TEN_LOG_INFO,
                             .clock = &fixture->clock,
                             .instance = "node-1-2-3",
                             .namespace_name = "poll",
                             .ring_size = ring_size};
    assert_int_equal(ten_log_open(&config, &fixture->log, &error), TENURE_OK);
}

/* All that comes until the end, in memory that the caller frees. */
static char *read_to_end(int fd) {
    size_t room = 1 << 16;
    size_t size = 0;
    char *text = malloc(room);
    for (;;) {
        assert_non_null(text);
        ssize_t count = ten_read_some(fd, text + size, room - size - 1);
        assert_true(count >= 0);
        if (count == 0)
            break;
        size += (size_t)count;
        if (room - size < 4096)
            text = realloc(text, room *= 2);
    }
    text[size] = '\0';
    return text;
}

static char *fixture_close(struct fixture *fixture) {
    ten_log_close(fixture->log, 5000);
    close(fixture->ends[1]);
    char *text = read_to_end(fixture->ends[0]);
    close(fixture->ends[0]);
    return text;
}

static size_t count_lines(const char *text) {
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* ---- lines */

TEST(a_line_for_people_has_words_and_short_ids) {
    struct fixture fixture;
    setenv("TZ", "UTC-1", 1);
    tzset();
    fixture_open(&fixture, TEN_LOG_HUMAN, 0);
    TEN_LOG(fixture.log, TEN_LOG_INFO, "lease_acquired", TEN_TEXT("target", "a/b"), TEN_NUMBER("token", 7));
    TEN_LOG(fixture.log, TEN_LOG_INFO, "lease_acquire_failed", TEN_TEXT("target", "web"),
            TEN_TEXT("holder", "host-b-1794800866584062094-8758ba42"), TEN_NUMBER("remaining_ms", 12000));
    TEN_LOG(fixture.log, TEN_LOG_WARN, "store_down", TEN_TEXT("error", "cannot reach redis://db:6379"));
    TEN_LOG(fixture.log, TEN_LOG_ERROR, "some_thing", TEN_TEXT("why", "a\033[2J"), TEN_TEXT("reason", "done"));
    char *text = fixture_close(&fixture);
    assert_string_equal(text, "23:13:20 node-1-2-3 a/b: acquired (token 7)\n"
                              "23:13:20 node-1-2-3 web: waiting: held by host-b 8758 for another 12.0s\n"
                              "23:13:20 node-1-2-3 warning: the store is out of reach: cannot reach redis://db:6379\n"
                              "23:13:20 node-1-2-3 error: some thing (why \"a\\u001b[2J\", done)\n");
    free(text);
}

TEST(a_text_line_is_logfmt) {
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_TEXT, 0);
    TEN_LOG(fixture.log, TEN_LOG_INFO, "lease_acquired", TEN_TEXT("target", "a/b"), TEN_NUMBER("token", 7),
            TEN_TEXT("why", "two words"), TEN_TEXT("empty", ""));
    char *text = fixture_close(&fixture);
    assert_string_equal(text, "ts=2023-11-14T22:13:20.000Z level=info event=lease_acquired instance=node-1-2-3 "
                              "namespace=poll target=a/b token=7 why=\"two words\" empty=\"\"\n");
    free(text);
}

TEST(a_json_line_is_an_object) {
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_JSON, 0);
    TEN_LOG(fixture.log, TEN_LOG_WARN, "lease_lost", TEN_TEXT("target", "a/b"), TEN_NUMBER("token", 7));
    char *text = fixture_close(&fixture);
    assert_string_equal(text, "{\"ts\":\"2023-11-14T22:13:20.000Z\",\"level\":\"warn\",\"event\":\"lease_lost\","
                              "\"instance\":\"node-1-2-3\",\"namespace\":\"poll\",\"target\":\"a/b\",\"token\":7}\n");
    free(text);
}

static void log_a_sample(enum ten_log_format format, char **ret_text) {
    struct fixture fixture;
    fixture_open(&fixture, format, 0);
    TEN_LOG(fixture.log, TEN_LOG_ERROR, "lease_released", TEN_TEXT("target", "x"), TEN_NUMBER("token", 1),
            TEN_TEXT("reason", "done"), TEN_NUMBER("count", 0));
    *ret_text = fixture_close(&fixture);
}

TEST(both_formats_have_the_same_keys_in_the_same_order) {
    char *text;
    char *json;
    log_a_sample(TEN_LOG_TEXT, &text);
    log_a_sample(TEN_LOG_JSON, &json);
    json_t *object = json_loads(json, 0, NULL);
    assert_non_null(object);
    const char *key;
    json_t *value;
    char *at = text;
    json_object_foreach(object, key, value) {
        size_t size = strcspn(at, "=");
        assert_int_equal(size, strlen(key));
        assert_memory_equal(at, key, size);
        at += strcspn(at, " \n") + 1;
    }
    assert_string_equal(at, "");
    json_decref(object);
    free(text);
    free(json);
}

/* A hostile id, should one come past the doors, or a server's message. */
static const char *const hostile = "x\nts=1 event=forged \"quoted\" \\ \t\x1b[2J\x7f\xff\xc2\x9b"
                                   "2J=y";

TEST(a_hostile_text_is_one_line_of_logfmt) {
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_TEXT, 0);
    TEN_LOG(fixture.log, TEN_LOG_INFO, "e", TEN_TEXT("target", hostile));
    char *text = fixture_close(&fixture);
    assert_int_equal(count_lines(text), 1);
    text[strlen(text) - 1] = '\0';
    for (const char *at = text; *at; at++)
        assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
    assert_contains(text,
                    "target=\"x\\nts=1 event=forged \\\"quoted\\\" \\\\ \\t\\u001b[2J\\u007f\xef\xbf\xbd\\u009b2J=y\"");
    free(text);
}

TEST(a_hostile_text_is_one_json_object) {
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_JSON, 0);
    TEN_LOG(fixture.log, TEN_LOG_INFO, "e", TEN_TEXT("target", hostile));
    char *text = fixture_close(&fixture);
    assert_int_equal(count_lines(text), 1);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    assert_int_equal(json_object_size(object), 6);
    assert_string_equal(json_string_value(json_object_get(object, "target")),
                        "x\nts=1 event=forged \"quoted\" \\ \t\x1b[2J\x7f\xef\xbf\xbd\xc2\x9b"
                        "2J=y");
    json_decref(object);
    free(text);
}

TEST(what_is_less_important_than_the_level_is_left_out) {
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_TEXT, 0);
    ten_log_event(fixture.log, TEN_LOG_ERROR, "one", NULL, 0);
    ten_log_event(fixture.log, TEN_LOG_WARN, "two", NULL, 0);
    ten_log_event(fixture.log, TEN_LOG_INFO, "three", NULL, 0);
    ten_log_event(fixture.log, TEN_LOG_DEBUG, "four", NULL, 0);
    char *text = fixture_close(&fixture);
    assert_int_equal(count_lines(text), 3);
    assert_contains(text, "level=error event=one ");
    assert_contains(text, "level=warn event=two ");
    assert_contains(text, "level=info event=three ");
    free(text);
}

TEST(no_log_is_a_log_that_says_nothing) {
    ten_log_event(NULL, TEN_LOG_ERROR, "e", NULL, 0);
    ten_log_close(NULL, 0);
}

/* ---- readers */

TEST(closing_writes_what_is_still_in_the_ring) {
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_TEXT, 0);
    for (uint64_t i = 0; i < 300; i++) /* less than a pipe holds */
        TEN_LOG(fixture.log, TEN_LOG_INFO, "e", TEN_NUMBER("i", i));
    char *text = fixture_close(&fixture);
    assert_int_equal(count_lines(text), 300);
    assert_contains(text, "i=299\n");
    free(text);
}

struct drain {
    int fd;
    char *text;
};

static void *drain(void *arg) {
    struct drain *job = arg;
    job->text = read_to_end(job->fd);
    return NULL;
}

/* Lines that came plus lines that are said to be missing. */
static uint64_t account_for(char *text, uint64_t *ret_dropped) {
    uint64_t lines = 0;
    *ret_dropped = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        assert_int_equal(strncmp(line, "ts=", 3), 0);
        const char *dropped = strstr(line, "event=log_dropped");
        if (dropped)
            *ret_dropped += strtoull(strstr(dropped, "count=") + 6, NULL, 10);
        else
            lines++;
    }
    return lines + *ret_dropped;
}

enum { FLOOD = 20000 }; /* events: more than a pipe and a ring of 8 KiB have room for */

static void flood(struct fixture *fixture) {
    fixture_open(fixture, TEN_LOG_TEXT, 8192);
    for (uint64_t i = 0; i < FLOOD; i++)
        TEN_LOG(fixture->log, TEN_LOG_INFO, "lease_renewed", TEN_NUMBER("i", i));
}

/* The log is closed while a reader takes everything: each of the `events` came, or was reported as dropped. */
static void close_and_account(struct fixture *fixture, uint64_t events, struct drain *job, pthread_t thread) {
    ten_log_close(fixture->log, HANG_MS);
    close(fixture->ends[1]);
    pthread_join(thread, NULL);
    uint64_t dropped;
    assert_int_equal(account_for(job->text, &dropped), events);
    assert_true(dropped > 0);
    close(fixture->ends[0]);
    free(job->text);
}

TEST(a_pipe_that_nobody_reads_never_blocks_and_what_is_dropped_is_counted) {
    struct fixture fixture;
    uint64_t start_us = ten_boot_us();
    flood(&fixture);
    assert_took(start_us, 0, HANG_MS);
    struct drain job = {.fd = fixture.ends[0]};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drain, &job), 0);
    /* The reader is back: the next event says what is missing, if the ring has room again; else closing does. */
    for (int left = 1; left > 0;) {
        ten_sleep_us(20000);
        assert_int_equal(ioctl(fixture.ends[0], FIONREAD, &left), 0);
    }
    TEN_LOG(fixture.log, TEN_LOG_INFO, "after");
    close_and_account(&fixture, FLOOD + 1, &job, thread);
}

TEST(closing_with_a_full_ring_reports_what_was_dropped) {
    struct fixture fixture;
    flood(&fixture);
    struct drain job = {.fd = fixture.ends[0]};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drain, &job), 0);
    close_and_account(&fixture, FLOOD, &job, thread);
}

TEST(a_line_larger_than_the_ring_is_dropped_and_counted) {
    char large[2000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_TEXT, 1024);
    TEN_LOG(fixture.log, TEN_LOG_INFO, "e", TEN_TEXT("target", large));
    char *text = fixture_close(&fixture);
    assert_contains(text, "event=log_dropped");
    assert_contains(text, "count=1\n");
    free(text);
}

TEST(a_reader_that_is_gone_neither_kills_nor_blocks) {
    struct fixture fixture;
    signal(SIGPIPE, SIG_DFL);
    fixture_open(&fixture, TEN_LOG_TEXT, 0);
    close(fixture.ends[0]);
    uint64_t start_us = ten_boot_us();
    for (uint64_t i = 0; i < 2000; i++)
        TEN_LOG(fixture.log, TEN_LOG_INFO, "e", TEN_NUMBER("i", i));
    ten_log_close(fixture.log, 3 * HANG_MS);
    assert_took(start_us, 0, HANG_MS); /* it does not wait for its own time to pass */
    close(fixture.ends[1]);
}

TEST(closing_with_a_stuck_reader_ends_in_time) {
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_TEXT, 0);
    for (uint64_t i = 0; i < 3000; i++) /* more than a pipe holds */
        TEN_LOG(fixture.log, TEN_LOG_INFO, "e", TEN_NUMBER("i", i));
    uint64_t start_us = ten_boot_us();
    ten_log_close(fixture.log, 100);
    assert_took(start_us, 100, HANG_MS);
    /* The descriptor is the caller's again: should the stuck write ever return, nothing follows it. */
    char piece[4096];
    size_t size = 0;
    while (ten_wait_readable(fixture.ends[0], -1, 100) == 1)
        size += (size_t)ten_read_some(fixture.ends[0], piece, sizeof piece);
    assert_in_range(size, 1, 65536 + 4096);
    close(fixture.ends[0]);
    close(fixture.ends[1]);
}

TEST(a_descriptor_that_does_not_block_gets_every_line) {
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_TEXT, 0);
    assert_int_equal(fcntl(fixture.ends[1], F_SETFL, O_NONBLOCK), 0);
    for (uint64_t i = 0; i < 1500; i++) /* more than a pipe holds, less than the ring */
        TEN_LOG(fixture.log, TEN_LOG_INFO, "e", TEN_NUMBER("i", i));
    struct drain job = {.fd = fixture.ends[0]};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drain, &job), 0);
    ten_log_close(fixture.log, 10000);
    close(fixture.ends[1]);
    pthread_join(thread, NULL);
    assert_int_equal(count_lines(job.text), 1500);
    free(job.text);
    close(fixture.ends[0]);
}

/* ---- threads */

static void *log_many(void *arg) {
    for (uint64_t i = 0; i < 200; i++)
        TEN_LOG(arg, TEN_LOG_INFO, "from_a_thread", TEN_TEXT("target", "some/target"), TEN_NUMBER("i", i));
    return NULL;
}

TEST(lines_of_many_threads_do_not_mix) {
    struct fixture fixture;
    fixture_open(&fixture, TEN_LOG_JSON, 0);
    pthread_t threads[4];
    struct drain job = {.fd = fixture.ends[0]};
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, drain, &job), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, fixture.log), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ten_log_close(fixture.log, 10000);
    close(fixture.ends[1]);
    pthread_join(reader, NULL);
    size_t count = 0;
    for (char *line = strtok(job.text, "\n"); line; line = strtok(NULL, "\n"), count++) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        json_decref(object);
    }
    assert_int_equal(count, 800);
    free(job.text);
    close(fixture.ends[0]);
}
