/*
 * The C API of elections. A candidate's core (core/election.h) decides, and its carrier makes its calls; here the
 * program is told what came of it.
 */
#include "core/election.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"
#include "base/random.h"
#include "runtime/candidate.h"
#include "runtime/carrier.h"
#include "runtime/client.h"

#define FEED_SIZE  100u
#define RELEASE_MS 1000u

struct tenure_election {
    ten_carrier carrier;
    ten_timing timing;
    char instance[TENURE_HOLDER_MAX + 1];
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    char role[TENURE_TARGET_MAX + 1];
    tenure_election_options options;
    ten_belief own_belief;
    ten_belief *belief;
    _Atomic(uint64_t) *last_end_ms; /* of the warden's beliefs, or NULL */

    /* Under the carrier's lock. */
    ten_election core;
    bool quit;  /* by the carrier's end_ms also if the store does not answer: the lease ends by its TTL */
    bool ended; /* the thread has */
    int refused;
    int trouble; /* why the last campaign failed; 0: it did not */
    /* The work is not over when on_demoted has returned: tenure_leader_only()'s function, or a command. */
    bool works_elsewhere;
    bool told_to_stop;                  /* meanwhile */
    char leader[TENURE_HOLDER_MAX + 1]; /* as far as was heard; "" */

    /* The thread's own. */
    ten_measures *measures;
    bool in_term; /* the program was told that it leads, and not yet that it no longer does */
};

static uint64_t now_ms(const tenure_election *election) {
    return ten_carrier_now_ms(&election->carrier);
}

static void lock(tenure_election *election) {
    pthread_mutex_lock(&election->carrier.lock);
}

static void unlock(tenure_election *election) {
    pthread_mutex_unlock(&election->carrier.lock);
}

/* ---- what may be believed, for readers */

static void publish(void *owner) {
    tenure_election *election = owner;
    const ten_holding *holding = &election->core.holding;
    atomic_store_explicit(&election->belief->process, election->carrier.process, memory_order_relaxed);
    atomic_store_explicit(&election->belief->token, holding->token, memory_order_relaxed);
    ten_belief_set(election->belief, holding->deadline_ms, ten_election_is_leader(&election->core, now_ms(election)));
    if (election->last_end_ms)
        atomic_store_explicit(election->last_end_ms, holding->deadline_ms, memory_order_release);
}

bool tenure_is_leader(const tenure_election *election) {
    return now_ms(election) < ten_belief_work_until_ms(election->belief) && ten_process_is(election->carrier.process);
}

uint64_t tenure_election_token(const tenure_election *election) {
    return tenure_is_leader(election) ? atomic_load_explicit(&election->belief->token, memory_order_acquire) : 0;
}

uint64_t tenure_election_remaining_ms(const tenure_election *election) {
    return ten_process_is(election->carrier.process)
               ? ten_sub_saturating(ten_belief_ends_ms(election->belief), now_ms(election))
               : 0;
}

const char *tenure_election_instance_id(const tenure_election *election) {
    return election->instance;
}

/* ---- events */

/* Each event, as it happens; with the lock. */
static void on_put(void *userdata, const tenure_event *event) {
    tenure_election *election = userdata;
    if (event->kind == TENURE_EVENT_REFUSED)
        election->refused = event->error;
    if (event->kind == TENURE_EVENT_ACQUIRE_FAILED)
        memcpy(election->leader, event->instance, sizeof election->leader);
    if (event->kind == TENURE_EVENT_ACQUIRE_FAILED || event->kind == TENURE_EVENT_STORE_DOWN ||
        event->kind == TENURE_EVENT_RECOVERING)
        election->trouble = event->kind == TENURE_EVENT_RECOVERING ? TENURE_E_UNREACHABLE : event->error;
    if (event->kind == TENURE_EVENT_ACQUIRED && election->measures)
        ten_measures_taken_over(election->measures, ten_reason_parse(event->reason));
}

/* Outside of the lock. */
static void tell_program(tenure_election *election, tenure_event *event) {
    const tenure_election_options *options = &election->options;
    if (event->kind == TENURE_EVENT_ACQUIRED)
        event->reason = ""; /* why the previous term ended is for the measures only */
    if (event->target[0] == '\0')
        snprintf(event->target, sizeof event->target, "%s", election->role);
    if (options->on_event)
        options->on_event(event, options->userdata);
    bool ends = event->kind == TENURE_EVENT_STOP || event->kind == TENURE_EVENT_LOST;
    if (event->kind == TENURE_EVENT_ACQUIRED) {
        election->in_term = true;
        if (options->on_elected)
            options->on_elected(election, event->token, options->userdata);
    } else if (ends && election->in_term) { /* once a term: one that steps down can expire meanwhile */
        election->in_term = false;
        if (options->on_demoted)
            options->on_demoted(election, event->token, event->reason, options->userdata);
    }
    if (!ends)
        return;
    lock(election);
    election->told_to_stop = true;
    if (!election->works_elsewhere)
        ten_election_stopped(&election->core);
    unlock(election);
}

