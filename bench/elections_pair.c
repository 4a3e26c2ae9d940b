/*
 * Two candidates for one role, as processes. See elections_pair.h.
 */
#include "elections_pair.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"
#include "elections_work.h"

#define START_MS  UINT64_C(20000) /* a store that was new may let nobody in for a TTL */
#define GO_MS     UINT64_C(10000) /* for a process to be gone */
#define LINE_SIZE 256u

/* The clock that all of them stamp with, in whatever language. */
static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void pair_add_words(contestant *pair, const char *format, ...) {
    va_list args;
    size_t count = 0;
    while (pair->words[count])
        count++;
    char *text = count ? pair->words[count - 1] + strlen(pair->words[count - 1]) + 1 : pair->texts;
    size_t room = (size_t)(pair->texts + sizeof pair->texts - text);
    va_start(args, format);
    int length = vsnprintf(text, room, format, args);
    va_end(args);
    TEN_INVARIANT(length >= 0 && (size_t)length < room);
    for (char *word; (word = strsep(&text, "|"));) {
        TEN_INVARIANT(count + 1 < PAIR_WORDS);
        pair->words[count++] = word;
    }
}

/* ---- processes ----------------------------------------------------------------------------------------- */

static void become(const contestant *pair, int in, int out, pid_t parent) {
    int log = open(pair->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0)
        _exit(127);
    execvp(pair->words[0], pair->words);
    fprintf(stderr, "cannot run %s: %s\n", pair->words[0], strerror(errno));
    _exit(127);
}

static bool start(const contestant *pair, pair_member *member) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) < 0)
        return false;
    if (pipe2(from, O_CLOEXEC) < 0) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    pid_t parent = getpid();
    fflush(NULL);
    member->pid = fork();
    if (member->pid == 0)
        become(pair, to[0], from[1], parent);
    close(to[0]);
    close(from[1]);
    member->to = to[1];
    member->from = from[0];
    return member->pid > 0;
}

/* Waits until it is gone; after a while it is killed. */
static void finish(pair_member *member) {
    if (member->pid <= 0)
        return;
    uint64_t end_us = ten_boot_us() + GO_MS * 1000u;
    while (waitpid(member->pid, NULL, WNOHANG) == 0) {
        if (ten_boot_us() >= end_us)
            kill(member->pid, SIGKILL);
        ten_sleep_us(500);
    }
    ten_close_fd(&member->to);
    ten_close_fd(&member->from);
    member->pid = 0;
}

/* Calls fn for each child of that process, of whichever of its threads, until it returns a number: that, or 0. */
static pid_t search_children(pid_t pid, pid_t (*fn)(pid_t child)) {
    char path[64], text[LINE_SIZE];
    pid_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    for (struct dirent *thread; !found && threads && (thread = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)pid, thread->d_name);
        if (thread->d_name[0] == '.' || ten_read_line(path, text, sizeof text) <= 0)
            continue;
        char *rest = text;
        for (char *word; !found && (word = strtok_r(rest, " ", &rest));)
            found = fn((pid_t)strtol(word, NULL, 10));
    }
    if (threads)
        closedir(threads);
    return found;
}

static bool is_work(pid_t pid) {
    char path[64], name[LINE_SIZE];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    return ten_read_line(path, name, sizeof name) > 0 && strcmp(name, WORK_NAME) == 0;
}

/* The CMD at whatever depth. */
static pid_t find_work(pid_t pid) {
    return is_work(pid) ? pid : search_children(pid, find_work);
}

static pid_t find_worker(pid_t pid) {
    return is_work(pid) ? 0 : pid;
}

/* ---- words --------------------------------------------------------------------------------------------- */

static bool say(const pair_member *member, const char *word) {
    return ten_write_all(member->to, word, strlen(word)) == 0;
}

/* The next thing that it says: the moment in it, or for what is not ours the moment when it is heard. */
static bool hear(const pair_member *member, uint64_t patience_ms, uint64_t *ret_ns) {
    char text[LINE_SIZE];
    if (ten_wait_readable(member->from, -1, patience_ms) <= 0)
        return false;
    uint64_t heard_ns = now_ns();
    ssize_t length = ten_read_some(member->from, text, sizeof text - 1);
    if (length <= 0)
        return false;
    text[length] = '\0';
    const char *number = strncmp(text, "led ", 4) == 0        ? text + 4
                         : strncmp(text, "stopping ", 9) == 0 ? text + 9
                                                              : NULL;
    *ret_ns = number ? strtoull(number, NULL, 10) : heard_ns;
    return true;
}

