/*
 * What the tests of the PostgreSQL store share: a private server for all of them, an empty database for each, two
 * handles, and plain statements to look into it. The one-line operations are those of suite.h.
 */
#ifndef CONFORMANCE_POSTGRES_PLACE_H
#define CONFORMANCE_POSTGRES_PLACE_H

#include <libpq-fe.h>
#include <pthread.h>

#include "conformance/suite.h"
#include "lib/postgres_server.h"

/* Of rows of tenure.record and tenure.value: those of a kind (rules/record.h), and of an id. */
#define KIND(digit) " substr(key, strpos(key, ' ') + 1, 1) = '" digit "' "
#define ID          " substr(key, strpos(key, ' ') + 2) "

struct postgres_place {
    struct place place; /* first; its handles are opened by postgres_place_open() */
    struct postgres_server *server;
    struct postgres_server standby; /* not running unless started */
    char database[64];
    char *text; /* the last answer */
};

/* For all tests together. */
int postgres_group_setup(void **state);
int postgres_group_teardown(void **state);

int postgres_place_setup(void **state);
int postgres_place_teardown(void **state);
#define POSTGRES_CASE(name) TEST_WITH(name, postgres_place_setup, postgres_place_teardown)

/* Opens the two handles (anew), with these options in the URL ("&timeout=1s", or ""). */
void postgres_place_open(struct postgres_place *postgres, const char *options);
/* The same through a pooler, which is started. */
void postgres_place_open_pooled(struct postgres_place *postgres, const char *options);
/* What opening with this role comes to. */
int postgres_place_try(struct postgres_place *postgres, const char *role, const char *options, ten_error *error);
void postgres_place_close(struct postgres_place *postgres);

/* A statement, as the superuser; an error fails the test. Its first value as text, valid until the next one. */
const char *postgres_text(struct postgres_place *postgres, const char *format, ...) TEN_PRINTF(2, 3);

/* A connection of somebody else, as the superuser, and a statement there; an error fails the test. */
PGconn *postgres_connect(const struct postgres_place *postgres);
void postgres_say(PGconn *connection, const char *statement);

/* Somebody else's transaction, which keeps what its statement has locked for that long from now, while the test goes
 * on. */
struct postgres_blocker {
    PGconn *connection;
    pthread_t thread;
    uint64_t hold_ms;
};
void postgres_block(struct postgres_place *postgres, struct postgres_blocker *blocker, const char *statement,
                    uint64_t hold_ms);
void postgres_unblock(struct postgres_blocker *blocker);

#endif
