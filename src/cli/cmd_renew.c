/*
 * tenure renew: renews a lease by target and token.
 */
#include "cli/commands.h"

int ten_cmd_renew(const ten_command *command, int argc, char **argv) {
    ten_session session;
    uint64_t token = 0;
    const ten_option options[] = {
        {"token", TEN_OPTION_TOKEN, &token, "T", "the token that acquire printed", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 1)
        return ten_session_usage(&session, "renew takes one target id");
    if (token == 0)
        return ten_session_usage(&session, "renew needs the lease's token: --token T");
    exit_code = ten_session_check_targets(&session, 0);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    const char *target = session.arguments[0];
    int r = tenure_token_renew(session.context, target, token, session.timing.ttl_ms);
    exit_code = r < 0 ? ten_session_error(&session, r) : TEN_EXIT_DONE;
    if (r == TENURE_OK)
        TEN_LOG(session.log, TEN_LOG_INFO, "lease_renewed", TEN_TEXT("target", target), TEN_NUMBER("token", token));
    return ten_session_close(&session, exit_code);
}
