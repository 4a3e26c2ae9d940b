/*
 * The answer to a batch as a Tenure server writes it, read without jansson: see base/plain.h. An outcome that has more
 * members than these (errors, checkpoints, what a later server adds) is left to jansson. Called by http_apply.c.
 */
#include "base/plain.h"
#include "store/http/http_state.h"

/* NULL for null. A batch is mostly one holder's, so its name is kept once. */
static bool read_holder(ten_plain *plain, ten_arena *texts, const char **last, const char **ret_holder) {
    char holder[TENURE_HOLDER_MAX + 1];
    const char *text;
    size_t size;
    *ret_holder = NULL;
    if (TEN_PLAIN_IS(plain, "null"))
        return true;
    if (!TEN_PLAIN_IS(plain, "\"") || !ten_plain_text(plain, &text, &size) ||
        !ten_plain_copy(holder, sizeof holder, text, size))
        return false;
    if (!*last || strcmp(*last, holder) != 0)
        *last = ten_arena_text(texts, holder);
    *ret_holder = *last;
    return *last != NULL;
}

static bool read_outcome(ten_plain *plain, ten_result *result) {
    char word[16];
    const char *text;
    size_t size;
    return TEN_PLAIN_IS(plain, "{\"id\":\"") && ten_plain_text(plain, &text, &size) &&
           TEN_PLAIN_IS(plain, ",\"outcome\":\"") && ten_plain_text(plain, &text, &size) &&
           ten_plain_copy(word, sizeof word, text, size) && ten_outcome_parse(word, &result->outcome) &&
           result->outcome != TEN_ERROR;
}

static bool read_result(ten_plain *plain, ten_arena *texts, const char **last, ten_result *result) {
    *result = (ten_result){0};
    if (!read_outcome(plain, result) || !TEN_PLAIN_IS(plain, ",\"version\":") ||
        !ten_plain_number(plain, &result->token) || !TEN_PLAIN_IS(plain, ",\"holder_id\":") ||
        !read_holder(plain, texts, last, &result->holder) || !TEN_PLAIN_IS(plain, ",\"ttl_ms\":") ||
        !ten_plain_number(plain, &result->ttl_ms) || !TEN_PLAIN_IS(plain, ",\"remaining_ms\":") ||
        !ten_plain_number(plain, &result->remaining_ms))
        return false;
    if (TEN_PLAIN_IS(plain, ",\"acquired_at_ms\":") && !ten_plain_number(plain, &result->acquired_at_ms))
        return false;
    result->registered = TEN_PLAIN_IS(plain, ",\"registered\":true");
    result->paused = TEN_PLAIN_IS(plain, ",\"paused\":true");
    result->barred = TEN_PLAIN_IS(plain, ",\"barred\":true");
    result->recovering = TEN_PLAIN_IS(plain, ",\"recovering\":true");
    return TEN_PLAIN_IS(plain, "}");
}

bool ten_http_read_plain(ten_http_store *store, ten_result *results, size_t count) {
    ten_plain plain = {.at = store->got.body.data, .end = store->got.body.data + store->got.body.size};
    const char *last = NULL;
    if (store->got.body.size == 0 || !TEN_PLAIN_IS(&plain, "["))
        return false;
    for (size_t i = 0; i < count; i++)
        if ((i > 0 && !TEN_PLAIN_IS(&plain, ",\n")) || !read_result(&plain, &store->texts, &last, &results[i]))
            return false;
    return TEN_PLAIN_IS(&plain, "]\n") && plain.at == plain.end;
}
