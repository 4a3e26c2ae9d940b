/*
 * Polls by a command: `/bin/sh -c CMD` with the target in its environment; what it writes to standard output is the
 * result. Called by poll.c and the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/cron/jobs.h"
#include "agent/poller/agent_state.h"
#include "agent/warden/environment.h"
#include "agent/warden/tree.h"
#include "base/io.h"
#include "runtime/member.h"

#define REAP_MAX 512

/* ---- starting */

static char **make_job_environment(const struct ten_agent *agent, const struct ten_poll *poll) {
    char token[24];
    char mark[24];
    char instant[TEN_RFC3339_SIZE];
    snprintf(token, sizeof token, "%llu", (unsigned long long)poll->work.token);
    snprintf(mark, sizeof mark, "%llu", (unsigned long long)poll->mark);
    ten_rfc3339((uint64_t)poll->target->job->job.instant_ms, instant);
    const char *const ours[][2] = {
        {"TENURE_JOB", poll->target->id},
        {"TENURE_INSTANT", instant},
        {"TENURE_TOKEN", token},
        {"TENURE_INSTANCE", agent->instance},
        {"TENURE_NAMESPACE", agent->namespace_name},
        {TEN_POLL_MARK, mark},
    };
    return ten_environment_make(ours, TEN_COUNT(ours), false);
}

static char **make_environment(const struct ten_agent *agent, const struct ten_poll *poll) {
    char token[24];
    char mark[24];
    snprintf(token, sizeof token, "%llu", (unsigned long long)poll->work.token);
    snprintf(mark, sizeof mark, "%llu", (unsigned long long)poll->mark);
    const struct ten_agent_target *target = poll->target;
    char checkpoint[TENURE_CHECKPOINT_MAX + 1];
    size_t kept = ten_member_checkpoint(agent->member, target->id, poll->work.token, checkpoint);
    const char *const ours[][2] = {
        {"TENURE_TARGET", target->id},
        {"TENURE_TOKEN", token},
        {"TENURE_INSTANCE", agent->instance},
        {"TENURE_NAMESPACE", agent->namespace_name},
        {"TENURE_URL", target->url ? target->url : ""},
        {"TENURE_SPEC", target->spec ? target->spec : ""},
        {TEN_POLL_MARK, mark},
        {"TENURE_CHECKPOINT", checkpoint}, /* the last: it is left out when there is none */
    };
    /* The agent's own settings are not the poller's. */
    return ten_environment_make(ours, TEN_COUNT(ours) - (kept == 0), false);
}

static bool start_process(struct ten_agent *agent, struct ten_poll *poll, const char *command, char **variables) {
    int ends[2];
    TEN_CLEANUP(ten_close_fd) int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    poll->out_fd = ends[0];
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = poll};
    char *const arguments[] = {(char *)"/bin/sh", (char *)"-c", (char *)command, NULL};
    const ten_belief *belief = poll->target->handle.belief;
    ten_child_config config = {.arguments = arguments,
                               .variables = variables,
                               .mark = poll->mark,
                               .belief = (uint32_t)(belief - ten_beliefs_at(&agent->shared->beliefs, 0)),
                               .in_fd = null_fd,
                               .out_fd = ends[1],
                               .alive_fd = ends[1],
                               .worker_fd = ends[0],
                               .own_group = true};
    bool started = epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, ends[0], &wanted) == 0 &&
                   ten_child_start(&agent->children, &config, &poll->child);
    int failed = errno;
    close(ends[1]);
    errno = failed;
    return started;
}

/* What to do about a limit, where it is one. */
static void fail_to_start(struct ten_poll *poll, int error) {
    switch (error) {
    case EUSERS:
        ten_poll_fail(poll, "cannot start the command: %u commands are running, and one agent runs no more",
                      TEN_SHARED_POLLS);
        break;
    case EMFILE:
        ten_poll_fail(poll, "cannot start the command: too many open files; raise the hard limit (ulimit -Hn, "
                            "LimitNOFILE=)");
        break;
    case EAGAIN:
        ten_poll_fail(poll, "cannot start the command: too many processes; raise the limit (ulimit -u, TasksMax=)");
        break;
    case E2BIG:
        ten_poll_fail(poll, "cannot start the command: its environment is too long; shorten the target's spec or url");
        break;
    default:
        ten_poll_fail(poll, "cannot start the command: %s", strerrordesc_np(error));
    }
}

