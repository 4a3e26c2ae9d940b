/*
 * Private PostgreSQL servers. See postgres_server.h.
 */
#include "lib/postgres_server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS     60000
#define POOLER_PORT  "6432"
#define WORDS_MAX    48u
#define PROGRAM_SIZE 256u

static void pause_ms(long ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

/* ---- processes ----------------------------------------------------------------------------------------- */

/* PostgreSQL refuses to run as root. */
static const struct passwd *unprivileged(void) {
    const struct passwd *user = getpwnam("postgres");
    return geteuid() != 0 ? NULL : user ? user : getpwnam("nobody");
}

/* Debian keeps the programs of each version in a directory of their own, and others where only root looks. */
static void find_program(const char *name, char path[PROGRAM_SIZE]) {
    static const char *const places[] = {"/usr/lib/postgresql/*/bin/%s", "/usr/sbin/%s"};
    snprintf(path, PROGRAM_SIZE, "%s", name);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char pattern[PROGRAM_SIZE];
        glob_t found = {0};
        snprintf(pattern, sizeof pattern, places[i], name);
        if (glob(pattern, 0, NULL, &found) == 0)
            snprintf(path, PROGRAM_SIZE, "%s", found.gl_pathv[found.gl_pathc - 1]);
        globfree(&found);
    }
}

