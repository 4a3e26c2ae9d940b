/*
 * Handles of leases: what each may believe, the local reads, renewing, releasing and freeing. The book
 * (core/lease_book.h) has one entry for a target, and decides; several handles can share an entry, and each has the
 * grant that it got. context_acquire.c makes them.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/random.h"
#include "runtime/lease_state.h"

#define BATCH_MAX      1000u
#define FEED_SIZE      500u
#define BACKOFF_PART   4u
#define BACKOFF_MIN_MS 50u

/* ---- what the book says; with the lock */

static void publish(tenure_lease *lease, uint64_t now_ms) {
    const ten_holding *holding = &lease->entry->holding;
    bool held = holding->state == TEN_HOLDING_HELD;
    if (lease->pending && lease->user.claim == TEN_BOOK_HOLDING) {
        lease->pending = false;
        lease->outcome = TENURE_OK;
        atomic_store_explicit(&lease->belief.token, holding->token, memory_order_release);
    }
    bool own = !lease->pending && holding->token == atomic_load_explicit(&lease->belief.token, memory_order_relaxed);
    if (own)
        atomic_store_explicit(&lease->ttl_ms, holding->ttl_ms, memory_order_relaxed);
    ten_belief_set(&lease->belief, own && held ? holding->deadline_ms : 0, ten_holding_may_work(holding, now_ms));
}

static void publish_all(const tenure_context *context, const ten_book_lease *entry) {
    uint64_t now_ms = ten_carrier_now_ms(&context->carrier);
    for (tenure_lease *lease = entry->owner; lease; lease = lease->sharer)
        publish(lease, now_ms);
}

static void note_failed(const ten_fact *fact) {
    const ten_result *result = fact->result;
    for (tenure_lease *lease = fact->lease->owner; lease; lease = lease->sharer) {
        if (!lease->pending || lease->user.claim != TEN_BOOK_NO_CLAIM)
            continue;
        lease->pending = false;
        lease->outcome = fact->error;
        lease->holder = result && result->holder ? ten_strdup(result->holder) : NULL; /* for the message only */
        lease->remaining_ms = result ? result->remaining_ms : 0;
        lease->recovering = result && result->recovering;
    }
}

/* Queues its on_lost. */
static void list_lost(tenure_context *context, tenure_lease *lease) {
    if (!lease->on_lost || lease->before_lost || !lease->reason)
        return;
    lease->before_lost = context->lost ? context->lost_end : &context->lost;
    lease->next_lost = NULL;
    *lease->before_lost = lease;
    context->lost_end = &lease->next_lost;
}

static void unlist_lost(tenure_context *context, tenure_lease *lease) {
    if (!lease->before_lost)
        return;
    *lease->before_lost = lease->next_lost;
    if (lease->next_lost)
        lease->next_lost->before_lost = lease->before_lost;
    else
        context->lost_end = lease->before_lost;
    lease->before_lost = NULL;
}

static void note_lost(tenure_context *context, const ten_book_lease *entry, enum ten_reason reason) {
    for (tenure_lease *lease = entry->owner; lease; lease = lease->sharer) {
        bool own = !lease->pending && entry->holding.token == atomic_load(&lease->belief.token);
        if (!own || lease->reason)
            continue;
        lease->reason = ten_reason_name(reason);
        list_lost(context, lease);
    }
}

static void on_fact(void *userdata, const ten_fact *fact) {
    if (fact->kind == TEN_FACT_BELIEF)
        publish_all(userdata, fact->lease);
    else if (fact->kind == TEN_FACT_FAILED)
        note_failed(fact);
    else if (fact->kind == TEN_FACT_LOST)
        note_lost(userdata, fact->lease, fact->reason);
}

int ten_context_make_book(tenure_context *context, ten_error *error) {
    ten_carrier *carrier = &context->carrier;
    ten_task *task = &context->task;
    int r = ten_task_open(task, carrier, BATCH_MAX, context->namespace_name, error);
    if (r < 0)
        return r;
    context->book = ten_lease_book_new(&(ten_lease_book_config){.namespace_name = context->namespace_name,
                                                                .instance = context->instance,
                                                                .timing = context->timing,
                                                                .batch_max = BATCH_MAX,
                                                                .seed = ten_random_u64(),
                                                                .events = &task->events});
    if (!context->book)
        return ten_fail_memory(error, "a context");
    task->hooks = &ten_context_hooks;
    task->owner = context;
    task->events.publish = on_fact;
    task->events.userdata = context;
    task->events.unbounded = context->on_event != NULL;
    ten_task_begin(task, (ten_engine_config){.step = ten_lease_book_step,
                                             .due = ten_lease_book_due,
                                             .part = context->book,
                                             .backoff_max_ms =
                                                 ten_max_u64(context->timing.renew_ms / BACKOFF_PART, BACKOFF_MIN_MS),
                                             .feed_size = FEED_SIZE});
    ten_task_add(task);
    return TENURE_OK;
}

