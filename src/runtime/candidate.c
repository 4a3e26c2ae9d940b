/*
 * The C API of elections, and the thread that carries a candidate's requests to the store. It decides nothing: that is
 * src/core/election.c's business. A slow store delays the thread, but no deadline: that is in the belief, which needs
 * no thread to end.
 */
#include "base/thread.h"
#include "core/election.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"
#include "base/random.h"
#include "runtime/candidate.h"
#include "runtime/client.h"

#define EVENT_SIZE 100u
#define BLIND_MS   250u /* how often a store is looked at that cannot be watched */
#define RELEASE_MS 1000u

struct tenure_election {
    ten_store *store; /* used by the thread alone once it runs */
    const ten_clock *clock;
    uint64_t process;
    ten_timing timing;
    char instance[TENURE_HOLDER_MAX + 1];
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    char role[TENURE_TARGET_MAX + 1];
    tenure_election_options options;
    ten_belief own_belief;
    ten_belief *belief;
    _Atomic(uint64_t) *last_end_ms; /* of the warden's beliefs, or NULL */

    pthread_t thread;
    bool started;
    int wake_fd;

    pthread_mutex_t lock; /* around everything below; held for microseconds, never during a call on the store */
    pthread_cond_t changed;
    ten_election core;
    bool quit;
    bool ended; /* the thread has */
    int refused;
    int trouble; /* why the last campaign failed; 0: it did not */
    /* The work is not over when on_demoted has returned: tenure_leader_only()'s function, or a command. */
    bool works_elsewhere;
    bool told_to_stop;                  /* meanwhile */
    char leader[TENURE_HOLDER_MAX + 1]; /* as far as was heard; "" */

    /* The thread's own. */
    uint64_t cursor;
    bool feed_due;
    ten_measures *measures;
    enum ten_reason last_end; /* how the last term that was heard of ended */
    bool in_term;             /* the program was told that it leads, and not yet that it no longer does */
};

static uint64_t now_ms(const tenure_election *election) {
    return ten_boot_ms(election->clock);
}

/* ---- what may be believed, for readers */

static void publish(tenure_election *election) {
    const ten_holding *holding = &election->core.holding;
    atomic_store_explicit(&election->belief->process, election->process, memory_order_relaxed);
    atomic_store_explicit(&election->belief->token, holding->token, memory_order_relaxed);
    ten_belief_set(election->belief, holding->deadline_ms, ten_election_is_leader(&election->core, now_ms(election)));
    if (election->last_end_ms)
        atomic_store_explicit(election->last_end_ms, holding->deadline_ms, memory_order_release);
}

bool tenure_is_leader(const tenure_election *election) {
    return now_ms(election) < ten_belief_work_until_ms(election->belief) && ten_process_is(election->process);
}

uint64_t tenure_election_token(const tenure_election *election) {
    return tenure_is_leader(election) ? atomic_load_explicit(&election->belief->token, memory_order_acquire) : 0;
}

uint64_t tenure_election_remaining_ms(const tenure_election *election) {
    return ten_process_is(election->process)
               ? ten_sub_saturating(ten_belief_ends_ms(election->belief), now_ms(election))
               : 0;
}

const char *tenure_election_instance_id(const tenure_election *election) {
    return election->instance;
}

/* ---- events; outside of the lock */

static const struct {
    enum tenure_event_kind kind;
    const char *name;
} event_words[] = {
    [TEN_ELECTION_ELECTED] = {TENURE_EVENT_ACQUIRED, "lease_acquired"},
    [TEN_ELECTION_STEP_DOWN] = {TENURE_EVENT_STOP, "lease_closing"},
    [TEN_ELECTION_DEMOTED] = {TENURE_EVENT_LOST, "lease_lost"},
    [TEN_ELECTION_RELEASED] = {TENURE_EVENT_RELEASED, "lease_released"},
    [TEN_ELECTION_KEPT] = {TENURE_EVENT_KEPT, "lease_kept"},
    [TEN_ELECTION_RENEWED] = {TENURE_EVENT_RENEWED, "lease_renewed"},
    [TEN_ELECTION_RENEW_FAILED] = {TENURE_EVENT_RENEW_FAILED, "lease_renew_failed"},
    [TEN_ELECTION_CAMPAIGN_FAILED] = {TENURE_EVENT_ACQUIRE_FAILED, "lease_acquire_failed"},
    [TEN_ELECTION_RECOVERING] = {TENURE_EVENT_RECOVERING, "store_recovering"},
    [TEN_ELECTION_STORE_DOWN] = {TENURE_EVENT_STORE_DOWN, "store_down"},
    [TEN_ELECTION_STORE_UP] = {TENURE_EVENT_STORE_UP, "store_up"},
    [TEN_ELECTION_REFUSED] = {TENURE_EVENT_REFUSED, "instance_refused"},
};

