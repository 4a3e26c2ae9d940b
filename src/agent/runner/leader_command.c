/*
 * The processes of elect, once and lock: the command, its hooks, and how their ends are noted and logged. When they start and
 * end is decided by core/term.h; leader.c carries that out with what is here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/runner/leader_state.h"
#include "agent/warden/environment.h"
#include "agent/warden/tree.h"
#include "base/io.h"
#include "runtime/candidate.h"

/* What a hook or the command finds in its environment. */
struct words {
    char token[24];
    char slot[12];
    char mark[24];
    ten_buf tokens;
    const char *ours[7][2];
};

static void free_words(struct words *words) {
    ten_buf_free(&words->tokens);
}

static bool make_words(struct ten_leader *leader, uint64_t mark, const char *reason, struct words *ret_words) {
    const ten_leader_config *config = leader->config;
    ten_candidate_tokens(leader->election, &ret_words->tokens);
    snprintf(ret_words->token, sizeof ret_words->token, "%llu", (unsigned long long)TEN_TERM_TOKEN(leader->term.token));
    snprintf(ret_words->slot, sizeof ret_words->slot, "%u", TEN_TERM_SLOT(leader->term.token));
    snprintf(ret_words->mark, sizeof ret_words->mark, "%llu", (unsigned long long)mark);
    const char *const ours[][2] = {{"TENURE_ROLE", config->role},
                                   {"TENURE_TOKEN", ret_words->token},
                                   {"TENURE_INSTANCE", leader->runner.instance},
                                   {TEN_POLL_MARK, ret_words->mark},
                                   {"TENURE_REASON", reason},
                                   {"TENURE_SLOT", config->count ? ret_words->slot : NULL},
                                   {"TENURE_TOKENS", config->all_count ? ten_buf_string(&ret_words->tokens) : NULL}};
    memcpy(ret_words->ours, ours, sizeof ours);
    return !ret_words->tokens.failed;
}

static bool start_child(struct ten_leader *leader, char *const *arguments, uint32_t belief, const char *reason) {
    TEN_CLEANUP(free_words) struct words words = {0};
    uint64_t mark = ten_tree_new_mark();
    bool made = make_words(leader, mark, reason, &words);
    char **variables = made ? ten_environment_make(words.ours, TEN_COUNT(words.ours), true) : NULL;
    if (!variables || pipe2(leader->alive_fds, O_CLOEXEC) != 0) {
        ten_environment_free(variables);
        return false;
    }
    ten_child_config config = {.arguments = arguments,
                               .variables = variables,
                               .mark = mark,
                               .belief = belief,
                               .in_fd = -1,
                               .out_fd = -1,
                               .alive_fd = leader->alive_fds[1],
                               .worker_fd = leader->alive_fds[0]};
    bool started = ten_child_start(&leader->runner.children, &config, &leader->child);
    int failed = errno;
    ten_environment_free(variables);
    ten_close_fd(&leader->alive_fds[1]);
    if (!started)
        ten_close_fd(&leader->alive_fds[0]);
    errno = failed;
    return started;
}

/* While another leads. */
void ten_leader_make_ready(struct ten_leader *leader) {
    TEN_CLEANUP(free_words) struct words words = {0};
    if (ten_ready_is_there(&leader->ready))
        return;
    uint64_t mark = ten_tree_new_mark();
    if (make_words(leader, mark, "", &words))
        ten_ready_make(&leader->ready, &leader->runner.children, leader->config->command, mark, words.ours,
                       TEN_COUNT(words.ours));
}

static bool start_ready(struct ten_leader *leader) {
    TEN_CLEANUP(free_words) struct words words = {0};
    return make_words(leader, leader->ready.child.mark, "", &words) &&
           ten_ready_go(&leader->ready, &leader->runner.children, words.ours, TEN_COUNT(words.ours), &leader->child,
                        &leader->alive_fds[0]);
}

void ten_leader_start_hook(struct ten_leader *leader, const char *hook, uint32_t belief, const char *reason) {
    char *const arguments[] = {(char *)"/bin/sh", (char *)"-c", (char *)hook, NULL};
    if (!start_child(leader, arguments, belief, reason))
        TEN_LOG(leader->runner.log, TEN_LOG_ERROR, "hook_failed", TEN_TEXT("target", leader->config->role),
                TEN_TEXT("error", strerrordesc_np(errno)));
}

/* Why the command could not be run, and what its user can do. */
static const char *why_not_run(const char *command, int error) {
    struct stat found;
    bool is_path = strchr(command, '/') != NULL;
    bool is_there = is_path && stat(command, &found) == 0;
    if (error == ENOENT && is_there)
        return "the interpreter that the file names is not on this host";
    if (error == ENOENT)
        return is_path ? "there is no such file on this host" : "there is no such command in PATH";
    if (error == EACCES && is_there && S_ISDIR(found.st_mode))
        return "it is a directory";
    if (error == EACCES && is_there && access(command, X_OK) != 0)
        return "the file is not executable; chmod +x allows it";
    if (error == E2BIG)
        return "its arguments and its environment are too long together";
    if (error == EAGAIN)
        return "too many processes; raise the limit (ulimit -u, TasksMax=)";
    if (error == EMFILE)
        return "too many open files; raise the hard limit (ulimit -Hn, LimitNOFILE=)";
    return strerrordesc_np(error);
}

