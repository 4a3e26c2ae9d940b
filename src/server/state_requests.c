/*
 * Requests about the server itself: whether it lives, whether its store answers, its metrics, its namespaces, and the
 * description of its API. Called by request.c.
 */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/server_state.h"

#define METRICS_TYPE "text/plain; version=0.0.4"

extern const char ten_openapi_text[];

bool ten_server_alive(ten_request *request) {
    ten_buf_text(&request->reply, "{\"status\":\"alive\"}\n");
    return ten_reply_status(request, 200);
}

bool ten_server_openapi_get(ten_request *request) {
    ten_buf_text(&request->reply, ten_openapi_text);
    return ten_reply_status(request, 200);
}

/* ---- whether the store answers */

static int ping(ten_request *request, ten_store *store) {
    return store->ops->ping(store, request->server->config->timeout_ms);
}

static void answer_ready(ten_request *request) {
    const ten_lane *lane = request->server->lanes[TEN_LISTING];
    ten_buf *reply = ten_reply_open(request, 200);
    ten_json_text(reply, "status", "ready");
    ten_json_text(reply, "store", ten_lane_store_name(lane));
    ten_json_number(reply, "ttl_min_ms", ten_lane_capabilities(lane)->ttl_min_ms);
    ten_json_text(reply, "version", tenure_version());
    ten_json_number(reply, "at_ms", ten_wall_ms(&ten_system_clock));
    ten_reply_close(request);
}

bool ten_server_ready(ten_request *request) {
    return ten_request_work(request, TEN_LISTING, ping, answer_ready);
}

/* ---- metrics */

static bool is_shown(const char *namespace_name, const void *userdata) {
    return ten_request_may_read(userdata, namespace_name);
}

static int read_gauges(ten_request *request, ten_store *store) {
    return ten_gauges_write(request->server->gauges, store, request->server->config->timeout_ms, is_shown, request,
                            &request->reply);
}

static void answer_metrics(ten_request *request) {
    request->type = METRICS_TYPE;
}

static void write_metrics(ten_request *request, bool up) {
    struct ten_server *server = request->server;
    ten_buf_clear(&request->reply);
    ten_reply_status(request, 200);
    request->type = METRICS_TYPE;
    uint64_t errors = 0;
    for (size_t i = 0; i < TEN_LANES; i++)
        errors += ten_lane_errors(server->lanes[i]);
    ten_metrics_write(&server->metrics, ten_lane_store_name(server->lanes[TEN_LEASES]), errors, up,
                      ten_events_count(server->events), &request->reply);
    ten_accounts_metrics(&server->accounts, ten_request_is_everywhere(request) ? NULL : request->account,
                         &request->reply);
}

bool ten_server_metrics_get(ten_request *request) {
    struct ten_server *server = request->server;
    bool up = ten_lane_is_up(server->lanes[TEN_LEASES]);
    write_metrics(request, up);
    if (up && ten_request_work(request, TEN_LISTING, read_gauges, answer_metrics))
        return true;
    write_metrics(request, up); /* without what the store would say */
    return false;
}

/* ---- namespaces */

struct names {
    ten_request *request;
    size_t count;
};

static int write_name(const char *name, void *userdata) {
    struct names *names = userdata;
    if (!ten_request_may_read(names->request, name))
        return 0;
    ten_buf_text(&names->request->reply, names->count++ ? ",\n" : "");
    ten_json_string(&names->request->reply, name);
    return 0;
}

static int list_names(ten_request *request, ten_store *store) {
    struct names names = {.request = request};
    if (!store->ops->list_namespaces)
        return ten_fail(&store->error, TENURE_E_UNSUPPORTED, "a store on %s cannot list its namespaces",
                        store->ops->name);
    ten_buf_char(&request->reply, '[');
    int r = store->ops->list_namespaces(store, write_name, &names, request->server->config->timeout_ms);
    ten_buf_text(&request->reply, "]\n");
    return r;
}

bool ten_server_namespaces_get(ten_request *request) {
    return ten_request_work(request, TEN_LISTING, list_names, NULL);
}
