/*
 * The process of a candidate's command, made before it is elected: see ready.h.
 */
#include "agent/runner/ready.h"

#include <fcntl.h>
#include <unistd.h>

#include "agent/warden/environment.h"
#include "base/clock.h"
#include "base/io.h"

#define AGAIN_MS 10000u /* what could not be made at this moment costs a start that takes longer, and no more */

static void close_pipes(ten_ready *ready) {
    ten_close_fd(&ready->go_fd);
    ten_close_fd(&ready->alive_fd);
}

static bool prepare(ten_ready *ready, ten_children *children, ten_child_config *config) {
    int go[2];
    int alive[2];
    if (pipe2(go, O_CLOEXEC) != 0)
        return false;
    if (pipe2(alive, O_CLOEXEC) != 0) {
        close(go[0]);
        close(go[1]);
        return false;
    }
    config->alive_fd = alive[1];
    config->worker_fd = ready->alive_fd = alive[0];
    ready->go_fd = go[1];
    bool prepared = ten_child_prepare(children, config, go, &ready->child);
    close(go[0]);
    close(alive[1]);
    if (!prepared)
        close_pipes(ready);
    return prepared;
}

void ten_ready_make(ten_ready *ready, ten_children *children, char *const *arguments, uint64_t mark,
                    const char *const (*ours)[2], size_t count) {
    if (ten_ready_is_there(ready) || ten_now_ms() < ready->not_before_ms)
        return;
    char **variables = ten_environment_make(ours, count, true);
    ten_child_config config = {.arguments = arguments, .variables = variables, .mark = mark, .in_fd = -1, .out_fd = -1};
    if (!variables || !prepare(ready, children, &config))
        ready->not_before_ms = ten_now_ms() + AGAIN_MS;
    ten_environment_free(variables);
}

bool ten_ready_go(ten_ready *ready, ten_children *children, const char *const (*ours)[2], size_t count,
                  ten_child *child, int *ret_alive_fd) {
    if (!ten_ready_is_there(ready))
        return false;
    if (!ten_child_go(children, &ready->child, ready->go_fd, 0, ours, count, child)) {
        ten_ready_drop(ready, children);
        return false;
    }
    *ret_alive_fd = ready->alive_fd;
    ready->alive_fd = -1;
    close_pipes(ready);
    return true;
}

bool ten_ready_reaped(ten_ready *ready, ten_children *children, pid_t pid, int status) {
    if (!ten_child_reaped(children, &ready->child, pid, status))
        return false;
    ten_child_forget(children, &ready->child);
    close_pipes(ready);
    ready->not_before_ms = ten_now_ms() + AGAIN_MS;
    return true;
}

void ten_ready_drop(ten_ready *ready, ten_children *children) {
    ten_child_cancel(children, &ready->child);
    close_pipes(ready);
}
