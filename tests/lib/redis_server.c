/*
 * Private Redis servers. See redis_server.h.
 */
#include "lib/redis_server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
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

#define START_MS 10000
#define TRIES    5

static void pause_ms(long ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

/* A port that was free a moment ago; if somebody takes it meanwhile the server does not start, and another is tried. */
static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = -1;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
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

static void run_server(const struct redis_server *server, pid_t parent) {
    const char *words[REDIS_SERVER_ARGUMENTS + 24] = {"redis-server"};
    char port[16];
    size_t count = 1;
    snprintf(port, sizeof port, "%d", server->port);
    const char *const usual[] = {"--port",
                                 port,
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
                                 "0"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        words[count++] = usual[i];
    for (size_t i = 0; server->arguments[i]; i++)
        words[count++] = server->arguments[i];
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

int redis_server_start(struct redis_server *server, const char *const *more) {
    const char *parent = getenv("TMPDIR");
    memset(server, 0, sizeof *server);
    for (size_t i = 0; more && more[i] && i + 1 < REDIS_SERVER_ARGUMENTS; i++)
        server->arguments[i] = more[i];
    snprintf(server->directory, sizeof server->directory, "%s/tenure-redis-XXXXXX",
             parent && parent[0] == '/' && strlen(parent) < 60 ? parent : "/tmp");
    if (!mkdtemp(server->directory)) {
        fprintf(stderr, "cannot make the directory %s: %s\n", server->directory, strerror(errno));
        server->directory[0] = '\0';
        return -1;
    }
    snprintf(server->socket, sizeof server->socket, "%s/socket", server->directory);
    for (int i = 0; i < TRIES; i++) {
        server->port = free_port();
        if (server->port > 0 && redis_server_start_again(server) == 0)
            return 0;
    }
    fprintf(stderr, "redis-server does not start in %s\n", server->directory);
    return -1;
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
