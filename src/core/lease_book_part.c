/*
 * The book of a context's leases as a part of the engine: what to send, what an answer means, and what the feed says.
 * See lease_book.h.
 */
#include "core/lease_book.h"

#include <string.h>

#include "core/lease_book_state.h"

#define REPORT_EACH_MAX 100u /* renewals of one request that are reported one by one */

#define WAITS_FOR_HELD (1u << TEN_BOOK_ACQUIRE | 1u << TEN_BOOK_RENEW)
#define WAITS_FOR_LESS (1u << TEN_BOOK_RENEW | 1u << TEN_BOOK_RELEASE)

static void tell_end(ten_lease_book *book, const ten_book_lease *lease, enum tenure_event_kind kind,
                     enum ten_reason reason) {
    ten_lease_book_tell(book, lease, (tenure_event){.kind = kind, .reason = ten_reason_name(reason)}, NULL);
}

/* ---- the end of a lease against the will of its users */

/* True: the program learns of it. */
static bool lose(ten_lease_book *book, ten_book_lease *lease, enum ten_reason reason, const ten_result *result) {
    bool wanted = ten_lease_book_is_claimed(lease, TEN_BOOK_HOLDING);
    if (ten_holding_is_held(&lease->holding))
        ten_holding_lose(&lease->holding);
    lease->barred = reason == TEN_REASON_FORCED;
    lease->yield = lease->barred && lease->release; /* the work has stopped already */
    lease->renew_now = lease->release = false;
    ten_lease_book_changed(book, lease);
    ten_lease_book_answer_waits(lease, 1u << TEN_BOOK_RENEW, TENURE_E_LOST, result);
    if (!lease->yield)
        ten_lease_book_answer_waits(lease, 1u << TEN_BOOK_RELEASE, TENURE_OK, result);
    if (!wanted)
        return false;
    tell_end(book, lease, TENURE_EVENT_LOST, reason);
    ten_event_queue_publish(book->config.events, &(ten_fact){.kind = TEN_FACT_LOST, .lease = lease, .reason = reason});
    ten_lease_book_drop_claims(lease, TEN_BOOK_HOLDING);
    ten_lease_book_count_follower(book, lease);
    return true;
}

/* A user that has asked for it meanwhile gets a new lease. */
static void after_loss(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease) {
    ten_lease_book_count_follower(book, lease);
    if (ten_lease_book_is_acquiring(lease) || lease->yield || lease->holding.state == TEN_HOLDING_RELEASING)
        ten_lease_book_look(book, lease, now_ms);
    else
        ten_timers_clear(&book->due, lease->number);
    ten_lease_book_tidy(book, lease);
}

/* True: it has just expired, and the program learns of it. */
static bool expire_one(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease) {
    if (!ten_holding_expire(&lease->holding, now_ms))
        return false;
    bool renewed = lease->renewed > 0;
    bool told = lose(book, lease, TEN_REASON_EXPIRED, NULL);
    if (renewed)
        ten_holding_disown(&lease->holding, lease->holding.token, TEN_REASON_EXPIRED);
    after_loss(book, now_ms, lease);
    return told;
}

static bool expire_all(ten_lease_book *book, uint64_t now_ms) {
    uint32_t number;
    bool any = false;
    while (ten_timers_take(&book->deadlines, now_ms, &number))
        any |= expire_one(book, now_ms, book->leases[number]);
    return any;
}

/* ---- requests */

/* It is renewed with the TTL that was granted. */
static ten_timing timing_of(const ten_lease_book *book, const ten_book_lease *lease) {
    ten_timing timing = book->config.timing;
    if (lease->holding.ttl_ms && ten_holding_is_held(&lease->holding))
        timing.ttl_ms = lease->holding.ttl_ms;
    return timing;
}

/* False: there is nothing to send. */
static bool request_one(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_op *ret_op) {
    ten_timing timing = timing_of(book, lease);
    if (lease->yield && lease->holding.state == TEN_HOLDING_NONE)
        ten_holding_disown(&lease->holding, lease->holding.token, TEN_REASON_FORCED);
    if (lease->holding.state == TEN_HOLDING_RELEASING || lease->release) {
        lease->release = false;
        *ret_op = ten_holding_release(&lease->holding, TEN_REASON_DONE, 0);
        ten_lease_book_changed(book, lease);
        return true;
    }
    if (ten_holding_is_held(&lease->holding)) {
        if (ten_lease_book_due_ms(book, lease, now_ms) > now_ms) {
            ten_lease_book_plan(book, lease, now_ms);
            return false;
        }
        lease->renew_now = false;
        *ret_op = ten_holding_renew(&lease->holding, &timing, 0);
        return true;
    }
    if (!ten_lease_book_is_acquiring(lease) || book->stopping)
        return false;
    *ret_op = ten_holding_acquire(&lease->holding, &timing);
    return true;
}

