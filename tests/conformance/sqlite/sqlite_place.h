/*
 * What the tests of the SQLite store share: a database in a directory of its own, a clock that a test sets, and a look
 * into the file with plain SQLite. The one-line operations are those of suite.h.
 */
#ifndef CONFORMANCE_SQLITE_PLACE_H
#define CONFORMANCE_SQLITE_PLACE_H

#include <sqlite3.h>

#include "conformance/suite.h"

struct fake_clock {
    ten_clock clock;
    uint64_t boot_ms;
    uint64_t wall_ms;
    char boot_id[TEN_BOOT_ID_SIZE];
    uint64_t time_namespace;
};

struct sqlite_place {
    struct place place; /* first: `store` and `other` are opened by the test; closed at its end */
    struct fake_clock clock;
    char directory[FIXTURE_PATH_SIZE];
    char path[FIXTURE_PATH_SIZE + 32];
    char url[FIXTURE_URL_SIZE];
};

int sqlite_place_setup(void **state);
int sqlite_place_teardown(void **state);
#define SQLITE_CASE(name) TEST_WITH(name, sqlite_place_setup, sqlite_place_teardown)

/* A handle on the place's database, by the fake clock, or by the system's. */
ten_store *open_fake(struct sqlite_place *place);
ten_store *open_real(struct sqlite_place *place);
/* What opening comes to; the message is in *error. The store is closed again when it worked. */
int try_open(const char *url, const ten_clock *clock, ten_error *error);

/* Plain SQLite on the place's file. */
sqlite3 *open_plain(const char *path);
void run_sql(const char *path, const char *sql);
long long query_sql(const char *path, const char *sql);
/* PRAGMA integrity_check says ok. */
void expect_intact(const char *path);

/* The whole database into another file, or over what is there, by SQLite's backup: the file stays the same file. */
void copy_database(const char *from, const char *to);
/* The same byte by byte, as cp does when nobody writes. */
void copy_database_file(const char *from, const char *to);
/* The files beside the database, as whoever replaces it has to remove them. */
void remove_log(const char *path);
bool same_bytes(const char *path, const char *other);
void copy_bytes(const char *from, const char *to);

/* This program once more; see suite.h. */
int run_sqlite_tests(int argc, char **argv, int (*worker)(int count, char **arguments));

#endif
