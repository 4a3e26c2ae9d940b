/*
 * tenure namespaces: which namespaces a store has, and how much is in each of them.
 */
#include "base/alloc.h"
#include "cli/commands.h"

struct counts {
    size_t targets;
    size_t held;
    size_t instances;
};

struct names {
    char (*at)[TENURE_NAMESPACE_MAX + 1];
    uint32_t count;
    uint32_t room;
};

static int keep_name(const char *name, void *userdata) {
    struct names *names = userdata;
    if (!TEN_GROW(names->at, names->room, names->count + 1))
        return TENURE_E_NOMEM;
    snprintf(names->at[names->count++], sizeof *names->at, "%s", name);
    return 0;
}

static int count_target(const tenure_info *info, void *userdata) {
    struct counts *counts = userdata;
    counts->targets++;
    counts->held += info->holder[0] != '\0';
    return 0;
}

static int count_instance(const tenure_instance *instance, void *userdata) {
    (void)instance;
    ((struct counts *)userdata)->instances++;
    return 0;
}

/* A context has one namespace, so each needs one. */
static int count_in(const ten_arguments *arguments, const char *name, struct counts *counts) {
    tenure_context *context = NULL;
    tenure_options options = ten_arguments_options(arguments);
    options.namespace_name = name;
    *counts = (struct counts){0};
    int r = tenure_open(arguments->store, &options, &context);
    TEN_STEP(r, tenure_target_list(context, TENURE_ALL, count_target, counts));
    TEN_STEP(r, tenure_instance_list(context, count_instance, counts));
    if (r < 0) {
        ten_say(tenure_message(context));
        r = ten_exit_code(r);
    }
    (void)tenure_close(context);
    return r;
}

static int print_all(const ten_arguments *arguments, const struct names *names) {
    int exit_code = TEN_EXIT_DONE;
    ten_table table;
    ten_table_start(&table, arguments);
    for (size_t i = 0; exit_code == TEN_EXIT_DONE && i < names->count; i++) {
        struct counts counts;
        exit_code = count_in(arguments, names->at[i], &counts);
        if (exit_code == TEN_EXIT_DONE)
            (void)TEN_TABLE_ADD(&table, {"NAMESPACE", "namespace", .text = names->at[i]},
                                {"TARGETS", "targets", TEN_COLUMN_NUMBER, .number = counts.targets},
                                {"HELD", "held", TEN_COLUMN_NUMBER, .number = counts.held},
                                {"INSTANCES", "instances", TEN_COLUMN_NUMBER, .number = counts.instances});
    }
    return ten_table_end(&table, exit_code);
}

static int run(ten_arguments *arguments) {
    struct names names = {0};
    int r = tenure_namespace_list(arguments->context, keep_name, &names);
    int exit_code = r < 0 ? ten_arguments_error(arguments, r) : print_all(arguments, &names);
    ten_free(names.at);
    return exit_code;
}

const ten_command ten_cmd_namespaces = {TEN_HELP_namespaces, .takes = TEN_TAKES_NOTHING, .store = TEN_STORE_EXISTING,
                                        .run = run};
