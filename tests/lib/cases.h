/*
 * The cases of a test program. TEST(name) { ... } defines one, and it is run: there is no list. A case of cmocka gets
 * `void **state`, what its fixtures have set. Cases run in the order of their files' names and lines. A program without
 * a main() of its own has that of cases.c. Tests only.
 */
#ifndef TESTS_LIB_CASES_H
#define TESTS_LIB_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct test_case {
    struct CMUnitTest test;
    const char *file;
    int line;
};

/* The section has pointers: the distance between structs is for the compiler to choose. */
#define TEST_WITH(case_name, case_setup, case_teardown)                                                                \
    static void case_name(void **state);                                                                               \
    static const struct test_case case_name##_case = {                                                                 \
        {#case_name, case_name, case_setup, case_teardown, NULL}, __FILE__, __LINE__};                                 \
    __attribute__((section("test_cases"), used)) static const struct test_case *const case_name##_entry =              \
        &case_name##_case;                                                                                             \
    static void case_name(__attribute__((unused)) void **state)

#define TEST(case_name) TEST_WITH(case_name, NULL, NULL)

/* Fixtures of the whole program, for the main() of cases.c. */
#define TEST_GROUP(group_setup, group_teardown) const struct test_group test_group = {group_setup, group_teardown};

struct test_group {
    CMFixtureFunction setup, teardown;
};
extern const struct test_group test_group;

/* Runs all cases, and returns how many failed. */
int run_cases(CMFixtureFunction setup, CMFixtureFunction teardown);
/* Only those of the files with these names ("leases"), in their order; the list ends with NULL. */
int run_cases_of(const char *const *files);

#endif
