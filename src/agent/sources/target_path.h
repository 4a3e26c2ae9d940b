/*
 * The target source `file:PATH`: a line is a target (target_file.h). A thread reads the file when it changes, because a
 * file system that hangs must not stop the polls. If the file cannot be read, what was read before stands.
 */
#ifndef TEN_AGENT_TARGET_PATH_H
#define TEN_AGENT_TARGET_PATH_H

#include "agent/sources/source_feed.h"

extern const ten_source_ops ten_target_path_ops;

#endif
