/*
 * Sinks for lines: `-` is standard output, `file:PATH` appends to a file. A line is written as a whole or not at all, in
 * the time of its lease: while nobody reads the pipe, lines wait, and are dropped when their leases end. A line that was
 * written in part when its lease ended (only one over 4,096 bytes can be, or one that a file system or a terminal does
 * not take) is finished when the reader goes on, because a line without its end would spoil the next one, too; it is
 * counted as late.
 */
#ifndef TEN_AGENT_SINK_LINES_H
#define TEN_AGENT_SINK_LINES_H

#include "agent/sinks/sink.h"

extern const ten_sink_ops ten_sink_lines_ops;

#endif
