/*
 * Tables for people and for scripts. Called by the commands that list.
 */
#include "cli/table.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/util.h"
#include "cli/visible.h"

void ten_table_start(ten_table *table, const char *const *headings, size_t columns) {
    TEN_INVARIANT(columns <= TEN_TABLE_COLUMNS);
    *table = (ten_table){.headings = headings, .columns = columns, .aligned = isatty(STDOUT_FILENO) == 1};
}

static void print_separated(ten_table *table, const char *const *cells) {
    for (size_t i = 0; i < table->columns; i++) {
        char *cell = ten_visible(cells[i]);
        table->failed |= !cell;
        printf("%s%s", i ? "\t" : "", cell ? cell : "?");
        ten_free(cell);
    }
    printf("\n");
}

void ten_table_row(ten_table *table, const char *const *cells) {
    if (!table->aligned) {
        print_separated(table, cells);
        return;
    }
    if (table->count + table->columns > table->room) {
        size_t room = table->room ? table->room * 2 : 64 * TEN_TABLE_COLUMNS;
        char **larger = ten_realloc(table->cells, room * sizeof *larger);
        if (!larger) {
            table->failed = true;
            return;
        }
        table->cells = larger;
        table->room = room;
    }
    for (size_t i = 0; i < table->columns; i++) {
        char *copy = ten_visible(cells[i]);
        table->failed |= !copy;
        table->cells[table->count++] = copy;
    }
}

static void print_aligned(const ten_table *table, const char *const *cells, const size_t *widths) {
    for (size_t i = 0; i < table->columns; i++) {
        bool last = i + 1 == table->columns;
        printf("%-*s%s", last ? 0 : (int)widths[i], cells[i] ? cells[i] : "?", last ? "\n" : "  ");
    }
}

bool ten_table_end(ten_table *table) {
    size_t widths[TEN_TABLE_COLUMNS] = {0};
    for (size_t i = 0; table->aligned && i < table->columns; i++)
        widths[i] = strlen(table->headings[i]);
    for (size_t i = 0; i < table->count; i++)
        if (table->cells[i])
            widths[i % table->columns] = ten_max_u64(widths[i % table->columns], strlen(table->cells[i]));
    if (table->aligned && table->count > 0)
        print_aligned(table, table->headings, widths);
    for (size_t i = 0; i < table->count; i += table->columns)
        print_aligned(table, (const char *const *)table->cells + i, widths);
    for (size_t i = 0; i < table->count; i++)
        ten_free(table->cells[i]);
    ten_free(table->cells);
    if (table->failed)
        fprintf(stderr, "tenure: out of memory: the table is not complete\n");
    return !table->failed;
}
