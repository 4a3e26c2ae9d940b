/*
 * Answers of a Tenure server, or of what stands in its place, through the HTTP store. The input is a status, the header
 * that says how far the feed was read, and the body; libcurl, which reads HTTP itself, is left out by wrapping
 * ten_http_ask() and ten_http_send().
 */
#include "replies.h"
#include "store/http/http_state.h"

static const uint8_t *answer;
static size_t answer_size;
static bool is_answered;

int __wrap_ten_http_ask(ten_http_store *store, const char *method, const char *path, const char *body,
                        uint64_t deadline_ms);
int __wrap_ten_http_send(ten_http_store *store, const char *method, const char *path, const char *body,
                         uint64_t deadline_ms);

/* As the real one does it once the bytes are there; a second question of the same call gets no answer. */
int __wrap_ten_http_send(ten_http_store *store, const char *method, const char *path, const char *body,
                         uint64_t deadline_ms) {
    (void)method;
    (void)deadline_ms;
    FUZZ_CHECK(path[0] == '/' && !fuzz_has_control(path, strlen(path)));
    if (body)
        FUZZ_CHECK(fuzz_is_json(body, strlen(body)));
    json_decref(store->answer);
    store->answer = NULL;
    ten_buf_clear(&store->got.body);
    if (is_answered)
        return ten_fail(&store->base.error, TENURE_E_UNREACHABLE, "no more answers");
    is_answered = true;
    store->status = 200;
    ten_buf_add(&store->got.body, (const char *)answer, answer_size);
    return TENURE_OK;
}

int __wrap_ten_http_ask(ten_http_store *store, const char *method, const char *path, const char *body,
                        uint64_t deadline_ms) {
    int r = __wrap_ten_http_send(store, method, path, body, deadline_ms);
    return r == TENURE_OK && answer_size > 0 && !ten_http_parse(store) ? TENURE_E_STORE : r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned which = fuzz_choice(&data, &size, 256);
    ten_store *store = NULL;
    ten_error error = {0};
    FUZZ_CHECK(ten_store_open("http://127.0.0.1:1", NULL, &store, &error) == TENURE_OK);
    snprintf(((ten_http_store *)store)->cursor, 64, which & 0x40 ? "9 resync" : "9");
    answer = data;
    answer_size = size;
    is_answered = false;
    fuzz_replies(store, which);
    ten_store_close(store);
    return 0;
}
