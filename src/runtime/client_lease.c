/*
 * Leases of the C API: acquire, renew, release, and the local check. It carries requests to the store and their answers
 * to the holding (core/holding.h), which decides what may be believed.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"
#include "core/holding.h"
#include "runtime/client.h"

struct tenure_lease {
    tenure_client *client;
    char target[TENURE_TARGET_MAX + 1];
    ten_holding holding; /* under the client's lock */
    uint64_t token;
    uint64_t ttl_ms;
    _Atomic(bool) given_back; /* tenure_release() was called: never valid again, whatever another thread publishes */
    _Atomic(uint64_t) valid_until; /* the holding's deadline while it is confirmed, else 0 */
    _Atomic(uint64_t) ends_at;     /* the same, also while uncertain */
    tenure_lease *next;            /* of the client's handles */
};

/* ---- the handles of a client: two on one target are one lease, and end together */

static void add_handle(tenure_lease *lease) {
    pthread_mutex_lock(&lease->client->waiters_lock);
    lease->next = lease->client->leases;
    lease->client->leases = lease;
    pthread_mutex_unlock(&lease->client->waiters_lock);
}

static void remove_handle(const tenure_lease *lease) {
    pthread_mutex_lock(&lease->client->waiters_lock);
    for (tenure_lease **at = &lease->client->leases; *at; at = &(*at)->next) {
        if (*at == lease) {
            *at = lease->next;
            break;
        }
    }
    pthread_mutex_unlock(&lease->client->waiters_lock);
}

static void end_handles(tenure_client *client, const char *target, uint64_t token) {
    pthread_mutex_lock(&client->waiters_lock);
    for (tenure_lease *lease = client->leases; lease; lease = lease->next)
        if (lease->token == token && strcmp(lease->target, target) == 0)
            atomic_store_explicit(&lease->given_back, true, memory_order_release);
    pthread_mutex_unlock(&client->waiters_lock);
}

static void publish(tenure_lease *lease) {
    const ten_holding *holding = &lease->holding;
    atomic_store_explicit(&lease->ends_at, holding->deadline_ms, memory_order_release);
    atomic_store_explicit(&lease->valid_until, holding->uncertain ? 0 : holding->deadline_ms, memory_order_release);
}

static uint64_t now_ms(const tenure_client *client) {
    return ten_boot_ms(client->store->clock);
}

/* ---- acquiring */

static int say_held(tenure_client *client, const char *target, const ten_result *result) {
    char left[TEN_DURATION_SIZE];
    client->recovering_ms = result->recovering ? result->remaining_ms : 0;
    ten_duration_show(result->remaining_ms, left);
    if (result->recovering)
        return ten_last_error_say(
            client, TENURE_E_HELD,
            "%s cannot be had for another %s: the store is recovering (it is new, or has lost data), and a former "
            "holder may still believe",
            target, left);
    return ten_last_error_say(client, TENURE_E_HELD, "%s is held by %s for another %s", target, result->holder, left);
}

static int say_error(const tenure_client *client, const char *target, const ten_result *result) {
    switch (result->error) {
    case TENURE_E_TOKEN:
        return ten_last_error_say(client, result->error,
                                  "the tokens of %s are used up (2^53 - 1); use another target id", target);
    case TENURE_E_GONE:
        return ten_last_error_say(client, result->error, "the instance %s was declared gone and takes no more leases",
                                  client->instance);
    default:
        return ten_last_error_say(client, result->error, "%s: %s", target, tenure_strerror(result->error));
    }
}

/* ---- spent tokens, which outlive their handles. Out of memory: what the store says is believed */

static void note_spent(tenure_client *client, const tenure_lease *lease) {
    uint64_t *spent = ten_map_get(&client->spent, lease->target);
    if (!spent) {
        spent = ten_calloc(1, sizeof *spent);
        if (!spent || !ten_map_put(&client->spent, lease->target, spent)) {
            ten_free(spent);
            return;
        }
    }
    *spent = ten_max_u64(*spent, lease->holding.spent_token);
}

