/*
 * Three processes that renew without pause. Called by sqlite.c. What they measured comes back through shared memory.
 */
#include "crowd.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bare.h"
#include "base/alloc.h"
#include "base/io.h"
#include "ground.h"

#define LEASES_EACH 100u
#define CALLS_MAX   2000000u

struct crowd_team {
    ground_leases leases[CROWD_SIZE];
};

struct shared {
    atomic_uint ready;
    _Atomic(uint64_t) start_us; /* 0: not yet */
    crowd_member members[CROWD_SIZE];
};

crowd_team *crowd_prepare(const char *path) {
    crowd_team *made = ten_calloc(1, sizeof *made);
    ten_store *store = ground_open(path);
    bool done = made && store;
    for (unsigned i = 0; done && i < CROWD_SIZE; i++)
        done = ground_acquire(store, i, LEASES_EACH, &made->leases[i]);
    ten_store_close(store);
    if (done)
        return made;
    crowd_free(made);
    return NULL;
}

void crowd_free(crowd_team *team) {
    for (size_t i = 0; team && i < CROWD_SIZE; i++)
        ground_free(&team->leases[i]);
    ten_free(team);
}

/* ---- a member, in its own process ---------------------------------------------------------------------- */

struct member {
    const crowd_plan *plan;
    const ground_leases *leases;
    ten_store *store;
    bare_db bare;
    size_t next;
    uint32_t *calls_us;
};

static bool call(struct member *member) {
    if (member->next + member->plan->batch > member->leases->count)
        member->next = 0;
    const ten_op *ops = member->leases->ops + member->next;
    member->next += member->plan->batch;
    if (member->plan->stock)
        return bare_renew(&member->bare, ops, member->plan->batch);
    return ground_apply(member->store, ops, member->leases->results, member->plan->batch);
}

static int compare(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void sum_up(uint32_t *calls_us, size_t count, crowd_member *result) {
    qsort(calls_us, count, sizeof *calls_us, compare);
    result->turns = count;
    result->p50_ms = count ? calls_us[count / 2] / 1000.0 : 0;
    result->p99_ms = count ? calls_us[count - 1 - count / 100] / 1000.0 : 0;
    result->worst_ms = count ? calls_us[count - 1] / 1000.0 : 0;
}

static bool open_member(struct member *member) {
    member->calls_us = ten_calloc(CALLS_MAX, sizeof *member->calls_us);
    if (!member->calls_us)
        return false;
    if (member->plan->stock)
        return bare_open(&member->bare, member->plan->path, false) && call(member);
    member->store = ground_open(member->plan->path);
    return member->store && call(member);
}

static bool run_member(struct member *member, struct shared *shared, crowd_member *result) {
    bool opened = open_member(member);
    atomic_fetch_add(&shared->ready, 1u);
    uint64_t now_us;
    while ((now_us = atomic_load(&shared->start_us)) == 0)
        ten_sleep_us(200);
    uint64_t end_us = now_us + member->plan->run_ms * 1000u;
    size_t count = 0;
    bool done = opened;
    for (now_us = ten_boot_us(); done && now_us < end_us && count < CALLS_MAX;) {
        uint64_t before_us = now_us;
        done = call(member);
        now_us = ten_boot_us();
        member->calls_us[count++] = (uint32_t)(now_us - before_us);
    }
    if (opened)
        sum_up(member->calls_us, count, result);
    return done;
}

/* ---- all of them --------------------------------------------------------------------------------------- */

static bool start_member(crowd_team *team, const crowd_plan *plan, size_t index, struct shared *shared) {
    pid_t pid = fork();
    if (pid != 0)
        return pid > 0;
    struct member member = {.plan = plan, .leases = &team->leases[index]};
    crowd_member result = {0};
    result.failed = !run_member(&member, shared, &result);
    shared->members[index] = result;
    _exit(result.failed);
}

bool crowd_run(crowd_team *team, const crowd_plan *plan, crowd_member members[CROWD_SIZE]) {
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return false;
    unsigned started = 0;
    for (size_t i = 0; i < CROWD_SIZE; i++)
        started += start_member(team, plan, i, shared);
    /* Bounded, since a member that crashed is never ready. */
    for (unsigned waits = 0; waits < 10000 && atomic_load(&shared->ready) < started; waits++)
        ten_sleep_us(1000);
    atomic_store(&shared->start_us, ten_boot_us());
    bool done = started == CROWD_SIZE;
    for (unsigned i = 0; i < started; i++) {
        int status = 0;
        done = wait(&status) > 0 && status == 0 && done;
    }
    memcpy(members, shared->members, sizeof shared->members);
    munmap(shared, sizeof *shared);
    return done;
}
