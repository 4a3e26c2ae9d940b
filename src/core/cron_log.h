/*
 * The runs of a job of a crontab, as text beside what its checkpoint remembers (cron_job.h): so that every store keeps
 * them, a successor has them, and they change in the same step as the claim. The oldest make room for new ones:
 * TEN_CRON_LOG_MAX bytes are about 200 runs. Pure. Written by cron_job.c; read by core/history.c and `tenure cron ls`.
 *
 * The text is ` log=TOKEN;RUN,RUN...`, the oldest first. A run is INSTANT.LATE.DURATION.KCODE[@TOKEN] with numbers to
 * the base 36 and times in ms; K is the letter of enum ten_cron_end. A run without a token has that of the next one,
 * and the last one that of the head: so the oldest can be cut off.
 */
#ifndef TEN_CORE_CRON_LOG_H
#define TEN_CORE_CRON_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How an instant has ended. */
enum ten_cron_end {
    TEN_CRON_EXITED,
    TEN_CRON_KILLED, /* by a signal */
    TEN_CRON_TIMED_OUT,
    TEN_CRON_NOT_STARTED, /* the command could not be started */
    TEN_CRON_LOST,        /* its runner died or lost the lease: its end is not known */
    TEN_CRON_MISSED,      /* it did not run, because no instance could run it in time */
    TEN_CRON_OVERLAPPED,  /* it did not run, because the run before it was under way */
    TEN_CRON_ENDS,
};

typedef struct ten_cron_run {
    enum ten_cron_end end;
    int64_t instant_ms;   /* several that did not run: the first */
    uint64_t late_ms;     /* from the instant to the start; without a start: until it was known */
    uint64_t duration_ms; /* 0 without a start */
    uint64_t code;        /* the exit status, the signal, or how many did not run */
    uint64_t token;       /* 0: not known */
} ten_cron_run;

/* The word of the history: "exited", "signal", "timed_out", "not_started", "lost", "missed", "overlap". */
const char *ten_cron_end_name(enum ten_cron_end end);

#define TEN_CRON_LOG_MAX  3400u /* bytes that are written */
#define TEN_CRON_LOG_ROOM (TEN_CRON_LOG_MAX + 400u)

typedef struct ten_cron_log {
    uint64_t token; /* of what is added */
    size_t size;
    char text[TEN_CRON_LOG_ROOM]; /* the runs alone */
} ten_cron_log;

/* Where a log is at a moment: what was added afterwards can be taken back, unless it was cut meanwhile. */
typedef struct ten_cron_log_mark {
    uint64_t token;
    size_t size;
} ten_cron_log_mark;

/* From a checkpoint; empty if that has none. */
void ten_cron_log_read(ten_cron_log *log, const char *checkpoint);
/* Who adds runs from now on. */
void ten_cron_log_pass_on(ten_cron_log *log, uint64_t token);
void ten_cron_log_add(ten_cron_log *log, const ten_cron_run *run);
/* Cuts off the oldest that are too many. */
void ten_cron_log_cut(ten_cron_log *log);
ten_cron_log_mark ten_cron_log_here(const ten_cron_log *log);
void ten_cron_log_take_back(ten_cron_log *log, ten_cron_log_mark mark);
/* ` log=...`, or "" if it is empty; at most TEN_CRON_LOG_MAX bytes of runs. */
void ten_cron_log_write(const ten_cron_log *log, char *text, size_t size);

/* Calls `each` for the runs in a checkpoint, the newest first, until it returns non-zero, which is then returned. */
typedef int (*ten_cron_run_fn)(const ten_cron_run *run, void *userdata);
int ten_cron_log_each(const char *checkpoint, ten_cron_run_fn each, void *userdata);

#endif
