/*
 * Runs by a command: `/bin/sh -c CMD` with the target in its environment; what it writes to standard output is the result.
 * Called by the policies, by run.c and by the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/runner/agent_state.h"
#include "agent/warden/environment.h"
#include "agent/warden/tree.h"
#include "base/io.h"

#define REAP_MAX      512
#define VARIABLES_MAX 8

/* ---- output */

static void close_output(struct ten_agent *agent, struct ten_target_run *run) {
    (void)epoll_ctl(agent->runner.epoll_fd, EPOLL_CTL_DEL, run->out_fd, NULL);
    ten_close_fd(&run->out_fd);
}

static void take_output(void *owner) {
    struct ten_target_run *run = owner;
    struct ten_agent *agent = run->agent;
    char chunk[16384];
    ssize_t count;
    while ((count = ten_read_some(run->out_fd, chunk, sizeof chunk)) > 0) {
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

static bool start_process(struct ten_agent *agent, struct ten_target_run *run, const char *command, char **variables) {
    int ends[2];
    TEN_CLEANUP(ten_close_fd) int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    run->out_fd = ends[0];
    run->watched = (ten_watched){.ready = take_output, .owner = run, .may_vanish = true};
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    char *const arguments[] = {(char *)"/bin/sh", (char *)"-c", (char *)command, NULL};
    const ten_belief *belief = run->target->handle.belief;
    ten_child_config config = {.arguments = arguments,
                               .variables = variables,
                               .mark = run->mark,
                               .belief = (uint32_t)(belief - ten_beliefs_at(&agent->runner.shared->beliefs, 0)),
                               .in_fd = null_fd,
                               .out_fd = ends[1],
                               .alive_fd = ends[1],
                               .worker_fd = ends[0],
                               .own_group = true};
    bool started = ten_runner_watch(&agent->runner, ends[0], &run->watched, NULL) == TENURE_OK &&
                   ten_child_start(&agent->runner.children, &config, &run->child);
    int failed = errno;
    close(ends[1]);
    errno = failed;
    return started;
}

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

void ten_run_command_start(struct ten_agent *agent, struct ten_target_run *run, const char *command,
                           const char *const (*variables)[2], size_t count) {
    char token[24];
    char mark[24];
    run->by_command = true;
    run->mark = ten_tree_new_mark();
    snprintf(token, sizeof token, "%llu", (unsigned long long)run->work.token);
    snprintf(mark, sizeof mark, "%llu", (unsigned long long)run->mark);
    const char *ours[VARIABLES_MAX][2] = {{TEN_POLL_MARK, mark},
                                          {"TENURE_TOKEN", token},
                                          {"TENURE_INSTANCE", agent->runner.instance},
                                          {"TENURE_NAMESPACE", agent->namespace_name}};
    TEN_INVARIANT(count + 4 <= VARIABLES_MAX);
    memcpy(ours + 4, variables, count * sizeof *ours);
    /* The agent's own settings are not the command's. */
    char **made = ten_environment_make((const char *const(*)[2])ours, count + 4, false);
    if (!made)
        ten_run_fail(run, "out of memory");
    else if (!start_process(agent, run, command, made))
        fail_to_start(run, errno);
    ten_environment_free(made);
}

/* ---- its end */

/* The shell uses two exit statuses for what it could not run. What else ends with them has its own message on stderr. */
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
    if (run->out_fd >= 0)
        take_output(run);
    return run;
}

/* All that have ended are reaped before the first is looked at: what they have left behind is found in one walk. */
void ten_run_command_reap(struct ten_agent *agent) {
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
    if (run->out_fd >= 0)
        close_output(agent, run);
    if (run->child.pid)
        ten_child_forget(&agent->runner.children, &run->child);
}
