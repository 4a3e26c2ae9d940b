/*
 * Candidates for the election part of the suite. See candidates.h.
 */
#include "conformance/elections/candidates.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/candidate.h"

#define START_MS   HANG_MS /* for a process to start, also under a sanitizer */
#define YIELD_MS   300u    /* others go first for so long */
#define BRIEF_MS   2500u
#define LONGEST_MS 10000u
#define PROBES     20

/* ---- one candidate ------------------------------------------------------------------------------------- */

struct self {
    struct arena *arena;
    struct candidate *candidate;
};

static void on_elected(tenure_election *election, uint64_t token, void *userdata) {
    struct self *self = userdata;
    struct candidate *candidate = self->candidate;
    (void)election;
    unsigned inside = atomic_fetch_add(&self->arena->inside, 1) + 1;
    if (inside > atomic_load(&self->arena->most))
        atomic_store(&self->arena->most, inside);
    unsigned at = atomic_fetch_add(&self->arena->entered, 1);
    if (at < TERMS_MAX)
        atomic_store(&self->arena->tokens[at], token);
    if (atomic_load(&candidate->leads))
        atomic_fetch_add(&candidate->disorder, 1);
    atomic_store(&candidate->token, token);
    atomic_store(&candidate->elected_ms, now_ms());
    atomic_fetch_add(&candidate->terms, 1);
    atomic_store(&candidate->leads, true);
}

static void on_demoted(tenure_election *election, uint64_t token, const char *reason, void *userdata) {
    struct self *self = userdata;
    struct candidate *candidate = self->candidate;
    (void)election;
    if (!atomic_load(&candidate->leads) || atomic_load(&candidate->token) != token)
        atomic_fetch_add(&candidate->disorder, 1);
    snprintf(candidate->reason, sizeof candidate->reason, "%s", reason);
    atomic_store(&candidate->demoted_ms, now_ms());
    atomic_fetch_sub(&self->arena->inside, 1);
    atomic_store(&candidate->leads, false);
}

static void on_event(const tenure_event *event, void *userdata) {
    struct self *self = userdata;
    if (event->kind == TENURE_EVENT_ACQUIRE_FAILED && event->error == TENURE_E_HELD)
        atomic_fetch_add(&self->candidate->refusals, 1);
    if (event->kind == TENURE_EVENT_STORE_DOWN)
        atomic_fetch_add(&self->candidate->outages, 1);
}

static void obey(tenure_election *election, struct candidate *candidate) {
    int order = atomic_load(&candidate->order);
    if (order == ORDER_RESIGN)
        (void)tenure_election_resign(election);
    if (order == ORDER_YIELD)
        ten_candidate_end_term(election, TEN_REASON_RESIGNED, YIELD_MS);
    if (order == ORDER_RESIGN || order == ORDER_YIELD)
        atomic_store(&candidate->order, ORDER_NOTHING);
}

static int start_campaign(const char *url, struct self *self, tenure_context **ret_context,
                          tenure_election **ret_election) {
    const struct arena *arena = self->arena;
    tenure_options options = {
        .size = sizeof options, .instance_name = "candidate", .ttl_ms = arena->ttl_ms, .renew_ms = arena->renew_ms};
    tenure_election_options election_options = {.size = sizeof election_options,
                                                .at_least_ms = arena->at_least_ms,
                                                .on_elected = on_elected,
                                                .on_demoted = on_demoted,
                                                .on_event = on_event,
                                                .userdata = self};
    /* It waits no longer for its store than its TTL allows, and is started again. */
    int r;
    uint64_t end_ms = now_ms() + START_MS;
    do
        r = tenure_open(url, &options, ret_context);
    while ((r == TENURE_E_TIMEOUT || r == TENURE_E_UNREACHABLE) && now_ms() < end_ms);
    if (r < 0)
        return r;
    /* Before it campaigns: on_elected may come before the next call returns. */
    snprintf(self->candidate->instance, sizeof self->candidate->instance, "%s", tenure_instance_id(*ret_context));
    return tenure_election_open(*ret_context, arena->role, &election_options, ret_election);
}

