/*
 * What a program does inside callbacks: from on_event, on_lost, on_elected and on_demoted, calls that need the store or
 * close a handle are refused and do nothing, and the others work; `each` may call everything, but not close what is
 * being listed. In the threaded and in the driven form.
 */
#include <poll.h>

#include "base/io.h"
#include "unit/runtime/calls.h"
#include "unit/runtime/handles.h"

/* What was found inside a callback. cmocka's asserts cannot be used there: it is another thread. */
struct verdict {
    atomic_uint calls; /* of the probe */
    atomic_uint faults;
    char text[2048];
};

struct fixture {
    tenure_context *context;
    tenure_context *other; /* on the same store, to force with */
    tenure_lease *lease;
    tenure_lease *to_drop;
    tenure_lease *to_free;
    tenure_lease *async; /* acquired inside a callback */
    tenure_member *member;
    tenure_election *election;
    tenure_guard *guard;
    tenure_handle handle;
    struct verdict verdict;
    atomic_bool armed; /* the next callback of the kind that is wanted probes */
    enum probe_at { AT_NOTHING, AT_EVENT, AT_MEMBER_EVENT, AT_ELECTION_EVENT, AT_LOST, AT_ELECTED, AT_DEMOTED } at;
    atomic_uint lost;
    unsigned flags;
};

static void note_fault(struct fixture *fixture, const char *call, int r) {
    struct verdict *verdict = &fixture->verdict;
    size_t length = strlen(verdict->text);
    snprintf(verdict->text + length, sizeof verdict->text - length, "%s: %s (%s)\n", call, tenure_error_name(r),
             tenure_message(NULL));
    atomic_fetch_add(&verdict->faults, 1);
}

static void expect(struct fixture *fixture, const char *call, int r, int expected) {
    if (r != expected || (r < 0 && tenure_message(NULL)[0] == '\0'))
        note_fault(fixture, call, r);
}

#define EXPECT(call, expected) expect(fixture, #call, (call), expected)
#define REFUSED(call)          EXPECT(call, TENURE_E_CALLBACK)
#define HOLDS(condition)       expect(fixture, #condition, (condition) ? TENURE_OK : 1, TENURE_OK)

static int count_name(const char *name, void *userdata) {
    (void)name;
    ++*(unsigned *)userdata;
    return 0;
}

/* ---- the probe, which runs inside a callback */

static void check_refused(const struct calls *calls, const char *call, int r) {
    expect(calls->arg, call, r, TENURE_E_CALLBACK);
}

static void probe_what_waits(struct fixture *fixture) {
    const struct calls calls = {.check = check_refused, .arg = fixture, .error = TENURE_E_CALLBACK};
    call_context_waiting(&calls, fixture->context);
    call_lease_waiting(&calls, fixture->lease);
    call_member_waiting(&calls, fixture->member);
    REFUSED(tenure_election_wait(fixture->election, UINT64_MAX));
    REFUSED(tenure_guard_check(fixture->guard, "never-seen", 1));
    HOLDS(fixture->at == AT_LOST || tenure_lease_valid(fixture->lease));
}

/* They do nothing: what was to be closed is used afterwards. */
static void probe_closes(struct fixture *fixture) {
    REFUSED(tenure_close(fixture->context));
    tenure_member_close(fixture->member);
    HOLDS(strcasestr(tenure_message(NULL), "member"));
    tenure_election_close(fixture->election);
    HOLDS(strcasestr(tenure_message(NULL), "election"));
    tenure_guard_close(fixture->guard);
    HOLDS(strcasestr(tenure_message(NULL), "guard"));
}

static void probe_local_calls(struct fixture *fixture) {
    tenure_member_info info = {.size = sizeof info};
    tenure_handle handle;
    uint64_t token = 0;
    unsigned names = 0;
    HOLDS(tenure_lease_token(fixture->lease) == 1);
    HOLDS(fixture->at == AT_LOST || tenure_lease_remaining_ms(fixture->lease) > 0);
    HOLDS(strcmp(tenure_lease_target(fixture->lease), "x") == 0);
    HOLDS(tenure_instance_id(fixture->context)[0] != '\0');
    HOLDS(fixture->at == AT_ELECTED || fixture->at == AT_DEMOTED || fixture->at == AT_ELECTION_EVENT ||
          tenure_election_leads(fixture->election));
    HOLDS(tenure_member_is_held(fixture->member, "held"));
    HOLDS(tenure_handle_is_held(fixture->handle));
    EXPECT(tenure_member_handle(fixture->member, "held", &handle), TENURE_OK);
    EXPECT(tenure_member_read(fixture->member, "held", &info), TENURE_OK);
    EXPECT(tenure_member_begin(fixture->member, "held", &token), TENURE_OK);
    EXPECT(tenure_member_end(fixture->member, "held"), TENURE_OK);
    EXPECT(tenure_member_list_held(fixture->member, count_name, &names), TENURE_OK);
    EXPECT(tenure_member_list_instances(fixture->member, count_name, &names), TENURE_OK);
    HOLDS(names >= 2);
    HOLDS(token == 1);
}