void ten_client_free_spent(tenure_client *client) {
    size_t at = 0;
    for (const ten_map_entry *entry; (entry = ten_map_next(&client->spent, &at));)
        ten_free(entry->value);
    ten_map_free(&client->spent);
}

/* ---- carrying; the client is entered */

/* It is renewed with the TTL that was granted. */
static ten_timing timing_of(const tenure_lease *lease) {
    ten_timing timing = lease->client->timing;
    if (lease->ttl_ms)
        timing.ttl_ms = lease->ttl_ms;
    return timing;
}

/* Sends an operation of the lease's holding, now, and takes the answer to it. */
static int carry(tenure_lease *lease, uint64_t sent_ms, ten_op op, ten_result *result,
                 enum ten_holding_outcome *ret_outcome) {
    tenure_client *client = lease->client;
    op.namespace_name = client->namespace_name;
    op.target = lease->target;
    op.holder = client->instance;
    ten_timing timing = timing_of(lease);
    int r = ten_store_apply(client->store, &op, result, 1, timing.timeout_ms);
    if (r < 0)
        (void)ten_holding_unanswered(&lease->holding);
    else
        *ret_outcome = ten_holding_answer(&lease->holding, &timing, sent_ms, now_ms(client), result);
    return r;
}

/* Acquires. If the store grants a spent token, that is released first, so that the token is a new one. */
static int carry_acquire(tenure_lease *lease, ten_result *result) {
    tenure_client *client = lease->client;
    enum ten_holding_outcome outcome = TEN_HOLDING_IGNORED;
    const uint64_t *spent = ten_map_get(&client->spent, lease->target);
    lease->holding = (ten_holding){.spent_token = spent ? *spent : 0};
    int r = carry(lease, now_ms(client), ten_holding_acquire(&lease->holding, &client->timing), result, &outcome);
    if (r == TENURE_OK && outcome == TEN_HOLDING_SPENT) {
        end_handles(client, lease->target, lease->holding.token); /* another handle may still believe in it */
        ten_op release = ten_holding_release(&lease->holding, TEN_REASON_EXPIRED, 0);
        r = carry(lease, now_ms(client), release, result, &outcome);
        if (r == TENURE_OK)
            r = carry(lease, now_ms(client), ten_holding_acquire(&lease->holding, &client->timing), result, &outcome);
    }
    if (r == TENURE_OK && outcome == TEN_HOLDING_SPENT)
        return ten_fail(&client->store->error, TENURE_E_STORE, "the store grants %s under a token that is over",
                        lease->target);
    if (r == TENURE_OK && outcome == TEN_HOLDING_LATE)
        return ten_fail(&client->store->error, TENURE_E_TIMEOUT,
                        "the answer about %s came when its lease was over again", lease->target);
    if (r == TENURE_OK && outcome == TEN_HOLDING_GRANTED)
        ten_free(ten_map_remove(&client->spent, lease->target)); /* the new token is above it */
    return r;
}

/* One try. The message of TENURE_E_HELD is said here, because the holder's name does not outlive the store's next call.
 */
static int try_once(tenure_client *client, tenure_lease *lease, uint64_t *ret_remaining_ms) {
    ten_result result = {0};
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    r = carry_acquire(lease, &result);
    *ret_remaining_ms = result.remaining_ms;
    ten_result copy = result;
    char holder[TENURE_HOLDER_MAX + 1];
    snprintf(holder, sizeof holder, "%s", result.holder ? result.holder : "nobody");
    copy.holder = holder;
    r = ten_client_leave(client, r);
    if (r < 0)
        return r;
    if (copy.outcome == TEN_HELD)
        return say_held(client, lease->target, &copy);
    if (copy.outcome != TEN_OK)
        return say_error(client, lease->target, &copy);
    lease->token = copy.token;
    lease->ttl_ms = lease->holding.ttl_ms;
    publish(lease);
    return TENURE_OK;
}

