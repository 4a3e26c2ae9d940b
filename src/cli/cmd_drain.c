/*
 * tenure drain: asks an instance to hand over what it holds.
 */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/find.h"

int ten_cmd_drain(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    bool undo = false;
    const ten_option options[] = {
        {"undo", TEN_OPTION_FLAG, &undo, NULL, "let it work again", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    char found[TENURE_HOLDER_MAX + 1];
    char words[TENURE_HOLDER_MAX + 1];
    /* "host-b 8758" is two words to a shell. */
    if (arguments.count == 2 &&
        snprintf(words, sizeof words, "%s %s", arguments.operands[0], arguments.operands[1]) > 0) {
        arguments.operands[0] = words;
        arguments.count = 1;
    }
    if (arguments.count != 1)
        return ten_arguments_usage(&arguments, "drain takes one instance id; 'tenure nodes' lists them");
    if (!ten_arguments_open(&arguments, &exit_code) ||
        !ten_find_namespace(&arguments, &(ten_wanted){TEN_WANTED_INSTANCE, arguments.operands[0], 0}, &exit_code))
        return exit_code;
    const char *instance = arguments.operands[0];
    if (!ten_find_instance(&arguments, &instance, found))
        return ten_arguments_close(&arguments, TEN_EXIT_USAGE);
    int r = undo ? tenure_instance_undrain(arguments.context, instance)
                 : tenure_instance_drain(arguments.context, instance);
    exit_code = r < 0 ? ten_arguments_error(&arguments, r) : TEN_EXIT_DONE;
    if (r == TENURE_E_INVALID) /* a lock's */
        exit_code = TEN_EXIT_FAILED;
    if (r == TENURE_OK)
        ten_arguments_note(&arguments, "%s was asked to %s", instance,
                           undo ? "work again" : "hand over what it holds; 'tenure nodes' shows how far it is");
    return ten_arguments_close(&arguments, exit_code);
}
