/*
 * Loaded into an agent: as long as the file that FAILING_CLONE names is there, no PID namespace can be made, as when the
 * limit of processes is reached for a moment. For the end-to-end tests of isolation.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long (*real_syscall)(long number, ...);

__attribute__((constructor)) static void find_real(void) {
    *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
}

__attribute__((visibility("default"))) long syscall(long number, ...) {
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    const char *file = getenv("FAILING_CLONE");
    if (number == SYS_clone && (arguments[0] & CLONE_NEWPID) && file && access(file, F_OK) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}
