/*
 * The commands, one a file, and what all of them use. main.c is their table.
 */
#ifndef TEN_CLI_COMMANDS_H
#define TEN_CLI_COMMANDS_H

#include <stdio.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/find.h"
#include "cli/table.h"
#include "cli/visible.h"
#include "cli_help.h"

#ifdef TEN_SERVER
#define TEN_SERVE(X) X(serve)
#else
#define TEN_SERVE(X)
#endif

/* In the order of the help: ten_cmd_NAME is in cmd_NAME.c. */
// clang-format off
#define TEN_COMMANDS(X)                                                                                                \
    X(agent) X(elect) X(once) X(cron) X(lock) X(who) X(resign) TEN_SERVE(X) X(guard) X(status) X(top) X(nodes)         \
    X(namespaces) X(plan) X(drain) X(move) X(acquire) X(renew) X(release) X(checkpoint) X(show) X(owner) X(ls)         \
    X(target) X(forget) X(watch) X(history) X(doctor) X(version) X(help)
// clang-format on
#define TEN_DECLARE(name) extern const ten_command ten_cmd_##name;
TEN_COMMANDS(TEN_DECLARE)
#undef TEN_DECLARE

const ten_command *const *ten_commands(size_t *ret_count);
const ten_command *ten_command_find(const char *name);
/* Whether it is one of these names, which have blanks around them. */
bool ten_command_is_in(const char *names, const char *name);
/* Says that there is no such command, and what was perhaps meant. */
int ten_command_unknown(const char *name);

#endif
