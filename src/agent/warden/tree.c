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
#include "base/random.h"
#include "base/util.h"

#define ENVIRONMENT_MAX ((size_t)256 * 1024)

struct pids {
    pid_t *list;
    uint32_t count;
    uint32_t room;
    bool unsure; /* something could not be read */
    ten_trouble *trouble;
};

static void cannot_look(struct pids *pids, pid_t pid) {
    ten_trouble_note(pids->trouble, pid);
    pids->unsure = true;
}

static void add(struct pids *pids, pid_t pid) {
    if (TEN_GROW(pids->list, pids->room, pids->count + 1)) {
        pids->list[pids->count++] = pid;
        return;
    }
    errno = ENOMEM;
    cannot_look(pids, pid);
}

/* ---- children */

static bool is_vanished(int error) {
    return error == ENOENT || error == ESRCH;
}

/* A kernel without CONFIG_PROC_CHILDREN has threads, but no list of their children. */
static bool is_there(pid_t pid, const char *thread) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s", (int)pid, thread);
    TEN_KEEP_ERRNO;
    return access(path, F_OK) == 0;
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
    TEN_CLEANUP(ten_close_directory) DIR *threads = opendir(path);
    if (threads)
        errno = 0;
    for (struct dirent *entry; threads && (entry = readdir(threads)); errno = 0)
        if (entry->d_name[0] != '.')
            add_children_of_thread(pids, pid, entry->d_name);
    if (errno != 0 && !is_vanished(errno))
        cannot_look(pids, pid);
}

bool ten_tree_each_child(pid_t parent, void (*take)(pid_t child, void *userdata), void *userdata,
                         ten_trouble *trouble) {
    struct pids children = {.trouble = trouble};
    add_children(&children, parent);
    for (size_t i = 0; i < children.count; i++)
        take(children.list[i], userdata);
    ten_free(children.list);
    return !children.unsure;
}

pid_t ten_tree_first_child(pid_t pid) {
    struct pids pids = {0};
    add_children(&pids, pid);
    pid_t first = pids.count > 0 ? pids.list[0] : 0;
    ten_free(pids.list);
    return first;
}

/* ---- signalling */

/* A process and what is below it, each held by a descriptor: its number can become another's at any moment. */
struct tree {
    struct member {
        pid_t pid;
        int fd; /* or -errno */
    } * members;
    uint32_t count;
    uint32_t room;
    struct pids children; /* of one of them */
};

static void free_tree(struct tree *tree) {
    for (size_t i = 0; i < tree->count; i++)
        ten_close_fd(&tree->members[i].fd);
    ten_free(tree->members);
    ten_free(tree->children.list);
}

static bool add_member(struct tree *tree, pid_t pid, int fd) {
    if (TEN_GROW(tree->members, tree->room, tree->count + 1)) {
        tree->members[tree->count++] = (struct member){.pid = pid, .fd = fd};
        return true;
    }
    errno = ENOMEM;
    cannot_look(&tree->children, pid);
    return false;
}

/* 0: it is gone; -1: it cannot be read. fd: of the process, or -errno. A process that is hidden looks like one that has
 * vanished; its descriptor knows better. */
static pid_t parent_of(pid_t pid, int fd) {
    char path[32];
    char text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    ssize_t size = ten_process_proc_is_ours() ? ten_read_line(path, text, sizeof text) : -EXDEV;
    if (size < 0)
        return is_vanished((int)-size) && fd >= 0 && ten_process_has_ended(fd) ? 0 : -1;
    const char *name_end = strrchr(text, ')');
    int parent = -1;
    return name_end && sscanf(name_end + 1, " %*c %d", &parent) == 1 ? (pid_t)parent : -1;
}

/* Whether the process of the descriptor is still that child: the number is a child's, and both numbers have not changed
 * hands meanwhile. Without descriptors that is not known. */
