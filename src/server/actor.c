/*
 * Who does what only an admin may do: its name for the history, and a line in the log for each such request. Called by the
 * files of the requests, in the HTTP thread.
 */
#include <string.h>

#include "base/utf8.h"
#include "server/server_state.h"

const char *ten_request_sender(const ten_request *request) {
    return request->server->has_auth ? request->principal.name : "http";
}

void ten_request_name_actor(const ten_request *request, const char *called, char actor[TENURE_HOLDER_MAX + 1]) {
    const char *principal = request->principal.name;
    if (!request->server->has_auth || strcmp(principal, called) == 0)
        snprintf(actor, TENURE_HOLDER_MAX + 1, "%s", called);
    else
        snprintf(actor, TENURE_HOLDER_MAX + 1, "%s (as %.*s)", principal,
                 (int)ten_utf8_cut(called, TENURE_HOLDER_MAX - strlen(principal) - strlen(" (as )")), called);
}

void ten_request_log_admin(const ten_request *request, const char *actor, const char *op, const char *target,
                           size_t count) {
    TEN_LOG(request->server->log, TEN_LOG_INFO, "admin_request", TEN_TEXT("actor", actor),
            TEN_TEXT("namespace", request->route.namespace_name), TEN_TEXT("op", op),
            TEN_TEXT("target", target ? target : ""), TEN_NUMBER("count", count));
}
