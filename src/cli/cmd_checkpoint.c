/*
 * tenure checkpoint: prints what is kept beside a lease, or writes it under the lease's token.
 */
#include <errno.h>
#include <unistd.h>

#include "base/io.h"
#include "cli/commands.h"

static uint64_t token;
static const ten_option options[] = {
    TEN_OPT_TOKEN("token", "T", &token, "the token of the lease, to write VALUE"),
    TEN_OPT_END,
};

/* A checkpoint can contain any bytes. Control characters are escaped, line breaks are kept. */
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

static int print(const ten_arguments *arguments) {
    const char *target = arguments->operands[0];
    char value[TENURE_CHECKPOINT_MAX + 1];
    size_t size = 0;
    uint64_t written_under = 0;
    int r = tenure_target_checkpoint(arguments->context, target, value, &size, &written_under);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    if (written_under == 0) {
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
    ssize_t count = 1;
    while (count > 0 && size < TENURE_CHECKPOINT_MAX + 1) {
        count = ten_read_some(STDIN_FILENO, value + size, TENURE_CHECKPOINT_MAX + 1 - size);
        size += count > 0 ? (size_t)count : 0;
    }
    *ret_size = size;
    errno = count < 0 ? (int)-count : 0;
    return count >= 0;
}

static int write_value(const ten_arguments *arguments) {
    const char *text = arguments->operands[1];
    char value[TENURE_CHECKPOINT_MAX + 1];
    size_t size = strlen(text);
    if (strcmp(text, "-") == 0 && !read_input(value, &size)) {
        fprintf(stderr, "tenure: cannot read standard input: %s\n", strerror(errno));
        return TEN_EXIT_FAILED;
    }
    int r = tenure_token_checkpoint(arguments->context, arguments->operands[0], token,
                                    strcmp(text, "-") == 0 ? value : text, size);
    return r < 0 ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE;
}

static int check(ten_arguments *arguments) {
    if (arguments->count != (token ? 2 : 1))
        return ten_arguments_usage(arguments,
                                   token ? "checkpoint --token T takes one target id and a value; '-': standard input"
                                         : "checkpoint takes one target id; writing a value needs --token T");
    return ten_arguments_check_targets(arguments, 0, 1);
}

static int run(ten_arguments *arguments) {
    int exit_code;
    if (token)
        return write_value(arguments);
    return ten_find_namespace(arguments, TEN_WANTED_KNOWN, arguments->operands[0], 0, &exit_code) ? print(arguments)
                                                                                                  : exit_code;
}

const ten_command ten_cmd_checkpoint = {TEN_HELP_checkpoint, .options = options, .check = check,
                                        .store = TEN_STORE_EXISTING, .run = run};
