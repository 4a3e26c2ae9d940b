/*
 * See curl_setup.h. Called by the HTTP and the etcd store.
 */
#include "store/common/curl_setup.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/alloc.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void) {
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

void ten_curl_start(void) {
    (void)pthread_once(&once, start);
}

static int copy_option(const ten_url *url, const char *name, char **ret_text, ten_error *error) {
    const char *value = ten_url_option(url, name);
    if (value && access(value, R_OK) != 0)
        return ten_fail_errno(error, TENURE_E_INVALID, errno, "cannot read the %s %s", name, value);
    if (value && !(*ret_text = ten_strdup(value)))
        return ten_fail_memory(error, "the settings of a connection");
    return TENURE_OK;
}

int ten_curl_files_read(const ten_url *url, ten_curl_files *files, ten_error *error) {
    int r = copy_option(url, "ca_file", &files->ca_file, error);
    if (r == TENURE_OK)
        r = copy_option(url, "cert_file", &files->cert_file, error);
    if (r == TENURE_OK)
        r = copy_option(url, "key_file", &files->key_file, error);
    return r;
}

void ten_curl_files_free(ten_curl_files *files) {
    ten_free(files->ca_file);
    ten_free(files->cert_file);
    ten_free(files->key_file);
}

bool ten_curl_prepare(CURL *easy, const ten_curl_files *files) {
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