static void probe_what_waits_for_nothing(struct fixture *fixture) {
    EXPECT(tenure_acquire(fixture->context, "async", 0, TENURE_ASYNC, &fixture->async), TENURE_OK);
    if (fixture->async) {
        HOLDS(!tenure_lease_valid(fixture->async));
        REFUSED(tenure_lease_wait(fixture->async, UINT64_MAX));
    }
    tenure_lease_drop(fixture->to_drop);
    tenure_lease_free(fixture->to_free);
}

static void probe(struct fixture *fixture, enum probe_at at) {
    if (fixture->at != at || !atomic_exchange(&fixture->armed, false))
        return;
    probe_what_waits(fixture);
    probe_closes(fixture);
    probe_local_calls(fixture);
    probe_what_waits_for_nothing(fixture);
    atomic_fetch_add(&fixture->verdict.calls, 1);
}

static void on_event(const tenure_event *event, void *userdata) {
    (void)event;
    probe(userdata, AT_EVENT);
}

static void on_member_event(const tenure_event *event, void *userdata) {
    (void)event;
    probe(userdata, AT_MEMBER_EVENT);
}

static void on_election_event(const tenure_event *event, void *userdata) {
    (void)event;
    probe(userdata, AT_ELECTION_EVENT);
}

static void on_elected(tenure_election *election, uint64_t token, void *userdata) {
    (void)election;
    (void)token;
    probe(userdata, AT_ELECTED);
}

static void on_demoted(tenure_election *election, uint64_t token, const char *reason, void *userdata) {
    (void)election;
    (void)token;
    (void)reason;
    probe(userdata, AT_DEMOTED);
}

static void on_lost(tenure_lease *lease, const char *reason, void *userdata) {
    struct fixture *fixture = userdata;
    (void)lease;
    (void)reason;
    probe(fixture, AT_LOST);
    atomic_fetch_add(&fixture->lost, 1);
}

/* ---- the fixture */

static void drive(const struct fixture *fixture) {
    if (!(fixture->flags & TENURE_DRIVEN)) {
        ten_sleep_us(1000);
        return;
    }
    int timeout_ms = tenure_timeout_ms(fixture->context);
    struct pollfd poll_fd = {.fd = tenure_fd(fixture->context), .events = POLLIN};
    (void)poll(&poll_fd, 1, timeout_ms < 0 || timeout_ms > 10 ? 10 : timeout_ms);
    assert_int_equal(tenure_process(fixture->context), TENURE_OK);
}

#define AWAIT(fixture, condition)                                                                                      \
    do {                                                                                                               \
        uint64_t await_start_us = ten_boot_us();                                                                       \
        while (!(condition) && elapsed_ms(await_start_us) < HANG_MS)                                                   \
            drive(fixture);                                                                                            \
        assert_true(condition);                                                                                        \
    } while (0)

