/*
 * Control groups of commands: see cgroup.h. Called by isolation.c, child.c and the warden.
 */
#include "agent/warden/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"

#define NAME_PREFIX "tenure-" /* of a command's group */
#define BASE_PREFIX "tenure." /* of a worker's */
#define FILE_SIZE   (TEN_CGROUP_PATH_SIZE + 64)
#define NESTED_MAX  16u /* groups that a command makes in its own */
#define BASE_TRIES  3u
#define SWEEP_MS    100u /* longest wait for what is left of a dead worker */

/* ---- this process's group */

/* Where version 2 is mounted: in a line of mountinfo, the fifth field, if the type after the dash is cgroup2. */
static bool find_mount(char ret_mount[TEN_CGROUP_PATH_SIZE]) {
    char line[4096];
    TEN_CLEANUP(ten_close_file) FILE *mounts = fopen("/proc/self/mountinfo", "re");
    if (!mounts)
        return false;
    while (fgets(line, sizeof line, mounts)) {
        const char *type = strstr(line, " - ");
        if (type && strncmp(type + 3, "cgroup2 ", 8) == 0 && sscanf(line, "%*s %*s %*s %*s %255s", ret_mount) == 1)
            return true;
    }
    errno = ENOENT;
    return false;
}

/* The line `0::PATH`. */
static bool find_own(char ret_path[TEN_CGROUP_PATH_SIZE]) {
    char line[FILE_SIZE];
    TEN_CLEANUP(ten_close_file) FILE *groups = fopen("/proc/self/cgroup", "re");
    if (!groups)
        return false;
    while (fgets(line, sizeof line, groups))
        if (sscanf(line, "0::%255[^\n]", ret_path) == 1)
            return true;
    errno = ENOENT;
    return false;
}

/* ---- killing and removing */

static bool kill_all(const char *path, ten_trouble *trouble) {
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    int r = fd >= 0 ? ten_write_all(fd, "1", 1) : -errno;
    if (r == 0)
        return true;
    errno = -r;
    ten_trouble_note(trouble, 0);
    return false;
}

static bool is_populated(const char *path, ten_trouble *trouble) {
    char line[64];
    TEN_CLEANUP(ten_close_file) FILE *events = fopen(path, "re");
    if (!events && errno == ENOENT)
        return false; /* the group itself is gone */
    if (!events)
        ten_trouble_note(trouble, 0);
    while (events && fgets(line, sizeof line, events))
        if (strcmp(line, "populated 0\n") == 0)
            return false;
    return true;
}

/* One process at a time. A number 0 is that of a process in another PID namespace. */
static void signal_each(const char *path, int signal, ten_trouble *trouble) {
    char line[32];
    TEN_CLEANUP(ten_close_file) FILE *list = fopen(path, "re");
    if (!list)
        ten_trouble_note(trouble, 0);
    while (list && fgets(line, sizeof line, list)) {
        pid_t pid = (pid_t)strtol(line, NULL, 10);
        if (pid > 0)
            (void)ten_process_signal(pid, signal, trouble);
    }
}

/* The next group in one that is being read. False: there is no more. */
static bool next_group(const char *path, DIR *groups, char below[FILE_SIZE]) {
    for (struct dirent *entry; groups && (entry = readdir(groups));)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            (size_t)snprintf(below, FILE_SIZE, "%s/%s", path, entry->d_name) < FILE_SIZE)
            return true;
    return false;
}

/* A group with the groups in it. */
static void signal_group(const char *path, unsigned depth, int signal, ten_trouble *trouble) {
    char below[FILE_SIZE];
    if ((size_t)snprintf(below, sizeof below, "%s/cgroup.procs", path) < sizeof below)
        signal_each(below, signal, trouble);
    TEN_CLEANUP(ten_close_directory) DIR *groups = depth < NESTED_MAX ? opendir(path) : NULL;
    while (next_group(path, groups, below))
        signal_group(below, depth + 1, signal, trouble);
}

/* The kernel kills all that is in a group, of any user, but for processes whose first thread has ended while
 * others go on (seen with Linux 6.18): they are killed one by one. */
static void kill_group(const char *path, ten_trouble *trouble) {
    char file[FILE_SIZE];
    ten_trouble ignored = {0}; /* what may not be signalled is killed by the kernel */
    bool killed = (size_t)snprintf(file, sizeof file, "%s/cgroup.kill", path) < sizeof file && kill_all(file, trouble);
    signal_group(path, 0, SIGKILL, killed ? &ignored : trouble);
}

/* A group with the groups in it. They are empty. */
static void remove_group(const char *path, unsigned depth) {
    char below[FILE_SIZE];
    TEN_CLEANUP(ten_close_directory) DIR *groups = depth < NESTED_MAX && rmdir(path) != 0 ? opendir(path) : NULL;
    while (next_group(path, groups, below))
        remove_group(below, depth + 1);
    if (groups)
        (void)rmdir(path);
}

