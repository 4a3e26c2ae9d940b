/*
 * Marks, by which a holder of many leases knows that all of them are its own (store/etcd/etcd_state.h): whatever is done to
 * one of them is noticed by the next renewal, whoever does it and however it comes about. What is done to keys by hand is
 * test_etcd_store.c.
 */
#include "conformance/etcd/etcd_place.h"

#include <stdio.h>
#include <stdlib.h>

/* Whoever writes to a lease makes its holder look at all of them once, not for ever. */
ETCD_CASE(renewals_are_cheap_again_after_somebody_has_asked_for_a_lease) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    ten_op ask = {.kind = TEN_OP_ASK, .namespace_name = place->ns, .target = "t-5", .ask = TEN_ASK_RESIGN};
    expect_outcome(apply_one(place->other, ask), TEN_OK);
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(many->results[5].ask, TEN_ASK_RESIGN);
    assert_int_equal(many_renew(place, many), 0);
    uint64_t before = etcd_calls_served();
    for (int i = 0; i < 5; i++)
        assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(many->results[5].ask, TEN_ASK_RESIGN);
    uint64_t calls = etcd_calls_served() - before;
    if (calls > 10)
        fail_msg("5 renewals of 300 leases were %llu requests", (unsigned long long)calls);
}

/* It would end by the renewals of the other handle, which may come to an end. */
ETCD_CASE(what_another_handle_renews_among_three_hundred_comes_back) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    uint64_t home = etcd_key_fact(place, "t-217", "lease");
    expect_outcome(renew(&elsewhere, "t-217", NULL, many->ops[217].token, 0), TEN_OK);
    assert_true(etcd_key_fact(place, "t-217", "lease") != home);
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(etcd_key_fact(place, "t-217", "lease"), home);
    assert_int_equal(many_renew(place, many), 0);
}

ETCD_CASE(what_is_forced_among_three_hundred_is_lost_at_once) {
    const struct place *place = *state;
    struct place other = elsewhere_of(place);
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    for (size_t i = 1; i <= 3; i++) {
        expect_outcome(force(&other, many->targets[i * 70], TEN_OP_FORCE_NOW, "root"), TEN_OK);
        must_acquire(&other, many->targets[i * 70], "rival", LONG_MS);
        assert_int_equal(many_renew(place, many), i);
        expect_holder(many->results[i * 70], "rival");
    }
}

/* By a commit that says neither which version nor whose it is. */
static void write_unseen(const struct place *place, const char *target) {
    ten_backend *backend = &etcd_backend(place->other)->base;
    ten_key key = {TEN_KIND_LEASE, target};
    ten_record seen[] = {{.key = {TEN_KIND_NAMESPACE, ""}}, {.key = key}};
    assert_int_equal(backend->ops->read(backend, place->ns, seen, TEN_COUNT(seen), CALL_MS), TENURE_OK);
    char *identity = strdup(seen[0].name);
    char *value = strdup(seen[1].value);
    ten_check check = {.key = key, .version = TEN_VERSION_ANY, .life = TEN_CHECK_EITHER};
    ten_write write = {.kind = TEN_WRITE_PUT,
                       .key = key,
                       .value = value,
                       .name = "rival",
                       .number = seen[1].number + 1,
                       .life = TEN_LIFE_FOR(LONG_MS)};
    ten_commit_change change = {.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
    ten_commit commit = {
        .namespace_name = place->ns, .identity = identity, .epoch = seen[0].number, .changes = &change, .count = 1};
    assert_int_equal(backend->ops->commit(backend, &commit, CALL_MS), TENURE_OK);
    assert_false(change.conflict);
    free(identity);
    free(value);
}

ETCD_CASE(what_is_written_by_whoever_does_not_know_its_name_is_lost_at_once) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(many_renew(place, many), 0);
    for (size_t i = 1; i <= 3; i++) {
        write_unseen(place, many->targets[i * 70]);
        assert_int_equal(many_renew(place, many), i);
        expect_holder(many->results[i * 70], "rival");
    }
}

static void force_and_take(const struct place *place, const char *target) {
    struct place other = elsewhere_of(place);
    expect_outcome(force(&other, target, TEN_OP_FORCE_NOW, "root"), TEN_OK);
    must_acquire(&other, target, "rival", LONG_MS);
}

