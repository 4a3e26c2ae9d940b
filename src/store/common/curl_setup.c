/*
 * See curl_setup.h. Called by the HTTP and the etcd store.
 */
#include "store/common/curl_setup.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void) {
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

void ten_curl_start(void) {
    (void)pthread_once(&once, start);
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