static int make_lease(tenure_client *client, const char *target, tenure_lease **ret_lease) {
    int r = ten_client_check_target(client, target);
    if (r < 0)
        return r;
    tenure_lease *lease = ten_calloc(1, sizeof *lease);
    if (!lease)
        return ten_last_error_say(client, TENURE_E_NOMEM, "out of memory for a lease on %s", target);
    lease->client = client;
    snprintf(lease->target, sizeof lease->target, "%s", target);
    *ret_lease = lease;
    return TENURE_OK;
}

int tenure_try_acquire(tenure_client *client, const char *target, tenure_lease **ret_lease) {
    return tenure_acquire(client, target, 0, ret_lease);
}

/* What a waiter looks at. */
struct wait {
    ten_waiter waiter;
    uint64_t cursor;
    const char *target;
    bool concerned;
};

static int start_watching(tenure_client *client, struct wait *wait) {
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    wait->cursor = UINT64_MAX;
    ten_waiter_add(client, &wait->waiter);
    r = client->store->ops->changes(client->store, client->namespace_name, &wait->cursor, 1, NULL, NULL,
                                    client->timing.timeout_ms);
    return ten_client_leave(client, r);
}

static int note_change(const ten_change *change, void *userdata) {
    struct wait *wait = userdata;
    wait->concerned |= change->kind == TENURE_EVENT_RECOVERING || strcmp(change->target, wait->target) == 0;
    return 0;
}

/* Whether one of the new changes is about the target. Errors count as yes: the next try will meet them, too. */
static int read_events(tenure_client *client, struct wait *wait) {
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    ten_waiter_clear(client, &wait->waiter);
    wait->concerned = false;
    uint64_t before;
    do {
        before = wait->cursor;
        r = client->store->ops->changes(client->store, client->namespace_name, &wait->cursor, 1000, note_change, wait,
                                        client->timing.timeout_ms);
    } while (r == TENURE_OK && wait->cursor != before);
    wait->concerned |= r < 0;
    pthread_mutex_unlock(&client->lock);
    return TENURE_OK;
}

/* Sleeps until the target may be free, or the time has passed: TENURE_OK to try again, TENURE_E_HELD when there is no
 * time left. */
static int wait_for_turn(tenure_client *client, struct wait *wait, uint64_t remaining_ms, uint64_t end_ms) {
    uint64_t ends_ms = ten_add_saturating(now_ms(client), ten_max_u64(remaining_ms, 1));
    for (;;) {
        uint64_t now = now_ms(client);
        if (now >= end_ms)
            return TENURE_E_HELD;
        if (now >= ends_ms)
            return TENURE_OK;
        int r = ten_waiter_sleep(client, &wait->waiter, ten_min_u64(ends_ms, end_ms) - now, wait->target);
        if (r == TENURE_OK)
            r = read_events(client, wait);
        if (r < 0 || wait->concerned)
            return r;
    }
}

static int acquire_waiting(tenure_client *client, tenure_lease *lease, uint64_t wait_ms) {
    uint64_t end_ms = ten_add_saturating(now_ms(client), wait_ms);
    struct wait wait = {.target = lease->target};
    uint64_t remaining_ms = 0;
    int r = wait_ms > 0 ? start_watching(client, &wait) : TENURE_OK;
    while (r == TENURE_OK) {
        r = try_once(client, lease, &remaining_ms);
        if (r != TENURE_E_HELD || wait_ms == 0)
            break;
        r = wait_for_turn(client, &wait, remaining_ms, end_ms);
    }
    ten_waiter_remove(client, &wait.waiter);
    return r;
}

int tenure_acquire(tenure_client *client, const char *target, uint64_t wait_ms, tenure_lease **ret_lease) {
    tenure_lease *lease = NULL;
    int r = make_lease(client, target, &lease);
    if (r == TENURE_OK)
        r = acquire_waiting(client, lease, wait_ms);
    if (r < 0) {
        ten_free(lease);
        return r;
    }
    add_handle(lease);
    *ret_lease = lease;
    return r;
}

