/*
 * What a command prints of things that it lists: one table of columns says what a row is in text and in JSON. Text is
 * aligned with a heading on a terminal, tab-separated without one elsewhere, so that scripts need no parsing of blanks.
 * JSON is one object a line.
 */
#ifndef TEN_CLI_TABLE_H
#define TEN_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/arguments.h"

#define TEN_TABLE_COLUMNS 12u /* in text */

enum ten_column_kind {
    TEN_COLUMN_TEXT, /* the usual one; NULL: "-" and null */
    TEN_COLUMN_NUMBER,
    TEN_COLUMN_PERIOD, /* milliseconds; as text 12.3s */
    TEN_COLUMN_TIME,   /* wall clock in ms, RFC 3339; 0: "-" and null */
    TEN_COLUMN_AGE,    /* the same in JSON, as text how long ago */
    TEN_COLUMN_BOOL,   /* these three in JSON only */
    TEN_COLUMN_RAW,    /* is JSON; NULL: left out */
    TEN_COLUMN_VALUE,  /* is JSON that a user wrote; NULL: null */
};

/* A column in one row: what it is called, how it is shown, and its value. */
typedef struct ten_cell {
    const char *heading; /* NULL: JSON only */
    const char *key;     /* NULL: text only */
    enum ten_column_kind kind;
    bool optional; /* what is null is left out of the JSON */
    union {        /* by the kind */
        const char *text;
        uint64_t number;
    };
} ten_cell;

#define TEN_NONE UINT64_MAX /* no number: "-", and left out of the JSON */

static inline uint64_t ten_or_none(uint64_t number) {
    return number ? number : TEN_NONE;
}
static inline const char *ten_or_null(const char *text) {
    return text && text[0] ? text : NULL;
}

typedef struct ten_table {
    const char *namespace_name; /* for those who add rows */
    bool json;
    bool aligned;
    bool failed;   /* out of memory: rows are missing */
    size_t hidden; /* of the last columns of the text */
    size_t rows;
    const char *headings[TEN_TABLE_COLUMNS];
    size_t shown; /* columns of the text */
    char **cells; /* row by row */
    size_t count;
    uint32_t room;
} ten_table;

void ten_table_start(ten_table *table, const ten_arguments *arguments);
/* A row; texts are copied, headings are not. All rows have the same columns. 1: standard output takes no more; 0: go
 * on. */
int ten_table_add(ten_table *table, const ten_cell *cells, size_t count);
/* Prints and frees. exit_code, or 1 if rows are missing, which has been said. */
int ten_table_end(ten_table *table, int exit_code);

/* A single row: an object, or its text with tabs and without a heading. */
void ten_print_row(bool json, const ten_cell *cells, size_t count);
/* The same with a line for each value: heading and text. What is none is left out. */
void ten_print_lines(const ten_cell *cells, size_t count);

/* The cells follow in braces: TEN_TABLE_ADD(&table, {"TARGET", "target", .text = id}); */
#define TEN_CELL_ARRAY(...)       ((const ten_cell[]){__VA_ARGS__})
#define TEN_CELLS(...)            TEN_CELL_ARRAY(__VA_ARGS__), TEN_COUNT(TEN_CELL_ARRAY(__VA_ARGS__))
#define TEN_TABLE_ADD(table, ...) ten_table_add(table, TEN_CELLS(__VA_ARGS__))
#define TEN_PRINT_ROW(json, ...)  ten_print_row(json, TEN_CELLS(__VA_ARGS__))

#endif