/* ---- telling the program */

static bool pending(const void *owner) {
    const tenure_context *context = owner;
    return context->lost || (context->on_event && context->task.events.count > 0);
}

/* Takes the next handle from the queue of on_lost calls. */
static tenure_lease *take_lost(tenure_context *context, tenure_lost_fn *ret_fn, void **ret_userdata) {
    ten_carrier_lock(&context->carrier);
    tenure_lease *lease = context->lost;
    if (lease) {
        unlist_lost(context, lease);
        context->losing = lease;
        *ret_fn = lease->on_lost;
        *ret_userdata = lease->userdata;
        lease->on_lost = NULL; /* once */
    }
    ten_carrier_unlock(&context->carrier);
    return lease;
}

/* With the lock. */
static bool is_about(const tenure_event *event, const tenure_lease *lease) {
    if (event->kind == TENURE_EVENT_ACQUIRE_FAILED)
        return !lease->pending && lease->outcome == event->error;
    return event->token && atomic_load(&lease->belief.token) == event->token;
}

void ten_context_name_lease(tenure_context *context, tenure_event *event) {
    ten_carrier_lock(&context->carrier);
    const ten_book_lease *entry = event->target[0] ? ten_lease_book_find(context->book, event->target) : NULL;
    for (tenure_lease *lease = entry ? entry->owner : NULL; lease && !event->lease; lease = lease->sharer)
        event->lease = is_about(event, lease) ? lease : NULL;
    ten_carrier_unlock(&context->carrier);
}

static void tell(void *owner) {
    tenure_context *context = owner;
    tenure_event event;
    tenure_lost_fn fn = NULL;
    void *userdata = NULL;
    while (context->on_event && ten_task_take_event(&context->task, &event)) {
        ten_context_name_lease(context, &event);
        context->on_event(&event, context->userdata);
    }
    for (tenure_lease *lease; (lease = take_lost(context, &fn, &userdata));) {
        fn(lease, lease->reason, userdata);
        ten_carrier_lock(&context->carrier);
        context->losing = NULL;
        pthread_cond_broadcast(&context->carrier.changed);
        ten_carrier_unlock(&context->carrier);
    }
}

const ten_task_hooks ten_context_hooks = {.pending = pending, .tell = tell};

/* ---- handles */

/* With the lock. */
static void unlink_lease(tenure_context *context, tenure_lease *lease) {
    unlist_lost(context, lease);
    ten_belief_set(&lease->belief, 0, false);
    ten_book_lease *entry = lease->entry;
    if (!entry)
        return;
    tenure_lease *first = entry->owner;
    TEN_UNLINK(first, lease, sharer);
    entry->owner = first;
    lease->entry = NULL;
    ten_lease_book_leave(context->book, ten_carrier_now_ms(&context->carrier), entry, &lease->user);
}

/* The context is closed; the handle is freed by the program. */
static void detach(ten_object *object) {
    tenure_lease *lease = (tenure_lease *)object;
    tenure_context *context = atomic_load(&lease->object.context);
    ten_carrier_lock(&context->carrier);
    unlink_lease(context, lease);
    ten_carrier_unlock(&context->carrier);
}

static const ten_object_ends lease_ends = {.end = detach};

int ten_context_lease_new(tenure_context *context, const char *target, unsigned flags, tenure_lease **ret_lease) {
    size_t length = strlen(target);
    tenure_lease *lease = ten_calloc(1, sizeof *lease + length + 1);
    if (!lease)
        return ten_last_error_say(context, TENURE_E_NOMEM, "out of memory for a lease on %s", target);
    memcpy(lease->target, target, length + 1);
    lease->object.ends = &lease_ends;
    lease->clock = context->carrier.clock;
    lease->user.renewed = !(flags & TENURE_MANUAL);
    lease->pending = true;
    lease->ttl_ms = context->timing.ttl_ms;
    int r = ten_context_adopt(context, &lease->object, TEN_OBJECT_LEASE);
    if (r < 0) {
        ten_object_free(lease);
        return r;
    }
    *ret_lease = lease;
    return TENURE_OK;
}

