/*
 * A private etcd. See etcd_server.h.
 */
#include "lib/etcd_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "lib/free_port.h"

#define TRIES         5u
#define START_MS      60000u
#define LOOK_MS       20u
#define ARGUMENTS_MAX 40u

static bool is_healthy(const etcd_server *server) {
    static const char question[] = "GET /health HTTP/1.0\r\n\r\n";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)server->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char answer[1024] = "";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool healthy = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                   ten_write_all(fd, question, sizeof question - 1) == 0 && ten_wait_readable(fd, -1, 1000) > 0 &&
                   ten_read_some(fd, answer, sizeof answer - 1) > 0 &&
                   (strstr(answer, "\"true\"") || (server->alarmed && strstr(answer, "\"false\"")));
    ten_close_fd(&fd);
    return healthy;
}

static void become(const etcd_server *server, pid_t parent) {
    char client[64], peer[64], cluster[80];
    int nothing = open("/dev/null", O_RDWR);
    snprintf(client, sizeof client, "http://127.0.0.1:%d", server->port);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%d", server->peer_port);
    snprintf(cluster, sizeof cluster, "only=%s", peer);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 ||
        dup2(nothing, STDERR_FILENO) < 0)
        _exit(127);
    const char *words[ARGUMENTS_MAX] = {"etcd",       "--name",
                                        "only",       "--data-dir",
                                        server->data, "--listen-client-urls",
                                        client,       "--advertise-client-urls",
                                        client,       "--listen-peer-urls",
                                        peer,         "--initial-advertise-peer-urls",
                                        peer,         "--initial-cluster",
                                        cluster,      "--logger",
                                        "zap",        "--log-level",
                                        "error"};
    size_t count = 19;
    for (const char *const *more = server->arguments; more && *more && count < ARGUMENTS_MAX - 1; more++)
        words[count++] = *more;
    execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(127);
}

bool etcd_start_again(etcd_server *server) {
    pid_t parent = getpid();
    fflush(NULL);
    server->pid = fork();
    if (server->pid == 0)
        become(server, parent);
    for (unsigned waited_ms = 0; server->pid > 0 && waited_ms < START_MS; waited_ms += LOOK_MS) {
        if (is_healthy(server))
            return true;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            return false;
        }
        ten_sleep_us(LOOK_MS * 1000u);
    }
    etcd_stop(server);
    return false;
}

bool etcd_start(etcd_server *server, const char *directory) {
    for (unsigned i = 0; i < TRIES; i++) {
        snprintf(server->data, sizeof server->data, "%.480s/etcd-%u", directory, i);
        server->port = free_port();
        server->peer_port = free_port();
        if (etcd_start_again(server))
            return true;
    }
    return false;
}

void etcd_stop(etcd_server *server) {
    if (server->pid > 0 && kill(server->pid, SIGKILL) == 0)
        (void)waitpid(server->pid, NULL, 0);
    server->pid = 0;
}
