/*
 * The commands, one a file. main.c is their table.
 */
#ifndef TEN_CLI_COMMANDS_H
#define TEN_CLI_COMMANDS_H

#include "cli/arguments.h"

int ten_cmd_agent(const ten_command *command, int argc, char **argv);
int ten_cmd_elect(const ten_command *command, int argc, char **argv);
int ten_cmd_lock(const ten_command *command, int argc, char **argv);
int ten_cmd_once(const ten_command *command, int argc, char **argv);
int ten_cmd_cron(const ten_command *command, int argc, char **argv);
int ten_cmd_resign(const ten_command *command, int argc, char **argv);
int ten_cmd_serve(const ten_command *command, int argc, char **argv);
int ten_cmd_guard(const ten_command *command, int argc, char **argv);
int ten_cmd_status(const ten_command *command, int argc, char **argv);
int ten_cmd_namespaces(const ten_command *command, int argc, char **argv);
int ten_cmd_nodes(const ten_command *command, int argc, char **argv);
int ten_cmd_plan(const ten_command *command, int argc, char **argv);
int ten_cmd_move(const ten_command *command, int argc, char **argv);
int ten_cmd_drain(const ten_command *command, int argc, char **argv);
int ten_cmd_acquire(const ten_command *command, int argc, char **argv);
int ten_cmd_renew(const ten_command *command, int argc, char **argv);
int ten_cmd_release(const ten_command *command, int argc, char **argv);
int ten_cmd_checkpoint(const ten_command *command, int argc, char **argv);
int ten_cmd_show(const ten_command *command, int argc, char **argv);
int ten_cmd_owner(const ten_command *command, int argc, char **argv);
int ten_cmd_ls(const ten_command *command, int argc, char **argv);
int ten_cmd_target(const ten_command *command, int argc, char **argv);
int ten_cmd_forget(const ten_command *command, int argc, char **argv);
int ten_cmd_top(const ten_command *command, int argc, char **argv);
int ten_cmd_who(const ten_command *command, int argc, char **argv);
int ten_cmd_watch(const ten_command *command, int argc, char **argv);
int ten_cmd_history(const ten_command *command, int argc, char **argv);
int ten_cmd_doctor(const ten_command *command, int argc, char **argv);
int ten_cmd_version(const ten_command *command, int argc, char **argv);
int ten_cmd_help(const ten_command *command, int argc, char **argv);

/* The table, in the order of the help. */
const ten_command *ten_commands(size_t *ret_count);
const ten_command *ten_command_find(const char *name);
/* Says that there is no such command, and what was perhaps meant. */
int ten_command_unknown(const char *name);

#endif
