/*
 * The harness of the benchmarks: turns, medians, the table and the JSON. Called by those who have the rows.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"

/* ---- turns --------------------------------------------------------------------------------------------- */

static uint64_t cpu_ns(void) {
    struct timespec used = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static uint64_t server_ns(pid_t server) {
    char path[64];
    char text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)server);
    bool known = server > 0 && ten_read_line(path, text, sizeof text) > 0;
    return known ? strtoull(text, NULL, 10) : 0;
}

static bool run_slice(bench_side *side, size_t round, uint64_t slice_ms) {
    uint64_t spent_us = 0;
    uint64_t spent_cpu_ns = 0;
    uint64_t spent_server_ns = 0;
    uint64_t operations = 0;
    while (spent_us < slice_ms * 1000u || operations == 0) {
        if (side->prepare && !side->prepare(side->arg))
            return false;
        uint64_t start_server_ns = server_ns(side->server);
        uint64_t start_cpu_ns = cpu_ns();
        uint64_t start_us = ten_boot_us();
        if (!side->turn(side->arg))
            return false;
        spent_us += ten_boot_us() - start_us;
        spent_cpu_ns += cpu_ns() - start_cpu_ns;
        spent_server_ns += server_ns(side->server) - start_server_ns;
        operations += side->per_turn;
    }
    side->rates[round] = (double)operations * 1e6 / (double)spent_us;
    side->cpu_us[round] = (double)spent_cpu_ns / 1e3 / (double)operations;
    side->server_us[round] = (double)spent_server_ns / 1e3 / (double)operations;
    return true;
}

bool bench_race(bench_side *sides, size_t count, size_t rounds, uint64_t slice_ms) {
    TEN_INVARIANT(rounds > 0 && rounds <= BENCH_ROUNDS_MAX);
    for (size_t i = 0; i < count; i++) /* caches, prepared statements, the first growth of the files */
        if (!run_slice(&sides[i], 0, slice_ms / 4))
            return false;
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < count; i++)
            if (!run_slice(&sides[round % 2 ? count - 1 - i : i], round, slice_ms))
                return false;
    return true;
}

/* ---- medians ------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static void sort_copy(double *sorted, const double *values, size_t count) {
    TEN_INVARIANT(count > 0 && count <= BENCH_ROUNDS_MAX);
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
}

double bench_median(const double *values, size_t count) {
    double sorted[BENCH_ROUNDS_MAX];
    sort_copy(sorted, values, count);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static bool has_goal(const bench_row *row) {
    return row->goal > 0 || row->kind == BENCH_NONE;
}

bool bench_is_met(const bench_row *row) {
    if (!has_goal(row))
        return true;
    if (row->kind == BENCH_COST || row->kind == BENCH_LATE || row->kind == BENCH_GROWTH)
        return row->ratio <= row->goal;
    return row->kind == BENCH_RATE ? row->ratio >= row->goal : row->ours <= row->goal;
}

/* ---- the table and the JSON ---------------------------------------------------------------------------- */

/* How the figures of each kind are written. */
static const struct {
    const char *unit;
    const char *goal_key;
    const char *value;
    const char *goal;
} kinds[] = {
    [BENCH_RATE] = {"per_second", "goal_ratio_at_least", "%.0f/s", ">= %.2f"},
    [BENCH_WAIT] = {"ms", "goal_ms_at_most", "%.1f ms", "<= %.0f ms"},
    [BENCH_COST] = {"us", "goal_ratio_at_most", "%.2f us", "<= %.1f"},
    [BENCH_SIZE] = {"bytes", "goal_bytes_at_most", "%.1f B", "<= %.0f B"},
    [BENCH_LOAD] = {"percent_of_a_core", "goal_percent_at_most", "%.4f %%", "<= %.1f %%"},
    [BENCH_LATE] = {"ms", "goal_ratio_at_most", "%.2f ms", "<= %.1f"},
    [BENCH_PART] = {"of_the_ttl", "goal_at_most", "%.5f TTL", "<= %.2f"},
    [BENCH_NANO] = {"ns", "goal_ns_at_most", "%.0f ns", "<= %.0f ns"},
    [BENCH_GROWTH] = {"bytes", "goal_ratio_at_most", "%.0f B", "<= %.1f"},
    [BENCH_NONE] = {"count", "goal_at_most", "%.0f", "%.0f"},
};

