/*
 * The C API of elections: the core's candidate (core/election.h) as a task of its context's carrier. Here the program
 * learns what came of it.
 */
#include "runtime/candidate.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/random.h"
#include "core/election.h"
#include "runtime/context_state.h"
#include "runtime/metadata.h"

#define FEED_SIZE  100u
#define RELEASE_MS 1000u
#define SLOT_SIZE  11u /* room for what follows the role in the target of a slot */

struct tenure_election {
    ten_object object;
    ten_carrier *carrier;
    const ten_clock *clock;
    ten_task task;
    tenure_election_options options;
    ten_belief own_belief;
    ten_belief *belief;
    _Atomic(uint64_t) *last_end_ms; /* of the warden's beliefs, or NULL */
    ten_measures *measures;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    char role[TENURE_TARGET_MAX + 1];
    char (*targets)[TENURE_TARGET_MAX + 1]; /* of the slots */
    ten_buf metadata;

    /* Under the carrier's lock. */
    ten_election core; /* its config is what the program has set */
    bool begun;        /* its task is the carrier's */
    bool ending;
    int refused;
    int trouble; /* why the last campaign failed; 0: it did not */
    /* The work is not over when on_demoted has returned: tenure_election_run()'s function, or a command. */
    bool works_elsewhere;
    bool told_to_stop;                  /* and its end has not been reported */
    bool in_term;                       /* the program knows that it leads, and not yet that it no longer does */
    char leader[TENURE_HOLDER_MAX + 1]; /* as far as is known; "" */
};

static uint64_t now_ms(const tenure_election *election) {
    return ten_boot_ms(election->clock);
}

/* ---- what may be believed, for readers */

static bool has_all(const tenure_election *election) {
    return election->core.config.wants == TEN_ELECTION_ALL;
}

static void publish(void *owner) {
    tenure_election *election = owner;
    uint64_t deadline_ms = ten_election_deadline_ms(&election->core);
    uint64_t term =
        TEN_TERM_ID(ten_election_slot_at(&election->core)->holding.token, has_all(election) ? 0 : election->core.at);
    atomic_store_explicit(&election->belief->token, term, memory_order_relaxed);
    ten_belief_set(election->belief, deadline_ms, ten_election_is_leader(&election->core, now_ms(election)));
    if (election->last_end_ms)
        atomic_store_explicit(election->last_end_ms, deadline_ms, memory_order_release);
}

static bool is_before(const tenure_election *election, uint64_t until_ms) {
    return until_ms != 0 && now_ms(election) < until_ms && ten_fork_is(election->object.process);
}

bool tenure_election_leads(const tenure_election *election) {
    return election && is_before(election, ten_belief_work_until_ms(election->belief));
}

uint64_t tenure_election_token(const tenure_election *election) {
    return tenure_election_leads(election)
               ? TEN_TERM_TOKEN(atomic_load_explicit(&election->belief->token, memory_order_acquire))
               : 0;
}

uint64_t tenure_election_remaining_ms(const tenure_election *election) {
    uint64_t ends_ms = election ? ten_belief_ends_ms(election->belief) : 0;
    return ends_ms && is_before(election, ends_ms) ? ten_sub_saturating(ends_ms, now_ms(election)) : 0;
}

/* ---- events */

/* Each event, as it happens; with the lock. */
static void on_fact(void *userdata, const ten_fact *fact) {
    tenure_election *election = userdata;
    const tenure_event *event = fact->event; /* all that an election publishes */
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

/* Without the lock. */
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
        ten_carrier_lock(election->carrier);
        election->told_to_stop = true;
        ten_carrier_unlock(election->carrier);
        if (options->on_demoted)
            options->on_demoted(election, event->token, event->reason, options->userdata);
    }
    if (!ends)
        return;
    ten_carrier_lock(election->carrier);
    if (!election->works_elsewhere)
        ten_election_stopped(&election->core);
    ten_carrier_unlock(election->carrier);
}

static void tell(void *owner) {
    tenure_election *election = owner;
    tenure_event event;
    while (ten_task_take_event(&election->task, &event))
        tell_program(election, &event);
}

/* What a request tells, before its answer is taken. */
static void measure(void *owner, const ten_call *call, uint64_t took_us, int error, const ten_result *results) {
    tenure_election *election = owner;
    if (!election->measures)
        return;
    ten_measures_answered(election->measures, error);
    enum ten_op_kind kind = call->ops->kind;
    if (kind == TEN_OP_RENEW)
        ten_measures_renewed(election->measures, took_us,
                             ten_sub_saturating(ten_election_deadline_ms(&election->core), now_ms(election)), error);
    if ((kind == TEN_OP_RENEW || kind == TEN_OP_ACQUIRE) && error == TENURE_OK && results->outcome == TEN_OK)
        ten_measures_led(election->measures, ten_wall_ms(election->clock));
}

