/*
 * System calls that go on after a signal or a short count. Called by the log, the stores and the runtime.
 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"

int ten_write_all(int fd, const void *data, size_t size) {
    const char *from = data;
    while (size > 0) {
        ssize_t count = write(fd, from, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        from += count;
        size -= (size_t)count;
    }
    return 0;
}

int ten_pwrite_all(int fd, const void *data, size_t size, off_t offset) {
    const char *from = data;
    while (size > 0) {
        ssize_t count = pwrite(fd, from, size, offset);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        from += count;
        size -= (size_t)count;
        offset += count;
    }
    return 0;
}

ssize_t ten_pread_all(int fd, void *data, size_t size, off_t offset) {
    char *to = data;
    size_t done = 0;
    while (done < size) {
        ssize_t count = pread(fd, to + done, size - done, offset + (off_t)done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (ssize_t)done;
}

ssize_t ten_read_some(int fd, void *data, size_t size) {
    for (;;) {
        ssize_t count = read(fd, data, size);
        if (count >= 0)
            return count;
        if (errno != EINTR)
            return -errno;
    }
}

ssize_t ten_write_some(int fd, const void *data, size_t size) {
    for (;;) {
        ssize_t count = write(fd, data, size);
        if (count >= 0)
            return count;
        if (errno != EINTR)
            return -errno;
    }
}

ssize_t ten_read_line(const char *path, char *text, size_t size) {
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t count = ten_pread_all(fd, text, size - 1, 0);
    if (count < 0)
        return count;
    text[count] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return (ssize_t)strlen(text);
}

static int mask_of(const struct pollfd *polled, size_t count) {
    int mask = 0;
    for (size_t i = 0; i < count; i++)
        mask |= polled[i].revents ? 1 << i : 0;
    return mask;
}

static int wait_for_any(struct pollfd *polled, size_t count, uint64_t wait_ms) {
    uint64_t end_us = ten_add_saturating(ten_boot_us(), wait_ms > UINT64_MAX / 1000u ? UINT64_MAX : wait_ms * 1000u);
    for (;;) {
        uint64_t left_us = ten_sub_saturating(end_us, ten_boot_us());
        /* Rounded up: a wait that ends a hair early would make its caller spin through the last millisecond. An hour at
         * a time: poll counts on a clock that stands still during suspend, ours does not. */
        uint64_t left_ms = ten_min_u64((left_us + 999u) / 1000u, 3600000u);
        int ready = poll(polled, count, (int)left_ms);
        if (ready > 0)
            return mask_of(polled, count);
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ten_boot_us() >= end_us)
            return 0;
    }
}

int ten_wait_any_readable(const int *fds, size_t count, uint64_t wait_ms) {
    struct pollfd polled[4] = {0};
    TEN_INVARIANT(count <= TEN_COUNT(polled));
    for (size_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    return wait_for_any(polled, count, wait_ms);
}

int ten_wait_readable(int fd, int fd2, uint64_t wait_ms) {
    return ten_wait_any_readable((const int[]){fd, fd2}, 2, wait_ms);
}

int ten_wait_writable(int fd, int fd2, uint64_t wait_ms) {
    struct pollfd polled[] = {{.fd = fd, .events = POLLOUT}, {.fd = fd2, .events = POLLIN}};
    return wait_for_any(polled, TEN_COUNT(polled), wait_ms);
}

int ten_wait_events(int fd, short events, uint64_t deadline_ms) {
    struct pollfd polled = {.fd = fd, .events = events};
    return wait_for_any(&polled, 1, ten_sub_saturating(deadline_ms, ten_now_ms()));
}

int ten_eventfd_open(void) {
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void ten_eventfd_poke(int fd) {
    uint64_t one = 1;
    (void)ten_write_all(fd, &one, sizeof one);
}

void ten_eventfd_clear(int fd) {
    uint64_t count;
    (void)ten_read_some(fd, &count, sizeof count);
}

int ten_timerfd_open(void) {
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void ten_timerfd_set(int fd, uint64_t wait_ms) {
    wait_ms = ten_min_u64(wait_ms, INT32_MAX);
    struct itimerspec timer = {
        .it_value = {.tv_sec = (time_t)(wait_ms / 1000u), .tv_nsec = (long)(wait_ms % 1000u) * 1000000}};
    if (wait_ms == 0)
        timer.it_value.tv_nsec = 1; /* 0 would stop it */
    (void)timerfd_settime(fd, 0, &timer, NULL);
}

void ten_timerfd_clear(int fd) {
    ten_eventfd_clear(fd);
}

void ten_sleep_us(uint64_t us) {
    struct timespec left = {.tv_sec = (time_t)(us / 1000000u), .tv_nsec = (long)(us % 1000000u) * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void ten_close_fd(int *fd) {
    TEN_KEEP_ERRNO;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void ten_close_file(FILE **file) {
    TEN_KEEP_ERRNO;
    if (*file)
        (void)fclose(*file);
}

void ten_close_directory(DIR **directory) {
    TEN_KEEP_ERRNO;
    if (*directory)
        (void)closedir(*directory);
}
