/*
 * The election part, continued: those who do not campaign. They see who leads, and every change, by notice; and they
 * ask a leader to resign, or take the role from it, by its name.
 */
#include "conformance/elections/candidates.h"

#include <stdio.h>

#define SIGHTS 256u

/* ---- observing ----------------------------------------------------------------------------------------- */

struct observer {
    tenure_context *context;
    const char *role;
    pthread_t thread;
    uint64_t lags_ms; /* how long it looks at each */
    int result;
    atomic_uint count;
    struct {
        char instance[TENURE_HOLDER_MAX + 1];
        uint64_t token;
        uint64_t at_ms;
    } sights[SIGHTS];
};

static int see_leader(const tenure_leader *leader, void *userdata) {
    struct observer *observer = userdata;
    unsigned at = atomic_load(&observer->count);
    if (at == SIGHTS)
        return 1;
    snprintf(observer->sights[at].instance, sizeof observer->sights[at].instance, "%s", leader->instance);
    observer->sights[at].token = leader->token;
    observer->sights[at].at_ms = now_ms();
    atomic_store(&observer->count, at + 1);
    if (observer->lags_ms)
        sleep_ms(observer->lags_ms);
    return 0;
}

static void *observe(void *arg) {
    struct observer *observer = arg;
    observer->result = tenure_leader_observe(observer->context, NULL, observer->role, see_leader, observer);
    return NULL;
}

static tenure_context *open_context(void) {
    tenure_options options = {.size = sizeof options, .namespace_name = "leader"};
    tenure_context *context = NULL;
    if (tenure_open(suite_fixture.url, &options, &context) < 0)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

/* Returns when it has seen the present state. */
static void start_observer(struct observer *observer, const char *role) {
    observer->context = open_context();
    observer->role = role;
    assert_int_equal(pthread_create(&observer->thread, NULL, observe, observer), 0);
    for (uint64_t end_ms = now_ms() + HANG_MS; atomic_load(&observer->count) == 0 && now_ms() < end_ms;)
        sleep_ms(1);
}

/* Waits until that is the last thing seen, and says so. */
static bool sees(const struct observer *observer, const char *instance, uint64_t limit_ms) {
    for (uint64_t end_ms = now_ms() + limit_ms;; sleep_ms(1)) {
        unsigned count = atomic_load(&observer->count);
        if (count > 0 && strcmp(observer->sights[count - 1].instance, instance) == 0)
            return true;
        if (now_ms() > end_ms + late_ms())
            return false;
    }
}

static void end_observer(struct observer *observer) {
    tenure_cancel(observer->context);
    pthread_join(observer->thread, NULL);
    tenure_close(observer->context);
}

/* Each leader is seen once, in the order of the tokens. */
static unsigned expect_ordered_sights(const struct observer *observer) {
    uint64_t last = 0;
    unsigned leaders = 0;
    for (unsigned i = 0; i < atomic_load(&observer->count); i++) {
        if (observer->sights[i].instance[0] == '\0')
            continue;
        if (observer->sights[i].token <= last)
            fail_msg("sight %u is %s with the token %llu after %llu", i, observer->sights[i].instance,
                     (unsigned long long)observer->sights[i].token, (unsigned long long)last);
        last = observer->sights[i].token;
        leaders++;
    }
    return leaders;
}

ELECTION_CASE(an_observer_sees_each_leader_and_nobody_by_notice) {
    struct election_place *election = *state;
    struct candidate *at = election->arena->at;
    struct observer observer = {.result = 1};
    election->arena->ttl_ms = TTL_MS;
    election->arena->renew_ms = RENEW_MS;
    start_observer(&observer, election->role);
    bool seen = sees(&observer, "", 0);
    start_candidate(election, 0, IN_THREADS);
    (void)await_leader(election, NOBODY, HANG_MS);
    seen &= sees(&observer, at[0].instance, NOTICE_MS);
    start_follower(election, 1, IN_THREADS);
    order_candidate(election, 0, ORDER_STOP);
    (void)await_leader(election, 0, NOTICE_MS);
    seen &= sees(&observer, at[1].instance, NOTICE_MS);
    stop_candidate(election, 1);
    seen &= sees(&observer, "", NOTICE_MS);
    end_observer(&observer);
    assert_true(seen);
    assert_int_equal(observer.result, TENURE_E_CANCELLED);
    assert_int_equal(expect_ordered_sights(&observer), 2);
}

static void observe_handoffs(struct election_place *election, struct observer *observer, unsigned handoffs) {
    enum { CANDIDATES = 4 };
    enum candidate_kind kind = has_processes(election) ? IN_PROCESSES : IN_THREADS;
    election->arena->ttl_ms = TTL_MS;
    election->arena->renew_ms = RENEW_MS;
    start_candidate(election, 0, kind);
    unsigned leader = await_leader(election, NOBODY, HANG_MS);
    for (unsigned i = 1; i < CANDIDATES; i++)
        start_follower(election, i, kind);
    start_observer(observer, election->role);
    for (unsigned handoff = 0; handoff < handoffs; handoff++) {
        uint64_t last = atomic_load(&election->arena->at[leader].token);
        order_candidate(election, leader, ORDER_YIELD);
        leader = await_term(election, last, NOTICE_MS);
        sleep_ms(observer->lags_ms); /* two changes each: it falls back further and further */
    }
    uint64_t token = atomic_load(&election->arena->at[leader].token);
    bool seen = false;
    for (uint64_t end_ms = now_ms() + NOTICE_MS + 4 * handoffs * observer->lags_ms;
         !seen && now_ms() < end_ms + late_ms();) {
        sleep_ms(4 * observer->lags_ms + 1); /* so long that it would have been followed by more */
        seen = observer->sights[atomic_load(&observer->count) - 1].token == token;
    }
    end_observer(observer);
    assert_true(seen);
}

ELECTION_CASE(an_observer_sees_fifty_handoffs_in_their_order) {
    struct observer observer = {.result = 1};
    observe_handoffs(*state, &observer, 50);
    assert_int_equal(expect_ordered_sights(&observer), 51);
}

/* What it reads is then newer than what the feed still has for it. */
ELECTION_CASE(an_observer_that_lags_behind_sees_no_leader_twice) {
    struct observer observer = {.result = 1, .lags_ms = 120};
    observe_handoffs(*state, &observer, 12);
    assert_in_range(expect_ordered_sights(&observer), 2, 13);
}

/* ---- asking and taking, by name ------------------------------------------------------------------------ */
