/*
 * Acquiring leases: one, the first of several, or without waiting.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/id.h"
#include "core/backoff.h"
#include "runtime/lease_state.h"

/* Between tries of several targets, while the store fails. */
#define OUTAGE_PAUSE_MIN_MS 50u
#define OUTAGE_PAUSE_MAX_MS 1000u

/* ---- messages */

static int say_held(tenure_context *context, const char *target, const ten_result *result) {
    char left[TEN_DURATION_SIZE];
    ten_duration_show(result->remaining_ms, left);
    if (result->recovering)
        return ten_last_error_say(context, TENURE_E_HELD,
                                  "cannot acquire %s for another %s: the store is recovering (it " TEN_RECOVERING_WHY
                                  "), and a previous holder may still be active",
                                  target, left);
    return ten_last_error_say(context, TENURE_E_HELD, "%s is held by %s for another %s", target,
                              result->holder ? result->holder : "another instance", left);
}

static int say_refused(const tenure_context *context, const char *target, int error) {
    switch (error) {
    case TENURE_E_TOKEN:
        return ten_last_error_say(context, error, "the tokens of %s are used up (2^53 - 1); use another target id",
                                  target);
    case TENURE_E_GONE:
        return ten_last_error_say(context, error, "the instance %s was declared gone and takes no more leases",
                                  context->instance);
    case TENURE_E_CANCELLED:
        return ten_last_error_say(context, error, "waiting for %s was cancelled", target);
    default:
        return ten_last_error_say(context, error, "%s: %s", target, tenure_strerror(error));
    }
}

/* `store_error` is that of the store's last call. */
static int say_outcome(tenure_context *context, const char *target, int r, const ten_book_wait *wait,
                       const ten_error *store_error) {
    if (r == TENURE_OK)
        return r;
    if (r == TENURE_E_HELD)
        return say_held(context, target, &wait->result);
    if (wait->answered && wait->spent)
        return ten_last_error_say(context, r, "the store grants %s under a token that is over", target);
    if (wait->answered && wait->late)
        return ten_last_error_say(context, r, "the answer about %s came when its lease was over again", target);
    bool refused = wait->answered && wait->result.outcome != TEN_ERROR;
    return !refused && store_error->code == r ? ten_last_error_set(context, store_error)
                                              : say_refused(context, target, r);
}

/* ---- acquiring */

int ten_context_start(tenure_context *context) {
    ten_error error;
    return ten_carrier_start(&context->carrier, &error) < 0 ? ten_last_error_set(context, &error) : TENURE_OK;
}

/* What can be said before the store is asked. */
static int check(tenure_context *context, const char *target, unsigned flags, unsigned known, const void *ret_lease) {
    int r = flags & TENURE_ASYNC ? ten_object_check(context, TEN_OBJECT_CONTEXT)
                                 : ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK)
        r = ten_flags_check(context, flags, known);
    if (r == TENURE_OK)
        r = ten_context_check_target(context, target);
    if (r == TENURE_OK && !ret_lease)
        r = ten_last_error_say(context, TENURE_E_INVALID, "there is no place for the lease on %s", target);
    return r;
}

/* With the lock. Adds the handle as a user of its target's entry. */
static int begin(tenure_context *context, tenure_lease *lease, uint64_t until_ms, ten_book_wait *wait) {
    uint64_t now_ms = ten_carrier_now_ms(&context->carrier);
    int r = ten_context_check_free(context, context->namespace_name, lease->target);
    if (r < 0)
        return r;
    ten_book_lease *entry = ten_lease_book_acquire(context->book, now_ms, lease->target, until_ms, &lease->user, wait);
    if (!entry)
        return ten_last_error_say(context, TENURE_E_NOMEM, "out of memory for a lease on %s", lease->target);
    ten_context_lease_link(lease, entry);
    return TENURE_OK;
}

/* With the lock. Whether the last try failed, and the next one is not due yet. */
static bool is_pausing(const tenure_context *context, const tenure_lease *lease) {
    return lease->entry->holding.flight == TEN_FLIGHT_NONE &&
           ten_carrier_now_ms(&context->carrier) < context->task.engine.retry_ms;
}

/* With the lock. A wait outlasts errors of the store. When its time is over, the answer to the last try is waited for;
 * if that has failed already, its error is the outcome. */
static int wait_for_outcome(tenure_context *context, const tenure_lease *lease, const ten_book_wait *wait,
                            uint64_t until_ms) {
    ten_carrier *carrier = &context->carrier;
    bool patient = until_ms > ten_carrier_now_ms(carrier);
    uint64_t end_ms = ten_add_saturating(until_ms, 2 * context->timing.timeout_ms);
    if (!patient)
        return ten_carrier_await(carrier, &context->task, ten_lease_is_answered, wait, end_ms);
    int r = ten_carrier_wait(carrier, &context->task, ten_lease_is_answered, wait, until_ms);
    if (r == TENURE_E_TIMEOUT && !is_pausing(context, lease))
        r = ten_carrier_wait(carrier, &context->task, ten_lease_is_answered, wait, end_ms);
    return r == TENURE_E_TIMEOUT && context->task.error.code ? context->task.error.code : r;
}

