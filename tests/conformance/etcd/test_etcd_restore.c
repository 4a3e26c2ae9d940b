/*
 * An etcd that came back older than it was: a snapshot is saved, leases go on, and the snapshot is restored into a new
 * data directory, as `etcdctl snapshot restore` does it. Revisions go back, and nothing in etcd says so. Newcomers are
 * held off, holders put back what is theirs, and no token is lower than one that was granted.
 */
#include "conformance/etcd/etcd_place.h"

#include <stdio.h>
#include <stdlib.h>

static unsigned restores;

static struct place opened(const struct place *place) {
    char url[FIXTURE_URL_SIZE];
    etcd_url(url, "");
    struct place copy = {.store = open_store(url)};
    memcpy(copy.ns, place->ns, sizeof copy.ns);
    return copy;
}

static char snapshot[FIXTURE_PATH_SIZE];

static void save_snapshot(void) {
    snprintf(snapshot, sizeof snapshot, "%.480s.snapshot", etcd_member.data);
    (void)etcdctl("snapshot save %s", snapshot);
}

/* The member is killed, and goes on with what the snapshot has; NULL: of a cluster with the same id. */
static void restore_snapshot(const char *cluster_token) {
    char data[sizeof etcd_member.data];
    snprintf(data, sizeof data, "%.480s-%u", etcd_member.data, ++restores);
    etcd_stop(&etcd_member);
    (void)etcdctl("snapshot restore %s --name only --data-dir %s --initial-cluster only=http://127.0.0.1:%d "
                  "--initial-advertise-peer-urls http://127.0.0.1:%d --initial-cluster-token %s",
                  snapshot, data, etcd_member.peer_port, etcd_member.peer_port,
                  cluster_token ? cluster_token : "etcd-cluster");
    memcpy(etcd_member.data, data, sizeof data);
    assert_true(etcd_start_again(&etcd_member));
}

static void expect_recovering(ten_result result) {
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    assert_null(result.holder);
    assert_in_range(result.remaining_ms, 1, LONG_MS);
}

/* As if the TTLs had passed. */
static void end_quarantine(const struct place *place) {
    etcd_revoke(etcd_fact(place, "quarantine/", "lease"));
}

static bool has_epoch(ten_store *store, const char *ns, uint64_t cursor) {
    struct seen seen = {0};
    (void)store->ops->changes(store, ns, &cursor, SEEN_MAX, see_change, &seen, CALL_MS);
    return seen.count > 0 && seen.at[0].change.kind == TENURE_EVENT_RECOVERING;
}

/* Released and taken by another after the snapshot; acquired after it; held all the time. */
ETCD_CASE(a_restored_snapshot_costs_no_living_holder_its_lease_and_lets_nobody_in) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    uint64_t steady = must_acquire(place, "steady", "a", LONG_MS);
    uint64_t older = must_acquire(place, "moved", "a", LONG_MS);
    save_snapshot();
    expect_outcome(release(place, "moved", "a", older), TEN_OK);
    uint64_t moved = must_acquire(&elsewhere, "moved", "b", LONG_MS);
    uint64_t fresh = must_acquire(&elsewhere, "new", "b", LONG_MS);
    uint64_t gone = must_acquire(&elsewhere, "released", "b", LONG_MS);
    expect_outcome(release(&elsewhere, "released", "b", gone), TEN_OK);
    uint64_t cursor = cursor_now(place->store, place->ns);
    restore_snapshot(NULL);

    /* A newcomer is the first to come, before any holder has shown what it knows. */
    struct place newcomer = opened(place);
    expect_recovering(acquire(&newcomer, "new", "c", LONG_MS));
    expect_recovering(acquire(&newcomer, "released", "c", LONG_MS));
    assert_true(has_epoch(newcomer.store, place->ns, cursor));
    expect_outcome(renew(place, "steady", "a", steady, LONG_MS), TEN_OK);
    expect_outcome(renew(&elsewhere, "moved", "b", moved, LONG_MS), TEN_OK);
    expect_outcome(renew(&elsewhere, "new", "b", fresh, LONG_MS), TEN_OK);
    expect_outcome(renew(place, "moved", "a", older, LONG_MS), TEN_LOST);
    expect_holder(acquire(&newcomer, "new", "c", LONG_MS), "b");
    for (int i = 0; i < 2; i++) {
        expect_outcome(renew(&elsewhere, "moved", "b", moved, LONG_MS), TEN_OK);
        expect_outcome(renew(&elsewhere, "new", "b", fresh, LONG_MS), TEN_OK);
    }

    /* Whatever is granted later is above everything that was. */
    expect_outcome(release(&elsewhere, "moved", "b", moved), TEN_OK);
    expect_recovering(acquire(&newcomer, "moved", "c", LONG_MS));
    end_quarantine(place);
    uint64_t last = must_acquire(&newcomer, "moved", "c", LONG_MS);
    assert_true(last > moved);
    assert_true(must_acquire(&newcomer, "released", "c", LONG_MS) > gone);
    expect_outcome(renew(&newcomer, "moved", "c", last, LONG_MS), TEN_OK);
    expect_outcome(release(&newcomer, "moved", "c", last), TEN_OK);
    assert_true(must_acquire(place, "moved", "a", LONG_MS) > last);
    expect_holder(acquire(&newcomer, "steady", "c", LONG_MS), "a");
    ten_store_close(newcomer.store);
}

