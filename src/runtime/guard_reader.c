/*
 * The C API of the guard. Its core (core/guard.h) decides, and its carrier follows the store's feed and asks its
 * questions. Checks that need no answer take the lock and are done; the others leave a question and wait. All questions
 * that have come together are one request.
 */
#include "core/guard.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/random.h"
#include "runtime/carrier.h"
#include "runtime/guard_reader.h"
#include "runtime/last_error.h"

#define FEED_SIZE       500u
#define QUESTIONS_MAX   1000u /* of one request */
#define LOOK_MAX_MS     10000u
#define BACKOFF_MAX_MS  1000u
#define TARGETS_DEFAULT 100000u

/* Lies with whoever waits for its answer. */
struct question {
    const char *target;
    uint64_t token;
    uint64_t newest;
    enum ten_guard_verdict verdict;
    bool answered;
    size_t op; /* which of the batch is about its target */
    struct question *next;
};

struct tenure_guard {
    ten_carrier carrier;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    tenure_guard_options options;

    /* Under the carrier's lock. */
    ten_guard core;
    struct question *questions;
    struct question **questions_end;
    struct question *asked; /* those of the request in flight */
    tenure_guard_counts counts;
    ten_error trouble; /* of the last call that failed */
    bool quit;
    ten_map batch; /* target to its operation, while a request is put together */
    ten_op ops[QUESTIONS_MAX];
};

static uint64_t now_ms(const tenure_guard *guard) {
    return ten_carrier_now_ms(&guard->carrier);
}

static void lock(tenure_guard *guard) {
    pthread_mutex_lock(&guard->carrier.lock);
}

static void unlock(tenure_guard *guard) {
    pthread_mutex_unlock(&guard->carrier.lock);
}

const char *tenure_guard_message(const tenure_guard *guard) {
    return ten_last_error_message(guard);
}

/* ---- as a part of the driver: questions */

/* The request's operation on that target: messages that come together are often about the same few. */
static size_t op_for(tenure_guard *guard, const char *target, size_t *count) {
    void *known = ten_map_get(&guard->batch, target);
    if (known)
        return (size_t)((ten_op *)known - guard->ops);
    ten_op *op = &guard->ops[(*count)++];
    *op = (ten_op){.kind = TEN_OP_READ, .namespace_name = guard->namespace_name, .target = target};
    (void)ten_map_put(&guard->batch, target, op); /* without memory it is asked for once more */
    return *count - 1;
}

/* What is asked before the feed is followed is not covered by it. */
static bool may_ask(const tenure_guard *guard) {
    return guard->questions && (guard->core.stretch != 0 || guard->core.down);
}

/* Takes the questions out of the queue, as many as there is room for. */
static const ten_op *request(void *self, uint64_t now, size_t *ret_count) {
    tenure_guard *guard = self;
    size_t count = 0;
    (void)now;
    if (!may_ask(guard))
        return NULL;
    guard->asked = guard->questions;
    struct question **end = &guard->questions;
    for (; *end && count < QUESTIONS_MAX; end = &(*end)->next)
        (*end)->op = op_for(guard, (*end)->target, &count);
    struct question *rest = *end;
    *end = NULL;
    guard->questions = rest;
    if (!rest)
        guard->questions_end = &guard->questions;
    guard->counts.asked += count;
    ten_map_free(&guard->batch);
    *ret_count = count;
    return guard->ops;
}

static void answer_all(tenure_guard *guard, struct question *first, uint64_t now, const ten_result *results) {
    for (struct question *at = first; at; at = at->next) {
        at->verdict = ten_guard_answer(&guard->core, now, guard->carrier.driver.sent_ms, at->target, at->token,
                                       results ? &results[at->op] : NULL, &at->newest);
        at->answered = true;
    }
    pthread_cond_broadcast(&guard->carrier.changed);
}

/* If the store does not answer, nobody waits for the next try. */
static void answer(void *self, uint64_t now, int error, const ten_result *results) {
    tenure_guard *guard = self;
    ten_guard_reached(&guard->core, error == TENURE_OK);
    answer_all(guard, guard->asked, now, error == TENURE_OK ? results : NULL);
    guard->asked = NULL;
    if (error < 0) {
        answer_all(guard, guard->questions, now, NULL);
        guard->questions = NULL;
        guard->questions_end = &guard->questions;
    }
}

