/*
 * What the passes of a source have shown. Called by source.c and by each kind of source.
 */
#include "agent/sources/source_feed.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "core/crontab.h"

#define BAD_MAX     50u /* reported in one pass, each in a line of its own */
#define ENTRY_SHOWN 120u
#define PATIENCE_MS 5000u

void ten_source_feed_init(ten_source_feed *feed, uint64_t ttl_ms, ten_source_event_fn on_event, void *userdata) {
    *feed = (ten_source_feed){.list.ttl_ms = ttl_ms, .on_event = on_event, .userdata = userdata};
}

void ten_source_feed_free(ten_source_feed *feed) {
    ten_target_list_free(&feed->list);
}

static bool report(const ten_source_feed *feed, const ten_source_event *event) {
    return feed->on_event(event, feed->userdata);
}

/* ---- entries that cannot be used */

static void show(const char *prefix, const char *entry, size_t size, char shown[ENTRY_SHOWN]) {
    size_t used = (size_t)snprintf(shown, ENTRY_SHOWN / 2, "%s", prefix);
    used = ten_min_u64(used, ENTRY_SHOWN / 2 - 1);
    for (size_t i = 0; i < size && used + 8 < ENTRY_SHOWN; i++) {
        unsigned char c = (unsigned char)entry[i];
        if (c < 0x20 || c >= 0x7f)
            used += (size_t)snprintf(shown + used, ENTRY_SHOWN - used, "\\x%02x", c);
        else
            shown[used++] = (char)c;
    }
    shown[used] = '\0';
}

void ten_source_feed_refuse(ten_source_feed *feed, const char *prefix, const char *entry, size_t size, uint64_t reason,
                            const char *problem) {
    char shown[ENTRY_SHOWN];
    show(prefix, entry, size, shown);
    if (!ten_target_list_refuse(&feed->list, shown, reason ? reason : ten_hash_text(problem)))
        return;
    /* However many there are, the log is for people. */
    if (++feed->bad_count > BAD_MAX)
        feed->bad_more++;
    else
        (void)report(
            feed, &(ten_source_event){.kind = TEN_SOURCE_BAD, .entry = shown, .problem = problem, .count = feed->line});
}

bool ten_source_feed_is_refused(ten_source_feed *feed, const char *prefix, const char *entry, size_t size,
                                uint64_t reason) {
    char shown[ENTRY_SHOWN];
    show(prefix, entry, size, shown);
    return ten_target_list_is_refused(&feed->list, shown, reason);
}

/* ---- a target */

/* The storage is freed. */
static int put(ten_source_feed *feed, const tenure_target *target, ten_target_line *storage, const char *text,
               size_t size, ten_error *error) {
    bool done = report(feed, &(ten_source_event){.kind = TEN_SOURCE_PUT, .target = target}) &&
                ten_target_list_keep(&feed->list, target->id, text, size);
    ten_target_file_line_free(storage);
    return done ? TENURE_OK : ten_fail_memory(error, "the targets");
}

int ten_source_feed_session(ten_source_feed *feed, const char *prefix, const char *id, const char *text, size_t size,
                            ten_error *error) {
    tenure_target target;
    ten_target_line *storage;
    ten_error problem;
    if (ten_target_list_look(&feed->list, id, text, size) == TEN_LISTED_SAME)
        return TENURE_OK;
    int r = ten_target_file_session_parse(id, text, size, &target, &storage, &problem);
    if (r == TENURE_OK)
        return put(feed, &target, storage, text, size, error);
    if (r == TENURE_E_NOMEM)
        return ten_fail_memory(error, "the targets");
    ten_source_feed_refuse(feed, prefix, id, strlen(id), 0, problem.message);
    return TENURE_OK;
}

/* A line that was read as this target, or not, for this problem. The storage is freed. */
static int take_line(ten_source_feed *feed, int r, const tenure_target *target, ten_target_line *storage,
                     const char *line, size_t size, const char *twice, const ten_error *problem, ten_error *error) {
    if (r == TENURE_E_NOMEM)
        return ten_fail_memory(error, "the targets");
    enum ten_listed listed =
        r == TENURE_OK ? ten_target_list_look(&feed->list, target->id, line, size) : TEN_LISTED_CHANGED;
    if (r == TENURE_OK && listed == TEN_LISTED_CHANGED)
        return put(feed, target, storage, line, size, error);
    if (r < 0)
        ten_source_feed_refuse(feed, "", line, size, 0, problem->message);
    else if (listed == TEN_LISTED_TWICE)
        ten_source_feed_refuse(feed, "", line, size, 0, twice);
    ten_target_file_line_free(storage);
    return TENURE_OK;
}

