/*
 * The driven form: no thread, and a program that waits for the context's descriptor and time-out in a loop of its own.
 * The clock stands still: it moves on by the time-out when the program would have slept for so long, so that nothing
 * depends on how busy the machine is.
 */
#include "unit/unit.h"

#include <poll.h>

#include "base/io.h"
#include "runtime/context.h"

enum { LEASES = 40, LOOK_MS = 5 };

static struct fake_clock fake;
static ten_clock fake_system;

struct program {
    tenure_context *context;
    atomic_uint acquired;
    atomic_uint failed;
    atomic_uint renewed; /* leases, not batches */
    atomic_uint lost;
    atomic_uint released;
    int error;             /* of the last that failed */
    tenure_lease *granted; /* of the last events */
    tenure_lease *refused;
    tenure_lease *gone;
    char reason[16];
    char lost_target[64];
};

static unsigned count_threads(void) {
    DIR *directory = opendir("/proc/self/task");
    unsigned count = 0;
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void on_event(const tenure_event *event, void *userdata) {
    struct program *program = userdata;
    switch (event->kind) {
    case TENURE_EVENT_ACQUIRED:
        program->granted = event->lease;
        atomic_fetch_add(&program->acquired, 1);
        break;
    case TENURE_EVENT_ACQUIRE_FAILED:
        program->error = event->error;
        program->refused = event->lease;
        atomic_fetch_add(&program->failed, 1);
        break;
    case TENURE_EVENT_RENEWED:
        atomic_fetch_add(&program->renewed, event->target[0] ? 1 : (unsigned)event->count);
        break;
    case TENURE_EVENT_LOST:
        program->gone = event->lease;
        atomic_fetch_add(&program->lost, 1);
        break;
    case TENURE_EVENT_RELEASED:
        atomic_fetch_add(&program->released, 1);
        break;
    default:
        break;
    }
}

static void program_open(struct program *program, const char *url, uint64_t ttl_ms) {
    *program = (struct program){0};
    tenure_options options = {
        .size = sizeof options, .flags = TENURE_DRIVEN, .ttl_ms = ttl_ms, .on_event = on_event, .userdata = program};
    if (ten_context_open(url, &options, &fake_system, &program->context) < 0)
        fail_msg("%s", tenure_message(NULL));
}

/* One turn of the program's loop. A descriptor that is not readable after some real milliseconds will not be: then the
 * program would have slept until the time-out. One that is readable may only say that so much real time has passed. */
static void turn(struct program *program) {
    struct pollfd poll_fd = {.fd = tenure_fd(program->context), .events = POLLIN};
    assert_true(poll_fd.fd >= 0);
    int timeout_ms = tenure_timeout_ms(program->context);
    assert_true(timeout_ms >= -1);
    bool readable = poll(&poll_fd, 1, timeout_ms == 0 ? 0 : LOOK_MS) > 0;
    if (timeout_ms > 0 && (!readable || timeout_ms <= LOOK_MS))
        fake.boot_ms += (uint64_t)timeout_ms;
    if (tenure_process(program->context) < 0)
        fail_msg("%s", tenure_message(program->context));
}

/* A turn in which no time passes. */
static void turn_at_once(struct program *program) {
    assert_int_equal(tenure_process(program->context), TENURE_OK);
}

/* Turns until the condition holds; one that never does ends the test. */
#define TURN_UNTIL(program, condition)                                                                                 \
    do {                                                                                                               \
        uint64_t turn_start_us = ten_boot_us();                                                                        \
        while (!(condition) && elapsed_ms(turn_start_us) < HANG_MS)                                                    \
            turn(program);                                                                                             \
        assert_true(condition);                                                                                        \
    } while (0)

/* Another instance. Nobody drives it: what it holds is not renewed. */
static tenure_context *open_other(const char *url, const char *namespace_name) {
    tenure_options options = {.size = sizeof options, .flags = TENURE_DRIVEN, .namespace_name = namespace_name};
    tenure_context *other = NULL;
    if (ten_context_open(url, &options, &fake_system, &other) < 0)
        fail_msg("%s", tenure_message(NULL));
    return other;
}

static void acquire_many(struct program *program, tenure_lease **leases) {
    for (unsigned i = 0; i < LEASES; i++) {
        char target[32];
        snprintf(target, sizeof target, "many-%02u", i);
        leases[i] = NULL;
        assert_int_equal(tenure_acquire(program->context, target, HANG_MS, TENURE_ASYNC, &leases[i]), TENURE_OK);
        assert_non_null(leases[i]);
        assert_false(tenure_lease_valid(leases[i]));
        assert_int_equal(tenure_lease_token(leases[i]), 0);
        assert_string_equal(tenure_lease_target(leases[i]), target);
    }
    assert_int_equal(tenure_timeout_ms(program->context), 0); /* something is due */
    TURN_UNTIL(program, atomic_load(&program->acquired) == LEASES);
    for (unsigned i = 0; i < LEASES; i++) {
        assert_int_equal(tenure_lease_wait(leases[i], 0), TENURE_OK);
        assert_int_equal(tenure_lease_token(leases[i]), 1);
    }
}

/* Over several TTLs, as the store sees it: without a renewal they would have been free after one. */
static void keep_for_several_ttls(struct program *program, tenure_lease **leases, uint64_t ttl_ms) {
    uint64_t start_ms = fake.boot_ms;
    TURN_UNTIL(program, fake.boot_ms > start_ms + 3 * ttl_ms);
    assert_true(atomic_load(&program->renewed) >= 6 * LEASES);
    for (unsigned i = 0; i < LEASES; i++) {
        assert_int_equal(tenure_lease_token(leases[i]), 1);
        assert_int_equal(tenure_renew(leases[i]), TENURE_OK);
        assert_true(tenure_lease_valid(leases[i]));
    }
    assert_int_equal(atomic_load(&program->lost), 0);
}

static int count_info(const tenure_info *info, void *userdata) {
    (void)info;
    ++*(unsigned *)userdata;
    return 0;
}

static unsigned count_leased(tenure_context *context) {
    unsigned count = 0;
    assert_int_equal(tenure_target_list(context, TENURE_LEASED, count_info, &count), TENURE_OK);
    return count;
}

static void note_lost(tenure_lease *lease, const char *reason, void *userdata) {
    struct program *program = userdata;
    snprintf(program->reason, sizeof program->reason, "%s", reason);
    snprintf(program->lost_target, sizeof program->lost_target, "%s", tenure_lease_target(lease));
}

static void drive_many_leases(const char *url) {
    enum { TTL_MS = 3000 };
    unsigned threads = count_threads();
    struct program program;
    tenure_lease *leases[LEASES];
    program_open(&program, url, TTL_MS);
    acquire_many(&program, leases);
    keep_for_several_ttls(&program, leases, TTL_MS);
    assert_int_equal(count_threads(), threads);

    tenure_context *other = open_other(url, NULL);
    assert_int_equal(tenure_lease_on_lost(leases[7], note_lost, &program), TENURE_OK);
    turn_at_once(&program); /* it follows the feed by now */
    assert_int_equal(tenure_force_release(other, "many-07", NULL, TENURE_NOW, NULL), TENURE_OK);
    TURN_UNTIL(&program, program.reason[0] != '\0');
    assert_string_equal(program.reason, "forced");
    assert_string_equal(program.lost_target, "many-07");
    assert_false(tenure_lease_valid(leases[7]));
    assert_int_equal(atomic_load(&program.lost), 1);

    tenure_lease_free(leases[7]);
    for (unsigned i = 0; i < LEASES; i++)
        if (i != 7)
            tenure_lease_drop(leases[i]);
    TURN_UNTIL(&program, count_leased(other) == 0);
    assert_int_equal(tenure_close(program.context), TENURE_OK);
    assert_int_equal(tenure_close(other), TENURE_OK);
}

TEST(many_leases_are_driven_by_a_loop_in_memory) {
    drive_many_leases("memory:unit-driven");
}

#ifdef TEN_STORE_SQLITE
TEST(many_leases_are_driven_by_a_loop_on_sqlite) {
    char directory[256];
    char url[300];
    directory_make(directory);
    snprintf(url, sizeof url, "sqlite:%s/tenure.db", directory);
    drive_many_leases(url);
    directory_remove(directory);
}
#endif

/* ---- outcomes of asynchronous acquires */

TEST(an_asynchronous_acquire_of_what_is_held_fails_or_waits_for_its_release) {
    struct program program;
    tenure_context *other = open_other("memory:unit-driven-held", NULL);
    tenure_lease *held = NULL;
    tenure_lease *once = NULL;
    tenure_lease *patient = NULL;
    program_open(&program, "memory:unit-driven-held", 0);
    assert_int_equal(tenure_acquire(other, "x", 0, 0, &held), TENURE_OK);
    assert_int_equal(tenure_acquire(program.context, "x", 0, TENURE_ASYNC, &once), TENURE_OK);
    TURN_UNTIL(&program, atomic_load(&program.failed) == 1);
    assert_int_equal(program.error, TENURE_E_HELD);
    assert_int_equal(tenure_lease_wait(once, 0), TENURE_E_HELD);
    assert_contains(tenure_message(once), tenure_instance_id(other));
    assert_int_equal(tenure_acquire(program.context, "x", UINT64_MAX, TENURE_ASYNC, &patient), TENURE_OK);
    for (int i = 0; i < 5; i++)
        turn_at_once(&program);
    assert_int_equal(tenure_lease_wait(patient, 0), TENURE_E_TIMEOUT);
    assert_int_equal(tenure_release(held), TENURE_OK);
    TURN_UNTIL(&program, tenure_lease_valid(patient));
    assert_int_equal(tenure_lease_token(patient), 2);
    assert_int_equal(tenure_lease_wait(patient, 0), TENURE_OK);
    assert_int_equal(atomic_load(&program.failed), 1);
    tenure_lease_free(once);
    tenure_lease_free(held);
    tenure_lease_free(patient);
    tenure_close(program.context);
    tenure_close(other);
}

TEST(an_event_names_the_handle_that_it_is_about) {
    struct program program;
    tenure_context *other = open_other("memory:unit-driven-names", NULL);
    tenure_lease *held = NULL;
    tenure_lease *first = NULL;
    tenure_lease *second = NULL;
    program_open(&program, "memory:unit-driven-names", 0);
    assert_int_equal(tenure_acquire(other, "theirs", 0, 0, &held), TENURE_OK);
    assert_int_equal(tenure_acquire(program.context, "mine", 0, TENURE_ASYNC, &first), TENURE_OK);
    TURN_UNTIL(&program, atomic_load(&program.acquired) == 1);
    assert_ptr_equal(program.granted, first);
    /* One more handle on what is held already is told, too. */
    assert_int_equal(tenure_acquire(program.context, "mine", 0, TENURE_ASYNC, &second), TENURE_OK);
    TURN_UNTIL(&program, atomic_load(&program.acquired) == 2);
    assert_ptr_equal(program.granted, second);
    assert_int_equal(tenure_lease_wait(second, 0), TENURE_OK);
    assert_int_equal(tenure_lease_token(second), tenure_lease_token(first));
    tenure_lease_free(second);
    assert_int_equal(tenure_acquire(program.context, "theirs", 0, TENURE_ASYNC, &second), TENURE_OK);
    TURN_UNTIL(&program, atomic_load(&program.failed) == 1);
    assert_ptr_equal(program.refused, second);
    assert_int_equal(tenure_force_release(other, "mine", NULL, 0, NULL), TENURE_OK);
    TURN_UNTIL(&program, atomic_load(&program.lost) == 1);
    assert_ptr_equal(program.gone, first);
    tenure_lease_free(first);
    tenure_lease_free(second);
    tenure_lease_free(held);
    tenure_close(program.context);
    tenure_close(other);
}

TEST(an_asynchronous_acquire_that_is_dropped_takes_nothing_from_another) {
    struct program program;
    tenure_context *other = open_other("memory:unit-driven-both", NULL);
    tenure_lease *held = NULL;
    tenure_lease *first = NULL;
    tenure_lease *second = NULL;
    program_open(&program, "memory:unit-driven-both", 0);
    assert_int_equal(tenure_acquire(other, "x", 0, 0, &held), TENURE_OK);
    assert_int_equal(tenure_acquire(program.context, "x", UINT64_MAX, TENURE_ASYNC, &first), TENURE_OK);
    assert_int_equal(tenure_acquire(program.context, "x", UINT64_MAX, TENURE_ASYNC, &second), TENURE_OK);
    for (int i = 0; i < 5; i++)
        turn_at_once(&program);
    tenure_lease_drop(second);
    assert_int_equal(tenure_release(held), TENURE_OK);
    TURN_UNTIL(&program, tenure_lease_valid(first));
    tenure_lease_free(first);
    tenure_lease_free(held);
    tenure_close(program.context);
    tenure_close(other);
}

TEST(an_asynchronous_acquire_that_is_dropped_is_not_held_in_the_end) {
    struct program program;
    tenure_context *other = open_other("memory:unit-driven-drop", NULL);
    tenure_lease *lease = NULL;
    tenure_lease *next = NULL;
    program_open(&program, "memory:unit-driven-drop", 0);
    assert_int_equal(tenure_acquire(program.context, "x", UINT64_MAX, TENURE_ASYNC, &lease), TENURE_OK);
    tenure_lease_drop(lease);
    assert_int_equal(tenure_acquire(program.context, "y", UINT64_MAX, TENURE_ASYNC, &lease), TENURE_OK);
    TURN_UNTIL(&program, tenure_lease_valid(lease)); /* what was asked for before was looked at before */
    TURN_UNTIL(&program, count_leased(other) == 1);
    assert_int_equal(tenure_acquire(other, "x", 0, 0, &next), TENURE_OK);
    tenure_lease_free(next);
    tenure_lease_free(lease);
    tenure_close(program.context);
    tenure_close(other);
}

/* ---- functions that wait do the same work meanwhile */

/* On the system's clock: nobody moves another one while the call waits. */
TEST(an_acquire_that_waits_keeps_the_other_leases) {
    unsigned threads = count_threads();
    struct program program = {0};
    tenure_options options = {.size = sizeof options, .flags = TENURE_DRIVEN, .ttl_ms = 2000};
    tenure_context *other = NULL; /* driven by nobody: what it holds ends by its TTL */
    tenure_lease *obstacle = NULL;
    tenure_lease *kept = NULL;
    tenure_lease *lease = NULL;
    assert_int_equal(tenure_open("memory:unit-driven-wait", &options, &other), TENURE_OK);
    options.ttl_ms = 60000;
    options.renew_ms = 200;
    options.on_event = on_event;
    options.userdata = &program;
    assert_int_equal(tenure_open("memory:unit-driven-wait", &options, &program.context), TENURE_OK);
    assert_int_equal(tenure_acquire(program.context, "kept", 0, 0, &kept), TENURE_OK);
    assert_int_equal(tenure_acquire(other, "x", 0, 0, &obstacle), TENURE_OK);
    assert_int_equal(tenure_acquire(program.context, "x", UINT64_MAX, 0, &lease), TENURE_OK);
    assert_int_equal(tenure_lease_token(lease), 2);
    assert_false(tenure_lease_valid(obstacle));
    assert_true(atomic_load(&program.renewed) >= 2);
    assert_int_equal(tenure_lease_token(kept), 1);
    assert_true(tenure_lease_valid(kept));
    assert_int_equal(count_threads(), threads);
    tenure_lease_free(obstacle);
    tenure_lease_free(lease);
    tenure_lease_free(kept);
    tenure_close(program.context);
    tenure_close(other);
}

TEST(a_wait_for_an_asynchronous_lease_drives_the_context) {
    struct program program;
    tenure_lease *lease = NULL;
    program_open(&program, "memory:unit-driven-lease-wait", 0);
    assert_int_equal(tenure_acquire(program.context, "x", 0, TENURE_ASYNC, &lease), TENURE_OK);
    assert_int_equal(tenure_lease_wait(lease, HANG_MS), TENURE_OK);
    assert_true(tenure_lease_valid(lease));
    tenure_lease_free(lease);
    tenure_close(program.context);
}

/* ---- an election and a member */

struct term {
    atomic_uint elected;
    atomic_uint demoted;
    char reason[16];
};

static void on_elected(tenure_election *election, uint64_t token, void *userdata) {
    struct term *term = userdata;
    (void)election;
    (void)token;
    atomic_fetch_add(&term->elected, 1);
}

static void on_demoted(tenure_election *election, uint64_t token, const char *reason, void *userdata) {
    struct term *term = userdata;
    (void)election;
    (void)token;
    snprintf(term->reason, sizeof term->reason, "%s", reason);
    atomic_fetch_add(&term->demoted, 1);
}

TEST(an_election_is_driven_by_a_loop) {
    enum { TTL_MS = 2000 };
    unsigned threads = count_threads();
    struct program program;
    struct term term = {0};
    tenure_election_options options = {
        .size = sizeof options, .on_elected = on_elected, .on_demoted = on_demoted, .userdata = &term};
    tenure_election *election = NULL;
    program_open(&program, "memory:unit-driven-election", TTL_MS);
    assert_int_equal(tenure_election_open(program.context, "web", &options, &election), TENURE_OK);
    TURN_UNTIL(&program, atomic_load(&term.elected) == 1);
    assert_true(tenure_election_leads(election));
    uint64_t start_ms = fake.boot_ms;
    TURN_UNTIL(&program, fake.boot_ms > start_ms + 3 * TTL_MS);
    assert_true(tenure_election_leads(election));
    assert_int_equal(tenure_election_token(election), 1); /* it was renewed */
    assert_int_equal(count_threads(), threads);
    tenure_context *other = open_other("memory:unit-driven-election", "leader");
    assert_int_equal(tenure_force_release(other, "web", NULL, TENURE_NOW, NULL), TENURE_OK);
    TURN_UNTIL(&program, atomic_load(&term.demoted) == 1);
    assert_string_equal(term.reason, "forced");
    TURN_UNTIL(&program, atomic_load(&term.elected) == 2); /* it campaigns again */
    assert_int_equal(tenure_election_token(election), 2);
    tenure_election_close(election);
    assert_int_equal(atomic_load(&term.demoted), 2);
    assert_string_equal(term.reason, "shutdown");
    tenure_info info = {.size = sizeof info};
    assert_int_equal(tenure_target_read(other, "web", &info), TENURE_OK);
    assert_string_equal(info.holder, "");
    tenure_close(other);
    tenure_close(program.context);
}

struct work {
    tenure_context *context;
    unsigned turns;
};

/* "In the driven form fn has to call tenure_process()." */
static int work_for_two_ttls(tenure_election *election, void *arg) {
    struct work *work = arg;
    for (uint64_t end_ms = fake.boot_ms + 4000; fake.boot_ms < end_ms; work->turns++) {
        fake.boot_ms += 100;
        assert_int_equal(tenure_process(work->context), TENURE_OK);
    }
    return tenure_election_leads(election) && tenure_election_token(election) == 1 ? 7 : 8;
}

TEST(work_on_the_leader_only_drives_its_context) {
    unsigned threads = count_threads();
    struct program program;
    program_open(&program, "memory:unit-driven-run", 2000);
    struct work work = {.context = program.context};
    assert_int_equal(tenure_election_run(program.context, "web", NULL, HANG_MS, work_for_two_ttls, &work), 7);
    assert_true(work.turns > 0);
    assert_int_equal(count_threads(), threads);
    tenure_close(program.context);
}

static int count_name(const char *name, void *userdata) {
    (void)name;
    ++*(unsigned *)userdata;
    return 0;
}

static unsigned count_held(tenure_member *member) {
    unsigned count = 0;
    assert_int_equal(tenure_member_list_held(member, count_name, &count), TENURE_OK);
    return count;
}

TEST(a_member_is_driven_by_a_loop) {
    enum { TTL_MS = 2000, TARGETS = 12 };
    unsigned threads = count_threads();
    struct program program;
    tenure_member_options options = {.size = sizeof options, .settle_ms = 50};
    tenure_member *member = NULL;
    program_open(&program, "memory:unit-driven-member", TTL_MS);
    assert_int_equal(tenure_member_open(program.context, &options, &member), TENURE_OK);
    for (unsigned i = 0; i < TARGETS; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%02u", i);
        assert_int_equal(tenure_member_put(member, id, 0), TENURE_OK);
    }
    TURN_UNTIL(&program, count_held(member) == TARGETS);
    uint64_t start_ms = fake.boot_ms;
    TURN_UNTIL(&program, fake.boot_ms > start_ms + 3 * TTL_MS);
    assert_int_equal(count_held(member), TARGETS);
    tenure_member_info info = {.size = sizeof info}; /* a handle is read by the system's clock */
    assert_int_equal(tenure_member_read(member, "t03", &info), TENURE_OK);
    assert_int_equal(info.state, TENURE_STATE_HELD);
    assert_int_equal(info.token, 1);
    tenure_event event = {.size = sizeof event};
    unsigned acquired = 0;
    while (tenure_member_next_event(member, 0, &event) == TENURE_OK)
        acquired += event.kind == TENURE_EVENT_ACQUIRED;
    assert_int_equal(acquired, TARGETS);
    assert_int_equal(tenure_member_remove(member, "t03"), TENURE_OK);
    TURN_UNTIL(&program, count_held(member) == TARGETS - 1);
    assert_int_equal(count_threads(), threads);
    tenure_context *other = open_other("memory:unit-driven-member", NULL);
    fake.boot_ms += 100; /* the feed is read once more before it leaves, a gap after the last reading */
    assert_int_equal(tenure_member_stop(member, HANG_MS), TENURE_OK);
    assert_int_equal(count_leased(other), 0);
    tenure_member_close(member);
    tenure_close(program.context);
    tenure_close(other);
}

/* ---- the loop's three functions */

TEST(without_anything_to_do_there_is_nothing_to_wait_for) {
    struct program program;
    program_open(&program, "memory:unit-driven-idle", 0);
    TURN_UNTIL(&program, tenure_timeout_ms(program.context) == -1);
    struct pollfd poll_fd = {.fd = tenure_fd(program.context), .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, 0), 0);
    tenure_lease *lease = NULL;
    assert_int_equal(tenure_acquire(program.context, "x", 0, 0, &lease), TENURE_OK);
    TURN_UNTIL(&program, tenure_timeout_ms(program.context) > 0);
    assert_in_range(tenure_timeout_ms(program.context), 1, 10000); /* the next renewal: a third of the TTL at most */
    tenure_lease_free(lease);
    tenure_close(program.context);
}

/* Another thread gives the loop something to do: it must not sleep on it. */
TEST(what_another_call_asks_for_makes_the_descriptor_readable) {
    struct program program;
    tenure_lease *lease = NULL;
    program_open(&program, "memory:unit-driven-wake", 0);
    TURN_UNTIL(&program, tenure_timeout_ms(program.context) == -1);
    struct pollfd poll_fd = {.fd = tenure_fd(program.context), .events = POLLIN};
    assert_int_equal(tenure_acquire(program.context, "x", 0, TENURE_ASYNC, &lease), TENURE_OK);
    assert_int_equal(poll(&poll_fd, 1, HANG_MS), 1);
    TURN_UNTIL(&program, tenure_lease_valid(lease));
    assert_true(tenure_timeout_ms(program.context) > 0);
    tenure_lease_drop(lease);
    assert_int_equal(poll(&poll_fd, 1, HANG_MS), 1);
    TURN_UNTIL(&program, atomic_load(&program.released) == 1);
    tenure_close(program.context);
}

int main(void) {
    fake_system = fake_clock_make(&fake);
    return run_cases(NULL, NULL);
}
