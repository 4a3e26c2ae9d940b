/*
 * The harness of the benchmarks: turns, medians, the table and the JSON. Called by those who have the rows.
 */
#include "bench.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "usage.h"

#define TEXTS_SIZE 65536u

/* ---- turns --------------------------------------------------------------------------------------------- */

/* Microseconds of a slice. */
struct spent {
    double all, client, server, others;
};

/* Processor time so far, added or taken away. */
static void count_spent(struct spent *spent, pid_t server, double sign) {
    double first_us = server ? usage_first_thread_us(server) : 0;
    spent->server += sign * first_us;
    spent->others += server ? sign * (usage_threads_us(server) - first_us) : 0;
    spent->client += sign * (usage_self_us() + usage_children_us());
}

static bool run_slice(bench_side *side, size_t round, uint64_t slice_ms) {
    struct spent spent = {0};
    uint64_t operations = 0;
    while (spent.all < (double)slice_ms * 1000 || operations == 0) {
        if (side->prepare && !side->prepare(side->arg))
            return false;
        count_spent(&spent, side->server, -1);
        uint64_t start_us = ten_boot_us();
        if (!side->turn(side->arg))
            return false;
        spent.all += (double)(ten_boot_us() - start_us);
        count_spent(&spent, side->server, 1);
        operations += side->per_turn;
    }
    double count = (double)operations;
    side->values[BENCH_RATE][round] = count * 1e6 / spent.all;
    side->values[BENCH_NANO][round] = spent.all * 1e3 / count;
    side->values[BENCH_CLIENT][round] = spent.client / count;
    side->values[BENCH_SERVER][round] = spent.server / count;
    side->values[BENCH_OTHERS][round] = spent.others / count;
    return true;
}

bool bench_race(bench_report *report, bench_side *sides, size_t count, size_t rounds, uint64_t slice_ms,
                const bench_pairing *rows, size_t row_count) {
    TEN_INVARIANT(rounds > 0 && rounds <= BENCH_ROUNDS_MAX);
    for (size_t i = 0; i < count; i++) /* caches, prepared statements, the first growth of the files */
        if (!run_slice(&sides[i], 0, slice_ms / 4))
            return false;
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < count; i++)
            if (!run_slice(&sides[round % 2 ? count - 1 - i : i], round, slice_ms))
                return false;
    for (const bench_pairing *row = rows; row < rows + row_count; row++) {
        bench_row head = {.name = row->name, .against = row->against, .kind = row->kind, .goal = row->goal};
        if (!bench_add(report, head, sides[row->ours].values[row->kind], sides[row->reference].values[row->kind],
                       rounds))
            return false;
    }
    return true;
}

/* ---- medians ------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

double bench_percentile(double *values, size_t count, unsigned percent) {
    qsort(values, count, sizeof *values, compare);
    return count ? values[(count - 1) * percent / 100] : 0;
}

double bench_median(const double *values, size_t count) {
    double sorted[BENCH_ROUNDS_MAX];
    TEN_INVARIANT(count > 0 && count <= BENCH_ROUNDS_MAX);
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

enum limit { LEAST_RATIO, MOST_RATIO, MOST };

/* How the figures of each kind are written, and what their goal is about. */
static const struct {
    const char *unit;
    const char *goal_key;
    const char *value;
    const char *goal;
    enum limit limit;
} kinds[BENCH_KINDS] = {
    [BENCH_RATE] = {"per_second", "goal_ratio_at_least", "%.0f/s", ">= %.2f", LEAST_RATIO},
    [BENCH_WAIT] = {"ms", "goal_ms_at_most", "%.1f ms", "<= %.0f ms", MOST},
    [BENCH_COST] = {"us", "goal_ratio_at_most", "%.2f us", "<= %.1f", MOST_RATIO},
    [BENCH_CLIENT] = {"us", "goal_ratio_at_most", "%.2f us", "<= %.1f", MOST_RATIO},
    [BENCH_SERVER] = {"us", "goal_ratio_at_most", "%.2f us", "<= %.1f", MOST_RATIO},
    [BENCH_OTHERS] = {"us", "goal_ratio_at_most", "%.2f us", "<= %.1f", MOST_RATIO},
    [BENCH_SIZE] = {"bytes", "goal_bytes_at_most", "%.1f B", "<= %.0f B", MOST},
    [BENCH_LOAD] = {"percent_of_a_core", "goal_percent_at_most", "%.4f %%", "<= %.1f %%", MOST},
    [BENCH_LATE] = {"ms", "goal_ratio_at_most", "%.2f ms", "<= %.1f", MOST_RATIO},
    [BENCH_PART] = {"of_the_ttl", "goal_at_most", "%.5f TTL", "<= %.2f", MOST},
    [BENCH_NANO] = {"ns", "goal_ns_at_most", "%.0f ns", "<= %.0f ns", MOST},
    [BENCH_GROWTH] = {"bytes", "goal_ratio_at_most", "%.0f B", "<= %.1f", MOST_RATIO},
    [BENCH_NONE] = {"count", "goal_at_most", "%.0f", "%.0f", MOST},
};

