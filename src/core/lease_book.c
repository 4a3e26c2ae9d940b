/*
 * The book of a context's leases. Called by runtime/context_lease.c, and by its driver. See lease_book.h.
 */
#include "core/lease_book.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/timers.h"
#include "base/util.h"

#define BATCH_MAX_DEFAULT 1000u
#define REPORT_EACH_MAX   100u /* renewals of one request that are reported one by one */

struct ten_lease_book {
    ten_lease_book_config config;
    ten_map by_target;
    ten_book_lease **leases; /* by number; NULL: free */
    uint32_t *free_numbers;
    uint32_t free_count;
    uint32_t room;
    ten_timers due;       /* when something is to be sent about a lease */
    ten_timers deadlines; /* when a lease ends */
    size_t followers;     /* leases for which the feed is followed */
    uint64_t random;
    bool stopping;

    ten_op *ops; /* the request in flight */
    uint32_t *op_numbers;
    uint32_t op_count;
    uint64_t sent_ms;
    size_t renewed_count; /* in the answer that is being taken */
};

/* ---- small things */

static uint64_t random_below(ten_lease_book *book, uint64_t limit) {
    book->random += UINT64_C(0x9e3779b97f4a7c15);
    return limit ? ten_hash_mix(book->random) % limit : 0;
}

static void tell(ten_lease_book *book, const ten_book_lease *lease, tenure_event event, const char *instance) {
    if (!event.token)
        event.token = lease->holding.token;
    ten_event_queue_put_about(book->config.events, event, lease->target, instance);
}

static void tell_end(ten_lease_book *book, const ten_book_lease *lease, enum tenure_event_kind kind,
                     enum ten_reason reason) {
    tell(book, lease, (tenure_event){.kind = kind, .reason = ten_reason_name(reason)}, NULL);
}

static void changed(ten_lease_book *book, ten_book_lease *lease) {
    if (lease->holding.deadline_ms)
        ten_timers_set(&book->deadlines, lease->number, lease->holding.deadline_ms);
    else
        ten_timers_clear(&book->deadlines, lease->number);
    book->config.changed(book->config.userdata, lease);
}

static void look(ten_lease_book *book, const ten_book_lease *lease, uint64_t at_ms) {
    if (lease->holding.flight == TEN_FLIGHT_NONE)
        ten_timers_set(&book->due, lease->number, at_ms);
}

