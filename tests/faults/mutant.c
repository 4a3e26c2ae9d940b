/*
 * The program `tenure` with the planted bugs of tests/mutants, one of which is switched on by the environment
 * variable TENURE_MUTANT. It is built for tests/faults alone, and never installed: `tenure` itself is built without
 * them, and has no such switch.
 */
#include "mutants/mutants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ten_mutant ten_mutant;

static const char *const names[] = {
#define X(name, what) #name,
    TEN_MUTANTS(X)
#undef X
};

__attribute__((constructor)) static void choose(void) {
    const char *wanted = getenv("TENURE_MUTANT");
    if (!wanted)
        return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], wanted) == 0) {
            ten_mutant = (enum ten_mutant)i;
            return;
        }
    }
    fprintf(stderr, "there is no mutant %s\n", wanted);
    exit(2);
}
