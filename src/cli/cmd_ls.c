/*
 * tenure ls: targets and who holds them.
 */
#include "cli/commands.h"
#include "cli/lease_output.h"

static bool only_held;
static bool only_free;
static const ten_option options[] = {
    TEN_OPT_FLAG("held", &only_held, "only what is held"),
    TEN_OPT_FLAG("free", &only_free, "only what is free and not paused"),
    TEN_OPT_END,
};

struct listing {
    const ten_arguments *arguments;
    ten_table table;
};

static int add_row(const tenure_info *info, void *userdata) {
    struct listing *listing = userdata;
    if (listing->arguments->json)
        return ten_lease_print_json(info, listing->arguments->namespace_name, NULL);
    bool held = info->holder[0] != '\0';
    char pin[TEN_PIN_WORDS_SIZE];
    char state[16 + TEN_PIN_WORDS_SIZE];
    ten_print_pin_words(info, pin);
    snprintf(state, sizeof state, "%s%s%s", info->paused && !held ? "paused" : ten_state_word(info), pin[0] ? ", " : "",
             pin);
    return TEN_TABLE_ADD(&listing->table, {"TARGET", NULL, .text = info->target}, {"STATE", NULL, .text = state},
                         {"INSTANCE", NULL, .text = ten_or_null(info->holder)},
                         {"TOKEN", NULL, TEN_COLUMN_NUMBER, .number = info->token},
                         {"REMAINING", NULL, TEN_COLUMN_PERIOD, .number = held ? info->remaining_ms : TEN_NONE},
                         {"HELD FOR", NULL, TEN_COLUMN_AGE, .number = held ? info->acquired_at_ms : TEN_NONE});
}

static int check(ten_arguments *arguments) {
    if (only_held && only_free)
        return ten_arguments_usage(arguments, "--held and --free exclude each other");
    return arguments->count == 0
               ? TEN_EXIT_DONE
               : ten_arguments_usage(arguments, "ls takes no arguments; 'tenure show ID' shows one target");
}

static int run(ten_arguments *arguments) {
    struct listing listing = {.arguments = arguments};
    ten_table_start(&listing.table, arguments);
    int r = tenure_target_list(arguments->context,
                               only_held   ? TENURE_LEASED
                               : only_free ? TENURE_FREE
                                           : TENURE_ALL,
                               add_row, &listing);
    return ten_find_end(arguments, &listing.table, r, "targets");
}

const ten_command ten_cmd_ls = {TEN_HELP_ls, .options = options, .check = check, .store = TEN_STORE_EXISTING,
                                .run = run};
