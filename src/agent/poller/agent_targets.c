/*
 * The targets that an agent knows: their numbers, when each is due, and how one comes, changes and goes. Where they come
 * from is the affair of source.c or of the fleet member.
 */
#include <string.h>

#include "agent/cron/jobs.h"
#include "agent/poller/agent_state.h"
#include "base/alloc.h"
#include "base/random.h"
#include "runtime/member.h"

#define OWN_EVERY_MIN_MS 50u /* between polls, where the target itself says how long */

void ten_agent_free_target(struct ten_agent_target *target) {
    if (!target)
        return;
    ten_free(target->id);
    ten_free(target->url);
    ten_free(target->exec);
    ten_free(target->spec);
    ten_jobs_free(target);
    ten_free(target);
}

static bool copy_text(const char *text, char **ret_copy) {
    *ret_copy = text ? ten_strdup(text) : NULL;
    return !text || *ret_copy;
}

struct ten_agent_target *ten_agent_copy_target(const tenure_target *target) {
    struct ten_agent_target *copy = ten_calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    copy->every_ms = target->every_ms;
    copy->paused = target->paused;
    if (copy_text(target->id, &copy->id) && copy_text(target->url, &copy->url) &&
        copy_text(target->exec, &copy->exec) && copy_text(target->spec, &copy->spec))
        return copy;
    ten_agent_free_target(copy);
    return NULL;
}

/* The warden takes a loop that does not turn for one that hangs; one that has much to do in one turn does not. */
void ten_agent_note_turn(struct ten_agent *agent) {
    if (atomic_load(&agent->shared->state->turns) != 0) /* 0: it is not in its loop */
        atomic_fetch_add(&agent->shared->state->turns, 1);
}

/* A target's own interval comes from whoever registers targets, who must not make an agent do nothing but start commands.
 * Only the agent's --every can be shorter. */
static uint64_t every_ms(const struct ten_agent *agent, const struct ten_agent_target *target) {
    uint64_t least_ms = ten_min_u64(agent->config->every_ms, OWN_EVERY_MIN_MS);
    return target->every_ms ? ten_max_u64(target->every_ms, least_ms) : agent->config->every_ms;
}

/* Due times go on by whole intervals from the first one, so that nothing drifts; the jitter is added to each and not to
 * the sum. */
static void schedule(struct ten_agent *agent, struct ten_agent_target *target) {
    uint64_t interval_ms = every_ms(agent, target);
    uint64_t jitter_ms = interval_ms / 20 ? ten_random_u64() % (interval_ms / 20) : 0;
    ten_timers_set(&agent->polls, target->number, target->due_ms + jitter_ms);
}

void ten_agent_schedule_now(struct ten_agent *agent, struct ten_agent_target *target) {
    if (agent->config->cron) {
        target->due_ms = 1; /* it is known that it is held */
        ten_jobs_granted(agent, target);
        return;
    }
    target->due_ms = ten_now_ms();
    ten_timers_set(&agent->polls, target->number, target->due_ms);
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
    while (number < agent->target_room && agent->targets[number])
        number++;
    agent->first_free = number;
    if (number == agent->target_room) {
        uint32_t room = agent->target_room ? agent->target_room * 2 : 64;
        struct ten_agent_target **targets = ten_realloc(agent->targets, room * sizeof(struct ten_agent_target *));
        if (!targets)
            return false;
        memset(targets + agent->target_room, 0, (room - agent->target_room) * sizeof(struct ten_agent_target *));
        agent->targets = targets;
        agent->target_room = room;
    }
    if (!ten_timers_reserve(&agent->polls, number + 1) || !ten_timers_reserve(&agent->checks, number + 1) ||
        !ten_map_put(&agent->by_id, target->id, target))
        return false;
    target->number = number;
    agent->targets[number] = target;
    return true;
}

void ten_agent_drop_target(struct ten_agent *agent, struct ten_agent_target *target) {
    target->removed = true;
    target->due_ms = 0; /* should it come back while its poll is finished, it is scheduled anew */
    ten_timers_clear(&agent->polls, target->number);
    if (target->poll || target->sending || target->writing)
        return; /* its polls are finished first */
    (void)ten_map_remove(&agent->by_id, target->id);
    agent->targets[target->number] = NULL;
    agent->first_free = (uint32_t)ten_min_u64(agent->first_free, target->number);
    ten_agent_free_target(target);
}

/* Takes over a target in the form of `event`, whose texts become the agent's. */
void ten_agent_take_target(struct ten_agent *agent, struct ten_agent_target *event) {
    struct ten_agent_target *target = ten_map_get(&agent->by_id, event->id);
    if (event->removed) {
        if (target)
            ten_agent_drop_target(agent, target);
        ten_agent_free_target(event);
        return;
    }
    if (!target) {
        if (!give_number(agent, event)) {
            TEN_LOG(agent->log, TEN_LOG_ERROR, "target_refused", TEN_TEXT("target", event->id),
                    TEN_TEXT("error", "out of memory"));
            ten_agent_free_target(event);
            atomic_store(&agent->targets_lost, true);
            return;
        }
        target = event;
    } else {
        bool other_interval = target->every_ms != event->every_ms;
        char *texts[] = {target->url, target->exec, target->spec};
        target->url = event->url;
        target->exec = event->exec;
        target->spec = event->spec;
        event->url = texts[0];
        event->exec = texts[1];
        event->spec = texts[2];
        target->every_ms = event->every_ms;
        target->removed = false;
        if (other_interval && target->due_ms && !agent->config->cron) {
            target->due_ms = ten_now_ms() + every_ms(agent, target);
            schedule(agent, target);
        }
        ten_agent_free_target(event);
    }
    if (agent->config->cron)
        ten_jobs_set(agent, target);
    ten_agent_take_handle(agent, target);
    if (ten_agent_is_held(target) && !target->due_ms)
        ten_agent_schedule_now(agent, target);
}

/* ---- targets of a source that is not the store */

void ten_agent_put_target(struct ten_agent *agent, const tenure_target *target) {
    ten_agent_note_turn(agent);
    struct ten_agent_target *copy = ten_agent_copy_target(target);
    int r = copy ? tenure_member_put(agent->member, target->id, target->paused ? TENURE_PAUSED : 0) : TENURE_E_NOMEM;
    if (r == TENURE_E_TOO_MANY && !agent->source_read)
        agent->refused = r;
    if (r < 0) {
        TEN_LOG(agent->log, TEN_LOG_ERROR, "target_refused", TEN_TEXT("target", target->id),
                TEN_TEXT("error", copy ? tenure_message(agent->member) : "out of memory"));
        ten_agent_free_target(copy);
        return;
    }
    ten_agent_take_target(agent, copy);
}

void ten_agent_remove_target(struct ten_agent *agent, struct ten_agent_target *target) {
    (void)tenure_member_remove(agent->member, target->id);
    ten_agent_drop_target(agent, target);
}

void ten_agent_poll_due(struct ten_agent *agent, struct ten_agent_target *target, uint64_t now_ms) {
    uint64_t interval_ms = every_ms(agent, target);
    target->due_ms += interval_ms;
    if (target->due_ms <= now_ms) /* polls that were missed are not made up for */
        target->due_ms += (now_ms - target->due_ms) / interval_ms * interval_ms + interval_ms;
    bool held = ten_agent_is_held(target);
    ten_poll_start(agent, target);
    if (held)
        schedule(agent, target);
    else
        target->due_ms = 0;
}
