/*
 * Process trees, from /proc. Called by child.c when a command ends, and by the warden when a worker or a target has to.
 */
#include "agent/warden/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/util.h"

#define ENVIRONMENT_MAX ((size_t)256 * 1024)

struct pids {
    pid_t *list;
    size_t count;
    size_t room;
    bool unsure; /* something could not be read */
    ten_trouble *trouble;
};

static void cannot_look(struct pids *pids, pid_t pid) {
    ten_trouble_note(pids->trouble, pid);
    pids->unsure = true;
}

static void add(struct pids *pids, pid_t pid) {
    if (pids->count == pids->room) {
        size_t room = pids->room ? pids->room * 2 : 64;
        pid_t *list = ten_realloc(pids->list, room * sizeof *list);
        if (!list) {
            errno = ENOMEM;
            cannot_look(pids, pid);
            return;
        }
        pids->list = list;
        pids->room = room;
    }
    pids->list[pids->count++] = pid;
}

/* ---- children */

static bool is_vanished(int error) {
    return error == ENOENT || error == ESRCH;
}

/* A kernel without CONFIG_PROC_CHILDREN has threads, but no list of their children. */
static bool is_there(pid_t pid, const char *thread) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s", (int)pid, thread);
    int failed = errno;
    bool there = access(path, F_OK) == 0;
    errno = failed;
    return there;
}

/* The children of one thread of a process. */
static void add_children_of_thread(struct pids *pids, pid_t pid, const char *thread) {
    char path[64];
    char text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)pid, thread);
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (!is_vanished(errno) || is_there(pid, thread)))
        cannot_look(pids, pid);
    size_t kept = 0;
    while (fd >= 0) {
        ssize_t count = ten_read_some(fd, text + kept, sizeof text - 1 - kept);
        if (count < 0 && !is_vanished((int)-count)) {
            errno = (int)-count;
            cannot_look(pids, pid);
        }
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

/* A process that has vanished has no children: they were adopted. One that is only hidden has, and is seen to be there
 * when it is signalled. */
static void add_children(struct pids *pids, pid_t pid) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if (!ten_process_proc_is_ours()) {
        cannot_look(pids, pid);
        return;
    }
    DIR *threads = opendir(path);
    if (!threads) {
        if (!is_vanished(errno))
            cannot_look(pids, pid);
        return;
    }
    errno = 0;
    for (struct dirent *entry; (entry = readdir(threads)); errno = 0)
        if (entry->d_name[0] != '.')
            add_children_of_thread(pids, pid, entry->d_name);
    if (errno != 0 && !is_vanished(errno))
        cannot_look(pids, pid);
    closedir(threads);
}

pid_t ten_tree_first_child(pid_t pid) {
    struct pids pids = {0};
    add_children(&pids, pid);
    pid_t first = pids.count > 0 ? pids.list[0] : 0;
    ten_free(pids.list);
    return first;
}

/* ---- signalling */

/* Everything below what is in the list from `first` on is added to it, then all of these get the signal. */
static unsigned signal_list(struct pids *pids, size_t first, int signal) {
    unsigned found = 0;
    for (size_t i = first; i < pids->count; i++)
        add_children(pids, pids->list[i]);
    for (size_t i = first; i < pids->count; i++)
        found += ten_process_signal(pids->list[i], signal, pids->trouble);
    return found;
}

unsigned ten_tree_signal(pid_t root, int signal, ten_trouble *trouble) {
    struct pids pids = {.trouble = trouble};
    add(&pids, root);
    unsigned found = signal_list(&pids, 0, signal) + pids.unsure;
    ten_free(pids.list);
    return found;
}

static bool is_among(pid_t pid, const struct pids *pids) {
    for (size_t i = 0; i < pids->count; i++)
        if (pids->list[i] == pid)
            return true;
    return false;
}

/* Processes that were adopted after the children had been listed: the parent of each has ended since. */
static unsigned count_adopted(pid_t parent, const struct pids *before, ten_tree_choice choose, void *userdata) {
    struct pids children = {.trouble = before->trouble};
    unsigned found = 0;
    add_children(&children, parent);
    for (size_t i = 0; i < children.count; i++)
        found += !is_among(children.list[i], before) && choose(children.list[i], userdata) != 0;
    ten_free(children.list);
    return found + children.unsure;
}

unsigned ten_tree_signal_children(pid_t parent, ten_tree_choice choose, void *userdata, ten_trouble *trouble) {
    struct pids children = {.trouble = trouble};
    struct pids pids = {.trouble = trouble};
    unsigned found = 0;
    add_children(&children, parent);
    for (size_t i = 0; i < children.count; i++) {
        int signal = choose(children.list[i], userdata);
        if (signal == 0)
            continue;
        size_t first = pids.count;
        add(&pids, children.list[i]);
        found += signal_list(&pids, first, signal);
    }
    found += pids.unsure + children.unsure;
    if (found == 0 && pids.count > 0)
        found = count_adopted(parent, &pids, choose, userdata);
    ten_free(children.list);
    ten_free(pids.list);
    return found;
}

/* ---- marks */

/* The number after `TENURE_POLL=` in an environment. */
static uint64_t find_mark(const char *text, size_t size) {
    for (const char *at = text; at < text + size; at += strlen(at) + 1)
        if (strncmp(at, TEN_POLL_MARK "=", sizeof TEN_POLL_MARK) == 0)
            return strtoull(at + sizeof TEN_POLL_MARK, NULL, 10);
    return TEN_TREE_NO_MARK;
}

uint64_t ten_tree_mark(pid_t pid) {
    char path[40];
    char start[4096]; /* it is among the first, unless a program has written its environment anew */
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    TEN_CLEANUP(ten_close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? ten_pread_all(fd, start, sizeof start - 1, 0) : -1;
    if (size <= 0)
        return TEN_TREE_NO_MARK;
    bool complete = (size_t)size < sizeof start - 1;
    while (!complete && size > 0 && start[size - 1] != '\0')
        size--; /* a variable of which the end is missing */
    start[size] = '\0';
    uint64_t mark = find_mark(start, (size_t)size);
    if (mark != TEN_TREE_NO_MARK || complete)
        return mark;
    TEN_CLEANUP(ten_free_string) char *text = ten_malloc(ENVIRONMENT_MAX);
    size = text ? ten_pread_all(fd, text, ENVIRONMENT_MAX - 1, 0) : -1;
    if (size <= 0)
        return TEN_TREE_NO_MARK;
    text[size] = '\0';
    return find_mark(text, (size_t)size);
}

void ten_tree_adopt(void) {
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}
