/*
 * Memory that processes share: see memfd.h.
 */
#include "base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/io.h"
#include "base/util.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#define MFD_EXEC        16u
#endif

/* Before Linux 6.3 there is no flag that says whether it may be executed. */
static int open_memory(const char *name, unsigned flags, unsigned use) {
    int fd = memfd_create(name, MFD_CLOEXEC | flags | use);
    return fd < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC | flags) : fd;
}

/* What is larger than the limit of files would cost a signal. */
static bool is_permitted(size_t size) {
    struct rlimit limit;
    bool permitted =
        getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur);
    if (!permitted)
        errno = EFBIG;
    return permitted;
}

static int open_shared(size_t size) {
    int fd = is_permitted(size) ? open_memory("tenure-shared", 0, MFD_NOEXEC_SEAL) : -1;
    if (fd >= 0 && ftruncate(fd, (off_t)size) != 0)
        ten_close_fd(&fd);
    return fd;
}

void *ten_memfd_share(size_t size, int *ret_fd) {
    int fd = open_shared(size);
    int kind = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, kind, fd, 0);
    if (memory == MAP_FAILED) {
        ten_close_fd(&fd);
        return NULL;
    }
    *ret_fd = fd;
    return memory;
}

int ten_memfd_program(const void *image, size_t size) {
    int fd = is_permitted(size) ? open_memory("tenure-first", MFD_ALLOW_SEALING, MFD_EXEC) : -1;
    int r = fd >= 0 ? ten_write_all(fd, image, size) : -errno;
    if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        r = -errno;
    if (r == 0)
        return fd;
    ten_close_fd(&fd);
    errno = -r;
    return -1;
}
