/*
 * The memory backend, as tests and the simulator look into it: they read it without a handle, and make it lose data.
 */
#ifndef TEN_STORE_MEMORY_H
#define TEN_STORE_MEMORY_H

#include "store/backend.h"

struct ten_memory_core;

struct ten_memory_core *ten_memory_core_of(ten_store *store);
/* The record at that moment of the boot clock; its texts belong to the core. */
ten_record ten_memory_look(struct ten_memory_core *core, const char *namespace_name, enum ten_kind kind, const char *id,
                           uint64_t now_ms);
/* How many calls it has answered; nothing in it changes but by one. */
uint64_t ten_memory_calls(const struct ten_memory_core *core);
uint64_t ten_memory_last_number(const struct ten_memory_core *core);
/* How many entries a feed keeps; before the first one. */
void ten_memory_set_feed_room(struct ten_memory_core *core, size_t room);

/* Loses a record, or (id NULL) all of that kind, and does not notice. */
void ten_memory_lose(struct ten_memory_core *core, const char *namespace_name, enum ten_kind kind, const char *id);
/* Is another store from now on: what it has may be older than it was, and what it lost lasted that long at most. */
void ten_memory_replace(struct ten_memory_core *core, uint64_t lost_ms);

#endif
