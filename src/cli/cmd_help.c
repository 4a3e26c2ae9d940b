/*
 * tenure help: the list of commands, or the help of one, which is the same as its --help.
 */
#include "cli/commands.h"

/* By what a person wants to do. A command that is in no group is listed at the end. */
static const struct {
    const char *heading;
    const char *names;
} groups[] = {
    {"Run work", " lock elect once cron agent "},
    {"Look", " status top ls show owner who nodes namespaces history watch plan doctor "},
    {"Operate", " target move drain resign forget "},
    {"Leases in scripts", " acquire renew release checkpoint "},
    {"For other programs", " serve guard "},
};

static bool is_grouped(const char *name) {
    for (size_t i = 0; i < TEN_COUNT(groups); i++)
        if (ten_command_is_in(groups[i].names, name))
            return true;
    return false;
}

static void print_command(const ten_command *command) {
    printf("  %-10s  %s\n", command->name, command->summary);
}

static void print_group(const char *names) {
    char word[32];
    for (const char *at = names; sscanf(at, " %31s", word) == 1; at = strchr(at + 1, ' ')) {
        const ten_command *command = ten_command_find(word);
        if (command) /* not in every build */
            print_command(command);
    }
}

static void print_list(void) {
    size_t count;
    const ten_command *const *commands = ten_commands(&count);
    printf("Locks, leaders, cron jobs and shards for a fleet: at most one instance believes that it holds a target.\n\n"
           "usage: tenure COMMAND [ARGUMENTS] [OPTIONS]\n");
    for (size_t group = 0; group < TEN_COUNT(groups); group++) {
        printf("\n%s:\n", groups[group].heading);
        print_group(groups[group].names);
    }
    printf("\nOther:\n");
    for (size_t i = 0; i < count; i++)
        if (!is_grouped(commands[i]->name))
            print_command(commands[i]);
    printf("\n'tenure COMMAND --help' explains a command, 'man tenure' everything. Try it:\n\n"
           "  tenure lock backup -- echo \"one at a time\"\n"
           "  token=$(tenure acquire job-1) && echo \"working with token $token\"\n"
           "  tenure show job-1\n"
           "  tenure release job-1 --token $token\n");
}

static int run(int argc, char **argv) {
    char help[] = "--help";
    const ten_command *asked = argc > 1 && argv[1][0] != '-' ? ten_command_find(argv[1]) : &ten_cmd_help;
    if (!asked)
        return ten_command_unknown(argv[1]);
    if (asked != &ten_cmd_help)
        return ten_command_run(asked, 2, (char *[]){argv[1], help, NULL});
    print_list();
    return fflush(stdout) == 0 ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
}

const ten_command ten_cmd_help = {TEN_HELP_help, .run_unparsed = run};
