/*
 * What the tests of the Redis store share: a private server, a replica of it when wanted, two handles, and plain
 * commands to look into it. The one-line operations are those of suite.h.
 */
#ifndef CONFORMANCE_REDIS_PLACE_H
#define CONFORMANCE_REDIS_PLACE_H

#include "conformance/suite.h"
#include "lib/redis_server.h"

struct redis_place {
    struct place place; /* first; its handles are opened by redis_place_open() */
    struct redis_server server;
    struct redis_server replica; /* not running unless started */
    char *text;                  /* the last reply */
};

int redis_place_setup(void **state);
int redis_place_teardown(void **state);
#define REDIS_CASE(name) TEST_WITH(name, redis_place_setup, redis_place_teardown)

/* Opens the two handles (anew), with these options in the URL. */
void redis_place_open(struct redis_place *redis, const char *options);
/* What opening comes to. */
int redis_place_try(struct redis_place *redis, const char *options, ten_error *error);
/* Kills the server and starts it with what it saved; the handles are to find out by themselves. */
void redis_place_restart(struct redis_place *redis);

/* A replica that is in sync. */
void redis_place_start_replica(struct redis_place *redis);
/* The handles are opened on what was the replica. */
void redis_place_use_replica(struct redis_place *redis, const char *options);
void redis_place_pause_replica(struct redis_place *redis);
void redis_place_continue_replica(struct redis_place *redis);
/* Until the server, a replica now itself, has its master's data. */
void redis_wait_for_sync(struct redis_place *redis);

/* A command, with no blanks inside of its words; an error fails the test. */
void redis_command(struct redis_place *redis, const char *format, ...) TEN_PRINTF(2, 3);
void redis_replica_command(struct redis_place *redis, const char *format, ...) TEN_PRINTF(2, 3);
/* Sets a heartbeat of the namespace whose name has a NUL in it. */
void redis_command_bytes(struct redis_place *redis, const char *ns);
/* Its reply as text (a number too), valid until the next one. */
const char *redis_text(struct redis_place *redis, const char *format, ...) TEN_PRINTF(2, 3);
bool redis_replica_has(struct redis_place *redis, const char *format, ...) TEN_PRINTF(2, 3);

#endif
