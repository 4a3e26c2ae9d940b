/*
 * The book of a context's leases: its entries, those who wait, and what the program wants. Called by
 * runtime/context_lease.c. See lease_book.h.
 */
#include "core/lease_book.h"

#include <string.h>

#include "base/alloc.h"
#include "core/lease_book_state.h"

#define BATCH_MAX_DEFAULT 1000u
/* For how many TTLs a lease rests. The store's lease lasts for a TTL from when the last request reached it, by a clock
 * that is up to a tenth slower; and a request that was not answered in time may still arrive. */
#define REST_TTLS 4u

/* ---- small things */

void ten_lease_book_tell(ten_lease_book *book, const ten_book_lease *lease, tenure_event event, const char *instance) {
    if (!event.token)
        event.token = lease->holding.token;
    ten_event_queue_put_about(book->config.events, event, lease->target, instance);
}

void ten_lease_book_changed(ten_lease_book *book, ten_book_lease *lease) {
    if (lease->holding.deadline_ms)
        ten_timers_set(&book->deadlines, lease->number, lease->holding.deadline_ms);
    else
        ten_timers_clear(&book->deadlines, lease->number);
    ten_event_queue_publish(book->config.events, &(ten_fact){.kind = TEN_FACT_BELIEF, .lease = lease});
}

void ten_lease_book_look(ten_lease_book *book, const ten_book_lease *lease, uint64_t at_ms) {
    if (lease->holding.flight == TEN_FLIGHT_NONE)
        ten_timers_set(&book->due, lease->number, at_ms);
}

bool ten_lease_book_is_acquiring(const ten_book_lease *lease) {
    bool held = ten_holding_is_held(&lease->holding) && !lease->release;
    return !held && ten_lease_book_is_claimed(lease, TEN_BOOK_WAITING);
}

void ten_lease_book_count_follower(ten_lease_book *book, ten_book_lease *lease) {
    bool waits = false;
    for (const ten_book_user *user = lease->users; user; user = user->next)
        waits |= user->claim == TEN_BOOK_WAITING && user->patient;
    bool follows = (waits && ten_lease_book_is_acquiring(lease)) || lease->attentive > 0;
    if (follows != lease->following)
        book->followers += follows ? 1 : (size_t)-1;
    lease->following = follows;
}

/* ---- users, and what they claim */

bool ten_lease_book_is_claimed(const ten_book_lease *lease, enum ten_book_claim claim) {
    for (const ten_book_user *user = lease->users; user; user = user->next)
        if (user->claim == claim)
            return true;
    return false;
}

static void drop_claim(ten_book_lease *lease, ten_book_user *user) {
    if (user->claim == TEN_BOOK_NO_CLAIM)
        return;
    lease->renewed -= user->renewed;
    lease->attentive -= user->attentive;
    user->claim = TEN_BOOK_NO_CLAIM;
}

void ten_lease_book_drop_claims(ten_book_lease *lease, enum ten_book_claim claim) {
    for (ten_book_user *user = lease->users; user; user = user->next)
        if (user->claim == claim)
            drop_claim(lease, user);
}

void ten_lease_book_grant(ten_book_lease *lease) {
    for (ten_book_user *user = lease->users; user; user = user->next)
        if (user->claim == TEN_BOOK_WAITING)
            user->claim = TEN_BOOK_HOLDING;
}

/* What is no longer wanted is not sent later. */
void ten_lease_book_recount(ten_lease_book *book, ten_book_lease *lease) {
    lease->renew_now &= ten_lease_book_is_claimed(lease, TEN_BOOK_WAITING) || lease->waits || lease->renewed > 0;
    ten_lease_book_count_follower(book, lease);
}

static void add_user(ten_book_lease *lease, ten_book_user *user, uint64_t now_ms, uint64_t until_ms) {
    user->claim = TEN_BOOK_WAITING;
    user->until_ms = until_ms;
    user->patient = until_ms > now_ms;
    lease->renewed += user->renewed;
    lease->attentive += user->attentive;
    user->next = lease->users;
    lease->users = user;
}

/* ---- entries */

static bool grow(ten_lease_book *book) {
    if (book->free_count > 0)
        return true;
    uint32_t room = book->room;
    uint32_t numbers = book->room;
    if (!TEN_GROW(book->leases, room, book->room + 1) || !TEN_GROW(book->free_numbers, numbers, room) ||
        !ten_timers_reserve(&book->due, room) || !ten_timers_reserve(&book->deadlines, room) ||
        !ten_timers_reserve(&book->rests, room))
        return false;
    for (uint32_t i = room; i > book->room; i--) {
        book->leases[i - 1] = NULL;
        book->free_numbers[book->free_count++] = i - 1;
    }
    book->room = room;
    return true;
}

