/*
 * URLs of servers that sources and sinks name. Called by mqtt_settings.c, target_http.c and redis_client.c.
 */
#include "agent/common/endpoint.h"

#include <string.h>

#include "base/duration.h"
#include "base/io.h"

#define TIMEOUT_MIN_MS 250u
#define TIMEOUT_MAX_MS 3000u

int ten_endpoint_read(const ten_url *url, bool tls, const char *secret_option, ten_url_files *files, ten_error *error) {
    char tls_scheme[40];
    *files = (ten_url_files){0};
    if (url->password)
        return ten_fail(error, TENURE_E_INVALID,
                        "the %s: URL has a password, and all users can read command lines: put it into a file, "
                        "and write %s=PATH",
                        url->scheme, secret_option);
    snprintf(tls_scheme, sizeof tls_scheme, "%ss", url->scheme);
    int r = ten_url_files_read(url, secret_option, files, error);
    return r < 0 ? r : ten_url_files_check_tls(files, tls, tls_scheme, error);
}

int ten_endpoint_secret(const ten_url_files *files, char secret[TEN_SECRET_MAX], ten_error *error) {
    secret[0] = '\0';
    if (!files->secret_file)
        return TENURE_OK;
    ssize_t size = ten_read_line(files->secret_file, secret, TEN_SECRET_MAX);
    if (size < 0)
        return ten_fail_errno(error, TENURE_E_INVALID, (int)-size, "%s cannot be read", files->secret_file);
    if (size == 0)
        return ten_fail(error, TENURE_E_INVALID, "%s is empty", files->secret_file);
    return TENURE_OK;
}

int ten_endpoint_timeout(const ten_url *url, uint64_t ttl_ms, uint64_t *ret_timeout_ms, ten_error *error) {
    const char *text = ten_url_option(url, "timeout");
    uint64_t timeout_ms = ten_min_u64(ten_max_u64(ttl_ms / 4, TIMEOUT_MIN_MS), TIMEOUT_MAX_MS);
    int r = text ? ten_duration_parse(text, &timeout_ms, error) : TENURE_OK;
    if (r < 0)
        return r;
    if (timeout_ms == 0)
        return ten_fail(error, TENURE_E_INVALID, "the URL's timeout is 0: nothing can answer in that time");
    *ret_timeout_ms = timeout_ms;
    return TENURE_OK;
}
