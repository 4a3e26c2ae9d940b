/*
 * A poll: what core/work.h decides is carried out here, from its start to its message. The loop in agent_loop.c calls it when
 * a poll is due, when something has happened to one, and when its machine wants to be asked again.
 */
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "agent/common/message.h"
#include "agent/cron/jobs.h"
#include "agent/poller/agent_state.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "runtime/member.h"

/* The first thing that went wrong is the one that is told. */
void ten_poll_fail(struct ten_poll *poll, const char *format, ...) {
    if (poll->error[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(poll->error, sizeof poll->error, format, args);
    va_end(args);
}

/* The deadline is read first: of what is lost in between, it is of no use. */
static ten_work_lease lease_of(const struct ten_agent *agent, const struct ten_agent_target *target) {
    tenure_member_info info = {.size = sizeof info};
    const ten_belief *belief = target->handle.belief;
    ten_work_lease lease = {.ends_ms = ten_belief_ends_ms(belief), .closing = ten_belief_work_until_ms(belief) == 0};
    if (tenure_member_read(agent->member, target->id, &info) < 0)
        return (ten_work_lease){0};
    lease.token = info.token;
    lease.confirmed = info.state == TENURE_STATE_HELD;
    if (!lease.confirmed && info.state != TENURE_STATE_UNCERTAIN)
        lease.ends_ms = 0;
    return lease;
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

/* From here on the target is not released. It is told once, however many polls of it are under way: what has not left
 * of the last one, and the next one. */
static bool begin(struct ten_agent *agent, struct ten_agent_target *target) {
    uint64_t token;
    target->busy = target->busy || tenure_member_begin(agent->member, target->id, &token) == TENURE_OK;
    return target->busy;
}

static void end(struct ten_agent *agent, struct ten_agent_target *target) {
    if (!target->busy || target->poll || target->sending || target->writing || ten_jobs_is_pending(target))
        return;
    target->busy = false;
    (void)tenure_member_end(agent->member, target->id);
}

void ten_poll_start(struct ten_agent *agent, struct ten_agent_target *target) {
    if (target->poll || !target->handle.belief || !tenure_handle_is_held(target->handle) || agent->stop_ms)
        return;
    if (target->writing) { /* it is to start from what the last one has left */
        target->waits = true;
        return;
    }
    if (!begin(agent, target))
        return;
    ten_work_lease lease = lease_of(agent, target);
    uint64_t now_ms = ten_now_ms();
    struct ten_poll *poll = NULL;
    if (ten_work_may_start(&agent->work_rules, &lease, now_ms))
        poll = ten_calloc(1, sizeof *poll);
    if (!poll) {
        end(agent, target);
        return;
    }
    uint64_t timeout_ms =
        target->job ? ten_jobs_timeout_ms(target, now_ms) : ten_add_saturating(now_ms, agent->config->timeout_ms);
    ten_work_start(&poll->work, &agent->work_rules, &lease, timeout_ms, now_ms);
    poll->target = target;
    agent->poll_count++;
    poll->start_ms = now_ms;
    poll->start_wall_ms = ten_wall_ms(&ten_system_clock);
    poll->out_fd = -1;
    target->poll = poll;
    agent->running++;
    (void)start_kind(agent, poll);
    ten_poll_look(agent, poll); /* one that could not be started is over */
}

void ten_poll_end(struct ten_agent *agent, struct ten_poll *poll, const char *why) {
    if (poll->work.state != TEN_WORK_RUNNING || poll->work.told)
        return;
    ten_poll_fail(poll, "%s", why);
    ten_work_end(&poll->work);
    ten_timers_set(&agent->checks, poll->target->number, 0);
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
                           .token = poll->work.token,
                           .at_ms = poll->start_wall_ms,
                           .duration_ms = poll->duration_ms,
                           .error = poll->error[0] ? poll->error : NULL,
                           .data = ten_buf_string(&poll->output),
                           .data_size = poll->output.size};
    ten_message_write(&message, &line);
    bool taken = !line.failed && (poll->receipt = ten_receipt_make(agent->receipts, poll));
    ten_receipt_hold(poll->receipt); /* until all sinks have been asked */
    for (size_t i = 0; i < agent->config->sink_count; i++)
        if (!taken ||
            !ten_sink_put(agent->sinks[i], &message, poll->receipt, poll->work.send_until_ms, line.data, line.size))
            ten_agent_count_dropped(agent, agent->config->sinks[i], 1);
    ten_receipt_end(poll->receipt, false);
    ten_buf_free(&line);
    ten_buf_free(&poll->output);
}

static void report(struct ten_agent *agent, const struct ten_poll *poll) {
    struct ten_agent_target *target = poll->target;
    target->failures = poll->error[0] ? target->failures + 1 : 0;
    /* The first, then each time that their number has doubled: a target that is down for a day is not a line a second.
     */
    if (target->failures && (target->failures & (target->failures - 1)) == 0)
        TEN_LOG(agent->log, TEN_LOG_WARN, "poll_failed", TEN_TEXT("target", target->id),
                TEN_NUMBER("token", poll->work.token), TEN_TEXT("error", poll->error),
                TEN_NUMBER("failures", target->failures), TEN_NUMBER("duration_ms", poll->duration_ms));
}

/* It is in no list of its target any more. */
static void free_poll(struct ten_agent *agent, struct ten_poll *poll) {
    ten_receipt_forget(poll->receipt);
    ten_buf_free(&poll->output);
    agent->running--;
    ten_free(poll);
}

/* ---- the checkpoint */

/* The output as JSON. Numbers that do not fit into an integer are rounded: then *ret_rounded. */
static json_t *read_output(const struct ten_poll *poll, bool *ret_rounded) {
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *output = json_loadb(poll->output.data, poll->output.size, flags, NULL);
    *ret_rounded = !output;
    return output ? output : json_loadb(poll->output.data, poll->output.size, flags | JSON_DECODE_INT_AS_REAL, NULL);
}

/* What the output of a command has as `_checkpoint`: a text as it is, another value as JSON, null as "". NULL: it has
 * none, or it cannot be kept, for the reason *ret_why. The caller frees it. */
static char *checkpoint_of(const struct ten_poll *poll, const char **ret_why) {
    static const char name[] = "\"_checkpoint\"";
    *ret_why = NULL;
    if (poll->error[0] || !poll->output.data || !memmem(poll->output.data, poll->output.size, name, sizeof name - 1))
        return NULL;
    bool rounded;
    json_t *output = read_output(poll, &rounded);
    const json_t *value = json_object_get(output, "_checkpoint");
    char *text = NULL;
    if (!output)
        *ret_why = "the output has a _checkpoint, but is not one JSON object with different members";
    else if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value))
        *ret_why = "_checkpoint has a NUL character";
    else if (json_is_string(value))
        text = strdup(json_string_value(value));
    else if (json_is_null(value))
        text = strdup("");
    else if (value && rounded)
        *ret_why = "the output has a number that is too large for a _checkpoint which is not a string";
    else if (value)
        text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(output);
    return text;
}

