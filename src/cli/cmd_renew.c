/*
 * tenure renew: renews a lease by target and token.
 */
#include "cli/commands.h"

int ten_cmd_renew(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    uint64_t token = 0;
    const ten_option options[] = {
        {"token", TEN_OPTION_TOKEN, &token, "T", "the token that acquire printed", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    if (arguments.count != 1)
        return ten_arguments_usage(&arguments, "renew takes one target id");
    if (token == 0)
        return ten_arguments_usage(&arguments, "renew needs the lease's token: --token T");
    exit_code = ten_arguments_check_targets(&arguments, 0);
    if (exit_code || !ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    const char *target = arguments.operands[0];
    int r = tenure_token_renew(arguments.context, target, token, arguments.timing.ttl_ms);
    exit_code = r < 0 ? ten_arguments_error(&arguments, r) : TEN_EXIT_DONE;
    if (r == TENURE_OK)
        TEN_LOG(arguments.log, TEN_LOG_INFO, "lease_renewed", TEN_TEXT("target", target), TEN_NUMBER("token", token));
    return ten_arguments_close(&arguments, exit_code);
}
