/*
 * The fleet member of the C API: the fleet (core/fleet.h) as a task of its context's carrier. Here are its life and
 * what the carrier does for it: it publishes what may be believed, counts, and tells the program.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/random.h"
#include "runtime/member_state.h"
#include "runtime/metadata.h"

#define STOP_MIN_MS     1000u
#define TARGETS_DEFAULT 4000000u

/* ---- what changes; with the lock */

static bool make_room(void *userdata, uint32_t number) {
    const tenure_member *member = userdata;
    return ten_beliefs_reserve(member->beliefs, number);
}

static void publish(tenure_member *member, uint32_t number) {
    ten_belief *belief = ten_beliefs_at(member->beliefs, number);
    ten_holding holding = ten_fleet_holding(member->fleet, number);
    if (!belief)
        return; /* the fleet has no such number: see max_targets */
    bool known = ten_fleet_knows(member->fleet, number);
    ten_belief_set(belief, 0, false);
    if (member->extras.on_checkpoint && !ten_holding_is_held(&holding) && known)
        ten_checkpoints_drop(&member->checkpoints, ten_plan_target_id(ten_fleet_plan(member->fleet), number));
    if (!known) /* handles on the target that it was are about none any more */
        atomic_fetch_add_explicit(&belief->generation, 1, memory_order_release);
    atomic_store_explicit(&belief->token, holding.token, memory_order_relaxed);
    ten_belief_set(belief, holding.deadline_ms, ten_holding_may_work(&holding, ten_member_now_ms(member)));
    uint64_t last_end_ms = atomic_load_explicit(member->beliefs->last_end_ms, memory_order_relaxed);
    if (ten_fleet_owned_count(member->fleet) == 0)
        last_end_ms = 0;
    atomic_store_explicit(member->beliefs->last_end_ms, ten_max_u64(last_end_ms, holding.deadline_ms),
                          memory_order_release);
}

static void take_grant(tenure_member *member, uint32_t number, const ten_result *result) {
    const char *target = ten_plan_target_id(ten_fleet_plan(member->fleet), number);
    if (member->extras.on_store_clock && result->acquired_at_ms)
        member->extras.on_store_clock(result->acquired_at_ms, member->extras.userdata);
    if (!ten_checkpoints_grant(&member->checkpoints, target, result->token, result->checkpoint))
        member->extras.on_checkpoint(target, result->token, TENURE_E_NOMEM, member->extras.userdata);
}

static void answer_claims(tenure_member *member, const tenure_event *event) {
    bool acquired = event->kind == TENURE_EVENT_ACQUIRED;
    bool refused = event->kind == TENURE_EVENT_ACQUIRE_FAILED || event->kind == TENURE_EVENT_RECOVERING ||
                   event->kind == TENURE_EVENT_STORE_DOWN || event->kind == TENURE_EVENT_REFUSED;
    for (struct ten_claim *claim = member->claims; claim; claim = claim->next) {
        bool concerned = event->target[0] == '\0' || strcmp(event->target, claim->target) == 0;
        if (!claim->answered && concerned && (acquired || refused)) {
            claim->answered = true;
            claim->acquired = acquired;
            claim->error = acquired ? TENURE_OK : event->error ? event->error : TENURE_E_HELD;
        }
    }
}

/* Each event, as it happens. */
static void note_event(tenure_member *member, const tenure_event *event) {
    if (member->extras.measures && event->kind == TENURE_EVENT_ACQUIRED)
        ten_measures_taken_over(member->extras.measures, ten_reason_parse(event->reason));
    answer_claims(member, event);
    if (event->kind == TENURE_EVENT_STOPPED)
        member->stopped = true;
    pthread_cond_broadcast(&member->carrier->changed);
}

static void on_fact(void *userdata, const ten_fact *fact) {
    tenure_member *member = userdata;
    const ten_member_extras *extras = &member->extras;
    if (fact->kind == TEN_FACT_EVENT)
        note_event(member, fact->event);
    else if (fact->kind == TEN_FACT_BELIEF)
        publish(member, fact->target);
    else if (fact->kind == TEN_FACT_GRANTED && extras->on_checkpoint)
        take_grant(member, fact->target, fact->result);
    else if (fact->kind == TEN_FACT_WRITTEN)
        extras->on_checkpoint(fact->id, fact->token, fact->error, extras->userdata);
}

/* ---- for the carrier */

