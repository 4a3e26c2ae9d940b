/*
 * The manager of the C API: one instance of a fleet. It keeps the fleet (src/core/fleet.h) under a lock, starts the
 * thread that drives it (manager_loop.c), and answers questions from what the fleet knows.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"
#include "base/random.h"
#include "runtime/member_state.h"

#define SLOTS_MAX  (UINT32_C(4) << 20) /* targets of one manager; address space only until they are used */
#define SETTLE_MS  2000u
#define BATCH_MAX  1000u
#define EVENTS_MAX 4096u

/* ---- errors: as for clients, a thread's last one */

static _Thread_local struct {
    const tenure_manager *manager;
    ten_error error;
} last;

static int failed(const tenure_manager *manager, const ten_error *error) {
    last.manager = manager;
    last.error = *error;
    return error->code;
}

static int fail(const tenure_manager *manager, int code, const char *format, ...) TEN_PRINTF(3, 4);
static int fail(const tenure_manager *manager, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    last.manager = manager;
    last.error.code = code;
    vsnprintf(last.error.message, sizeof last.error.message, format, args);
    va_end(args);
    return code;
}

const char *tenure_manager_message(const tenure_manager *manager) {
    return last.manager == manager ? last.error.message : "";
}

/* ---- what the loop uses, too */

uint64_t ten_manager_now_ms(const tenure_manager *manager) {
    return ten_boot_ms(manager->clock);
}

void ten_manager_wake(tenure_manager *manager) {
    uint64_t one = 1;
    (void)ten_write_all(manager->wake_fd, &one, sizeof one);
}

void ten_manager_publish(tenure_manager *manager, uint32_t number) {
    ten_slot *slot = &manager->slots->slots[number];
    const ten_lease *lease = ten_fleet_lease(manager->fleet, number);
    bool may_work = ten_fleet_may_work(manager->fleet, number, ten_manager_now_ms(manager));
    atomic_store_explicit(&slot->process, manager->process, memory_order_relaxed);
    atomic_store_explicit(&slot->token, lease->token, memory_order_relaxed);
    ten_slot_set(slot, lease->deadline_ms, may_work);
    uint64_t last_end_ms = atomic_load_explicit(manager->slots->last_end_ms, memory_order_relaxed);
    if (ten_fleet_owned_count(manager->fleet) == 0)
        last_end_ms = 0;
    atomic_store_explicit(manager->slots->last_end_ms, ten_max_u64(last_end_ms, lease->deadline_ms),
                          memory_order_release);
}

static void keep_event(tenure_manager *manager, const tenure_event *event) {
    if (manager->event_count == manager->event_room) {
        size_t room = manager->event_room ? manager->event_room * 2 : 64;
        tenure_event *events = room <= EVENTS_MAX ? ten_malloc(room * sizeof *events) : NULL;
        if (!events) {
            /* Nobody pulls them, or there is no memory: the oldest goes. What is owned does not depend on events. */
            if (manager->event_room == 0)
                return;
            manager->event_first = (manager->event_first + 1) % manager->event_room;
            manager->event_count--;
        } else {
            for (size_t i = 0; i < manager->event_count; i++)
                events[i] = manager->events[(manager->event_first + i) % manager->event_room];
            ten_free(manager->events);
            manager->events = events;
            manager->event_room = room;
            manager->event_first = 0;
        }
    }
    manager->events[(manager->event_first + manager->event_count++) % manager->event_room] = *event;
}