static const ten_op *request(ten_lease_book *book, uint64_t now_ms, size_t *ret_count) {
    uint32_t number;
    book->op_count = 0;
    *ret_count = 0;
    if (expire_all(book, now_ms))
        return NULL; /* the program learns of the end before the lease is released */
    while (book->op_count < book->config.batch_max && ten_timers_take(&book->due, now_ms, &number)) {
        ten_book_lease *lease = book->leases[number];
        ten_op *op = &book->ops[book->op_count];
        if (!request_one(book, now_ms, lease, op))
            continue;
        op->namespace_name = book->config.namespace_name;
        op->target = lease->target;
        op->holder = book->config.instance;
        lease->asked_ms = now_ms;
        book->op_numbers[book->op_count++] = number;
    }
    book->sent_ms = now_ms;
    *ret_count = book->op_count;
    return book->op_count ? book->ops : NULL;
}

/* ---- answers */

/* It should have been released, but there is nothing to release. */
static void forget_release(ten_book_lease *lease, int error) {
    if (lease->holding.state != TEN_HOLDING_NONE || lease->yield)
        return;
    lease->release = false;
    ten_lease_book_answer_waits(lease, 1u << TEN_BOOK_RELEASE, error, NULL);
}

static void note_granted(ten_lease_book *book, ten_book_lease *lease, const ten_result *result) {
    if (lease->yield) /* the lease that was forced has ended by itself */
        ten_lease_book_answer_waits(lease, 1u << TEN_BOOK_RELEASE, TENURE_OK, NULL);
    lease->barred = lease->yield = false;
    bool wanted = ten_lease_book_is_claimed(lease, TEN_BOOK_WAITING);
    if (!wanted || lease->release || book->stopping) {
        lease->release = false;
        ten_holding_disown(&lease->holding, lease->holding.token, TEN_REASON_DONE);
        ten_lease_book_changed(book, lease);
        return;
    }
    lease->tried = false;
    ten_lease_book_grant(lease);
    ten_lease_book_count_follower(book, lease);
    ten_lease_book_changed(book, lease);
    ten_lease_book_answer_waits(lease, WAITS_FOR_HELD, TENURE_OK, result);
    tell_end(book, lease, TENURE_EVENT_ACQUIRED, TEN_REASON_NONE);
}

static void note_renewed(ten_lease_book *book, ten_book_lease *lease, const ten_result *result) {
    bool acquired = ten_lease_book_is_claimed(lease, TEN_BOOK_WAITING); /* by one user more */
    if (lease->release) {                                               /* meanwhile; those who wait get a new one */
        ten_lease_book_changed(book, lease);
        return;
    }
    ten_lease_book_grant(lease);
    ten_lease_book_changed(book, lease);
    ten_lease_book_count_follower(book, lease);
    ten_lease_book_answer_waits(lease, WAITS_FOR_HELD, TENURE_OK, result);
    if (acquired)
        tell_end(book, lease, TENURE_EVENT_ACQUIRED, TEN_REASON_NONE);
    book->renewed_count++;
    if (book->op_count <= REPORT_EACH_MAX)
        tell_end(book, lease, TENURE_EVENT_RENEWED, TEN_REASON_NONE);
}

/* When the first of those who wait wants an answer. */
static uint64_t first_end_ms(const ten_book_lease *lease) {
    uint64_t first_ms = UINT64_MAX;
    for (const ten_book_user *user = lease->users; user; user = user->next)
        if (user->claim == TEN_BOOK_WAITING)
            first_ms = ten_min_u64(first_ms, user->until_ms);
    return first_ms;
}

/* Those whose time is over learn the refusal; the others wait for the end of the other lease. */
static void note_refused(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, const ten_meaning *meaning,
                         const ten_result *result) {
    forget_release(lease, TENURE_OK);
    if (!ten_lease_book_is_acquiring(lease))
        return;
    if (meaning->error != TENURE_E_HELD) {
        ten_lease_book_give_up(book, lease, meaning->error, result);
        return;
    }
    (void)ten_lease_book_refuse_overdue(book, now_ms, lease, meaning->error, result);
    if (!ten_lease_book_is_acquiring(lease))
        return;
    if (result->recovering)
        ten_lease_book_tell(
            book, lease, (tenure_event){.kind = TENURE_EVENT_RECOVERING, .remaining_ms = result->remaining_ms}, NULL);
    uint64_t again_ms = meaning->free_ms + ten_jitter(&book->random, 3);
    ten_lease_book_look(book, lease, ten_min_u64(again_ms, first_end_ms(lease)));
}