unsigned ten_cgroup_end(const char *base, ten_trouble *trouble) {
    char path[FILE_SIZE];
    if (base[0] == '\0')
        return 0;
    snprintf(path, sizeof path, "%s/cgroup.events", base);
    if (is_populated(path, trouble)) {
        kill_group(base, trouble);
        return 1;
    }
    remove_group(base, 0);
    return 0;
}

/* ---- a worker's base */

static int lock(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    /* A worker that sweeps may have locked it first, and removed it. */
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && access(path, F_OK) == 0)
        return fd;
    ten_close_fd(&fd);
    return -1;
}

/* A child is put into a group, and killed there. */
static bool try_group(const char *base) {
    char path[FILE_SIZE];
    ten_trouble trouble = {0};
    TEN_CLEANUP(ten_close_fd) int fd = ten_cgroup_make(base, 0, 0);
    pid_t child = fd >= 0 ? fork() : -1;
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;)
            pause();
    }
    if (child < 0)
        return false;
    snprintf(path, sizeof path, "%s/cgroup.kill", base);
    bool usable = ten_cgroup_put(fd, child) && kill_all(path, &trouble);
    TEN_KEEP_ERRNO;
    (void)kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return usable;
}

bool ten_cgroup_open(char ret_base[TEN_CGROUP_PATH_SIZE], int *ret_lock_fd) {
    char mount[TEN_CGROUP_PATH_SIZE];
    char own[TEN_CGROUP_PATH_SIZE];
    int fd = -1;
    if (!find_mount(mount) || !find_own(own))
        return false;
    for (unsigned i = 0; i < BASE_TRIES && fd < 0; i++) {
        snprintf(ret_base, TEN_CGROUP_PATH_SIZE, "%.220s%.220s/" BASE_PREFIX "%d.%llx", mount,
                 strcmp(own, "/") == 0 ? "" : own, (int)getpid(), (unsigned long long)ten_boot_us());
        if (mkdir(ret_base, 0755) != 0)
            return false;
        fd = lock(ret_base);
    }
    if (fd >= 0 && try_group(ret_base)) {
        ten_cgroup_remove(ret_base, 0, 0);
        *ret_lock_fd = fd;
        return true;
    }
    TEN_KEEP_ERRNO;
    remove_group(ret_base, 0);
    ten_close_fd(&fd);
    return false;
}

/* What a dead worker has left. */
static void sweep(const char *base) {
    TEN_CLEANUP(ten_close_fd) int fd = lock(base);
    uint64_t end_ms = ten_now_ms() + SWEEP_MS;
    ten_trouble trouble = {0};
    while (fd >= 0 && ten_cgroup_end(base, &trouble) > 0 && ten_now_ms() < end_ms)
        ten_sleep_us(1000);
}

void ten_cgroup_sweep(const char *base) {
    char path[TEN_CGROUP_PATH_SIZE];
    size_t size = (size_t)(strrchr(base, '/') - base);
    snprintf(path, sizeof path, "%.*s", (int)size, base);
    TEN_CLEANUP(ten_close_directory) DIR *groups = opendir(path);
    for (struct dirent *entry; groups && (entry = readdir(groups));)
        if (strncmp(entry->d_name, BASE_PREFIX, strlen(BASE_PREFIX)) == 0 &&
            strcmp(entry->d_name, base + size + 1) != 0 &&
            (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)size, base, entry->d_name) < sizeof path)
            sweep(path);
}

/* ---- a command's group */

static void name_file(char path[FILE_SIZE], const char *base, pid_t worker, uint64_t mark, const char *file) {
    snprintf(path, FILE_SIZE, "%s/" NAME_PREFIX "%d-%llu%s", base, (int)worker, (unsigned long long)mark, file);
}

int ten_cgroup_make(const char *base, pid_t worker, uint64_t mark) {
    char path[FILE_SIZE];
    name_file(path, base, worker, mark, "");
    if (mkdir(path, 0755) != 0)
        return -1;
    name_file(path, base, worker, mark, "/cgroup.procs");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    TEN_KEEP_ERRNO;
    if (fd < 0)
        ten_cgroup_remove(base, worker, mark);
    return fd;
}

bool ten_cgroup_put(int fd, pid_t pid) {
    char text[16];
    int size = snprintf(text, sizeof text, "%d", (int)pid);
    int r = ten_write_all(fd, text, (size_t)size);
    if (r < 0)
        errno = -r;
    return r == 0;
}

unsigned ten_cgroup_signal(const char *base, pid_t worker, uint64_t mark, int signal, ten_trouble *trouble) {
    char path[FILE_SIZE];
    name_file(path, base, worker, mark, "/cgroup.events");
    if (!is_populated(path, trouble))
        return 0;
    name_file(path, base, worker, mark, "");
    ten_trouble ignored = {0}; /* what may not be asked is killed in the end */
    if (signal == SIGKILL)
        kill_group(path, trouble);
    else
        signal_group(path, 0, signal, &ignored);
    return 1;
}

void ten_cgroup_remove(const char *base, pid_t worker, uint64_t mark) {
    char path[FILE_SIZE];
    name_file(path, base, worker, mark, "");
    remove_group(path, 0);
}
