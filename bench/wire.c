/*
 * Bare commands to a Redis server. Called by redis.c and takeover.c.
 */
#include "wire.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"

#define ROOM_START 1024u

/* ---- single commands ----------------------------------------------------------------------------------- */

redisContext *wire_connect(const struct redis_server *server, int database) {
    redisContext *connection = redisConnect("127.0.0.1", server->port);
    if (!connection || connection->err) {
        fprintf(stderr, "bench: %s\n", connection ? connection->errstr : "out of memory");
    } else {
        redisReply *reply = wire_ask(connection, "SELECT %d", database);
        if (reply) {
            freeReplyObject(reply);
            return connection;
        }
    }
    if (connection)
        redisFree(connection);
    return NULL;
}

static redisReply *check(redisReply *reply, const redisContext *connection, const char *command) {
    if (reply && reply->type != REDIS_REPLY_ERROR)
        return reply;
    fprintf(stderr, "bench: %s: %s\n", command, reply ? reply->str : connection->errstr);
    if (reply)
        freeReplyObject(reply);
    return NULL;
}

redisReply *wire_ask(redisContext *connection, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(connection, format, arguments);
    va_end(arguments);
    return check(reply, connection, format);
}

bool wire_do(redisContext *connection, const char *command) {
    redisReply *reply = check(redisCommand(connection, command), connection, command);
    if (reply)
        freeReplyObject(reply);
    return reply != NULL;
}

bool wire_cost_read(redisContext *connection, const char *command, wire_cost *ret_cost) {
    char start[64];
    redisReply *reply = wire_ask(connection, "INFO commandstats");
    if (!reply)
        return false;
    snprintf(start, sizeof start, "cmdstat_%s:", command);
    const char *line = strstr(reply->str, start);
    *ret_cost = (wire_cost){0}; /* no line: not called yet */
    if (line)
        (void)sscanf(line + strlen(start), "calls=%lf,usec=%lf", &ret_cost->calls, &ret_cost->us);
    freeReplyObject(reply);
    return true;
}

/* ---- pipelines ----------------------------------------------------------------------------------------- */

static bool grow(wire_commands *commands) {
    size_t room = commands->room ? commands->room * 2 : ROOM_START;
    const char **words = ten_realloc(commands->words, room * commands->word_count * sizeof *words);
    if (words)
        commands->words = words;
    size_t *sizes = words ? ten_realloc(commands->sizes, room * commands->word_count * sizeof *sizes) : NULL;
    if (!sizes)
        return false;
    commands->sizes = sizes;
    commands->room = room;
    return true;
}

bool wire_add(wire_commands *commands, size_t word_count, const char *const *words) {
    TEN_INVARIANT(commands->count == 0 || commands->word_count == word_count);
    commands->word_count = word_count;
    if (commands->count == commands->room && !grow(commands))
        return false;
    size_t at = commands->count * word_count;
    for (size_t i = 0; i < word_count; i++) {
        commands->words[at + i] = ten_arena_text(&commands->texts, words[i]);
        commands->sizes[at + i] = strlen(words[i]);
        if (!commands->words[at + i])
            return false;
    }
    commands->count++;
    return true;
}

bool wire_prepare(wire_commands *commands) {
    commands->ready_ends = ten_calloc(commands->count / WIRE_PIPELINE + 1, sizeof *commands->ready_ends);
    for (size_t i = 0; commands->ready_ends && i < commands->count; i++) {
        char *text = NULL;
        size_t at = i * commands->word_count;
        int size = redisFormatCommandArgv(&text, (int)commands->word_count, &commands->words[at], &commands->sizes[at]);
        if (size < 0)
            return false;
        ten_buf_add(&commands->ready, text, (size_t)size);
        redisFreeCommand(text);
        commands->ready_ends[i / WIRE_PIPELINE] = commands->ready.size;
    }
    return commands->ready_ends && !commands->ready.failed;
}

void wire_free(wire_commands *commands) {
    ten_free(commands->words);
    ten_free(commands->sizes);
    ten_free(commands->ready_ends);
    ten_buf_free(&commands->ready);
    ten_arena_free(&commands->texts);
    *commands = (wire_commands){0};
}

static bool send_piece(redisContext *connection, const wire_commands *commands, size_t piece, size_t count) {
    if (commands->ready_ends) {
        size_t start = piece ? commands->ready_ends[piece - 1] : 0;
        return redisAppendFormattedCommand(connection, commands->ready.data + start,
                                           commands->ready_ends[piece] - start) == REDIS_OK;
    }
    bool sent = true;
    for (size_t i = piece * WIRE_PIPELINE; sent && i < piece * WIRE_PIPELINE + count; i++)
        sent = redisAppendCommandArgv(connection, (int)commands->word_count, &commands->words[i * commands->word_count],
                                      &commands->sizes[i * commands->word_count]) == REDIS_OK;
    return sent;
}

static bool take_answers(redisContext *connection, size_t count) {
    for (size_t i = 0; i < count; i++) {
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
        if (!done)
            return false;
    }
    return true;
}

bool wire_run(redisContext *connection, const wire_commands *commands, size_t first, size_t pieces) {
    for (size_t piece = first; piece < first + pieces; piece++) {
        size_t count = ten_min_u64(WIRE_PIPELINE, commands->count - piece * WIRE_PIPELINE);
        if (!send_piece(connection, commands, piece, count) || !take_answers(connection, count))
            return false;
    }
    return true;
}
