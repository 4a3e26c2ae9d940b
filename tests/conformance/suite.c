/*
 * What the tests of the store contract share. See suite.h.
 */
#include "conformance/suite.h"

#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/machine.h"

extern char **environ;

struct fixture suite_fixture;
const char *suite_program;

/* ---- places -------------------------------------------------------------------------------------------- */

ten_store *open_store(const char *url) {
    ten_store *store = NULL;
    ten_error error = {0};
    if (ten_store_open(url, NULL, &store, &error) != TENURE_OK)
        fail_msg("cannot open %s: %s", url, error.message);
    return store;
}

void make_namespace(char ns[TENURE_NAMESPACE_MAX + 1]) {
    static atomic_uint count;
    snprintf(ns, TENURE_NAMESPACE_MAX + 1, "conf-%lx-%lx-%u", (long)getpid(), (long)(ten_wall_ms(&ten_system_clock)),
             atomic_fetch_add(&count, 1) + 1);
}

int place_setup(void **state) {
    static struct place place;
    place.store = open_store(suite_fixture.url);
    place.other = open_store(suite_fixture.url);
    make_namespace(place.ns);
    machine_mark();
    *state = &place;
    return 0;
}

int place_teardown(void **state) {
    struct place *place = *state;
    ten_store_close(place->store);
    ten_store_close(place->other);
    return 0;
}

uint64_t short_ttl(const ten_store *store) {
    return ten_max_u64(200, store->capabilities.ttl_min_ms);
}

uint64_t kept_ttl(const ten_store *store) {
    return ten_max_u64(2000, 2 * store->capabilities.ttl_min_ms);
}

void sleep_ms(uint64_t ms) {
    ten_sleep_us(ms * 1000u);
}

uint64_t now_ms(void) {
    return ten_boot_us() / 1000u;
}

uint64_t late_ms(void) {
    return machine_stalled_ms();
}

void late_from_now(void) {
    machine_mark();
}

void sleep_well_ms(uint64_t ms) {
    uint64_t start_ms = now_ms();
    uint64_t before_ms = late_ms();
    do
        sleep_ms(10);
    while (now_ms() - start_ms < ms + ten_min_u64(late_ms() - before_ms, 20 * ms));
}

/* ---- operations ---------------------------------------------------------------------------------------- */

ten_result apply_one(ten_store *store, ten_op op) {
    ten_result result;
    int r = ten_store_apply(store, &op, &result, 1, CALL_MS);
    if (r != TENURE_OK)
        fail_msg("the store failed: %s (%s)", store->error.message, tenure_error_name(r));
    return result;
}

ten_result apply_at(const struct place *place, ten_op op) {
    op.namespace_name = place->ns;
    return apply_one(place->store, op);
}

ten_result acquire(const struct place *place, const char *target, const char *holder, uint64_t ttl_ms) {
    return apply_at(place, (ten_op){.kind = TEN_OP_ACQUIRE, .target = target, .holder = holder, .ttl_ms = ttl_ms});
}

static ten_result renew_with(const struct place *place, unsigned flags, const char *target, const char *holder,
                             uint64_t token, uint64_t ttl_ms) {
    ten_op op = {.kind = TEN_OP_RENEW, .target = target, .holder = holder, .token = token, .ttl_ms = ttl_ms};
    op.flags = flags;
    return apply_at(place, op);
}

ten_result renew(const struct place *place, const char *target, const char *holder, uint64_t token, uint64_t ttl_ms) {
    return renew_with(place, 0, target, holder, token, ttl_ms);
}

ten_result keep_off(const struct place *place, const char *target, const char *holder, uint64_t token,
                    uint64_t ttl_ms) {
    return renew_with(place, TEN_OP_KEEP, target, holder, token, ttl_ms);
}

ten_result release(const struct place *place, const char *target, const char *holder, uint64_t token) {
    ten_op op = {.kind = TEN_OP_RELEASE, .target = target, .holder = holder, .token = token};
    op.reason = TEN_REASON_DONE;
    return apply_at(place, op);
}

ten_result force(const struct place *place, const char *target, unsigned flag, const char *actor) {
    return apply_at(place, (ten_op){.kind = TEN_OP_RELEASE, .flags = flag, .target = target, .actor = actor});
}

