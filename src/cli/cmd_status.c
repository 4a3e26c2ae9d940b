/*
 * tenure status: who holds what, who should, and why the two differ.
 */
#include "cli/commands.h"
#include "cli/fleet_listing.h"
#include "cli/lease_output.h"

#define WHY_SIZE 64u

/* Of a holder for which no plan is made. */
static const char *why_role(const ten_view *view, const tenure_info *info, char room[WHY_SIZE]) {
    ten_view_role_found role;
    if (!ten_view_role(view, info, &role))
        return "held by lock, once, acquire, REST or a library";
    if (!role.is_lock)
        return "leads";
    if (role.waiting == 0)
        return "holds the lock";
    snprintf(room, WHY_SIZE, "holds the lock; %zu wait%s", role.waiting, role.waiting == 1 ? "s" : "");
    return room;
}

/* pin: what its pin says, which is why it is where it is planned. */
static const char *why(const ten_view *view, const tenure_info *info, const char *planned, const char *pin,
                       char room[WHY_SIZE]) {
    if (info->paused)
        return info->holder[0] ? "paused: being released" : "paused";
    if (info->barred)
        return "forced: free when its lease expires";
    if (info->holder[0] == '\0')
        return view->instance_count == 0 ? "no live instance"
               : planned[0]              ? "about to be taken"
               : !info->registered       ? "not registered"
                                         : "no instance to plan for";
    if (strcmp(info->holder, planned) == 0)
        return pin;
    if (!ten_view_is_moving(view, info))
        return why_role(view, info, room);
    const ten_view_instance *holder = ten_view_instance_find(view, info->holder);
    if (!holder)
        return "holder is gone: free when its lease expires";
    return holder->weight == 0 ? "draining" : "being handed over";
}

static void add_row(ten_table *table, const ten_view *view, const tenure_info *info) {
    const char *planned = ten_view_planned(view, info->target);
    bool held = info->holder[0] != '\0';
    bool as_planned = held && strcmp(planned, info->holder) == 0;
    char pin[TEN_PIN_WORDS_SIZE];
    char room[WHY_SIZE];
    ten_print_pin_words(info, pin);
    (void)TEN_TABLE_ADD(table, {"TARGET", NULL, .text = info->target},
                        {"HOLDER", NULL, .text = ten_or_null(info->holder)},
                        {"PLANNED", NULL, .text = as_planned ? "=" : ten_or_null(planned)},
                        {"TOKEN", NULL, TEN_COLUMN_NUMBER, .number = info->token},
                        {"AGE", NULL, TEN_COLUMN_AGE, .number = held ? info->acquired_at_ms : TEN_NONE},
                        {"REMAINING", NULL, TEN_COLUMN_PERIOD, .number = held ? info->remaining_ms : TEN_NONE},
                        {"WHY", NULL, .text = why(view, info, planned, pin, room)});
}

static bool watch; /* the former name of `tenure top` */
static const ten_option options[] = {
    TEN_OPT_FLAG("watch", &watch, NULL),
    TEN_OPT_END,
};

static int check(ten_arguments *arguments) {
    if (arguments->count != 0)
        return ten_arguments_usage(arguments, "status takes no arguments; 'tenure show ID' shows one target");
    return watch ? ten_cmd_top.check(arguments) : TEN_EXIT_DONE;
}

static int run(ten_arguments *arguments) {
    TEN_CLEANUP(ten_view_free) ten_view view = {0};
    ten_table table;
    if (watch)
        return ten_cmd_top.run(arguments);
    int r = ten_view_read(arguments, &view);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    ten_table_start(&table, arguments);
    for (size_t i = 0; i < view.target_count; i++) {
        const tenure_info *info = &view.targets[i];
        if (arguments->json)
            (void)ten_lease_print_json(info, arguments->namespace_name, ten_view_planned(&view, info->target));
        else
            add_row(&table, &view, info);
    }
    return ten_find_end(arguments, &table, TENURE_OK, "targets");
}

const ten_command ten_cmd_status = {TEN_HELP_status, .options = options, .check = check, .store = TEN_STORE_EXISTING,
                                    .run = run};
