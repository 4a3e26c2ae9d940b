/*
 * Polls by a command: `/bin/sh -c CMD` with the target in its environment; what it writes to standard output is the
 * result. Called by poll.c and the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "agent/tree.h"
#include "base/alloc.h"
#include "base/io.h"

extern char **environ;

/* ---- the environment */

static bool add_variable(char **variables, size_t *count, const char *name, const char *value) {
    size_t size = strlen(name) + strlen(value) + 2;
    char *text = ten_malloc(size);
    if (!text)
        return false;
    snprintf(text, size, "%s=%s", name, value);
    variables[(*count)++] = text;
    return true;
}

static void free_environment(char **variables) {
    for (size_t i = 0; variables && variables[i]; i++)
        ten_free(variables[i]);
    ten_free(variables);
}

static char **make_environment(const struct ten_agent *agent, const struct ten_poll *poll) {
    char token[24];
    char number[24];
    snprintf(token, sizeof token, "%llu", (unsigned long long)poll->token);
    snprintf(number, sizeof number, "%llu", (unsigned long long)poll->number);
    const struct ten_agent_target *target = poll->target;
    const char *const ours[][2] = {
        {"TENURE_TARGET", target->id},
        {"TENURE_TOKEN", token},
        {"TENURE_INSTANCE", agent->instance},
        {"TENURE_NAMESPACE", agent->namespace_name},
        {"TENURE_URL", target->url ? target->url : ""},
        {"TENURE_SPEC", target->spec ? target->spec : ""},
        {TEN_POLL_MARK, number},
    };
    size_t inherited = 0;
    while (environ[inherited])
        inherited++;
    char **variables = ten_calloc(inherited + TEN_COUNT(ours) + 1, sizeof *variables);
    size_t count = 0;
    bool complete = variables != NULL;
    for (size_t i = 0; complete && i < TEN_COUNT(ours); i++)
        complete = add_variable(variables, &count, ours[i][0], ours[i][1]);
    for (size_t i = 0; complete && i < inherited; i++) {
        if (strncmp(environ[i], "TENURE_", 7) == 0)
            continue; /* the agent's own settings are not the poller's */
        complete = (variables[count] = ten_strdup(environ[i])) != NULL;
        count += complete;
    }
    if (complete)
        return variables;
    free_environment(variables);
    return NULL;
}

/* ---- starting */

/* A place in the shared memory, taken for the target's slot before there is a process. */
static bool take_place(struct ten_agent *agent, struct ten_poll *poll) {
    struct ten_shared_state *state = agent->shared->state;
    for (uint32_t i = 0; i < TEN_SHARED_POLLS; i++) {
        struct ten_shared_poll *place = &state->polls[i];
        if (atomic_load(&place->slot) != 0)
            continue;
        atomic_store(&place->pid, 0);
        atomic_store(&place->status, 127 << 8);
        atomic_store(&place->poll, poll->number);
        atomic_store(&place->slot, (uint32_t)(poll->target->handle - agent->shared->slots.slots) + 1);
        if (atomic_load(&state->poll_places) <= i)
            atomic_store(&state->poll_places, i + 1);
        poll->place = i;
        return true;
    }
    return false;
}

static void give_place_back(struct ten_agent *agent, struct ten_poll *poll) {
    struct ten_shared_poll *place = &agent->shared->state->polls[poll->place];
    atomic_store(&place->pid, 0);
    atomic_store(&place->slot, 0);
}

/* What the child needs between fork and exec. There only what is safe after fork in a program with threads may be
 * called, and glibc must not be asked who we are: the process may have been made behind its back. */
struct launch {
    struct ten_shared_poll *place;
    int out_fd;
    int null_fd;
    const char *command;
    char **variables;
};

/* The other end of the pipe is the worker's alone: with the worker it is gone. */
static void exit_without_worker(const struct launch *launch) {
    struct pollfd polled = {.fd = launch->out_fd};
    if (poll(&polled, 1, 0) != 0 && (polled.revents & (POLLERR | POLLNVAL)))
        _exit(127);
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
    sigset_t none;
    (void)setpgid(0, 0);
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(launch->null_fd, STDIN_FILENO) < 0 || dup2(launch->out_fd, STDOUT_FILENO) < 0)
        _exit(127);
    char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)launch->command, NULL};
    execve("/bin/sh", arguments, launch->variables);
    _exit(127);
}

/* The first process of a PID namespace: when it ends, the kernel ends everything in the namespace, however it has
 * detached itself, and only then is its own end told. It waits for the command, and tells how that ended. */
static _Noreturn void be_first(const struct launch *launch) {
    pid_t command = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (command == 0)
        become_command(launch);
    close(launch->out_fd);
    for (;;) {
        int status = 127 << 8; /* exit status 127: no command could be made */
        pid_t ended = command > 0 ? waitpid(-1, &status, 0) : command;
        if (ended < 0 && errno == EINTR)
            continue;
        if (ended > 0 && ended != command)
            continue; /* an orphan of the namespace */
        atomic_store(&launch->place->status, status);
        _exit(0);
    }
}

/* A process for the command: in a PID namespace of its own where that is permitted. 0 in the child. */
static pid_t make_process(struct ten_agent *agent, struct ten_poll *poll) {
    if (!agent->not_isolated) {
        pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
        poll->isolated = pid >= 0;
        if (pid >= 0)
            return pid;
        agent->not_isolated = true;
    }
    return fork();
}

