/*
 * A writer: lines go into a bounded ring, and a thread of its own carries them to a descriptor. Writing never
 * waits for the reader: when the ring is full the line is refused, when the descriptor has failed everything is. A full
 * pipe or a dead terminal so never stops lease work.
 */
#ifndef TEN_BASE_WRITER_H
#define TEN_BASE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct ten_writer ten_writer;

/* The descriptor stays the caller's. `ring_size` 0: 256 KiB. */
int ten_writer_open(int fd, size_t ring_size, ten_writer **ret_writer, ten_error *error);
/* Waits up to wait_ms until the ring is empty and written. */
void ten_writer_flush(ten_writer *writer, uint64_t wait_ms);
/* Waits up to flush_ms for what is still in the ring, then closes. */
void ten_writer_close(ten_writer *writer, uint64_t flush_ms);

/* All of it, or nothing: false when there is no room for it or the descriptor has failed. */
bool ten_writer_put(ten_writer *writer, const char *data, size_t size);

#endif
