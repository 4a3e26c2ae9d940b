/*
 * The fleet member of the C API: one instance of a fleet. It keeps the fleet (src/core/fleet.h) under the lock of its
 * carrier, which drives it, and answers questions from what the fleet knows.
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
#include "core/fleet.h"
#include "runtime/carrier.h"
#include "runtime/member.h"

#define BELIEFS_MAX (UINT32_C(4) << 20) /* targets of one fleet member; address space only until they are used */
#define SETTLE_MS   2000u
#define BATCH_MAX   1000u
#define PAGE_SIZE   1000u
#define FEED_SIZE   1000u
#define FEED_PART   480u /* an eighth of a rank delay: nobody has to hear of a change sooner */

/* Somebody who waits for the answer to a claim. */
struct claim {
    const char *target;
    bool answered;
    bool acquired;
    struct claim *next;
};

/* Somebody who wants the store itself to be asked. */
struct question {
    const char *target;
    uint64_t token;
    bool taken; /* the thread is asking: the question must stay where it is */
    bool answered;
    int answer;
    struct question *next;
};

struct tenure_member {
    ten_carrier carrier;
    ten_timing timing;
    char instance[TENURE_HOLDER_MAX + 1];
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    bool targets_from_store;
    ten_member_extras extras;
    tenure_event_fn on_event;
    void *userdata;
    ten_beliefs own_beliefs;
    ten_beliefs *beliefs;

    /* Under the carrier's lock. */
    ten_fleet *fleet;
    struct claim *claims;
    struct question *questions;
    bool quit;    /* the thread is to end without further ado */
    bool stopped; /* the fleet has released everything, or the thread has ended */
};

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

/* ---- what changes */

static uint64_t now_ms(const tenure_member *member) {
    return ten_carrier_now_ms(&member->carrier);
}

static void lock(tenure_member *member) {
    pthread_mutex_lock(&member->carrier.lock);
}

static void unlock(tenure_member *member) {
    pthread_mutex_unlock(&member->carrier.lock);
}

/* The fleet says that what may be believed about a target has changed. */
static void publish(void *userdata, uint32_t number) {
    tenure_member *member = userdata;
    ten_belief *belief = &member->beliefs->beliefs[number];
    const ten_holding *holding = ten_fleet_holding(member->fleet, number);
    atomic_store_explicit(&belief->process, member->carrier.process, memory_order_relaxed);
    atomic_store_explicit(&belief->token, holding->token, memory_order_relaxed);
    ten_belief_set(belief, holding->deadline_ms, ten_holding_may_work(holding, now_ms(member)));
    uint64_t last_end_ms = atomic_load_explicit(member->beliefs->last_end_ms, memory_order_relaxed);
    if (ten_fleet_owned_count(member->fleet) == 0)
        last_end_ms = 0;
    atomic_store_explicit(member->beliefs->last_end_ms, ten_max_u64(last_end_ms, holding->deadline_ms),
                          memory_order_release);
}

static void answer_claims(tenure_member *member, const tenure_event *event) {
    bool acquired = event->kind == TENURE_EVENT_ACQUIRED;
    bool refused = event->kind == TENURE_EVENT_ACQUIRE_FAILED || event->kind == TENURE_EVENT_RECOVERING ||
                   event->kind == TENURE_EVENT_STORE_DOWN || event->kind == TENURE_EVENT_REFUSED;
    for (struct claim *claim = member->claims; claim; claim = claim->next) {
        bool concerned = event->target[0] == '\0' || strcmp(event->target, claim->target) == 0;
        if (!claim->answered && concerned && (acquired || refused)) {
            claim->answered = true;
            claim->acquired = acquired;
        }
    }
}

/* Each event, as it happens. */
static void on_put(void *userdata, const tenure_event *event) {
    tenure_member *member = userdata;
    if (member->extras.measures && event->kind == TENURE_EVENT_ACQUIRED)
        ten_measures_taken_over(member->extras.measures, ten_reason_parse(event->reason));
    answer_claims(member, event);
    if (event->kind == TENURE_EVENT_STOPPED)
        member->stopped = true;
    pthread_cond_broadcast(&member->carrier.changed);
}

