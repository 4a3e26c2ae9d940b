/*
 * The fleet member of the C API: one instance of a fleet. It keeps the fleet (src/core/fleet.h) under a lock, starts
 * the thread that drives it (member_loop.c), and answers questions from what the fleet knows.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"
#include "base/random.h"
#include "base/thread.h"
#include "runtime/member_state.h"

#define BELIEFS_MAX (UINT32_C(4) << 20) /* targets of one fleet member; address space only until they are used */
#define SETTLE_MS   2000u
#define BATCH_MAX   1000u
#define EVENTS_MAX  4096u

/* ---- errors: as for clients, a thread's last one */

static _Thread_local struct {
    const tenure_member *member;
    ten_error error;
} last;

static int failed(const tenure_member *member, const ten_error *error) {
    last.member = member;
    last.error = *error;
    return error->code;
}

static int fail(const tenure_member *member, int code, const char *format, ...) TEN_PRINTF(3, 4);
static int fail(const tenure_member *member, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    last.member = member;
    last.error.code = code;
    vsnprintf(last.error.message, sizeof last.error.message, format, args);
    va_end(args);
    return code;
}

const char *tenure_member_message(const tenure_member *member) {
    return last.member == member ? last.error.message : "";
}

/* ---- what the loop uses, too */

uint64_t ten_member_now_ms(const tenure_member *member) {
    return ten_boot_ms(member->clock);
}

void ten_member_wake(tenure_member *member) {
    ten_eventfd_poke(member->wake_fd);
}

void ten_member_publish(tenure_member *member, uint32_t number) {
    ten_belief *belief = &member->beliefs->beliefs[number];
    const ten_holding *holding = ten_fleet_holding(member->fleet, number);
    bool may_work = ten_fleet_may_work(member->fleet, number, ten_member_now_ms(member));
    atomic_store_explicit(&belief->process, member->process, memory_order_relaxed);
    atomic_store_explicit(&belief->token, holding->token, memory_order_relaxed);
    ten_belief_set(belief, holding->deadline_ms, may_work);
    uint64_t last_end_ms = atomic_load_explicit(member->beliefs->last_end_ms, memory_order_relaxed);
    if (ten_fleet_owned_count(member->fleet) == 0)
        last_end_ms = 0;
    atomic_store_explicit(member->beliefs->last_end_ms, ten_max_u64(last_end_ms, holding->deadline_ms),
                          memory_order_release);
}

