/*
 * A Link header of a server that is polled for targets: the next page is on the same server, or it is none.
 */
#include "agent/sources/http_page.h"
#include "fuzz.h"

#define ORIGIN "http://127.0.0.1:8080/api/v1/scenes"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *value = fuzz_text(data, size);
    ten_buf next = {0};
    ten_error error = {0};
    int r = ten_http_page_next_link(ORIGIN, ORIGIN "?limit=2", value, &next, &error);
    if (r == TENURE_OK && next.size > 0) {
        FUZZ_CHECK(strncmp(next.data, "http://127.0.0.1:8080/", 22) == 0 ||
                   strncmp(next.data, "http://127.0.0.1:8080?", 22) == 0 || strchr(next.data, '@'));
        FUZZ_CHECK(!fuzz_has_control(next.data, next.size));
    }
    if (r < 0)
        FUZZ_CHECK(error.message[0] != '\0');
    ten_buf_free(&next);
    free(value);
    return 0;
}