/* ---- for the carrier */

static bool is_over(void *owner) {
    const tenure_member *member = owner;
    return member->quit || member->stopped;
}

/* What a request tells about this instance, before its answer is taken. */
static void measure(void *owner, const ten_call *call, uint64_t took_us, int error, const ten_result *results) {
    const tenure_member *member = owner;
    ten_measures *measures = member->extras.measures;
    (void)results;
    if (!measures)
        return;
    ten_measures_answered(measures, error);
    /* The oldest lease is renewed first: if there is a renewal at all, it stands right behind the heartbeat. */
    bool renewal = call->ops[0].kind == TEN_OP_RENEW || (call->count > 1 && call->ops[1].kind == TEN_OP_RENEW);
    if (renewal)
        ten_measures_renewed(measures, took_us, ten_fleet_margin_ms(member->fleet, now_ms(member)), error);
}

static void measure_fleet(void *owner) {
    const tenure_member *member = owner;
    ten_measures *measures = member->extras.measures;
    if (!measures)
        return;
    ten_fleet_unowned unowned = ten_fleet_get_unowned(member->fleet);
    ten_measures_fleet(measures, ten_fleet_owned_count(member->fleet), ten_fleet_planned_count(member->fleet),
                       unowned.count, unowned.since_ms);
}

static void take_row(void *owner, const ten_row *row) {
    const tenure_member *member = owner;
    if (member->targets_from_store && row->registered && member->extras.on_target)
        member->extras.on_target(&row->target, false, member->extras.userdata);
}

/* Why the previous lease ended is for the measures only. */
static void hide_reason(tenure_event *event) {
    if (event->kind == TENURE_EVENT_ACQUIRED)
        event->reason = "";
}

static void tell(const tenure_member *member, tenure_event *event) {
    hide_reason(event);
    if (event->kind != TENURE_EVENT_TARGET_REMOVED)
        member->on_event(event, member->userdata);
    else if (member->extras.on_target)
        member->extras.on_target(&(tenure_target){.id = event->target}, true, member->extras.userdata);
}

static bool deliver(void *owner) {
    tenure_member *member = owner;
    tenure_event event;
    bool any = false;
    while (member->on_event && ten_carrier_take_event(&member->carrier, &event)) {
        tell(member, &event);
        any = true;
    }
    return any;
}

/* Somebody wants the store itself to be asked. */
static bool answer_question(void *owner) {
    tenure_member *member = owner;
    ten_carrier *carrier = &member->carrier;
    lock(member);
    struct question *question = member->questions;
    while (question && question->answered)
        question = question->next;
    if (question)
        question->taken = true;
    unlock(member);
    if (!question)
        return false;
    ten_op op = {.kind = TEN_OP_READ, .namespace_name = member->namespace_name, .target = question->target};
    ten_result result;
    int r = ten_store_apply(carrier->store, &op, &result, 1, carrier->timeout_ms);
    lock(member);
    if (r == TENURE_OK && !(result.holder && strcmp(result.holder, member->instance) == 0 &&
                            result.token == question->token && !result.barred))
        r = TENURE_E_LOST;
    question->answer = r;
    question->answered = true;
    pthread_cond_broadcast(&carrier->changed);
    unlock(member);
    return true;
}

static const ten_carrier_hooks hooks = {.is_over = is_over,
                                        .answered = measure,
                                        .changed = measure_fleet,
                                        .row = take_row,
                                        .deliver = deliver,
                                        .serve = answer_question};

/* ---- opening */

#define OPTION(options, field)                                                                                         \
    ((options) && (options)->size >= offsetof(tenure_member_options, field) + sizeof((options)->field)                 \
         ? (options)->field                                                                                            \
         : 0)

static void make_driver(tenure_member *member) {
    ten_driver_config config = {.part = &ten_fleet_part,
                                .self = member->fleet,
                                .events = &member->carrier.events,
                                .seed = ten_random_u64(),
                                .backoff_max_ms = member->timing.renew_ms / 4,
                                .feed_gap_ms = ten_max_u64(member->timing.ttl_ms / FEED_PART, 1),
                                .feed_size = FEED_SIZE,
                                .page_size = PAGE_SIZE,
                                .registrations = member->targets_from_store};
    ten_driver_init(&member->carrier.driver, &config, now_ms(member));
}