int ten_source_feed_line(ten_source_feed *feed, const char *line, size_t size, ten_error *error) {
    tenure_target target;
    ten_target_line *storage = NULL;
    ten_error problem;
    int r = strlen(line) == size ? ten_target_file_line_parse(line, &target, &storage, &problem)
                                 : ten_fail(&problem, TENURE_E_INVALID, "it has a NUL");
    return take_line(feed, r, &target, storage, line, size, "another entry has the same id", &problem, error);
}

/* ---- a job */

static int read_job(ten_zones *zones, const char *line, tenure_target *target, ten_target_line **storage,
                    ten_error *problem) {
    ten_crontab_line job;
    ten_cron_mistake mistake = {0};
    if (ten_crontab_parse(line, &job, &mistake)) {
        ten_error error;
        if (ten_zones_get(zones, job.zone, &error))
            return ten_target_file_job(job.name, job.command, line, target, storage);
        mistake.at = job.zone_at;
        snprintf(mistake.reason, sizeof mistake.reason, "%.119s", error.message);
    }
    return ten_fail(problem, TENURE_E_INVALID, "column %zu: %s", mistake.at + 1, mistake.reason);
}

int ten_source_feed_job(ten_source_feed *feed, ten_zones *zones, const char *line, size_t size, ten_error *error) {
    tenure_target target;
    ten_target_line *storage = NULL;
    ten_error problem;
    int r = strlen(line) == size ? read_job(zones, line, &target, &storage, &problem)
                                 : ten_fail(&problem, TENURE_E_INVALID, "it has a NUL");
    return take_line(feed, r, &target, storage, line, size, "another job has the same name", &problem, error);
}

/* ---- a pass */

void ten_source_feed_begin(ten_source_feed *feed) {
    ten_target_list_begin(&feed->list);
    feed->bad_count = 0;
    feed->bad_more = 0;
}

static bool report_gone(const char *id, void *userdata) {
    const tenure_target target = {.size = sizeof target, .id = id};
    return report(userdata, &(ten_source_event){.kind = TEN_SOURCE_GONE, .target = &target});
}

void ten_source_feed_end(ten_source_feed *feed, bool complete, uint64_t now_ms) {
    if (feed->bad_more)
        (void)report(feed, &(ten_source_event){.kind = TEN_SOURCE_MORE_BAD,
                                               .problem = "more entries that cannot be used",
                                               .count = feed->bad_more});
    if (complete)
        ten_target_list_end(&feed->list, now_ms, report_gone, feed);
    if (complete && !feed->read_once)
        feed->read_once = report(feed, &(ten_source_event){.kind = TEN_SOURCE_READ});
}

void ten_source_feed_state(ten_source_feed *feed, int r, const ten_error *error) {
    int problem = r == TENURE_E_TIMEOUT ? TENURE_E_UNREACHABLE : r; /* a server that goes away is both in turn */
    if (problem == feed->problem)
        return;
    feed->problem = problem;
    if (problem < 0)
        (void)report(feed, &(ten_source_event){.kind = TEN_SOURCE_FAILED, .problem = error->message});
    else
        (void)report(feed, &(ten_source_event){.kind = TEN_SOURCE_OK, .count = feed->list.targets.count});
}

/* ---- readings that may hang */

static bool is_long(const ten_source_feed *feed, uint64_t since_ms) {
    uint64_t ttl_ms = feed->list.ttl_ms;
    return ten_now_ms() - since_ms >= (ttl_ms ? ten_min_u64(ttl_ms, PATIENCE_MS) : PATIENCE_MS);
}

bool ten_source_feed_hangs(ten_source_feed *feed) {
    uint64_t since_ms = atomic_load(&feed->reading_since_ms);
    return since_ms && is_long(feed, since_ms);
}

void ten_source_feed_reading_begins(ten_source_feed *feed) {
    atomic_store(&feed->reading_since_ms, ten_max_u64(ten_now_ms(), 1));
}

void ten_source_feed_reading_ends(ten_source_feed *feed) {
    if (is_long(feed, atomic_exchange(&feed->reading_since_ms, 0)))
        feed->problem = TENURE_E_UNREACHABLE; /* the loop has reported it, and reports its end, too */
}