static bool has_goal(const bench_row *row) {
    return row->goal > 0 || row->kind == BENCH_NONE;
}

static bool is_met(const bench_row *row) {
    enum limit limit = kinds[row->kind].limit;
    return !has_goal(row) || (limit == LEAST_RATIO  ? row->ratio >= row->goal
                              : limit == MOST_RATIO ? row->ratio <= row->goal
                                                    : row->ours <= row->goal);
}

void bench_print_head(const bench_report *report) {
    printf("%s\n\n%-37s %13s %13s %6s %11s %9s %-7s %s\n", report->machine, "name", "ours", "reference", "ratio",
           "span", "goal", "verdict", "against");
}

static void print_row(const bench_row *row) {
    char ours[32], reference[32], span[32], goal[32] = "-";
    const char *verdict = !has_goal(row) ? "-" : is_met(row) ? "met" : "MISSED";
    snprintf(ours, sizeof ours, kinds[row->kind].value, row->ours);
    snprintf(reference, sizeof reference, kinds[row->kind].value, row->reference);
    snprintf(span, sizeof span, "%.2f-%.2f", row->ratio_low, row->ratio_top);
    if (has_goal(row))
        snprintf(goal, sizeof goal, kinds[row->kind].goal, row->goal);
    printf("%-37s %13s %13s %6.2f %11s %9s %-7s %s\n", row->name, ours, reference, row->ratio, span, goal, verdict,
           row->against);
    fflush(stdout);
}

bench_row *bench_add(bench_report *report, bench_row head, const double *ours, const double *reference, size_t rounds) {
    if (report->count == BENCH_ROWS_MAX)
        return NULL;
    bench_row *row = &report->rows[report->count++];
    double ratios[BENCH_ROUNDS_MAX];
    for (size_t i = 0; i < rounds; i++)
        ratios[i] = reference[i] > 0 ? ours[i] / reference[i] : 0;
    *row = head;
    row->ours = bench_median(ours, rounds);
    row->reference = bench_median(reference, rounds);
    row->ratio = bench_median(ratios, rounds);
    row->ratio_low = bench_percentile(ratios, rounds, 0);
    row->ratio_top = ratios[rounds - 1];
    print_row(row);
    return row;
}

bench_row *bench_add_one(bench_report *report, bench_row head, double ours, double reference) {
    return bench_add(report, head, &ours, &reference, 1);
}

const char *bench_keep_text(const char *format, ...) {
    static char texts[TEXTS_SIZE];
    static size_t used;
    va_list args;
    char *text = texts + used;
    va_start(args, format);
    int length = vsnprintf(text, sizeof texts - used, format, args);
    va_end(args);
    TEN_INVARIANT(length >= 0 && (size_t)length < sizeof texts - used);
    used += (size_t)length + 1;
    return text;
}

bool bench_could_not(const char *what) {
    fprintf(stderr, "bench: %s could not be measured\n", what);
    return false;
}

bool bench_apart(bool (*work)(const void *what, void *ret_answer), const void *what, void *ret_answer, size_t size) {
    int ends[2], status = 0;
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        (void)mallopt(M_ARENA_MAX, 1); /* the statistics are those of one arena */
        _exit(work(what, ret_answer) && ten_write_all(ends[1], ret_answer, size) == 0 ? 0 : 1);
    }
    close(ends[1]);
    bool told = pid > 0 && read(ends[0], ret_answer, size) == (ssize_t)size;
    close(ends[0]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && told && status == 0;
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

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
        ten_json_bool(json, "met", is_met(row));
    }
    ten_buf_text(json, ten_buf_string(&row->more));
    ten_json_close(json);
}

static bool write_json(const bench_report *report, const char *path) {
    TEN_CLEANUP(ten_buf_free) ten_buf json = {0};
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
    return written;
}

int bench_end(bench_report *report, const char *json) {
    int missed = 0;
    bool written = !json || write_json(report, json);
    for (size_t i = 0; i < report->count; i++) {
        if (!is_met(&report->rows[i])) {
            fprintf(stderr, "bench: %s missed its goal\n", report->rows[i].name);
            missed++;
        }
        ten_buf_free(&report->rows[i].more);
    }
    return written ? missed : -1;
}
