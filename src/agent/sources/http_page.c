/*
 * One page by HTTP, by libcurl.
 */
#include "agent/sources/http_page.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/clock.h"

#define BODY_MAX   ((size_t)16 * 1024 * 1024)
#define HEADER_MAX 8192u
#define REDIRECTS  5L

struct ten_http_page_client {
    const ten_url_files *endpoint;
    CURL *easy; /* kept, and its connection with it */
    CURLM *multi;
};

struct answer {
    ten_http_page *page;
    ten_buf link; /* the value of the header */
    bool too_large;
};

/* ---- the next page */

/* From `at` on, the end of a link: the comma that is neither in <> nor in quotes, or the end of the text. */
static const char *end_of_link(const char *at) {
    bool quoted = false;
    bool within = false;
    for (; *at && (quoted || within || *at != ','); at++) {
        if (*at == '"' && !within)
            quoted = !quoted;
        else if (!quoted)
            within = *at == '<' || (within && *at != '>');
    }
    return at;
}

/* Whether parameters like ; rel="prev next" have that relation. */
static bool is_next(const char *at, const char *end) {
    while ((at = memchr(at, ';', (size_t)(end - at)))) {
        at++;
        at += strspn(at, " \t");
        if (strncasecmp(at, "rel=", 4) != 0)
            continue;
        at += 4;
        size_t size = *at == '"' ? strcspn(at + 1, "\"") : strcspn(at, ";, \t");
        at += *at == '"';
        for (const char *word = at; word < at + size; word += strcspn(word, " \"") + 1) {
            word += strspn(word, " ");
            if (strncasecmp(word, "next", 4) == 0 && strcspn(word, " \";,") == 4)
                return true;
        }
        return false; /* the first one counts */
    }
    return false;
}

static char *part_of(CURLU *url, CURLUPart part) {
    char *text = NULL;
    return curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK ? text : NULL;
}

static bool is_same_server(CURLU *one, CURLU *other) {
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    bool same = true;
    for (size_t i = 0; same && i < TEN_COUNT(parts); i++) {
        char *first = part_of(one, parts[i]);
        char *second = part_of(other, parts[i]);
        same = first && second && strcasecmp(first, second) == 0;
        curl_free(first);
        curl_free(second);
    }
    return same;
}

static int resolve(const char *origin, const char *base, const char *reference, ten_buf *next, ten_error *error) {
    CURLU *from = curl_url();
    CURLU *to = curl_url();
    char *text = NULL;
    int r = TENURE_OK;
    if (!from || !to)
        r = ten_fail_memory(error, "a link");
    else if (curl_url_set(from, CURLUPART_URL, origin, 0) != CURLUE_OK ||
             curl_url_set(to, CURLUPART_URL, base, 0) != CURLUE_OK ||
             curl_url_set(to, CURLUPART_URL, reference, 0) != CURLUE_OK ||
             curl_url_get(to, CURLUPART_URL, &text, 0) != CURLUE_OK)
        r = ten_fail(error, TENURE_E_STORE, "the link to the next page is not a URL: %.100s", reference);
    else if (!is_same_server(from, to))
        r = ten_fail(error, TENURE_E_STORE, "the next page is on another server: %.100s", reference);
    else
        ten_buf_text(next, text);
    curl_free(text);
    curl_url_cleanup(to);
    curl_url_cleanup(from);
    return r;
}

int ten_http_page_next_link(const char *origin, const char *base, const char *value, ten_buf *next, ten_error *error) {
    for (const char *at = value; *at;) {
        const char *end = end_of_link(at);
        const char *open = memchr(at, '<', (size_t)(end - at));
        const char *close = open ? memchr(open, '>', (size_t)(end - open)) : NULL;
        if (close && is_next(close, end)) {
            TEN_CLEANUP(ten_buf_free) ten_buf reference = {0};
            ten_buf_add(&reference, open + 1, (size_t)(close - open) - 1);
            return resolve(origin, base, ten_buf_string(&reference), next, error);
        }
        at = *end ? end + 1 : end;
    }
    return TENURE_OK;
}

/* ---- a request */

static size_t take_body(char *data, size_t size, size_t count, void *userdata) {
    struct answer *answer = userdata;
    ten_buf *body = &answer->page->body;
    answer->too_large |= body->size + size * count > BODY_MAX;
    if (answer->too_large)
        return 0;
    ten_buf_add(body, data, size * count);
    return body->failed ? 0 : size * count;
}

/* Appends the values of all headers of the last answer that have this name; what a redirection said does not count. */
static void take_headers(CURL *easy, const char *name, ten_buf *value) {
    struct curl_header *header;
    for (size_t i = 0; curl_easy_header(easy, name, i, CURLH_HEADER, -1, &header) == CURLHE_OK; i++) {
        if (i > 0)
            ten_buf_text(value, ", ");
        ten_buf_text(value, header->value);
    }
}

static bool add_header(struct curl_slist **list, const char *name, const char *value) {
    TEN_CLEANUP(ten_buf_free) ten_buf line = {0};
    ten_buf_text(&line, name);
    ten_buf_text(&line, value);
    struct curl_slist *longer = line.failed ? NULL : curl_slist_append(*list, line.data);
    if (line.data)
        explicit_bzero(line.data, line.size);
    if (longer)
        *list = longer;
    return longer != NULL;
}

static void free_headers(struct curl_slist *list) {
    for (struct curl_slist *at = list; at; at = at->next)
        explicit_bzero(at->data, strlen(at->data)); /* one of them has the token */
    curl_slist_free_all(list);
}

