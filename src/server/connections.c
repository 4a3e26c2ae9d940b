/*
 * Connections: how long one may take over a request, at whose expense it is, and whether its client has shown a
 * certificate. libmicrohttpd's own time-out is for silence only; a client that sends a byte a second would live for
 * ever. Called in the HTTP thread.
 */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "server/server_state.h"
#include "server/tls.h"

#define GREETINGS_US  50000u
#define GREETINGS_MIN 8u
#define LOOK_MS       1000u
#define STRANGER_MS   10000u /* for which a client without a token may keep a connection that does nothing */

ten_connection *ten_connection_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static gnutls_session_t session_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info ? info->tls_session : NULL;
}

ten_account *ten_connection_account(struct MHD_Connection *connection) {
    const ten_connection *ours = ten_connection_of(connection);
    if (!ours)
        return NULL;
    return ours->place.account ? ours->place.account : ours->address;
}

int ten_connection_fd(const ten_request *request) {
    const ten_connection *ours = ten_connection_of(request->connection);
    return ours ? ours->fd : -1;
}

/* ---- at whose expense */

static void drop_guest(ten_connection *ours) {
    if (ours->is_guest)
        LIST_REMOVE(ours, guests);
    ours->is_guest = false;
}

static void stop_greeting(struct ten_server *server, ten_connection *ours) {
    server->greeting -= ours->greets;
    ours->greets = false;
}

/* libmicrohttpd sees its end, and closes it. What has arrived would still be read: a ClientHello costs the
 * most of a handshake. */
static void shut(struct ten_server *server, ten_connection *ours) {
    stop_greeting(server, ours);
    (void)recv(ours->fd, NULL, INT_MAX, MSG_TRUNC | MSG_DONTWAIT);
    (void)shutdown(ours->fd, SHUT_RDWR);
    ours->deadline_ms = 0;
    ours->paused_ms = 0;
    drop_guest(ours);
    ten_budget_return(&server->accounts.budget, &ours->place, TEN_RESOURCE_CONNECTIONS);
}

/* Closes the connection of a client without a token that is to go first; with `greets` one that has sent no request
 * yet. False: there is none. */
static bool close_stranger(struct ten_server *server, bool greets) {
    ten_connection *first = NULL;
    ten_connection *ours;
    ten_stranger about_first = {0};
    LIST_FOREACH(ours, &server->guests, guests) {
        if (!ours->place.account || (greets ? !ours->greets : !ours->place.account->stranger))
            continue;
        ten_stranger about = {ours->place.account->used[TEN_RESOURCE_CONNECTIONS], ours->since_ms};
        /* The list begins with the newest. */
        if (!first || !ten_stranger_goes_first(&about_first, &about)) {
            first = ours;
            about_first = about;
        }
    }
    if (first)
        shut(server, first);
    return first != NULL;
}

/* A client without a token is always accepted, so that it can show one: another connection is closed for it. */
static void charge_address(struct ten_server *server, ten_connection *ours) {
    ten_budget *budget = &server->accounts.budget;
    ten_account *address = ours->address;
    if (!address)
        return;
    if (!ten_budget_resize(budget, &ours->place, address, TEN_RESOURCE_CONNECTIONS, 1, TEN_USUAL)) {
        ten_accounts_log_limit(&server->accounts, address, TEN_RESOURCE_CONNECTIONS, server->log);
        if (!address->stranger || !close_stranger(server, false)) {
            shut(server, ours);
            return;
        }
        ten_budget_note(budget, &ours->place, address, TEN_RESOURCE_CONNECTIONS, 1);
    }
    LIST_INSERT_HEAD(&server->guests, ours, guests);
    ours->is_guest = true;
}

/* Handshakes are made by this thread, between two requests of any client: no more of them may be due at once than take
 * GREETINGS_US. A new connection is always accepted, and the greediest address loses one instead. */
static void greet(struct ten_server *server, ten_connection *ours) {
    if (!server->config->tls_cert || ours->place.amount == 0)
        return;
    uint64_t most = ten_max_u64(GREETINGS_MIN, GREETINGS_US / ten_max_u64(1, ten_tls_handshake_us()));
    if (server->greeting >= most) {
        ten_accounts_log_limit(&server->accounts, ours->address, TEN_RESOURCE_TIME, server->log);
        (void)close_stranger(server, true);
    }
    ours->greets = true;
    server->greeting++;
}

void ten_connection_greeted(struct ten_server *server, struct MHD_Connection *connection) {
    ten_connection *ours = ten_connection_of(connection);
    if (ours)
        stop_greeting(server, ours);
}

static uint64_t patience_ms(const struct ten_server *server, const ten_connection *ours) {
    bool stranger = ours->place.account && ours->place.account->stranger;
    return stranger ? ten_min_u64(server->config->request_ms, STRANGER_MS) : server->config->request_ms;
}

