/*
 * Ending commands in the worker's place: see watch.h. Called by the warden's loop.
 */
#include "agent/warden/watch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/warden/tree.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/util.h"
#include "core/work.h"

#define LOOK_MS      20u
#define ASK_AGAIN_MS 250u /* for what the command has started meanwhile */

/* A place whose command has to end. */
struct due {
    uint64_t mark;
    struct ten_shared_poll *place;
    int signal;
};

struct ten_watch {
    uint64_t grace_ms;
    const ten_shared *shared; /* of the worker that is looked at */
    pid_t worker;             /* of which all that follows is known */
    struct {
        uint64_t mark;
        uint64_t again_ms;
        pid_t gone;            /* this process of it has ended; a stopped worker does not clear the place */
    } asked[TEN_SHARED_POLLS]; /* by place */
    struct due due[TEN_SHARED_POLLS];
    size_t count;
    size_t loose;     /* of them, those of which only the marks show what they have left behind */
    int loose_signal; /* the strongest that one of these gets */
    pid_t pids[TEN_SHARED_POLLS];
    size_t pid_count; /* of all commands */
    uint64_t kill_ms; /* when the first of those that are asked has to be killed */
};

ten_watch *ten_watch_open(uint64_t grace_ms) {
    ten_watch *watch = ten_calloc(1, sizeof *watch);
    if (watch)
        watch->grace_ms = grace_ms;
    return watch;
}

void ten_watch_close(ten_watch *watch) {
    ten_free(watch);
}

/* ---- what has to end */

static int compare_marks(const void *a, const void *b) {
    uint64_t first = ((const struct due *)a)->mark;
    uint64_t second = ((const struct due *)b)->mark;
    return (first > second) - (first < second);
}

static enum ten_isolation form_of(const struct ten_shared_poll *place) {
    return (enum ten_isolation)atomic_load(&place->form);
}

/* Returns when the next one has to end. */
static uint64_t collect(ten_watch *watch, const ten_shared *shared) {
    struct ten_shared_state *state = shared->state;
    uint64_t next_ms = UINT64_MAX;
    unsigned places = atomic_load(&state->poll_places);
    uint64_t now_ms = ten_now_ms();
    watch->count = watch->loose = watch->pid_count = 0;
    watch->kill_ms = UINT64_MAX;
    watch->loose_signal = SIGTERM;
    for (unsigned i = 0; i < places; i++) {
        struct ten_shared_poll *place = &state->polls[i];
        uint32_t belief = atomic_load(&place->belief);
        pid_t pid = atomic_load(&place->pid);
        if (belief == 0)
            continue;
        if (pid > 0)
            watch->pids[watch->pid_count++] = pid;
        if (belief == TEN_SHARED_UNBOUND)
            continue;
        uint64_t ends_ms = ten_shared_ends_ms(shared, place);
        enum ten_work_step step = ten_work_pressure(ends_ms, watch->grace_ms, now_ms);
        if (step == TEN_WORK_NOTHING) {
            next_ms = ten_min_u64(next_ms, ten_work_ask_ms(ends_ms, watch->grace_ms));
            continue;
        }
        watch->due[watch->count++] = (struct due){
            .mark = atomic_load(&place->poll), .place = place, .signal = step == TEN_WORK_KILL ? SIGKILL : SIGTERM};
        bool loose = !ten_isolation_is_namespace(form_of(place));
        watch->loose += loose;
        if (loose && step == TEN_WORK_KILL)
            watch->loose_signal = SIGKILL;
        if (step == TEN_WORK_ASK)
            watch->kill_ms = ten_min_u64(watch->kill_ms, ten_work_kill_ms(ends_ms, watch->grace_ms));
    }
    return next_ms;
}

/* ---- ending it */

/* The command; when it is asked, with all that is below it. What it leaves behind is the worker's child then, and is
 * found by its mark, if nothing else keeps it: in a namespace the first process passes a signal on, or takes all
 * with it. Returns whether it was there. */
static bool signal_command(const struct due *due, const ten_shared *shared, pid_t worker, ten_trouble *trouble) {
    struct ten_shared_poll *place = due->place;
    enum ten_isolation form = form_of(place);
    atomic_store(&place->ended_for_lease, due->mark);
    if (form == TEN_ISOLATION_CGROUP &&
        ten_cgroup_signal(shared->state->cgroup, worker, due->mark, due->signal, trouble) > 0)
        return true;
    if (!ten_isolation_is_namespace(form) && due->signal == SIGTERM)
        return ten_tree_signal_at(&place->pid, SIGTERM, trouble) > 0;
    return ten_process_signal_at(&place->pid, due->signal, trouble);
}