static const struct {
    enum tenure_event_kind kind;
    const char *name;
} event_words[] = {
    [TEN_FLEET_ACQUIRED] = {TENURE_EVENT_ACQUIRED, "lease_acquired"},
    [TEN_FLEET_ACQUIRE_FAILED] = {TENURE_EVENT_ACQUIRE_FAILED, "lease_acquire_failed"},
    [TEN_FLEET_RENEWED] = {TENURE_EVENT_RENEWED, "lease_renewed"},
    [TEN_FLEET_RENEW_FAILED] = {TENURE_EVENT_RENEW_FAILED, "lease_renew_failed"},
    [TEN_FLEET_LOST] = {TENURE_EVENT_LOST, "lease_lost"},
    [TEN_FLEET_STOP] = {TENURE_EVENT_STOP, "lease_closing"},
    [TEN_FLEET_RELEASED] = {TENURE_EVENT_RELEASED, "lease_released"},
    [TEN_FLEET_JOINED] = {TENURE_EVENT_JOINED, "instance_joined"},
    [TEN_FLEET_LEFT] = {TENURE_EVENT_LEFT, "instance_left"},
    [TEN_FLEET_PLAN_CHANGED] = {TENURE_EVENT_PLAN_CHANGED, "plan_changed"},
    [TEN_FLEET_STORE_DOWN] = {TENURE_EVENT_STORE_DOWN, "store_down"},
    [TEN_FLEET_STORE_UP] = {TENURE_EVENT_STORE_UP, "store_up"},
    [TEN_FLEET_RECOVERING] = {TENURE_EVENT_RECOVERING, "store_recovering"},
    [TEN_FLEET_REFUSED] = {TENURE_EVENT_REFUSED, "instance_refused"},
    [TEN_FLEET_STOPPED] = {TENURE_EVENT_STOPPED, "instance_stopped"},
    [TEN_FLEET_UNOWNED] = {TENURE_EVENT_UNOWNED, "target_unowned"},
};

static void answer_claims(tenure_manager *manager, const ten_fleet_event *event) {
    bool acquired = event->kind == TEN_FLEET_ACQUIRED;
    bool refused = event->kind == TEN_FLEET_ACQUIRE_FAILED || event->kind == TEN_FLEET_RECOVERING ||
                   event->kind == TEN_FLEET_STORE_DOWN || event->kind == TEN_FLEET_REFUSED;
    for (struct ten_claim *claim = manager->claims; claim; claim = claim->next) {
        bool concerned = event->target == claim->target || event->target == TEN_PLAN_NOBODY;
        if (!claim->answered && concerned && (acquired || refused)) {
            claim->answered = true;
            claim->acquired = acquired;
        }
    }
}

void ten_manager_absorb(tenure_manager *manager) {
    ten_fleet_event happened;
    bool any = false;
    while (ten_fleet_event_take(manager->fleet, &happened)) {
        bool acquired = happened.kind == TEN_FLEET_ACQUIRED;
        if (manager->extras.measures && acquired)
            ten_measures_taken_over(manager->extras.measures, happened.reason);
        tenure_event event = {.kind = event_words[happened.kind].kind,
                              .name = event_words[happened.kind].name,
                              .reason = acquired ? "" : ten_reason_name(happened.reason),
                              .token = happened.token,
                              .remaining_ms = happened.remaining_ms,
                              .free_ms = happened.free_ms,
                              .count = happened.count,
                              .error = happened.error};
        const char *id = happened.target != TEN_PLAN_NOBODY
                             ? ten_plan_target_id(ten_fleet_plan(manager->fleet), happened.target)
                             : NULL;
        snprintf(event.target, sizeof event.target, "%s", id ? id : "");
        snprintf(event.instance, sizeof event.instance, "%s", happened.other);
        if (happened.target != TEN_PLAN_NOBODY)
            ten_manager_publish(manager, happened.target);
        answer_claims(manager, &happened);
        if (happened.kind == TEN_FLEET_STOPPED)
            manager->stopped = true;
        keep_event(manager, &event);
        any = true;
    }
    if (any)
        pthread_cond_broadcast(&manager->changed);
}

/* ---- opening */

#define OPTION(options, field)                                                                                         \
    ((options) && (options)->size >= offsetof(tenure_manager_options, field) + sizeof((options)->field)                \
         ? (options)->field                                                                                            \
         : 0)

