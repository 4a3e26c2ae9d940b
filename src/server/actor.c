/*
 * Who sends a request, and what its principal may do; its name for the history, and a line in the log for what only
 * an admin may send. Called by request.c and the handlers, in the HTTP thread.
 */
#include <string.h>

#include "base/utf8.h"
#include "server/server_state.h"

bool ten_request_has_role(const ten_request *request, enum ten_role role) {
    const char *where = request->route.namespace_name;
    if (!request->server->has_auth || role == TEN_ROLE_NONE)
        return true;
    return where[0] ? ten_principal_may(&request->principal, role, where) : request->principal.role >= role;
}

bool ten_request_may_read(const ten_request *request, const char *namespace_name) {
    return !request->server->has_auth || ten_principal_may(&request->principal, TEN_ROLE_READ, namespace_name);
}

bool ten_request_is_everywhere(const ten_request *request) {
    return !request->server->has_auth || strcmp(request->principal.namespaces, "*") == 0;
}

bool ten_request_owns(ten_request *request, const char *holder) {
    if (!request->server->has_auth || ten_principal_owns(&request->principal, holder))
        return true;
    return ten_reply_error(request, 403, "forbidden", "%s may not act for %s", request->principal.name, holder);
}

static bool find_principal(ten_request *request) {
    struct ten_server *server = request->server;
    const char *given = ten_request_header(request, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *token = given && strncasecmp(given, "Bearer ", 7) == 0 ? given + 7 : NULL;
    const ten_principal *principal = token ? ten_auth_find(&server->auth, token) : NULL;
    if (!principal)
        return ten_reply_error(request, 401, "unauthorized", token ? "unknown token" : "missing bearer token");
    ten_account *account = ten_accounts_of_principal(&server->accounts, principal->name);
    if (!account)
        return ten_reply_no_memory(request);
    request->principal = *principal;
    request->account = account;
    return true;
}

bool ten_request_identify(ten_request *request) {
    enum ten_role role = request->operation->role;
    const char *where = request->route.namespace_name;
    if (!request->server->has_auth || role == TEN_ROLE_NONE)
        return true;
    if (!find_principal(request))
        return false;
    if (ten_request_has_role(request, role))
        return true;
    const char *what = role == TEN_ROLE_READ ? "read" : role == TEN_ROLE_HOLD ? "hold leases in" : "administer";
    return ten_reply_error(request, 403, "forbidden", "token '%s' may not %s %s%s", request->principal.name, what,
                           where[0] ? "namespace " : "this server", where);
}

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
