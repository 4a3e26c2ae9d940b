/*
 * tenure move: pins a target to an instance, or keeps it away from one, for a while.
 */
#include "base/duration.h"
#include "base/id.h"
#include "cli/commands.h"
#include "cli/pinning.h"

static struct given {
    bool undo;
    const char *other_than;
    const char *reason;
    uint64_t for_ms;
} given;

static const ten_option options[] = {
    TEN_OPT_TEXT("not", "INSTANCE", &given.other_than, "any instance but this one"),
    TEN_OPT_PERIOD("for", "D", &given.for_ms, "how long the pin lasts (default 1h)"),
    TEN_OPT_TEXT("reason", "R", &given.reason, "shown by show, ls and the page"),
    TEN_OPT_FLAG("undo", &given.undo, "take the pin back"),
    TEN_OPT_END,
};

/* What will happen, as far as can be seen now. */
static void say_effect(const ten_arguments *arguments, const char *target, const tenure_pin *pin) {
    char instance[TENURE_HOLDER_MAX + 1];
    char lasts[TEN_DURATION_SIZE];
    ten_pinning_effect effect;
    ten_id_shorten(pin->instance, instance);
    ten_duration_show(pin->remaining_ms, lasts);
    const char *how = pin->away ? "kept away from" : "pinned to";
    if (ten_pinning_read(arguments, target, pin, &effect) < 0)
        ten_arguments_note(arguments, "%s is %s %s for %s", target, how, instance, lasts);
    else if (effect.idle)
        ten_arguments_note(arguments, "%s is %s %s for %s; this has no effect now, because %s", target, how, instance,
                           lasts, pin->away ? "no other instance takes targets" : "that instance is draining");
    else if (strcmp(effect.holder, effect.planned) == 0)
        ten_arguments_note(arguments, "%s is %s %s for %s; %s holds it", target, how, instance, lasts, effect.planned);
    else if (effect.holder[0])
        ten_arguments_note(arguments, "%s is %s %s for %s; %s hands it over to %s", target, how, instance, lasts,
                           effect.holder, effect.planned);
    else
        ten_arguments_note(arguments, "%s is %s %s for %s; %s takes it", target, how, instance, lasts, effect.planned);
}

static int undo(const ten_arguments *arguments) {
    const char *target = arguments->operands[0];
    int r = tenure_registry_unpin(arguments->context, target);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    ten_arguments_note(arguments, "%s is no longer pinned; the plan decides who holds it", target);
    return TEN_EXIT_DONE;
}

static int pin_target(const ten_arguments *arguments) {
    const char *target = arguments->operands[0];
    tenure_pin pin = {.size = sizeof pin,
                      .away = given.other_than != NULL,
                      .remaining_ms = given.for_ms ? given.for_ms : TENURE_PIN_DEFAULT_MS};
    int exit_code;
    if (!ten_pinning_set_reason(arguments, given.reason, &pin, &exit_code) ||
        !ten_pinning_find(arguments, given.other_than ? given.other_than : arguments->operands[1], &pin, &exit_code))
        return exit_code;
    int r = tenure_registry_pin(arguments->context, target, &pin);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    say_effect(arguments, target, &pin);
    return TEN_EXIT_DONE;
}

static int check(ten_arguments *arguments) {
    static char words[TENURE_HOLDER_MAX + 1];
    ten_arguments_join(arguments, 1, words);
    if (given.undo && (given.other_than || given.reason || given.for_ms))
        return ten_arguments_usage(arguments, "--undo takes no other option");
    if (arguments->count != (given.undo || given.other_than ? 1 : 2))
        return ten_arguments_usage(arguments, "move takes a target and an instance, a target and --not INSTANCE, or a "
                                              "target and --undo");
    return ten_arguments_check_targets(arguments, 0, 1);
}

static int run(ten_arguments *arguments) {
    return given.undo ? undo(arguments) : pin_target(arguments);
}

const ten_command ten_cmd_move = {TEN_HELP_move, .options = options, .check = check, .store = TEN_STORE_EXISTING,
                                  .run = run};
