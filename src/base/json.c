/*
 * The JSON writer. Called by the log, the commands and later the server.
 */
#include "base/json.h"

#include <string.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/utf8.h"

/* Without printf: a text of control characters would cost a hundred times as much as one of letters. */
static void add_escaped(ten_buf *buf, uint32_t point) {
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char to[] = "\"\\bfnrt";
    static const char digits[] = "0123456789abcdef";
    const char *found = point < 0x80 ? memchr(from, (int)point, sizeof from - 1) : NULL;
    char text[6] = {'\\', 'u'};
    if (found)
        text[1] = to[found - from];
    for (unsigned i = 2; !found && i < sizeof text; i++)
        text[i] = digits[point >> 4 * (5 - i) & 0xf];
    ten_buf_add(buf, text, found ? 2 : sizeof text);
}

/* How many bytes from here on stand for themselves: nearly always all of them. */
static size_t plain_length(const char *text) {
    size_t length = 0;
    while (text[length] >= 0x20 && text[length] < 0x7f && text[length] != '"' && text[length] != '\\')
        length++;
    return length;
}

void ten_json_string(ten_buf *buf, const char *text) {
    size_t size = strlen(text);
    ten_buf_char(buf, '"');
    for (size_t at = 0; at < size;) {
        size_t plain = plain_length(text + at);
        if (plain > 0) {
            ten_buf_add(buf, text + at, plain);
            at += plain;
            continue;
        }
        size_t step = ten_utf8_step(text + at, size - at);
        bool quoted = text[at] == '"' || text[at] == '\\';
        uint32_t hidden = quoted ? (unsigned char)text[at] : ten_utf8_hidden(text + at, step);
        if (step == 0)
            ten_buf_text(buf, "\xef\xbf\xbd");
        else if (hidden)
            add_escaped(buf, hidden);
        else
            ten_buf_add(buf, text + at, step);
        at += step ? step : 1;
    }
    ten_buf_char(buf, '"');
}

void ten_json_open(ten_buf *buf) {
    ten_buf_char(buf, '{');
}

void ten_json_close(ten_buf *buf) {
    ten_buf_char(buf, '}');
}

static void add_key(ten_buf *buf, const char *key) {
    if (buf->size > 0 && buf->data[buf->size - 1] != '{')
        ten_buf_char(buf, ',');
    ten_json_string(buf, key);
    ten_buf_char(buf, ':');
}

void ten_json_text(ten_buf *buf, const char *key, const char *text) {
    add_key(buf, key);
    if (text)
        ten_json_string(buf, text);
    else
        ten_buf_text(buf, "null");
}

void ten_json_number(ten_buf *buf, const char *key, uint64_t number) {
    char text[24];
    const char *start = ten_digits_before(text + sizeof text, number);
    add_key(buf, key);
    ten_buf_add(buf, start, (size_t)(text + sizeof text - start));
}

void ten_json_bool(ten_buf *buf, const char *key, bool value) {
    add_key(buf, key);
    ten_buf_text(buf, value ? "true" : "false");
}

void ten_json_some_text(ten_buf *buf, const char *key, const char *text) {
    if (text[0])
        ten_json_text(buf, key, text);
}

void ten_json_some(ten_buf *buf, const char *key, uint64_t number) {
    if (number)
        ten_json_number(buf, key, number);
}

void ten_json_flag(ten_buf *buf, const char *key, bool value) {
    if (value)
        ten_json_bool(buf, key, true);
}

void ten_json_item(ten_buf *buf, size_t before) {
    ten_buf_text(buf, before ? ",\n" : "");
    ten_json_open(buf);
}

void ten_json_raw(ten_buf *buf, const char *key, const char *json) {
    add_key(buf, key);
    ten_buf_text(buf, json);
}

void ten_json_time(ten_buf *buf, const char *key, uint64_t wall_ms) {
    char text[TEN_RFC3339_SIZE];
    ten_rfc3339(wall_ms, text);
    ten_json_text(buf, key, wall_ms ? text : NULL);
}
