/*
 * Durations. What is accepted can be written in milliseconds and read again, and is shown in a bounded text.
 */
#include "base/duration.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    uint64_t ms = 0;
    ten_error error = {0};
    if (ten_duration_parse(text, &ms, &error) == TENURE_OK) {
        char again[32];
        char shown[TEN_DURATION_SIZE];
        uint64_t same = 0;
        snprintf(again, sizeof again, "%llums", (unsigned long long)ms);
        FUZZ_CHECK(ten_duration_parse(again, &same, &error) == TENURE_OK && same == ms);
        ten_duration_show(ms, shown);
        FUZZ_CHECK(strlen(shown) < sizeof shown);
    } else {
        FUZZ_CHECK(error.code == TENURE_E_INVALID && error.message[0] != '\0');
    }
    free(text);
    return 0;
}