static ten_book_lease *make(ten_lease_book *book, const char *target) {
    ten_book_lease *lease = grow(book) ? ten_calloc(1, sizeof *lease) : NULL;
    if (!lease || !ten_map_put(&book->by_target, target, lease)) {
        ten_free(lease);
        return NULL;
    }
    lease->target = ten_map_key(&book->by_target, target);
    lease->number = book->free_numbers[--book->free_count];
    book->leases[lease->number] = lease;
    return lease;
}

static void forget(ten_lease_book *book, ten_book_lease *lease) {
    ten_timers_clear(&book->rests, lease->number);
    book->leases[lease->number] = NULL;
    book->free_numbers[book->free_count++] = lease->number;
    (void)ten_map_remove(&book->by_target, lease->target);
    ten_free(lease);
}

/* Frees it when nothing is left of it, or lets it rest. What is held without a user is neither renewed nor released. */
void ten_lease_book_tidy(ten_lease_book *book, ten_book_lease *lease) {
    bool ends = lease->holding.state == TEN_HOLDING_RELEASING || lease->release || lease->yield;
    if (lease->users || lease->waits || lease->holding.flight != TEN_FLIGHT_NONE || ends)
        return;
    if (lease->following)
        book->followers--;
    lease->following = lease->renew_now = false;
    ten_timers_clear(&book->due, lease->number);
    ten_timers_clear(&book->deadlines, lease->number);
    lease->resting = ten_holding_is_held(&lease->holding) || lease->holding.expired;
    if (lease->resting)
        ten_timers_set(&book->rests, lease->number, lease->asked_ms + REST_TTLS * lease->holding.ttl_ms);
    else
        forget(book, lease);
}

static void forget_rested(ten_lease_book *book, uint64_t now_ms) {
    uint32_t number;
    while (ten_timers_take(&book->rests, now_ms, &number))
        forget(book, book->leases[number]);
}

/* It has a user again. It was not believed while it rested, so no event reports that it has expired. */
static void wake(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease) {
    lease->resting = false;
    ten_timers_clear(&book->rests, lease->number);
    (void)ten_holding_expire(&lease->holding, now_ms);
    ten_lease_book_changed(book, lease);
}

ten_lease_book *ten_lease_book_new(const ten_lease_book_config *config) {
    ten_lease_book *book = ten_calloc(1, sizeof *book);
    if (!book)
        return NULL;
    book->config = *config;
    book->random = config->seed;
    if (book->config.batch_max == 0)
        book->config.batch_max = BATCH_MAX_DEFAULT;
    book->ops = ten_calloc(book->config.batch_max, sizeof *book->ops);
    book->op_numbers = ten_calloc(book->config.batch_max, sizeof *book->op_numbers);
    if (!book->ops || !book->op_numbers) {
        ten_lease_book_free(book);
        return NULL;
    }
    return book;
}

void ten_lease_book_free(ten_lease_book *book) {
    if (!book)
        return;
    for (uint32_t i = 0; i < book->room; i++)
        ten_free(book->leases[i]);
    ten_free(book->leases);
    ten_free(book->free_numbers);
    ten_timers_free(&book->due);
    ten_timers_free(&book->deadlines);
    ten_timers_free(&book->rests);
    ten_map_free(&book->by_target);
    ten_free(book->ops);
    ten_free(book->op_numbers);
    ten_free(book);
}

/* ---- those who wait */

void ten_lease_book_answer_wait(ten_book_wait *wait, int error, const ten_result *result) {
    wait->answered = true;
    wait->error = error;
    if (!result)
        return;
    wait->result = *result;
    (void)snprintf(wait->holder, sizeof wait->holder, "%s", result->holder ? result->holder : "");
    wait->result.holder = result->holder ? wait->holder : NULL;
}

/* Answers those who wait for one of these, and takes them out. */
void ten_lease_book_answer_waits(ten_book_lease *lease, unsigned kinds, int error, const ten_result *result) {
    ten_book_wait **at = &lease->waits;
    while (*at) {
        ten_book_wait *wait = *at;
        if (kinds & 1u << wait->kind) {
            *at = wait->next;
            ten_lease_book_answer_wait(wait, error, result);
        } else {
            at = &wait->next;
        }
    }
}

static void add_wait(ten_book_lease *lease, ten_book_wait *wait) {
    if (!wait)
        return;
    wait->answered = false;
    wait->next = lease->waits;
    lease->waits = wait;
}

