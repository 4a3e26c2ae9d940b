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
#include "runtime/context_state.h"

#define FEED_SIZE       500u
#define QUESTIONS_MAX   1000u /* of one request */
#define LOOK_MAX_MS     10000u
#define BACKOFF_MAX_MS  1000u
#define TARGETS_DEFAULT 100000u

/* On the stack of the thread that waits for its answer. */
struct question {
    const char *target;
    uint64_t token;
    uint64_t newest;
    enum ten_guard_verdict verdict;
    bool asked; /* else it was judged from memory */
    bool answered;
    size_t op; /* which of the batch is about its target */
    struct question *next;
};

struct tenure_guard {
    ten_object object;
    ten_carrier *carrier;
    ten_task task;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    tenure_guard_options options;

    /* Under the carrier's lock. */
    ten_guard core;
    struct question *questions;
    struct question **questions_end;
    struct question *asked; /* those of the request in flight */
    uint64_t followed_ms;   /* when the reading was sent from which on the feed is followed */
    tenure_guard_totals totals;
    ten_map batch; /* target to its operation, while a request is put together */
    ten_op ops[QUESTIONS_MAX];
};

static uint64_t now_ms(const tenure_guard *guard) {
    return ten_carrier_now_ms(guard->carrier);
}

/* ---- as a part of the engine: questions */

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
static const ten_op *request(tenure_guard *guard, size_t *ret_count) {
    size_t count = 0;
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
    guard->totals.reads += count;
    ten_map_free(&guard->batch);
    *ret_count = count;
    return guard->ops;
}

static void answer_all(tenure_guard *guard, struct question *first, uint64_t now, const ten_result *results) {
    for (struct question *at = first; at; at = at->next) {
        at->verdict = ten_guard_answer(&guard->core, now, guard->task.engine.sent_ms, at->target, at->token,
                                       results ? &results[at->op] : NULL, &at->newest);
        at->answered = true;
    }
    ten_carrier_tell_waiting(guard->carrier);
}

/* If the store does not answer, no question waits for the next try. */
static void answer(tenure_guard *guard, uint64_t now, int error, const ten_result *results) {
    ten_guard_reached(&guard->core, error == TENURE_OK);
    answer_all(guard, guard->asked, now, error == TENURE_OK ? results : NULL);
    guard->asked = NULL;
    if (error < 0) {
        answer_all(guard, guard->questions, now, NULL);
        guard->questions = NULL;
        guard->questions_end = &guard->questions;
    }
}

/* ---- as a part of the engine: the feed */

/* Once for each reading: one that missed entries because of an epoch has brought the epoch before. */
static void follow(tenure_guard *guard) {
    if (guard->followed_ms == guard->task.engine.sent_ms)
        return;
    guard->followed_ms = guard->task.engine.sent_ms;
    ten_guard_follow(&guard->core, guard->followed_ms);
}

static void change(tenure_guard *guard, const ten_change *entry) {
    if (entry->kind != TENURE_EVENT_RECOVERING) {
        ten_guard_change(&guard->core, entry);
        return;
    }
    follow(guard);
    ten_event_queue_put(&guard->task.events, (tenure_event){.kind = TENURE_EVENT_RECOVERING});
}

static void step(void *part, const ten_engine_event *event, ten_part_update *update) {
    tenure_guard *guard = part;
    if (event->kind == TEN_ON_REQUEST)
        update->ops = request(guard, &update->count);
    else if (event->kind == TEN_ON_ANSWER)
        answer(guard, event->now_ms, event->error, event->results);
    else if (event->kind == TEN_ON_FED)
        ten_guard_fed(&guard->core, guard->task.engine.sent_ms);
    else if (event->kind == TEN_ON_FOLLOW)
        follow(guard);
    else if (event->kind == TEN_ON_CHANGE)
        change(guard, event->change);
}

/* Questions and the feed take turns, as nothing is urgent: however much is asked, the feed is read. */
static void due(const void *part, uint64_t now, ten_part_due *ret_due) {
    if (may_ask(part))
        ret_due->next_ms = now;
}

/* ---- for the carrier */

static void tell(void *owner) {
    tenure_guard *guard = owner;
    tenure_event event;
    while (ten_task_take_event(&guard->task, &event))
        if (guard->options.on_event)
            guard->options.on_event(&event, guard->options.userdata);
}

/* Whether the store was reached, also by a reading of the feed. */
static void changed(void *owner) {
    tenure_guard *guard = owner;
    ten_guard_reached(&guard->core, !guard->task.engine.down);
}

static const ten_task_hooks hooks = {.changed = changed, .tell = tell};

/* ---- opening and closing */

static void free_guard(ten_object *object) {
    tenure_guard *guard = (tenure_guard *)object;
    ten_task_free(&guard->task);
    ten_guard_free(&guard->core);
    ten_object_free(guard);
}

