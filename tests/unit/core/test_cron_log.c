/*
 * The runs of a job as text: what is written is read again, the oldest make room, tokens stay with their runs, and texts
 * of others do no harm.
 */
#include "unit/unit.h"

#include "core/cron_job.h"
#include "core/history.h"

#define START_MS INT64_C(1790000000000)

struct heard {
    ten_cron_run runs[400]; /* the newest first */
    size_t count;
};

static int hear(const ten_cron_run *run, void *userdata) {
    struct heard *heard = userdata;
    assert_true(heard->count < TEN_COUNT(heard->runs));
    heard->runs[heard->count++] = *run;
    return 0;
}

/* The log as a checkpoint has it, and what is heard of that. */
static void read_back(const ten_cron_log *log, struct heard *heard, char text[TEN_CRON_MEMORY_SIZE]) {
    ten_cron_memory memory = {.known = true, .instant_ms = START_MS, .holder = "host-1"};
    ten_cron_memory_write(&memory, text);
    ten_cron_log_write(log, text + strlen(text), TEN_CRON_MEMORY_SIZE - strlen(text));
    assert_true(strlen(text) <= TENURE_CHECKPOINT_MAX);
    *heard = (struct heard){0};
    assert_int_equal(ten_cron_log_each(text, hear, heard), 0);
}

TEST(what_is_written_is_read_again) {
    static const ten_cron_run runs[] = {
        {TEN_CRON_EXITED, START_MS, 0, 0, 0, 0},
        {TEN_CRON_EXITED, START_MS + 1, 12, 86400000, 255, 0},
        {TEN_CRON_KILLED, START_MS + 2, 1, 2, 9, 0},
        {TEN_CRON_TIMED_OUT, START_MS + 3, 1, 300, 143, 0},
        {TEN_CRON_NOT_STARTED, START_MS + 4, 1, 0, 127, 0},
        {TEN_CRON_LOST, START_MS + 5, 31622400000, 0, 0, 0},
        {TEN_CRON_MISSED, START_MS + 6, 1, 0, 1000, 0},
        {TEN_CRON_OVERLAPPED, START_MS + 7, 1, 0, 2, 0},
    };
    ten_cron_log log = {0};
    struct heard heard;
    char text[TEN_CRON_MEMORY_SIZE];
    ten_cron_log_pass_on(&log, 7);
    for (size_t i = 0; i < TEN_COUNT(runs); i++)
        ten_cron_log_add(&log, &runs[i]);
    read_back(&log, &heard, text);
    assert_int_equal(heard.count, TEN_COUNT(runs));
    for (size_t i = 0; i < heard.count; i++) {
        ten_cron_run wanted = runs[heard.count - 1 - i];
        wanted.token = 7;
        assert_memory_equal(&heard.runs[i], &wanted, sizeof wanted);
    }
    ten_cron_memory memory;
    assert_true(ten_cron_memory_read(text, &memory));
    assert_string_equal(memory.holder, "host-1");
}

