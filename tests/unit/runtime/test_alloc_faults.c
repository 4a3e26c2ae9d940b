/*
 * Memory that runs out at every allocation in turn (fault 35): the Nth fails, then the N+1st, until a run is clean. No
 * crash, no leak (the sanitizer build looks), and no success that is none: what was hit says TENURE_E_NOMEM.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/url.h"

/* Does the work once and returns whether it came out whole. What it returns when an allocation failed is checked. */
typedef bool (*work_fn)(void *arg);

/* recovers: what the store was asked may be asked again later, so the work may come out whole after all. */
static void fail_each(work_fn work, void *arg, bool recovers) {
    long count = 0;
    for (;; count++) {
        assert_true(count < 2000);
        ten_alloc_fail_after(count);
        bool whole = work(arg);
        bool failed = ten_alloc_has_failed();
        ten_alloc_fail_after(-1);
        if (whole == failed && !(recovers && whole))
            fail_msg("allocation %ld %s, and the work came out %s", count, failed ? "failed" : "was never asked for",
                     whole ? "whole" : "broken");
        if (!failed)
            break;
    }
    assert_true(count > 0); /* else nothing was tested */
}

static void fail_each_in_turn(work_fn work, void *arg) {
    fail_each(work, arg, false);
}

/* An error must be this one; anything else is a lie about the reason. */
static bool whole_unless_out_of_memory(int r) {
    if (r < 0 && r != TENURE_E_NOMEM)
        fail_msg("error %s instead of TENURE_E_NOMEM", tenure_error_name(r));
    return r == TENURE_OK;
}

/* ---- base */

static bool use_buf(void *arg) {
    (void)arg;
    ten_buf buf = {0};
    for (int i = 0; i < 100; i++) {
        ten_buf_text(&buf, "some text");
        ten_buf_char(&buf, '-');
        ten_buf_format(&buf, "%d", i);
    }
    bool whole = !buf.failed;
    assert_true(!whole || buf.size == 1190);
    ten_buf_free(&buf);
    return whole;
}

static bool use_arena(void *arg) {
    (void)arg;
    ten_arena arena = {0};
    bool whole = true;
    const char *first = ten_arena_text(&arena, "first");
    for (int i = 0; i < 3000; i++)
        whole &= ten_arena_text(&arena, "a text of some length, as a holder's name may have") != NULL;
    assert_true(!first || strcmp(first, "first") == 0);
    whole &= first != NULL;
    ten_arena_free(&arena);
    return whole;
}

static bool use_map(void *arg) {
    (void)arg;
    ten_map map = {0};
    int value;
    size_t put = 0;
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "%d", i);
        bool done = ten_map_put(&map, key, &value);
        put += done;
        assert_int_equal(ten_map_get(&map, key) == &value, done);
        assert_int_equal(map.count, put);
    }
    ten_map_free(&map);
    return put == 100;
}

static bool use_url(void *arg) {
    ten_url url;
    ten_error error = {0};
    int r = ten_url_parse(arg, &url, &error);
    if (r == TENURE_OK)
        ten_url_free(&url);
    assert_int_equal(error.code, r);
    return whole_unless_out_of_memory(r);
}

static bool use_redact(void *arg) {
    char shown[100];
    ten_url_redact(arg, shown, sizeof shown);
    assert_lacks(shown, "secret");
    return strcmp(shown, "(out of memory)") != 0;
}

static bool use_json(void *arg) {
    ten_buf buf = {0};
    ten_json_open(&buf);
    ten_json_text(&buf, "target", arg);
    ten_json_number(&buf, "token", 1);
    ten_json_bool(&buf, "paused", false);
    ten_json_raw(&buf, "spec", "{\"some\":\"thing that is a little longer, so that the buffer has to grow again\"}");
    ten_json_time(&buf, "at", 1);
    ten_json_close(&buf);
    bool whole = !buf.failed;
    ten_buf_free(&buf);
    return whole;
}

static bool open_log(void *arg) {
    ten_log_config config = {.fd = *(int *)arg, .clock = &ten_system_clock, .instance = "me", .namespace_name = "poll"};
    ten_log *log = NULL;
    ten_error error = {0};
    int r = ten_log_open(&config, &log, &error);
    ten_log_close(log, 1000);
    return whole_unless_out_of_memory(r);
}

