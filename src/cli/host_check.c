/*
 * What `tenure doctor` finds in this host: see host_check.h.
 */
#include "cli/host_check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/warden/tree.h"
#include "base/io.h"

#define TEXT_SIZE 600

/* ---- isolation */

static void describe_obstacles(const ten_isolation_found *found, char text[TEXT_SIZE]) {
    snprintf(text, TEXT_SIZE,
             "for a PID namespace run it as root or with CAP_SYS_ADMIN (%s); for a control group let the service "
             "manager delegate one, Delegate=yes (%s); for a user namespace let the kernel and seccomp permit "
             "clone(CLONE_NEWUSER) (%s)",
             strerrordesc_np(found->errors[TEN_ISOLATION_PID_NAMESPACE]),
             strerrordesc_np(found->errors[TEN_ISOLATION_CGROUP]),
             strerrordesc_np(found->errors[TEN_ISOLATION_USER_NAMESPACE]));
}

static void check_isolation(tenure_check_fn each, void *userdata) {
    static const char *const texts[] = {
        [TEN_ISOLATION_PID_NAMESPACE] = "pid-namespace: each command ends with everything that it started",
        [TEN_ISOLATION_CGROUP] = "cgroup: each command ends with everything that it started; set-uid programs survive "
                                 "if warden and worker are both killed",
        [TEN_ISOLATION_USER_NAMESPACE] = "user-namespace: each command ends with everything that it started; set-uid "
                                         "programs and file capabilities have no effect in it",
        [TEN_ISOLATION_NONE] = "none: what a command detaches is found by its mark; set-uid programs cannot be ended, "
                               "and survive a killed warden"};
    ten_isolation_found found;
    char advice[TEXT_SIZE] = "";
    ten_isolation_find(TEN_ISOLATION_AUTO, &found);
    bool none = found.form == TEN_ISOLATION_NONE;
    if (none)
        describe_obstacles(&found, advice);
    each(none ? TENURE_CHECK_WARN : TENURE_CHECK_OK, "process isolation", texts[found.form], advice, userdata);
}

int ten_host_check_isolation(enum ten_isolation_wish wish) {
    ten_isolation_found found;
    if (wish != TEN_ISOLATION_REQUIRED)
        return TEN_EXIT_DONE;
    ten_isolation_find(wish, &found);
    if (found.form != TEN_ISOLATION_NONE)
        return TEN_EXIT_DONE;
    fprintf(stderr,
            "tenure: --pid-namespace on: this process may not make a PID namespace (%s), nor one in a user namespace "
            "(%s): run it as root or with CAP_SYS_ADMIN, let seccomp permit clone(CLONE_NEWUSER), or say "
            "--pid-namespace auto\n",
            strerrordesc_np(found.errors[TEN_ISOLATION_PID_NAMESPACE]),
            strerrordesc_np(found.errors[TEN_ISOLATION_USER_NAMESPACE]));
    return TEN_EXIT_FAILED;
}

/* ---- ending */

/* A child that waits for its end. */
static pid_t start_child(void) {
    pid_t child = fork();
    while (child == 0)
        pause();
    return child;
}

static void check_descriptors(pid_t child, tenure_check_fn each, void *userdata) {
    TEN_CLEANUP(ten_close_fd) int fd = (int)syscall(SYS_pidfd_open, child, 0);
    char found[TEXT_SIZE];
    if (fd >= 0) {
        each(TENURE_CHECK_OK, "process descriptors", "pidfd_open() works: no signal reaches a stranger", "", userdata);
        return;
    }
    snprintf(found, sizeof found, "pidfd_open(): %s; kill() is used instead", strerrordesc_np(errno));
    each(TENURE_CHECK_WARN, "process descriptors", found,
         "let seccomp permit pidfd_open and pidfd_send_signal (Linux 5.3 and later have them)", userdata);
}

/* Whether the child is found, ended, and then gone. */
static void check_ending(pid_t child, tenure_check_fn each, void *userdata) {
    ten_trouble trouble = {0};
    char found[TEXT_SIZE];
    bool seen = ten_tree_first_child(getpid()) > 0;
    bool signalled = ten_tree_signal(child, SIGKILL, &trouble) > 0 && trouble.error == 0;
    if (!signalled)
        (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    bool gone = !ten_process_signal(child, 0, &trouble);
    if (seen && signalled && gone) {
        each(TENURE_CHECK_OK, "process endings", "a child was found, ended and seen to be gone", "", userdata);
        return;
    }
    snprintf(found, sizeof found, "a child was %s, %s and %s (%s)", seen ? "found" : "not found",
             signalled ? "ended" : "not ended", gone ? "seen to be gone" : "not seen to be gone",
             trouble.error ? strerrordesc_np(trouble.error) : "no error");
    each(TENURE_CHECK_FAIL, "process endings", found,
         "give the agent a readable /proc (with /proc/PID/task/TID/children) and leave kill() to it: what it cannot "
         "look at it does not release",
         userdata);
}

void ten_host_check(tenure_check_fn each, void *userdata) {
    check_isolation(each, userdata);
    pid_t child = start_child();
    if (child < 0) {
        each(TENURE_CHECK_FAIL, "process endings", strerrordesc_np(errno),
             "raise the limit of processes: no command can be started", userdata);
        return;
    }
    check_descriptors(child, each, userdata);
    check_ending(child, each, userdata);
}
