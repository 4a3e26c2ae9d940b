/*
 * The namespaces of the store: those that the principal may read. Called by request.c.
 */
#include "base/json.h"
#include "server/server_state.h"

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

static int list_names(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct names names = {.request = request};
    if (!store->ops->list_namespaces)
        return ten_fail(&store->error, TENURE_E_UNSUPPORTED, "a store on %s cannot list its namespaces",
                        store->ops->name);
    ten_buf_char(&request->reply, '[');
    int r = store->ops->list_namespaces(store, write_name, &names, request->server->config->timeout_ms);
    ten_buf_text(&request->reply, "]\n");
    return r;
}

static void finish_names(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else
        ten_reply_status(request, 200);
}

void ten_server_namespaces_get(ten_request *request) {
    request->job.work = list_names;
    request->job.finish = finish_names;
    ten_request_wait_for_listing(request);
}
