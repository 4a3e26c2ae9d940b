/*
 * Pins as the commands set them. See pinning.h.
 */
#include "cli/pinning.h"

#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "cli/find.h"
#include "cli/fleet_listing.h"
#include "cli/visible.h"

static int is_the_one(const tenure_instance *instance, void *userdata) {
    return strcmp(instance->instance, userdata) == 0;
}

bool ten_pinning_find(const ten_arguments *arguments, const char *text, tenure_pin *pin, int *ret_exit_code) {
    const char *instance = text;
    char found[TENURE_HOLDER_MAX + 1];
    *ret_exit_code = TEN_EXIT_USAGE;
    if (!ten_find_instance(arguments, &instance, found))
        return false;
    snprintf(pin->instance, sizeof pin->instance, "%s", instance);
    /* A restart gives an instance another id, so a pin to one that is not there would never have an effect. */
    int r = tenure_instance_list(arguments->context, is_the_one, pin->instance);
    *ret_exit_code = r < 0 ? ten_arguments_error(arguments, r) : TEN_EXIT_FAILED;
    if (r == 0)
        ten_say_format("there is no instance %.255s in the namespace %s; 'tenure nodes' lists them", text,
                       arguments->namespace_name);
    return r > 0;
}

bool ten_pinning_set_reason(const ten_arguments *arguments, const char *reason, tenure_pin *pin, int *ret_exit_code) {
    bool fits = !reason || strlen(reason) <= TENURE_PIN_REASON_MAX;
    if (!fits)
        *ret_exit_code = ten_arguments_usage(arguments, "--reason has at most 200 bytes");
    else
        snprintf(pin->reason, sizeof pin->reason, "%s", reason ? reason : "");
    return fits;
}

int ten_pinning_read(const ten_arguments *arguments, const char *target, const tenure_pin *pin,
                     ten_pinning_effect *effect) {
    TEN_CLEANUP(ten_view_free) ten_view view = {0};
    *effect = (ten_pinning_effect){0};
    int r = ten_view_read(arguments, &view);
    if (r < 0)
        return r;
    const char *planned = ten_view_planned(&view, target);
    effect->idle = (strcmp(planned, pin->instance) == 0) == pin->away;
    ten_id_shorten(planned, effect->planned);
    for (size_t i = 0; i < view.target_count; i++)
        if (strcmp(view.targets[i].target, target) == 0)
            ten_id_shorten(view.targets[i].holder, effect->holder);
    return TENURE_OK;
}
