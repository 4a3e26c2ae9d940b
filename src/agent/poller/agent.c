/*
 * The agent's loop: targets come from their source, leases from the fleet member, polls start when they are due and the
 * target is held. One thread; the context's thread only queues events. It runs in the worker process, under the
 * warden.
 */
#include "agent/poller/agent.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/common/store_wait.h"
#include "agent/cron/jobs.h"
#include "agent/poller/agent_state.h"
#include "agent/warden/tree.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/random.h"
#include "runtime/member.h"

#define KILL_AFTER_MS    1000u /* from asking a poll to end to killing it, with the lease still good */
#define STOP_PATIENCE_MS 5000u /* for polls under way when the agent is told to stop */
#define OWN_EVERY_MIN_MS 50u   /* between polls, where the target itself says how long */
#define RELEASE_MS       2000u /* more, for releasing everything: a store that is away must not keep the agent */
#define HURRY_MS         300u  /* the same, when told twice */
#define FLUSH_MS         2000u
#define READ_AGAIN_MS    1000u

/* ---- options */

int ten_agent_parse_poll(const char *text, ten_agent_config *config, ten_error *error) {
    if (strncmp(text, "exec:", 5) == 0 && text[5] != '\0') {
        config->how = TEN_POLL_EXEC;
        config->command = text + 5;
    } else if (strcmp(text, "http") == 0) {
        config->how = TEN_POLL_HTTP;
    } else if (strcmp(text, "spec") == 0) {
        config->how = TEN_POLL_SPEC;
    } else {
        return ten_fail(error, TENURE_E_INVALID, "there is no poller '%.60s': write exec:CMD, http or spec", text);
    }
    return TENURE_OK;
}

int ten_agent_check(const ten_agent_config *config, ten_error *error) {
    int r = ten_source_check(config, error);
    if (r < 0)
        return r;
    uint64_t room_ms = config->context.ttl_ms - config->context.margin_ms;
    if (config->grace_ms < 10 || config->grace_ms > room_ms / 2)
        return ten_fail(
            error, TENURE_E_TTL,
            "a grace of %llu ms cannot be safe: it is at least 10 ms, and at most half of the TTL less the margin",
            (unsigned long long)config->grace_ms);
    if (config->every_ms > TENURE_TTL_MAX_MS || config->timeout_ms > TENURE_TTL_MAX_MS)
        return ten_fail(error, TENURE_E_INVALID, "an interval or a time-out is at most 366 days");
    return TENURE_OK;
}

/* ---- events from the context's thread */

static void put_event(struct ten_agent *agent, struct ten_agent_event *event) {
    pthread_mutex_lock(&agent->event_lock);
    *agent->last_event = event;
    agent->last_event = &event->next;
    pthread_mutex_unlock(&agent->event_lock);
    ten_eventfd_poke(agent->event_fd);
}

