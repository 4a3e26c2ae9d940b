/*
 * Beliefs: in shared memory, made by the warden before it starts the worker, or in memory of the fleet member's own.
 */
#include "runtime/beliefs.h"

#include <sys/mman.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/memfd.h"

static size_t size_of(uint32_t room) {
    return (size_t)room * sizeof(ten_belief) + sizeof(uint64_t);
}

bool ten_beliefs_share(ten_beliefs *beliefs, uint32_t room) {
    int fd;
    void *memory = ten_memfd_share(size_of(room), &fd);
    if (!memory)
        return false;
    *beliefs = (ten_beliefs){.beliefs = memory, .room = room, .fd = fd};
    beliefs->last_end_ms = (void *)(beliefs->beliefs + room);
    return true;
}

static uint32_t parts_of(uint32_t room) {
    return (room + TEN_BELIEFS_PART - 1) / TEN_BELIEFS_PART;
}

bool ten_beliefs_open(ten_beliefs *beliefs, uint32_t room) {
    *beliefs = (ten_beliefs){.room = room};
    beliefs->last_end_ms = &beliefs->own_end_ms;
    beliefs->parts = ten_calloc(parts_of(room), sizeof *beliefs->parts);
    return beliefs->parts;
}

bool ten_beliefs_reserve(ten_beliefs *beliefs, uint32_t number) {
    if (beliefs->beliefs || beliefs->parts[number / TEN_BELIEFS_PART])
        return true;
    ten_belief *part = ten_calloc(TEN_BELIEFS_PART, sizeof *part);
    beliefs->parts[number / TEN_BELIEFS_PART] = part;
    return part;
}

void ten_beliefs_free(ten_beliefs *beliefs) {
    if (beliefs->beliefs) {
        munmap(beliefs->beliefs, size_of(beliefs->room));
        ten_close_fd(&beliefs->fd);
    }
    for (uint32_t i = 0; beliefs->parts && i < parts_of(beliefs->room); i++)
        ten_free(beliefs->parts[i]);
    ten_free(beliefs->parts);
    *beliefs = (ten_beliefs){0};
}