static void fixture_open(struct fixture *fixture, enum probe_at at, unsigned flags) {
    *fixture = (struct fixture){.at = at, .flags = flags};
    tenure_options options = {.size = sizeof options, .flags = flags, .on_event = on_event, .userdata = fixture};
    tenure_member_options fleet = {
        .size = sizeof fleet, .namespace_name = "fleet", .on_event = on_member_event, .userdata = fixture};
    tenure_election_options campaign = {.size = sizeof campaign,
                                        .on_elected = on_elected,
                                        .on_demoted = on_demoted,
                                        .on_event = on_election_event,
                                        .userdata = fixture};
    assert_int_equal(tenure_open("memory:unit-callback", &options, &fixture->context), TENURE_OK);
    assert_int_equal(tenure_open("memory:unit-callback", NULL, &fixture->other), TENURE_OK);
    fixture->lease = acquire(fixture->context, "x", 0);
    fixture->to_drop = acquire(fixture->context, "to-drop", 0);
    fixture->to_free = acquire(fixture->context, "to-free", 0);
    assert_int_equal(tenure_guard_open(fixture->context, NULL, &fixture->guard), TENURE_OK);
    assert_int_equal(tenure_member_open(fixture->context, &fleet, &fixture->member), TENURE_OK);
    assert_int_equal(tenure_member_acquire(fixture->member, "held"), TENURE_OK);
    assert_int_equal(tenure_member_handle(fixture->member, "held", &fixture->handle), TENURE_OK);
    assert_int_equal(tenure_election_open(fixture->context, "web", &campaign, &fixture->election), TENURE_OK);
    assert_int_equal(tenure_election_wait(fixture->election, HANG_MS), TENURE_OK);
}

static void force(struct fixture *fixture, const char *target) {
    bool released = false;
    assert_int_equal(tenure_force_release(fixture->other, target, NULL, TENURE_NOW, &released), TENURE_OK);
    assert_true(released);
}

static void assert_probed(struct fixture *fixture) {
    AWAIT(fixture, atomic_load(&fixture->verdict.calls) == 1);
    if (atomic_load(&fixture->verdict.faults))
        fail_msg("%u calls did not do as they should:\n%s", atomic_load(&fixture->verdict.faults),
                 fixture->verdict.text);
}

/* The refused closes have closed nothing, and what was begun in the callback goes on. */
static void assert_all_works(struct fixture *fixture) {
    tenure_info info = {.size = sizeof info};
    assert_int_equal(tenure_lease_wait(fixture->async, HANG_MS), TENURE_OK);
    assert_true(tenure_lease_valid(fixture->async));
    /* The dropped one becomes free; the freed one stays held until its TTL ends. */
    AWAIT(fixture, tenure_target_read(fixture->other, "to-drop", &info) == TENURE_OK && info.holder[0] == '\0');
    assert_int_equal(tenure_target_read(fixture->other, "to-free", &info), TENURE_OK);
    assert_string_equal(info.holder, tenure_instance_id(fixture->context));
    assert_int_equal(tenure_guard_check(fixture->guard, "async", tenure_lease_token(fixture->async)), TENURE_OK);
    assert_int_equal(tenure_member_confirm(fixture->member, "held"), TENURE_OK);
    assert_true(tenure_handle_is_held(fixture->handle));
    if (fixture->at != AT_DEMOTED)
        assert_int_equal(tenure_election_wait(fixture->election, HANG_MS), TENURE_OK);
}

static void fixture_close(struct fixture *fixture) {
    tenure_lease_free(fixture->async);
    tenure_lease_free(fixture->lease);
    tenure_guard_close(fixture->guard);
    tenure_election_close(fixture->election);
    tenure_member_close(fixture->member);
    assert_int_equal(tenure_close(fixture->context), TENURE_OK);
    assert_int_equal(tenure_close(fixture->other), TENURE_OK);
}

/* ---- from each callback */

static void cause_an_event(struct fixture *fixture) {
    atomic_store(&fixture->armed, true);
    tenure_lease_free(acquire(fixture->context, "y", 0));
}

static void cause_a_member_event(struct fixture *fixture) {
    atomic_store(&fixture->armed, true);
    assert_int_equal(tenure_member_acquire(fixture->member, "more"), TENURE_OK);
}

static void cause_a_loss(struct fixture *fixture) {
    assert_int_equal(tenure_lease_on_lost(fixture->lease, on_lost, fixture), TENURE_OK);
    atomic_store(&fixture->armed, true);
    force(fixture, "x");
}

/* Somebody resigns and is elected again after one TTL: too long. It is opened again instead. */
static void cause_an_election(struct fixture *fixture) {
    tenure_election_options campaign = {.size = sizeof campaign,
                                        .on_elected = on_elected,
                                        .on_demoted = on_demoted,
                                        .on_event = on_election_event,
                                        .userdata = fixture};
    tenure_election_close(fixture->election);
    /* Held by another, so that it is elected only when its handle is known. */
    tenure_options options = {.size = sizeof options, .namespace_name = "leader"};
    tenure_context *leader = NULL;
    assert_int_equal(tenure_open("memory:unit-callback", &options, &leader), TENURE_OK);
    tenure_lease *role = acquire(leader, "web", 0);
    assert_int_equal(tenure_election_open(fixture->context, "web", &campaign, &fixture->election), TENURE_OK);
    atomic_store(&fixture->armed, true);
    assert_int_equal(tenure_release(role), TENURE_OK);
    tenure_lease_free(role);
    AWAIT(fixture, tenure_election_leads(fixture->election));
    assert_int_equal(tenure_close(leader), TENURE_OK);
}

