/*
 * UTF-8 checks. Called for holders (id.c) and wherever foreign text is written as JSON or into the log.
 */
#include "base/utf8.h"

#include <stdint.h>

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

bool ten_utf8_is_printable(const char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        size_t step = ten_utf8_step(text + at, size - at);
        unsigned char first = (unsigned char)text[at];
        if (step == 0 || first < 0x20 || first == 0x7f)
            return false;
        if (step == 2 && first == 0xc2 && (unsigned char)text[at + 1] < 0xa0)
            return false;
        at += step;
    }
    return true;
}