static void tell_program(tenure_election *election, const ten_election_event *happened) {
    const tenure_election_options *options = &election->options;
    if (options->on_event) {
        tenure_event event = {.kind = event_words[happened->kind].kind,
                              .name = event_words[happened->kind].name,
                              .reason = ten_reason_name(happened->reason),
                              .token = happened->token,
                              .remaining_ms = happened->remaining_ms,
                              .error = happened->error};
        snprintf(event.target, sizeof event.target, "%s", election->role);
        snprintf(event.instance, sizeof event.instance, "%s", happened->other);
        options->on_event(&event, options->userdata);
    }
    bool ends = happened->kind == TEN_ELECTION_STEP_DOWN || happened->kind == TEN_ELECTION_DEMOTED;
    if (happened->kind == TEN_ELECTION_ELECTED) {
        election->in_term = true;
        if (election->measures) /* nobody has released it: it has ended by itself */
            ten_measures_taken_over(election->measures, !election->last_end && election->leader[0]
                                                            ? TEN_REASON_EXPIRED
                                                            : election->last_end);
        election->last_end = TEN_REASON_NONE;
        if (options->on_elected)
            options->on_elected(election, happened->token, options->userdata);
    } else if (ends && election->in_term) { /* once a term: one that steps down can expire meanwhile */
        election->in_term = false;
        if (options->on_demoted)
            options->on_demoted(election, happened->token, ten_reason_name(happened->reason), options->userdata);
    }
}

/* Takes the events one by one: the program is told outside of the lock. */
static bool deliver(tenure_election *election) {
    ten_election_event event;
    pthread_mutex_lock(&election->lock);
    bool found = ten_election_event_take(&election->core, &event);
    if (found && event.kind == TEN_ELECTION_REFUSED)
        election->refused = event.error;
    if (found && event.kind == TEN_ELECTION_CAMPAIGN_FAILED)
        memcpy(election->leader, event.other, sizeof election->leader);
    if (found && (event.kind == TEN_ELECTION_CAMPAIGN_FAILED || event.kind == TEN_ELECTION_STORE_DOWN ||
                  event.kind == TEN_ELECTION_RECOVERING))
        election->trouble = event.kind == TEN_ELECTION_RECOVERING ? TENURE_E_UNREACHABLE : event.error;
    publish(election);
    pthread_cond_broadcast(&election->changed);
    pthread_mutex_unlock(&election->lock);
    if (!found)
        return false;
    tell_program(election, &event);
    if (event.kind == TEN_ELECTION_STEP_DOWN || event.kind == TEN_ELECTION_DEMOTED) {
        pthread_mutex_lock(&election->lock);
        election->told_to_stop = true;
        if (!election->works_elsewhere)
            ten_election_stopped(&election->core);
        pthread_mutex_unlock(&election->lock);
    }
    return true;
}

static bool deliver_all(tenure_election *election) {
    bool delivered = false;
    while (deliver(election))
        delivered = true;
    return delivered;
}

/* ---- the thread */

/* What a request tells, with the lock held, before the answer is taken. */
static void measure(tenure_election *election, const ten_op *op, uint64_t took_us, int r) {
    if (!election->measures)
        return;
    ten_measures_answered(election->measures, r);
    if (op->kind == TEN_OP_RENEW)
        ten_measures_renewed(election->measures, took_us,
                             ten_sub_saturating(election->core.holding.deadline_ms, now_ms(election)), r);
}

static bool send_request(tenure_election *election) {
    ten_op op;
    ten_result result = {0};
    pthread_mutex_lock(&election->lock);
    bool wanted = ten_election_request(&election->core, now_ms(election), &op);
    publish(election); /* what is being released is taken out before it is sent */
    pthread_mutex_unlock(&election->lock);
    if (!wanted)
        return false;
    uint64_t sent_us = ten_boot_us();
    int r = ten_store_apply(election->store, &op, &result, 1, election->timing.timeout_ms);
    uint64_t took_us = ten_boot_us() - sent_us;
    pthread_mutex_lock(&election->lock);
    measure(election, &op, took_us, r);
    ten_election_answer(&election->core, now_ms(election), r, &result);
    publish(election);
    if (election->measures && op.kind != TEN_OP_RELEASE && r == TENURE_OK && result.outcome == TEN_OK)
        ten_measures_led(election->measures, ten_wall_ms(election->clock));
    pthread_mutex_unlock(&election->lock);
    election->feed_due |= r == TENURE_OK; /* a notice can be lost */
    return true;
}