bool ten_exec_start(struct ten_agent *agent, struct ten_poll *poll, const char *command) {
    poll->by_command = true;
    poll->mark = ten_tree_new_mark();
    char **variables = poll->target->job ? make_job_environment(agent, poll) : make_environment(agent, poll);
    bool started = variables && start_process(agent, poll, command, variables);
    if (!variables)
        ten_poll_fail(poll, "out of memory");
    else if (!started)
        fail_to_start(poll, errno);
    ten_environment_free(variables);
    return started;
}

/* ---- output and end */

void ten_exec_read(struct ten_agent *agent, struct ten_poll *poll) {
    char chunk[16384];
    ssize_t count;
    while ((count = ten_read_some(poll->out_fd, chunk, sizeof chunk)) > 0) {
        if (poll->target->job) /* of a job only the last words are shown */
            ten_buf_clear(&poll->output);
        if (poll->output.size + (size_t)count > TEN_OUTPUT_MAX) {
            ten_poll_end(agent, poll, "the output is over 1 MiB");
            continue;
        }
        ten_buf_add(&poll->output, chunk, (size_t)count);
    }
    if (count == 0 || count != -EAGAIN) {
        (void)epoll_ctl(agent->epoll_fd, EPOLL_CTL_DEL, poll->out_fd, NULL);
        ten_close_fd(&poll->out_fd);
    }
}

/* The shell uses two exit statuses for what it could not run. What else ends with them has its own message on stderr. */
static void fail_with_status(struct ten_poll *poll, int status) {
    static const char *const words[] = {": the shell cannot run the command", ": the shell did not find the command"};
    ten_poll_fail(poll, "exit status %d%s", status, status == 126 || status == 127 ? words[status - 126] : "");
}

/* The poll whose command was reaped, with how it ended; NULL: it was an orphan that was adopted. */
static struct ten_poll *take_reaped(struct ten_agent *agent, pid_t pid, int status) {
    ten_child *child = ten_children_find(&agent->children, pid);
    if (!child || !ten_child_reaped(&agent->children, child, pid, status))
        return NULL;
    struct ten_poll *poll = (struct ten_poll *)((char *)child - offsetof(struct ten_poll, child));
    status = child->status;
    if (child->ended_for_lease) { /* the warden was the first to see that */
        ten_poll_fail(poll, "the lease was not renewed in time");
        ten_work_ended_for_lease(&poll->work);
    }
    poll->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    poll->exit_code = poll->signal ? 128 + poll->signal : WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        ten_poll_fail(poll, "killed by signal %d", WTERMSIG(status));
    else if (child->exec_error)
        fail_to_start(poll, child->exec_error);
    else if (WEXITSTATUS(status) != 0)
        fail_with_status(poll, WEXITSTATUS(status));
    if (poll->out_fd >= 0)
        ten_exec_read(agent, poll);
    return poll;
}

/* All that have ended are reaped before the first is looked at: what they have left behind is found in one walk. */
void ten_exec_reap(struct ten_agent *agent) {
    struct ten_poll *polls[REAP_MAX];
    size_t count;
    pid_t pid;
    do {
        int status;
        count = 0;
        while (count < REAP_MAX && (pid = ten_children_reap(&agent->children, &status)) > 0) {
            struct ten_poll *poll = take_reaped(agent, pid, status);
            if (poll)
                polls[count++] = poll;
        }
        for (size_t i = 0; i < count; i++)
            ten_poll_look(agent, polls[i]);
    } while (count == REAP_MAX);
}

void ten_exec_free(struct ten_agent *agent, struct ten_poll *poll) {
    if (poll->out_fd >= 0) {
        (void)epoll_ctl(agent->epoll_fd, EPOLL_CTL_DEL, poll->out_fd, NULL);
        ten_close_fd(&poll->out_fd);
    }
    if (poll->child.pid)
        ten_child_forget(&agent->children, &poll->child);
}
