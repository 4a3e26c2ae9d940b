/*
 * Starts a command without some system calls, as a seccomp filter of a container does: they fail with EPERM. For the
 * end-to-end tests of endings.
 *     forbid CALL[,CALL...] COMMAND...
 * CALL is pidfd_open, execveat, or namespaces: clone() with one of its flags for new namespaces.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAMESPACES  (CLONE_NEWPID | CLONE_NEWUSER)
#define FLAGS       offsetof(struct seccomp_data, args[0]) /* the lower half, on a machine of this byte order */
#define REFUSE      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define PERMIT      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define LOAD(where) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, where)

static int install(struct sock_filter *filter, unsigned short size) {
    struct sock_fprog program = {size, filter};
    /* Root needs no promise to gain no privileges, and its commands keep their set-uid bits without it. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
        return 0;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) : -1;
}

static int forbid_number(unsigned number) {
    struct sock_filter filter[] = {LOAD(offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), REFUSE, PERMIT};
    return install(filter, sizeof filter / sizeof filter[0]);
}

static int forbid(const char *call) {
    struct sock_filter namespaces[] = {LOAD(offsetof(struct seccomp_data, nr)),
                                       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
                                       LOAD(FLAGS),
                                       BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1),
                                       REFUSE,
                                       PERMIT};
    if (strcmp(call, "pidfd_open") == 0)
        return forbid_number(SYS_pidfd_open);
    if (strcmp(call, "execveat") == 0)
        return forbid_number(SYS_execveat);
    if (strcmp(call, "namespaces") == 0)
        return install(namespaces, sizeof namespaces / sizeof namespaces[0]);
    errno = EINVAL;
    return -1;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    for (char *call = strtok(argv[1], ","); call; call = strtok(NULL, ","))
        if (forbid(call) != 0) {
            perror(call);
            return 2;
        }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
