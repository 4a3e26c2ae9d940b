/*
 * The target source `file:PATH`: a line is an id, or a JSON object {"id","url","exec","every","paused","spec"}. Read
 * when it changes. A line that cannot be used is reported with its number and left out; the others count.
 */
#ifndef TEN_AGENT_TARGET_FILE_H
#define TEN_AGENT_TARGET_FILE_H

#include "base/error.h"

typedef struct ten_target_file ten_target_file;

typedef void (*ten_target_file_fn)(const tenure_target *target, void *userdata);
/* What is wrong with a line; told once for as long as the line stays as it is. */
typedef void (*ten_target_file_bad_fn)(unsigned line, const char *problem, void *userdata);

int ten_target_file_open(const char *path, ten_target_file **ret_file, ten_error *error);
void ten_target_file_close(ten_target_file *file);
/* Becomes readable when the file may have changed. */
int ten_target_file_fd(const ten_target_file *file);
/* Reads all of it. An error (the file is not there): what was read before stands. */
int ten_target_file_read(ten_target_file *file, ten_target_file_fn each, ten_target_file_bad_fn bad, void *userdata,
                         ten_error *error);

/* One line; shared with whoever takes targets in the same form. `storage` keeps the texts that the target points to,
 * and is freed with ten_target_file_line_free(). */
typedef struct ten_target_line ten_target_line;
int ten_target_file_line_parse(const char *line, tenure_target *ret_target, ten_target_line **ret_storage,
                               ten_error *error);
/* A target that a program keeps for itself as a JSON object, such as a session: `isPaused` or `is_paused`, `address` or
 * `url` (which wins), and `every` are looked at, all of it becomes the spec, and members that are not known are left
 * alone. */
int ten_target_file_session_parse(const char *id, const char *text, size_t size, tenure_target *ret_target,
                                  ten_target_line **ret_storage, ten_error *error);
void ten_target_file_line_free(ten_target_line *storage);

#endif
