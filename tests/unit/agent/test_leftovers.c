/*
 * What commands leave behind, with real processes: one walk answers for all commands that were reaped before it, and what
 * was below a process that has been reaped since is not taken for gone.
 */
#include "unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/warden/leftovers.h"
#include "agent/warden/tree.h"
#include "base/io.h"

static const ten_running none;
static struct ten_shared_state state_of_commands;
static const ten_shared shared = {.state = &state_of_commands};

static void add_command(uint64_t mark) {
    unsigned place = state_of_commands.poll_places++;
    state_of_commands.polls[place].poll = mark;
    state_of_commands.polls[place].belief = 1;
}

static _Noreturn void become_sleep(const char *variable) {
    char *const arguments[] = {(char *)"sleep", (char *)"1000", NULL};
    char *const variables[] = {(char *)variable, NULL};
    execve("/bin/sleep", arguments, variables);
    _exit(1);
}

/* The mark is there once the process has become the command. */
static void wait_for_mark(pid_t pid, uint64_t mark) {
    while (ten_tree_mark(pid) != mark)
        ten_sleep_us(1000);
}

static pid_t start(const char *variable, uint64_t mark) {
    pid_t pid = fork();
    if (pid == 0)
        become_sleep(variable);
    assert_true(pid > 0);
    wait_for_mark(pid, mark);
    return pid;
}

static void end(ten_leftovers *leftovers, pid_t pid) {
    int status;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    ten_leftovers_reaped(leftovers, pid);
}

static bool is_left(ten_leftovers *leftovers, uint64_t mark, uint64_t walks_before) {
    ten_trouble trouble = {0};
    bool left = ten_leftovers_signal(leftovers, &shared, &none, mark, walks_before, 0, &trouble);
    assert_int_equal(trouble.error, 0);
    return left;
}

TEST(one_walk_answers_for_all_that_were_reaped_before_it) {
    ten_leftovers leftovers = {0};
    pid_t pid = start(TEN_POLL_MARK "=7", 7);
    for (uint64_t mark = 100; mark < 1100; mark++)
        assert_false(is_left(&leftovers, mark, 0));
    assert_int_equal(leftovers.walks, 1);
    assert_true(is_left(&leftovers, 7, 0));
    assert_false(is_left(&leftovers, 8, 1)); /* reaped after that walk */
    assert_int_equal(leftovers.walks, 2);
    end(&leftovers, pid);
    ten_leftovers_free(&leftovers);
}

TEST(what_has_no_mark_may_be_anybodys) {
    ten_leftovers leftovers = {0};
    pid_t pid = fork();
    if (pid == 0)
        become_sleep("OTHER=7");
    assert_true(is_left(&leftovers, 7, 0));
    assert_true(is_left(&leftovers, 8, 0));
    end(&leftovers, pid);
    ten_sleep_us(20000);
    assert_false(is_left(&leftovers, 7, 0));
    ten_leftovers_free(&leftovers);
}

TEST(a_mark_that_no_command_has_counts_as_none) {
    ten_leftovers leftovers = {0};
    pid_t pid = start(TEN_POLL_MARK "=4242", 4242);
    assert_true(is_left(&leftovers, 7, 0));
    assert_true(is_left(&leftovers, 8, 0));
    end(&leftovers, pid);
    ten_sleep_us(20000);
    assert_false(is_left(&leftovers, 7, 0));
    ten_leftovers_free(&leftovers);
}

/* Its child is adopted by this process when it ends. */
TEST(what_was_below_one_that_was_reaped_is_not_taken_for_gone) {
    ten_leftovers leftovers = {0};
    int ends[2];
    pid_t below;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        below = fork();
        if (below == 0)
            become_sleep(TEN_POLL_MARK "=7");
        if (write(ends[1], &below, sizeof below) != (ssize_t)sizeof below)
            _exit(1);
        become_sleep(TEN_POLL_MARK "=7");
    }
    assert_int_equal(read(ends[0], &below, sizeof below), (int)sizeof below);
    wait_for_mark(pid, 7);
    wait_for_mark(below, 7);
    assert_true(is_left(&leftovers, 7, 0));
    end(&leftovers, pid);
    assert_true(is_left(&leftovers, 7, 0)); /* also at once, from the walk before */
    ten_sleep_us(20000);
    assert_true(is_left(&leftovers, 7, 0));
    end(&leftovers, below);
    ten_sleep_us(20000);
    assert_false(is_left(&leftovers, 7, 0));
    close(ends[0]);
    close(ends[1]);
    ten_leftovers_free(&leftovers);
}

int main(void) {
    ten_tree_adopt();
    add_command(7);
    add_command(8);
    return run_cases(NULL, NULL);
}
