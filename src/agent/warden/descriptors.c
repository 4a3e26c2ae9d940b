/*
 * Descriptors that commands do not inherit. Called by child.c. See descriptors.h.
 */
#include "agent/warden/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/util.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1u << 2)
#endif

void ten_descriptors_note(ten_descriptors *descriptors) {
    descriptors->count = 0;
    descriptors->known = false;
    TEN_CLEANUP(ten_close_directory) DIR *directory = opendir("/proc/self/fd");
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
    qsort(descriptors->inherited, descriptors->count, sizeof *descriptors->inherited, ten_compare_ints);
}

static bool close_gap(unsigned first, unsigned last, unsigned flags) {
    return first > last || syscall(SYS_close_range, first, last, flags) == 0;
}

static unsigned smaller(unsigned best, int fd, unsigned from) {
    return fd >= 0 && (unsigned)fd >= from && (unsigned)fd < best ? (unsigned)fd : best;
}

/* Closes all from `first` on that are neither inherited nor kept. */
static bool close_others(const ten_descriptors *descriptors, const int *kept, unsigned count, unsigned flags) {
    unsigned first = STDERR_FILENO + 1;
    for (;;) {
        unsigned next = ~0U;
        for (unsigned i = 0; i < descriptors->count; i++)
            next = smaller(next, descriptors->inherited[i], first);
        for (unsigned i = 0; i < count; i++)
            next = smaller(next, kept[i], first);
        if (next == ~0U)
            break;
        if (!close_gap(first, next - 1, flags))
            return false;
        first = next + 1;
    }
    return close_gap(first, ~0U, flags);
}

void ten_descriptors_hide(const ten_descriptors *descriptors) {
    if (descriptors->known)
        (void)close_others(descriptors, NULL, 0, CLOSE_RANGE_CLOEXEC); /* before Linux 5.11 they stay open */
}

bool ten_descriptors_close(const ten_descriptors *descriptors, const int *kept, unsigned count) {
    return descriptors->known && close_others(descriptors, kept, count, 0);
}