static void expire(void *self, uint64_t now) {
    (void)self;
    (void)now;
}

static uint64_t next_ms(const void *self, uint64_t now) {
    return may_ask(self) ? now : UINT64_MAX;
}

static uint64_t deadline_ms(const void *self) {
    (void)self;
    return UINT64_MAX;
}

/* Questions and the feed take turns: however much is asked, the feed is read. */
static uint64_t urgent_ms(const void *self) {
    (void)self;
    return UINT64_MAX;
}

/* ---- as a part of the driver: the feed */

static void follow(void *self, uint64_t now) {
    tenure_guard *guard = self;
    (void)now;
    ten_guard_follow(&guard->core, guard->carrier.driver.sent_ms);
}

static void change(void *self, uint64_t now, const ten_change *entry) {
    tenure_guard *guard = self;
    if (entry->kind != TENURE_EVENT_RECOVERING) {
        ten_guard_change(&guard->core, entry);
        return;
    }
    follow(guard, now);
    ten_event_queue_put(&guard->carrier.events, (tenure_event){.kind = TENURE_EVENT_RECOVERING});
}

static void fed(void *self) {
    tenure_guard *guard = self;
    ten_guard_fed(&guard->core, guard->carrier.driver.sent_ms);
}

static const ten_driver_part guard_part = {.request = request,
                                           .answer = answer,
                                           .expire = expire,
                                           .next_ms = next_ms,
                                           .deadline_ms = deadline_ms,
                                           .urgent_ms = urgent_ms,
                                           .follow = follow,
                                           .change = change,
                                           .fed = fed};

/* ---- for the carrier */

static bool is_over(void *owner) {
    const tenure_guard *guard = owner;
    return guard->quit && !guard->questions;
}

static bool deliver(void *owner) {
    tenure_guard *guard = owner;
    tenure_event event;
    bool any = false;
    for (; ten_carrier_take_event(&guard->carrier, &event); any = true)
        if (guard->options.on_event)
            guard->options.on_event(&event, guard->options.userdata);
    return any;
}

/* Whether the store was reached, also by a reading of the feed, and why it was not. */
static void changed(void *owner) {
    tenure_guard *guard = owner;
    bool down = guard->carrier.driver.down;
    ten_guard_reached(&guard->core, !down);
    if (down && guard->carrier.store->error.code)
        guard->trouble = guard->carrier.store->error;
}

static const ten_carrier_hooks hooks = {.is_over = is_over, .changed = changed, .deliver = deliver};

/* ---- opening and closing */

static void free_guard(tenure_guard *guard) {
    ten_carrier_free(&guard->carrier);
    ten_guard_free(&guard->core);
    ten_free(guard);
}

static tenure_guard *new_guard(const tenure_guard_options *options) {
    tenure_guard *guard = ten_calloc(1, sizeof *guard);
    if (!guard)
        return NULL;
    if (options)
        memcpy(&guard->options, options, ten_min_u64(options->size, sizeof guard->options));
    guard->carrier.hooks = &hooks;
    guard->carrier.owner = guard;
    guard->carrier.namespace_name = guard->namespace_name;
    guard->questions_end = &guard->questions;
    return guard;
}

static void make_driver(tenure_guard *guard, uint64_t cache_ttl_ms) {
    ten_driver_config config = {.part = &guard_part,
                                .self = guard,
                                .events = &guard->carrier.events,
                                .seed = ten_random_u64(),
                                .backoff_max_ms = BACKOFF_MAX_MS,
                                .feed_max_ms = ten_min_u64(cache_ttl_ms / 3, LOOK_MAX_MS),
                                .feed_size = FEED_SIZE,
                                .feed_is_pulse = true};
    ten_driver_init(&guard->carrier.driver, &config, now_ms(guard));
}