/* What a request tells about this instance, before its answer is taken. */
static void measure(void *owner, const ten_call *call, uint64_t took_us, int error, const ten_result *results) {
    const tenure_member *member = owner;
    ten_measures *measures = member->extras.measures;
    (void)results;
    if (!measures)
        return;
    ten_measures_answered(measures, error);
    /* The oldest lease is renewed first: if there is a renewal at all, it stands right behind the heartbeat. */
    const ten_op *ops = call->ops;
    bool renewal =
        ops[0].kind == TEN_OP_RENEW || (call->count > 1 && ops[1].kind == TEN_OP_RENEW) ||
        (ops[0].flags & TEN_OP_SESSION && ops[0].kind == TEN_OP_ANNOUNCE && ten_fleet_owned_count(member->fleet) > 0);
    if (renewal)
        ten_measures_renewed(measures, took_us, ten_fleet_margin_ms(member->fleet, ten_member_now_ms(member)), error);
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

/* Not what is one too many for the fleet. */
static bool knows(const tenure_member *member, const char *target) {
    ten_carrier_lock(member->carrier);
    bool known = ten_plan_find_target(ten_fleet_plan(member->fleet), target) != TEN_PLAN_NONE;
    ten_carrier_unlock(member->carrier);
    return known;
}

static void take_row(void *owner, const ten_row *row) {
    const tenure_member *member = owner;
    if (member->targets_from_store && row->registered && member->extras.on_target && knows(member, row->target.id))
        member->extras.on_target(&row->target, false, member->extras.userdata);
}

static bool pending(const void *owner) {
    const tenure_member *member = owner;
    return member->on_event && member->task.events.count > 0;
}

static void tell(void *owner) {
    tenure_member *member = owner;
    tenure_event event;
    while (ten_task_take_event(&member->task, &event)) {
        ten_member_hide_reason(&event);
        if (event.kind != TENURE_EVENT_TARGET_REMOVED)
            member->on_event(&event, member->userdata);
        else if (member->extras.on_target)
            member->extras.on_target(&(tenure_target){.id = event.target}, true, member->extras.userdata);
    }
}

static const ten_task_hooks hooks = {
    .answered = measure, .changed = measure_fleet, .row = take_row, .pending = pending, .tell = tell};

static const ten_task_hooks checkpoint_hooks = {0};

/* ---- the end of its context */

static void begin_end(ten_object *object) {
    tenure_member *member = (tenure_member *)object;
    if (!member->stopping)
        ten_fleet_stop(member->fleet, ten_member_now_ms(member));
    member->stopping = true;
}

static bool is_ended(const ten_object *object) {
    return ((const tenure_member *)object)->stopped;
}

static bool may_hold(const ten_object *object) {
    const tenure_member *member = (const tenure_member *)object;
    return !member->stopped && ten_fleet_is_announced(member->fleet);
}

/* Nothing is answered from now on, and nothing is believed. */
static void end(ten_object *object) {
    tenure_member *member = (tenure_member *)object;
    if (member->checkpoint_task.channel)
        ten_task_remove(&member->checkpoint_task);
    ten_task_remove(&member->task);
    uint32_t bound = ten_plan_target_bound(ten_fleet_plan(member->fleet));
    for (uint32_t i = 0; i < bound; i++)
        if (ten_beliefs_at(member->beliefs, i))
            ten_belief_set(ten_beliefs_at(member->beliefs, i), 0, false);
}

static const ten_object_ends ends = {.begin = begin_end, .is_ended = is_ended, .may_hold = may_hold, .end = end};

/* ---- opening */

/* A task of its own on the same channel: what is written there never delays a renewal by more than one call. */
static int open_checkpoints(tenure_member *member, ten_error *error) {
    ten_task *task = &member->checkpoint_task;
    int r = ten_task_open(task, member->carrier, TEN_CHECKPOINTS_BATCH, member->namespace_name, error);
    if (r < 0)
        return r;
    task->hooks = &checkpoint_hooks;
    task->owner = member;
    member->checkpoints.namespace_name = member->namespace_name;
    member->checkpoints.instance = member->instance;
    member->checkpoints.events = &member->task.events;
    ten_task_begin(task, (ten_engine_config){.step = ten_checkpoints_step,
                                             .due = ten_checkpoints_due,
                                             .part = &member->checkpoints,
                                             .backoff_max_ms = member->timing.renew_ms / 4});
    return TENURE_OK;
}

static int make_fleet(tenure_member *member, const tenure_member_options *options, ten_error *error) {
    if (member->extras.beliefs)
        member->beliefs = member->extras.beliefs;
    else if (ten_beliefs_open(&member->own_beliefs, TEN_BELIEFS_MAX))
        member->beliefs = &member->own_beliefs;
    else
        return ten_fail_memory(error, "a fleet member");
    const char *isolation = member->extras.isolation;
    ten_metadata_write(&(ten_metadata){.isolation = isolation, .identity = ten_buf_string(member->identity)},
                       &member->metadata);
    if (member->metadata.failed)
        return ten_fail_memory(error, "a fleet member");
    ten_fleet_config config = {
        .namespace_name = member->namespace_name,
        .instance = member->instance,
        .timing = member->timing,
        .settle_ms = options->settle_ms ? options->settle_ms : TEN_FLEET_SETTLE_MS,
        .weight = options->weight ? options->weight : 1,
        .seed = ten_random_u64(),
        .metadata = ten_buf_string(&member->metadata),
        .batch_max = TEN_FLEET_BATCH,
        .registry = member->targets_from_store,
        .hands = member->task.channel->store->capabilities.hands,
        .sessions = member->task.channel->store->capabilities.sessions,
        .targets_max =
            (uint32_t)ten_min_u64(options->max_targets ? options->max_targets : TARGETS_DEFAULT, member->beliefs->room),
        .checkpoints = member->extras.on_checkpoint != NULL,
        .events = &member->task.events,
        .make_room = make_room,
        .userdata = member};
    member->fleet = ten_fleet_new(&config, ten_member_now_ms(member));
    if (!member->fleet)
        return ten_fail_memory(error, "a fleet member");
    ten_task_begin(&member->task,
                   (ten_engine_config){.step = ten_fleet_step,
                                       .due = ten_fleet_due,
                                       .part = member->fleet,
                                       .backoff_max_ms = member->timing.renew_ms / 4,
                                       .feed_gap_ms = ten_max_u64(member->timing.ttl_ms / TEN_FLEET_FEED_PART, 1),
                                       .feed_size = TEN_FLEET_FEED,
                                       .page_size = TEN_FLEET_PAGE,
                                       .lists = true,
                                       .registrations = member->targets_from_store});
    return TENURE_OK;
}

static int prepare(tenure_member *member, tenure_context *context, const tenure_member_options *options,
                   ten_error *error) {
    ten_task *task = &member->task;
    member->carrier = &context->carrier;
    member->timing = context->timing;
    member->identity = &context->identity;
    member->targets_from_store = options->flags & TENURE_TARGETS_FROM_STORE;
    member->on_event = options->on_event;
    member->userdata = options->userdata;
    memcpy(member->instance, context->instance, sizeof member->instance);
    snprintf(member->namespace_name, sizeof member->namespace_name, "%s",
             options->namespace_name ? options->namespace_name : context->namespace_name);
    ten_checkpoints_init(&member->checkpoints);
    int r = ten_task_open(task, member->carrier, TEN_FLEET_BATCH + 2, member->namespace_name, error);
    if (r < 0)
        return r;
    task->hooks = &hooks;
    task->owner = member;
    task->events.publish = on_fact;
    task->events.userdata = member;
    task->events.unbounded = member->on_event != NULL;
    r = make_fleet(member, options, error);
    return r < 0 || !member->extras.on_checkpoint ? r : open_checkpoints(member, error);
}

static void free_member(ten_object *object) {
    tenure_member *member = (tenure_member *)object;
    ten_task_free(&member->task);
    ten_task_free(&member->checkpoint_task);
    ten_checkpoints_free(&member->checkpoints);
    ten_fleet_free(member->fleet);
    ten_beliefs_free(&member->own_beliefs);
    ten_buf_free(&member->metadata);
    ten_object_free(member);
}

static int check_options(tenure_context *context, const tenure_member_options *options, tenure_member **ret_member) {
    ten_error error;
    int r = ten_flags_check(context, options->flags, TENURE_TARGETS_FROM_STORE);
    if (r == TENURE_OK && !ret_member)
        r = ten_last_error_say(context, TENURE_E_INVALID, "there is no place for the fleet member");
    if (r == TENURE_OK && options->namespace_name && ten_id_check_namespace(options->namespace_name, &error) < 0)
        r = ten_last_error_set(context, &error);
    if (r == TENURE_OK && options->max_targets > TEN_BELIEFS_MAX)
        r = ten_last_error_say(context, TENURE_E_INVALID, "max_targets must be at most %u, and is %u", TEN_BELIEFS_MAX,
                               options->max_targets);
    if (r == TENURE_OK && options->settle_ms > TENURE_TTL_MAX_MS)
        r = ten_last_error_say(context, TENURE_E_INVALID,
                               "settle_ms must be at most 31622400000 (366 days), and is %llu",
                               (unsigned long long)options->settle_ms);
    return r;
}

int ten_member_open(tenure_context *context, const tenure_member_options *options, const ten_member_extras *extras,
                    tenure_member **ret_member) {
    ten_error error = {0};
    tenure_member_options own;
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK)
        r = ten_struct_read(context, "tenure_member_options", options, &own, sizeof own);
    if (r == TENURE_OK)
        r = check_options(context, &own, ret_member);
    if (r < 0)
        return r;
    tenure_member *member = ten_calloc(1, sizeof *member);
    if (!member)
        return ten_last_error_say(context, TENURE_E_NOMEM, "out of memory for a fleet member");
    member->object.ends = &ends;
    member->object.namespace_name = member->namespace_name;
    if (extras)
        member->extras = *extras;
    r = prepare(member, context, &own, &error);
    if (r == TENURE_OK)
        r = ten_carrier_start(member->carrier, &error);
    if (r < 0)
        ten_last_error_set(context, &error);
    else
        r = ten_context_adopt(context, &member->object, TEN_OBJECT_MEMBER);
    if (r < 0) {
        free_member(&member->object);
        return r;
    }
    *ret_member = member; /* before the first event */
    ten_task_add(&member->task);
    if (member->checkpoint_task.channel)
        ten_task_add(&member->checkpoint_task);
    return TENURE_OK;
}

