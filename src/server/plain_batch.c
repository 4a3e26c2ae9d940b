/*
 * A batch as the `http` store writes it: see plain_batch.h. Called by lease_requests.c.
 */
#include "server/plain_batch.h"

#include "base/plain.h"

#define WORD_MAX 31u

static bool read_kind(ten_plain *plain, ten_plain_op *op) {
    char word[WORD_MAX + 1];
    const char *text;
    size_t size;
    return TEN_PLAIN_IS(plain, "{\"op\":\"") && ten_plain_text(plain, &text, &size) &&
           ten_plain_copy(word, sizeof word, text, size) && ten_op_word_parse(word, &op->kind, &op->flags) &&
           (op->kind == TEN_OP_RENEW || op->kind == TEN_OP_ACQUIRE);
}

/* A 0 means that a number is not given, and is refused where it is. */
static bool read_given(ten_plain *plain, uint64_t *ret_number) {
    return ten_plain_number(plain, ret_number) && *ret_number > 0;
}

static bool read_op(ten_plain *plain, ten_plain_op *op) {
    *op = (ten_plain_op){0};
    if (!read_kind(plain, op) || !TEN_PLAIN_IS(plain, ",\"id\":\"") || !ten_plain_text(plain, &op->id, &op->id_size))
        return false;
    if (TEN_PLAIN_IS(plain, ",\"version\":") && !read_given(plain, &op->version))
        return false;
    if (TEN_PLAIN_IS(plain, ",\"ttl_ms\":") && !read_given(plain, &op->ttl_ms))
        return false;
    return TEN_PLAIN_IS(plain, "}");
}

bool ten_plain_batch_read(const char *body, size_t size, ten_plain_op *ops, size_t room, ten_plain_batch *ret_batch) {
    ten_plain plain = {.at = body, .end = body + size};
    const char *holder;
    size_t holder_size;
    if (!TEN_PLAIN_IS(&plain, "{\"holder_id\":\"") || !ten_plain_text(&plain, &holder, &holder_size) ||
        !ten_plain_copy(ret_batch->holder, sizeof ret_batch->holder, holder, holder_size))
        return false;
    ret_batch->require_target = TEN_PLAIN_IS(&plain, ",\"require_target\":true");
    ret_batch->count = 0;
    if (!TEN_PLAIN_IS(&plain, ",\"ops\":["))
        return false;
    do
        if (ret_batch->count == room || !read_op(&plain, &ops[ret_batch->count++]))
            return false;
    while (TEN_PLAIN_IS(&plain, ","));
    return TEN_PLAIN_IS(&plain, "]}") && plain.at == plain.end;
}