static void keep_event(tenure_member *member, const tenure_event *event) {
    if (member->event_count == member->event_room) {
        size_t room = member->event_room ? member->event_room * 2 : 64;
        tenure_event *events = room <= EVENTS_MAX ? ten_malloc(room * sizeof *events) : NULL;
        if (!events) {
            /* Nobody pulls them, or there is no memory: the oldest goes. What is held does not depend on events. */
            if (member->event_room == 0)
                return;
            member->event_first = (member->event_first + 1) % member->event_room;
            member->event_count--;
        } else {
            for (size_t i = 0; i < member->event_count; i++)
                events[i] = member->events[(member->event_first + i) % member->event_room];
            ten_free(member->events);
            member->events = events;
            member->event_room = room;
            member->event_first = 0;
        }
    }
    member->events[(member->event_first + member->event_count++) % member->event_room] = *event;
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

static void answer_claims(tenure_member *member, const ten_fleet_event *event) {
    bool acquired = event->kind == TEN_FLEET_ACQUIRED;
    bool refused = event->kind == TEN_FLEET_ACQUIRE_FAILED || event->kind == TEN_FLEET_RECOVERING ||
                   event->kind == TEN_FLEET_STORE_DOWN || event->kind == TEN_FLEET_REFUSED;
    for (struct ten_claim *claim = member->claims; claim; claim = claim->next) {
        bool concerned = event->target == claim->target || event->target == TEN_PLAN_NONE;
        if (!claim->answered && concerned && (acquired || refused)) {
            claim->answered = true;
            claim->acquired = acquired;
        }
    }
}

void ten_member_absorb(tenure_member *member) {
    ten_fleet_event happened;
    bool any = false;
    while (ten_fleet_event_take(member->fleet, &happened)) {
        bool acquired = happened.kind == TEN_FLEET_ACQUIRED;
        if (member->extras.measures && acquired)
            ten_measures_taken_over(member->extras.measures, happened.reason);
        tenure_event event = {.kind = event_words[happened.kind].kind,
                              .name = event_words[happened.kind].name,
                              .reason = acquired ? "" : ten_reason_name(happened.reason),
                              .token = happened.token,
                              .remaining_ms = happened.remaining_ms,
                              .free_ms = happened.free_ms,
                              .count = happened.count,
                              .error = happened.error};
        const char *id = happened.target != TEN_PLAN_NONE
                             ? ten_plan_target_id(ten_fleet_plan(member->fleet), happened.target)
                             : NULL;
        snprintf(event.target, sizeof event.target, "%s", id ? id : "");
        snprintf(event.instance, sizeof event.instance, "%s", happened.other);
        if (happened.target != TEN_PLAN_NONE)
            ten_member_publish(member, happened.target);
        answer_claims(member, &happened);
        if (happened.kind == TEN_FLEET_STOPPED)
            member->stopped = true;
        keep_event(member, &event);
        any = true;
    }
    if (any)
        pthread_cond_broadcast(&member->changed);
}

/* ---- opening */

#define OPTION(options, field)                                                                                         \
    ((options) && (options)->size >= offsetof(tenure_member_options, field) + sizeof((options)->field)                 \
         ? (options)->field                                                                                            \
         : 0)

static int make_fleet(tenure_member *member, const tenure_member_options *options, ten_error *error) {
    uint32_t weight = OPTION(options, weight);
    uint64_t settle_ms = OPTION(options, settle_ms);
    ten_fleet_config config = {.namespace_name = member->namespace_name,
                               .instance = member->instance,
                               .timing = member->timing,
                               .settle_ms = settle_ms ? settle_ms : SETTLE_MS,
                               .weight = weight ? weight : 1,
                               .seed = ten_random_u64(),
                               .metadata = "{\"version\":\"" TENURE_VERSION "\"}",
                               .batch_max = BATCH_MAX};
    member->fleet = ten_fleet_new(&config, ten_member_now_ms(member));
    member->results = ten_calloc(BATCH_MAX + 2, sizeof *member->results);
    if (!member->fleet || !member->results)
        return ten_fail_memory(error, "a fleet member");
    if (member->extras.beliefs)
        member->beliefs = member->extras.beliefs;
    else if (ten_beliefs_make(&member->own_beliefs, BELIEFS_MAX))
        member->beliefs = &member->own_beliefs;
    else
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot reserve memory for the targets");
    return TENURE_OK;
}

static int configure(tenure_member *member, const char *url, const tenure_member_options *options, ten_error *error) {
    const char *namespace_name = OPTION(options, namespace_name);
    member->timing = (ten_timing){.ttl_ms = OPTION(options, ttl_ms),
                                  .renew_ms = OPTION(options, renew_ms),
                                  .margin_ms = OPTION(options, margin_ms),
                                  .timeout_ms = OPTION(options, timeout_ms)};
    bool own_timeout = member->timing.timeout_ms != 0;
    ten_timing_defaults(&member->timing);
    member->targets_from_store = OPTION(options, targets_from_store);
    member->on_event = OPTION(options, on_event);
    member->userdata = OPTION(options, userdata);
    int r = ten_id_check_namespace(namespace_name ? namespace_name : "poll", error);
    if (r == TENURE_OK)
        r = ten_id_make_instance(OPTION(options, instance_name), member->instance, error);
    if (r == TENURE_OK)
        r = ten_timing_check(&member->timing, TENURE_TTL_MIN_MS, NULL, error);
    if (r < 0)
        return r;
    snprintf(member->namespace_name, sizeof member->namespace_name, "%s", namespace_name ? namespace_name : "poll");
    ten_store_config config = {.clock = member->clock, .timeout_ms = member->timing.timeout_ms};
    r = ten_store_open(url, &config, &member->store, error);
    if (r < 0)
        return r;
    if (!own_timeout && member->store->timeout_ms)
        member->timing.timeout_ms = member->store->timeout_ms;
    r = ten_timing_check(&member->timing, member->store->capabilities.ttl_min_ms,
                         member->store->capabilities.ttl_min_reason, error);
    return r < 0 ? r : make_fleet(member, options, error);
}

static void free_member(tenure_member *member) {
    if (ten_process_is(member->process))
        ten_store_close(member->store);
    ten_fleet_free(member->fleet);
    ten_beliefs_free(&member->own_beliefs);
    ten_close_fd(&member->wake_fd);
    ten_free(member->events);
    ten_free(member->results);
    ten_free(member->listed);
    pthread_mutex_destroy(&member->lock);
    pthread_cond_destroy(&member->changed);
    ten_free(member);
}

int ten_member_open(const char *url, const tenure_member_options *options, const ten_member_extras *extras,
                    tenure_member **ret_member) {
    ten_error error = {0};
    if (options && options->size < sizeof options->size)
        return fail(NULL, TENURE_E_INVALID,
                    "tenure_member_options.size is not set: it is sizeof(tenure_member_options)");
    tenure_member *member = ten_calloc(1, sizeof *member);
    if (!member)
        return fail(NULL, TENURE_E_NOMEM, "out of memory while opening a fleet member");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&member->lock, NULL);
    pthread_cond_init(&member->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    member->clock = &ten_system_clock;
    member->process = ten_process_number();
    member->wake_fd = ten_eventfd_open();
    if (extras)
        member->extras = *extras;
    int r = member->wake_fd < 0 || member->process == 0
                ? ten_fail_errno(&error, TENURE_E_SYSTEM, errno, "cannot open a fleet member")
                : configure(member, url, options, &error);
    if (r < 0) {
        free_member(member);
        return failed(NULL, &error);
    }
    *ret_member = member;
    return TENURE_OK;
}

int tenure_member_open(const char *url, const tenure_member_options *options, tenure_member **ret_member) {
    return ten_member_open(url, options, NULL, ret_member);
}

int tenure_member_start(tenure_member *member) {
    if (!ten_process_is(member->process))
        return fail(member, TENURE_E_FORKED, "this fleet member belongs to the parent of this process");
    if (member->started)
        return fail(member, TENURE_E_INVALID, "the fleet member has been started before");
    int refused = ten_thread_start(&member->thread, ten_member_run, member);
    if (refused)
        return fail(member, TENURE_E_SYSTEM, "cannot start the fleet member's thread: %s", strerrordesc_np(refused));
    member->started = true;
    return TENURE_OK;
}

/* ---- waiting; the lock is held */

int tenure_member_stop(tenure_member *member, uint64_t wait_ms) {
    if (!ten_process_is(member->process) || !member->started)
        return TENURE_OK;
    struct timespec end = ten_monotonic_end(wait_ms);
    pthread_mutex_lock(&member->lock);
    ten_fleet_stop(member->fleet, ten_member_now_ms(member));
    ten_member_absorb(member);
    ten_member_wake(member);
    int waited = 0;
    while (!member->stopped && waited == 0)
        waited = pthread_cond_timedwait(&member->changed, &member->lock, &end);
    bool in_time = member->stopped;
    member->quit = true;
    pthread_mutex_unlock(&member->lock);
    ten_member_wake(member);
    pthread_join(member->thread, NULL);
    member->started = false;
    return in_time
               ? TENURE_OK
               : fail(member, TENURE_E_TIMEOUT, "not everything could be released in time; the rest ends by its TTL");
}

void ten_member_begin_stop(tenure_member *member) {
    pthread_mutex_lock(&member->lock);
    ten_fleet_stop(member->fleet, ten_member_now_ms(member));
    ten_member_absorb(member);
    pthread_mutex_unlock(&member->lock);
    ten_member_wake(member);
}

void tenure_member_close(tenure_member *member) {
    if (!member)
        return;
    (void)tenure_member_stop(member, 0);
    if (last.member == member)
        last.member = NULL;
    free_member(member);
}

const char *tenure_member_instance_id(const tenure_member *member) {
    return member->instance;
}

/* ---- targets; each call checks the name, finds the number, and holds the lock meanwhile */

static int check(const tenure_member *member, const char *target) {
    ten_error error;
    if (!ten_process_is(member->process))
        return fail(member, TENURE_E_FORKED, "this fleet member belongs to the parent of this process");
    if (!target)
        return fail(member, TENURE_E_INVALID, "no target was given");
    return ten_id_check_target(target, &error) < 0 ? failed(member, &error) : TENURE_OK;
}

static uint32_t find(const tenure_member *member, const char *target) {
    return ten_plan_find_target(ten_fleet_plan(member->fleet), target);
}

static int unknown(const tenure_member *member, const char *target) {
    return fail(member, TENURE_E_UNKNOWN_TARGET, "%s is not a target of this fleet member", target);
}

/* Lets go of the lock after the fleet was told something. */
static void leave_told(tenure_member *member) {
    ten_member_absorb(member);
    pthread_mutex_unlock(&member->lock);
    ten_member_wake(member);
}

int tenure_member_put_target(tenure_member *member, const char *target, bool paused) {
    int r = check(member, target);
    if (r < 0)
        return r;
    if (member->targets_from_store)
        return fail(member, TENURE_E_INVALID, "the targets of this fleet member come from the store's registry");
    pthread_mutex_lock(&member->lock);
    uint32_t number = ten_fleet_put_target(member->fleet, ten_member_now_ms(member), target, paused);
    if (number != TEN_PLAN_NONE) {
        ten_member_publish(member, number);
        ten_fleet_targets_settled(member->fleet, ten_member_now_ms(member));
    }
    leave_told(member);
    return number == TEN_PLAN_NONE ? fail(member, TENURE_E_NOMEM, "out of memory for the target %s", target)
                                   : TENURE_OK;
}

int tenure_member_remove_target(tenure_member *member, const char *target) {
    int r = check(member, target);
    if (r < 0)
        return r;
    pthread_mutex_lock(&member->lock);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE)
        ten_fleet_remove_target(member->fleet, ten_member_now_ms(member), number);
    leave_told(member);
    return number == TEN_PLAN_NONE ? unknown(member, target) : TENURE_OK;
}

