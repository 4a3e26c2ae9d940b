/*
 * Releasing a prepared command: see go.h.
 */
#include "agent/warden/go.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Written and read at once; the process that reads it has no other memory that it may ask for. */
static char block[PIPE_BUF];

bool ten_go_send(int fd, const char *const (*ours)[2], size_t count) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (!ours[i][1])
            continue;
        int length = snprintf(block + used, sizeof block - used, "%s=%s", ours[i][0], ours[i][1]);
        if (length < 0 || (size_t)length >= sizeof block - used) {
            errno = E2BIG;
            return false;
        }
        used += (size_t)length + 1;
    }
    return write(fd, block, used) == (ssize_t)used;
}

static void put(char **variables, char *variable) {
    const char *end = strchr(variable, '=');
    size_t length = end ? (size_t)(end - variable) + 1 : 0;
    for (size_t i = 0; length > 0 && variables[i]; i++)
        if (strncmp(variables[i], variable, length) == 0)
            variables[i] = variable;
}

bool ten_go_wait(int fd, char **variables) {
    ssize_t got;
    do
        got = read(fd, block, sizeof block);
    while (got < 0 && errno == EINTR);
    if (got <= 0 || block[got - 1] != '\0')
        return false;
    for (char *at = block; at < block + got; at += strlen(at) + 1)
        put(variables, at);
    return true;
}
