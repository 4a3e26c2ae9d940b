/*
 * Requests for what has changed: the feed and the history, as far back as they are kept, and the stream of events,
 * which events.c carries. Called by request.c.
 */
#include <string.h>

#include "base/duration.h"
#include "base/json.h"
#include "core/fleet.h"
#include "runtime/context_history.h"
#include "server/server_state.h"

struct history {
    bool recent;     /* without a cursor: the history, read together */
    uint64_t cursor; /* of the feed */
    bool resync;
    size_t count; /* of what was written */
    ten_history_query query;
};

/* Of a job of `tenure cron`. */
static void write_run(ten_buf *reply, const ten_change *change) {
    ten_json_time(reply, "instant", change->instant_ms);
    if (change->kind == TENURE_EVENT_CRON_ENDED) {
        ten_json_time(reply, "started_at", change->instant_ms + change->late_ms);
        ten_json_number(reply, "duration_ms", change->duration_ms);
        ten_json_number(reply, "exit_code", (uint64_t)change->exit_code);
    }
    ten_json_some(reply, "count", change->count);
}

static int write_change(const ten_change *change, void *userdata) {
    ten_request *request = userdata;
    struct history *history = request->own;
    ten_buf *reply = &request->reply;
    ten_json_item(reply, history->count++);
    ten_json_number(reply, "cursor", change->cursor);
    ten_json_time(reply, "at", change->at_ms);
    ten_json_number(reply, "at_ms", change->at_ms);
    ten_json_text(reply, "event", ten_event_name(change->kind));
    ten_json_text(reply, "target", change->target);
    ten_json_text(reply, "instance", change->instance);
    ten_json_number(reply, "token", change->token);
    ten_json_text(reply, "reason", ten_change_reason(change));
    ten_json_text(reply, "actor", change->actor);
    ten_json_some(reply, "held_ms", change->held_ms);
    ten_json_some(reply, "free_ms", change->free_ms);
    if (change->result)
        write_run(reply, change);
    ten_json_close(reply);
    return 0;
}

/* After a cursor: the feed as it is. Without one: the history, and the cursor from which to go on. */
static int read_changes(ten_request *request, ten_store *store) {
    struct history *history = request->own;
    const char *where = request->route.namespace_name;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    ten_buf_char(&request->reply, '[');
    int r = store->ops->changes(store, where, &history->cursor, history->recent ? 1 : history->query.limit,
                                write_change, request, timeout_ms);
    if (r == TENURE_OK && history->recent)
        r = ten_context_history_list(store, where, &history->query, write_change, request, timeout_ms);
    history->resync = r == TENURE_E_RESYNC;
    ten_buf_text(&request->reply, "]\n");
    return history->resync ? TENURE_OK : r;
}

static void answer_changes(ten_request *request) {
    const struct history *history = request->own;
    request->in_use = history->count > 0;
    ten_reply_header(request, "X-Tenure-Cursor", "%llu%s", (unsigned long long)history->cursor,
                     history->resync ? "; resync" : "");
}

/* Where to start. False: it has been answered. */
static bool take_after(ten_request *request, const char *after, struct history *history) {
    history->recent = after == NULL;
    history->cursor = TEN_CURSOR_NOW;
    if (!after || strcmp(after, "now") == 0)
        return true;
    history->cursor = strcmp(after, "oldest") == 0 ? TEN_CURSOR_OLDEST : strtoull(after, NULL, 10);
    if (history->cursor == TEN_CURSOR_OLDEST || (after[0] && strspn(after, "0123456789") == strlen(after)))
        return true;
    return ten_reply_wrong(request, "after must be a cursor, oldest or now");
}

static bool take_query(ten_request *request, const ten_fields *fields, struct history *history) {
    ten_error error = {0};
    int r = fields->since ? ten_duration_parse(fields->since, &history->query.for_ms, &error) : TENURE_OK;
    if (r == TENURE_OK && !history->recent && (fields->target_id || fields->since))
        r = ten_fail(&error, TENURE_E_INVALID, "'target' and 'since' cannot be combined with 'after'");
    if (r < 0)
        ten_reply_wrong(request, "%s", error.message);
    history->query.target = fields->target_id;
    history->query.limit = fields->limit;
    return r == TENURE_OK;
}

bool ten_server_history_get(ten_request *request) {
    struct history *history = ten_request_own(request, sizeof *history, NULL);
    ten_fields fields = {.limit = 100};
    if (!history || !ten_fields_take(request, &fields) || !take_after(request, fields.after, history) ||
        !take_query(request, &fields, history))
        return false;
    bool is_long = history->recent || history->query.limit > TEN_FLEET_FEED;
    return ten_request_work(request, is_long ? TEN_LISTING : TEN_READING, read_changes, answer_changes);
}

/* ---- the stream */

bool ten_server_events_get(ten_request *request) {
    ten_fields fields = {0};
    if (!ten_fields_take(request, &fields))
        return false;
    const char *header = ten_request_header(request, "Last-Event-ID");
    const char *last = header && header[0] ? header : fields.last_event_id;
    uint64_t cursor = last ? strtoull(last, NULL, 10) : UINT64_MAX;
    if (last && (last[0] == '\0' || strspn(last, "0123456789") != strlen(last) || cursor == UINT64_MAX))
        return ten_reply_wrong(request, "Last-Event-ID must be the id of an event, a number");
    if (!ten_gate_stream(request))
        return false;
    const char *where = request->route.namespace_name;
    request->reader = ten_events_join(request->server->events, where, cursor, request);
    if (request->reader)
        return true;
    ten_accounts_stream_end(&request->server->accounts, where);
    return ten_reply_error(request, 503, "unavailable", "too many event streams are open");
}
