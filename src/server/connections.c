/*
 * Connections: how long one may take over a request, and whether its client has shown a certificate. libmicrohttpd's
 * own time-out is for silence only; a client that sends a byte a second would live for ever. Called in the HTTP thread.
 */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "server/server_state.h"

static ten_connection *connection_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static gnutls_session_t session_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info ? info->tls_session : NULL;
}

void ten_connection_notice(void *userdata, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode what) {
    struct ten_server *server = userdata;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        ten_connection *ours = ten_calloc(1, sizeof *ours);
        server->metrics.connections++;
        *context = ours;
        if (!ours)
            return;
        ours->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        ours->deadline_ms = ten_now_ms() + server->config->request_ms;
        ours->next = server->first_connection;
        ours->link = &server->first_connection;
        if (ours->next)
            ours->next->link = &ours->next;
        server->first_connection = ours;
        /* libmicrohttpd asks for a certificate, and takes none for an answer. */
        gnutls_session_t session = server->config->client_ca ? session_of(connection) : NULL;
        if (session)
            gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        return;
    }
    ten_connection *ours = *context;
    server->metrics.connections--;
    *context = NULL;
    if (!ours)
        return;
    *ours->link = ours->next;
    if (ours->next)
        ours->next->link = ours->link;
    ten_free(ours);
}

void ten_connection_expect(const ten_request *request, bool bounded) {
    ten_connection *ours = connection_of(request->connection);
    if (!ours)
        return;
    ours->deadline_ms = bounded ? ten_now_ms() + request->server->config->request_ms : 0;
    ours->reader = NULL;
}

void ten_connection_streams(const ten_request *request) {
    ten_connection *ours = connection_of(request->connection);
    if (!ours)
        return;
    ours->deadline_ms = 0;
    ours->reader = request->reader;
}

/* A stream that has nothing to say is suspended: libmicrohttpd does not look whether its client is still there. */
static bool has_hung_up(const ten_connection *ours) {
    struct pollfd polled = {.fd = ours->fd, .events = POLLRDHUP};
    return poll(&polled, 1, 0) == 1;
}

void ten_connection_end(const ten_request *request) {
    ten_connection *ours = connection_of(request->connection);
    if (ours)
        ours->deadline_ms = 1; /* long past */
}

void ten_connections_sweep(struct ten_server *server) {
    uint64_t now = ten_now_ms();
    if (now < server->swept_ms + TEN_SWEEP_MS)
        return;
    server->swept_ms = now;
    for (ten_connection *ours = server->first_connection; ours; ours = ours->next) {
        if (ours->reader && has_hung_up(ours)) {
            ten_events_cut(ours->reader);
            ours->reader = NULL;
        }
        if (ours->deadline_ms == 0 || now < ours->deadline_ms)
            continue;
        (void)shutdown(ours->fd, SHUT_RDWR); /* libmicrohttpd sees its end, and lets go of it */
        ours->deadline_ms = 0;
    }
}

/* By the CA that it was given, valid today, and for clients. */
static bool is_certified(struct MHD_Connection *connection) {
    unsigned status = 0;
    gnutls_session_t session = session_of(connection);
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    return session && gnutls_certificate_verify_peers(session, &purpose, 1, &status) == 0 && status == 0;
}

bool ten_connection_is_certified(const ten_request *request) {
    ten_connection *ours = connection_of(request->connection);
    if (!request->server->config->client_ca || (ours && ours->certified))
        return true;
    bool certified = is_certified(request->connection);
    if (ours)
        ours->certified = certified;
    return certified;
}
