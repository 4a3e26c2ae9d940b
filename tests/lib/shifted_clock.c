/*
 * A wall clock that can be set while a program runs, for servers that libfaketime hangs (redis-server: its allocator
 * asks for the time before the library is ready). LD_PRELOAD it; SHIFTED_CLOCK names a file whose first eight bytes are
 * the seconds to add, read at each call. Other clocks are left alone.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

__attribute__((constructor)) static void open_shift(void) {
    const char *path = getenv("SHIFTED_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory = fd >= 0 ? mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory == MAP_FAILED)
        _exit(98);
    shift = memory;
}

static int64_t shift_s(void) {
    return shift ? *shift : 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret_time) {
    long done = syscall(SYS_clock_gettime, clock, ret_time);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ret_time->tv_sec += shift_s();
    return (int)done;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict ret_time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    ret_time->tv_sec = now.tv_sec;
    ret_time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *ret_time) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret_time)
        *ret_time = now.tv_sec;
    return now.tv_sec;
}