/* A token that must not be believed was granted, and is being released: then once more. */
static void note_spent(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, const ten_result *result) {
    ten_lease_book_changed(book, lease);
    if (lease->tried && ten_lease_book_is_acquiring(lease)) {
        for (ten_book_wait *wait = lease->waits; wait; wait = wait->next)
            wait->spent = wait->kind == TEN_BOOK_ACQUIRE;
        ten_lease_book_give_up(book, lease, TENURE_E_STORE, result);
    }
    lease->tried = true;
    ten_lease_book_look(book, lease, now_ms);
}

static void note_late(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, const ten_result *result) {
    ten_lease_book_changed(book, lease);
    for (ten_book_wait *wait = lease->waits; wait; wait = wait->next)
        wait->late = true;
    ten_lease_book_answer_waits(lease, 1u << TEN_BOOK_RENEW, TENURE_E_TIMEOUT, result);
    forget_release(lease, TENURE_OK);
    if (!ten_holding_is_held(&lease->holding) && ten_lease_book_is_acquiring(lease)) {
        (void)ten_lease_book_refuse_overdue(book, now_ms, lease, TENURE_E_TIMEOUT, result);
        if (ten_lease_book_is_acquiring(lease))
            ten_lease_book_look(book, lease, now_ms);
        return;
    }
    ten_lease_book_plan(book, lease, now_ms); /* it expires, or is renewed */
}

/* The lease is over. Those who have asked for it meanwhile get a new one. */
static void go_on(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease) {
    ten_lease_book_count_follower(book, lease);
    if (ten_lease_book_is_acquiring(lease))
        ten_lease_book_look(book, lease, now_ms);
}

static void note_released(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, enum ten_reason reason,
                          const ten_result *result) {
    lease->barred = lease->yield = false;
    ten_lease_book_answer_waits(lease, 1u << TEN_BOOK_RELEASE, TENURE_OK, result);
    if (reason == TEN_REASON_DONE)
        tell_end(book, lease, TENURE_EVENT_RELEASED, reason);
    go_on(book, now_ms, lease);
}

static void take_answer(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, const ten_result *result) {
    ten_timing timing = timing_of(book, lease);
    ten_meaning meaning = ten_holding_answer(&lease->holding, &timing, book->sent_ms, now_ms, result);
    switch (meaning.outcome) {
    case TEN_HOLDING_GRANTED:
        note_granted(book, lease, result);
        break;
    case TEN_HOLDING_RENEWED:
        note_renewed(book, lease, result);
        break;
    case TEN_HOLDING_LATE:
        note_late(book, now_ms, lease, result);
        return;
    case TEN_HOLDING_SPENT:
        note_spent(book, now_ms, lease, result);
        return;
    case TEN_HOLDING_REFUSED:
        note_refused(book, now_ms, lease, &meaning, result);
        return;
    case TEN_HOLDING_BARRED:
    case TEN_HOLDING_LOST:
        (void)lose(book, lease, meaning.reason, result);
        go_on(book, now_ms, lease);
        return;
    case TEN_HOLDING_RELEASED:
    case TEN_HOLDING_KEPT:
    case TEN_HOLDING_UNKEPT:
        note_released(book, now_ms, lease, meaning.reason, result);
        return;
    case TEN_HOLDING_HANDED: /* only fleets hand over */
    case TEN_HOLDING_IGNORED:
        if (ten_lease_book_is_acquiring(lease) || lease->holding.state == TEN_HOLDING_RELEASING)
            ten_lease_book_look(book, lease, now_ms);
        return;
    }
    ten_lease_book_plan(book, lease, now_ms);
}

/* An acquire whose time is over fails; others are tried again, after the engine's pause. */
static void take_no_answer(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, int error) {
    bool acquire = lease->holding.flight == TEN_FLIGHT_ACQUIRE;
    bool uncertain = ten_holding_unanswered(&lease->holding);
    ten_lease_book_changed(book, lease);
    ten_lease_book_answer_waits(lease, WAITS_FOR_LESS, error, NULL);
    forget_release(lease, error);
    if (acquire && ten_lease_book_is_acquiring(lease) && !tenure_error_retryable(error))
        ten_lease_book_give_up(book, lease, error, NULL);
    else
        (void)ten_lease_book_refuse_overdue(book, now_ms, lease, error, NULL);
    ten_lease_book_recount(book, lease);
    if (uncertain && !lease->release)
        ten_lease_book_tell(book, lease, (tenure_event){.kind = TENURE_EVENT_RENEW_FAILED, .error = error}, NULL);
    if (acquire && ten_lease_book_is_acquiring(lease))
        ten_lease_book_look(book, lease, now_ms);
    else
        ten_lease_book_plan(book, lease, now_ms);
}

