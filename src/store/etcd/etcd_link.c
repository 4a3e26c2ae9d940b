/*
 * See etcd_link.h. A call that timed out has lost its connection (libcurl closes it), so that a late answer is never
 * taken for that of a later request. Called by the other files of the etcd store.
 */
#include "store/etcd/etcd_link.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"

#define IN_FLIGHT 8u
#define SLICE_MS  250u /* a member is given at least so long before the next one is tried */
#define LOOK_MS   500u /* for the first look at the members of the URL */

enum grpc_code {
    GRPC_INVALID = 3,
    GRPC_NOT_FOUND = 5,
    GRPC_DENIED = 7,
    GRPC_EXHAUSTED = 8,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNAUTHENTICATED = 16,
};

/* A request under way. */
struct flight {
    CURL *easy;
    const char *endpoint;
    ten_curl_answer answer;
    char sent[40]; /* the body of a call about an etcd lease */
    ten_etcd_call *call;
    CURLcode code;
};

struct ten_etcd_link {
    const ten_etcd_settings *settings;
    CURLM *multi;
    struct flight flights[IN_FLIGHT];
    struct curl_slist *headers;
    size_t endpoint;      /* in use */
    char *token;          /* of the user; NULL: not had yet */
    uint64_t cluster;     /* of all answers; 0: none came yet */
    const char *known_by; /* the member that named the cluster first */
    uint64_t connections; /* that were made */
    bool looked;          /* at the members of the URL, whether they are of one cluster */
};

uint64_t ten_etcd_number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_string(value) ? strtoull(json_string_value(value), NULL, 10) : (uint64_t)json_integer_value(value);
}

const char *ten_etcd_endpoint(const ten_etcd_link *link) {
    return link->settings->endpoints[link->endpoint];
}

void ten_etcd_next_endpoint(ten_etcd_link *link) {
    link->endpoint = (link->endpoint + 1) % link->settings->endpoint_count;
}

uint64_t ten_etcd_connections(const ten_etcd_link *link) {
    return link->connections;
}

/* ---- one attempt ----------------------------------------------------------------------------------------- */

static size_t take_header(char *data, size_t size, size_t count, void *userdata) {
    const struct flight *flight = userdata;
    char text[64];
    size_t length = size * count;
    if (length > 6 && length < sizeof text && strncasecmp(data, "Date:", 5) == 0) {
        snprintf(text, sizeof text, "%.*s", (int)(length - 5), data + 5);
        flight->call->server_time_s = (long)curl_getdate(text, NULL);
    }
    return length;
}

static bool take_off(const ten_etcd_link *link, struct flight *flight, ten_etcd_call *call, uint64_t timeout_ms) {
    char url[512];
    CURL *easy = flight->easy;
    const char *body = call->lease ? flight->sent : call->body;
    snprintf(flight->sent, sizeof flight->sent, "{\"ID\":\"%llu\"}", (unsigned long long)call->lease);
    flight->endpoint = call->endpoint ? call->endpoint : ten_etcd_endpoint(link);
    flight->call = call;
    flight->code = CURLE_OUT_OF_MEMORY;
    snprintf(url, sizeof url, "%s%s", flight->endpoint, call->path);
    return ten_curl_aim(easy, &flight->answer, url, body, timeout_ms) &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, link->headers) == CURLE_OK &&
           /* When a connection that was used before ends without an answer, curl sends the request again by itself. */
           curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, call->once ? 1L : 0L) == CURLE_OK &&
           curl_multi_add_handle(link->multi, easy) == CURLM_OK;
}

static void note_ends(ten_etcd_link *link) {
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(link->multi, &left));) {
        if (message->msg != CURLMSG_DONE)
            continue;
        for (size_t i = 0; i < IN_FLIGHT; i++)
            if (link->flights[i].easy == message->easy_handle)
                link->flights[i].code = message->data.result;
    }
}

