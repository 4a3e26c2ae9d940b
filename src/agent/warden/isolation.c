/*
 * How a command is kept together: see isolation.h. Called by the worker at its start, by child.c, and by `tenure
 * doctor`.
 */
#include "agent/warden/isolation.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

const char *ten_isolation_name(enum ten_isolation form) {
    static const char *const names[] = {[TEN_ISOLATION_NONE] = "none",
                                        [TEN_ISOLATION_USER_NAMESPACE] = "user-namespace",
                                        [TEN_ISOLATION_CGROUP] = "cgroup",
                                        [TEN_ISOLATION_PID_NAMESPACE] = "pid-namespace"};
    return names[form];
}

unsigned long ten_isolation_flags(enum ten_isolation form) {
    return form == TEN_ISOLATION_PID_NAMESPACE    ? CLONE_NEWPID
           : form == TEN_ISOLATION_USER_NAMESPACE ? CLONE_NEWPID | CLONE_NEWUSER
                                                  : 0;
}

/* ---- user namespaces */

void ten_isolation_make_maps(ten_isolation_maps *ret_maps) {
    unsigned user = geteuid();
    unsigned group = getegid();
    snprintf(ret_maps->users, sizeof ret_maps->users, "%u %u 1\n", user, user);
    snprintf(ret_maps->groups, sizeof ret_maps->groups, "%u %u 1\n", group, group);
}

static bool write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

bool ten_isolation_write_maps(const ten_isolation_maps *maps) {
    return write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", maps->users) &&
           write_file("/proc/self/gid_map", maps->groups);
}

/* ---- trying */

/* 0, or the errno of what failed. */
static int try_namespace(enum ten_isolation form) {
    ten_isolation_maps maps;
    int status = 0;
    ten_isolation_make_maps(&maps);
    pid_t child = (pid_t)syscall(SYS_clone, ten_isolation_flags(form) | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(form != TEN_ISOLATION_USER_NAMESPACE || ten_isolation_write_maps(&maps) ? 0 : errno);
    if (child < 0)
        return errno;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

void ten_isolation_find(enum ten_isolation_wish wish, ten_isolation_found *ret_found) {
    static const enum ten_isolation order[] = {TEN_ISOLATION_PID_NAMESPACE, TEN_ISOLATION_CGROUP,
                                               TEN_ISOLATION_USER_NAMESPACE};
    *ret_found = (ten_isolation_found){.form = TEN_ISOLATION_NONE};
    for (size_t i = 0; i < sizeof order / sizeof order[0] && wish != TEN_ISOLATION_OFF; i++) {
        enum ten_isolation form = order[i];
        bool group = form == TEN_ISOLATION_CGROUP;
        if (group && wish == TEN_ISOLATION_REQUIRED)
            continue;
        ret_found->errors[form] = group ? (ten_cgroup_find(ret_found->cgroup) ? 0 : errno) : try_namespace(form);
        if (ret_found->errors[form] != 0)
            continue;
        ret_found->form = form;
        if (group)
            ten_cgroup_sweep(ret_found->cgroup);
        return;
    }
}
