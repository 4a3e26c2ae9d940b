/*
 * What the context's thread tells the agent: it queues events, and the loop takes them here, logs them and sees to the
 * targets that they are about. Events that were lost for want of memory are made up for.
 */
#include <string.h>

#include "agent/cron/jobs.h"
#include "agent/poller/agent_state.h"
#include "base/alloc.h"
#include "base/io.h"
#include "runtime/member.h"

#define LOST_EVERY_MS 1000u

/* ---- events from the context's thread */

static void put_event(struct ten_agent *agent, struct ten_agent_event *event) {
    pthread_mutex_lock(&agent->event_lock);
    *agent->last_event = event;
    agent->last_event = &event->next;
    pthread_mutex_unlock(&agent->event_lock);
    ten_eventfd_poke(agent->event_fd);
}

void ten_agent_on_event(const tenure_event *event, void *userdata) {
    struct ten_agent *agent = userdata;
    const char *message = event->message ? event->message : "";
    struct ten_agent_event *copy = ten_calloc(1, sizeof *copy + strlen(message) + 1);
    if (!copy) { /* what is known of the targets' leases is read from their beliefs */
        if (event->kind == TENURE_EVENT_STOPPED)
            atomic_store(&agent->stopped, true);
        else if (event->kind == TENURE_EVENT_REFUSED)
            atomic_store(&agent->refused, event->error);
        atomic_store(&agent->events_lost, true);
        ten_eventfd_poke(agent->event_fd);
        return;
    }
    copy->event = *event;
    copy->event.message = strcpy(copy->message, message); /* this thread's own is of its last event */
    put_event(agent, copy);
}

/* With the lock of the member's context. */
void ten_agent_on_checkpoint(const char *target, uint64_t token, int error, void *userdata) {
    struct ten_agent *agent = userdata;
    struct ten_agent_event *event = ten_calloc(1, sizeof *event);
    if (!event) {
        atomic_store(&agent->events_lost, true);
        ten_eventfd_poke(agent->event_fd);
        return;
    }
    event->checkpoint = true;
    event->event.token = token;
    event->event.error = error;
    snprintf(event->event.target, sizeof event->event.target, "%s", target);
    put_event(agent, event);
}

/* The same. A lease that was had before shows when that was: no more than a TTL ago. */
void ten_agent_on_store_clock(uint64_t store_ms, void *userdata) {
    struct ten_agent *agent = userdata;
    atomic_store(&agent->store_ahead_ms, (int64_t)store_ms - (int64_t)ten_wall_ms(&ten_system_clock));
}

void ten_agent_on_target(const tenure_target *target, bool removed, void *userdata) {
    struct ten_agent *agent = userdata;
    struct ten_agent_event *event = ten_calloc(1, sizeof *event);
    struct ten_agent_target *copy = event ? ten_agent_copy_target(target) : NULL;
    if (!copy) {
        ten_free(event);
        atomic_store(&agent->targets_lost, true);
        ten_eventfd_poke(agent->event_fd);
        return;
    }
    copy->removed = removed;
    event->target = copy;
    put_event(agent, event);
}

/* ---- events in the loop */

/* Of a large request there is one event, without a target. */
static enum ten_log_level level_of(struct ten_agent *agent, struct ten_agent_target *target,
                                   const tenure_event *event) {
    /* An instance that joins asks for what the others are about to hand over: nothing has failed. */
    bool waits = event->kind == TENURE_EVENT_ACQUIRE_FAILED && event->error == TENURE_E_HELD;
    if (ten_recovery_is_known(&agent->renewals.recovering_ms, event) || waits)
        return TEN_LOG_DEBUG;
    if (event->error < 0 || event->kind == TENURE_EVENT_LOST || event->kind == TENURE_EVENT_UNOWNED)
        return TEN_LOG_WARN;
    if (event->kind != TENURE_EVENT_RENEWED)
        return TEN_LOG_INFO;
    bool is_first = target ? ten_renewals_is_first(&target->renewed, event->token) : agent->renewals.since_ms == 0;
    return is_first ? TEN_LOG_INFO : TEN_LOG_DEBUG;
}

static void log_event(struct ten_agent *agent, struct ten_agent_target *target, const tenure_event *event) {
    ten_field fields[8];
    size_t count = 0;
    if (event->target[0])
        fields[count++] = TEN_TEXT("target", event->target);
    if (event->token)
        fields[count++] = TEN_NUMBER("token", event->token);
    if (event->instance[0])
        fields[count++] = TEN_TEXT(event->kind == TENURE_EVENT_ACQUIRE_FAILED ? "holder" : "other", event->instance);
    if (event->reason[0])
        fields[count++] = TEN_TEXT("reason", event->reason);
    if (event->error < 0)
        fields[count++] = TEN_TEXT("error", ten_event_problem(event));
    if (event->remaining_ms)
        fields[count++] = TEN_NUMBER("remaining_ms", event->remaining_ms);
    if (event->free_ms)
        fields[count++] = TEN_NUMBER("free_ms", event->free_ms);
    if (event->count)
        fields[count++] = TEN_NUMBER("count", event->count);
    ten_log_event(agent->log, level_of(agent, target, event), tenure_event_name(event->kind), fields, count);
    if (event->kind == TENURE_EVENT_RENEWED)
        ten_renewals_note(&agent->renewals, agent->log, event->count ? event->count : 1, ten_now_ms());
}

