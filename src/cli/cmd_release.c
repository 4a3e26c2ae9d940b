/*
 * tenure release: releases a lease by target and token, or takes it away from its holder.
 */
#include "base/duration.h"
#include "base/id.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/fleet_listing.h"
#include "cli/pinning.h"

static struct given {
    uint64_t token;
    bool force;
    bool now;
    const char *to;
    const char *other_than;
    const char *reason;
    uint64_t for_ms;
} given;

static const ten_option options[] = {
    TEN_OPT_TOKEN("token", "T", &given.token, "the token that acquire printed"),
    TEN_OPT_FLAG("force", &given.force,
                 "bar the holder from renewing; the target is free when its work has stopped, or its lease ends"),
    TEN_OPT_FLAG("now", &given.now, "with --force: the target is free at once; two may believe that they hold it"),
    TEN_OPT_TEXT("to", "INSTANCE", &given.to, "with --force: this instance takes the target; pins it"),
    TEN_OPT_TEXT("not", "INSTANCE", &given.other_than, "with --force: any other instance takes the target; pins it"),
    TEN_OPT_PERIOD("for", "D", &given.for_ms, "how long that pin lasts (default 1h)"),
    TEN_OPT_TEXT("reason", "R", &given.reason, "why it is pinned; shown by show, ls and the page"),
    TEN_OPT_END,
};

static int check(ten_arguments *arguments) {
    bool names = given.to || given.other_than;
    const ten_rule rules[] = {
        {given.now && !given.force, "--now goes with --force"},
        {names && !given.force, "--to and --not go with --force; 'tenure move' moves a target without force"},
        {given.to && given.other_than, "--to and --not exclude each other"},
        {(given.for_ms || given.reason) && !names, "--for and --reason go with --to or --not"},
        {given.force && given.token, "--force takes the lease away whatever its token: leave out --token"},
        {!given.force && !given.token, "release needs the lease's token (--token T), or --force"}};
    return TEN_CHECK_RULES(arguments, rules);
}

/* Who takes the target next, as far as the plan says; "": that is not known. */
static void find_next(const ten_arguments *arguments, const char *target, char next[TENURE_HOLDER_MAX + 1]) {
    TEN_CLEANUP(ten_view_free) ten_view view = {0};
    next[0] = '\0';
    if (ten_view_read(arguments, &view) < 0)
        return;
    ten_id_shorten(ten_view_planned(&view, target), next);
}

/* What will happen: the plan may give the target back to the very instance that it was taken from. */
static void say_forced(const ten_arguments *arguments, const char *holder, const tenure_info *after) {
    char next[TENURE_HOLDER_MAX + 1];
    char when[TEN_DURATION_SIZE + 60] = "at once";
    char left[TEN_DURATION_SIZE];
    ten_duration_show(after->remaining_ms, left);
    find_next(arguments, arguments->operands[0], next);
    if (after->barred)
        snprintf(when, sizeof when, "when its work has stopped, in %s at the latest", left);
    const char *warning = given.now ? "; until its lease would have ended, the former holder may still believe in it, "
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

/* No holder was forced: the target was free, is where the pin wants it, or was just released. */
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

/* Before the force, so that instances that see the forced release already know the pin. */
static bool pin_target(const ten_arguments *arguments, tenure_pin *pin, int *ret_exit_code) {
    if (!ten_pinning_set_reason(arguments, given.reason, pin, ret_exit_code) ||
        !ten_pinning_find(arguments, given.to ? given.to : given.other_than, pin, ret_exit_code))
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
static int force(const ten_arguments *arguments) {
    const char *target = arguments->operands[0];
    bool pins = given.to || given.other_than;
    bool forced = false;
    tenure_info info = {.size = sizeof info};
    tenure_pin pin = {.size = sizeof pin, .away = given.other_than != NULL, .remaining_ms = given.for_ms};
    char holder[TENURE_HOLDER_MAX + 1];
    int exit_code;
    int r = tenure_target_read(arguments->context, target, &info);
    if (r == TENURE_E_UNKNOWN_TARGET && ten_find_slots(arguments, target))
        return TEN_EXIT_FAILED;
    if (r < 0 && r != TENURE_E_UNKNOWN_TARGET)
        return ten_arguments_error(arguments, r);
    if (pins && !pin_target(arguments, &pin, &exit_code))
        return exit_code;
    /* The pin already holds there: no lease has to be taken away. */
    bool is_there = pins && !info.barred && (strcmp(info.holder, pin.instance) == 0) != pin.away;
    r = TENURE_OK;
    if (info.holder[0] && !is_there)
        r = tenure_force_release(arguments->context, target, nameable(info.holder), given.now ? TENURE_NOW : 0,
                                 &forced);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    ten_id_shorten(info.holder, holder);
    bool tried = info.holder[0] && !is_there;
    char former[TENURE_HOLDER_MAX + 1];
    memcpy(former, info.holder, sizeof former);
    (void)tenure_target_read(arguments->context, target, &info); /* for what is said of it only */
    if (tried && !forced && strcmp(former, info.holder) == 0) {
        ten_say_format(
            "%.200s is held by %.200s, another program, which cannot be barred from renewing; --now takes it "
            "away, though that program may go on for a while",
            target, former);
        return TEN_EXIT_HELD;
    }
    if (forced)
        say_forced(arguments, holder, &info);
    else
        say_unforced(arguments, pins, holder, &info);
    return TEN_EXIT_DONE;
}

static int release(const ten_arguments *arguments) {
    const char *target = arguments->operands[0];
    bool released = false;
    int r = tenure_token_release(arguments->context, target, given.token, &released);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    if (released)
        TEN_LOG(arguments->log, TEN_LOG_INFO, "lease_released", TEN_TEXT("target", target),
                TEN_NUMBER("token", given.token), TEN_TEXT("reason", "done"));
    else
        ten_arguments_note(arguments, "%s is not held under token %llu; nothing to release", target,
                           (unsigned long long)given.token);
    return TEN_EXIT_DONE;
}

static int run(ten_arguments *arguments) {
    /* A pin needs a registered target, held or not. */
    enum ten_wanted_kind wanted = given.to || given.other_than ? TEN_WANTED_KNOWN : TEN_WANTED_HELD;
    int exit_code;
    if (!ten_find_namespace(arguments, wanted, arguments->operands[0], given.token, &exit_code))
        return exit_code;
    return given.force ? force(arguments) : release(arguments);
}

const ten_command ten_cmd_release = {TEN_HELP_release, .options = options,     .takes = TEN_TAKES_TARGET,
                                     .check = check,   .store = TEN_STORE_ANY, .run = run};
