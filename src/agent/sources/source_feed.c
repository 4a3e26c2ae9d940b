/*
 * What a source's thread tells the loop. Called by target_redis.c, target_http.c and source.c.
 */
#include "agent/sources/source_feed.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "core/crontab.h"

#define BAD_TOLD_MAX 50u /* in one pass, each in a line of its own */
#define ENTRY_SHOWN  120u
#define PATIENCE_MS  5000u

static void free_event(ten_source_event *event) {
    ten_target_file_line_free(event->storage);
    ten_free(event->entry);
    ten_free(event->problem);
    ten_free(event);
}

/* ---- from the thread to the loop */

/* Takes over `storage`. False: out of memory. */
static bool leave(ten_source_feed *feed, const ten_source_event *given, const char *entry, const char *problem) {
    ten_source_event *event = ten_malloc(sizeof *event);
    if (!event) {
        ten_target_file_line_free(given->storage);
        return false;
    }
    *event = *given;
    event->entry = entry ? ten_strdup(entry) : NULL;
    event->problem = problem ? ten_strdup(problem) : NULL;
    if (!event->entry != !entry || !event->problem != !problem) {
        free_event(event);
        return false;
    }
    if (event->kind == TEN_SOURCE_GONE)
        event->target.id = event->entry;
    pthread_mutex_lock(&feed->lock);
    *feed->last = event;
    feed->last = &event->next;
    pthread_mutex_unlock(&feed->lock);
    ten_eventfd_poke(feed->fd);
    return true;
}

static ten_source_event *take_first(ten_source_feed *feed) {
    pthread_mutex_lock(&feed->lock);
    ten_source_event *event = feed->first;
    if (event)
        feed->first = event->next;
    if (!feed->first)
        feed->last = &feed->first;
    pthread_mutex_unlock(&feed->lock);
    return event;
}

void ten_source_feed_take(ten_source_feed *feed, size_t limit, ten_source_event_fn each, void *userdata) {
    ten_source_event *event = NULL;
    ten_eventfd_clear(feed->fd);
    for (; limit > 0 && (event = take_first(feed)); limit--) {
        each(event, userdata);
        free_event(event);
    }
    if (event)
        ten_eventfd_poke(feed->fd); /* there is more */
}

void ten_source_feed_init(ten_source_feed *feed, uint64_t ttl_ms) {
    *feed = (ten_source_feed){.fd = -1, .list.ttl_ms = ttl_ms};
    feed->last = &feed->first;
    pthread_mutex_init(&feed->lock, NULL);
}

int ten_source_feed_open(ten_source_feed *feed, const char *what, ten_error *error) {
    feed->fd = ten_eventfd_open();
    return feed->fd < 0 ? ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot read %s", what) : TENURE_OK;
}

void ten_source_feed_free(ten_source_feed *feed) {
    for (ten_source_event *event; (event = take_first(feed));)
        free_event(event);
    ten_target_list_free(&feed->list);
    ten_close_fd(&feed->fd);
    pthread_mutex_destroy(&feed->lock);
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
    if (++feed->bad_told > BAD_TOLD_MAX)
        feed->bad_untold++;
    else
        (void)leave(feed, &(ten_source_event){.kind = TEN_SOURCE_BAD, .count = feed->line}, shown, problem);
}

bool ten_source_feed_is_refused(ten_source_feed *feed, const char *prefix, const char *entry, size_t size,
                                uint64_t reason) {
    char shown[ENTRY_SHOWN];
    show(prefix, entry, size, shown);
    return ten_target_list_is_refused(&feed->list, shown, reason);
}

/* ---- a target */

