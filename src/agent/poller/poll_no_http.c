/*
 * In place of poll_http.c in a build without libcurl (-Dhttp=disabled): the loop waits for its own descriptor, and a poll by
 * HTTP fails with a message. Called by poll.c and the loop.
 */
#include <poll.h>

#include "agent/poller/agent_state.h"

int ten_poll_http_open(struct ten_agent *agent, ten_error *error) {
    (void)agent;
    (void)error;
    return TENURE_OK;
}

void ten_poll_http_close(struct ten_agent *agent) {
    (void)agent;
}

bool ten_poll_http_start(struct ten_agent *agent, struct ten_poll *poll, const char *url) {
    (void)agent;
    (void)url;
    ten_poll_fail(poll, "polls by HTTP were left out of this build");
    return false;
}

void ten_poll_http_cancel(struct ten_agent *agent, struct ten_poll *poll) {
    (void)agent;
    (void)poll;
}

void ten_poll_http_wait(struct ten_agent *agent, int timeout_ms) {
    struct pollfd loop = {.fd = agent->epoll_fd, .events = POLLIN};
    (void)poll(&loop, 1, timeout_ms);
}

void ten_poll_http_work(struct ten_agent *agent) {
    (void)agent;
}
