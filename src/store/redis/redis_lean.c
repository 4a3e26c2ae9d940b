/*
 * Which runs are lean, and the words of their calls. See redis_lean.h.
 */
#include "store/redis/redis_lean.h"

#include <string.h>

#include "base/encode.h"

static const enum ten_redis_own keys[] = {TEN_REDIS_EPOCH, TEN_REDIS_FENCE, TEN_REDIS_HELD, TEN_REDIS_MARKS,
                                          TEN_REDIS_FEED,  TEN_REDIS_GONE,  TEN_REDIS_IDS,  TEN_REDIS_CHECKPOINT};

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

/* A heartbeat, and leases that are read with it. */
static bool is_beat(const ten_op *ops, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (ops[i].kind != TEN_OP_READ || ops[i].flags != 0 || !ops[i].target)
            return false;
    return (ops[0].flags & ~(unsigned)TEN_OP_SESSION) == 0 && ops[0].ttl_ms > 0;
}

bool ten_redis_lean_fits(const ten_op *ops, size_t count) {
    const ten_op *op = &ops[0];
    if (op->kind == TEN_OP_ANNOUNCE)
        return is_beat(ops, count);
    if (!op->target || !op->holder || op->group)
        return false;
    if (op->kind == TEN_OP_RENEW)
        return (op->flags & ~(unsigned)TEN_OP_KEEP) == 0 && op->ttl_ms > 0;
    if (!is_plain(op->holder) || !is_plain(op->actor) || !are_targets_plain(ops, count))
        return false;
    /* Who is told that the lease is its own already, and who is refused (FRESH), is left to the full script. */
    if (op->kind == TEN_OP_ACQUIRE)
        return (op->flags & ~(unsigned)(TEN_OP_FRESH | TEN_OP_WITH_CHECKPOINT)) == 0;
    return op->kind == TEN_OP_RELEASE && count == 1 && op->flags == 0 && op->token > 0;
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

/* A change's line in the feed (redis_prelude.lua), without what the script knows: its token and the time, and in a run the
 * id. */
static void word_line(ten_redis_words *words, const ten_op *op, bool is_run) {
    bool releases = op->kind == TEN_OP_RELEASE;
    ten_buf_format(&words->text, "%u\t%u", releases, (unsigned)(releases ? op->reason : TEN_REASON_NONE));
    ten_redis_word(words, "\t");
    ten_buf_text(&words->text, is_run ? "" : "\t");
    ten_buf_text(&words->text, is_run ? "" : op->target);
    ten_buf_text(&words->text, "\t");
    ten_buf_text(&words->text, op->holder);
    ten_buf_text(&words->text, "\t");
    ten_redis_word(words, releases && op->actor ? op->actor : "");
}

/* Where an id stands in the key of its lease. */
static void word_cut(ten_redis_words *words, const ten_redis_space *space) {
    ten_redis_word_number(words, strlen(space->lease.before) + 1);
    ten_redis_word_number(words, strlen(space->lease.after) + 1);
}

static void word_rest(ten_redis_words *words, const ten_redis_space *space, const ten_op *ops, size_t count,
                      const char *proof) {
    const ten_op *op = &ops[0];
    if (op->kind == TEN_OP_RENEW) {
        if (proof)
            ten_redis_word(words, proof);
        else
            ten_redis_word_tokens(words, ops, count);
        return;
    }
    word_line(words, op, count > 1);
    if (op->kind == TEN_OP_RELEASE) {
        ten_redis_word_number(words, op->token);
    } else if (count == 1) {
        ten_redis_word(words, op->target);
    } else {
        word_cut(words, space);
    }
}

/* The arguments of the proof. */
static void word_proof(ten_redis_store *store, const ten_redis_space *space, const ten_op *ops) {
    ten_redis_words *words = &store->words;
    ten_redis_word(words, ops[0].flags & TEN_OP_WITH_CHECKPOINT ? "acquire checkpoint" : ten_op_kind_name(ops[0].kind));
    ten_redis_word(words, ops[0].holder);
    ten_redis_word_number(words, ops[0].ttl_ms);
    ten_buf_char(&words->text, ':');
    ten_redis_word_key(words, &space->lease, "*");
    ten_redis_word_number(words, ten_redis_settings_database(store->settings));
}

static void make_beat(ten_redis_store *store, const ten_redis_space *space, const ten_op *ops, size_t count) {
    static const enum ten_redis_own more[] = {TEN_REDIS_NODES, TEN_REDIS_INSTANCES, TEN_REDIS_SESSIONS,
                                              TEN_REDIS_TARGETS};
    ten_redis_words *words = &store->words;
    ten_redis_script(store, TEN_REDIS_LEAN_BEAT, TEN_COUNT(keys) + TEN_COUNT(more) + count);
    for (size_t i = 0; i < TEN_COUNT(keys); i++)
        ten_redis_word(words, space->own[keys[i]]);
    for (size_t i = 0; i < TEN_COUNT(more); i++)
        ten_redis_word(words, space->own[more[i]]);
    ten_redis_word_key(words, &space->node, ops[0].holder);
    for (size_t i = 1; i < count; i++)
        ten_redis_word_key(words, &space->lease, ops[i].target);
    word_proof(store, space, ops);
    ten_redis_word_number(words, ops[0].weight);
    ten_redis_word(words, ops[0].metadata ? ops[0].metadata : "");
    word_cut(words, space);
}

void ten_redis_lean_make(ten_redis_store *store, const ten_redis_space *space, const ten_op *ops, size_t count,
                         const char *proof) {
    ten_redis_words *words = &store->words;
    if (ops[0].kind == TEN_OP_ANNOUNCE) {
        make_beat(store, space, ops, count);
        return;
    }
    ten_redis_script(store, count == 1 ? TEN_REDIS_LEAN : TEN_REDIS_LEAN_RUN, TEN_COUNT(keys) + count);
    for (size_t i = 0; i < TEN_COUNT(keys); i++)
        ten_redis_word(words, space->own[keys[i]]);
    for (size_t i = 0; i < count; i++)
        ten_redis_word_key(words, &space->lease, ops[i].target);
    word_proof(store, space, ops);
    word_rest(words, space, ops, count, proof);
}