int tenure_member_try_acquire(tenure_member *member, const char *target, bool *ret_acquired) {
    int r = check(member, target);
    if (r < 0)
        return r;
    if (!member->started)
        return fail(member, TENURE_E_INVALID, "start the fleet member first");
    struct timespec end = ten_monotonic_end(member->timing.timeout_ms * 2);
    pthread_mutex_lock(&member->lock);
    uint32_t number = ten_fleet_claim(member->fleet, ten_member_now_ms(member), target);
    if (number == TEN_PLAN_NONE) {
        pthread_mutex_unlock(&member->lock);
        return fail(member, TENURE_E_NOMEM, "out of memory for the target %s", target);
    }
    struct ten_claim claim = {.target = number, .next = member->claims};
    claim.acquired = claim.answered = ten_fleet_may_work(member->fleet, number, ten_member_now_ms(member));
    // cppcheck-suppress autoVariables ; it is taken out again before this returns
    member->claims = &claim;
    ten_member_publish(member, number);
    ten_member_wake(member);
    int waited = 0;
    while (!claim.answered && !member->stopped && waited == 0)
        waited = pthread_cond_timedwait(&member->changed, &member->lock, &end);
    for (struct ten_claim **at = &member->claims; *at; at = &(*at)->next) {
        if (*at == &claim) {
            *at = claim.next;
            break;
        }
    }
    if (!claim.acquired)
        ten_fleet_unclaim(member->fleet, ten_member_now_ms(member), number);
    leave_told(member);
    if (!claim.answered)
        return fail(member, TENURE_E_TIMEOUT, "the store did not answer about %s in time", target);
    *ret_acquired = claim.acquired;
    return TENURE_OK;
}