static const char *verdict(const bench_row *row) {
    return !has_goal(row) ? "-" : bench_is_met(row) ? "met" : "MISSED";
}

void bench_print_head(const bench_report *report) {
    printf("%s\n\n%-37s %13s %13s %6s %11s %9s %-7s %s\n", report->machine, "name", "ours", "reference", "ratio",
           "span", "goal", "verdict", "against");
}

static void print_row(const bench_row *row) {
    char ours[32], reference[32], span[32], goal[32] = "-";
    snprintf(ours, sizeof ours, kinds[row->kind].value, row->ours);
    snprintf(reference, sizeof reference, kinds[row->kind].value, row->reference);
    snprintf(span, sizeof span, "%.2f-%.2f", row->ratio_low, row->ratio_top);
    if (has_goal(row))
        snprintf(goal, sizeof goal, kinds[row->kind].goal, row->goal);
    printf("%-37s %13s %13s %6.2f %11s %9s %-7s %s\n", row->name, ours, reference, row->ratio, span, goal, verdict(row),
           row->against);
    fflush(stdout);
}

bench_row *bench_add(bench_report *report, bench_row head, const double *ours, const double *reference, size_t rounds) {
    if (report->count == BENCH_ROWS_MAX)
        return NULL;
    bench_row *row = &report->rows[report->count++];
    double ratios[BENCH_ROUNDS_MAX];
    double sorted[BENCH_ROUNDS_MAX];
    for (size_t i = 0; i < rounds; i++)
        ratios[i] = reference[i] > 0 ? ours[i] / reference[i] : 0;
    sort_copy(sorted, ratios, rounds);
    *row = head;
    row->ours = bench_median(ours, rounds);
    row->reference = bench_median(reference, rounds);
    row->ratio = bench_median(ratios, rounds);
    row->ratio_low = sorted[0];
    row->ratio_top = sorted[rounds - 1];
    print_row(row);
    return row;
}

static void add_double(ten_buf *json, const char *key, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.4f", value);
    ten_json_raw(json, key, text);
}

static void add_row(ten_buf *json, const bench_row *row) {
    ten_json_open(json);
    ten_json_text(json, "name", row->name);
    ten_json_text(json, "against", row->against);
    ten_json_text(json, "unit", kinds[row->kind].unit);
    add_double(json, "ours", row->ours);
    add_double(json, "reference", row->reference);
    add_double(json, "ratio", row->ratio);
    add_double(json, "ratio_low", row->ratio_low);
    add_double(json, "ratio_top", row->ratio_top);
    if (has_goal(row)) {
        add_double(json, kinds[row->kind].goal_key, row->goal);
        ten_json_bool(json, "met", bench_is_met(row));
    }
    ten_buf_text(json, ten_buf_string(&row->more));
    ten_json_close(json);
}

bool bench_write_json(const bench_report *report, const char *path) {
    ten_buf json = {0};
    ten_json_open(&json);
    ten_json_text(&json, "machine", report->machine);
    ten_json_raw(&json, "rows", "[\n");
    for (size_t i = 0; i < report->count; i++) {
        ten_buf_text(&json, i ? ",\n" : "");
        add_row(&json, &report->rows[i]);
    }
    ten_buf_text(&json, "\n]");
    ten_json_close(&json);
    FILE *file = json.failed ? NULL : fopen(path, "w");
    bool written = file && fprintf(file, "%s\n", ten_buf_string(&json)) > 0;
    written = file && fclose(file) == 0 && written;
    if (!written)
        fprintf(stderr, "bench: cannot write %s\n", path);
    ten_buf_free(&json);
    return written;
}

void bench_free(bench_report *report) {
    for (size_t i = 0; i < report->count; i++)
        ten_buf_free(&report->rows[i].more);
}
