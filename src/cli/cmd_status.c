/*
 * tenure status: who holds what, who should, and why the two differ.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/fleet_listing.h"
#include "cli/lease_output.h"
#include "cli/table.h"
#include "cli/visible.h"

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
    char token[24];
    char age[TEN_DURATION_SIZE];
    char remaining[TEN_DURATION_SIZE];
    char pin[TEN_PIN_WORDS_SIZE];
    char room[WHY_SIZE];
    ten_print_pin_words(info, pin);
    snprintf(token, sizeof token, "%llu", (unsigned long long)info->token);
    ten_duration_show(ten_sub_saturating(ten_wall_ms(&ten_system_clock), info->acquired_at_ms), age);
    ten_duration_show(info->remaining_ms, remaining);
    bool as_planned = held && strcmp(planned, info->holder) == 0;
    ten_table_row(table, (const char *const[]){info->target, held ? info->holder : "-",
                                               as_planned   ? "="
                                               : planned[0] ? planned
                                                            : "-",
                                               token, held ? age : "-", held ? remaining : "-",
                                               why(view, info, planned, pin, room)});
}

static bool print_all(const ten_session *session, const ten_view *view) {
    static const char *const headings[] = {"TARGET", "HOLDER", "PLANNED", "TOKEN", "AGE", "REMAINING", "WHY"};
    ten_table table;
    ten_table_start(&table, headings, TEN_COUNT(headings));
    for (size_t i = 0; i < view->target_count; i++) {
        const tenure_info *info = &view->targets[i];
        if (session->json)
            ten_print_info_json(info, session->namespace_name, ten_view_planned(view, info->target));
        else
            add_row(&table, view, info);
    }
    return ten_table_end(&table);
}

static int show(ten_session *session) {
    ten_view view;
    int r = ten_view_read(session, &view);
    if (r < 0)
        return ten_session_error(session, r);
    bool complete = print_all(session, &view);
    if (view.target_count == 0)
        ten_find_nothing(session, "targets");
    ten_view_free(&view);
    return complete ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
}

/* `status --watch` is the former name of `top`. Not documented. */
static bool take_watch(int *argc, char **argv) {
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--watch") != 0)
            continue;
        memmove(&argv[i], &argv[i + 1], (size_t)(*argc - i) * sizeof argv[0]);
        --*argc;
        return true;
    }
    return false;
}

int ten_cmd_status(const ten_command *command, int argc, char **argv) {
    ten_session session;
    int exit_code;
    if (take_watch(&argc, argv))
        return ten_cmd_top(ten_command_find("top"), argc, argv);
    if (!ten_session_parse(&session, command, NULL, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 0)
        return ten_session_usage(&session, "status takes no arguments; 'tenure show ID' shows one target");
    if (!ten_session_open(&session, &exit_code))
        return exit_code;
    exit_code = show(&session);
    return ten_session_close(&session, exit_code);
}