static int make_headers(const ten_url_files *endpoint, const char *etag, struct curl_slist **list, ten_error *error) {
    char token[TEN_SECRET_MAX];
    int r = ten_endpoint_secret(endpoint, token, error);
    if (r == TENURE_OK &&
        (!add_header(list, "Accept: ", "application/json") || (etag && !add_header(list, "If-None-Match: ", etag)) ||
         (token[0] && !add_header(list, "Authorization: Bearer ", token))))
        r = ten_fail_memory(error, "a request");
    explicit_bzero(token, sizeof token);
    return r;
}

static void set_options(const ten_http_page_client *client, const char *url, const struct curl_slist *headers,
                        uint64_t timeout_ms, struct answer *answer) {
    CURL *easy = client->easy;
    const ten_url_files *endpoint = client->endpoint;
    bool tls = strncasecmp(url, "https:", 6) == 0;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(easy, CURLOPT_MAXREDIRS, REDIRECTS);
    curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, tls ? "https" : "http,https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)ten_min_u64(timeout_ms, INT32_MAX));
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "tenure/" TENURE_VERSION);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (endpoint->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, endpoint->ca_file);
    if (endpoint->cert_file) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, endpoint->cert_file);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, endpoint->key_file);
    }
}

/* By the multi interface, so that a thread that is to stop does not wait for a server. */
static CURLcode perform(const ten_http_page_client *client, ten_side_thread *thread) {
    struct curl_waitfd wake = {.fd = thread->wake_fd, .events = CURL_WAIT_POLLIN};
    CURLcode result = CURLE_FAILED_INIT;
    int running = 1;
    int waiting;
    if (curl_multi_add_handle(client->multi, client->easy) != CURLM_OK)
        return result;
    while (running && !ten_side_thread_is_stopping(thread) && curl_multi_perform(client->multi, &running) == CURLM_OK &&
           running)
        (void)curl_multi_poll(client->multi, &wake, 1, 1000, NULL);
    for (const CURLMsg *message; (message = curl_multi_info_read(client->multi, &waiting));)
        if (message->msg == CURLMSG_DONE)
            result = message->data.result;
    (void)curl_multi_remove_handle(client->multi, client->easy);
    return result;
}

static int judge(CURLcode result, const struct answer *answer, const char *why, ten_error *error) {
    long status = answer->page->status;
    if (answer->too_large)
        return ten_fail(error, TENURE_E_STORE, "the answer is larger than 16 MiB, or its headers than 8 KiB");
    if (answer->page->body.failed || answer->link.failed || answer->page->etag.failed)
        return ten_fail_memory(error, "the answer");
    if (result == CURLE_OPERATION_TIMEDOUT)
        return ten_fail(error, TENURE_E_TIMEOUT, "the server did not answer in time");
    if (result != CURLE_OK)
        return ten_fail(error, TENURE_E_UNREACHABLE, "%s", why[0] ? why : curl_easy_strerror(result));
    if (status == 401 || status == 403)
        return ten_fail(error, TENURE_E_DENIED, "the server does not let us read the list: HTTP status %ld", status);
    if (status != 200 && status != 304)
        return ten_fail(error, TENURE_E_STORE, "HTTP status %ld", status);
    return TENURE_OK;
}

int ten_http_page_client_get(ten_http_page_client *client, ten_side_thread *thread, const char *url, const char *etag,
                             uint64_t timeout_ms, ten_http_page *page, ten_error *error) {
    char why[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    struct answer answer = {.page = page};
    *page = (ten_http_page){0};
    int r = make_headers(client->endpoint, etag, &headers, error);
    if (r == TENURE_OK) {
        const char *effective = NULL;
        set_options(client, url, headers, timeout_ms, &answer);
        curl_easy_setopt(client->easy, CURLOPT_ERRORBUFFER, why);
        CURLcode result = perform(client, thread);
        curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &page->status);
        curl_easy_getinfo(client->easy, CURLINFO_EFFECTIVE_URL, &effective);
        take_headers(client->easy, "Link", &answer.link);
        take_headers(client->easy, "ETag", &page->etag);
        answer.too_large |= answer.link.size + page->etag.size > HEADER_MAX;
        r = judge(result, &answer, why, error);
        TEN_STEP(r, ten_http_page_next_link(url, effective ? effective : url, ten_buf_string(&answer.link), &page->next,
                                            error));
        curl_easy_reset(client->easy); /* it points to what is here */
    }
    free_headers(headers);
    ten_buf_free(&answer.link);
    return r;
}

void ten_http_page_free(ten_http_page *page) {
    ten_buf_free(&page->body);
    ten_buf_free(&page->etag);
    ten_buf_free(&page->next);
}

/* ---- the client */

int ten_http_page_client_open(const ten_url_files *endpoint, ten_http_page_client **ret_client, ten_error *error) {
    ten_http_page_client *client = ten_calloc(1, sizeof *client);
    if (client) {
        client->endpoint = endpoint;
        client->easy = curl_easy_init();
        client->multi = curl_multi_init();
    }
    if (!client || !client->easy || !client->multi) {
        ten_http_page_client_close(client);
        return ten_fail(error, TENURE_E_NOMEM, "cannot start libcurl");
    }
    *ret_client = client;
    return TENURE_OK;
}

void ten_http_page_client_close(ten_http_page_client *client) {
    if (!client)
        return;
    curl_easy_cleanup(client->easy);
    if (client->multi)
        curl_multi_cleanup(client->multi);
    ten_free(client);
}
