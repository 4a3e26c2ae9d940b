/*
 * System calls that go on after a signal or a short count. Code that needs a whole record read or written calls these;
 * nothing else in the library calls read, write, pread or pwrite.
 */
#ifndef TEN_BASE_IO_H
#define TEN_BASE_IO_H

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* All of it, or a negative errno. */
int ten_write_all(int fd, const void *data, size_t size);
int ten_pwrite_all(int fd, const void *data, size_t size, off_t offset);
/* As much as there is up to `size`: the count, less only at the end of the file, or a negative errno. */
ssize_t ten_pread_all(int fd, void *data, size_t size, off_t offset);
/* One read of whatever is there: the count, or a negative errno (-EAGAIN on an empty non-blocking descriptor). */
ssize_t ten_read_some(int fd, void *data, size_t size);

/* One write of whatever there is room for: the count, or a negative errno. */
ssize_t ten_write_some(int fd, const void *data, size_t size);

/* The first line of a small file without its newline, cut to size - 1: its length, or a negative errno. */
ssize_t ten_read_line(const char *path, char *text, size_t size);

/* Waits until `fd` (or `fd2`, unless negative) is readable or the boot clock has moved on by wait_ms (UINT64_MAX: no
 * end). Returns a mask: 1 for fd, 2 for fd2, 0 when the time has passed, or a negative errno. -EINTR is not returned.
 */
int ten_wait_readable(int fd, int fd2, uint64_t wait_ms);
/* The same for `count` descriptors, up to 4: bit i of the mask is fds[i]. Negative ones are left out. */
int ten_wait_any_readable(const int *fds, size_t count, uint64_t wait_ms);

/* Waits until `fd` can be written (or has failed: the write tells), or `fd2` is readable, as above. */
int ten_wait_writable(int fd, int fd2, uint64_t wait_ms);

/* Until one of these events of poll() has come, or `deadline_ms` of the boot clock: 1, 0 when it is late, or a negative
 * errno. */
int ten_wait_events(int fd, short events, uint64_t deadline_ms);

/* An eventfd that wakes a thread: readable from a poke until it is cleared, however often it was poked. Neither call
 * waits or fails in a way that matters; a poke may come from a signal handler. */
int ten_eventfd_open(void); /* -1: the system refused, see errno */
void ten_eventfd_poke(int fd);
void ten_eventfd_clear(int fd);

/* A timerfd on the boot clock: readable when wait_ms have passed since it was set, until it is cleared or set again. */
int ten_timerfd_open(void); /* -1: the system refused, see errno */
void ten_timerfd_set(int fd, uint64_t wait_ms);
void ten_timerfd_clear(int fd);

/* Sleeps that long, signals or not. */
void ten_sleep_us(uint64_t us);

/* For TEN_CLEANUP on a descriptor; -1 is nothing. These leave errno as it is. */
void ten_close_fd(int *fd);
void ten_close_file(FILE **file);
void ten_close_directory(DIR **directory);

/* errno is at the end of the block what it is here. */
#define TEN_KEEP_ERRNO TEN_CLEANUP(ten_restore_errno) __attribute__((unused)) int ten_kept_errno = errno
static inline void ten_restore_errno(const int *kept) {
    errno = *kept;
}

#endif
