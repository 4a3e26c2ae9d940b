/*
 * What the carrier of a fleet member does for it: it publishes what may be believed, counts, and tells the program.
 */
#include <string.h>

#include "runtime/member_state.h"

/* ---- what changes */

void ten_member_publish(void *userdata, uint32_t number) {
    tenure_member *member = userdata;
    ten_belief *belief = &member->beliefs->beliefs[number];
    const ten_holding *holding = ten_fleet_holding(member->fleet, number);
    atomic_store_explicit(&belief->process, member->carrier.process, memory_order_relaxed);
    atomic_store_explicit(&belief->token, holding->token, memory_order_relaxed);
    ten_belief_set(belief, holding->deadline_ms, ten_holding_may_work(holding, ten_member_now_ms(member)));
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
    for (struct ten_claim *claim = member->claims; claim; claim = claim->next) {
        bool concerned = event->target[0] == '\0' || strcmp(event->target, claim->target) == 0;
        if (!claim->answered && concerned && (acquired || refused)) {
            claim->answered = true;
            claim->acquired = acquired;
        }
    }
}

void ten_member_on_put(void *userdata, const tenure_event *event) {
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

static void take_row(void *owner, const ten_row *row) {
    const tenure_member *member = owner;
    if (member->targets_from_store && row->registered && member->extras.on_target)
        member->extras.on_target(&row->target, false, member->extras.userdata);
}

void ten_member_hide_reason(tenure_event *event) {
    if (event->kind == TENURE_EVENT_ACQUIRED)
        event->reason = "";
}

static void tell(const tenure_member *member, tenure_event *event) {
    ten_member_hide_reason(event);
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
    ten_member_lock(member);
    struct ten_question *question = member->questions;
    while (question && question->answered)
        question = question->next;
    if (question)
        question->taken = true;
    ten_member_unlock(member);
    if (!question)
        return false;
    ten_op op = {.kind = TEN_OP_READ, .namespace_name = member->namespace_name, .target = question->target};
    ten_result result;
    int r = ten_store_apply(carrier->store, &op, &result, 1, carrier->timeout_ms);
    ten_member_lock(member);
    if (r == TENURE_OK && !(result.holder && strcmp(result.holder, member->instance) == 0 &&
                            result.token == question->token && !result.barred))
        r = TENURE_E_LOST;
    question->answer = r;
    question->answered = true;
    pthread_cond_broadcast(&carrier->changed);
    ten_member_unlock(member);
    return true;
}

const ten_carrier_hooks ten_member_hooks = {.is_over = is_over,
                                            .answered = measure,
                                            .changed = measure_fleet,
                                            .row = take_row,
                                            .deliver = deliver,
                                            .serve = answer_question};
