/*
 * What happens between the reading of a record and the commit that was prepared by it: somebody else is let in there, on
 * every store that is made of a backend. Each of these interleavings once led to a duplicate holder, a token granted twice, a
 * life that was cut short or a call without an end, on paper or in a prototype.
 */
#include <stdio.h>

#include "backend/shelf.h"
#include "conformance/suite.h"
#include "rules/namespace_row.h"

/* The place, by its other handle, and what is done there meanwhile. */
struct meanwhile {
    struct place place;
    uint64_t token, sent_ms;
    unsigned count;
};

static int setup(void **state) {
    int r = place_setup(state);
    struct place *place = *state;
    shelf_wrap(place->store);
    shelf_wrap(place->other);
    /* The namespace is there, and knows the TTL: the next commit is that of the operation. */
    (void)must_acquire(place, "first", "first", LONG_MS);
    return r;
}

static int teardown(void **state) {
    (void)shelf_end();
    return place_teardown(state);
}

#define INTERLEAVING(name) TEST_WITH(name, setup, teardown)

static struct meanwhile other_of(const struct place *place) {
    return (struct meanwhile){.place = elsewhere_of(place)};
}

/* Sends it, and lets the other one in before the call; once, and it must have been there. */
static ten_result apply_while(const struct place *place, ten_op op, enum shelf_call call, shelf_fn fn,
                              struct meanwhile *other) {
    op.namespace_name = place->ns;
    shelf_before(place->store, call, 1, fn, other);
    ten_result result = apply_one(place->store, op);
    assert_int_equal(shelf_end(), 0);
    return result;
}

static ten_op acquire_of(const char *target, const char *holder) {
    return (ten_op){.kind = TEN_OP_ACQUIRE, .target = target, .holder = holder, .ttl_ms = LONG_MS};
}

/* Everything that is free and not registered. */
static void forget(const struct place *place, const char *target) {
    ten_forget item = {.id = target};
    assert_int_equal(ten_store_forget(place->store, place->ns, &item, 1, CALL_MS), TENURE_OK);
    assert_int_equal(item.outcome, TEN_FORGET_DONE);
}

static ten_namespace_row row_of(const struct place *place) {
    ten_backend *backend = ((ten_record_store *)place->store)->backend;
    ten_record record = {.key = {TEN_KIND_NAMESPACE, ""}};
    ten_namespace_row row;
    assert_int_equal(backend->ops->read(backend, place->ns, &record, 1, CALL_MS), TENURE_OK);
    assert_true(ten_namespace_row_read(&record, &row));
    return row;
}

/* ---- who wins */

static void takes_it(void *userdata) {
    struct meanwhile *other = userdata;
    other->token = must_acquire(&other->place, "t", "other", LONG_MS);
}

INTERLEAVING(of_two_acquires_of_a_target_one_is_granted) {
    const struct place *place = *state;
    static const char *const before[] = {"never leased", "released", "forgotten"};
    for (size_t i = 0; i < TEN_COUNT(before); i++) {
        struct meanwhile other = other_of(place);
        if (i > 0)
            (void)use_once(place, "t");
        if (i == 2)
            forget(place, "t");
        ten_result result = apply_while(place, acquire_of("t", "me"), SHELF_COMMIT, takes_it, &other);
        expect_outcome(result, TEN_HELD);
        expect_holder(result, "other");
        assert_int_equal(result.token, other.token);
        expect_outcome(release(place, "t", "other", other.token), TEN_OK);
    }
}

static void forces_and_takes(void *userdata) {
    const struct meanwhile *other = userdata;
    expect_outcome(force(&other->place, "t", TEN_OP_FORCE_NOW, NULL), TEN_OK);
    takes_it(userdata);
}

