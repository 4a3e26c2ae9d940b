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

static int print(const ten_arguments *arguments, const char *target) {
    char value[TENURE_CHECKPOINT_MAX + 1];
    size_t size = 0;
    uint64_t token = 0;
    int r = tenure_target_checkpoint(arguments->context, target, value, &size, &token);
    if (r < 0)
        return ten_arguments_error(arguments, r);
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

static int write_value(const ten_arguments *arguments, const char *target, uint64_t token, const char *text) {
    char value[TENURE_CHECKPOINT_MAX + 1];
    size_t size = strlen(text);
    if (strcmp(text, "-") == 0 && !read_input(value, &size)) {
        fprintf(stderr, "tenure: cannot read standard input: %s\n", strerror(errno));
        return TEN_EXIT_FAILED;
    }
    int r = tenure_token_checkpoint(arguments->context, target, token, strcmp(text, "-") == 0 ? value : text, size);
    return r < 0 ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE;
}

int ten_cmd_checkpoint(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    uint64_t token = 0;
    const ten_option options[] = {
        {"token", TEN_OPTION_TOKEN, &token, "T", "the token of the lease, to write VALUE", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    if (arguments.count != (token ? 2 : 1))
        return ten_arguments_usage(&arguments,
                                   token ? "checkpoint --token T takes one target id and a value; '-': standard input"
                                         : "checkpoint takes one target id; writing a value needs --token T");
    int given = arguments.count;
    arguments.count = 1;
    exit_code = ten_arguments_check_targets(&arguments, 0);
    arguments.count = given;
    if (exit_code || !ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    if (!token &&
        !ten_find_namespace(&arguments, &(ten_wanted){TEN_WANTED_KNOWN, arguments.operands[0], 0}, &exit_code))
        return exit_code;
    const char *target = arguments.operands[0];
    exit_code = token ? write_value(&arguments, target, token, arguments.operands[1]) : print(&arguments, target);
    return ten_arguments_close(&arguments, exit_code);
}
