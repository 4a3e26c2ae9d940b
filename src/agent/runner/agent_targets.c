/*
 * The targets that an agent knows: their numbers and leases, and how one comes, changes and goes. Registrations arrive
 * from the store, by the fleet member, or from a source, and are passed on to the fleet member then.
 */
#include <string.h>

#include "agent/runner/agent_state.h"
#include "base/alloc.h"
#include "runtime/member.h"

void ten_agent_free_target(struct ten_agent *agent, struct ten_agent_target *target) {
    if (agent->policy->forget)
        agent->policy->forget(agent, target);
    ten_free(target->spec);
    ten_free(target);
}

/* Whether there is a lease at all: also one that may not be used right now, because it is uncertain, or about to be
 * released, which can still change without an event. */
bool ten_agent_is_held(const struct ten_agent_target *target) {
    return target->handle.belief && ten_belief_ends_ms(target->handle.belief) != 0;
}

/* If the fleet member does not know the target any more, the handle stays what it was: it is never held again. */
void ten_agent_take_handle(struct ten_agent *agent, struct ten_agent_target *target) {
    (void)tenure_member_handle(agent->member, target->id, &target->handle);
}

static bool give_number(struct ten_agent *agent, struct ten_agent_target *target) {
    uint32_t number = agent->first_free;
    uint32_t room = agent->target_room;
    while (number < agent->target_room && agent->targets[number])
        number++;
    agent->first_free = number;
    if (!TEN_GROW(agent->targets, agent->target_room, number + 1))
        return false;
    memset(agent->targets + room, 0, (agent->target_room - room) * sizeof(struct ten_agent_target *));
    if (!ten_timers_reserve(&agent->starts, number + 1) || !ten_timers_reserve(&agent->checks, number + 1) ||
        !ten_map_put(&agent->by_id, target->spec->id, target))
        return false;
    target->id = ten_map_key(&agent->by_id, target->spec->id);
    target->number = number;
    agent->targets[number] = target;
    return true;
}

void ten_agent_drop_target(struct ten_agent *agent, struct ten_agent_target *target) {
    target->removed = true;
    target->due_ms = 0; /* should it come back while its run is finished, it is scheduled anew */
    ten_timers_clear(&agent->starts, target->number);
    if (target->run || target->sending || target->writing)
        return; /* its runs are finished first */
    (void)ten_map_remove(&agent->by_id, target->spec->id);
    agent->targets[target->number] = NULL;
    agent->first_free = (uint32_t)ten_min_u64(agent->first_free, target->number);
    ten_agent_free_target(agent, target);
}

static void refuse(const struct ten_agent *agent, const char *id, const char *why) {
    TEN_LOG(agent->runner.log, TEN_LOG_ERROR, "target_refused", TEN_TEXT("target", id), TEN_TEXT("error", why));
}

/* Of a target from a source the fleet member does not know yet. */
static bool pass_on(struct ten_agent *agent, const struct ten_agent_spec *spec) {
    int r = tenure_member_put(agent->member, spec->id, spec->paused ? TENURE_PAUSED : 0);
    if (r == TENURE_E_TOO_MANY && !agent->source_read)
        agent->refused = r;
    if (r < 0)
        refuse(agent, spec->id, tenure_message(agent->member));
    return r >= 0;
}

static struct ten_agent_target *add_target(struct ten_agent *agent, struct ten_agent_spec *spec) {
    struct ten_agent_target *target = ten_calloc(1, sizeof *target);
    if (target)
        target->spec = spec;
    if (target && give_number(agent, target))
        return target;
    refuse(agent, spec->id, "out of memory");
    ten_free(target);
    atomic_store(&agent->targets_lost, true);
    return NULL;
}

static void remove_target(struct ten_agent *agent, struct ten_agent_target *target) {
    if (!target || (agent->source && target->removed))
        return;
    if (agent->source)
        (void)tenure_member_remove(agent->member, target->id);
    ten_agent_drop_target(agent, target);
}

/* The specification becomes the target's, or is freed. */
void ten_agent_take_spec(struct ten_agent *agent, struct ten_agent_spec *spec) {
    struct ten_agent_target *target = ten_map_get(&agent->by_id, spec->id);
    struct ten_agent_spec *before = target ? target->spec : NULL;
    if (spec->removed)
        remove_target(agent, target);
    if (spec->removed || (agent->source && !pass_on(agent, spec)) || (!target && !(target = add_target(agent, spec)))) {
        ten_free(spec);
        return;
    }
    target->spec = spec;
    target->removed = false;
    agent->policy->specified(agent, target, before);
    ten_free(before);
    ten_agent_take_handle(agent, target);
    if (ten_agent_is_held(target) && !target->due_ms)
        agent->policy->granted(agent, target);
}
