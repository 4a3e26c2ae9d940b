/*
 * Values of records. See value.h.
 */
#include "rules/value.h"

#include <string.h>

#include "base/encode.h"

/* All that would end a field, or that a store could take for something else. */
static bool is_plain(char c) {
    return (unsigned char)c > ' ' && c != '%' && c != 0x7f;
}

static void write_text(ten_buf *out, const char *text) {
    for (const char *from = text; *from;) {
        size_t plain = 0;
        while (from[plain] && is_plain(from[plain]))
            plain++;
        ten_buf_add(out, from, plain);
        from += plain;
        if (*from)
            ten_buf_format(out, "%%%02X", (unsigned char)*from++);
    }
}

static void write_number(ten_buf *out, uint64_t number) {
    char digits[TEN_DIGITS_SIZE];
    ten_buf_text(out, ten_digits(digits, number));
}

static const ten_value_field *find(const ten_value_field *fields, size_t count, const char *name, size_t size) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(fields[i].name, name, size) == 0 && fields[i].name[size] == '\0')
            return &fields[i];
    return NULL;
}

/* The next ` NAME=TEXT` from *at on; false: there is none. */
static bool next_field(const char **at, const char **ret_name, size_t *ret_size, const char **ret_text) {
    while (**at == ' ') {
        const char *name = *at + 1;
        const char *end = name + strcspn(name, " ");
        const char *equals = memchr(name, '=', (size_t)(end - name));
        *at = end;
        if (!equals)
            continue;
        *ret_name = name;
        *ret_size = (size_t)(equals - name);
        *ret_text = equals + 1;
        return true;
    }
    return false;
}

/* The digits at its beginning. Every operation reads several: strtoull() knows of bases and locales, and takes
 * longer. */
static uint64_t read_number(const char *text) {
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    return number;
}

bool ten_value_is_writable(const char *value) {
    return !value || read_number(value) <= TEN_RULES_VERSION;
}

static void clear(const ten_value_field *fields, size_t count, void *row) {
    for (size_t i = 0; i < count; i++) {
        size_t size = fields[i].kind == TEN_VALUE_NUMBER ? sizeof(uint64_t) : sizeof(const char *);
        memset((char *)row + fields[i].offset, 0, size);
    }
}

/* A copy of the text up to the next blank, decoded. The buffer has room for it and does not move. */
static const char *keep_text(ten_buf *texts, const char *text) {
    size_t size = strcspn(text, " ");
    char *copy = texts->data + texts->size;
    ten_buf_add(texts, text, size);
    ten_buf_add(texts, "", 1);
    return ten_percent_decode(copy, false) ? copy : NULL;
}

bool ten_value_read(const char *value, const ten_value_field *fields, size_t count, void *row, ten_buf *texts) {
    const char *name;
    const char *text;
    size_t size;
    clear(fields, count, row);
    if (texts) { /* makes the room at once: pointers into it stay */
        ten_buf_clear(texts);
        ten_buf_text(texts, value);
        for (size_t i = 0; i <= count; i++)
            ten_buf_char(texts, ' ');
        if (texts->failed)
            return false;
        ten_buf_clear(texts);
    }
    const char *at = value + strspn(value, "0123456789");
    bool sound = at > value;
    while (next_field(&at, &name, &size, &text)) {
        const ten_value_field *field = find(fields, count, name, size);
        if (field && field->kind == TEN_VALUE_NUMBER) {
            uint64_t number = read_number(text);
            memcpy((char *)row + field->offset, &number, sizeof number);
        } else if (field && texts) {
            const char *copy = keep_text(texts, text);
            sound &= copy != NULL;
            memcpy((char *)row + field->offset, &copy, sizeof copy);
        }
    }
    return sound;
}

void ten_value_write(ten_buf *out, const char *old, const ten_value_field *fields, size_t count, const void *row) {
    uint64_t version = old ? read_number(old) : 0;
    write_number(out, version > 1 ? version : 1);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = 0;
        const char *text = NULL;
        if (fields[i].kind == TEN_VALUE_NUMBER)
            memcpy(&number, (const char *)row + fields[i].offset, sizeof number);
        else
            memcpy(&text, (const char *)row + fields[i].offset, sizeof text);
        if (number == 0 && !text)
            continue;
        ten_buf_char(out, ' ');
        ten_buf_text(out, fields[i].name);
        ten_buf_char(out, '=');
        if (text)
            write_text(out, text);
        else
            write_number(out, number);
    }
    const char *name;
    const char *text;
    size_t size;
    for (const char *at = old ? old + strspn(old, "0123456789") : ""; next_field(&at, &name, &size, &text);) {
        if (find(fields, count, name, size))
            continue;
        ten_buf_char(out, ' ');
        ten_buf_add(out, name, (size_t)(text - name) + strcspn(text, " "));
    }
}
