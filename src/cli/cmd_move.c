/*
 * tenure move: pins a target to an instance, or keeps it away from one, for a while.
 */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/id.h"
#include "cli/commands.h"
#include "cli/pinning.h"

struct given {
    bool undo;
    const char * not ;
    const char *reason;
    uint64_t for_ms;
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

static int undo(const ten_arguments *arguments, const char *target) {
    int r = tenure_registry_unpin(arguments->context, target);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    ten_arguments_note(arguments, "%s is no longer pinned; the plan decides who holds it", target);
    return TEN_EXIT_DONE;
}

static int pin_target(const ten_arguments *arguments, const struct given *given) {
    const char *target = arguments->operands[0];
    tenure_pin pin = {.size = sizeof pin,
                      .away = given->not != NULL,
                      .remaining_ms = given->for_ms ? given->for_ms : TENURE_PIN_DEFAULT_MS};
    int exit_code;
    if (!ten_pinning_set_reason(arguments, given->reason, &pin, &exit_code) ||
        !ten_pinning_find(arguments, given->not ? given->not : arguments->operands[1], &pin, &exit_code))
        return exit_code;
    int r = tenure_registry_pin(arguments->context, target, &pin);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    say_effect(arguments, target, &pin);
    return TEN_EXIT_DONE;
}

static int check_usage(const ten_arguments *arguments, const struct given *given) {
    if (given->undo && (given->not || given->reason || given->for_ms))
        return ten_arguments_usage(arguments, "--undo takes no other option");
    if (arguments->count != (given->undo || given->not ? 1 : 2))
        return ten_arguments_usage(arguments, "move takes a target and an instance, a target and --not INSTANCE, or a "
                                              "target and --undo");
    ten_arguments one = *arguments;
    one.count = 1;
    return ten_arguments_check_targets(&one, 0);
}

int ten_cmd_move(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    struct given given = {0};
    const ten_option options[] = {
        {"not", TEN_OPTION_TEXT, &given.not, "INSTANCE", "any instance but this one", NULL, NULL},
        {"for", TEN_OPTION_PERIOD, &given.for_ms, "D", "how long the pin lasts (default 1h)", NULL, NULL},
        {"reason", TEN_OPTION_TEXT, &given.reason, "R", "shown by show, ls and the page", NULL, NULL},
        {"undo", TEN_OPTION_FLAG, &given.undo, NULL, "take the pin back", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    char words[TENURE_HOLDER_MAX + 1];
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    /* "host-b 8758" is two words to a shell. */
    if (arguments.count == 3 &&
        snprintf(words, sizeof words, "%s %s", arguments.operands[1], arguments.operands[2]) > 0) {
        arguments.operands[1] = words;
        arguments.count = 2;
    }
    exit_code = check_usage(&arguments, &given);
    if (exit_code || !ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    exit_code = given.undo ? undo(&arguments, arguments.operands[0]) : pin_target(&arguments, &given);
    return ten_arguments_close(&arguments, exit_code);
}