static int make_fleet(tenure_manager *manager, const tenure_manager_options *options, ten_error *error) {
    uint32_t weight = OPTION(options, weight);
    uint64_t settle_ms = OPTION(options, settle_ms);
    ten_fleet_config config = {.namespace_name = manager->namespace_name,
                               .instance = manager->instance,
                               .timing = manager->timing,
                               .settle_ms = settle_ms ? settle_ms : SETTLE_MS,
                               .weight = weight ? weight : 1,
                               .seed = ten_random_u64(),
                               .metadata = "{\"version\":\"" TENURE_VERSION "\"}",
                               .batch_max = BATCH_MAX};
    manager->fleet = ten_fleet_new(&config, ten_manager_now_ms(manager));
    manager->results = ten_calloc(BATCH_MAX + 2, sizeof *manager->results);
    if (!manager->fleet || !manager->results)
        return ten_fail(error, TENURE_E_NOMEM, "out of memory while opening a manager");
    if (manager->extras.slots)
        manager->slots = manager->extras.slots;
    else if (ten_slots_make(&manager->own_slots, SLOTS_MAX))
        manager->slots = &manager->own_slots;
    else
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot reserve memory for the targets");
    return TENURE_OK;
}

static int configure(tenure_manager *manager, const char *url, const tenure_manager_options *options,
                     ten_error *error) {
    const char *namespace_name = OPTION(options, namespace_name);
    manager->timing = (ten_timing){.ttl_ms = OPTION(options, ttl_ms),
                                   .renew_ms = OPTION(options, renew_ms),
                                   .margin_ms = OPTION(options, margin_ms),
                                   .timeout_ms = OPTION(options, timeout_ms)};
    bool own_timeout = manager->timing.timeout_ms != 0;
    ten_timing_defaults(&manager->timing);
    manager->targets_from_store = OPTION(options, targets_from_store);
    manager->on_event = OPTION(options, on_event);
    manager->userdata = OPTION(options, userdata);
    int done = ten_namespace_check(namespace_name ? namespace_name : "poll", error);
    if (done == TENURE_OK)
        done = ten_instance_id_make(OPTION(options, instance_name), manager->instance, error);
    if (done == TENURE_OK)
        done = ten_timing_check(&manager->timing, TENURE_TTL_MIN_MS, NULL, error);
    if (done < 0)
        return done;
    snprintf(manager->namespace_name, sizeof manager->namespace_name, "%s", namespace_name ? namespace_name : "poll");
    ten_store_config config = {.clock = manager->clock, .timeout_ms = manager->timing.timeout_ms};
    done = ten_store_open(url, &config, &manager->store, error);
    if (done < 0)
        return done;
    if (!own_timeout && manager->store->timeout_ms)
        manager->timing.timeout_ms = manager->store->timeout_ms;
    done = ten_timing_check(&manager->timing, manager->store->capabilities.ttl_min_ms,
                            manager->store->capabilities.ttl_min_reason, error);
    return done < 0 ? done : make_fleet(manager, options, error);
}

static void free_manager(tenure_manager *manager) {
    if (ten_process_is(manager->process))
        ten_store_close(manager->store);
    ten_fleet_free(manager->fleet);
    ten_slots_free(&manager->own_slots);
    ten_close_fd(&manager->wake_fd);
    ten_free(manager->events);
    ten_free(manager->results);
    ten_free(manager->listed);
    pthread_mutex_destroy(&manager->lock);
    pthread_cond_destroy(&manager->changed);
    ten_free(manager);
}

int ten_manager_open(const char *url, const tenure_manager_options *options, const ten_manager_extras *extras,
                     tenure_manager **ret_manager) {
    ten_error error = {0};
    if (options && options->size < sizeof options->size)
        return fail(NULL, TENURE_E_INVALID,
                    "tenure_manager_options.size is not set: it is sizeof(tenure_manager_options)");
    tenure_manager *manager = ten_calloc(1, sizeof *manager);
    if (!manager)
        return fail(NULL, TENURE_E_NOMEM, "out of memory while opening a manager");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&manager->lock, NULL);
    pthread_cond_init(&manager->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    manager->clock = &ten_system_clock;
    manager->process = ten_process_number();
    manager->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (extras)
        manager->extras = *extras;
    int done = manager->wake_fd < 0 || manager->process == 0
                   ? ten_fail_errno(&error, TENURE_E_SYSTEM, errno, "cannot open a manager")
                   : configure(manager, url, options, &error);
    if (done < 0) {
        free_manager(manager);
        return failed(NULL, &error);
    }
    *ret_manager = manager;
    return TENURE_OK;
}

int tenure_manager_open(const char *url, const tenure_manager_options *options, tenure_manager **ret_manager) {
    return ten_manager_open(url, options, NULL, ret_manager);
}