/* What happened to a call, beyond the errors of tenure.h. */
enum ending {
    ENDED,        /* answered or refused: final */
    NOT_SENT,     /* the member could not be reached */
    NOT_ANSWERED, /* it may have arrived */
    NOT_KNOWN,    /* the token is not (or no longer) good */
    FOREIGN,      /* a member of another cluster answered: nothing was asked of this one */
};

static void read_head(ten_etcd_call *call) {
    const json_t *inner = json_object_get(call->answer, "result");
    const json_t *header = json_object_get(inner ? inner : call->answer, "header");
    call->head = (ten_etcd_head){.cluster = ten_etcd_number(header, "cluster_id"),
                                 .member = ten_etcd_number(header, "member_id"),
                                 .term = ten_etcd_number(header, "raft_term"),
                                 .revision = ten_etcd_number(header, "revision")};
}

static int fail_foreign(const ten_etcd_link *link, const char *endpoint, uint64_t cluster, ten_error *error) {
    return ten_fail(error, TENURE_E_STORE,
                    "etcd at %s belongs to cluster %llx, but %s to cluster %llx: name the members of one cluster in "
                    "the URL; if the cluster was replaced, restart this program",
                    endpoint, (unsigned long long)cluster,
                    endpoint == link->known_by ? "before it belonged" : link->known_by,
                    (unsigned long long)link->cluster);
}

/* Leases of two clusters know nothing of each other: whatever a member of another one answers does not count. */
static enum ending compare_cluster(ten_etcd_link *link, const struct flight *flight, ten_error *error) {
    ten_etcd_call *call = flight->call;
    if (call->head.cluster == 0 || call->head.cluster == link->cluster)
        return ENDED;
    if (link->cluster == 0) {
        link->cluster = call->head.cluster;
        link->known_by = flight->endpoint;
        return ENDED;
    }
    json_decref(call->answer);
    call->answer = NULL;
    call->error = fail_foreign(link, flight->endpoint, call->head.cluster, error);
    return FOREIGN;
}

/* An answer that is an error, as the gateway writes it. */
static enum ending refused(const ten_etcd_link *link, const struct flight *flight, const json_t *answer, long status,
                           ten_error *error) {
    ten_etcd_call *call = flight->call;
    const json_t *inner = json_object_get(answer, "error");
    const json_t *place = json_is_object(inner) ? inner : answer; /* a stream's errors lie deeper */
    const char *said = json_string_value(json_object_get(place, "message"));
    int code = (int)json_integer_value(json_object_get(place, json_is_object(inner) ? "grpc_code" : "code"));
    const char *where = flight->endpoint;
    said = said ? said : "no further message";
    if (code == GRPC_UNAUTHENTICATED || strstr(said, "auth token") || strstr(said, "revision in header is old")) {
        call->error = ten_fail(
            error, TENURE_E_DENIED,
            "etcd at %s does not accept the login: %s (check the user in the URL, and password_file)", where, said);
        return NOT_KNOWN;
    }
    if (code == GRPC_NOT_FOUND) {
        call->error = TENURE_E_GONE;
        return ENDED;
    }
    if (code == GRPC_OUT_OF_RANGE)
        call->error = ten_fail(error, TENURE_E_RESYNC, "etcd at %s has compacted what was asked for", where);
    else if (code == GRPC_DENIED)
        call->error = ten_fail(error, TENURE_E_DENIED,
                               "etcd at %s does not allow that: %s (the user needs readwrite on the prefix %s/)", where,
                               said, link->settings->prefix);
    else if (strstr(said, "authentication failed") || strstr(said, "user name is empty"))
        call->error = ten_fail(
            error, TENURE_E_DENIED,
            "etcd at %s refuses user and password: %s (check the user in the URL, and password_file)", where, said);
    else if (code == GRPC_EXHAUSTED)
        call->error = ten_fail(error, TENURE_E_FULL,
                               "etcd at %s has no room: %s (compact and defragment it, then run etcdctl alarm disarm)",
                               where, said);
    else if (status == 404)
        call->error =
            ten_fail(error, TENURE_E_UNSUPPORTED, "%s has no /v3 gateway: is it an etcd, and at least 3.4?", where);
    else if (code == GRPC_INVALID)
        call->error = ten_fail(error, TENURE_E_STORE, "etcd at %s refuses a request: %s", where, said);
    else {
        call->error = ten_fail(error, TENURE_E_UNREACHABLE, "etcd at %s cannot answer now: %s", where, said);
        return NOT_ANSWERED;
    }
    return ENDED;
}

