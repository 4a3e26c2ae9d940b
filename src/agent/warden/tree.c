/*
 * Process trees, from /proc. Called by the agent when a poll ends, and by the warden when a worker or a target has to.
 */
#include "agent/warden/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/util.h"

#define ENVIRONMENT_MAX ((size_t)256 * 1024)

struct pids {
    pid_t *list;
    size_t count;
    size_t room;
};

static void add(struct pids *pids, pid_t pid) {
    if (pids->count == pids->room) {
        size_t room = pids->room ? pids->room * 2 : 64;
        pid_t *list = ten_realloc(pids->list, room * sizeof *list);
        if (!list)
            return; /* the walk is repeated until it finds none: the next one may have the memory */
        pids->list = list;
        pids->room = room;
    }
    pids->list[pids->count++] = pid;
}

/* The children of one thread of a process. */
static void add_children_of_thread(struct pids *pids, pid_t pid, const char *thread) {
    char path[64];
    char text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)pid, thread);
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t kept = 0;
    while (fd >= 0) {
        ssize_t count = ten_read_some(fd, text + kept, sizeof text - 1 - kept);
        if (count <= 0)
            break;
        text[kept + (size_t)count] = '\0';
        char *at = text;
        for (char *blank; (blank = strchr(at, ' ')); at = blank + 1)
            add(pids, (pid_t)strtol(at, NULL, 10));
        kept = strlen(at);
        memmove(text, at, kept);
    }
}

static void add_children(struct pids *pids, pid_t pid) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));)
        if (entry->d_name[0] != '.')
            add_children_of_thread(pids, pid, entry->d_name);
    if (threads)
        closedir(threads);
}

static bool is_zombie(pid_t pid) {
    char path[32];
    char text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (ten_read_line(path, text, sizeof text) < 0)
        return true;
    const char *name_end = strrchr(text, ')');
    return !name_end || name_end[1] == '\0' || name_end[2] == 'Z' || name_end[2] == 'X';
}

/* By a descriptor: between finding a process and signalling it, its number could become another's. */
static bool signal_one(pid_t pid, int signal) {
    TEN_CLEANUP(ten_close_fd) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno == ENOSYS)
        return !is_zombie(pid) && kill(pid, signal) == 0;
    if (fd < 0 || is_zombie(pid))
        return false;
    return syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0;
}

/* Everything below what is in the list from `first` on is added to it, then all get the signal. */
static unsigned signal_list(struct pids *pids, size_t first, int signal) {
    unsigned found = 0;
    for (size_t i = first; i < pids->count; i++)
        add_children(pids, pids->list[i]);
    for (size_t i = first; i < pids->count; i++)
        found += signal_one(pids->list[i], signal);
    ten_free(pids->list);
    *pids = (struct pids){0};
    return found;
}

unsigned ten_tree_signal(pid_t root, int signal) {
    struct pids pids = {0};
    add(&pids, root);
    return signal_list(&pids, 0, signal);
}

pid_t ten_tree_first_child(pid_t pid) {
    struct pids pids = {0};
    add_children(&pids, pid);
    pid_t first = pids.count > 0 ? pids.list[0] : 0;
    ten_free(pids.list);
    return first;
}

/* Whether the process may belong to the poll: it has its mark, or none that can be read. */
static bool may_belong(pid_t pid, uint64_t poll) {
    char path[40];
    char mark[40];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    TEN_CLEANUP(ten_free_string) char *text = ten_malloc(ENVIRONMENT_MAX);
    ssize_t size = fd >= 0 && text ? ten_pread_all(fd, text, ENVIRONMENT_MAX - 1, 0) : -1;
    if (size <= 0)
        return true;
    text[size] = '\0';
    int length = snprintf(mark, sizeof mark, TEN_POLL_MARK "=%llu", (unsigned long long)poll);
    bool marked = false;
    for (const char *at = text; at < text + size; at += strlen(at) + 1) {
        if (strncmp(at, TEN_POLL_MARK "=", sizeof TEN_POLL_MARK) != 0)
            continue;
        marked = true;
        if (strncmp(at, mark, (size_t)length + 1) == 0)
            return true;
    }
    return !marked;
}

static bool is_among(pid_t pid, const pid_t *list, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (list[i] == pid)
            return true;
    return false;
}

unsigned ten_tree_signal_orphans(pid_t parent, uint64_t poll, const pid_t *spared, unsigned spared_count, int signal) {
    struct pids children = {0};
    struct pids pids = {0};
    add_children(&children, parent);
    for (size_t i = 0; i < children.count; i++)
        if (!is_among(children.list[i], spared, spared_count) && may_belong(children.list[i], poll))
            add(&pids, children.list[i]);
    ten_free(children.list);
    return signal_list(&pids, 0, signal);
}

unsigned ten_tree_signal_all(const pid_t *spared, unsigned spared_count, int signal) {
    struct pids children = {0};
    struct pids pids = {0};
    add_children(&children, getpid());
    for (size_t i = 0; i < children.count; i++)
        if (!is_among(children.list[i], spared, spared_count))
            add(&pids, children.list[i]);
    ten_free(children.list);
    return signal_list(&pids, 0, signal);
}

bool ten_tree_can_isolate(void) {
    int status = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(CLONE_NEWPID) == 0 ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

void ten_tree_adopt(void) {
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}