static void report_checkpoint(const struct ten_agent *agent, const struct ten_agent_target *target, uint64_t token,
                              const char *why) {
    TEN_LOG(agent->log, TEN_LOG_WARN, "checkpoint_failed", TEN_TEXT("target", target->id), TEN_NUMBER("token", token),
            TEN_TEXT("error", why));
}

/* Under the token of the poll: if the lease is another's by now, the store refuses it. */
static void write_checkpoint(struct ten_agent *agent, const struct ten_poll *poll) {
    struct ten_agent_target *target = poll->target;
    const char *why = NULL;
    char *value = poll->by_command ? checkpoint_of(poll, &why) : NULL; /* a web page does not write into the store */
    if (why)
        report_checkpoint(agent, target, poll->work.token, why);
    if (!value)
        return;
    int r = TENURE_E_INVALID;
    if (strlen(value) > TENURE_CHECKPOINT_MAX)
        report_checkpoint(agent, target, poll->work.token, "_checkpoint has more than 4096 bytes");
    else if ((r = ten_member_write_checkpoint(agent->member, target->id, poll->work.token, value)) < 0)
        report_checkpoint(agent, target, poll->work.token, tenure_strerror(r));
    if (r == TENURE_OK)
        target->writing = poll->work.token;
    free(value); // NOLINT: of jansson and strndup
}

