/*
 * Commands in processes of their own. Called by run_command.c and leader_command.c.
 */
#include "agent/warden/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/warden/environment.h"
#include "agent/warden/first.h"
#include "agent/warden/go.h"
#include "agent/warden/spare.h"
#include "agent/warden/tree.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"

#define NOT_FOUND      127
#define NOT_EXECUTABLE 126
#define TROUBLE_LOG_MS 10000u
#define STUCK_MS       2000u /* so long after SIGKILL a process is gone, unless it waits in the kernel */

/* ---- places in the shared memory */

/* Taken before there is a process. */
static bool take_place(ten_children *children, ten_child *child, uint32_t belief) {
    struct ten_shared_state *state = children->shared->state;
    const ten_belief *bound = belief == TEN_CHILD_UNBOUND ? NULL : ten_beliefs_at(&children->shared->beliefs, belief);
    for (uint32_t i = children->first_free; i < TEN_SHARED_POLLS; i++) {
        struct ten_shared_poll *place = &state->polls[i];
        if (atomic_load(&place->belief) != 0)
            continue;
        atomic_store(&place->pid, 0);
        atomic_store(&place->status, NOT_FOUND << 8);
        atomic_store(&place->exec_error, 0);
        atomic_store(&place->isolation_error, 0);
        atomic_store(&place->ended_for_lease, 0);
        atomic_store(&place->ended_at_deadline, 0);
        atomic_store(&place->form, TEN_ISOLATION_NONE);
        atomic_store(&place->poll, child->mark);
        atomic_store(&place->generation, bound ? atomic_load(&bound->generation) : 0);
        atomic_store(&place->belief, belief == TEN_CHILD_UNBOUND ? TEN_SHARED_UNBOUND : belief + 1);
        if (atomic_load(&state->poll_places) <= i)
            atomic_store(&state->poll_places, i + 1);
        child->place = i;
        children->first_free = i + 1;
        return true;
    }
    children->first_free = TEN_SHARED_POLLS;
    errno = EUSERS;
    return false;
}

static void give_place_back(ten_children *children, const ten_child *child) {
    struct ten_shared_poll *place = &children->shared->state->polls[child->place];
    atomic_store(&place->pid, 0);
    atomic_store(&place->belief, 0);
    if (child->place < children->first_free)
        children->first_free = child->place;
}

/* ---- between fork and exec: only what is safe there in a program with threads may be called, and glibc must not be
 * asked who we are, because the process may have been made behind its back */

struct launch {
    const ten_child_command *command;
    char **variables;
    uint64_t mark;
    int null_fd;   /* of a command that is captured; else -1 */
    int alive_fd;  /* its end of the pipe */
    int worker_fd; /* the other one */
    struct ten_shared_poll *place;
    ten_isolation_maps maps;
    enum ten_isolation form;
    const struct rlimit *files; /* the command's limit of open files */
    ten_first first;            /* also of a command without a namespace */
    ten_first_words first_words;
    int first_fd; /* -1: it remains a copy of the worker */
    int go_fd;    /* a prepared process reads from it until it may exec; -1: it execs at once */
    const ten_descriptors *descriptors;
};

/* With the worker the other end of the pipe is gone. */
static void exit_without_worker(const struct launch *launch) {
    struct pollfd polled = {.fd = launch->alive_fd};
    if (poll(&polled, 1, 0) != 0 && (polled.revents & (POLLERR | POLLNVAL)))
        _exit(NOT_FOUND);
}

/* From here on the kernel ends this process with the worker; the warden knows of it, and it is in its group. */
static void wait_until_known(const struct launch *launch) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    exit_without_worker(launch);
    while (atomic_load(&launch->place->pid) == 0) {
        (void)sched_yield();
        exit_without_worker(launch);
    }
}

static _Noreturn void exit_with(const struct launch *launch, int error) {
    atomic_store(&launch->place->exec_error, error);
    _exit(error == ENOENT || error == ENOTDIR ? NOT_FOUND : NOT_EXECUTABLE);
}

/* What the deadline of its lease demands; nothing of a command that is bound to none. */
static enum ten_work_step pressure(const struct launch *launch) {
    if (atomic_load(&launch->place->belief) == TEN_SHARED_UNBOUND)
        return TEN_WORK_NOTHING;
    return ten_work_pressure(ten_shared_ends_ms(launch->first.shared, launch->place), launch->first.grace_ms,
                             ten_now_ms());
}

