/*
 * tenure: a table of commands. Each parses its options, makes one call of the library, prints, and returns an exit
 * code.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/secrets.h"

#define TEN_ADDRESS_OF(name) &ten_cmd_##name,
static const ten_command *const commands[] = {TEN_COMMANDS(TEN_ADDRESS_OF)};

const ten_command *const *ten_commands(size_t *ret_count) {
    *ret_count = TEN_COUNT(commands);
    return commands;
}

const ten_command *ten_command_find(const char *name) {
    for (size_t i = 0; i < TEN_COUNT(commands); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

bool ten_command_is_in(const char *names, const char *name) {
    char word[32];
    return snprintf(word, sizeof word, " %s ", name) < (int)sizeof word && strstr(names, word);
}

/* What other tools call it. */
static const char *other_word(const char *name) {
    static const char *const words[][2] = {{"lock", " mutex flock run "},
                                           {"lock --count N", " semaphore sem "},
                                           {"elect", " lead campaign election "},
                                           {"who", " leader leaders "},
                                           {"release", " unlock free "},
                                           {"ls", " list "},
                                           {"show", " get describe "},
                                           {"nodes", " members instances peers "},
                                           {"cron", " crontab schedule "},
                                           {"serve", " server "},
                                           {"agent", " worker poll "},
                                           {"watch", " events "},
                                           {"history", " log "},
                                           {"doctor", " check "},
                                           {"target rm", " delete remove "},
                                           {"target add", " add "},
                                           {"target pause", " pause "},
                                           {"target resume", " resume "},
                                           {"namespaces", " ns "},
                                           {"resign", " stepdown "},
                                           {"move", " pin reassign "},
                                           {"move TARGET --undo", " unpin "}};
    for (size_t i = 0; i < TEN_COUNT(words); i++)
        if (ten_command_is_in(words[i][1], name))
            return words[i][0];
    return NULL;
}

int ten_command_unknown(const char *name) {
    const char *names[TEN_COUNT(commands)];
    int length = (int)ten_utf8_cut(name, 60);
    for (size_t i = 0; i < TEN_COUNT(commands); i++)
        names[i] = commands[i]->name;
    const char *meant = other_word(name);
    if (!meant)
        meant = ten_suggest(name, names, TEN_COUNT(commands));
    if (name[0] == '-')
        ten_say_format("the command comes first: write the option '%.*s' after it, as in 'tenure ls --store URL'",
                       length, name);
    else if (meant)
        ten_say_format("there is no command '%.*s'; did you mean '%s'?", length, name, meant);
    else
        ten_say_format("there is no command '%.*s'; 'tenure help' lists them", length, name);
    return TEN_EXIT_USAGE;
}

/* A stream that was closed must not lend its number to a file of the store or to the eventfd that cancels: what is
 * printed would land there. Opened the wrong way round, so that using it fails as before. */
static void occupy_closed_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    occupy_closed_streams();
    ten_hash_key_make_secret();
    char **words = ten_secrets_hide(argc, argv);
    if (words)
        argv = words;
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const ten_command *command = ten_command_find(name);
    if (!command)
        return ten_command_unknown(name);
    int exit_code = ten_command_run(command, argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
    return argc > 1 ? exit_code : TEN_EXIT_USAGE;
}