/* Those who waited learn that it could not be acquired: their callers, and the program. */
static void tell_failure(ten_lease_book *book, ten_book_lease *lease, int error, const ten_result *result) {
    ten_book_wait **at = &lease->waits;
    while (*at) {
        ten_book_wait *wait = *at;
        if (wait->kind == TEN_BOOK_ACQUIRE && wait->user->claim == TEN_BOOK_NO_CLAIM) {
            *at = wait->next;
            ten_lease_book_answer_wait(wait, error, result);
        } else {
            at = &wait->next;
        }
    }
    tenure_event event = {.kind = TENURE_EVENT_ACQUIRE_FAILED, .error = error};
    if (result)
        event.remaining_ms = result->remaining_ms;
    ten_lease_book_count_follower(book, lease);
    ten_lease_book_tell(book, lease, event, result ? result->holder : NULL);
    ten_event_queue_publish(book->config.events,
                            &(ten_fact){.kind = TEN_FACT_FAILED, .lease = lease, .error = error, .result = result});
}

bool ten_lease_book_refuse_overdue(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, int error,
                                   const ten_result *result) {
    bool any = false;
    for (ten_book_user *user = lease->users; user; user = user->next) {
        if (user->claim != TEN_BOOK_WAITING || now_ms < user->until_ms)
            continue;
        drop_claim(lease, user);
        any = true;
    }
    if (any)
        tell_failure(book, lease, error, result);
    return any;
}

void ten_lease_book_give_up(ten_lease_book *book, ten_book_lease *lease, int error, const ten_result *result) {
    lease->tried = false;
    ten_timers_clear(&book->due, lease->number);
    ten_lease_book_drop_claims(lease, TEN_BOOK_WAITING);
    tell_failure(book, lease, error, result);
}

/* ---- when something is due */

static uint64_t renewal_ms(const ten_lease_book *book, const ten_book_lease *lease) {
    return lease->holding.sent_ms + book->config.timing.renew_ms;
}

/* When there is something to send about it; UINT64_MAX: not before something happens. */
uint64_t ten_lease_book_due_ms(const ten_lease_book *book, const ten_book_lease *lease, uint64_t now_ms) {
    if (lease->holding.state == TEN_HOLDING_RELEASING || lease->release || lease->renew_now || lease->yield)
        return now_ms;
    if (ten_holding_is_held(&lease->holding)) {
        bool wanted = lease->renewed > 0 || ten_lease_book_is_claimed(lease, TEN_BOOK_WAITING);
        if (lease->holding.uncertain && wanted)
            return now_ms;
        return lease->renewed > 0 ? renewal_ms(book, lease) : UINT64_MAX;
    }
    return UINT64_MAX; /* an acquire that waits has its time set */
}

void ten_lease_book_plan(ten_lease_book *book, const ten_book_lease *lease, uint64_t now_ms) {
    uint64_t at_ms = ten_lease_book_due_ms(book, lease, now_ms);
    if (at_ms == UINT64_MAX)
        ten_timers_clear(&book->due, lease->number);
    else
        ten_lease_book_look(book, lease, at_ms);
}

/* ---- what the program wants */

ten_book_lease *ten_lease_book_find(const ten_lease_book *book, const char *target) {
    return ten_map_get(&book->by_target, target);
}

ten_book_lease *ten_lease_book_acquire(ten_lease_book *book, uint64_t now_ms, const char *target, uint64_t until_ms,
                                       ten_book_user *user, ten_book_wait *wait) {
    forget_rested(book, now_ms);
    ten_book_lease *lease = ten_lease_book_find(book, target);
    if (!lease)
        lease = make(book, target);
    if (!lease)
        return NULL;
    if (lease->resting)
        wake(book, now_ms, lease);
    add_user(lease, user, now_ms, until_ms);
    add_wait(lease, wait);
    if (wait)
        wait->user = user;
    if (ten_holding_is_held(&lease->holding) && !lease->release)
        lease->renew_now = true;
    ten_lease_book_count_follower(book, lease);
    ten_lease_book_look(book, lease, now_ms);
    return lease;
}

void ten_lease_book_renew(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_wait *wait) {
    add_wait(lease, wait);
    lease->renew_now = true;
    ten_lease_book_look(book, lease, now_ms);
}

/* A user stops waiting. False: no other user has a claim, so what it waited for has to be released. */
static bool withdraw(ten_lease_book *book, ten_book_lease *lease, ten_book_user *user) {
    drop_claim(lease, user);
    if (!ten_lease_book_is_claimed(lease, TEN_BOOK_WAITING) && !ten_lease_book_is_claimed(lease, TEN_BOOK_HOLDING))
        return false;
    ten_lease_book_recount(book, lease);
    tell_failure(book, lease, TENURE_E_CANCELLED, NULL);
    return true;
}