/* ---- renewing and releasing */

static int say_lost(const tenure_client *client, const char *target, uint64_t token, const ten_result *result) {
    unsigned long long lost = token;
    if (result->holder)
        return ten_last_error_say(client, TENURE_E_LOST,
                                  "the lease on %s with token %llu is lost: %s %s with token %llu", target, lost,
                                  result->holder, result->barred ? "was barred from renewing it" : "holds it",
                                  (unsigned long long)result->token);
    return ten_last_error_say(client, TENURE_E_LOST, "the lease on %s with token %llu is over; nobody holds it now",
                              target, lost);
}

/* The deadline has passed. The store is read for the message only. */
static int renew_expired(tenure_lease *lease) {
    tenure_client *client = lease->client;
    ten_op op = {.kind = TEN_OP_READ, .namespace_name = client->namespace_name, .target = lease->target};
    ten_result result;
    note_spent(client, lease);
    if (ten_store_apply(client->store, &op, &result, 1, client->timing.timeout_ms) == TENURE_OK)
        return say_lost(client, lease->target, lease->token, &result);
    return ten_last_error_say(client, TENURE_E_LOST, "the lease on %s was not renewed in time", lease->target);
}

static int renew_held(tenure_lease *lease, uint64_t sent_ms) {
    const tenure_client *client = lease->client;
    ten_timing timing = timing_of(lease);
    ten_result result = {0};
    enum ten_holding_outcome outcome = TEN_HOLDING_IGNORED;
    int r = carry(lease, sent_ms, ten_holding_renew(&lease->holding, &timing, 0), &result, &outcome);
    if (r == TENURE_OK && outcome == TEN_HOLDING_LATE)
        return ten_fail(&client->store->error, TENURE_E_TIMEOUT,
                        "the renewal of %s was answered when it was over again", lease->target);
    return r < 0 || outcome == TEN_HOLDING_RENEWED ? r : say_lost(client, lease->target, lease->token, &result);
}

int tenure_renew(tenure_lease *lease) {
    tenure_client *client = lease->client;
    int r = ten_client_enter(client);
    if (r < 0) {
        /* Pausing the work needs no lock: whoever has it will publish what the store says. */
        atomic_store_explicit(&lease->valid_until, 0, memory_order_release);
        return r;
    }
    bool given_back = atomic_load_explicit(&lease->given_back, memory_order_acquire);
    if (!ten_holding_is_held(&lease->holding) || given_back) {
        pthread_mutex_unlock(&client->lock);
        return ten_last_error_say(client, TENURE_E_LOST, "the lease on %s was released or lost before", lease->target);
    }
    uint64_t now = now_ms(client);
    r = ten_holding_expire(&lease->holding, now) ? renew_expired(lease) : renew_held(lease, now);
    publish(lease);
    if (r == TENURE_E_LOST) { /* its message was said */
        pthread_mutex_unlock(&client->lock);
        return r;
    }
    return ten_client_leave(client, r);
}

static int release_op(tenure_client *client, const ten_op *op, bool *ret_released) {
    ten_result result;
    int r = ten_client_apply(client, op, &result);
    if (r == TENURE_OK && ret_released)
        *ret_released = result.outcome == TEN_OK;
    return r;
}

int tenure_release(tenure_lease *lease) {
    tenure_client *client = lease->client;
    if (ten_process_is(client->process))
        end_handles(client, lease->target, lease->token);
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    if (ten_holding_is_held(&lease->holding)) {
        ten_op op = ten_holding_release(&lease->holding, TEN_REASON_DONE, 0);
        ten_result result;
        enum ten_holding_outcome outcome;
        publish(lease);
        r = carry(lease, now_ms(client), op, &result, &outcome);
        /* It may still arrive, and would end a lease that was acquired anew under the same token. */
        if (r < 0)
            note_spent(client, lease);
    }
    return ten_client_leave(client, r);
}