static void cause_a_demotion(struct fixture *fixture) {
    atomic_store(&fixture->armed, true);
    assert_int_equal(tenure_election_resign(fixture->election), TENURE_OK);
}

TEST(from_every_callback_what_needs_the_store_is_refused_and_the_rest_works) {
    static const struct {
        enum probe_at at;
        void (*cause)(struct fixture *fixture);
    } rows[] = {{AT_EVENT, cause_an_event},     {AT_MEMBER_EVENT, cause_a_member_event},
                {AT_LOST, cause_a_loss},        {AT_ELECTED, cause_an_election},
                {AT_DEMOTED, cause_a_demotion}, {AT_ELECTION_EVENT, cause_an_election}};
    static const unsigned forms[] = {0, TENURE_DRIVEN};
    for (size_t i = 0; i < TEN_COUNT(rows) * TEN_COUNT(forms); i++) {
        struct fixture fixture;
        fixture_open(&fixture, rows[i / 2].at, forms[i % 2]);
        rows[i / 2].cause(&fixture);
        assert_probed(&fixture);
        assert_all_works(&fixture);
        fixture_close(&fixture);
    }
}

/* ---- the lease that was lost */

static void free_lost(tenure_lease *lease, const char *reason, void *userdata) {
    struct fixture *fixture = userdata;
    /* The feed may not have been followed yet when it was forced. */
    bool known = strcmp(reason, "forced") == 0 || strcmp(reason, "store") == 0;
    expect(fixture, "the reason", known ? TENURE_OK : 1, TENURE_OK);
    expect(fixture, "lease_valid", tenure_lease_valid(lease) ? 1 : TENURE_OK, TENURE_OK);
    tenure_lease_free(lease);
    atomic_fetch_add(&fixture->lost, 1);
}

TEST(a_lost_lease_can_be_freed_where_its_loss_is_told) {
    for (unsigned form = 0; form < 2; form++) {
        struct fixture fixture;
        fixture_open(&fixture, AT_NOTHING, form ? TENURE_DRIVEN : 0);
        tenure_lease *lease = acquire(fixture.context, "lost", 0);
        assert_int_equal(tenure_lease_on_lost(lease, free_lost, &fixture), TENURE_OK);
        force(&fixture, "lost");
        AWAIT(&fixture, atomic_load(&fixture.lost) == 1);
        assert_int_equal(atomic_load(&fixture.verdict.faults), 0);
        assert_int_equal(tenure_renew(lease), TENURE_E_CLOSED);
        tenure_lease_free(fixture.to_drop);
        tenure_lease_free(fixture.to_free);
        fixture_close(&fixture);
    }
}

/* ---- each */

/* What a listing's function does: it uses everything, on a namespace that grows meanwhile, and closes nothing that is
 * still in use. */
struct lister {
    tenure_context *context; /* which is being listed */
    tenure_context *user;    /* of another namespace of the store */
    tenure_member *member;
    unsigned count;
};

static int use_and_close(struct lister *lister) {
    char target[32];
    tenure_lease *lease = NULL;
    tenure_info info = {.size = sizeof info};
    unsigned names = 0;
    snprintf(target, sizeof target, "each-%u", ++lister->count);
    assert_int_equal(tenure_acquire(lister->user, target, 1000, 0, &lease), TENURE_OK);
    assert_int_equal(tenure_renew(lease), TENURE_OK);
    assert_int_equal(tenure_target_read(lister->user, target, &info), TENURE_OK);
    assert_int_equal(tenure_target_list(lister->user, TENURE_ALL, no_info, NULL), 1);
    assert_int_equal(tenure_release(lease), TENURE_OK);
    tenure_lease_free(lease);
    if (lister->member) {
        assert_int_equal(tenure_member_acquire(lister->member, target), TENURE_OK);
        assert_int_equal(tenure_member_list_held(lister->member, count_name, &names), TENURE_OK);
        assert_true(names > 0);
    }
    assert_int_equal(tenure_close(lister->context), TENURE_E_CALLBACK);
    assert_contains(tenure_message(lister->context), "context cannot be closed here");
    return 7; /* a listing of what grows meanwhile has to end */
}

