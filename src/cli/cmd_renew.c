/*
 * tenure renew: renews a lease by target and token.
 */
#include "cli/commands.h"

static uint64_t token;
static const ten_option options[] = {
    TEN_OPT_TOKEN("token", "T", &token, "the token that acquire printed"),
    TEN_OPT_END,
};

static int check(ten_arguments *arguments) {
    return token ? TEN_EXIT_DONE : ten_arguments_usage(arguments, "renew needs the lease's token: --token T");
}

static int run(ten_arguments *arguments) {
    const char *target = arguments->operands[0];
    int r = tenure_token_renew(arguments->context, target, token, arguments->timing.ttl_ms);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    TEN_LOG(arguments->log, TEN_LOG_INFO, "lease_renewed", TEN_TEXT("target", target), TEN_NUMBER("token", token));
    return TEN_EXIT_DONE;
}

const ten_command ten_cmd_renew = {TEN_HELP_renew, .options = options,     .takes = TEN_TAKES_TARGET,
                                   .check = check, .store = TEN_STORE_ANY, .run = run};
