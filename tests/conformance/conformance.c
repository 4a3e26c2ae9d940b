/*
 * The conformance suite: the store contract of src/store/store.h as code, and elections on that store. `conformance
 * STORE-URL` runs all of it on any store, with the name of a part only that, and with a pattern after it (such as
 * `'*forg*'`) only the cases whose names match; `sqlite:` or `memory:` with nothing behind
 * makes a fresh one. Every backend passes all of it, unchanged.
 * With --worker it is one of the other processes that a test needs.
 */
#include "conformance/elections/candidates.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* The files of each part. The parts are usually run side by side: elections wait most of the time. */
static const char *const elections[] = {"elections", "leader_only", "observers", NULL};
static const char *const contract[] = {
    "leases",     "forced",    "tokens",  "proofs",      "handing", "checkpoints", "sessions",
    "forgetting", "batches",   "groups",  "targets",     "pins",    "instances",   "changes",
    "history",    "histories", "hostile", "competition", "watch", /* whose last case disturbs the store */
    NULL,
};

static int run_worker(int count, char **arguments) {
    end_with_parent();
    if (count == 5 && strcmp(arguments[0], "change") == 0)
        return change_worker(arguments[1], arguments[2], atoi(arguments[3]), atoi(arguments[4]));
    if (count == 5 && strcmp(arguments[0], "compete") == 0)
        return competition_worker(arguments[1], arguments[2], (unsigned)atoi(arguments[3]), atoi(arguments[4]));
    if (count == 4 && strcmp(arguments[0], "campaign") == 0)
        return candidate_worker(arguments[1], (unsigned)atoi(arguments[2]), atoi(arguments[3]));
    fprintf(stderr, "conformance: no such worker\n");
    return 2;
}

static int run_parts(const char *only) {
    const char *both[TEN_COUNT(elections) + TEN_COUNT(contract) - 1];
    size_t count = 0;
    for (size_t i = 0; elections[i] && (!only || strcmp(only, "elections") == 0); i++)
        both[count++] = elections[i];
    for (size_t i = 0; contract[i] && (!only || strcmp(only, "store") == 0); i++)
        both[count++] = contract[i];
    both[count] = NULL;
    return run_cases_of(both);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    if (argc > 2 && strcmp(argv[1], "--worker") == 0)
        return run_worker(argc - 2, argv + 2);
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: %s STORE-URL [store|elections [PATTERN]]\n", argv[0]);
        return 2;
    }
    suite_program = argv[0];
    if (fixture_create(&suite_fixture, argv[1]) != 0) {
        perror("conformance: cannot make a store");
        return 1;
    }
    if (argc == 4)
        cmocka_set_test_filter(argv[3]);
    int failed = run_parts(argv[2]);
    fixture_destroy(&suite_fixture);
    return failed ? 1 : 0;
}