static const ten_task_hooks hooks = {.answered = measure, .changed = publish, .tell = tell};

/* ---- the end of its context */

static void begin_end(ten_object *object) {
    tenure_election *election = (tenure_election *)object;
    if (!election->ending && election->begun)
        ten_election_withdraw(&election->core, TEN_REASON_SHUTDOWN);
    election->ending = true;
    if (election->begun)
        publish(election);
}

/* The role has been released, and the program knows. */
static bool is_ended(const void *arg) {
    const tenure_election *election = arg;
    return !election->begun ||
           (ten_election_is_gone(&election->core) && election->task.events.count == 0 && !election->task.telling);
}

static bool has_ended(const ten_object *object) {
    return is_ended(object);
}

static bool may_hold(const ten_object *object) {
    return !is_ended(object);
}

static void end(ten_object *object) {
    tenure_election *election = (tenure_election *)object;
    ten_task_remove(&election->task);
    ten_belief_set(election->belief, 0, false);
    if (election->last_end_ms)
        atomic_store_explicit(election->last_end_ms, 0, memory_order_release);
}

static const ten_object_ends ends = {.begin = begin_end, .is_ended = has_ended, .may_hold = may_hold, .end = end};

/* ---- opening */

static void make_core(tenure_election *election) {
    const ten_capabilities *capabilities = &election->task.channel->store->capabilities;
    ten_election_config config = election->core.config;
    config.ttl_min_ms = capabilities->ttl_min_ms;
    config.expiry_late_ms = capabilities->expiry_late_ms;
    ten_election_init(&election->core, &config);
    ten_task_begin(&election->task, (ten_engine_config){.step = ten_election_step,
                                                        .due = ten_election_due,
                                                        .part = &election->core,
                                                        .backoff_max_ms = config.timing.renew_ms / 4,
                                                        .feed_size = FEED_SIZE,
                                                        .feed_in_turns = true});
}

int ten_candidate_begin(tenure_election *election) {
    ten_error error;
    int r = ten_object_check(election, TEN_OBJECT_ELECTION);
    if (r < 0)
        return r;
    if (ten_carrier_start(election->carrier, &error) < 0)
        return ten_last_error_set(election, &error);
    ten_carrier_lock(election->carrier);
    bool again = election->begun;
    election->begun = true;
    if (!again)
        ten_election_campaign(&election->core, now_ms(election));
    ten_carrier_unlock(election->carrier);
    if (!again)
        ten_task_add(&election->task);
    return TENURE_OK;
}

/* False: out of memory. */
static bool make_slots(const tenure_context *context, tenure_election *election, const ten_election_extras *extras) {
    bool all = extras->all_count > 0;
    uint32_t count = all ? extras->all_count : election->options.count;
    ten_metadata_write(&(ten_metadata){.role = election->role,
                                       .is_lock = extras->is_lock,
                                       .priority = extras->priority,
                                       .identity = ten_buf_string(&context->identity)},
                       &election->metadata);
    ten_election_config *config = &election->core.config;
    *config = (ten_election_config){.namespace_name = election->namespace_name,
                                    .role = election->role,
                                    .instance = context->instance,
                                    .timing = context->timing,
                                    .at_least_ms = election->options.at_least_ms,
                                    .seed = ten_random_u64(),
                                    .events = &election->task.events,
                                    .wants = all ? TEN_ELECTION_ALL : TEN_ELECTION_ANY,
                                    .announces = extras->announces,
                                    .priority = extras->priority,
                                    .is_lock = extras->is_lock,
                                    .failback_ms = extras->failback_ms ? extras->failback_ms - 1 : UINT64_MAX,
                                    .has_turns = extras->announces != TEN_ELECTION_SILENT && !all,
                                    .metadata = ten_buf_string(&election->metadata)};
    if (election->metadata.failed || count == 0)
        return !election->metadata.failed;
    config->slots = ten_calloc(count, sizeof *config->slots);
    config->ops = ten_calloc(count + 1, sizeof *config->ops);
    election->targets = ten_calloc(count, sizeof *election->targets);
    if (!config->slots || !config->ops || !election->targets)
        return false;
    config->slot_count = count;
    for (uint32_t i = 0; i < count; i++) {
        if (all)
            snprintf(election->targets[i], sizeof *election->targets, "%s", extras->all[i]);
        else /* its length has been checked */
            snprintf(election->targets[i], sizeof *election->targets, "%.*s/%u", (int)(TENURE_TARGET_MAX - SLOT_SIZE),
                     election->role, i);
        config->slots[i].target = election->targets[i];
    }
    return true;
}