static enum ending broken(const struct flight *flight, ten_error *error) {
    char server[300];
    curl_off_t connected = 0;
    (void)curl_easy_getinfo(flight->easy, CURLINFO_PRETRANSFER_TIME_T, &connected);
    snprintf(server, sizeof server, "etcd at %s", flight->endpoint);
    flight->call->error = ten_curl_fail(&flight->answer, flight->code, server, error);
    return connected == 0 ? NOT_SENT : NOT_ANSWERED;
}

static enum ending judge(ten_etcd_link *link, struct flight *flight, ten_error *error) {
    ten_etcd_call *call = flight->call;
    if (flight->code != CURLE_OK)
        return broken(flight, error);
    long status = 0;
    (void)curl_easy_getinfo(flight->easy, CURLINFO_RESPONSE_CODE, &status);
    json_t *answer =
        json_loadb(ten_buf_string(&flight->answer.body), flight->answer.body.size, JSON_DISABLE_EOF_CHECK, NULL);
    enum ending ending = ENDED;
    if (status < 200 || status > 299 || json_object_get(answer, "error")) {
        ending = refused(link, flight, answer, status, error);
        json_decref(answer);
    } else if (!json_is_object(answer)) {
        call->error =
            ten_fail(error, TENURE_E_STORE, "%s answered what is not etcd's JSON; is it an etcd?", flight->endpoint);
        json_decref(answer);
    } else {
        call->error = TENURE_OK;
        call->answer = answer;
        read_head(call);
        ending = compare_cluster(link, flight, error);
    }
    return ending;
}

/* Up to IN_FLIGHT of the pending calls from *at on, all to their ends; *at moves on. */
static void fly(ten_etcd_link *link, ten_etcd_call *calls, size_t count, size_t *at, uint64_t timeout_ms,
                ten_error *error) {
    int running = 1;
    size_t size = 0;
    for (; *at < count && size < IN_FLIGHT; ++*at)
        if (calls[*at].pending)
            (void)take_off(link, &link->flights[size++], &calls[*at], timeout_ms);
    while (running > 0) {
        (void)curl_multi_perform(link->multi, &running);
        note_ends(link);
        if (running > 0)
            (void)curl_multi_poll(link->multi, NULL, 0, 1000, NULL);
    }
    for (size_t i = 0; i < size; i++) {
        struct flight *flight = &link->flights[i];
        long made = 0;
        (void)curl_easy_getinfo(flight->easy, CURLINFO_NUM_CONNECTS, &made);
        link->connections += made > 0 && !flight->call->once;
        flight->call->ending = judge(link, flight, error);
        (void)curl_multi_remove_handle(link->multi, flight->easy);
    }
}

static int fly_alone(ten_etcd_link *link, ten_etcd_call *call, uint64_t timeout_ms, ten_error *error) {
    size_t at = 0;
    call->pending = true;
    fly(link, call, 1, &at, timeout_ms, error);
    return call->error;
}

/* ---- one cluster ------------------------------------------------------------------------------------------- */

/* Before anything is asked: those members of the URL that answer are of one cluster. Whoever does not answer now is
 * compared when it is used. */