static void take_the_third(const struct place *place) {
    force_and_take(place, "t-217");
}

/* What it writes itself raises its mark, and so did somebody just before. */
ETCD_CASE(what_is_taken_just_before_a_write_of_the_holder_is_lost_at_once) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(many_renew(place, many), 0);
    etcd_wire.place = place;
    etcd_wire.before = take_the_third;
    etcd_wire.hook_path = "/v3/kv/txn";
    etcd_wire.hook_body = "requestPut";
    expect_outcome(release(place, "t-5", "a", many->ops[5].token), TEN_OK);
    assert_int_equal(etcd_wire.hooked, 1);
    assert_int_equal(many_renew(place, many), 2);
    expect_holder(many->results[217], "rival");
}

/* Nobody is told while there is no mark; and the next one is another. */
ETCD_CASE(what_is_taken_while_the_mark_is_gone_is_lost_at_once) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(many_renew(place, many), 0);
    for (size_t i = 1; i <= 3; i++) {
        assert_true(etcd_fact(place, "mark/a", "mod_revision") > 0);
        (void)etcdctl("del tenure/%s/mark/a", place->ns);
        force_and_take(place, many->targets[i * 70]);
        if (i > 1) /* another handle of the same holder makes it anew */
            (void)many_renew(&elsewhere, many);
        assert_int_equal(many_renew(place, many), i);
        expect_holder(many->results[i * 70], "rival");
    }
}

/* Those before it fill a transaction, and are nobody's who has a mark. */
ETCD_CASE(what_is_forced_at_the_end_of_a_long_batch_is_lost_at_once) {
    const struct place *place = *state;
    enum { BEFORE = 150 };
    static char targets[BEFORE + 1][8];
    static ten_op ops[BEFORE + 1];
    static ten_result results[BEFORE + 1];
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    for (unsigned i = 0; i <= BEFORE; i++) {
        snprintf(targets[i], sizeof targets[i], i < BEFORE ? "z-%u" : "t-217", i);
        ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                          .namespace_name = place->ns,
                          .target = targets[i],
                          .holder = "z",
                          .ttl_ms = LONG_MS};
    }
    assert_int_equal(ten_store_apply(place->other, ops, results, BEFORE, CALL_MS), TENURE_OK);
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(many_renew(place, many), 0);
    for (size_t i = 0; i <= BEFORE; i++)
        ops[i] = (ten_op){.kind = TEN_OP_RELEASE,
                          .flags = TEN_OP_FORCE_NOW,
                          .namespace_name = place->ns,
                          .target = targets[i],
                          .actor = "root"};
    assert_int_equal(ten_store_apply(place->other, ops, results, BEFORE + 1, CALL_MS), TENURE_OK);
    for (size_t i = 0; i <= BEFORE; i++)
        expect_outcome(results[i], TEN_OK);
    assert_int_equal(many_renew(place, many), 1);
    expect_outcome(many->results[217], TEN_LOST);
}

/* ---- many holders of one handle */

enum { HOLDERS = 56, EACH = 16, HELD = HOLDERS * EACH, ALL_HELD = HELD + HOLDERS };
struct holders {
    char names[HOLDERS][8];
    char targets[ALL_HELD][8];
    ten_op ops[ALL_HELD];
    ten_result results[ALL_HELD];
};

static struct holders *holders_acquire(const struct place *place) {
    static struct holders all;
    all = (struct holders){0};
    for (unsigned i = 0; i < ALL_HELD; i++) {
        snprintf(all.names[i % HOLDERS], sizeof all.names[0], "h-%u", i % HOLDERS);
        snprintf(all.targets[i], sizeof all.targets[0], "t-%u", i);
        all.ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                              .namespace_name = place->ns,
                              .target = all.targets[i],
                              .holder = all.names[i % HOLDERS],
                              .ttl_ms = LONG_MS};
    }
    assert_int_equal(ten_store_apply(place->store, all.ops, all.results, HELD, 4 * CALL_MS), TENURE_OK);
    assert_int_equal(ten_store_apply(place->store, all.ops + HELD, all.results + HELD, HOLDERS, 4 * CALL_MS),
                     TENURE_OK);
    for (size_t i = 0; i < ALL_HELD; i++) {
        expect_outcome(all.results[i], TEN_OK);
        all.ops[i].kind = TEN_OP_RENEW;
        all.ops[i].token = all.results[i].token;
    }
    return &all;
}

