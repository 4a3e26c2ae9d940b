/*
 * Targets as text: a line is an id, or a JSON object {"id","url","exec","every","paused","spec"}. The source that reads
 * a file of them is target_path.h.
 */
#ifndef TEN_AGENT_TARGET_FILE_H
#define TEN_AGENT_TARGET_FILE_H

#include "base/error.h"

/* One line; the server takes targets in the same form. `storage` keeps the texts that the target points to,
 * and is freed with ten_target_file_line_free(). */
typedef struct ten_target_line ten_target_line;
int ten_target_file_line_parse(const char *line, tenure_target *ret_target, ten_target_line **ret_storage,
                               ten_error *error);
/* A target that a program keeps for itself as a JSON object, such as a session: `isPaused` or `is_paused`, `address` or
 * `url` (which wins), and `every` are looked at, all of it becomes the spec, and members that are not known are left
 * alone. */
int ten_target_file_session_parse(const char *id, const char *text, size_t size, tenure_target *ret_target,
                                  ten_target_line **ret_storage, ten_error *error);
/* A job, with its command and the line that it is from. TENURE_E_NOMEM, or TENURE_OK. */
int ten_target_file_job(const char *name, const char *command, const char *line, tenure_target *ret_target,
                        ten_target_line **ret_storage);
void ten_target_file_line_free(ten_target_line *storage);

#endif