/* Whether the feed is followed for it: it waits for another holder's end, or for its own. */
static void count_follower(ten_lease_book *book, ten_book_lease *lease) {
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
static void tidy(ten_lease_book *book, ten_book_lease *lease) {
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

static void answer_wait(ten_book_wait *wait, int error, const ten_result *result) {
    wait->answered = true;
    wait->error = error;
    if (!result)
        return;
    wait->result = *result;
    (void)snprintf(wait->holder, sizeof wait->holder, "%s", result->holder ? result->holder : "");
    wait->result.holder = result->holder ? wait->holder : NULL;
}

/* Answers those who wait for one of these, and takes them out. */
static void answer_waits(ten_book_lease *lease, unsigned kinds, int error, const ten_result *result) {
    ten_book_wait **at = &lease->waits;
    while (*at) {
        ten_book_wait *wait = *at;
        if (kinds & 1u << wait->kind) {
            *at = wait->next;
            answer_wait(wait, error, result);
        } else {
            at = &wait->next;
        }
    }
}

#define ALL_WAITS      (1u << TEN_BOOK_ACQUIRE | 1u << TEN_BOOK_RENEW | 1u << TEN_BOOK_RELEASE)
#define WAITS_FOR_HELD (1u << TEN_BOOK_ACQUIRE | 1u << TEN_BOOK_RENEW)

static void add_wait(ten_book_lease *lease, ten_book_wait *wait) {
    if (!wait)
        return;
    wait->answered = false;
    wait->next = lease->waits;
    lease->waits = wait;
}

/* Until when it is tried to acquire. */
static uint64_t acquire_until_ms(const ten_book_lease *lease) {
    uint64_t until_ms = lease->until_ms;
    for (const ten_book_wait *wait = lease->waits; wait; wait = wait->next)
        if (wait->kind == TEN_BOOK_ACQUIRE)
            until_ms = ten_max_u64(until_ms, wait->until_ms);
    return until_ms;
}

/* It is not acquired any more. */
static void stop_acquiring(ten_lease_book *book, ten_book_lease *lease, int error, const ten_result *result) {
    tenure_event event = {.kind = TENURE_EVENT_ACQUIRE_FAILED, .error = error};
    if (result)
        event.remaining_ms = result->remaining_ms;
    lease->acquiring = lease->tried = lease->patient = false;
    lease->until_ms = 0;
    ten_timers_clear(&book->due, lease->number);
    answer_waits(lease, 1u << TEN_BOOK_ACQUIRE, error, result);
    count_follower(book, lease);
    tell(book, lease, event, result ? result->holder : NULL);
    book->config.failed(book->config.userdata, lease, error, result);
}

/* ---- when something is due */

static uint64_t renewal_ms(const ten_lease_book *book, const ten_book_lease *lease) {
    return lease->holding.sent_ms + book->config.timing.renew_ms;
}

/* When there is something to send about it; UINT64_MAX: not before something happens. */
static uint64_t due_ms(const ten_lease_book *book, const ten_book_lease *lease, uint64_t now_ms) {
    if (lease->holding.state == TEN_HOLDING_RELEASING || lease->release || lease->renew_now)
        return now_ms;
    if (ten_holding_is_held(&lease->holding)) {
        if (lease->holding.uncertain && lease->renewed > 0)
            return now_ms;
        return lease->renewed > 0 ? renewal_ms(book, lease) : UINT64_MAX;
    }
    return UINT64_MAX; /* an acquire that waits has its time set */
}

static void plan(ten_lease_book *book, const ten_book_lease *lease, uint64_t now_ms) {
    uint64_t at_ms = due_ms(book, lease, now_ms);
    if (at_ms == UINT64_MAX)
        ten_timers_clear(&book->due, lease->number);
    else
        look(book, lease, at_ms);
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
    count_follower(book, lease);
    look(book, lease, now_ms);
    return lease;
}

void ten_lease_book_renew(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_wait *wait) {
    add_wait(lease, wait);
    lease->renew_now = true;
    look(book, lease, now_ms);
}

/* The renewal that is in flight is not believed any more. */
void ten_lease_book_release(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_wait *wait) {
    if (lease->acquiring)
        stop_acquiring(book, lease, TENURE_E_CANCELLED, NULL);
    bool ends = ten_holding_is_held(&lease->holding) || lease->holding.state == TEN_HOLDING_RELEASING ||
                lease->holding.flight == TEN_FLIGHT_ACQUIRE;
    answer_waits(lease, 1u << TEN_BOOK_RENEW, TENURE_E_LOST, NULL);
    if (!ends) {
        if (wait)
            answer_wait(wait, TENURE_OK, NULL);
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
    changed(book, lease);
    look(book, lease, now_ms);
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
            tell(book, lease, (tenure_event){.kind = TENURE_EVENT_RENEW_FAILED, .error = TENURE_E_TIMEOUT}, NULL);
        changed(book, lease);
        plan(book, lease, now_ms); /* the context tries again, unless its user does */
    }
    if (lease->acquiring && acquire_until_ms(lease) == 0)
        lease->acquiring = false;
    count_follower(book, lease);
    tidy(book, lease);
}

void ten_lease_book_attend(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, bool attentive) {
    (void)now_ms;
    lease->attentive += attentive ? 1 : (uint32_t)-1;
    count_follower(book, lease);
}

void ten_lease_book_leave(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, bool renewed, bool attentive) {
    lease->users--;
    lease->renewed -= renewed;
    lease->attentive -= attentive;
    if (lease->users == 0 && lease->acquiring && !lease->waits)
        lease->acquiring = false;
    count_follower(book, lease);
    look(book, lease, now_ms);
    tidy(book, lease);
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

/* ---- the end of a lease against the will of its users */

static void lose(ten_lease_book *book, ten_book_lease *lease, enum ten_reason reason, const ten_result *result) {
    bool wanted = !lease->release;
    lease->renew_now = lease->release = false;
    changed(book, lease);
    answer_waits(lease, 1u << TEN_BOOK_RENEW, TENURE_E_LOST, result);
    answer_waits(lease, 1u << TEN_BOOK_RELEASE, TENURE_OK, result);
    if (!wanted)
        return;
    tell_end(book, lease, TENURE_EVENT_LOST, reason);
    book->config.lost(book->config.userdata, lease, reason);
}

/* Somebody may have asked for it meanwhile, and gets a new lease. */
static void after_loss(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease) {
    lease->acquiring |= acquire_until_ms(lease) != 0;
    if (lease->acquiring || lease->holding.state == TEN_HOLDING_RELEASING)
        look(book, lease, now_ms);
    else
        ten_timers_clear(&book->due, lease->number);
    tidy(book, lease);
}

static void expire_one(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease) {
    if (!ten_holding_expire(&lease->holding, now_ms))
        return;
    lose(book, lease, TEN_REASON_EXPIRED, NULL);
    if (lease->renewed > 0)
        ten_holding_disown(&lease->holding, lease->holding.token, TEN_REASON_EXPIRED);
    after_loss(book, now_ms, lease);
}

static void expire(void *self, uint64_t now_ms) {
    ten_lease_book *book = self;
    uint32_t number;
    while (ten_timers_take(&book->deadlines, now_ms, &number))
        expire_one(book, now_ms, book->leases[number]);
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
    if (lease->holding.state == TEN_HOLDING_RELEASING || lease->release) {
        lease->release = false;
        *ret_op = ten_holding_release(&lease->holding, TEN_REASON_DONE, 0);
        changed(book, lease);
        return true;
    }
    if (ten_holding_is_held(&lease->holding)) {
        if (due_ms(book, lease, now_ms) > now_ms) {
            plan(book, lease, now_ms);
            return false;
        }
        lease->renew_now = false;
        *ret_op = ten_holding_renew(&lease->holding, &timing, 0);
        return true;
    }
    if (!lease->acquiring || book->stopping)
        return false;
    *ret_op = ten_holding_acquire(&lease->holding, &timing);
    return true;
}

static const ten_op *request(void *self, uint64_t now_ms, size_t *ret_count) {
    ten_lease_book *book = self;
    uint32_t number;
    expire(book, now_ms);
    book->op_count = 0;
    while (book->op_count < book->config.batch_max && ten_timers_take(&book->due, now_ms, &number)) {
        ten_book_lease *lease = book->leases[number];
        ten_op *op = &book->ops[book->op_count];
        if (!request_one(book, now_ms, lease, op))
            continue;
        op->namespace_name = book->config.namespace_name;
        op->target = lease->target;
        op->holder = book->config.instance;
        book->op_numbers[book->op_count++] = number;
    }
    book->sent_ms = now_ms;
    *ret_count = book->op_count;
    return book->op_count ? book->ops : NULL;
}

/* ---- answers */

/* It was to be released, but there is nothing to release. */
static void forget_release(ten_book_lease *lease, int error) {
    if (lease->holding.state != TEN_HOLDING_NONE)
        return;
    lease->release = false;
    answer_waits(lease, 1u << TEN_BOOK_RELEASE, error, NULL);
}

static void note_granted(ten_lease_book *book, ten_book_lease *lease, const ten_result *result) {
    if (lease->users == 0 || lease->release || book->stopping) { /* it is not wanted any longer */
        lease->release = false;
        ten_holding_disown(&lease->holding, lease->holding.token, TEN_REASON_DONE);
        changed(book, lease);
        return;
    }
    lease->acquiring = lease->tried = lease->patient = false;
    lease->until_ms = 0;
    count_follower(book, lease);
    changed(book, lease);
    answer_waits(lease, WAITS_FOR_HELD, TENURE_OK, result);
    tell_end(book, lease, TENURE_EVENT_ACQUIRED, TEN_REASON_NONE);
}

static void note_renewed(ten_lease_book *book, ten_book_lease *lease, const ten_result *result) {
    changed(book, lease);
    lease->until_ms = 0;
    lease->patient = false;
    count_follower(book, lease);
    answer_waits(lease, WAITS_FOR_HELD, TENURE_OK, result);
    book->renewed_count++;
    if (book->op_count <= REPORT_EACH_MAX)
        tell_end(book, lease, TENURE_EVENT_RENEWED, TEN_REASON_NONE);
}

/* Those whose time is over learn the refusal; the others wait for the end of the other lease. */
static void note_refused(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, const ten_result *result) {
    int error = result->outcome == TEN_HELD      ? TENURE_E_HELD
                : result->outcome == TEN_UNKNOWN ? TENURE_E_UNKNOWN_TARGET
                                                 : result->error;
    forget_release(lease, TENURE_OK);
    if (!lease->acquiring)
        return;
    if (error != TENURE_E_HELD || now_ms >= acquire_until_ms(lease)) {
        stop_acquiring(book, lease, error, result);
        return;
    }
    ten_book_wait **at = &lease->waits;
    while (*at) {
        ten_book_wait *wait = *at;
        if (wait->kind == TEN_BOOK_ACQUIRE && now_ms >= wait->until_ms) {
            *at = wait->next;
            answer_wait(wait, error, result);
        } else {
            at = &wait->next;
        }
    }
    if (result->recovering)
        tell(book, lease, (tenure_event){.kind = TENURE_EVENT_RECOVERING, .remaining_ms = result->remaining_ms}, NULL);
    uint64_t again_ms = now_ms + ten_max_u64(result->remaining_ms, 1) + random_below(book, 3);
    look(book, lease, ten_min_u64(again_ms, acquire_until_ms(lease)));
}

/* A token that must not be believed was granted, and is being released: then once more. */
static void note_spent(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, const ten_result *result) {
    changed(book, lease);
    if (lease->tried && lease->acquiring) {
        for (ten_book_wait *wait = lease->waits; wait; wait = wait->next)
            wait->spent = wait->kind == TEN_BOOK_ACQUIRE;
        stop_acquiring(book, lease, TENURE_E_STORE, result);
    }
    lease->tried = true;
    look(book, lease, now_ms);
}

static void note_late(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, const ten_result *result) {
    changed(book, lease);
    for (ten_book_wait *wait = lease->waits; wait; wait = wait->next)
        wait->late = true;
    answer_waits(lease, 1u << TEN_BOOK_RENEW, TENURE_E_TIMEOUT, result);
    forget_release(lease, TENURE_OK);
    if (!ten_holding_is_held(&lease->holding) && lease->acquiring) {
        if (now_ms >= acquire_until_ms(lease))
            stop_acquiring(book, lease, TENURE_E_TIMEOUT, result);
        else
            look(book, lease, now_ms);
        return;
    }
    plan(book, lease, now_ms); /* it expires, or is renewed */
}

static void note_released(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, const ten_result *result) {
    enum ten_reason reason = (enum ten_reason)lease->holding.reason;
    answer_waits(lease, 1u << TEN_BOOK_RELEASE, TENURE_OK, result);
    if (reason == TEN_REASON_DONE)
        tell_end(book, lease, TENURE_EVENT_RELEASED, reason);
    if (lease->acquiring)
        look(book, lease, now_ms);
}

static void take_answer(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, const ten_result *result) {
    ten_timing timing = timing_of(book, lease);
    switch (ten_holding_answer(&lease->holding, &timing, book->sent_ms, now_ms, result)) {
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
        note_refused(book, now_ms, lease, result);
        return;
    case TEN_HOLDING_LOST:
        lose(book, lease,
             result->barred   ? TEN_REASON_FORCED
             : result->holder ? TEN_REASON_TAKEN
                              : TEN_REASON_STORE,
             result);
        lease->acquiring |= acquire_until_ms(lease) != 0;
        if (lease->acquiring)
            look(book, lease, now_ms);
        return;
    case TEN_HOLDING_RELEASED:
    case TEN_HOLDING_KEPT:
    case TEN_HOLDING_UNKEPT:
        note_released(book, now_ms, lease, result);
        return;
    case TEN_HOLDING_IGNORED:
        if (lease->acquiring || lease->holding.state == TEN_HOLDING_RELEASING)
            look(book, lease, now_ms);
        return;
    }
    plan(book, lease, now_ms);
}

/* An acquire that somebody waits for fails at once; others are tried again, after the driver's pause. */
static void take_no_answer(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, int error) {
    bool acquire = lease->holding.flight == TEN_FLIGHT_ACQUIRE;
    bool uncertain = ten_holding_unanswered(&lease->holding);
    changed(book, lease);
    answer_waits(lease, ALL_WAITS, error, NULL);
    forget_release(lease, error);
    if (uncertain && !lease->release)
        tell(book, lease, (tenure_event){.kind = TENURE_EVENT_RENEW_FAILED, .error = error}, NULL);
    if (acquire && lease->acquiring && (now_ms >= lease->until_ms || !tenure_error_retryable(error)))
        stop_acquiring(book, lease, error, NULL);
    else if (acquire && lease->acquiring)
        look(book, lease, now_ms);
    else
        plan(book, lease, now_ms);
    count_follower(book, lease);
}

static void answer(void *self, uint64_t now_ms, int error, const ten_result *results) {
    ten_lease_book *book = self;
    book->renewed_count = 0;
    for (uint32_t i = 0; i < book->op_count; i++) {
        ten_book_lease *lease = book->leases[book->op_numbers[i]];
        expire_one(book, now_ms, lease);
        if (error == TENURE_OK)
            take_answer(book, now_ms, lease, &results[i]);
        else
            take_no_answer(book, now_ms, lease, error);
        tidy(book, lease);
    }
    if (book->op_count > REPORT_EACH_MAX && book->renewed_count > 0)
        ten_event_queue_put(book->config.events,
                            (tenure_event){.kind = TENURE_EVENT_RENEWED, .count = book->renewed_count});
    book->op_count = 0;
}

/* ---- the feed */

static void change(void *self, uint64_t now_ms, const ten_change *entry) {
    ten_lease_book *book = self;
    ten_book_lease *lease = entry->target[0] ? ten_lease_book_find(book, entry->target) : NULL;
    if (entry->kind == TENURE_EVENT_RECOVERING) {
        for (uint32_t i = 0; i < book->room; i++)
            if (book->leases[i] && book->leases[i]->following)
                look(book, book->leases[i], now_ms);
        return;
    }
    if (!lease || !lease->following)
        return;
    bool ended = entry->kind == TENURE_EVENT_RELEASED || entry->kind == TENURE_EVENT_LOST;
    bool mine = strcmp(entry->instance, book->config.instance) == 0;
    if (!ten_holding_is_held(&lease->holding)) {
        if (lease->acquiring && ended)
            look(book, lease, now_ms);
        return;
    }
    bool newer = entry->kind == TENURE_EVENT_ACQUIRED && entry->token > lease->holding.token && !mine;
    bool this_one = ended && entry->token == lease->holding.token;
    if (!newer && !this_one)
        return;
    ten_holding_lose(&lease->holding);
    lose(book, lease,
         newer                                ? TEN_REASON_TAKEN
         : entry->reason == TEN_REASON_FORCED ? TEN_REASON_FORCED
                                              : TEN_REASON_STORE,
         NULL);
    after_loss(book, now_ms, lease);
}

/* What happened before may have been missed. */
static void follow(void *self, uint64_t now_ms) {
    ten_lease_book *book = self;
    for (uint32_t i = 0; i < book->room; i++) {
        ten_book_lease *lease = book->leases[i];
        if (!lease || !lease->following)
            continue;
        lease->renew_now |= ten_holding_is_held(&lease->holding) && lease->renewed > 0;
        look(book, lease, now_ms);
    }
}

static bool follows(const void *self) {
    const ten_lease_book *book = self;
    return book->followers > 0;
}

/* ---- for the driver */

static uint64_t next_ms(const void *self, uint64_t now_ms) {
    const ten_lease_book *book = self;
    uint64_t next = ten_timers_next(&book->due);
    return next == UINT64_MAX ? next : ten_max_u64(next, now_ms);
}

static uint64_t deadline_ms(const void *self) {
    const ten_lease_book *book = self;
    return ten_timers_next(&book->deadlines);
}

/* From when on the lease that ends first should have been renewed. */
static uint64_t urgent_ms(const void *self) {
    const ten_lease_book *book = self;
    const ten_timing *timing = &book->config.timing;
    uint64_t ends_ms = ten_timers_next(&book->deadlines);
    return ends_ms == UINT64_MAX ? ends_ms
                                 : ten_sub_saturating(ends_ms, timing->ttl_ms - timing->margin_ms - timing->renew_ms);
}

const ten_driver_part ten_lease_book_part = {.request = request,
                                             .answer = answer,
                                             .expire = expire,
                                             .next_ms = next_ms,
                                             .deadline_ms = deadline_ms,
                                             .urgent_ms = urgent_ms,
                                             .follows = follows,
                                             .follow = follow,
                                             .change = change};
