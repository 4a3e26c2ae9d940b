/*
 * The SQLite store and its file: what it refuses to open and leaves untouched, what happens when several make it at
 * once, and a counter at its end.
 */
#include "conformance/sqlite/sqlite_place.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/sqlite/sqlite_db.h"

static void path_beside(const struct sqlite_place *sqlite, const char *name, char path[FIXTURE_PATH_SIZE + 32]) {
    snprintf(path, FIXTURE_PATH_SIZE + 32, "%s/%s", sqlite->directory, name);
}

static bool exists(const char *path, const char *ending) {
    char beside[FIXTURE_PATH_SIZE + 64];
    snprintf(beside, sizeof beside, "%s%s", path, ending);
    return access(beside, F_OK) == 0;
}

static void expect_refused_and_untouched(struct sqlite_place *sqlite, int expected) {
    char copy[FIXTURE_PATH_SIZE + 32];
    ten_error error;
    path_beside(sqlite, "as-it-was", copy);
    copy_bytes(sqlite->path, copy);
    assert_int_equal(try_open(sqlite->url, NULL, &error), expected);
    assert_true(same_bytes(sqlite->path, copy));
    assert_non_null(strstr(error.message, sqlite->path));
}

SQLITE_CASE(a_newer_schema_is_refused_and_untouched) {
    struct sqlite_place *sqlite = *state;
    ten_error error;
    assert_int_equal(try_open(sqlite->url, NULL, &error), TENURE_OK);
    run_sql(sqlite->path, "PRAGMA user_version = 99");
    expect_refused_and_untouched(sqlite, TENURE_E_SCHEMA);
}

/* As Tenure 0.1 and 0.2 wrote it. */
SQLITE_CASE(an_older_layout_is_refused_with_the_remedy_and_untouched) {
    struct sqlite_place *sqlite = *state;
    ten_error error;
    run_sql(sqlite->path,
            "PRAGMA application_id = 1415933557; PRAGMA user_version = 1; CREATE TABLE lease (target TEXT)");
    expect_refused_and_untouched(sqlite, TENURE_E_SCHEMA);
    assert_false(exists(sqlite->path, "-lock"));
    (void)try_open(sqlite->url, NULL, &error);
    assert_non_null(strstr(error.message, "name another file"));
}

SQLITE_CASE(a_database_of_another_program_is_refused_and_untouched) {
    static const char *const schemas[] = {
        "CREATE TABLE bookmark (url TEXT)",
        "PRAGMA journal_mode = WAL; CREATE TABLE bookmark (url TEXT)",
        "PRAGMA application_id = 1; CREATE TABLE lease (x)",
        "PRAGMA user_version = 1; CREATE TABLE store (one)",
    };
    struct sqlite_place *sqlite = *state;
    for (size_t i = 0; i < TEN_COUNT(schemas); i++) {
        run_sql(sqlite->path, schemas[i]);
        expect_refused_and_untouched(sqlite, TENURE_E_UNSUPPORTED);
        assert_false(exists(sqlite->path, "-lock"));
        remove_log(sqlite->path);
        assert_int_equal(unlink(sqlite->path), 0);
    }
}

SQLITE_CASE(what_is_not_a_database_is_refused_and_untouched) {
    struct sqlite_place *sqlite = *state;
    FILE *file = fopen(sqlite->path, "w");
    assert_non_null(file);
    for (int i = 0; i < 500; i++)
        fputs("A letter to the editor. ", file);
    fclose(file);
    expect_refused_and_untouched(sqlite, TENURE_E_STORE);
    assert_false(exists(sqlite->path, "-lock"));
}

SQLITE_CASE(a_file_system_that_is_not_known_to_be_local_is_refused) {
    ten_error error;
    assert_int_equal(try_open("sqlite:/proc/leases.db", NULL, &error), TENURE_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "proc"));
    static const struct {
        long type;
        bool allowed;
        bool named;
    } types[] = {
        {EXT4_SUPER_MAGIC, true, true},
        {XFS_SUPER_MAGIC, true, true},
        {BTRFS_SUPER_MAGIC, true, true},
        {TMPFS_MAGIC, true, true},
        {OVERLAYFS_SUPER_MAGIC, true, true},
        {NFS_SUPER_MAGIC, false, true},
        {SMB_SUPER_MAGIC, false, true},
        {0xff534d42, false, true},
        {FUSE_SUPER_MAGIC, false, true},
        {V9FS_MAGIC, false, true},
        {0x00c36400, false, true},
        {PROC_SUPER_MAGIC, false, true},
        {0x12345678, false, false},
        {0, false, false},
        {-1, false, false},
        {(long)(int)0xff534d42, false, true}, /* as a 32-bit system shows it */
    };
    for (size_t i = 0; i < TEN_COUNT(types); i++) {
        const char *name = "untouched";
        assert_int_equal(ten_db_filesystem_allowed(types[i].type, &name), types[i].allowed);
        assert_int_equal(name != NULL, types[i].named);
    }
}

