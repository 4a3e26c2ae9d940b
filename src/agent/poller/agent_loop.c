/*
 * The agent's loop: it waits for events, signals, output and due times, and hands each to its part (agent_events.c,
 * poll.c, source.c, jobs.c). One thread; it decides nothing about leases.
 */
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "agent/cron/jobs.h"
#include "agent/poller/agent_state.h"
#include "base/io.h"
#include "runtime/member.h"

#define STOP_PATIENCE_MS 5000u /* for running polls, after the first signal to stop */
#define RELEASE_MS       2000u /* more, for releasing everything: a store that is away must not keep the agent */
#define HURRY_MS         300u  /* the same, when told twice */
#define SINKS_EVERY_MS   1000u
#define WAIT_MAX_MS      1000u

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

void ten_agent_report_sink(struct ten_agent *agent, const char *name, const ten_sink_event *event) {
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
    agent->sinks_look_ms = now_ms + SINKS_EVERY_MS;
    for (size_t i = 0; i < agent->config->sink_count; i++) {
        ten_sink_event event;
        ten_sink_take_event(agent->sinks[i], &event);
        ten_agent_report_sink(agent, agent->config->sinks[i], &event);
    }
}

/* Messages have left, or were dropped. */
static void take_receipts(struct ten_agent *agent) {
    for (struct ten_poll *poll; (poll = ten_receipts_take(agent->receipts));) {
        ten_agent_note_turn(agent);
        ten_poll_look(agent, poll);
    }
}

/* ---- the loop */

static void run_due(struct ten_agent *agent) {
    uint64_t now_ms = ten_now_ms();
    uint32_t number;
    while (ten_timers_take(&agent->checks, now_ms, &number))
        if (agent->targets[number]) {
            ten_agent_note_turn(agent);
            ten_poll_look_at_all(agent, agent->targets[number]);
        }
    while (ten_timers_take(&agent->polls, now_ms, &number)) {
        struct ten_agent_target *target = agent->targets[number];
        if (!target)
            continue;
        ten_agent_note_turn(agent);
        if (agent->config->cron) {
            ten_jobs_look(agent, target);
            continue;
        }
        ten_agent_poll_due(agent, target, now_ms);
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
    return (int)ten_min_u64(left_ms, WAIT_MAX_MS);
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
            ten_agent_take_events(agent);
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

void ten_agent_loop(struct ten_agent *agent) {
    atomic_store(&agent->shared->state->begun, true);
    atomic_fetch_add(&agent->shared->state->turns, 1);
    while (!agent->stopped && !agent->refused && !gives_up(agent)) {
        ten_poll_http_wait(agent, wait_ms(agent));
        atomic_fetch_add(&agent->shared->state->turns, 1);
        ten_poll_http_work(agent);
        take_ready(agent);
        ten_agent_make_up_for_lost(agent);
        run_due(agent);
        look_at_sinks(agent);
        ten_source_look(agent);
        if (agent->config->cron)
            ten_jobs_note_clock(agent, atomic_load(&agent->store_ahead_ms));
    }
}
