/*
 * How a command is kept together: see isolation.h. Called by the worker at its start, by child.c, and by `tenure
 * doctor`.
 */
#include "agent/warden/isolation.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/util.h"

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
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

bool ten_isolation_write_maps(const ten_isolation_maps *maps) {
    return write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", maps->users) &&
           write_file("/proc/self/gid_map", maps->groups);
}

/* A program without file capabilities has root's, as far as they are not left out of the bounding set. Ambient ones are
 * dropped before a command is started. */
static bool commands_have_capabilities(void) {
    int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
    bool root = geteuid() == 0 && !(bits >= 0 && (bits & SECBIT_NOROOT));
    int found = 0;
    for (unsigned long each = 0; root && each < 64 && found != 1; each++)
        found = prctl(PR_CAPBSET_READ, each, 0, 0, 0);
    return found == 1;
}

/* ---- trying */

bool ten_isolation_is_passing(int error) {
    return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE || error == EINTR;
}

/* 0, or the errno of what failed. */
static int try_namespace(enum ten_isolation form) {
    ten_isolation_maps maps = {0};
    int status = 0;
    ten_isolation_make_maps(&maps);
    pid_t child = (pid_t)syscall(SYS_clone, ten_isolation_flags(form) | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(form != TEN_ISOLATION_USER_NAMESPACE || ten_isolation_write_maps(&maps) ? 0 : errno);
    if (child < 0)
        return errno;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

/* 0, or the errno of what failed. */
static int try_form(enum ten_isolation form, ten_isolation_found *found) {
    if (form != TEN_ISOLATION_CGROUP)
        return try_namespace(form);
    if (ten_cgroup_open(found->cgroup, &found->cgroup_fd)) {
        ten_cgroup_sweep(found->cgroup);
        return 0;
    }
    int failed = errno;
    found->cgroup[0] = '\0';
    return failed;
}

static bool is_wanted(enum ten_isolation form, enum ten_isolation_wish wish, bool capable) {
    if (wish == TEN_ISOLATION_REQUIRED)
        return form != TEN_ISOLATION_CGROUP;
    return wish == TEN_ISOLATION_AUTO && !(form == TEN_ISOLATION_USER_NAMESPACE && capable);
}

void ten_isolation_find(enum ten_isolation_wish wish, ten_isolation_found *ret_found) {
    static const enum ten_isolation order[] = {TEN_ISOLATION_PID_NAMESPACE, TEN_ISOLATION_CGROUP,
                                               TEN_ISOLATION_USER_NAMESPACE};
    *ret_found =
        (ten_isolation_found){.form = TEN_ISOLATION_NONE, .capable = commands_have_capabilities(), .cgroup_fd = -1};
    for (size_t i = 0; i < TEN_COUNT(order); i++) {
        if (!is_wanted(order[i], wish, ret_found->capable))
            continue;
        int error = try_form(order[i], ret_found);
        ret_found->errors[order[i]] = error;
        bool passing = ten_isolation_is_passing(error);
        ret_found->unsure |= passing;
        /* A namespace that cannot be had at this moment is tried with each command. */
        if (error == 0 || (passing && ten_isolation_is_namespace(order[i]))) {
            ret_found->form = order[i];
            ret_found->unsure = error != 0;
            return;
        }
    }
}

void ten_isolation_free(ten_isolation_found *found) {
    ten_trouble trouble = {0};
    (void)ten_cgroup_end(found->cgroup, &trouble);
    ten_close_fd(&found->cgroup_fd);
    found->cgroup[0] = '\0';
}