void ten_context_lease_link(tenure_lease *lease, ten_book_lease *entry) {
    lease->entry = entry;
    lease->sharer = entry->owner;
    entry->owner = lease;
}

void ten_context_lease_discard(tenure_context *context, tenure_lease *lease) {
    ten_carrier *carrier = &context->carrier;
    ten_carrier_lock(carrier);
    while (context->losing == lease && !ten_carrier_is_telling(carrier))
        pthread_cond_wait(&carrier->changed, &carrier->lock);
    unlink_lease(context, lease);
    ten_carrier_unlock(carrier);
    ten_context_disown(context, &lease->object);
    ten_last_error_forget(lease);
    ten_free(lease->holder);
    ten_object_free(lease);
}

bool ten_context_lease_is_held(const tenure_lease *lease) {
    return lease->entry && !lease->pending && ten_holding_is_held(&lease->entry->holding) &&
           lease->entry->holding.token == atomic_load(&lease->belief.token) &&
           lease->entry->holding.state == TEN_HOLDING_HELD;
}

/* Whether there is something to release: an acquire under way, or a lease that the store may have. That may be held,
 * or a release of it was not answered; or it was forced or has expired, and keeps others out until the program says
 * that it has stopped. */
static bool is_releasable(const tenure_lease *lease) {
    if (!lease->entry || lease->pending)
        return lease->entry != NULL;
    const ten_holding *holding = &lease->entry->holding;
    bool left = lease->entry->barred || holding->expired || holding->state == TEN_HOLDING_RELEASING;
    return ten_context_lease_is_held(lease) || (left && holding->token == atomic_load(&lease->belief.token));
}

/* A handle may be freed from an on_... function, too. */
static void free_lease(tenure_lease *lease, bool release) {
    if (!lease)
        return;
    int r = ten_object_check(lease, TEN_OBJECT_LEASE);
    if (!ten_object_leave(lease, TEN_OBJECT_LEASE))
        return;
    if (r < 0) { /* of a closed context, or of the parent process */
        ten_last_error_forget(lease);
        ten_free(lease->holder);
        ten_object_free(lease);
        return;
    }
    tenure_context *context = atomic_load(&lease->object.context);
    ten_carrier *carrier = &context->carrier;
    ten_carrier_lock(carrier);
    if (release && is_releasable(lease))
        ten_lease_book_release(context->book, ten_carrier_now_ms(carrier), lease->entry, &lease->user, NULL);
    ten_carrier_unlock(carrier);
    ten_context_lease_discard(context, lease);
}

void tenure_lease_free(tenure_lease *lease) {
    free_lease(lease, false);
}

void tenure_lease_drop(tenure_lease *lease) {
    if (lease && ten_object_check(lease, TEN_OBJECT_LEASE) == TENURE_OK)
        (void)ten_context_start(atomic_load(&lease->object.context)); /* it sends the release */
    free_lease(lease, true);
}

int tenure_lease_on_lost(tenure_lease *lease, tenure_lost_fn fn, void *userdata) {
    int r = ten_object_check(lease, TEN_OBJECT_LEASE);
    if (r < 0)
        return r;
    tenure_context *context = atomic_load(&lease->object.context);
    r = fn ? ten_context_start(context) : TENURE_OK;
    if (r < 0)
        return r;
    ten_carrier_lock(&context->carrier);
    lease->on_lost = fn;
    lease->userdata = userdata;
    if (lease->entry)
        ten_lease_book_attend(context->book, lease->entry, &lease->user, fn != NULL);
    list_lost(context, lease);
    ten_carrier_unlock(&context->carrier);
    return TENURE_OK;
}

/* ---- renewing and releasing */

/* With the lock. Waits for the answer, and takes the wait back if there is none. */
static int await(tenure_lease *lease, tenure_context *context, ten_book_wait *wait) {
    ten_carrier *carrier = &context->carrier;
    ten_task_hurry(&context->task);
    context->task.error = (ten_error){0};
    uint64_t end_ms = ten_carrier_now_ms(carrier) + 2 * context->timing.timeout_ms;
    int r = ten_carrier_await(carrier, &context->task, ten_lease_is_answered, wait, end_ms);
    if (r == TENURE_OK)
        return wait->error;
    ten_lease_book_abandon(context->book, ten_carrier_now_ms(carrier), lease->entry, wait);
    return r;
}