static int campaign(const char *url, struct arena *arena, unsigned index) {
    struct candidate *candidate = &arena->at[index];
    struct self self = {arena, candidate};
    tenure_context *context = NULL;
    tenure_election *election = NULL;
    if (start_campaign(url, &self, &context, &election) < 0) {
        fprintf(stderr, "# candidate %u: %s\n", index, tenure_message(NULL));
        tenure_close(context);
        atomic_store(&candidate->stage, STAGE_FAILED);
        return 3;
    }
    atomic_store(&candidate->stage, STAGE_CAMPAIGNS);
    while (atomic_load(&candidate->order) != ORDER_STOP) {
        obey(election, candidate);
        atomic_store(&candidate->believes, tenure_election_leads(election));
        sleep_ms(2);
    }
    tenure_election_close(election);
    atomic_store(&candidate->believes, false);
    tenure_close(context);
    atomic_store(&candidate->stage, STAGE_ENDED);
    return 0;
}

int candidate_worker(const char *url, unsigned index, int arena_fd) {
    struct arena *arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd, 0);
    return arena == MAP_FAILED || index >= CANDIDATES_MAX ? 2 : campaign(url, arena, index);
}

struct errand {
    struct arena *arena;
    unsigned index;
};

static void *campaign_in_thread(void *arg) {
    struct errand errand = *(struct errand *)arg;
    free(arg);
    (void)campaign(suite_fixture.url, errand.arena, errand.index);
    return NULL;
}

/* ---- places -------------------------------------------------------------------------------------------- */

/* A call may take a sixth of the TTL (core/timing.h). */
static uint64_t choose_brief_ms(const struct place *place) {
    uint64_t slowest_ms = 0;
    for (int i = 0; i < PROBES; i++) {
        uint64_t start_ms = now_ms();
        ten_result result = acquire(place, "probe", "probe", LONG_MS);
        slowest_ms = ten_max_u64(slowest_ms, now_ms() - start_ms);
        (void)release(place, "probe", "probe", result.token);
    }
    return ten_min_u64(BRIEF_MS + 10 * slowest_ms, LONGEST_MS);
}

int election_setup(void **state) {
    static struct election_place election;
    void *place = NULL;
    if (place_setup(&place) != 0)
        return -1;
    election = (struct election_place){.place = *(struct place *)place};
    election.arena_fd = memfd_create("arena", 0);
    if (election.arena_fd < 0 || ftruncate(election.arena_fd, sizeof(struct arena)) != 0)
        return -1;
    election.arena = mmap(NULL, sizeof *election.arena, PROT_READ | PROT_WRITE, MAP_SHARED, election.arena_fd, 0);
    if (election.arena == MAP_FAILED)
        return -1;
    election.brief_ms = choose_brief_ms(&election.place);
    /* A namespace's name that is in use by nobody is also such a role. */
    snprintf(election.arena->role, sizeof election.arena->role, "%s", election.place.ns);
    snprintf(election.place.ns, sizeof election.place.ns, "leader");
    election.role = election.arena->role;
    *state = &election;
    return 0;
}

int election_teardown(void **state) {
    struct election_place *election = *state;
    let_go();
    for (unsigned i = 0; i < CANDIDATES_MAX; i++)
        atomic_store(&election->arena->at[i].order, ORDER_STOP);
    for (unsigned i = 0; i < CANDIDATES_MAX; i++) {
        if (election->has_thread[i])
            pthread_join(election->threads[i], NULL);
        if (election->pids[i])
            (void)wait_for_worker(election->pids[i]);
    }
    munmap(election->arena, sizeof *election->arena);
    close(election->arena_fd);
    void *place = &election->place;
    return place_teardown(&place);
}

uint64_t slack_ms(const struct election_place *election) {
    return 1500 + late_ms() + election->place.store->capabilities.expiry_late_ms;
}

bool has_processes(const struct election_place *election) {
    return election->place.store->capabilities.shared_between_processes;
}

/* ---- orders -------------------------------------------------------------------------------------------- */

static void show(const struct election_place *election) {
    for (unsigned i = 0; i < CANDIDATES_MAX; i++) {
        const struct candidate *candidate = &election->arena->at[i];
        if (atomic_load(&candidate->stage) != STAGE_ABSENT)
            print_error("candidate %u: stage %d, %s, %u terms, %u refusals, %u outages, token %llu, demoted: %s\n", i,
                        atomic_load(&candidate->stage), atomic_load(&candidate->leads) ? "leads" : "follows",
                        atomic_load(&candidate->terms), atomic_load(&candidate->refusals),
                        atomic_load(&candidate->outages), atomic_load(&candidate->token), candidate->reason);
    }
}

static void await_stage(const struct election_place *election, unsigned index, enum candidate_stage stage) {
    uint64_t end_ms = now_ms() + START_MS;
    while (atomic_load(&election->arena->at[index].stage) != (int)stage) {
        if (now_ms() > end_ms || atomic_load(&election->arena->at[index].stage) == STAGE_FAILED) {
            show(election);
            fail_msg("candidate %u did not reach stage %d", index, stage);
        }
        sleep_ms(1);
    }
}

