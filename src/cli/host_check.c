/*
 * What `tenure doctor` finds in this host: see host_check.h.
 */
#include "cli/host_check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/warden/tree.h"
#include "base/clock.h"
#include "base/io.h"

#define TEXT_SIZE   700
#define ENDING_MS   2000u
#define CHILD_COUNT 2u /* a child, and one of its own */

/* ---- isolation */

static const char *reason(const ten_isolation_found *found, enum ten_isolation form) {
    if (form == TEN_ISOLATION_USER_NAMESPACE && found->capable)
        return "it would take the commands' capabilities away; --pid-namespace on uses it all the same";
    return found->errors[form] ? strerrordesc_np(found->errors[form]) : "not tried";
}

static void describe_obstacles(const ten_isolation_found *found, char text[TEXT_SIZE]) {
    snprintf(text, TEXT_SIZE,
             "for a PID namespace, run it as root or with CAP_SYS_ADMIN (%s); for a control group, let the service "
             "manager delegate one of version 2 with Delegate=yes, on Linux 5.14 or later (%s); for a user namespace, "
             "let the kernel and seccomp permit clone(CLONE_NEWUSER) (%s)",
             reason(found, TEN_ISOLATION_PID_NAMESPACE), reason(found, TEN_ISOLATION_CGROUP),
             reason(found, TEN_ISOLATION_USER_NAMESPACE));
}

static void check_form(const ten_isolation_found *found, tenure_check_fn each, void *userdata) {
    static const char *const texts[] = {
        [TEN_ISOLATION_PID_NAMESPACE] = "pid-namespace: the kernel ends each command with everything that it started",
        [TEN_ISOLATION_CGROUP] = ("cgroup: the kernel ends each command with everything that it started, unless "
                                  "warden and worker are killed together"),
        [TEN_ISOLATION_USER_NAMESPACE] = "user-namespace: the kernel ends each command with everything that it started",
        [TEN_ISOLATION_NONE] = "none: what a command has detached is found by its mark, and survives a killed warden"};
    char text[TEXT_SIZE];
    char advice[TEXT_SIZE] = "";
    enum ten_isolation form = found->form;
    int error = found->errors[form];
    snprintf(text, sizeof text, "%s", texts[form]);
    if (form == TEN_ISOLATION_NONE)
        describe_obstacles(found, advice);
    if (error != 0) {
        snprintf(text, sizeof text, "%s: not at this moment (%s)", ten_isolation_name(form), strerrordesc_np(error));
        snprintf(advice, sizeof advice,
                 "raise the limits of processes and descriptors (ulimit -u, ulimit -n, pids.max)");
    }
    bool weak = form == TEN_ISOLATION_NONE || error != 0;
    each(weak ? TENURE_CHECK_WARN : TENURE_CHECK_OK, "process isolation", text, advice, userdata);
}

/* ---- programs that become another user, or gain capabilities */

static bool may_signal_everybody(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & (1u << CAP_KILL));
}

static void check_set_uid(const ten_isolation_found *found, tenure_check_fn each, void *userdata) {
    const char *check = "set-uid commands";
    enum ten_isolation form = found->form;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        each(TENURE_CHECK_OK, check, "set-uid bits and file capabilities have no effect: no_new_privs is set", "",
             userdata);
    else if (form == TEN_ISOLATION_PID_NAMESPACE)
        each(TENURE_CHECK_OK, check, "they end with their command", "", userdata);
    else if (form == TEN_ISOLATION_USER_NAMESPACE)
        each(TENURE_CHECK_OK, check, "set-uid bits and file capabilities have no effect in a user namespace",
             "if commands need sudo, ping or the like, have a control group delegated (Delegate=yes), or use "
             "--pid-namespace off",
             userdata);
    else if (form == TEN_ISOLATION_CGROUP)
        each(TENURE_CHECK_OK, check, "they end with their command; they survive if warden and worker are both killed",
             "", userdata);
    else
        each(TENURE_CHECK_WARN, check,
             may_signal_everybody() ? "they can be ended, but survive a killed warden"
                                    : "one that has become another user cannot be ended: it keeps its target, and "
                                      "survives a killed warden",
             "set NoNewPrivileges=yes if no command needs them; else allow one of the forms of isolation above",
             userdata);
}