static void on_event(const tenure_event *event, void *userdata) {
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
static void on_checkpoint(const char *target, uint64_t token, int error, void *userdata) {
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
static void on_store_clock(uint64_t store_ms, void *userdata) {
    struct ten_agent *agent = userdata;
    atomic_store(&agent->store_ahead_ms, (int64_t)store_ms - (int64_t)ten_wall_ms(&ten_system_clock));
}

static void free_target(struct ten_agent_target *target) {
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

static struct ten_agent_target *copy_target(const tenure_target *target) {
    struct ten_agent_target *copy = ten_calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    copy->every_ms = target->every_ms;
    copy->paused = target->paused;
    if (copy_text(target->id, &copy->id) && copy_text(target->url, &copy->url) &&
        copy_text(target->exec, &copy->exec) && copy_text(target->spec, &copy->spec))
        return copy;
    free_target(copy);
    return NULL;
}

static void on_target(const tenure_target *target, bool removed, void *userdata) {
    struct ten_agent *agent = userdata;
    struct ten_agent_event *event = ten_calloc(1, sizeof *event);
    struct ten_agent_target *copy = event ? copy_target(target) : NULL;
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

/* The warden takes a loop that does not turn for one that hangs; one that has much to do in one turn does not. */
static void note_turn(struct ten_agent *agent) {
    if (atomic_load(&agent->shared->state->turns) != 0) /* 0: it is not in its loop */
        atomic_fetch_add(&agent->shared->state->turns, 1);
}

/* ---- targets */

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

static void schedule_now(struct ten_agent *agent, struct ten_agent_target *target) {
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
static bool is_held(const struct ten_agent_target *target) {
    return target->handle.belief && ten_belief_ends_ms(target->handle.belief) != 0;
}

/* If the fleet member does not know the target any more, the handle stays what it was: it is never held again. */
static void take_handle(struct ten_agent *agent, struct ten_agent_target *target) {
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
    free_target(target);
}

/* Takes over a target in the form of `event`, whose texts become the agent's. */
static void take_target(struct ten_agent *agent, struct ten_agent_target *event) {
    struct ten_agent_target *target = ten_map_get(&agent->by_id, event->id);
    if (event->removed) {
        if (target)
            ten_agent_drop_target(agent, target);
        free_target(event);
        return;
    }
    if (!target) {
        if (!give_number(agent, event)) {
            TEN_LOG(agent->log, TEN_LOG_ERROR, "target_refused", TEN_TEXT("target", event->id),
                    TEN_TEXT("error", "out of memory"));
            free_target(event);
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
        free_target(event);
    }
    if (agent->config->cron)
        ten_jobs_set(agent, target);
    take_handle(agent, target);
    if (is_held(target) && !target->due_ms)
        schedule_now(agent, target);
}

/* ---- targets of a source that is not the store */

void ten_agent_put_target(struct ten_agent *agent, const tenure_target *target) {
    note_turn(agent);
    struct ten_agent_target *copy = copy_target(target);
    int r = copy ? tenure_member_put(agent->member, target->id, target->paused ? TENURE_PAUSED : 0) : TENURE_E_NOMEM;
    if (r == TENURE_E_TOO_MANY && !agent->source_read)
        agent->refused = r;
    if (r < 0) {
        TEN_LOG(agent->log, TEN_LOG_ERROR, "target_refused", TEN_TEXT("target", target->id),
                TEN_TEXT("error", copy ? tenure_message(agent->member) : "out of memory"));
        free_target(copy);
        return;
    }
    take_target(agent, copy);
}

void ten_agent_remove_target(struct ten_agent *agent, struct ten_agent_target *target) {
    (void)tenure_member_remove(agent->member, target->id);
    ten_agent_drop_target(agent, target);
}

/* ---- events */

/* Of a large request there is one event, without a target. */
static enum ten_log_level level_of(struct ten_agent *agent, struct ten_agent_target *target,
                                   const tenure_event *event) {
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
            take_handle(agent, target);
            schedule_now(agent, target);
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
        if (is_held(target))
            schedule_now(agent, target);
    }
}

/* Events, or changes of the registry, were lost for want of memory. A target that is held and not scheduled would be
 * held and never polled. At most once a second: there may still be no memory. */
static void make_up_for_lost(struct ten_agent *agent) {
    uint64_t now_ms = ten_now_ms();
    if ((!atomic_load(&agent->targets_lost) && !atomic_load(&agent->events_lost)) || now_ms < agent->lost_look_ms)
        return;
    agent->lost_look_ms = now_ms + READ_AGAIN_MS;
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
            take_handle(agent, target);
            if (is_held(target) && !target->due_ms)
                schedule_now(agent, target);
        }
        ten_poll_look_at_all(agent, target); /* frees one that is removed, perhaps */
    }
}

static void take_events(struct ten_agent *agent) {
    ten_eventfd_clear(agent->event_fd);
    pthread_mutex_lock(&agent->event_lock);
    struct ten_agent_event *event = agent->first_event;
    agent->first_event = NULL;
    agent->last_event = &agent->first_event;
    pthread_mutex_unlock(&agent->event_lock);
    while (event) {
        struct ten_agent_event *next = event->next;
        note_turn(agent);
        if (event->checkpoint)
            take_checkpoint(agent, &event->event);
        else if (event->target)
            take_target(agent, event->target);
        else
            take_event(agent, &event->event);
        ten_free(event);
        event = next;
    }
    if (agent->renewed)
        look_at_withheld(agent);
    agent->renewed = false;
}

/* ---- signals and stopping */

static void begin_stop(struct ten_agent *agent) {
    uint64_t patience_ms = agent->stop_signals > 1 ? 0 : STOP_PATIENCE_MS;
    agent->stop_ms = ten_now_ms() + patience_ms;
    for (uint32_t i = 0; i < agent->target_room; i++) {
        if (!agent->targets[i])
            continue;
        ten_timers_clear(&agent->polls, i);
        ten_jobs_look(agent, agent->targets[i]);
        ten_poll_flush(agent, agent->targets[i], agent->stop_signals > 1);
    }
}

static void take_signals(struct ten_agent *agent) {
    struct signalfd_siginfo info;
    while (ten_read_some(agent->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            ten_exec_reap(agent);
        } else if (info.ssi_signo == SIGHUP) {
            for (size_t i = 0; i < agent->config->sink_count; i++)
                ten_sink_reopen(agent->sinks[i]);
            ten_source_reread(agent);
        } else {
            agent->stop_signals++;
            begin_stop(agent);
            ten_member_begin_stop(agent->member);
        }
    }
}

/* Polls that are still running when patience has ended are ended, with the lease still good. */
static void hurry_polls(struct ten_agent *agent) {
    for (uint32_t i = 0; i < agent->target_room; i++)
        if (agent->targets[i] && agent->targets[i]->poll)
            ten_poll_end(agent, agent->targets[i]->poll, "the agent is stopping");
}

/* ---- what sinks say of themselves */

static void report_sink(struct ten_agent *agent, const char *name, const ten_sink_event *event) {
    if (event->problem.code < 0)
        TEN_LOG(agent->log, TEN_LOG_ERROR, "sink_failed", TEN_TEXT("sink", name),
                TEN_TEXT("error", event->problem.message));
    if (event->works_again)
        TEN_LOG(agent->log, TEN_LOG_INFO, "sink_ok", TEN_TEXT("sink", name));
    if (event->late > 0)
        TEN_LOG(agent->log, TEN_LOG_WARN, "publish_late", TEN_TEXT("sink", name), TEN_NUMBER("count", event->late));
    ten_agent_count_dropped(agent, name, event->dropped);
}

static void look_at_sinks(struct ten_agent *agent) {
    uint64_t now_ms = ten_now_ms();
    if (now_ms < agent->sinks_look_ms)
        return;
    agent->sinks_look_ms = now_ms + READ_AGAIN_MS;
    for (size_t i = 0; i < agent->config->sink_count; i++) {
        ten_sink_event event;
        ten_sink_take_event(agent->sinks[i], &event);
        report_sink(agent, agent->config->sinks[i], &event);
    }
}

/* Messages have left, or were dropped. */
static void take_receipts(struct ten_agent *agent) {
    for (struct ten_poll *poll; (poll = ten_receipts_take(agent->receipts));) {
        note_turn(agent);
        ten_poll_look(agent, poll);
    }
}

/* ---- the loop */

static void run_due(struct ten_agent *agent) {
    uint64_t now_ms = ten_now_ms();
    uint32_t number;
    while (ten_timers_take(&agent->checks, now_ms, &number))
        if (agent->targets[number]) {
            note_turn(agent);
            ten_poll_look_at_all(agent, agent->targets[number]);
        }
    while (ten_timers_take(&agent->polls, now_ms, &number)) {
        struct ten_agent_target *target = agent->targets[number];
        if (!target)
            continue;
        note_turn(agent);
        if (agent->config->cron) {
            ten_jobs_look(agent, target);
            continue;
        }
        uint64_t interval_ms = every_ms(agent, target);
        target->due_ms += interval_ms;
        if (target->due_ms <= now_ms) /* polls that were missed are not made up for */
            target->due_ms += (now_ms - target->due_ms) / interval_ms * interval_ms + interval_ms;
        bool held = is_held(target);
        ten_poll_start(agent, target);
        if (held)
            schedule(agent, target);
        else
            target->due_ms = 0;
    }
    if (agent->stop_ms && now_ms >= agent->stop_ms)
        hurry_polls(agent);
}

static int wait_ms(const struct ten_agent *agent) {
    uint64_t next_ms = ten_min_u64(ten_timers_next(&agent->checks), ten_timers_next(&agent->polls));
    if (agent->stop_ms)
        next_ms =
            ten_min_u64(next_ms, ten_max_u64(agent->running > 0 || !agent->leave_ms ? agent->stop_ms : agent->leave_ms,
                                             ten_now_ms() + 10));
    uint64_t left_ms = ten_sub_saturating(next_ms, ten_now_ms());
    return (int)ten_min_u64(left_ms, READ_AGAIN_MS);
}

/* While it is not well it has no weight, and hands everything over. */
static void take_health(struct ten_agent *agent) {
    if (!ten_health_take(&agent->health))
        return;
    bool well = agent->health.well;
    TEN_LOG(agent->log, well ? TEN_LOG_INFO : TEN_LOG_WARN, well ? "health_ok" : "health_failed",
            TEN_TEXT("command", agent->config->healthy));
    (void)tenure_member_set_weight(agent->member, well ? agent->config->weight : 0);
}

static void take_ready(struct ten_agent *agent) {
    struct epoll_event events[64];
    int count = epoll_wait(agent->epoll_fd, events, TEN_COUNT(events), 0);
    /* Output first: the rest may end polls, and with them what these events point to. */
    for (int i = 0; i < count; i++) {
        void *what = events[i].data.ptr;
        if (what != &agent->event_fd && what != &agent->signal_fd && what != &agent->source_fd &&
            what != &agent->receipts && what != &agent->health)
            ten_exec_read(agent, what);
    }
    for (int i = 0; i < count; i++) {
        void *what = events[i].data.ptr;
        if (what == &agent->event_fd)
            take_events(agent);
        else if (what == &agent->signal_fd)
            take_signals(agent);
        else if (what == &agent->source_fd)
            ten_source_take(agent);
        else if (what == &agent->receipts)
            take_receipts(agent);
        else if (what == &agent->health)
            take_health(agent);
    }
}

/* All work has ended, but the store does not take the leases back: they end by their TTL. */
static bool gives_up(struct ten_agent *agent) {
    if (!agent->stop_ms || agent->running > 0)
        return false;
    uint64_t now_ms = ten_now_ms();
    if (!agent->leave_ms)
        agent->leave_ms = now_ms + RELEASE_MS;
    if (agent->stop_signals > 1)
        agent->leave_ms = ten_min_u64(agent->leave_ms, now_ms + HURRY_MS);
    return now_ms >= agent->leave_ms;
}

static void loop(struct ten_agent *agent) {
    atomic_store(&agent->shared->state->begun, true);
    atomic_fetch_add(&agent->shared->state->turns, 1);
    while (!agent->stopped && !agent->refused && !gives_up(agent)) {
        ten_poll_http_wait(agent, wait_ms(agent));
        atomic_fetch_add(&agent->shared->state->turns, 1);
        ten_poll_http_work(agent);
        take_ready(agent);
        make_up_for_lost(agent);
        run_due(agent);
        look_at_sinks(agent);
        ten_source_look(agent);
        if (agent->config->cron)
            ten_jobs_note_clock(agent, atomic_load(&agent->store_ahead_ms));
    }
}

/* ---- start and end */

static int watch(struct ten_agent *agent, int fd, void *what, ten_error *error) {
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = what};
    if (fd < 0 || epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, fd, &wanted) != 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot start the agent's loop");
    return TENURE_OK;
}

static int open_loop(struct ten_agent *agent, ten_error *error) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    agent->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    agent->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    agent->event_fd = ten_eventfd_open();
    int r = ten_poll_http_open(agent, error);
    if (r == TENURE_OK)
        r = watch(agent, agent->signal_fd, &agent->signal_fd, error);
    return r < 0 ? r : watch(agent, agent->event_fd, &agent->event_fd, error);
}

static int open_sinks(struct ten_agent *agent, ten_error *error) {
    agent->sinks = ten_calloc(agent->config->sink_count + 1, sizeof(ten_sink *));
    if (!agent->sinks)
        return ten_fail_memory(error, "the sinks");
    int r = ten_receipts_open(&agent->receipts, error);
    if (r == TENURE_OK)
        r = watch(agent, ten_receipts_fd(agent->receipts), &agent->receipts, error);
    for (size_t i = 0; r == TENURE_OK && i < agent->config->sink_count; i++)
        r = ten_sink_open(agent->config->sinks[i], agent->config, &agent->sinks[i], error);
    return r;
}

static bool was_stopped(void *userdata) {
    const struct ten_agent *agent = userdata;
    return ten_store_wait_signal(agent->signal_fd) != 0;
}

static int open_context(struct ten_agent *agent, ten_error *error) {
    const ten_agent_config *config = agent->config;
    ten_log_config log = {.fd = STDERR_FILENO,
                          .format = config->log_format,
                          .level = config->log_level,
                          .clock = &ten_system_clock,
                          .namespace_name = config->context.namespace_name};
    ten_store_wait wait = {.store = config->store,
                           .wait_ms = config->store_wait_ms,
                           .log = &log,
                           .is_stopped = was_stopped,
                           .userdata = agent};
    int r = ten_store_wait_open(&wait, &config->context, &agent->context, error);
    if (r < 0)
        return r;
    agent->instance = tenure_instance_id(agent->context);
    agent->namespace_name = config->context.namespace_name;
    struct ten_shared_state *state = agent->shared->state;
    snprintf(state->instance, sizeof state->instance, "%s", agent->instance);
    atomic_store(&state->ready, true);
    log.instance = agent->instance;
    r = ten_log_open(&log, &agent->log, error);
    agent->children.log = agent->log;
    ten_children_report(&agent->children, TEN_LOG_INFO);
    return r;
}

/* Joins the fleet. */
static int open_member(struct ten_agent *agent, ten_error *error) {
    const ten_agent_config *config = agent->config;
    tenure_member_options options = {.size = sizeof options,
                                     .flags = strcmp(config->targets, "store") == 0 ? TENURE_TARGETS_FROM_STORE : 0,
                                     .weight = config->weight,
                                     .namespace_name = config->context.namespace_name,
                                     .settle_ms = config->settle_ms,
                                     .max_targets = config->max_targets,
                                     .on_event = on_event,
                                     .userdata = agent};
    ten_member_extras extras = {.beliefs = &agent->shared->beliefs,
                                .on_target = on_target,
                                .userdata = agent,
                                .measures = &agent->measures,
                                .on_checkpoint = on_checkpoint,
                                .on_store_clock = config->cron ? on_store_clock : NULL,
                                .isolation = ten_isolation_name(agent->children.isolation.form)};
    int r = ten_member_open(agent->context, &options, &extras, &agent->member);
    if (r == TENURE_OK && config->healthy) /* until the first result */
        r = tenure_member_set_weight(agent->member, 0);
    return r < 0 ? ten_fail(error, r, "%s", tenure_message(NULL)) : TENURE_OK;
}

static int open_source(struct ten_agent *agent, ten_error *error) {
    int r = ten_source_open(agent, error);
    if (r == TENURE_OK && agent->source_fd >= 0)
        r = watch(agent, agent->source_fd, &agent->source_fd, error);
    return r;
}

static void close_sinks(struct ten_agent *agent) {
    for (size_t i = 0; agent->sinks && i < agent->config->sink_count && agent->sinks[i]; i++) {
        ten_sink_event event;
        ten_sink_close(agent->sinks[i], FLUSH_MS, &event);
        report_sink(agent, agent->config->sinks[i], &event);
    }
}

static int open_exporter(struct ten_agent *agent, ten_error *error) {
    ten_exporter_config config = {.address = agent->config->metrics,
                                  .kind = agent->config->cron ? TEN_EXPORTS_CRON : TEN_EXPORTS_FLEET,
                                  .measures = &agent->measures,
                                  .instance = agent->instance,
                                  .namespace_name = agent->namespace_name,
                                  .store = agent->config->store,
                                  .write_jobs = ten_jobs_gauges_write,
                                  .jobs = &agent->job_gauges,
                                  .log = agent->log};
    return ten_exporter_open(&config, &agent->exporter, error);
}

static void close_agent(struct ten_agent *agent) {
    ten_exporter_close(agent->exporter);
    ten_source_close(agent);
    tenure_member_close(agent->member);
    take_events(agent);
    for (uint32_t i = 0; i < agent->target_room; i++) {
        if (!agent->targets[i])
            continue;
        ten_poll_withdraw(agent, agent->targets[i]);
        free_target(agent->targets[i]);
    }
    close_sinks(agent);
    ten_receipts_close(agent->receipts);
    ten_map_free(&agent->by_id);
    ten_timers_free(&agent->polls);
    ten_timers_free(&agent->checks);
    ten_zones_free(&agent->zones);
    ten_jobs_gauges_free(&agent->job_gauges);
    ten_free(agent->targets);
    ten_free(agent->sinks);
    ten_children_free(&agent->children);
    ten_poll_http_close(agent);
    ten_health_close(&agent->health);
    ten_close_fd(&agent->epoll_fd);
    ten_close_fd(&agent->signal_fd);
    ten_close_fd(&agent->event_fd);
    (void)tenure_close(agent->context);
    ten_log_close(agent->log, FLUSH_MS);
    pthread_mutex_destroy(&agent->event_lock);
}

static int fail_refused(const struct ten_agent *agent, ten_error *error) {
    int refused = agent->refused;
    if (refused == TENURE_E_TTL)
        return ten_fail(error, refused,
                        "the instances of this namespace use another TTL: all of a fleet use the same --ttl");
    if (refused == TENURE_E_TOO_MANY)
        return ten_fail(error, refused,
                        "there are more targets than the %u that this instance is willing to hold; raise --max-targets "
                        "(each takes about 120 bytes of memory beside its id), or spread them over several namespaces",
                        agent->config->max_targets);
    if (refused == TENURE_E_GONE || agent->refusal.message[0] == '\0')
        return ten_fail(error, refused, "this instance was declared gone");
    return ten_fail(error, refused, "%s", agent->refusal.message);
}

int ten_agent_run(const ten_agent_config *config, ten_shared *shared, ten_error *error) {
    struct ten_agent agent = {.config = config,
                              .shared = shared,
                              .epoll_fd = -1,
                              .signal_fd = -1,
                              .event_fd = -1,
                              .source_fd = -1,
                              .health = TEN_HEALTH_NONE};
    pthread_mutex_init(&agent.event_lock, NULL);
    ten_jobs_gauges_open(&agent.job_gauges, config->context.namespace_name);
    agent.last_event = &agent.first_event;
    /* Before anything else: children of the worker that is set up have no memory of most libraries. */
    int r =
        config->healthy ? ten_health_open(&agent.health, config->healthy, config->healthy_every_ms, error) : TENURE_OK;
    ten_children_open(&agent.children, shared, config->isolation, config->grace_ms, &agent.measures);
    agent.work_rules = (ten_work_rules){.grace_ms = config->grace_ms,
                                        .kill_after_ms = KILL_AFTER_MS,
                                        .kill_overdue_after_ms = KILL_AFTER_MS,
                                        .flush_ms = FLUSH_MS,
                                        .stop_when_uncertain = config->stop_when_uncertain,
                                        .has_result = true};
    ten_tree_adopt();
    if (r == TENURE_OK)
        r = open_loop(&agent, error);
    if (r == TENURE_OK && config->healthy)
        r = watch(&agent, agent.health.fd, &agent.health, error);
    if (r == TENURE_OK)
        r = open_sinks(&agent, error);
    if (r == TENURE_OK)
        r = open_context(&agent, error);
    if (r == TENURE_OK)
        r = open_source(&agent, error);
    if (r == TENURE_OK && config->metrics)
        r = open_exporter(&agent, error);
    if (r == TENURE_OK)
        r = open_member(&agent, error);
    if (r == TENURE_OK) {
        loop(&agent);
        atomic_store(&shared->state->turns, 0);
        if (agent.refused)
            r = fail_refused(&agent, error);
        else if (agent.stopped)
            TEN_LOG(agent.log, TEN_LOG_INFO, "agent_stopped", TEN_NUMBER("polls", agent.poll_count));
        else
            TEN_LOG(agent.log, TEN_LOG_WARN, "agent_stopped", TEN_NUMBER("polls", agent.poll_count),
                    TEN_TEXT("error", "the store is out of reach: what was held ends by its TTL"));
    } else if (r == TENURE_E_CANCELLED) {
        r = TENURE_OK; /* before there was a store */
    }
    close_agent(&agent);
    return r;
}
