/*
 * The event stream: one thread follows the changes of every namespace that has readers, and gives each of them its
 * text as server-sent events. A reader that does not read is cut off when its buffer is full; the others do not wait
 * for it.
 */
#ifndef TEN_SERVER_EVENTS_H
#define TEN_SERVER_EVENTS_H

#include <sys/types.h>

#include "base/error.h"

typedef struct ten_events ten_events;
typedef struct ten_event_reader ten_event_reader;

int ten_events_open(const char *url, uint64_t timeout_ms, ten_events **ret_events, ten_error *error);
/* Every reader has left by then. */
void ten_events_close(ten_events *events);
/* Becomes readable when some reader has something to read. */
int ten_events_fd(const ten_events *events);
size_t ten_events_count(ten_events *events);

/* `cursor`: changes after this one; UINT64_MAX: those to come. NULL: too many readers. In too many namespaces the
 * stream ends at once. */
ten_event_reader *ten_events_join(ten_events *events, const char *namespace_name, uint64_t cursor, void *userdata);
void ten_events_leave(ten_event_reader *reader);
/* Its client is gone: the stream ends. */
void ten_events_cut(ten_event_reader *reader);
/* Takes up to `size` bytes; 0: nothing for now, and the reader is called by ten_events_wake() when there is; negative:
 * the stream has ended. */
ssize_t ten_events_read(ten_event_reader *reader, char *text, size_t size);
/* Calls `resume` for each reader that waits and has something to read, and `cut` once for each that does not read.
 * After ten_events_end() `resume` for all that wait. */
void ten_events_wake(ten_events *events, void (*resume)(void *userdata), void (*cut)(void *userdata));
/* All streams end when they have been read. */
void ten_events_end(ten_events *events);

#endif