int ten_host_check_isolation(enum ten_isolation_wish wish) {
    ten_isolation_found found;
    if (wish != TEN_ISOLATION_REQUIRED)
        return TEN_EXIT_DONE;
    (void)signal(SIGCHLD, SIG_DFL); /* if it is ignored, waitpid() reports no status */
    ten_isolation_find(wish, &found);
    ten_isolation_free(&found);
    if (found.form != TEN_ISOLATION_NONE)
        return TEN_EXIT_DONE;
    fprintf(stderr,
            "tenure: --pid-namespace on: this process can make neither a PID namespace (%s) nor a user namespace with "
            "one (%s). Run it as root or with CAP_SYS_ADMIN, let the kernel and seccomp permit clone(CLONE_NEWUSER), "
            "or use --pid-namespace auto.\n",
            strerrordesc_np(found.errors[TEN_ISOLATION_PID_NAMESPACE]),
            strerrordesc_np(found.errors[TEN_ISOLATION_USER_NAMESPACE]));
    return TEN_EXIT_FAILED;
}

/* ---- ending */

/* A child with one of its own, both of which wait for their end. */
static pid_t start_children(void) {
    int ends[2];
    char byte;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0)
            (void)ten_write_all(ends[1], "x", 1);
        close(ends[1]);
        for (;;)
            pause();
    }
    TEN_KEEP_ERRNO;
    close(ends[1]);
    if (child > 0)
        (void)ten_read_some(ends[0], &byte, 1);
    close(ends[0]);
    return child;
}

static void check_descriptors(pid_t child, tenure_check_fn each, void *userdata) {
    TEN_CLEANUP(ten_close_fd) int fd = (int)syscall(SYS_pidfd_open, child, 0);
    char found[TEXT_SIZE];
    bool sent = fd >= 0 && syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0;
    if (sent) {
        each(TENURE_CHECK_OK, "process descriptors", "pidfd_open() and pidfd_send_signal() work", "", userdata);
        return;
    }
    snprintf(found, sizeof found, "%s(): %s; processes are signalled by number with kill()",
             fd < 0 ? "pidfd_open" : "pidfd_send_signal", strerrordesc_np(errno));
    each(TENURE_CHECK_WARN, "process descriptors", found,
         "let seccomp permit pidfd_open and pidfd_send_signal (Linux 5.3 and later have them): a number may become "
         "another process's between looking and signalling",
         userdata);
}

/* Everything below this process is reaped as it ends. */
static bool all_end(void) {
    uint64_t end_ms = ten_now_ms() + ENDING_MS;
    while (ten_process_has_children() && ten_now_ms() < end_ms)
        if (waitpid(-1, NULL, WNOHANG) <= 0)
            ten_sleep_us(1000);
    return !ten_process_has_children();
}

/* Whether the child is found with its own child, both are ended, and then seen to be gone. */
static void check_ending(pid_t child, tenure_check_fn each, void *userdata) {
    ten_trouble trouble = {0};
    char found[TEXT_SIZE];
    unsigned seen = ten_tree_signal(child, 0, &trouble);
    (void)ten_tree_signal(child, SIGKILL, &trouble);
    if (trouble.error != 0)
        (void)kill(child, SIGKILL);
    bool ended = all_end();
    bool gone = ten_tree_signal(child, 0, &trouble) == 0;
    if (seen == CHILD_COUNT && ended && gone && trouble.error == 0) {
        each(TENURE_CHECK_OK, "process endings", "a child and its own child were found, ended and seen to be gone", "",
             userdata);
        return;
    }
    snprintf(found, sizeof found, "of a child and its own child %u were found; they were %s, %s (%s)", seen,
             ended ? "ended" : "not ended", gone ? "and seen to be gone" : "but not seen to be gone",
             trouble.error ? ten_trouble_text(&trouble) : "no error");
    each(TENURE_CHECK_FAIL, "process endings", found,
         "mount the /proc of this PID namespace, with /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN), and let "
         "seccomp permit kill(): without them, what a command leaves behind keeps its target",
         userdata);
}

void ten_host_check(tenure_check_fn each, void *userdata) {
    ten_isolation_found isolation;
    (void)signal(SIGCHLD, SIG_DFL); /* if it is ignored, waitpid() reports no status */
    ten_isolation_find(TEN_ISOLATION_AUTO, &isolation);
    ten_isolation_free(&isolation);
    check_form(&isolation, each, userdata);
    check_set_uid(&isolation, each, userdata);
    ten_tree_adopt();
    pid_t child = start_children();
    if (child < 0) {
        each(TENURE_CHECK_FAIL, "process endings", strerrordesc_np(errno),
             "raise the limits of processes and descriptors: no command can be started", userdata);
        return;
    }
    check_descriptors(child, each, userdata);
    check_ending(child, each, userdata);
}
