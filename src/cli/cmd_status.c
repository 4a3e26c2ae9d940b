/*
 * tenure status: who holds what, who should, and why the two differ.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/fleet_listing.h"
#include "cli/lease_output.h"
#include "cli/table.h"
#include "cli/visible.h"

#define REDRAW_MS 1000u

/* pin: what its pin says, which is why it is where it is planned. */
static const char *why(const ten_view *view, const tenure_info *info, const char *planned, const char *pin) {
    if (info->paused)
        return info->holder[0] ? "paused: being released" : "paused";
    if (info->barred)
        return "forced: waits for its end";
    if (info->holder[0] == '\0')
        return view->instance_count == 0 ? "no instance is there"
               : planned[0]              ? "about to be taken"
                                         : "nobody to plan for";
    if (strcmp(info->holder, planned) == 0)
        return pin;
    const ten_view_instance *holder = ten_view_instance_find(view, info->holder);
    if (!holder)
        return planned[0] ? "holder is gone: waits for its end" : "held outside the fleet (elect, acquire or REST)";
    return holder->weight == 0 ? "draining" : "being handed over";
}

static void add_row(ten_table *table, const ten_view *view, const tenure_info *info) {
    const char *planned = ten_view_planned(view, info->target);
    bool held = info->holder[0] != '\0';
    char token[24];
    char age[TEN_DURATION_SIZE];
    char remaining[TEN_DURATION_SIZE];
    char pin[TEN_PIN_WORDS_SIZE];
    ten_pin_words(info, pin);
    snprintf(token, sizeof token, "%llu", (unsigned long long)info->token);
    ten_duration_show(ten_sub_saturating(ten_wall_ms(&ten_system_clock), info->acquired_at_ms), age);
    ten_duration_show(info->remaining_ms, remaining);
    bool as_planned = held && strcmp(planned, info->holder) == 0;
    ten_table_row(table,
                  (const char *const[]){info->target, held ? info->holder : "-",
                                        as_planned   ? "="
                                        : planned[0] ? planned
                                                     : "-",
                                        token, held ? age : "-", held ? remaining : "-", why(view, info, planned, pin)});
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

static void print_summary(const ten_session *session, const ten_view *view) {
    size_t held = 0;
    size_t strayed = 0;
    for (size_t i = 0; i < view->target_count; i++) {
        const tenure_info *info = &view->targets[i];
        held += info->holder[0] != '\0';
        strayed += info->holder[0] && strcmp(info->holder, ten_view_planned(view, info->target)) != 0;
    }
    printf("%s: %zu instances, %zu targets, %zu held, %zu of them not where they are planned\n\n",
           session->namespace_name, view->instance_count, view->target_count, held, strayed);
    for (size_t i = 0; i < view->instance_count; i++) {
        const ten_view_instance *instance = &view->instances[i];
        uint32_t number = ten_plan_find_instance(view->plan, instance->id);
        size_t planned = number == TEN_PLAN_NONE ? 0 : ten_plan_share(view->plan, number);
        char *id = ten_visible(instance->id);
        printf("  %-44s %3zu held, %3zu planned ", id ? id : "?", instance->held, planned);
        ten_free(id);
        for (size_t bar = 0; bar < instance->held && bar < 40; bar++)
            printf("#");
        printf("%s%s", instance->weight == 0 ? " draining" : "", instance->metadata.isolation[0] ? "  isolation " : "");
        ten_print_visible(stdout, instance->metadata.isolation);
        printf("\n");
    }
    printf("\n");
}

static int show_once(ten_session *session, bool live) {
    ten_view view;
    int r = ten_view_read(session, &view);
    if (r < 0)
        return ten_session_error(session, r);
    if (live)
        printf("\033[H\033[J");
    if (live)
        print_summary(session, &view);
    bool complete = print_all(session, &view);
    (void)fflush(stdout);
    if (view.target_count == 0 && !live)
        ten_find_nothing(session, "targets");
    ten_view_free(&view);
    return complete ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
}

/* Redrawn when something changes, and once a second for the times. */
static int show_live(ten_session *session) {
    uint64_t cursor = 0;
    int exit_code = TEN_EXIT_DONE;
    (void)tenure_watch_start(session->context, &cursor);
    while (!ten_session_signal() && !ferror(stdout)) {
        exit_code = show_once(session, isatty(STDOUT_FILENO) == 1);
        int r = tenure_watch_wait(session->context, &cursor, REDRAW_MS, NULL, NULL);
        if (r < 0 && r != TENURE_E_RESYNC && !tenure_error_retryable(r))
            return exit_code;
    }
    return ten_session_signal() ? TEN_EXIT_DONE : exit_code;
}

int ten_cmd_status(const ten_command *command, int argc, char **argv) {
    ten_session session;
    bool live = false;
    const ten_option options[] = {
        {"watch", TEN_OPTION_FLAG, &live, NULL, "a live view, until stopped", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 0)
        return ten_session_usage(&session, "status takes no arguments; 'tenure show ID' shows one target");
    if (!ten_session_open(&session, &exit_code))
        return exit_code;
    exit_code = live ? show_live(&session) : show_once(&session, false);
    return ten_session_close(&session, exit_code);
}
