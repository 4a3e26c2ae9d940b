/*
 * The fleet member of the C API: one instance of a fleet. It keeps the fleet (src/core/fleet.h) under the lock of its
 * carrier, which drives it. Here is its life; see member_state.h for its other files.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"
#include "base/random.h"
#include "runtime/member_state.h"

#define BELIEFS_MAX (UINT32_C(4) << 20) /* targets of one fleet member; address space only until they are used */
#define SETTLE_MS   2000u
#define BATCH_MAX   1000u
#define PAGE_SIZE   1000u
#define FEED_SIZE   1000u
#define FEED_PART   480u /* an eighth of a rank delay: nobody has to hear of a change sooner */

const char *tenure_member_message(const tenure_member *member) {
    return ten_last_error_message(member);
}

/* ---- opening */

#define OPTION(options, field)                                                                                         \
    ((options) && (options)->size >= offsetof(tenure_member_options, field) + sizeof((options)->field)                 \
         ? (options)->field                                                                                            \
         : 0)

static void make_driver(tenure_member *member) {
    ten_driver_config config = {.part = &ten_fleet_part,
                                .self = member->fleet,
                                .events = &member->carrier.events,
                                .seed = ten_random_u64(),
                                .backoff_max_ms = member->timing.renew_ms / 4,
                                .feed_gap_ms = ten_max_u64(member->timing.ttl_ms / FEED_PART, 1),
                                .feed_size = FEED_SIZE,
                                .page_size = PAGE_SIZE,
                                .registrations = member->targets_from_store};
    ten_driver_init(&member->carrier.driver, &config, ten_member_now_ms(member));
}

static int make_fleet(tenure_member *member, const tenure_member_options *options, ten_error *error) {
    uint32_t weight = OPTION(options, weight);
    uint64_t settle_ms = OPTION(options, settle_ms);
    if (member->extras.beliefs)
        member->beliefs = member->extras.beliefs;
    else if (ten_beliefs_make(&member->own_beliefs, BELIEFS_MAX))
        member->beliefs = &member->own_beliefs;
    else
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot reserve memory for the targets");
    ten_fleet_config config = {.namespace_name = member->namespace_name,
                               .instance = member->instance,
                               .timing = member->timing,
                               .settle_ms = settle_ms ? settle_ms : SETTLE_MS,
                               .weight = weight ? weight : 1,
                               .seed = ten_random_u64(),
                               .metadata = "{\"version\":\"" TENURE_VERSION "\"}",
                               .batch_max = BATCH_MAX,
                               .registry = member->targets_from_store,
                               .events = &member->carrier.events,
                               .changed = ten_member_publish,
                               .userdata = member};
    member->fleet = ten_fleet_new(&config, ten_member_now_ms(member));
    if (!member->fleet)
        return ten_fail_memory(error, "a fleet member");
    make_driver(member);
    return ten_carrier_reserve(&member->carrier, BATCH_MAX + 2, error);
}

static int configure(tenure_member *member, const char *url, const tenure_member_options *options, ten_error *error) {
    const char *namespace_name = OPTION(options, namespace_name);
    member->timing = (ten_timing){.ttl_ms = OPTION(options, ttl_ms),
                                  .renew_ms = OPTION(options, renew_ms),
                                  .margin_ms = OPTION(options, margin_ms),
                                  .timeout_ms = OPTION(options, timeout_ms)};
    bool own_timeout = member->timing.timeout_ms != 0;
    ten_timing_defaults(&member->timing);
    member->targets_from_store = OPTION(options, targets_from_store);
    member->on_event = OPTION(options, on_event);
    member->userdata = OPTION(options, userdata);
    int r = ten_id_check_namespace(namespace_name ? namespace_name : "poll", error);
    if (r == TENURE_OK)
        r = ten_id_make_instance(OPTION(options, instance_name), member->instance, error);
    if (r == TENURE_OK)
        r = ten_timing_check(&member->timing, TENURE_TTL_MIN_MS, NULL, error);
    if (r < 0)
        return r;
    snprintf(member->namespace_name, sizeof member->namespace_name, "%s", namespace_name ? namespace_name : "poll");
    ten_carrier *carrier = &member->carrier;
    ten_store_config config = {.clock = carrier->clock, .timeout_ms = member->timing.timeout_ms};
    r = ten_store_open(url, &config, &carrier->store, error);
    if (r < 0)
        return r;
    if (!own_timeout && carrier->store->timeout_ms)
        member->timing.timeout_ms = carrier->store->timeout_ms;
    carrier->timeout_ms = member->timing.timeout_ms;
    r = ten_timing_check(&member->timing, carrier->store->capabilities.ttl_min_ms,
                         carrier->store->capabilities.ttl_min_reason, error);
    return r < 0 ? r : make_fleet(member, options, error);
}

