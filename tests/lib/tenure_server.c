/*
 * Private servers of our own. See tenure_server.h.
 */
#include "lib/tenure_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 60000
#define STOP_MS  3000

static void run_server(const struct tenure_server *server, int out_fd, pid_t parent) {
    char store[300];
    char listen[32];
    char log[300];
    const char *program = getenv("TENURE");
    snprintf(store, sizeof store, "sqlite:%s/leases.db", server->directory);
    snprintf(listen, sizeof listen, "127.0.0.1:%d", server->port);
    snprintf(log, sizeof log, "%s/serve.log", server->directory);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(out_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    (void)setenv("TENURE_MAX_TTL", "31622400s", 1); /* the bound of all other stores */
    if (program)
        execl(program, program, "serve", "--store", store, "--listen", listen, "--log-level", "warn", (char *)NULL);
    dprintf(STDERR_FILENO, "cannot run '%s': %s\n", program ? program : "$TENURE", strerror(errno));
    _exit(127);
}

/* It prints its address when it listens; the port is the one that it was given, or that it found. */
static int read_port(int fd) {
    char line[128] = "";
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    ssize_t size = poll(&polled, 1, START_MS) == 1 ? read(fd, line, sizeof line - 1) : -1;
    const char *colon = size > 0 ? strrchr(line, ':') : NULL;
    return colon ? atoi(colon + 1) : -1;
}

int tenure_server_start_again(struct tenure_server *server) {
    int out[2];
    pid_t parent = getpid();
    if (pipe2(out, O_CLOEXEC) != 0)
        return -1;
    server->pid = fork();
    if (server->pid == 0)
        run_server(server, out[1], parent);
    close(out[1]);
    int port = server->pid > 0 ? read_port(out[0]) : -1;
    close(out[0]);
    if (port > 0) {
        server->port = port;
        return 0;
    }
    fprintf(stderr, "tenure serve does not start; %s/serve.log says why\n", server->directory);
    tenure_server_kill(server);
    return -1;
}

int tenure_server_start(struct tenure_server *server) {
    server->port = 0;
    return tenure_server_start_again(server);
}

void tenure_server_kill(struct tenure_server *server) {
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
}

/* In order, because it writes then what it has counted of its coverage; but not for ever. */
void tenure_server_remove(struct tenure_server *server) {
    bool ended = server->pid <= 0 || kill(server->pid, SIGTERM) != 0;
    for (int waited_ms = 0; !ended && waited_ms < STOP_MS; waited_ms += 10) {
        ended = waitpid(server->pid, NULL, WNOHANG) == server->pid;
        if (ended)
            server->pid = 0;
        else
            (void)poll(NULL, 0, 10);
    }
    tenure_server_kill(server);
}

void tenure_server_cut(const struct tenure_server *server) {
    DIR *descriptors = opendir("/proc/self/fd");
    if (!descriptors)
        return;
    for (struct dirent *entry; (entry = readdir(descriptors));) {
        struct sockaddr_in peer;
        socklen_t size = sizeof peer;
        int fd = atoi(entry->d_name);
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == server->port)
            (void)shutdown(fd, SHUT_RDWR);
    }
    closedir(descriptors);
}
