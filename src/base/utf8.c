/*
 * UTF-8 checks. Called for holders (id.c) and wherever foreign text is written as JSON or into the log.
 */
#include "base/utf8.h"

size_t ten_utf8_step(const char *text, size_t size) {
    const unsigned char *at = (const unsigned char *)text;
    if (size == 0)
        return 0;
    if (at[0] < 0x80)
        return 1;
    size_t count = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || size < count)
        return 0;
    uint32_t point = at[0] & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (at[i] & 0x3fu);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < smallest[count] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
        return 0;
    return count;
}

bool ten_utf8_is_text(const char *text, size_t size) {
    for (size_t at = 0, step; at < size; at += step) {
        step = ten_utf8_step(text + at, size - at);
        if (step == 0 || text[at] == '\0')
            return false;
    }
    return true;
}

uint32_t ten_utf8_hidden(const char *text, size_t step) {
    const unsigned char *at = (const unsigned char *)text;
    if (step == 1 && (at[0] < 0x20 || at[0] == 0x7f))
        return at[0];
    if (step == 2 && at[0] == 0xc2 && at[1] < 0xa0)
        return at[1];
    if (step != 3 || at[0] != 0xe2)
        return 0;
    uint32_t point = 0x2000u | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
    return (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ? point : 0;
}

bool ten_utf8_is_printable(const char *text, size_t size) {
    for (size_t at = 0, step; at < size; at += step) {
        step = ten_utf8_step(text + at, size - at);
        if (step == 0 || text[at] == '\0' || ten_utf8_hidden(text + at, step))
            return false;
    }
    return true;
}

size_t ten_utf8_cut(const char *text, size_t most) {
    size_t size = 0;
    for (size_t left = strlen(text), step; left > 0; size += step, left -= step) {
        step = ten_utf8_step(text + size, left);
        step = step > 0 ? step : 1;
        if (size + step > most)
            break;
    }
    return size;
}
