/*
 * tenure history: what has happened to the targets of a namespace, or to one of them.
 */
#include "cli/commands.h"

#define LIMIT_DEFAULT 1000u
#define RUN_COLUMNS   3u /* the last ones: only one target may be a job, and have runs */

static uint64_t since_ms;
static uint32_t limit = LIMIT_DEFAULT;
static const ten_option options[] = {
    TEN_OPT_PERIOD("since", "D", &since_ms, "no older than this, as 1h; default: all that is kept"),
    TEN_OPT_NUMBER("limit", "N", &limit, "the newest N; default 1000"),
    TEN_OPT_END,
};

/* For people: how a run ended, or how many instants did not run. */
static void show_reason(const tenure_change *change, char text[32]) {
    if (change->kind == TENURE_EVENT_CRON_MISSED)
        snprintf(text, 32, "%.12s %llu", change->reason, (unsigned long long)change->count);
    else if (change->kind == TENURE_EVENT_CRON_ENDED && strcmp(change->reason, "exited") == 0)
        snprintf(text, 32, "exit %d", change->exit_code);
    else if (change->kind == TENURE_EVENT_CRON_ENDED && strcmp(change->reason, "signal") == 0)
        snprintf(text, 32, "signal %d", change->exit_code - 128);
    else
        snprintf(text, 32, "%.31s", change->reason[0] ? change->reason : "-");
}

static int add_row(const tenure_change *change, void *userdata) {
    ten_table *table = userdata;
    bool ran = change->kind == TENURE_EVENT_CRON_ENDED;
    char reason[32];
    show_reason(change, reason);
    return TEN_TABLE_ADD(
        table, {"TIME", "at", TEN_COLUMN_TIME, .number = change->at_ms},
        {"TARGET", NULL, .text = ten_or_null(change->target)},
        {"EVENT", "event", .text = tenure_event_name(change->kind)}, {NULL, "namespace", .text = table->namespace_name},
        {NULL, "target", .text = ten_or_null(change->target)},
        {"INSTANCE", "instance", .text = ten_or_null(change->instance)},
        {"TOKEN", NULL, TEN_COLUMN_NUMBER, .number = ten_or_none(change->token)},
        {NULL, "token", TEN_COLUMN_NUMBER, .number = change->token}, {"REASON", NULL, .text = reason},
        {NULL, "reason", .text = ten_or_null(change->reason)}, {"BY", "actor", .text = ten_or_null(change->actor)},
        {"HELD", "held_ms", TEN_COLUMN_PERIOD, .number = ten_or_none(change->held_ms)},
        {"FREE", "free_ms", TEN_COLUMN_PERIOD, .number = ten_or_none(change->free_ms)},
        {"INSTANT", "instant", TEN_COLUMN_TIME, .optional = true, .number = change->instant_ms},
        {"LATE", NULL, TEN_COLUMN_PERIOD, .number = ran ? change->late_ms : TEN_NONE},
        {NULL, "started_at", TEN_COLUMN_TIME, .optional = true,
         .number = ran ? change->instant_ms + change->late_ms : 0},
        {"TOOK", "duration_ms", TEN_COLUMN_PERIOD, .number = ran ? change->duration_ms : TEN_NONE},
        {NULL, "exit_code", TEN_COLUMN_NUMBER, .number = ran ? (uint64_t)change->exit_code : TEN_NONE},
        {NULL, "count", TEN_COLUMN_NUMBER, .number = ten_or_none(change->count)});
}

static int check(ten_arguments *arguments) {
    if (limit == 0)
        return ten_arguments_usage(arguments, "--limit is at least 1");
    return arguments->count <= 1 ? TEN_EXIT_DONE : ten_arguments_usage(arguments, "history takes one target, or none");
}

static int run(ten_arguments *arguments) {
    const char *target = arguments->count ? arguments->operands[0] : NULL;
    ten_table table;
    ten_table_start(&table, arguments);
    if (!target)
        table.hidden = RUN_COLUMNS;
    int r = tenure_history_read(arguments->context, target, since_ms, limit, add_row, &table);
    if (r == TENURE_OK && table.rows == 0 && target) {
        tenure_info info = {.size = sizeof info};
        r = tenure_target_read(arguments->context, target, &info); /* is there such a target at all? */
    }
    return ten_find_end(arguments, &table, r, "history");
}

const ten_command ten_cmd_history = {TEN_HELP_history,
                                     .options = options,
                                     .check = check,
                                     .takes = TEN_TAKES_TARGETS,
                                     .store = TEN_STORE_EXISTING,
                                     .wants = TEN_WANTED_KNOWN,
                                     .run = run};