/* Acquires, and waits for the outcome. A refusal is copied to *ret_refusal, without its holder. */
static int acquire_now(tenure_context *context, tenure_lease *lease, uint64_t wait_ms, ten_result *ret_refusal) {
    ten_carrier *carrier = &context->carrier;
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    ten_carrier_lock(carrier);
    uint64_t until_ms = ten_add_saturating(ten_carrier_now_ms(carrier), wait_ms);
    ten_task_hurry(&context->task);
    context->task.error = (ten_error){0};
    int r = begin(context, lease, until_ms, &wait);
    if (r < 0) {
        ten_carrier_unlock(carrier);
        return r;
    }
    r = wait_for_outcome(context, lease, &wait, until_ms);
    if (wait.answered)
        r = wait.error;
    else
        ten_lease_book_abandon(context->book, ten_carrier_now_ms(carrier), lease->entry, &wait);
    ten_error error = context->task.error;
    ten_carrier_unlock(carrier);
    if (r == TENURE_E_HELD && ret_refusal) {
        *ret_refusal = wait.result;
        ret_refusal->holder = NULL;
    }
    return say_outcome(context, lease->target, r, &wait, &error);
}

/* Acquires in the background. */
static int acquire_later(tenure_context *context, tenure_lease *lease, uint64_t wait_ms) {
    ten_carrier *carrier = &context->carrier;
    ten_carrier_lock(carrier);
    int r = begin(context, lease, ten_add_saturating(ten_carrier_now_ms(carrier), wait_ms), NULL);
    ten_carrier_unlock(carrier);
    return r;
}

static int acquire(tenure_context *context, const char *target, uint64_t wait_ms, unsigned flags,
                   tenure_lease **ret_lease, ten_result *ret_refusal) {
    tenure_lease *lease;
    bool needs_loop = !(flags & TENURE_MANUAL) || (flags & TENURE_ASYNC) || wait_ms > 0 || context->on_event;
    int r = needs_loop ? ten_context_start(context) : TENURE_OK;
    if (r == TENURE_OK)
        r = ten_context_lease_new(context, target, flags, &lease);
    if (r < 0)
        return r;
    r = flags & TENURE_ASYNC ? acquire_later(context, lease, wait_ms)
                             : acquire_now(context, lease, wait_ms, ret_refusal);
    if (r < 0) {
        (void)ten_object_leave(lease, TEN_OBJECT_LEASE);
        ten_context_lease_discard(context, lease);
        return r;
    }
    *ret_lease = lease;
    return TENURE_OK;
}

int tenure_acquire(tenure_context *context, const char *target, uint64_t wait_ms, unsigned flags,
                   tenure_lease **ret_lease) {
    int r = check(context, target, flags, TENURE_MANUAL | TENURE_ASYNC, ret_lease);
    return r < 0 ? r : acquire(context, target, wait_ms, flags, ret_lease, NULL);
}

/* ---- the first of several */

struct choice {
    const char *const *targets;
    size_t count;
    unsigned flags;
    uint64_t pause_ms; /* until the first of them may be free, as far as the refusals say */
    bool recovering;   /* the store grants nothing */
};

/* One try of each, in their order. TENURE_E_HELD: none can be had. */
static int try_each(tenure_context *context, struct choice *choice, tenure_lease **ret_lease) {
    int r = TENURE_E_HELD;
    choice->pause_ms = UINT64_MAX;
    choice->recovering = false;
    for (size_t i = 0; i < choice->count && r == TENURE_E_HELD; i++) {
        ten_result refusal = {0};
        r = acquire(context, choice->targets[i], 0, choice->flags, ret_lease, &refusal);
        choice->pause_ms = ten_min_u64(choice->pause_ms, ten_max_u64(refusal.remaining_ms, 1));
        choice->recovering |= refusal.recovering;
    }
    return r;
}

static int say_none(const tenure_context *context, const struct choice *choice) {
    char left[TEN_DURATION_SIZE];
    ten_duration_show(choice->pause_ms, left);
    if (choice->recovering)
        return ten_last_error_say(
            context, TENURE_E_HELD,
            "cannot acquire any of the %zu targets for another %s: the store is recovering (it " TEN_RECOVERING_WHY
            "), and previous holders may still be active",
            choice->count, left);
    return ten_last_error_say(context, TENURE_E_HELD,
                              "none of the %zu targets could be acquired: all are held, the first for another %s",
                              choice->count, left);
}

/* Errors that a wait outlasts. */
static bool is_outage(int error) {
    switch (error) {
    case TENURE_E_TIMEOUT:
    case TENURE_E_UNREACHABLE:
    case TENURE_E_STORE:
    case TENURE_E_FULL:
    case TENURE_E_DENIED:
        return true;
    default:
        return false;
    }
}

