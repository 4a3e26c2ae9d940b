/*
 * A worker as its warden judges it. See worker.h.
 */
#include "core/worker.h"

#include "base/util.h"

#define BACKOFF_MIN_MS 100u
#define BACKOFF_MAX_MS 5000u
#define STEADY_MS      30000u
#define HUNG_MIN_MS    2000u /* a loop turns at least once a second */
#define WAKING_MS      1000u /* so long one that was stopped may take until its loop turns */

void ten_worker_init(ten_worker *worker, const ten_worker_rules *rules) {
    *worker = (ten_worker){.rules = *rules,
                           .backoff = {.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS, .steady_ms = STEADY_MS}};
}

void ten_worker_started(ten_worker *worker, uint64_t now_ms) {
    worker->started_ms = now_ms;
    worker->turns = 0;
    worker->is_past_deadlines = false;
    worker->looked_ms = now_ms;
    worker->silent_ms = worker->renewing_ms = worker->deaf_ms = 0;
}

uint64_t ten_worker_look_ms(const ten_worker *worker) {
    return ten_max_u64(worker->rules.ttl_ms / 16, 1);
}

enum ten_worker_state ten_worker_look(ten_worker *worker, uint64_t last_end_ms, uint64_t turns, bool stopping,
                                      uint64_t now_ms) {
    /* If the warden itself could not look for longer, then perhaps the worker could not run either. */
    uint64_t watched_ms = ten_min_u64(now_ms - worker->looked_ms, ten_worker_look_ms(worker));
    bool silent = turns != 0 && turns == worker->turns;
    worker->silent_ms = silent ? worker->silent_ms + watched_ms : 0;
    /* A renewal may have been on its way when the worker was stopped: what counts is one that follows much later. */
    uint64_t hung_ms = ten_max_u64(worker->rules.ttl_ms / 2, HUNG_MIN_MS);
    if (worker->silent_ms <= hung_ms / 2)
        worker->silent_end_ms = last_end_ms;
    worker->turns = turns;
    worker->looked_ms = now_ms;
    worker->is_past_deadlines = last_end_ms != 0 && now_ms > last_end_ms + worker->rules.ttl_ms / 2;
    if (worker->is_past_deadlines)
        return TEN_WORKER_PAST_DEADLINES;
    /* One that is stopped does not renew, and may go on if it is woken before its deadlines. Then it may renew
     * before its loop turns. */
    bool renewed = silent && last_end_ms > worker->silent_end_ms;
    worker->renewing_ms = renewed ? worker->renewing_ms + watched_ms : 0;
    worker->deaf_ms = silent && stopping ? worker->deaf_ms + watched_ms : 0;
    bool useless = worker->silent_ms > hung_ms && worker->renewing_ms > WAKING_MS;
    return useless || worker->deaf_ms > hung_ms ? TEN_WORKER_HUNG : TEN_WORKER_FINE;
}

bool ten_worker_is_wanted_again(const ten_worker *worker, const ten_worker_end *end, bool stopping) {
    bool no_store = end->exit_code == worker->rules.retry_exit;
    bool not_begun = !end->begun && end->exit_code != 0;
    bool crashed = end->signalled || (worker->restarted && (no_store || not_begun));
    return crashed && !stopping && !worker->rules.one_shot;
}

int ten_worker_exit_code(const ten_worker *worker, const ten_worker_end *end, bool stopping) {
    if (worker->rules.one_shot)
        return end->signalled && worker->is_past_deadlines ? worker->rules.lost_exit : end->exit_code;
    return stopping && end->signalled && !end->begun ? 0 : end->exit_code;
}

uint64_t ten_worker_pause_ms(ten_worker *worker, uint64_t now_ms) {
    worker->restarted = true;
    return ten_backoff_pause_ms(&worker->backoff, now_ms - worker->started_ms);
}

bool ten_worker_may_release(const ten_worker_end *end, uint64_t now_ms) {
    return end->signalled && end->gone && end->ready && now_ms >= end->keep_until_ms;
}
