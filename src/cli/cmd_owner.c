/*
 * tenure owner: which instance holds a target, where it can be reached, and under which token. For routing.
 */
#include "cli/commands.h"
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

static int run(ten_arguments *arguments) {
    tenure_info info = {.size = sizeof info};
    struct search search = {.holder = info.holder};
    int r = tenure_target_read(arguments->context, arguments->operands[0], &info);
    if (r == TENURE_OK && info.holder[0])
        r = tenure_instance_list(arguments->context, look, &search);
    if (r < 0 && r != TENURE_E_UNKNOWN_TARGET)
        return ten_arguments_error(arguments, r);
    if (r == TENURE_E_UNKNOWN_TARGET || info.holder[0] == '\0') {
        fprintf(stderr, "tenure: no instance holds %s\n", arguments->operands[0]);
        return TEN_EXIT_FAILED;
    }
    const char *labels = ten_or_null(ten_buf_string(&search.found.labels));
    TEN_PRINT_ROW(arguments->json, {NULL, "target", .text = info.target},
                  {NULL, "namespace", .text = arguments->namespace_name}, {"INSTANCE", "instance", .text = info.holder},
                  {"ADDRESS", "address", .text = ten_or_null(search.found.address)},
                  {"TOKEN", "token", TEN_COLUMN_NUMBER, .number = info.token},
                  {NULL, "labels", TEN_COLUMN_RAW, .text = labels ? labels : "{}"},
                  {NULL, "remaining_ms", TEN_COLUMN_NUMBER, .number = info.remaining_ms});
    ten_metadata_free(&search.found);
    return TEN_EXIT_DONE;
}

const ten_command ten_cmd_owner = {TEN_HELP_owner, .takes = TEN_TAKES_TARGET, .store = TEN_STORE_EXISTING,
                                   .wants = TEN_WANTED_HELD, .run = run};
