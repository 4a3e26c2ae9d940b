/*
 * See curl_setup.h. Called by the HTTP and the etcd store.
 */
#include "store/common/curl_setup.h"

#include <pthread.h>

#include "base/buf.h"

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
