/*
 * The terms of one candidate that runs a command. Called by the leader and by the simulator. See term.h.
 */
#include "core/term.h"

#include "base/util.h"

#define HOOK_MS 10000u /* a hook that still runs then is ended */

/* Where each state leads; every change of state goes through move(). */
#define TO(state) (1u << TEN_TERM_##state)
static const uint8_t moves[] = {
    [TEN_TERM_WAITING] = TO(BEGINNING) | TO(READY) | TO(OVER),
    [TEN_TERM_BEGINNING] = TO(READY) | TO(ENDING) | TO(WAITING) | TO(OVER),
    [TEN_TERM_READY] = TO(COMMAND) | TO(ENDING) | TO(WAITING) | TO(OVER),
    [TEN_TERM_COMMAND] = TO(ENDING) | TO(WAITING) | TO(OVER),
    [TEN_TERM_ENDING] = TO(WAITING) | TO(OVER),
    [TEN_TERM_OVER] = 0,
};

static void move(ten_term *term, enum ten_term_state to) {
    TEN_INVARIANT(moves[term->state] & 1u << to);
    TEN_INVARIANT(ten_work_is_free(&term->work));
    TEN_INVARIANT(term->token != 0 || to == TEN_TERM_OVER);
    term->state = to;
}

void ten_term_init(ten_term *term, const ten_term_rules *rules, const ten_backoff *backoff) {
    *term = (ten_term){.rules = *rules, .backoff = *backoff};
}

bool ten_term_works(const ten_term *term) {
    return !ten_work_is_free(&term->work);
}

static bool is_lost(const ten_term *term, const ten_term_facts *facts) {
    return facts->lease.ends_ms == 0 || facts->lease.token != term->token;
}

static bool is_wanted_again(const ten_term *term) {
    if (term->rules.once || term->stops || term->rules.restart == TEN_RESTART_NEVER)
        return false;
    return term->rules.restart == TEN_RESTART_ALWAYS || term->failed;
}

/* Of several reasons that the election does not know yet, it gets the first. */
static void resign(ten_term *term, enum ten_reason reason, uint64_t pause_ms) {
    term->resign_reason = term->resigns ? term->resign_reason : reason;
    term->resign_pause_ms = term->resigns ? ten_max_u64(term->resign_pause_ms, pause_ms) : pause_ms;
    term->resigns = true;
}

/* ---- the steps of a term */

static void start(ten_term *term, enum ten_term_state to, const ten_work_lease *lease, uint64_t timeout_ms,
                  uint64_t now_ms) {
    move(term, to);
    term->passes = false;
    ten_work_start(&term->work, &term->rules.work, lease, timeout_ms, now_ms);
}

static enum ten_term_step end_term(ten_term *term) {
    bool over = term->rules.once || term->stops || (term->done && !is_wanted_again(term));
    move(term, over ? TEN_TERM_OVER : TEN_TERM_WAITING);
    return TEN_TERM_WORK_OVER;
}

/* No deadline presses the hook of the end: it changes nothing that the next leader works on. */
static ten_work_lease unbound(const ten_term *term) {
    return (ten_work_lease){.token = term->token, .ends_ms = UINT64_MAX, .confirmed = true};
}

static enum ten_term_step begin_end(ten_term *term, uint64_t now_ms) {
    if (!term->rules.has_end_hook)
        return end_term(term);
    ten_work_lease lease = unbound(term);
    start(term, TEN_TERM_ENDING, &lease, now_ms + HOOK_MS, now_ms);
    return TEN_TERM_START_END_HOOK;
}

static enum ten_term_step look_at_ready(ten_term *term, const ten_term_facts *facts, uint64_t now_ms) {
    if (facts->over || term->stops || is_lost(term, facts))
        return begin_end(term, now_ms);
    if (!ten_work_may_start(&term->rules.work, &facts->lease, now_ms))
        return TEN_TERM_NOTHING;
    term->began_ms = now_ms;
    term->ran = true;
    start(term, TEN_TERM_COMMAND, &facts->lease, UINT64_MAX, now_ms);
    return TEN_TERM_START_COMMAND;
}

static enum ten_term_step begin_term(ten_term *term, const ten_term_facts *facts, uint64_t now_ms) {
    term->token = facts->lease.token;
    term->lost = term->done = term->unstarted = false;
    if (term->rules.has_begin_hook) {
        start(term, TEN_TERM_BEGINNING, &facts->lease, now_ms + HOOK_MS, now_ms);
        return TEN_TERM_START_BEGIN_HOOK;
    }
    move(term, TEN_TERM_READY);
    return look_at_ready(term, facts, now_ms);
}

/* ---- waiting for a term */

static enum ten_term_step look_for_term(ten_term *term, const ten_term_facts *facts, uint64_t now_ms) {
    bool is_new = facts->lease.token != 0 && facts->lease.token != term->token;
    if (is_new && facts->lease.token != term->known_token) {
        term->known_token = facts->lease.token;
        term->keep_until_ms = ten_add_saturating(now_ms, term->rules.at_least_ms);
    }
    if (is_new && facts->over) { /* before its work began */
        term->token = facts->lease.token;
        return TEN_TERM_WORK_OVER;
    }
    if (is_new && !term->stops && ten_work_may_start(&term->rules.work, &facts->lease, now_ms))
        return begin_term(term, facts, now_ms);
    bool waited = term->rules.once && now_ms >= term->rules.wait_until_ms && now_ms >= facts->recovering_until_ms &&
                  (facts->held || facts->error < 0);
    if (facts->refused || waited || term->stops)
        move(term, TEN_TERM_OVER);
    return TEN_TERM_NOTHING;
}

