/*
 * The runs of a job, as text. See cron_log.h.
 */
#include "core/cron_log.h"

#include <inttypes.h>
#include <string.h>

#include "base/util.h"

#define KEY       " log="
#define RUN_MAX   96u /* the longest run with its token and the comma */
#define DIGITS_36 "0123456789abcdefghijklmnopqrstuvwxyz"

static const struct {
    char letter;
    const char *name;
} ends[TEN_CRON_ENDS] = {
    [TEN_CRON_EXITED] = {'x', "exited"},       [TEN_CRON_KILLED] = {'k', "signal"},
    [TEN_CRON_TIMED_OUT] = {'t', "timed_out"}, [TEN_CRON_NOT_STARTED] = {'n', "not_started"},
    [TEN_CRON_LOST] = {'l', "lost"},           [TEN_CRON_MISSED] = {'m', "missed"},
    [TEN_CRON_OVERLAPPED] = {'o', "overlap"},
};

const char *ten_cron_end_name(enum ten_cron_end end) {
    return (unsigned)end < TEN_CRON_ENDS ? ends[end].name : "";
}

/* ---- writing */

static size_t put_number(char *to, uint64_t number) {
    char digits[16];
    size_t count = 0;
    do {
        digits[count++] = DIGITS_36[number % 36];
        number /= 36;
    } while (number);
    for (size_t i = 0; i < count; i++)
        to[i] = digits[count - 1 - i];
    return count;
}

static void add_part(ten_cron_log *log, char separator, char letter, uint64_t number) {
    if (separator)
        log->text[log->size++] = separator;
    if (letter)
        log->text[log->size++] = letter;
    log->size += put_number(log->text + log->size, number);
}

/* The runs from the first one that fits on. */
static size_t surplus_of(const ten_cron_log *log, size_t most) {
    if (log->size <= most)
        return 0;
    const char *comma = memchr(log->text + log->size - most, ',', most);
    return comma ? (size_t)(comma - log->text) + 1 : log->size;
}

static void cut_to(ten_cron_log *log, size_t most) {
    size_t surplus = surplus_of(log, most);
    log->size -= surplus;
    memmove(log->text, log->text + surplus, log->size);
}

void ten_cron_log_cut(ten_cron_log *log) {
    cut_to(log, TEN_CRON_LOG_MAX);
}

void ten_cron_log_pass_on(ten_cron_log *log, uint64_t token) {
    if (token == log->token)
        return;
    size_t at = log->size;
    while (at > 0 && log->text[at - 1] != ',' && log->text[at - 1] != '@')
        at--;
    bool has_token = at > 0 && log->text[at - 1] == '@';
    cut_to(log, TEN_CRON_LOG_ROOM - RUN_MAX);
    if (log->size > 0 && !has_token)
        add_part(log, '@', 0, log->token);
    log->token = token;
}

void ten_cron_log_add(ten_cron_log *log, const ten_cron_run *run) {
    cut_to(log, TEN_CRON_LOG_ROOM - RUN_MAX);
    add_part(log, log->size ? ',' : 0, 0, run->instant_ms > 0 ? (uint64_t)run->instant_ms : 0);
    add_part(log, '.', 0, run->late_ms);
    add_part(log, '.', 0, run->duration_ms);
    add_part(log, '.', ends[run->end].letter, run->code);
}

ten_cron_log_mark ten_cron_log_here(const ten_cron_log *log) {
    return (ten_cron_log_mark){.token = log->token, .size = log->size};
}

void ten_cron_log_take_back(ten_cron_log *log, ten_cron_log_mark mark) {
    log->token = mark.token;
    log->size = ten_min_u64(log->size, mark.size);
}

void ten_cron_log_write(const ten_cron_log *log, char *text, size_t size) {
    size_t surplus = surplus_of(log, TEN_CRON_LOG_MAX);
    text[0] = '\0';
    if (log->size > surplus)
        snprintf(text, size, KEY "%" PRIu64 ";%.*s", log->token, (int)(log->size - surplus), log->text + surplus);
}

/* ---- reading */

/* The runs in a checkpoint, and how many bytes they are. NULL: there are none. */
static const char *find(const char *checkpoint, uint64_t *ret_token, size_t *ret_size) {
    const char *at = checkpoint && strncmp(checkpoint, "cron=1 ", 7) == 0 ? strstr(checkpoint, KEY) : NULL;
    int head = 0;
    if (!at || sscanf(at, KEY "%" SCNu64 ";%n", ret_token, &head) != 1 || head == 0)
        return NULL;
    *ret_size = strcspn(at + head, " ");
    return at + head;
}

void ten_cron_log_read(ten_cron_log *log, const char *checkpoint) {
    const char *runs = find(checkpoint, &log->token, &log->size);
    if (!runs || log->size > TEN_CRON_LOG_MAX) {
        log->token = 0;
        log->size = 0;
        return;
    }
    memcpy(log->text, runs, log->size);
}

static bool take_number(const char **at, const char *end, uint64_t *ret_number) {
    const char *start = *at;
    uint64_t number = 0;
    for (; *at < end; (*at)++) {
        const char *digit = memchr(DIGITS_36, **at, 36);
        if (!digit || number > (UINT64_MAX - 35) / 36)
            break;
        number = number * 36 + (uint64_t)(digit - DIGITS_36);
    }
    *ret_number = number;
    return *at > start;
}

static bool take(const char **at, const char *end, char wanted) {
    if (*at == end || **at != wanted)
        return false;
    (*at)++;
    return true;
}

/* One run, without its commas. `run->token` is that of the next one. */
static bool take_run(const char *at, const char *end, ten_cron_run *run) {
    uint64_t instant;
    if (!take_number(&at, end, &instant) || !take(&at, end, '.') || !take_number(&at, end, &run->late_ms) ||
        !take(&at, end, '.') || !take_number(&at, end, &run->duration_ms) || !take(&at, end, '.') || at == end)
        return false;
    unsigned found = 0;
    while (found < TEN_CRON_ENDS && ends[found].letter != *at)
        found++;
    at++;
    run->instant_ms = (int64_t)(instant & INT64_MAX);
    run->end = (enum ten_cron_end)found;
    if (found == TEN_CRON_ENDS || !take_number(&at, end, &run->code))
        return false;
    return !take(&at, end, '@') || take_number(&at, end, &run->token);
}

int ten_cron_log_each(const char *checkpoint, ten_cron_run_fn each, void *userdata) {
    ten_cron_run run = {0};
    size_t size = 0;
    int r = 0;
    const char *runs = find(checkpoint, &run.token, &size);
    while (runs && r == 0 && size > 0) {
        size_t start = size;
        while (start > 0 && runs[start - 1] != ',')
            start--;
        if (!take_run(runs + start, runs + size, &run))
            return 0; /* written by another program: what is older is not understood either */
        r = each(&run, userdata);
        size = start > 0 ? start - 1 : 0;
    }
    return r;
}
