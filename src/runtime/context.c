/*
 * The context: opening and closing, calls on its store, and the driven form. The rest of the C API is in the files
 * context_*.c (leases, targets, registry, changes, leaders), member*.c, candidate.c and guard_reader.c.
 */
#include "runtime/context.h"
#include "runtime/metadata.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/random.h"
#include "runtime/context_state.h"

#define CLOSE_MIN_MS 1000u

/* ---- opening */

static int configure(tenure_context *context, const tenure_options *options, ten_error *error) {
    const char *namespace_name = options->namespace_name ? options->namespace_name : "poll";
    context->timing = (ten_timing){.ttl_ms = options->ttl_ms,
                                   .renew_ms = options->renew_ms,
                                   .margin_ms = options->margin_ms,
                                   .timeout_ms = options->timeout_ms};
    ten_timing_defaults(&context->timing);
    context->carrier.timeout_ms = context->timing.timeout_ms;
    context->carrier.driven = options->flags & TENURE_DRIVEN;
    context->on_event = options->on_event;
    context->userdata = options->userdata;
    int r = ten_id_check_namespace(namespace_name, error);
    if (r == TENURE_OK)
        r = ten_id_make_instance(options->instance_name, context->instance, error);
    if (r == TENURE_OK)
        r = ten_timing_check(&context->timing, TENURE_TTL_MIN_MS, NULL, error);
    if (r == TENURE_OK)
        r = ten_metadata_identity(options, &context->identity, error);
    if (r == TENURE_OK)
        snprintf(context->namespace_name, sizeof context->namespace_name, "%s", namespace_name);
    return r;
}

static int open_store(tenure_context *context, const char *url, uint64_t asked_timeout_ms, ten_error *error) {
    ten_carrier *carrier = &context->carrier;
    int r = ten_carrier_open(carrier, url, error);
    if (r < 0)
        return r;
    carrier->timeout_ms = asked_timeout_ms; /* for opening; 0: the store's default */
    r = ten_carrier_open_channel(carrier, context->namespace_name, &context->channel, error);
    if (r < 0)
        return r;
    const ten_store *store = context->channel->store;
    if (asked_timeout_ms == 0 && store->timeout_ms)
        context->timing.timeout_ms = store->timeout_ms;
    carrier->timeout_ms = context->timing.timeout_ms;
    return ten_timing_check(&context->timing, store->capabilities.ttl_min_ms, store->capabilities.ttl_min_reason,
                            error);
}

static void free_context(tenure_context *context) {
    ten_buf_free(&context->identity);
    ten_task_free(&context->task);
    ten_lease_book_free(context->book);
    ten_carrier_free(&context->carrier);
    ten_object_free(context);
}

int ten_context_open(const char *url, const tenure_options *options, const ten_clock *clock,
                     tenure_context **ret_context) {
    ten_error error = {0};
    tenure_options own;
    int r = ten_struct_read(NULL, "tenure_options", options, &own, sizeof own);
    if (r == TENURE_OK)
        r = ten_flags_check(NULL, own.flags, TENURE_DRIVEN);
    if (r == TENURE_OK && !ret_context)
        r = ten_last_error_say(NULL, TENURE_E_INVALID, "tenure_open() needs a place for the context");
    if (r < 0)
        return r;
    tenure_context *context = ten_calloc(1, sizeof *context);
    if (!context)
        return ten_last_error_say(NULL, TENURE_E_NOMEM, "out of memory while opening a context");
    context->carrier.clock = clock;
    context->carrier.wake_fd = context->carrier.timer_fd = context->carrier.poll_fd = -1;
    r = configure(context, &own, &error);
    if (r == TENURE_OK)
        r = open_store(context, url, own.timeout_ms, &error);
    if (r == TENURE_OK)
        r = ten_context_make_book(context, &error);
    if (r == TENURE_OK && ten_fork_number() == 0)
        r = ten_fail_errno(&error, TENURE_E_SYSTEM, errno, "cannot open a context");
    if (r == TENURE_OK && !ten_object_enter(&context->object, TEN_OBJECT_CONTEXT, context))
        r = ten_fail_memory(&error, "a context");
    if (r < 0) {
        free_context(context);
        return ten_last_error_set(NULL, &error);
    }
    *ret_context = context;
    return TENURE_OK;
}

int tenure_open(const char *url, const tenure_options *options, tenure_context **ret_context) {
    ten_hash_key_make_secret(); /* before anything hashes what others have written */
    return ten_context_open(url, options, &ten_system_clock, ret_context);
}

