/*
 * URLs of servers that sources and sinks name. Called by mqtt_settings.c, target_http.c and redis_thread.c.
 */
#include "agent/common/endpoint.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/io.h"

#define TIMEOUT_MIN_MS 250u
#define TIMEOUT_MAX_MS 3000u

static int take_file(const ten_url *url, const char *option, char **ret_path, ten_error *error) {
    const char *path = ten_url_option(url, option);
    if (!path)
        return TENURE_OK;
    if (access(path, R_OK) != 0)
        return ten_fail_errno(error, TENURE_E_INVALID, errno, "%s=%s cannot be read", option, path);
    *ret_path = ten_strdup(path);
    return *ret_path ? TENURE_OK : ten_fail_memory(error, "a URL");
}

int ten_endpoint_read(const ten_url *url, bool tls, const char *secret_option, ten_endpoint *endpoint,
                      ten_error *error) {
    *endpoint = (ten_endpoint){0};
    if (url->password)
        return ten_fail(error, TENURE_E_INVALID,
                        "the %s: URL has a password, and command lines are for everybody to read: put it into a file, "
                        "and write %s=PATH",
                        url->scheme, secret_option);
    int r = take_file(url, secret_option, &endpoint->secret_file, error);
    if (r == TENURE_OK)
        r = take_file(url, "ca_file", &endpoint->ca_file, error);
    if (r == TENURE_OK)
        r = take_file(url, "cert_file", &endpoint->cert_file, error);
    if (r == TENURE_OK)
        r = take_file(url, "key_file", &endpoint->key_file, error);
    if (r < 0)
        return r;
    if (!tls && (endpoint->ca_file || endpoint->cert_file || endpoint->key_file))
        return ten_fail(error, TENURE_E_INVALID, "ca_file, cert_file and key_file are for %ss://", url->scheme);
    if ((endpoint->cert_file == NULL) != (endpoint->key_file == NULL))
        return ten_fail(error, TENURE_E_INVALID, "a client certificate needs both cert_file and key_file");
    return TENURE_OK;
}

void ten_endpoint_free(ten_endpoint *endpoint) {
    ten_free(endpoint->ca_file);
    ten_free(endpoint->cert_file);
    ten_free(endpoint->key_file);
    ten_free(endpoint->secret_file);
    *endpoint = (ten_endpoint){0};
}

int ten_endpoint_secret(const ten_endpoint *endpoint, char secret[TEN_SECRET_MAX], ten_error *error) {
    secret[0] = '\0';
    if (!endpoint->secret_file)
        return TENURE_OK;
    ssize_t size = ten_read_line(endpoint->secret_file, secret, TEN_SECRET_MAX);
    if (size < 0)
        return ten_fail_errno(error, TENURE_E_INVALID, (int)-size, "%s cannot be read", endpoint->secret_file);
    if (size == 0)
        return ten_fail(error, TENURE_E_INVALID, "%s is empty", endpoint->secret_file);
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
