/*
 * tenure plan: a dry run of the plan, as it is and as it would be with other instances.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/fleet_listing.h"
#include "cli/table.h"
#include "cli/visible.h"

struct dry_run {
    const ten_arguments *arguments;
    const ten_view *view;
    ten_table table;
    size_t moves;
};

static const char *name_of(const ten_view *view, uint32_t instance) {
    return instance == TEN_PLAN_NONE ? "-" : ten_plan_instance_id(view->plan, instance);
}

static void add_row(struct dry_run *run, const char *target, const char *from, const char *to) {
    if (!run->arguments->json) {
        ten_table_row(&run->table, (const char *const[]){target, from, to});
        return;
    }
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "target", target);
    ten_json_text(&line, "namespace", run->arguments->namespace_name);
    ten_json_text(&line, "from", strcmp(from, "-") == 0 ? NULL : from);
    ten_json_text(&line, "planned", strcmp(to, "-") == 0 ? NULL : to);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

/* Applies what is asked for to the view's plan, and prints what that moves. */
static int change_plan(struct dry_run *run, uint32_t add, const ten_option_list *remove) {
    ten_plan *plan = run->view->plan;
    uint32_t bound = ten_plan_target_bound(plan);
    char(*before)[TENURE_HOLDER_MAX + 1] = calloc(bound ? bound : 1, sizeof *before);
    if (!before)
        return TEN_EXIT_FAILED;
    for (uint32_t i = 0; i < bound; i++)
        snprintf(before[i], sizeof before[i], "%s", name_of(run->view, ten_plan_holder(plan, i)));
    bool made = true;
    for (size_t i = 0; i < remove->count; i++) {
        uint32_t number = ten_plan_find_instance(plan, remove->items[i]);
        if (number == TEN_PLAN_NONE) {
            free(before);
            return ten_arguments_usage(run->arguments,
                                       "--remove: there is no live instance %.80s; 'tenure nodes' lists them",
                                       remove->items[i]);
        }
        ten_plan_remove_instance(plan, number);
    }
    for (uint32_t i = 0; made && i < add; i++) {
        char id[32];
        snprintf(id, sizeof id, "new-%u", i + 1);
        made = ten_plan_set_instance(plan, id, 1) != TEN_PLAN_NONE;
    }
    made = made && ten_plan_settle(plan);
    for (uint32_t i = 0; made && i < bound; i++) {
        const char *now = name_of(run->view, ten_plan_holder(plan, i));
        if (!ten_plan_target_id(plan, i) || strcmp(before[i], now) == 0)
            continue;
        add_row(run, ten_plan_target_id(plan, i), before[i], now);
        run->moves++;
    }
    free(before);
    return made ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
}

static void print_plan(struct dry_run *run) {
    for (size_t i = 0; i < run->view->target_count; i++) {
        const tenure_info *info = &run->view->targets[i];
        const char *planned = ten_view_planned(run->view, info->target);
        if (ten_plan_find_target(run->view->plan, info->target) != TEN_PLAN_NONE)
            add_row(run, info->target, info->holder[0] ? info->holder : "-", planned[0] ? planned : "-");
    }
}

static void print_share(const char *instance, size_t share) {
    char *shown = ten_visible(instance);
    fprintf(stderr, "tenure: %-44s %zu targets\n", shown ? shown : "?", share);
    ten_free(shown);
}

static void print_shares(const struct dry_run *run) {
    const ten_plan *plan = run->view->plan;
    for (uint32_t i = 0; i < ten_plan_instance_bound(plan); i++)
        if (ten_plan_instance_id(plan, i))
            print_share(ten_plan_instance_id(plan, i), ten_plan_share(plan, i));
}

int ten_cmd_plan(const ten_command *command, int argc, char **argv) {
    static const char *const headings[] = {"TARGET", "FROM", "TO"};
    static const char *const plan_headings[] = {"TARGET", "HOLDER", "PLANNED"};
    ten_arguments arguments;
    uint32_t add = 0;
    ten_option_list remove = {0};
    const ten_option options[] = {
        {"add", TEN_OPTION_NUMBER, &add, "N", "with N more instances", NULL, NULL},
        {"remove", TEN_OPTION_LIST, &remove, "INSTANCE", "without that instance; may be repeated", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    if (arguments.count != 0 || add > 10000)
        return ten_arguments_usage(&arguments, add > 10000 ? "--add is at most 10000" : "plan takes no arguments");
    if (!ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    static char found[TEN_OPTION_LIST_MAX][TENURE_HOLDER_MAX + 1];
    for (size_t i = 0; i < remove.count; i++)
        if (!ten_find_instance(&arguments, &remove.items[i], found[i]))
            return ten_arguments_close(&arguments, TEN_EXIT_USAGE);
    ten_view view;
    int r = ten_view_read(&arguments, &view);
    if (r < 0)
        return ten_arguments_close(&arguments, ten_arguments_error(&arguments, r));
    bool changes = add > 0 || remove.count > 0;
    struct dry_run run = {.arguments = &arguments, .view = &view};
    ten_table_start(&run.table, changes ? headings : plan_headings, TEN_COUNT(headings));
    exit_code = TEN_EXIT_DONE;
    if (changes)
        exit_code = change_plan(&run, add, &remove);
    else
        print_plan(&run);
    if (!ten_table_end(&run.table))
        exit_code = TEN_EXIT_FAILED;
    if (exit_code == TEN_EXIT_DONE && view.target_count == 0)
        ten_find_nothing(&arguments, "targets");
    if (exit_code == TEN_EXIT_DONE && !arguments.json)
        print_shares(&run);
    if (exit_code == TEN_EXIT_DONE && changes && !arguments.json)
        fprintf(stderr, "tenure: %zu of %zu targets would move\n", run.moves, ten_plan_target_count(view.plan));
    ten_view_free(&view);
    return ten_arguments_close(&arguments, exit_code);
}
