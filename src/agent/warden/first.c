/*
 * Becoming the program of a PID namespace's first process: see first.h. Called by child.c.
 */
#include "agent/warden/first.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memfd.h"

/* Made from first_program.c; empty where there is none for this kind of processor. */
extern const unsigned char ten_first_image[];
extern const unsigned ten_first_image_size;

int ten_first_open(void) {
    if (ten_first_image_size > 0)
        return ten_memfd_program(ten_first_image, ten_first_image_size);
    errno = ENOEXEC;
    return -1;
}

void ten_first_make_words(const ten_first *first, int alive_fd, ten_first_words *ret_words) {
    const ten_shared *shared = first->shared;
    snprintf(ret_words->text, sizeof ret_words->text, "%d %d %d %u %llu %d", shared->state_fd, shared->beliefs.fd,
             alive_fd, (unsigned)(first->place - shared->state->polls), (unsigned long long)first->grace_ms,
             first->own_group);
}

/* These it needs; it closes all others. */
static bool keep(int fd) {
    return fcntl(fd, F_SETFD, 0) == 0;
}

void ten_first_become(int program_fd, const ten_first *first, int alive_fd, const ten_first_words *words) {
    const char *const arguments[] = {"tenure-first", words->text, NULL};
    const char *const nothing[] = {NULL};
    if (keep(first->shared->state_fd) && keep(first->shared->beliefs.fd) && keep(alive_fd))
        (void)syscall(SYS_execveat, program_fd, "", arguments, nothing, AT_EMPTY_PATH);
}
