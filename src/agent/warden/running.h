/*
 * The commands that run, by process number. A worker runs thousands of them, and meets their numbers when they end and
 * when it walks through its children.
 */
#ifndef TEN_AGENT_RUNNING_H
#define TEN_AGENT_RUNNING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ten_child;

typedef struct ten_running {
    struct {
        pid_t pid; /* 0: free */
        struct ten_child *child;
    } * entries; /* hashed; NULL: there has been none */
} ten_running;

/* There is room for another one. False: no memory. */
bool ten_running_reserve(ten_running *commands);
void ten_running_put(ten_running *commands, pid_t pid, struct ten_child *child);
/* NULL: not the number of a command. */
struct ten_child *ten_running_find(const ten_running *commands, pid_t pid);
void ten_running_remove(ten_running *commands, pid_t pid);
void ten_running_free(ten_running *commands);

#endif
