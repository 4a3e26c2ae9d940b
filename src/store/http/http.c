/*
 * The store behind `tenure serve`: the REST client as a backend, so that agents, elections and the conformance suite
 * run against http://... unchanged. It connects when it is first used: a fleet may start before its manager does.
 * Called through store.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/random.h"
#include "store/common/report.h"
#include "store/http/http_state.h"

#define TOKEN_MAX 4096u
#define RETRY_MS  100u /* the shortest pause before a request that was refused for now is sent again */

/* ---- a request */

static size_t take_header(char *data, size_t size, size_t count, void *userdata) {
    static const char name[] = "X-Tenure-Cursor:";
    static const char retry[] = "Retry-After:";
    ten_http_store *store = userdata;
    size_t length = size * count;
    if (length > 5 && strncasecmp(data, "Link:", 5) == 0)
        store->more = true;
    if (length > sizeof name && strncasecmp(data, name, sizeof name - 1) == 0)
        snprintf(store->cursor, sizeof store->cursor, "%.*s", (int)(length - sizeof name), data + sizeof name);
    char seconds[8] = "";
    if (length > sizeof retry && strncasecmp(data, retry, sizeof retry - 1) == 0) {
        snprintf(seconds, sizeof seconds, "%.*s", (int)(length - sizeof retry), data + sizeof retry);
        store->retry_ms = strtoul(seconds, NULL, 10) * 1000;
    }
    return length;
}

bool ten_http_prepare(CURL *easy, const ten_http_settings *settings) {
    bool good = true;
    if (settings->socket_path)
        good = curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, settings->socket_path) == CURLE_OK;
    if (settings->token)
        good = good && curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, settings->token) == CURLE_OK;
    return good;
}

static int refused(ten_http_store *store) {
    const json_t *error = json_object_get(store->answer, "error");
    const char *message = ten_http_text(error, "message");
    char said[400];
    snprintf(said, sizeof said, "%s", message ? message : "no further message");
    for (char *at = said; *at; at++) /* the answer may come from a server that is not ours */
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    ten_error *told = &store->base.error;
    const char *where = store->settings.base;
    if (store->status == 400 || store->status == 413)
        return ten_fail(told, TENURE_E_INVALID, "%s refuses the request: %s", where, said);
    if (store->status == 401 || store->status == 403)
        return ten_fail(told, TENURE_E_DENIED, "%s does not allow that: %s%s", where, said,
                        store->status == 401 ? " (token_file= names a file with the token)" : "");
    if (store->status == 429)
        return ten_fail(told, TENURE_E_UNREACHABLE, "%s limits this client: %s", where, said);
    if (store->status >= 502 && store->status <= 504) /* of a proxy before it, too */
        return ten_fail(told, TENURE_E_UNREACHABLE, "%s cannot answer now: %s", where, said);
    return ten_fail(told, TENURE_E_STORE, "%s answered %ld: %s; is it a Tenure server?", where, store->status, said);
}

bool ten_http_parse(ten_http_store *store) {
    json_decref(store->answer);
    store->answer = json_loadb(store->got.body.data, store->got.body.size, JSON_REJECT_DUPLICATES, NULL);
    if (store->answer)
        return true;
    (void)ten_fail(&store->base.error, TENURE_E_STORE, "%s answered what is not JSON; is it a Tenure server?",
                   store->settings.base);
    return false;
}

/* The answer is in store->got.body; that of a refusal is parsed. */
static int ask_once(ten_http_store *store, const char *method, const char *path, const char *body,
                    uint64_t deadline_ms) {
    uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
    if (left_ms == 0)
        return ten_fail(&store->base.error, TENURE_E_TIMEOUT, "%s did not answer in time", store->settings.base);
    ten_buf url = {0};
    ten_buf_format(&url, "%s%s", store->settings.base, path);
    json_decref(store->answer);
    store->answer = NULL;
    store->cursor[0] = '\0';
    store->more = false;
    store->retry_ms = 0;
    store->status = 0;
    CURL *easy = store->easy;
    bool good = !url.failed && ten_curl_aim(easy, &store->got, url.data, body, left_ms) &&
                curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
    CURLcode code = good ? curl_easy_perform(easy) : CURLE_OUT_OF_MEMORY;
    ten_buf_free(&url);
    if (code != CURLE_OK)
        return ten_curl_fail(&store->got, code, store->settings.base, &store->base.error);
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &store->status);
    if (store->status >= 200 && store->status <= 299)
        return TENURE_OK;
    if (store->got.body.size > 0)
        (void)ten_http_parse(store);
    return refused(store);
}

