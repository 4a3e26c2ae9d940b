/*
 * Requests for what has changed: the feed, as far back as it is kept. The stream of it is events.c's.
 */
#include <string.h>

#include "base/json.h"
#include "server/server_state.h"

static int write_change(const ten_change *change, void *userdata) {
    ten_request *request = userdata;
    ten_buf *reply = &request->reply;
    ten_buf_text(reply, request->list.count++ ? ",\n" : "");
    ten_json_open(reply);
    ten_json_number(reply, "cursor", change->cursor);
    ten_json_time(reply, "at", change->at_ms);
    ten_json_number(reply, "at_ms", change->at_ms);
    ten_json_text(reply, "event", ten_change_name(change->kind));
    ten_json_text(reply, "target", change->target);
    ten_json_text(reply, "instance", change->instance);
    ten_json_number(reply, "token", change->token);
    ten_json_text(reply, "reason", ten_reason_name(change->reason));
    ten_json_text(reply, "actor", change->actor);
    ten_json_close(reply);
    return 0;
}

/* Without a cursor, the last ones: cursors grow by one with each change, or faster. */
static int read_changes(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct ten_list_request *list = &request->list;
    const char *where = request->route.namespace_name;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    ten_buf_char(&request->reply, '[');
    int done = TENURE_OK;
    if (list->recent) {
        done = store->ops->changes(store, where, &list->cursor, 1, write_change, request, timeout_ms);
        list->cursor = ten_left_u64(list->cursor, list->limit);
    }
    if (done == TENURE_OK)
        done = store->ops->changes(store, where, &list->cursor, list->limit, write_change, request, timeout_ms);
    list->resync = done == TENURE_E_RESYNC;
    ten_buf_text(&request->reply, "]\n");
    return list->resync ? TENURE_OK : done;
}

static void finish_changes(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    ten_reply_status(request, 200);
    snprintf(request->header[0], sizeof request->header[0], "X-Tenure-Cursor");
    snprintf(request->header[1], sizeof request->header[1], "%llu%s", (unsigned long long)request->list.cursor,
             request->list.resync ? "; resync" : "");
}

void ten_history_get(ten_request *request) {
    struct ten_list_request *list = &request->list;
    const char *after = ten_request_argument(request, "after");
    const char *limit = ten_request_argument(request, "limit");
    bool is_number = !limit || (limit[0] != '\0' && strspn(limit, "0123456789") == strlen(limit));
    list->limit = !is_number ? 0 : limit ? strtoul(limit, NULL, 10) : 100;
    list->recent = after == NULL;
    bool is_now = after && strcmp(after, "now") == 0;
    list->cursor = !after || is_now ? UINT64_MAX : strtoull(after, NULL, 10);
    if (list->limit == 0 || list->limit > TEN_PAGE_MAX)
        ten_reply_error(request, 400, "bad_request", "limit is a number from 1 to %u", TEN_PAGE_MAX);
    else if (after && !is_now && (after[0] == '\0' || strspn(after, "0123456789") != strlen(after)))
        ten_reply_error(request, 400, "bad_request", "after is a cursor, or now");
    else {
        request->job.work = read_changes;
        request->job.finish = finish_changes;
        ten_request_wait_for_listing(request);
    }
}