static int take_change(const ten_change *change, void *userdata) {
    tenure_election *election = userdata;
    pthread_mutex_lock(&election->lock);
    ten_election_change(&election->core, now_ms(election), change);
    if ((change->kind == TEN_LEASE_RELEASED || change->kind == TEN_LEASE_LOST) &&
        strcmp(change->target, election->role) == 0)
        election->last_end = change->reason;
    pthread_mutex_unlock(&election->lock);
    return 0;
}

static bool read_feed(tenure_election *election) {
    if (!election->feed_due)
        return false;
    uint64_t before = election->cursor;
    election->feed_due = false;
    int r = election->store->ops->changes(election->store, election->namespace_name, &election->cursor, EVENT_SIZE,
                                          take_change, election, election->timing.timeout_ms);
    if (r == TENURE_E_RESYNC) {
        pthread_mutex_lock(&election->lock);
        ten_election_resync(&election->core, now_ms(election));
        pthread_mutex_unlock(&election->lock);
    }
    election->feed_due = r == TENURE_OK && election->cursor != before && before != UINT64_MAX;
    return election->feed_due;
}

static void sleep_until_due(tenure_election *election) {
    int watch_fd = -1;
    if (election->store->ops->watch(election->store, election->namespace_name, &watch_fd) < 0)
        watch_fd = -1;
    pthread_mutex_lock(&election->lock);
    uint64_t now = now_ms(election);
    uint64_t next_ms = ten_election_next_ms(&election->core, now);
    bool quit = election->quit;
    pthread_mutex_unlock(&election->lock);
    uint64_t wait_ms = next_ms == UINT64_MAX ? UINT64_MAX : ten_sub_saturating(next_ms, now);
    if (watch_fd < 0 || quit)
        wait_ms = ten_min_u64(wait_ms, BLIND_MS);
    int woken = ten_wait_readable(election->wake_fd, watch_fd, wait_ms);
    if (woken > 0 && (woken & 1))
        ten_eventfd_clear(election->wake_fd);
    if (watch_fd >= 0 && woken > 0 && (woken & 2))
        election->store->ops->watch_clear(election->store);
    election->feed_due |= watch_fd < 0 || (woken > 0 && (woken & 2));
}

static bool is_over(tenure_election *election) {
    pthread_mutex_lock(&election->lock);
    const ten_election *core = &election->core;
    bool over = election->quit && core->state == TEN_ELECTION_IDLE && core->holding.state != TEN_HOLDING_RELEASING &&
                core->event_count == 0;
    pthread_mutex_unlock(&election->lock);
    return over;
}

static void *run(void *arg) {
    tenure_election *election = arg;
    int watch_fd;
    (void)election->store->ops->watch(election->store, election->namespace_name, &watch_fd);
    election->feed_due = true; /* sets the cursor to this moment */
    uint64_t give_up_ms = UINT64_MAX;
    while (!is_over(election)) {
        bool worked = read_feed(election);
        worked |= deliver_all(election); /* a new term must not begin before the end of the old is known */
        worked |= send_request(election);
        worked |= deliver_all(election); /* instead of a request, there may have been the end of a term */
        pthread_mutex_lock(&election->lock);
        if (election->quit && give_up_ms == UINT64_MAX)
            give_up_ms = now_ms(election) + ten_max_u64(2 * election->timing.timeout_ms, RELEASE_MS);
        pthread_mutex_unlock(&election->lock);
        if (now_ms(election) >= give_up_ms)
            break; /* the store does not answer: the lease ends by its TTL */
        if (!worked)
            sleep_until_due(election);
    }
    (void)deliver_all(election);
    pthread_mutex_lock(&election->lock);
    ten_belief_set(election->belief, 0, false);
    election->ended = true;
    pthread_cond_broadcast(&election->changed);
    pthread_mutex_unlock(&election->lock);
    return NULL;
}

/* ---- opening and closing */

static int fail(int code, const char *message) {
    return ten_client_fail(NULL, code, "%s", message);
}

static void free_election(tenure_election *election) {
    if (ten_process_is(election->process))
        ten_store_close(election->store);
    ten_close_fd(&election->wake_fd);
    pthread_mutex_destroy(&election->lock);
    pthread_cond_destroy(&election->changed);
    ten_free(election);
}