static void become_unprivileged(void) {
    const struct passwd *user = unprivileged();
    if (user && (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
        _exit(127);
}

static void find_library(char path[PROGRAM_SIZE]) {
    glob_t found = {0};
    snprintf(path, PROGRAM_SIZE, "libfaketime.so.1");
    if (glob("/usr/lib/*/faketime/libfaketime.so.1", 0, NULL, &found) == 0)
        snprintf(path, PROGRAM_SIZE, "%s", found.gl_pathv[0]);
    globfree(&found);
}

static pid_t start(const struct postgres_server *server, const char *const *words) {
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    become_unprivileged();
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (getppid() != parent || chdir(server->directory) != 0)
        _exit(127);
    int nothing = open("/dev/null", O_RDWR);
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(nothing, STDIN_FILENO);
    dup2(log >= 0 ? log : nothing, STDOUT_FILENO);
    dup2(log >= 0 ? log : nothing, STDERR_FILENO);
    if (server->clock_file[0]) {
        char library[PROGRAM_SIZE];
        find_library(library);
        setenv("LD_PRELOAD", library, 1);
        setenv("FAKETIME_TIMESTAMP_FILE", server->clock_file, 1);
        setenv("FAKETIME_NO_CACHE", "1", 1);
        setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
    }
    execvp(words[0], (char *const *)(uintptr_t)words);
    fprintf(stderr, "cannot run %s: %s; ./dev deps installs it\n", words[0], strerror(errno));
    _exit(127);
}

static void end(pid_t *pid, int signal_number) {
    if (*pid <= 0)
        return;
    kill(*pid, SIGCONT);
    kill(*pid, signal_number);
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *pid = 0;
}

static int run(const struct postgres_server *server, const char *const *words) {
    int status = -1;
    pid_t pid = start(server, words);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    fprintf(stderr, "%s failed; see %s/log\n", words[0], server->directory);
    return -1;
}

/* ---- servers ------------------------------------------------------------------------------------------- */

static int make_directory(struct postgres_server *server) {
    const char *parent = getenv("TMPDIR");
    const struct passwd *user = unprivileged();
    snprintf(server->directory, sizeof server->directory, "%s/tenure-postgres-XXXXXX",
             parent && parent[0] == '/' && strlen(parent) < 50 ? parent : "/tmp");
    if (!mkdtemp(server->directory) || (user && chown(server->directory, user->pw_uid, user->pw_gid) != 0)) {
        fprintf(stderr, "cannot make the directory %s: %s\n", server->directory, strerror(errno));
        return -1;
    }
    return 0;
}

static int make_cluster(const struct postgres_server *server) {
    char program[PROGRAM_SIZE];
    find_program("initdb", program);
    const char *const words[] = {
        program, "-D",       "data", "--no-sync", "--auth=trust", "-U", POSTGRES_SERVER_USER, "--encoding",
        "UTF8",  "--locale", "C",    NULL};
    return run(server, words);
}

static bool answers(const char *directory, const char *port) {
    const char *const keywords[] = {"host", "port", "dbname", "user", NULL};
    const char *const values[] = {directory, port, "postgres", POSTGRES_SERVER_USER, NULL};
    return PQpingParams(keywords, values, 0) == PQPING_OK;
}

static int wait_for(pid_t *pid, const char *directory, const char *port) {
    for (int waited = 0; *pid > 0 && waited < START_MS; waited += 10) {
        if (answers(directory, port))
            return 0;
        if (waitpid(*pid, NULL, WNOHANG) == *pid) {
            *pid = 0;
            break;
        }
        pause_ms(10);
    }
    fprintf(stderr, "PostgreSQL does not start in %s; see the log there\n", directory);
    end(pid, SIGQUIT);
    return -1;
}

int postgres_server_start_again(struct postgres_server *server) {
    char program[PROGRAM_SIZE];
    const char *words[WORDS_MAX] = {
        program, "-D", "data", "-k", server->directory, "-p", "5432", "-c", "listen_addresses="};
    size_t count = 9;
    find_program("postgres", program);
    for (size_t i = 0; server->settings && server->settings[i] && count + 2 < WORDS_MAX; i++) {
        words[count++] = "-c";
        words[count++] = server->settings[i];
    }
    server->pid = start(server, words);
    return wait_for(&server->pid, server->directory, "5432");
}

int postgres_server_start(struct postgres_server *server) {
    const char *const *settings = server->settings;
    *server = (struct postgres_server){.settings = settings};
    if (make_directory(server) != 0 || make_cluster(server) != 0)
        return -1;
    return postgres_server_start_again(server);
}

int postgres_server_start_standby(struct postgres_server *standby, const struct postgres_server *primary) {
    char program[PROGRAM_SIZE];
    *standby = (struct postgres_server){.settings = standby->settings};
    find_program("pg_basebackup", program);
    if (make_directory(standby) != 0)
        return -1;
    const char *const words[] = {
        program,  "-D", "data", "-h", primary->directory, "-U", POSTGRES_SERVER_USER, "-R", "-N", "-X",
        "stream", "-c", "fast", NULL};
    return run(standby, words) == 0 ? postgres_server_start_again(standby) : -1;
}

int postgres_server_set_clock(struct postgres_server *server, const char *offset) {
    char path[PROGRAM_SIZE];
    snprintf(server->clock_file, sizeof server->clock_file, "%s/clock", server->directory);
    snprintf(path, sizeof path, "%s.new", server->clock_file);
    FILE *file = fopen(path, "we");
    if (!file)
        return -1;
    fprintf(file, "%s\n", offset);
    if (fclose(file) != 0 || chmod(path, 0644) != 0)
        return -1;
    return rename(path, server->clock_file);
}

void postgres_server_stop(struct postgres_server *server) {
    end(&server->pid, SIGINT);
}

void postgres_server_kill(struct postgres_server *server) {
    end(&server->pid, SIGQUIT);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void postgres_server_remove(struct postgres_server *server) {
    end(&server->pooler, SIGINT);
    postgres_server_kill(server);
    if (server->directory[0])
        (void)nftw(server->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    server->directory[0] = '\0';
}

/* ---- the pooler ---------------------------------------------------------------------------------------- */

int postgres_server_start_pooler(struct postgres_server *server) {
    char path[256];
    snprintf(path, sizeof path, "%s/pooler.ini", server->directory);
    FILE *file = fopen(path, "we");
    if (!file)
        return -1;
    /* Few connections for many clients, so that each transaction meets another one. */
    fprintf(file,
            "[databases]\n* = host=%s port=5432 user=" POSTGRES_SERVER_USER
            "\n[pgbouncer]\nlisten_addr =\nlisten_port = %s\nunix_socket_dir = %s\n"
            "auth_type = any\nauth_file = /dev/null\npool_mode = transaction\ndefault_pool_size = 3\n"
            "server_round_robin = 1\nmax_client_conn = 100\n",
            server->directory, POOLER_PORT, server->directory);
    if (fclose(file) != 0 || chmod(path, 0644) != 0)
        return -1;
    char program[PROGRAM_SIZE];
    find_program("pgbouncer", program);
    const char *const words[] = {program, "-q", path, NULL};
    server->pooler = start(server, words);
    return wait_for(&server->pooler, server->directory, POOLER_PORT);
}

/* ---- reaching them ------------------------------------------------------------------------------------- */

void postgres_server_url(const struct postgres_server *server, const char *database, const char *role,
                         const char *options, char *url, size_t size) {
    snprintf(url, size, "postgres:///%s?host=%s&user=%s%s", database, server->directory, role, options);
}

void postgres_server_pooled_url(const struct postgres_server *server, const char *database, const char *role,
                                const char *options, char *url, size_t size) {
    snprintf(url, size, "postgres:///%s?host=%s&port=" POOLER_PORT "&user=%s%s", database, server->directory, role,
             options);
}

char *postgres_server_query(const struct postgres_server *server, const char *database, const char *statement,
                            bool *ret_done) {
    const char *const keywords[] = {"host", "port", "dbname", "user", "options", NULL};
    const char *const values[] = {
        server->directory, "5432", database, POSTGRES_SERVER_USER, "-c client_min_messages=error", NULL};
    PGconn *connection = PQconnectdbParams(keywords, values, 0);
    PGresult *result = PQexec(connection, statement);
    ExecStatusType status = PQresultStatus(result);
    *ret_done = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (!*ret_done)
        fprintf(stderr, "# %s: %s", statement, result ? PQresultErrorMessage(result) : PQerrorMessage(connection));
    char *text = PQntuples(result) > 0 && PQnfields(result) > 0 && !PQgetisnull(result, 0, 0)
                     ? strdup(PQgetvalue(result, 0, 0))
                     : NULL;
    PQclear(result);
    PQfinish(connection);
    return text;
}
