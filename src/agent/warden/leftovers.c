/*
 * What commands leave behind: see leftovers.h. Called by child.c in the worker, which alone reaps its children: a
 * number in the list stays that process's until ten_leftovers_reaped().
 */
#include "agent/warden/leftovers.h"

#include <errno.h>
#include <unistd.h>

#include "agent/warden/tree.h"
#include "base/alloc.h"
#include "base/clock.h"

#define FRESH_MS  10u /* what was there in a walk of this age is taken to be there */
#define LISTS_MAX 8

/* ---- a walk */

struct walk {
    ten_leftovers *leftovers;
    const ten_shared *shared;
    const ten_running *commands;
    size_t dead; /* children that wait to be reaped */
};

static void note(ten_leftovers *leftovers, pid_t pid, uint64_t mark) {
    if (TEN_GROW(leftovers->list, leftovers->room, leftovers->count + 1)) {
        leftovers->list[leftovers->count++] = (struct ten_leftover){.pid = pid, .mark = mark};
        return;
    }
    errno = ENOMEM;
    ten_trouble_note(&leftovers->trouble, pid);
    leftovers->unsure = true;
}

static void look_at_child(pid_t pid, void *userdata) {
    struct walk *walk = userdata;
    ten_leftovers *leftovers = walk->leftovers;
    if (ten_running_find(walk->commands, pid))
        return;
    uint64_t mark = ten_tree_mark(pid); /* of a process that has ended there is none */
    if (!ten_process_signal(pid, 0, &leftovers->trouble))
        walk->dead++;
    else
        note(leftovers, pid, ten_shared_has_mark(walk->shared, mark) ? mark : TEN_TREE_NO_MARK);
}

/* What was below a process that ends during a walk is adopted after the children were listed. So they are listed again,
 * until none of them has ended since the list before. */
static void walk_children(ten_leftovers *leftovers, const ten_shared *shared, const ten_running *commands) {
    size_t dead_before = 0;
    bool complete = false;
    leftovers->walks++;
    leftovers->walked_ms = ten_now_ms();
    leftovers->trouble = (ten_trouble){0};
    leftovers->unsure = false;
    for (int i = 0; i < LISTS_MAX && !complete && !leftovers->unsure; i++) {
        struct walk walk = {.leftovers = leftovers, .shared = shared, .commands = commands};
        leftovers->count = 0;
        if (!ten_tree_each_child(getpid(), look_at_child, &walk, &leftovers->trouble))
            leftovers->unsure = true;
        complete = walk.dead == dead_before;
        dead_before = walk.dead;
    }
    leftovers->unsure |= !complete;
}

/* ---- one command */

static bool may_be_of(const struct ten_leftover *left, uint64_t mark) {
    return left->mark == mark || left->mark == TEN_TREE_NO_MARK;
}

static bool has_left(const ten_leftovers *leftovers, uint64_t mark) {
    for (size_t i = 0; i < leftovers->count; i++)
        if (may_be_of(&leftovers->list[i], mark))
            return true;
    return leftovers->unsure;
}

/* What a walk has not found after its command was reaped never comes. What it has found may be gone. */
static bool must_walk(const ten_leftovers *leftovers, uint64_t mark, uint64_t walks_before) {
    if (walks_before != TEN_LEFTOVERS_RUNNING && leftovers->walks <= walks_before)
        return true;
    if (walks_before != TEN_LEFTOVERS_RUNNING && !has_left(leftovers, mark))
        return false;
    return leftovers->walks == 0 || ten_now_ms() >= leftovers->walked_ms + FRESH_MS;
}

bool ten_leftovers_signal(ten_leftovers *leftovers, const ten_shared *shared, const ten_running *commands,
                          uint64_t mark, uint64_t walks_before, int signal, ten_trouble *trouble) {
    if (must_walk(leftovers, mark, walks_before))
        walk_children(leftovers, shared, commands);
    if (!has_left(leftovers, mark))
        return false;
    for (size_t i = 0; i < leftovers->count; i++)
        if (leftovers->list[i].pid && may_be_of(&leftovers->list[i], mark))
            (void)ten_tree_signal(leftovers->list[i].pid, signal, trouble);
    if (leftovers->trouble.error != 0)
        *trouble = leftovers->trouble;
    return true;
}

void ten_leftovers_reaped(ten_leftovers *leftovers, pid_t pid) {
    for (size_t i = 0; i < leftovers->count; i++)
        if (leftovers->list[i].pid == pid)
            leftovers->list[i].pid = 0;
}

void ten_leftovers_free(ten_leftovers *leftovers) {
    ten_free(leftovers->list);
    leftovers->list = NULL;
    leftovers->count = leftovers->room = 0;
}