/* ---- a hook or the command */

/* Nothing of it is left. */
static enum ten_term_step go_on(ten_term *term, const ten_term_facts *facts, uint64_t now_ms) {
    if (term->state == TEN_TERM_ENDING)
        return end_term(term);
    if (term->state == TEN_TERM_COMMAND || ten_work_is_cut_short(&term->work))
        return begin_end(term, now_ms);
    move(term, TEN_TERM_READY);
    return look_at_ready(term, facts, now_ms);
}

static enum ten_term_step look_at_work(ten_term *term, const ten_term_facts *facts, enum ten_work_left left,
                                       uint64_t now_ms) {
    bool is_bound = term->state != TEN_TERM_ENDING;
    bool ran = term->work.state == TEN_WORK_RUNNING;
    ten_work_lease lease = is_bound ? facts->lease : unbound(term);
    bool lost = is_lost(term, facts);
    term->lost |= is_bound && (lost || facts->forced);
    if (is_bound && facts->over && !lost)
        ten_work_end(&term->work);
    enum ten_work_step step = ten_work_look(&term->work, &lease, left, now_ms);
    if (!ten_term_works(term))
        return go_on(term, facts, now_ms);
    /* Should the lease be confirmed after all, there is no more work to lead for. */
    enum ten_work_why why = term->work.why;
    if (ran && (why == TEN_WORK_LATE || why == TEN_WORK_UNCERTAIN)) {
        term->lost = true;
        resign(term, TEN_REASON_STORE, 0);
    }
    if (step == TEN_WORK_KILL)
        return TEN_TERM_KILL;
    if (step != TEN_WORK_ASK)
        return TEN_TERM_NOTHING;
    return term->passes && why == TEN_WORK_CANCELLED ? TEN_TERM_PASS_STOP : TEN_TERM_ASK;
}

/* ---- what happens */

void ten_term_stop(ten_term *term) {
    bool is_first = term->stops++ == 0;
    if (is_first)
        resign(term, TEN_REASON_SHUTDOWN, UINT64_MAX);
    if (!is_first) {
        ten_work_hurry(&term->work);
    } else if (term->state != TEN_TERM_ENDING) {
        term->passes = true;
        ten_work_end(&term->work);
    }
}

void ten_term_exited(ten_term *term, const ten_term_facts *facts, const ten_term_exit *how, uint64_t now_ms) {
    if (term->state != TEN_TERM_COMMAND)
        return;
    bool expired = is_lost(term, facts) || now_ms >= facts->lease.ends_ms;
    term->failed = how->failed;
    term->lost |= expired || how->ended_for_lease;
    if (ten_work_is_cut_short(&term->work))
        return;
    if (term->lost) {
        ten_work_hurry(&term->work);
        resign(term, TEN_REASON_STORE, 0);
        return;
    }
    /* Others may go first now; and at once, if nothing has run. */
    term->done = true;
    term->unstarted = how->unstarted;
    if (how->unstarted)
        term->keep_until_ms = 0;
    uint64_t ran_ms = now_ms - term->began_ms;
    resign(term, TEN_REASON_DONE, is_wanted_again(term) ? ten_backoff_pause_ms(&term->backoff, ran_ms) : UINT64_MAX);
}

enum ten_term_step ten_term_next(ten_term *term, const ten_term_facts *facts, enum ten_work_left left,
                                 uint64_t now_ms) {
    if (term->resigns) {
        term->resigns = false;
        return TEN_TERM_RESIGN;
    }
    if (term->state == TEN_TERM_OVER)
        return TEN_TERM_NOTHING;
    if (term->state == TEN_TERM_WAITING)
        return look_for_term(term, facts, now_ms);
    if (term->state == TEN_TERM_READY)
        return look_at_ready(term, facts, now_ms);
    return look_at_work(term, facts, left, now_ms);
}

uint64_t ten_term_next_ms(const ten_term *term, const ten_term_facts *facts, uint64_t now_ms) {
    if (term->state != TEN_TERM_WAITING || !term->rules.once)
        return ten_work_next_ms(&term->work, now_ms);
    uint64_t waits_until_ms = ten_max_u64(term->rules.wait_until_ms, facts->recovering_until_ms);
    return waits_until_ms > now_ms ? waits_until_ms : UINT64_MAX; /* then only an event of the election ends it */
}

bool ten_term_wants_ready(const ten_term *term, const ten_term_facts *facts) {
    bool will_last = facts->held || term->ran; /* others go first after a run */
    return term->state == TEN_TERM_WAITING && will_last && !facts->refused && !term->stops;
}

/* ---- its end */

enum ten_term_outcome ten_term_outcome(const ten_term *term, const ten_term_facts *facts) {
    bool once = term->rules.once;
    if (facts->refused)
        return TEN_TERM_REFUSED;
    if (term->done || (once && term->ran && term->stops && !term->lost))
        return TEN_TERM_COMMAND_END;
    if (!once)
        return TEN_TERM_ENDED;
    if (term->ran)
        return TEN_TERM_LOST;
    if (term->stops)
        return TEN_TERM_STOPPED;
    return facts->error < 0 ? TEN_TERM_UNKNOWN : TEN_TERM_NOT_ELECTED;
}
