/*
 * The C API of the guard, and the thread that follows the store's feed and asks its questions. It decides nothing: that
 * is src/core/guard.c's business. Checks that need no answer take the lock and are done; the others leave a question
 * and wait. The thread takes all questions that have come together into one apply().
 */
#include "base/thread.h"
#include "core/guard.h"
#include "store/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"
#include "runtime/guard_reader.h"

#define EVENT_SIZE      500u
#define QUESTIONS_MAX   1000u /* of one apply() */
#define BLIND_MS        250u  /* how often a store is looked at that cannot be watched */
#define LOOK_MAX_MS     10000u
#define BACKOFF_MIN_MS  50u
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
    ten_store *store; /* used by the thread alone once it runs */
    const ten_clock *clock;
    uint64_t process;
    uint64_t timeout_ms;
    uint64_t look_ms; /* how often the feed is read when nothing wakes */
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    tenure_guard_options options;

    pthread_t thread;
    bool started;
    int wake_fd;

    pthread_mutex_t lock; /* around everything below; held for microseconds, never during a call on the store */
    pthread_cond_t answered;
    ten_guard core;
    struct question *questions;
    struct question **questions_end;
    tenure_guard_counts counts;
    ten_error trouble; /* of the last call that failed */
    bool quit;

    /* The thread's own. */
    uint64_t cursor;
    bool feed_due;
    bool down;
    uint64_t retry_ms; /* not before this: the store failed */
    uint64_t backoff_ms;
    uint64_t looked_ms; /* when the feed was read last */
    ten_map batch;      /* target to its operation, while a batch is put together */
    ten_op ops[QUESTIONS_MAX];
    ten_result results[QUESTIONS_MAX];
};

static uint64_t now_ms(const tenure_guard *guard) {
    return ten_boot_ms(guard->clock);
}

/* ---- messages: a thread's last error and whose it was */

static _Thread_local struct {
    const tenure_guard *guard;
    ten_error error;
} last;

static int failed(const tenure_guard *guard, const ten_error *error) {
    last.guard = guard;
    last.error = *error;
    return error->code;
}

static int fail(const tenure_guard *guard, int code, const char *format, ...) TEN_PRINTF(3, 4);
static int fail(const tenure_guard *guard, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    last.guard = guard;
    last.error.code = code;
    vsnprintf(last.error.message, sizeof last.error.message, format, args);
    va_end(args);
    return code;
}

const char *tenure_guard_message(const tenure_guard *guard) {
    return last.guard == guard ? last.error.message : "";
}

/* ---- the store's state, for the program */

static void tell(const tenure_guard *guard, enum tenure_event_kind kind, const char *name, int error) {
    if (guard->options.on_event)
        guard->options.on_event(&(tenure_event){.kind = kind, .name = name, .reason = "", .error = error},
                                guard->options.userdata);
}

