/*
 * Slots in shared memory. Made by the manager, or by the warden before it starts the worker.
 */
#include "runtime/slots.h"

#include <sys/mman.h>

static size_t size_of(uint32_t room) {
    return (size_t)room * sizeof(ten_slot) + sizeof(uint64_t);
}

bool ten_slots_make(ten_slots *slots, uint32_t room) {
    void *memory = mmap(NULL, size_of(room), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    *slots = (ten_slots){.slots = memory, .room = room};
    slots->last_end_ms = (void *)(slots->slots + room);
    return true;
}

void ten_slots_free(ten_slots *slots) {
    if (slots->slots)
        munmap(slots->slots, size_of(slots->room));
    *slots = (ten_slots){0};
}