/* ---- closing */

static bool is_ended(const void *arg) {
    const tenure_context *context = arg;
    for (const ten_object *object = context->objects; object; object = object->next)
        if (object->ends->is_ended && !object->ends->is_ended(object))
            return false;
    return ten_lease_book_is_idle(context->book);
}

/* Whether something may not have been released; no call is under way. */
static bool may_hold(const tenure_context *context) {
    for (const ten_object *object = context->objects; object; object = object->next)
        if (object->ends->may_hold && object->ends->may_hold(object))
            return true;
    return !ten_lease_book_is_idle(context->book);
}

/* Asks everything to end, waits for it, and ends the thread: what is left then is not asked again. False: something may
 * not have been released. */
static bool end_all(tenure_context *context) {
    ten_carrier *carrier = &context->carrier;
    ten_carrier_lock(carrier);
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    uint64_t end_ms = now_ms + ten_max_u64(2 * context->timing.timeout_ms, CLOSE_MIN_MS);
    ten_carrier_close_by(carrier, end_ms);
    ten_lease_book_stop(context->book, now_ms);
    for (ten_object *object = context->objects; object; object = object->next)
        if (object->ends->begin)
            object->ends->begin(object);
    (void)ten_carrier_await(carrier, &context->task, is_ended, context, end_ms);
    ten_carrier_unlock(carrier);
    ten_carrier_stop(carrier);
    ten_carrier_lock(carrier);
    bool released = !may_hold(context); /* the last answer may have come in the meantime */
    pthread_mutex_unlock(&carrier->lock);
    return released;
}

/* With the lock. */
static void unlink_object(ten_object *object) {
    if (!object->before)
        return;
    *object->before = object->next;
    if (object->next)
        object->next->before = object->before;
    object->before = NULL;
}

static ten_object *take_object(tenure_context *context) {
    ten_carrier_lock(&context->carrier);
    ten_object *object = context->objects ? context->objects : context->leases;
    if (object)
        unlink_object(object);
    ten_carrier_unlock(&context->carrier);
    return object;
}

int tenure_close(tenure_context *context) {
    if (!context)
        return TENURE_OK;
    int r;
    if (!ten_object_close(context, TEN_OBJECT_CONTEXT, &r))
        return r;
    ten_last_error_forget(context);
    if (r == TENURE_E_FORKED) {
        ten_carrier_abandon(&context->carrier);
        ten_object_free(context); /* what was opened on it is refused as the parent's, with or without it */
        return TENURE_OK;
    }
    bool released = end_all(context);
    for (ten_object *object; (object = take_object(context));) {
        object->ends->end(object);
        atomic_store(&object->context, NULL);
    }
    free_context(context);
    return released ? TENURE_OK
                    : ten_last_error_say(NULL, TENURE_E_TIMEOUT,
                                         "not everything could be released in time; the rest ends by its TTL");
}

/* ---- objects */

static int check_object(const tenure_context *context, const ten_object *object, const char *namespace_name,
                        const char *target) {
    if (!object->namespace_name || strcmp(object->namespace_name, namespace_name) != 0)
        return TENURE_OK;
    if (!object->target)
        return ten_last_error_say(context, TENURE_E_INVALID,
                                  "this context has a fleet member in the namespace %s, which holds its targets",
                                  namespace_name);
    if (!target)
        return ten_last_error_say(context, TENURE_E_INVALID,
                                  "this context has an election in the namespace %s, so it cannot have a fleet member "
                                  "there",
                                  namespace_name);
    if (strcmp(object->target, target) == 0)
        return ten_last_error_say(context, TENURE_E_INVALID, "this context has an election for %s already", target);
    return TENURE_OK;
}

int ten_context_check_free(const tenure_context *context, const char *namespace_name, const char *target) {
    int r = TENURE_OK;
    for (const ten_object *object = context->objects; object && r == TENURE_OK; object = object->next)
        r = check_object(context, object, namespace_name, target);
    return r;
}

/* With the lock. */
static int check_unleased(const tenure_context *context, const char *namespace_name, const char *target) {
    if (strcmp(namespace_name, context->namespace_name) != 0)
        return TENURE_OK;
    uint64_t now_ms = ten_carrier_now_ms(&context->carrier);
    if (!target && ten_lease_book_has(context->book, now_ms, NULL))
        return ten_last_error_say(context, TENURE_E_INVALID,
                                  "this context has leases in the namespace %s, so it cannot have a fleet member "
                                  "there; a lease that was freed without a release counts until it has ended",
                                  namespace_name);
    if (target && ten_lease_book_has(context->book, now_ms, target))
        return ten_last_error_say(context, TENURE_E_INVALID,
                                  "this context has a lease on %s; one that was freed without a release counts until "
                                  "it has ended",
                                  target);
    return TENURE_OK;
}