int tenure_member_release(tenure_member *member, const char *target) {
    int r = check(member, target);
    if (r < 0)
        return r;
    pthread_mutex_lock(&member->lock);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE)
        ten_fleet_unclaim(member->fleet, ten_member_now_ms(member), number);
    if (number != TEN_PLAN_NONE)
        ten_member_publish(member, number);
    leave_told(member);
    return number == TEN_PLAN_NONE ? unknown(member, target) : TENURE_OK;
}

int tenure_member_begin(tenure_member *member, const char *target, uint64_t *ret_token) {
    int r = check(member, target);
    if (r < 0)
        return r;
    pthread_mutex_lock(&member->lock);
    uint64_t now_ms = ten_member_now_ms(member);
    uint32_t number = find(member, target);
    bool owned = number != TEN_PLAN_NONE && ten_fleet_may_work(member->fleet, number, now_ms);
    if (owned) {
        ten_fleet_busy(member->fleet, now_ms, number, true);
        *ret_token = ten_fleet_holding(member->fleet, number)->token;
    }
    pthread_mutex_unlock(&member->lock);
    return owned ? TENURE_OK
                 : fail(member, TENURE_E_LOST, "%s may not be worked on: it is not held and confirmed", target);
}

void tenure_member_end(tenure_member *member, const char *target) {
    if (check(member, target) < 0)
        return;
    pthread_mutex_lock(&member->lock);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE)
        ten_fleet_busy(member->fleet, ten_member_now_ms(member), number, false);
    leave_told(member);
}