static void holders_renew(const struct place *place, struct holders *all) {
    assert_int_equal(ten_store_apply(place->store, all->ops, all->results, ALL_HELD, 4 * CALL_MS), TENURE_OK);
}

static void at_each(const struct place *place, const struct holders *all, size_t first, size_t count, ten_op op) {
    static ten_op ops[ALL_HELD];
    static ten_result results[ALL_HELD];
    op.namespace_name = place->ns;
    for (size_t i = 0; i < count; i++) {
        ops[i] = op;
        ops[i].target = all->targets[first + i];
    }
    assert_int_equal(ten_store_apply(place->other, ops, results, count, 4 * CALL_MS), TENURE_OK);
    for (size_t i = 0; i < count; i++)
        expect_outcome(results[i], TEN_OK);
}

/* More than one transaction, and each holder has a mark. */
ETCD_CASE(what_is_forced_in_one_batch_of_many_holders_is_lost_at_once) {
    const struct place *place = *state;
    struct holders *all = holders_acquire(place);
    for (int round = 0; round < 4; round++) /* each gets its mark */
        holders_renew(place, all);
    for (size_t i = 0; i < HOLDERS; i++) {
        char mark[16];
        snprintf(mark, sizeof mark, "mark/%s", all->names[i]);
        assert_true(etcd_fact(place, mark, "mod_revision") > 0);
    }
    at_each(place, all, 0, HELD / 2, (ten_op){.kind = TEN_OP_RELEASE, .flags = TEN_OP_FORCE_NOW, .actor = "root"});
    holders_renew(place, all);
    for (size_t i = 0; i < ALL_HELD; i++)
        expect_outcome(all->results[i], i < HELD / 2 ? TEN_LOST : TEN_OK);
}

static struct holders *asked;

static void ask_each(const struct place *place) {
    at_each(place, asked, HELD, HOLDERS, (ten_op){.kind = TEN_OP_ASK, .ask = TEN_ASK_RESIGN});
}

/* Before they move to the others of their holder: they are read again, beside marks. */
ETCD_CASE(what_many_holders_are_asked_for_in_between_is_renewed) {
    const struct place *place = *state;
    asked = holders_acquire(place);
    etcd_wire.place = place;
    etcd_wire.before = ask_each;
    etcd_wire.hook_path = "/v3/kv/txn";
    etcd_wire.hook_body = "ignore_lease";
    holders_renew(place, asked);
    assert_int_equal(etcd_wire.hooked, 1);
    for (size_t i = 0; i < ALL_HELD; i++)
        expect_outcome(asked->results[i], TEN_OK);
}

/* What this handle has written itself counts as what others do: it does not know whether it came to pass, or when. */
ETCD_CASE(a_release_among_three_hundred_whose_reply_was_lost_is_noticed) {
    const struct place *place = *state;
    struct place other = elsewhere_of(place);
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    ten_op op = many->ops[217];
    op.kind = TEN_OP_RELEASE;
    etcd_wire.lose_path = "/v3/kv/txn";
    etcd_wire.lose_body = "requestPut";
    ten_result result;
    assert_true(ten_store_apply(place->store, &op, &result, 1, CALL_MS) < 0);
    assert_int_equal(etcd_wire.lost, 1);
    must_acquire(&other, "t-217", "rival", LONG_MS);
    assert_int_equal(many_renew(place, many), 1);
    expect_holder(many->results[217], "rival");
}

/* What a handle does itself does not make it look at all of them. */
ETCD_CASE(renewals_stay_cheap_while_their_holder_acquires_and_releases) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(many_renew(place, many), 0);
    for (int i = 0; i < 5; i++) {
        uint64_t token = must_acquire(place, "more", "a", LONG_MS);
        expect_outcome(release(place, "more", "a", token), TEN_OK);
        etcd_wire.sent = 0;
        assert_int_equal(many_renew(place, many), 0);
        assert_true(etcd_wire.sent < 20000);
    }
}

TEST_GROUP(etcd_group_setup, etcd_group_teardown)