/* With the lock. A lease checks its target when it enters the book; guards hold nothing. */
static int check_adoption(const tenure_context *context, const ten_object *object) {
    if (!object->namespace_name)
        return TENURE_OK;
    int r = ten_context_check_free(context, object->namespace_name, object->target);
    return r < 0 ? r : check_unleased(context, object->namespace_name, object->target);
}

int ten_context_adopt(tenure_context *context, ten_object *object, enum ten_object_kind kind) {
    if (!ten_object_enter(object, kind, context))
        return ten_last_error_say(context, TENURE_E_NOMEM, "out of memory for a handle");
    ten_carrier_lock(&context->carrier);
    int r = check_adoption(context, object);
    if (r == TENURE_OK) {
        ten_object **first = kind == TEN_OBJECT_LEASE ? &context->leases : &context->objects;
        object->next = *first;
        object->before = first;
        if (object->next)
            object->next->before = &object->next;
        *first = object;
    }
    ten_carrier_unlock(&context->carrier);
    if (r < 0)
        (void)ten_object_leave(object, kind);
    return r;
}

void ten_context_disown(tenure_context *context, ten_object *object) {
    ten_carrier_lock(&context->carrier);
    unlink_object(object);
    ten_carrier_unlock(&context->carrier);
}

void ten_context_close_object(void *handle, enum ten_object_kind kind, const char *function,
                              void (*leave)(ten_object *object), void (*free_inside)(ten_object *object)) {
    ten_object *object = handle;
    int usable;
    if (!object || !ten_object_close_in(object, kind, function, &usable))
        return;
    if (usable == TENURE_OK) {
        tenure_context *context = atomic_load(&object->context);
        leave(object);
        ten_context_disown(context, object);
    }
    ten_last_error_forget(object);
    if (usable == TENURE_E_FORKED)
        ten_object_free(object); /* what is inside may have been changing at the fork */
    else
        free_inside(object);
}

/* ---- one call */

int ten_context_enter(tenure_context *context, ten_channel *channel, ten_store **ret_store) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r < 0)
        return r;
    r = ten_carrier_enter(&context->carrier);
    if (r == TENURE_E_TIMEOUT)
        return ten_last_error_say(context, r, "other threads used the context for the whole time-out of %llu ms",
                                  (unsigned long long)context->timing.timeout_ms);
    if (r < 0)
        return ten_last_error_say(context, r, "out of memory for a call on the store");
    *ret_store = (channel ? channel : context->channel)->store;
    (*ret_store)->error = (ten_error){0};
    return TENURE_OK;
}

int ten_context_leave(tenure_context *context, ten_channel *channel, int r) {
    if (r < 0) {
        ten_error error = (channel ? channel : context->channel)->store->error;
        if (error.code != r)
            ten_fail(&error, r, "%s", tenure_strerror(r));
        ten_last_error_set(context, &error);
    }
    ten_carrier_leave(&context->carrier);
    return r;
}

int ten_context_apply(tenure_context *context, ten_channel *channel, const ten_op *op, ten_result *result,
                      char ret_holder[TENURE_HOLDER_MAX + 1]) {
    ten_store *store = NULL;
    int r = ten_context_enter(context, channel, &store);
    if (r < 0)
        return r;
    ten_op own = *op;
    own.namespace_name = channel ? channel->namespace_name : context->namespace_name;
    r = ten_store_apply(store, &own, result, 1, context->timing.timeout_ms);
    if (r == TENURE_OK && result->holder && ret_holder) {
        snprintf(ret_holder, TENURE_HOLDER_MAX + 1, "%s", result->holder);
        result->holder = ret_holder;
    }
    return ten_context_leave(context, channel, r);
}

int ten_context_check_target(const void *handle, const char *target) {
    ten_error error;
    if (!target)
        return ten_last_error_say(handle, TENURE_E_INVALID, "no target was given");
    return ten_id_check_target(target, &error) < 0 ? ten_last_error_set(handle, &error) : TENURE_OK;
}

int ten_context_check_named(const tenure_context *context, const char *target) {
    int r = ten_object_check(context, TEN_OBJECT_CONTEXT);
    return r < 0 ? r : ten_context_check_target(context, target);
}