static int look_at_members(ten_etcd_link *link, uint64_t deadline_ms, ten_error *error) {
    uint64_t timeout_ms = ten_min_u64(ten_sub_saturating(deadline_ms, ten_now_ms()) / 2, LOOK_MS);
    size_t count = link->settings->endpoint_count;
    if (link->looked || count < 2 || timeout_ms == 0)
        return TENURE_OK;
    bool one = true;
    ten_error detail = {0};
    ten_etcd_call calls[TEN_ETCD_ENDPOINTS_MAX];
    for (size_t i = 0; i < count; i++)
        calls[i] = (ten_etcd_call){
            .path = "/v3/maintenance/status", .body = "{}", .endpoint = link->settings->endpoints[i], .pending = true};
    for (size_t at = 0; at < count;)
        fly(link, calls, count, &at, timeout_ms, &detail);
    for (size_t i = 0; one && i < count; i++) {
        one = calls[i].ending != FOREIGN;
        if (!one)
            (void)fail_foreign(link, calls[i].endpoint, calls[i].head.cluster, error);
    }
    ten_etcd_calls_free(calls, count);
    link->looked = one && link->cluster != 0;
    if (!one)
        link->cluster = 0; /* which of them is meant is not known: the next call looks again */
    return one ? TENURE_OK : error->code;
}

/* ---- authentication ---------------------------------------------------------------------------------------- */

static int authenticate(ten_etcd_link *link, uint64_t timeout_ms, ten_error *error) {
    ten_buf body = {0};
    ten_free(link->token);
    link->token = NULL;
    bool ready = ten_curl_headers(&link->headers, NULL);
    ten_json_open(&body);
    ten_json_text(&body, "name", link->settings->user);
    ten_json_text(&body, "password", link->settings->password);
    ten_json_close(&body);
    if (!ready || body.failed) {
        ten_buf_free(&body);
        return ten_fail_memory(error, "a request");
    }
    ten_etcd_call call = {.path = "/v3/auth/authenticate", .body = body.data};
    (void)fly_alone(link, &call, timeout_ms, error);
    explicit_bzero(body.data, body.size);
    ten_buf_free(&body);
    const char *token = json_string_value(json_object_get(call.answer, "token"));
    if (call.error == TENURE_OK && !token)
        call.error = ten_fail(error, TENURE_E_STORE, "etcd at %s gave no token", ten_etcd_endpoint(link));
    if (call.error == TENURE_OK && (!(link->token = ten_strdup(token)) || !ten_curl_headers(&link->headers, token)))
        call.error = ten_fail_memory(error, "a token");
    json_decref(call.answer);
    return call.error;
}

const char *ten_etcd_token(ten_etcd_link *link, uint64_t deadline_ms, ten_error *error) {
    uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
    if (link->settings->user && !link->token && left_ms > 0)
        (void)authenticate(link, left_ms, error);
    return link->token;
}

bool ten_etcd_is_known(const ten_etcd_link *link) {
    return !link->settings->user || link->token;
}

void ten_etcd_forget_token(ten_etcd_link *link) {
    ten_free(link->token);
    link->token = NULL;
}

/* ---- attempts ------------------------------------------------------------------------------------------------ */

struct attempt {
    size_t members_tried;
    bool authenticated_again;
};

/* Whether a call that failed so is tried once more, at the next member or with a new token. */
static bool try_again(const ten_etcd_link *link, const struct attempt *attempt, const ten_etcd_call *call) {
    if (call->ending == NOT_KNOWN)
        return link->settings->user && !attempt->authenticated_again;
    bool may_repeat =
        call->ending == NOT_SENT || call->ending == FOREIGN || (call->ending == NOT_ANSWERED && !call->once);
    return may_repeat && attempt->members_tried + 1 < link->settings->endpoint_count;
}

/* What is pending goes to the member in use, in groups; returns how that member did. */
static enum ending attempt_all(ten_etcd_link *link, const struct attempt *attempt, ten_etcd_call *calls, size_t count,
                               uint64_t timeout_ms, ten_error *error) {
    enum ending worst = ENDED;
    for (size_t at = 0, first = 0; at < count && worst == ENDED; first = at) {
        fly(link, calls, count, &at, timeout_ms, error);
        for (size_t i = first; i < at; i++) {
            if (!calls[i].pending)
                continue;
            if (calls[i].ending != ENDED)
                worst = calls[i].ending;
            calls[i].pending = calls[i].ending != ENDED && try_again(link, attempt, &calls[i]);
        }
    }
    return worst;
}

