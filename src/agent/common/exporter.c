/*
 * The HTTP server of an agent's metrics. Called by agent.c, leader.c and the guard's command.
 */
#include "agent/common/exporter.h"

#ifdef TEN_SERVER
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/host.h"
#include "base/io.h"

#define CONNECTIONS_MAX 16u
#define IDLE_S          10u

struct ten_exporter {
    ten_exporter_config config;
    struct MHD_Daemon *daemon;
    int fd;
    bool loopback;
    /* libmicrohttpd's thread alone: */
    int connections[CONNECTIONS_MAX]; /* the oldest first */
    unsigned count;
};

/* ---- connections */

static void forget(ten_exporter *exporter, int fd) {
    unsigned at = 0;
    while (at < exporter->count && exporter->connections[at] != fd)
        at++;
    if (at == exporter->count)
        return;
    exporter->count--;
    memmove(&exporter->connections[at], &exporter->connections[at + 1],
            (exporter->count - at) * sizeof exporter->connections[0]);
}

/* The oldest makes room: clients that send a byte now and then would keep all others out. */
static void note_connection(void *userdata, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what) {
    ten_exporter *exporter = userdata;
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    (void)context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        forget(exporter, fd);
        return;
    }
    if (exporter->count == CONNECTIONS_MAX) {
        (void)shutdown(exporter->connections[0], SHUT_RDWR);
        forget(exporter, exporter->connections[0]);
    }
    exporter->connections[exporter->count++] = fd;
}

/* ---- answering */

/* At a loopback address only who calls it by such a name: else a page of another site could read it in a browser
 * here. */
static bool is_called_by_its_name(const ten_exporter *exporter, struct MHD_Connection *connection) {
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    return !exporter->loopback || !host || ten_host_is_loopback(host);
}

static enum MHD_Result answer(void *userdata, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *data, size_t *size, void **seen) {
    const ten_exporter *exporter = userdata;
    bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    bool tells_leader = exporter->config.kind == TEN_EXPORTS_LEADER;
    const char *known = tells_leader ? "/leader" : "/metrics";
    /* A load balancer may call it by any name, and learns one bit. */
    bool is_meant = tells_leader || is_called_by_its_name(exporter, connection);
    unsigned status = !is_meant                  ? MHD_HTTP_MISDIRECTED_REQUEST
                      : strcmp(path, known) != 0 ? MHD_HTTP_NOT_FOUND
                      : reads                    ? MHD_HTTP_OK
                                                 : MHD_HTTP_METHOD_NOT_ALLOWED;
    (void)version;
    (void)data;
    if (!*seen && reads) { /* the headers have come; what is answered is decided when all has */
        *seen = userdata;
        return MHD_YES;
    }
    *size = 0;
    TEN_CLEANUP(ten_buf_free) ten_buf page = {0};
    if (status == MHD_HTTP_OK && tells_leader) {
        bool leads = exporter->config.leads(exporter->config.userdata);
        status = leads ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
        ten_buf_format(&page, "%s %s %s\n", exporter->config.instance, leads ? "leads" : "does not lead",
                       exporter->config.role);
    } else if (status == MHD_HTTP_OK) {
        ten_exporter_write(&exporter->config, &page);
    } else if (status == MHD_HTTP_MISDIRECTED_REQUEST) {
        ten_buf_text(&page, "the Host header does not name this server\n");
    } else {
        ten_buf_format(&page, "GET %s is all that there is\n", known);
    }
    struct MHD_Response *response =
        page.failed ? NULL : MHD_create_response_from_buffer(page.size, page.data, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

/* ---- listening */

/* Cuts `PORT`, `:PORT`, `ADDR:PORT` or `[ADDR]:PORT` into its two parts. */
static bool cut_address(const char *text, char host[64], char port[8]) {
    const char *colon = strrchr(text, ':');
    const char *number = colon ? colon + 1 : text;
    size_t size = colon ? (size_t)(colon - text) : 0;
    if (size >= 2 && text[0] == '[' && text[size - 1] == ']') {
        text++;
        size -= 2;
    }
    if (number[0] == '\0' || strlen(number) > 5 || strspn(number, "0123456789") != strlen(number) ||
        atoi(number) > UINT16_MAX || size >= 64)
        return false;
    snprintf(host, 64, "%.*s", (int)size, size ? text : "");
    snprintf(port, 8, "%s", number);
    return true;
}

static const char *option_of(const ten_exporter *exporter) {
    return exporter->config.kind == TEN_EXPORTS_LEADER ? "--leader-http" : "--metrics";
}

static int listen_at(ten_exporter *exporter, ten_error *error) {
    const char *address = exporter->config.address;
    char host[64];
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (!cut_address(address, host, port) || getaddrinfo(host[0] ? host : "127.0.0.1", port, &hints, &found) != 0 ||
        !found)
        return ten_fail(error, TENURE_E_INVALID,
                        "%s '%.80s' is no address: write a port up to 65535 for this host alone, or ADDR:PORT",
                        option_of(exporter), address);
    exporter->loopback = host[0] == '\0' || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
    exporter->fd = ten_host_listen(found);
    freeaddrinfo(found);
    return exporter->fd >= 0 ? TENURE_OK
                             : ten_fail_errno(error, TENURE_E_SYSTEM, -exporter->fd, "cannot serve %s at %.80s",
                                              option_of(exporter) + 2, address);
}

static void tell_where(const ten_exporter *exporter) {
    char shown[TEN_HOST_SHOWN];
    ten_host_show(exporter->fd, shown);
    TEN_LOG(exporter->config.log, TEN_LOG_INFO,
            exporter->config.kind == TEN_EXPORTS_LEADER ? "leader_served" : "metrics_served",
            TEN_TEXT("address", shown));
}

int ten_exporter_open(const ten_exporter_config *config, ten_exporter **ret_exporter, ten_error *error) {
    ten_exporter *exporter = ten_calloc(1, sizeof *exporter);
    if (!exporter)
        return ten_fail_memory(error, "the metrics");
    *exporter = (ten_exporter){.config = *config, .fd = -1};
    int r = listen_at(exporter, error);
    if (r == TENURE_OK) {
        exporter->daemon =
            MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL, answer, exporter,
                             MHD_OPTION_LISTEN_SOCKET, exporter->fd, MHD_OPTION_NOTIFY_CONNECTION, note_connection,
                             exporter, MHD_OPTION_CONNECTION_LIMIT, 2 * CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                             IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16 * 1024, MHD_OPTION_END);
        if (!exporter->daemon)
            r = ten_fail(error, TENURE_E_SYSTEM, "cannot serve metrics at %.80s", config->address);
    }
    if (r < 0) {
        ten_close_fd(&exporter->fd);
        ten_free(exporter);
        return r;
    }
    tell_where(exporter);
    *ret_exporter = exporter;
    return TENURE_OK;
}

void ten_exporter_close(ten_exporter *exporter) {
    if (!exporter)
        return;
    MHD_stop_daemon(exporter->daemon); /* and closes the socket */
    ten_free(exporter);
}

#else

int ten_exporter_open(const ten_exporter_config *config, ten_exporter **ret_exporter, ten_error *error) {
    (void)config;
    (void)ret_exporter;
    return ten_fail(error, TENURE_E_UNSUPPORTED, "--metrics was left out of this build: it needs libmicrohttpd");
}

void ten_exporter_close(ten_exporter *exporter) {
    (void)exporter;
}

#endif
