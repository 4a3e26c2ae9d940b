/*
 * One process: see process.h. Called by tree.c and child.c.
 */
#include "agent/warden/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/util.h"

void ten_trouble_note(ten_trouble *trouble, pid_t pid) {
    if (trouble)
        *trouble = (ten_trouble){.error = errno, .pid = pid};
}

const char *ten_trouble_text(const ten_trouble *trouble) {
    return trouble->error == TEN_TROUBLE_STUCK ? "it was killed, but the kernel has not ended it yet"
           : trouble->error == EXDEV           ? "/proc shows the processes of another PID namespace"
                                               : strerrordesc_np(trouble->error);
}

/* A process cannot change its own namespace, but what is mounted may change: so it is looked at each time. */
bool ten_process_proc_is_ours(void) {
    char name[16] = "";
    char self[16];
    ssize_t size = readlink("/proc/self", name, sizeof name - 1);
    snprintf(self, sizeof self, "%d", (int)getpid());
    if (size >= 0 && strcmp(name, self) != 0)
        errno = EXDEV;
    return size >= 0 && strcmp(name, self) == 0;
}

bool ten_process_has_children(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

/* ---- by /proc, where there are no descriptors of processes */

/* The number was given to a thread: then it is no process's any more. */
static bool is_a_threads(pid_t pid) {
    char path[32];
    char line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    TEN_CLEANUP(ten_close_file) FILE *status = ten_process_proc_is_ours() ? fopen(path, "re") : NULL;
    long group = pid;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Tgid: %ld", &group) == 1)
            break;
    return group != pid;
}

/* Whether it waits to be reaped. The first thread has ended, and no other is left: a process whose first thread has
 * ended goes on with the others. The kernel writes both into the line while no thread can come or go. If the number of
 * threads is 0, then another thread has become the first one, by exec, since the line was opened. */
static bool is_zombie(pid_t pid) {
    char path[32];
    char text[512];
    char state;
    long threads;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!ten_process_proc_is_ours() || ten_read_line(path, text, sizeof text) < 0)
        return false;
    const char *name_end = strrchr(text, ')');
    return name_end &&
           sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld", &state,
                  &threads) == 2 &&
           state == 'Z' && threads == 1;
}

static bool signal_by_number(pid_t pid, int signal, ten_trouble *trouble) {
    if (kill(pid, signal) == 0) {
        if (signal == SIGTERM)
            (void)kill(pid, SIGCONT);
        return !is_zombie(pid);
    }
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
    if (signal == 0 || syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0) {
        if (signal == SIGTERM) /* one that is stopped would not notice that it is asked to end */
            (void)syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
        return true;
    }
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
