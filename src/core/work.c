/*
 * One piece of work under a lease. Called by the poller, the warden and the simulator, and for hooks and commands by
 * core/term.c. See work.h.
 */
#include "core/work.h"

#include "base/util.h"

/* Where each state leads; every change of state goes through move(). */
#define TO(state) (1u << TEN_WORK_##state)
static const uint8_t moves[] = {
    [TEN_WORK_IDLE] = TO(RUNNING),
    [TEN_WORK_RUNNING] = TO(ASKED) | TO(KILLED) | TO(WITHHELD) | TO(SENDING) | TO(IDLE),
    [TEN_WORK_ASKED] = TO(KILLED) | TO(WITHHELD) | TO(SENDING) | TO(IDLE),
    [TEN_WORK_KILLED] = TO(WITHHELD) | TO(SENDING) | TO(IDLE),
    [TEN_WORK_WITHHELD] = TO(SENDING) | TO(IDLE),
    [TEN_WORK_SENDING] = TO(IDLE),
};

static void move(ten_work *work, enum ten_work_state to) {
    TEN_INVARIANT(moves[work->state] & 1u << to);
    bool ending = to == TEN_WORK_ASKED || to == TEN_WORK_KILLED;
    work->state = to;
    if (!ending)
        work->kill_ms = 0;
    if (to != TEN_WORK_SENDING)
        work->send_until_ms = 0;
    TEN_INVARIANT(ending == (work->kill_ms != 0));
    TEN_INVARIANT((to == TEN_WORK_SENDING) == (work->send_until_ms != 0));
    TEN_INVARIANT(work->token != 0);
    TEN_INVARIANT((to != TEN_WORK_WITHHELD && to != TEN_WORK_SENDING) || (work->rules->has_result && !work->discarded));
}

/* ---- the grace */

enum ten_work_step ten_work_pressure(uint64_t ends_ms, uint64_t grace_ms, uint64_t now_ms) {
    if (now_ms + grace_ms < ends_ms)
        return TEN_WORK_NOTHING;
    return now_ms >= ten_work_kill_ms(ends_ms, grace_ms) ? TEN_WORK_KILL : TEN_WORK_ASK;
}

uint64_t ten_work_ask_ms(uint64_t ends_ms, uint64_t grace_ms) {
    return ten_sub_saturating(ends_ms, grace_ms);
}

/* ---- starting */

bool ten_work_may_start(const ten_work_rules *rules, const ten_work_lease *lease, uint64_t now_ms) {
    return lease->token != 0 && lease->confirmed && !lease->closing &&
           ten_work_pressure(lease->ends_ms, rules->grace_ms, now_ms) == TEN_WORK_NOTHING;
}

void ten_work_start(ten_work *work, const ten_work_rules *rules, const ten_work_lease *lease, uint64_t timeout_ms,
                    uint64_t now_ms) {
    TEN_INVARIANT(work->state == TEN_WORK_IDLE);
    TEN_INVARIANT(ten_work_may_start(rules, lease, now_ms));
    *work = (ten_work){.rules = rules, .token = lease->token, .ends_ms = lease->ends_ms, .timeout_ms = timeout_ms};
    move(work, TEN_WORK_RUNNING);
}

/* ---- ending */

void ten_work_end(ten_work *work) {
    work->cancelled = true;
}

void ten_work_hurry(ten_work *work) {
    work->cancelled = true;
    work->hurried = true;
}

void ten_work_flush(ten_work *work) {
    work->stopping = true;
}

void ten_work_ended_for_lease(ten_work *work) {
    bool ends = work->state == TEN_WORK_RUNNING || work->state == TEN_WORK_ASKED || work->state == TEN_WORK_KILLED;
    TEN_INVARIANT(ends);
    work->discarded = true;
}

static bool is_lost(const ten_work *work, const ten_work_lease *lease) {
    return lease->ends_ms == 0 || lease->token != work->token;
}

static enum ten_work_why why_end(const ten_work *work, const ten_work_lease *lease, uint64_t now_ms) {
    if (is_lost(work, lease))
        return TEN_WORK_LOST;
    if (ten_work_pressure(lease->ends_ms, work->rules->grace_ms, now_ms) != TEN_WORK_NOTHING)
        return TEN_WORK_LATE;
    if (!lease->confirmed && work->rules->stop_when_uncertain)
        return TEN_WORK_UNCERTAIN;
    if (work->cancelled)
        return TEN_WORK_CANCELLED;
    return now_ms >= work->timeout_ms ? TEN_WORK_OVERDUE : TEN_WORK_BY_ITSELF;
}

/* From asking to killing. What is not worth waiting for gets a moment to clean up. */
static uint64_t patience_ms(const ten_work *work, enum ten_work_why why) {
    const ten_work_rules *rules = work->rules;
    if (why == TEN_WORK_LOST || (why == TEN_WORK_LATE && rules->has_result))
        return TEN_WORK_KILL_LOST_AFTER_MS;
    if (why == TEN_WORK_LATE)
        return rules->grace_ms / 2;
    return why == TEN_WORK_OVERDUE ? rules->kill_overdue_after_ms : rules->kill_after_ms;
}

/* Also of a lease that is lost: until its last deadline no other instance gets it, as a rule. */
static bool must_kill(const ten_work *work, uint64_t now_ms) {
    return work->hurried || now_ms >= work->kill_ms ||
           ten_work_pressure(work->ends_ms, work->rules->grace_ms, now_ms) == TEN_WORK_KILL;
}

