/*
 * The reference of the Redis rows: pipelines over hiredis with nothing around them, as a good client in C would have
 * them: the words of the commands lie ready, 256 commands go out, then their answers come in. A slow reference would
 * flatter us.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "lib/redis_server.h"

#define WIRE_PIPELINE 256u

/* Connected to that database. NULL: failed, and said so. */
redisContext *wire_connect(const struct redis_server *server, int database);
/* One command; NULL: failed, and said so. */
redisReply *wire_ask(redisContext *connection, const char *format, ...) TEN_PRINTF(2, 3);
bool wire_do(redisContext *connection, const char *command);

/* Commands with the same number of words, to be sent in pieces of WIRE_PIPELINE. */
typedef struct wire_commands {
    size_t count;
    size_t room;
    size_t word_count; /* of each */
    const char **words;
    size_t *sizes;
    ten_arena texts;
    ten_buf ready;      /* see wire_prepare() */
    size_t *ready_ends; /* of the pieces */
} wire_commands;

bool wire_add(wire_commands *commands, size_t word_count, const char *const *words);
/* Does beforehand what hiredis does each time when it sends them: what is left is the floor of the work. */
bool wire_prepare(wire_commands *commands);
void wire_free(wire_commands *commands);
/* Sends the pieces [first, first + pieces), each after the answers to the one before it. Every answer has to be 1 or
 * OK. */
bool wire_run(redisContext *connection, const wire_commands *commands, size_t first, size_t pieces);

/* What the server itself has counted since its start. */
typedef struct wire_cost {
    double calls;
    double us;
} wire_cost;

bool wire_cost_read(redisContext *connection, const char *command, wire_cost *ret_cost);

#endif
