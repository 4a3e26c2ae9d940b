/*
 * Acquiring leases: one, the first of several, or without waiting.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/id.h"
#include "runtime/lease_state.h"

/* ---- messages */

static int say_held(tenure_context *context, const char *target, const ten_result *result) {
    char left[TEN_DURATION_SIZE];
    ten_duration_show(result->remaining_ms, left);
    if (result->recovering)
        return ten_last_error_say(context, TENURE_E_HELD,
                                  "cannot acquire %s for another %s: the store is recovering (it is new, or has lost "
                                  "data), and a previous holder may still be active",
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

static bool is_answered(const void *arg) {
    const ten_book_wait *wait = arg;
    return wait->answered;
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

/* Acquires, and waits for the outcome. */
static int acquire_now(tenure_context *context, tenure_lease *lease, uint64_t wait_ms) {
    ten_carrier *carrier = &context->carrier;
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    ten_carrier_lock(carrier);
    uint64_t until_ms = ten_add_saturating(ten_carrier_now_ms(carrier), wait_ms);
    uint64_t end_ms = ten_add_saturating(until_ms, 2 * context->timing.timeout_ms);
    ten_driver_hurry(&context->task.driver);
    context->task.error = (ten_error){0};
    int r = begin(context, lease, until_ms, &wait);
    if (r < 0) {
        ten_carrier_unlock(carrier);
        return r;
    }
    r = wait_ms > 0 ? ten_carrier_wait(carrier, &context->task, is_answered, &wait, end_ms)
                    : ten_carrier_await(carrier, &context->task, is_answered, &wait, end_ms);
    if (r == TENURE_OK)
        r = wait.error;
    else
        ten_lease_book_abandon(context->book, ten_carrier_now_ms(carrier), lease->entry, &wait);
    context->recovering_ms = wait.answered && wait.result.recovering ? wait.result.remaining_ms : 0;
    ten_error error = context->task.error;
    ten_carrier_unlock(carrier);
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
                   tenure_lease **ret_lease) {
    tenure_lease *lease;
    bool needs_loop = !(flags & TENURE_MANUAL) || (flags & TENURE_ASYNC) || wait_ms > 0 || context->on_event;
    int r = needs_loop ? ten_context_start(context) : TENURE_OK;
    if (r == TENURE_OK)
        r = ten_context_lease_new(context, target, flags, &lease);
    if (r < 0)
        return r;
    r = flags & TENURE_ASYNC ? acquire_later(context, lease, wait_ms) : acquire_now(context, lease, wait_ms);
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
    return r < 0 ? r : acquire(context, target, wait_ms, flags, ret_lease);
}

/* ---- the first of several */

/* How long until one of them may be free, at the most; the feed may tell earlier. */
static uint64_t pause_ms(tenure_context *context, const char *target) {
    tenure_info info = {.size = sizeof info};
    return tenure_target_read(context, target, &info) == TENURE_OK ? ten_max_u64(info.remaining_ms, 1) : 1;
}

/* One try of each, in their order. TENURE_E_HELD: none can be had; *ret_pause_ms is when the first may be free. */
static int try_each(tenure_context *context, const char *const *targets, size_t count, unsigned flags,
                    tenure_lease **ret_lease, uint64_t *ret_pause_ms) {
    int r = TENURE_E_HELD;
    *ret_pause_ms = UINT64_MAX;
    for (size_t i = 0; i < count && r == TENURE_E_HELD; i++) {
        r = acquire(context, targets[i], 0, flags, ret_lease);
        if (r == TENURE_E_HELD)
            *ret_pause_ms = ten_min_u64(*ret_pause_ms, pause_ms(context, targets[i]));
    }
    return r;
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
    if (r < 0)
        return r;
    ten_carrier *carrier = &context->carrier;
    uint64_t end_ms = ten_add_saturating(ten_carrier_now_ms(carrier), wait_ms);
    for (;;) {
        uint64_t pause;
        ten_carrier_lock(carrier);
        uint64_t seen = context->channel->notices;
        ten_carrier_unlock(carrier);
        r = try_each(context, targets, count, flags, ret_lease, &pause);
        uint64_t now_ms = ten_carrier_now_ms(carrier);
        if (r != TENURE_E_HELD || now_ms >= end_ms)
            return r == TENURE_E_HELD
                       ? ten_last_error_say(context, r, "none of the %zu targets could be acquired: all are held",
                                            count)
                       : r;
        ten_carrier_lock(carrier);
        r = ten_carrier_wait_notice(carrier, context->channel, seen, ten_min_u64(now_ms + pause, end_ms));
        ten_carrier_unlock(carrier);
        if (r == TENURE_E_CANCELLED)
            return ten_last_error_say(context, r, "waiting for one of %zu targets was cancelled", count);
    }
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
    ten_carrier_unlock(carrier);
    if (over)
        return ten_last_error_say(lease, TENURE_E_LOST, "the lease on %s was acquired, but is over: it was %s",
                                  lease->target, lease->reason ? lease->reason : "released");
    if (r == TENURE_E_TIMEOUT && !settled)
        return ten_last_error_say(lease, r, "it is not known yet whether %s can be acquired", lease->target);
    ten_result refusal = {
        .holder = lease->holder, .remaining_ms = lease->remaining_ms, .recovering = lease->recovering};
    if (r == TENURE_E_HELD)
        return say_held(context, lease->target, &refusal);
    return r < 0 ? say_refused(context, lease->target, r) : TENURE_OK;
}
