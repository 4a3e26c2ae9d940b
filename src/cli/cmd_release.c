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

static int check_usage(const ten_arguments *arguments, const struct given *given) {
    bool names = given->to || given->not ;
    if (arguments->count != 1)
        return ten_arguments_usage(arguments, "release takes one target id");
    if (given->now && !given->force)
        return ten_arguments_usage(arguments, "--now goes with --force");
    if (names && !given->force)
        return ten_arguments_usage(arguments,
                                   "--to and --not go with --force; 'tenure move' moves a target without force");
    if (given->to && given->not )
        return ten_arguments_usage(arguments, "--to and --not exclude each other");
    if ((given->for_ms || given->reason) && !names)
        return ten_arguments_usage(arguments, "--for and --reason go with --to or --not");
    if (given->force && given->token)
        return ten_arguments_usage(arguments, "--force takes the lease away whatever its token: leave out --token");
    if (!given->force && !given->token)
        return ten_arguments_usage(arguments, "release needs the lease's token (--token T), or --force");
    return ten_arguments_check_targets(arguments, 0);
}

/* Who takes the target next, as far as the plan says; "": that is not known. */
static void find_next(const ten_arguments *arguments, const char *target, char next[TENURE_HOLDER_MAX + 1]) {
    ten_view view;
    next[0] = '\0';
    if (ten_view_read(arguments, &view) < 0)
        return;
    ten_id_shorten(ten_view_planned(&view, target), next);
    ten_view_free(&view);
}

/* What will happen: the plan may give the target back to the very instance that it was taken from. */
static void say_forced(const ten_arguments *arguments, const struct given *given, const char *holder,
                       const tenure_info *after) {
    char next[TENURE_HOLDER_MAX + 1];
    char when[TEN_DURATION_SIZE + 60] = "at once";
    char left[TEN_DURATION_SIZE];
    ten_duration_show(after->remaining_ms, left);
    find_next(arguments, arguments->operands[0], next);
    if (after->barred)
        snprintf(when, sizeof when, "when its work has stopped, in %s at the latest", left);
    const char *warning = given->now ? "; until its lease would have ended, the former holder may still believe in it, "
                                       "and only a consumer that compares tokens can refuse what it sends"
                                     : "";
    bool same = strcmp(next, holder) == 0;
    if (next[0])
        ten_arguments_note(arguments, "%s: %s can no longer renew its lease; %s takes the target %s%s%s",
                           arguments->operands[0], holder, same ? "the same instance" : next, when,
                           same ? ", because the plan names it ('--not' leaves it out, '--to' names another)" : "",
                           warning);
    else
        ten_arguments_note(arguments, "%s: %s can no longer renew its lease; the target is free %s%s",
                           arguments->operands[0], holder, when, warning);
}

/* Nobody had to be forced: it was not held, or is where it is wanted, or its holder has just ended its lease. */
static void say_unforced(const ten_arguments *arguments, bool pins, const char *former, const tenure_info *after) {
    const char *target = arguments->operands[0];
    char holder[TENURE_HOLDER_MAX + 1];
    ten_id_shorten(after->holder, holder);
    if (!former[0])
        ten_arguments_note(arguments, "%s is not held; nothing to release%s", target,
                           pins ? ", but it is pinned from now on" : "");
    else if (strcmp(former, holder) == 0)
        ten_arguments_note(arguments, "%s is held by %s already, and pinned from now on; nothing was forced", target,
                           holder);
    else if (holder[0])
        ten_arguments_note(arguments, "%s: %s has handed the target over to %s; nothing was forced", target, former,
                           holder);
    else
        ten_arguments_note(arguments, "%s: %s has released the target; nothing was forced", target, former);
}

/* ---- releasing */