static bool is_child(const struct member *parent, pid_t pid, int fd) {
    pid_t found = parent_of(pid, fd);
    return fd < 0 || parent->fd < 0 || found < 0 ||
           (found == parent->pid && !ten_process_has_ended(fd) && !ten_process_has_ended(parent->fd));
}

/* Everything below is added, level by level. A child that is lost on the way has been adopted by the worker or the
 * warden and is found there. */
static void grow(struct tree *tree) {
    for (size_t i = 0; i < tree->count; i++) {
        tree->children.count = 0;
        add_children(&tree->children, tree->members[i].pid);
        for (size_t j = 0; j < tree->children.count; j++) {
            pid_t pid = tree->children.list[j];
            int fd = ten_process_open(pid);
            if (!is_child(&tree->members[i], pid, fd) || !add_member(tree, pid, fd))
                ten_close_fd(&fd);
        }
    }
}

/* The descriptor becomes the tree's. */
static unsigned signal_tree(pid_t root, int fd, int signal, ten_trouble *trouble) {
    struct tree tree = {.children = {.trouble = trouble}};
    unsigned found = 0;
    if (!add_member(&tree, root, fd)) {
        found = ten_process_signal_opened(fd, root, signal, trouble);
        ten_close_fd(&fd);
        return found + 1;
    }
    grow(&tree);
    for (size_t i = 0; i < tree.count; i++)
        found += ten_process_signal_opened(tree.members[i].fd, tree.members[i].pid, signal, trouble);
    found += tree.children.unsure;
    free_tree(&tree);
    return found;
}

unsigned ten_tree_signal(pid_t root, int signal, ten_trouble *trouble) {
    return signal_tree(root, ten_process_open(root), signal, trouble);
}

unsigned ten_tree_signal_at(const _Atomic(int32_t) *number, int signal, ten_trouble *trouble) {
    pid_t pid = atomic_load(number);
    if (pid <= 0)
        return 0;
    int fd = ten_process_open(pid);
    if (atomic_load(number) == pid)
        return signal_tree(pid, fd, signal, trouble);
    ten_close_fd(&fd);
    return 0;
}

/* ---- children that were adopted */

/* Those that were adopted after the children had been listed: the parent of each has ended since. */
static unsigned count_adopted(pid_t parent, struct pids *before, ten_tree_choice choose, void *userdata) {
    struct pids children = {.trouble = before->trouble};
    unsigned found = 0;
    add_children(&children, parent);
    qsort(before->list, before->count, sizeof before->list[0], ten_compare_ints);
    for (size_t i = 0; i < children.count; i++)
        if (!bsearch(&children.list[i], before->list, before->count, sizeof before->list[0], ten_compare_ints))
            found += choose(children.list[i], userdata) != 0;
    ten_free(children.list);
    return found + children.unsure;
}

/* A child that is not the parent's any more has been reaped by it, and its number may be another's. */
static unsigned signal_child(pid_t parent, pid_t pid, int signal, ten_trouble *trouble) {
    int fd = ten_process_open(pid);
    pid_t found = fd >= 0 ? parent_of(pid, fd) : -1;
    if (found < 0 || found == parent)
        return signal_tree(pid, fd, signal, trouble);
    ten_close_fd(&fd);
    return 0;
}

unsigned ten_tree_signal_children(pid_t parent, ten_tree_choice choose, void *userdata, ten_trouble *trouble) {
    struct pids children = {.trouble = trouble};
    unsigned found = 0;
    bool any = false;
    add_children(&children, parent);
    for (size_t i = 0; i < children.count; i++) {
        int signal = choose(children.list[i], userdata);
        any |= signal != 0;
        if (signal != 0)
            found += signal_child(parent, children.list[i], signal, trouble);
    }
    found += children.unsure;
    if (found == 0 && any)
        found = count_adopted(parent, &children, choose, userdata);
    ten_free(children.list);
    return found;
}

/* ---- marks */

uint64_t ten_tree_new_mark(void) {
    uint64_t mark;
    do
        mark = ten_random_u64();
    while (mark == TEN_TREE_NO_MARK);
    return mark;
}

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