/* Half of the time that is left is the longest pause, so that there is always one more try; and they are not all
 * equally long, because those who were refused together would come back together. */
static void pause_before_retry(const ten_http_store *store, uint64_t left_ms) {
    uint64_t pause_ms = ten_max_u64(store->retry_ms, RETRY_MS);
    pause_ms = ten_min_u64(pause_ms + ten_random_u64() % (pause_ms / 4 + 1), left_ms / 2);
    ten_sleep_us(pause_ms * 1000);
}

int ten_http_send(ten_http_store *store, const char *method, const char *path, const char *body, uint64_t deadline_ms) {
    for (;;) {
        int r = ask_once(store, method, path, body, deadline_ms);
        uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
        if (r == TENURE_OK || store->status != 429 || left_ms < RETRY_MS)
            return r;
        pause_before_retry(store, left_ms);
    }
}

int ten_http_ask(ten_http_store *store, const char *method, const char *path, const char *body, uint64_t deadline_ms) {
    int r = ten_http_send(store, method, path, body, deadline_ms);
    return r == TENURE_OK && store->got.body.size > 0 && !ten_http_parse(store) ? TENURE_E_STORE : r;
}

void ten_http_begin(ten_http_store *store) {
    ten_arena_reset(&store->texts);
    for (size_t i = 0; i < store->kept_count; i++)
        json_decref(store->kept[i]);
    store->kept_count = 0;
}

bool ten_http_keep(ten_http_store *store) {
    json_t **kept = ten_realloc(store->kept, (store->kept_count + 1) * sizeof(json_t *));
    if (!kept)
        return false;
    store->kept = kept;
    kept[store->kept_count++] = store->answer;
    store->answer = NULL;
    return true;
}

/* ---- ping and check */

static int ping(ten_store *base, uint64_t timeout_ms) {
    return ten_http_ask((ten_http_store *)base, "GET", "/readyz", NULL, ten_now_ms() + timeout_ms);
}

static int check(ten_store *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    int r = ping(base, timeout_ms);
    if (r < 0)
        return r;
    char text[200];
    snprintf(text, sizeof text, "Tenure %s on the store %s",
             ten_http_text(store->answer, "version") ? ten_http_text(store->answer, "version") : "of unknown version",
             ten_http_text(store->answer, "store") ? ten_http_text(store->answer, "store") : "?");
    ten_report report = {each, userdata};
    ten_report_tell(&report, TENURE_CHECK_OK, "server", text, "");
    uint64_t server_ms = ten_http_number(store->answer, "at_ms");
    int64_t apart_ms = server_ms ? (int64_t)server_ms - (int64_t)ten_wall_ms(base->clock) : 0;
    ten_report_clock(&report, apart_ms, TEN_REPORT_CLOCK_LOGS);
    const char *host = strstr(store->settings.base, "://");
    ten_report_encryption(&report, strncmp(store->settings.base, "https:", 6) == 0,
                          store->settings.socket_path || !host ? NULL : host + 3, "use https://");
    return TENURE_OK;
}

/* ---- opening and closing */

static int read_token(const char *path, char **ret_token, ten_error *error) {
    char text[TOKEN_MAX];
    ssize_t size = ten_read_line(path, text, sizeof text);
    if (size <= 0)
        return ten_fail(error, TENURE_E_INVALID, "cannot read the token from %s: %s", path,
                        size < 0 ? strerrordesc_np((int)-size) : "its first line is empty");
    *ret_token = ten_strdup(text);
    return *ret_token ? TENURE_OK : ten_fail_memory(error, "the settings of a connection");
}

