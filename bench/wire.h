/*
 * The reference of the Redis rows: bare commands over hiredis with nothing around them, as a good client in C would have
 * them: in pipelines, 256 commands go out, then their answers come in. A slow reference would flatter us.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "ground.h"
#include "lib/redis_server.h"

#define WIRE_PIPELINE 256u
#define WIRE_WORDS    6u
#define WIRE_KEY_SIZE (GROUND_NAME_SIZE + 16u)

/* Connected to that database. NULL: failed, and said so. */
redisContext *wire_connect(const struct redis_server *server, int database);
/* One command; NULL: failed, and said so. */
redisReply *wire_ask(redisContext *connection, const char *format, ...) TEN_PRINTF(2, 3);
bool wire_do(redisContext *connection, const char *format, ...) TEN_PRINTF(2, 3);

/* The words of a command; NULL stands for the key. */
typedef struct wire_command {
    int count;
    const char *words[WIRE_WORDS];
} wire_command;

/* Sends it for each of the keys, in pieces of WIRE_PIPELINE, each after the answers to the one before it. Every answer
 * has to be 1 or OK. */
bool wire_run(redisContext *connection, const wire_command *command, char (*keys)[WIRE_KEY_SIZE], size_t count);

/* Microseconds that the server itself has counted for that command since its start; negative: failed. */
double wire_cost_us(redisContext *connection, const char *command);

#endif