static int put(ten_source_feed *feed, const tenure_target *target, ten_target_line *storage, const char *text,
               size_t size, ten_error *error) {
    char id[TENURE_TARGET_MAX + 1];
    snprintf(id, sizeof id, "%s", target->id);
    ten_source_event event = {.kind = TEN_SOURCE_PUT, .target = *target, .storage = storage};
    if (!leave(feed, &event, NULL, NULL) || !ten_target_list_keep(&feed->list, id, text, size))
        return ten_fail_memory(error, "the targets");
    return TENURE_OK;
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

int ten_source_feed_line(ten_source_feed *feed, const char *line, size_t size, ten_error *error) {
    tenure_target target;
    ten_target_line *storage;
    ten_error problem;
    int r = strlen(line) == size ? ten_target_file_line_parse(line, &target, &storage, &problem)
                                 : ten_fail(&problem, TENURE_E_INVALID, "it has a NUL");
    if (r == TENURE_E_NOMEM)
        return ten_fail_memory(error, "the targets");
    enum ten_listed listed =
        r == TENURE_OK ? ten_target_list_look(&feed->list, target.id, line, size) : TEN_LISTED_CHANGED;
    if (r == TENURE_OK && listed == TEN_LISTED_CHANGED)
        return put(feed, &target, storage, line, size, error);
    if (r == TENURE_OK && listed == TEN_LISTED_TWICE)
        ten_fail(&problem, TENURE_E_INVALID, "another entry has the same id");
    if (r < 0 || listed == TEN_LISTED_TWICE)
        ten_source_feed_refuse(feed, "", line, size, 0, problem.message);
    if (r == TENURE_OK)
        ten_target_file_line_free(storage);
    return TENURE_OK;
}

/* ---- a job */

static bool read_job(ten_zones *zones, const char *line, ten_crontab_line *job, ten_error *problem) {
    ten_cron_mistake mistake = {0};
    if (ten_crontab_parse(line, job, &mistake)) {
        ten_error error;
        if (ten_zones_get(zones, job->zone, &error))
            return true;
        mistake.at = job->zone_at;
        snprintf(mistake.reason, sizeof mistake.reason, "%.119s", error.message);
    }
    (void)ten_fail(problem, TENURE_E_INVALID, "column %zu: %s", mistake.at + 1, mistake.reason);
    return false;
}

int ten_source_feed_job(ten_source_feed *feed, ten_zones *zones, const char *line, size_t size, ten_error *error) {
    ten_crontab_line job;
    ten_error problem;
    bool good = strlen(line) == size ? read_job(zones, line, &job, &problem)
                                     : ten_fail(&problem, TENURE_E_INVALID, "it has a NUL") == TENURE_OK;
    enum ten_listed listed = good ? ten_target_list_look(&feed->list, job.name, line, size) : TEN_LISTED_CHANGED;
    if (good && listed == TEN_LISTED_SAME)
        return TENURE_OK;
    if (good && listed == TEN_LISTED_TWICE)
        ten_fail(&problem, TENURE_E_INVALID, "another job has the same name");
    if (!good || listed == TEN_LISTED_TWICE) {
        ten_source_feed_refuse(feed, "", line, size, 0, problem.message);
        return TENURE_OK;
    }
    ten_target_line *storage;
    tenure_target target;
    int r = ten_target_file_job(job.name, job.command, line, &target, &storage);
    return r < 0 ? ten_fail_memory(error, "the jobs") : put(feed, &target, storage, line, size, error);
}

/* ---- a pass */

void ten_source_feed_begin(ten_source_feed *feed) {
    ten_target_list_begin(&feed->list);
    feed->bad_told = 0;
    feed->bad_untold = 0;
}

static bool tell_gone(const char *id, void *userdata) {
    return leave(userdata, &(ten_source_event){.kind = TEN_SOURCE_GONE}, id, NULL);
}

void ten_source_feed_end(ten_source_feed *feed, bool complete, uint64_t now_ms) {
    if (feed->bad_untold)
        (void)leave(feed, &(ten_source_event){.kind = TEN_SOURCE_MORE_BAD, .count = feed->bad_untold}, NULL, NULL);
    if (complete)
        ten_target_list_end(&feed->list, now_ms, tell_gone, feed);
    if (complete && !feed->read_once)
        feed->read_once = leave(feed, &(ten_source_event){.kind = TEN_SOURCE_READ}, NULL, NULL);
}

void ten_source_feed_state(ten_source_feed *feed, int r, const ten_error *error) {
    int problem = r == TENURE_E_TIMEOUT ? TENURE_E_UNREACHABLE : r; /* a server that goes away is both in turn */
    if (problem == feed->problem)
        return;
    feed->problem = problem;
    if (problem < 0)
        (void)leave(feed, &(ten_source_event){.kind = TEN_SOURCE_FAILED}, NULL, error->message);
    else
        (void)leave(feed, &(ten_source_event){.kind = TEN_SOURCE_OK, .count = feed->list.targets.count}, NULL, NULL);
}

/* ---- readings that may hang */

uint64_t ten_source_feed_patience_ms(uint64_t ttl_ms) {
    return ttl_ms ? ten_min_u64(ttl_ms, PATIENCE_MS) : PATIENCE_MS;
}

void ten_source_feed_reading_begins(ten_source_feed *feed) {
    atomic_store(&feed->reading_since_ms, ten_max_u64(ten_now_ms(), 1));
}

void ten_source_feed_reading_ends(ten_source_feed *feed) {
    uint64_t since_ms = atomic_exchange(&feed->reading_since_ms, 0);
    if (ten_now_ms() - since_ms >= ten_source_feed_patience_ms(feed->list.ttl_ms))
        feed->problem = TENURE_E_UNREACHABLE; /* the loop has reported it, and reports its end, too */
}
