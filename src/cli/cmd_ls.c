/*
 * tenure ls: targets and who holds them.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/duration.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/lease_output.h"
#include "cli/table.h"

struct listing {
    const ten_arguments *arguments;
    ten_table table;
};

static int add_row(const tenure_info *info, void *userdata) {
    struct listing *listing = userdata;
    if (listing->arguments->json) {
        ten_print_info_json(info, listing->arguments->namespace_name, NULL);
        return ferror(stdout) ? 1 : 0;
    }
    bool held = info->holder[0] != '\0';
    char token[24];
    char remaining[TEN_DURATION_SIZE];
    char age[TEN_DURATION_SIZE];
    snprintf(token, sizeof token, "%llu", (unsigned long long)info->token);
    ten_duration_show(info->remaining_ms, remaining);
    ten_duration_show(ten_sub_saturating(ten_wall_ms(&ten_system_clock), info->acquired_at_ms), age);
    char state[16 + TEN_PIN_WORDS_SIZE];
    char pin[TEN_PIN_WORDS_SIZE];
    ten_print_pin_words(info, pin);
    snprintf(state, sizeof state, "%s%s%s", info->paused && !held ? "paused" : ten_state_word(info), pin[0] ? ", " : "",
             pin);
    ten_table_row(&listing->table, (const char *const[]){info->target, state, held ? info->holder : "-", token,
                                                         held ? remaining : "-", held ? age : "-"});
    return ferror(stdout) ? 1 : 0;
}

int ten_cmd_ls(const ten_command *command, int argc, char **argv) {
    static const char *const headings[] = {"TARGET", "STATE", "INSTANCE", "TOKEN", "REMAINING", "HELD FOR"};
    ten_arguments arguments;
    bool only_held = false;
    bool only_free = false;
    const ten_option options[] = {
        {"held", TEN_OPTION_FLAG, &only_held, NULL, "only what is held", NULL, NULL},
        {"free", TEN_OPTION_FLAG, &only_free, NULL, "only what is free and not paused", NULL, NULL},
        {.name = NULL},
    };
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    if (arguments.count != 0 || (only_held && only_free))
        return ten_arguments_usage(&arguments, only_held && only_free
                                                   ? "--held and --free exclude each other"
                                                   : "ls takes no arguments; 'tenure show ID' shows one target");
    if (!ten_arguments_open(&arguments, &exit_code))
        return exit_code;
    struct listing listing = {.arguments = &arguments};
    ten_table_start(&listing.table, headings, TEN_COUNT(headings));
    int r = tenure_target_list(arguments.context,
                               only_held   ? TENURE_LEASED
                               : only_free ? TENURE_FREE
                                           : TENURE_ALL,
                               add_row, &listing);
    exit_code = r < 0 ? ten_arguments_error(&arguments, r) : TEN_EXIT_DONE;
    if (r == TENURE_OK && listing.table.aligned && listing.table.count == 0)
        ten_find_nothing(&arguments, "targets");
    if (!ten_table_end(&listing.table))
        exit_code = TEN_EXIT_FAILED;
    return ten_arguments_close(&arguments, exit_code);
}
