/*
 * tenure plan: a dry run of the plan, as it is and as it would be with other instances.
 */
#include "base/alloc.h"
#include "cli/commands.h"
#include "cli/fleet_listing.h"

static uint32_t add;
static ten_option_list remove_list;
static const ten_option options[] = {
    TEN_OPT_NUMBER("add", "N", &add, "with N more instances"),
    TEN_OPT_LIST("remove", "INSTANCE", &remove_list, "without that instance; may be repeated"),
    TEN_OPT_END,
};

static bool changes(void) {
    return add > 0 || remove_list.count > 0;
}

struct dry_run {
    const ten_arguments *arguments;
    const ten_view *view;
    ten_table table;
    size_t moves;
};

static const char *name_of(const ten_view *view, uint32_t instance) {
    return instance == TEN_PLAN_NONE ? "" : ten_plan_instance_id(view->plan, instance);
}

static void add_row(struct dry_run *run, const char *target, const char *from, const char *to) {
    (void)TEN_TABLE_ADD(&run->table, {"TARGET", "target", .text = target},
                        {NULL, "namespace", .text = run->arguments->namespace_name},
                        {changes() ? "FROM" : "HOLDER", "from", .text = ten_or_null(from)},
                        {changes() ? "TO" : "PLANNED", "planned", .text = ten_or_null(to)});
}

/* Applies what is asked for to the view's plan, and prints what that moves. */
static int change_plan(struct dry_run *run) {
    ten_plan *plan = run->view->plan;
    uint32_t bound = ten_plan_target_bound(plan);
    char(*before)[TENURE_HOLDER_MAX + 1] = calloc(bound ? bound : 1, sizeof *before);
    if (!before)
        return TEN_EXIT_FAILED;
    for (uint32_t i = 0; i < bound; i++)
        snprintf(before[i], sizeof before[i], "%s", name_of(run->view, ten_plan_holder(plan, i)));
    bool made = true;
    for (size_t i = 0; i < remove_list.count; i++) {
        uint32_t number = ten_plan_find_instance(plan, remove_list.items[i]);
        if (number == TEN_PLAN_NONE) {
            free(before);
            return ten_arguments_usage(run->arguments,
                                       "--remove: there is no live instance %.80s; 'tenure nodes' lists them",
                                       remove_list.items[i]);
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
            add_row(run, info->target, info->holder, planned);
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

static int check(ten_arguments *arguments) {
    return add > 10000 ? ten_arguments_usage(arguments, "--add is at most 10000") : TEN_EXIT_DONE;
}

static int print(const ten_arguments *arguments, const ten_view *view) {
    struct dry_run run = {.arguments = arguments, .view = view};
    int exit_code = TEN_EXIT_DONE;
    ten_table_start(&run.table, arguments);
    if (changes())
        exit_code = change_plan(&run);
    else
        print_plan(&run);
    exit_code = ten_table_end(&run.table, exit_code);
    if (exit_code == TEN_EXIT_DONE && view->target_count == 0)
        ten_find_nothing(arguments, "targets");
    if (exit_code == TEN_EXIT_DONE && !arguments->json)
        print_shares(&run);
    if (exit_code == TEN_EXIT_DONE && changes() && !arguments->json)
        fprintf(stderr, "tenure: %zu of %zu targets would move\n", run.moves, ten_plan_target_count(view->plan));
    return exit_code;
}

static int run(ten_arguments *arguments) {
    static char found[TEN_OPTION_LIST_MAX][TENURE_HOLDER_MAX + 1];
    TEN_CLEANUP(ten_view_free) ten_view view = {0};
    for (size_t i = 0; i < remove_list.count; i++)
        if (!ten_find_instance(arguments, &remove_list.items[i], found[i]))
            return TEN_EXIT_USAGE;
    int r = ten_view_read(arguments, &view);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    return print(arguments, &view);
}

const ten_command ten_cmd_plan = {TEN_HELP_plan,  .options = options,          .takes = TEN_TAKES_NOTHING,
                                  .check = check, .store = TEN_STORE_EXISTING, .run = run};
