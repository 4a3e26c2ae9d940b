/*
 * Who leads a role, and every change of it; and asking a leader to resign. For whoever does not campaign.
 */
#include <string.h>

#include "base/id.h"
#include "runtime/client.h"

static int read_leader(tenure_client *client, const char *role, tenure_leader *ret_leader) {
    tenure_info info;
    int r = tenure_get_info(client, role, &info);
    *ret_leader = (tenure_leader){0};
    if (r == TENURE_E_UNKNOWN_TARGET)
        return TENURE_OK; /* nobody ever was */
    if (r == TENURE_OK && info.holder[0] != '\0') {
        memcpy(ret_leader->instance, info.holder, sizeof ret_leader->instance);
        ret_leader->token = info.token;
        ret_leader->remaining_ms = info.remaining_ms;
        ret_leader->since_ms = info.acquired_at_ms;
    }
    return r;
}

int tenure_leader_get(tenure_client *client, const char *role, tenure_leader *ret_leader) {
    return read_leader(client, role, ret_leader);
}

struct observation {
    const char *role;
    tenure_leader_fn each;
    void *userdata;
    tenure_leader last;
    bool told;
    uint64_t token; /* the highest that was told: the feed may be behind what was read */
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

static void take_change(const tenure_change *change, void *userdata) {
    struct observation *observation = userdata;
    tenure_leader leader = {0};
    if (strcmp(change->target, observation->role) != 0 || change->token < observation->token)
        return;
    if (strcmp(change->event, "lease_acquired") == 0) {
        snprintf(leader.instance, sizeof leader.instance, "%s", change->instance);
        leader.token = change->token;
        leader.since_ms = change->at_ms;
        tell(observation, &leader);
    } else if (strcmp(change->event, "lease_released") == 0) {
        tell(observation, &leader);
    }
}

/* The feed tells of every change but one: a lease that ends by itself. So the present leader is read again when it
 * should have ended, unless it was renewed meanwhile. What is read and newer than what the feed has told so far is left
 * to the feed: there may have been others in between. */
int tenure_observe(tenure_client *client, const char *role, tenure_leader_fn each, void *userdata) {
    struct observation observation = {.role = role, .each = each, .userdata = userdata};
    uint64_t cursor = 0;
    bool anew = true; /* at the beginning, and when changes were missed */
    int r = ten_client_check_target(client, role);
    if (r == TENURE_OK)
        r = tenure_watch_start(client, &cursor);
    while (r == TENURE_OK && observation.stopped == 0) {
        tenure_leader leader;
        r = read_leader(client, role, &leader);
        if (r < 0)
            break;
        if (anew || leader.token <= observation.token)
            tell(&observation, &leader);
        uint64_t wait_ms = leader.instance[0] ? leader.remaining_ms + 1 : UINT64_MAX;
        if (observation.stopped == 0)
            r = tenure_watch_wait(client, &cursor, wait_ms, take_change, &observation);
        anew = r == TENURE_E_RESYNC;
        if (anew)
            r = TENURE_OK;
    }
    return observation.stopped ? observation.stopped : r;
}

int tenure_resign(tenure_client *client, const char *role, const char *instance) {
    ten_error error;
    int r = ten_client_check_target(client, role);
    if (r == TENURE_OK && (!instance || ten_id_check_holder(instance, &error) < 0))
        return instance ? ten_last_error_set(client, &error)
                        : ten_last_error_say(client, TENURE_E_INVALID, "no instance was given");
    ten_op op = {.kind = TEN_OP_ASK,
                 .namespace_name = client->namespace_name,
                 .target = role,
                 .holder = instance,
                 .ask = TEN_ASK_RESIGN,
                 .actor = client->instance};
    ten_result result;
    if (r == TENURE_OK)
        r = ten_client_apply(client, &op, &result);
    if (r == TENURE_OK && result.outcome != TEN_OK)
        r = ten_last_error_say(client, result.holder ? TENURE_E_HELD : TENURE_E_LOST, "%s does not lead %s: %s%s",
                               instance, role, result.holder ? "the leader is " : "nobody leads it",
                               result.holder ? result.holder : "");
    return r;
}