static void start_process(struct election_place *election, unsigned index) {
    char index_text[16];
    char fd_text[16];
    snprintf(index_text, sizeof index_text, "%u", index);
    snprintf(fd_text, sizeof fd_text, "%d", election->arena_fd);
    election->pids[index] = start_worker((const char *[]){"campaign", suite_fixture.url, index_text, fd_text, NULL});
}

static void start_thread(struct election_place *election, unsigned index) {
    struct errand *errand = malloc(sizeof *errand);
    assert_non_null(errand);
    *errand = (struct errand){election->arena, index};
    assert_int_equal(pthread_create(&election->threads[index], NULL, campaign_in_thread, errand), 0);
    election->has_thread[index] = true;
}

void start_candidate(struct election_place *election, unsigned index, enum candidate_kind kind) {
    if (kind == IN_PROCESSES)
        start_process(election, index);
    else
        start_thread(election, index);
    await_stage(election, index, STAGE_CAMPAIGNS);
}

void start_follower(struct election_place *election, unsigned index, enum candidate_kind kind) {
    start_candidate(election, index, kind);
    uint64_t end_ms = now_ms() + START_MS;
    while (atomic_load(&election->arena->at[index].refusals) == 0) {
        if (now_ms() > end_ms) {
            show(election);
            fail_msg("candidate %u has not been refused", index);
        }
        sleep_ms(1);
    }
}

void order_candidate(struct election_place *election, unsigned index, enum candidate_order order) {
    atomic_store(&election->arena->at[index].order, (int)order);
}

void stop_candidate(struct election_place *election, unsigned index) {
    order_candidate(election, index, ORDER_STOP);
    await_stage(election, index, STAGE_ENDED);
}

void kill_candidate(struct election_place *election, unsigned index) {
    assert_true(election->pids[index] > 0);
    assert_int_equal(kill(election->pids[index], SIGKILL), 0);
    (void)wait_for_worker(election->pids[index]);
    election->pids[index] = 0;
    struct candidate *candidate = &election->arena->at[index];
    atomic_store(&candidate->believes, false);
    if (atomic_exchange(&candidate->leads, false))
        atomic_fetch_sub(&election->arena->inside, 1);
    atomic_store(&candidate->stage, STAGE_ENDED);
}

/* ---- what became of them ------------------------------------------------------------------------------- */

unsigned await_term(struct election_place *election, uint64_t after_token, uint64_t limit_ms) {
    uint64_t start_ms = now_ms();
    for (;;) {
        for (unsigned i = 0; i < CANDIDATES_MAX; i++)
            if (atomic_load(&election->arena->at[i].leads) && atomic_load(&election->arena->at[i].token) > after_token)
                return i;
        if (now_ms() - start_ms > limit_ms + late_ms()) {
            show(election);
            fail_msg("no new term after %llu ms", (unsigned long long)(now_ms() - start_ms));
        }
        sleep_ms(1);
    }
}

unsigned await_leader(struct election_place *election, unsigned except, uint64_t limit_ms) {
    uint64_t start_ms = now_ms();
    for (;;) {
        for (unsigned i = 0; i < CANDIDATES_MAX; i++)
            if (i != except && atomic_load(&election->arena->at[i].leads))
                return i;
        if (now_ms() - start_ms > limit_ms + late_ms()) {
            show(election);
            fail_msg("nobody else leads after %llu ms", (unsigned long long)(now_ms() - start_ms));
        }
        sleep_ms(1);
    }
}

void await_demotion(struct election_place *election, unsigned index, const char *reason, uint64_t limit_ms) {
    const struct candidate *candidate = &election->arena->at[index];
    uint64_t start_ms = now_ms();
    while (atomic_load(&candidate->leads) || atomic_load(&candidate->believes)) {
        if (now_ms() - start_ms > limit_ms + late_ms()) {
            show(election);
            fail_msg("candidate %u still leads after %llu ms", index, (unsigned long long)(now_ms() - start_ms));
        }
        sleep_ms(1);
    }
    assert_string_equal(candidate->reason, reason);
}

