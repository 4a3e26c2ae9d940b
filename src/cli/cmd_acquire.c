/*
 * tenure acquire: takes a lease and prints its token alone, for `token=$(tenure acquire ID)`.
 */
#include <stdio.h>

#include "agent/common/store_wait.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "cli/commands.h"

#define RETRY_MS 200u

static void print_token(const ten_arguments *arguments, const tenure_lease *lease) {
    if (!arguments->json) {
        printf("%llu\n", (unsigned long long)tenure_lease_token(lease));
        return;
    }
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "target", tenure_lease_target(lease));
    ten_json_text(&line, "namespace", arguments->namespace_name);
    ten_json_text(&line, "instance", tenure_instance_id(arguments->context));
    ten_json_number(&line, "token", tenure_lease_token(lease));
    ten_json_number(&line, "ttl_ms", tenure_lease_ttl_ms(lease));
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

/* A token that nobody could read would hold the target for a TTL to no use. */
static int hand_over(ten_arguments *arguments, tenure_lease *lease) {
    print_token(arguments, lease);
    if (fflush(stdout) == 0)
        return TEN_EXIT_DONE;
    fprintf(stderr, "tenure: cannot write the token to standard output; the lease on %s was released\n",
            tenure_lease_target(lease));
    (void)tenure_release(lease);
    return TEN_EXIT_FAILED;
}

/* A store that is down is waited for as a holder is. */
static int acquire(const ten_arguments *arguments, const char *target, uint64_t end_ms, tenure_lease **ret_lease) {
    for (;;) {
        uint64_t left_ms = ten_sub_saturating(end_ms, ten_now_ms());
        int r = tenure_acquire(arguments->context, target, left_ms, TENURE_MANUAL, ret_lease);
        if (r == TENURE_OK || !ten_store_wait_helps(arguments->store, r) || ten_now_ms() >= end_ms ||
            ten_command_signal())
            return r;
        ten_sleep_us(ten_min_u64(RETRY_MS, ten_sub_saturating(end_ms, ten_now_ms())) * 1000u);
    }
}

int ten_cmd_acquire(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    uint64_t wait_ms = 0;
    const ten_option options[] = {
        {"wait", TEN_OPTION_DURATION, &wait_ms, "D", "wait up to D for it; default: try once", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    if (arguments.count != 1)
        return ten_arguments_usage(&arguments, "acquire takes one target id");
    uint64_t end_ms = ten_add_saturating(ten_now_ms(), wait_ms);
    if (wait_ms)
        ten_arguments_set_wait(&arguments, wait_ms);
    exit_code = ten_arguments_check_targets(&arguments, 0);
    if (exit_code || !ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    const char *target = arguments.operands[0];
    tenure_lease *lease = NULL;
    int r = acquire(&arguments, target, end_ms, &lease);
    if (r == TENURE_OK) {
        TEN_LOG(arguments.log, TEN_LOG_INFO, "lease_acquired", TEN_TEXT("target", target),
                TEN_NUMBER("token", tenure_lease_token(lease)), TEN_NUMBER("ttl_ms", tenure_lease_ttl_ms(lease)));
        exit_code = hand_over(&arguments, lease);
        tenure_lease_free(lease); /* which does not release: the lease is the caller's now */
    } else {
        exit_code = ten_arguments_error(&arguments, r);
    }
    return ten_arguments_close(&arguments, exit_code);
}
