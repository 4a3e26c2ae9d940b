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

static const struct topic *const store_topics[] = {
    &lease_topic,          &forced_topic,  &token_topic,      &proof_topic,       &hand_topic,
    &checkpoint_topic,     &session_topic, &forgetting_topic, &batch_topic,       &group_topic,
    &target_topic,         &pin_topic,     &instance_topic,   &change_topic,      &history_topic,
    &random_history_topic, &watch_topic,   &hostile_topic,    &competition_topic, &reconnect_topic,
};
static const struct topic *const election_topics[] = {&election_topic, &leader_only_topic, &observer_topic};

/* They are usually run side by side: the second waits most of the time. */
static const struct part {
    const char *name;
    const struct topic *const *topics;
    size_t count;
} parts[] = {
    {"elections", election_topics, TEN_COUNT(election_topics)},
    {"store", store_topics, TEN_COUNT(store_topics)}, /* the last topic of which disturbs it */
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

/* One plan for all topics: a reader of TAP wants to know beforehand how many tests there are. */
static int run_all(const char *only) {
    struct CMUnitTest *tests = NULL;
    size_t count = 0;
    for (size_t i = 0; i < TEN_COUNT(parts); i++) {
        for (size_t j = 0; j < parts[i].count && (!only || strcmp(only, parts[i].name) == 0); j++) {
            const struct topic *topic = parts[i].topics[j];
            struct CMUnitTest *more = realloc(tests, (count + topic->count) * sizeof *tests);
            if (!more) {
                free(tests);
                return 1;
            }
            tests = more;
            memcpy(tests + count, topic->tests, topic->count * sizeof *tests);
            count += topic->count;
        }
    }
    int failed = count ? _cmocka_run_group_tests("conformance", tests, count, NULL, NULL) : 1;
    free(tests);
    return failed;
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
    int failed = run_all(argv[2]);
    fixture_destroy(&suite_fixture);
    return failed ? 1 : 0;
}
