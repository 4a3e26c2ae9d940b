/*
 * One process: see process.h. Called by tree.c and child.c.
 */
#include "agent/warden/process.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/util.h"

void ten_trouble_note(ten_trouble *trouble, pid_t pid) {
    if (trouble)
        *trouble = (ten_trouble){.error = errno, .pid = pid};
}

/* ---- by /proc, where there are no descriptors of processes */

/* The number was given to a thread: then it is no process's any more. */
static bool is_a_threads(pid_t pid) {
    char path[32];
    char line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    long group = pid;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Tgid: %ld", &group) == 1)
            break;
    if (status)
        (void)fclose(status);
    return group != pid;
}

static bool thread_has_ended(pid_t pid, const char *thread) {
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/stat", (int)pid, thread);
    ssize_t size = ten_read_line(path, text, sizeof text);
    if (size < 0)
        return size == -ENOENT || size == -ESRCH;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] != '\0' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

/* Whether it waits to be reaped: a process whose first thread has ended goes on with the others. */
static bool is_zombie(pid_t pid) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (!threads)
        return false;
    bool ended = true;
    errno = 0;
    for (struct dirent *entry; ended && (entry = readdir(threads)); errno = 0)
        ended = entry->d_name[0] == '.' || thread_has_ended(pid, entry->d_name);
    ended = ended && (errno == 0 || errno == ENOENT || errno == ESRCH);
    closedir(threads);
    return ended;
}

static bool signal_by_number(pid_t pid, int signal, ten_trouble *trouble) {
    if (kill(pid, signal) == 0)
        return !is_zombie(pid);
    if (errno == ESRCH)
        return false;
    int failed = errno;
    if (is_zombie(pid))
        return false;
    errno = failed;
    ten_trouble_note(trouble, pid);
    return true;
}

/* ---- by a descriptor: between finding a process and signalling it, its number could become another's */

int ten_process_open(pid_t pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -errno : fd;
}

bool ten_process_has_ended(int fd) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN);
}

bool ten_process_signal_opened(int fd, pid_t pid, int signal, ten_trouble *trouble) {
    if (fd == -ESRCH || ((fd == -EINVAL || fd == -ENOENT) && is_a_threads(pid)))
        return false;
    if (fd < 0)
        return signal_by_number(pid, signal, trouble);
    if (ten_process_has_ended(fd))
        return false;
    if (signal == 0 || syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0)
        return true;
    return errno != ESRCH && signal_by_number(pid, signal, trouble);
}

bool ten_process_signal(pid_t pid, int signal, ten_trouble *trouble) {
    TEN_CLEANUP(ten_close_fd) int fd = ten_process_open(pid);
    return ten_process_signal_opened(fd, pid, signal, trouble);
}

bool ten_process_signal_at(const _Atomic(int32_t) *number, int signal, ten_trouble *trouble) {
    pid_t pid = atomic_load(number);
    if (pid <= 0)
        return false;
    TEN_CLEANUP(ten_close_fd) int fd = ten_process_open(pid);
    return atomic_load(number) == pid && ten_process_signal_opened(fd, pid, signal, trouble);
}