void ten_leader_start_command(struct ten_leader *leader, const ten_term_heard *heard) {
    leader->ending = NULL;
    if (start_ready(leader) || start_child(leader, leader->config->command, 0, ""))
        return;
    TEN_LOG(leader->runner.log, TEN_LOG_ERROR, "command_failed", TEN_TEXT("target", leader->config->role),
            TEN_TEXT("command", leader->config->command[0]),
            TEN_TEXT("error", why_not_run(leader->config->command[0], errno)));
    leader->status = 1 << 8;
    leader->exec_error = 0;
    ten_term_exited(&leader->term, heard, &(ten_term_exit){.failed = true, .unstarted = true}, ten_now_ms());
}

/* Why a command has to end, or had to, that no deadline was pressing. */
const char *ten_leader_why_stopped(const struct ten_leader *leader, const struct ten_leader_heard *heard) {
    if (heard->reason)
        return heard->reason;
    return leader->term.stops ? "shutdown" : "expired";
}

/* The command has to end: logs the reason, once. */
void ten_leader_report_ending(struct ten_leader *leader, const struct ten_leader_heard *heard, const char *reason,
                              bool is_lost) {
    if (leader->ending)
        return;
    leader->ending = reason;
    TEN_LOG(leader->runner.log, is_lost ? TEN_LOG_WARN : TEN_LOG_INFO, "command_ending",
            TEN_TEXT("target", leader->config->role), TEN_NUMBER("token", TEN_TERM_TOKEN(leader->term.token)),
            TEN_TEXT("reason", reason),
            TEN_NUMBER("ends_in_ms", ten_sub_saturating(heard->term.lease.ends_ms, ten_now_ms())));
}

static void report_end(const struct ten_leader *leader) {
    const ten_term *term = &leader->term;
    int status = leader->status;
    bool bad = term->lost || (term->done && status != 0 && !leader->config->passes_status);
    if (leader->exec_error)
        TEN_LOG(leader->runner.log, TEN_LOG_ERROR, "command_failed", TEN_TEXT("target", leader->config->role),
                TEN_TEXT("command", leader->config->command[0]),
                TEN_TEXT("error", why_not_run(leader->config->command[0], leader->exec_error)));
    else
        TEN_LOG(leader->runner.log, bad ? TEN_LOG_WARN : TEN_LOG_INFO, "command_ended",
                TEN_TEXT("target", leader->config->role), TEN_NUMBER("token", TEN_TERM_TOKEN(term->token)),
                TEN_TEXT("reason", term->done ? "done" : leader->ending),
                WIFSIGNALED(status) ? TEN_NUMBER("signal", (uint64_t)WTERMSIG(status))
                                    : TEN_NUMBER("exit_status", (uint64_t)WEXITSTATUS(status)));
}

static void note_exit(struct ten_leader *leader) {
    struct ten_leader_heard heard = ten_leader_look_at_heard(leader);
    ten_term_exit how = {.failed = leader->child.status != 0,
                         .unstarted = leader->child.exec_error != 0,
                         .ended_for_lease = leader->child.ended_for_lease};
    ten_term_exited(&leader->term, &heard.term, &how, ten_now_ms());
    if (leader->term.state != TEN_TERM_COMMAND)
        return;
    leader->status = leader->child.status;
    leader->exec_error = leader->child.exec_error;
    if (leader->child.ended_for_lease) /* the warden was the first to see that */
        ten_leader_report_ending(leader, &heard, "expiring", true);
    if (!leader->ending)
        leader->ending = ten_leader_why_stopped(leader, &heard);
    report_end(leader);
}

void ten_leader_reap(ten_runner *runner) {
    struct ten_leader *leader = (struct ten_leader *)runner;
    int status;
    for (pid_t pid; (pid = ten_children_reap(&leader->runner.children, &status)) > 0;)
        if (ten_child_reaped(&leader->runner.children, &leader->child, pid, status))
            note_exit(leader);
        else /* or an orphan that was adopted */
            (void)ten_ready_reaped(&leader->ready, &leader->runner.children, pid, status);
}

int ten_leader_exit_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

enum ten_work_left ten_leader_left_of_child(struct ten_leader *leader) {
    const ten_work *work = &leader->term.work;
    int status = leader->child.ended_for_lease ? 0 : leader->child.status;
    enum ten_work_left left = ten_child_left(&leader->runner.children, &leader->child, work);
    if (left != TEN_WORK_NONE || !leader->child.pid)
        return left;
    ten_child_forget(&leader->runner.children, &leader->child);
    ten_close_fd(&leader->alive_fds[0]);
    if (leader->term.state != TEN_TERM_COMMAND && status != 0 && !ten_work_is_cut_short(work))
        TEN_LOG(leader->runner.log, TEN_LOG_WARN, "hook_failed", TEN_TEXT("target", leader->config->role),
                TEN_NUMBER("status", (uint64_t)ten_leader_exit_of(status)));
    return TEN_WORK_NONE;
}
