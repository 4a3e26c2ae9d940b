/*
 * The program of a PID namespace's first process: see first.h. It has no C library and no data, so that the kernel has
 * little to do when it starts and when it ends. Made by first.c's caller from a descriptor; its one argument has
 * numbers:
 *
 *   the descriptors of the shared state, of the beliefs, and of the pipe to the worker; the place; the grace in ms;
 *   whether the command has a process group of its own
 */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "agent/warden/first.h"
#include "agent/warden/system_call.h"

#define CANNOT_START 127

_Noreturn void ten_first_main(char **stack);
TEN_ENTRY(ten_first_main);

static _Noreturn void leave(long status) {
    for (;;)
        (void)ten_system_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

static uint64_t take_number(const char **text) {
    uint64_t number = 0;
    while (**text == ' ')
        (*text)++;
    for (; **text >= '0' && **text <= '9'; (*text)++)
        number = number * 10 + (uint64_t)(**text - '0');
    return number;
}

static void *map(uint64_t fd, size_t size) {
    long address = ten_system_call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED, (long)fd, 0);
    if (address < 0 && address > -4096)
        leave(CANNOT_START);
    return (void *)address;
}

/* Becoming a program may have cost it the signal that the kernel sends when the worker dies; and the worker may be
 * dead. */
static void follow_worker(uint64_t alive_fd) {
    struct pollfd polled = {.fd = (int)alive_fd};
    struct timespec none = {0};
    (void)ten_system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    long r = ten_system_call(SYS_ppoll, (long)&polled, 1, (long)&none, 0, 0, 0);
    if (r != 0 && (polled.revents & (POLLERR | POLLNVAL)))
        leave(CANNOT_START);
}

/* On the stack: the number of arguments, then the arguments. */
_Noreturn void ten_first_main(char **stack) {
    const char *text = stack[2];
    uint64_t state_fd = take_number(&text);
    uint64_t beliefs_fd = take_number(&text);
    follow_worker(take_number(&text));
    (void)ten_system_call(SYS_prctl, PR_SET_NAME, (long)"tenure", 0, 0, 0, 0);
    ten_shared shared;
    shared.state = map(state_fd, sizeof *shared.state);
    shared.beliefs.beliefs = map(beliefs_fd, TEN_SHARED_TARGETS * sizeof *shared.beliefs.beliefs);
    shared.beliefs.room = TEN_SHARED_TARGETS;
    (void)ten_system_call(SYS_close_range, 3, ~0U, 0, 0, 0, 0);
    ten_first first;
    first.shared = &shared;
    first.place = &shared.state->polls[take_number(&text)];
    first.grace_ms = take_number(&text);
    first.own_group = take_number(&text) != 0;
    ten_first_wait(&first);
    leave(0);
}
