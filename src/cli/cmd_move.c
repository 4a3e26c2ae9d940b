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
static void say_effect(const ten_session *session, const char *target, const tenure_pin *pin) {
    char instance[TENURE_HOLDER_MAX + 1];
    char lasts[TEN_DURATION_SIZE];
    ten_pinning_effect effect;
    ten_id_shorten(pin->instance, instance);
    ten_duration_show(pin->remaining_ms, lasts);
    const char *how = pin->away ? "kept away from" : "pinned to";
    if (ten_pinning_read(session, target, pin, &effect) < 0)
        ten_session_note(session, "%s is %s %s for %s", target, how, instance, lasts);
    else if (effect.idle)
        ten_session_note(session, "%s is %s %s for %s; this has no effect now, because %s", target, how, instance,
                         lasts, pin->away ? "no other instance takes targets" : "that instance is draining");
    else if (strcmp(effect.holder, effect.planned) == 0)
        ten_session_note(session, "%s is %s %s for %s; %s holds it", target, how, instance, lasts, effect.planned);
    else if (effect.holder[0])
        ten_session_note(session, "%s is %s %s for %s; %s hands it over to %s", target, how, instance, lasts,
                         effect.holder, effect.planned);
    else
        ten_session_note(session, "%s is %s %s for %s; %s takes it", target, how, instance, lasts, effect.planned);
}

static int undo(const ten_session *session, const char *target) {
    int r = tenure_registry_unpin(session->context, target);
    if (r < 0)
        return ten_session_error(session, r);
    ten_session_note(session, "%s is no longer pinned; the plan decides who holds it", target);
    return TEN_EXIT_DONE;
}

static int pin_target(const ten_session *session, const struct given *given) {
    const char *target = session->arguments[0];
    tenure_pin pin = {.size = sizeof pin,
                      .away = given->not != NULL,
                      .remaining_ms = given->for_ms ? given->for_ms : TENURE_PIN_DEFAULT_MS};
    int exit_code;
    if (!ten_pinning_set_reason(session, given->reason, &pin, &exit_code) ||
        !ten_pinning_find(session, given->not ? given->not : session->arguments[1], &pin, &exit_code))
        return exit_code;
    int r = tenure_registry_pin(session->context, target, &pin);
    if (r < 0)
        return ten_session_error(session, r);
    say_effect(session, target, &pin);
    return TEN_EXIT_DONE;
}

static int check_usage(const ten_session *session, const struct given *given) {
    if (given->undo && (given->not || given->reason || given->for_ms))
        return ten_session_usage(session, "--undo takes no other option");
    if (session->count != (given->undo || given->not ? 1 : 2))
        return ten_session_usage(session, "move takes a target and an instance, a target and --not INSTANCE, or a "
                                          "target and --undo");
    ten_session one = *session;
    one.count = 1;
    return ten_session_check_targets(&one, 0);
}

int ten_cmd_move(const ten_command *command, int argc, char **argv) {
    ten_session session;
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
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    /* "host-b 8758" is two words to a shell. */
    if (session.count == 3 && snprintf(words, sizeof words, "%s %s", session.arguments[1], session.arguments[2]) > 0) {
        session.arguments[1] = words;
        session.count = 2;
    }
    exit_code = check_usage(&session, &given);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    exit_code = given.undo ? undo(&session, session.arguments[0]) : pin_target(&session, &given);
    return ten_session_close(&session, exit_code);
}
