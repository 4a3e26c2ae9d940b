/*
 * tenure who: the leader of a role and those who wait to lead it, once.
 */
#include "cli/commands.h"
#include "cli/fleet_listing.h"

struct listing {
    const ten_arguments *arguments;
    const ten_view *view;
    ten_table table;
    size_t leaders;
};

static void add(struct listing *listing, const char *target, const char *state, const char *instance, uint64_t since_ms,
                uint64_t token) {
    const ten_view_instance *known = ten_view_instance_find(listing->view, instance);
    (void)TEN_TABLE_ADD(&listing->table, {"ROLE", "target", .text = target},
                        {NULL, "namespace", .text = listing->arguments->namespace_name},
                        {"STATE", "state", .text = state}, {"INSTANCE", "instance", .text = instance},
                        {"TOKEN", "token", TEN_COLUMN_NUMBER, .number = ten_or_none(token)},
                        {"FOR", "since", TEN_COLUMN_AGE, .number = since_ms},
                        {"ADDRESS", "address", TEN_COLUMN_TEXT, .optional = true,
                         .text = known ? ten_or_null(known->metadata.address) : NULL});
}

static bool leads(const ten_view *view, const char *role, const char *instance) {
    for (size_t i = 0; i < view->target_count; i++)
        if (ten_view_is_of_role(view->targets[i].target, role) && strcmp(view->targets[i].holder, instance) == 0)
            return true;
    return false;
}

static void list(struct listing *listing) {
    const ten_view *view = listing->view;
    const char *role = listing->arguments->operands[0];
    for (size_t i = 0; i < view->target_count; i++) {
        const tenure_info *info = &view->targets[i];
        if (!ten_view_is_of_role(info->target, role) || info->holder[0] == '\0')
            continue;
        listing->leaders++;
        add(listing, info->target, "leading", info->holder, info->acquired_at_ms, info->token);
    }
    /* A lease of another program is in no listing. */
    tenure_info info = {.size = sizeof info};
    if (listing->leaders == 0 && tenure_target_read(listing->arguments->context, role, &info) == TENURE_OK &&
        info.holder[0] && ++listing->leaders)
        add(listing, role, "leading", info.holder, info.acquired_at_ms, info.token);
    for (size_t i = 0; i < view->instance_count; i++) {
        const ten_view_instance *instance = &view->instances[i];
        if (strcmp(instance->metadata.role, role) == 0 && !leads(view, role, instance->id))
            add(listing, role, instance->draining ? "drained" : "waiting", instance->id, instance->since_ms, 0);
    }
}

static int run(ten_arguments *arguments) {
    TEN_CLEANUP(ten_view_free) ten_view view = {0};
    int r = ten_view_read(arguments, &view);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    struct listing listing = {.arguments = arguments, .view = &view};
    ten_table_start(&listing.table, arguments);
    list(&listing);
    int exit_code = ten_table_end(&listing.table, listing.leaders > 0 ? TEN_EXIT_DONE : TEN_EXIT_FAILED);
    if (listing.leaders == 0)
        ten_arguments_note(arguments, "nobody leads %s", arguments->operands[0]);
    return exit_code;
}

const ten_command ten_cmd_who = {TEN_HELP_who,
                                 .default_namespace = "leader",
                                 .takes = TEN_TAKES_ROLE,
                                 .store = TEN_STORE_EXISTING,
                                 .wants = TEN_WANTED_ROLE,
                                 .run = run};