SQLITE_CASE(a_link_to_a_wrong_place_is_refused) {
    struct sqlite_place *sqlite = *state;
    ten_error error;
    assert_int_equal(symlink("/proc/version", sqlite->path), 0);
    int r = try_open(sqlite->url, NULL, &error);
    assert_true(r == TENURE_E_UNSUPPORTED || r == TENURE_E_UNREACHABLE);
}

SQLITE_CASE(a_file_with_two_names_is_refused) {
    struct sqlite_place *sqlite = *state;
    char other[FIXTURE_PATH_SIZE + 32];
    ten_error error;
    assert_int_equal(try_open(sqlite->url, NULL, &error), TENURE_OK);
    path_beside(sqlite, "other.db", other);
    assert_int_equal(link(sqlite->path, other), 0);
    assert_int_equal(try_open(sqlite->url, NULL, &error), TENURE_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "hard links"));
    assert_int_equal(unlink(other), 0);
    assert_int_equal(try_open(sqlite->url, NULL, &error), TENURE_OK);
}

/* What opening comes to in a child that sees `from` at `to` as well; 0 where mounts are not permitted. The child exits
 * with 1 if it was refused with that word in the message. */
static int open_with_mount(const struct sqlite_place *sqlite, const char *from, const char *to, const char *word) {
    pid_t child = fork();
    if (child == 0) {
        char url[FIXTURE_PATH_SIZE * 2];
        ten_error error;
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount(from, to, NULL, MS_BIND, NULL) != 0)
            _exit(0);
        snprintf(url, sizeof url, "sqlite:%s", to[1] == 'p' ? sqlite->path : to);
        _exit(try_open(url, NULL, &error) == TENURE_E_UNSUPPORTED && strstr(error.message, word) ? 1 : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const char *url_at_fork;
static int found_by_child;

/* Opening asks for the boot id when SQLite has the file open already. */
static void fork_and_open(void *arg, char id[TEN_BOOT_ID_SIZE]) {
    ten_error error;
    int status = 0;
    memcpy(id, ((struct fake_clock *)arg)->boot_id, TEN_BOOT_ID_SIZE);
    if (!url_at_fork)
        return;
    pid_t child = fork();
    if (child == 0)
        _exit(try_open(url_at_fork, NULL, &error) == TENURE_E_FORKED ? 1 : 2);
    url_at_fork = NULL;
    assert_int_equal(waitpid(child, &status, 0), child);
    found_by_child = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

SQLITE_CASE(a_child_is_refused_the_file_that_its_parent_is_just_opening) {
    struct sqlite_place *sqlite = *state;
    struct fake_clock clock = sqlite->clock;
    ten_error error;
    clock.clock.arg = &clock;
    clock.clock.boot_id = fork_and_open;
    url_at_fork = sqlite->url;
    assert_int_equal(try_open(sqlite->url, &clock.clock, &error), TENURE_OK);
    assert_int_equal(found_by_child, 1);
}

SQLITE_CASE(a_file_that_is_mounted_alone_is_refused) {
    struct sqlite_place *sqlite = *state;
    char other[FIXTURE_PATH_SIZE + 32];
    ten_error error;
    assert_int_equal(try_open(sqlite->url, NULL, &error), TENURE_OK);
    path_beside(sqlite, "mounted.db", other);
    copy_bytes(sqlite->path, other);
    int found = open_with_mount(sqlite, sqlite->path, other, "mount its directory");
    assert_in_range(found, 0, 1);
}

SQLITE_CASE(a_boot_id_that_is_not_the_kernels_is_refused) {
    struct sqlite_place *sqlite = *state;
    char id[FIXTURE_PATH_SIZE + 32];
    path_beside(sqlite, "boot_id", id);
    FILE *file = fopen(id, "we");
    assert_non_null(file);
    assert_true(fputs("11111111-2222-3333-4444-555555555555\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_in_range(open_with_mount(sqlite, id, TEN_BOOT_ID_PATH, "boot id of its own"), 0, 1);
}

/* DIRECTORY/current leads to DIRECTORY/v1, and then to DIRECTORY/v2. */
SQLITE_CASE(a_link_that_leads_elsewhere_is_followed) {
    struct sqlite_place *sqlite = *state;
    struct place *place = &sqlite->place;
    char directories[2][FIXTURE_PATH_SIZE + 32];
    char current[FIXTURE_PATH_SIZE + 32];
    char url[FIXTURE_PATH_SIZE + 64];
    for (int i = 0; i < 2; i++) {
        path_beside(sqlite, i ? "v2" : "v1", directories[i]);
        assert_int_equal(mkdir(directories[i], 0700), 0);
    }
    path_beside(sqlite, "current", current);
    assert_int_equal(symlink("v1", current), 0);
    snprintf(url, sizeof url, "sqlite:%s/leases.db", current);
    place->store = open_store(url);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    assert_int_equal(unlink(current), 0);
    assert_int_equal(symlink("v2", current), 0);
    place->other = open_store(url);
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = "b", .ttl_ms = LONG_MS};
    expect_outcome(apply_one(place->other, op), TEN_OK);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
    expect_holder(read_lease(place, "t"), "b");
    for (int i = 0; i < 2; i++) {
        static const char *const endings[] = {"", "-wal", "-shm", "-lock"};
        for (size_t j = 0; j < TEN_COUNT(endings); j++) {
            char file[FIXTURE_PATH_SIZE * 3];
            snprintf(file, sizeof file, "%s/leases.db%s", directories[i], endings[j]);
            (void)unlink(file);
        }
        (void)rmdir(directories[i]);
    }
}

SQLITE_CASE(a_relative_path_means_the_same_file_after_a_change_of_directory) {
    struct sqlite_place *sqlite = *state;
    char here[FIXTURE_PATH_SIZE];
    char away[FIXTURE_PATH_SIZE + 32];
    snprintf(away, sizeof away, "%s-away", sqlite->directory);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(sqlite->directory), 0);
    sqlite->place.store = open_store("sqlite:leases.db");
    assert_int_equal(chdir("/"), 0);
    uint64_t token = must_acquire(&sqlite->place, "t", "a", LONG_MS);
    /* The connection is dropped by an error, and made again. */
    assert_int_equal(rename(sqlite->directory, away), 0);
    assert_int_equal(sqlite->place.store->ops->ping(sqlite->place.store, CALL_MS), TENURE_E_UNREACHABLE);
    assert_int_equal(rename(away, sqlite->directory), 0);
    expect_outcome(renew(&sqlite->place, "t", "a", token, LONG_MS), TEN_OK);
    assert_int_equal(chdir(here), 0);
}

/* Only the database is ever made: what is beside it belongs to who may write it. */
SQLITE_CASE(the_side_file_has_the_permissions_of_the_database) {
    struct sqlite_place *sqlite = *state;
    ten_error error;
    int fd = open(sqlite->path, O_CREAT | O_RDWR, 0660);
    assert_true(fd >= 0 && fchmod(fd, 0660) == 0);
    close(fd);
    assert_int_equal(try_open(sqlite->url, NULL, &error), TENURE_OK);
    char side[FIXTURE_PATH_SIZE + 64];
    struct stat info;
    snprintf(side, sizeof side, "%s-lock", sqlite->path);
    assert_int_equal(stat(side, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0660);
}

/* A side path that cannot be opened for a while: an error, then all is well, and who watches still wakes. */
SQLITE_CASE(a_side_file_that_cannot_be_opened_for_a_while_costs_an_error_only) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    char side[FIXTURE_PATH_SIZE + 64];
    snprintf(side, sizeof side, "%s-lock", sqlite->path);
    sqlite->place.store = open_real(sqlite);
    sqlite->place.other = open_real(sqlite);
    int watch = -1;
    assert_int_equal(place->other->ops->watch(place->other, "poll", &watch), TENURE_OK);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    assert_int_equal(unlink(side), 0);
    assert_int_equal(mkdir(side, 0700), 0);
    ten_op op = {.kind = TEN_OP_RENEW,
                 .namespace_name = "poll",
                 .target = "t",
                 .holder = "a",
                 .token = token,
                 .ttl_ms = LONG_MS};
    ten_result result;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 200), TENURE_E_UNREACHABLE);
        assert_int_equal(ten_store_apply(place->other, &op, &result, 1, 200), TENURE_E_UNREACHABLE);
        expect_outcome(result, TEN_ERROR);
    }
    assert_int_equal(rmdir(side), 0);
    expect_outcome(apply_one(place->store, op), TEN_OK);
    expect_outcome(apply_one(place->other, op), TEN_OK);
    int again = -1;
    assert_int_equal(place->other->ops->watch(place->other, "poll", &again), TENURE_OK);
    assert_int_equal(again, watch);
    place->other->ops->watch_clear(place->other);
    must_acquire(place, "u", "a", LONG_MS);
    assert_int_equal(ten_wait_readable(watch, -1, 1000), 1);
}

