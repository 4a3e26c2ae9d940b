/*
 * Polls by a command: `/bin/sh -c CMD` with the target in its environment; what it writes to standard output is the
 * result. Called by poll.c and the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
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

/* In the child, between fork and exec: only what is safe after fork in a program with threads. */
static _Noreturn void become_command(struct ten_shared_poll *place, pid_t worker, int out_fd, int null_fd,
                                     const char *command, char **variables) {
    sigset_t none;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != worker)
        _exit(127); /* the worker died before this could be noticed */
    atomic_store(&place->pid, (int32_t)getpid());
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0)
        _exit(127);
    char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)command, NULL};
    execve("/bin/sh", arguments, variables);
    _exit(127);
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
    pid_t worker = getpid();
    pid_t pid = note_pid(agent, 0) && epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, ends[0], &wanted) == 0 ? fork() : -1;
    if (pid == 0)
        become_command(&agent->shared->state->polls[poll->place], worker, ends[1], null_fd, command, variables);
    close(ends[1]);
    forget_pid(agent, 0);
    if (pid > 0) {
        poll->pid = pid;
        (void)note_pid(agent, pid);
    }
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
    (void)ten_tree_signal_orphans(getpid(), poll->number, agent->pids, agent->pid_count, signal);
}

bool ten_exec_is_gone(struct ten_agent *agent, struct ten_poll *poll, int signal) {
    return poll->exited && ten_tree_signal_orphans(getpid(), poll->number, agent->pids, agent->pid_count, signal) == 0;
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
