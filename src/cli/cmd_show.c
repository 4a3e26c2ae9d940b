/*
 * tenure show: one target, who holds it, since when, and for how long.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/id.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/lease_output.h"
#include "cli/visible.h"

static void print_line(const char *key, const char *text) {
    printf("%-12s ", key);
    ten_print_visible(stdout, text);
    printf("\n");
}

static void print_time(const char *key, uint64_t wall_ms) {
    char text[TEN_RFC3339_SIZE];
    if (wall_ms == 0)
        return;
    ten_rfc3339(wall_ms, text);
    print_line(key, text);
}

static void print_pin(const tenure_pin *pin) {
    char instance[TENURE_HOLDER_MAX + 1];
    char left[TEN_DURATION_SIZE];
    char text[2 * TENURE_HOLDER_MAX + 64];
    if (pin->instance[0] == '\0')
        return;
    ten_id_shorten(pin->instance, instance);
    ten_duration_show(pin->remaining_ms, left);
    snprintf(text, sizeof text, "%s%s, for %s, by %s", pin->away ? "away from " : "to ", instance, left,
             pin->actor[0] ? pin->actor : "-");
    print_line("pinned", text);
    if (pin->reason[0])
        print_line("reason", pin->reason);
}

static void print_words(const tenure_info *info, const char *namespace_name) {
    char text[TEN_DURATION_SIZE];
    print_line("target", info->target);
    print_line("namespace", namespace_name);
    print_line("state", ten_state_word(info));
    if (info->holder[0])
        print_line("instance", info->holder);
    printf("%-12s %llu\n", "token", (unsigned long long)info->token);
    print_time("acquired_at", info->acquired_at_ms);
    print_time("renewed_at", info->renewed_at_ms);
    print_time("expires_at", info->expires_at_ms);
    if (info->holder[0]) {
        ten_duration_show(info->remaining_ms, text);
        print_line("remaining", text);
    }
    print_line("registered", !info->registered ? "no" : info->paused ? "yes, paused" : "yes");
}

int ten_cmd_show(const ten_command *command, int argc, char **argv) {
    ten_session session;
    int exit_code;
    if (!ten_session_parse(&session, command, NULL, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 1)
        return ten_session_usage(&session, "show takes one target id");
    exit_code = ten_session_check_targets(&session, 0);
    if (exit_code || !ten_session_open(&session, &exit_code))
        return exit_code;
    if (!ten_find_namespace(&session, &(ten_wanted){TEN_WANTED_KNOWN, session.arguments[0], 0}, &exit_code))
        return exit_code;
    tenure_info info = {.size = sizeof info};
    int r = tenure_target_read(session.context, session.arguments[0], &info);
    if (r < 0)
        exit_code = ten_session_error(&session, r);
    tenure_pin pin = {.size = sizeof pin};
    if (r == TENURE_OK && info.registered &&
        tenure_registry_pin_read(session.context, info.target, &pin) == TENURE_OK) {
        memcpy(info.pin_instance, pin.instance, sizeof info.pin_instance);
        info.pin_remaining_ms = pin.remaining_ms;
        info.pin_away = pin.away;
    }
    if (r == TENURE_OK && session.json)
        ten_print_info_json(&info, session.namespace_name, NULL);
    else if (r == TENURE_OK) {
        print_words(&info, session.namespace_name);
        print_pin(&pin);
    }
    return ten_session_close(&session, r < 0 ? exit_code : TEN_EXIT_DONE);
}