int tenure_member_set_weight(tenure_member *member, uint32_t weight) {
    if (!ten_process_is(member->process))
        return fail(member, TENURE_E_FORKED, "this fleet member belongs to the parent of this process");
    pthread_mutex_lock(&member->lock);
    ten_fleet_set_weight(member->fleet, ten_member_now_ms(member), weight);
    leave_told(member);
    return TENURE_OK;
}

/* ---- looking */

static bool belief_is_before(const ten_belief *belief, uint64_t until_ms) {
    return until_ms != 0 && ten_now_ms() < until_ms &&
           ten_process_is(atomic_load_explicit(&belief->process, memory_order_relaxed));
}

bool tenure_handle_is_held(const tenure_handle *handle) {
    return belief_is_before(handle, ten_belief_work_until_ms(handle));
}

uint64_t tenure_handle_token(const tenure_handle *handle) {
    return atomic_load_explicit(&handle->token, memory_order_relaxed);
}

uint64_t tenure_handle_remaining_ms(const tenure_handle *handle) {
    uint64_t ends_ms = ten_belief_ends_ms(handle);
    return belief_is_before(handle, ends_ms) ? ten_sub_saturating(ends_ms, ten_now_ms()) : 0;
}

const tenure_handle *tenure_member_handle(tenure_member *member, const char *target) {
    if (check(member, target) < 0)
        return NULL;
    pthread_mutex_lock(&member->lock);
    uint32_t number = find(member, target);
    pthread_mutex_unlock(&member->lock);
    return number == TEN_PLAN_NONE ? NULL : &member->beliefs->beliefs[number];
}

bool tenure_member_is_held(tenure_member *member, const char *target) {
    const tenure_handle *handle = tenure_member_handle(member, target);
    return handle && tenure_handle_is_held(handle);
}

/* A boot time as Unix time, for display. */
static uint64_t unix_ms(const tenure_member *member, uint64_t boot_ms) {
    return boot_ms ? ten_wall_ms(member->clock) - ten_sub_saturating(ten_member_now_ms(member), boot_ms) : 0;
}

static enum tenure_lease_state state_of(const ten_holding *holding, const char *holder) {
    if (ten_holding_is_held(holding))
        return holding->uncertain ? TENURE_STATE_UNCERTAIN : TENURE_STATE_OWNED;
    return holder ? TENURE_STATE_OTHER : TENURE_STATE_UNKNOWN;
}

int tenure_member_lease_info(tenure_member *member, const char *target, tenure_lease_info *ret_info) {
    int r = check(member, target);
    if (r < 0)
        return r;
    pthread_mutex_lock(&member->lock);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE) {
        const ten_plan *plan = ten_fleet_plan(member->fleet);
        const ten_holding *holding = ten_fleet_holding(member->fleet, number);
        const char *holder = ten_fleet_holder_of(member->fleet, number);
        uint32_t planned = ten_plan_holder(plan, number);
        uint64_t acquired_ms;
        uint64_t renewed_ms;
        ten_fleet_times(member->fleet, number, &acquired_ms, &renewed_ms);
        *ret_info = (tenure_lease_info){.state = state_of(holding, holder),
                                        .token = holding->token,
                                        .acquired_at_ms = unix_ms(member, acquired_ms),
                                        .last_renewed_at_ms = unix_ms(member, renewed_ms)};
        snprintf(ret_info->target, sizeof ret_info->target, "%s", target);
        snprintf(ret_info->holder, sizeof ret_info->holder, "%s", holder ? holder : "");
        snprintf(ret_info->planned, sizeof ret_info->planned, "%s",
                 planned != TEN_PLAN_NONE ? ten_plan_instance_id(plan, planned) : "");
    }
    pthread_mutex_unlock(&member->lock);
    return number == TEN_PLAN_NONE ? unknown(member, target) : TENURE_OK;
}

