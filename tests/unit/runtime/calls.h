/*
 * Every function of the C API that takes a handle and can fail, called with one that cannot be used. What a call
 * returned is checked by a function of the test. For the misuse tests.
 */
#ifndef TEN_TESTS_CALLS_H
#define TEN_TESTS_CALLS_H

#include "unit/unit.h"

#include <tenure.h>

struct calls {
    void (*check)(const struct calls *calls, const char *call, int r);
    void *arg;
    int error;        /* what each call is to return */
    const char *word; /* a word of its message */
};

/* The call is refused. */
#define CALL(call) calls->check(calls, #call, (call))
/* The call was refused before it did something. */
#define UNTOUCHED(condition) calls->check(calls, #condition, (condition) ? calls->error : TENURE_OK)

static inline int no_info(const tenure_info *info, void *userdata) {
    (void)info;
    (void)userdata;
    return 1;
}

static inline int no_instance(const tenure_instance *instance, void *userdata) {
    (void)instance;
    (void)userdata;
    return 1;
}

static inline int no_target(const tenure_target *target, void *userdata) {
    (void)target;
    (void)userdata;
    return 1;
}

static inline int no_change(const tenure_change *change, void *userdata) {
    (void)change;
    (void)userdata;
    return 1;
}

static inline int no_name(const char *name, void *userdata) {
    (void)name;
    (void)userdata;
    return 1;
}

static inline int no_leader(const tenure_leader *leader, void *userdata) {
    (void)leader;
    (void)userdata;
    return 1;
}

static inline int no_work(tenure_election *election, void *arg) {
    (void)election;
    (void)arg;
    return 1;
}

static inline void no_check(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                            void *userdata) {
    (void)level;
    (void)check;
    (void)found;
    (void)advice;
    (void)userdata;
}

/* ---- a context */

static inline void call_leases(const struct calls *calls, tenure_context *context) {
    const char *const targets[] = {"x", "y"};
    tenure_lease *lease = NULL;
    bool released = true;
    CALL(tenure_acquire(context, "x", 0, 0, &lease));
    CALL(tenure_acquire(context, "x", UINT64_MAX, 0, &lease));
    CALL(tenure_acquire(context, "x", 0, TENURE_MANUAL, &lease));
    CALL(tenure_acquire_any(context, targets, 2, 0, 0, &lease));
    CALL(tenure_token_renew(context, "x", 1, 0));
    CALL(tenure_token_release(context, "x", 1, &released));
    CALL(tenure_force_release(context, "x", NULL, TENURE_NOW, &released));
    UNTOUCHED(!lease && released);
}

static inline void call_reads(const struct calls *calls, tenure_context *context) {
    tenure_info info = {.size = sizeof info};
    tenure_target target = {.size = sizeof target, .id = "t"};
    tenure_leader leader = {.size = sizeof leader};
    uint64_t number = 77;
    CALL(tenure_target_forget(context, "x"));
    CALL(tenure_target_forget_unregistered(context, NULL));
    CALL(tenure_target_read(context, "x", &info));
    CALL(tenure_target_list(context, TENURE_ALL, no_info, NULL));
    CALL(tenure_instance_list(context, no_instance, NULL));
    CALL(tenure_namespace_list(context, no_name, NULL));
    CALL(tenure_instance_drain(context, "i"));
    CALL(tenure_instance_undrain(context, "i"));
    CALL(tenure_registry_put(context, &target, 1, NULL));
    CALL(tenure_registry_remove(context, "t"));
    CALL(tenure_registry_pause(context, "t"));
    CALL(tenure_registry_resume(context, "t"));
    CALL(tenure_registry_list(context, no_target, NULL));
    CALL(tenure_watch_start(context, &number));
    CALL(tenure_watch_wait(context, &number, UINT64_MAX, no_change, NULL));
    CALL(tenure_history_read(context, NULL, 0, 10, no_change, NULL));
    CALL(tenure_leader_read(context, NULL, "web", &leader));
    CALL(tenure_leader_observe(context, NULL, "web", no_leader, NULL));
    CALL(tenure_leader_resign(context, NULL, "web", "i"));
    CALL(tenure_store_ping(context, &number));
    CALL(tenure_store_check(context, no_check, NULL));
    UNTOUCHED(number == 77);
}

