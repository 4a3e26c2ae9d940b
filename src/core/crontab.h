/*
 * A line of a Tenure crontab, `NAME [key=value...] SCHEDULE COMMAND`, as text. Pure. The keys: tz, missed, max-late,
 * overlap, jitter, timeout. Blank lines and those that begin with # are the caller's to leave out. Called by the
 * agent's source of jobs and by `tenure cron check`.
 */
#ifndef TEN_CORE_CRONTAB_H
#define TEN_CORE_CRONTAB_H

#include "core/cron_job.h"

#define TEN_CRON_ZONE_MAX    63u
#define TEN_CRON_COMMAND_MAX 65536u

typedef struct ten_crontab_line {
    char name[TENURE_TARGET_MAX + 1];
    char zone[TEN_CRON_ZONE_MAX + 1]; /* "": UTC */
    size_t zone_at;                   /* where its name is, in bytes from the start of the text */
    ten_cron_schedule schedule;
    ten_cron_policy policy;
    const char *command; /* in the text */
} ten_crontab_line;

/* False: *mistake says what is wrong, and where. */
bool ten_crontab_parse(const char *line, ten_crontab_line *ret_line, ten_cron_mistake *mistake);

/* A line of a user's crontab (`SCHEDULE COMMAND`), as one of ours, under that name. False: it is no job (a variable,
 * @reboot), or a mistake; the reason says which. */
bool ten_crontab_import(const char *line, const char *name, char *text, size_t size, ten_cron_mistake *mistake);

#endif
