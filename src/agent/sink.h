/*
 * Sinks: where the messages of polls go. `-` is standard output, `file:PATH` appends to a file; both take a JSON line
 * each, and neither can hold up the agent: a line that does not fit into the writer's ring is dropped and counted.
 */
#ifndef TEN_AGENT_SINK_H
#define TEN_AGENT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct ten_sink ten_sink;

/* TENURE_E_INVALID when there is no such kind of sink. */
int ten_sink_open(const char *text, ten_sink **ret_sink, ten_error *error);
/* Waits up to flush_ms for what has not been written yet. */
void ten_sink_close(ten_sink *sink, uint64_t flush_ms);
/* A line, its newline included. False: it was dropped. */
bool ten_sink_put(ten_sink *sink, const char *line, size_t size);
/* Opens a file anew, for whoever rotates it. */
void ten_sink_reopen(ten_sink *sink);
const char *ten_sink_name(const ten_sink *sink);

#endif