static void answer(ten_lease_book *book, uint64_t now_ms, int error, const ten_result *results) {
    book->renewed_count = 0;
    for (uint32_t i = 0; i < book->op_count; i++) {
        ten_book_lease *lease = book->leases[book->op_numbers[i]];
        (void)expire_one(book, now_ms, lease);
        if (error == TENURE_OK)
            take_answer(book, now_ms, lease, &results[i]);
        else
            take_no_answer(book, now_ms, lease, error);
        if (lease->yield)
            ten_lease_book_look(book, lease, now_ms);
        ten_lease_book_tidy(book, lease);
    }
    if (book->op_count > REPORT_EACH_MAX && book->renewed_count > 0)
        ten_event_queue_put(book->config.events,
                            (tenure_event){.kind = TENURE_EVENT_RENEWED, .count = book->renewed_count});
    book->op_count = 0;
}

/* ---- the feed */

static void change(ten_lease_book *book, uint64_t now_ms, const ten_change *entry) {
    ten_book_lease *lease = entry->target[0] ? ten_lease_book_find(book, entry->target) : NULL;
    if (entry->kind == TENURE_EVENT_RECOVERING) {
        for (uint32_t i = 0; i < book->room; i++)
            if (book->leases[i] && book->leases[i]->following)
                ten_lease_book_look(book, book->leases[i], now_ms);
        return;
    }
    if (!lease || !lease->following)
        return;
    bool ended = entry->kind == TENURE_EVENT_RELEASED || entry->kind == TENURE_EVENT_LOST;
    bool mine = strcmp(entry->instance, book->config.instance) == 0;
    if (!ten_holding_is_held(&lease->holding)) {
        if (ten_lease_book_is_acquiring(lease) && ended)
            ten_lease_book_look(book, lease, now_ms);
        return;
    }
    bool newer = entry->kind == TENURE_EVENT_ACQUIRED && entry->token > lease->holding.token && !mine;
    bool this_one = ended && entry->token == lease->holding.token;
    if (!newer && !this_one)
        return;
    (void)lose(book, lease,
               newer                                ? TEN_REASON_TAKEN
               : entry->reason == TEN_REASON_FORCED ? TEN_REASON_FORCED
                                                    : TEN_REASON_STORE,
               NULL);
    after_loss(book, now_ms, lease);
}

/* What happened before may have been missed. */
static void follow(ten_lease_book *book, uint64_t now_ms) {
    for (uint32_t i = 0; i < book->room; i++) {
        ten_book_lease *lease = book->leases[i];
        if (!lease || !lease->following)
            continue;
        lease->renew_now |= ten_holding_is_held(&lease->holding) && lease->renewed > 0;
        ten_lease_book_look(book, lease, now_ms);
    }
}

/* ---- as a part of the engine */

/* From when on the lease that ends first should have been renewed. */
static uint64_t urgent_ms(const ten_lease_book *book) {
    const ten_timing *timing = &book->config.timing;
    uint64_t ends_ms = ten_timers_next(&book->deadlines);
    return ends_ms == UINT64_MAX ? ends_ms
                                 : ten_sub_saturating(ends_ms, timing->ttl_ms - timing->margin_ms - timing->renew_ms);
}

void ten_lease_book_step(void *part, const ten_engine_event *event, ten_part_update *update) {
    ten_lease_book *book = part;
    if (event->kind == TEN_ON_TIMER)
        (void)expire_all(book, event->now_ms);
    else if (event->kind == TEN_ON_REQUEST)
        update->ops = request(book, event->now_ms, &update->count);
    else if (event->kind == TEN_ON_ANSWER)
        answer(book, event->now_ms, event->error, event->results);
    else if (event->kind == TEN_ON_CHANGE)
        change(book, event->now_ms, event->change);
    else if (event->kind == TEN_ON_FOLLOW)
        follow(book, event->now_ms);
}

void ten_lease_book_due(const void *part, uint64_t now_ms, ten_part_due *due) {
    const ten_lease_book *book = part;
    uint64_t next_ms = ten_timers_next(&book->due);
    due->next_ms = next_ms == UINT64_MAX ? next_ms : ten_max_u64(next_ms, now_ms);
    due->urgent_ms = urgent_ms(book);
    due->deadline_ms = ten_timers_next(&book->deadlines);
    due->follows = book->followers > 0;
}
