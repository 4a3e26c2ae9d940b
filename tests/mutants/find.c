/*
 * Whether the cases of a program find planted bugs. Linked into backend_planted and redis_planted; which bugs there are is
 * in mutants.h.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cases.h"
#include "mutants/mutants.h"

/* Whatever comes of it. */
static bool is_found(enum ten_mutant mutant) {
    pid_t pid = fork();
    if (pid == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        (void)dup2(nowhere, STDOUT_FILENO);
        (void)dup2(nowhere, STDERR_FILENO);
        (void)alarm(60); /* a call without an end is found, too */
        ten_mutant = mutant;
        _exit(run_cases(NULL, NULL) != 0);
    }
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status != 0;
}

int ten_mutants_find(const struct ten_mutant_name *mutants, size_t count) {
    int missed = 0;
    printf("1..%zu\n", count);
    for (size_t i = 0; i < count; i++) {
        fflush(stdout);
        bool found = is_found(mutants[i].mutant);
        missed += !found;
        printf("%s %zu - found: %s (%s)\n", found ? "ok" : "not ok", i + 1, mutants[i].what, mutants[i].name);
    }
    return missed;
}
