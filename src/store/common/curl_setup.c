/*
 * See curl_setup.h. Called by the HTTP and the etcd store.
 */
#include "store/common/curl_setup.h"

#include <pthread.h>
#include <string.h>

#define ANSWER_MAX ((size_t)64 * 1024 * 1024)

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void) {
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

void ten_curl_start(void) {
    (void)pthread_once(&once, start);
}

bool ten_curl_headers(struct curl_slist **list, const char *authorization) {
    TEN_CLEANUP(ten_buf_free) ten_buf line = {0};
    curl_slist_free_all(*list);
    *list = curl_slist_append(NULL, "Content-Type: application/json");
    bool good = *list && curl_slist_append(*list, "Expect:");
    if (good && authorization) {
        ten_buf_format(&line, "Authorization: %s", authorization);
        good = !line.failed && curl_slist_append(*list, line.data);
    }
    return good;
}

bool ten_curl_prepare(CURL *easy, const ten_url_files *files) {
    bool good = curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075700
    /* Else a name server that hangs is waited for after the time-out. */
    good = good && curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
#endif
    if (files->ca_file)
        good = good && curl_easy_setopt(easy, CURLOPT_CAINFO, files->ca_file) == CURLE_OK;
    if (files->cert_file)
        good = good && curl_easy_setopt(easy, CURLOPT_SSLCERT, files->cert_file) == CURLE_OK;
    if (files->key_file)
        good = good && curl_easy_setopt(easy, CURLOPT_SSLKEY, files->key_file) == CURLE_OK;
    return good;
}

static size_t take_body(char *data, size_t size, size_t count, void *userdata) {
    ten_buf *body = userdata;
    if (body->size + size * count > ANSWER_MAX)
        return 0;
    ten_buf_add(body, data, size * count);
    return body->failed ? 0 : size * count;
}

CURL *ten_curl_open(const ten_url_files *files, ten_curl_answer *answer, curl_write_callback take_header,
                    void *userdata) {
    CURL *easy = curl_easy_init();
    if (easy && ten_curl_prepare(easy, files) && curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, &answer->body) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, userdata) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, answer->detail) == CURLE_OK)
        return easy;
    curl_easy_cleanup(easy);
    return NULL;
}

bool ten_curl_aim(CURL *easy, ten_curl_answer *answer, const char *url, const char *body, uint64_t timeout_ms) {
    answer->detail[0] = '\0';
    ten_buf_clear(&answer->body);
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, body ? (long)strlen(body) : 0L) == CURLE_OK &&
           curl_easy_setopt(easy, body ? CURLOPT_POST : CURLOPT_HTTPGET, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)timeout_ms) == CURLE_OK;
}

int ten_curl_fail(const ten_curl_answer *answer, CURLcode code, const char *server, ten_error *error) {
    return ten_fail(error, code == CURLE_OPERATION_TIMEDOUT ? TENURE_E_TIMEOUT : TENURE_E_UNREACHABLE,
                    "cannot reach %s: %s", server, answer->detail[0] ? answer->detail : curl_easy_strerror(code));
}
