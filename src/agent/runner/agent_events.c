/*
 * What other threads leave for the agent's loop: the context's thread its events, registrations and written
 * checkpoints, the thread of a source its targets. All go through one queue. The loop takes them here, logs events, and
 * passes each on to the target that it is about. What was lost for want of memory is made up for.
 */
#include <string.h>

#include "agent/runner/agent_state.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/thread.h"
#include "runtime/member.h"

#define LOST_EVERY_MS 1000u
#define AT_ONCE       500u /* then the work that is due has its turn */

/* ---- in other threads */

static void put(struct ten_agent *agent, struct ten_agent_event *event) {
    TEN_LOCKED(&agent->runner.lock);
    STAILQ_INSERT_TAIL(&agent->left, event, link);
    ten_eventfd_poke(agent->runner.event_fd);
}

static void note_loss(struct ten_agent *agent, atomic_bool *what) {
    atomic_store(what, true);
    ten_eventfd_poke(agent->runner.event_fd);
}

void ten_agent_on_event(const tenure_event *event, void *userdata) {
    struct ten_agent *agent = userdata;
    const char *message = event->message ? event->message : "";
    struct ten_agent_lease_event *copy = ten_calloc(1, sizeof *copy + strlen(message) + 1);
    if (!copy) { /* what is known of the targets' leases is read from their beliefs */
        if (event->kind == TENURE_EVENT_STOPPED)
            atomic_store(&agent->stopped, true);
        else if (event->kind == TENURE_EVENT_REFUSED)
            atomic_store(&agent->refused, event->error);
        note_loss(agent, &agent->events_lost);
        return;
    }
    copy->event = *event;
    copy->event.message = strcpy(copy->message, message); /* this thread's own is of its last event */
    put(agent, &copy->head);
}

/* With the lock of the member's context. */
void ten_agent_on_checkpoint(const char *target, uint64_t token, int error, void *userdata) {
    struct ten_agent *agent = userdata;
    struct ten_agent_event *event = ten_calloc(1, sizeof *event);
    if (!event) {
        note_loss(agent, &agent->events_lost);
        return;
    }
    event->kind = TEN_AGENT_CHECKPOINT;
    event->token = token;
    event->error = error;
    snprintf(event->target, sizeof event->target, "%s", target);
    put(agent, event);
}

/* The same. A lease that was had before shows when that was: no more than a TTL ago. */
void ten_agent_on_store_clock(uint64_t store_ms, void *userdata) {
    struct ten_agent *agent = userdata;
    atomic_store(&agent->store_ahead_ms, (int64_t)store_ms - (int64_t)ten_wall_ms(&ten_system_clock));
}

static const char *copy_text(char **at, const char *text) {
    char *copy = *at;
    if (!text)
        return NULL;
    *at = stpcpy(copy, text) + 1;
    return copy;
}

static struct ten_agent_spec *copy_target(const tenure_target *target, bool removed) {
    const char *const texts[] = {target->id, target->url, target->exec, target->spec};
    size_t size = 0;
    for (size_t i = 0; i < TEN_COUNT(texts); i++)
        size += texts[i] ? strlen(texts[i]) + 1 : 0;
    struct ten_agent_spec *spec = ten_malloc(sizeof *spec + size);
    if (!spec)
        return NULL;
    char *at = spec->texts;
    *spec = (struct ten_agent_spec){.every_ms = target->every_ms, .paused = target->paused, .removed = removed};
    spec->id = copy_text(&at, target->id);
    spec->url = copy_text(&at, target->url);
    spec->exec = copy_text(&at, target->exec);
    spec->spec = copy_text(&at, target->spec);
    return spec;
}

bool ten_agent_leave_target(struct ten_agent *agent, const tenure_target *target, bool removed) {
    struct ten_agent_event *event = ten_calloc(1, sizeof *event);
    struct ten_agent_spec *spec = event && target ? copy_target(target, removed) : NULL;
    if (!event || !spec != !target) {
        ten_free(event);
        return false;
    }
    event->kind = target ? TEN_AGENT_TARGET : TEN_AGENT_ALL_READ;
    event->spec = spec;
    put(agent, event);
    return true;
}

void ten_agent_on_target(const tenure_target *target, bool removed, void *userdata) {
    struct ten_agent *agent = userdata;
    if (!agent->source && !ten_agent_leave_target(agent, target, removed))
        note_loss(agent, &agent->targets_lost);
}

/* ---- events in the loop */

/* Of a large request there is one event, without a target. */
static enum ten_log_level level_of(struct ten_agent *agent, struct ten_agent_target *target,
                                   const tenure_event *event) {
    /* An instance that joins asks for what the others are about to hand over: nothing has failed. */
    bool waits = event->kind == TENURE_EVENT_ACQUIRE_FAILED && event->error == TENURE_E_HELD;
    if (ten_recovery_is_known(&agent->runner.renewals.recovering_ms, event) || waits)
        return TEN_LOG_DEBUG;
    if (event->error < 0 || event->kind == TENURE_EVENT_LOST || event->kind == TENURE_EVENT_UNOWNED)
        return TEN_LOG_WARN;
    if (event->kind != TENURE_EVENT_RENEWED)
        return TEN_LOG_INFO;
    bool is_first =
        target ? ten_renewals_is_first(&target->renewed, event->token) : agent->runner.renewals.since_ms == 0;
    return is_first ? TEN_LOG_INFO : TEN_LOG_DEBUG;
}

