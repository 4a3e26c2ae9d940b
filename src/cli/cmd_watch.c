/*
 * tenure watch: prints each change until it is stopped.
 */
#include "base/clock.h"
#include "cli/commands.h"

/* Of an event that has it. */
static void print_part(const char *before, const char *text) {
    if (text[0] == '\0')
        return;
    printf("%s", before);
    ten_print_visible(stdout, text);
}

static void print_words(const tenure_change *change) {
    char at[TEN_RFC3339_SIZE];
    ten_rfc3339(change->at_ms, at);
    printf("%s  %-16s", at, tenure_event_name(change->kind));
    print_part("  ", change->target);
    print_part("  ", change->instance);
    if (change->token)
        printf("  token %llu", (unsigned long long)change->token);
    if (change->reason[0]) {
        print_part("  (", change->reason);
        print_part(" by ", change->actor);
        printf(")");
    }
    printf("\n");
}

static int print_change(const tenure_change *change, void *userdata) {
    const ten_arguments *arguments = userdata;
    if (arguments->json)
        TEN_PRINT_ROW(true, {NULL, "at", TEN_COLUMN_TIME, .number = change->at_ms},
                      {NULL, "event", .text = tenure_event_name(change->kind)},
                      {NULL, "namespace", .text = arguments->namespace_name},
                      {NULL, "target", TEN_COLUMN_TEXT, .optional = true, .text = ten_or_null(change->target)},
                      {NULL, "instance", TEN_COLUMN_TEXT, .optional = true, .text = ten_or_null(change->instance)},
                      {NULL, "token", TEN_COLUMN_NUMBER, .number = ten_or_none(change->token)},
                      {NULL, "reason", TEN_COLUMN_TEXT, .optional = true, .text = ten_or_null(change->reason)},
                      {NULL, "actor", TEN_COLUMN_TEXT, .optional = true, .text = ten_or_null(change->actor)},
                      {NULL, "cursor", TEN_COLUMN_NUMBER, .number = change->cursor});
    else
        print_words(change);
    return ferror(stdout) ? 1 : 0;
}

static int go_on_after(const ten_arguments *arguments, int error, bool *down) {
    if (error == TENURE_E_RESYNC) {
        ten_say(tenure_message(arguments->context));
        return TENURE_OK;
    }
    if (ten_arguments_retry(arguments, error, down))
        return TENURE_OK;
    return ten_command_signal() ? TENURE_E_CANCELLED : error;
}

static int watch(ten_arguments *arguments) {
    uint64_t cursor = 0;
    bool down = false;
    int r = tenure_watch_start(arguments->context, &cursor);
    while (r == TENURE_OK && !ferror(stdout)) {
        r = tenure_watch_wait(arguments->context, &cursor, UINT64_MAX, print_change, arguments);
        (void)fflush(stdout);
        if (r < 0) {
            r = go_on_after(arguments, r, &down);
        } else if (down) {
            TEN_LOG(arguments->log, TEN_LOG_INFO, "store_up", TEN_NUMBER("cursor", cursor));
            down = false;
        }
    }
    return r;
}

static int run(ten_arguments *arguments) {
    int r = watch(arguments);
    /* Being stopped is how a watch ends. */
    return r < 0 && r != TENURE_E_CANCELLED ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE;
}

const ten_command ten_cmd_watch = {TEN_HELP_watch, .takes = TEN_TAKES_NOTHING, .store = TEN_STORE_EXISTING, .run = run};