int ten_context_say_unknown(const tenure_context *context, const char *target) {
    return ten_last_error_say(context, TENURE_E_UNKNOWN_TARGET,
                              "there is no target %s in the namespace %s: it was neither registered nor ever leased",
                              target, context->namespace_name);
}

int ten_context_say_lost(const void *handle, const char *target, uint64_t token, const ten_result *result) {
    if (result->holder)
        return ten_last_error_say(
            handle, TENURE_E_LOST, "the lease on %s with token %llu is lost: %s %s with token %llu", target,
            (unsigned long long)token, result->holder, result->barred ? "was barred from renewing it" : "holds it",
            (unsigned long long)result->token);
    return ten_last_error_say(handle, TENURE_E_LOST, "the lease on %s with token %llu is over; nobody holds it now",
                              target, (unsigned long long)token);
}

/* ---- the rest of the handle */

void ten_context_set_actor(tenure_context *context, const char *actor) {
    snprintf(context->actor, sizeof context->actor, "%s", actor);
}

const char *tenure_instance_id(const tenure_context *context) {
    return ten_object_check(context, TEN_OBJECT_CONTEXT) == TENURE_OK ? context->instance : "";
}

void tenure_cancel(tenure_context *context) {
    int saved = errno; /* a signal handler leaves errno as it was */
    /* The table is not for signal handlers. In a child the descriptor is shared with the parent, whose waits are not
     * the child's to end. */
    if (context && ten_fork_is(context->object.process))
        ten_carrier_cancel(&context->carrier);
    errno = saved;
}

/* ---- events and the driven form */

/* Registrations that are gone are for the agent only. */
static bool has_event(const void *arg) {
    ten_event_queue *events = (ten_event_queue *)arg;
    tenure_event skipped;
    while (events->count > 0 && events->ring[events->first].kind == TENURE_EVENT_TARGET_REMOVED)
        (void)ten_event_queue_take(events, &skipped);
    return events->count > 0;
}

int ten_context_next_event(const void *handle, ten_task *task, uint64_t wait_ms, tenure_event *ret_event) {
    ten_carrier *carrier = task->carrier;
    ten_carrier_lock(carrier);
    int r = ten_carrier_wait(carrier, task, has_event, &task->events,
                             ten_add_saturating(ten_carrier_now_ms(carrier), wait_ms));
    if (r == TENURE_OK && ten_event_queue_take(&task->events, ret_event))
        ten_task_describe(task, ret_event);
    ten_carrier_unlock(carrier);
    return r == TENURE_OK ? r
                          : ten_last_error_say(handle, r,
                                               r == TENURE_E_CANCELLED ? "waiting for an event was cancelled"
                                                                       : "no event came in time");
}

int tenure_next_event(tenure_context *context, uint64_t wait_ms, tenure_event *ret_event) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK)
        r = ten_struct_check(context, "tenure_event", ret_event);
    if (r < 0)
        return r;
    if (context->on_event)
        return ten_last_error_say(context, TENURE_E_INVALID, "the events of this context go to its on_event function");
    ten_error error;
    r = wait_ms > 0 ? ten_carrier_start(&context->carrier, &error) : TENURE_OK;
    if (r < 0)
        return ten_last_error_set(context, &error);
    tenure_event event;
    r = ten_context_next_event(context, &context->task, wait_ms, &event);
    if (r < 0)
        return r;
    ten_context_name_lease(context, &event);
    ten_struct_write(ret_event, &event, sizeof event);
    return TENURE_OK;
}

const char *tenure_event_name(enum tenure_event_kind kind) {
    return (unsigned)kind < TEN_EVENT_COUNT ? ten_event_name(kind) : "unknown";
}

int tenure_fd(tenure_context *context) {
    int r = ten_object_check(context, TEN_OBJECT_CONTEXT);
    return r < 0 ? r : context->carrier.poll_fd;
}

int tenure_timeout_ms(tenure_context *context) {
    int r = ten_object_check(context, TEN_OBJECT_CONTEXT);
    if (r < 0)
        return 0; /* tenure_process() says what is wrong */
    uint64_t next_ms = ten_carrier_next_ms(&context->carrier);
    if (next_ms == UINT64_MAX)
        return -1;
    return (int)ten_min_u64(ten_sub_saturating(next_ms, ten_carrier_now_ms(&context->carrier)), INT32_MAX);
}

int tenure_process(tenure_context *context) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK)
        ten_carrier_process(&context->carrier);
    return r;
}
