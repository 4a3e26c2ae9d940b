/*
 * tenure release: releases a lease by target and token, or takes it away from whoever holds it.
 */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/id.h"
#include "cli/commands.h"
#include "cli/fleet_listing.h"

static int check_usage(const ten_session *session, uint64_t token, bool force, bool now) {
    if (session->count != 1)
        return ten_session_usage(session, "release takes one target id");
    if (now && !force)
        return ten_session_usage(session, "--now goes with --force");
    if (force && token)
        return ten_session_usage(session, "--force takes the lease away whatever its token: leave out --token");
    if (!force && !token)
        return ten_session_usage(session, "release needs the lease's token (--token T), or --force");
    return ten_session_check_targets(session, 0);
}

/* What will happen: the plan may give the target back to the very instance that it was taken from. */
static void say_forced(const ten_session *session, const tenure_info *before) {
    char holder[TENURE_HOLDER_MAX + 1];
    char next[TENURE_HOLDER_MAX + 1] = "";
    char left[TEN_DURATION_SIZE];
    ten_view view;
    ten_id_shorten(before->holder, holder);
    ten_duration_show(before->remaining_ms, left);
    if (ten_view_read(session, &view) == TENURE_OK) {
        ten_id_shorten(ten_view_planned(&view, before->target), next);
        ten_view_free(&view);
    }
    const char *after = next[0] == '\0'             ? ""
                        : strcmp(next, holder) == 0 ? "; the plan still names that instance, which takes it again; "
                                                      "'tenure drain' makes it hand over what it holds"
                                                    : "; the plan names ";
    ten_session_note(session, "%s cannot be renewed any more by %s; others enter when its lease ends, in %s%s%s",
                     before->target, holder, left, after, strcmp(next, holder) == 0 ? "" : next);
}

static void say_what_happened(const ten_session *session, const tenure_info *before, uint64_t token, bool now,
                              bool released) {
    const char *target = session->arguments[0];
    if (!released && token)
        ten_session_note(session, "%s is not held under token %llu; nothing to release", target,
                         (unsigned long long)token);
    else if (!released)
        ten_session_note(session, "%s is not held; nothing to release", target);
    else if (!token && now)
        ten_session_note(session,
                         "%s is free at once; its former holder may believe in its lease until that would have ended, "
                         "and only a consumer that compares tokens can refuse what it still sends",
                         target);
    else if (!token)
        say_forced(session, before);
    else
        TEN_LOG(session->log, TEN_LOG_INFO, "lease_released", TEN_TEXT("target", target), TEN_NUMBER("token", token),
                TEN_TEXT("reason", "done"));
}

int ten_cmd_release(const ten_command *command, int argc, char **argv) {
    ten_session session;
    uint64_t token = 0;
    bool force = false;
    bool now = false;
    const ten_option options[] = {
        {"token", TEN_OPTION_TOKEN, &token, "T", "the token that acquire printed", NULL, NULL},
        {"force", TEN_OPTION_FLAG, &force, NULL, "bar its holder from renewing; others enter when the lease ends", NULL,
         NULL},
        {"now", TEN_OPTION_FLAG, &now, NULL, "with --force: others enter at once; two may believe for a while", NULL,
         NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    exit_code = check_usage(&session, token, force, now);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    const char *target = session.arguments[0];
    bool released = false;
    tenure_info before = {.size = sizeof before};
    if (force) /* for what is said of it; that it fails is no reason not to go on */
        (void)tenure_target_read(session.context, target, &before);
    int r = force ? tenure_force_release(session.context, target, NULL, now ? TENURE_NOW : 0, &released)
                  : tenure_token_release(session.context, target, token, &released);
    exit_code = r < 0 ? ten_session_error(&session, r) : TEN_EXIT_DONE;
    if (r == TENURE_OK)
        say_what_happened(&session, &before, token, now, released);
    return ten_session_close(&session, exit_code);
}