/* Each holder has two runs, and the next one reads what it left. */
TEST(each_run_has_the_token_of_its_holder) {
    ten_cron_log log = {0};
    struct heard heard;
    char text[TEN_CRON_MEMORY_SIZE];
    for (uint64_t token = 1; token <= 3; token++) {
        ten_cron_log_pass_on(&log, token * 1000000000000);
        for (int64_t i = 0; i < 2; i++)
            ten_cron_log_add(&log, &(ten_cron_run){.instant_ms = START_MS + (int64_t)token * 10 + i});
        read_back(&log, &heard, text);
        ten_cron_log_read(&log, text);
        ten_cron_log_pass_on(&log, token * 1000000000000 + 5); /* one that ran nothing */
    }
    read_back(&log, &heard, text);
    assert_int_equal(heard.count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(heard.runs[i].token, (3 - i / 2) * 1000000000000);
}

TEST(the_oldest_runs_make_room) {
    ten_cron_log log = {0};
    struct heard heard = {0};
    char text[TEN_CRON_MEMORY_SIZE];
    for (int64_t i = 0; i < 1000; i++) {
        if (i == 900)
            ten_cron_log_pass_on(&log, 2);
        ten_cron_log_add(&log, &(ten_cron_run){.instant_ms = START_MS + i * 60000, .late_ms = 12, .duration_ms = 1234});
        if (i % 3 == 0)
            ten_cron_log_cut(&log);
    }
    read_back(&log, &heard, text);
    assert_in_range(heard.count, 150, 250);
    for (size_t i = 0; i < heard.count; i++) {
        assert_int_equal(heard.runs[i].instant_ms, START_MS + (int64_t)(999 - i) * 60000);
        assert_int_equal(heard.runs[i].token, i < 100 ? 2 : 0);
    }
}

TEST(what_was_added_can_be_taken_back) {
    ten_cron_log log = {0};
    struct heard heard;
    char text[TEN_CRON_MEMORY_SIZE];
    ten_cron_log_pass_on(&log, 1);
    ten_cron_log_add(&log, &(ten_cron_run){.instant_ms = START_MS});
    ten_cron_log_mark mark = ten_cron_log_here(&log);
    ten_cron_log_add(&log, &(ten_cron_run){.end = TEN_CRON_MISSED, .instant_ms = START_MS + 1, .code = 3});
    ten_cron_log_take_back(&log, mark);
    read_back(&log, &heard, text);
    assert_int_equal(heard.count, 1);
}

TEST(texts_of_others_are_no_runs) {
    static const char *const texts[] = {"",
                                        "page 41",
                                        "log=1;a.b.c.x0",
                                        "cron=1 by=x",
                                        "cron=1 by=x log=",
                                        "cron=1 by=x log=1;",
                                        "cron=1 by=x log=1;,,,",
                                        "cron=1 by=x log=1;a.b.c",
                                        "cron=1 by=x log=1;a.b.c.",
                                        "cron=1 by=x log=1;a.b.c.q0",
                                        "cron=1 by=x log=1;a.b.c.x0@",
                                        "cron=1 by=x log=1;zzzzzzzzzzzzzzzzzzzz.b.c.x0"};
    struct heard heard = {0};
    for (size_t i = 0; i < TEN_COUNT(texts); i++)
        assert_int_equal(ten_cron_log_each(texts[i], hear, &heard), 0);
    assert_int_equal(ten_cron_log_each(NULL, hear, &heard), 0);
    assert_int_equal(heard.count, 0);
}

/* ---- in the history */

struct shown {
    enum tenure_event_kind kinds[16];
    char instances[16][32];
    int exit_codes[16];
    size_t count;
};

static int show(const ten_change *change, void *userdata) {
    struct shown *shown = userdata;
    shown->kinds[shown->count] = change->kind;
    shown->exit_codes[shown->count] = change->exit_code;
    snprintf(shown->instances[shown->count++], 32, "%s", change->instance);
    return 0;
}

TEST(the_history_of_a_job_has_its_runs_with_their_runners) {
    const uint64_t now_ms = (uint64_t)START_MS + 100000;
    ten_history *history = ten_history_new(
        &(ten_history_config){.target = "job", .now_ms = now_ms, .since_ms = (uint64_t)START_MS + 500, .limit = 100});
    ten_change change = {.kind = TENURE_EVENT_ACQUIRED,
                         .namespace_name = "cron",
                         .target = "job",
                         .instance = "a",
                         .actor = "",
                         .token = 1,
                         .at_ms = (uint64_t)START_MS};
    assert_int_equal(ten_history_add(&change, history), TENURE_OK); /* too old to be shown */
    change.token = 2;
    change.instance = "b";
    change.at_ms = (uint64_t)START_MS + 50000;
    assert_int_equal(ten_history_add(&change, history), TENURE_OK);

    char text[TEN_CRON_MEMORY_SIZE];
    ten_cron_memory memory = {
        .known = true, .open = true, .instant_ms = START_MS + 90000, .ran_ms = START_MS + 90000, .holder = "b"};
    ten_cron_log log = {0};
    ten_cron_log_pass_on(&log, 1);
    ten_cron_log_add(&log, &(ten_cron_run){.instant_ms = START_MS + 1000, .code = 3});
    ten_cron_log_add(&log, &(ten_cron_run){.end = TEN_CRON_LOST, .instant_ms = START_MS + 2000, .late_ms = 48000});
    ten_cron_log_pass_on(&log, 2);
    ten_cron_log_add(&log, &(ten_cron_run){.end = TEN_CRON_KILLED, .instant_ms = START_MS + 60000, .code = 9});
    ten_cron_memory_write(&memory, text);
    ten_cron_log_write(&log, text + strlen(text), sizeof text - strlen(text));
    assert_int_equal(ten_history_add_runs(history, "cron", text, "b"), TENURE_OK);
    struct shown shown = {0};
    assert_int_equal(ten_history_each(history, "cron", show, &shown), TENURE_OK);
    ten_history_free(history);
    static const struct {
        enum tenure_event_kind kind;
        const char *instance;
        int exit_code;
    } wanted[] = {{TENURE_EVENT_CRON_ENDED, "a", 3},
                  {TENURE_EVENT_CRON_LOST, "a", 0},
                  {TENURE_EVENT_CRON_ENDED, "b", 137},
                  {TENURE_EVENT_CRON_STARTED, "b", 0}};
    size_t at = 0;
    for (size_t i = 0; i < shown.count; i++) {
        if (shown.kinds[i] == TENURE_EVENT_ACQUIRED)
            continue;
        assert_int_equal(shown.kinds[i], wanted[at].kind);
        assert_string_equal(shown.instances[i], wanted[at].instance);
        assert_int_equal(shown.exit_codes[i], wanted[at++].exit_code);
    }
    assert_int_equal(at, TEN_COUNT(wanted));
}
