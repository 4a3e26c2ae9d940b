/*
 * A run of the work on a target: carries out what core/work.h decides, from the start until the message has left. The
 * policy says what runs and what the result means. Called when a run is due, when its process or its lease has changed,
 * and when core/work.h asked to be called again.
 */
#include <signal.h>
#include <stdarg.h>

#include "agent/runner/agent_state.h"
#include "base/alloc.h"

/* The first thing that went wrong is the one that is reported. */
void ten_run_fail(struct ten_target_run *run, const char *format, ...) {
    if (run->error[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(run->error, sizeof run->error, format, args);
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

/* The fleet member counts it once, however many runs of a target are under way: what has not left of the last one,
 * and the next one. */
bool ten_run_keep_target(struct ten_agent *agent, struct ten_agent_target *target) {
    uint64_t token;
    target->busy = target->busy || tenure_member_begin(agent->member, target->id, &token) == TENURE_OK;
    return target->busy;
}

static void release_target(struct ten_agent *agent, struct ten_agent_target *target) {
    const ten_policy *policy = agent->policy;
    if (!target->busy || target->run || target->sending || target->writing ||
        (policy->is_pending && policy->is_pending(target)))
        return;
    target->busy = false;
    (void)tenure_member_end(agent->member, target->id);
}

void ten_run_start(struct ten_agent *agent, struct ten_agent_target *target) {
    if (target->run || !target->handle.belief || !tenure_handle_is_held(target->handle) || agent->stop_ms)
        return;
    if (target->writing) { /* it is to start from what the last one has left */
        target->waits = true;
        return;
    }
    if (!ten_run_keep_target(agent, target))
        return;
    ten_work_lease lease = lease_of(agent, target);
    uint64_t now_ms = ten_now_ms();
    struct ten_target_run *run = NULL;
    if (ten_work_may_start(&agent->work_rules, &lease, now_ms))
        run = ten_calloc(1, sizeof *run);
    if (!run) {
        release_target(agent, target);
        return;
    }
    uint64_t timeout_ms = ten_add_saturating(now_ms, agent->policy->timeout_ms(agent, target));
    ten_work_start(&run->work, &agent->work_rules, &lease, timeout_ms, now_ms);
    run->agent = agent;
    run->target = target;
    agent->run_count++;
    run->start_ms = now_ms;
    run->start_wall_ms = ten_wall_ms(&ten_system_clock);
    run->child = TEN_CHILD_NONE;
    target->run = run;
    agent->running++;
    agent->policy->start(agent, run);
    ten_run_look(agent, run); /* one that could not be started is over */
}

void ten_run_end(struct ten_agent *agent, struct ten_target_run *run, const char *why) {
    if (run->work.state != TEN_WORK_RUNNING || run->work.cancelled)
        return;
    ten_run_fail(run, "%s", why);
    ten_work_end(&run->work);
    ten_timers_set(&agent->checks, run->target->number, 0);
}

/* ---- over */

/* It is in no list of its target any more. */
static void free_run(struct ten_agent *agent, struct ten_target_run *run) {
    ten_receipt_forget(run->receipt);
    ten_buf_free(&run->output);
    agent->running--;
    ten_free(run);
}

/* ---- looking */

static enum ten_work_left left_of(struct ten_agent *agent, struct ten_target_run *run) {
    if (run->easy)
        return TEN_WORK_ALL;
    enum ten_work_left left = ten_child_left(&agent->runner.children, &run->child, &run->work);
    if (left == TEN_WORK_NONE)
        ten_run_command_free(agent, run); /* its process number may soon be another's */
    return left;
}

static void signal_run(struct ten_agent *agent, struct ten_target_run *run, int signal) {
    static const char *const texts[] = {[TEN_WORK_OVERDUE] = "timed out",
                                        [TEN_WORK_UNCERTAIN] = "the lease is uncertain",
                                        [TEN_WORK_LATE] = "the lease was not renewed in time",
                                        [TEN_WORK_LOST] = "the lease was lost"};
    if (texts[run->work.why])
        ten_run_fail(run, "%s", texts[run->work.why]);
    if (run->easy) {
        ten_run_http_cancel(agent, run);
        ten_timers_set(&agent->checks, run->target->number, 0);
    } else {
        ten_child_signal(&agent->runner.children, &run->child, signal);
    }
}

static void carry_out(struct ten_agent *agent, struct ten_target_run *run, enum ten_work_step step) {
    switch (step) {
    case TEN_WORK_ASK:
    case TEN_WORK_KILL:
        signal_run(agent, run, step == TEN_WORK_KILL ? SIGKILL : SIGTERM);
        break;
    case TEN_WORK_PUBLISH:
        agent->policy->publish(agent, run);
        break;
    case TEN_WORK_DISCARD:
        ten_measure_add(&agent->runner.measures.polls_discarded, 1);
        agent->policy->discard(agent, run, run->error[0] ? run->error : "the lease was lost");
        break;
    case TEN_WORK_DROP: /* the sinks count it */
        ten_receipt_withdraw(run->receipt);
        break;
    case TEN_WORK_NOTHING:
        break;
    }
}

/* The run that is under way. One whose message is on its way makes room for the next. */
static void look_at_run(struct ten_agent *agent, struct ten_agent_target *target, const ten_work_lease *lease) {
    struct ten_target_run *run = target->run;
    bool was_withheld = run->work.state == TEN_WORK_WITHHELD;
    enum ten_work_left left = left_of(agent, run);
    uint64_t now_ms = ten_now_ms();
    if (!was_withheld)
        run->duration_ms = now_ms - run->start_ms;
    enum ten_work_step step = ten_work_look(&run->work, lease, left, now_ms);
    agent->withheld += (size_t)(run->work.state == TEN_WORK_WITHHELD) - (size_t)was_withheld;
    carry_out(agent, run, step);
    if (!ten_work_is_over(&run->work))
        return;
    target->run = NULL;
    if (ten_work_is_free(&run->work)) {
        free_run(agent, run);
        return;
    }
    run->next = target->sending;
    target->sending = run;
}

/* Those whose messages are on their way; `only`: this one, NULL: all. */
static void look_at_sending(struct ten_agent *agent, struct ten_agent_target *target, const ten_work_lease *lease,
                            const struct ten_target_run *only) {
    uint64_t now_ms = ten_now_ms();
    for (struct ten_target_run **at = &target->sending; *at;) {
        struct ten_target_run *run = *at;
        if (!only || run == only) {
            bool open = run->receipt && ten_receipt_is_open(run->receipt);
            carry_out(agent, run, ten_work_look(&run->work, lease, open ? TEN_WORK_ALL : TEN_WORK_NONE, now_ms));
        }
        if (ten_work_is_free(&run->work)) {
            *at = run->next;
            free_run(agent, run);
        } else {
            at = &run->next;
        }
    }
}

/* When to look again, or what to do if nothing is left. */
void ten_run_settle(struct ten_agent *agent, struct ten_agent_target *target) {
    uint64_t now_ms = ten_now_ms();
    uint64_t next_ms = target->run ? ten_work_next_ms(&target->run->work, now_ms) : UINT64_MAX;
    for (const struct ten_target_run *run = target->sending; run; run = run->next)
        next_ms = ten_min_u64(next_ms, ten_work_next_ms(&run->work, now_ms));
    ten_timers_set(&agent->checks, target->number, next_ms);
    if (target->run || target->sending || target->writing)
        return;
    ten_timers_clear(&agent->checks, target->number);
    release_target(agent, target);
    if (target->removed)
        ten_agent_drop_target(agent, target);
}

void ten_run_look(struct ten_agent *agent, struct ten_target_run *run) {
    struct ten_agent_target *target = run->target;
    ten_work_lease lease = lease_of(agent, target);
    bool runs = run == target->run;
    if (runs)
        look_at_run(agent, target, &lease);
    look_at_sending(agent, target, &lease, runs ? target->sending : run); /* one that was just published is the first */
    ten_run_settle(agent, target);
}

void ten_run_look_at_all(struct ten_agent *agent, struct ten_agent_target *target) {
    if (!target->run && !target->sending)
        return;
    ten_work_lease lease = lease_of(agent, target);
    if (target->run)
        look_at_run(agent, target, &lease);
    look_at_sending(agent, target, &lease, NULL);
    ten_run_settle(agent, target);
}

/* ---- the end of the agent */

void ten_run_flush(struct ten_agent *agent, struct ten_agent_target *target, bool hurry) {
    if (target->run)
        ten_work_flush(&target->run->work);
    for (struct ten_target_run *run = target->sending; run; run = run->next) {
        ten_work_flush(&run->work);
        if (hurry)
            ten_work_hurry(&run->work);
    }
    if (target->sending)
        ten_timers_set(&agent->checks, target->number, 0);
}

void ten_run_withdraw(struct ten_agent *agent, struct ten_agent_target *target) {
    while (target->sending) {
        struct ten_target_run *run = target->sending;
        target->sending = run->next;
        if (run->receipt)
            ten_receipt_withdraw(run->receipt);
        free_run(agent, run);
    }
}