static int conclude(ten_etcd_link *link, ten_etcd_call *calls, size_t count, ten_error *error) {
    int first = TENURE_OK;
    for (size_t i = 0; i < count; i++) {
        /* Left over: a neighbour failed for good before its turn came. */
        if (calls[i].pending)
            calls[i].error = error->code < 0 ? error->code : TENURE_E_UNREACHABLE;
        if (calls[i].error < 0 && calls[i].error != TENURE_E_GONE && first == TENURE_OK)
            first = calls[i].error;
    }
    if (first < 0 && error->code >= 0)
        (void)ten_fail(error, first, "etcd at %s did not answer in time", ten_etcd_endpoint(link));
    return first;
}

int ten_etcd_perform(ten_etcd_link *link, ten_etcd_call *calls, size_t count, uint64_t deadline_ms, ten_error *error) {
    struct attempt attempt = {0};
    size_t members = link->settings->endpoint_count;
    *error = (ten_error){0};
    if (look_at_members(link, deadline_ms, error) < 0)
        return error->code;
    for (size_t i = 0; i < count; i++)
        calls[i].pending = true;
    for (bool more = true; more;) {
        uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
        if (left_ms == 0) {
            (void)ten_fail(error, TENURE_E_TIMEOUT, "no time was left to ask etcd at %s", ten_etcd_endpoint(link));
            break;
        }
        uint64_t slice_ms = left_ms / (members - attempt.members_tried);
        slice_ms = ten_min_u64(left_ms, ten_max_u64(slice_ms, SLICE_MS));
        bool known = ten_etcd_is_known(link) || authenticate(link, slice_ms, error) == TENURE_OK;
        if (!known && error->code == TENURE_E_DENIED)
            break;
        enum ending how = known ? attempt_all(link, &attempt, calls, count, slice_ms, error) : NOT_SENT;
        if (how == NOT_KNOWN) {
            ten_etcd_forget_token(link);
            more = link->settings->user && !attempt.authenticated_again;
            attempt.authenticated_again = true;
        } else if (how != ENDED) {
            ten_etcd_next_endpoint(link);
            more = ++attempt.members_tried < members;
        } else {
            more = false;
        }
    }
    return conclude(link, calls, count, error);
}

int ten_etcd_perform_here(ten_etcd_link *link, ten_etcd_call *call, uint64_t deadline_ms, ten_error *error) {
    uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
    *error = (ten_error){0};
    if (left_ms == 0)
        return ten_fail(error, TENURE_E_TIMEOUT, "no time was left to ask etcd at %s", ten_etcd_endpoint(link));
    return fly_alone(link, call, left_ms, error);
}

void ten_etcd_calls_free(ten_etcd_call *calls, size_t count) {
    for (size_t i = 0; i < count; i++) {
        json_decref(calls[i].answer);
        calls[i].answer = NULL;
    }
}

/* ---- opening and closing ----------------------------------------------------------------------------------- */

void ten_etcd_link_close(ten_etcd_link *link) {
    if (!link)
        return;
    for (size_t i = 0; i < IN_FLIGHT; i++) {
        curl_easy_cleanup(link->flights[i].easy);
        ten_buf_free(&link->flights[i].answer.body);
    }
    curl_multi_cleanup(link->multi);
    curl_slist_free_all(link->headers);
    ten_free(link->token);
    ten_free(link);
}

int ten_etcd_link_open(const ten_etcd_settings *settings, ten_etcd_link **ret_link, ten_error *error) {
    ten_curl_start();
    ten_etcd_link *link = ten_calloc(1, sizeof *link);
    bool good = link != NULL;
    if (good) {
        link->settings = settings;
        link->multi = curl_multi_init();
        good = link->multi && ten_curl_headers(&link->headers, NULL);
    }
    for (size_t i = 0; good && i < IN_FLIGHT; i++) {
        struct flight *flight = &link->flights[i];
        flight->easy = ten_curl_open(&settings->files, &flight->answer, take_header, flight);
        good = flight->easy != NULL;
    }
    if (!good) {
        ten_etcd_link_close(link);
        return ten_fail(error, TENURE_E_NOMEM, "cannot start libcurl");
    }
    *ret_link = link;
    return TENURE_OK;
}
