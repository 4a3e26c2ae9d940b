/*
 * tenure checkpoint: prints what is kept beside a lease, or writes it under the lease's token.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/visible.h"

/* Whoever held the lease may have written anything. Its lines stay lines. */
static void print_on_terminal(char *value, size_t size) {
    value[ten_min_u64(size, TENURE_CHECKPOINT_MAX)] = '\0';
    for (char *line = value, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        ten_print_visible(stdout, line);
        putchar('\n');
    }
}

static int print(const ten_session *session, const char *target) {
    char value[TENURE_CHECKPOINT_MAX + 1];
    size_t size = 0;
    uint64_t token = 0;
    int r = tenure_target_checkpoint(session->context, target, value, &size, &token);
    if (r < 0)
        return ten_session_error(session, r);
    if (token == 0) {
        fprintf(stderr, "tenure: %s has no checkpoint\n", target);
        return TEN_EXIT_FAILED;
    }
    if (isatty(STDOUT_FILENO))
        print_on_terminal(value, size);
    else
        (void)fwrite(value, 1, size, stdout);
    return TEN_EXIT_DONE;
}

/* One byte more than there may be, so that a longer text is refused and not cut. */
static bool read_input(char value[TENURE_CHECKPOINT_MAX + 1], size_t *ret_size) {
    size_t size = 0;
    while (size < TENURE_CHECKPOINT_MAX + 1) {
        ssize_t count = read(STDIN_FILENO, value + size, TENURE_CHECKPOINT_MAX + 1 - size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return false;
        if (count == 0)
            break;
        size += (size_t)count;
    }
    *ret_size = size;
    return true;
}

static int write_value(const ten_session *session, const char *target, uint64_t token, const char *text) {
    char value[TENURE_CHECKPOINT_MAX + 1];
    size_t size = strlen(text);
    if (strcmp(text, "-") == 0 && !read_input(value, &size)) {
        fprintf(stderr, "tenure: cannot read standard input: %s\n", strerror(errno));
        return TEN_EXIT_FAILED;
    }
    int r = tenure_token_checkpoint(session->context, target, token, strcmp(text, "-") == 0 ? value : text, size);
    return r < 0 ? ten_session_error(session, r) : TEN_EXIT_DONE;
}

int ten_cmd_checkpoint(const ten_command *command, int argc, char **argv) {
    ten_session session;
    uint64_t token = 0;
    const ten_option options[] = {
        {"token", TEN_OPTION_TOKEN, &token, "T", "the token of the lease, to write VALUE", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    if (session.count != (token ? 2 : 1))
        return ten_session_usage(&session,
                                 token ? "checkpoint --token T takes one target id and a value; '-': standard input"
                                       : "checkpoint takes one target id; writing a value needs --token T");
    int given = session.count;
    session.count = 1;
    exit_code = ten_session_check_targets(&session, 0);
    session.count = given;
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    if (!token && !ten_find_namespace(&session, &(ten_wanted){TEN_WANTED_KNOWN, session.arguments[0], 0}, &exit_code))
        return exit_code;
    const char *target = session.arguments[0];
    exit_code = token ? write_value(&session, target, token, session.arguments[1]) : print(&session, target);
    return ten_session_close(&session, exit_code);
}
