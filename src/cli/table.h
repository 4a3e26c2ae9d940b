/*
 * Tables: aligned with a heading on a terminal, tab-separated without one elsewhere, so that scripts need no parsing of
 * blanks.
 */
#ifndef TEN_CLI_TABLE_H
#define TEN_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#define TEN_TABLE_COLUMNS 12u

typedef struct ten_table {
    const char *const *headings;
    size_t columns;
    char **cells; /* row by row */
    size_t count;
    size_t room;
    bool aligned;
    bool failed; /* out of memory: rows are missing */
} ten_table;

void ten_table_start(ten_table *table, const char *const *headings, size_t columns);
/* A row; the cells are copied. */
void ten_table_row(ten_table *table, const char *const *cells);
/* Prints and frees. False: out of memory, said on standard error. */
bool ten_table_end(ten_table *table);

#endif