/* On a terminal, its stop keys stop nothing that is in its group: the shell would not see it, and could not continue
 * it, because the warden ignores them. */
static void ignore_stop_keys(void) {
    if (!isatty(STDIN_FILENO) && !isatty(STDOUT_FILENO) && !isatty(STDERR_FILENO))
        return;
    (void)signal(SIGTSTP, SIG_IGN);
    (void)signal(SIGTTIN, SIG_IGN);
    (void)signal(SIGTTOU, SIG_IGN);
}

static void note_ended_for_lease(const struct launch *launch) {
    atomic_store(&launch->place->ended_for_lease, launch->mark);
}

/* What this process may do beyond its user, a command may not: capabilities that a unit gives to the agent are for
 * isolating commands. Those of root, and of files, are not concerned. */
static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capget, &header, data) != 0)
        return;
    for (size_t i = 0; i < TEN_COUNT(data); i++)
        data[i].inheritable = 0;
    (void)syscall(SYS_capset, &header, data);
}

/* What others send while it waits means the worker, and is not to meet the command: it is ignored. What ends a process
 * stays pending instead, for it may be meant for the command that has just been released. */
static void wait_for_signals_later(void) {
    static const int later[] = {SIGTERM, SIGINT, SIGQUIT};
    sigset_t signals;
    sigemptyset(&signals);
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_IGN);
    for (size_t i = 0; i < TEN_COUNT(later); i++) {
        (void)signal(later[i], SIG_DFL);
        sigaddset(&signals, later[i]);
    }
    (void)sigprocmask(SIG_SETMASK, &signals, NULL);
}

/* Waits until the worker wants the command. The worker's connections are not this process's to keep open. */
static void wait_until_wanted(const struct launch *launch) {
    if (!ten_descriptors_close(launch->descriptors, &launch->go_fd, 1))
        _exit(NOT_FOUND);
    wait_for_signals_later();
    (void)prctl(PR_SET_NAME, "tenure-ready", 0, 0, 0);
    if (!ten_go_wait(launch->go_fd, launch->variables))
        _exit(NOT_FOUND);
    close(launch->go_fd);
    /* It is bound to a lease now: the first process of its namespace has to look at the deadline. */
    if (ten_isolation_is_namespace(launch->form))
        (void)syscall(SYS_kill, 1, SIGCHLD);
}

static _Noreturn void become_command(const struct launch *launch) {
    const ten_child_command *command = launch->command;
    sigset_t none;
    if (launch->go_fd >= 0)
        wait_until_wanted(launch);
    if (command->captured)
        (void)setpgid(0, 0);
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    if (!command->captured)
        ignore_stop_keys();
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (launch->files->rlim_max > 0)
        (void)setrlimit(RLIMIT_NOFILE, launch->files);
    if (command->captured && (dup2(launch->null_fd, STDIN_FILENO) < 0 || dup2(launch->alive_fd, STDOUT_FILENO) < 0))
        _exit(NOT_FOUND);
    if (pressure(launch) !=
        TEN_WORK_NOTHING) { /* it was stopped on its way here, and the lease has gone on without it */
        note_ended_for_lease(launch);
        (void)syscall(SYS_kill, syscall(SYS_getpid), SIGTERM); /* as it would have been a moment later */
        _exit(NOT_FOUND);
    }
    ten_descriptors_hide(launch->descriptors);
    drop_capabilities();
    execvpe(command->arguments[0], command->arguments, launch->variables);
    exit_with(launch, errno);
}

/* See first.h. */
static _Noreturn void be_first(const struct launch *launch) {
    const ten_first *first = &launch->first;
    int alive_fd = launch->alive_fd;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM); /* not blocked, the first process of a namespace would never get it */
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &signals, NULL);
    pid_t command = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (command == 0)
        become_command(launch);
    if (command < 0)
        _exit(NOT_FOUND);
    atomic_store(&launch->place->command, (int)command);
    /* A stop of the command's whole group leaves it alone. A group of its own in the same session would not do: with
     * its end the command's group could become an orphan, which the kernel hangs up. */
    (void)setsid();
    if (launch->first_fd >= 0) {
        ten_first_become(launch->first_fd, first, alive_fd, &launch->first_words);
        atomic_store(&first->shared->state->first_error, errno);
    }
    close(alive_fd);
    (void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0); /* what the worker had open is not to outlive it here */
    ten_first_wait(first);
    _exit(0);
}

