/*
 * The table of commands by process number, against a plain list.
 */
#include "unit/unit.h"

#include <stdlib.h>

#include "agent/warden/running.h"

struct ten_child {
    pid_t pid;
};

enum { MANY = 4096, NUMBERS = 40000 };

static struct ten_child children[NUMBERS]; /* by number; pid 0: not in the table */

TEST(nothing_is_found_in_an_empty_table) {
    ten_running commands = {0};
    assert_null(ten_running_find(&commands, 1));
    ten_running_remove(&commands, 1);
    assert_true(ten_running_reserve(&commands));
    assert_null(ten_running_find(&commands, 1));
    assert_null(ten_running_find(&commands, 0));
    ten_running_free(&commands);
}

static void check_all(const ten_running *commands) {
    for (pid_t pid = 1; pid < NUMBERS; pid++)
        assert_ptr_equal(ten_running_find(commands, pid), children[pid].pid ? &children[pid] : NULL);
}

/* Numbers that collide, too: the table has fewer entries than there are numbers. */
TEST(thousands_come_and_go_and_each_is_found) {
    ten_running commands = {0};
    unsigned count = 0;
    srandom(1);
    assert_true(ten_running_reserve(&commands));
    for (unsigned step = 0; step < 200000; step++) {
        pid_t pid = (pid_t)(1 + random() % (NUMBERS - 1));
        if (children[pid].pid) {
            ten_running_remove(&commands, pid);
            children[pid].pid = 0;
            count--;
        } else if (count < MANY) {
            children[pid].pid = pid;
            ten_running_put(&commands, pid, &children[pid]);
            count++;
        }
        if (step % 20000 == 0)
            check_all(&commands);
    }
    check_all(&commands);
    for (pid_t pid = 1; pid < NUMBERS; pid++) {
        ten_running_remove(&commands, pid);
        children[pid].pid = 0;
    }
    check_all(&commands);
    ten_running_free(&commands);
}