static inline void call_openings(const struct calls *calls, tenure_context *context) {
    tenure_member *member = NULL;
    tenure_election *election = NULL;
    tenure_guard *guard = NULL;
    CALL(tenure_member_open(context, NULL, &member));
    CALL(tenure_election_open(context, "db", NULL, &election));
    CALL(tenure_election_run(context, "db", NULL, UINT64_MAX, no_work, NULL));
    CALL(tenure_guard_open(context, NULL, &guard));
    UNTOUCHED(!member && !election && !guard);
}

/* What needs the store or waits: these are refused in a callback, too. */
static inline void call_context_waiting(const struct calls *calls, tenure_context *context) {
    call_leases(calls, context);
    call_reads(calls, context);
    call_openings(calls, context);
    CALL(tenure_process(context));
}

static inline void call_context(const struct calls *calls, tenure_context *context) {
    tenure_event event = {.size = sizeof event};
    tenure_lease *lease = NULL;
    call_context_waiting(calls, context);
    CALL(tenure_next_event(context, UINT64_MAX, &event));
    CALL(tenure_fd(context));
    CALL(tenure_acquire(context, "x", UINT64_MAX, TENURE_ASYNC, &lease));
    UNTOUCHED(!lease);
}

/* ---- what is opened on it */

static inline void call_lease_waiting(const struct calls *calls, tenure_lease *lease) {
    CALL(tenure_lease_wait(lease, UINT64_MAX));
    CALL(tenure_renew(lease));
    CALL(tenure_release(lease));
}

static inline void call_lease(const struct calls *calls, tenure_lease *lease) {
    call_lease_waiting(calls, lease);
    CALL(tenure_lease_on_lost(lease, NULL, NULL));
}

static inline void call_member_waiting(const struct calls *calls, tenure_member *member) {
    CALL(tenure_member_stop(member, UINT64_MAX));
    CALL(tenure_member_acquire(member, "t"));
    CALL(tenure_member_confirm(member, "t"));
}

static inline void call_member(const struct calls *calls, tenure_member *member) {
    tenure_handle handle = {0};
    tenure_member_info info = {.size = sizeof info};
    tenure_event event = {.size = sizeof event};
    uint64_t token = 77;
    call_member_waiting(calls, member);
    CALL(tenure_member_put(member, "t", 0));
    CALL(tenure_member_remove(member, "t"));
    CALL(tenure_member_release(member, "t"));
    CALL(tenure_member_handle(member, "t", &handle));
    CALL(tenure_member_begin(member, "t", &token));
    CALL(tenure_member_end(member, "t"));
    CALL(tenure_member_read(member, "t", &info));
    CALL(tenure_member_list_held(member, no_name, NULL));
    CALL(tenure_member_list_instances(member, no_name, NULL));
    CALL(tenure_member_set_weight(member, 1));
    CALL(tenure_member_next_event(member, UINT64_MAX, &event));
    UNTOUCHED(!tenure_member_is_held(member, "t"));
    UNTOUCHED(!handle.belief && token == 77);
}

static inline void call_election(const struct calls *calls, tenure_election *election) {
    CALL(tenure_election_wait(election, UINT64_MAX));
    CALL(tenure_election_resign(election));
    CALL(tenure_election_work_over(election));
}

static inline void call_guard(const struct calls *calls, tenure_guard *guard) {
    tenure_guard_item item = {.target = "x", .token = 1, .verdict = 77};
    tenure_guard_totals totals = {.size = sizeof totals};
    CALL(tenure_guard_check(guard, "x", 1));
    CALL(tenure_guard_check_many(guard, &item, 1, sizeof item));
    CALL(tenure_guard_read(guard, &totals));
}

#endif