/* The handle has acquired the lease itself, so it knows the record. */
INTERLEAVING(what_a_handle_knows_is_a_hint) {
    const struct place *place = *state;
    static const struct {
        enum ten_op_kind kind;
        unsigned flags;
        enum ten_outcome expected;
    } rows[] = {{TEN_OP_READ, 0, TEN_OK},
                {TEN_OP_ACQUIRE, 0, TEN_HELD},
                {TEN_OP_RENEW, 0, TEN_LOST},
                {TEN_OP_RELEASE, 0, TEN_LOST},
                {TEN_OP_HAND, 0, TEN_LOST},
                {TEN_OP_CHECKPOINT, 0, TEN_LOST},
                {TEN_OP_ACQUIRE, TEN_OP_FRESH, TEN_HELD}};
    for (size_t i = 0; i < TEN_COUNT(rows); i++) {
        struct meanwhile other = other_of(place);
        ten_op op = {.kind = rows[i].kind,
                     .flags = rows[i].flags,
                     .namespace_name = place->ns,
                     .target = "t",
                     .holder = rows[i].kind == TEN_OP_READ ? NULL : "me",
                     .token = must_acquire(place, "t", "me", LONG_MS),
                     .ttl_ms = LONG_MS,
                     .successor = "heir",
                     .checkpoint = "text"};
        forces_and_takes(&other);
        ten_result result = apply_one(place->store, op);
        if (result.outcome != rows[i].expected)
            fail_msg("row %zu: %s", i, ten_outcome_name(result.outcome));
        expect_holder(result, "other");
        expect_outcome(release(place, "t", "other", other.token), TEN_OK);
    }
}

/* ---- tokens */

static void uses_and_forgets(void *userdata) {
    struct meanwhile *other = userdata;
    other->token = use_once(&other->place, "t");
    forget(&other->place, "t");
}

INTERLEAVING(a_token_that_was_forgotten_meanwhile_is_not_granted_again) {
    const struct place *place = *state;
    struct meanwhile other = other_of(place);
    ten_result result = apply_while(place, acquire_of("t", "me"), SHELF_COMMIT, uses_and_forgets, &other);
    expect_outcome(result, TEN_OK);
    assert_true(result.token > other.token);
}

static void uses_it(void *userdata) {
    struct meanwhile *other = userdata;
    other->token = use_once(&other->place, "t");
    other->count++;
}

/* Before each commit of a step of forgetting: what it raises, and what it removes. */
INTERLEAVING(forgetting_never_loses_a_token) {
    const struct place *place = *state;
    for (unsigned times = 1; times <= 3; times++) {
        struct meanwhile other = other_of(place);
        (void)use_once(place, "t");
        shelf_before(place->store, SHELF_COMMIT, times, uses_it, &other);
        forget(place, "t");
        (void)shelf_end();
        assert_true(other.count > 0);
        assert_true(row_of(place).forgotten >= other.token);
        assert_true(must_acquire(place, "t", "me", LONG_MS) > other.token);
        expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, NULL), TEN_OK);
    }
}

/* ---- epochs */

/* Somebody shows a token that this store never granted. */
static void proves_a_loss(void *userdata) {
    struct meanwhile *other = userdata;
    ten_result result = renew(&other->place, "lost", "victim", row_of(&other->place).token_floor + 1000, LONG_MS);
    expect_outcome(result, TEN_OK);
}

INTERLEAVING(nothing_is_granted_that_was_prepared_before_an_epoch) {
    const struct place *place = *state;
    struct meanwhile other = other_of(place);
    uint64_t token = use_once(place, "t");
    ten_result result = apply_while(place, acquire_of("t", "me"), SHELF_COMMIT, proves_a_loss, &other);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    assert_int_equal(result.token, token);
    assert_null(read_lease(place, "t").holder);
}

/* The epoch lasts as long as the longest lease that was granted before it, whenever that was. */
INTERLEAVING(an_epoch_knows_of_every_ttl_that_was_granted) {
    const struct place *place = *state;
    for (unsigned times = 1; times <= 2; times++) { /* before the commit that raises it, and before the grant */
        struct meanwhile other = other_of(place);
        ten_op op = acquire_of("t", "me");
        uint64_t left_ms;
        op.namespace_name = place->ns;
        op.ttl_ms = LONG_MS * (1 + times);
        shelf_before(place->store, SHELF_COMMIT, times, proves_a_loss, &other);
        (void)apply_one(place->store, op);
        (void)shelf_end();
        assert_int_equal(place->store->ops->recovery(place->store, place->ns, 0, "operator", &left_ms, CALL_MS),
                         TENURE_OK);
        expect_outcome(apply_one(place->store, op), TEN_OK);
        assert_true(row_of(place).longest_ms >= op.ttl_ms);
        expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, NULL), TEN_OK);
    }
}

/* ---- lives */