static int make_fleet(tenure_member *member, const tenure_member_options *options, ten_error *error) {
    uint32_t weight = OPTION(options, weight);
    uint64_t settle_ms = OPTION(options, settle_ms);
    if (member->extras.beliefs)
        member->beliefs = member->extras.beliefs;
    else if (ten_beliefs_make(&member->own_beliefs, BELIEFS_MAX))
        member->beliefs = &member->own_beliefs;
    else
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot reserve memory for the targets");
    ten_fleet_config config = {.namespace_name = member->namespace_name,
                               .instance = member->instance,
                               .timing = member->timing,
                               .settle_ms = settle_ms ? settle_ms : SETTLE_MS,
                               .weight = weight ? weight : 1,
                               .seed = ten_random_u64(),
                               .metadata = "{\"version\":\"" TENURE_VERSION "\"}",
                               .batch_max = BATCH_MAX,
                               .registry = member->targets_from_store,
                               .events = &member->carrier.events,
                               .changed = publish,
                               .userdata = member};
    member->fleet = ten_fleet_new(&config, now_ms(member));
    if (!member->fleet)
        return ten_fail_memory(error, "a fleet member");
    make_driver(member);
    return ten_carrier_reserve(&member->carrier, BATCH_MAX + 2, error);
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
    ten_carrier *carrier = &member->carrier;
    ten_store_config config = {.clock = carrier->clock, .timeout_ms = member->timing.timeout_ms};
    r = ten_store_open(url, &config, &carrier->store, error);
    if (r < 0)
        return r;
    if (!own_timeout && carrier->store->timeout_ms)
        member->timing.timeout_ms = carrier->store->timeout_ms;
    carrier->timeout_ms = member->timing.timeout_ms;
    r = ten_timing_check(&member->timing, carrier->store->capabilities.ttl_min_ms,
                         carrier->store->capabilities.ttl_min_reason, error);
    return r < 0 ? r : make_fleet(member, options, error);
}

static void free_member(tenure_member *member) {
    ten_carrier_free(&member->carrier);
    ten_fleet_free(member->fleet);
    ten_beliefs_free(&member->own_beliefs);
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
    if (extras)
        member->extras = *extras;
    member->carrier.hooks = &hooks;
    member->carrier.owner = member;
    member->carrier.namespace_name = member->namespace_name;
    int r = ten_carrier_open(&member->carrier, &ten_system_clock, &error);
    member->carrier.events.seen = on_put;
    member->carrier.events.userdata = member;
    if (r == TENURE_OK)
        r = configure(member, url, options, &error);
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
    if (!ten_process_is(member->carrier.process))
        return fail(member, TENURE_E_FORKED, "this fleet member belongs to the parent of this process");
    if (member->carrier.started)
        return fail(member, TENURE_E_INVALID, "the fleet member has been started before");
    int refused = ten_carrier_start(&member->carrier);
    return refused
               ? fail(member, TENURE_E_SYSTEM, "cannot start the fleet member's thread: %s", strerrordesc_np(refused))
               : TENURE_OK;
}

/* ---- waiting; the lock is held */

/* The thread has ended: nobody answers any more. */
static void cancel_questions(tenure_member *member) {
    for (struct question *question = member->questions; question; question = question->next) {
        question->answer = question->answered ? question->answer : TENURE_E_CANCELLED;
        question->answered = true;
    }
    member->stopped = true;
    pthread_cond_broadcast(&member->carrier.changed);
}

