/*
 * tenure help: the list of commands, or the help of one, which is the same as its --help.
 */
#include <stdio.h>

#include "cli/commands.h"

static void print_list(void) {
    size_t count;
    const ten_command *commands = ten_commands(&count);
    printf("At most one instance believes that it holds a target: leases with fencing tokens.\n\n"
           "usage: tenure COMMAND [ARGUMENTS] [OPTIONS]\n\n");
    for (size_t i = 0; i < count; i++)
        printf("  %-10s  %s\n", commands[i].name, commands[i].summary);
    printf("\n'tenure COMMAND --help' tells more. Try it:\n\n"
           "  token=$(tenure acquire job-1) && echo \"working with token $token\"\n"
           "  tenure show job-1\n"
           "  tenure release job-1 --token $token\n");
}

int ten_cmd_help(const ten_command *command, int argc, char **argv) {
    (void)command;
    if (argc > 1 && argv[1][0] != '-') {
        const ten_command *asked = ten_command_find(argv[1]);
        char *arguments[] = {argv[1], (char[]){"--help"}, NULL};
        if (!asked)
            return ten_command_unknown(argv[1]);
        if (asked != command)
            return asked->run(asked, 2, arguments);
    }
    print_list();
    return fflush(stdout) == 0 ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
}
