/*
 * The insides of the server, for its files.
 */
#ifndef TEN_SERVER_SERVER_STATE_H
#define TEN_SERVER_SERVER_STATE_H

#include <microhttpd.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "server/accounts.h"
#include "server/auth.h"
#include "server/events.h"
#include "server/fields.h"
#include "server/gauges.h"
#include "server/lane.h"
#include "server/metrics.h"
#include "server/route.h"
#include "server/server.h"

#define TEN_BODY_MAX       ((size_t)64 * 1024)
#define TEN_BATCH_BODY_MAX ((size_t)1024 * 1024)
#define TEN_PAGE_MAX       10000u
#define TEN_PAGE_SIZE      ((size_t)4 * 1024 * 1024) /* a page that has become so large ends, whatever its limit */
#define TEN_HEADER_MAX     8192u
#define TEN_ARGUMENTS_MAX  100u
#define TEN_DISCARD_MAX    ((size_t)8 * 1024 * 1024) /* of a body that is too large: read, and forgotten */
#define TEN_SWEEP_MS       250u

/* A connection of ours, beside libmicrohttpd's. */
typedef struct ten_connection {
    LIST_ENTRY(ten_connection) all;
    LIST_ENTRY(ten_connection) guests; /* those at the expense of their address */
    bool is_guest;                     /* else it is charged to a principal, or not at all */
    int fd;
    ten_account *address; /* where it comes from */
    ten_grant place;      /* at the expense of its address, or of the principal that it has shown a token of */
    uint64_t since_ms;    /* when it came */
    const char *uri_end;  /* of the request that arrives; NULL: none has come */
    bool many_arguments;  /* more than it may have: the others are not there */
    uint64_t deadline_ms; /* for the request that arrives, or the answer that leaves; 0: none */
    const struct ten_request *streaming; /* the request of the stream that it carries; NULL: none */
    uint64_t looked_ms;                  /* when it was checked that the client of the stream is there */
    const struct ten_request *paused;    /* its refusal waits; NULL: none */
    uint64_t paused_ms;                  /* until then */
    bool certified;                      /* its client has shown a certificate of --client-ca */
    bool greets;                         /* by TLS, and has sent no request yet */
} ten_connection;

enum ten_lane_number {
    TEN_LEASES,  /* one operation or a batch of them */
    TEN_READING, /* what fleets read all the time, in bounded steps: the feed, instances, certain targets */
    TEN_LISTING, /* whatever may take long */
    TEN_LANES
};

struct ten_server {
    const ten_server_config *config;
    struct MHD_Daemon *daemon;
    ten_finished finished;
    ten_lane *lanes[TEN_LANES];
    ten_events *events;
    ten_metrics metrics;
    ten_gauges *gauges;
    ten_auth auth;
    bool has_auth;
    ten_log *log;
    char instance[TENURE_HOLDER_MAX + 1]; /* who forces, for the history */
    char address[256];                    /* as it listens */
    bool draining;
    LIST_HEAD(, ten_connection) connections;
    LIST_HEAD(, ten_connection) guests;
    size_t greeting; /* connections whose handshake is still to come, or under way */
    uint64_t swept_ms;
    size_t requests; /* under way */
    ten_line_gate trouble_gate;
    ten_accounts accounts;
};

enum ten_request_state {
    TEN_REQUEST_COLLECTING, /* its body */
    TEN_REQUEST_WAITING,    /* for a lane; the connection is suspended */
    TEN_REQUEST_ANSWERED,
};

typedef struct ten_operation ten_operation;
typedef struct ten_request ten_request;

/* What a request keeps of the budget of its account; gate.c alone changes it. */
typedef struct ten_share {
    ten_grant memory;
    ten_grant waiting; /* its operations, before the store */
    ten_grant stream;
} ten_share;

