/*
 * See host.h. Called by the server and by the exporter of metrics.
 */
#include "base/host.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

static bool is_port(const char *text) {
    return text[0] == '\0' || (text[0] == ':' && strspn(text + 1, "0123456789") == strlen(text + 1));
}

size_t ten_host_length(const char *host) {
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    size_t length = bracket ? (size_t)(bracket - host) + 1 : strcspn(host, ":");
    return is_port(host + length) ? length : SIZE_MAX;
}

bool ten_host_is_loopback(const char *host) {
    size_t length = ten_host_length(host);
    if (length == SIZE_MAX)
        return false;
    return (length == 9 && strncasecmp(host, "localhost", length) == 0) ||
           (length == 5 && memcmp(host, "[::1]", length) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == length);
}
