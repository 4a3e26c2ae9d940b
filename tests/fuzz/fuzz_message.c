/*
 * What is written: strings of JSON, the line of a poll's message with whatever a poller said, names of topics and keys
 * from a pattern. One line that is JSON, and that our own gate passes on.
 */
#include "agent/common/message.h"
#include "agent/guard/guard_filter.h"
#include "base/json.h"
#include "fuzz.h"

static void check_string(const char *text) {
    ten_buf out = {0};
    ten_json_string(&out, text);
    FUZZ_CHECK(!fuzz_has_control(out.data, out.size) && fuzz_is_json(out.data, out.size));
    ten_buf_free(&out);
}

int __wrap_tenure_guard_check_many(tenure_guard *guard, tenure_guard_item *items, size_t count, size_t stride);

int __wrap_tenure_guard_check_many(tenure_guard *guard, tenure_guard_item *items, size_t count, size_t stride) {
    (void)guard;
    FUZZ_CHECK(stride == sizeof items[0]);
    for (size_t i = 0; i < count; i++)
        items[i].verdict = strcmp(items[i].target, "scene-1") == 0 && items[i].token == 7 ? TENURE_OK : TENURE_E_STALE;
    return TENURE_OK;
}

static bool passes(const ten_buf *line) {
    ten_guard_filter_config config = {.token_field = "_version"};
    ten_guard_filter_message message = {.data = line->data, .size = line->size, .is_line = true};
    ten_guard_filter *filter = NULL;
    ten_error error = {0};
    FUZZ_CHECK(ten_guard_filter_open(&config, &filter, &error) == TENURE_OK);
    FUZZ_CHECK(ten_guard_filter_judge(filter, &message, 1, &error) == TENURE_OK);
    ten_guard_filter_close(filter);
    return message.passes;
}

static void check_line(const char *text, const uint8_t *data, size_t size) {
    char *said = fuzz_text(data, size);
    ten_message message = {.namespace_name = size % 2 ? "scenes" : "poll",
                           .target = "scene-1",
                           .instance = "a-1-0a1b2c3d",
                           .token = 7,
                           .error = size % 3 == 0 ? text : NULL,
                           .data = said,
                           .data_size = size};
    ten_buf line = {0};
    ten_message_write(&message, &line);
    FUZZ_CHECK(line.size > 0 && line.data[line.size - 1] == '\n');
    FUZZ_CHECK(!fuzz_has_control(line.data, line.size - 1));
    FUZZ_CHECK(passes(&line));
    ten_buf_free(&line);
    free(said);
}

static void check_name(const char *pattern) {
    ten_message message = {.namespace_name = "poll", .target = "room/+1", .instance = "a-1-0a1b2c3d"};
    ten_error error = {0};
    if (ten_message_name_check(pattern, &error) < 0) {
        FUZZ_CHECK(error.message[0] != '\0');
        return;
    }
    ten_buf name = {0};
    ten_message_name(pattern, &message, "+#", &name);
    FUZZ_CHECK(!strchr(ten_buf_string(&name), '+') || strchr(pattern, '+'));
    ten_buf_free(&name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    check_string(text);
    check_line(text, data, size);
    check_name(text);
    free(text);
    return 0;
}