static void free_member(tenure_member *member) {
    ten_carrier_free(&member->carrier);
    ten_fleet_free(member->fleet);
    ten_beliefs_free(&member->own_beliefs);
    ten_free(member);
}

int ten_member_open(const char *url, const tenure_member_options *options, const ten_member_extras *extras,
                    tenure_member **ret_member) {
    ten_error error = {0};
    if (options && options->size < sizeof options->size)
        return ten_last_error_say(NULL, TENURE_E_INVALID,
                                  "tenure_member_options.size is not set: it is sizeof(tenure_member_options)");
    tenure_member *member = ten_calloc(1, sizeof *member);
    if (!member)
        return ten_last_error_say(NULL, TENURE_E_NOMEM, "out of memory while opening a fleet member");
    if (extras)
        member->extras = *extras;
    member->carrier.hooks = &ten_member_hooks;
    member->carrier.owner = member;
    member->carrier.namespace_name = member->namespace_name;
    int r = ten_carrier_open(&member->carrier, &ten_system_clock, &error);
    member->carrier.events.seen = ten_member_on_put;
    member->carrier.events.userdata = member;
    if (r == TENURE_OK)
        r = configure(member, url, options, &error);
    member->carrier.events.unbounded = member->on_event != NULL;
    if (r < 0) {
        free_member(member);
        return ten_last_error_set(NULL, &error);
    }
    *ret_member = member;
    return TENURE_OK;
}

int tenure_member_open(const char *url, const tenure_member_options *options, tenure_member **ret_member) {
    return ten_member_open(url, options, NULL, ret_member);
}

int tenure_member_start(tenure_member *member) {
    if (!ten_process_is(member->carrier.process))
        return ten_last_error_say(member, TENURE_E_FORKED, "this fleet member belongs to the parent of this process");
    if (member->carrier.started)
        return ten_last_error_say(member, TENURE_E_INVALID, "the fleet member has been started before");
    int refused = ten_carrier_start(&member->carrier);
    return refused ? ten_last_error_say(member, TENURE_E_SYSTEM, "cannot start the fleet member's thread: %s",
                                        strerrordesc_np(refused))
                   : TENURE_OK;
}

/* ---- waiting; the lock is held */

/* The thread has ended: nobody answers any more. */
static void cancel_questions(tenure_member *member) {
    for (struct ten_question *question = member->questions; question; question = question->next) {
        question->answer = question->answered ? question->answer : TENURE_E_CANCELLED;
        question->answered = true;
    }
    member->stopped = true;
    pthread_cond_broadcast(&member->carrier.changed);
}

int tenure_member_stop(tenure_member *member, uint64_t wait_ms) {
    ten_carrier *carrier = &member->carrier;
    if (!ten_process_is(carrier->process) || !carrier->started)
        return TENURE_OK;
    struct timespec end = ten_monotonic_end(wait_ms);
    ten_member_begin_stop(member);
    ten_member_lock(member);
    int waited = 0;
    while (!member->stopped && waited == 0)
        waited = pthread_cond_timedwait(&carrier->changed, &carrier->lock, &end);
    bool in_time = member->stopped;
    member->quit = true;
    ten_member_unlock(member);
    ten_carrier_join(carrier);
    ten_member_lock(member);
    cancel_questions(member);
    ten_member_unlock(member);
    return in_time ? TENURE_OK
                   : ten_last_error_say(member, TENURE_E_TIMEOUT,
                                        "not everything could be released in time; the rest ends by its TTL");
}

void ten_member_begin_stop(tenure_member *member) {
    ten_member_lock(member);
    ten_fleet_stop(member->fleet, ten_member_now_ms(member));
    ten_member_unlock(member);
    ten_carrier_wake(&member->carrier);
}

void tenure_member_close(tenure_member *member) {
    if (!member)
        return;
    (void)tenure_member_stop(member, 0);
    ten_last_error_forget(member);
    free_member(member);
}

const char *tenure_member_instance_id(const tenure_member *member) {
    return member->instance;
}
