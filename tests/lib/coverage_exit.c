/*
 * For `./dev coverage` alone: _exit() that saves the counters first. The warden's worker ends with it, and is most of
 * an agent. A process that was made behind glibc's back (the start of a command in a PID namespace) saves nothing:
 * there a thread that does not exist may hold a lock. Linked into the program with --wrap=_exit; no other build has it.
 */
#include <pthread.h>
#include <unistd.h>

void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

static pid_t known_process;

static void know_this_process(void) {
    known_process = getpid();
}

__attribute__((constructor)) static void know_processes(void) {
    know_this_process();
    (void)pthread_atfork(NULL, NULL, know_this_process);
}

void __wrap__exit(int status) {
    if (getpid() == known_process)
        __gcov_dump();
    __real__exit(status);
}