/* ---- for the carrier */

static bool deliver(void *owner) {
    tenure_election *election = owner;
    tenure_event event;
    bool any = false;
    for (; ten_carrier_take_event(&election->carrier, &event); any = true)
        tell_program(election, &event);
    return any;
}

/* What a request tells, before its answer is taken. */
static void measure(void *owner, const ten_call *call, uint64_t took_us, int error, const ten_result *results) {
    tenure_election *election = owner;
    if (!election->measures)
        return;
    ten_measures_answered(election->measures, error);
    if (call->ops->kind == TEN_OP_RENEW)
        ten_measures_renewed(election->measures, took_us,
                             ten_sub_saturating(election->core.holding.deadline_ms, now_ms(election)), error);
    if (call->ops->kind != TEN_OP_RELEASE && error == TENURE_OK && results->outcome == TEN_OK)
        ten_measures_led(election->measures, ten_wall_ms(election->carrier.clock));
}

static bool is_over(void *owner) {
    tenure_election *election = owner;
    const ten_election *core = &election->core;
    bool released = core->state == TEN_ELECTION_IDLE && core->holding.state != TEN_HOLDING_RELEASING;
    bool over = election->quit &&
                ((released && election->carrier.events.count == 0) || now_ms(election) >= election->carrier.end_ms);
    if (over)
        ten_belief_set(election->belief, 0, false);
    election->ended |= over;
    if (over)
        pthread_cond_broadcast(&election->carrier.changed);
    return over;
}

static const ten_carrier_hooks hooks = {
    .is_over = is_over, .answered = measure, .changed = publish, .deliver = deliver};

/* ---- opening and closing */

static int fail(int code, const char *message) {
    return ten_last_error_say(NULL, code, "%s", message);
}

static void free_election(tenure_election *election) {
    ten_carrier_free(&election->carrier);
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
    ten_carrier *carrier = &election->carrier;
    ten_store_config config = {.clock = carrier->clock, .timeout_ms = election->timing.timeout_ms};
    r = ten_store_open(url, &config, &carrier->store, error);
    if (r < 0)
        return r;
    if (!options->timeout_ms && carrier->store->timeout_ms)
        election->timing.timeout_ms = carrier->store->timeout_ms;
    carrier->timeout_ms = election->timing.timeout_ms;
    return ten_timing_check(&election->timing, carrier->store->capabilities.ttl_min_ms,
                            carrier->store->capabilities.ttl_min_reason, error);
}

static void make_core(tenure_election *election) {
    ten_election_config config = {.namespace_name = election->namespace_name,
                                  .role = election->role,
                                  .instance = election->instance,
                                  .timing = election->timing,
                                  .at_least_ms = election->options.at_least_ms,
                                  .ttl_min_ms = election->carrier.store->capabilities.ttl_min_ms,
                                  .expiry_late_ms = election->carrier.store->capabilities.expiry_late_ms,
                                  .seed = ten_random_u64(),
                                  .events = &election->carrier.events};
    ten_election_init(&election->core, &config);
    ten_driver_config driver = {.part = &ten_election_part,
                                .self = &election->core,
                                .events = &election->carrier.events,
                                .seed = ten_random_u64(),
                                .backoff_max_ms = election->timing.renew_ms / 4,
                                .feed_size = FEED_SIZE};
    ten_driver_init(&election->carrier.driver, &driver, now_ms(election));
}

int ten_candidate_begin(tenure_election *election) {
    ten_election_campaign(&election->core, now_ms(election));
    int refused = ten_carrier_start(&election->carrier);
    return refused ? fail(TENURE_E_SYSTEM, "cannot start the election's thread") : TENURE_OK;
}

