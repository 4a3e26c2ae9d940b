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

static void print_token(const ten_session *session, const tenure_lease *lease) {
    if (!session->json) {
        printf("%llu\n", (unsigned long long)tenure_lease_token(lease));
        return;
    }
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "target", tenure_lease_target(lease));
    ten_json_text(&line, "namespace", session->namespace_name);
    ten_json_text(&line, "instance", tenure_instance_id(session->context));
    ten_json_number(&line, "token", tenure_lease_token(lease));
    ten_json_number(&line, "ttl_ms", tenure_lease_ttl_ms(lease));
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

/* A token that nobody could read would hold the target for a TTL to no use. */
static int hand_over(ten_session *session, tenure_lease *lease) {
    print_token(session, lease);
    if (fflush(stdout) == 0)
        return TEN_EXIT_DONE;
    fprintf(stderr, "tenure: cannot write the token to standard output; the lease on %s was released\n",
            tenure_lease_target(lease));
    (void)tenure_release(lease);
    return TEN_EXIT_FAILED;
}

/* A store that is down is waited for as a holder is. */
static int acquire(const ten_session *session, const char *target, uint64_t end_ms, tenure_lease **ret_lease) {
    for (;;) {
        uint64_t left_ms = ten_sub_saturating(end_ms, ten_now_ms());
        int r = tenure_acquire(session->context, target, left_ms, TENURE_MANUAL, ret_lease);
        if (r == TENURE_OK || !ten_store_wait_helps(session->store, r) || ten_now_ms() >= end_ms ||
            ten_session_signal())
            return r;
        ten_sleep_us(ten_min_u64(RETRY_MS, ten_sub_saturating(end_ms, ten_now_ms())) * 1000u);
    }
}

int ten_cmd_acquire(const ten_command *command, int argc, char **argv) {
    ten_session session;
    uint64_t wait_ms = 0;
    const ten_option options[] = {
        {"wait", TEN_OPTION_DURATION, &wait_ms, "D", "wait up to D for it; default: try once", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 1)
        return ten_session_usage(&session, "acquire takes one target id");
    uint64_t end_ms = ten_add_saturating(ten_now_ms(), wait_ms);
    if (wait_ms)
        ten_session_set_wait(&session, wait_ms);
    exit_code = ten_session_check_targets(&session, 0);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    const char *target = session.arguments[0];
    tenure_lease *lease = NULL;
    int r = acquire(&session, target, end_ms, &lease);
    if (r == TENURE_OK) {
        TEN_LOG(session.log, TEN_LOG_INFO, "lease_acquired", TEN_TEXT("target", target),
                TEN_NUMBER("token", tenure_lease_token(lease)), TEN_NUMBER("ttl_ms", tenure_lease_ttl_ms(lease)));
        exit_code = hand_over(&session, lease);
        tenure_lease_free(lease); /* which does not release: the lease is the caller's now */
    } else {
        exit_code = ten_session_error(&session, r);
    }
    return ten_session_close(&session, exit_code);
}