static int configure(tenure_guard *guard, const char *url, ten_error *error) {
    const tenure_guard_options *options = &guard->options;
    const char *namespace_name = options->namespace_name ? options->namespace_name : "poll";
    uint64_t cache_ttl_ms = options->cache_ttl_ms ? options->cache_ttl_ms : TENURE_TTL_DEFAULT_MS;
    int r = ten_id_check_namespace(namespace_name, error);
    if (r == TENURE_OK && (cache_ttl_ms < TENURE_TTL_MIN_MS || cache_ttl_ms > TENURE_TTL_MAX_MS))
        r = ten_fail(error, TENURE_E_TTL, "a cache TTL of %llu ms cannot be used: between 100 ms and 366 days",
                     (unsigned long long)cache_ttl_ms);
    if (r < 0)
        return r;
    snprintf(guard->namespace_name, sizeof guard->namespace_name, "%s", namespace_name);
    ten_carrier *carrier = &guard->carrier;
    carrier->timeout_ms =
        options->timeout_ms ? options->timeout_ms : ten_min_u64(ten_max_u64(cache_ttl_ms / 6, 50), 5000);
    make_driver(guard, cache_ttl_ms);
    ten_guard_init(&guard->core,
                   &(ten_guard_config){.cache_ttl_ms = cache_ttl_ms,
                                       .accept_expired = options->on_expired_accept,
                                       .max_targets = options->max_targets ? options->max_targets : TARGETS_DEFAULT});
    ten_store_config config = {.clock = carrier->clock, .timeout_ms = options->timeout_ms};
    r = ten_store_open(url, &config, &carrier->store, error);
    if (r == TENURE_OK && !options->timeout_ms && carrier->store->timeout_ms)
        carrier->timeout_ms = carrier->store->timeout_ms;
    return r;
}

static int start(tenure_guard *guard, ten_error *error) {
    int refused = ten_carrier_start(&guard->carrier);
    return refused ? ten_fail_errno(error, TENURE_E_SYSTEM, refused, "cannot start the guard's thread") : TENURE_OK;
}

int ten_guard_reader_open(const char *url, const tenure_guard_options *options, const ten_clock *clock,
                          tenure_guard **ret_guard) {
    ten_error error = {0};
    if (options && options->size < sizeof options->size)
        return ten_last_error_say(NULL, TENURE_E_INVALID,
                                  "tenure_guard_options.size is not set: it is sizeof(tenure_guard_options)");
    tenure_guard *guard = new_guard(options);
    if (!guard)
        return ten_last_error_say(NULL, TENURE_E_NOMEM, "out of memory for a guard");
    int r = ten_carrier_open(&guard->carrier, clock, &error);
    if (r == TENURE_OK)
        r = ten_carrier_reserve(&guard->carrier, QUESTIONS_MAX, &error);
    if (r == TENURE_OK)
        r = configure(guard, url, &error);
    if (r == TENURE_OK)
        r = start(guard, &error);
    if (r < 0) {
        free_guard(guard);
        return ten_last_error_set(NULL, &error);
    }
    *ret_guard = guard;
    return TENURE_OK;
}

int tenure_guard_open(const char *url, const tenure_guard_options *options, tenure_guard **ret_guard) {
    return ten_guard_reader_open(url, options, &ten_system_clock, ret_guard);
}

void tenure_guard_close(tenure_guard *guard) {
    if (!guard)
        return;
    ten_last_error_forget(guard);
    if (ten_process_is(guard->carrier.process) && guard->carrier.started) {
        lock(guard);
        guard->quit = true;
        unlock(guard);
        ten_carrier_join(&guard->carrier);
    }
    free_guard(guard);
}

/* ---- checking; the lock is held */

static void ask(tenure_guard *guard, struct question *question) {
    question->answered = false;
    question->next = NULL;
    *guard->questions_end = question;
    guard->questions_end = &question->next;
}

static void wait_for(tenure_guard *guard, const struct question *question) {
    while (!question->answered)
        pthread_cond_wait(&guard->carrier.changed, &guard->carrier.lock);
}

static int count_verdict(tenure_guard *guard, enum ten_guard_verdict verdict) {
    tenure_guard_counts *counts = &guard->counts;
    switch (verdict) {
    case TEN_GUARD_ACCEPT_EXPIRED:
        counts->accepted_expired++;
        counts->accepted++;
        return TENURE_OK;
    case TEN_GUARD_ACCEPT:
        counts->accepted++;
        return TENURE_OK;
    case TEN_GUARD_STALE:
        counts->stale++;
        return TENURE_E_STALE;
    case TEN_GUARD_UNGRANTED:
        counts->ungranted++;
        return TENURE_E_TOKEN;
    case TEN_GUARD_ASK:
    case TEN_GUARD_UNCONFIRMED:
    case TEN_GUARD_VERDICTS:
        break;
    }
    counts->unconfirmed++;
    return TENURE_E_UNREACHABLE;
}

/* ---- checking; without the lock */