static tenure_election *new_election(const tenure_election_options *options, const ten_election_extras *extras) {
    tenure_election *election = ten_calloc(1, sizeof *election);
    if (!election)
        return NULL;
    if (options)
        memcpy(&election->options, options, ten_min_u64(options->size, sizeof election->options));
    election->works_elsewhere = extras && extras->works_elsewhere;
    election->measures = extras ? extras->measures : NULL;
    election->carrier.hooks = &hooks;
    election->carrier.owner = election;
    election->carrier.namespace_name = election->namespace_name;
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
    int r = ten_carrier_open(&election->carrier, extras && extras->clock ? extras->clock : &ten_system_clock, &error);
    election->carrier.events.seen = on_put;
    election->carrier.events.userdata = election;
    if (r == TENURE_OK)
        r = ten_carrier_reserve(&election->carrier, 1, &error);
    if (r == TENURE_OK)
        r = configure(election, url, role, &error);
    if (r < 0) {
        ten_last_error_set(NULL, &error);
    } else {
        make_core(election);
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

void tenure_election_stop(tenure_election *election) {
    if (!election)
        return;
    if (ten_process_is(election->carrier.process) && election->carrier.started) {
        lock(election);
        ten_election_withdraw(&election->core, TEN_REASON_SHUTDOWN);
        election->quit = true;
        election->carrier.end_ms = now_ms(election) + ten_max_u64(2 * election->timing.timeout_ms, RELEASE_MS);
        unlock(election);
        ten_carrier_join(&election->carrier);
    }
    free_election(election);
}

/* ---- using it */

static int belongs_here(const tenure_election *election) {
    return ten_process_is(election->carrier.process)
               ? TENURE_OK
               : fail(TENURE_E_FORKED, "this election belongs to the parent of this process");
}

int tenure_election_wait(tenure_election *election, uint64_t wait_ms) {
    int r = belongs_here(election);
    if (r < 0)
        return r;
    struct timespec end = ten_monotonic_end(wait_ms);
    int waited = 0;
    lock(election);
    while (!tenure_is_leader(election) && !election->refused && !election->ended && waited == 0)
        waited = pthread_cond_timedwait(&election->carrier.changed, &election->carrier.lock, &end);
    int refused = election->refused;
    int trouble = election->trouble;
    char leader[TENURE_HOLDER_MAX + 1];
    memcpy(leader, election->leader, sizeof leader);
    unlock(election);
    if (tenure_is_leader(election))
        return TENURE_OK;
    if (refused)
        return ten_last_error_say(NULL, refused, "%s cannot lead %s: %s", election->instance, election->role,
                                  tenure_strerror(refused));
    if (trouble && trouble != TENURE_E_HELD)
        return ten_last_error_say(NULL, trouble, "it is not known who leads %s: %s", election->role,
                                  trouble == TENURE_E_UNREACHABLE ? "the store is out of reach, or recovering"
                                                                  : tenure_strerror(trouble));
    return ten_last_error_say(NULL, TENURE_E_HELD, "%s is led by %s", election->role,
                              leader[0] ? leader : "nobody yet");
}

int tenure_election_resign(tenure_election *election) {
    int r = belongs_here(election);
    if (r < 0)
        return r;
    ten_candidate_end_term(election, TEN_REASON_RESIGNED, election->timing.ttl_ms);
    return TENURE_OK;
}

void ten_candidate_end_term(tenure_election *election, enum ten_reason reason, uint64_t pause_ms) {
    lock(election);
    if (pause_ms == UINT64_MAX)
        ten_election_withdraw(&election->core, reason);
    else
        ten_election_resign(&election->core, reason, pause_ms);
    publish(election);
    unlock(election);
    ten_carrier_wake(&election->carrier);
}

void ten_candidate_work_over(tenure_election *election) {
    lock(election);
    ten_election_stopped(&election->core);
    unlock(election);
    ten_carrier_wake(&election->carrier);
}

int tenure_leader_only(const char *url, const char *role, const tenure_election_options *options, uint64_t wait_ms,
                       int (*fn)(tenure_election *election, void *arg), void *arg) {
    tenure_election *election = NULL;
    int r = tenure_election_start(url, role, options, &election);
    if (r < 0)
        return r;
    /* Without a wait, too, the store is given the time to answer once. */
    r = tenure_election_wait(election, ten_max_u64(wait_ms, election->timing.timeout_ms));
    lock(election);
    uint64_t token = r == TENURE_OK ? tenure_election_token(election) : 0;
    election->works_elsewhere = token != 0;
    election->told_to_stop = false;
    unlock(election);
    if (token != 0)
        r = fn(election, arg);
    else if (r == TENURE_OK)
        r = ten_last_error_say(NULL, TENURE_E_LOST, "the leadership of %s was lost before the work could begin", role);
    lock(election);
    /* Still the same lease, also when it is about to be given up: nobody else has led meanwhile. */
    bool lost =
        token != 0 && !(now_ms(election) < election->core.holding.deadline_ms && election->core.holding.token == token);
    election->works_elsewhere = false;
    if (election->told_to_stop)
        ten_election_stopped(&election->core);
    unlock(election);
    tenure_election_stop(election);
    return lost
               ? ten_last_error_say(NULL, TENURE_E_LOST, "the leadership of %s was lost before the work was done", role)
               : r;
}
