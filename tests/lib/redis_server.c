/*
 * Private Redis servers. See redis_server.h.
 */
#include "lib/redis_server.h"

#include "lib/free_port.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS 60000
#define TRIES    5

static void pause_ms(long ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static bool answers(const struct redis_server *server) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char reply[64] = "";
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", server->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                write(fd, "PING\r\n", 6) == 6 && read(fd, reply, sizeof reply - 1) > 0 &&
                strncmp(reply, "-LOADING", 8) != 0;
    if (fd >= 0)
        close(fd);
    return good;
}

/* The words of its command line: Sentinels have a file instead, because they write into it. */
static void make_command(const struct redis_server *server, const char *port, const char *configuration,
                         const char **words) {
    const char *const sentinel[] = {configuration, "--sentinel", NULL};
    const char *const usual[] = {"--port",
                                 server->tls ? "0" : port,
                                 "--bind",
                                 "127.0.0.1",
                                 "--unixsocket",
                                 server->socket,
                                 "--dir",
                                 server->directory,
                                 "--save",
                                 "",
                                 "--appendonly",
                                 "no",
                                 "--daemonize",
                                 "no",
                                 "--logfile",
                                 "log",
                                 "--repl-diskless-sync-delay",
                                 "0",
                                 NULL};
    size_t count = 0;
    words[count++] = "redis-server";
    for (const char *const *word = server->sentinel ? sentinel : usual; *word; word++)
        words[count++] = *word;
    if (server->tls) {
        words[count++] = "--tls-port";
        words[count++] = port;
    }
    for (size_t i = 0; server->arguments[i]; i++)
        words[count++] = server->arguments[i];
    words[count] = NULL;
}

static void run_server(const struct redis_server *server, pid_t parent) {
    const char *words[REDIS_SERVER_ARGUMENTS + 24];
    char port[16];
    char configuration[280];
    snprintf(port, sizeof port, "%d", server->port);
    snprintf(configuration, sizeof configuration, "%s/sentinel.conf", server->directory);
    make_command(server, port, configuration, words);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir(server->directory) != 0)
        _exit(127);
    int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    execvp(words[0], (char *const *)(uintptr_t)words);
    fprintf(stderr, "cannot run redis-server: %s; ./dev deps installs it\n", strerror(errno));
    _exit(127);
}

int redis_server_start_again(struct redis_server *server) {
    pid_t parent = getpid();
    (void)unlink(server->socket);
    server->pid = fork();
    if (server->pid == 0)
        run_server(server, parent);
    for (int waited = 0; server->pid > 0 && waited < START_MS; waited += 5) {
        if (answers(server))
            return 0;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            return -1;
        }
        pause_ms(5);
    }
    redis_server_kill(server);
    return -1;
}

static int make_directory(struct redis_server *server) {
    const char *parent = getenv("TMPDIR");
    snprintf(server->directory, sizeof server->directory, "%s/tenure-redis-XXXXXX",
             parent && parent[0] == '/' && strlen(parent) < 60 ? parent : "/tmp");
    if (!mkdtemp(server->directory)) {
        fprintf(stderr, "cannot make the directory %s: %s\n", server->directory, strerror(errno));
        server->directory[0] = '\0';
        return -1;
    }
    snprintf(server->socket, sizeof server->socket, "%s/socket", server->directory);
    return 0;
}

static int write_configuration(const struct redis_server *sentinel, const char *lines) {
    char path[280];
    snprintf(path, sizeof path, "%s/sentinel.conf", sentinel->directory);
    FILE *file = fopen(path, "we");
    if (!file)
        return -1;
    fprintf(file, "port %d\nbind 127.0.0.1\ndir %s\nunixsocket %s\nlogfile log\n%s\n", sentinel->port,
            sentinel->directory, sentinel->socket, lines);
    return fclose(file);
}

/* On one free port after the other; `lines` are a Sentinel's. */
static int start_somewhere(struct redis_server *server, const char *lines) {
    if (make_directory(server) != 0)
        return -1;
    for (int i = 0; i < TRIES; i++) {
        server->port = free_port();
        if (server->port > 0 && (!lines || write_configuration(server, lines) == 0) &&
            redis_server_start_again(server) == 0)
            return 0;
    }
    fprintf(stderr, "redis-server does not start in %s\n", server->directory);
    return -1;
}

static void set_arguments(struct redis_server *server, const char *const *more) {
    memset(server, 0, sizeof *server);
    for (size_t i = 0; more && more[i] && i + 1 < REDIS_SERVER_ARGUMENTS; i++)
        server->arguments[i] = more[i];
}

int redis_server_start(struct redis_server *server, const char *const *more) {
    set_arguments(server, more);
    return start_somewhere(server, NULL);
}

int redis_server_start_tls(struct redis_server *server, const char *const *more) {
    set_arguments(server, more);
    server->tls = true;
    return start_somewhere(server, NULL);
}

int redis_sentinel_start(struct redis_server *sentinel, const char *lines) {
    set_arguments(sentinel, NULL);
    sentinel->sentinel = true;
    return start_somewhere(sentinel, lines);
}

static void end_server(struct redis_server *server, int signal_number) {
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGCONT);
    kill(server->pid, signal_number);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
}

void redis_server_stop(struct redis_server *server) {
    end_server(server, SIGTERM);
}

void redis_server_kill(struct redis_server *server) {
    end_server(server, SIGKILL);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void redis_server_remove(struct redis_server *server) {
    redis_server_kill(server);
    if (server->directory[0])
        (void)nftw(server->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    server->directory[0] = '\0';
}
