/*
 * The book of a context's leases: its entries, those who wait, and what the program wants. Called by
 * runtime/context_lease.c. See lease_book.h.
 */
#include "core/lease_book.h"

#include <string.h>

#include "base/alloc.h"
#include "core/lease_book_state.h"

#define BATCH_MAX_DEFAULT 1000u

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
    book->config.changed(book->config.userdata, lease);
}

void ten_lease_book_look(ten_lease_book *book, const ten_book_lease *lease, uint64_t at_ms) {
    if (lease->holding.flight == TEN_FLIGHT_NONE)
        ten_timers_set(&book->due, lease->number, at_ms);
}

/* Whether the feed is followed for it: it waits for another holder's end, or for its own. */
void ten_lease_book_count_follower(ten_lease_book *book, ten_book_lease *lease) {
    bool waits = lease->patient;
    for (const ten_book_wait *wait = lease->waits; wait; wait = wait->next)
        waits |= wait->kind == TEN_BOOK_ACQUIRE && wait->patient;
    bool follows = (lease->acquiring && waits) || lease->attentive > 0;
    if (follows != lease->following)
        book->followers += follows ? 1 : (size_t)-1;
    lease->following = follows;
}

/* ---- entries */

static bool grow(ten_lease_book *book) {
    if (book->free_count > 0)
        return true;
    uint32_t room = book->room ? book->room * 2 : 16;
    ten_book_lease **leases = ten_realloc(book->leases, room * sizeof *leases);
    if (leases)
        book->leases = leases;
    uint32_t *numbers = ten_realloc(book->free_numbers, room * sizeof *numbers);
    if (numbers)
        book->free_numbers = numbers;
    if (!leases || !numbers || !ten_timers_reserve(&book->due, room) || !ten_timers_reserve(&book->deadlines, room))
        return false;
    for (uint32_t i = room; i > book->room; i--) {
        leases[i - 1] = NULL;
        numbers[book->free_count++] = i - 1;
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

/* Frees it when nothing is left of it. What is held without a user is neither renewed nor released. */
void ten_lease_book_tidy(ten_lease_book *book, ten_book_lease *lease) {
    bool ends = lease->holding.state == TEN_HOLDING_RELEASING || lease->release;
    if (lease->users > 0 || lease->waits || lease->holding.flight != TEN_FLIGHT_NONE || ends)
        return;
    if (lease->following)
        book->followers--;
    ten_timers_clear(&book->due, lease->number);
    ten_timers_clear(&book->deadlines, lease->number);
    book->leases[lease->number] = NULL;
    book->free_numbers[book->free_count++] = lease->number;
    (void)ten_map_remove(&book->by_target, lease->target);
    ten_free(lease);
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

/* Until when it is tried to acquire. */
uint64_t ten_lease_book_until_ms(const ten_book_lease *lease) {
    uint64_t until_ms = lease->until_ms;
    for (const ten_book_wait *wait = lease->waits; wait; wait = wait->next)
        if (wait->kind == TEN_BOOK_ACQUIRE)
            until_ms = ten_max_u64(until_ms, wait->until_ms);
    return until_ms;
}

/* It is not acquired any more. */
void ten_lease_book_give_up(ten_lease_book *book, ten_book_lease *lease, int error, const ten_result *result) {
    tenure_event event = {.kind = TENURE_EVENT_ACQUIRE_FAILED, .error = error};
    if (result)
        event.remaining_ms = result->remaining_ms;
    lease->acquiring = lease->tried = lease->patient = false;
    lease->until_ms = 0;
    ten_timers_clear(&book->due, lease->number);
    ten_lease_book_answer_waits(lease, 1u << TEN_BOOK_ACQUIRE, error, result);
    ten_lease_book_count_follower(book, lease);
    ten_lease_book_tell(book, lease, event, result ? result->holder : NULL);
    book->config.failed(book->config.userdata, lease, error, result);
}

/* ---- when something is due */

static uint64_t renewal_ms(const ten_lease_book *book, const ten_book_lease *lease) {
    return lease->holding.sent_ms + book->config.timing.renew_ms;
}

/* When there is something to send about it; UINT64_MAX: not before something happens. */
uint64_t ten_lease_book_due_ms(const ten_lease_book *book, const ten_book_lease *lease, uint64_t now_ms) {
    if (lease->holding.state == TEN_HOLDING_RELEASING || lease->release || lease->renew_now)
        return now_ms;
    if (ten_holding_is_held(&lease->holding)) {
        if (lease->holding.uncertain && lease->renewed > 0)
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
                                       bool renewed, ten_book_wait *wait) {
    ten_book_lease *lease = ten_lease_book_find(book, target);
    if (!lease)
        lease = make(book, target);
    if (!lease)
        return NULL;
    lease->users++;
    lease->renewed += renewed;
    add_wait(lease, wait);
    if (wait) {
        wait->until_ms = ten_max_u64(until_ms, 1);
        wait->patient = until_ms > now_ms;
    } else {
        lease->until_ms = ten_max_u64(lease->until_ms, ten_max_u64(until_ms, 1));
        lease->patient |= until_ms > now_ms;
    }
    if (ten_holding_is_held(&lease->holding) && !lease->release)
        lease->renew_now = true;
    else
        lease->acquiring = true;
    ten_lease_book_count_follower(book, lease);
    ten_lease_book_look(book, lease, now_ms);
    return lease;
}

void ten_lease_book_renew(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_wait *wait) {
    add_wait(lease, wait);
    lease->renew_now = true;
    ten_lease_book_look(book, lease, now_ms);
}

/* The renewal that is in flight is not believed any more. */
void ten_lease_book_release(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_wait *wait) {
    if (lease->acquiring)
        ten_lease_book_give_up(book, lease, TENURE_E_CANCELLED, NULL);
    bool ends = ten_holding_is_held(&lease->holding) || lease->holding.state == TEN_HOLDING_RELEASING ||
                lease->holding.flight == TEN_FLIGHT_ACQUIRE;
    ten_lease_book_answer_waits(lease, 1u << TEN_BOOK_RENEW, TENURE_E_LOST, NULL);
    if (!ends) {
        if (wait)
            ten_lease_book_answer_wait(wait, TENURE_OK, NULL);
        return;
    }
    add_wait(lease, wait);
    if (lease->holding.state != TEN_HOLDING_RELEASING)
        lease->release = true;
    /* From now on it is not believed, whatever is still in flight: see ten_holding_disown(). */
    if (ten_holding_is_held(&lease->holding) && lease->holding.flight == TEN_FLIGHT_NONE) {
        ten_holding_disown(&lease->holding, lease->holding.token, TEN_REASON_DONE);
        lease->release = false;
    } else if (ten_holding_is_held(&lease->holding)) {
        ten_holding_close(&lease->holding);
    }
    ten_lease_book_changed(book, lease);
    ten_lease_book_look(book, lease, now_ms);
}

void ten_lease_book_abandon(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_wait *wait) {
    for (ten_book_wait **at = &lease->waits; *at; at = &(*at)->next) {
        if (*at == wait) {
            *at = wait->next;
            break;
        }
    }
    if (wait->kind == TEN_BOOK_RENEW && ten_holding_is_held(&lease->holding)) {
        lease->renew_now &= lease->waits != NULL;
        if (ten_holding_doubt(&lease->holding))
            ten_lease_book_tell(book, lease,
                                (tenure_event){.kind = TENURE_EVENT_RENEW_FAILED, .error = TENURE_E_TIMEOUT}, NULL);
        ten_lease_book_changed(book, lease);
        ten_lease_book_plan(book, lease, now_ms); /* the context tries again, unless its user does */
    }
    if (lease->acquiring && ten_lease_book_until_ms(lease) == 0)
        lease->acquiring = false;
    ten_lease_book_count_follower(book, lease);
    ten_lease_book_tidy(book, lease);
}

void ten_lease_book_attend(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, bool attentive) {
    (void)now_ms;
    lease->attentive += attentive ? 1 : (uint32_t)-1;
    ten_lease_book_count_follower(book, lease);
}

void ten_lease_book_leave(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, bool renewed, bool attentive) {
    lease->users--;
    lease->renewed -= renewed;
    lease->attentive -= attentive;
    if (lease->users == 0 && lease->acquiring && !lease->waits)
        lease->acquiring = false;
    ten_lease_book_count_follower(book, lease);
    ten_lease_book_look(book, lease, now_ms);
    ten_lease_book_tidy(book, lease);
}

void ten_lease_book_stop(ten_lease_book *book, uint64_t now_ms) {
    book->stopping = true;
    for (uint32_t i = 0; i < book->room; i++)
        if (book->leases[i])
            ten_lease_book_release(book, now_ms, book->leases[i], NULL);
}

bool ten_lease_book_is_idle(const ten_lease_book *book) {
    return book->due.count == 0 && book->deadlines.count == 0 && book->op_count == 0;
}

size_t ten_lease_book_count(const ten_lease_book *book) {
    return book->by_target.count;
}