static int check_options(tenure_context *context, const tenure_guard_options *options, const void *ret_guard) {
    ten_error error;
    uint64_t cache_ttl_ms = options->cache_ttl_ms;
    int r = ten_flags_check(context, options->flags, TENURE_ACCEPT_EXPIRED);
    if (r == TENURE_OK && !ret_guard)
        r = ten_last_error_say(context, TENURE_E_INVALID, "there is no place for the guard");
    if (r == TENURE_OK && options->namespace_name && ten_id_check_namespace(options->namespace_name, &error) < 0)
        r = ten_last_error_set(context, &error);
    if (r == TENURE_OK && cache_ttl_ms && (cache_ttl_ms < TENURE_TTL_MIN_MS || cache_ttl_ms > TENURE_TTL_MAX_MS))
        r = ten_last_error_say(context, TENURE_E_TTL,
                               "a cache TTL of %llu ms cannot be used: between 100 ms and 366 days",
                               (unsigned long long)cache_ttl_ms);
    return r;
}

static void end(ten_object *object) {
    ten_task_remove(&((tenure_guard *)object)->task);
}

static const ten_object_ends ends = {.end = end};

static int prepare(tenure_guard *guard, tenure_context *context, ten_error *error) {
    const tenure_guard_options *options = &guard->options;
    ten_task *task = &guard->task;
    uint64_t cache_ttl_ms = options->cache_ttl_ms ? options->cache_ttl_ms : TENURE_TTL_DEFAULT_MS;
    guard->carrier = &context->carrier;
    guard->questions_end = &guard->questions;
    snprintf(guard->namespace_name, sizeof guard->namespace_name, "%s",
             options->namespace_name ? options->namespace_name : context->namespace_name);
    int r = ten_task_open(task, guard->carrier, QUESTIONS_MAX, guard->namespace_name, error);
    if (r < 0)
        return r;
    task->hooks = &hooks;
    task->owner = guard;
    /* A store that hangs is given up while the cache still answers. */
    task->timeout_ms = ten_min_u64(context->timing.timeout_ms, ten_min_u64(ten_max_u64(cache_ttl_ms / 6, 50), 5000));
    ten_task_begin(task, (ten_engine_config){.step = step,
                                             .due = due,
                                             .part = guard,
                                             .backoff_max_ms = BACKOFF_MAX_MS,
                                             .feed_max_ms = ten_min_u64(cache_ttl_ms / 3, LOOK_MAX_MS),
                                             .feed_size = FEED_SIZE,
                                             .feed_is_pulse = true});
    ten_guard_init(&guard->core,
                   &(ten_guard_config){.cache_ttl_ms = cache_ttl_ms,
                                       .accept_expired = options->flags & TENURE_ACCEPT_EXPIRED,
                                       .max_targets = options->max_targets ? options->max_targets : TARGETS_DEFAULT});
    return ten_carrier_start(guard->carrier, error);
}

int tenure_guard_open(tenure_context *context, const tenure_guard_options *options, tenure_guard **ret_guard) {
    ten_error error = {0};
    tenure_guard_options own;
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK)
        r = ten_struct_read(context, "tenure_guard_options", options, &own, sizeof own);
    if (r == TENURE_OK)
        r = check_options(context, &own, ret_guard);
    if (r < 0)
        return r;
    tenure_guard *guard = ten_calloc(1, sizeof *guard);
    if (!guard)
        return ten_last_error_say(context, TENURE_E_NOMEM, "out of memory for a guard");
    guard->options = own;
    guard->object.ends = &ends;
    r = prepare(guard, context, &error);
    if (r < 0)
        ten_last_error_set(context, &error);
    else
        r = ten_context_adopt(context, &guard->object, TEN_OBJECT_GUARD);
    if (r < 0) {
        free_guard(&guard->object);
        return r;
    }
    *ret_guard = guard; /* before the first event */
    ten_task_add(&guard->task);
    return TENURE_OK;
}

void tenure_guard_close(tenure_guard *guard) {
    ten_context_close_object(guard, TEN_OBJECT_GUARD, __func__, end, free_guard);
}

/* ---- checking; the lock is held */

/* Leaves a question if it cannot be judged from memory. */
static void check_alone(tenure_guard *guard, struct question *question) {
    question->verdict =
        ten_guard_check(&guard->core, now_ms(guard), question->target, question->token, &question->newest);
    question->asked = question->verdict == TEN_GUARD_ASK;
    question->answered = !question->asked;
    if (!question->asked)
        return;
    *guard->questions_end = question;
    guard->questions_end = &question->next;
}

static bool is_answered(const void *arg) {
    const struct question *question = arg;
    return question->answered;
}

/* Takes back a question that stays unanswered. */
static void take_back(tenure_guard *guard, struct question *question) {
    for (struct question **at = &guard->questions; *at; at = &(*at)->next) {
        if (*at == question) {
            *at = question->next;
            if (!*at)
                guard->questions_end = at;
            break;
        }
    }
}

