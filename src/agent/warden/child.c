/*
 * Commands in processes of their own. Called by poll_exec.c and leader.c.
 */
#include "agent/warden/child.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/warden/tree.h"
#include "base/alloc.h"
#include "base/util.h"

extern char **environ;

#define NOT_FOUND      127
#define NOT_EXECUTABLE 126

/* ---- the environment */

static char *make_variable(const char *name, const char *value) {
    size_t size = strlen(name) + strlen(value) + 2;
    char *text = ten_malloc(size);
    if (text)
        snprintf(text, size, "%s=%s", name, value);
    return text;
}

void ten_environment_free(char **variables) {
    for (size_t i = 0; variables && variables[i]; i++)
        ten_free(variables[i]);
    ten_free(variables);
}

static bool is_replaced(const char *variable, const char *const (*ours)[2], size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(ours[i][0]);
        if (strncmp(variable, ours[i][0], length) == 0 && variable[length] == '=')
            return true;
    }
    return false;
}

char **ten_environment_make(const char *const (*ours)[2], size_t count, bool keep_ours) {
    size_t inherited = 0;
    while (environ[inherited])
        inherited++;
    char **variables = ten_calloc(inherited + count + 1, sizeof *variables);
    size_t made = 0;
    bool complete = variables != NULL;
    for (size_t i = 0; complete && i < count; i++)
        complete = (variables[made++] = make_variable(ours[i][0], ours[i][1])) != NULL;
    for (size_t i = 0; complete && i < inherited; i++) {
        bool is_ours = strncmp(environ[i], "TENURE_", 7) == 0;
        if (is_ours && (!keep_ours || is_replaced(environ[i], ours, count)))
            continue;
        complete = (variables[made++] = ten_strdup(environ[i])) != NULL;
    }
    if (complete)
        return variables;
    ten_environment_free(variables);
    return NULL;
}

/* ---- places in the shared memory */

/* Taken before there is a process. */
static bool take_place(ten_children *children, ten_child *child, uint32_t belief) {
    struct ten_shared_state *state = children->shared->state;
    for (uint32_t i = 0; i < TEN_SHARED_POLLS; i++) {
        struct ten_shared_poll *place = &state->polls[i];
        if (atomic_load(&place->belief) != 0)
            continue;
        atomic_store(&place->pid, 0);
        atomic_store(&place->status, NOT_FOUND << 8);
        atomic_store(&place->exec_error, 0);
        atomic_store(&place->poll, child->mark);
        atomic_store(&place->belief, belief == TEN_CHILD_UNBOUND ? TEN_SHARED_UNBOUND : belief + 1);
        if (atomic_load(&state->poll_places) <= i)
            atomic_store(&state->poll_places, i + 1);
        child->place = i;
        return true;
    }
    errno = EAGAIN;
    return false;
}

static void give_place_back(ten_children *children, const ten_child *child) {
    struct ten_shared_poll *place = &children->shared->state->polls[child->place];
    atomic_store(&place->pid, 0);
    atomic_store(&place->belief, 0);
}

/* ---- between fork and exec: only what is safe there in a program with threads may be called, and glibc must not be
 * asked who we are, because the process may have been made behind its back */

struct launch {
    const ten_child_config *config;
    struct ten_shared_poll *place;
};

/* With the worker the other end of the pipe is gone. */
static void exit_without_worker(const struct launch *launch) {
    struct pollfd polled = {.fd = launch->config->alive_fd};
    if (poll(&polled, 1, 0) != 0 && (polled.revents & (POLLERR | POLLNVAL)))
        _exit(NOT_FOUND);
}

/* From here on the kernel ends this process with the worker; and the warden knows of it. */
static void wait_until_known(const struct launch *launch) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    do {
        exit_without_worker(launch);
        (void)sched_yield();
    } while (atomic_load(&launch->place->pid) == 0);
}

static _Noreturn void become_command(const struct launch *launch) {
    const ten_child_config *config = launch->config;
    sigset_t none;
    if (config->own_group)
        (void)setpgid(0, 0);
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if ((config->in_fd >= 0 && dup2(config->in_fd, STDIN_FILENO) < 0) ||
        (config->out_fd >= 0 && dup2(config->out_fd, STDOUT_FILENO) < 0))
        _exit(NOT_FOUND);
    execvpe(config->arguments[0], config->arguments, config->variables);
    int failed = errno;
    atomic_store(&launch->place->exec_error, failed);
    _exit(failed == ENOENT || failed == ENOTDIR ? NOT_FOUND : NOT_EXECUTABLE);
}