bool ten_connection_charge(const ten_request *request) {
    ten_connection *ours = ten_connection_of(request->connection);
    ten_budget *budget = &request->server->accounts.budget;
    ten_account *account = request->account;
    if (!ours || ours->place.account == account)
        return true;
    ten_budget_return(budget, &ours->place, TEN_RESOURCE_CONNECTIONS);
    if (ten_budget_resize(budget, &ours->place, account, TEN_RESOURCE_CONNECTIONS, 1, request->urgency)) {
        drop_guest(ours);
        ours->deadline_ms = ten_now_ms() + patience_ms(request->server, ours); /* a principal has more time */
        return true;
    }
    if (ours->address)
        ten_budget_note(budget, &ours->place, ours->address, TEN_RESOURCE_CONNECTIONS, 1);
    return false;
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
        const union MHD_ConnectionInfo *client =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        ours->address = ten_accounts_of_address(&server->accounts, client ? client->client_addr : NULL);
        ours->since_ms = ten_now_ms();
        charge_address(server, ours);
        greet(server, ours);
        if (ours->place.amount > 0)
            ours->deadline_ms = ours->since_ms + patience_ms(server, ours);
        LIST_INSERT_HEAD(&server->connections, ours, all);
        /* libmicrohttpd only requests a certificate; here it is required. */
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
    stop_greeting(server, ours);
    drop_guest(ours);
    LIST_REMOVE(ours, all);
    ten_budget_return(&server->accounts.budget, &ours->place, TEN_RESOURCE_CONNECTIONS);
    ten_accounts_leave_address(&server->accounts, ours->address);
    ten_free(ours);
}

void ten_connection_expect(const ten_request *request, bool bounded) {
    ten_connection *ours = ten_connection_of(request->connection);
    if (!ours)
        return;
    ours->deadline_ms = bounded ? ten_now_ms() + patience_ms(request->server, ours) : 0;
    ours->streaming = bounded || !request->reader ? NULL : request;
}

/* A stream without news is suspended: libmicrohttpd does not notice that its client has disconnected. */
static bool has_hung_up(const ten_connection *ours) {
    struct pollfd polled = {.fd = ours->fd, .events = POLLRDHUP};
    return poll(&polled, 1, 0) == 1;
}

void ten_connection_end(const ten_request *request) {
    ten_connection *ours = ten_connection_of(request->connection);
    if (ours)
        ours->deadline_ms = 1; /* in the past */
}

bool ten_connection_pause(const ten_request *request, uint64_t pause_ms) {
    ten_connection *ours = ten_connection_of(request->connection);
    if (!ours)
        return false;
    ours->paused = request;
    ours->paused_ms = ten_now_ms() + pause_ms;
    ours->deadline_ms = ours->paused_ms + patience_ms(request->server, ours);
    MHD_suspend_connection(request->connection);
    return true;
}

static void resume_paused(ten_connection *ours) {
    const ten_request *request = ours->paused;
    ours->paused = NULL;
    MHD_resume_connection(request->connection);
}

void ten_connections_resume(struct ten_server *server) {
    ten_connection *ours;
    LIST_FOREACH(ours, &server->connections, all)
    if (ours->paused)
        resume_paused(ours);
}

static void cut_stream(ten_connection *ours) {
    ten_events_cut(ours->streaming->reader);
    ours->streaming = NULL;
}

/* A stream that ended is found within LOOK_MS: a look at each costs a system call. */
static void look_at_stream(ten_connection *ours, uint64_t now_ms) {
    if (!ours->streaming || now_ms < ours->looked_ms + LOOK_MS)
        return;
    ours->looked_ms = now_ms;
    if (has_hung_up(ours))
        cut_stream(ours);
}

void ten_connections_sweep(struct ten_server *server) {
    uint64_t now = ten_now_ms();
    if (now < server->swept_ms + TEN_SWEEP_MS)
        return;
    server->swept_ms = now;
    ten_connection *ours;
    LIST_FOREACH(ours, &server->connections, all) {
        look_at_stream(ours, now);
        if (ours->paused && (now >= ours->paused_ms || server->draining))
            resume_paused(ours);
        if (ours->deadline_ms != 0 && now >= ours->deadline_ms)
            shut(server, ours);
    }
}

void ten_connections_check_streams(struct ten_server *server) {
    ten_connection *ours;
    LIST_FOREACH(ours, &server->connections, all) {
        const ten_request *request = ours->streaming;
        if (!request ||
            ten_auth_still_may(&server->auth, &request->principal, TEN_ROLE_READ, request->route.namespace_name))
            continue;
        cut_stream(ours);
        ours->deadline_ms = 1; /* the next sweep ends it, whether it is read or not */
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
    ten_connection *ours = ten_connection_of(request->connection);
    if (!request->server->config->client_ca || (ours && ours->certified))
        return true;
    bool certified = is_certified(request->connection);
    if (ours)
        ours->certified = certified;
    return certified;
}