static void beats_again(void *userdata) {
    struct meanwhile *other = userdata;
    other->sent_ms = now_ms();
    expect_outcome(beat(&other->place, "me", LONG_MS), TEN_OK);
}

/* Whether the lease ends no earlier than that. A store that is late with ends (etcd) tells whole seconds. The clock is
   read last: a slow answer must not look like an early end. */
static bool lasts_until(const struct place *place, uint64_t end_ms) {
    uint64_t left_ms = read_lease(place, "t").remaining_ms;
    return now_ms() + left_ms + ROUNDING_MS + (place->store->capabilities.expiry_late_ms ? 1000 : 0) >= end_ms;
}

/* Whoever sent the heartbeat believes for a TTL from its sending. */
INTERLEAVING(what_was_prepared_before_a_heartbeat_does_not_shorten_what_it_gave) {
    const struct place *place = *state;
    static const ten_op ops[] = {
        {.kind = TEN_OP_RELEASE, .flags = TEN_OP_FORCE, .target = "t"},
        {.kind = TEN_OP_RENEW, .target = "t", .holder = "me", .ttl_ms = LONG_MS / 8},
        {.kind = TEN_OP_ASK, .target = "t", .ask = TEN_ASK_RESIGN},
        {.kind = TEN_OP_LEAVE, .holder = "me", .ttl_ms = LONG_MS / 8},
    };
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        struct meanwhile other = other_of(place);
        expect_outcome(beat(place, "me", LONG_MS), TEN_OK);
        ten_op op = ops[i];
        op.token = must_take(place, "t", "me", LONG_MS);
        sleep_ms(80);
        expect_outcome(apply_while(place, op, SHELF_COMMIT, beats_again, &other), TEN_OK);
        expect_holder(read_lease(place, "t"), "me");
        if (!lasts_until(place, other.sent_ms + LONG_MS))
            fail_msg("row %zu: it ends earlier", i);
        expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, NULL), TEN_OK);
    }
}

static void renews_it(void *userdata) {
    struct meanwhile *other = userdata;
    other->sent_ms = now_ms();
    expect_outcome(renew(&other->place, "t", "me", other->token, LONG_MS), TEN_OK);
}

INTERLEAVING(attaching_never_shortens) {
    const struct place *place = *state;
    struct meanwhile other = other_of(place);
    other.token = must_acquire(place, "t", "me", LONG_MS);
    sleep_ms(20); /* it is attached only if the session ends later */
    expect_outcome(beat(place, "me", LONG_MS), TEN_OK);
    sleep_ms(80);
    ten_op op = {.kind = TEN_OP_RENEW,
                 .flags = TEN_OP_SESSION,
                 .target = "t",
                 .holder = "me",
                 .token = other.token,
                 .ttl_ms = LONG_MS};
    expect_outcome(apply_while(place, op, SHELF_COMMIT, renews_it, &other), TEN_OK);
    assert_true(lasts_until(place, other.sent_ms + LONG_MS));
}

/* ---- sessions */

static void forces_one(void *userdata) {
    struct meanwhile *other = userdata;
    char target[16];
    snprintf(target, sizeof target, "t%u", other->count++);
    expect_outcome(force(&other->place, target, TEN_OP_FORCE, NULL), TEN_OK);
}

INTERLEAVING(a_loop_of_forces_does_not_keep_a_holder_from_beating) {
    enum { LEASES = 12 };
    const struct place *place = *state;
    struct meanwhile other = other_of(place);
    char log[64];
    uint64_t version = beat(place, "me", LONG_MS).session_version;
    for (unsigned i = 0; i < LEASES; i++) {
        char target[16];
        snprintf(target, sizeof target, "t%u", i);
        (void)must_take(place, target, "me", LONG_MS);
    }
    shelf_before(place->store, SHELF_TOUCH, LEASES, forces_one, &other);
    shelf_log(place->store, log, sizeof log);
    ten_result result = beat(place, "me", LONG_MS);
    (void)shelf_end();
    expect_outcome(result, TEN_OK);
    assert_true(result.session_version != version);
    assert_string_equal(log, "tr"); /* extended, then read */
}

static void takes_another(void *userdata) {
    const struct meanwhile *other = userdata;
    (void)must_acquire(&other->place, "u", "other", LONG_MS);
}

