/*
 * The last error of the calling thread. See last_error.h.
 */
#include "runtime/last_error.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/object.h"

static _Thread_local struct {
    const void *handle;
    ten_error error;
} last;

int ten_last_error_set(const void *handle, const ten_error *error) {
    last.handle = handle;
    last.error = *error;
    return error->code;
}

int ten_last_error_say(const void *handle, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    last.handle = handle;
    last.error.code = code;
    (void)vsnprintf(last.error.message, sizeof last.error.message, format, args);
    va_end(args);
    return code;
}

const char *tenure_message(const void *handle) {
    bool meant = !handle || last.handle == handle || (last.handle && ten_object_are_related(last.handle, handle));
    return meant ? last.error.message : "";
}

void ten_last_error_forget(const void *handle) {
    if (last.handle == handle)
        last.handle = NULL;
}
