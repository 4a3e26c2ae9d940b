/*
 * The kinds of store that the conformance suite can make for itself, disturb and remove. See fixture.h.
 */
#include "conformance/fixture.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

/* ---- directories --------------------------------------------------------------------------------------- */

int fixture_make_directory(char path[FIXTURE_PATH_SIZE]) {
    const char *parent = getenv("TMPDIR");
    snprintf(path, FIXTURE_PATH_SIZE, "%s/tenure-conformance-XXXXXX", parent && parent[0] == '/' ? parent : "/tmp");
    return mkdtemp(path) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void fixture_remove_directory(const char *path) {
    if (path[0] != '\0')
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static int create_memory(struct fixture *fixture) {
    snprintf(fixture->url, sizeof fixture->url, "memory:conformance-%ld", (long)getpid());
    return 0;
}

static void destroy_nothing(struct fixture *fixture) {
    (void)fixture;
}

/* ---- SQLite -------------------------------------------------------------------------------------------- */

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

static const fixture_disturbance sqlite_disturbances[] = {
    {"the side file is deleted", delete_side_file, NULL, true},
    {"the directory is moved away and back", move_directory_away, move_directory_back, false},
    {"the database is moved away and back", move_database_away, move_database_back, false},
};

/* ---- Redis --------------------------------------------------------------------------------------------- */

static int create_redis(struct fixture *fixture) {
    /* Saved at once, so that a restart brings everything back. */
    static const char *const arguments[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    if (redis_server_start(&fixture->redis, arguments) != 0)
        return -1;
    snprintf(fixture->url, sizeof fixture->url, "redis://127.0.0.1:%d/0?fresh=1", fixture->redis.port);
    return 0;
}

static void destroy_redis(struct fixture *fixture) {
    redis_server_remove(&fixture->redis);
}

static void kill_redis(struct fixture *fixture) {
    redis_server_kill(&fixture->redis);
}

static void start_redis(struct fixture *fixture) {
    (void)redis_server_start_again(&fixture->redis);
}

static void say_to_redis(const struct fixture *fixture, const char *command) {
    char line[FIXTURE_PATH_SIZE];
    snprintf(line, sizeof line, "redis-cli -p %d %s >/dev/null", fixture->redis.port, command);
    if (system(line) != 0)
        fprintf(stderr, "cannot run redis-cli\n");
}

static void forget_scripts(struct fixture *fixture) {
    say_to_redis(fixture, "SCRIPT FLUSH");
}

static void cut_connections(struct fixture *fixture) {
    say_to_redis(fixture, "CLIENT KILL TYPE normal");
    say_to_redis(fixture, "CLIENT KILL TYPE pubsub");
}

static const fixture_disturbance redis_disturbances[] = {
    {"the server forgets its scripts", forget_scripts, NULL, true},
    {"the server closes every connection", cut_connections, NULL, true},
    {"the server is killed and started again", kill_redis, start_redis, false},
};

/* ---- PostgreSQL ---------------------------------------------------------------------------------------- */

#ifdef TEN_STORE_POSTGRES
static int create_postgres(struct fixture *fixture) {
    if (postgres_server_start(&fixture->postgres) != 0)
        return -1;
    postgres_server_url(&fixture->postgres, "postgres", POSTGRES_SERVER_USER, "", fixture->url, sizeof fixture->url);
    return 0;
}

static void destroy_postgres(struct fixture *fixture) {
    postgres_server_remove(&fixture->postgres);
}

static void kill_postgres(struct fixture *fixture) {
    postgres_server_kill(&fixture->postgres);
}

static void start_postgres(struct fixture *fixture) {
    (void)postgres_server_start_again(&fixture->postgres);
}

static void terminate_backends(struct fixture *fixture) {
    bool done;
    free(postgres_server_query(&fixture->postgres, "postgres",
                               "SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity "
                               "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
                               &done));
}

static const fixture_disturbance postgres_disturbances[] = {
    {"the server terminates every connection", terminate_backends, NULL, true},
    {"the server is killed and started again", kill_postgres, start_postgres, false},
};
#endif
/* ---- etcd ---------------------------------------------------------------------------------------------- */

static int create_etcd(struct fixture *fixture) {
    if (fixture_make_directory(fixture->directory) != 0 || !etcd_start(&fixture->etcd, fixture->directory))
        return -1;
    snprintf(fixture->url, sizeof fixture->url, "etcd://127.0.0.1:%d", fixture->etcd.port);
    return 0;
}

static void destroy_etcd(struct fixture *fixture) {
    etcd_stop(&fixture->etcd);
    fixture_remove_directory(fixture->directory);
}

static void kill_etcd(struct fixture *fixture) {
    etcd_stop(&fixture->etcd);
}

static void start_etcd(struct fixture *fixture) {
    (void)etcd_start_again(&fixture->etcd);
}

static void freeze_etcd(struct fixture *fixture) {
    (void)kill(fixture->etcd.pid, SIGSTOP);
}

static void thaw_etcd(struct fixture *fixture) {
    (void)kill(fixture->etcd.pid, SIGCONT);
}

/* Everything that a watch could have been read again from is gone. */
static void compact_etcd(struct fixture *fixture) {
    char command[FIXTURE_PATH_SIZE];
    snprintf(command, sizeof command,
             "ETCDCTL_API=3 etcdctl --endpoints=127.0.0.1:%d compaction --physical "
             "\"$(ETCDCTL_API=3 etcdctl --endpoints=127.0.0.1:%d endpoint status -w json | sed "
             "'s/.*\"revision\":\\([0-9]*\\).*/\\1/')\" >/dev/null",
             fixture->etcd.port, fixture->etcd.port);
    if (system(command) != 0)
        fprintf(stderr, "cannot compact etcd\n");
}

static const fixture_disturbance etcd_disturbances[] = {
    {"the server compacts its history", compact_etcd, NULL, true},
    {"the server is killed and started again", kill_etcd, start_etcd, false},
    {"the server stands still and goes on", freeze_etcd, thaw_etcd, false},
};

/* ---- a Tenure server ----------------------------------------------------------------------------------- */

static int create_http(struct fixture *fixture) {
    if (fixture_make_directory(fixture->directory) != 0)
        return -1;
    snprintf(fixture->server.directory, sizeof fixture->server.directory, "%.255s", fixture->directory);
    if (tenure_server_start(&fixture->server) != 0)
        return -1;
    snprintf(fixture->url, sizeof fixture->url, "http://127.0.0.1:%d", fixture->server.port);
    return 0;
}

static void destroy_http(struct fixture *fixture) {
    tenure_server_remove(&fixture->server);
    fixture_remove_directory(fixture->directory);
}

static void kill_server(struct fixture *fixture) {
    tenure_server_kill(&fixture->server);
}

static void start_server(struct fixture *fixture) {
    (void)tenure_server_start_again(&fixture->server);
}

static void restart_server(struct fixture *fixture) {
    kill_server(fixture);
    start_server(fixture);
}

static void cut_from_server(struct fixture *fixture) {
    tenure_server_cut(&fixture->server);
}

static void freeze_server(struct fixture *fixture) {
    (void)kill(fixture->server.pid, SIGSTOP);
}

static void thaw_server(struct fixture *fixture) {
    (void)kill(fixture->server.pid, SIGCONT);
}

static const fixture_disturbance http_disturbances[] = {
    {"every connection is cut", cut_from_server, NULL, true},
    {"the server is killed, and another is there at once", restart_server, NULL, true},
    {"the server is killed and started again", kill_server, start_server, false},
    {"the server stands still and goes on", freeze_server, thaw_server, false},
};

/* ---- all ----------------------------------------------------------------------------------------------- */

static const fixture_kind kinds[] = {
    {.scheme = "memory:", .create = create_memory, .destroy = destroy_nothing},
    {.scheme = "sqlite:",
     .create = create_sqlite,
     .destroy = destroy_directory,
     .disturbances = sqlite_disturbances,
     .disturbance_count = TEN_COUNT(sqlite_disturbances)},
    {.scheme = "redis:",
     .create = create_redis,
     .destroy = destroy_redis,
     .disturbances = redis_disturbances,
     .disturbance_count = TEN_COUNT(redis_disturbances)},
#ifdef TEN_STORE_POSTGRES
    {.scheme = "postgres:",
     .create = create_postgres,
     .destroy = destroy_postgres,
     .disturbances = postgres_disturbances,
     .disturbance_count = TEN_COUNT(postgres_disturbances)},
#endif
    {.scheme = "etcd:",
     .create = create_etcd,
     .destroy = destroy_etcd,
     .disturbances = etcd_disturbances,
     .disturbance_count = TEN_COUNT(etcd_disturbances)},
    {.scheme = "http:",
     .create = create_http,
     .destroy = destroy_http,
     .disturbances = http_disturbances,
     .disturbance_count = TEN_COUNT(http_disturbances)},
};

int fixture_create(struct fixture *fixture, const char *url) {
    *fixture = (struct fixture){0};
    for (size_t i = 0; i < TEN_COUNT(kinds); i++) {
        if (strcmp(url, kinds[i].scheme) == 0) {
            fixture->kind = &kinds[i];
            return kinds[i].create(fixture);
        }
    }
    snprintf(fixture->url, sizeof fixture->url, "%s", url);
    return 0;
}

void fixture_destroy(struct fixture *fixture) {
    if (fixture->kind)
        fixture->kind->destroy(fixture);
}
