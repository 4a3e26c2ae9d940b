/*
 * Descriptors that commands do not inherit. Called by child.c. See descriptors.h.
 */
#include "agent/warden/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1u << 2)
#endif

static int compare(const void *a, const void *b) {
    int left = *(const int *)a;
    int right = *(const int *)b;
    return (left > right) - (left < right);
}

void ten_descriptors_note(ten_descriptors *descriptors) {
    descriptors->count = 0;
    descriptors->known = false;
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return;
    descriptors->known = true;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        int flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : -1;
        if (flags < 0 || flags & FD_CLOEXEC) /* the directory's own is one of these */
            continue;
        if (descriptors->count == TEN_DESCRIPTORS_MAX) {
            descriptors->known = false;
            break;
        }
        descriptors->inherited[descriptors->count++] = fd;
    }
    closedir(directory);
    qsort(descriptors->inherited, descriptors->count, sizeof *descriptors->inherited, compare);
}

static void hide(unsigned first, unsigned last) {
    if (first <= last)
        (void)syscall(SYS_close_range, first, last, CLOSE_RANGE_CLOEXEC); /* before Linux 5.11 they stay open */
}

void ten_descriptors_hide(const ten_descriptors *descriptors) {
    unsigned first = STDERR_FILENO + 1;
    if (!descriptors->known)
        return;
    for (unsigned i = 0; i < descriptors->count; i++) {
        unsigned inherited = (unsigned)descriptors->inherited[i];
        hide(first, inherited - 1);
        first = inherited + 1;
    }
    hide(first, ~0U);
}
