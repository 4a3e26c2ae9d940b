/*
 * Polls by HTTP: a GET of the target's url, thousands in flight in the agent's one thread (libcurl's multi interface).
 * Called by poll.c, run.c and the loop.
 */
#include <curl/curl.h>
#include <string.h>

#include "agent/runner/agent_state.h"

int ten_run_http_open(struct ten_agent *agent, ten_error *error) {
    agent->multi = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_multi_init() : NULL;
    return agent->multi ? TENURE_OK : ten_fail(error, TENURE_E_NOMEM, "cannot start libcurl");
}

void ten_run_http_close(struct ten_agent *agent) {
    if (agent->multi)
        curl_multi_cleanup(agent->multi);
}

static size_t take_body(char *data, size_t size, size_t count, void *userdata) {
    struct ten_target_run *run = userdata;
    if (run->output.size + size * count > TEN_OUTPUT_MAX) {
        ten_run_fail(run, "the answer is over 1 MiB");
        return 0;
    }
    ten_buf_add(&run->output, data, size * count);
    return run->output.failed ? 0 : size * count;
}

void ten_run_http_start(struct ten_agent *agent, struct ten_target_run *run, const char *url) {
    CURL *easy = curl_easy_init();
    if (!easy) {
        ten_run_fail(run, "out of memory");
        return;
    }
    run->easy = easy;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    /* Nothing but the web: a target from a store must not make the agent read files or talk to mail servers. */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)agent->config->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "tenure/" TENURE_VERSION);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, run);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, run);
    if (curl_multi_add_handle(agent->multi, easy) != CURLM_OK) {
        ten_run_fail(run, "cannot start the request");
        ten_run_http_cancel(agent, run);
    }
}

void ten_run_http_cancel(struct ten_agent *agent, struct ten_target_run *run) {
    if (!run->easy)
        return;
    (void)curl_multi_remove_handle(agent->multi, run->easy);
    curl_easy_cleanup(run->easy);
    run->easy = NULL;
}

static void finish(struct ten_agent *agent, CURL *easy, CURLcode result) {
    struct ten_target_run *run = NULL;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&run);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (result == CURLE_OPERATION_TIMEDOUT)
        ten_run_fail(run, "timed out");
    else if (result != CURLE_OK)
        ten_run_fail(run, "%s", curl_easy_strerror(result));
    else if (status >= 400)
        ten_run_fail(run, "HTTP status %ld", status);
    ten_run_http_cancel(agent, run);
    ten_run_look(agent, run);
}

void ten_run_http_wait(ten_runner *runner, int timeout_ms) {
    struct curl_waitfd extra = {.fd = runner->epoll_fd, .events = CURL_WAIT_POLLIN};
    (void)curl_multi_poll(((struct ten_agent *)runner)->multi, &extra, 1, timeout_ms, NULL);
}

void ten_run_http_work(struct ten_agent *agent) {
    int running;
    int waiting;
    (void)curl_multi_perform(agent->multi, &running);
    for (CURLMsg *message; (message = curl_multi_info_read(agent->multi, &waiting));)
        if (message->msg == CURLMSG_DONE)
            finish(agent, message->easy_handle, message->data.result);
}