/* A large request is reported by one event with the count of its renewals. Targets are walked through once for all such
 * events that have come together, and not at all if no result is withheld. */
static void look_at_withheld(struct ten_agent *agent) {
    for (uint32_t i = 0; agent->withheld > 0 && i < agent->target_room; i++)
        if (agent->targets[i] && agent->targets[i]->poll && agent->targets[i]->poll->work.state == TEN_WORK_WITHHELD)
            ten_poll_look(agent, agent->targets[i]->poll);
}

static void take_event(struct ten_agent *agent, const tenure_event *event) {
    struct ten_agent_target *target = event->target[0] ? ten_map_get(&agent->by_id, event->target) : NULL;
    log_event(agent, target, event);
    switch (event->kind) {
    case TENURE_EVENT_ACQUIRED:
        if (target && !target->removed) {
            ten_agent_take_handle(agent, target);
            ten_agent_schedule_now(agent, target);
        }
        break;
    case TENURE_EVENT_RELEASED:
        if (target)
            ten_jobs_lost(agent, target, event->token);
        break;
    case TENURE_EVENT_LOST:
        if (target) {
            ten_jobs_lost(agent, target, event->token);
            ten_timers_clear(&agent->polls, target->number);
            target->due_ms = 0;
        }
        break;
    case TENURE_EVENT_RENEWED:
        agent->renewed |= !target;
        break;
    case TENURE_EVENT_REFUSED:
        agent->refused = event->error;
        snprintf(agent->refusal.message, sizeof agent->refusal.message, "%s", event->message);
        break;
    case TENURE_EVENT_STOPPED:
        agent->stopped = true;
        break;
    default:
        break;
    }
    if (target)
        ten_poll_look_at_all(agent, target);
}

static void take_checkpoint(struct ten_agent *agent, const tenure_event *event) {
    struct ten_agent_target *target = ten_map_get(&agent->by_id, event->target);
    if (!target)
        return;
    ten_poll_checkpoint_done(agent, target, event->token, event->error);
    target = ten_map_get(&agent->by_id, event->target);
    if (target && target->waits && !target->writing) {
        target->waits = false;
        if (ten_agent_is_held(target))
            ten_agent_schedule_now(agent, target);
    }
}

/* Events, or changes of the registry, were lost for want of memory. A target that is held and not scheduled would be
 * held and never polled. At most once a second: there may still be no memory. */
void ten_agent_make_up_for_lost(struct ten_agent *agent) {
    uint64_t now_ms = ten_now_ms();
    if ((!atomic_load(&agent->targets_lost) && !atomic_load(&agent->events_lost)) || now_ms < agent->lost_look_ms)
        return;
    agent->lost_look_ms = now_ms + LOST_EVERY_MS;
    TEN_LOG(agent->log, TEN_LOG_WARN, "events_lost", TEN_TEXT("error", "out of memory"));
    if (atomic_exchange(&agent->targets_lost, false) && !ten_member_list_again(agent->member))
        ten_source_reread(agent);
    if (!atomic_exchange(&agent->events_lost, false))
        return;
    look_at_withheld(agent);
    for (uint32_t i = 0; i < agent->target_room; i++) {
        struct ten_agent_target *target = agent->targets[i];
        if (!target)
            continue;
        target->writing = 0; /* if it is not answered yet, the next write is refused, and the poll told so */
        if (!target->removed) {
            ten_agent_take_handle(agent, target);
            if (ten_agent_is_held(target) && !target->due_ms)
                ten_agent_schedule_now(agent, target);
        }
        ten_poll_look_at_all(agent, target); /* frees one that is removed, perhaps */
    }
}

void ten_agent_take_events(struct ten_agent *agent) {
    ten_eventfd_clear(agent->event_fd);
    pthread_mutex_lock(&agent->event_lock);
    struct ten_agent_event *event = agent->first_event;
    agent->first_event = NULL;
    agent->last_event = &agent->first_event;
    pthread_mutex_unlock(&agent->event_lock);
    while (event) {
        struct ten_agent_event *next = event->next;
        ten_agent_note_turn(agent);
        if (event->checkpoint)
            take_checkpoint(agent, &event->event);
        else if (event->target)
            ten_agent_take_target(agent, event->target);
        else
            take_event(agent, &event->event);
        ten_free(event);
        event = next;
    }
    if (agent->renewed)
        look_at_withheld(agent);
    agent->renewed = false;
}