static void log_event(struct ten_agent *agent, struct ten_agent_target *target, const tenure_event *event) {
    ten_lease_words words = {.target = event->target,
                             .other = event->kind == TENURE_EVENT_ACQUIRE_FAILED ? "holder" : "other",
                             .problem = event->error < 0 ? ten_event_problem(event) : NULL};
    ten_renewals_log(&agent->runner.renewals, agent->runner.log, level_of(agent, target, event), event, &words);
}

/* A large request is reported by one event with the count of its renewals. Targets are walked through once for all such
 * events that have come together, and not at all if no result is withheld. */
static void look_at_withheld(struct ten_agent *agent) {
    for (uint32_t i = 0; agent->withheld > 0 && i < agent->target_room; i++)
        if (agent->targets[i] && agent->targets[i]->run && agent->targets[i]->run->work.state == TEN_WORK_WITHHELD)
            ten_run_look(agent, agent->targets[i]->run);
}

static void take_end(struct ten_agent *agent, struct ten_agent_target *target, const tenure_event *event) {
    ten_timers_clear(&agent->starts, target->number);
    target->due_ms = 0;
    if (agent->policy->ended)
        agent->policy->ended(agent, target, event->token);
}

static void take_lease_event(struct ten_agent *agent, const tenure_event *event) {
    struct ten_agent_target *target = event->target[0] ? ten_map_get(&agent->by_id, event->target) : NULL;
    log_event(agent, target, event);
    switch (event->kind) {
    case TENURE_EVENT_ACQUIRED:
        if (target && !target->removed) {
            ten_agent_take_handle(agent, target);
            agent->policy->granted(agent, target);
        }
        break;
    case TENURE_EVENT_RELEASED:
    case TENURE_EVENT_LOST:
        if (target)
            take_end(agent, target, event);
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
        ten_run_look_at_all(agent, target);
}

static void take_checkpoint(struct ten_agent *agent, const struct ten_agent_event *event) {
    struct ten_agent_target *target = ten_map_get(&agent->by_id, event->target);
    if (!target)
        return;
    if (target->writing == event->token)
        target->writing = 0;
    agent->policy->written(agent, target, event->token, event->error);
    ten_run_settle(agent, target);
}

static void take_event(struct ten_agent *agent, struct ten_agent_event *event, bool closes) {
    switch (event->kind) {
    case TEN_AGENT_LEASE:
        take_lease_event(agent, &((const struct ten_agent_lease_event *)event)->event);
        break;
    case TEN_AGENT_CHECKPOINT:
        take_checkpoint(agent, event);
        break;
    case TEN_AGENT_TARGET:
        if (closes)
            ten_free(event->spec);
        else
            ten_agent_take_spec(agent, event->spec);
        break;
    case TEN_AGENT_ALL_READ:
        agent->source_read = true;
        break;
    }
}

/* Events, or registrations, were lost for want of memory. A target that is held and not scheduled would be
 * held and never polled. At most once a second: there may still be no memory. */
void ten_agent_make_up_for_lost(struct ten_agent *agent) {
    uint64_t now_ms = ten_now_ms();
    if ((!atomic_load(&agent->targets_lost) && !atomic_load(&agent->events_lost)) || now_ms < agent->lost_look_ms)
        return;
    agent->lost_look_ms = now_ms + LOST_EVERY_MS;
    TEN_LOG(agent->runner.log, TEN_LOG_WARN, "events_lost", TEN_TEXT("error", "out of memory"));
    if (atomic_exchange(&agent->targets_lost, false) && !ten_member_list_again(agent->member))
        ten_source_reread(agent->source);
    if (!atomic_exchange(&agent->events_lost, false))
        return;
    look_at_withheld(agent);
    for (uint32_t i = 0; i < agent->target_room; i++) {
        struct ten_agent_target *target = agent->targets[i];
        if (!target)
            continue;
        target->writing = 0; /* if the write is still under way, the next one is refused */
        if (!target->removed) {
            ten_agent_take_handle(agent, target);
            if (ten_agent_is_held(target) && !target->due_ms)
                agent->policy->granted(agent, target);
        }
        ten_run_look_at_all(agent, target); /* frees one that is removed, perhaps */
    }
}

static struct ten_agent_event *take_first(struct ten_agent *agent) {
    TEN_LOCKED(&agent->runner.lock);
    struct ten_agent_event *event = STAILQ_FIRST(&agent->left);
    if (event)
        STAILQ_REMOVE_HEAD(&agent->left, link);
    return event;
}

void ten_agent_take_events(struct ten_agent *agent, bool all) {
    struct ten_agent_event *event = NULL;
    for (size_t i = 0; (all || i < AT_ONCE) && (event = take_first(agent)); i++) {
        ten_runner_note_turn(&agent->runner);
        take_event(agent, event, all);
        ten_free(event);
    }
    if (event)
        ten_eventfd_poke(agent->runner.event_fd); /* there may be more */
    if (agent->renewed)
        look_at_withheld(agent);
    agent->renewed = false;
}
