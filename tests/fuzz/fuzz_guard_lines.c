/*
 * Messages at the gate, as lines. Each is passed on as it came, or counted as dropped, and what passes had a token that
 * the guard was asked about. The guard is wrapped: here odd tokens are current.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "agent/guard/guard_lines.h"
#include "base/id.h"
#include "base/io.h"
#include "fuzz.h"

int __wrap_tenure_guard_check_many(tenure_guard *guard, tenure_guard_item *items, size_t count, size_t stride);
const char *__wrap_tenure_message(const void *handle);

int __wrap_tenure_guard_check_many(tenure_guard *guard, tenure_guard_item *items, size_t count, size_t stride) {
    (void)guard;
    FUZZ_CHECK(stride == sizeof items[0]);
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(items[i].token >= 1 && items[i].token <= TENURE_TOKEN_MAX);
        FUZZ_CHECK(items[i].target[0] != '\0' && strlen(items[i].target) <= TENURE_TARGET_MAX);
        items[i].verdict = ten_id_check_target(items[i].target, NULL) < 0 ? TENURE_E_INVALID
                           : items[i].token % 2                           ? TENURE_OK
                                                                          : TENURE_E_STALE;
    }
    return TENURE_OK;
}

const char *__wrap_tenure_message(const void *handle) {
    (void)handle;
    return "";
}

struct out {
    ten_guard_out base;
    uint64_t count;
    const uint8_t *data;
    size_t size;
};

static void put(ten_guard_out *base, const ten_guard_filter_message *message) {
    struct out *out = (struct out *)base;
    out->count++;
    FUZZ_CHECK(message->passes && message->token % 2 == 1);
    FUZZ_CHECK(memmem(out->data, out->size, message->data, message->size));
    FUZZ_CHECK(fuzz_is_json(message->data, message->size));
}

static int flush(ten_guard_out *out, ten_guard_filter_stop *stop, ten_error *error) {
    (void)out;
    (void)stop;
    (void)error;
    return TENURE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const ten_guard_out_ops ops = {.put = put, .flush = flush};
    struct out out = {.base = {.ops = &ops}, .data = data, .size = size};
    ten_guard_filter_config config = {.token_field = "_version", .id_field = size % 2 ? NULL : "scene_id"};
    ten_guard_filter *filter = NULL;
    ten_error error = {0};
    ten_guard_filter_stop stop = {.fd = -1};
    int fd = memfd_create("messages", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && ten_write_all(fd, data, size) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    FUZZ_CHECK(ten_guard_filter_open(&config, &filter, &error) == TENURE_OK);
    FUZZ_CHECK(ten_guard_lines(filter, fd, &out.base, &stop, &error) == TENURE_OK);
    const ten_guard_filter_counts *counts = ten_guard_filter_get_counts(filter);
    FUZZ_CHECK(counts->passed == out.count && counts->ungranted == 0 && counts->unconfirmed == 0);
    ten_guard_filter_close(filter);
    close(fd);
    return 0;
}