/* What the caller's version of the options has, and the defaults. */
static int configure(tenure_election *election, const char *url, const char *role, ten_error *error) {
    const tenure_election_options *options = &election->options;
    const char *namespace_name = options->namespace_name ? options->namespace_name : "leader";
    election->timing = (ten_timing){.ttl_ms = options->ttl_ms,
                                    .renew_ms = options->renew_ms,
                                    .margin_ms = options->margin_ms,
                                    .timeout_ms = options->timeout_ms};
    ten_timing_defaults(&election->timing);
    int r = role ? ten_id_check_target(role, error) : ten_fail(error, TENURE_E_INVALID, "no role was given");
    if (r == TENURE_OK)
        r = ten_id_check_namespace(namespace_name, error);
    if (r == TENURE_OK)
        r = ten_id_make_instance(options->instance_name, election->instance, error);
    if (r == TENURE_OK)
        r = ten_timing_check(&election->timing, TENURE_TTL_MIN_MS, NULL, error);
    if (r < 0)
        return r;
    snprintf(election->namespace_name, sizeof election->namespace_name, "%s", namespace_name);
    snprintf(election->role, sizeof election->role, "%s", role);
    ten_store_config config = {.clock = election->clock, .timeout_ms = election->timing.timeout_ms};
    r = ten_store_open(url, &config, &election->store, error);
    if (r < 0)
        return r;
    if (!options->timeout_ms && election->store->timeout_ms)
        election->timing.timeout_ms = election->store->timeout_ms;
    return ten_timing_check(&election->timing, election->store->capabilities.ttl_min_ms,
                            election->store->capabilities.ttl_min_reason, error);
}

int ten_candidate_begin(tenure_election *election) {
    ten_election_campaign(&election->core, now_ms(election));
    int refused = ten_thread_start(&election->thread, run, election);
    election->started = refused == 0;
    return refused ? fail(TENURE_E_SYSTEM, "cannot start the election's thread") : TENURE_OK;
}

static tenure_election *new_election(const tenure_election_options *options, const ten_election_extras *extras) {
    tenure_election *election = ten_calloc(1, sizeof *election);
    if (!election)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&election->lock, NULL);
    pthread_cond_init(&election->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (options)
        memcpy(&election->options, options, ten_min_u64(options->size, sizeof election->options));
    election->clock = extras && extras->clock ? extras->clock : &ten_system_clock;
    election->works_elsewhere = extras && extras->works_elsewhere;
    election->measures = extras ? extras->measures : NULL;
    election->process = ten_process_number();
    election->wake_fd = ten_eventfd_open();
    election->cursor = UINT64_MAX;
    election->belief = extras && extras->beliefs ? &extras->beliefs->beliefs[0] : &election->own_belief;
    election->last_end_ms = extras && extras->beliefs ? extras->beliefs->last_end_ms : NULL;
    return election;
}

int ten_candidate_open(const char *url, const char *role, const tenure_election_options *options,
                       const ten_election_extras *extras, tenure_election **ret_election) {
    ten_error error = {0};
    if (options && options->size < sizeof options->size)
        return fail(TENURE_E_INVALID, "tenure_election_options.size is not set: it is sizeof(tenure_election_options)");
    tenure_election *election = new_election(options, extras);
    if (!election)
        return fail(TENURE_E_NOMEM, "out of memory for an election");
    int r = election->wake_fd < 0 || election->process == 0
                ? ten_fail_errno(&error, TENURE_E_SYSTEM, errno, "cannot start an election")
                : configure(election, url, role, &error);
    if (r < 0) {
        ten_client_failed(NULL, &error);
    } else {
        ten_election_config config = {.namespace_name = election->namespace_name,
                                      .role = election->role,
                                      .instance = election->instance,
                                      .timing = election->timing,
                                      .at_least_ms = election->options.at_least_ms,
                                      .ttl_min_ms = election->store->capabilities.ttl_min_ms,
                                      .expiry_late_ms = election->store->capabilities.expiry_late_ms,
                                      .seed = ten_random_u64()};
        ten_election_init(&election->core, &config);
        r = election->works_elsewhere ? TENURE_OK : ten_candidate_begin(election);
    }
    if (r < 0) {
        free_election(election);
        return r;
    }
    *ret_election = election;
    return TENURE_OK;
}

int tenure_election_start(const char *url, const char *role, const tenure_election_options *options,
                          tenure_election **ret_election) {
    return ten_candidate_open(url, role, options, NULL, ret_election);
}