/* A stronger reason leaves less time. */
static void shorten(ten_work *work, enum ten_work_why why, uint64_t now_ms) {
    if (why <= work->why)
        return;
    work->why = why;
    work->discarded |= why == TEN_WORK_LOST;
    work->kill_ms = ten_min_u64(work->kill_ms, ten_add_saturating(now_ms, patience_ms(work, why)));
}

static enum ten_work_step look_at_ending(ten_work *work, const ten_work_lease *lease, uint64_t now_ms) {
    if (is_lost(work, lease))
        shorten(work, TEN_WORK_LOST, now_ms);
    else if (work->cancelled)
        shorten(work, TEN_WORK_CANCELLED, now_ms);
    if (work->state == TEN_WORK_ASKED && must_kill(work, now_ms))
        move(work, TEN_WORK_KILLED);
    return work->state == TEN_WORK_KILLED ? TEN_WORK_KILL : TEN_WORK_NOTHING;
}

static enum ten_work_step look_at_running(ten_work *work, const ten_work_lease *lease, enum ten_work_left left,
                                          uint64_t now_ms) {
    bool exited = left == TEN_WORK_LEFTOVERS;
    enum ten_work_why why = exited ? TEN_WORK_BY_ITSELF : why_end(work, lease, now_ms);
    if (why == TEN_WORK_BY_ITSELF && !exited)
        return TEN_WORK_NOTHING;
    work->why = why;
    work->discarded |= why == TEN_WORK_LOST || why == TEN_WORK_LATE;
    work->kill_ms = ten_add_saturating(now_ms, exited ? TEN_WORK_KILL_LOST_AFTER_MS : patience_ms(work, why));
    move(work, TEN_WORK_ASKED);
    return look_at_ending(work, lease, now_ms) == TEN_WORK_KILL ? TEN_WORK_KILL : TEN_WORK_ASK;
}

/* ---- its result */

static enum ten_work_step settle(ten_work *work, const ten_work_lease *lease, uint64_t now_ms) {
    bool lost = is_lost(work, lease) || now_ms >= lease->ends_ms;
    if (work->rules->has_result && !work->discarded && !lost && !lease->confirmed) {
        if (work->state != TEN_WORK_WITHHELD)
            move(work, TEN_WORK_WITHHELD);
        return TEN_WORK_NOTHING;
    }
    if (work->rules->has_result && !work->discarded && !lost) {
        work->send_until_ms = lease->ends_ms;
        move(work, TEN_WORK_SENDING);
        return TEN_WORK_PUBLISH;
    }
    move(work, TEN_WORK_IDLE);
    return work->rules->has_result ? TEN_WORK_DISCARD : TEN_WORK_NOTHING;
}

/* ---- its message */

/* A later renewal does not give the message more time: a sink that hangs would keep the target busy for ever. */
static enum ten_work_step look_at_sending(ten_work *work, const ten_work_lease *lease, enum ten_work_left left,
                                          uint64_t now_ms) {
    if (work->stopping && !work->flushing) {
        work->flushing = true;
        work->send_until_ms = ten_min_u64(work->send_until_ms, ten_add_saturating(now_ms, work->rules->flush_ms));
    }
    bool late = is_lost(work, lease) || work->hurried || now_ms >= work->send_until_ms;
    if (left != TEN_WORK_NONE && !late)
        return TEN_WORK_NOTHING;
    move(work, TEN_WORK_IDLE);
    return left == TEN_WORK_NONE ? TEN_WORK_NOTHING : TEN_WORK_DROP;
}

/* ---- looking */

enum ten_work_step ten_work_look(ten_work *work, const ten_work_lease *lease, enum ten_work_left left,
                                 uint64_t now_ms) {
    if (work->state == TEN_WORK_IDLE)
        return TEN_WORK_NOTHING;
    if (!is_lost(work, lease))
        work->ends_ms = lease->ends_ms;
    if (work->state == TEN_WORK_SENDING)
        return look_at_sending(work, lease, left, now_ms);
    if (left == TEN_WORK_NONE || work->state == TEN_WORK_WITHHELD)
        return settle(work, lease, now_ms);
    return work->state == TEN_WORK_RUNNING ? look_at_running(work, lease, left, now_ms)
                                           : look_at_ending(work, lease, now_ms);
}

uint64_t ten_work_next_ms(const ten_work *work, uint64_t now_ms) {
    switch (work->state) {
    case TEN_WORK_RUNNING:
        return ten_min_u64(ten_work_ask_ms(work->ends_ms, work->rules->grace_ms), work->timeout_ms);
    case TEN_WORK_ASKED:
    case TEN_WORK_KILLED:
        return now_ms + TEN_WORK_LOOK_MS;
    case TEN_WORK_WITHHELD:
        return work->ends_ms;
    case TEN_WORK_SENDING:
        return work->stopping && !work->flushing ? now_ms : work->send_until_ms;
    default:
        return UINT64_MAX;
    }
}

/* ---- reading */

bool ten_work_is_free(const ten_work *work) {
    return work->state == TEN_WORK_IDLE;
}

bool ten_work_is_over(const ten_work *work) {
    return work->state == TEN_WORK_IDLE || work->state == TEN_WORK_SENDING;
}

bool ten_work_is_cut_short(const ten_work *work) {
    return work->cancelled || work->why > TEN_WORK_OVERDUE;
}
