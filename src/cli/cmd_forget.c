/*
 * tenure forget: drops the counters of targets that are gone.
 */
#include <stdio.h>

#include "cli/commands.h"

/* One that cannot be forgotten does not keep the others from it. */
static int forget_each(const ten_arguments *arguments) {
    int exit_code = TEN_EXIT_DONE;
    for (int i = 0; i < arguments->count; i++) {
        int r = tenure_target_forget(arguments->context, arguments->operands[i]);
        if (r < 0)
            exit_code = ten_arguments_error(arguments, r);
        if (r == TENURE_E_INVALID)
            exit_code = TEN_EXIT_FAILED; /* it is registered; the ids themselves were checked before */
        if (r < 0 && r != TENURE_E_HELD && r != TENURE_E_INVALID && r != TENURE_E_UNKNOWN_TARGET)
            break;
    }
    return exit_code;
}

static int forget_unregistered(const ten_arguments *arguments) {
    size_t count = 0;
    int r = tenure_target_forget_unregistered(arguments->context, &count);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    ten_arguments_note(arguments, "%zu forgotten", count);
    return TEN_EXIT_DONE;
}

int ten_cmd_forget(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    bool unregistered = false;
    const ten_option options[] = {
        {"unregistered", TEN_OPTION_FLAG, &unregistered, NULL, "all targets that are free and not registered", NULL,
         NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    if (unregistered == (arguments.count > 0))
        return ten_arguments_usage(&arguments, "forget takes ids, or --unregistered for all that are free");
    exit_code = ten_arguments_check_targets(&arguments, 0);
    if (exit_code || !ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    exit_code = unregistered ? forget_unregistered(&arguments) : forget_each(&arguments);
    return ten_arguments_close(&arguments, exit_code);
}
