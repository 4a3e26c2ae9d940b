/*
 * The C API of elections: candidates on contexts of their own, on a store in memory. The rules themselves are tested
 * on a simulated clock (test_election.c); here the thread, the callbacks and the calls are the subject.
 */
#include "unit/unit.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <tenure.h>
#include <unistd.h>

#include "base/io.h"

#define TTL_MS   UINT64_C(30000) /* renewed often: a busy machine loses nothing */
#define RENEW_MS UINT64_C(100)
#define SHORT_MS UINT64_C(600) /* where a lease has to end */
#define WAIT_MS  HANG_MS

struct candidate {
    tenure_context *context;
    tenure_election *election;
};

struct witness {
    atomic_uint leaders; /* at this moment */
    atomic_uint most;
    atomic_uint terms;
    _Atomic(uint64_t) last_token;
    atomic_bool token_fell;
    char reason[32];
    atomic_uint demotions; /* whose reason is written */
};

static void on_elected(tenure_election *election, uint64_t token, void *userdata) {
    struct witness *witness = userdata;
    (void)election;
    unsigned leaders = atomic_fetch_add(&witness->leaders, 1) + 1;
    if (leaders > atomic_load(&witness->most))
        atomic_store(&witness->most, leaders);
    if (token <= atomic_exchange(&witness->last_token, token))
        atomic_store(&witness->token_fell, true);
    atomic_fetch_add(&witness->terms, 1);
}

static void on_demoted(tenure_election *election, uint64_t token, const char *reason, void *userdata) {
    struct witness *witness = userdata;
    (void)election;
    (void)token;
    snprintf(witness->reason, sizeof witness->reason, "%s", reason);
    atomic_fetch_sub(&witness->leaders, 1);
    atomic_fetch_add(&witness->demotions, 1);
}

/* on_demoted comes a moment after it has stopped to lead. */
static void expect_demotion(struct witness *witness, const char *reason) {
    for (uint64_t end_ms = ten_now_ms() + WAIT_MS; atomic_load(&witness->demotions) == 0 && ten_now_ms() < end_ms;)
        ten_sleep_us(1000);
    assert_string_equal(witness->reason, reason);
}

