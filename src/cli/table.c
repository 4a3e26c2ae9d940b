/*
 * Tables for people and for scripts. Called by the commands that print what they found.
 */
#include "cli/table.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "cli/visible.h"
#include "store/common/json_value.h"

#define TEXT_SIZE 40u /* of a value that is not text itself */

/* ---- values */

static bool is_text(const ten_cell *cell) {
    return cell->kind == TEN_COLUMN_TEXT || cell->kind == TEN_COLUMN_RAW || cell->kind == TEN_COLUMN_VALUE;
}

static bool is_time(const ten_cell *cell) {
    return cell->kind == TEN_COLUMN_TIME || cell->kind == TEN_COLUMN_AGE;
}

static bool is_none(const ten_cell *cell) {
    return is_text(cell) ? !cell->text : cell->number == TEN_NONE || (is_time(cell) && cell->number == 0);
}

/* The text itself, or what `room` then has. */
static const char *text_of(const ten_cell *cell, char room[TEXT_SIZE]) {
    if (is_none(cell))
        return "-";
    if (is_text(cell))
        return cell->text;
    if (cell->kind == TEN_COLUMN_PERIOD)
        ten_duration_show(cell->number, room);
    else if (cell->kind == TEN_COLUMN_TIME)
        ten_rfc3339(cell->number, room);
    else if (cell->kind == TEN_COLUMN_AGE)
        ten_duration_show(ten_sub_saturating(ten_wall_ms(&ten_system_clock), cell->number), room);
    else
        snprintf(room, TEXT_SIZE, "%llu", (unsigned long long)cell->number);
    return room;
}

static void add_member(ten_buf *line, const ten_cell *cell) {
    bool has_null = cell->kind == TEN_COLUMN_TEXT || cell->kind == TEN_COLUMN_VALUE || is_time(cell);
    if (!cell->key || (is_none(cell) && (cell->optional || !has_null)))
        return;
    if (cell->kind == TEN_COLUMN_TEXT)
        ten_json_text(line, cell->key, cell->text);
    else if (cell->kind == TEN_COLUMN_RAW)
        ten_json_raw(line, cell->key, cell->text);
    else if (cell->kind == TEN_COLUMN_VALUE)
        ten_json_value(line, cell->key, cell->text);
    else if (is_time(cell))
        ten_json_time(line, cell->key, is_none(cell) ? 0 : cell->number);
    else if (cell->kind == TEN_COLUMN_BOOL)
        ten_json_bool(line, cell->key, cell->number != 0);
    else
        ten_json_number(line, cell->key, cell->number);
}

/* ---- rows */

static void print_json(const ten_cell *cells, size_t count) {
    TEN_CLEANUP(ten_buf_free) ten_buf line = {0};
    ten_json_open(&line);
    for (size_t i = 0; i < count; i++)
        add_member(&line, &cells[i]);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
}

static void print_separated(const ten_cell *cells, size_t count, size_t shown) {
    char room[TEXT_SIZE];
    const char *separator = "";
    for (size_t i = 0; i < count && shown > 0; i++) {
        if (!cells[i].heading)
            continue;
        printf("%s", separator);
        ten_print_visible(stdout, text_of(&cells[i], room));
        separator = "\t";
        shown--;
    }
    printf("\n");
}

void ten_print_row(bool json, const ten_cell *cells, size_t count) {
    if (json)
        print_json(cells, count);
    else
        print_separated(cells, count, count);
}

void ten_print_lines(const ten_cell *cells, size_t count) {
    char room[TEXT_SIZE];
    for (size_t i = 0; i < count; i++) {
        if (!cells[i].heading || is_none(&cells[i]))
            continue;
        printf("%-12s ", cells[i].heading);
        ten_print_visible(stdout, text_of(&cells[i], room));
        printf("\n");
    }
}

/* ---- tables */

void ten_table_start(ten_table *table, const ten_arguments *arguments) {
    *table = (ten_table){.namespace_name = arguments->namespace_name,
                         .json = arguments->json,
                         .aligned = !arguments->json && isatty(STDOUT_FILENO) == 1};
}

static void take_headings(ten_table *table, const ten_cell *cells, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!cells[i].heading)
            continue;
        TEN_INVARIANT(table->shown < TEN_TABLE_COLUMNS);
        table->headings[table->shown++] = cells[i].heading;
    }
    table->shown -= table->hidden;
}

static void keep_row(ten_table *table, const ten_cell *cells) {
    char room[TEXT_SIZE];
    if (!TEN_GROW(table->cells, table->room, (uint32_t)(table->count + table->shown))) {
        table->failed = true;
        return;
    }
    for (size_t left = table->shown; left > 0; cells++) {
        if (!cells->heading)
            continue;
        char *copy = ten_visible(text_of(cells, room));
        table->failed |= !copy;
        table->cells[table->count++] = copy;
        left--;
    }
}

int ten_table_add(ten_table *table, const ten_cell *cells, size_t count) {
    if (table->rows++ == 0)
        take_headings(table, cells, count);
    if (table->json)
        print_json(cells, count);
    else if (table->aligned)
        keep_row(table, cells);
    else
        print_separated(cells, count, table->shown);
    return ferror(stdout) ? 1 : 0;
}

static void print_aligned(const ten_table *table, const char *const *cells, const size_t *widths) {
    for (size_t i = 0; i < table->shown; i++) {
        bool last = i + 1 == table->shown;
        printf("%-*s%s", last ? 0 : (int)widths[i], cells[i] ? cells[i] : "?", last ? "\n" : "  ");
    }
}

int ten_table_end(ten_table *table, int exit_code) {
    size_t widths[TEN_TABLE_COLUMNS];
    for (size_t i = 0; i < table->shown; i++)
        widths[i] = strlen(table->headings[i]);
    for (size_t i = 0; i < table->count; i++)
        if (table->cells[i])
            widths[i % table->shown] = ten_max_u64(widths[i % table->shown], strlen(table->cells[i]));
    if (table->count > 0)
        print_aligned(table, table->headings, widths);
    for (size_t i = 0; i < table->count; i += table->shown)
        print_aligned(table, (const char *const *)table->cells + i, widths);
    for (size_t i = 0; i < table->count; i++)
        ten_free(table->cells[i]);
    ten_free(table->cells);
    if (table->failed)
        fprintf(stderr, "tenure: out of memory: the table is not complete\n");
    return table->failed ? 1 : exit_code;
}