INTERLEAVING(those_who_take_the_leases_of_a_dead_session_do_not_meet) {
    const struct place *place = *state;
    struct meanwhile other = other_of(place);
    uint64_t ttl_ms = short_ttl(place->store);
    char log[64];
    expect_outcome(beat(place, "dead", ttl_ms), TEN_OK);
    (void)must_take(place, "t", "dead", ttl_ms);
    (void)must_take(place, "u", "dead", ttl_ms);
    (void)must_take(place, "v", "dead", ttl_ms);
    expect_outcome(acquire_within(place, "v", "early", LONG_MS, HANG_MS), TEN_OK); /* ends its record */
    (void)read_lease(place, "t");
    ten_op op = acquire_of("t", "me");
    op.namespace_name = place->ns;
    shelf_before(place->store, SHELF_COMMIT, 1, takes_another, &other);
    shelf_log(place->store, log, sizeof log);
    expect_outcome(apply_one(place->store, op), TEN_OK);
    assert_int_equal(shelf_end(), 0);
    assert_null(strstr(log, "cc")); /* it went well at once */
}

static void its_session_ends(void *userdata) {
    const struct meanwhile *other = userdata;
    expect_outcome(
        apply_one(other->place.store,
                  (ten_op){.kind = TEN_OP_LEAVE, .namespace_name = other->place.ns, .holder = "me", .ttl_ms = LONG_MS}),
        TEN_OK);
}

INTERLEAVING(a_lease_is_not_attached_to_a_session_that_has_ended_meanwhile) {
    const struct place *place = *state;
    struct meanwhile other = other_of(place);
    expect_outcome(beat(place, "me", LONG_MS), TEN_OK);
    ten_op op = acquire_of("t", "me");
    op.flags = TEN_OP_SESSION;
    ten_result result = apply_while(place, op, SHELF_COMMIT, its_session_ends, &other);
    assert_int_equal(result.error, TENURE_E_GONE);
    assert_null(read_lease(place, "t").holder);
}

/* The record of the session lives on with another number: what was attached before is over. */
INTERLEAVING(a_lease_does_not_come_back_with_the_next_session_of_its_holder) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    uint64_t session = beat(place, "me", ttl_ms).session;
    (void)must_take(place, "t", "me", ttl_ms);
    while (read_lease(place, "t").holder)
        sleep_ms(10);
    ten_result result = beat(place, "me", LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_true(result.session != session);
    assert_null(read_lease(place, "t").holder);
    expect_outcome(acquire(place, "t", "other", LONG_MS), TEN_OK);
}

/* ---- checkpoints */

static void writes_a_checkpoint(void *userdata) {
    const struct meanwhile *other = userdata;
    expect_outcome(apply_one(other->place.store, (ten_op){.kind = TEN_OP_CHECKPOINT,
                                                          .namespace_name = other->place.ns,
                                                          .target = "t",
                                                          .holder = "me",
                                                          .token = other->token,
                                                          .checkpoint = "new"}),
                   TEN_OK);
}

INTERLEAVING(an_acquire_returns_no_checkpoint_from_before_the_last_write) {
    const struct place *place = *state;
    struct meanwhile other = other_of(place);
    other.token = must_acquire(place, "t", "me", LONG_MS);
    sleep_ms(5); /* there is something to extend */
    ten_op op = acquire_of("t", "me");
    op.flags = TEN_OP_WITH_CHECKPOINT;
    ten_result result = apply_while(place, op, SHELF_COMMIT, writes_a_checkpoint, &other);
    expect_outcome(result, TEN_OK);
    assert_non_null(result.checkpoint);
    assert_string_equal(result.checkpoint, "new");
}

/* ---- a record that cannot be read */

