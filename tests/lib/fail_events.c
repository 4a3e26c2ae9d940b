/*
 * Takes away the memory for what the context's thread leaves for the agent's loop: LD_PRELOAD it; while the file that
 * FAIL_EVENTS names exists, allocations of that one size fail. The rest of the program has all the memory it wants.
 */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/runner/agent_state.h"

void *__libc_calloc(size_t count, size_t size);

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size) {
    if (count == 1 && size == sizeof(struct ten_agent_event)) {
        const char *path = getenv("FAIL_EVENTS");
        if (path && access(path, F_OK) == 0)
            return NULL;
    }
    return __libc_calloc(count, size);
}