void ten_lease_book_release(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_user *user,
                            ten_book_wait *wait) {
    bool withdrawn = user && user->claim == TEN_BOOK_WAITING;
    bool acquiring = ten_lease_book_is_acquiring(lease);
    bool others = withdrawn && withdraw(book, lease, user);
    if (!others && (withdrawn || book->stopping) && acquiring)
        ten_lease_book_give_up(book, lease, TENURE_E_CANCELLED, NULL);
    if (lease->barred && !withdrawn) {
        lease->yield = true;
        add_wait(lease, wait);
        ten_lease_book_look(book, lease, now_ms);
        return;
    }
    /* Its deadline has passed, and it was not renewed by the context, which would have released it: the store has it
     * still. */
    bool left =
        lease->holding.expired && lease->holding.state == TEN_HOLDING_NONE && !ten_lease_book_is_acquiring(lease);
    bool ends = left || ten_holding_is_held(&lease->holding) || lease->holding.state == TEN_HOLDING_RELEASING ||
                lease->holding.flight == TEN_FLIGHT_ACQUIRE;
    if (others || !ends) {
        if (wait)
            ten_lease_book_answer_wait(wait, TENURE_OK, NULL);
        return;
    }
    ten_lease_book_answer_waits(lease, 1u << TEN_BOOK_RENEW, TENURE_E_LOST, NULL);
    add_wait(lease, wait);
    if (lease->holding.state != TEN_HOLDING_RELEASING)
        lease->release = true;
    /* From now on it is not believed, whatever is still in flight: see ten_holding_disown(). */
    bool held = ten_holding_is_held(&lease->holding);
    if ((held || left) && lease->holding.flight == TEN_FLIGHT_NONE) {
        ten_holding_disown(&lease->holding, lease->holding.token, TEN_REASON_DONE);
        lease->release = false;
    } else if (held) {
        ten_holding_close(&lease->holding); /* the renewal that is in flight is not believed any more */
    }
    ten_lease_book_drop_claims(lease, TEN_BOOK_HOLDING);
    ten_lease_book_count_follower(book, lease);
    ten_lease_book_changed(book, lease);
    ten_lease_book_look(book, lease, now_ms);
}

void ten_lease_book_abandon(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_wait *wait) {
    TEN_UNLINK(lease->waits, wait, next);
    if (wait->kind == TEN_BOOK_ACQUIRE)
        drop_claim(lease, wait->user);
    ten_lease_book_recount(book, lease);
    if (wait->kind == TEN_BOOK_RENEW && ten_holding_is_held(&lease->holding)) {
        if (ten_holding_doubt(&lease->holding))
            ten_lease_book_tell(book, lease,
                                (tenure_event){.kind = TENURE_EVENT_RENEW_FAILED, .error = TENURE_E_TIMEOUT}, NULL);
        ten_lease_book_changed(book, lease);
    }
    if (ten_holding_is_held(&lease->holding))
        ten_lease_book_plan(book, lease, now_ms); /* the context tries again, unless its user does */
    ten_lease_book_tidy(book, lease);
}

void ten_lease_book_attend(ten_lease_book *book, ten_book_lease *lease, ten_book_user *user, bool attentive) {
    if (user->claim != TEN_BOOK_NO_CLAIM && attentive != user->attentive)
        lease->attentive += attentive ? 1 : (uint32_t)-1;
    user->attentive = attentive;
    ten_lease_book_count_follower(book, lease);
}

void ten_lease_book_leave(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_user *user) {
    forget_rested(book, now_ms);
    drop_claim(lease, user);
    TEN_UNLINK(lease->users, user, next);
    ten_lease_book_recount(book, lease);
    ten_lease_book_look(book, lease, now_ms);
    ten_lease_book_tidy(book, lease);
}

void ten_lease_book_stop(ten_lease_book *book, uint64_t now_ms) {
    book->stopping = true;
    for (uint32_t i = 0; i < book->room; i++)
        if (book->leases[i] && !book->leases[i]->resting)
            ten_lease_book_release(book, now_ms, book->leases[i], NULL, NULL);
}

bool ten_lease_book_is_idle(const ten_lease_book *book) {
    return book->due.count == 0 && book->deadlines.count == 0 && book->op_count == 0;
}

bool ten_lease_book_has(ten_lease_book *book, uint64_t now_ms, const char *target) {
    forget_rested(book, now_ms);
    return target ? ten_lease_book_find(book, target) != NULL : book->by_target.count > 0;
}