int tenure_member_open(tenure_context *context, const tenure_member_options *options, tenure_member **ret_member) {
    return ten_member_open(context, options, NULL, ret_member);
}

/* ---- the end */

void ten_member_begin_stop(tenure_member *member) {
    if (ten_object_check(member, TEN_OBJECT_MEMBER) < 0)
        return;
    ten_carrier_lock(member->carrier);
    begin_end(&member->object);
    ten_carrier_unlock(member->carrier);
}

static bool is_stopped(const void *arg) {
    return is_ended(arg);
}

/* Waits for work until the caller's time-out, but for the store's answers in any case: those are few requests. */
static int stop(tenure_member *member, uint64_t wait_ms, bool cancellable) {
    ten_carrier *carrier = member->carrier;
    ten_carrier_lock(carrier);
    begin_end(&member->object);
    if (!ten_fleet_is_busy(member->fleet))
        wait_ms = ten_max_u64(wait_ms, ten_max_u64(2 * member->timing.timeout_ms, STOP_MIN_MS));
    uint64_t end_ms = ten_add_saturating(ten_member_now_ms(member), wait_ms);
    int r = cancellable ? ten_carrier_wait(carrier, &member->task, is_stopped, member, end_ms)
                        : ten_carrier_await(carrier, &member->task, is_stopped, member, end_ms);
    ten_carrier_unlock(carrier);
    return r;
}

