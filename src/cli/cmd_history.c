/*
 * tenure history: what has happened to the targets of a namespace, or to one of them.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/table.h"

#define LIMIT_DEFAULT 1000u
#define RUN_COLUMNS   3u /* the last ones: only one target may be a job, and have runs */

struct listing {
    const ten_session *session;
    ten_table table;
    size_t count;
};

static void print_json(const tenure_change *change, const char *namespace_name) {
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_time(&line, "at", change->at_ms);
    ten_json_text(&line, "event", tenure_event_name(change->kind));
    ten_json_text(&line, "namespace", namespace_name);
    ten_json_text(&line, "target", change->target[0] ? change->target : NULL);
    ten_json_text(&line, "instance", change->instance[0] ? change->instance : NULL);
    ten_json_number(&line, "token", change->token);
    ten_json_text(&line, "reason", change->reason[0] ? change->reason : NULL);
    ten_json_text(&line, "actor", change->actor[0] ? change->actor : NULL);
    if (change->held_ms)
        ten_json_number(&line, "held_ms", change->held_ms);
    if (change->free_ms)
        ten_json_number(&line, "free_ms", change->free_ms);
    if (change->instant_ms)
        ten_json_time(&line, "instant", change->instant_ms);
    if (change->kind == TENURE_EVENT_CRON_ENDED) {
        ten_json_time(&line, "started_at", change->instant_ms + change->late_ms);
        ten_json_number(&line, "duration_ms", change->duration_ms);
        ten_json_number(&line, "exit_code", (uint64_t)change->exit_code);
    }
    if (change->count)
        ten_json_number(&line, "count", change->count);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

static const char *or_dash(const char *text) {
    return text[0] ? text : "-";
}

/* For people: how a run ended, or how many instants did not run. */
static void show_reason(const tenure_change *change, char text[32]) {
    if (change->kind == TENURE_EVENT_CRON_MISSED)
        snprintf(text, 32, "%.12s %llu", change->reason, (unsigned long long)change->count);
    else if (change->kind == TENURE_EVENT_CRON_ENDED && strcmp(change->reason, "exited") == 0)
        snprintf(text, 32, "exit %d", change->exit_code);
    else if (change->kind == TENURE_EVENT_CRON_ENDED && strcmp(change->reason, "signal") == 0)
        snprintf(text, 32, "signal %d", change->exit_code - 128);
    else
        snprintf(text, 32, "%.31s", or_dash(change->reason));
}

static int add_row(const tenure_change *change, void *userdata) {
    struct listing *listing = userdata;
    listing->count++;
    if (listing->session->json) {
        print_json(change, listing->session->namespace_name);
        return ferror(stdout) ? 1 : 0;
    }
    char at[TEN_RFC3339_SIZE];
    char token[24] = "-";
    char held[TEN_DURATION_SIZE] = "-";
    char unheld[TEN_DURATION_SIZE] = "-";
    char reason[32];
    char instant[TEN_RFC3339_SIZE] = "-";
    char late[TEN_DURATION_SIZE] = "-";
    char took[TEN_DURATION_SIZE] = "-";
    ten_rfc3339(change->at_ms, at);
    show_reason(change, reason);
    if (change->instant_ms)
        ten_rfc3339(change->instant_ms, instant);
    if (change->kind == TENURE_EVENT_CRON_ENDED) {
        ten_duration_show(change->late_ms, late);
        ten_duration_show(change->duration_ms, took);
    }
    if (change->token)
        snprintf(token, sizeof token, "%llu", (unsigned long long)change->token);
    if (change->held_ms)
        ten_duration_show(change->held_ms, held);
    if (change->free_ms)
        ten_duration_show(change->free_ms, unheld);
    ten_table_row(&listing->table, (const char *const[]){at, or_dash(change->target), tenure_event_name(change->kind),
                                                         or_dash(change->instance), token, reason,
                                                         or_dash(change->actor), held, unheld, instant, late, took});
    return ferror(stdout) ? 1 : 0;
}

int ten_cmd_history(const ten_command *command, int argc, char **argv) {
    static const char *const headings[] = {"TIME", "TARGET", "EVENT", "INSTANCE", "TOKEN", "REASON",
                                           "BY",   "HELD",   "FREE",  "INSTANT",  "LATE",  "TOOK"};
    size_t columns = TEN_COUNT(headings);
    ten_session session;
    uint64_t since_ms = 0;
    uint32_t limit = LIMIT_DEFAULT;
    const ten_option options[] = {
        {"since", TEN_OPTION_PERIOD, &since_ms, "D", "no older than this, as 1h; default: all that is kept", NULL,
         NULL},
        {"limit", TEN_OPTION_NUMBER, &limit, "N", "the newest N; default 1000", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    if (session.count > 1 || limit == 0)
        return ten_session_usage(&session, limit == 0 ? "--limit is at least 1" : "history takes one target, or none");
    exit_code = ten_session_check_targets(&session, 0);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    if (session.count > 0 &&
        !ten_find_namespace(&session, &(ten_wanted){TEN_WANTED_KNOWN, session.arguments[0], 0}, &exit_code))
        return exit_code;
    struct listing listing = {.session = &session};
    if (session.count == 0)
        columns -= RUN_COLUMNS;
    ten_table_start(&listing.table, headings, columns);
    int r = tenure_history_read(session.context, session.count ? session.arguments[0] : NULL, since_ms, limit, add_row,
                                &listing);
    if (r == TENURE_OK && listing.count == 0 && session.count > 0) {
        tenure_info info = {.size = sizeof info};
        r = tenure_target_read(session.context, session.arguments[0], &info); /* is there such a target at all? */
    }
    exit_code = r < 0 ? ten_session_error(&session, r) : TEN_EXIT_DONE;
    if (r == TENURE_OK && listing.count == 0)
        ten_find_nothing(&session, "history");
    if (!ten_table_end(&listing.table))
        exit_code = TEN_EXIT_FAILED;
    return ten_session_close(&session, exit_code);
}