static _Noreturn void be_child(const struct launch *launch) {
    close(launch->worker_fd); /* or it would never see that the worker is gone */
    wait_until_known(launch);
    if (launch->form == TEN_ISOLATION_USER_NAMESPACE && !ten_isolation_write_maps(&launch->maps)) {
        atomic_store(&launch->place->isolation_error, errno);
        exit_with(launch, errno);
    }
    if (ten_isolation_is_namespace(launch->form))
        be_first(launch);
    become_command(launch);
}

/* ---- starting */

/* -1: errno says why. The kernel itself makes the process known before it runs, unless it has to be put into a group
 * first: see wait_until_known(). */
static pid_t start_as(struct launch *launch, enum ten_isolation form) {
    launch->form = form;
    atomic_store(&launch->place->form, form);
    unsigned long known = form == TEN_ISOLATION_CGROUP ? 0 : CLONE_PARENT_SETTID;
    pid_t pid =
        (pid_t)syscall(SYS_clone, ten_isolation_flags(form) | known | SIGCHLD, NULL, &launch->place->pid, NULL, NULL);
    if (pid == 0)
        be_child(launch);
    return pid;
}

static void find_isolation(ten_children *children) {
    ten_isolation_found *found = &children->isolation;
    ten_isolation_find(children->wish, found);
    memcpy(children->shared->state->cgroup, found->cgroup, sizeof found->cgroup);
    if (children->measures)
        atomic_store(&children->measures->isolation, found->form);
}

/* Told when it begins, and when it is over. It is tried again with each command. */
static void note_isolation(ten_children *children, int error) {
    bool failing = error != 0;
    if (failing && children->measures)
        ten_measure_add(&children->measures->commands_not_isolated, 1);
    if (children->failing == failing)
        return;
    children->failing = failing;
    if (failing)
        TEN_LOG(children->log, TEN_LOG_WARN, "isolation_failed",
                TEN_TEXT("isolation", ten_isolation_name(children->isolation.form)),
                TEN_TEXT("error", strerrordesc_np(error)));
    else
        TEN_LOG(children->log, TEN_LOG_INFO, "isolation_ok",
                TEN_TEXT("isolation", ten_isolation_name(children->isolation.form)));
}

/* The first process of a namespace has remained a copy of the worker, as the next ones will. */
static void note_copies(ten_children *children) {
    int error = atomic_load(&children->shared->state->first_error);
    if (error == 0 || children->copies_told)
        return;
    children->copies_told = true;
    TEN_LOG(children->log, TEN_LOG_WARN, "first_process_copied", TEN_TEXT("error", strerrordesc_np(error)));
}

/* The process waits until it is known, so it has started nothing yet. Without the group it goes on all the same. */
static void put_into_group(struct launch *launch, ten_children *children, pid_t pid, uint64_t mark) {
    const char *base = children->isolation.cgroup;
    TEN_CLEANUP(ten_close_fd) int fd = ten_cgroup_make(base, getpid(), mark);
    bool isolated = fd >= 0 && ten_cgroup_put(fd, pid);
    int failed = isolated ? 0 : errno;
    if (!isolated) {
        launch->form = TEN_ISOLATION_NONE;
        atomic_store(&launch->place->form, TEN_ISOLATION_NONE);
    }
    if (!isolated && fd >= 0)
        ten_cgroup_remove(base, getpid(), mark);
    note_isolation(children, failed);
}

/* In a namespace; if that fails, without, unless it is required. */
static pid_t launch_in_namespace(struct launch *launch, ten_children *children) {
    ten_isolation_found *found = &children->isolation;
    pid_t pid = start_as(launch, found->form);
    int failed = errno;
    note_isolation(children, pid < 0 ? failed : 0);
    if (pid > 0)
        found->unsure = false;
    else if (found->unsure && !ten_isolation_is_passing(failed))
        find_isolation(children); /* for the next one: this form cannot be had after all */
    if (pid < 0 && children->wish != TEN_ISOLATION_REQUIRED)
        return start_as(launch, TEN_ISOLATION_NONE);
    errno = failed;
    return pid;
}

