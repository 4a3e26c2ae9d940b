/*
 * System calls that go on after signals and short counts (fault 36). A timer without SA_RESTART hits them twice a
 * millisecond. Real time, because the system calls are the subject; a few hundred milliseconds in all.
 */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>

#include "base/io.h"

enum { BULK = 1 << 20 };

static unsigned char pattern(size_t at) {
    return (unsigned char)(at * 31u + (at >> 8));
}

struct reader {
    int fd;
    size_t count;
    bool same;
};

/* Small reads with pauses: the writer finds the pipe full again and again, and writes short. */
static void *read_slowly(void *arg) {
    struct reader *reader = arg;
    unsigned char piece[5003];
    for (size_t turn = 0;; turn++) {
        ssize_t count = ten_read_some(reader->fd, piece, sizeof piece);
        if (count <= 0)
            return NULL;
        for (ssize_t i = 0; i < count; i++)
            reader->same &= piece[i] == pattern(reader->count + (size_t)i);
        reader->count += (size_t)count;
        if (turn % 4 == 0)
            ten_sleep_us(1500);
    }
}

TEST(a_write_is_whole_despite_signals_and_a_full_pipe) {
    int ends[2];
    unsigned char *bulk = malloc(BULK);
    assert_non_null(bulk);
    for (size_t i = 0; i < BULK; i++)
        bulk[i] = pattern(i);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct reader reader = {.fd = ends[0], .same = true};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    storm_start();
    assert_int_equal(ten_write_all(ends[1], bulk, BULK), 0);
    close(ends[1]);
    pthread_join(thread, NULL);
    storm_stop();
    assert_int_equal(reader.count, BULK);
    assert_true(reader.same);
    close(ends[0]);
    free(bulk);
}

TEST(a_file_is_written_and_read_whole_at_an_offset) {
    char directory[256];
    char path[300];
    directory_make(directory);
    snprintf(path, sizeof path, "%s/file", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    char text[16] = "";
    storm_start();
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(ten_pwrite_all(fd, "hello", 5, 1000), 0);
        assert_int_equal(ten_pread_all(fd, text, 5, 1000), 5);
        assert_string_equal(text, "hello");
    }
    storm_stop();
    assert_int_equal(ten_pread_all(fd, text, sizeof text, 1003), 2); /* the end of the file */
    assert_int_equal(ten_pread_all(fd, text, sizeof text, 5000), 0);
    assert_int_equal(ten_pwrite_all(fd, "", 0, 0), 0);
    close(fd);
    directory_remove(directory);
}

TEST(an_error_is_a_negative_errno) {
    char byte = 0;
    assert_int_equal(ten_write_all(-1, &byte, 1), -EBADF);
    assert_int_equal(ten_pwrite_all(-1, &byte, 1, 0), -EBADF);
    assert_int_equal(ten_pread_all(-1, &byte, 1, 0), -EBADF);
    assert_int_equal(ten_read_some(-1, &byte, 1), -EBADF);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(ten_read_some(ends[0], &byte, 1), -EAGAIN);
    ten_close_fd(&ends[1]);
    assert_int_equal(ends[1], -1);
    assert_int_equal(ten_read_some(ends[0], &byte, 1), 0);
    ten_close_fd(&ends[0]);
    ten_close_fd(&ends[0]);
}

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ten_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

TEST(the_first_line_of_a_file_comes_without_its_newline) {
    char directory[256];
    char path[300];
    char line[8];
    directory_make(directory);
    snprintf(path, sizeof path, "%s/file", directory);
    assert_int_equal(ten_read_line(path, line, sizeof line), -ENOENT);
    write_file(path, "one\ntwo\n");
    assert_int_equal(ten_read_line(path, line, sizeof line), 3);
    assert_string_equal(line, "one");
    write_file(path, "no newline and long");
    assert_int_equal(ten_read_line(path, line, sizeof line), 7);
    assert_string_equal(line, "no newl");
    write_file(path, "");
    assert_int_equal(ten_read_line(path, line, sizeof line), 0);
    assert_string_equal(line, "");
    directory_remove(directory);
}

TEST(waiting_says_which_descriptor_is_readable) {
    int a[2];
    int b[2];
    assert_int_equal(pipe2(a, O_CLOEXEC), 0);
    assert_int_equal(pipe2(b, O_CLOEXEC), 0);
    assert_int_equal(ten_wait_readable(a[0], b[0], 0), 0);
    assert_int_equal(ten_write_all(b[1], "x", 1), 0);
    assert_int_equal(ten_wait_readable(a[0], b[0], UINT64_MAX), 2);
    assert_int_equal(ten_wait_readable(b[0], -1, 60000), 1);
    assert_int_equal(ten_write_all(a[1], "x", 1), 0);
    assert_int_equal(ten_wait_readable(a[0], b[0], 60000), 3);
    assert_int_equal(ten_wait_any_readable((int[]){-1, a[0], -1, b[0]}, 4, 60000), 2 | 8);
    assert_int_equal(ten_wait_any_readable(NULL, 0, 1), 0);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

TEST(waiting_lasts_as_long_as_it_should_despite_signals) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    storm_start();
    uint64_t start_us = ten_boot_us();
    assert_int_equal(ten_wait_readable(ends[0], -1, 50), 0);
    uint64_t waited_us = ten_boot_us() - start_us;
    start_us = ten_boot_us();
    ten_sleep_us(20000);
    uint64_t slept_us = ten_boot_us() - start_us;
    storm_stop();
    assert_in_range(waited_us, 50000 - MACHINE_ROUNDING_MS * 1000, HANG_MS * 1000);
    assert_in_range(slept_us, 20000, HANG_MS * 1000);
    close(ends[0]);
    close(ends[1]);
}

TEST(a_full_pipe_is_not_writable_and_a_broken_one_is) {
    int ends[2];
    int other[2];
    char page[4096] = {0};
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_int_equal(pipe2(other, O_NONBLOCK), 0);
    assert_int_equal(ten_wait_writable(ends[1], other[0], UINT64_MAX), 1);
    while (ten_write_some(ends[1], page, sizeof page) > 0)
        ;
    assert_int_equal(ten_write_some(ends[1], page, sizeof page), -EAGAIN);
    assert_int_equal(ten_wait_writable(ends[1], other[0], 20), 0);
    assert_int_equal(ten_write_some(other[1], "x", 1), 1);
    assert_int_equal(ten_wait_writable(ends[1], other[0], UINT64_MAX), 2);
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    assert_int_equal(ten_wait_writable(ends[1], -1, UINT64_MAX), 1);
    assert_int_equal(ten_write_some(ends[1], page, sizeof page), -EPIPE);
    close(ends[1]);
    close(other[0]);
    close(other[1]);
}