#define USE_AT(name, type)                                                                                             \
    static int use_at_##name(const type *seen, void *userdata) {                                                       \
        assert_int_equal(seen->size, sizeof *seen);                                                                    \
        return use_and_close(userdata);                                                                                \
    }
USE_AT(info, tenure_info)
USE_AT(target, tenure_target)
USE_AT(instance, tenure_instance)
USE_AT(change, tenure_change)
USE_AT(leader, tenure_leader)

static int use_at_name(const char *name, void *userdata) {
    struct lister *lister = userdata;
    assert_true(name[0] != '\0');
    tenure_member_close(lister->member);
    assert_contains(tenure_message(lister->member), "fleet member cannot be closed here");
    return use_and_close(lister);
}

static int use_at_work(tenure_election *election, void *userdata) {
    tenure_election_close(election);
    assert_contains(tenure_message(election), "election cannot be closed here");
    assert_true(tenure_election_leads(election));
    return use_and_close(userdata);
}

TEST(each_may_call_everything_and_close_nothing_that_the_call_still_uses) {
    tenure_options listed = {.size = sizeof listed, .namespace_name = "fleet"};
    tenure_options used = {.size = sizeof used, .namespace_name = "leases"};
    tenure_target target = {.size = sizeof target, .id = "a"};
    struct lister lister = {0};
    uint64_t cursor;
    assert_int_equal(tenure_open("memory:unit-each", &listed, &lister.context), TENURE_OK);
    assert_int_equal(tenure_open("memory:unit-each", &used, &lister.user), TENURE_OK);
    tenure_context *context = lister.context;
    assert_int_equal(tenure_watch_start(context, &cursor), TENURE_OK);
    assert_int_equal(tenure_registry_put(context, &target, 1, NULL), TENURE_OK);
    assert_int_equal(tenure_target_list(context, TENURE_ALL, use_at_info, &lister), 7);
    assert_int_equal(tenure_registry_list(context, use_at_target, &lister), 7);
    assert_int_equal(tenure_watch_wait(context, &cursor, 0, use_at_change, &lister), 7);
    assert_int_equal(tenure_leader_observe(context, NULL, "web", use_at_leader, &lister), 7);
    assert_int_equal(tenure_election_run(context, "web", NULL, HANG_MS, use_at_work, &lister), 7);
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "fleet"};
    assert_int_equal(tenure_member_open(context, &fleet, &lister.member), TENURE_OK);
    assert_int_equal(tenure_member_acquire(lister.member, "m"), TENURE_OK); /* it is announced by then */
    assert_int_equal(tenure_history_read(context, NULL, 0, 100, use_at_change, &lister), 7);
    assert_int_equal(tenure_instance_list(context, use_at_instance, &lister), 7);
    assert_int_equal(tenure_member_list_held(lister.member, use_at_name, &lister), 7);
    assert_int_equal(tenure_member_list_instances(lister.member, use_at_name, &lister), 7);
    assert_int_equal(lister.count, 9);
    tenure_member_close(lister.member);
    assert_int_equal(tenure_close(lister.user), TENURE_OK);
    assert_int_equal(tenure_close(context), TENURE_OK); /* nothing is in its way any more */
}

/* Another context is none of that call's business. */
static int close_another(const tenure_info *info, void *userdata) {
    (void)info;
    assert_int_equal(tenure_close(userdata), TENURE_OK);
    return 7;
}

TEST(another_context_can_be_closed_anywhere) {
    tenure_context *context = NULL;
    tenure_context *other = NULL;
    tenure_target target = {.size = sizeof target, .id = "a"};
    assert_int_equal(tenure_open("memory:unit-close", NULL, &context), TENURE_OK);
    assert_int_equal(tenure_open("memory:unit-close", NULL, &other), TENURE_OK);
    assert_int_equal(tenure_registry_put(context, &target, 1, NULL), TENURE_OK);
    assert_int_equal(tenure_target_list(context, TENURE_ALL, close_another, other), 7);
    assert_int_equal(tenure_close(context), TENURE_OK);
}
