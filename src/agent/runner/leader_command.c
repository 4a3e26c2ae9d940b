/*
 * The processes of elect, once and lock: the command, its hooks, and how their ends are noted and logged. When they
 * start and end is decided by core/term.h; leader.c carries that out with what is here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/runner/leader_state.h"
#include "runtime/candidate.h"

#define READY_AGAIN_MS 10000u /* what could not be prepared at this moment costs a slower start, and no more */

/* ---- starting */

/* A hook or the command, with what it finds in its environment. */
struct words {
    char token[24];
    char slot[12];
    ten_buf tokens;
    const char *variables[6][2];
    ten_child_command command;
};

static void free_words(struct words *words) {
    ten_buf_free(&words->tokens);
}

static bool make_words(struct ten_leader *leader, char *const *arguments, const char *reason, struct words *ret_words) {
    const ten_leader_config *config = leader->config;
    ten_candidate_tokens(leader->election, &ret_words->tokens);
    snprintf(ret_words->token, sizeof ret_words->token, "%llu", (unsigned long long)TEN_TERM_TOKEN(leader->term.token));
    snprintf(ret_words->slot, sizeof ret_words->slot, "%u", TEN_TERM_SLOT(leader->term.token));
    const char *const variables[][2] = {
        {"TENURE_ROLE", config->role},
        {"TENURE_TOKEN", ret_words->token},
        {"TENURE_INSTANCE", leader->runner.instance},
        {"TENURE_REASON", reason},
        {"TENURE_SLOT", config->count ? ret_words->slot : NULL},
        {"TENURE_TOKENS", config->all_count ? ten_buf_string(&ret_words->tokens) : NULL}};
    memcpy(ret_words->variables, variables, sizeof variables);
    ret_words->command = (ten_child_command){.arguments = arguments,
                                             .variables = (const char *const(*)[2])ret_words->variables,
                                             .variable_count = TEN_COUNT(variables),
                                             .keeps_ours = true};
    return !ret_words->tokens.failed;
}

static bool start_child(struct ten_leader *leader, char *const *arguments, uint32_t belief, const char *reason) {
    TEN_CLEANUP(free_words) struct words words = {0};
    ten_children *children = &leader->runner.children;
    if (!make_words(leader, arguments, reason, &words))
        return false;
    bool is_ready = arguments == leader->config->command && leader->ready.pid;
    return (is_ready && ten_child_go(children, &leader->ready, belief, &words.command, &leader->child)) ||
           ten_child_start(children, &words.command, belief, &leader->child);
}

/* While another leads. */
void ten_leader_make_ready(struct ten_leader *leader) {
    TEN_CLEANUP(free_words) struct words words = {0};
    if (leader->ready.pid || ten_now_ms() < leader->ready_again_ms)
        return;
    if (!make_words(leader, leader->config->command, "", &words) ||
        !ten_child_prepare(&leader->runner.children, &words.command, &leader->ready))
        leader->ready_again_ms = ten_now_ms() + READY_AGAIN_MS;
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

void ten_leader_start_command(struct ten_leader *leader, const ten_term_facts *facts) {
    leader->ending = NULL;
    if (start_child(leader, leader->config->command, 0, ""))
        return;
    TEN_LOG(leader->runner.log, TEN_LOG_ERROR, "command_failed", TEN_TEXT("target", leader->config->role),
            TEN_TEXT("command", leader->config->command[0]),
            TEN_TEXT("error", why_not_run(leader->config->command[0], errno)));
    leader->status = 1 << 8;
    leader->exec_error = 0;
    ten_term_exited(&leader->term, facts, &(ten_term_exit){.failed = true, .unstarted = true}, ten_now_ms());
}

/* ---- ending */

/* Why a command has to end, or had to, that no deadline was pressing. */
const char *ten_leader_why_stopped(const struct ten_leader *leader, const struct ten_leader_facts *facts) {
    if (facts->reason)
        return facts->reason;
    return leader->term.stops ? "shutdown" : "expired";
}

/* The command has to end: logs the reason, once. */
void ten_leader_report_ending(struct ten_leader *leader, const struct ten_leader_facts *facts, const char *reason,
                              bool is_lost) {
    if (leader->ending)
        return;
    leader->ending = reason;
    TEN_LOG(leader->runner.log, is_lost ? TEN_LOG_WARN : TEN_LOG_INFO, "command_ending",
            TEN_TEXT("target", leader->config->role), TEN_NUMBER("token", TEN_TERM_TOKEN(leader->term.token)),
            TEN_TEXT("reason", reason),
            TEN_NUMBER("ends_in_ms", ten_sub_saturating(facts->term.lease.ends_ms, ten_now_ms())));
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
    struct ten_leader_facts facts = ten_leader_look_at_facts(leader);
    ten_term_exit how = {.failed = leader->child.status != 0,
                         .unstarted = leader->child.exec_error != 0,
                         .ended_for_lease = leader->child.ended_for_lease};
    ten_term_exited(&leader->term, &facts.term, &how, ten_now_ms());
    if (leader->term.state != TEN_TERM_COMMAND)
        return;
    leader->status = leader->child.status;
    leader->exec_error = leader->child.exec_error;
    if (leader->child.ended_for_lease) /* the warden was the first to see that */
        ten_leader_report_ending(leader, &facts, "expiring", true);
    if (!leader->ending)
        leader->ending = ten_leader_why_stopped(leader, &facts);
    report_end(leader);
}

/* It has died early. */
static void note_ready_exit(struct ten_leader *leader) {
    ten_child_forget(&leader->runner.children, &leader->ready);
    leader->ready_again_ms = ten_now_ms() + READY_AGAIN_MS;
}

/* An orphan that was adopted is only reaped. */
void ten_leader_reap(ten_runner *runner) {
    struct ten_leader *leader = (struct ten_leader *)runner;
    int status;
    for (pid_t pid; (pid = ten_children_reap(&leader->runner.children, &status)) > 0;)
        if (ten_child_reaped(&leader->runner.children, &leader->child, pid, status))
            note_exit(leader);
        else if (ten_child_reaped(&leader->runner.children, &leader->ready, pid, status))
            note_ready_exit(leader);
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
    if (leader->term.state != TEN_TERM_COMMAND && status != 0 && !ten_work_is_cut_short(work))
        TEN_LOG(leader->runner.log, TEN_LOG_WARN, "hook_failed", TEN_TEXT("target", leader->config->role),
                TEN_NUMBER("status", (uint64_t)ten_leader_exit_of(status)));
    return TEN_WORK_NONE;
}
