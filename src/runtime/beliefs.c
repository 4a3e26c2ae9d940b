/*
 * Beliefs in shared memory. Made by the fleet member, or by the warden before it starts the worker.
 */
#include "runtime/beliefs.h"

#include <sys/mman.h>

static size_t size_of(uint32_t room) {
    return (size_t)room * sizeof(ten_belief) + sizeof(uint64_t);
}

bool ten_beliefs_share(ten_beliefs *beliefs, uint32_t room) {
    void *memory = mmap(NULL, size_of(room), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    *beliefs = (ten_beliefs){.beliefs = memory, .room = room};
    beliefs->last_end_ms = (void *)(beliefs->beliefs + room);
    return true;
}

void ten_beliefs_free(ten_beliefs *beliefs) {
    if (beliefs->beliefs)
        munmap(beliefs->beliefs, size_of(beliefs->room));
    *beliefs = (ten_beliefs){0};
}
