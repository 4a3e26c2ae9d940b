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
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/util.h"

#define NAME_PREFIX "tenure-"
#define FILE_SIZE   (TEN_CGROUP_PATH_SIZE + 64)

/* ---- this process's group */

/* Where version 2 is mounted: in a line of mountinfo, the fifth field, if the type after the dash is cgroup2. */
static bool find_mount(char ret_mount[TEN_CGROUP_PATH_SIZE]) {
    char line[4096];
    bool found = false;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts && !found && fgets(line, sizeof line, mounts)) {
        const char *type = strstr(line, " - ");
        found = type && strncmp(type + 3, "cgroup2 ", 8) == 0 && sscanf(line, "%*s %*s %*s %*s %255s", ret_mount) == 1;
    }
    if (mounts)
        (void)fclose(mounts);
    if (!found)
        errno = ENOENT;
    return found;
}

/* The line `0::PATH`. */
static bool find_own(char ret_path[TEN_CGROUP_PATH_SIZE]) {
    char line[FILE_SIZE];
    bool found = false;
    FILE *groups = fopen("/proc/self/cgroup", "re");
    while (groups && !found && fgets(line, sizeof line, groups))
        found = sscanf(line, "0::%255s", ret_path) == 1;
    if (groups)
        (void)fclose(groups);
    if (!found)
        errno = ENOENT;
    return found;
}

/* A group that is made here can be killed as a whole (Linux 5.14), and this process may enter it. */
static bool try_below(const char *base) {
    char file[FILE_SIZE];
    pid_t self = getpid();
    int fd = ten_cgroup_make(base, self, 0);
    if (fd < 0)
        return false;
    ten_close_fd(&fd);
    snprintf(file, sizeof file, "%s/" NAME_PREFIX "%d-0/cgroup.kill", base, (int)self);
    bool usable = access(file, W_OK) == 0;
    int failed = errno;
    ten_cgroup_remove(base, self, 0);
    errno = failed;
    snprintf(file, sizeof file, "%s/cgroup.procs", base);
    return usable && access(file, W_OK) == 0;
}

bool ten_cgroup_find(char ret_base[TEN_CGROUP_PATH_SIZE]) {
    char mount[TEN_CGROUP_PATH_SIZE];
    char own[TEN_CGROUP_PATH_SIZE];
    if (!find_mount(mount) || !find_own(own))
        return false;
    snprintf(ret_base, TEN_CGROUP_PATH_SIZE, "%.250s%.250s", mount, strcmp(own, "/") == 0 ? "" : own);
    return try_below(ret_base);
}

/* ---- a command's group */

static void name_file(char path[FILE_SIZE], const char *base, pid_t worker, uint64_t mark, const char *file) {
    snprintf(path, FILE_SIZE, "%s/" NAME_PREFIX "%d-%llu%s", base, (int)worker, (unsigned long long)mark, file);
}

int ten_cgroup_make(const char *base, pid_t worker, uint64_t mark) {
    char path[FILE_SIZE];
    name_file(path, base, worker, mark, "");
    bool made = mkdir(path, 0755) == 0;
    if (!made && errno == EEXIST && rmdir(path) == 0) /* of a dead process with this number */
        made = mkdir(path, 0755) == 0;
    if (!made)
        return -1;
    name_file(path, base, worker, mark, "/cgroup.procs");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int failed = errno;
    if (fd < 0)
        ten_cgroup_remove(base, worker, mark);
    errno = failed;
    return fd;
}

bool ten_cgroup_enter(int fd) {
    return write(fd, "0", 1) == 1;
}

/* One process at a time. */
static void signal_each(const char *path, int signal, ten_trouble *trouble) {
    char line[32];
    FILE *list = fopen(path, "re");
    if (!list)
        ten_trouble_note(trouble, 0);
    while (list && fgets(line, sizeof line, list))
        (void)ten_process_signal((pid_t)strtol(line, NULL, 10), signal, trouble);
    if (list)
        (void)fclose(list);
}

static bool kill_all(const char *path, ten_trouble *trouble) {
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool killed = fd >= 0 && ten_write_all(fd, "1", 1) == 0;
    if (!killed)
        ten_trouble_note(trouble, 0);
    return killed;
}

static bool is_populated(const char *path, ten_trouble *trouble) {
    char line[64];
    bool populated = true;
    FILE *events = fopen(path, "re");
    if (!events) {
        if (errno == ENOENT)
            return false; /* the group itself is gone */
        ten_trouble_note(trouble, 0);
    }
    while (events && fgets(line, sizeof line, events))
        if (strcmp(line, "populated 0\n") == 0)
            populated = false;
    if (events)
        (void)fclose(events);
    return populated;
}

unsigned ten_cgroup_signal(const char *base, pid_t worker, uint64_t mark, int signal, ten_trouble *trouble) {
    char path[FILE_SIZE];
    name_file(path, base, worker, mark, "/cgroup.events");
    if (!is_populated(path, trouble))
        return 0;
    name_file(path, base, worker, mark, "/cgroup.kill");
    bool killed = signal == SIGKILL && kill_all(path, trouble);
    name_file(path, base, worker, mark, "/cgroup.procs");
    if (!killed)
        signal_each(path, signal, trouble);
    return 1;
}

void ten_cgroup_remove(const char *base, pid_t worker, uint64_t mark) {
    char path[FILE_SIZE];
    name_file(path, base, worker, mark, "");
    (void)rmdir(path);
}

void ten_cgroup_sweep(const char *base) {
    DIR *groups = opendir(base);
    for (struct dirent *entry; groups && (entry = readdir(groups));) {
        long worker;
        if (sscanf(entry->d_name, NAME_PREFIX "%ld-", &worker) == 1 && kill((pid_t)worker, 0) != 0 && errno == ESRCH)
            (void)unlinkat(dirfd(groups), entry->d_name, AT_REMOVEDIR);
    }
    if (groups)
        closedir(groups);
}
