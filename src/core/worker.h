/*
 * A worker as its warden judges it: when it is of no more use, whether another follows it, and whether its leases may
 * be released in its place. Pure; src/agent/warden carries out what it says. When the processes of one target have to
 * end is ten_work_pressure() (core/work.h).
 */
#ifndef TEN_CORE_WORKER_H
#define TEN_CORE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/backoff.h"

typedef struct ten_worker_rules {
    uint64_t ttl_ms;
    int retry_exit; /* a worker that follows a crashed one and ends with this is followed by another */
    bool one_shot;  /* none is */
    int lost_exit;  /* one_shot: the exit code when the worker was killed past its last deadline: the lease was lost */
} ten_worker_rules;

typedef struct ten_worker {
    ten_worker_rules rules;
    ten_backoff backoff;
    uint64_t started_ms;
    bool restarted;         /* it follows another */
    bool is_past_deadlines; /* it was, at the last look */
    uint64_t turns;         /* of its loop, at the last look */
    uint64_t looked_ms;
    uint64_t silent_ms;     /* for how long the loop has not turned, as far as this was watched */
    uint64_t silent_end_ms; /* the latest deadline at the first half of what it takes to be hung */
    uint64_t renewing_ms;   /* for how long it has not turned since that deadline was moved */
    uint64_t deaf_ms;       /* for how long it has not turned since it was asked to end */
} ten_worker;

enum ten_worker_state {
    TEN_WORKER_FINE,
    TEN_WORKER_PAST_DEADLINES, /* past its last deadline, and it has not noticed, not even when a call on a slow store
                                  must have ended: it may hold a lock of the store */
    TEN_WORKER_HUNG,           /* its loop hangs, while its leases may be renewed by another thread: for nothing; or it
                                  is stopped, or hangs, and does not notice that it was asked to end */
};

/* How a worker has ended. */
typedef struct ten_worker_end {
    bool signalled;
    int exit_code;          /* 128 + N when it died of signal N */
    bool gone;              /* everything that it started is gone, too */
    bool ready;             /* it had an instance */
    bool begun;             /* it was in its loop */
    uint64_t keep_until_ms; /* before this its leases are not released; 0: at any time */
} ten_worker_end;

void ten_worker_init(ten_worker *worker, const ten_worker_rules *rules);
/* The first one, or another that was wanted. */
void ten_worker_started(ten_worker *worker, uint64_t now_ms);
/* Judges the worker; call it at least every ten_worker_look_ms(). last_end_ms: the latest deadline of its leases, or
 * 0 if it holds none. turns: how often its loop has turned, or 0 if it is not in its loop. stopping: it was asked to
 * end. Kill a worker in any state but TEN_WORKER_FINE. */
enum ten_worker_state ten_worker_look(ten_worker *worker, uint64_t last_end_ms, uint64_t turns, bool stopping,
                                      uint64_t now_ms);
uint64_t ten_worker_look_ms(const ten_worker *worker);
/* Whether to start another worker. Never after an end was asked for. Otherwise if a signal killed the worker, or if it
 * followed one that a signal killed and found no store or could not start: its predecessor could, so it may be possible
 * again soon. */
bool ten_worker_is_wanted_again(const ten_worker *worker, const ten_worker_end *end, bool stopping);
/* The exit code of the warden, if no other worker follows. One that was asked to end before its loop began has done
 * what was asked, although the signal killed it. */
int ten_worker_exit_code(const ten_worker *worker, const ten_worker_end *end, bool stopping);
/* The pause before the next one, which follows a crash. */
uint64_t ten_worker_pause_ms(ten_worker *worker, uint64_t now_ms);
/* Whether its leases may be released. One that exited has done so itself, as far as it could; what cannot be ended is
 * not released, but expires. */
bool ten_worker_may_release(const ten_worker_end *end, uint64_t now_ms);

#endif
