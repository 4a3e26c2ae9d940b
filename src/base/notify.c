/*
 * The service manager's datagrams. Nothing here may block or fail the caller: a manager that does not read is its own
 * problem, and the work goes on.
 */
#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/io.h"

/* A path, or with @ a name in the abstract namespace. */
static int open_socket(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = name ? strlen(name) : 0;
    if (size < 2 || size >= sizeof address.sun_path || (name[0] != '/' && name[0] != '@'))
        return -1;
    memcpy(address.sun_path, name, size);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, length) < 0)
        ten_close_fd(&fd);
    return fd;
}

/* Twice as often as asked for, so that one late turn of the loop is no death. */
static uint64_t interval_from_environment(void) {
    uint64_t interval_us = 0;
    uint64_t pid = 0;
    const char *named = getenv("WATCHDOG_PID");
    if (named && (!ten_digits_parse(named, UINT64_MAX, &pid) || pid != (uint64_t)getpid()))
        return 0;
    if (!ten_digits_parse(getenv("WATCHDOG_USEC"), UINT64_MAX, &interval_us) || interval_us == 0)
        return 0;
    return interval_us < 2000 ? 1 : interval_us / 2000;
}

void ten_notifier_open(ten_notifier *notifier) {
    *notifier = (ten_notifier){.fd = open_socket(getenv("NOTIFY_SOCKET"))};
    notifier->interval_ms = notifier->fd >= 0 ? interval_from_environment() : 0;
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void ten_notifier_close(ten_notifier *notifier) {
    ten_close_fd(&notifier->fd);
}

static void tell(const ten_notifier *notifier, const char *text) {
    if (notifier->fd >= 0)
        while (send(notifier->fd, text, strlen(text), MSG_NOSIGNAL) < 0 && errno == EINTR)
            continue;
}

void ten_notifier_ready(ten_notifier *notifier) {
    if (!notifier->ready)
        tell(notifier, "READY=1");
    notifier->ready = true;
}

void ten_notifier_stopping(ten_notifier *notifier) {
    if (!notifier->stopping)
        tell(notifier, "STOPPING=1");
    notifier->stopping = true;
}

uint64_t ten_notifier_beat(ten_notifier *notifier, uint64_t now_ms) {
    if (notifier->fd < 0 || notifier->interval_ms == 0)
        return UINT64_MAX;
    if (now_ms >= notifier->next_ms) {
        tell(notifier, "WATCHDOG=1");
        notifier->next_ms = now_ms + notifier->interval_ms;
    }
    return notifier->next_ms - now_ms;
}
