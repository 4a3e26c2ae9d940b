/*
 * The process that looks after the health of this host. Called by leader.c and agent.c.
 */
#include "agent/common/health.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/warden/environment.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"

#define STEP_US 10000u

/* ---- in the process that looks */

static void set_signals(void (*handler)(int)) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t none;
    for (size_t i = 0; i < TEN_COUNT(numbers); i++)
        (void)signal(numbers[i], handler);
    (void)signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void run_command(const char *command) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpgid(0, 0);
    set_signals(SIG_DFL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        (void)dup2(null, STDIN_FILENO);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* what the command of the term prints is not mixed with this */
    /* As for polls: nothing of what this program uses to reach the store. */
    char **variables = ten_environment_make(NULL, 0, false);
    if (variables)
        (void)execle("/bin/sh", "sh", "-c", command, (char *)NULL, variables);
    _exit(127);
}

static bool is_well(const char *command, uint64_t every_ms) {
    uint64_t end_ms = ten_now_ms() + every_ms;
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        run_command(command);
    if (pid < 0)
        return false;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && ten_now_ms() < end_ms)
        ten_sleep_us(STEP_US);
    (void)kill(-pid, SIGKILL); /* and what it has left behind */
    if (ended == 0)
        (void)waitpid(pid, &status, 0);
    return ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static _Noreturn void look_for_ever(const char *command, uint64_t every_ms, int fd) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_signals(SIG_IGN);
    for (;;) {
        uint64_t next_ms = ten_now_ms() + every_ms;
        char result = is_well(command, every_ms) ? 1 : 0;
        if (write(fd, &result, 1) != 1 && errno == EPIPE)
            _exit(0);
        ten_sleep_us(ten_sub_saturating(next_ms, ten_now_ms()) * 1000);
    }
}

/* ---- in the worker */

int ten_health_open(ten_health *health, const char *command, uint64_t every_ms, ten_error *error) {
    int fds[2];
    *health = TEN_HEALTH_NONE;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot start the health check");
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[0]);
        look_for_ever(command, every_ms, fds[1]);
    }
    ten_close_fd(&fds[1]);
    if (pid < 0) {
        ten_close_fd(&fds[0]);
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot start the health check");
    }
    health->pid = pid;
    health->fd = fds[0];
    return TENURE_OK;
}

bool ten_health_take(ten_health *health) {
    char result;
    bool before = health->well;
    bool first = !health->known;
    ssize_t size = 0;
    while (health->fd >= 0 && (size = read(health->fd, &result, 1)) == 1) {
        health->known = true;
        health->well = result != 0;
    }
    /* If the process that looks has ended, nothing is known: that counts as a failure. */
    if (health->fd >= 0 && size == 0) {
        ten_close_fd(&health->fd);
        health->known = true;
        health->well = false;
    }
    return health->known && (first || health->well != before);
}

void ten_health_close(ten_health *health) {
    if (health->pid > 0)
        (void)kill(health->pid, SIGKILL);
    health->pid = 0;
    ten_close_fd(&health->fd);
}