/* Does nothing for one that has ended, nor for one that was asked a moment ago. */
static void end_command(ten_watch *watch, const struct due *due, const ten_shared *shared, ten_trouble *trouble) {
    size_t number = (size_t)(due->place - shared->state->polls);
    pid_t pid = atomic_load(&due->place->pid);
    bool known = watch->asked[number].mark == due->mark;
    if (known && pid > 0 && watch->asked[number].gone == pid)
        return;
    if (known && due->signal == SIGTERM && ten_now_ms() < watch->asked[number].again_ms)
        return;
    bool there = signal_command(due, shared, watch->worker, trouble);
    if (!there && !known) /* it had ended by itself before */
        atomic_store(&due->place->ended_for_lease, 0);
    watch->asked[number].mark = due->mark;
    watch->asked[number].again_ms = ten_now_ms() + ASK_AGAIN_MS;
    watch->asked[number].gone = there ? 0 : pid;
}

/* A process that was started after the places were read is a command that has not got its mark yet. */
static bool is_new_command(const ten_watch *watch, pid_t pid) {
    const struct ten_shared_state *state = watch->shared->state;
    unsigned places = atomic_load(&state->poll_places);
    for (unsigned i = 0; i < places; i++)
        if (atomic_load(&state->polls[i].pid) == pid)
            return true;
    return false;
}

static int choose_orphan(pid_t pid, void *userdata) {
    const ten_watch *watch = userdata;
    if (bsearch(&pid, watch->pids, watch->pid_count, sizeof pid, ten_compare_ints))
        return 0; /* a command: it was signalled in its own right, or is not meant */
    struct due wanted = {.mark = ten_tree_mark(pid)};
    const struct due *due = bsearch(&wanted, watch->due, watch->count, sizeof wanted, compare_marks);
    if (due)
        return due->signal;
    if (ten_shared_has_mark(watch->shared, wanted.mark))
        return 0; /* of a command that is not meant */
    /* Without a mark, or with one of its own choice, it may belong to any of them, if it is not gone. */
    bool meant = ten_process_signal(pid, 0, NULL) && !is_new_command(watch, pid);
    return meant ? watch->loose_signal : 0;
}

/* Those to be killed first, then those to be asked, until the first of these has to be killed. */
static void end_commands(ten_watch *watch, const ten_shared *shared, ten_trouble *trouble) {
    for (size_t i = 0; i < watch->count; i++)
        if (watch->due[i].signal == SIGKILL)
            end_command(watch, &watch->due[i], shared, trouble);
    for (size_t i = 0; i < watch->count && ten_now_ms() < watch->kill_ms; i++)
        if (watch->due[i].signal == SIGTERM)
            end_command(watch, &watch->due[i], shared, trouble);
}

uint64_t ten_watch_look(ten_watch *watch, const ten_shared *shared, pid_t worker, ten_trouble *trouble) {
    watch->shared = shared;
    if (watch->worker != worker)
        memset(watch->asked, 0, sizeof watch->asked); /* another worker counts its commands anew */
    watch->worker = worker;
    uint64_t next_ms = collect(watch, shared);
    if (watch->count == 0)
        return next_ms;
    end_commands(watch, shared, trouble);
    if (watch->loose > 0) {
        qsort(watch->due, watch->count, sizeof watch->due[0], compare_marks);
        qsort(watch->pids, watch->pid_count, sizeof watch->pids[0], ten_compare_ints);
        (void)ten_tree_signal_children(worker, choose_orphan, watch, trouble);
    }
    return ten_min_u64(next_ms, ten_now_ms() + LOOK_MS);
}

/* ---- after the worker's death */

static int choose_all(pid_t pid, void *userdata) {
    return pid == *(const pid_t *)userdata ? 0 : SIGKILL;
}

unsigned ten_watch_kill_all(const ten_shared *shared, pid_t worker, pid_t spared, ten_trouble *trouble) {
    const struct ten_shared_state *state = shared->state;
    unsigned places = atomic_load(&state->poll_places);
    unsigned found = 0;
    for (unsigned i = 0; i < places; i++) {
        const struct ten_shared_poll *place = &state->polls[i];
        if (atomic_load(&place->belief) == 0 || form_of(place) != TEN_ISOLATION_CGROUP)
            continue;
        uint64_t mark = atomic_load(&place->poll);
        unsigned there = ten_cgroup_signal(state->cgroup, worker, mark, SIGKILL, trouble);
        if (there == 0)
            ten_cgroup_remove(state->cgroup, worker, mark);
        found += there;
    }
    return found + ten_tree_signal_children(getpid(), choose_all, &spared, trouble);
}