/* Fault 30. */
SQLITE_CASE(a_counter_at_its_end_is_refused_and_never_wraps) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_real(sqlite);
    expect_outcome(release(place, "t", NULL, must_acquire(place, "t", "a", LONG_MS)), TEN_OK);
    run_sql(sqlite->path,
            "UPDATE record SET number = 9007199254740990, version = version + 1000 WHERE key = 'poll 4t'");
    assert_int_equal(must_acquire(place, "t", "a", LONG_MS), TENURE_TOKEN_MAX);
    expect_outcome(renew(place, "t", "a", TENURE_TOKEN_MAX, LONG_MS), TEN_OK);
    expect_outcome(acquire(place, "t", "a", LONG_MS), TEN_OK);
    expect_outcome(release(place, "t", "a", TENURE_TOKEN_MAX), TEN_OK);
    for (int i = 0; i < 3; i++) {
        ten_result result = acquire(place, "t", i ? "a" : "b", LONG_MS);
        expect_outcome(result, TEN_ERROR);
        assert_int_equal(result.error, TENURE_E_TOKEN);
    }
    expect_holder(read_lease(place, "t"), NULL);
    assert_int_equal(read_lease(place, "t").token, TENURE_TOKEN_MAX);
    must_acquire(place, "u", "a", LONG_MS);
}

