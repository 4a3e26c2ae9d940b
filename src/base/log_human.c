/*
 * The log for people. See log_human.h.
 */
#include "base/log_human.h"

#include <string.h>
#include <time.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/json.h"
#include "base/utf8.h"
#include "base/util.h"

/* What is not here is said with the event's own words, without underscores. */
static const struct {
    const char *event;
    const char *words;
} phrases[] = {
    {"lease_acquired", "acquired"},
    {"lease_acquire_failed", "not acquired"},
    {"lease_renewed", "renewed"},
    {"lease_renew_failed", "renewal failed"},
    {"lease_released", "released"},
    {"lease_kept", "kept"},
    {"lease_lost", "lease lost"},
    {"instance_joined", "an instance joined"},
    {"instance_left", "an instance left"},
    {"instance_unannounced", "not announced"},
    {"plan_changed", "the plan changed"},
    {"target_unowned", "held by nobody"},
    {"store_down", "the store is out of reach"},
    {"store_up", "the store is back"},
    {"store_waiting", "waiting for the store"},
    {"store_recovering", "the store is recovering"},
    {"command_ending", "ending the command"},
    {"command_ended", "the command ended"},
    {"command_failed", "the command cannot be run"},
    {"isolation", "commands are isolated"},
    {"sink_failed", "results cannot be sent"},
    {"publish_dropped", "results dropped"},
    {"lease_closing", "stopping the work"},
    {"log_dropped", "log lines dropped"},
};

static void add_text(ten_buf *line, const char *text) {
    /* What another host wrote must not move the cursor. */
    if (ten_utf8_is_printable(text, strlen(text)))
        ten_buf_text(line, text);
    else
        ten_json_string(line, text);
}

static void add_spaced(ten_buf *line, const char *word, size_t size) {
    for (size_t i = 0; i < size; i++)
        ten_buf_char(line, word[i] == '_' ? ' ' : word[i]);
}

static void add_instance(ten_buf *line, const char *id) {
    char text[TENURE_HOLDER_MAX + 1];
    ten_id_shorten(id, text);
    add_text(line, text);
}

static void add_duration(ten_buf *line, uint64_t ms) {
    char text[TEN_DURATION_SIZE];
    ten_duration_show(ms, text);
    ten_buf_text(line, text);
}

static bool is(const ten_field *field, const char *key) {
    return strcmp(field->key, key) == 0;
}

static const ten_field *find(const ten_field *fields, size_t count, const char *key) {
    for (size_t i = 0; i < count; i++)
        if (is(&fields[i], key))
            return &fields[i];
    return NULL;
}

static bool names_instance(const ten_field *field) {
    return field->text &&
           (is(field, "holder") || is(field, "other") || is(field, "instance") || is(field, "successor"));
}

static void add_detail(ten_buf *line, const ten_field *field) {
    size_t size = strlen(field->key);
    bool is_time = !field->text && size > 3 && strcmp(field->key + size - 3, "_ms") == 0;
    if (!is(field, "reason") && !is(field, "other") && !is(field, "isolation")) {
        add_spaced(line, field->key, is_time ? size - 3 : size);
        ten_buf_char(line, ' ');
    }
    if (is_time)
        add_duration(line, field->number);
    else if (names_instance(field))
        add_instance(line, field->text);
    else if (field->text)
        add_text(line, field->text);
    else
        ten_buf_format(line, "%llu", (unsigned long long)field->number);
}

static void add_time(ten_buf *line, uint64_t wall_ms) {
    time_t seconds = (time_t)(wall_ms / 1000u);
    struct tm local = {0};
    char text[16];
    (void)localtime_r(&seconds, &local);
    (void)strftime(text, sizeof text, "%H:%M:%S", &local);
    ten_buf_text(line, text);
}

static void add_words(ten_buf *line, const char *event) {
    for (size_t i = 0; i < TEN_COUNT(phrases); i++) {
        if (strcmp(phrases[i].event, event) == 0) {
            ten_buf_text(line, phrases[i].words);
            return;
        }
    }
    add_spaced(line, event, strlen(event));
}

/* Says who has it, and for how long at most: that somebody waits is no failure. */
static void add_waiting(ten_buf *line, const ten_field *fields, size_t count) {
    const ten_field *holder = find(fields, count, "holder");
    const ten_field *remaining = find(fields, count, "remaining_ms");
    ten_buf_text(line, "waiting: held by ");
    add_instance(line, holder->text);
    if (remaining) {
        ten_buf_text(line, " for another ");
        add_duration(line, remaining->number);
    }
}

static void add_details(ten_buf *line, const ten_field *fields, size_t count) {
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        if (is(&fields[i], "target") || is(&fields[i], "error"))
            continue;
        ten_buf_text(line, shown++ ? ", " : " (");
        add_detail(line, &fields[i]);
    }
    ten_buf_text(line, shown ? ")" : "");
    const ten_field *error = find(fields, count, "error");
    if (error && error->text) {
        ten_buf_text(line, ": ");
        add_text(line, error->text);
    }
}

void ten_log_human(ten_buf *line, uint64_t wall_ms, const char *instance, enum ten_log_level level, const char *event,
                   const ten_field *fields, size_t count) {
    add_time(line, wall_ms);
    ten_buf_char(line, ' ');
    if (instance) {
        add_instance(line, instance);
        ten_buf_char(line, ' ');
    }
    ten_buf_text(line, level == TEN_LOG_ERROR ? "error: " : level == TEN_LOG_WARN ? "warning: " : "");
    const ten_field *target = find(fields, count, "target");
    if (target && target->text) {
        add_text(line, target->text);
        ten_buf_text(line, ": ");
    }
    if (strcmp(event, "lease_acquire_failed") == 0 && find(fields, count, "holder") && !find(fields, count, "error")) {
        add_waiting(line, fields, count);
        return;
    }
    add_words(line, event);
    add_details(line, fields, count);
}
