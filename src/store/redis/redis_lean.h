/*
 * The short way for one acquire, renewal or release (redis_lean.lua), for a run of acquires or renewals
 * (redis_lean_run.lua), or for the heartbeat of a session (redis_lean_beat.lua): what may take it, and the words of its
 * call. It decides nothing about leases: what the script finds unusual is sent to redis_apply.lua. Called by
 * redis_apply.c, which also takes the answers.
 */
#ifndef TEN_STORE_REDIS_LEAN_H
#define TEN_STORE_REDIS_LEAN_H

#include "store/redis/redis_state.h"

/* The operations are one run: of one kind, and alike in everything but their targets and tokens. Or the first one is a
 * heartbeat, and what follows goes with it. */
bool ten_redis_lean_fits(const ten_op *ops, size_t count);
/* proof: a state in which the server has compared the tokens of these renewals already; NULL: none. */
void ten_redis_lean_make(ten_redis_store *store, const ten_redis_space *space, const ten_op *ops, size_t count,
                         const char *proof);
/* "token ttl" lines, as the fence has them while nothing has changed. They are one word. */
void ten_redis_word_tokens(ten_redis_words *words, const ten_op *ops, size_t count);

#endif