/* Notes what a call came to. Called by the thread. */
static void note(tenure_guard *guard, int r) {
    bool reached = r == TENURE_OK || r == TENURE_E_RESYNC;
    pthread_mutex_lock(&guard->lock);
    ten_guard_reached(&guard->core, reached);
    if (!reached) {
        guard->trouble = guard->store->error;
        if (guard->trouble.code != r)
            ten_fail(&guard->trouble, r, "%s", tenure_strerror(r));
    }
    pthread_mutex_unlock(&guard->lock);
    bool was_down = guard->down;
    guard->down = !reached;
    if (!reached) {
        guard->backoff_ms = ten_min_u64(ten_max_u64(2 * guard->backoff_ms, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
        guard->retry_ms = now_ms(guard) + guard->backoff_ms;
        guard->feed_due = true; /* whether it is there again is found out by reading the feed */
    } else {
        guard->backoff_ms = guard->retry_ms = 0;
    }
    if (was_down != guard->down)
        tell(guard, reached ? TENURE_EVENT_STORE_UP : TENURE_EVENT_STORE_DOWN, reached ? "store_up" : "store_down",
             reached ? TENURE_OK : r);
}

/* ---- the thread: questions */

/* The batch's operation on that target: messages that come together are often about the same few. */
static size_t op_for(tenure_guard *guard, const char *target, size_t *count) {
    void *known = ten_map_get(&guard->batch, target);
    if (known)
        return (size_t)((ten_op *)known - guard->ops);
    ten_op *op = &guard->ops[(*count)++];
    *op = (ten_op){.kind = TEN_OP_READ, .namespace_name = guard->namespace_name, .target = target};
    (void)ten_map_put(&guard->batch, target, op); /* without memory it is asked for once more */
    return *count - 1;
}

/* Takes the questions out of the queue, as many as there is room for. */
static struct question *take_questions(tenure_guard *guard, size_t *ret_count) {
    size_t count = 0;
    pthread_mutex_lock(&guard->lock);
    struct question *first = guard->questions;
    struct question **end = &guard->questions;
    for (; *end && count < QUESTIONS_MAX; end = &(*end)->next)
        (*end)->op = op_for(guard, (*end)->target, &count);
    struct question *rest = *end;
    *end = NULL;
    guard->questions = rest;
    if (!rest)
        guard->questions_end = &guard->questions;
    guard->counts.asked += count;
    pthread_mutex_unlock(&guard->lock);
    ten_map_free(&guard->batch);
    *ret_count = count;
    return first;
}

static bool answer_questions(tenure_guard *guard) {
    size_t count;
    struct question *first = take_questions(guard, &count);
    if (!first)
        return false;
    uint64_t sent_ms = now_ms(guard);
    int r = ten_store_apply(guard->store, guard->ops, guard->results, count, guard->timeout_ms);
    /* A connection that the server closed in the meantime is found out by using it: once more, on a new one. */
    if (r < 0 && r != TENURE_E_TIMEOUT && tenure_error_retryable(r)) {
        sent_ms = now_ms(guard);
        r = ten_store_apply(guard->store, guard->ops, guard->results, count, guard->timeout_ms);
    }
    note(guard, r);
    pthread_mutex_lock(&guard->lock);
    uint64_t now = now_ms(guard);
    for (struct question *at = first; at; at = at->next) {
        at->verdict = ten_guard_answer(&guard->core, now, sent_ms, at->target, at->token,
                                       r == TENURE_OK ? &guard->results[at->op] : NULL, &at->newest);
        at->answered = true;
    }
    pthread_cond_broadcast(&guard->answered);
    pthread_mutex_unlock(&guard->lock);
    return true;
}

/* ---- the thread: the feed */

struct reading {
    tenure_guard *guard;
    uint64_t sent_ms;
};

static int take_change(const ten_change *change, void *userdata) {
    const struct reading *reading = userdata;
    tenure_guard *guard = reading->guard;
    pthread_mutex_lock(&guard->lock);
    if (change->kind == TEN_STORE_RECOVERING)
        ten_guard_follow(&guard->core, reading->sent_ms);
    else
        ten_guard_change(&guard->core, change);
    pthread_mutex_unlock(&guard->lock);
    if (change->kind == TEN_STORE_RECOVERING)
        tell(guard, TENURE_EVENT_RECOVERING, "store_recovering", TENURE_OK);
    return 0;
}

static bool read_feed(tenure_guard *guard) {
    if (!guard->feed_due || now_ms(guard) < guard->retry_ms)
        return false;
    uint64_t before = guard->cursor;
    struct reading reading = {.guard = guard, .sent_ms = now_ms(guard)};
    guard->feed_due = false;
    guard->looked_ms = reading.sent_ms;
    int r = guard->store->ops->changes(guard->store, guard->namespace_name, &guard->cursor, EVENT_SIZE, take_change,
                                       &reading, guard->timeout_ms);
    note(guard, r);
    if (r < 0 && r != TENURE_E_RESYNC)
        return true;
    pthread_mutex_lock(&guard->lock);
    if (r == TENURE_E_RESYNC || before == UINT64_MAX)
        ten_guard_follow(&guard->core, reading.sent_ms);
    else if (guard->cursor == before)
        ten_guard_fed(&guard->core, reading.sent_ms);
    else
        guard->feed_due = true; /* its end is where nothing more comes */
    pthread_mutex_unlock(&guard->lock);
    return true;
}

static void sleep_until_due(tenure_guard *guard) {
    int watch_fd = -1;
    if (guard->store->ops->watch(guard->store, guard->namespace_name, &watch_fd) < 0)
        watch_fd = -1;
    uint64_t look_ms = watch_fd < 0 ? ten_min_u64(guard->look_ms, BLIND_MS) : guard->look_ms;
    uint64_t due_ms = guard->feed_due ? guard->retry_ms : guard->looked_ms + look_ms;
    uint64_t wait_ms = ten_sub_saturating(due_ms, now_ms(guard));
    int woken = ten_wait_readable(guard->wake_fd, watch_fd, wait_ms);
    if (woken > 0 && (woken & 1))
        ten_eventfd_clear(guard->wake_fd);
    if (watch_fd >= 0 && woken > 0 && (woken & 2))
        guard->store->ops->watch_clear(guard->store);
    guard->feed_due |= now_ms(guard) >= due_ms || (woken > 0 && (woken & 2));
}

static bool is_over(tenure_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    bool over = guard->quit && !guard->questions;
    pthread_mutex_unlock(&guard->lock);
    return over;
}

static void *run(void *arg) {
    tenure_guard *guard = arg;
    int watch_fd;
    /* From here on a change makes the descriptor readable, so none after the feed's first reading is slept through. */
    (void)guard->store->ops->watch(guard->store, guard->namespace_name, &watch_fd);
    guard->feed_due = true;
    while (!is_over(guard)) {
        bool worked = read_feed(guard); /* first: what is asked before the feed is followed is not covered by it */
        worked |= answer_questions(guard);
        if (!worked)
            sleep_until_due(guard);
    }
    return NULL;
}

/* ---- opening and closing */

static void free_guard(tenure_guard *guard) {
    if (ten_process_is(guard->process))
        ten_store_close(guard->store);
    ten_close_fd(&guard->wake_fd);
    ten_guard_free(&guard->core);
    pthread_mutex_destroy(&guard->lock);
    pthread_cond_destroy(&guard->answered);
    ten_free(guard);
}

static tenure_guard *new_guard(const tenure_guard_options *options, const ten_clock *clock) {
    tenure_guard *guard = ten_calloc(1, sizeof *guard);
    if (!guard)
        return NULL;
    pthread_mutex_init(&guard->lock, NULL);
    pthread_cond_init(&guard->answered, NULL);
    if (options)
        memcpy(&guard->options, options, ten_min_u64(options->size, sizeof guard->options));
    guard->clock = clock;
    guard->process = ten_process_number();
    guard->wake_fd = ten_eventfd_open();
    guard->cursor = UINT64_MAX;
    guard->questions_end = &guard->questions;
    return guard;
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
    guard->timeout_ms =
        options->timeout_ms ? options->timeout_ms : ten_min_u64(ten_max_u64(cache_ttl_ms / 6, 50), 5000);
    guard->look_ms = ten_min_u64(cache_ttl_ms / 3, LOOK_MAX_MS);
    ten_guard_init(&guard->core,
                   &(ten_guard_config){.cache_ttl_ms = cache_ttl_ms,
                                       .accept_expired = options->on_expired_accept,
                                       .max_targets = options->max_targets ? options->max_targets : TARGETS_DEFAULT});
    ten_store_config config = {.clock = guard->clock, .timeout_ms = options->timeout_ms};
    r = ten_store_open(url, &config, &guard->store, error);
    if (r == TENURE_OK && !options->timeout_ms && guard->store->timeout_ms)
        guard->timeout_ms = guard->store->timeout_ms;
    return r;
}

static int start(tenure_guard *guard, ten_error *error) {
    int refused = ten_thread_start(&guard->thread, run, guard);
    guard->started = refused == 0;
    return refused ? ten_fail_errno(error, TENURE_E_SYSTEM, refused, "cannot start the guard's thread") : TENURE_OK;
}

int ten_guard_reader_open(const char *url, const tenure_guard_options *options, const ten_clock *clock,
                          tenure_guard **ret_guard) {
    ten_error error = {0};
    if (options && options->size < sizeof options->size)
        return fail(NULL, TENURE_E_INVALID, "tenure_guard_options.size is not set: it is sizeof(tenure_guard_options)");
    tenure_guard *guard = new_guard(options, clock);
    if (!guard)
        return fail(NULL, TENURE_E_NOMEM, "out of memory for a guard");
    int r = guard->wake_fd < 0 || guard->process == 0
                ? ten_fail_errno(&error, TENURE_E_SYSTEM, errno, "cannot start a guard")
                : configure(guard, url, &error);
    if (r == TENURE_OK)
        r = start(guard, &error);
    if (r < 0) {
        free_guard(guard);
        return failed(NULL, &error);
    }
    *ret_guard = guard;
    return TENURE_OK;
}

int tenure_guard_open(const char *url, const tenure_guard_options *options, tenure_guard **ret_guard) {
    return ten_guard_reader_open(url, options, &ten_system_clock, ret_guard);
}

static void wake(const tenure_guard *guard) {
    ten_eventfd_poke(guard->wake_fd);
}

void tenure_guard_close(tenure_guard *guard) {
    if (!guard)
        return;
    if (last.guard == guard) {
        last.guard = NULL;
        last.error = (ten_error){0};
    }
    if (ten_process_is(guard->process) && guard->started) {
        pthread_mutex_lock(&guard->lock);
        guard->quit = true;
        pthread_mutex_unlock(&guard->lock);
        wake(guard);
        pthread_join(guard->thread, NULL);
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
        pthread_cond_wait(&guard->answered, &guard->lock);
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
    return ten_process_is(guard->process)
               ? TENURE_OK
               : fail(guard, TENURE_E_FORKED,
                      "this guard belongs to the parent of this process; open another one after fork()");
}

/* What can be said about a message without knowing its target. */
static int check_input(const tenure_guard *guard, const char *target, uint64_t token) {
    ten_error error;
    if (!target)
        return fail(guard, TENURE_E_INVALID, "no target was given");
    if (ten_id_check_target(target, &error) < 0)
        return failed(guard, &error);
    if (token == 0 || token > TENURE_TOKEN_MAX)
        return fail(guard, TENURE_E_TOKEN, "%llu is not a token: they lie between 1 and 2^53 - 1",
                    (unsigned long long)token);
    return TENURE_OK;
}

static int explain(tenure_guard *guard, const tenure_guard_item *item) {
    unsigned long long token = item->token;
    unsigned long long newest = item->newest;
    if (item->verdict == TENURE_E_STALE)
        return fail(guard, TENURE_E_STALE, "token %llu of %s is stale: the newest is %llu", token, item->target,
                    newest);
    if (item->verdict == TENURE_E_TOKEN)
        return fail(guard, TENURE_E_TOKEN, "token %llu of %s was never granted: the newest is %llu", token,
                    item->target, newest);
    pthread_mutex_lock(&guard->lock);
    bool down = guard->core.down;
    ten_error trouble = guard->trouble;
    pthread_mutex_unlock(&guard->lock);
    return fail(guard, TENURE_E_UNREACHABLE, "token %llu of %s cannot be confirmed: %s", token, item->target,
                down ? trouble.message : "the store is recovering from a loss of data");
}

int tenure_guard_check_many(tenure_guard *guard, tenure_guard_item *items, size_t count) {
    int r = belongs_here(guard);
    if (r < 0)
        return r;
    struct question *questions = ten_calloc(count ? count : 1, sizeof *questions);
    if (!questions)
        return fail(guard, TENURE_E_NOMEM, "out of memory for %zu checks", count);
    for (size_t i = 0; i < count; i++)
        items[i].verdict = check_input(guard, items[i].target, items[i].token);
    bool asked = false;
    pthread_mutex_lock(&guard->lock);
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
        wake(guard);
    for (size_t i = 0; i < count; i++) {
        wait_for(guard, &questions[i]);
        items[i].newest = questions[i].newest;
        if (items[i].verdict == TENURE_OK)
            items[i].verdict = count_verdict(guard, questions[i].verdict);
    }
    pthread_mutex_unlock(&guard->lock);
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
    pthread_mutex_lock(&guard->lock);
    question.verdict = ten_guard_check(&guard->core, now_ms(guard), target, token, &question.newest);
    if (question.verdict == TEN_GUARD_ASK) {
        ask(guard, &question);
        wake(guard);
        wait_for(guard, &question);
    }
    item.newest = question.newest;
    item.verdict = count_verdict(guard, question.verdict);
    pthread_mutex_unlock(&guard->lock);
    return item.verdict == TENURE_OK ? TENURE_OK : explain(guard, &item);
}

void tenure_guard_get_counts(tenure_guard *guard, tenure_guard_counts *ret_counts) {
    *ret_counts = (tenure_guard_counts){0};
    if (!ten_process_is(guard->process))
        return;
    pthread_mutex_lock(&guard->lock);
    *ret_counts = guard->counts;
    ret_counts->targets = guard->core.entries.count;
    pthread_mutex_unlock(&guard->lock);
}
