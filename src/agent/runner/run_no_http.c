/*
 * In place of run_http.c in a build without libcurl (-Dhttp=disabled): the loop waits for its own descriptor, and a
 * poll by HTTP fails with a message. Called by poll.c, run.c and the loop.
 */
#include <poll.h>

#include "agent/runner/agent_state.h"

int ten_run_http_open(struct ten_agent *agent, ten_error *error) {
    (void)agent;
    (void)error;
    return TENURE_OK;
}

void ten_run_http_close(struct ten_agent *agent) {
    (void)agent;
}

void ten_run_http_start(struct ten_agent *agent, struct ten_target_run *run, const char *url) {
    (void)agent;
    (void)url;
    ten_run_fail(run, "polls by HTTP were left out of this build");
}

void ten_run_http_cancel(struct ten_agent *agent, struct ten_target_run *run) {
    (void)agent;
    (void)poll;
}

void ten_run_http_wait(ten_runner *runner, int timeout_ms) {
    struct pollfd loop = {.fd = runner->epoll_fd, .events = POLLIN};
    (void)poll(&loop, 1, timeout_ms);
}

void ten_run_http_work(struct ten_agent *agent) {
    (void)agent;
}
