/*
 * A file whose file system hangs, for tests of what reads it: LD_PRELOAD it; HUNG_FILE names the file. While there is a
 * file HUNG_FILE.hangs, an open() of it does not return.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void hang(const char *path) {
    const char *hung = getenv("HUNG_FILE");
    char sign[4096];
    if (!hung || strcmp(path, hung) != 0)
        return;
    snprintf(sign, sizeof sign, "%s.hangs", hung);
    while (syscall(SYS_faccessat, AT_FDCWD, sign, F_OK) == 0)
        usleep(10000);
}

/* With large files this is open64(), as it is for the program. */
__attribute__((visibility("default"))) int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    hang(path);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