TEST(the_base_survives_every_failing_allocation) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(null >= 0);
    fail_each_in_turn(use_buf, NULL);
    fail_each_in_turn(use_arena, NULL);
    fail_each_in_turn(use_map, NULL);
    fail_each_in_turn(use_url, (char[]){"redis://u:p@h:1,h:2/path%20x?a=1&b=2&c=3"});
    fail_each_in_turn(use_url, (char[]){"memory:"});
    fail_each_in_turn(use_redact, (char[]){"redis://u:secret@h/p?a=1&password=secret&b=2"});
    fail_each_in_turn(use_json, (char[]){"a \"target\"\nwith \x1b\xff many things"});
    fail_each_in_turn(open_log, &null);
    close(null);
}

/* A refused URL is never taken for a good one, whatever else goes wrong while it is refused. */
TEST(a_bad_url_stays_refused_when_memory_runs_out) {
    for (long count = 0; count < 20; count++) {
        ten_url url;
        ten_error error = {0};
        ten_alloc_fail_after(count);
        int r = ten_url_parse("redis://u:secret@h?a=1&b=%zz", &url, &error);
        ten_alloc_fail_after(-1);
        assert_true(r == TENURE_E_INVALID || r == TENURE_E_NOMEM);
        assert_lacks(error.message, "secret");
    }
}

TEST(an_instance_id_needs_no_memory) {
    char id[TENURE_HOLDER_MAX + 1];
    ten_error error;
    ten_alloc_fail_after(0);
    assert_int_equal(ten_id_make_instance(NULL, id, &error), TENURE_OK);
    assert_int_equal(ten_id_check_target("../x", &error), TENURE_E_INVALID);
    assert_false(ten_alloc_has_failed());
    ten_alloc_fail_after(-1);
}

/* ---- the log, open: a line that finds no memory is dropped and counted */

TEST(a_log_line_without_memory_is_counted_as_dropped) {
    int ends[2];
    char text[4096] = "";
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    ten_log_config config = {.fd = ends[1], .level = TEN_LOG_INFO, .clock = &ten_system_clock};
    ten_log *log = NULL;
    assert_int_equal(ten_log_open(&config, &log, NULL), TENURE_OK);
    ten_alloc_fail_after(0);
    TEN_LOG(log, TEN_LOG_INFO, "lost", TEN_NUMBER("n", 1));
    ten_alloc_fail_after(-1);
    TEN_LOG(log, TEN_LOG_INFO, "kept", TEN_NUMBER("n", 2));
    ten_log_close(log, 5000);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_contains(text, "event=log_dropped count=1\n");
    assert_contains(text, "event=kept n=2\n");
    assert_lacks(text, "event=lost");
    close(ends[0]);
    close(ends[1]);
}

/* ---- the context. It is driven: a thread's allocations would be counted, too */