/* Before the force, so that whoever hears of that knows where the target goes. */
static bool pin_target(const ten_arguments *arguments, const struct given *given, tenure_pin *pin, int *ret_exit_code) {
    if (!ten_pinning_set_reason(arguments, given->reason, pin, ret_exit_code) ||
        !ten_pinning_find(arguments, given->to ? given->to : given->not, pin, ret_exit_code))
        return false;
    int r = tenure_registry_pin(arguments->context, arguments->operands[0], pin);
    if (r < 0)
        *ret_exit_code = ten_arguments_error(arguments, r);
    if (r == TENURE_E_UNKNOWN_TARGET)
        ten_say(
            "--to and --not need a registered target; for a role, use 'tenure resign ROLE --from INSTANCE --force'");
    return r == TENURE_OK;
}

/* What another program wrote there need not be a name. */
static const char *nameable(const char *holder) {
    return ten_id_check_holder(holder, NULL) == TENURE_OK ? holder : NULL;
}

/* Takes the lease away from who holds it before anything else is done: a holder that has nothing to do hands the target
 * over as soon as it hears of the pin, and the force must not meet its successor. */
static int force(const ten_arguments *arguments, const struct given *given) {
    const char *target = arguments->operands[0];
    bool pins = given->to || given->not ;
    bool forced = false;
    tenure_info info = {.size = sizeof info};
    tenure_pin pin = {.size = sizeof pin, .away = given->not != NULL, .remaining_ms = given->for_ms};
    char holder[TENURE_HOLDER_MAX + 1];
    int exit_code;
    int r = tenure_target_read(arguments->context, target, &info);
    if (r < 0 && r != TENURE_E_UNKNOWN_TARGET)
        return ten_arguments_error(arguments, r);
    if (pins && !pin_target(arguments, given, &pin, &exit_code))
        return exit_code;
    /* Where the pin wants it, there is nobody to take it away from. */
    bool is_there = pins && !info.barred && (strcmp(info.holder, pin.instance) == 0) != pin.away;
    r = TENURE_OK;
    if (info.holder[0] && !is_there)
        r = tenure_force_release(arguments->context, target, nameable(info.holder), given->now ? TENURE_NOW : 0,
                                 &forced);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    ten_id_shorten(info.holder, holder);
    (void)tenure_target_read(arguments->context, target, &info); /* for what is said of it only */
    if (forced)
        say_forced(arguments, given, holder, &info);
    else
        say_unforced(arguments, pins, holder, &info);
    return TEN_EXIT_DONE;
}

static int release(const ten_arguments *arguments, uint64_t token) {
    const char *target = arguments->operands[0];
    bool released = false;
    int r = tenure_token_release(arguments->context, target, token, &released);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    if (released)
        TEN_LOG(arguments->log, TEN_LOG_INFO, "lease_released", TEN_TEXT("target", target), TEN_NUMBER("token", token),
                TEN_TEXT("reason", "done"));
    else
        ten_arguments_note(arguments, "%s is not held under token %llu; nothing to release", target,
                           (unsigned long long)token);
    return TEN_EXIT_DONE;
}

int ten_cmd_release(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    struct given given = {0};
    const ten_option options[] = {
        {"token", TEN_OPTION_TOKEN, &given.token, "T", "the token that acquire printed", NULL, NULL},
        {"force", TEN_OPTION_FLAG, &given.force, NULL,
         "bar the holder from renewing; the target is free when its work has stopped, or its lease ends", NULL, NULL},
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
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    exit_code = check_usage(&arguments, &given);
    if (exit_code || !ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    /* A pin is of a registered target, whoever holds it. */
    bool pins = given.to || given.not ;
    ten_wanted wanted = {pins ? TEN_WANTED_KNOWN : TEN_WANTED_HELD, arguments.operands[0], given.token};
    if (!ten_find_namespace(&arguments, &wanted, &exit_code))
        return exit_code;
    exit_code = given.force ? force(&arguments, &given) : release(&arguments, given.token);
    return ten_arguments_close(&arguments, exit_code);
}
