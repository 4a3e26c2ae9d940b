/*
 * See visible.h. Called by every command that prints.
 */
#include "cli/visible.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/utf8.h"

/* Bytes of the printable character at the start; 0: it is none. */
static size_t printable_step(const char *text, size_t left) {
    size_t step = ten_utf8_step(text, left);
    return step > 0 && ten_utf8_is_printable(text, step) ? step : 0;
}

char *ten_visible(const char *text) {
    ten_buf visible = {0};
    ten_buf_text(&visible, "");
    for (size_t left = strlen(text), step; left > 0; text += step, left -= step) {
        step = printable_step(text, left);
        if (step > 0) {
            ten_buf_add(&visible, text, step);
        } else {
            step = 1;
            ten_buf_format(&visible, "\\x%02x", (unsigned char)text[0]);
        }
    }
    if (visible.failed)
        ten_buf_free(&visible);
    return visible.data;
}

void ten_print_visible(FILE *to, const char *text) {
    char *visible = ten_visible(text);
    (void)fputs(visible ? visible : "?", to);
    ten_free(visible);
}

/* In one write: standard error has no buffer, and what other threads log must not come in between. */
void ten_say(const char *text) {
    char *visible = ten_visible(text);
    fprintf(stderr, "tenure: %s\n", visible ? visible : "out of memory");
    ten_free(visible);
}

void ten_say_format(const char *format, ...) {
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ten_say(text);
}