/* One request, from its headers to its answer. */
struct ten_request {
    ten_job job; /* first: a job is its request */
    struct ten_server *server;
    struct MHD_Connection *connection;
    enum ten_request_state state;
    enum ten_method method;
    ten_route route;
    const ten_operation *operation; /* NULL: the route does not have this method */
    ten_principal principal;        /* with auth */
    ten_account *account;           /* whose budget it uses */
    enum ten_urgency urgency;
    ten_share share;
    uint64_t began_us;
    bool too_large;
    bool paused; /* its refusal has waited, or waits */
    bool early;  /* before its body was read */
    bool unread; /* answered before its body has come, which is not waited for */
    /* Its input, which fields point into until it is answered. */
    ten_buf body;
    struct json_t *json; /* the body, if jansson has read it */
    /* What its handler keeps until it is answered, and how that is freed. */
    void *own;
    void (*free_own)(void *own);
    int (*work)(ten_request *request, ten_store *store);
    void (*done)(ten_request *request);
    void (*answer)(ten_request *request, const ten_result *results);
    /* The answer. */
    unsigned status;
    const char *type;
    ten_buf reply;
    bool in_use;              /* there is something in its namespace */
    char *trouble;            /* with the store, for the log; NULL: none */
    const char *name;         /* of a header; NULL: none */
    ten_buf value;            /* of that header */
    ten_event_reader *reader; /* of an event stream */
};

/* A row of api.def. */
struct ten_operation {
    enum ten_route_kind kind;
    enum ten_method method;
    bool (*handle)(ten_request *request);
    enum ten_role role;
    enum ten_urgency urgency;
    size_t body_max;
    enum ten_place place;
};

/* request.c */
enum MHD_Result ten_request_take(void *server, struct MHD_Connection *connection, const char *path, const char *method,
                                 const char *version, const char *data, size_t *size, void **request);
void ten_request_done(void *server, struct MHD_Connection *connection, void **request,
                      enum MHD_RequestTerminationCode how);
/* An argument of the query, decoded; NULL: not given. Valid as long as the request. */
const char *ten_request_argument(ten_request *request, const char *name);
/* Zeroed memory that the request owns, once in its life. `release` frees what is in it; NULL: nothing. NULL: it has
 * been answered. */
void *ten_request_own(ten_request *request, size_t size, void (*release)(void *own));
/* Its operations go to the store; false: it has been answered. `answer` gets the results. An error is answered here. */
bool ten_request_apply(ten_request *request, const ten_op *ops, size_t count, enum ten_urgency urgency,
                       void (*answer)(ten_request *request, const ten_result *results));
/* The same for work on the store alone, in one of the other lanes. Without `done` it is 200, and what was
 * written. */
bool ten_request_work(ten_request *request, enum ten_lane_number lane,
                      int (*work)(ten_request *request, ten_store *store), void (*done)(ten_request *request));
/* Frees what it needs no more once its answer is written. */
void ten_request_free_input(ten_request *request);

/* gate.c: where a request is charged. Each returns false when its account has its share, and it has been answered. */
bool ten_gate_enter(ten_request *request, size_t body_size);
/* It uses so much memory from now on. */
bool ten_gate_grow(ten_request *request, size_t size);
/* Its body has come, and may be read. */
bool ten_gate_read(ten_request *request);
/* Before it waits for a lane: its job is complete. */
bool ten_gate_queue(ten_request *request, enum ten_urgency urgency);
bool ten_gate_stream(ten_request *request);
/* Its answer is written: what was sent to us is gone, and the answer is kept until the client has taken it. */
void ten_gate_answer(ten_request *request);
/* The HTTP thread has worked on it. */
void ten_gate_spend(ten_request *request, uint64_t spent_us, uint64_t now_ms);
/* How long its answer is delayed, if it is a refusal that may be. */
uint64_t ten_gate_delay_ms(ten_request *request);
void ten_gate_leave(ten_request *request);

/* actor.c */
/* Finds out who sent it, and whether it may do what it asks for. False: it has been answered. */
bool ten_request_identify(ten_request *request);
/* Whether its principal has this role in its namespace, or everywhere if it names none. */
bool ten_request_has_role(const ten_request *request, enum ten_role role);
/* The holder, which the principal must own; false: it has been answered. */
bool ten_request_owns(ten_request *request, const char *holder);
/* A principal sees the namespaces that it may read. */
bool ten_request_may_read(const ten_request *request, const char *namespace_name);
/* Whether it may act in every namespace. */
bool ten_request_is_everywhere(const ten_request *request);
/* The principal; without auth, "http". */
const char *ten_request_sender(const ten_request *request);
/* For the history: the principal, beside what the client calls itself; without auth only that. */
void ten_request_name_actor(const ten_request *request, const char *called, char actor[TENURE_HOLDER_MAX + 1]);
/* A line for a request that only an admin may send: what it does, to how many targets, and the first of them (NULL:
 * none). */
