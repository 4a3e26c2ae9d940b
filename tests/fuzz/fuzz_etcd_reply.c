/*
 * Answers of an etcd's gateway, or of what stands in its place, through the etcd store. The input is the call and, a
 * line each, the JSON of the answers in the order of the questions; libcurl, which reads HTTP itself, is left out by
 * wrapping ten_etcd_perform(). An answer "gone" is that of an etcd lease that is not there any more.
 */
#include "replies.h"
#include "store/etcd/etcd_link.h"

static const char *rest;
static size_t rest_size;

int __wrap_ten_etcd_perform(ten_etcd_link *link, ten_etcd_call *calls, size_t count, uint64_t deadline_ms,
                            ten_error *error);
int __wrap_ten_etcd_perform_here(ten_etcd_link *link, ten_etcd_call *call, uint64_t deadline_ms, ten_error *error);

static void read_head(ten_etcd_call *call) {
    const json_t *inner = json_object_get(call->answer, "result");
    const json_t *header = json_object_get(inner ? inner : call->answer, "header");
    call->head = (ten_etcd_head){.cluster = ten_etcd_number(header, "cluster_id"),
                                 .member = ten_etcd_number(header, "member_id"),
                                 .term = ten_etcd_number(header, "raft_term"),
                                 .revision = ten_etcd_number(header, "revision")};
}

/* The next line, as the real one does it once the bytes are there. */
static int answer(ten_etcd_call *call, ten_error *error) {
    FUZZ_CHECK(call->path[0] == '/' && (!call->body || fuzz_is_json(call->body, strlen(call->body))));
    const char *end = rest_size > 0 ? memchr(rest, '\n', rest_size) : NULL;
    size_t size = end ? (size_t)(end - rest) : rest_size;
    if (rest_size == 0)
        return call->error = ten_fail(error, TENURE_E_UNREACHABLE, "no more answers");
    if (size == 4 && memcmp(rest, "gone", 4) == 0)
        call->error = TENURE_E_GONE;
    else if (!(call->answer = json_loadb(rest, size, JSON_REJECT_DUPLICATES, NULL)))
        call->error = ten_fail(error, TENURE_E_STORE, "this is not JSON");
    else
        read_head(call);
    rest += end ? size + 1 : size;
    rest_size -= end ? size + 1 : size;
    return call->error == TENURE_E_GONE ? TENURE_OK : call->error;
}

int __wrap_ten_etcd_perform(ten_etcd_link *link, ten_etcd_call *calls, size_t count, uint64_t deadline_ms,
                            ten_error *error) {
    int r = TENURE_OK;
    (void)link;
    (void)deadline_ms;
    for (size_t i = 0; i < count; i++) {
        int one = r == TENURE_OK ? answer(&calls[i], error) : (calls[i].error = r);
        r = r == TENURE_OK ? one : r;
    }
    return r;
}

int __wrap_ten_etcd_perform_here(ten_etcd_link *link, ten_etcd_call *call, uint64_t deadline_ms, ten_error *error) {
    return __wrap_ten_etcd_perform(link, call, 1, deadline_ms, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned which = fuzz_choice(&data, &size, 256);
    ten_store *store = NULL;
    ten_error error = {0};
    FUZZ_CHECK(ten_store_open("etcd://127.0.0.1:1", NULL, &store, &error) == TENURE_OK);
    rest = (const char *)data;
    rest_size = size;
    fuzz_replies(store, which);
    if (which & 0x80) /* once more, with what the handle remembers */
        fuzz_replies(store, which);
    ten_store_close(store);
    return 0;
}
