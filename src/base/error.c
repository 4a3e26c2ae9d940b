/*
 * Error names, messages and the error record, all from the table in tenure.h. Called by every layer.
 */
#include "base/error.h"

#include <stdarg.h>
#include <string.h>

struct error_row {
    int code;
    bool retryable;
    const char *name;
    const char *message;
};

static const struct error_row table[] = {{TENURE_OK, false, "TENURE_OK", "ok"},
#define X(name, code, retryable, message) {code, retryable, #name, message},
                                         TENURE_ERRORS(X)
#undef X
};

static const struct error_row *find(int code) {
    for (size_t i = 0; i < TEN_COUNT(table); i++)
        if (table[i].code == code)
            return &table[i];
    return NULL;
}

const char *tenure_strerror(int error) {
    const struct error_row *row = find(error);
    return row ? row->message : "unknown error";
}

const char *tenure_error_name(int error) {
    const struct error_row *row = find(error);
    return row ? row->name : "TENURE_E_UNKNOWN";
}

bool tenure_error_retryable(int error) {
    const struct error_row *row = find(error);
    return row && row->retryable;
}

const char *tenure_version(void) {
    return TENURE_VERSION;
}

int ten_fail(ten_error *error, int code, const char *format, ...) {
    if (error) {
        va_list args;
        va_start(args, format);
        error->code = code;
        vsnprintf(error->message, sizeof error->message, format, args);
        va_end(args);
    }
    return code;
}

int ten_fail_errno(ten_error *error, int code, int errno_value, const char *format, ...) {
    if (error) {
        va_list args;
        va_start(args, format);
        error->code = code;
        vsnprintf(error->message, sizeof error->message, format, args);
        va_end(args);
        size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used, ": %s", strerrordesc_np(errno_value));
    }
    return code;
}

int ten_fail_memory(ten_error *error, const char *format, ...) {
    char what[200];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ten_fail(error, TENURE_E_NOMEM, "out of memory for %s", what);
}
