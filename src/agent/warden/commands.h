/*
 * The commands that run, by process number. A worker runs thousands of them, and meets their numbers when they end and
 * when it walks through its children.
 */
#ifndef TEN_AGENT_COMMANDS_H
#define TEN_AGENT_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ten_child;

typedef struct ten_commands {
    struct {
        pid_t pid; /* 0: free */
        struct ten_child *child;
    } * entries; /* hashed; NULL: there has been none */
} ten_commands;

/* There is room for another one. False: no memory. */
bool ten_commands_reserve(ten_commands *commands);
void ten_commands_put(ten_commands *commands, pid_t pid, struct ten_child *child);
/* NULL: not the number of a command. */
struct ten_child *ten_commands_find(const ten_commands *commands, pid_t pid);
void ten_commands_remove(ten_commands *commands, pid_t pid);
void ten_commands_free(ten_commands *commands);

#endif