static int belongs_here(const tenure_guard *guard) {
    return ten_process_is(guard->carrier.process)
               ? TENURE_OK
               : ten_last_error_say(guard, TENURE_E_FORKED,
                                    "this guard belongs to the parent of this process; open another one after fork()");
}

/* What can be said about a message without knowing its target. */
static int check_input(const tenure_guard *guard, const char *target, uint64_t token) {
    ten_error error;
    if (!target)
        return ten_last_error_say(guard, TENURE_E_INVALID, "no target was given");
    if (ten_id_check_target(target, &error) < 0)
        return ten_last_error_set(guard, &error);
    if (token == 0 || token > TENURE_TOKEN_MAX)
        return ten_last_error_say(guard, TENURE_E_TOKEN, "%llu is not a token: they lie between 1 and 2^53 - 1",
                                  (unsigned long long)token);
    return TENURE_OK;
}

static int explain(tenure_guard *guard, const tenure_guard_item *item) {
    unsigned long long token = item->token;
    unsigned long long newest = item->newest;
    if (item->verdict == TENURE_E_STALE)
        return ten_last_error_say(guard, TENURE_E_STALE, "token %llu of %s is stale: the newest is %llu", token,
                                  item->target, newest);
    if (item->verdict == TENURE_E_TOKEN)
        return ten_last_error_say(guard, TENURE_E_TOKEN, "token %llu of %s was never granted: the newest is %llu",
                                  token, item->target, newest);
    lock(guard);
    bool down = guard->core.down;
    ten_error trouble = guard->trouble;
    unlock(guard);
    return ten_last_error_say(guard, TENURE_E_UNREACHABLE, "token %llu of %s cannot be confirmed: %s", token,
                              item->target, down ? trouble.message : "the store is recovering from a loss of data");
}

int tenure_guard_check_many(tenure_guard *guard, tenure_guard_item *items, size_t count) {
    int r = belongs_here(guard);
    if (r < 0)
        return r;
    struct question *questions = ten_calloc(count ? count : 1, sizeof *questions);
    if (!questions)
        return ten_last_error_say(guard, TENURE_E_NOMEM, "out of memory for %zu checks", count);
    for (size_t i = 0; i < count; i++)
        items[i].verdict = check_input(guard, items[i].target, items[i].token);
    bool asked = false;
    lock(guard);
    uint64_t now = now_ms(guard);
    for (size_t i = 0; i < count; i++) {
        struct question *question = &questions[i];
        *question = (struct question){.target = items[i].target, .token = items[i].token, .answered = true};
        if (items[i].verdict < 0)
            continue;
        question->verdict = ten_guard_check(&guard->core, now, question->target, question->token, &question->newest);
        if (question->verdict == TEN_GUARD_ASK) {
            ask(guard, question);
            asked = true;
        }
    }
    if (asked)
        ten_carrier_wake(&guard->carrier);
    for (size_t i = 0; i < count; i++) {
        wait_for(guard, &questions[i]);
        items[i].newest = questions[i].newest;
        if (items[i].verdict == TENURE_OK)
            items[i].verdict = count_verdict(guard, questions[i].verdict);
    }
    unlock(guard);
    ten_free(questions);
    return TENURE_OK;
}

int tenure_guard_check(tenure_guard *guard, const char *target, uint64_t token) {
    int r = belongs_here(guard);
    tenure_guard_item item = {.target = target, .token = token};
    if (r == TENURE_OK)
        r = check_input(guard, target, token);
    if (r < 0)
        return r;
    struct question question = {.target = target, .token = token, .answered = true};
    lock(guard);
    question.verdict = ten_guard_check(&guard->core, now_ms(guard), target, token, &question.newest);
    if (question.verdict == TEN_GUARD_ASK) {
        ask(guard, &question);
        ten_carrier_wake(&guard->carrier);
        wait_for(guard, &question);
    }
    item.newest = question.newest;
    item.verdict = count_verdict(guard, question.verdict);
    unlock(guard);
    return item.verdict == TENURE_OK ? TENURE_OK : explain(guard, &item);
}

void tenure_guard_get_counts(tenure_guard *guard, tenure_guard_counts *ret_counts) {
    *ret_counts = (tenure_guard_counts){0};
    if (!ten_process_is(guard->carrier.process))
        return;
    lock(guard);
    *ret_counts = guard->counts;
    ret_counts->targets = guard->core.entries.count;
    unlock(guard);
}
