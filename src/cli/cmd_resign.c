/*
 * tenure resign: asks the leader of a role to hand it over, or takes it away.
 */
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/find.h"

static const char *from;
static uint64_t wait_ms;
static bool forces;
static bool now;
static const ten_option options[] = {
    TEN_OPT_TEXT("from", "INSTANCE", &from, "the present leader"),
    TEN_OPT_DURATION("wait", "D", &wait_ms, "wait up to this long until it no longer leads; default 0s"),
    TEN_OPT_FLAG("force", &forces,
                 "bar it from renewing; the role is free when its work has stopped, or its lease expires"),
    TEN_OPT_FLAG("now", &now, "with --force: free at once; two may believe that they lead for a while"),
    TEN_OPT_END,
};

#define LOOK_MS 1000u /* a notice can be lost */

/* Waits until that instance no longer leads. */
static int wait_for_end(const ten_arguments *arguments) {
    uint64_t end_ms = ten_add_saturating(ten_now_ms(), wait_ms);
    uint64_t cursor = 0;
    int r = tenure_watch_start(arguments->context, &cursor);
    while (r == TENURE_OK || r == TENURE_E_RESYNC) {
        tenure_leader leader = {.size = sizeof leader};
        r = tenure_leader_read(arguments->context, arguments->namespace_name, arguments->operands[0], &leader);
        uint64_t left_ms = ten_sub_saturating(end_ms, ten_now_ms());
        if (r < 0 || strcmp(leader.instance, from) != 0)
            break;
        if (left_ms == 0)
            return TENURE_E_HELD;
        r = tenure_watch_wait(arguments->context, &cursor, ten_min_u64(left_ms, LOOK_MS), NULL, NULL);
    }
    return r;
}

static int ask(const ten_arguments *arguments) {
    const char *role = arguments->operands[0];
    int r = tenure_leader_resign(arguments->context, arguments->namespace_name, role, from);
    if (r < 0) {
        int exit_code = ten_arguments_error(arguments, r);
        if (r == TENURE_E_LOST)
            (void)ten_find_slots(arguments, role);
        return r == TENURE_E_LOST ? TEN_EXIT_FAILED : exit_code;
    }
    if (wait_ms > 0)
        r = wait_for_end(arguments);
    if (r == TENURE_E_HELD)
        fprintf(stderr, "tenure: %s was asked, and still leads %s; --force takes it away\n", from, role);
    else if (r < 0)
        return ten_arguments_error(arguments, r);
    else
        ten_arguments_note(arguments, "%s %s %s", from, wait_ms ? "no longer leads" : "was asked to hand over", role);
    return ten_exit_code(r);
}

static int force(const ten_arguments *arguments) {
    const char *role = arguments->operands[0];
    bool released = false;
    int r = tenure_force_release(arguments->context, role, from, now ? TENURE_NOW : 0, &released);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    if (!released && ten_find_slots(arguments, role))
        return TEN_EXIT_FAILED;
    if (!released) {
        tenure_leader leader = {.size = sizeof leader};
        (void)tenure_leader_read(arguments->context, arguments->namespace_name, role, &leader);
        bool leads = strcmp(leader.instance, from) == 0;
        ten_say_format(
            leads ? "%.200s leads %.200s as another program, which cannot be barred from renewing; --now takes "
                    "the role away, though that program may go on for a while"
                  : "%.200s does not lead %.200s; 'tenure elect --observe' shows who does",
            from, role);
        return leads ? TEN_EXIT_HELD : TEN_EXIT_FAILED;
    }
    if (now)
        ten_arguments_note(arguments,
                           "%s is free at once; %s may believe in its lease until that would have ended, and only a "
                           "consumer that compares tokens can refuse what it still sends",
                           role, from);
    else
        ten_arguments_note(arguments,
                           "%s can no longer renew %s; it is free when its work has stopped, or its lease expires",
                           from, role);
    return TEN_EXIT_DONE;
}

static int check(ten_arguments *arguments) {
    const ten_rule rules[] = {{!from, "resign needs --from INSTANCE: who is to hand it over"},
                              {now && !forces, "--now goes with --force"}};
    return TEN_CHECK_RULES(arguments, rules);
}

static int run(ten_arguments *arguments) {
    static char found[TENURE_HOLDER_MAX + 1];
    if (!ten_find_instance(arguments, &from, found))
        return TEN_EXIT_USAGE;
    return forces ? force(arguments) : ask(arguments);
}

const ten_command ten_cmd_resign = {
    TEN_HELP_resign, .default_namespace = "leader", .options = options,       .takes = TEN_TAKES_ROLE,
    .check = check,  .store = TEN_STORE_ANY,        .wants = TEN_WANTED_HELD, .run = run};