/* In the strongest form that can be had. */
static pid_t launch_process(struct launch *launch, ten_children *children, uint64_t mark) {
    ten_isolation_found *found = &children->isolation;
    ten_isolation_make_maps(&launch->maps);
    if (found->unsure && found->form == TEN_ISOLATION_NONE)
        find_isolation(children);
    if (ten_isolation_is_namespace(found->form))
        return launch_in_namespace(launch, children);
    if (children->wish == TEN_ISOLATION_REQUIRED) {
        errno = found->errors[TEN_ISOLATION_PID_NAMESPACE];
        note_isolation(children, errno);
        return -1;
    }
    pid_t pid = start_as(launch, found->form);
    TEN_KEEP_ERRNO;
    if (pid > 0 && found->form == TEN_ISOLATION_CGROUP)
        put_into_group(launch, children, pid, mark);
    else if (pid > 0 && found->unsure)
        note_isolation(children, found->errors[TEN_ISOLATION_CGROUP]);
    return pid;
}

/* The process and its place. */
static bool start_process(ten_children *children, struct launch *launch, uint32_t belief, ten_child *child) {
    if (!take_place(children, child, belief))
        return false;
    launch->place = &children->shared->state->polls[child->place];
    launch->first = (ten_first){.shared = children->shared,
                                .place = launch->place,
                                .grace_ms = children->grace_ms,
                                .own_group = launch->command->captured};
    ten_first_make_words(&launch->first, launch->alive_fd, &launch->first_words);
    atomic_fetch_add(&children->shared->state->turns, 1); /* many that start take their time */
    bool room = ten_running_reserve(&children->commands);
    pid_t pid = room ? launch_process(launch, children, child->mark) : -1;
    int failed = room ? errno : ENOMEM;
    child->form = launch->form;
    if (pid > 0) {
        atomic_store(&launch->place->pid, (int32_t)pid);
        child->pid = pid;
        ten_running_put(&children->commands, pid, child);
    } else {
        give_place_back(children, child);
    }
    errno = failed;
    return pid > 0;
}

/* With the mark, by which what it leaves behind is found. NULL: no memory. */
static char **make_environment(const ten_child_command *command, uint64_t mark) {
    const char *variables[TEN_COMMAND_VARIABLES + 1][2];
    char text[24];
    TEN_INVARIANT(command->variable_count <= TEN_COMMAND_VARIABLES);
    snprintf(text, sizeof text, "%llu", (unsigned long long)mark);
    variables[0][0] = TEN_POLL_MARK;
    variables[0][1] = text;
    memcpy(variables + 1, command->variables, command->variable_count * sizeof *variables);
    char **made =
        ten_environment_make((const char *const(*)[2])variables, command->variable_count + 1, command->keeps_ours);
    if (!made)
        errno = ENOMEM;
    return made;
}