static void free_election(ten_object *object) {
    tenure_election *election = (tenure_election *)object;
    ten_election_free(&election->core);
    ten_free(election->core.config.slots);
    ten_free(election->core.config.ops);
    ten_free(election->targets);
    ten_buf_free(&election->metadata);
    ten_task_free(&election->task);
    ten_object_free(election);
}

static tenure_election *new_election(tenure_context *context, const char *role, const tenure_election_options *options,
                                     const ten_election_extras *extras) {
    tenure_election *election = ten_calloc(1, sizeof *election);
    if (!election)
        return NULL;
    election->options = *options;
    election->carrier = &context->carrier;
    election->clock = context->carrier.clock;
    snprintf(election->namespace_name, sizeof election->namespace_name, "%s",
             options->namespace_name ? options->namespace_name : "leader");
    snprintf(election->role, sizeof election->role, "%s", role);
    election->works_elsewhere = extras->works_elsewhere || (options->flags & TENURE_WORK_ELSEWHERE);
    election->measures = extras->measures;
    election->belief = extras->beliefs ? ten_beliefs_at(extras->beliefs, 0) : &election->own_belief;
    election->last_end_ms = extras->beliefs ? extras->beliefs->last_end_ms : NULL;
    election->object.ends = &ends;
    election->object.namespace_name = election->namespace_name;
    election->object.target = election->role;
    election->task.hooks = &hooks;
    election->task.owner = election;
    if (make_slots(context, election, extras))
        return election;
    free_election(&election->object);
    return NULL;
}

static int check_options(tenure_context *context, const char *role, const tenure_election_options *options,
                         const void *ret_election) {
    ten_error error;
    const char *namespace_name = options->namespace_name ? options->namespace_name : "leader";
    int r = ten_flags_check(context, options->flags, TENURE_WORK_ELSEWHERE);
    if (r == TENURE_OK && !role)
        r = ten_last_error_say(context, TENURE_E_INVALID, "no role was given");
    if (r == TENURE_OK)
        r = ten_context_check_target(context, role);
    if (r == TENURE_OK && !ret_election)
        r = ten_last_error_say(context, TENURE_E_INVALID, "there is no place for the election for %s", role);
    if (r == TENURE_OK && ten_id_check_namespace(namespace_name, &error) < 0)
        r = ten_last_error_set(context, &error);
    if (r == TENURE_OK && options->count > TEN_ELECTION_SLOTS_MAX)
        r = ten_last_error_say(context, TENURE_E_INVALID, "count must be at most %u, and is %u", TEN_ELECTION_SLOTS_MAX,
                               options->count);
    if (r == TENURE_OK && options->count > 0 && strlen(role) > TENURE_TARGET_MAX - SLOT_SIZE)
        r = ten_last_error_say(context, TENURE_E_INVALID, "the name of a role with slots has at most %u bytes",
                               TENURE_TARGET_MAX - SLOT_SIZE);
    uint64_t longest_ms = ten_election_at_least_max_ms(&context->timing);
    if (r == TENURE_OK && options->at_least_ms > longest_ms)
        r = ten_last_error_say(context, TENURE_E_INVALID,
                               "at_least_ms must be at most %llu (366 days less the TTL), and is %llu",
                               (unsigned long long)longest_ms, (unsigned long long)options->at_least_ms);
    return r;
}

static bool announces_there(const ten_object *object, const char *namespace_name) {
    const tenure_election *election = (const tenure_election *)object;
    return object->kind == TEN_OBJECT_ELECTION && strcmp(election->namespace_name, namespace_name) == 0 &&
           election->core.config.announces != TEN_ELECTION_SILENT;
}

/* A candidate that waits announces itself, so that all take turns. A context has one heartbeat in a namespace: of its
 * elections there the first announces itself, and the others wait without a turn. */
static void choose_turns(const tenure_context *context, tenure_election *election) {
    bool taken = false;
    ten_carrier_lock(election->carrier);
    for (const ten_object *object = context->objects; object; object = object->next)
        taken |= announces_there(object, election->namespace_name);
    if (!taken) {
        election->core.config.announces = TEN_ELECTION_WAITING;
        election->core.config.has_turns = true;
    }
    ten_carrier_unlock(election->carrier);
}