/* An error of the store, or that it could not be waited for. */
static int say_error(const tenure_context *context, const tenure_lease *lease, int r, const char *what) {
    ten_error error = context->task.error;
    if (error.code != r)
        ten_fail(&error, r, "%s %s: %s", what, lease->target, tenure_strerror(r));
    return ten_last_error_set(lease, &error);
}

/* The lease was not renewed in time. The store is read for the message only. */
static int say_expired(tenure_context *context, const tenure_lease *lease, uint64_t token) {
    ten_op op = {.kind = TEN_OP_READ, .target = lease->target};
    ten_result result;
    char holder[TENURE_HOLDER_MAX + 1];
    if (ten_context_apply(context, NULL, &op, &result, holder) == TENURE_OK)
        return ten_context_say_lost(lease, lease->target, token, &result);
    return ten_last_error_say(lease, TENURE_E_LOST, "the lease on %s was not renewed in time", lease->target);
}

int tenure_renew(tenure_lease *lease) {
    int r = ten_object_check_waiting(lease, TEN_OBJECT_LEASE);
    if (r < 0)
        return r;
    tenure_context *context = atomic_load(&lease->object.context);
    ten_carrier *carrier = &context->carrier;
    ten_book_wait wait = {.kind = TEN_BOOK_RENEW};
    ten_carrier_lock(carrier);
    uint64_t token = atomic_load(&lease->belief.token);
    bool held = ten_context_lease_is_held(lease);
    if (held) {
        ten_lease_book_renew(context->book, ten_carrier_now_ms(carrier), lease->entry, &wait);
        r = await(lease, context, &wait);
    }
    bool late = wait.late;
    const char *reason = lease->reason;
    ten_error error = context->task.error;
    ten_carrier_unlock(carrier);
    if (!held && reason)
        return ten_last_error_say(lease, TENURE_E_LOST, "the lease on %s was lost before: %s", lease->target, reason);
    if (!held)
        return ten_last_error_say(lease, TENURE_E_LOST, "the lease on %s was released or lost before", lease->target);
    if (r == TENURE_E_LOST)
        return wait.result.outcome ? ten_context_say_lost(lease, lease->target, token, &wait.result)
                                   : say_expired(context, lease, token);
    if (r < 0 && late)
        return ten_last_error_say(lease, r, "the renewal of %s was answered when it was over again", lease->target);
    if (r < 0 && error.code == r)
        return ten_last_error_set(lease, &error);
    return r < 0 ? say_error(context, lease, r, "renewing") : TENURE_OK;
}

int tenure_release(tenure_lease *lease) {
    int r = ten_object_check_waiting(lease, TEN_OBJECT_LEASE);
    if (r < 0)
        return r;
    tenure_context *context = atomic_load(&lease->object.context);
    ten_carrier *carrier = &context->carrier;
    ten_book_wait wait = {.kind = TEN_BOOK_RELEASE};
    ten_carrier_lock(carrier);
    if (is_releasable(lease)) {
        ten_lease_book_release(context->book, ten_carrier_now_ms(carrier), lease->entry, &lease->user, &wait);
        r = await(lease, context, &wait);
    }
    ten_error error = context->task.error;
    ten_carrier_unlock(carrier);
    if (r < 0)
        (void)ten_context_start(context); /* it repeats the release */
    if (r < 0 && error.code == r)
        return ten_last_error_set(lease, &error);
    return r < 0 ? say_error(context, lease, r, "releasing") : TENURE_OK;
}

/* ---- the local reads */

static bool is_before(const tenure_lease *lease, uint64_t deadline_ms) {
    return deadline_ms != 0 && ten_boot_ms(lease->clock) < deadline_ms && ten_fork_is(lease->object.process);
}

bool tenure_lease_valid(const tenure_lease *lease) {
    return lease && is_before(lease, ten_belief_work_until_ms(&lease->belief));
}

uint64_t tenure_lease_token(const tenure_lease *lease) {
    return lease ? atomic_load_explicit(&lease->belief.token, memory_order_acquire) : 0;
}

uint64_t tenure_lease_remaining_ms(const tenure_lease *lease) {
    uint64_t ends_ms = lease ? ten_belief_ends_ms(&lease->belief) : 0;
    return ends_ms && is_before(lease, ends_ms) ? ten_sub_saturating(ends_ms, ten_boot_ms(lease->clock)) : 0;
}

uint64_t tenure_lease_ttl_ms(const tenure_lease *lease) {
    return lease ? atomic_load_explicit(&lease->ttl_ms, memory_order_relaxed) : 0;
}

const char *tenure_lease_target(const tenure_lease *lease) {
    return lease ? lease->target : "";
}
