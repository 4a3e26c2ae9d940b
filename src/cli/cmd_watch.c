/*
 * tenure watch: prints each change until it is stopped.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/visible.h"

#define RETRY_US 500000u

static void print_json(const tenure_change *change, const char *namespace_name) {
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_time(&line, "at", change->at_ms);
    ten_json_text(&line, "event", tenure_event_name(change->kind));
    ten_json_text(&line, "namespace", namespace_name);
    if (change->target[0])
        ten_json_text(&line, "target", change->target);
    if (change->instance[0])
        ten_json_text(&line, "instance", change->instance);
    if (change->token)
        ten_json_number(&line, "token", change->token);
    if (change->reason[0])
        ten_json_text(&line, "reason", change->reason);
    if (change->actor[0])
        ten_json_text(&line, "actor", change->actor);
    ten_json_number(&line, "cursor", change->cursor);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

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
        print_json(change, arguments->namespace_name);
    else
        print_words(change);
    return ferror(stdout) ? 1 : 0;
}

/* A store that is out of reach for a while must not end a watch that runs for weeks. */
static int go_on_after(const ten_arguments *arguments, int error, bool *down) {
    if (error == TENURE_E_RESYNC) {
        ten_say(tenure_message(arguments->context));
        return TENURE_OK;
    }
    if (!tenure_error_retryable(error) || error == TENURE_E_CANCELLED)
        return error;
    if (!*down)
        TEN_LOG(arguments->log, TEN_LOG_WARN, "store_down", TEN_TEXT("error", tenure_message(arguments->context)));
    *down = true;
    ten_sleep_us(RETRY_US);
    return ten_command_signal() ? TENURE_E_CANCELLED : TENURE_OK;
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

int ten_cmd_watch(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, NULL, argc, argv, &exit_code))
        return exit_code;
    if (arguments.count != 0)
        return ten_arguments_usage(&arguments, "watch takes no arguments");
    if (!ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    int r = watch(&arguments);
    /* Being stopped is how a watch ends. */
    exit_code = r < 0 && r != TENURE_E_CANCELLED ? ten_arguments_error(&arguments, r) : TEN_EXIT_DONE;
    return ten_arguments_close(&arguments, exit_code);
}
