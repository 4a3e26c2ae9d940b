/*
 * Bare commands to a Redis server. Called by redis.c and takeover.c.
 */
#include "wire.h"

#include <stdarg.h>
#include <string.h>

/* ---- single commands ----------------------------------------------------------------------------------- */

redisContext *wire_connect(const struct redis_server *server, int database) {
    redisContext *connection = redisConnect("127.0.0.1", server->port);
    if (connection && !connection->err && wire_do(connection, "SELECT %d", database))
        return connection;
    fprintf(stderr, "bench: cannot connect: %s\n", connection ? connection->errstr : "out of memory");
    if (connection)
        redisFree(connection);
    return NULL;
}

static redisReply *ask(redisContext *connection, const char *format, va_list arguments) {
    redisReply *reply = redisvCommand(connection, format, arguments);
    if (reply && reply->type != REDIS_REPLY_ERROR)
        return reply;
    fprintf(stderr, "bench: %s: %s\n", format, reply ? reply->str : connection->errstr);
    if (reply)
        freeReplyObject(reply);
    return NULL;
}

redisReply *wire_ask(redisContext *connection, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(connection, format, arguments);
    va_end(arguments);
    return reply;
}

bool wire_do(redisContext *connection, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(connection, format, arguments);
    va_end(arguments);
    if (reply)
        freeReplyObject(reply);
    return reply != NULL;
}

double wire_cost_us(redisContext *connection, const char *command) {
    char start[64];
    double calls, us = 0; /* no line: not called yet */
    redisReply *reply = wire_ask(connection, "INFO commandstats");
    if (!reply)
        return -1;
    snprintf(start, sizeof start, "cmdstat_%s:", command);
    const char *line = strstr(reply->str, start);
    if (line)
        (void)sscanf(line + strlen(start), "calls=%lf,usec=%lf", &calls, &us);
    freeReplyObject(reply);
    return us;
}

/* ---- pipelines ----------------------------------------------------------------------------------------- */

static bool take_answer(redisContext *connection) {
    redisReply *reply = NULL;
    if (redisGetReply(connection, (void **)&reply) != REDIS_OK) {
        fprintf(stderr, "bench: %s\n", connection->errstr);
        return false;
    }
    bool done = (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1) ||
                (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0);
    if (!done)
        fprintf(stderr, "bench: a bare command was not done: %s\n", reply->str ? reply->str : "it found nothing");
    freeReplyObject(reply);
    return done;
}

bool wire_run(redisContext *connection, const wire_command *command, char (*keys)[WIRE_KEY_SIZE], size_t count) {
    bool done = true;
    for (size_t at = 0; done && at < count; at += WIRE_PIPELINE) {
        size_t end = ten_min_u64(at + WIRE_PIPELINE, count);
        for (size_t i = at; done && i < end; i++) {
            const char *words[WIRE_WORDS];
            for (int word = 0; word < command->count; word++)
                words[word] = command->words[word] ? command->words[word] : keys[i];
            done = redisAppendCommandArgv(connection, command->count, words, NULL) == REDIS_OK;
        }
        for (size_t i = at; done && i < end; i++)
            done = take_answer(connection);
    }
    return done;
}