void tenure_lease_free(tenure_lease *lease) {
    if (lease && ten_process_is(lease->client->process))
        remove_handle(lease);
    ten_free(lease);
}

/* ---- by token */

static int check_token(const tenure_client *client, const char *target, uint64_t token) {
    int r = ten_client_check_target(client, target);
    if (r == TENURE_OK && (token == 0 || token > TENURE_TOKEN_MAX))
        r = ten_last_error_say(client, TENURE_E_INVALID,
                               "token %llu is not valid: it is a whole number from 1 to 9007199254740991",
                               (unsigned long long)token);
    return r;
}

int tenure_renew_token(tenure_client *client, const char *target, uint64_t token, uint64_t ttl_ms) {
    int r = check_token(client, target, token);
    if (r < 0)
        return r;
    ten_op op = {.kind = TEN_OP_RENEW,
                 .namespace_name = client->namespace_name,
                 .target = target,
                 .token = token,
                 .ttl_ms = ttl_ms};
    ten_result result;
    r = ten_client_enter(client);
    if (r < 0)
        return r;
    r = ten_store_apply(client->store, &op, &result, 1, client->timing.timeout_ms);
    if (r == TENURE_OK && result.outcome != TEN_OK)
        say_lost(client, target, token, &result);
    bool lost = r == TENURE_OK && result.outcome != TEN_OK;
    r = ten_client_leave(client, r);
    return lost ? TENURE_E_LOST : r;
}

int tenure_release_token(tenure_client *client, const char *target, uint64_t token, bool *ret_released) {
    int r = check_token(client, target, token);
    if (r < 0)
        return r;
    return release_op(client,
                      &(ten_op){.kind = TEN_OP_RELEASE,
                                .namespace_name = client->namespace_name,
                                .target = target,
                                .token = token,
                                .reason = TEN_REASON_DONE},
                      ret_released);
}

int tenure_force_release(tenure_client *client, const char *target, bool now, bool *ret_released) {
    return tenure_force_release_from(client, target, NULL, now, ret_released);
}

int tenure_force_release_from(tenure_client *client, const char *target, const char *instance, bool now,
                              bool *ret_released) {
    ten_error error;
    int r = ten_client_check_target(client, target);
    if (r == TENURE_OK && instance && ten_id_check_holder(instance, &error) < 0)
        r = ten_last_error_set(client, &error);
    if (r < 0)
        return r;
    return release_op(client,
                      &(ten_op){.kind = TEN_OP_RELEASE,
                                .flags = now ? TEN_OP_FORCE_NOW : TEN_OP_FORCE,
                                .namespace_name = client->namespace_name,
                                .target = target,
                                .holder = instance,
                                .reason = TEN_REASON_FORCED,
                                .actor = client->instance},
                      ret_released);
}

/* ---- the local check */

static bool is_before(const tenure_lease *lease, uint64_t deadline_ms) {
    return deadline_ms != 0 && !atomic_load_explicit(&lease->given_back, memory_order_acquire) &&
           now_ms(lease->client) < deadline_ms && ten_process_is(lease->client->process);
}

bool tenure_lease_valid(const tenure_lease *lease) {
    return is_before(lease, atomic_load_explicit(&lease->valid_until, memory_order_acquire));
}

uint64_t tenure_lease_token(const tenure_lease *lease) {
    return lease->token;
}

uint64_t tenure_lease_remaining_ms(const tenure_lease *lease) {
    uint64_t ends_ms = atomic_load_explicit(&lease->ends_at, memory_order_acquire);
    return is_before(lease, ends_ms) ? ten_sub_saturating(ends_ms, now_ms(lease->client)) : 0;
}

uint64_t tenure_lease_ttl_ms(const tenure_lease *lease) {
    return lease->ttl_ms;
}

const char *tenure_lease_target(const tenure_lease *lease) {
    return lease->target;
}