ETCD_CASE(a_snapshot_that_is_restored_twice_is_noticed_twice) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    save_snapshot();
    for (int i = 0; i < 2; i++) {
        restore_snapshot(NULL);
        struct place newcomer = opened(place);
        expect_recovering(acquire(&newcomer, "t", "b", LONG_MS));
        end_quarantine(place);
        uint64_t next = must_acquire(&newcomer, "t", "b", LONG_MS);
        assert_true(next > token);
        expect_outcome(release(&newcomer, "t", "b", next), TEN_OK);
        token = next;
        ten_store_close(newcomer.store);
    }
}

/* Programs that run stay with the cluster that they began with; those that start find the loss. */
ETCD_CASE(a_snapshot_restored_as_another_cluster_is_noticed) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    save_snapshot();
    restore_snapshot("another");
    ten_op op = {.kind = TEN_OP_RENEW, .namespace_name = place->ns, .target = "t", .holder = "a", .token = token};
    ten_result result;
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, CALL_MS), TENURE_E_STORE);
    assert_non_null(strstr(place->store->error.message, "restart this program"));
    struct place newcomer = opened(place);
    expect_recovering(acquire(&newcomer, "u", "b", LONG_MS));
    expect_holder(acquire(&newcomer, "t", "b", LONG_MS), "a");
    expect_outcome(renew(&newcomer, "t", "a", token, LONG_MS), TEN_OK);
    ten_store_close(newcomer.store);
}

/* Nothing is restored: a change of leader, or a connection that was lost, is no loss of data. */
ETCD_CASE(a_restart_without_a_loss_begins_no_epoch) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    for (int i = 0; i < 2; i++) {
        etcd_restart();
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
        char target[16];
        snprintf(target, sizeof target, "new-%d", i);
        must_acquire(place, target, "a", LONG_MS);
    }
    assert_false(has_epoch(place->other, place->ns, cursor));
}

/* Nothing but a holder's word is left. */
ETCD_CASE(a_token_above_the_counter_proves_that_keys_were_deleted) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    uint64_t kept = must_acquire(place, "t", "a", LONG_MS);
    uint64_t other = must_acquire(&elsewhere, "u", "b", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    (void)etcdctl("del --prefix tenure/%s/", place->ns);
    expect_outcome(renew(place, "t", "a", TENURE_TOKEN_MAX, LONG_MS), TEN_LOST); /* a mistake proves nothing, */
    expect_outcome(renew(place, "t", NULL, kept, LONG_MS), TEN_LOST);            /* nor who is nobody, */
    expect_outcome(renew(place, "t", "a", kept, 0), TEN_LOST);                   /* or does not say for how long */
    assert_int_equal(etcd_fact(place, "quarantine/", "lease"), 0);
    expect_outcome(renew(place, "t", "a", kept, LONG_MS), TEN_OK);
    assert_true(etcd_fact(place, "quarantine/", "lease") > 0);
    assert_true(has_epoch(place->other, place->ns, cursor));
    expect_recovering(acquire(place, "u", "c", LONG_MS));
    expect_outcome(renew(place, "v", "c", TENURE_TOKEN_MAX, LONG_MS), TEN_LOST);
    expect_outcome(renew(&elsewhere, "u", "b", other, LONG_MS), TEN_OK);
    expect_outcome(release(&elsewhere, "u", "b", other), TEN_OK);
    end_quarantine(place);
    uint64_t next = must_acquire(place, "u", "c", LONG_MS);
    assert_true(next > other && next < TENURE_TOKEN_MAX / 2);
    expect_outcome(renew(&elsewhere, "u", "b", other, LONG_MS), TEN_LOST); /* and is no proof any more */
    must_acquire(place, "w", "c", LONG_MS);
}

TEST_GROUP(etcd_group_setup, etcd_group_teardown)
