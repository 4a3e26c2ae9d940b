/*
 * The ceiling of bench/serve.c: libmicrohttpd as `tenure serve` runs it (one thread, epoll), taking a body and
 * answering a constant. Prints its port and its number, and lives until its parent is gone.
 */
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char text[] = "{\"version\":1,\"expires_at\":\"2026-11-15T11:35:51.225Z\",\"ttl_ms\":30000}\n";

static enum MHD_Result answer(void *userdata, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *data, size_t *size, void **seen) {
    static char mark;
    (void)path;
    (void)method;
    (void)version;
    (void)data;
    if (!*seen) {
        *seen = &mark;
        return MHD_YES;
    }
    if (*size > 0) {
        *size = 0;
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, userdata);
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof text - 1, (void *)text, MHD_RESPMEM_PERSISTENT);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MHD_add_response_header(response, "Content-Type", "application/json");
    struct MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer, response, MHD_OPTION_SOCK_ADDR,
                                                 &address, MHD_OPTION_CONNECTION_LIMIT, 1000u, MHD_OPTION_END);
    if (!daemon)
        return 1;
    printf("%d %d\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port, (int)getpid());
    fflush(stdout);
    struct pollfd polled = {.fd = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN};
    for (;;) {
        (void)poll(&polled, 1, 1000);
        (void)MHD_run(daemon);
    }
}