int tenure_member_stop(tenure_member *member, uint64_t wait_ms) {
    ten_carrier *carrier = &member->carrier;
    if (!ten_process_is(carrier->process) || !carrier->started)
        return TENURE_OK;
    struct timespec end = ten_monotonic_end(wait_ms);
    ten_member_begin_stop(member);
    lock(member);
    int waited = 0;
    while (!member->stopped && waited == 0)
        waited = pthread_cond_timedwait(&carrier->changed, &carrier->lock, &end);
    bool in_time = member->stopped;
    member->quit = true;
    unlock(member);
    ten_carrier_join(carrier);
    lock(member);
    cancel_questions(member);
    unlock(member);
    return in_time
               ? TENURE_OK
               : fail(member, TENURE_E_TIMEOUT, "not everything could be released in time; the rest ends by its TTL");
}

void ten_member_begin_stop(tenure_member *member) {
    lock(member);
    ten_fleet_stop(member->fleet, now_ms(member));
    unlock(member);
    ten_carrier_wake(&member->carrier);
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
    if (!ten_process_is(member->carrier.process))
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
static void leave(tenure_member *member) {
    unlock(member);
    ten_carrier_wake(&member->carrier);
}

int tenure_member_put_target(tenure_member *member, const char *target, bool paused) {
    int r = check(member, target);
    if (r < 0)
        return r;
    if (member->targets_from_store)
        return fail(member, TENURE_E_INVALID, "the targets of this fleet member come from the store's registry");
    lock(member);
    uint32_t number = ten_fleet_put_target(member->fleet, now_ms(member), target, paused);
    if (number != TEN_PLAN_NONE) {
        ten_fleet_targets_settled(member->fleet, now_ms(member));
    }
    leave(member);
    return number == TEN_PLAN_NONE ? fail(member, TENURE_E_NOMEM, "out of memory for the target %s", target)
                                   : TENURE_OK;
}

int tenure_member_remove_target(tenure_member *member, const char *target) {
    int r = check(member, target);
    if (r < 0)
        return r;
    lock(member);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE)
        ten_fleet_remove_target(member->fleet, now_ms(member), number);
    leave(member);
    return number == TEN_PLAN_NONE ? unknown(member, target) : TENURE_OK;
}

int tenure_member_try_acquire(tenure_member *member, const char *target, bool *ret_acquired) {
    int r = check(member, target);
    if (r < 0)
        return r;
    if (!member->carrier.started)
        return fail(member, TENURE_E_INVALID, "start the fleet member first");
    struct timespec end = ten_monotonic_end(member->timing.timeout_ms * 2);
    lock(member);
    uint32_t number = ten_fleet_claim(member->fleet, now_ms(member), target);
    if (number == TEN_PLAN_NONE) {
        unlock(member);
        return fail(member, TENURE_E_NOMEM, "out of memory for the target %s", target);
    }
    struct claim claim = {.target = target, .next = member->claims};
    claim.acquired = claim.answered = ten_fleet_may_work(member->fleet, number, now_ms(member));
    // cppcheck-suppress autoVariables ; it is taken out again before this returns
    member->claims = &claim;
    ten_carrier_wake(&member->carrier);
    int waited = 0;
    while (!claim.answered && !member->stopped && waited == 0)
        waited = pthread_cond_timedwait(&member->carrier.changed, &member->carrier.lock, &end);
    for (struct claim **at = &member->claims; *at; at = &(*at)->next) {
        if (*at == &claim) {
            *at = claim.next;
            break;
        }
    }
    if (!claim.acquired)
        ten_fleet_unclaim(member->fleet, now_ms(member), number);
    leave(member);
    if (!claim.answered)
        return fail(member, TENURE_E_TIMEOUT, "the store did not answer about %s in time", target);
    *ret_acquired = claim.acquired;
    return TENURE_OK;
}

int tenure_member_release(tenure_member *member, const char *target) {
    int r = check(member, target);
    if (r < 0)
        return r;
    lock(member);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE)
        ten_fleet_unclaim(member->fleet, now_ms(member), number);
    leave(member);
    return number == TEN_PLAN_NONE ? unknown(member, target) : TENURE_OK;
}