static void publish_and_report(struct ten_agent *agent, struct ten_poll *poll) {
    if (poll->target->job) {
        ten_jobs_ended(agent, poll);
        return;
    }
    write_checkpoint(agent, poll);
    publish(agent, poll);
    report(agent, poll);
    ten_measure_add(poll->error[0] ? &agent->measures.polls_failed : &agent->measures.polls_ok, 1);
}

static void discard(struct ten_agent *agent, const struct ten_poll *poll) {
    ten_measure_add(&agent->measures.polls_discarded, 1);
    if (poll->target->job) {
        ten_jobs_discarded(agent, poll);
        return;
    }
    TEN_LOG(agent->log, TEN_LOG_INFO, "poll_discarded", TEN_TEXT("target", poll->target->id),
            TEN_NUMBER("token", poll->work.token),
            TEN_TEXT("error", poll->error[0] ? poll->error : "the lease was lost"));
}

/* ---- looking */

static enum ten_work_left left_of(struct ten_agent *agent, struct ten_poll *poll) {
    if (poll->easy)
        return TEN_WORK_ALL;
    enum ten_work_left left = ten_child_left(&agent->children, &poll->child, &poll->work);
    if (left == TEN_WORK_NONE)
        ten_exec_free(agent, poll); /* its process number may soon be another's */
    return left;
}

static void signal_poll(struct ten_agent *agent, struct ten_poll *poll, int signal) {
    static const char *const texts[] = {[TEN_WORK_OVERDUE] = "timed out",
                                        [TEN_WORK_UNCERTAIN] = "the lease is uncertain",
                                        [TEN_WORK_LATE] = "the lease was not renewed in time",
                                        [TEN_WORK_LOST] = "the lease was lost"};
    if (texts[poll->work.why])
        ten_poll_fail(poll, "%s", texts[poll->work.why]);
    if (poll->easy) {
        ten_poll_http_cancel(agent, poll);
        ten_timers_set(&agent->checks, poll->target->number, 0);
    } else {
        ten_child_signal(&agent->children, &poll->child, signal);
    }
}

static void carry_out(struct ten_agent *agent, struct ten_poll *poll, enum ten_work_step step) {
    switch (step) {
    case TEN_WORK_ASK:
    case TEN_WORK_KILL:
        signal_poll(agent, poll, step == TEN_WORK_KILL ? SIGKILL : SIGTERM);
        break;
    case TEN_WORK_PUBLISH:
        publish_and_report(agent, poll);
        break;
    case TEN_WORK_DISCARD:
        discard(agent, poll);
        break;
    case TEN_WORK_DROP: /* the sinks count it */
        ten_receipt_withdraw(poll->receipt);
        break;
    case TEN_WORK_NOTHING:
        break;
    }
}

/* The poll that is under way. One whose message is on its way makes room for the next. */
static void look_at_poll(struct ten_agent *agent, struct ten_agent_target *target, const ten_work_lease *lease) {
    struct ten_poll *poll = target->poll;
    bool was_withheld = poll->work.state == TEN_WORK_WITHHELD;
    enum ten_work_left left = left_of(agent, poll);
    uint64_t now_ms = ten_now_ms();
    if (!was_withheld)
        poll->duration_ms = now_ms - poll->start_ms;
    enum ten_work_step step = ten_work_look(&poll->work, lease, left, now_ms);
    agent->withheld += (size_t)(poll->work.state == TEN_WORK_WITHHELD) - (size_t)was_withheld;
    carry_out(agent, poll, step);
    if (!ten_work_is_over(&poll->work))
        return;
    target->poll = NULL;
    if (ten_work_is_free(&poll->work)) {
        free_poll(agent, poll);
        return;
    }
    poll->next = target->sending;
    target->sending = poll;
}

