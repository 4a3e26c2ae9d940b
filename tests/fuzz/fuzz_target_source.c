/*
 * Target sources that are read in passes (keys and sets of a Redis, an HTTP list): each line of the input is an entry,
 * a blank line ends a pass. What is reported has good ids and nothing that could not be printed; a target that goes had
 * come, and is missed twice before.
 */
#include "agent/sources/source_feed.h"
#include "base/id.h"
#include "fuzz.h"

struct seen {
    size_t put;
    size_t gone;
};

static bool look_at(const ten_source_event *event, void *userdata) {
    struct seen *seen = userdata;
    ten_error error;
    if (event->kind == TEN_SOURCE_PUT || event->kind == TEN_SOURCE_GONE) {
        FUZZ_CHECK(event->target->id && ten_id_check_target(event->target->id, &error) == TENURE_OK);
        seen->put += event->kind == TEN_SOURCE_PUT;
        seen->gone += event->kind == TEN_SOURCE_GONE;
        FUZZ_CHECK(seen->gone <= seen->put);
    }
    if (event->kind == TEN_SOURCE_BAD)
        FUZZ_CHECK(event->entry && event->problem && !fuzz_has_control(event->entry, strlen(event->entry)));
    return true;
}

static void take_entry(ten_source_feed *feed, const char *line, size_t size) {
    ten_error error = {0};
    char *entry = fuzz_text((const uint8_t *)line, size);
    const char *blank = memchr(line, ' ', size);
    size_t id_size = blank ? (size_t)(blank - line) : 0;
    char *id = fuzz_text((const uint8_t *)line, id_size);
    /* "id {...}" is a session, everything else a line. */
    if (id_size > 0 && ten_id_check_target(id, &error) == TENURE_OK) /* as its callers do */
        FUZZ_CHECK(ten_source_feed_session(feed, "session:", id, blank + 1, size - id_size - 1, &error) == TENURE_OK);
    else
        FUZZ_CHECK(ten_source_feed_line(feed, entry, size, &error) == TENURE_OK);
    free(id);
    free(entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ten_source_feed feed;
    struct seen seen = {0};
    uint64_t now_ms = 1000;
    ten_source_feed_init(&feed, 1000, look_at, &seen);
    ten_source_feed_begin(&feed);
    char *text = fuzz_text(data, size);
    for (const char *line = text, *end; line < text + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + size - line));
        end = end ? end : text + size;
        if (end > line) {
            take_entry(&feed, line, (size_t)(end - line));
            continue;
        }
        ten_source_feed_end(&feed, true, now_ms += 400);
        ten_source_feed_begin(&feed);
    }
    ten_source_feed_end(&feed, true, now_ms + 400);
    ten_source_feed_free(&feed);
    free(text);
    return 0;
}
