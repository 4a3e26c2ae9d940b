/*
 * A growing text buffer. Called wherever text is put together.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"

void ten_buf_clear(ten_buf *buf) {
    buf->size = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

void ten_buf_free(ten_buf *buf) {
    ten_free(buf->data);
    *buf = (ten_buf){0};
}

static bool make_room(ten_buf *buf, size_t more) {
    if (buf->failed)
        return false;
    if (buf->room - buf->size > more)
        return true;
    size_t room = buf->room ? buf->room : 64;
    while (room - buf->size <= more) {
        if (room > SIZE_MAX / 2) {
            buf->failed = true;
            return false;
        }
        room *= 2;
    }
    char *data = ten_realloc(buf->data, room);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->room = room;
    return true;
}

void ten_buf_add(ten_buf *buf, const char *data, size_t size) {
    if (!make_room(buf, size))
        return;
    if (size > 0)
        memcpy(buf->data + buf->size, data, size);
    buf->size += size;
    buf->data[buf->size] = '\0';
}

void ten_buf_text(ten_buf *buf, const char *text) {
    ten_buf_add(buf, text, strlen(text));
}

void ten_buf_char(ten_buf *buf, char c) {
    if (!make_room(buf, 1))
        return;
    buf->data[buf->size++] = c;
    buf->data[buf->size] = '\0';
}

void ten_buf_format(ten_buf *buf, const char *format, ...) {
    va_list args;
    va_list again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size >= 0 && make_room(buf, (size_t)size)) {
        vsnprintf(buf->data + buf->size, (size_t)size + 1, format, again);
        buf->size += (size_t)size;
    } else {
        buf->failed = true;
    }
    va_end(again);
}

const char *ten_buf_string(const ten_buf *buf) {
    return buf->data ? buf->data : "";
}
