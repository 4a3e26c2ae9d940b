/*
 * Errors: the codes are the public table of tenure.h; this adds the record that carries a code with its message
 * from where it happened to the caller that shows it. Nothing here prints.
 */
#ifndef TEN_BASE_ERROR_H
#define TEN_BASE_ERROR_H

#include <tenure.h>

#include "base/util.h"

typedef struct ten_error {
    int code;
    char message[512];
} ten_error;

/* Writes code and message into `error` (which may be NULL) and returns the code, so that a failing function ends
 * with `return ten_fail(...)`. A message that is too long is cut. */
int ten_fail(ten_error *error, int code, const char *format, ...) TEN_PRINTF(3, 4);

/* As ten_fail, with the text of `errno_value` appended. */
int ten_fail_errno(ten_error *error, int code, int errno_value, const char *format, ...) TEN_PRINTF(4, 5);

/* TENURE_E_NOMEM, "out of memory for ...": the format says for what. */
int ten_fail_memory(ten_error *error, const char *format, ...) TEN_PRINTF(2, 3);

/* The next of several calls, unless one before it has failed: r is the first error, or the last result. */
#define TEN_STEP(r, ...) ((r) = (r) == TENURE_OK ? (__VA_ARGS__) : (r))

#endif