/* The first process of a PID namespace: when it ends, the kernel ends everything in the namespace, however it has
 * detached itself, and only then is its own end told. It waits for the command, and tells how that ended. */
static _Noreturn void be_first(const struct launch *launch) {
    pid_t command = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (command == 0)
        become_command(launch);
    close(launch->config->alive_fd);
    for (;;) {
        int status = NOT_FOUND << 8; /* no command could be made */
        pid_t ended = command > 0 ? waitpid(-1, &status, 0) : command;
        if (ended < 0 && errno == EINTR)
            continue;
        if (ended > 0 && ended != command)
            continue; /* an orphan of the namespace */
        atomic_store(&launch->place->status, status);
        _exit(0);
    }
}

/* ---- starting */

/* In a PID namespace of its own where that is permitted. 0 in the child. */
static pid_t make_process(ten_children *children, ten_child *child, struct ten_shared_poll *place) {
    if (!children->not_isolated) {
        /* The kernel itself makes it known, before it runs. */
        pid_t pid =
            (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_PARENT_SETTID | SIGCHLD, NULL, &place->pid, NULL, NULL);
        child->isolated = pid >= 0;
        if (pid >= 0)
            return pid;
        children->not_isolated = true;
    }
    return fork();
}

static bool note_pid(ten_children *children, pid_t pid) {
    if (children->count == children->room) {
        unsigned room = children->room ? children->room * 2 : 64;
        pid_t *pids = ten_realloc(children->pids, room * sizeof *pids);
        if (!pids)
            return false;
        children->pids = pids;
        children->room = room;
    }
    children->pids[children->count++] = pid;
    return true;
}

static void forget_pid(ten_children *children, pid_t pid) {
    for (unsigned i = 0; i < children->count; i++)
        if (children->pids[i] == pid)
            children->pids[i--] = children->pids[--children->count];
}

bool ten_child_start(ten_children *children, const ten_child_config *config, ten_child *child) {
    *child = (ten_child){.mark = config->mark};
    if (!take_place(children, child, config->belief))
        return false;
    struct launch launch = {.config = config, .place = &children->shared->state->polls[child->place]};
    pid_t pid = note_pid(children, 0) ? make_process(children, child, launch.place) : -1;
    if (pid == 0) {
        close(config->worker_fd); /* or it would never be told that the worker is gone */
        wait_until_known(&launch);
        if (child->isolated)
            be_first(&launch);
        become_command(&launch);
    }
    int failed = errno;
    forget_pid(children, 0);
    if (pid > 0) {
        atomic_store(&launch.place->pid, (int32_t)pid);
        child->pid = pid;
        (void)note_pid(children, pid);
    } else {
        give_place_back(children, child);
    }
    errno = failed;
    return pid > 0;
}

/* ---- ending */

bool ten_child_reaped(ten_children *children, ten_child *child, pid_t pid, int status) {
    if (child->pid != pid || child->exited)
        return false;
    child->exited = true;
    forget_pid(children, pid);
    const struct ten_shared_poll *place = &children->shared->state->polls[child->place];
    bool told = child->isolated && !WIFSIGNALED(status);
    child->status = told ? atomic_load(&place->status) : status;
    child->exec_error = atomic_load(&place->exec_error);
    return true;
}

void ten_child_signal(const ten_children *children, const ten_child *child, int signal) {
    if (!child->exited)
        (void)ten_tree_signal(child->pid, signal);
    if (!child->isolated)
        (void)ten_tree_signal_orphans(getpid(), child->mark, children->pids, children->count, signal);
}

void ten_child_pass(const ten_child *child, int signal) {
    if (child->exited)
        return;
    pid_t command = child->isolated ? ten_tree_first_child(child->pid) : child->pid;
    if (command > 0)
        (void)kill(command, signal);
}

enum ten_work_left ten_child_left(const ten_children *children, const ten_child *child, const ten_work *work) {
    if (!child->pid)
        return TEN_WORK_NONE;
    if (!child->exited)
        return TEN_WORK_ALL;
    int signal = work->state == TEN_WORK_KILLED ? SIGKILL : SIGTERM;
    bool gone =
        child->isolated || ten_tree_signal_orphans(getpid(), child->mark, children->pids, children->count, signal) == 0;
    return gone ? TEN_WORK_NONE : TEN_WORK_LEFTOVERS;
}

void ten_child_forget(ten_children *children, ten_child *child) {
    give_place_back(children, child);
    *child = (ten_child){0};
}

void ten_children_free(ten_children *children) {
    ten_free(children->pids);
    children->pids = NULL;
}
