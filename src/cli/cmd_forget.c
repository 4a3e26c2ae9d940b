/*
 * tenure forget: drops the counters of targets that are gone.
 */
#include "cli/commands.h"

static bool unregistered;
static const ten_option options[] = {
    TEN_OPT_FLAG("unregistered", &unregistered, "all targets that are free and not registered"),
    TEN_OPT_END,
};

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

static int check(ten_arguments *arguments) {
    return unregistered != (arguments->count > 0)
               ? TEN_EXIT_DONE
               : ten_arguments_usage(arguments, "forget takes ids, or --unregistered for all that are free");
}

static int run(ten_arguments *arguments) {
    return unregistered ? forget_unregistered(arguments) : forget_each(arguments);
}

const ten_command ten_cmd_forget = {
    TEN_HELP_forget, .options = options, .check = check, .takes = TEN_TAKES_TARGETS, .store = TEN_STORE_EXISTING,
    .run = run};
