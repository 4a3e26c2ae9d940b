/*
 * Telling a child of fork() from its parent (fault 23): the parent's number is not the child's, and the child's own
 * works, also in the child's child.
 */
#include "unit/unit.h"

#include <pthread.h>

#include "base/fork.h"

static void *ask_for_number(void *arg) {
    *(uint64_t *)arg = ten_fork_number();
    return NULL;
}

/* In a child, so that the first calls of the process are the ones that race. */
static void ask_from_threads(void *arg) {
    (void)arg;
    pthread_t threads[8];
    uint64_t numbers[8];
    for (size_t i = 0; i < 8; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, ask_for_number, &numbers[i]) == 0);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 8; i++)
        CHILD_CHECK(numbers[i] == numbers[0] && ten_fork_is(numbers[i]));
}

/* The first case: before the page is made. */
TEST(threads_of_a_new_process_get_the_same_number) {
    for (int i = 0; i < 5; i++)
        assert_child_is_content(ask_from_threads, NULL);
}

TEST(a_process_knows_its_number) {
    uint64_t number = ten_fork_number();
    assert_true(number != 0);
    assert_true(ten_fork_number() == number);
    assert_true(ten_fork_is(number));
    assert_false(ten_fork_is(0));
    assert_false(ten_fork_is(number + 1));
}

static void look_from_a_grandchild(void *arg) {
    CHILD_CHECK(!ten_fork_is(*(uint64_t *)arg));
}

static void look_from_a_child(void *arg) {
    uint64_t parent = *(uint64_t *)arg;
    CHILD_CHECK(!ten_fork_is(parent));
    CHILD_CHECK(!ten_fork_is(0));
    uint64_t own = ten_fork_number();
    CHILD_CHECK(own != 0 && own != parent);
    CHILD_CHECK(ten_fork_is(own) && !ten_fork_is(parent));
    CHILD_CHECK(child_status(look_from_a_grandchild, &own, 0) == 0);
    CHILD_CHECK(ten_fork_is(own));
}

TEST(a_child_is_not_its_parent) {
    uint64_t number = ten_fork_number();
    for (int i = 0; i < 3; i++)
        assert_child_is_content(look_from_a_child, &number);
    assert_true(ten_fork_is(number));
}

TEST(threads_of_one_process_get_the_same_number) {
    for (int i = 0; i < 5; i++)
        assert_child_is_content(ask_from_threads, NULL);
}
