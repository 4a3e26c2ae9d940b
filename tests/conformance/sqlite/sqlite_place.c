/*
 * What the tests of the SQLite store share. See sqlite_place.h.
 */
#include "conformance/sqlite/sqlite_place.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the clock ----------------------------------------------------------------------------------------- */

static uint64_t fake_boot_ms(void *arg) {
    return ((struct fake_clock *)arg)->boot_ms;
}

static uint64_t fake_wall_ms(void *arg) {
    return ((struct fake_clock *)arg)->wall_ms;
}

static void fake_boot_id(void *arg, char id[TEN_BOOT_ID_SIZE]) {
    memcpy(id, ((struct fake_clock *)arg)->boot_id, TEN_BOOT_ID_SIZE);
}

static uint64_t fake_time_namespace(void *arg) {
    return ((struct fake_clock *)arg)->time_namespace;
}

/* ---- the place ----------------------------------------------------------------------------------------- */

int sqlite_place_setup(void **state) {
    static struct sqlite_place place;
    place = (struct sqlite_place){0};
    if (fixture_make_directory(place.directory) != 0)
        return -1;
    snprintf(place.path, sizeof place.path, "%s/leases.db", place.directory);
    snprintf(place.url, sizeof place.url, "sqlite:%s", place.path);
    snprintf(place.place.ns, sizeof place.place.ns, "poll");
    place.clock = (struct fake_clock){.clock = {fake_boot_ms, fake_wall_ms, fake_boot_id, fake_time_namespace, NULL},
                                      .boot_ms = 5000000,
                                      .wall_ms = UINT64_C(1800000000000),
                                      .boot_id = "11111111-1111-1111-1111-111111111111",
                                      .time_namespace = 7};
    place.clock.clock.arg = &place.clock;
    *state = &place;
    return 0;
}

int sqlite_place_teardown(void **state) {
    struct sqlite_place *place = *state;
    ten_store_close(place->place.store);
    ten_store_close(place->place.other);
    fixture_remove_directory(place->directory);
    return 0;
}

ten_store *open_fake(struct sqlite_place *place) {
    ten_store *store = NULL;
    ten_error error = {0};
    if (ten_store_open(place->url, &(ten_store_config){.clock = &place->clock.clock}, &store, &error) < 0)
        fail_msg("cannot open %s: %s", place->url, error.message);
    return store;
}

ten_store *open_real(struct sqlite_place *place) {
    return open_store(place->url);
}

int try_open(const char *url, const ten_clock *clock, ten_error *error) {
    ten_store *store = NULL;
    *error = (ten_error){0};
    int r = ten_store_open(url, &(ten_store_config){.clock = clock}, &store, error);
    if (r == TENURE_OK)
        ten_store_close(store);
    else
        assert_true(error->message[0] != '\0');
    return r;
}

/* ---- plain SQLite -------------------------------------------------------------------------------------- */

sqlite3 *open_plain(const char *path) {
    sqlite3 *connection = NULL;
    assert_int_equal(sqlite3_open_v2(path, &connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "unix"), SQLITE_OK);
    sqlite3_busy_timeout(connection, 5000);
    return connection;
}

void run_sql(const char *path, const char *sql) {
    sqlite3 *connection = open_plain(path);
    if (sqlite3_exec(connection, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(connection));
    sqlite3_close(connection);
}

long long query_sql(const char *path, const char *sql) {
    sqlite3 *connection = open_plain(path);
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(connection, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    long long number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(connection);
    return number;
}

void expect_intact(const char *path) {
    sqlite3 *connection = open_plain(path);
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(connection, "PRAGMA integrity_check", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(connection);
}

void copy_database(const char *from, const char *to) {
    sqlite3 *source = open_plain(from);
    sqlite3 *target = open_plain(to);
    sqlite3_backup *backup = sqlite3_backup_init(target, "main", source, "main");
    assert_non_null(backup);
    assert_int_equal(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    assert_int_equal(sqlite3_backup_finish(backup), SQLITE_OK);
    sqlite3_close(source);
    sqlite3_close(target);
}

void copy_database_file(const char *from, const char *to) {
    run_sql(from, "PRAGMA wal_checkpoint(TRUNCATE)");
    copy_bytes(from, to);
}

void remove_log(const char *path) {
    char beside[FIXTURE_PATH_SIZE + 64];
    snprintf(beside, sizeof beside, "%s-wal", path);
    (void)unlink(beside);
    snprintf(beside, sizeof beside, "%s-shm", path);
    (void)unlink(beside);
}

/* ---- bytes --------------------------------------------------------------------------------------------- */

static char *read_bytes(const char *path, size_t *ret_size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *ret_size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*ret_size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *ret_size, file), *ret_size);
    fclose(file);
    return bytes;
}

bool same_bytes(const char *path, const char *other) {
    size_t size;
    size_t other_size;
    char *bytes = read_bytes(path, &size);
    char *other_bytes = read_bytes(other, &other_size);
    bool same = size == other_size && memcmp(bytes, other_bytes, size) == 0;
    free(bytes);
    free(other_bytes);
    return same;
}

void copy_bytes(const char *from, const char *to) {
    size_t size;
    char *bytes = read_bytes(from, &size);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    free(bytes);
}

/* ---- the program --------------------------------------------------------------------------------------- */

int run_sqlite_tests(int argc, char **argv, int (*worker)(int count, char **arguments)) {
    signal(SIGPIPE, SIG_IGN);
    suite_program = argv[0];
    if (argc > 2 && strcmp(argv[1], "--worker") == 0) {
        end_with_parent();
        return worker ? worker(argc - 2, argv + 2) : 2;
    }
    return run_cases(NULL, NULL);
}
