/*
 * How the values of records are written: one line of text that people can read, `VERSION FIELD=TEXT FIELD=TEXT...`.
 * VERSION is the lowest version of these rules that may write the record; every version may read it. Fields that are
 * not known are kept when a record is written again. Texts are percent-coded where they have to be. Pure. Called by the
 * other rules.
 */
#ifndef TEN_RULES_VALUE_H
#define TEN_RULES_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define TEN_RULES_VERSION 1u

enum ten_value_kind {
    TEN_VALUE_NUMBER, /* uint64_t; 0 is not written */
    TEN_VALUE_TEXT,   /* const char *; NULL is not written */
};

typedef struct ten_value_field {
    const char *name;
    enum ten_value_kind kind;
    size_t offset; /* in the struct that has them */
} ten_value_field;

/* Fills in the fields of *row, all others of these with 0 and NULL. `texts` is where the texts lie afterwards; NULL:
 * the row has none. False: out of memory, or it is no value. */
bool ten_value_read(const char *value, const ten_value_field *fields, size_t count, void *row, ten_buf *texts);
/* Appends the value of *row. `old`: the one that it replaces, whose unknown fields it keeps; NULL: there is none. */
void ten_value_write(ten_buf *out, const char *old, const ten_value_field *fields, size_t count, const void *row);
/* Whether these rules may replace that value; NULL: there is none. */
bool ten_value_is_writable(const char *value);

#endif