int tenure_manager_start(tenure_manager *manager) {
    if (!ten_process_is(manager->process))
        return fail(manager, TENURE_E_FORKED, "this manager belongs to the parent of this process");
    if (manager->started)
        return fail(manager, TENURE_E_INVALID, "the manager has been started before");
    /* Signals are the program's: none is delivered to this thread. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int refused = pthread_create(&manager->thread, NULL, ten_manager_run, manager);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (refused)
        return fail(manager, TENURE_E_SYSTEM, "cannot start the manager's thread: %s", strerrordesc_np(refused));
    manager->started = true;
    return TENURE_OK;
}

/* ---- waiting; the lock is held */

int tenure_manager_stop(tenure_manager *manager, uint64_t wait_ms) {
    if (!ten_process_is(manager->process) || !manager->started)
        return TENURE_OK;
    struct timespec end = ten_monotonic_end(wait_ms);
    pthread_mutex_lock(&manager->lock);
    ten_fleet_stop(manager->fleet, ten_manager_now_ms(manager));
    ten_manager_absorb(manager);
    ten_manager_wake(manager);
    int waited = 0;
    while (!manager->stopped && waited == 0)
        waited = pthread_cond_timedwait(&manager->changed, &manager->lock, &end);
    bool in_time = manager->stopped;
    manager->quit = true;
    pthread_mutex_unlock(&manager->lock);
    ten_manager_wake(manager);
    pthread_join(manager->thread, NULL);
    manager->started = false;
    return in_time ? TENURE_OK
                   : fail(manager, TENURE_E_TIMEOUT,
                          "not everything could be given back in time; the rest ends by its TTL");
}

void ten_manager_begin_stop(tenure_manager *manager) {
    pthread_mutex_lock(&manager->lock);
    ten_fleet_stop(manager->fleet, ten_manager_now_ms(manager));
    ten_manager_absorb(manager);
    pthread_mutex_unlock(&manager->lock);
    ten_manager_wake(manager);
}

void tenure_manager_close(tenure_manager *manager) {
    if (!manager)
        return;
    (void)tenure_manager_stop(manager, 0);
    if (last.manager == manager)
        last.manager = NULL;
    free_manager(manager);
}

const char *tenure_manager_instance_id(const tenure_manager *manager) {
    return manager->instance;
}

/* ---- targets; each call checks the name, finds the number, and holds the lock meanwhile */

static int check(const tenure_manager *manager, const char *target) {
    ten_error error;
    if (!ten_process_is(manager->process))
        return fail(manager, TENURE_E_FORKED, "this manager belongs to the parent of this process");
    if (!target)
        return fail(manager, TENURE_E_INVALID, "no target was given");
    return ten_target_check(target, &error) < 0 ? failed(manager, &error) : TENURE_OK;
}

static uint32_t find(const tenure_manager *manager, const char *target) {
    return ten_plan_find_target(ten_fleet_plan(manager->fleet), target);
}

static int unknown(const tenure_manager *manager, const char *target) {
    return fail(manager, TENURE_E_UNKNOWN_TARGET, "%s is not a target of this manager", target);
}

/* Lets go of the lock after the fleet was told something. */
static void leave_told(tenure_manager *manager) {
    ten_manager_absorb(manager);
    pthread_mutex_unlock(&manager->lock);
    ten_manager_wake(manager);
}

int tenure_manager_put_target(tenure_manager *manager, const char *target, bool paused) {
    int done = check(manager, target);
    if (done < 0)
        return done;
    if (manager->targets_from_store)
        return fail(manager, TENURE_E_INVALID, "the targets of this manager come from the store's registry");
    pthread_mutex_lock(&manager->lock);
    uint32_t number = ten_fleet_put_target(manager->fleet, ten_manager_now_ms(manager), target, paused);
    if (number != TEN_PLAN_NOBODY) {
        ten_manager_publish(manager, number);
        ten_fleet_targets_settled(manager->fleet, ten_manager_now_ms(manager));
    }
    leave_told(manager);
    return number == TEN_PLAN_NOBODY ? fail(manager, TENURE_E_NOMEM, "out of memory for the target %s", target)
                                     : TENURE_OK;
}

int tenure_manager_remove_target(tenure_manager *manager, const char *target) {
    int done = check(manager, target);
    if (done < 0)
        return done;
    pthread_mutex_lock(&manager->lock);
    uint32_t number = find(manager, target);
    if (number != TEN_PLAN_NOBODY)
        ten_fleet_remove_target(manager->fleet, ten_manager_now_ms(manager), number);
    leave_told(manager);
    return number == TEN_PLAN_NOBODY ? unknown(manager, target) : TENURE_OK;
}

int tenure_manager_try_acquire(tenure_manager *manager, const char *target, bool *ret_acquired) {
    int done = check(manager, target);
    if (done < 0)
        return done;
    if (!manager->started)
        return fail(manager, TENURE_E_INVALID, "start the manager first");
    struct timespec end = ten_monotonic_end(manager->timing.timeout_ms * 2);
    pthread_mutex_lock(&manager->lock);
    uint32_t number = ten_fleet_claim(manager->fleet, ten_manager_now_ms(manager), target);
    if (number == TEN_PLAN_NOBODY) {
        pthread_mutex_unlock(&manager->lock);
        return fail(manager, TENURE_E_NOMEM, "out of memory for the target %s", target);
    }
    struct ten_claim claim = {.target = number, .next = manager->claims};
    claim.acquired = claim.answered = ten_fleet_may_work(manager->fleet, number, ten_manager_now_ms(manager));
    // cppcheck-suppress autoVariables ; it is taken out again before this returns
    manager->claims = &claim;
    ten_manager_publish(manager, number);
    ten_manager_wake(manager);
    int waited = 0;
    while (!claim.answered && !manager->stopped && waited == 0)
        waited = pthread_cond_timedwait(&manager->changed, &manager->lock, &end);
    for (struct ten_claim **at = &manager->claims; *at; at = &(*at)->next) {
        if (*at == &claim) {
            *at = claim.next;
            break;
        }
    }
    if (!claim.acquired)
        ten_fleet_let_go(manager->fleet, ten_manager_now_ms(manager), number);
    leave_told(manager);
    if (!claim.answered)
        return fail(manager, TENURE_E_TIMEOUT, "the store did not answer about %s in time", target);
    *ret_acquired = claim.acquired;
    return TENURE_OK;
}

int tenure_manager_release(tenure_manager *manager, const char *target) {
    int done = check(manager, target);
    if (done < 0)
        return done;
    pthread_mutex_lock(&manager->lock);
    uint32_t number = find(manager, target);
    if (number != TEN_PLAN_NOBODY)
        ten_fleet_let_go(manager->fleet, ten_manager_now_ms(manager), number);
    if (number != TEN_PLAN_NOBODY)
        ten_manager_publish(manager, number);
    leave_told(manager);
    return number == TEN_PLAN_NOBODY ? unknown(manager, target) : TENURE_OK;
}

int tenure_manager_begin(tenure_manager *manager, const char *target, uint64_t *ret_token) {
    int done = check(manager, target);
    if (done < 0)
        return done;
    pthread_mutex_lock(&manager->lock);
    uint64_t now_ms = ten_manager_now_ms(manager);
    uint32_t number = find(manager, target);
    bool owned = number != TEN_PLAN_NOBODY && ten_fleet_may_work(manager->fleet, number, now_ms);
    if (owned) {
        ten_fleet_busy(manager->fleet, now_ms, number, true);
        *ret_token = ten_fleet_lease(manager->fleet, number)->token;
    }
    pthread_mutex_unlock(&manager->lock);
    return owned ? TENURE_OK
                 : fail(manager, TENURE_E_LOST, "%s may not be worked on: it is not owned and confirmed", target);
}

void tenure_manager_end(tenure_manager *manager, const char *target) {
    if (check(manager, target) < 0)
        return;
    pthread_mutex_lock(&manager->lock);
    uint32_t number = find(manager, target);
    if (number != TEN_PLAN_NOBODY)
        ten_fleet_busy(manager->fleet, ten_manager_now_ms(manager), number, false);
    leave_told(manager);
}

int tenure_manager_set_weight(tenure_manager *manager, uint32_t weight) {
    if (!ten_process_is(manager->process))
        return fail(manager, TENURE_E_FORKED, "this manager belongs to the parent of this process");
    pthread_mutex_lock(&manager->lock);
    ten_fleet_set_weight(manager->fleet, ten_manager_now_ms(manager), weight);
    leave_told(manager);
    return TENURE_OK;
}

/* ---- looking */

static bool slot_is_before(const ten_slot *slot, uint64_t until_ms) {
    return until_ms != 0 && ten_boot_ms(&ten_system_clock) < until_ms &&
           ten_process_is(atomic_load_explicit(&slot->process, memory_order_relaxed));
}

bool tenure_handle_is_owned(const tenure_handle *handle) {
    return slot_is_before(handle, ten_slot_work_until_ms(handle));
}

uint64_t tenure_handle_token(const tenure_handle *handle) {
    return atomic_load_explicit(&handle->token, memory_order_relaxed);
}

uint64_t tenure_handle_remaining_ms(const tenure_handle *handle) {
    uint64_t ends_ms = ten_slot_ends_ms(handle);
    return slot_is_before(handle, ends_ms) ? ten_left_u64(ends_ms, ten_boot_ms(&ten_system_clock)) : 0;
}

const tenure_handle *tenure_manager_handle(tenure_manager *manager, const char *target) {
    if (check(manager, target) < 0)
        return NULL;
    pthread_mutex_lock(&manager->lock);
    uint32_t number = find(manager, target);
    pthread_mutex_unlock(&manager->lock);
    return number == TEN_PLAN_NOBODY ? NULL : &manager->slots->slots[number];
}

bool tenure_manager_is_owned(tenure_manager *manager, const char *target) {
    const tenure_handle *handle = tenure_manager_handle(manager, target);
    return handle && tenure_handle_is_owned(handle);
}

/* A boot time as Unix time, for display. */
static uint64_t unix_ms(const tenure_manager *manager, uint64_t boot_ms) {
    return boot_ms ? ten_wall_ms(manager->clock) - ten_left_u64(ten_manager_now_ms(manager), boot_ms) : 0;
}

int tenure_manager_lease_info(tenure_manager *manager, const char *target, tenure_lease_info *ret_info) {
    int done = check(manager, target);
    if (done < 0)
        return done;
    pthread_mutex_lock(&manager->lock);
    uint32_t number = find(manager, target);
    if (number != TEN_PLAN_NOBODY) {
        const ten_plan *plan = ten_fleet_plan(manager->fleet);
        const ten_lease *lease = ten_fleet_lease(manager->fleet, number);
        const char *owner = ten_fleet_holder_of(manager->fleet, number);
        uint32_t planned = ten_plan_owner(plan, number);
        uint64_t acquired_ms;
        uint64_t renewed_ms;
        ten_fleet_times(manager->fleet, number, &acquired_ms, &renewed_ms);
        *ret_info = (tenure_lease_info){.state = (enum tenure_lease_state)lease->state,
                                        .token = lease->token,
                                        .acquired_at_ms = unix_ms(manager, acquired_ms),
                                        .last_renewed_at_ms = unix_ms(manager, renewed_ms)};
        snprintf(ret_info->target, sizeof ret_info->target, "%s", target);
        snprintf(ret_info->owner, sizeof ret_info->owner, "%s", owner ? owner : "");
        snprintf(ret_info->planned, sizeof ret_info->planned, "%s",
                 planned != TEN_PLAN_NOBODY ? ten_plan_instance_id(plan, planned) : "");
        if (lease->state == TEN_LEASE_UNKNOWN && owner)
            ret_info->state = TENURE_STATE_OTHER;
    }
    pthread_mutex_unlock(&manager->lock);
    return number == TEN_PLAN_NOBODY ? unknown(manager, target) : TENURE_OK;
}

int tenure_manager_preferred_owner(tenure_manager *manager, const char *target,
                                   char ret_instance[TENURE_HOLDER_MAX + 1]) {
    tenure_lease_info info;
    int done = tenure_manager_lease_info(manager, target, &info);
    if (done == TENURE_OK)
        memcpy(ret_instance, info.planned, sizeof info.planned);
    return done;
}

/* Copies the names under the lock, then hands them out without it. */
static int hand_out(tenure_manager *manager, bool owned, tenure_name_fn each, void *userdata) {
    ten_plan const *plan = ten_fleet_plan(manager->fleet);
    char name[TENURE_TARGET_MAX + 1];
    for (uint32_t i = 0;; i++) {
        pthread_mutex_lock(&manager->lock);
        bool more = i < (owned ? ten_plan_target_slots(plan) : ten_plan_instance_slots(plan));
        const char *found = NULL;
        if (more && owned && ten_fleet_lease(manager->fleet, i)->deadline_ms > ten_manager_now_ms(manager))
            found = ten_plan_target_id(plan, i);
        else if (more && !owned)
            found = ten_plan_instance_id(plan, i);
        if (found)
            snprintf(name, sizeof name, "%s", found);
        pthread_mutex_unlock(&manager->lock);
        if (!more)
            return TENURE_OK;
        int stopped = found ? each(name, userdata) : 0;
        if (stopped)
            return stopped;
    }
}

int tenure_manager_owned(tenure_manager *manager, tenure_name_fn each, void *userdata) {
    return hand_out(manager, true, each, userdata);
}

int tenure_manager_live_instances(tenure_manager *manager, tenure_name_fn each, void *userdata) {
    return hand_out(manager, false, each, userdata);
}

/* The thread has the store; it asks, and this waits. */
static int ask_store(tenure_manager *manager, const char *target, uint64_t token) {
    struct ten_question question = {.target = target, .token = token};
    struct timespec end = ten_monotonic_end(manager->timing.timeout_ms * 2);
    pthread_mutex_lock(&manager->lock);
    question.next = manager->questions;
    // cppcheck-suppress autoVariables ; it is taken out again before this returns
    manager->questions = &question;
    ten_manager_wake(manager);
    int waited = 0;
    /* Once it is taken, the answer comes: the call on the store is bounded. */
    while (!question.answered && (waited == 0 || question.taken))
        waited = question.taken ? pthread_cond_wait(&manager->changed, &manager->lock)
                                : pthread_cond_timedwait(&manager->changed, &manager->lock, &end);
    for (struct ten_question **at = &manager->questions; *at; at = &(*at)->next) {
        if (*at == &question) {
            *at = question.next;
            break;
        }
    }
    pthread_mutex_unlock(&manager->lock);
    return question.answered ? question.answer : TENURE_E_TIMEOUT;
}

int tenure_manager_strict_check(tenure_manager *manager, const char *target) {
    int done = check(manager, target);
    if (done < 0)
        return done;
    pthread_mutex_lock(&manager->lock);
    uint32_t number = find(manager, target);
    uint64_t token = number != TEN_PLAN_NOBODY ? ten_fleet_lease(manager->fleet, number)->token : 0;
    pthread_mutex_unlock(&manager->lock);
    if (!manager->started || !tenure_manager_is_owned(manager, target))
        return fail(manager, TENURE_E_LOST, "%s is not owned here", target);
    done = ask_store(manager, target, token);
    if (done == TENURE_E_LOST)
        return fail(manager, done, "the store says that %s is not held by this instance", target);
    return done < 0 ? fail(manager, done, "%s: %s", target, tenure_strerror(done)) : TENURE_OK;
}

int tenure_manager_next_event(tenure_manager *manager, uint64_t wait_ms, tenure_event *ret_event) {
    if (manager->on_event)
        return fail(manager, TENURE_E_INVALID, "the events of this manager go to its on_event function");
    struct timespec end = ten_monotonic_end(wait_ms);
    pthread_mutex_lock(&manager->lock);
    int waited = 0;
    while (manager->event_count == 0 && waited == 0)
        waited = pthread_cond_timedwait(&manager->changed, &manager->lock, &end);
    bool found = manager->event_count > 0;
    if (found) {
        *ret_event = manager->events[manager->event_first];
        manager->event_first = (manager->event_first + 1) % manager->event_room;
        manager->event_count--;
    }
    pthread_mutex_unlock(&manager->lock);
    return found ? TENURE_OK : fail(manager, TENURE_E_TIMEOUT, "no event came in time");
}