void expect_order(struct election_place *election, unsigned terms) {
    const struct arena *arena = election->arena;
    unsigned entered = atomic_load(&arena->entered);
    unsigned long long last = 0;
    for (unsigned i = 0; i < entered && i < TERMS_MAX; i++) {
        unsigned long long token = atomic_load(&arena->tokens[i]);
        if (token <= last)
            fail_msg("term %u has the token %llu after %llu", i, token, last);
        last = token;
    }
    unsigned disorder = 0;
    for (unsigned i = 0; i < CANDIDATES_MAX; i++)
        disorder += atomic_load(&arena->at[i].disorder);
    if (atomic_load(&arena->most) > 1 || disorder || (terms && entered != terms)) {
        show(election);
        fail_msg("%u led at once, %u calls out of order, %u terms", atomic_load(&arena->most), disorder, entered);
    }
}

ten_result read_role(const struct election_place *election) {
    return read_lease(&election->place, election->role);
}

ten_result ask_to_resign(const struct election_place *election, const char *holder) {
    return apply_one(election->place.other, (ten_op){.kind = TEN_OP_ASK,
                                                     .namespace_name = election->place.ns,
                                                     .target = election->role,
                                                     .holder = holder,
                                                     .ask = TEN_ASK_RESIGN});
}

ten_result force_role(const struct election_place *election, unsigned flag) {
    return force(&election->place, election->role, flag, "operator");
}

/* ---- requests that go wrong ---------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char name[64];
    enum ten_op_kind kind;
    unsigned requests; /* to lose, before the answers */
    unsigned answers;
    unsigned lost;
    bool to_hang;
    bool hangs;
} trouble = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void plan_trouble(const char *name, enum ten_op_kind kind, unsigned requests, unsigned answers, bool to_hang) {
    pthread_mutex_lock(&trouble.lock);
    snprintf(trouble.name, sizeof trouble.name, "%s-", name);
    trouble.kind = kind;
    trouble.requests = requests;
    trouble.answers = answers;
    trouble.lost = 0;
    trouble.to_hang = to_hang;
    pthread_cond_broadcast(&trouble.changed);
    pthread_mutex_unlock(&trouble.lock);
}

void lose(const char *name, enum ten_op_kind kind, unsigned requests, unsigned answers) {
    plan_trouble(name, kind, requests, answers, false);
}

void hang_request(const char *name, enum ten_op_kind kind) {
    plan_trouble(name, kind, 0, 0, true);
}

void let_go(void) {
    plan_trouble("", TEN_OP_READ, 0, 0, false);
}

bool is_hanging(void) {
    pthread_mutex_lock(&trouble.lock);
    bool hangs = trouble.hangs;
    pthread_mutex_unlock(&trouble.lock);
    return hangs;
}

unsigned count_lost(void) {
    pthread_mutex_lock(&trouble.lock);
    unsigned lost = trouble.lost;
    pthread_mutex_unlock(&trouble.lock);
    return lost;
}

enum loss { LOSE_NOTHING, LOSE_ANSWER, LOSE_REQUEST };

/* Hangs first, if it has to. */
static enum loss run_into_trouble(const ten_op *op) {
    enum loss loss = LOSE_NOTHING;
    pthread_mutex_lock(&trouble.lock);
    bool meant = op->kind == trouble.kind && op->holder && strncmp(op->holder, trouble.name, strlen(trouble.name)) == 0;
    while (meant && trouble.to_hang) {
        trouble.hangs = true;
        pthread_cond_wait(&trouble.changed, &trouble.lock);
        trouble.hangs = trouble.to_hang;
    }
    if (meant && trouble.requests + trouble.answers > 0) {
        loss = trouble.requests > 0 ? LOSE_REQUEST : LOSE_ANSWER;
        trouble.requests -= loss == LOSE_REQUEST;
        trouble.answers -= loss == LOSE_ANSWER;
        trouble.lost++;
    }
    pthread_mutex_unlock(&trouble.lock);
    return loss;
}

/* The linker puts this one between the runtime and the store (--wrap). */
int __real_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);

int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count,
                           uint64_t timeout_ms) {
    enum loss loss = LOSE_NOTHING; /* a batch is lost as a whole */
    for (size_t i = 0; i < count && loss == LOSE_NOTHING; i++)
        loss = run_into_trouble(&ops[i]);
    if (loss != LOSE_REQUEST) {
        int r = __real_ten_store_apply(store, ops, results, count, timeout_ms);
        if (loss == LOSE_NOTHING)
            return r;
    }
    for (size_t i = 0; i < count; i++)
        results[i] = (ten_result){.outcome = TEN_ERROR, .error = TENURE_E_TIMEOUT};
    return ten_fail(&store->error, TENURE_E_TIMEOUT, "it was lost on purpose");
}