static void wake(const tenure_election *election) {
    ten_eventfd_poke(election->wake_fd);
}

void tenure_election_stop(tenure_election *election) {
    if (!election)
        return;
    if (ten_process_is(election->process) && election->started) {
        pthread_mutex_lock(&election->lock);
        ten_election_withdraw(&election->core, TEN_REASON_SHUTDOWN);
        election->quit = true;
        pthread_mutex_unlock(&election->lock);
        wake(election);
        pthread_join(election->thread, NULL);
    }
    free_election(election);
}

/* ---- using it */

static int belongs_here(const tenure_election *election) {
    return ten_process_is(election->process)
               ? TENURE_OK
               : fail(TENURE_E_FORKED, "this election belongs to the parent of this process");
}

int tenure_election_wait(tenure_election *election, uint64_t wait_ms) {
    int r = belongs_here(election);
    if (r < 0)
        return r;
    struct timespec end = ten_monotonic_end(wait_ms);
    int waited = 0;
    pthread_mutex_lock(&election->lock);
    while (!tenure_is_leader(election) && !election->refused && !election->ended && waited == 0)
        waited = pthread_cond_timedwait(&election->changed, &election->lock, &end);
    int refused = election->refused;
    int trouble = election->trouble;
    char leader[TENURE_HOLDER_MAX + 1];
    memcpy(leader, election->leader, sizeof leader);
    pthread_mutex_unlock(&election->lock);
    if (tenure_is_leader(election))
        return TENURE_OK;
    if (refused)
        return ten_client_fail(NULL, refused, "%s cannot lead %s: %s", election->instance, election->role,
                               tenure_strerror(refused));
    if (trouble && trouble != TENURE_E_HELD)
        return ten_client_fail(NULL, trouble, "it is not known who leads %s: %s", election->role,
                               trouble == TENURE_E_UNREACHABLE ? "the store is out of reach, or recovering"
                                                               : tenure_strerror(trouble));
    return ten_client_fail(NULL, TENURE_E_HELD, "%s is led by %s", election->role, leader[0] ? leader : "nobody yet");
}

int tenure_election_resign(tenure_election *election) {
    int r = belongs_here(election);
    if (r < 0)
        return r;
    ten_candidate_end_term(election, TEN_REASON_RESIGNED, election->timing.ttl_ms);
    return TENURE_OK;
}

void ten_candidate_end_term(tenure_election *election, enum ten_reason reason, uint64_t pause_ms) {
    pthread_mutex_lock(&election->lock);
    if (pause_ms == UINT64_MAX)
        ten_election_withdraw(&election->core, reason);
    else
        ten_election_resign(&election->core, reason, pause_ms);
    publish(election);
    pthread_mutex_unlock(&election->lock);
    wake(election);
}

void ten_candidate_work_over(tenure_election *election) {
    pthread_mutex_lock(&election->lock);
    ten_election_stopped(&election->core);
    pthread_mutex_unlock(&election->lock);
    wake(election);
}

int tenure_leader_only(const char *url, const char *role, const tenure_election_options *options, uint64_t wait_ms,
                       int (*fn)(tenure_election *election, void *arg), void *arg) {
    tenure_election *election = NULL;
    int r = tenure_election_start(url, role, options, &election);
    if (r < 0)
        return r;
    /* Without a wait, too, the store is given the time to answer once. */
    r = tenure_election_wait(election, ten_max_u64(wait_ms, election->timing.timeout_ms));
    pthread_mutex_lock(&election->lock);
    uint64_t token = r == TENURE_OK ? tenure_election_token(election) : 0;
    election->works_elsewhere = token != 0;
    election->told_to_stop = false;
    pthread_mutex_unlock(&election->lock);
    if (token != 0)
        r = fn(election, arg);
    else if (r == TENURE_OK)
        r = ten_client_fail(NULL, TENURE_E_LOST, "the leadership of %s was lost before the work could begin", role);
    pthread_mutex_lock(&election->lock);
    /* Still the same lease, also when it is about to be given up: nobody else has led meanwhile. */
    bool lost =
        token != 0 && !(now_ms(election) < election->core.holding.deadline_ms && election->core.holding.token == token);
    election->works_elsewhere = false;
    if (election->told_to_stop)
        ten_election_stopped(&election->core);
    pthread_mutex_unlock(&election->lock);
    tenure_election_stop(election);
    return lost ? ten_client_fail(NULL, TENURE_E_LOST, "the leadership of %s was lost before the work was done", role)
                : r;
}
