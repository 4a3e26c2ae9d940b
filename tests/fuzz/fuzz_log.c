/*
 * The log: whatever a field says, an event is one line, without a control character; in the format JSON it is JSON.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "fuzz.h"

static void check_lines(const char *first, const char *second, enum ten_log_format format) {
    int fd = memfd_create("log", MFD_CLOEXEC);
    ten_log_config config = {.fd = fd,
                             .format = format,
                             .level = TEN_LOG_DEBUG,
                             .clock = &ten_system_clock,
                             .instance = "a-1-0a1b2c3d",
                             .namespace_name = "poll"};
    ten_log *log = NULL;
    FUZZ_CHECK(fd >= 0 && ten_log_open(&config, &log, NULL) == TENURE_OK);
    TEN_LOG(log, TEN_LOG_WARN, "poll_failed", TEN_TEXT("target", first), TEN_TEXT("error", second),
            TEN_NUMBER("token", 7));
    ten_log_close(log, 10000);
    static char line[1024 * 1024];
    ssize_t size = pread(fd, line, sizeof line, 0);
    FUZZ_CHECK(size > 1 && line[size - 1] == '\n');
    FUZZ_CHECK(!fuzz_has_control(line, (size_t)size - 1));
    if (format == TEN_LOG_JSON)
        FUZZ_CHECK(fuzz_is_json(line, (size_t)size - 1));
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096)
        return 0;
    char *first = fuzz_text(data, size / 2);
    char *second = fuzz_text(data + size / 2, size - size / 2);
    check_lines(first, second, TEN_LOG_TEXT);
    check_lines(first, second, TEN_LOG_JSON);
    free(first);
    free(second);
    return 0;
}