static int open_checked(tenure_context *context, tenure_election *election) {
    ten_error error;
    int r = ten_task_open(&election->task, election->carrier, ten_max_u64(election->core.config.slot_count, 1) + 1,
                          election->namespace_name, &error);
    if (r < 0)
        return ten_last_error_set(context, &error);
    election->task.events.publish = on_fact;
    election->task.events.userdata = election;
    election->task.events.unbounded = true;
    make_core(election);
    return ten_context_adopt(context, &election->object, TEN_OBJECT_ELECTION);
}

int ten_candidate_open(tenure_context *context, const char *role, const tenure_election_options *options,
                       const ten_election_extras *extras, tenure_election **ret_election) {
    static const ten_election_extras none;
    tenure_election_options own;
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK)
        r = ten_struct_read(context, "tenure_election_options", options, &own, sizeof own);
    if (r == TENURE_OK)
        r = check_options(context, role, &own, ret_election);
    if (r < 0)
        return r;
    tenure_election *election = new_election(context, role, &own, extras ? extras : &none);
    if (!election)
        return ten_last_error_say(context, TENURE_E_NOMEM, "out of memory for an election");
    r = open_checked(context, election);
    if (r < 0) {
        free_election(&election->object);
        return r;
    }
    if (!extras)
        choose_turns(context, election);
    *ret_election = election; /* before the first event */
    r = extras && extras->works_elsewhere ? TENURE_OK : ten_candidate_begin(election);
    if (r < 0) {
        *ret_election = NULL;
        tenure_election_close(election);
    }
    return r;
}

int tenure_election_open(tenure_context *context, const char *role, const tenure_election_options *options,
                         tenure_election **ret_election) {
    return ten_candidate_open(context, role, options, NULL, ret_election);
}

/* ---- the end */

static void leave_and_end(ten_object *object) {
    tenure_election *election = (tenure_election *)object;
    ten_carrier_lock(election->carrier);
    begin_end(object);
    uint64_t end_ms = now_ms(election) + ten_max_u64(2 * election->core.config.timing.timeout_ms, RELEASE_MS);
    (void)ten_carrier_await(election->carrier, &election->task, is_ended, election, end_ms);
    ten_carrier_unlock(election->carrier);
    end(object);
}

void tenure_election_close(tenure_election *election) {
    ten_context_close_object(election, TEN_OBJECT_ELECTION, __func__, leave_and_end, free_election);
}

/* ---- using it */

static bool leads_or_never(const void *arg) {
    const tenure_election *election = arg;
    return tenure_election_leads(election) || election->refused || election->ending;
}

int tenure_election_wait(tenure_election *election, uint64_t wait_ms) {
    int r = ten_object_check_waiting(election, TEN_OBJECT_ELECTION);
    if (r < 0)
        return r;
    ten_carrier_lock(election->carrier);
    r = ten_carrier_wait(election->carrier, &election->task, leads_or_never, election,
                         ten_add_saturating(now_ms(election), wait_ms));
    int refused = election->refused;
    int trouble = election->trouble;
    char leader[TENURE_HOLDER_MAX + 1];
    memcpy(leader, election->leader, sizeof leader);
    ten_error error = election->task.error;
    ten_carrier_unlock(election->carrier);
    if (tenure_election_leads(election))
        return TENURE_OK;
    if (r == TENURE_E_CANCELLED)
        return ten_last_error_say(election, r, "waiting to lead %s was cancelled", election->role);
    if (refused)
        return ten_last_error_say(election, refused, "%s cannot lead %s: %s", election->core.config.instance,
                                  election->role, error.code == refused ? error.message : tenure_strerror(refused));
    if (trouble && trouble != TENURE_E_HELD)
        return ten_last_error_say(election, trouble, "it is not known who leads %s: %s", election->role,
                                  trouble == TENURE_E_UNREACHABLE ? "the store is out of reach, or recovering"
                                                                  : tenure_strerror(trouble));
    if (leader[0] == '\0')
        return ten_last_error_say(election, TENURE_E_TIMEOUT,
                                  "%s does not lead %s yet, and no other leader is known; the campaign goes on",
                                  election->core.config.instance, election->role);
    return ten_last_error_say(election, TENURE_E_HELD, "%s is led by %s", election->role, leader);
}

int tenure_election_slot(const tenure_election *election) {
    bool leads = tenure_election_leads(election);
    return leads ? (int)TEN_TERM_SLOT(atomic_load_explicit(&election->belief->token, memory_order_acquire)) : -1;
}