static bool note_pid(struct ten_agent *agent, pid_t pid) {
    if (agent->pid_count == agent->pid_room) {
        unsigned room = agent->pid_room ? agent->pid_room * 2 : 64;
        pid_t *pids = ten_realloc(agent->pids, room * sizeof *pids);
        if (!pids)
            return false;
        agent->pids = pids;
        agent->pid_room = room;
    }
    agent->pids[agent->pid_count++] = pid;
    return true;
}

static void forget_pid(struct ten_agent *agent, pid_t pid) {
    for (unsigned i = 0; i < agent->pid_count; i++)
        if (agent->pids[i] == pid)
            agent->pids[i--] = agent->pids[--agent->pid_count];
}

static bool start_process(struct ten_agent *agent, struct ten_poll *poll, const char *command, char **variables) {
    int ends[2];
    TEN_CLEANUP(ten_close_fd) int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    poll->out_fd = ends[0];
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = poll};
    struct launch launch = {.place = &agent->shared->state->polls[poll->place],
                            .out_fd = ends[1],
                            .null_fd = null_fd,
                            .command = command,
                            .variables = variables};
    pid_t pid = note_pid(agent, 0) && epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, ends[0], &wanted) == 0
                    ? make_process(agent, poll)
                    : -1;
    if (pid == 0) {
        close(ends[0]); /* or it would never be told that the worker is gone */
        wait_until_known(&launch);
        if (poll->isolated)
            be_first(&launch);
        become_command(&launch);
    }
    int failed = errno;
    close(ends[1]);
    forget_pid(agent, 0);
    if (pid > 0) {
        atomic_store(&launch.place->pid, (int32_t)pid);
        poll->pid = pid;
        (void)note_pid(agent, pid);
    }
    errno = failed;
    return pid > 0;
}

bool ten_exec_start(struct ten_agent *agent, struct ten_poll *poll, const char *command) {
    char **variables = make_environment(agent, poll);
    if (!variables) {
        ten_poll_fail(poll, "out of memory");
        return false;
    }
    if (!take_place(agent, poll)) {
        free_environment(variables);
        ten_poll_fail(poll, "more than %u commands at a time", TEN_SHARED_POLLS);
        return false;
    }
    bool started = start_process(agent, poll, command, variables);
    if (!started) {
        ten_poll_fail(poll, "cannot start the command: %s", strerrordesc_np(errno));
        give_place_back(agent, poll);
    }
    free_environment(variables);
    return started;
}

/* ---- output and end */

void ten_exec_read(struct ten_agent *agent, struct ten_poll *poll) {
    char chunk[16384];
    ssize_t count;
    while ((count = ten_read_some(poll->out_fd, chunk, sizeof chunk)) > 0) {
        if (poll->output.size + (size_t)count > TEN_OUTPUT_MAX) {
            if (poll->phase == TEN_POLL_RUNNING)
                ten_poll_end(agent, poll, false, "the output is over 1 MiB");
            continue;
        }
        ten_buf_add(&poll->output, chunk, (size_t)count);
    }
    if (count == 0 || count != -EAGAIN) {
        (void)epoll_ctl(agent->epoll_fd, EPOLL_CTL_DEL, poll->out_fd, NULL);
        ten_close_fd(&poll->out_fd);
    }
}

void ten_exec_signal(struct ten_agent *agent, struct ten_poll *poll, int signal) {
    if (!poll->exited)
        (void)ten_tree_signal(poll->pid, signal);
    if (!poll->isolated)
        (void)ten_tree_signal_orphans(getpid(), poll->number, agent->pids, agent->pid_count, signal);
}

bool ten_exec_is_gone(struct ten_agent *agent, struct ten_poll *poll, int signal) {
    return poll->exited && (poll->isolated || ten_tree_signal_orphans(getpid(), poll->number, agent->pids,
                                                                      agent->pid_count, signal) == 0);
}

static struct ten_poll *find_poll(struct ten_agent *agent, pid_t pid) {
    for (uint32_t i = 0; i < agent->target_room; i++)
        if (agent->targets[i] && agent->targets[i]->poll && agent->targets[i]->poll->pid == pid)
            return agent->targets[i]->poll;
    return NULL;
}

void ten_exec_reap(struct ten_agent *agent) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        struct ten_poll *poll = find_poll(agent, pid);
        if (!poll || poll->exited)
            continue; /* an orphan that was adopted */
        poll->exited = true;
        forget_pid(agent, pid);
        if (poll->isolated && !WIFSIGNALED(status))
            status = atomic_load(&agent->shared->state->polls[poll->place].status);
        if (WIFSIGNALED(status))
            ten_poll_fail(poll, "killed by signal %d", WTERMSIG(status));
        else if (WEXITSTATUS(status) != 0)
            ten_poll_fail(poll, "exit status %d", WEXITSTATUS(status));
        if (poll->out_fd >= 0)
            ten_exec_read(agent, poll);
        ten_poll_finished(agent, poll);
    }
}

void ten_exec_free(struct ten_agent *agent, struct ten_poll *poll) {
    if (poll->out_fd >= 0) {
        (void)epoll_ctl(agent->epoll_fd, EPOLL_CTL_DEL, poll->out_fd, NULL);
        ten_close_fd(&poll->out_fd);
    }
    give_place_back(agent, poll);
}
