/*
 * tenure drain: asks an instance to hand over what it holds.
 */
#include "cli/commands.h"

static bool undo;
static const ten_option options[] = {
    TEN_OPT_FLAG("undo", &undo, "let it work again"),
    TEN_OPT_END,
};

static int check(ten_arguments *arguments) {
    static char words[TENURE_HOLDER_MAX + 1];
    ten_arguments_join(arguments, 0, words);
    return arguments->count == 1
               ? TEN_EXIT_DONE
               : ten_arguments_usage(arguments, "drain takes one instance id; 'tenure nodes' lists them");
}

static int run(ten_arguments *arguments) {
    const char *instance = arguments->operands[0];
    char found[TENURE_HOLDER_MAX + 1];
    if (!ten_find_instance(arguments, &instance, found))
        return TEN_EXIT_USAGE;
    int r = undo ? tenure_instance_undrain(arguments->context, instance)
                 : tenure_instance_drain(arguments->context, instance);
    if (r < 0) {
        int exit_code = ten_arguments_error(arguments, r);
        return r == TENURE_E_INVALID /* a lock's */ ? TEN_EXIT_FAILED : exit_code;
    }
    ten_arguments_note(arguments, "%s was asked to %s", instance,
                       undo ? "work again" : "hand over what it holds; 'tenure nodes' shows how far it is");
    return TEN_EXIT_DONE;
}

const ten_command ten_cmd_drain = {
    TEN_HELP_drain, .options = options, .check = check, .store = TEN_STORE_EXISTING, .wants = TEN_WANTED_INSTANCE,
    .run = run};