bool ten_member_list_again(tenure_member *member) {
    if (!member->targets_from_store)
        return false;
    ten_carrier_lock(member->carrier);
    ten_engine_event relist = {.kind = TEN_ON_RELIST, .now_ms = ten_member_now_ms(member)};
    ten_engine_step(&member->task.engine, &relist, NULL);
    ten_carrier_unlock(member->carrier);
    return true;
}

int tenure_member_stop(tenure_member *member, uint64_t wait_ms) {
    int r = ten_object_check_waiting(member, TEN_OBJECT_MEMBER);
    if (r == TENURE_OK)
        r = stop(member, wait_ms, true);
    if (r == TENURE_E_CANCELLED)
        return ten_last_error_say(member, r, "waiting for the end of the fleet member's work was cancelled");
    return r == TENURE_E_TIMEOUT
               ? ten_last_error_say(member, r,
                                    "not everything could be released in time: work is still under way, or the store "
                                    "did not answer; what is busy is released at its tenure_member_end()")
               : r;
}

static void stop_and_end(ten_object *object) {
    tenure_member *member = (tenure_member *)object;
    if (!member->stopping)
        (void)stop(member, 0, false);
    end(object);
}

void tenure_member_close(tenure_member *member) {
    ten_context_close_object(member, TEN_OBJECT_MEMBER, __func__, stop_and_end, free_member);
}
