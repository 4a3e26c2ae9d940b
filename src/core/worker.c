/*
 * A worker as its warden judges it. See worker.h.
 */
#include "core/worker.h"

#include "base/util.h"

#define BACKOFF_MIN_MS 100u
#define BACKOFF_MAX_MS 5000u
#define STEADY_MS      30000u

void ten_worker_init(ten_worker *worker, const ten_worker_rules *rules) {
    *worker = (ten_worker){.rules = *rules,
                           .backoff = {.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS, .steady_ms = STEADY_MS}};
}

void ten_worker_started(ten_worker *worker, uint64_t now_ms) {
    worker->started_ms = now_ms;
}

bool ten_worker_is_stuck(const ten_worker *worker, uint64_t last_end_ms, uint64_t now_ms) {
    return last_end_ms != 0 && now_ms > last_end_ms + worker->rules.ttl_ms / 2;
}

bool ten_worker_is_wanted_again(const ten_worker *worker, const ten_worker_end *end, bool stopping) {
    bool no_store = worker->restarted && !end->signalled && end->exit_code == worker->rules.retry_exit;
    return (end->signalled || no_store) && !stopping && !worker->rules.one_shot;
}

uint64_t ten_worker_pause_ms(ten_worker *worker, uint64_t now_ms) {
    worker->restarted = true;
    return ten_backoff_pause_ms(&worker->backoff, now_ms - worker->started_ms);
}

bool ten_worker_may_release(const ten_worker_end *end, uint64_t now_ms) {
    return end->signalled && end->gone && end->ready && now_ms >= end->keep_until_ms;
}
