/*
 * Requests for what has changed: the feed, as far back as it is kept. The stream of it is events.c's.
 */
#include <string.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/json.h"
#include "core/fleet.h"
#include "runtime/context_history.h"
#include "server/server_state.h"

/* Of a job of `tenure cron`. */
static void write_run(ten_buf *reply, const ten_change *change) {
    ten_json_time(reply, "instant", change->instant_ms);
    if (change->kind == TENURE_EVENT_CRON_ENDED) {
        ten_json_time(reply, "started_at", change->instant_ms + change->late_ms);
        ten_json_number(reply, "duration_ms", change->duration_ms);
        ten_json_number(reply, "exit_code", (uint64_t)change->exit_code);
    }
    if (change->count)
        ten_json_number(reply, "count", change->count);
}

static int write_change(const ten_change *change, void *userdata) {
    ten_request *request = userdata;
    ten_buf *reply = &request->reply;
    ten_buf_text(reply, request->list.count++ ? ",\n" : "");
    ten_json_open(reply);
    ten_json_number(reply, "cursor", change->cursor);
    ten_json_time(reply, "at", change->at_ms);
    ten_json_number(reply, "at_ms", change->at_ms);
    ten_json_text(reply, "event", ten_event_name(change->kind));
    ten_json_text(reply, "target", change->target);
    ten_json_text(reply, "instance", change->instance);
    ten_json_number(reply, "token", change->token);
    ten_json_text(reply, "reason", ten_change_reason(change));
    ten_json_text(reply, "actor", change->actor);
    if (change->held_ms)
        ten_json_number(reply, "held_ms", change->held_ms);
    if (change->free_ms)
        ten_json_number(reply, "free_ms", change->free_ms);
    if (change->result)
        write_run(reply, change);
    ten_json_close(reply);
    return 0;
}

/* After a cursor: the feed as it is. Without one: the history, read together, and the cursor from which to go on. */
static int read_changes(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct ten_list_request *list = &request->list;
    const char *where = request->route.namespace_name;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    ten_buf_char(&request->reply, '[');
    int r = store->ops->changes(store, where, &list->cursor, list->recent ? 1 : list->limit, write_change, request,
                                timeout_ms);
    if (r == TENURE_OK && list->recent) {
        ten_history_query query = {
            .target = list->after[0] ? list->after : NULL, .for_ms = list->for_ms, .limit = list->limit};
        r = ten_context_history_list(store, where, &query, write_change, request, timeout_ms);
    }
    list->resync = r == TENURE_E_RESYNC;
    ten_buf_text(&request->reply, "]\n");
    return list->resync ? TENURE_OK : r;
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

/* Where to start. False: it has been answered. */
static bool parse_after(ten_request *request, const char *after) {
    struct ten_list_request *list = &request->list;
    list->recent = after == NULL;
    list->cursor = TEN_CURSOR_NOW;
    if (!after || strcmp(after, "now") == 0)
        return true;
    if (strcmp(after, "oldest") == 0) {
        list->cursor = TEN_CURSOR_OLDEST;
        return true;
    }
    list->cursor = strtoull(after, NULL, 10);
    if (after[0] != '\0' && strspn(after, "0123456789") == strlen(after))
        return true;
    ten_reply_error(request, 400, "bad_request", "after is a cursor, oldest, or now");
    return false;
}

/* What is wanted of the history. False: it has been answered. */
static bool parse_wanted(ten_request *request) {
    struct ten_list_request *list = &request->list;
    const char *target = ten_request_argument(request, "target");
    const char *since = ten_request_argument(request, "since");
    ten_error error = {0};
    int r = target ? ten_id_check_target(target, &error) : TENURE_OK;
    if (r == TENURE_OK && since)
        r = ten_duration_parse(since, &list->for_ms, &error);
    if (r == TENURE_OK && !list->recent && (target || since))
        r = ten_fail(&error, TENURE_E_INVALID, "'target' and 'since' cannot be combined with 'after'");
    if (r < 0)
        ten_reply_error(request, 400, "bad_request", "%s", error.message);
    else
        snprintf(list->after, sizeof list->after, "%s", target ? target : "");
    return r == TENURE_OK;
}

void ten_server_history_get(ten_request *request) {
    struct ten_list_request *list = &request->list;
    const char *limit = ten_request_argument(request, "limit");
    bool is_number = !limit || (limit[0] != '\0' && strspn(limit, "0123456789") == strlen(limit));
    list->limit = !is_number ? 0 : limit ? strtoul(limit, NULL, 10) : 100;
    if (list->limit == 0 || list->limit > TEN_PAGE_MAX)
        ten_reply_error(request, 400, "bad_request", "limit is a number from 1 to %u", TEN_PAGE_MAX);
    else if (parse_after(request, ten_request_argument(request, "after")) && parse_wanted(request)) {
        request->job.work = read_changes;
        request->job.finish = finish_changes;
        if (list->recent || list->limit > TEN_FLEET_FEED)
            ten_request_wait_for_listing(request);
        else
            ten_request_wait_for_reading(request);
    }
}
