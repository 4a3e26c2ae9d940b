/*
 * Runs by a command: `/bin/sh -c CMD` with the target in its environment; what it writes to standard output is the
 * result. Called by the policies, by run.c and by the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/runner/agent_state.h"
#include "base/io.h"

#define REAP_MAX 512

/* ---- output */

static void close_output(struct ten_agent *agent, struct ten_target_run *run) {
    (void)epoll_ctl(agent->runner.epoll_fd, EPOLL_CTL_DEL, run->child.pipe_fd, NULL);
    ten_close_fd(&run->child.pipe_fd);
}

static void take_output(void *owner) {
    struct ten_target_run *run = owner;
    struct ten_agent *agent = run->agent;
    char chunk[16384];
    ssize_t count;
    while ((count = ten_read_some(run->child.pipe_fd, chunk, sizeof chunk)) > 0) {
        if (!agent->policy->keeps_output)
            ten_buf_clear(&run->output);
        if (run->output.size + (size_t)count > TEN_OUTPUT_MAX) {
            ten_run_end(agent, run, "the output is over 1 MiB");
            continue;
        }
        ten_buf_add(&run->output, chunk, (size_t)count);
    }
    if (count == 0 || count != -EAGAIN)
        close_output(agent, run);
}

/* ---- starting */

/* What to do about a limit, where it is one. */
static void fail_to_start(struct ten_target_run *run, int error) {
    switch (error) {
    case EUSERS:
        ten_run_fail(run, "cannot start the command: %u commands are running, and one agent runs no more",
                     TEN_SHARED_POLLS);
        break;
    case EMFILE:
        ten_run_fail(run, "cannot start the command: too many open files; raise the hard limit (ulimit -Hn, "
                          "LimitNOFILE=)");
        break;
    case EAGAIN:
        ten_run_fail(run, "cannot start the command: too many processes; raise the limit (ulimit -u, TasksMax=)");
        break;
    case E2BIG:
        ten_run_fail(run, "cannot start the command: its environment is too long; shorten the target's spec or url");
        break;
    default:
        ten_run_fail(run, "cannot start the command: %s", strerrordesc_np(error));
    }
}

void ten_run_command_start(struct ten_agent *agent, struct ten_target_run *run, const char *text,
                           const char *const (*variables)[2], size_t count) {
    char token[24];
    snprintf(token, sizeof token, "%llu", (unsigned long long)run->work.token);
    const char *all[TEN_COMMAND_VARIABLES][2] = {{"TENURE_TOKEN", token},
                                                 {"TENURE_INSTANCE", agent->runner.instance},
                                                 {"TENURE_NAMESPACE", agent->namespace_name}};
    TEN_INVARIANT(count + 3 <= TEN_COMMAND_VARIABLES);
    memcpy(all + 3, variables, count * sizeof *all);
    char *const arguments[] = {(char *)"/bin/sh", (char *)"-c", (char *)text, NULL};
    /* The agent's own settings are not the command's. */
    const ten_child_command command = {.arguments = arguments,
                                       .variables = (const char *const(*)[2])all,
                                       .variable_count = count + 3,
                                       .captured = true};
    const ten_belief *first = ten_beliefs_at(&agent->runner.shared->beliefs, 0);
    const ten_belief *belief = run->target->handle.belief;
    run->by_command = true;
    if (!ten_child_start(&agent->runner.children, &command, (uint32_t)(belief - first), &run->child)) {
        fail_to_start(run, errno);
        return;
    }
    (void)fcntl(run->child.pipe_fd, F_SETFL, O_NONBLOCK);
    run->watched = (ten_watched){.ready = take_output, .owner = run, .may_vanish = true};
    if (ten_runner_watch(&agent->runner, run->child.pipe_fd, &run->watched, NULL) < 0)
        ten_run_end(agent, run, "cannot read the output");
}

/* ---- its end */

/* The shell uses two exit statuses for what it could not run. What else ends with them has its own message on
 * stderr. */
static void fail_with_status(struct ten_target_run *run, int status) {
    static const char *const words[] = {": the shell cannot run the command", ": the shell did not find the command"};
    ten_run_fail(run, "exit status %d%s", status, status == 126 || status == 127 ? words[status - 126] : "");
}

/* The run whose command was reaped, with how it ended; NULL: it was an orphan that was adopted. */
static struct ten_target_run *take_reaped(struct ten_agent *agent, pid_t pid, int status) {
    ten_child *child = ten_children_find(&agent->runner.children, pid);
    if (!child || !ten_child_reaped(&agent->runner.children, child, pid, status))
        return NULL;
    struct ten_target_run *run = (struct ten_target_run *)((char *)child - offsetof(struct ten_target_run, child));
    status = child->status;
    if (child->ended_for_lease) { /* the warden was the first to see that */
        ten_run_fail(run, "the lease was not renewed in time");
        ten_work_ended_for_lease(&run->work);
    }
    run->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    run->exit_code = run->signal ? 128 + run->signal : WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        ten_run_fail(run, "killed by signal %d", WTERMSIG(status));
    else if (child->exec_error)
        fail_to_start(run, child->exec_error);
    else if (WEXITSTATUS(status) != 0)
        fail_with_status(run, WEXITSTATUS(status));
    if (run->child.pipe_fd >= 0)
        take_output(run);
    return run;
}

/* All that have ended are reaped before the first is looked at: what they have left behind is found in one walk. */
void ten_run_command_reap(ten_runner *runner) {
    struct ten_agent *agent = (struct ten_agent *)runner;
    struct ten_target_run *runs[REAP_MAX];
    size_t count;
    pid_t pid;
    do {
        int status;
        count = 0;
        while (count < REAP_MAX && (pid = ten_children_reap(&agent->runner.children, &status)) > 0) {
            struct ten_target_run *run = take_reaped(agent, pid, status);
            if (run)
                runs[count++] = run;
        }
        for (size_t i = 0; i < count; i++)
            ten_run_look(agent, runs[i]);
    } while (count == REAP_MAX);
}

void ten_run_command_free(struct ten_agent *agent, struct ten_target_run *run) {
    if (run->child.pipe_fd >= 0)
        close_output(agent, run);
    if (run->child.pid)
        ten_child_forget(&agent->runner.children, &run->child);
}