/* Those whose messages are on their way; `only`: this one, NULL: all. */
static void look_at_sending(struct ten_agent *agent, struct ten_agent_target *target, const ten_work_lease *lease,
                            const struct ten_poll *only) {
    uint64_t now_ms = ten_now_ms();
    for (struct ten_poll **at = &target->sending; *at;) {
        struct ten_poll *poll = *at;
        if (!only || poll == only) {
            bool open = poll->receipt && ten_receipt_is_open(poll->receipt);
            carry_out(agent, poll, ten_work_look(&poll->work, lease, open ? TEN_WORK_ALL : TEN_WORK_NONE, now_ms));
        }
        if (ten_work_is_free(&poll->work)) {
            *at = poll->next;
            free_poll(agent, poll);
        } else {
            at = &poll->next;
        }
    }
}

/* After a look: when to look again, or what to do if nothing is left. */
static void settle(struct ten_agent *agent, struct ten_agent_target *target) {
    uint64_t now_ms = ten_now_ms();
    uint64_t next_ms = target->poll ? ten_work_next_ms(&target->poll->work, now_ms) : UINT64_MAX;
    for (const struct ten_poll *poll = target->sending; poll; poll = poll->next)
        next_ms = ten_min_u64(next_ms, ten_work_next_ms(&poll->work, now_ms));
    ten_timers_set(&agent->checks, target->number, next_ms);
    if (target->poll || target->sending || target->writing)
        return;
    ten_timers_clear(&agent->checks, target->number);
    end(agent, target);
    if (target->removed)
        ten_agent_drop_target(agent, target);
}

void ten_poll_look(struct ten_agent *agent, struct ten_poll *poll) {
    struct ten_agent_target *target = poll->target;
    ten_work_lease lease = lease_of(agent, target);
    bool runs = poll == target->poll;
    if (runs)
        look_at_poll(agent, target, &lease);
    look_at_sending(agent, target, &lease,
                    runs ? target->sending : poll); /* one that was just published is the first */
    settle(agent, target);
}

void ten_poll_checkpoint_done(struct ten_agent *agent, struct ten_agent_target *target, uint64_t token, int error) {
    if (error < 0 && !target->job)
        report_checkpoint(agent, target, token,
                          error == TENURE_E_LOST ? "the lease was lost; nothing was written" : tenure_strerror(error));
    if (target->writing != token)
        return;
    target->writing = 0;
    if (target->job)
        ten_jobs_written(agent, target, error);
    settle(agent, target);
}

void ten_poll_look_at_all(struct ten_agent *agent, struct ten_agent_target *target) {
    if (!target->poll && !target->sending)
        return;
    ten_work_lease lease = lease_of(agent, target);
    if (target->poll)
        look_at_poll(agent, target, &lease);
    look_at_sending(agent, target, &lease, NULL);
    settle(agent, target);
}

/* ---- the end of the agent */

void ten_poll_flush(struct ten_agent *agent, struct ten_agent_target *target, bool hurry) {
    if (target->poll)
        ten_work_flush(&target->poll->work);
    for (struct ten_poll *poll = target->sending; poll; poll = poll->next) {
        ten_work_flush(&poll->work);
        if (hurry)
            ten_work_hurry(&poll->work);
    }
    if (target->sending)
        ten_timers_set(&agent->checks, target->number, 0);
}

void ten_poll_withdraw(struct ten_agent *agent, struct ten_agent_target *target) {
    while (target->sending) {
        struct ten_poll *poll = target->sending;
        target->sending = poll->next;
        if (poll->receipt)
            ten_receipt_withdraw(poll->receipt);
        free_poll(agent, poll);
    }
}