ten_result read_lease(const struct place *place, const char *target) {
    return apply_at(place, (ten_op){.kind = TEN_OP_READ, .target = target});
}

ten_result announce(const struct place *place, const char *instance, uint64_t ttl_ms) {
    return apply_at(place, (ten_op){.kind = TEN_OP_ANNOUNCE, .holder = instance, .ttl_ms = ttl_ms, .weight = 1});
}

ten_result beat(const struct place *place, const char *instance, uint64_t ttl_ms) {
    ten_op op = {.kind = TEN_OP_ANNOUNCE, .flags = TEN_OP_SESSION, .holder = instance, .ttl_ms = ttl_ms, .weight = 1};
    return apply_at(place, op);
}

ten_result must_beat(const struct place *place, const char *instance, uint64_t ttl_ms) {
    ten_result result = beat(place, instance, ttl_ms);
    expect_outcome(result, TEN_OK);
    assert_int_not_equal(result.session, 0);
    return result;
}

uint64_t must_take(const struct place *place, const char *target, const char *holder, uint64_t ttl_ms) {
    ten_result result = apply_on_session(place, TEN_OP_ACQUIRE, target, holder, 0, ttl_ms);
    expect_outcome(result, TEN_OK);
    assert_int_not_equal(result.session, 0);
    return result.token;
}

ten_result leave(const struct place *place, const char *instance, uint64_t tombstone_ms) {
    ten_op op = {.kind = TEN_OP_LEAVE, .holder = instance, .ttl_ms = tombstone_ms, .reason = TEN_REASON_SHUTDOWN};
    return apply_at(place, op);
}

ten_result ask_of(const struct place *place, const char *target, const char *instance, enum ten_ask ask) {
    return apply_at(place, (ten_op){.kind = TEN_OP_ASK, .target = target, .holder = instance, .ask = ask});
}

uint64_t must_acquire(const struct place *place, const char *target, const char *holder, uint64_t ttl_ms) {
    ten_result result = acquire(place, target, holder, ttl_ms);
    expect_outcome(result, TEN_OK);
    assert_in_range(result.token, 1, TENURE_TOKEN_MAX);
    return result.token;
}

ten_result acquire_within(const struct place *place, const char *target, const char *holder, uint64_t ttl_ms,
                          uint64_t wait_ms) {
    uint64_t end_ms = now_ms() + wait_ms;
    for (;;) {
        ten_result result = acquire(place, target, holder, ttl_ms);
        if (result.outcome != TEN_HELD || now_ms() >= end_ms)
            return result;
        sleep_ms(2);
    }
}

bool edit_target(const struct place *place, enum ten_target_action action, const char *id) {
    ten_target_edit edit = {.action = action, .target = {.id = id}};
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, &edit, 1, CALL_MS), TENURE_OK);
    return edit.found;
}

uint64_t use_once(const struct place *place, const char *target) {
    uint64_t token = must_acquire(place, target, "a", LONG_MS);
    expect_outcome(release(place, target, "a", token), TEN_OK);
    return token;
}

struct place elsewhere_of(const struct place *place) {
    struct place elsewhere = {.store = place->other, .other = place->store};
    memcpy(elsewhere.ns, place->ns, sizeof elsewhere.ns);
    return elsewhere;
}

void use_many(const struct place *place, const char *prefix, size_t count) {
    ten_op *ops = calloc(count, sizeof *ops);
    ten_result *results = calloc(count, sizeof *results);
    char(*ids)[32] = calloc(count, sizeof *ids);
    assert_true(ops && results && ids);
    for (size_t i = 0; i < count; i++) {
        snprintf(ids[i], sizeof ids[i], "%s%zu", prefix, i);
        ops[i] = (ten_op){
            .kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = ids[i], .holder = "a", .ttl_ms = LONG_MS};
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, count, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < count; i++) {
        expect_outcome(results[i], TEN_OK);
        ops[i].kind = TEN_OP_RELEASE;
        ops[i].token = results[i].token;
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, count, CALL_MS), TENURE_OK);
    free(ops);
    free(results);
    free(ids);
}

void put_target(const struct place *place, const char *id) {
    (void)edit_target(place, TEN_TARGET_PUT, id);
}