int tenure_member_planned_holder(tenure_member *member, const char *target, char ret_instance[TENURE_HOLDER_MAX + 1]) {
    tenure_lease_info info;
    int r = tenure_member_lease_info(member, target, &info);
    if (r == TENURE_OK)
        memcpy(ret_instance, info.planned, sizeof info.planned);
    return r;
}

/* Copies the names under the lock, then hands them out without it. */
static int hand_out(tenure_member *member, bool owned, tenure_name_fn each, void *userdata) {
    ten_plan const *plan = ten_fleet_plan(member->fleet);
    char name[TENURE_TARGET_MAX + 1];
    for (uint32_t i = 0;; i++) {
        pthread_mutex_lock(&member->lock);
        bool more = i < (owned ? ten_plan_target_bound(plan) : ten_plan_instance_bound(plan));
        const char *found = NULL;
        if (more && owned && ten_fleet_holding(member->fleet, i)->deadline_ms > ten_member_now_ms(member))
            found = ten_plan_target_id(plan, i);
        else if (more && !owned)
            found = ten_plan_instance_id(plan, i);
        if (found)
            snprintf(name, sizeof name, "%s", found);
        pthread_mutex_unlock(&member->lock);
        if (!more)
            return TENURE_OK;
        int stopped = found ? each(name, userdata) : 0;
        if (stopped)
            return stopped;
    }
}

int tenure_member_held(tenure_member *member, tenure_name_fn each, void *userdata) {
    return hand_out(member, true, each, userdata);
}

int tenure_member_live_instances(tenure_member *member, tenure_name_fn each, void *userdata) {
    return hand_out(member, false, each, userdata);
}

/* The thread has the store; it asks, and this waits. */
static int ask_store(tenure_member *member, const char *target, uint64_t token) {
    struct ten_question question = {.target = target, .token = token};
    struct timespec end = ten_monotonic_end(member->timing.timeout_ms * 2);
    pthread_mutex_lock(&member->lock);
    question.next = member->questions;
    // cppcheck-suppress autoVariables ; it is taken out again before this returns
    member->questions = &question;
    ten_member_wake(member);
    int waited = 0;
    /* Once it is taken, the answer comes: the call on the store is bounded. */
    while (!question.answered && (waited == 0 || question.taken))
        waited = question.taken ? pthread_cond_wait(&member->changed, &member->lock)
                                : pthread_cond_timedwait(&member->changed, &member->lock, &end);
    for (struct ten_question **at = &member->questions; *at; at = &(*at)->next) {
        if (*at == &question) {
            *at = question.next;
            break;
        }
    }
    pthread_mutex_unlock(&member->lock);
    return question.answered ? question.answer : TENURE_E_TIMEOUT;
}

int tenure_member_strict_check(tenure_member *member, const char *target) {
    int r = check(member, target);
    if (r < 0)
        return r;
    pthread_mutex_lock(&member->lock);
    uint32_t number = find(member, target);
    uint64_t token = number != TEN_PLAN_NONE ? ten_fleet_holding(member->fleet, number)->token : 0;
    pthread_mutex_unlock(&member->lock);
    if (!member->started || !tenure_member_is_held(member, target))
        return fail(member, TENURE_E_LOST, "%s is not held here", target);
    r = ask_store(member, target, token);
    if (r == TENURE_E_LOST)
        return fail(member, r, "the store says that %s is not held by this instance", target);
    return r < 0 ? fail(member, r, "%s: %s", target, tenure_strerror(r)) : TENURE_OK;
}

int tenure_member_next_event(tenure_member *member, uint64_t wait_ms, tenure_event *ret_event) {
    if (member->on_event)
        return fail(member, TENURE_E_INVALID, "the events of this fleet member go to its on_event function");
    struct timespec end = ten_monotonic_end(wait_ms);
    pthread_mutex_lock(&member->lock);
    int waited = 0;
    while (member->event_count == 0 && waited == 0)
        waited = pthread_cond_timedwait(&member->changed, &member->lock, &end);
    bool found = member->event_count > 0;
    if (found) {
        *ret_event = member->events[member->event_first];
        member->event_first = (member->event_first + 1) % member->event_room;
        member->event_count--;
    }
    pthread_mutex_unlock(&member->lock);
    return found ? TENURE_OK : fail(member, TENURE_E_TIMEOUT, "no event came in time");
}