/* ---- several at once ----------------------------------------------------------------------------------- */

#define MAKERS 6

/* Opens the store as soon as the pipe says so, and acquires one target. */
static int make_store(int count, char **arguments) {
    if (count != 3)
        return 2;
    ten_store *store = NULL;
    ten_error error;
    char byte;
    (void)ten_read_some(atoi(arguments[1]), &byte, 1);
    if (ten_store_open(arguments[0], NULL, &store, &error) < 0) {
        fprintf(stderr, "%s\n", error.message);
        return 3;
    }
    ten_op op = {
        .kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = arguments[2], .holder = "maker", .ttl_ms = LONG_MS};
    ten_result result = {0};
    int r = ten_store_apply(store, &op, &result, 1, CALL_MS);
    ten_store_close(store);
    return r == TENURE_OK && result.outcome == TEN_OK && result.token == 1 ? 0 : 4;
}

SQLITE_CASE(several_processes_may_make_the_same_database_at_once) {
    struct sqlite_place *sqlite = *state;
    for (int round = 0; round < 4; round++) {
        int go[2];
        char fd_text[16];
        pid_t pids[MAKERS];
        assert_int_equal(pipe(go), 0);
        snprintf(fd_text, sizeof fd_text, "%d", go[0]);
        assert_int_equal(fcntl(go[1], F_SETFD, FD_CLOEXEC), 0);
        for (int i = 0; i < MAKERS; i++) {
            char target[16];
            snprintf(target, sizeof target, "t%d", i);
            pids[i] = start_worker((const char *[]){sqlite->url, fd_text, target, NULL});
        }
        sleep_ms(50);
        close(go[1]);
        for (int i = 0; i < MAKERS; i++)
            assert_int_equal(wait_for_worker(pids[i]), 0);
        close(go[0]);
        assert_int_equal(query_sql(sqlite->path, "SELECT count(*) FROM lease"), MAKERS);
        assert_int_equal(query_sql(sqlite->path, "SELECT lost FROM store"), 0);
        expect_intact(sqlite->path);
        assert_int_equal(sqlite_place_teardown(state), 0);
        assert_int_equal(sqlite_place_setup(state), 0);
    }
}

int main(int argc, char **argv) {
    return run_sqlite_tests(argc, argv, make_store);
}
