/*
 * Waiting for a store. See store_wait.h.
 */
#include "agent/common/store_wait.h"

#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "agent/common/server_probe.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"
#include "store/store.h"

#define PAUSE_MIN_MS 100u
#define PAUSE_MAX_MS 2000u
#define LOOK_MS      50u
#define LOG_MS       60000u

static bool has_scheme(const char *store, const char *scheme) {
    return store && strncmp(store, scheme, strlen(scheme)) == 0;
}

/* Opening these sends nothing. */
static bool is_silent(const char *store) {
    return has_scheme(store, "etcd") || has_scheme(store, "http");
}

bool ten_store_wait_helps(const char *store, int error) {
    /* Of a file that cannot be opened the path or its permissions are wrong; a lock ends. */
    bool is_file = !store || has_scheme(store, "sqlite:");
    return error == TENURE_E_TIMEOUT || (error == TENURE_E_UNREACHABLE && !is_file);
}

int ten_store_wait_signal(int signal_fd) {
    struct signalfd_siginfo info;
    while (ten_read_some(signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT || info.ssi_signo == SIGQUIT)
            return (int)info.ssi_signo;
    return 0;
}

/* False: it was stopped, or its time is up. */
static bool sleep_until(const ten_store_wait *wait, uint64_t until_ms) {
    for (;;) {
        if (wait->is_stopped && wait->is_stopped(wait->userdata))
            return false;
        uint64_t left_ms = ten_sub_saturating(until_ms, ten_now_ms());
        if (left_ms == 0)
            return true;
        ten_sleep_us(ten_min_u64(left_ms, LOOK_MS) * 1000u);
    }
}

/* What was last logged, and when. */
struct logged {
    ten_log *log;
    ten_error error;
    uint64_t at_ms; /* 0: nothing was */
};

/* From time to time, and whenever the reason changes. */
static bool is_time_to_log(const struct logged *logged, const ten_error *error) {
    return logged->at_ms == 0 || ten_now_ms() - logged->at_ms >= LOG_MS ||
           strcmp(logged->error.message, error->message) != 0;
}

/* Logs why the store cannot be used. */
static void log_wait(const ten_store_wait *wait, const ten_error *error, struct logged *logged) {
    ten_error unused;
    logged->error = *error;
    logged->at_ms = ten_now_ms();
    if (wait->log && (logged->log || ten_log_open(wait->log, &logged->log, &unused) == TENURE_OK))
        TEN_LOG(logged->log, TEN_LOG_WARN, "store_waiting", TEN_TEXT("error", error->message));
}

struct attempt {
    const char *store;
    uint64_t timeout_ms;           /* of an answer */
    const tenure_options *options; /* NULL: the store only has to answer */
    tenure_context *context;
};

static int ask(const struct attempt *attempt, ten_error *error) {
    ten_store *store = NULL;
    ten_store_config config = {.timeout_ms = attempt->timeout_ms};
    int r = ten_store_open(attempt->store, &config, &store, error);
    if (r == TENURE_OK) {
        r = store->ops->ping(store, attempt->timeout_ms);
        if (r < 0)
            *error = store->error;
        ten_store_close(store);
    }
    return r;
}

static int try(struct attempt *attempt, ten_error *error) {
    int r = !attempt->options || is_silent(attempt->store) ? ask(attempt, error) : TENURE_OK;
    if (r < 0 || !attempt->options)
        return r;
    r = tenure_open(attempt->store, attempt->options, &attempt->context);
    return r < 0 ? ten_fail(error, r, "%s", tenure_message(NULL)) : TENURE_OK;
}

static int try_until(const ten_store_wait *wait, struct attempt *attempt, ten_error *error) {
    uint64_t end_ms = ten_add_saturating(ten_now_ms(), wait->wait_ms);
    uint64_t pause_ms = PAUSE_MIN_MS;
    struct logged logged = {0};
    int r;
    while ((r = try(attempt, error)) < 0 && ten_store_wait_helps(wait->store, r)) {
        bool logs = is_time_to_log(&logged, error);
        if (logs && ten_server_probe(wait->store, r, error))
            r = error->code;
        uint64_t now_ms = ten_now_ms();
        if (now_ms >= end_ms || !ten_store_wait_helps(wait->store, r))
            break;
        if (logs)
            log_wait(wait, error, &logged);
        if (!sleep_until(wait, ten_min_u64(now_ms + pause_ms, end_ms))) {
            r = ten_fail(error, TENURE_E_CANCELLED, "stopped while waiting for the store");
            break;
        }
        pause_ms = ten_min_u64(pause_ms * 2, PAUSE_MAX_MS);
    }
    if (r == TENURE_OK && logged.log)
        TEN_LOG(logged.log, TEN_LOG_INFO, "store_up", TEN_TEXT("reason", "it answers now"));
    ten_log_close(logged.log, 1000);
    return r;
}

int ten_store_wait_answer(const ten_store_wait *wait, uint64_t timeout_ms, ten_error *error) {
    return try_until(wait, &(struct attempt){.store = wait->store, .timeout_ms = timeout_ms}, error);
}

int ten_store_wait_open(const ten_store_wait *wait, const tenure_options *options, tenure_context **ret_context,
                        ten_error *error) {
    struct attempt attempt = {.store = wait->store, .timeout_ms = 5000, .options = options};
    int r = try_until(wait, &attempt, error);
    if (r == TENURE_OK)
        *ret_context = attempt.context;
    return r;
}
