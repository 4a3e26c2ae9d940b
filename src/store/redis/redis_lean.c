/*
 * The words of a lean call. See redis_lean.h.
 */
#include "store/redis/redis_lean.h"

#include <string.h>

#include "base/encode.h"

static const enum ten_redis_own keys[] = {TEN_REDIS_EPOCH, TEN_REDIS_FENCE, TEN_REDIS_HELD, TEN_REDIS_MARKS,
                                          TEN_REDIS_FEED,  TEN_REDIS_GONE,  TEN_REDIS_IDS};

/* ---- what fits ----------------------------------------------------------------------------------------- */

/* A line of the feed has it as it is: the full script escapes these. */
static bool is_plain(const char *text) {
    return !text || !text[strcspn(text, "\t\n\\")];
}

static bool are_targets_plain(const ten_op *ops, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!is_plain(ops[i].target))
            return false;
    return true;
}

static bool have_tokens(const ten_op *ops, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (ops[i].token == 0)
            return false;
    return true;
}

bool ten_redis_lean_fits(const ten_op *ops, size_t count) {
    const ten_op *op = &ops[0];
    if (!op->target)
        return false;
    if (op->kind == TEN_OP_RENEW)
        return (op->flags & ~(unsigned)TEN_OP_KEEP) == 0 && op->holder && op->ttl_ms > 0;
    if (!is_plain(op->holder) || !is_plain(op->actor) || !are_targets_plain(ops, count))
        return false;
    /* Who is told that the lease is its own already, and who is refused (FRESH), is left to the full script. */
    if (op->kind == TEN_OP_ACQUIRE)
        return (op->flags & ~(unsigned)TEN_OP_FRESH) == 0;
    return op->kind == TEN_OP_RELEASE && op->flags == 0 && have_tokens(ops, count);
}

/* ---- words --------------------------------------------------------------------------------------------- */

void ten_redis_word_tokens(ten_redis_words *words, const ten_op *ops, size_t count) {
    char line[64];
    char *end = line + sizeof line;
    char *middle = ten_digits_before(end, ops[0].ttl_ms); /* a run has one TTL */
    *--middle = ' ';
    for (size_t i = 0; i < count; i++) {
        char *start = ten_digits_before(middle, ops[i].token);
        if (i > 0)
            *--start = '\n';
        ten_buf_add(&words->text, start, (size_t)(end - start));
    }
    ten_redis_word(words, "");
}

/* The start of a change's line in the feed; the numbers are those of redis_prelude.lua. */
static void word_line(ten_redis_words *words, const ten_op *op) {
    char reason[TEN_REDIS_REASON_SIZE];
    ten_redis_reason_text(op->reason, reason);
    ten_buf_text(&words->text, op->kind == TEN_OP_ACQUIRE ? "0\t0" : "1\t");
    ten_buf_text(&words->text, op->kind == TEN_OP_ACQUIRE ? "" : reason);
    ten_redis_word(words, "\t");
}

void ten_redis_lean_make(ten_redis_store *store, const ten_redis_space *space, const ten_op *ops, size_t count,
                         const char *proof) {
    ten_redis_words *words = &store->words;
    const ten_op *op = &ops[0];
    ten_redis_script(store, TEN_REDIS_LEAN, TEN_COUNT(keys) + count);
    for (size_t i = 0; i < TEN_COUNT(keys); i++)
        ten_redis_word(words, space->own[keys[i]]);
    for (size_t i = 0; i < count; i++)
        ten_redis_word_key(words, &space->lease, ops[i].target);
    ten_redis_word(words, ten_op_kind_name(op->kind));
    ten_redis_word(words, op->holder ? op->holder : "");
    ten_redis_word_number(words, op->ttl_ms);
    ten_redis_word_key(words, &space->lease, "*");
    ten_redis_word_number(words, ten_redis_settings_database(store->settings));
    if (op->kind != TEN_OP_RENEW) {
        ten_redis_word_number(words, strlen(space->lease.before) + 1);
        ten_redis_word_number(words, strlen(space->lease.after) + 1);
        word_line(words, op);
        ten_redis_word(words, op->actor ? op->actor : "");
    }
    if (proof)
        ten_redis_word(words, proof);
    else if (op->kind != TEN_OP_ACQUIRE)
        ten_redis_word_tokens(words, ops, count);
}