ten_result apply_on_session(const struct place *place, enum ten_op_kind kind, const char *target, const char *holder,
                            uint64_t token, uint64_t ttl_ms) {
    ten_op op = {.kind = kind, .target = target, .holder = holder, .token = token, .ttl_ms = ttl_ms};
    op.flags = TEN_OP_SESSION;
    return apply_at(place, op);
}

static const char *outcome_name(enum ten_outcome outcome) {
    static const char *const names[] = {"error", "ok", "held", "lost", "unknown"};
    return (unsigned)outcome < TEN_COUNT(names) ? names[outcome] : "?";
}

void check_outcome(ten_result result, enum ten_outcome outcome, const char *file, int line) {
    if (result.outcome == outcome)
        return;
    print_error("expected the outcome %s, got %s (%s; holder %s, token %llu, %llu ms left%s)\n", outcome_name(outcome),
                outcome_name(result.outcome), tenure_error_name(result.error), result.holder ? result.holder : "none",
                (unsigned long long)result.token, (unsigned long long)result.remaining_ms,
                result.recovering ? ", recovering" : "");
    _fail(file, line);
}

void check_holder(ten_result result, const char *holder, const char *file, int line) {
    if (holder ? result.holder && strcmp(result.holder, holder) == 0 : !result.holder)
        return;
    print_error("expected the holder %s, got %s\n", holder ? holder : "none", result.holder ? result.holder : "none");
    _fail(file, line);
}

/* ---- changes ------------------------------------------------------------------------------------------- */

int see_change(const ten_change *change, void *userdata) {
    struct seen *seen = userdata;
    if (seen->count == SEEN_MAX)
        return 1;
    size_t i = seen->count++;
    seen->at[i].change = *change;
    snprintf(seen->at[i].namespace_name, sizeof seen->at[i].namespace_name, "%s", change->namespace_name);
    snprintf(seen->at[i].target, sizeof seen->at[i].target, "%s", change->target);
    snprintf(seen->at[i].instance, sizeof seen->at[i].instance, "%s", change->instance);
    snprintf(seen->at[i].actor, sizeof seen->at[i].actor, "%s", change->actor);
    seen->at[i].change.namespace_name = seen->at[i].namespace_name;
    seen->at[i].change.target = seen->at[i].target;
    seen->at[i].change.instance = seen->at[i].instance;
    seen->at[i].change.actor = seen->at[i].actor;
    return 0;
}

uint64_t cursor_now(ten_store *store, const char *ns) {
    uint64_t cursor = UINT64_MAX;
    struct seen none = {0};
    assert_int_equal(store->ops->changes(store, ns, &cursor, 10, see_change, &none, CALL_MS), TENURE_OK);
    assert_int_equal(none.count, 0);
    assert_true(cursor != UINT64_MAX);
    return cursor;
}

struct counted {
    const char *target;
    size_t count;
};

static int count_change(const ten_change *change, void *userdata) {
    struct counted *counted = userdata;
    counted->count += !counted->target || strcmp(change->target, counted->target) == 0;
    return 0;
}

size_t count_changes(const struct place *place, const char *target) {
    struct counted counted = {.target = target};
    uint64_t cursor = TEN_CURSOR_OLDEST;
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 2 * (size_t)TEN_FEED_MAX,
                                                count_change, &counted, CALL_MS),
                     TENURE_OK);
    return counted.count;
}

void read_changes(ten_store *store, const char *ns, uint64_t *cursor, struct seen *seen) {
    seen->count = 0;
    int r = store->ops->changes(store, ns, cursor, SEEN_MAX, see_change, seen, CALL_MS);
    if (r != TENURE_OK)
        fail_msg("cannot read changes: %s", store->error.message);
}

/* ---- other processes ----------------------------------------------------------------------------------- */

pid_t start_worker(const char *const *arguments) {
    char *argv[10] = {(char *)suite_program, (char *)"--worker"};
    size_t count = 2;
    for (; *arguments && count < TEN_COUNT(argv) - 1; arguments++)
        argv[count++] = (char *)*arguments;
    pid_t pid = 0;
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

void end_with_parent(void) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int wait_for_worker(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
