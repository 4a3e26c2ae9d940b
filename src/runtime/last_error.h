/*
 * The last error of the calling thread, and the handle that it was on. Per thread, so that reading it needs no lock.
 * The program reads it by tenure_message().
 */
#ifndef TEN_RUNTIME_LAST_ERROR_H
#define TEN_RUNTIME_LAST_ERROR_H

#include "base/error.h"

/* Both return the code. */
int ten_last_error_set(const void *handle, const ten_error *error);
int ten_last_error_say(const void *handle, int code, const char *format, ...) TEN_PRINTF(3, 4);
/* The handle is closed, and another may get its address. */
void ten_last_error_forget(const void *handle);

#endif
