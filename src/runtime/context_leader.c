/*
 * Who leads a role, and every change of it; and asking a leader to resign. For programs that do not campaign.
 */
#include <string.h>

#include "base/id.h"
#include "runtime/context_state.h"

/* The store of the roles' namespace. It stays open until another namespace is asked for, so that asking again and again
 * costs no connection each time. leave_roles() follows. */
static int enter_roles(tenure_context *context, const char *namespace_name, const char *role,
                       ten_channel **ret_channel) {
    ten_error error;
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && !role)
        r = ten_last_error_say(context, TENURE_E_INVALID, "no role was given");
    if (r == TENURE_OK)
        r = ten_context_check_target(context, role);
    if (r < 0)
        return r;
    ten_carrier *carrier = &context->carrier;
    namespace_name = namespace_name ? namespace_name : "leader";
    r = ten_id_check_namespace(namespace_name, &error);
    if (r == TENURE_OK)
        r = ten_carrier_open_channel(carrier, namespace_name, ret_channel, &error);
    if (r < 0)
        return ten_last_error_set(context, &error);
    ten_carrier_lock(carrier);
    ten_channel *former = context->roles;
    if (former != *ret_channel) {
        context->roles = *ret_channel;
        (*ret_channel)->users++;
    }
    ten_carrier_unlock(carrier);
    if (former && former != *ret_channel)
        ten_carrier_close_channel(carrier, former);
    return TENURE_OK;
}

static int leave_roles(tenure_context *context, ten_channel *channel, int r) {
    ten_carrier_close_channel(&context->carrier, channel);
    return r;
}

static int read_leader(tenure_context *context, ten_channel *channel, const char *role, tenure_leader *ret_leader) {
    ten_op op = {.kind = TEN_OP_READ, .target = role};
    ten_result result;
    char holder[TENURE_HOLDER_MAX + 1];
    int r = ten_context_apply(context, channel, &op, &result, holder);
    if (r < 0)
        return r;
    *ret_leader = (tenure_leader){.size = sizeof *ret_leader};
    if (result.holder) {
        snprintf(ret_leader->instance, sizeof ret_leader->instance, "%s", result.holder);
        ret_leader->token = result.token;
        ret_leader->remaining_ms = result.remaining_ms;
        ret_leader->since_ms = result.acquired_at_ms;
    }
    return TENURE_OK; /* a role that was never led has no leader */
}

int tenure_leader_read(tenure_context *context, const char *namespace_name, const char *role,
                       tenure_leader *ret_leader) {
    tenure_leader leader;
    ten_channel *channel;
    int r = enter_roles(context, namespace_name, role, &channel);
    if (r < 0)
        return r;
    r = ten_struct_check(context, "tenure_leader", ret_leader);
    if (r == TENURE_OK)
        r = read_leader(context, channel, role, &leader);
    if (r == TENURE_OK)
        ten_struct_write(ret_leader, &leader, sizeof leader);
    return leave_roles(context, channel, r);
}

struct observation {
    const char *role;
    tenure_leader_fn each;
    void *userdata;
    tenure_leader last;
    bool told;
    uint64_t token; /* the highest that was reported: the feed may be behind what was read */
    int stopped;    /* what `each` returned */
};

static void tell(struct observation *observation, const tenure_leader *leader) {
    const tenure_leader *last = &observation->last;
    bool same = last->token == leader->token && strcmp(last->instance, leader->instance) == 0;
    if (observation->stopped != 0 || (same && observation->told))
        return;
    observation->last = *leader;
    observation->told = true;
    observation->token = ten_max_u64(observation->token, leader->token);
    observation->stopped = observation->each(leader, observation->userdata);
}

static int take_change(const tenure_change *change, void *userdata) {
    struct observation *observation = userdata;
    tenure_leader leader = {.size = sizeof leader};
    if (strcmp(change->target, observation->role) != 0 || change->token < observation->token)
        return 0;
    if (change->kind == TENURE_EVENT_ACQUIRED) {
        snprintf(leader.instance, sizeof leader.instance, "%s", change->instance);
        leader.token = change->token;
        leader.since_ms = change->at_ms;
        tell(observation, &leader);
    } else if (change->kind == TENURE_EVENT_RELEASED) {
        tell(observation, &leader);
    }
    return observation->stopped;
}

/* The feed tells of every change but one: a lease that ends by itself. So the present leader is read again when it
 * should have ended, unless it was renewed meanwhile. What is read and newer than what the feed has brought so far is
 * left to the feed: there may have been others in between. */
static int observe(tenure_context *context, ten_channel *channel, struct observation *observation) {
    uint64_t cursor = 0;
    bool anew = true; /* at the beginning, and when changes were missed */
    int r = ten_context_watch_start(context, channel, &cursor);
    while (r == TENURE_OK && observation->stopped == 0) {
        tenure_leader leader;
        r = read_leader(context, channel, observation->role, &leader);
        if (r < 0)
            break;
        if (anew || leader.token <= observation->token)
            tell(observation, &leader);
        uint64_t wait_ms = leader.instance[0] ? leader.remaining_ms + 1 : UINT64_MAX;
        if (observation->stopped == 0)
            r = ten_context_watch_wait(context, channel, &cursor, wait_ms, take_change, observation);
        anew = r == TENURE_E_RESYNC;
        if (anew)
            r = TENURE_OK;
    }
    return observation->stopped ? observation->stopped : r;
}

int tenure_leader_observe(tenure_context *context, const char *namespace_name, const char *role, tenure_leader_fn each,
                          void *userdata) {
    struct observation observation = {.role = role, .each = each, .userdata = userdata};
    ten_channel *channel;
    int r = enter_roles(context, namespace_name, role, &channel);
    if (r < 0)
        return r;
    ten_object_use use;
    ten_object_use_begin(&use, context);
    r = each ? observe(context, channel, &observation)
             : ten_last_error_say(context, TENURE_E_INVALID, "no function was given");
    ten_object_use_end(&use);
    return leave_roles(context, channel, r);
}

static int ask_to_resign(tenure_context *context, ten_channel *channel, const char *role, const char *instance) {
    ten_op op = {.kind = TEN_OP_ASK,
                 .target = role,
                 .holder = instance,
                 .ask = TEN_ASK_RESIGN,
                 .actor = ten_context_actor(context)};
    ten_result result;
    char holder[TENURE_HOLDER_MAX + 1];
    int r = ten_context_apply(context, channel, &op, &result, holder);
    if (r == TENURE_OK && result.outcome != TEN_OK && result.holder && strcmp(result.holder, instance) == 0)
        r = ten_last_error_say(context, TENURE_E_HELD,
                               "%s leads %s as another program, which cannot be asked to resign", instance, role);
    else if (r == TENURE_OK && result.outcome != TEN_OK)
        r = ten_last_error_say(context, result.holder ? TENURE_E_HELD : TENURE_E_LOST, "%s does not lead %s: %s%s",
                               instance, role, result.holder ? "the leader is " : "nobody leads it",
                               result.holder ? result.holder : "");
    return r;
}

int tenure_leader_resign(tenure_context *context, const char *namespace_name, const char *role, const char *instance) {
    ten_error error;
    ten_channel *channel;
    int r = enter_roles(context, namespace_name, role, &channel);
    if (r < 0)
        return r;
    if (!instance)
        r = ten_last_error_say(context, TENURE_E_INVALID, "no instance was given");
    else if (ten_id_check_holder(instance, &error) < 0)
        r = ten_last_error_set(context, &error);
    else
        r = ask_to_resign(context, channel, role, instance);
    return leave_roles(context, channel, r);
}
