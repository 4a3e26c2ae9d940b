/*
 * A database in a directory of its own. See conformance/fixture.h.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "conformance/fixture.h"

static int create_sqlite(struct fixture *fixture) {
    if (fixture_make_directory(fixture->directory) != 0)
        return -1;
    /* In a directory of its own inside, which can be moved away whole. */
    char inside[FIXTURE_PATH_SIZE + 8];
    snprintf(inside, sizeof inside, "%s/db", fixture->directory);
    snprintf(fixture->url, sizeof fixture->url, "sqlite:%s/db/leases.db", fixture->directory);
    return mkdir(inside, 0700);
}

static void destroy_directory(struct fixture *fixture) {
    fixture_remove_directory(fixture->directory);
}

static void move(const struct fixture *fixture, const char *from, const char *to) {
    char old[FIXTURE_PATH_SIZE + 64];
    char new[FIXTURE_PATH_SIZE + 64];
    snprintf(old, sizeof old, "%s/%s", fixture->directory, from);
    snprintf(new, sizeof new, "%s/%s", fixture->directory, to);
    (void)unlink(new);
    (void)rename(old, new);
}

static void move_directory_away(struct fixture *fixture) {
    move(fixture, "db", "away");
}

static void move_directory_back(struct fixture *fixture) {
    move(fixture, "away", "db");
}

/* The database and the files that SQLite keeps beside it are one thing: a log without its database ruins another. */
static void move_database(struct fixture *fixture, const char *from, const char *to) {
    static const char *const endings[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < TEN_COUNT(endings); i++) {
        char old[64];
        char new[64];
        snprintf(old, sizeof old, "db/%s%s", from, endings[i]);
        snprintf(new, sizeof new, "db/%s%s", to, endings[i]);
        move(fixture, old, new);
    }
}

static void move_database_away(struct fixture *fixture) {
    move_database(fixture, "leases.db", "away.db");
}

static void move_database_back(struct fixture *fixture) {
    move_database(fixture, "away.db", "leases.db");
}

static void delete_side_file(struct fixture *fixture) {
    char path[FIXTURE_PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/db/leases.db-lock", fixture->directory);
    (void)unlink(path);
}

static void age_feed(struct fixture *fixture) {
    char path[FIXTURE_PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/db/leases.db", fixture->directory);
    fixture_age_feed_of_database(path);
}

static const fixture_disturbance sqlite_disturbances[] = {
    {"the side file is deleted", delete_side_file, NULL, true},
    {"the directory is moved away and back", move_directory_away, move_directory_back, false},
    {"the database is moved away and back", move_database_away, move_database_back, false},
};

const fixture_kind sqlite_fixture = {
    .scheme = "sqlite:",
    .create = create_sqlite,
    .destroy = destroy_directory,
    .disturbances = sqlite_disturbances,
    .disturbance_count = TEN_COUNT(sqlite_disturbances),
    .age_feed = age_feed,
};
