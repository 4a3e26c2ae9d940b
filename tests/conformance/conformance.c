/*
 * The conformance suite: the store contract of src/store/store.h as code. `conformance STORE-URL` runs all of it on any
 * store; `sqlite:` or `memory:` with nothing behind makes a fresh one. Every backend passes all of it, unchanged.
 * With --worker it is one of the other processes that a test needs.
 */
#include "conformance/suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static const struct topic *const topics[] = {
    &lease_topic,  &forced_topic, &token_topic,   &batch_topic,       &target_topic,    &instance_topic,
    &change_topic, &watch_topic,  &hostile_topic, &competition_topic, &reconnect_topic,
};

static int run_worker(int count, char **arguments) {
    end_with_parent();
    if (count == 5 && strcmp(arguments[0], "change") == 0)
        return change_worker(arguments[1], arguments[2], atoi(arguments[3]), atoi(arguments[4]));
    if (count == 5 && strcmp(arguments[0], "compete") == 0)
        return competition_worker(arguments[1], arguments[2], (unsigned)atoi(arguments[3]), atoi(arguments[4]));
    fprintf(stderr, "conformance: no such worker\n");
    return 2;
}

/* One plan for all topics: a reader of TAP wants to know beforehand how many tests there are. */
static int run_all(void) {
    size_t count = 0;
    for (size_t i = 0; i < TEN_COUNT(topics); i++)
        count += topics[i]->count;
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    if (!tests)
        return 1;
    count = 0;
    for (size_t i = 0; i < TEN_COUNT(topics); i++) {
        memcpy(tests + count, topics[i]->tests, topics[i]->count * sizeof *tests);
        count += topics[i]->count;
    }
    int failed = _cmocka_run_group_tests("conformance", tests, count, NULL, NULL);
    free(tests);
    return failed;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    if (argc > 2 && strcmp(argv[1], "--worker") == 0)
        return run_worker(argc - 2, argv + 2);
    if (argc != 2) {
        fprintf(stderr, "usage: %s STORE-URL\n", argv[0]);
        return 2;
    }
    suite_program = argv[0];
    if (fixture_create(&suite_fixture, argv[1]) != 0) {
        perror("conformance: cannot make a store");
        return 1;
    }
    int failed = run_all();
    fixture_destroy(&suite_fixture);
    return failed ? 1 : 0;
}
