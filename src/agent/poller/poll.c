/*
 * A poll's life: it starts only under a confirmed lease, is ended when the lease is lost, or not renewed by a grace
 * before its deadline, or when its time is up, and is published only while the lease is confirmed. Called by the loop
 * in agent.c.
 */
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "agent/common/message.h"
#include "agent/poller/agent_state.h"
#include "base/alloc.h"
#include "base/clock.h"

#define KILL_AFTER_MS      1000u /* asked to end, with the lease still good */
#define KILL_LOST_AFTER_MS 50u   /* asked to end, with the lease gone */
#define LOOK_MS            20u   /* at what is left of a poll that is ending */

/* The first thing that went wrong is the one that is told. */
void ten_poll_fail(struct ten_poll *poll, const char *format, ...) {
    if (poll->error[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(poll->error, sizeof poll->error, format, args);
    va_end(args);
}

static uint64_t ends_ms(const struct ten_poll *poll) {
    return ten_belief_ends_ms(poll->target->handle);
}

/* ---- starting */

static bool start_kind(struct ten_agent *agent, struct ten_poll *poll) {
    const struct ten_agent_target *target = poll->target;
    enum ten_poll_how how = agent->config->how;
    if (how == TEN_POLL_EXEC)
        return ten_exec_start(agent, poll, agent->config->command);
    if (how == TEN_POLL_SPEC && target->exec && agent->config->trust_targets)
        return ten_exec_start(agent, poll, target->exec);
    if (how == TEN_POLL_SPEC && target->exec) {
        ten_poll_fail(poll, "the target has a command, and targets are not trusted (--trust-targets)");
        return false;
    }
    if (!target->url || target->url[0] == '\0') {
        ten_poll_fail(poll, "the target has no url");
        return false;
    }
    return ten_poll_http_start(agent, poll, target->url);
}

static uint64_t next_check_ms(const struct ten_agent *agent, const struct ten_poll *poll) {
    if (poll->phase == TEN_POLL_ENDING)
        return ten_now_ms() + LOOK_MS;
    uint64_t ends = ends_ms(poll);
    uint64_t stop_ms = ten_sub_saturating(ends, agent->config->grace_ms);
    return poll->phase == TEN_POLL_HELD ? ends : ten_min_u64(stop_ms, poll->end_ms);
}

void ten_poll_start(struct ten_agent *agent, struct ten_agent_target *target) {
    uint64_t token;
    if (target->poll || !target->handle || !tenure_handle_is_held(target->handle) || agent->stop_ms)
        return;
    struct ten_poll *poll = ten_calloc(1, sizeof *poll);
    if (!poll || tenure_member_begin(agent->member, target->id, &token) < 0) {
        ten_free(poll);
        return;
    }
    poll->target = target;
    poll->token = token;
    poll->number = ++agent->poll_count;
    poll->start_ms = ten_now_ms();
    poll->start_wall_ms = ten_wall_ms(&ten_system_clock);
    poll->end_ms = poll->start_ms + agent->config->timeout_ms;
    poll->out_fd = -1;
    target->poll = poll;
    agent->running++;
    if (start_kind(agent, poll))
        ten_timers_set(&agent->checks, target->number, next_check_ms(agent, poll));
    else
        ten_poll_finished(agent, poll);
}

/* ---- ending */

void ten_poll_end(struct ten_agent *agent, struct ten_poll *poll, bool discard, const char *why) {
    uint64_t now_ms = ten_now_ms();
    uint64_t kill_ms = now_ms + (discard ? KILL_LOST_AFTER_MS : KILL_AFTER_MS);
    ten_poll_fail(poll, "%s", why);
    poll->discarded |= discard;
    if (poll->phase == TEN_POLL_HELD) {
        ten_poll_finished(agent, poll);
        return;
    }
    if (poll->easy) {
        ten_poll_http_cancel(agent, poll);
        ten_poll_finished(agent, poll);
        return;
    }
    if (poll->phase == TEN_POLL_RUNNING)
        ten_exec_signal(agent, poll, SIGTERM);
    poll->kill_ms = poll->phase == TEN_POLL_RUNNING ? kill_ms : ten_min_u64(poll->kill_ms, kill_ms);
    poll->phase = TEN_POLL_ENDING;
    ten_timers_set(&agent->checks, poll->target->number, now_ms + LOOK_MS);
}

/* ---- over */

/* Reported when it begins, and then each time their number has doubled. */
void ten_agent_count_dropped(struct ten_agent *agent, const char *sink, uint64_t count) {
    uint64_t before = agent->dropped;
    agent->dropped += count;
    ten_measure_add(&agent->measures.dropped, count);
    if ((before ^ agent->dropped) > before)
        TEN_LOG(agent->log, TEN_LOG_WARN, "publish_dropped", TEN_TEXT("sink", sink),
                TEN_NUMBER("count", agent->dropped));
}

static void publish(struct ten_agent *agent, struct ten_poll *poll) {
    ten_buf line = {0};
    ten_message message = {.namespace_name = agent->namespace_name,
                           .target = poll->target->id,
                           .instance = agent->instance,
                           .token = poll->token,
                           .at_ms = poll->start_wall_ms,
                           .duration_ms = poll->duration_ms,
                           .error = poll->error[0] ? poll->error : NULL,
                           .data = ten_buf_string(&poll->output),
                           .data_size = poll->output.size};
    ten_message_write(&message, &line);
    for (size_t i = 0; i < agent->config->sink_count; i++)
        if (line.failed || !ten_sink_put(agent->sinks[i], &message, ends_ms(poll), line.data, line.size))
            ten_agent_count_dropped(agent, agent->config->sinks[i], 1);
    ten_buf_free(&line);
}

static void report(struct ten_agent *agent, const struct ten_poll *poll) {
    struct ten_agent_target *target = poll->target;
    target->failures = poll->error[0] ? target->failures + 1 : 0;
    /* The first, then each time that their number has doubled: a target that is down for a day is not a line a second.
     */
    if (target->failures && (target->failures & (target->failures - 1)) == 0)
        TEN_LOG(agent->log, TEN_LOG_WARN, "poll_failed", TEN_TEXT("target", target->id),
                TEN_NUMBER("token", poll->token), TEN_TEXT("error", poll->error),
                TEN_NUMBER("failures", target->failures), TEN_NUMBER("duration_ms", poll->duration_ms));
}

static void free_poll(struct ten_agent *agent, struct ten_poll *poll) {
    struct ten_agent_target *target = poll->target;
    ten_timers_clear(&agent->checks, target->number);
    if (poll->out_fd >= 0 || poll->child.pid)
        ten_exec_free(agent, poll);
    ten_poll_http_cancel(agent, poll);
    ten_buf_free(&poll->output);
    target->poll = NULL;
    agent->running--;
    tenure_member_end(agent->member, target->id);
    ten_free(poll);
    if (target->removed)
        ten_agent_drop_target(agent, target);
}

void ten_poll_finished(struct ten_agent *agent, struct ten_poll *poll) {
    uint64_t now_ms = ten_now_ms();
    if (poll->phase != TEN_POLL_HELD)
        poll->duration_ms = now_ms - poll->start_ms;
    if (poll->child.pid && !ten_exec_is_gone(agent, poll, SIGTERM)) {
        /* The command is over, but something that it started is not: it goes, too, before the target can. */
        if (poll->phase == TEN_POLL_RUNNING)
            poll->kill_ms = now_ms + KILL_LOST_AFTER_MS;
        poll->phase = TEN_POLL_ENDING;
        ten_timers_set(&agent->checks, poll->target->number, now_ms + LOOK_MS);
        return;
    }
    tenure_lease_info info;
    bool known = tenure_member_lease_info(agent->member, poll->target->id, &info) == TENURE_OK;
    if (!poll->discarded && known && info.token == poll->token && info.state == TENURE_STATE_UNCERTAIN) {
        poll->phase = TEN_POLL_HELD;
        ten_timers_set(&agent->checks, poll->target->number, next_check_ms(agent, poll));
        return;
    }
    if (!poll->discarded && known && info.token == poll->token && info.state == TENURE_STATE_OWNED &&
        ends_ms(poll) > now_ms) {
        publish(agent, poll);
        report(agent, poll);
        ten_measure_add(poll->error[0] ? &agent->measures.polls_failed : &agent->measures.polls_ok, 1);
    } else {
        ten_measure_add(&agent->measures.polls_discarded, 1);
        TEN_LOG(agent->log, TEN_LOG_INFO, "poll_discarded", TEN_TEXT("target", poll->target->id),
                TEN_NUMBER("token", poll->token),
                TEN_TEXT("error", poll->error[0] ? poll->error : "the lease was lost"));
    }
    free_poll(agent, poll);
}

void ten_poll_check(struct ten_agent *agent, struct ten_poll *poll) {
    uint64_t now_ms = ten_now_ms();
    uint64_t ends = ends_ms(poll);
    if (poll->phase == TEN_POLL_HELD) {
        poll->discarded |= now_ms >= ends;
        ten_poll_finished(agent, poll);
        return;
    }
    if (poll->phase == TEN_POLL_ENDING) {
        int signal = now_ms >= poll->kill_ms ? SIGKILL : SIGTERM;
        if (signal == SIGKILL && !poll->child.exited)
            ten_exec_signal(agent, poll, SIGKILL);
        if (poll->child.exited && ten_exec_is_gone(agent, poll, signal))
            ten_poll_finished(agent, poll);
        else
            ten_timers_set(&agent->checks, poll->target->number, now_ms + LOOK_MS);
        return;
    }
    if (now_ms + agent->config->grace_ms >= ends)
        ten_poll_end(agent, poll, true, "the lease was not renewed in time");
    else if (now_ms >= poll->end_ms)
        ten_poll_end(agent, poll, false, "timed out");
    else
        ten_timers_set(&agent->checks, poll->target->number, next_check_ms(agent, poll));
}
