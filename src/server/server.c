/*
 * The server's loop: sockets, signals, libmicrohttpd, and what the lanes have finished. Called by cmd_serve.c.
 */
#include "server/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/common/store_wait.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/id.h"
#include "base/io.h"
#include "base/notify.h"
#include "server/server_state.h"
#include "server/tls.h"

#define CONNECTIONS_MAX 4096u
#define CLOSING_MAX     512u                /* more for those that are being closed to make room */
#define FILES_BESIDE    192u                /* descriptors for everything else: the store's, the streams' */
#define MEMORY_PER_ONE  ((size_t)16 * 1024) /* request line and headers, up to about 8 KiB, and the answer's head */
#define DRAIN_MS        5000u
#define LINGER_MS       100u /* for what has been sent, and not yet been read, when the end comes */
#define TLS_PRIORITIES  "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct loop {
    struct ten_server server;
    int listen_fd;
    int signal_fd;
    char *socket_path; /* to be removed at the end */
    char *trust;
    unsigned stop_signals;
    uint64_t connections; /* at most */
    ten_notifier notifier;
};

/* ---- the address */

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static int listen_unix(struct loop *loop, const char *path, ten_error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat about;
    if (strlen(path) >= sizeof address.sun_path)
        return ten_fail(error, TENURE_E_INVALID, "the path of a socket is at most %zu bytes",
                        sizeof address.sun_path - 1);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    loop->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* A socket without a listener is left from a process that was killed. */
    bool stale = lstat(path, &about) == 0 && S_ISSOCK(about.st_mode) &&
                 connect(loop->listen_fd, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED;
    if (stale) {
        (void)unlink(path);
        ten_close_fd(&loop->listen_fd);
        loop->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (loop->listen_fd < 0 || bind(loop->listen_fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(path, 0600) != 0 || listen(loop->listen_fd, SOMAXCONN) != 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot listen on %s", path);
    loop->socket_path = ten_strdup(path);
    snprintf(loop->server.address, sizeof loop->server.address, "unix:%s", path);
    return TENURE_OK;
}

/* An address that others can reach requires TLS and auth: without auth, every client that reaches it is an admin. */
static int check_exposure(const ten_server_config *config, const struct addrinfo *info, ten_error *error) {
    bool safe = config->tls_cert && config->auth_file;
    if (is_loopback(info->ai_addr) || safe || config->insecure)
        return TENURE_OK;
    return ten_fail(error, TENURE_E_INVALID,
                    "%s can be reached by others: give --tls-cert, --tls-key and --auth-file, or say --insecure",
                    config->listen);
}

static int listen_tcp(struct loop *loop, const char *text, ten_error *error) {
    char host[256];
    char own[32];
    if (text[0] && text[strspn(text, "0123456789")] == '\0') { /* a port alone, as of --metrics */
        snprintf(own, sizeof own, "127.0.0.1:%.10s", text);
        text = own;
    }
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (!colon || length >= sizeof host)
        return ten_fail(error, TENURE_E_INVALID, "--listen is PORT, ADDR:PORT or unix:PATH, not '%.100s'", text);
    bool bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(bracketed ? length - 2 : length), text + (bracketed ? 1 : 0));
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *info = NULL;
    if (strlen(colon + 1) > 5 || atoi(colon + 1) > UINT16_MAX)
        return ten_fail(error, TENURE_E_INVALID, "--listen %.100s: a port is at most 65535", text);
    int refused = getaddrinfo(host[0] ? host : NULL, colon + 1, &hints, &info);
    if (refused)
        return ten_fail(error, TENURE_E_INVALID, "--listen %.100s: %s", text, gai_strerror(refused));
    int r = check_exposure(loop->server.config, info, error);
    if (r == TENURE_OK && (loop->listen_fd = ten_host_listen(info)) < 0)
        r = ten_fail_errno(error, TENURE_E_SYSTEM, -loop->listen_fd, "cannot listen on %s", text);
    freeaddrinfo(info);
    if (r == TENURE_OK)
        ten_host_show(loop->listen_fd, loop->server.address);
    return r;
}

/* ---- libmicrohttpd */

/* Paths and queries are decoded by us, after they were split. */
static size_t leave_alone(void *userdata, struct MHD_Connection *connection, char *text) {
    (void)userdata;
    (void)connection;
    return strlen(text);
}

static int read_identity(struct ten_server *server, ten_error *error) {
    bool exposed = false;
    const ten_server_config *config = server->config;
    int r = ten_tls_read(config->tls_cert, config->tls_key, &exposed, error);
    if (r == TENURE_OK && exposed)
        TEN_LOG(server->log, TEN_LOG_WARN, "key_exposed", TEN_TEXT("file", config->tls_key),
                TEN_TEXT("error", "every user can read the key: chmod o-rw"));
    return r;
}

static int start_daemon(struct loop *loop, ten_error *error) {
    const ten_server_config *config = loop->server.config;
    struct MHD_OptionItem tls[5] = {{MHD_OPTION_END, 0, NULL}};
    size_t count = 0;
    gnutls_datum_t trust = {0};
    mode_t mode;
    unsigned idle_s = (unsigned)ten_max_u64(1, (config->request_ms + 999) / 1000);
    int r = TENURE_OK;
    if (config->tls_cert) {
        r = read_identity(&loop->server, error);
        if (r == TENURE_OK && config->client_ca)
            r = ten_tls_read_file(config->client_ca, &trust, &mode, error);
        loop->trust = (char *)trust.data;
        if (r < 0)
            return r;
        tls[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES};
        if (loop->trust)
            tls[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, loop->trust};
        tls[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    }
    loop->server.daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (config->tls_cert ? MHD_USE_TLS : 0), 0, NULL, NULL,
        ten_request_take, &loop->server, MHD_OPTION_LISTEN_SOCKET, loop->listen_fd, MHD_OPTION_NOTIFY_COMPLETED,
        ten_request_done, &loop->server, MHD_OPTION_NOTIFY_CONNECTION, ten_connection_notice, &loop->server,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_alone, NULL, MHD_OPTION_URI_LOG_CALLBACK, ten_headers_note_uri, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)loop->connections + CLOSING_MAX, MHD_OPTION_CONNECTION_TIMEOUT, idle_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, MEMORY_PER_ONE, MHD_OPTION_ARRAY, tls,
        config->tls_cert ? MHD_OPTION_HTTPS_CERT_CALLBACK : MHD_OPTION_END, ten_tls_retrieve, MHD_OPTION_END);
    if (!loop->server.daemon)
        return ten_fail(error, TENURE_E_SYSTEM, "cannot start the HTTP server");
    loop->listen_fd = -1; /* its own now */
    return TENURE_OK;
}

/* ---- the loop */

static void resume(void *userdata) {
    const ten_request *request = userdata;
    MHD_resume_connection(request->connection);
}

static void cut_off(void *userdata) {
    ten_connection_end(userdata);
}

static void resume_finished(struct loop *loop) {
    for (ten_job *job = ten_finished_take(&loop->server.finished); job;) {
        ten_job *next = job->next; /* the answer may be sent, and the request freed, before we come back */
        resume((ten_request *)job);
        job = next;
    }
}

static void reread_auth(struct loop *loop) {
    ten_auth auth;
    ten_error error;
    struct ten_server *server = &loop->server;
    if (!server->has_auth)
        return;
    if (ten_auth_read(server->config->auth_file, &auth, &error) < 0) {
        TEN_LOG(server->log, TEN_LOG_ERROR, "auth_file_refused", TEN_TEXT("error", error.message));
        return; /* the one that was read before counts */
    }
    ten_auth_free(&server->auth);
    server->auth = auth;
    ten_connections_check_streams(server);
    TEN_LOG(server->log, TEN_LOG_INFO, "auth_file_read", TEN_NUMBER("count", auth.count));
}

/* The old one stays if the new one cannot be used. */
static void reread_identity(struct loop *loop) {
    struct ten_server *server = &loop->server;
    ten_error error;
    if (!server->config->tls_cert)
        return;
    if (read_identity(server, &error) < 0)
        TEN_LOG(server->log, TEN_LOG_ERROR, "certificate_refused", TEN_TEXT("error", error.message));
    else
        TEN_LOG(server->log, TEN_LOG_INFO, "certificate_read", TEN_TEXT("file", server->config->tls_cert));
}

static void take_signals(struct loop *loop) {
    struct signalfd_siginfo info;
    while (ten_read_some(loop->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            reread_auth(loop);
            reread_identity(loop);
        } else {
            loop->stop_signals++;
        }
    }
}

static int wait_ms(const struct loop *loop) {
    MHD_UNSIGNED_LONG_LONG timeout;
    if (MHD_get_timeout(loop->server.daemon, &timeout) == MHD_YES)
        return (int)ten_min_u64(timeout, TEN_SWEEP_MS);
    return (int)TEN_SWEEP_MS;
}

static void run_once(struct loop *loop, int http_fd) {
    struct pollfd polled[] = {{.fd = http_fd, .events = POLLIN},
                              {.fd = loop->server.finished.fd, .events = POLLIN},
                              {.fd = ten_events_fd(loop->server.events), .events = POLLIN},
                              {.fd = loop->signal_fd, .events = POLLIN}};
    uint64_t beat_ms = ten_notifier_beat(&loop->notifier, ten_now_ms());
    (void)poll(polled, TEN_COUNT(polled), (int)ten_min_u64((uint64_t)wait_ms(loop), beat_ms));
    if (polled[1].revents)
        resume_finished(loop);
    if (polled[2].revents)
        ten_events_wake(loop->server.events, resume, cut_off);
    if (polled[3].revents)
        take_signals(loop);
    ten_connections_sweep(&loop->server);
    (void)MHD_run(loop->server.daemon);
    for (size_t i = 0; i < TEN_LANES; i++)
        ten_lane_tell(loop->server.lanes[i]);
}

static int http_fd_of(const struct loop *loop) {
    return MHD_get_daemon_info(loop->server.daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

static void serve(struct loop *loop) {
    int http_fd = http_fd_of(loop);
    while (loop->stop_signals == 0)
        run_once(loop, http_fd);
    ten_notifier_stopping(&loop->notifier);
    /* No new connections; those that are there get their answers. */
    MHD_socket listener = MHD_quiesce_daemon(loop->server.daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
    loop->server.draining = true;
    ten_events_end(loop->server.events);
    uint64_t now_ms = ten_now_ms();
    uint64_t least_ms = now_ms + LINGER_MS;
    uint64_t end_ms = now_ms + DRAIN_MS;
    /* Connections that only wait for their client's next request are not waited for. */
    while (loop->stop_signals < 2 && loop->server.metrics.connections > 0 && now_ms < end_ms &&
           (loop->server.requests > 0 || now_ms < least_ms)) {
        run_once(loop, http_fd);
        now_ms = ten_now_ms();
    }
}

/* ---- start and end */

static int open_signals(struct loop *loop, ten_error *error) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    loop->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return loop->signal_fd < 0 ? ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot start the server's loop")
                               : TENURE_OK;
}

/* As many descriptors as the system lets it have: a connection each. Returns how many connections that makes. */
static uint64_t raise_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return CONNECTIONS_MAX;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    uint64_t beside = FILES_BESIDE + ten_min_u64(CLOSING_MAX, limit.rlim_cur / 4);
    return ten_min_u64(CONNECTIONS_MAX, ten_max_u64(16, ten_sub_saturating(limit.rlim_cur, beside)));
}

static bool was_stopped(void *userdata) {
    const struct loop *loop = userdata;
    return ten_store_wait_signal(loop->signal_fd) != 0;
}

static ten_log_config log_of(const struct ten_server *server) {
    return (ten_log_config){.fd = STDERR_FILENO,
                            .format = server->config->log_format,
                            .level = server->config->log_level,
                            .clock = &ten_system_clock,
                            .instance = server->instance};
}

/* Before it listens: no client connects to a server that cannot answer yet. */
static int wait_for_store(struct loop *loop, ten_error *error) {
    const ten_server_config *config = loop->server.config;
    ten_log_config log = log_of(&loop->server);
    ten_store_wait wait = {.store = config->store,
                           .wait_ms = config->store_wait_ms,
                           .log = &log,
                           .is_stopped = was_stopped,
                           .userdata = loop};
    return ten_store_wait_answer(&wait, config->timeout_ms, error);
}

static int open_all(struct loop *loop, ten_error *error) {
    struct ten_server *server = &loop->server;
    const ten_server_config *config = server->config;
    int r = open_signals(loop, error);
    loop->connections = raise_limit();
    TEN_STEP(r, ten_id_make_instance("serve", server->instance, error));
    if (r == TENURE_OK && config->auth_file) {
        r = ten_auth_read(config->auth_file, &server->auth, error);
        server->has_auth = true;
    }
    ten_accounts_open(&server->accounts,
                      &(ten_accounts_limits){.connections = loop->connections, .namespaces = config->namespaces},
                      server->has_auth);
    TEN_STEP(r, wait_for_store(loop, error));
    TEN_STEP(r, strncmp(config->listen, "unix:", 5) == 0 ? listen_unix(loop, config->listen + 5, error)
                                                         : listen_tcp(loop, config->listen, error));
    TEN_STEP(r, ten_finished_open(&server->finished, error));
    for (size_t i = 0; r == TENURE_OK && i < TEN_LANES; i++)
        r = ten_lane_open(config->store, config->timeout_ms, &server->finished, &server->lanes[i], error);
    if (r == TENURE_OK && !(server->gauges = ten_gauges_new()))
        r = ten_fail_memory(error, "the gauges");
    TEN_STEP(r, ten_events_open(config->store, config->timeout_ms, &server->events, error));
    ten_log_config log = log_of(server);
    TEN_STEP(r, ten_log_open(&log, &server->log, error));
    return r == TENURE_OK ? start_daemon(loop, error) : r;
}

static void close_all(struct loop *loop) {
    struct ten_server *server = &loop->server;
    /* Requests that still wait are answered by the lanes' end, then let go. */
    for (size_t i = 0; i < TEN_LANES; i++)
        ten_lane_close(server->lanes[i]);
    if (server->daemon) {
        resume_finished(loop);
        ten_connections_resume(server);
        ten_events_wake(server->events, resume, cut_off);
        (void)MHD_run(server->daemon);
        MHD_stop_daemon(server->daemon);
    }
    ten_events_close(server->events);
    ten_gauges_free(server->gauges);
    if (server->finished.last)
        ten_finished_close(&server->finished);
    ten_auth_free(&server->auth);
    ten_accounts_close(&server->accounts);
    ten_log_close(server->log, 1000);
    ten_close_fd(&loop->listen_fd);
    ten_close_fd(&loop->signal_fd);
    if (loop->socket_path)
        (void)unlink(loop->socket_path);
    ten_free(loop->socket_path);
    ten_free(loop->trust);
    ten_tls_free();
}

int ten_server_run(const ten_server_config *config, void (*ready)(const char *address), ten_error *error) {
    struct loop loop = {.server = {.config = config}, .listen_fd = -1, .signal_fd = -1};
    ten_notifier_open(&loop.notifier);
    int r = open_all(&loop, error);
    if (r == TENURE_OK) {
        ready(loop.server.address);
        ten_notifier_ready(&loop.notifier);
        TEN_LOG(loop.server.log, TEN_LOG_INFO, "server_started", TEN_TEXT("address", loop.server.address));
        if (config->insecure)
            TEN_LOG(
                loop.server.log, TEN_LOG_WARN, "insecure", TEN_TEXT("address", loop.server.address),
                TEN_TEXT("error",
                         "--insecure: every client that reaches this address may do everything, without TLS and auth"));
        serve(&loop);
        TEN_LOG(loop.server.log, TEN_LOG_INFO, "server_stopped", TEN_TEXT("address", loop.server.address));
    }
    close_all(&loop);
    ten_notifier_close(&loop.notifier);
    return r == TENURE_E_CANCELLED ? TENURE_OK : r; /* before there was a store */
}