void ten_request_log_admin(const ten_request *request, const char *actor, const char *op, const char *target,
                           size_t count);

/* headers.c: false, and it has been answered */
bool ten_headers_check_framing(ten_request *request, const char *method, const char *version);
bool ten_headers_check_host(ten_request *request);
bool ten_headers_check_type(ten_request *request);
bool ten_headers_check_length(ten_request *request);
/* Called by libmicrohttpd before it splits the query. */
void *ten_headers_note_uri(void *server, const char *uri, struct MHD_Connection *connection);
/* NULL: not there. */
const char *ten_request_header(const ten_request *request, const char *name);

/* connections.c */
ten_connection *ten_connection_of(struct MHD_Connection *connection);
void ten_connection_notice(void *server, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode what);
/* From now on the request has so long to arrive, or the answer to be taken; or, as an event stream, as long as it
 * wants. */
void ten_connection_expect(const ten_request *request, bool bounded);
/* It does nothing for so long, and costs nothing meanwhile. False: it cannot. */
bool ten_connection_pause(const ten_request *request, uint64_t pause_ms);
void ten_connections_resume(struct ten_server *server);
/* It is ended by the next sweep. */
void ten_connection_end(const ten_request *request);
void ten_connections_sweep(struct ten_server *server);
/* The connection is at the expense of the request's account from now on. False: that has its share of connections. */
bool ten_connection_charge(const ten_request *request);
/* At whose expense it is now; NULL: out of memory. */
ten_account *ten_connection_account(struct MHD_Connection *connection);
/* Its socket; -1: unknown. */
int ten_connection_fd(const ten_request *request);
/* A request has come on it. */
void ten_connection_greeted(struct ten_server *server, struct MHD_Connection *connection);
/* Ends the streams of principals that may no longer read them. */
void ten_connections_check_streams(struct ten_server *server);
/* Whether the client has shown a certificate, where one is wanted. */
bool ten_connection_is_certified(const ten_request *request);

/* reply.c */
/* It is answered with this status, and with what the reply holds, or will. */
bool ten_reply_status(ten_request *request, unsigned status);
/* 200, and an object to be filled in; ten_reply_close() ends it. */
ten_buf *ten_reply_open(ten_request *request, unsigned status);
void ten_reply_close(ten_request *request);
/* An error in its one form. These return false, for those who have to say whether they have not answered. */
bool ten_reply_error(ten_request *request, unsigned status, const char *code, const char *format, ...) TEN_PRINTF(4, 5);
bool ten_reply_wrong(ten_request *request, const char *format, ...) TEN_PRINTF(2, 3); /* 400 */
bool ten_reply_no_memory(ten_request *request);
/* The store's error, or a request that it found wrong. The message is the client's only if it is about the request. */
void ten_reply_store_error(ten_request *request, int error, const char *message);
void ten_reply_held(ten_request *request, const ten_result *result);
void ten_reply_lost(ten_request *request, const ten_result *result);
void ten_reply_stale(ten_request *request, const ten_result *result);
void ten_reply_unknown_target(ten_request *request);
/* A header beside the usual ones; at most one. */
void ten_reply_header(ten_request *request, const char *name, const char *format, ...) TEN_PRINTF(3, 4);
/* The header Link to the next page: `query` follows the namespace in the path, and the id follows that. */
void ten_reply_next(ten_request *request, const char *query, const char *id);
/* What every response says to browsers. */
void ten_reply_add_safety(struct MHD_Response *response);
enum MHD_Result ten_reply_send(ten_request *request);
/* The events that its reader gets, without an end. */
enum MHD_Result ten_reply_stream(ten_request *request);

/* page.c */
void ten_page_headers(const ten_request *request, struct MHD_Response *response);

/* The handlers of api.def: each prepares a job or begins a stream. False: it has been answered. */
#define OPERATION(kind, method, handler, role, urgency, size, place) bool ten_server_##handler(ten_request *request);
#include "server/api.def"

/* body.c: a request's body as JSON, an object; one without a body is empty. False: it has been answered. */
bool ten_body_parse(ten_request *request);

#endif