static bool is_never(const void *arg) {
    (void)arg;
    return false;
}

/* After a try: waits for a change in the store, or until one of the targets may be free; after an error, for as long as
 * the pause says. */
static int wait_for_any(tenure_context *context, int error, uint64_t seen, uint64_t until_ms) {
    ten_carrier *carrier = &context->carrier;
    ten_carrier_lock(carrier);
    int r = error == TENURE_E_HELD ? ten_carrier_wait_notice(carrier, context->channel, seen, until_ms)
                                   : ten_carrier_wait(carrier, NULL, is_never, NULL, until_ms);
    ten_carrier_unlock(carrier);
    return r;
}

static uint64_t count_notices(tenure_context *context) {
    ten_carrier_lock(&context->carrier);
    uint64_t notices = context->channel->notices;
    pthread_mutex_unlock(&context->carrier.lock);
    return notices;
}

static int acquire_any(tenure_context *context, struct choice *choice, uint64_t wait_ms, tenure_lease **ret_lease) {
    const ten_carrier *carrier = &context->carrier;
    uint64_t end_ms = ten_add_saturating(ten_carrier_now_ms(carrier), wait_ms);
    ten_backoff backoff = {.min_ms = OUTAGE_PAUSE_MIN_MS, .max_ms = OUTAGE_PAUSE_MAX_MS, .steady_ms = UINT64_MAX};
    for (;;) {
        uint64_t seen = count_notices(context);
        int r = try_each(context, choice, ret_lease);
        uint64_t now_ms = ten_carrier_now_ms(carrier);
        bool ended = (r != TENURE_E_HELD && !is_outage(r)) || now_ms >= end_ms;
        if (ended)
            return r == TENURE_E_HELD ? say_none(context, choice) : r;
        uint64_t pause_ms = r == TENURE_E_HELD ? choice->pause_ms : ten_backoff_pause_ms(&backoff, 0);
        if (r == TENURE_E_HELD)
            backoff.brief = 0;
        if (wait_for_any(context, r, seen, ten_min_u64(ten_add_saturating(now_ms, pause_ms), end_ms)) ==
            TENURE_E_CANCELLED)
            return ten_last_error_say(context, TENURE_E_CANCELLED, "waiting for one of %zu targets was cancelled",
                                      choice->count);
    }
}

int tenure_acquire_any(tenure_context *context, const char *const *targets, size_t count, uint64_t wait_ms,
                       unsigned flags, tenure_lease **ret_lease) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && (!targets || count == 0))
        r = ten_last_error_say(context, TENURE_E_INVALID, "no targets were given");
    if (r == TENURE_OK && flags & TENURE_ASYNC)
        r = ten_last_error_say(context, TENURE_E_INVALID, "TENURE_ASYNC is not for one of several targets");
    for (size_t i = 0; i < count && r == TENURE_OK; i++)
        r = check(context, targets[i], flags, TENURE_MANUAL, ret_lease);
    if (r == TENURE_OK && wait_ms > 0)
        r = ten_context_start(context);
    struct choice choice = {.targets = targets, .count = count, .flags = flags};
    return r < 0 ? r : acquire_any(context, &choice, wait_ms, ret_lease);
}

/* ---- the outcome of an acquire in the background */

static bool is_settled(const void *arg) {
    const tenure_lease *lease = arg;
    return !lease->pending;
}

int tenure_lease_wait(tenure_lease *lease, uint64_t wait_ms) {
    int r = ten_object_check_waiting(lease, TEN_OBJECT_LEASE);
    if (r < 0)
        return r;
    tenure_context *context = atomic_load(&lease->object.context);
    ten_carrier *carrier = &context->carrier;
    ten_carrier_lock(carrier);
    r = ten_carrier_wait(carrier, &context->task, is_settled, lease,
                         ten_add_saturating(ten_carrier_now_ms(carrier), wait_ms));
    bool settled = !lease->pending;
    if (settled)
        r = lease->outcome;
    bool over = settled && r == TENURE_OK && !ten_context_lease_is_held(lease);
    const char *reason = lease->reason;
    ten_result refusal = {0}; /* its holder does not change any more */
    if (settled)
        refusal =
            (ten_result){.holder = lease->holder, .remaining_ms = lease->remaining_ms, .recovering = lease->recovering};
    ten_carrier_unlock(carrier);
    if (over)
        return ten_last_error_say(lease, TENURE_E_LOST, "the lease on %s was acquired, but is over: it was %s",
                                  lease->target, reason ? reason : "released");
    if (r == TENURE_E_TIMEOUT && !settled)
        return ten_last_error_say(lease, r, "it is not known yet whether %s can be acquired", lease->target);
    if (r == TENURE_E_HELD)
        return say_held(context, lease->target, &refusal);
    return r < 0 ? say_refused(context, lease->target, r) : TENURE_OK;
}
