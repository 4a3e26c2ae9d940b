/*
 * tenure namespaces: which namespaces a store has, and how much is in each of them.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/visible.h"

struct counts {
    size_t targets;
    size_t held;
    size_t instances;
};

struct names {
    char (*at)[TENURE_NAMESPACE_MAX + 1];
    size_t count;
};

static int keep_name(const char *name, void *userdata) {
    struct names *names = userdata;
    char(*at)[TENURE_NAMESPACE_MAX + 1] = ten_realloc(names->at, (names->count + 1) * sizeof *at);
    if (!at)
        return TENURE_E_NOMEM;
    names->at = at;
    snprintf(at[names->count++], sizeof *at, "%s", name);
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
    if (r == TENURE_OK)
        r = tenure_target_list(context, TENURE_ALL, count_target, counts);
    if (r == TENURE_OK)
        r = tenure_instance_list(context, count_instance, counts);
    if (r < 0) {
        ten_say(tenure_message(context));
        r = ten_exit_code(r);
    }
    (void)tenure_close(context);
    return r;
}

static void print_json(const char *name, const struct counts *counts) {
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "namespace", name);
    ten_json_number(&line, "targets", counts->targets);
    ten_json_number(&line, "held", counts->held);
    ten_json_number(&line, "instances", counts->instances);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

static void add_row(ten_table *table, const char *name, const struct counts *counts) {
    char targets[24];
    char held[24];
    char instances[24];
    snprintf(targets, sizeof targets, "%zu", counts->targets);
    snprintf(held, sizeof held, "%zu", counts->held);
    snprintf(instances, sizeof instances, "%zu", counts->instances);
    ten_table_row(table, (const char *const[]){name, targets, held, instances});
}

static int print_all(const ten_arguments *arguments, const struct names *names) {
    static const char *const headings[] = {"NAMESPACE", "TARGETS", "HELD", "INSTANCES"};
    int exit_code = TEN_EXIT_DONE;
    ten_table table;
    ten_table_start(&table, headings, TEN_COUNT(headings));
    for (size_t i = 0; exit_code == TEN_EXIT_DONE && i < names->count; i++) {
        struct counts counts;
        exit_code = count_in(arguments, names->at[i], &counts);
        if (exit_code == TEN_EXIT_DONE && arguments->json)
            print_json(names->at[i], &counts);
        else if (exit_code == TEN_EXIT_DONE)
            add_row(&table, names->at[i], &counts);
    }
    bool complete = ten_table_end(&table);
    return exit_code == TEN_EXIT_DONE && !complete ? TEN_EXIT_FAILED : exit_code;
}

int ten_cmd_namespaces(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, NULL, argc, argv, &exit_code))
        return exit_code;
    if (arguments.count != 0)
        return ten_arguments_usage(&arguments, "namespaces takes no arguments");
    if (!ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    struct names names = {0};
    int r = tenure_namespace_list(arguments.context, keep_name, &names);
    exit_code = r < 0 ? ten_arguments_error(&arguments, r) : print_all(&arguments, &names);
    ten_free(names.at);
    return ten_arguments_close(&arguments, exit_code);
}