int tenure_member_begin(tenure_member *member, const char *target, uint64_t *ret_token) {
    int r = check(member, target);
    if (r < 0)
        return r;
    lock(member);
    uint64_t now = now_ms(member);
    uint32_t number = find(member, target);
    bool owned = number != TEN_PLAN_NONE && ten_fleet_may_work(member->fleet, number, now);
    if (owned) {
        ten_fleet_busy(member->fleet, now, number, true);
        *ret_token = ten_fleet_holding(member->fleet, number)->token;
    }
    unlock(member);
    return owned ? TENURE_OK
                 : fail(member, TENURE_E_LOST, "%s may not be worked on: it is not held and confirmed", target);
}

void tenure_member_end(tenure_member *member, const char *target) {
    if (check(member, target) < 0)
        return;
    lock(member);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE)
        ten_fleet_busy(member->fleet, now_ms(member), number, false);
    leave(member);
}

int tenure_member_set_weight(tenure_member *member, uint32_t weight) {
    if (!ten_process_is(member->carrier.process))
        return fail(member, TENURE_E_FORKED, "this fleet member belongs to the parent of this process");
    lock(member);
    ten_fleet_set_weight(member->fleet, now_ms(member), weight);
    leave(member);
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
    lock(member);
    uint32_t number = find(member, target);
    unlock(member);
    return number == TEN_PLAN_NONE ? NULL : &member->beliefs->beliefs[number];
}

bool tenure_member_is_held(tenure_member *member, const char *target) {
    const tenure_handle *handle = tenure_member_handle(member, target);
    return handle && tenure_handle_is_held(handle);
}

/* A boot time as Unix time, for display. */
static uint64_t unix_ms(const tenure_member *member, uint64_t boot_ms) {
    return boot_ms ? ten_wall_ms(member->carrier.clock) - ten_sub_saturating(now_ms(member), boot_ms) : 0;
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
    lock(member);
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
    unlock(member);
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
        lock(member);
        bool more = i < (owned ? ten_plan_target_bound(plan) : ten_plan_instance_bound(plan));
        const char *found = NULL;
        if (more && owned && ten_fleet_holding(member->fleet, i)->deadline_ms > now_ms(member))
            found = ten_plan_target_id(plan, i);
        else if (more && !owned)
            found = ten_plan_instance_id(plan, i);
        if (found)
            snprintf(name, sizeof name, "%s", found);
        unlock(member);
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
    struct question question = {.target = target, .token = token};
    struct timespec end = ten_monotonic_end(member->timing.timeout_ms * 2);
    lock(member);
    question.next = member->questions;
    // cppcheck-suppress autoVariables ; it is taken out again before this returns
    member->questions = &question;
    ten_carrier_wake(&member->carrier);
    int waited = 0;
    /* Once it is taken, the answer comes: the call on the store is bounded. */
    while (!question.answered && (waited == 0 || question.taken))
        waited = question.taken ? pthread_cond_wait(&member->carrier.changed, &member->carrier.lock)
                                : pthread_cond_timedwait(&member->carrier.changed, &member->carrier.lock, &end);
    for (struct question **at = &member->questions; *at; at = &(*at)->next) {
        if (*at == &question) {
            *at = question.next;
            break;
        }
    }
    unlock(member);
    return question.answered ? question.answer : TENURE_E_TIMEOUT;
}

int tenure_member_strict_check(tenure_member *member, const char *target) {
    int r = check(member, target);
    if (r < 0)
        return r;
    lock(member);
    uint32_t number = find(member, target);
    uint64_t token = number != TEN_PLAN_NONE ? ten_fleet_holding(member->fleet, number)->token : 0;
    unlock(member);
    if (!member->carrier.started || !tenure_member_is_held(member, target))
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
    ten_carrier *carrier = &member->carrier;
    lock(member);
    tenure_event event;
    int waited = 0;
    bool found = false;
    for (;;) {
        while (!found && ten_event_queue_take(&carrier->events, &event))
            found = event.kind != TENURE_EVENT_TARGET_REMOVED;
        if (found || waited != 0)
            break;
        waited = pthread_cond_timedwait(&carrier->changed, &carrier->lock, &end);
    }
    unlock(member);
    if (!found)
        return fail(member, TENURE_E_TIMEOUT, "no event came in time");
    hide_reason(&event);
    *ret_event = event;
    return TENURE_OK;
}
