/*
 * Where a store for the conformance suite comes from. Each kind of store has a fixture, NAME/NAME_fixture.c: how to
 * create a fresh one, how to disturb it as its operators and its failures would, and how to remove it. The suite itself
 * knows URLs only.
 */
#ifndef CONFORMANCE_FIXTURE_H
#define CONFORMANCE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#define FIXTURE_PATH_SIZE 512u
#define FIXTURE_URL_SIZE  640u

struct fixture;

/* A way to disturb a store under its users. After `mend` every handle that was open must work again by itself. */
typedef struct fixture_disturbance {
    const char *what;
    void (*disturb)(struct fixture *fixture);
    void (*mend)(struct fixture *fixture); /* NULL: nothing to mend */
    bool calls_must_work; /* between the two; else they may fail with a clear error, or wait for recovery */
} fixture_disturbance;

typedef struct fixture_kind {
    const char *scheme;
    int (*create)(struct fixture *fixture); /* fills in the URL of a new, empty store; 0, or -1 with errno */
    void (*destroy)(struct fixture *fixture);
    const fixture_disturbance *disturbances;
    size_t disturbance_count;
    void (*age_feed)(
        struct fixture *fixture); /* its entries become two minutes older; NULL: their age does not count */
} fixture_kind;

struct fixture {
    const fixture_kind *kind; /* NULL: a store that somebody else keeps; it is neither disturbed nor removed */
    char directory[FIXTURE_PATH_SIZE];
    void *server;        /* the kind's own */
    const char *options; /* of the URL; "": none */
    char url[FIXTURE_URL_SIZE];
};

/* `sqlite:` and the like, with nothing after the colon, are a new store of that kind, `redis:?NAME=VALUE` one with that
 * option in its URL; any other URL is used as it is. */
int fixture_create(struct fixture *fixture, const char *url);
void fixture_destroy(struct fixture *fixture);

/* age_feed() of a database of SQLite. */
void fixture_age_feed_of_database(const char *path);

/* A new directory under $TMPDIR or /tmp, and its removal with everything in it. */
int fixture_make_directory(char path[FIXTURE_PATH_SIZE]);
void fixture_remove_directory(const char *path);

#endif