/* ---- a term -------------------------------------------------------------------------------------------- */

static pair_member *leader_of(contestant *pair) {
    return &pair->members[pair->leader];
}

static pair_member *waiter_of(contestant *pair) {
    return &pair->members[1 - pair->leader];
}

static bool campaign(contestant *pair, pair_member *member) {
    if (member->pid == 0 && !start(pair, member))
        return false;
    return !pair->resident || say(member, "campaign\n");
}

bool pair_open(contestant *pair) {
    uint64_t led_ns;
    return campaign(pair, leader_of(pair)) && hear(leader_of(pair), START_MS, &led_ns);
}

bool pair_prepare(contestant *pair) {
    pair_member *waiter = waiter_of(pair);
    return !pair->resident && waiter->pid ? true : campaign(pair, waiter);
}

static const int signals[] = {
    [PAIR_TERM] = SIGTERM,        [PAIR_INT] = SIGINT,        [PAIR_TERM_WORK] = SIGTERM, [PAIR_KILL] = SIGKILL,
    [PAIR_KILL_WORKER] = SIGKILL, [PAIR_KILL_WORK] = SIGKILL, [PAIR_STOP] = SIGSTOP,      [PAIR_STOP_WORKER] = SIGSTOP};

bool pair_strike(contestant *pair, uint64_t *ret_struck_ns) {
    pair_member *leader = leader_of(pair);
    pid_t pid = leader->pid;
    if (pair->end == PAIR_TERM_WORK || pair->end == PAIR_KILL_WORK)
        pid = find_work(pid);
    else if (pair->end == PAIR_KILL_WORKER || pair->end == PAIR_STOP_WORKER)
        pid = search_children(pid, find_worker);
    if (pid <= 0)
        return false;
    *ret_struck_ns = now_ns();
    if (pair->end == PAIR_SAY_STOP)
        return say(leader, "stop\n") && hear(leader, START_MS, ret_struck_ns);
    if (signals[pair->end] == SIGSTOP)
        pair->stopped = pid;
    return kill(pid, signals[pair->end]) == 0;
}

bool pair_follow(contestant *pair, uint64_t struck_ns, uint64_t patience_ms) {
    const pair_member *both[] = {leader_of(pair), waiter_of(pair)};
    uint64_t led_ns;
    /* A warden whose worker was killed campaigns again with a new one: it may well lead again. What else the old
     * leader has to say is its end. */
    bool returns = pair->end == PAIR_KILL_WORKER;
    int heard = ten_wait_readable(both[1]->from, returns ? both[0]->from : -1, patience_ms);
    if (heard <= 0 || !hear(both[heard & 1 ? 1 : 0], 0, &led_ns))
        return false;
    TEN_INVARIANT(pair->count < PAIR_ROUNDS_MAX);
    pair->ms[pair->count++] = led_ns > struck_ns ? (double)(led_ns - struck_ns) / 1e6 : 0;
    if (!(heard & 1))
        return true;
    if (returns)
        kill(leader_of(pair)->pid, SIGTERM);
    if (!pair->resident || pair->end == PAIR_KILL)
        finish(leader_of(pair));
    pair->leader = 1 - pair->leader;
    return true;
}

void pair_resume(contestant *pair) {
    if (pair->stopped > 0)
        kill(pair->stopped, SIGCONT);
    pair->stopped = 0;
}

bool pair_ask(contestant *pair, const char *job, uint64_t patience_ms, char *answer, size_t size) {
    pair_member *member = &pair->members[0];
    if (member->pid == 0 && !start(pair, member))
        return false;
    if (!say(member, job) || ten_wait_readable(member->from, -1, patience_ms) <= 0)
        return false;
    ssize_t length = ten_read_some(member->from, answer, size - 1);
    answer[length > 0 ? length : 0] = '\0';
    return length > 0;
}

void pair_close(contestant *pair) {
    pair_resume(pair);
    for (unsigned i = 0; i < 2; i++) {
        pair_member *member = &pair->members[i];
        if (member->pid <= 0)
            continue;
        ten_close_fd(&member->to);
        kill(member->pid, pair->end == PAIR_INT || pair->end == PAIR_TERM_WORK ? SIGKILL : SIGTERM);
        ten_close_fd(&member->from); /* a CMD that was left behind goes, too */
        finish(member);
    }
}
