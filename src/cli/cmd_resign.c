/*
 * tenure resign: asks the leader of a role to hand it over, or takes it away.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "cli/commands.h"
#include "cli/find.h"

#define LOOK_MS 1000u /* a notice can be lost */

/* Waits until that instance no longer leads. */
static int wait_for_end(const ten_session *session, const char *from, uint64_t wait_ms) {
    uint64_t end_ms = ten_add_saturating(ten_now_ms(), wait_ms);
    uint64_t cursor = 0;
    int r = tenure_watch_start(session->context, &cursor);
    while (r == TENURE_OK || r == TENURE_E_RESYNC) {
        tenure_leader leader = {.size = sizeof leader};
        r = tenure_leader_read(session->context, session->namespace_name, session->arguments[0], &leader);
        uint64_t left_ms = ten_sub_saturating(end_ms, ten_now_ms());
        if (r < 0 || strcmp(leader.instance, from) != 0)
            break;
        if (left_ms == 0)
            return TENURE_E_HELD;
        r = tenure_watch_wait(session->context, &cursor, ten_min_u64(left_ms, LOOK_MS), NULL, NULL);
    }
    return r;
}

static int ask(const ten_session *session, const char *from, uint64_t wait_ms) {
    const char *role = session->arguments[0];
    int r = tenure_leader_resign(session->context, session->namespace_name, role, from);
    if (r < 0) {
        int exit_code = ten_session_error(session, r);
        return r == TENURE_E_LOST ? TEN_EXIT_FAILED : exit_code;
    }
    if (wait_ms > 0)
        r = wait_for_end(session, from, wait_ms);
    if (r == TENURE_E_HELD)
        fprintf(stderr, "tenure: %s was asked, and still leads %s; --force takes it away\n", from, role);
    else if (r < 0)
        return ten_session_error(session, r);
    else
        ten_session_note(session, "%s %s %s", from, wait_ms ? "no longer leads" : "was asked to hand over", role);
    return ten_exit_code(r);
}

static int force(const ten_session *session, const char *from, bool now) {
    const char *role = session->arguments[0];
    bool released = false;
    int r = tenure_force_release(session->context, role, from, now ? TENURE_NOW : 0, &released);
    if (r < 0)
        return ten_session_error(session, r);
    if (!released) {
        fprintf(stderr, "tenure: %s does not lead %s; 'tenure elect --observe %s' shows who does\n", from, role, role);
        return TEN_EXIT_FAILED;
    }
    if (now)
        ten_session_note(session,
                         "%s is free at once; %s may believe in its lease until that would have ended, and only a "
                         "consumer that compares tokens can refuse what it still sends",
                         role, from);
    else
        ten_session_note(session, "%s can no longer renew %s; it is free when its lease expires", from, role);
    return TEN_EXIT_DONE;
}

int ten_cmd_resign(const ten_command *command, int argc, char **argv) {
    ten_session session;
    const char *from = NULL;
    bool forces = false;
    bool now = false;
    uint64_t wait_ms = 0;
    const ten_option options[] = {
        {"from", TEN_OPTION_TEXT, &from, "INSTANCE", "the present leader", NULL, NULL},
        {"wait", TEN_OPTION_DURATION, &wait_ms, "D", "wait up to this long until it no longer leads; default 0s", NULL,
         NULL},
        {"force", TEN_OPTION_FLAG, &forces, NULL, "bar it from renewing; the role is free when its lease expires", NULL,
         NULL},
        {"now", TEN_OPTION_FLAG, &now, NULL, "with --force: free at once; two may believe that they lead for a while",
         NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 1)
        return ten_session_usage(&session, "resign takes one role");
    if (!from)
        return ten_session_usage(&session, "resign needs --from INSTANCE: who is to hand it over");
    if (now && !forces)
        return ten_session_usage(&session, "--now goes with --force");
    exit_code = ten_session_check_roles(&session);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    if (!ten_find_namespace(&session, &(ten_wanted){TEN_WANTED_HELD, session.arguments[0], 0}, &exit_code))
        return exit_code;
    char found[TENURE_HOLDER_MAX + 1];
    if (!ten_find_instance(&session, &from, found))
        return ten_session_close(&session, TEN_EXIT_USAGE);
    exit_code = forces ? force(&session, from, now) : ask(&session, from, wait_ms);
    return ten_session_close(&session, exit_code);
}
