/*
 * The filter: of messages that come in it lets the current ones through. It reads a message's target and token, asks
 * the guard, logs and counts what it refuses. Where messages come from and go to is its callers' business:
 * guard_lines.c for lines, guard_topic.c for topics of a broker, guard_out.c for what passes.
 */
#ifndef TEN_AGENT_GUARD_H
#define TEN_AGENT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "runtime/measures.h"

#define TEN_GUARD_FILTER_BATCH       1000u
#define TEN_GUARD_FILTER_MESSAGE_MAX ((size_t)1024 * 1024) /* bytes */

typedef struct ten_guard_filter_config {
    tenure_guard *guard; /* this and the log stay the caller's; the texts must outlive the filter */
    ten_log *log;
    const char *id_field; /* NULL: "target", or where there is none "scene_id" */
    const char *token_field;
    ten_measures *measures; /* what is read while it runs; NULL: nothing */
} ten_guard_filter_config;

typedef struct ten_guard_filter_message {
    const char *data; /* one JSON object */
    size_t size;
    bool is_line;       /* the newline at its end, if there is one, is the line's and not the message's */
    uint64_t number;    /* for the log: the how manyeth it is */
    bool passes;        /* the verdict */
    const char *target; /* of one that passes; until the next call */
    uint64_t token;
} ten_guard_filter_message;

typedef struct ten_guard_filter_counts {
    uint64_t passed;
    uint64_t stale;
    uint64_t ungranted;   /* the token was never granted */
    uint64_t unconfirmed; /* the store did not answer */
    uint64_t incomplete;  /* no target or no token that could be one */
    uint64_t malformed;   /* not one JSON object, or too long */
    uint64_t untaken;     /* passed, but the output would not have it */
} ten_guard_filter_counts;

typedef struct ten_guard_filter ten_guard_filter;

int ten_guard_filter_open(const ten_guard_filter_config *config, ten_guard_filter **ret_filter, ten_error *error);
void ten_guard_filter_close(ten_guard_filter *filter);

/* Judges up to TEN_GUARD_FILTER_BATCH messages: sets `passes` in each. Waits for the store when the guard has to. */
int ten_guard_filter_judge(ten_guard_filter *filter, ten_guard_filter_message *messages, size_t count,
                           ten_error *error);
/* Whether a message that passed a while ago still does: one that the output has kept waiting. */
bool ten_guard_filter_still_passes(ten_guard_filter *filter, uint64_t number, const char *target, uint64_t token);
/* A message that is longer than TEN_GUARD_FILTER_MESSAGE_MAX, and was not even read to its end. */
void ten_guard_filter_too_long(ten_guard_filter *filter, uint64_t number);
/* A message that passed, and that the output refuses for good. */
void ten_guard_filter_not_taken(ten_guard_filter *filter, uint64_t number, const char *target, const char *why);

const ten_guard_filter_counts *ten_guard_filter_get_counts(const ten_guard_filter *filter);

#endif
