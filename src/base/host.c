/*
 * See host.h. Called by the server and by the exporter of metrics.
 */
#include "base/host.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

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

int ten_host_listen(const struct addrinfo *info) {
    int on = 1;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int failed = errno;
    close(fd);
    return -failed;
}

void ten_host_show(int fd, char text[TEN_HOST_SHOWN]) {
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char host[64] = "";
    char port[8] = "";
    if (getsockname(fd, (struct sockaddr *)&bound, &size) == 0)
        (void)getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, TEN_HOST_SHOWN, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}
