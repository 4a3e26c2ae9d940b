/*
 * tenure drain: asks an instance to hand over what it holds.
 */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/find.h"

int ten_cmd_drain(const ten_command *command, int argc, char **argv) {
    ten_session session;
    bool undo = false;
    const ten_option options[] = {
        {"undo", TEN_OPTION_FLAG, &undo, NULL, "let it work again", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    char found[TENURE_HOLDER_MAX + 1];
    char words[TENURE_HOLDER_MAX + 1];
    /* "host-b 8758" is two words to a shell. */
    if (session.count == 2 && snprintf(words, sizeof words, "%s %s", session.arguments[0], session.arguments[1]) > 0) {
        session.arguments[0] = words;
        session.count = 1;
    }
    if (session.count != 1)
        return ten_session_usage(&session, "drain takes one instance id; 'tenure nodes' lists them");
    if (!ten_session_open(&session, &exit_code) ||
        !ten_find_namespace(&session, &(ten_wanted){TEN_WANTED_INSTANCE, session.arguments[0], 0}, &exit_code))
        return exit_code;
    const char *instance = session.arguments[0];
    if (!ten_find_instance(&session, &instance, found))
        return ten_session_close(&session, TEN_EXIT_USAGE);
    int r =
        undo ? tenure_instance_undrain(session.context, instance) : tenure_instance_drain(session.context, instance);
    exit_code = r < 0 ? ten_session_error(&session, r) : TEN_EXIT_DONE;
    if (r == TENURE_E_INVALID) /* a lock's */
        exit_code = TEN_EXIT_FAILED;
    if (r == TENURE_OK)
        ten_session_note(&session, "%s was asked to %s", instance,
                         undo ? "work again" : "hand over what it holds; 'tenure nodes' shows how far it is");
    return ten_session_close(&session, exit_code);
}