static int read_settings(const ten_url *url, ten_http_settings *settings, ten_error *error) {
    static const char *const options[] = {"ca_file", "cert_file", "key_file", "token_file", "socket", "timeout", NULL};
    int r = ten_url_check_options(url, options, error);
    if (r == TENURE_OK && (!url->hosts || url->hosts[0] == '\0'))
        r = ten_fail(error, TENURE_E_INVALID, "which server? A store URL looks like http://127.0.0.1:7480");
    if (r == TENURE_OK && url->path[0] != '\0' && strcmp(url->path, "/") != 0)
        r = ten_fail(error, TENURE_E_INVALID, "a store URL of a Tenure server has no path: %s://%s", url->scheme,
                     url->hosts);
    if (r == TENURE_OK && (url->user || url->password))
        r = ten_fail(error, TENURE_E_INVALID, "the token of a Tenure server comes from a file: token_file=PATH");
    ten_buf base = {0};
    ten_buf_format(&base, "%s://%s", url->scheme, url->hosts ? url->hosts : "");
    settings->base = base.data;
    if (r == TENURE_OK && base.failed)
        r = ten_fail_memory(error, "the settings of a connection");
    if (r == TENURE_OK)
        r = ten_url_files_read(url, NULL, &settings->files, error);
    const char *socket_path = ten_url_option(url, "socket");
    if (r == TENURE_OK && socket_path && !(settings->socket_path = ten_strdup(socket_path)))
        r = ten_fail_memory(error, "the settings of a connection");
    const char *token_file = ten_url_option(url, "token_file");
    return r == TENURE_OK && token_file ? read_token(token_file, &settings->token, error) : r;
}

static void close_store(ten_store *base) {
    ten_http_store *store = (ten_http_store *)base;
    ten_stream_watch_close(store->watch);
    ten_http_begin(store);
    json_decref(store->answer);
    curl_easy_cleanup(store->easy);
    curl_slist_free_all(store->headers);
    ten_buf_free(&store->got.body);
    ten_buf_free(&store->out);
    ten_arena_free(&store->texts);
    ten_free(store->kept);
    ten_url_files_free(&store->settings.files);
    char *texts[] = {store->settings.base, store->settings.socket_path, store->settings.token};
    for (size_t i = 0; i < TEN_COUNT(texts); i++)
        ten_free(texts[i]);
}

static int open_store(ten_store *base, const ten_url *url, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    (void)timeout_ms; /* it connects when it is first used */
    int r = read_settings(url, &store->settings, &base->error);
    if (r < 0)
        return r;
    ten_curl_start();
    store->easy = ten_curl_open(&store->settings.files, &store->got, take_header, store);
    bool good = store->easy && ten_http_prepare(store->easy, &store->settings) &&
                ten_curl_headers(&store->headers, NULL) &&
                curl_easy_setopt(store->easy, CURLOPT_HTTPHEADER, store->headers) == CURLE_OK;
    return good ? TENURE_OK : ten_fail(&base->error, TENURE_E_NOMEM, "cannot start libcurl");
}

const ten_store_ops ten_http_ops = {
    .name = "http",
    .size = sizeof(ten_http_store),
    .capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS,
                     .shared_between_processes = true,
                     .survives_restart = true,
                     .hands = true,
                     .sessions = true, /* if the server's store has them; else the answers name none */
                     .watches_in_thread = true,
                     .expiry_clock = "the server's store",
                     .change_notice = "server-sent events"},
    .open = open_store,
    .close = close_store,
    .apply = ten_http_apply,
    .edit_targets = ten_http_edit_targets,
    .forget = ten_http_forget,
    .forget_unregistered = ten_http_forget_unregistered,
    .list = ten_http_list,
    .read_targets = ten_http_read_targets,
    .list_instances = ten_http_list_instances,
    .list_namespaces = ten_http_list_namespaces,
    .changes = ten_http_changes,
    .watch = ten_http_watch_open,
    .watch_clear = ten_http_watch_clear,
    .ping = ping,
    .check = check,
};
