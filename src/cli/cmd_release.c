/*
 * tenure release: releases a lease by target and token, or takes it away from whoever holds it.
 */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/id.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/fleet_listing.h"
#include "cli/pinning.h"
#include "cli/visible.h"

struct given {
    uint64_t token;
    bool force;
    bool now;
    const char *to;
    const char * not ;
    const char *reason;
    uint64_t for_ms;
};

static int check_usage(const ten_session *session, const struct given *given) {
    bool names = given->to || given->not ;
    if (session->count != 1)
        return ten_session_usage(session, "release takes one target id");
    if (given->now && !given->force)
        return ten_session_usage(session, "--now goes with --force");
    if (names && !given->force)
        return ten_session_usage(session, "--to and --not go with --force; 'tenure move' moves a target without force");
    if (given->to && given->not )
        return ten_session_usage(session, "--to and --not exclude each other");
    if ((given->for_ms || given->reason) && !names)
        return ten_session_usage(session, "--for and --reason go with --to or --not");
    if (given->force && given->token)
        return ten_session_usage(session, "--force takes the lease away whatever its token: leave out --token");
    if (!given->force && !given->token)
        return ten_session_usage(session, "release needs the lease's token (--token T), or --force");
    return ten_session_check_targets(session, 0);
}

/* Who takes the target next, as far as the plan says; "": that is not known. */
static void find_next(const ten_session *session, const char *target, char next[TENURE_HOLDER_MAX + 1]) {
    ten_view view;
    next[0] = '\0';
    if (ten_view_read(session, &view) < 0)
        return;
    ten_id_shorten(ten_view_planned(&view, target), next);
    ten_view_free(&view);
}

/* What will happen: the plan may give the target back to the very instance that it was taken from. */
static void say_forced(const ten_session *session, const struct given *given, const tenure_info *before) {
    char holder[TENURE_HOLDER_MAX + 1];
    char next[TENURE_HOLDER_MAX + 1];
    char when[TEN_DURATION_SIZE + 40] = "at once";
    char left[TEN_DURATION_SIZE];
    ten_id_shorten(before->holder, holder);
    ten_duration_show(before->remaining_ms, left);
    find_next(session, before->target, next);
    if (!given->now)
        snprintf(when, sizeof when, "when that lease ends, in %s", left);
    const char *warning = given->now ? "; until its lease would have ended, the former holder may still believe in it, "
                                       "and only a consumer that compares tokens can refuse what it sends"
                                     : "";
    bool same = strcmp(next, holder) == 0;
    if (next[0])
        ten_session_note(session, "%s: %s can no longer renew its lease; %s takes the target %s%s%s", before->target,
                         holder, same ? "the same instance" : next, when,
                         same ? ", because the plan names it ('--not' leaves it out, '--to' names another)" : "",
                         warning);
    else
        ten_session_note(session, "%s: %s can no longer renew its lease; the target is free %s%s", before->target,
                         holder, when, warning);
}

static void say_what_happened(const ten_session *session, const struct given *given, const tenure_info *before,
                              bool released) {
    const char *target = session->arguments[0];
    if (!released && given->token)
        ten_session_note(session, "%s is not held under token %llu; nothing to release", target,
                         (unsigned long long)given->token);
    else if (!released)
        ten_session_note(session, "%s is not held; nothing to release%s", target,
                         given->to || given->not ? ", but it is pinned from now on" : "");
    else if (!given->token)
        say_forced(session, given, before);
    else
        TEN_LOG(session->log, TEN_LOG_INFO, "lease_released", TEN_TEXT("target", target),
                TEN_NUMBER("token", given->token), TEN_TEXT("reason", "done"));
}

/* Before the release, so that whoever hears of that knows where the target goes. */
static bool pin_target(const ten_session *session, const struct given *given, int *ret_exit_code) {
    const char *target = session->arguments[0];
    tenure_pin pin = {.size = sizeof pin, .away = given->not != NULL, .remaining_ms = given->for_ms};
    if (!ten_pinning_set_reason(session, given->reason, &pin, ret_exit_code) ||
        !ten_pinning_find(session, given->to ? given->to : given->not, &pin, ret_exit_code))
        return false;
    int r = tenure_registry_pin(session->context, target, &pin);
    if (r < 0)
        *ret_exit_code = ten_session_error(session, r);
    if (r == TENURE_E_UNKNOWN_TARGET)
        ten_say(
            "--to and --not need a registered target; for a role, use 'tenure resign ROLE --from INSTANCE --force'");
    return r == TENURE_OK;
}

static int release(const ten_session *session, const struct given *given) {
    const char *target = session->arguments[0];
    bool released = false;
    tenure_info before = {.size = sizeof before};
    int exit_code;
    if ((given->to || given->not ) && !pin_target(session, given, &exit_code))
        return exit_code;
    if (given->force) /* for what is said of it; that it fails is no reason not to go on */
        (void)tenure_target_read(session->context, target, &before);
    int r = given->force ? tenure_force_release(session->context, target, NULL, given->now ? TENURE_NOW : 0, &released)
                         : tenure_token_release(session->context, target, given->token, &released);
    if (r < 0)
        return ten_session_error(session, r);
    say_what_happened(session, given, &before, released);
    return TEN_EXIT_DONE;
}

int ten_cmd_release(const ten_command *command, int argc, char **argv) {
    ten_session session;
    struct given given = {0};
    const ten_option options[] = {
        {"token", TEN_OPTION_TOKEN, &given.token, "T", "the token that acquire printed", NULL, NULL},
        {"force", TEN_OPTION_FLAG, &given.force, NULL,
         "bar the holder from renewing; the target is free when its lease ends", NULL, NULL},
        {"now", TEN_OPTION_FLAG, &given.now, NULL,
         "with --force: the target is free at once; two may believe that they hold it", NULL, NULL},
        {"to", TEN_OPTION_TEXT, &given.to, "INSTANCE", "with --force: this instance takes the target; pins it", NULL,
         NULL},
        {"not", TEN_OPTION_TEXT, &given.not, "INSTANCE", "with --force: any other instance takes the target; pins it",
         NULL, NULL},
        {"for", TEN_OPTION_PERIOD, &given.for_ms, "D", "how long that pin lasts (default 1h)", NULL, NULL},
        {"reason", TEN_OPTION_TEXT, &given.reason, "R", "why it is pinned; shown by show, ls and the page", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    exit_code = check_usage(&session, &given);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    /* A pin is of a registered target, whoever holds it. */
    bool pins = given.to || given.not ;
    ten_wanted wanted = {pins ? TEN_WANTED_KNOWN : TEN_WANTED_HELD, session.arguments[0], given.token};
    if (!ten_find_namespace(&session, &wanted, &exit_code))
        return exit_code;
    return ten_session_close(&session, release(&session, &given));
}
