/* Collects the cases that cases.h has put into a section of the program, and runs them as one group: one plan of TAP. */
#include "lib/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct test_case *const __start_test_cases[] __attribute__((weak));
extern const struct test_case *const __stop_test_cases[] __attribute__((weak));

static int compare_places(const void *a, const void *b) {
    const struct test_case *const *first = a;
    const struct test_case *const *second = b;
    int order = strcmp((*first)->file, (*second)->file);
    return order ? order : ((*first)->line > (*second)->line) - ((*first)->line < (*second)->line);
}

/* "path/to/leases.c" is the file "leases". */
static int is_file(const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t length = strlen(name);
    return strncmp(base, name, length) == 0 && strcmp(base + length, ".c") == 0;
}

static int run(const char *const *files, CMFixtureFunction setup, CMFixtureFunction teardown) {
    size_t count = (size_t)(__stop_test_cases - __start_test_cases);
    const struct test_case **cases = calloc(count + 1, sizeof *cases);
    struct CMUnitTest *tests = calloc(count + 1, sizeof *tests);
    size_t chosen = 0;
    int failed = 1;
    if (cases && tests) {
        for (size_t i = 0; i < count; i++)
            cases[i] = __start_test_cases[i];
        qsort(cases, count, sizeof *cases, compare_places);
        for (size_t i = 0; !files && i < count; i++)
            tests[chosen++] = cases[i]->test;
        for (; files && *files; files++)
            for (size_t i = 0; i < count; i++)
                if (is_file(cases[i]->file, *files))
                    tests[chosen++] = cases[i]->test;
        failed = chosen ? _cmocka_run_group_tests("tests", tests, chosen, setup, teardown) : 1;
    }
    free(tests);
    free(cases);
    return failed;
}

int run_cases(CMFixtureFunction setup, CMFixtureFunction teardown) {
    return run(NULL, setup, teardown);
}

int run_cases_of(const char *const *files) {
    return run(files, NULL, NULL);
}

__attribute__((weak)) const struct test_group test_group = {NULL, NULL};

__attribute__((weak)) int main(void) {
    const struct test_group *volatile group = &test_group; /* the program's own, if it has one */
    return run_cases(group->setup, group->teardown);
}
