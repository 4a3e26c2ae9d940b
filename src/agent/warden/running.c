/*
 * The commands that run, by process number: a table with linear probing, at most half full. Called by child.c and
 * leftovers.c.
 */
#include "agent/warden/running.h"

#include "agent/warden/shared.h"
#include "base/alloc.h"

#define ENTRIES ((size_t)TEN_SHARED_POLLS * 2)

_Static_assert((ENTRIES & (ENTRIES - 1)) == 0, "a power of two");

bool ten_running_reserve(ten_running *commands) {
    if (!commands->entries)
        commands->entries = ten_calloc(ENTRIES, sizeof commands->entries[0]);
    return commands->entries != NULL;
}

/* Numbers are given out one after the other: as they are, they collide least. */
static size_t home_of(pid_t pid) {
    return (size_t)pid & (ENTRIES - 1);
}

/* Where the number is, or the free entry where it would be. */
static size_t seek(const ten_running *commands, pid_t pid) {
    size_t at = home_of(pid);
    while (commands->entries[at].pid != 0 && commands->entries[at].pid != pid)
        at = (at + 1) & (ENTRIES - 1);
    return at;
}

void ten_running_put(ten_running *commands, pid_t pid, struct ten_child *child) {
    size_t at = seek(commands, pid);
    commands->entries[at].pid = pid;
    commands->entries[at].child = child;
}

struct ten_child *ten_running_find(const ten_running *commands, pid_t pid) {
    if (!commands->entries || pid <= 0)
        return NULL;
    size_t at = seek(commands, pid);
    return commands->entries[at].pid ? commands->entries[at].child : NULL;
}

/* What follows moves up, as far as that brings it nearer to its home: so a search never meets a hole on its way. */
void ten_running_remove(ten_running *commands, pid_t pid) {
    if (!ten_running_find(commands, pid))
        return;
    size_t hole = seek(commands, pid);
    for (size_t at = (hole + 1) & (ENTRIES - 1); commands->entries[at].pid != 0; at = (at + 1) & (ENTRIES - 1)) {
        size_t way = (at - home_of(commands->entries[at].pid)) & (ENTRIES - 1);
        if (way < ((at - hole) & (ENTRIES - 1)))
            continue;
        commands->entries[hole] = commands->entries[at];
        hole = at;
    }
    commands->entries[hole].pid = 0;
}

void ten_running_free(ten_running *commands) {
    ten_free(commands->entries);
    commands->entries = NULL;
}
