/*
 * tenure acquire: takes a lease and prints its token alone, for `token=$(tenure acquire ID)`.
 */
#include "agent/common/store_wait.h"
#include "base/clock.h"
#include "base/io.h"
#include "cli/commands.h"

#define RETRY_MS 200u

static uint64_t wait_ms;
static const ten_option options[] = {
    TEN_OPT_DURATION("wait", "D", &wait_ms, "wait up to D for it; default: try once"),
    TEN_OPT_END,
};

/* If the token cannot be written, the lease would block the target for a TTL, so it is released. */
static int hand_over(const ten_arguments *arguments, tenure_lease *lease) {
    TEN_PRINT_ROW(arguments->json, {NULL, "target", .text = tenure_lease_target(lease)},
                  {NULL, "namespace", .text = arguments->namespace_name},
                  {NULL, "instance", .text = tenure_instance_id(arguments->context)},
                  {"TOKEN", "token", TEN_COLUMN_NUMBER, .number = tenure_lease_token(lease)},
                  {NULL, "ttl_ms", TEN_COLUMN_NUMBER, .number = tenure_lease_ttl_ms(lease)});
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

static uint64_t end_ms; /* of the wait, opening the store included */

static int check(ten_arguments *arguments) {
    end_ms = ten_add_saturating(ten_now_ms(), wait_ms);
    if (wait_ms)
        ten_arguments_set_wait(arguments, wait_ms);
    return TEN_EXIT_DONE;
}

static int run(ten_arguments *arguments) {
    const char *target = arguments->operands[0];
    tenure_lease *lease = NULL;
    int r = acquire(arguments, target, end_ms, &lease);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    TEN_LOG(arguments->log, TEN_LOG_INFO, "lease_acquired", TEN_TEXT("target", target),
            TEN_NUMBER("token", tenure_lease_token(lease)), TEN_NUMBER("ttl_ms", tenure_lease_ttl_ms(lease)));
    int exit_code = hand_over(arguments, lease);
    tenure_lease_free(lease); /* which does not release: the lease is the caller's now */
    return exit_code;
}

const ten_command ten_cmd_acquire = {TEN_HELP_acquire, .options = options,     .takes = TEN_TAKES_TARGET,
                                     .check = check,   .store = TEN_STORE_ANY, .run = run};