static tenure_context *open_with_ttl(const char *url, uint64_t ttl_ms) {
    tenure_options options = {.size = sizeof options, .ttl_ms = ttl_ms, .renew_ms = RENEW_MS};
    tenure_context *context = NULL;
    if (tenure_open(url, &options, &context) < 0)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

static tenure_context *open_context(const char *url) {
    return open_with_ttl(url, TTL_MS);
}

/* A context that looks at the roles. */
static tenure_context *open_observer(const char *url) {
    tenure_options options = {.size = sizeof options, .namespace_name = "leader"};
    tenure_context *context = NULL;
    if (tenure_open(url, &options, &context) < 0)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

static struct candidate start_with_ttl(const char *url, uint64_t ttl_ms, struct witness *witness) {
    tenure_election_options options = {
        .size = sizeof options, .on_elected = on_elected, .on_demoted = on_demoted, .userdata = witness};
    struct candidate candidate = {.context = open_with_ttl(url, ttl_ms)};
    if (tenure_election_open(candidate.context, "web", &options, &candidate.election) < 0)
        fail_msg("%s", tenure_message(candidate.context));
    return candidate;
}

static struct candidate start(const char *url, struct witness *witness) {
    return start_with_ttl(url, TTL_MS, witness);
}

static void stop(struct candidate candidate) {
    tenure_election_close(candidate.election);
    assert_int_equal(tenure_close(candidate.context), TENURE_OK);
}

/* What is left of the lease only grows by a renewal. */
static void await_renewal(tenure_election *election) {
    uint64_t least_ms = tenure_election_remaining_ms(election);
    for (uint64_t end_ms = ten_now_ms() + WAIT_MS; ten_now_ms() < end_ms;) {
        uint64_t left_ms = tenure_election_remaining_ms(election);
        if (left_ms > least_ms)
            return;
        least_ms = left_ms;
        ten_sleep_us(1000);
    }
    fail_msg("the lease was not renewed");
}

TEST(a_candidate_alone_is_elected_and_gives_the_role_back) {
    struct witness witness = {0};
    struct candidate election = start("memory:alone", &witness);
    assert_int_equal(tenure_election_wait(election.election, WAIT_MS), TENURE_OK);
    assert_true(tenure_election_leads(election.election));
    assert_int_equal(tenure_election_token(election.election), 1);
    assert_in_range(tenure_election_remaining_ms(election.election), 1, TTL_MS);
    await_renewal(election.election);
    assert_true(tenure_election_leads(election.election));
    assert_int_equal(tenure_election_token(election.election), 1);
    tenure_context *context = open_observer("memory:alone");
    tenure_info info = {.size = sizeof info};
    assert_int_equal(tenure_target_read(context, "web", &info), TENURE_OK);
    assert_string_equal(info.holder, tenure_instance_id(election.context));
    stop(election);
    expect_demotion(&witness, "shutdown");
    assert_int_equal(tenure_target_read(context, "web", &info), TENURE_OK);
    assert_string_equal(info.holder, "");
    tenure_close(context);
}

static int count_call(tenure_election *election, void *arg) {
    assert_true(tenure_election_leads(election));
    return ++*(int *)arg;
}

TEST(a_function_runs_on_the_leader_only) {
    struct witness witness = {0};
    tenure_context *context = open_context("memory:only");
    int calls = 0;
    assert_int_equal(tenure_election_run(context, "web", NULL, WAIT_MS, count_call, &calls), 1);
    struct candidate leader = start("memory:only", &witness);
    assert_int_equal(tenure_election_wait(leader.election, WAIT_MS), TENURE_OK);
    assert_int_equal(tenure_election_run(context, "web", NULL, 100, count_call, &calls), TENURE_E_HELD);
    assert_int_equal(calls, 1);
    stop(leader);
    assert_int_equal(tenure_election_run(context, "web", NULL, WAIT_MS, count_call, &calls), 2);
    tenure_close(context);
}

TEST(a_forked_child_leads_nothing) {
    struct witness witness = {0};
    struct candidate election = start("memory:fork", &witness);
    assert_int_equal(tenure_election_wait(election.election, WAIT_MS), TENURE_OK);
    pid_t child = fork();
    if (child == 0)
        _exit(tenure_election_leads(election.election) || tenure_election_token(election.election) ||
              tenure_election_wait(election.election, 0) != TENURE_E_FORKED);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(tenure_election_leads(election.election));
    stop(election);
}

static int note_leader(const tenure_leader *leader, void *userdata) {
    snprintf(userdata, TENURE_HOLDER_MAX + 1, "%s", leader->instance);
    return 1;
}

/* A context of another namespace sees the roles of elections, which are in `leader` unless told otherwise. */
TEST(who_leads_is_read_in_the_namespace_of_the_election) {
    struct witness witness = {0};
    struct candidate leader = start("memory:seen", &witness);
    tenure_context *context = open_context("memory:seen");
    tenure_election_options options = {.size = sizeof options, .namespace_name = "other"};
    tenure_election *other = NULL;
    char seen[TENURE_HOLDER_MAX + 1] = "";
    tenure_leader who = {.size = sizeof who};
    assert_int_equal(tenure_election_wait(leader.election, WAIT_MS), TENURE_OK);
    assert_int_equal(tenure_leader_read(context, NULL, "web", &who), TENURE_OK);
    assert_string_equal(who.instance, tenure_instance_id(leader.context));
    assert_int_equal(who.token, tenure_election_token(leader.election));
    assert_int_equal(tenure_leader_observe(context, NULL, "web", note_leader, seen), 1);
    assert_string_equal(seen, who.instance);
    assert_int_equal(tenure_leader_read(context, "other", "web", &who), TENURE_OK);
    assert_string_equal(who.instance, "");
    assert_int_equal(tenure_election_open(context, "web", &options, &other), TENURE_OK);
    assert_int_equal(tenure_election_wait(other, WAIT_MS), TENURE_OK);
    assert_int_equal(tenure_leader_read(context, "other", "web", &who), TENURE_OK);
    assert_string_equal(who.instance, tenure_instance_id(context));
    who.token = 77;
    assert_int_equal(tenure_leader_read(context, "no namespace", "web", &who), TENURE_E_INVALID);
    assert_contains(tenure_message(context), "no namespace");
    assert_int_equal(who.token, 77); /* left alone */
    assert_int_equal(tenure_leader_resign(context, NULL, "web", tenure_instance_id(leader.context)), TENURE_OK);
    expect_demotion(&witness, "resigned");
    tenure_election_close(other);
    tenure_close(context);
    stop(leader);
}

/* An event loop cannot wait in on_demoted: it says later that the work has stopped. */
TEST(a_role_is_kept_until_work_that_goes_on_elsewhere_is_over) {
    struct witness witness = {0};
    tenure_election_options options = {.size = sizeof options,
                                       .flags = TENURE_WORK_ELSEWHERE,
                                       .on_elected = on_elected,
                                       .on_demoted = on_demoted,
                                       .userdata = &witness};
    tenure_context *context = open_with_ttl("memory:elsewhere", SHORT_MS);
    tenure_election *election = NULL;
    assert_int_equal(tenure_election_open(context, "web", &options, &election), TENURE_OK);
    assert_int_equal(tenure_election_wait(election, WAIT_MS), TENURE_OK);
    assert_int_equal(tenure_election_work_over(election), TENURE_E_INVALID);
    assert_contains(tenure_message(election), "web");
    assert_int_equal(tenure_election_resign(election), TENURE_OK);
    for (uint64_t end_ms = ten_now_ms() + WAIT_MS;
         (atomic_load(&witness.terms) == 0 || atomic_load(&witness.leaders) > 0) && ten_now_ms() < end_ms;)
        ten_sleep_us(1000);
    /* Past its TTL it is still held: it is renewed while the work goes on. */
    ten_sleep_us(2 * SHORT_MS * 1000);
    tenure_leader who = {.size = sizeof who};
    assert_int_equal(tenure_leader_read(context, NULL, "web", &who), TENURE_OK);
    assert_string_equal(who.instance, tenure_instance_id(context));
    assert_int_equal(who.token, 1);
    assert_int_equal(tenure_election_work_over(election), TENURE_OK);
    assert_int_equal(tenure_election_work_over(election), TENURE_E_INVALID);
    for (uint64_t end_ms = ten_now_ms() + WAIT_MS; who.token == 1 && ten_now_ms() < end_ms;)
        assert_int_equal(tenure_leader_read(context, NULL, "web", &who), TENURE_OK);
    assert_int_not_equal(who.token, 1);
    tenure_election_close(election);
    tenure_close(context);
}

static int lead_nothing(tenure_election *election, void *arg) {
    (void)election;
    (void)arg;
    return 0;
}

TEST(the_longest_time_for_which_a_role_can_be_kept_is_kept) {
    tenure_context *context = open_context("memory:longest");
    tenure_options leader = {.size = sizeof leader, .namespace_name = "leader"};
    tenure_context *reader = NULL;
    tenure_election_options options = {.size = sizeof options, .at_least_ms = TENURE_TTL_MAX_MS - TTL_MS};
    assert_int_equal(tenure_election_run(context, "web", &options, WAIT_MS, lead_nothing, NULL), TENURE_OK);
    assert_int_equal(tenure_open("memory:longest", &leader, &reader), TENURE_OK);
    tenure_info info = {.size = sizeof info};
    assert_int_equal(tenure_target_read(reader, "web", &info), TENURE_OK);
    assert_true(info.remaining_ms > options.at_least_ms - TENURE_TTL_MAX_MS / 100);
    assert_true(info.remaining_ms <= TENURE_TTL_MAX_MS);
    tenure_close(reader);
    tenure_close(context);
}

TEST(wrong_arguments_are_refused_with_the_reason) {
    tenure_context *context = open_context("memory:wrong");
    tenure_election *election = NULL;
    tenure_election_options options = {.size = sizeof options, .namespace_name = "no namespace"};
    assert_int_equal(tenure_election_open(context, "web", &options, &election), TENURE_E_INVALID);
    assert_contains(tenure_message(context), "no namespace");
    assert_int_equal(tenure_election_open(context, "no role", NULL, &election), TENURE_E_INVALID);
    assert_contains(tenure_message(context), "no role");
    assert_int_equal(tenure_election_open(context, NULL, NULL, &election), TENURE_E_INVALID);
    /* The lease that keeps a role lasts for a TTL more. */
    options = (tenure_election_options){.size = sizeof options};
    static const uint64_t too_long[] = {UINT64_MAX, 2 * TENURE_TTL_MAX_MS, TENURE_TTL_MAX_MS, UINT64_MAX - 1000};
    for (size_t i = 0; i < TEN_COUNT(too_long); i++) {
        options.at_least_ms = too_long[i];
        assert_int_equal(tenure_election_open(context, "web", &options, &election), TENURE_E_INVALID);
        assert_contains(tenure_message(context), "at_least_ms");
        assert_contains(tenure_message(context), "366 days");
        assert_int_equal(tenure_election_run(context, "web", &options, 0, lead_nothing, NULL), TENURE_E_INVALID);
    }
    options = (tenure_election_options){.namespace_name = "leader"};
    assert_int_equal(tenure_election_open(context, "web", &options, &election), TENURE_E_INVALID);
    assert_contains(tenure_message(context), "size");
    assert_null(election);
    tenure_election_close(NULL);
    tenure_close(context);
}

#ifdef TEN_STORE_SQLITE
static void await(const atomic_uint *count, unsigned expected) {
    for (uint64_t end_ms = ten_now_ms() + WAIT_MS; atomic_load(count) != expected && ten_now_ms() < end_ms;)
        ten_sleep_us(1000);
    assert_int_equal(atomic_load(count), expected);
}

/* Nothing else is due when the deadline passes: the thread must not sleep on what it has to tell. */
TEST(a_leader_whose_store_is_away_is_demoted_at_its_deadline_and_leads_again) {
    struct witness witness = {0};
    char directory[256];
    char away[300];
    char url[300];
    directory_make(directory);
    snprintf(away, sizeof away, "%s-away", directory);
    snprintf(url, sizeof url, "sqlite:%s/tenure.db", directory);
    struct candidate election = start_with_ttl(url, SHORT_MS, &witness);
    assert_int_equal(tenure_election_wait(election.election, WAIT_MS), TENURE_OK);
    await(&witness.terms, 1); /* it is told a moment later */
    assert_int_equal(rename(directory, away), 0);
    await(&witness.leaders, 0);
    expect_demotion(&witness, "expired");
    assert_int_equal(rename(away, directory), 0);
    assert_int_equal(tenure_election_wait(election.election, WAIT_MS), TENURE_OK);
    await(&witness.terms, 2);
    assert_false(atomic_load(&witness.token_fell));
    stop(election);
    directory_remove(directory);
}
#endif

/* ---- turns */

struct standbys {
    const char *instance; /* the one that is looked for */
    unsigned count;       /* of all */
    bool has_it;
};

static int see_standby(const tenure_instance *instance, void *userdata) {
    struct standbys *standbys = userdata;
    standbys->count++;
    standbys->has_it |= strcmp(instance->instance, standbys->instance) == 0;
    return 0;
}

/* Waits until so many are announced in the namespace of the elections. */
static bool await_standbys(tenure_context *observer, unsigned count, const char *instance) {
    for (uint64_t end_ms = ten_now_ms() + WAIT_MS; ten_now_ms() < end_ms; ten_sleep_us(2000)) {
        struct standbys standbys = {.instance = instance};
        assert_int_equal(tenure_instance_list(observer, see_standby, &standbys), TENURE_OK);
        if (standbys.count == count)
            return standbys.has_it;
    }
    fail_msg("there are never %u", count);
    return false;
}

TEST(a_candidate_that_waits_is_announced_so_that_all_take_turns) {
    struct witness witness = {0};
    tenure_context *observer = open_observer("memory:turns");
    struct candidate first = start("memory:turns", &witness);
    assert_int_equal(tenure_election_wait(first.election, WAIT_MS), TENURE_OK);
    struct candidate second = start("memory:turns", &witness);
    assert_true(await_standbys(observer, 1, tenure_instance_id(second.context)));
    struct candidate third = start("memory:turns", &witness);
    assert_true(await_standbys(observer, 2, tenure_instance_id(third.context)));
    stop(first);
    /* In which order is for the simulator to judge: on a busy machine the one behind may overtake. */
    while (tenure_election_wait(second.election, 10) != TENURE_OK &&
           tenure_election_wait(third.election, 10) != TENURE_OK)
        ;
    bool in_order = tenure_election_leads(second.election);
    stop(in_order ? second : third);
    assert_int_equal(tenure_election_wait(in_order ? third.election : second.election, WAIT_MS), TENURE_OK);
    stop(in_order ? third : second);
    assert_false(await_standbys(observer, 0, "nobody"));
    assert_int_equal(tenure_close(observer), TENURE_OK);
}

/* There is one heartbeat for a context in a namespace: it must not say now this role and then that. */
TEST(of_several_elections_of_a_context_one_is_announced) {
    struct witness witness = {0};
    tenure_election_options options = {.size = sizeof options};
    tenure_context *observer = open_observer("memory:several");
    struct candidate leaders[2];
    tenure_election *others[2];
    leaders[0] = start("memory:several", &witness);
    leaders[1] = leaders[0];
    assert_int_equal(tenure_election_open(leaders[0].context, "db", &options, &leaders[1].election), TENURE_OK);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(tenure_election_wait(leaders[i].election, WAIT_MS), TENURE_OK);
    tenure_context *waiting = open_context("memory:several");
    assert_int_equal(tenure_election_open(waiting, "web", &options, &others[0]), TENURE_OK);
    assert_int_equal(tenure_election_open(waiting, "db", &options, &others[1]), TENURE_OK);
    assert_true(await_standbys(observer, 1, tenure_instance_id(waiting)));
    tenure_election_close(others[0]);
    assert_false(await_standbys(observer, 0, "nobody"));
    tenure_election_close(leaders[1].election);
    assert_int_equal(tenure_election_wait(others[1], WAIT_MS), TENURE_OK);
    tenure_election_close(others[1]);
    assert_int_equal(tenure_close(waiting), TENURE_OK);
    stop(leaders[0]);
    assert_int_equal(tenure_close(observer), TENURE_OK);
}
