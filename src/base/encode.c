/*
 * See encode.h.
 */
#include "base/encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- percent-coding */

static void encode_if(ten_buf *out, char c, bool reserved) {
    if (reserved)
        ten_buf_format(out, "%%%02X", (unsigned char)c);
    else
        ten_buf_char(out, c);
}

void ten_percent_encode(ten_buf *out, const char *text, const char *also_plain) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text; text++)
        encode_if(out, *text, !strchr(plain, *text) && !strchr(also_plain, *text));
}

void ten_percent_encode_only(ten_buf *out, const char *text, const char *reserved) {
    for (; *text; text++)
        encode_if(out, *text, strchr(reserved, *text) != NULL);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int ten_percent_byte(const char *text) {
    int high = text[0] == '%' ? hex_digit(text[1]) : -1;
    int low = high < 0 ? -1 : hex_digit(text[2]);
    return low < 0 ? -1 : high * 16 + low;
}

bool ten_percent_decode(char *text, bool in_query) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from == '%') {
            int byte = ten_percent_byte(from);
            if (byte <= 0)
                return false;
            *to++ = (char)byte;
            from += 2;
        } else {
            *to++ = in_query && *from == '+' ? ' ' : *from;
        }
    }
    *to = '\0';
    return true;
}

/* ---- base64 */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void ten_base64_encode(ten_buf *out, const char *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t i = 0; i < size; i += 3) {
        unsigned one = bytes[i];
        unsigned two = i + 1 < size ? bytes[i + 1] : 0;
        unsigned three = i + 2 < size ? bytes[i + 2] : 0;
        char four[4] = {letters[one >> 2], letters[(one & 3) << 4 | two >> 4],
                        i + 1 < size ? letters[(two & 15) << 2 | three >> 6] : '=',
                        i + 2 < size ? letters[three & 63] : '='};
        ten_buf_add(out, four, sizeof four);
    }
}

static int value_of(char letter) {
    const char *at = letter ? strchr(letters, letter) : NULL;
    return at ? (int)(at - letters) : -1;
}

bool ten_base64_decode(ten_buf *out, const char *text) {
    size_t size = strlen(text);
    ten_buf_clear(out);
    if (size % 4 != 0)
        return false;
    for (size_t i = 0; i < size; i += 4) {
        bool last = i + 4 == size;
        int padding = last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
        unsigned bits = 0;
        for (size_t j = 0; j < 4; j++) {
            int value = j < 4u - (unsigned)padding ? value_of(text[i + j]) : 0;
            if (value < 0)
                return false;
            bits = bits << 6 | (unsigned)value;
        }
        char three[3] = {(char)(bits >> 16 & 255), (char)(bits >> 8 & 255), (char)(bits & 255)};
        ten_buf_add(out, three, 3u - (unsigned)padding);
    }
    return !out->failed;
}

/* ---- digits */

char *ten_digits_before(char *end, uint64_t number) {
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return end;
}

const char *ten_digits(char text[TEN_DIGITS_SIZE], uint64_t number) {
    char *end = &text[TEN_DIGITS_SIZE - 1];
    *end = '\0';
    return ten_digits_before(end, number);
}

bool ten_digits_parse(const char *text, uint64_t most, uint64_t *ret_number) {
    char *end = NULL;
    errno = 0;
    unsigned long long number = text ? strtoull(text, &end, 10) : 0;
    if (!text || text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > most)
        return false;
    *ret_number = number;
    return true;
}
