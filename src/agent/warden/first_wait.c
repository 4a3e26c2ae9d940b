/*
 * What the first process of a PID namespace does while its command runs: see first.h. Part of the worker and of
 * first_program.c, so it calls nothing but the kernel.
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/warden/first.h"
#include "agent/warden/system_call.h"
#include "base/util.h"
#include "core/work.h"

#define NEVER      UINT64_MAX
#define KERNEL_SET 8 /* bytes of a set of signals */

/* Signal numbers from 1 on. */
#define BIT(number) (UINT64_C(1) << ((number)-1))

static uint64_t now_ms(void) {
    struct timespec now;
    (void)ten_system_call(SYS_clock_gettime, CLOCK_BOOTTIME, (long)&now, 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static long send(pid_t whom, int number) {
    return ten_system_call(SYS_kill, whom, number, 0, 0, 0, 0);
}

/* All processes that this number means; false: there is none. A stopped one is continued, to notice it. */
static bool ask(pid_t whom) {
    long r = send(whom, SIGTERM);
    (void)send(whom, SIGCONT);
    return r == 0;
}

/* When the deadline that is known now demands to kill. */
static uint64_t kill_ms(const ten_first *first) {
    if (atomic_load(&first->place->belief) == TEN_SHARED_UNBOUND)
        return NEVER;
    return ten_work_kill_ms(ten_shared_ends_ms(first->shared, first->place), first->grace_ms);
}

/* Returns the signal that came, or a negative number. */
static long wait_until(uint64_t until_ms, uint64_t from_ms) {
    uint64_t signals = BIT(SIGCHLD) | BIT(SIGTERM);
    uint64_t left_ms = ten_sub_saturating(until_ms, from_ms);
    struct timespec left = {.tv_sec = (time_t)(left_ms / 1000), .tv_nsec = (long)(left_ms % 1000) * 1000000L};
    return ten_system_call(SYS_rt_sigtimedwait, (long)&signals, 0, until_ms == NEVER ? 0 : (long)&left, KERNEL_SET, 0,
                           0);
}

/* A signal to everyone costs the kernel a look at each process of the system. So the command's group is asked first,
 * and everyone only if the command has not ended soon after that. Returns when that is. */
static uint64_t ask_first(const ten_first *first, pid_t command, uint64_t all_ms) {
    if (!first->own_group) {
        (void)ask(-1);
        return NEVER;
    }
    if (!ask(-command)) /* it is on its way to its group */
        (void)ask(command);
    return ten_min_u64(all_ms, now_ms() + first->grace_ms / 4);
}

void ten_first_wait(const ten_first *first) {
    struct ten_shared_poll *place = first->place;
    pid_t command = atomic_load(&place->command);
    uint64_t all_ms = NEVER;
    for (;;) {
        int status = 0;
        long ended = ten_system_call(SYS_wait4, -1, (long)&status, WNOHANG, 0, 0, 0);
        if (ended == command)
            atomic_store(&place->status, status);
        if (ended == command || ended < 0)
            return;
        if (ended > 0) /* an orphan of the namespace */
            continue;
        uint64_t end_ms = kill_ms(first);
        uint64_t now = now_ms();
        if (now >= end_ms) {
            atomic_store(&place->ended_at_deadline, atomic_load(&place->poll));
            atomic_store(&place->status, SIGKILL);
            return;
        }
        if (now >= all_ms) {
            (void)ask(-1);
            all_ms = NEVER;
        }
        if (wait_until(ten_min_u64(end_ms, all_ms), now) == SIGTERM)
            all_ms = ask_first(first, command, all_ms);
    }
}