/* By hand, so to speak: the record has this value now, and all else as it was. */
static void write_by_hand(const struct place *place, ten_key key, const char *value, char *ret_before, size_t size) {
    ten_backend *backend = ((ten_record_store *)place->other)->backend;
    ten_record record = {.key = key};
    assert_int_equal(backend->ops->read(backend, place->ns, &record, 1, CALL_MS), TENURE_OK);
    snprintf(ret_before, size, "%s", record.value);
    char name[TENURE_HOLDER_MAX + 1];
    snprintf(name, sizeof name, "%s", record.name);
    ten_check check = {.key = key, .version = record.version, .name = name};
    ten_write write = {.kind = TEN_WRITE_PUT,
                       .key = key,
                       .value = value,
                       .name = name,
                       .number = record.number,
                       .life = TEN_LIFE_AS_IT_IS};
    ten_commit_change change = {.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
    ten_commit commit = {.namespace_name = place->ns,
                         .identity = backend->identity,
                         .epoch = row_of(place).epoch,
                         .changes = &change,
                         .count = 1};
    assert_int_equal(backend->ops->commit(backend, &commit, CALL_MS), TENURE_OK);
    assert_false(change.conflict);
}

/* It was once kept as a hint that nobody read again, and failed every batch that it was in. */
INTERLEAVING(a_damaged_record_costs_its_own_target_until_it_is_restored) {
    const struct place *place = *state;
    const ten_key lease = {TEN_KIND_LEASE, "t"};
    char whole[512];
    char junk[512];
    uint64_t tokens[] = {must_acquire(place, "t", "me", LONG_MS), must_acquire(place, "u", "me", LONG_MS)};
    write_by_hand(place, lease, "junk", whole, sizeof whole);
    for (unsigned i = 0; i < 4; i++) {
        ten_op ops[] = {{.kind = TEN_OP_RELEASE, .target = "t", .holder = "me", .token = tokens[0]},
                        {.kind = TEN_OP_RENEW, .target = "u", .holder = "me", .token = tokens[1], .ttl_ms = LONG_MS}};
        ten_result results[TEN_COUNT(ops)];
        if (i == 2)
            write_by_hand(place, lease, whole, junk, sizeof junk);
        for (size_t j = 0; j < TEN_COUNT(ops); j++)
            ops[j].namespace_name = place->ns;
        assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
        expect_outcome(results[0], i < 2 ? TEN_ERROR : i == 2 ? TEN_OK : TEN_LOST);
        expect_outcome(results[1], TEN_OK);
        if (i < 2) {
            assert_int_equal(results[0].error, TENURE_E_STORE);
            assert_non_null(strstr(place->store->error.message, "the record of t "));
        }
    }
}

/* ---- rounds */

INTERLEAVING(a_new_handle_reads_all_at_once_and_does_nothing_before) {
    struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    char log[64];
    expect_outcome(beat(place, "dead", ttl_ms), TEN_OK);
    (void)must_take(place, "t", "dead", ttl_ms);
    while (read_lease(place, "t").holder)
        sleep_ms(10);
    ten_op ops[] = {acquire_of("t", "me"),
                    {.kind = TEN_OP_RENEW, .target = "lost", .holder = "victim", .token = 1000, .ttl_ms = LONG_MS},
                    {.kind = TEN_OP_ANNOUNCE, .holder = "me", .ttl_ms = LONG_MS, .weight = 1}};
    ten_result results[TEN_COUNT(ops)];
    for (size_t i = 0; i < TEN_COUNT(ops); i++)
        ops[i].namespace_name = place->ns;
    shelf_log(place->other, log, sizeof log);
    assert_int_equal(ten_store_apply(place->other, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    (void)shelf_end();
    assert_int_equal(log[0], 'r');
    expect_outcome(results[1], TEN_OK);
    assert_true(row_of(place).epoch > 1);
}

static void changes_it(void *userdata) {
    struct meanwhile *other = userdata;
    expect_outcome(apply_one(other->place.store, (ten_op){.kind = TEN_OP_ASK,
                                                          .namespace_name = other->place.ns,
                                                          .target = "t",
                                                          .ask = other->count++ % 2 ? TEN_ASK_UNDO : TEN_ASK_RESIGN}),
                   TEN_OK);
}

INTERLEAVING(a_call_ends_though_others_are_in_the_way_all_the_time) {
    const struct place *place = *state;
    struct meanwhile other = other_of(place);
    (void)must_acquire(place, "t", "me", LONG_MS);
    ten_op op = {.kind = TEN_OP_RELEASE, .namespace_name = place->ns, .target = "t", .holder = "me"};
    ten_result result;
    shelf_before(place->store, SHELF_COMMIT, 20000, changes_it, &other);
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 100), TENURE_E_TIMEOUT);
    (void)shelf_end();
    assert_true(other.count < 20000);
}