void ten_candidate_tokens(tenure_election *election, ten_buf *text) {
    ten_carrier_lock(election->carrier);
    const ten_election_slot *slots = election->core.config.slots;
    for (uint32_t i = 0; i < election->core.config.slot_count && has_all(election); i++)
        ten_buf_format(text, "%s%s=%llu", i ? " " : "", slots[i].target, (unsigned long long)slots[i].holding.token);
    ten_carrier_unlock(election->carrier);
}

int tenure_election_resign(tenure_election *election) {
    int r = ten_object_check(election, TEN_OBJECT_ELECTION);
    if (r == TENURE_OK)
        ten_candidate_end_term(election, TEN_REASON_RESIGNED, election->core.config.timing.ttl_ms);
    return r;
}

void ten_candidate_end_term(tenure_election *election, enum ten_reason reason, uint64_t pause_ms) {
    ten_carrier_lock(election->carrier);
    if (pause_ms == UINT64_MAX)
        ten_election_withdraw(&election->core, reason);
    else
        ten_election_resign(&election->core, reason, pause_ms);
    publish(election);
    ten_carrier_unlock(election->carrier);
}

void ten_candidate_set_fit(tenure_election *election, bool is_fit) {
    ten_carrier_lock(election->carrier);
    ten_election_set_fit(&election->core, is_fit, now_ms(election));
    publish(election);
    ten_carrier_unlock(election->carrier);
}

void ten_candidate_keep_nothing(tenure_election *election) {
    ten_carrier_lock(election->carrier);
    ten_election_keep_nothing(&election->core);
    ten_carrier_unlock(election->carrier);
}

void ten_candidate_work_over(tenure_election *election) {
    ten_carrier_lock(election->carrier);
    ten_election_stopped(&election->core);
    election->told_to_stop = false;
    ten_carrier_unlock(election->carrier);
}

int tenure_election_work_over(tenure_election *election) {
    int r = ten_object_check(election, TEN_OBJECT_ELECTION);
    if (r < 0)
        return r;
    ten_carrier_lock(election->carrier);
    bool told = election->told_to_stop;
    ten_carrier_unlock(election->carrier);
    if (!told)
        return ten_last_error_say(election, TENURE_E_INVALID,
                                  "the term of %s has not ended: tenure_election_work_over() follows on_demoted",
                                  election->role);
    ten_candidate_work_over(election);
    return TENURE_OK;
}

int tenure_election_run(tenure_context *context, const char *role, const tenure_election_options *options,
                        uint64_t wait_ms, int (*fn)(tenure_election *election, void *arg), void *arg) {
    tenure_election *election = NULL;
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && !fn)
        r = ten_last_error_say(context, TENURE_E_INVALID, "no function was given");
    if (r == TENURE_OK)
        r = tenure_election_open(context, role, options, &election);
    if (r < 0)
        return r;
    /* Without a wait, too, the store is given the time to answer once. */
    r = tenure_election_wait(election, ten_max_u64(wait_ms, election->core.config.timing.timeout_ms));
    ten_carrier_lock(election->carrier);
    uint64_t token = r == TENURE_OK ? tenure_election_token(election) : 0;
    election->works_elsewhere = token != 0;
    election->told_to_stop = false;
    ten_carrier_unlock(election->carrier);
    ten_object_use use;
    ten_object_use_begin(&use, election);
    if (token != 0)
        r = fn(election, arg);
    else if (r == TENURE_OK)
        r = ten_last_error_say(context, TENURE_E_LOST, "the leadership of %s was lost before the work could begin",
                               role);
    ten_object_use_end(&use);
    ten_carrier_lock(election->carrier);
    /* Still the same lease, also when it is about to be given up: no other instance has led meanwhile. */
    const ten_election_slot *slot = ten_election_slot_at(&election->core);
    bool lost = token != 0 && !(now_ms(election) < ten_election_deadline_ms(&election->core) &&
                                slot->holding.token == token && !slot->barred);
    election->works_elsewhere = false;
    if (election->told_to_stop)
        ten_election_stopped(&election->core);
    ten_carrier_unlock(election->carrier);
    ten_error error = {.code = r};
    snprintf(error.message, sizeof error.message, "%s", tenure_message(election));
    tenure_election_close(election);
    if (lost)
        return ten_last_error_say(context, TENURE_E_LOST, "the leadership of %s was lost before the work was done",
                                  role);
    return r < 0 && token == 0 ? ten_last_error_set(context, &error) : r;
}