/* A question that is being asked is answered: the call is bounded. One that cannot be asked is taken back. */
static void wait_for(tenure_guard *guard, struct question *question) {
    uint64_t end_ms = now_ms(guard) + 2 * guard->task.timeout_ms;
    while (!question->answered) {
        int r = ten_carrier_await(guard->carrier, &guard->task, is_answered, question, end_ms);
        if (r == TENURE_OK || question->answered)
            return;
        take_back(guard, question);
        bool in_flight = false;
        for (const struct question *at = guard->asked; at; at = at->next)
            in_flight |= at == question;
        if (!in_flight) {
            question->verdict = ten_guard_answer(&guard->core, now_ms(guard), now_ms(guard), question->target,
                                                 question->token, NULL, &question->newest);
            question->answered = true;
            return;
        }
        while (!question->answered)
            pthread_cond_wait(&guard->carrier->changed, &guard->carrier->lock);
    }
}

static int count_verdict(tenure_guard *guard, enum ten_guard_verdict verdict) {
    tenure_guard_totals *counts = &guard->totals;
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
    ten_carrier_lock(guard->carrier);
    bool down = guard->core.down;
    ten_error trouble = guard->task.error;
    ten_carrier_unlock(guard->carrier);
    return ten_last_error_say(guard, TENURE_E_UNREACHABLE, "token %llu of %s cannot be confirmed: %s", token,
                              item->target, down ? trouble.message : "the store is recovering from a loss of data");
}

static tenure_guard_item *item_at(tenure_guard_item *items, size_t number, size_t stride) {
    return (tenure_guard_item *)((char *)items + number * stride);
}

int tenure_guard_check_many(tenure_guard *guard, tenure_guard_item *items, size_t count, size_t stride) {
    int r = ten_object_check_waiting(guard, TEN_OBJECT_GUARD);
    if (r == TENURE_OK && count > 0 && (!items || stride < sizeof *items))
        r = ten_last_error_say(guard, TENURE_E_INVALID,
                               items ? "the stride is less than sizeof(tenure_guard_item)" : "no items were given");
    if (r < 0)
        return r;
    struct question *questions = ten_calloc(count ? count : 1, sizeof *questions);
    if (!questions)
        return ten_last_error_say(guard, TENURE_E_NOMEM, "out of memory for %zu checks", count);
    for (size_t i = 0; i < count; i++) {
        tenure_guard_item *item = item_at(items, i, stride);
        item->verdict = check_input(guard, item->target, item->token);
    }
    ten_carrier_lock(guard->carrier);
    for (size_t i = 0; i < count; i++) {
        const tenure_guard_item *item = item_at(items, i, stride);
        questions[i] = (struct question){.target = item->target, .token = item->token};
        if (item->verdict == TENURE_OK)
            check_alone(guard, &questions[i]);
    }
    for (size_t i = 0; i < count; i++) {
        tenure_guard_item *item = item_at(items, i, stride);
        if (item->verdict < 0)
            continue;
        /* What needed no answer is judged in its turn: by now one before it may have shown a newer token. */
        if (!questions[i].asked)
            check_alone(guard, &questions[i]);
        wait_for(guard, &questions[i]);
        item->newest = questions[i].newest;
        item->verdict = count_verdict(guard, questions[i].verdict);
    }
    ten_carrier_unlock(guard->carrier);
    ten_free(questions);
    return TENURE_OK;
}

int tenure_guard_check(tenure_guard *guard, const char *target, uint64_t token) {
    int r = ten_object_check_waiting(guard, TEN_OBJECT_GUARD);
    tenure_guard_item item = {.target = target, .token = token};
    if (r == TENURE_OK)
        r = check_input(guard, target, token);
    if (r < 0)
        return r;
    struct question question = {.target = target, .token = token};
    ten_carrier_lock(guard->carrier);
    check_alone(guard, &question);
    wait_for(guard, &question);
    item.newest = question.newest;
    item.verdict = count_verdict(guard, question.verdict);
    ten_carrier_unlock(guard->carrier);
    return item.verdict == TENURE_OK ? TENURE_OK : explain(guard, &item);
}

int tenure_guard_read(tenure_guard *guard, tenure_guard_totals *ret_totals) {
    int r = ten_object_check(guard, TEN_OBJECT_GUARD);
    if (r == TENURE_OK)
        r = ten_struct_check(guard, "tenure_guard_totals", ret_totals);
    if (r < 0)
        return r;
    ten_carrier_lock(guard->carrier);
    tenure_guard_totals totals = guard->totals;
    totals.targets = guard->core.entries.count;
    ten_carrier_unlock(guard->carrier);
    ten_struct_write(ret_totals, &totals, sizeof totals);
    return TENURE_OK;
}
