/*
 * tenure owner: which instance holds a target, where it can be reached, and under which token. For routing.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/visible.h"
#include "runtime/metadata.h"

struct search {
    const char *holder;
    ten_metadata_shown found;
    bool is_found;
};

static int look(const tenure_instance *instance, void *userdata) {
    struct search *search = userdata;
    if (strcmp(instance->instance, search->holder) != 0)
        return 0;
    ten_metadata_read(instance->metadata, &search->found);
    search->is_found = true;
    return 1;
}

static void print(const ten_arguments *arguments, const tenure_info *info, const ten_metadata_shown *holder) {
    if (!arguments->json) {
        ten_print_visible(stdout, info->holder);
        printf("\t");
        ten_print_visible(stdout, holder->address[0] ? holder->address : "-");
        printf("\t%llu\n", (unsigned long long)info->token);
        return;
    }
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "target", info->target);
    ten_json_text(&line, "namespace", arguments->namespace_name);
    ten_json_text(&line, "instance", info->holder);
    ten_json_text(&line, "address", holder->address[0] ? holder->address : NULL);
    ten_json_number(&line, "token", info->token);
    ten_json_raw(&line, "labels", holder->labels.size ? ten_buf_string(&holder->labels) : "{}");
    ten_json_number(&line, "remaining_ms", info->remaining_ms);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

int ten_cmd_owner(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, NULL, argc, argv, &exit_code))
        return exit_code;
    if (arguments.count != 1)
        return ten_arguments_usage(&arguments, "owner takes one target id");
    exit_code = ten_arguments_check_targets(&arguments, 0);
    if (exit_code || !ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    if (!ten_find_namespace(&arguments, &(ten_wanted){TEN_WANTED_HELD, arguments.operands[0], 0}, &exit_code))
        return exit_code;
    tenure_info info = {.size = sizeof info};
    int r = tenure_target_read(arguments.context, arguments.operands[0], &info);
    struct search search = {.holder = info.holder};
    if (r == TENURE_OK && info.holder[0])
        r = tenure_instance_list(arguments.context, look, &search);
    if (r < 0 && r != TENURE_E_UNKNOWN_TARGET)
        return ten_arguments_close(&arguments, ten_arguments_error(&arguments, r));
    exit_code = TEN_EXIT_FAILED;
    if (r != TENURE_E_UNKNOWN_TARGET && info.holder[0]) {
        print(&arguments, &info, &search.found);
        exit_code = TEN_EXIT_DONE;
    } else {
        fprintf(stderr, "tenure: no instance holds %s\n", arguments.operands[0]);
    }
    ten_metadata_free(&search.found);
    return ten_arguments_close(&arguments, exit_code);
}