static bool start(ten_children *children, const ten_child_command *command, uint32_t belief, int go_fd,
                  ten_child *child) {
    int ends[2];
    *child = TEN_CHILD_NONE;
    child->mark = ten_tree_new_mark();
    TEN_CLEANUP(ten_close_fd) int null_fd = command->captured ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if ((command->captured && null_fd < 0) || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    struct launch launch = {.command = command,
                            .variables = make_environment(command, child->mark),
                            .mark = child->mark,
                            .null_fd = null_fd,
                            .alive_fd = ends[1],
                            .worker_fd = ends[0],
                            .files = &children->files,
                            .first_fd = children->first_fd,
                            .go_fd = go_fd,
                            .descriptors = &children->descriptors};
    bool started = launch.variables && start_process(children, &launch, belief, child);
    TEN_KEEP_ERRNO;
    ten_environment_free(launch.variables);
    close(ends[1]);
    if (started)
        child->pipe_fd = ends[0];
    else
        close(ends[0]);
    return started;
}

bool ten_child_start(ten_children *children, const ten_child_command *command, uint32_t belief, ten_child *child) {
    return start(children, command, belief, -1, child);
}

/* ---- prepared ones */

bool ten_child_prepare(ten_children *children, const ten_child_command *command, ten_child *child) {
    int go[2];
    TEN_INVARIANT(!command->captured);
    if (!children->descriptors.known) /* it would keep the worker's connections open */
        errno = ENOTSUP;
    if (!children->descriptors.known || pipe2(go, O_CLOEXEC) != 0)
        return false;
    bool started = start(children, command, TEN_CHILD_UNBOUND, go[0], child);
    TEN_KEEP_ERRNO;
    close(go[0]);
    if (started)
        child->go_fd = go[1];
    else
        close(go[1]);
    return started;
}

static void bind_place(ten_children *children, const ten_child *child, uint32_t belief) {
    struct ten_shared_poll *place = &children->shared->state->polls[child->place];
    const ten_belief *bound = ten_beliefs_at(&children->shared->beliefs, belief);
    atomic_store(&place->generation, atomic_load(&bound->generation));
    atomic_store(&place->belief, belief + 1);
}

bool ten_child_go(ten_children *children, ten_child *prepared, uint32_t belief, const ten_child_command *command,
                  ten_child *child) {
    bind_place(children, prepared, belief);
    if (!ten_go_send(prepared->go_fd, command->variables, command->variable_count)) {
        ten_child_cancel(children, prepared);
        return false;
    }
    ten_close_fd(&prepared->go_fd);
    *child = *prepared;
    *prepared = TEN_CHILD_NONE;
    ten_running_put(&children->commands, child->pid, child);
    return true;
}

/* It has started nothing, and the first process of its namespace takes it along. */
void ten_child_cancel(ten_children *children, ten_child *prepared) {
    siginfo_t info = {0};
    if (!prepared->pid)
        return;
    (void)kill(prepared->pid, SIGKILL);
    while (waitid(P_PID, (id_t)prepared->pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        ;
    atomic_store(&children->shared->state->polls[prepared->place].pid, 0);
    (void)waitpid(prepared->pid, NULL, 0);
    ten_child_forget(children, prepared);
}

/* ---- ending */

/* The number of a process that has ended is in no place any more when it is reaped: then it may become another's. */
pid_t ten_children_reap(ten_children *children, int *ret_status) {
    struct ten_shared_state *state = children->shared->state;
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return 0;
    const ten_child *child = ten_running_find(&children->commands, info.si_pid);
    if (child)
        atomic_store(&state->polls[child->place].pid, 0);
    else
        ten_leftovers_reaped(&children->leftovers, info.si_pid);
    return waitpid(info.si_pid, ret_status, 0);
}

ten_child *ten_children_find(const ten_children *children, pid_t pid) {
    return ten_running_find(&children->commands, pid);
}

bool ten_child_reaped(ten_children *children, ten_child *child, pid_t pid, int status) {
    if (child->pid != pid || child->exited)
        return false;
    child->exited = true;
    child->walks = children->leftovers.walks;
    ten_running_remove(&children->commands, pid);
    struct ten_shared_poll *place = &children->shared->state->polls[child->place];
    bool reported = ten_isolation_is_namespace(child->form) && !WIFSIGNALED(status);
    child->status = reported ? atomic_load(&place->status) : status;
    child->exec_error = atomic_load(&place->exec_error);
    int failed = atomic_load(&place->isolation_error);
    if (failed != 0)
        note_isolation(children, failed);
    if (ten_isolation_is_namespace(child->form))
        note_copies(children);
    child->ended_for_lease =
        atomic_load(&place->ended_for_lease) == child->mark || atomic_load(&place->ended_at_deadline) == child->mark;
    return true;
}

/* What the command has left behind, or (with `all`) everything of it. Returns how many processes there were. */
static unsigned signal_all(ten_children *children, const ten_child *child, bool all, int signal, ten_trouble *trouble) {
    unsigned found = 0;
    switch (child->form) {
    case TEN_ISOLATION_PID_NAMESPACE:
    case TEN_ISOLATION_USER_NAMESPACE:
        if (!all)
            return 0;
        return signal == SIGKILL || signal == SIGTERM ? ten_process_signal(child->pid, signal, trouble)
                                                      : ten_tree_signal(child->pid, signal, trouble);
    case TEN_ISOLATION_CGROUP: /* then what has left the group */
        found = ten_cgroup_signal(children->isolation.cgroup, getpid(), child->mark, signal, trouble);
        if (found > 0)
            return found;
        break;
    case TEN_ISOLATION_NONE:
        break;
    }
    return (all ? ten_tree_signal(child->pid, signal, trouble) : 0) +
           ten_leftovers_signal(&children->leftovers, children->shared, &children->commands, child->mark,
                                all ? TEN_LEFTOVERS_RUNNING : child->walks, signal, trouble);
}

/* What cannot be ended keeps its target: that is logged, but not with every look. */
static void report_trouble(ten_children *children, const ten_child *child, const ten_trouble *trouble) {
    uint64_t now_ms = ten_now_ms();
    if (trouble->error == 0 || now_ms < children->trouble_log_ms)
        return;
    children->trouble_log_ms = now_ms + TROUBLE_LOG_MS;
    TEN_LOG(children->log, TEN_LOG_ERROR, "cannot_end_command", TEN_NUMBER("pid", (uint64_t)child->pid),
            TEN_NUMBER("process", (uint64_t)trouble->pid), TEN_TEXT("error", ten_trouble_text(trouble)));
}

/* It was killed, and nothing forbade that; but it does not end. */
static void note_stuck(const ten_work *work, ten_trouble *trouble) {
    bool stuck = work->state == TEN_WORK_KILLED && ten_now_ms() > work->kill_ms + STUCK_MS;
    if (stuck && trouble->error == 0)
        trouble->error = TEN_TROUBLE_STUCK;
}

void ten_child_signal(ten_children *children, const ten_child *child, int signal) {
    ten_trouble trouble = {0};
    (void)signal_all(children, child, !child->exited, signal, &trouble);
    report_trouble(children, child, &trouble);
}

void ten_child_pass(const ten_child *child, int signal) {
    if (child->exited)
        return;
    pid_t command = ten_isolation_is_namespace(child->form) ? ten_tree_first_child(child->pid) : child->pid;
    if (command > 0)
        (void)kill(command, signal);
}

enum ten_work_left ten_child_left(ten_children *children, const ten_child *child, const ten_work *work) {
    ten_trouble trouble = {0};
    if (!child->pid)
        return TEN_WORK_NONE;
    int signal = work->state == TEN_WORK_KILLED ? SIGKILL : SIGTERM;
    bool gone =
        child->exited && (signal_all(children, child, false, signal, &trouble) == 0 || !ten_process_has_children());
    if (!gone) {
        note_stuck(work, &trouble);
        report_trouble(children, child, &trouble);
    }
    if (!child->exited)
        return TEN_WORK_ALL;
    return gone ? TEN_WORK_NONE : TEN_WORK_LEFTOVERS;
}

void ten_child_forget(ten_children *children, ten_child *child) {
    if (child->form == TEN_ISOLATION_CGROUP)
        ten_cgroup_remove(children->isolation.cgroup, getpid(), child->mark);
    if (!child->exited)
        ten_running_remove(&children->commands, child->pid);
    give_place_back(children, child);
    ten_close_fd(&child->pipe_fd);
    ten_close_fd(&child->go_fd);
    *child = TEN_CHILD_NONE;
}

/* ---- all of them */

/* Each command takes a descriptor of the worker's. The commands keep the limit that the worker was started with: some
 * programs close all descriptors up to it, or cannot use large ones. */
static void raise_file_limit(ten_children *children) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    children->files = limit;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        children->files = (struct rlimit){0};
}

void ten_children_open(ten_children *children, ten_shared *shared, enum ten_isolation_wish wish, uint64_t grace_ms,
                       ten_measures *measures) {
    *children = (ten_children){.shared = shared, .measures = measures, .grace_ms = grace_ms, .wish = wish};
    ten_descriptors_note(&children->descriptors); /* before it opens any for itself */
    find_isolation(children);
    raise_file_limit(children);
    children->first_fd = ten_first_open();
    if (children->first_fd < 0)
        atomic_store(&shared->state->first_error, errno);
    ten_spare_libraries();
}

void ten_children_report(ten_children *children, enum ten_log_level level) {
    const ten_isolation_found *found = &children->isolation;
    TEN_LOG(children->log, level, "isolation", TEN_TEXT("isolation", ten_isolation_name(found->form)));
}

void ten_children_free(ten_children *children) {
    ten_running_free(&children->commands);
    ten_leftovers_free(&children->leftovers);
    ten_isolation_free(&children->isolation);
    ten_close_fd(&children->first_fd);
}
