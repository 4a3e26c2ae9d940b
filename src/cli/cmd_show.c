/*
 * tenure show: one target, who holds it, since when, and for how long.
 */
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/lease_output.h"

static int run(ten_arguments *arguments) {
    tenure_info info = {.size = sizeof info};
    tenure_pin pin = {.size = sizeof pin};
    int r = tenure_target_read(arguments->context, arguments->operands[0], &info);
    if (r < 0) {
        int exit_code = ten_arguments_error(arguments, r);
        if (r == TENURE_E_UNKNOWN_TARGET)
            (void)ten_find_slots(arguments, arguments->operands[0]);
        return exit_code;
    }
    if (info.registered && tenure_registry_pin_read(arguments->context, info.target, &pin) == TENURE_OK) {
        memcpy(info.pin_instance, pin.instance, sizeof info.pin_instance);
        info.pin_remaining_ms = pin.remaining_ms;
        info.pin_away = pin.away;
    }
    if (arguments->json)
        (void)ten_lease_print_json(&info, arguments->namespace_name, NULL);
    else
        ten_lease_print_lines(&info, arguments->namespace_name, &pin);
    return TEN_EXIT_DONE;
}

const ten_command ten_cmd_show = {TEN_HELP_show, .takes = TEN_TAKES_TARGET, .store = TEN_STORE_EXISTING,
                                  .wants = TEN_WANTED_KNOWN, .run = run};