static tenure_context *open_driven(const char *url) {
    tenure_options options = {.size = sizeof options, .flags = TENURE_DRIVEN};
    tenure_context *context = NULL;
    if (tenure_open(url, &options, &context) < 0)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

static bool open_context(void *arg) {
    tenure_options options = {.size = sizeof options, .flags = TENURE_DRIVEN};
    tenure_context *context = NULL;
    int r = tenure_open(arg, &options, &context);
    assert_int_equal(context == NULL, r < 0);
    tenure_close(context);
    return whole_unless_out_of_memory(r);
}

static bool acquire_with(tenure_context *context, unsigned flags) {
    static int number;
    char target[32];
    snprintf(target, sizeof target, "t-%d", ++number);
    tenure_lease *lease = NULL;
    int r = tenure_acquire(context, target, 0, flags, &lease);
    assert_int_equal(lease == NULL, r < 0);
    assert_true(r == TENURE_OK || tenure_message(context)[0] != '\0');
    assert_true(r < 0 || tenure_lease_valid(lease));
    tenure_lease_free(lease);
    return whole_unless_out_of_memory(r);
}

static bool acquire(void *arg) {
    return acquire_with(arg, 0);
}

static bool acquire_manual(void *arg) {
    return acquire_with(arg, TENURE_MANUAL);
}

static bool open_member(void *arg) {
    tenure_member_options options = {.size = sizeof options, .namespace_name = "fleet"};
    tenure_member *member = NULL;
    int r = tenure_member_open(arg, &options, &member);
    assert_int_equal(member == NULL, r < 0);
    tenure_member_close(member);
    return whole_unless_out_of_memory(r);
}

static bool open_election(void *arg) {
    tenure_election *election = NULL;
    int r = tenure_election_open(arg, "web", NULL, &election);
    assert_int_equal(election == NULL, r < 0);
    tenure_election_close(election);
    return whole_unless_out_of_memory(r);
}

static bool open_guard(void *arg) {
    tenure_guard *guard = NULL;
    int r = tenure_guard_open(arg, NULL, &guard);
    assert_int_equal(guard == NULL, r < 0);
    tenure_guard_close(guard);
    return whole_unless_out_of_memory(r);
}

static int count_info(const tenure_info *info, void *userdata) {
    (void)info;
    ++*(size_t *)userdata;
    return 0;
}

static bool list(void *arg) {
    size_t count = 0;
    int r = tenure_target_list(arg, TENURE_ALL, count_info, &count);
    assert_true(r < 0 || count > 0);
    return whole_unless_out_of_memory(r);
}

static int count_target(const tenure_target *target, void *userdata) {
    (void)target;
    ++*(size_t *)userdata;
    return 0;
}

static bool put_targets(void *arg) {
    static int number;
    char ids[2][32];
    size_t added = 77;
    snprintf(ids[0], sizeof ids[0], "put-%d", ++number);
    snprintf(ids[1], sizeof ids[1], "put-%d", ++number);
    tenure_target targets[] = {
        {.size = sizeof(tenure_target), .id = ids[0], .url = "http://h/", .exec = "true", .spec = "{}"},
        {.size = sizeof(tenure_target), .id = ids[1]}};
    int r = tenure_registry_put(arg, targets, 2, &added);
    assert_int_equal(added, r < 0 ? 77 : 2);
    return whole_unless_out_of_memory(r);
}

static bool change_target(void *arg) {
    tenure_target target = {
        .size = sizeof target, .id = "put-1", .url = "http://other/", .exec = "false", .spec = "[]"};
    return whole_unless_out_of_memory(tenure_registry_put(arg, &target, 1, NULL));
}

static bool pause_target(void *arg) {
    return whole_unless_out_of_memory(tenure_registry_pause(arg, "put-1"));
}

TEST(the_context_survives_every_failing_allocation) {
    tenure_lease *lease = NULL;
    size_t count = 0;
    fail_each_in_turn(open_context, (char[]){"memory:"});
    fail_each_in_turn(open_context, (char[]){"memory:unit-faults?timeout=1s"});
    tenure_context *context = open_driven("memory:unit-faults");
    fail_each_in_turn(acquire, context);
    fail_each_in_turn(acquire_manual, context);
    fail_each(open_member, context, true);
    fail_each_in_turn(open_election, context);
    fail_each_in_turn(open_guard, context);
    assert_int_equal(tenure_acquire(context, "x", 0, TENURE_MANUAL, &lease), TENURE_OK);
    fail_each_in_turn(list, context);
    fail_each_in_turn(put_targets, context);
    fail_each_in_turn(change_target, context);
    fail_each_in_turn(pause_target, context);
    assert_int_equal(tenure_renew(lease), TENURE_OK);
    assert_int_equal(tenure_registry_list(context, count_target, &count), TENURE_OK);
    assert_true(count >= 2);
    tenure_lease_free(lease);
    tenure_close(context);
}

#ifdef TEN_STORE_SQLITE
TEST(a_context_on_sqlite_survives_every_failing_allocation) {
    char directory[256];
    char url[300];
    tenure_lease *lease = NULL;
    directory_make(directory);
    snprintf(url, sizeof url, "sqlite:%s/tenure.db", directory);
    fail_each_in_turn(open_context, url);
    tenure_context *context = open_driven(url);
    assert_int_equal(tenure_acquire(context, "x", 0, TENURE_MANUAL, &lease), TENURE_OK);
    fail_each_in_turn(acquire, context);
    fail_each_in_turn(list, context);
    fail_each_in_turn(put_targets, context);
    tenure_lease_free(lease);
    tenure_close(context);
    directory_remove(directory);
}
#endif
