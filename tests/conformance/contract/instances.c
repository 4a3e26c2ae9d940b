/*
 * The store contract: instances announce themselves, are listed, leave, expire and are declared gone; and what somebody
 * asks of a holder or an instance comes back in its next renewal or heartbeat.
 */
#include "conformance/suite.h"

#include <stdio.h>

/* ---- helpers ------------------------------------------------------------------------------------------- */

static ten_result announce_as(const struct place *place, const char *instance, uint64_t ttl_ms, uint32_t weight,
                              const char *metadata) {
    return apply_at(
        place,
        (ten_op){
            .kind = TEN_OP_ANNOUNCE, .holder = instance, .ttl_ms = ttl_ms, .weight = weight, .metadata = metadata});
}

struct found {
    const char *wanted;
    size_t count;
    size_t matches;
    ten_instance instance;
    char metadata[128];
};

static int note_instance(const ten_instance *instance, void *userdata) {
    struct found *found = userdata;
    found->count++;
    if (strcmp(instance->instance, found->wanted) == 0) {
        found->matches++;
        found->instance = *instance;
        snprintf(found->metadata, sizeof found->metadata, "%s", instance->metadata ? instance->metadata : "(none)");
    }
    return 0;
}

static struct found find(const struct place *place, const char *instance) {
    struct found found = {.wanted = instance};
    assert_int_equal(place->other->ops->list_instances(place->other, place->ns, note_instance, &found, CALL_MS),
                     TENURE_OK);
    assert_true(found.matches <= 1);
    return found;
}

/* ---- announcing ---------------------------------------------------------------------------------------- */

CASE(an_announced_instance_is_listed_with_all_that_it_said) {
    const struct place *place = *state;
    uint64_t wall_ms = ten_wall_ms(&ten_system_clock);
    ten_result result = announce_as(place, "a", LONG_MS, 3, "{\"plan\":1}");
    expect_outcome(result, TEN_OK);
    assert_in_range(result.ttl_ms, LONG_MS, LONG_MS + 1000);
    expect_outcome(announce_as(place, "b", LONG_MS, 0, NULL), TEN_OK);
    struct found found = find(place, "a");
    assert_int_equal(found.count, 2);
    assert_int_equal(found.matches, 1);
    assert_int_equal(found.instance.weight, 3);
    assert_string_equal(found.metadata, "{\"plan\":1}");
    assert_in_range(found.instance.ttl_ms, LONG_MS, LONG_MS + 1000);
    assert_in_range(found.instance.remaining_ms, LONG_MS - LONG_MS / 4, LONG_MS + 1000);
    assert_in_range(found.instance.since_ms, wall_ms - 60000, wall_ms + 60000);
    assert_int_equal(found.instance.ask, TEN_ASK_NOTHING);
    found = find(place, "b");
    assert_int_equal(found.instance.weight, 0);
    assert_string_equal(found.metadata, "(none)");
}

CASE(a_heartbeat_lengthens_the_life_and_changes_nothing_else) {
    const struct place *place = *state;
    uint64_t ttl_ms = kept_ttl(place->store);
    expect_outcome(announce_as(place, "a", ttl_ms, 1, "m"), TEN_OK);
    uint64_t since_ms = find(place, "a").instance.since_ms;
    uint64_t cursor = cursor_now(place->store, place->ns);
    for (int i = 0; i < 6; i++) {
        sleep_ms(ttl_ms / 4);
        expect_outcome(announce_as(place, "a", ttl_ms, 1, "m"), TEN_OK);
    }
    struct found found = find(place, "a");
    assert_int_equal(found.matches, 1);
    assert_int_equal(found.instance.since_ms, since_ms);
    struct seen seen = {0};
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 0);
}

CASE(another_weight_and_other_metadata_are_changes) {
    const struct place *place = *state;
    uint64_t cursor = cursor_now(place->store, place->ns);
    expect_outcome(announce_as(place, "a", LONG_MS, 1, "m"), TEN_OK);
    expect_outcome(announce_as(place, "a", LONG_MS, 0, "m"), TEN_OK);
    assert_int_equal(find(place, "a").instance.weight, 0);
    expect_outcome(announce_as(place, "a", LONG_MS, 0, "n"), TEN_OK);
    assert_string_equal(find(place, "a").metadata, "n");
    expect_outcome(announce_as(place, "a", LONG_MS, 0, NULL), TEN_OK);
    assert_string_equal(find(place, "a").metadata, "(none)");
    expect_outcome(announce_as(place, "a", LONG_MS, 0, NULL), TEN_OK);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 4);
    for (size_t i = 0; i < seen.count; i++) {
        assert_int_equal(seen.at[i].change.kind, i ? TENURE_EVENT_INSTANCE_CHANGED : TENURE_EVENT_JOINED);
        assert_string_equal(seen.at[i].change.instance, "a");
        assert_string_equal(seen.at[i].change.target, "");
        assert_int_equal(seen.at[i].change.token, 0);
    }
}

CASE(an_instance_that_leaves_is_gone_from_the_list_and_may_come_back) {
    const struct place *place = *state;
    expect_outcome(leave(place, "a", 0), TEN_LOST);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    uint64_t cursor = cursor_now(place->store, place->ns);
    expect_outcome(leave(place, "a", 0), TEN_OK);
    assert_int_equal(find(place, "a").count, 0);
    expect_outcome(leave(place, "a", 0), TEN_LOST);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    assert_int_equal(find(place, "a").matches, 1);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_LEFT);
    assert_int_equal(seen.at[0].change.reason, TEN_REASON_SHUTDOWN);
    assert_int_equal(seen.at[1].change.kind, TENURE_EVENT_JOINED);
}

CASE(a_silent_instance_drops_out_of_the_list_when_its_ttl_has_passed) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    uint64_t start_ms = now_ms();
    expect_outcome(announce(place, "a", ttl_ms), TEN_OK);
    uint64_t cursor = cursor_now(place->store, place->ns);
    while (find(place, "a").matches && now_ms() < start_ms + HANG_MS)
        sleep_ms(5);
    assert_int_equal(find(place, "a").matches, 0);
    assert_true(now_ms() - start_ms + ROUNDING_MS >= ttl_ms);
    /* The feed learns of it, at the latest when the next one joins. */
    expect_outcome(announce(place, "b", ttl_ms), TEN_OK);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_LEFT);
    assert_int_equal(seen.at[0].change.reason, TEN_REASON_EXPIRED);
    assert_string_equal(seen.at[0].change.instance, "a");
}

CASE(another_ttl_than_the_fleets_is_refused_and_the_fleets_is_told) {
    const struct place *place = *state;
    struct place elsewhere = *place;
    make_namespace(elsewhere.ns);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    ten_result result = announce(place, "b", LONG_MS / 2);
    expect_outcome(result, TEN_ERROR);
    assert_int_equal(result.error, TENURE_E_TTL);
    assert_int_equal(result.ttl_ms, LONG_MS);
    assert_int_equal(find(place, "b").matches, 0);
    expect_outcome(announce(place, "b", LONG_MS), TEN_OK);
    expect_outcome(announce(&elsewhere, "b", LONG_MS / 2), TEN_OK);
    /* When the others are gone there is no fleet to differ from. */
    expect_outcome(leave(place, "a", 0), TEN_OK);
    expect_outcome(leave(place, "b", 0), TEN_OK);
    expect_outcome(announce(place, "c", LONG_MS / 2), TEN_OK);
}

CASE(the_same_instance_in_another_namespace_is_another_instance) {
    const struct place *place = *state;
    struct place elsewhere = *place;
    make_namespace(elsewhere.ns);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    assert_int_equal(find(&elsewhere, "a").count, 0);
    expect_outcome(leave(&elsewhere, "a", 0), TEN_LOST);
    assert_int_equal(find(place, "a").matches, 1);
}

/* ---- tombstones ---------------------------------------------------------------------------------------- */

CASE(a_tombstone_refuses_late_requests_of_the_dead_until_it_ends) {
    const struct place *place = *state;
    uint64_t ttl_ms = kept_ttl(place->store);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    uint64_t start_ms = now_ms();
    expect_outcome(leave(place, "a", ttl_ms), TEN_OK);
    assert_int_equal(find(place, "a").count, 0);
    ten_result result = acquire(place, "t", "a", LONG_MS);
    expect_outcome(result, TEN_ERROR);
    assert_int_equal(result.error, TENURE_E_GONE);
    result = announce(place, "a", LONG_MS);
    expect_outcome(result, TEN_ERROR);
    assert_int_equal(result.error, TENURE_E_GONE);
    expect_holder(read_lease(place, "t"), NULL);
    assert_int_equal(find(place, "a").count, 0);
    expect_outcome(acquire(place, "t", "b", short_ttl(place->store)), TEN_OK);
    do {
        sleep_ms(5);
        result = announce(place, "a", LONG_MS);
    } while (result.outcome == TEN_ERROR && now_ms() < start_ms + HANG_MS);
    expect_outcome(result, TEN_OK);
    assert_true(now_ms() - start_ms + ROUNDING_MS >= ttl_ms);
    expect_outcome(acquire_within(place, "t", "a", LONG_MS, HANG_MS), TEN_OK);
}

CASE(a_tombstone_can_be_set_for_an_instance_that_never_announced_itself) {
    const struct place *place = *state;
    expect_outcome(leave(place, "a", LONG_MS), TEN_LOST);
    ten_result result = acquire(place, "t", "a", LONG_MS);
    expect_outcome(result, TEN_ERROR);
    assert_int_equal(result.error, TENURE_E_GONE);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_OK);
}

CASE(a_tombstone_holds_in_its_own_namespace_only) {
    const struct place *place = *state;
    struct place elsewhere = *place;
    make_namespace(elsewhere.ns);
    expect_outcome(leave(place, "a", LONG_MS), TEN_LOST);
    expect_outcome(acquire(&elsewhere, "t", "a", LONG_MS), TEN_OK);
    expect_outcome(announce(&elsewhere, "a", LONG_MS), TEN_OK);
}

/* ---- asking -------------------------------------------------------------------------------------------- */

CASE(asking_a_holder_to_resign_comes_back_in_its_renewal_until_undone) {
    const struct place *place = *state;
    expect_outcome(ask_of(place, "t", NULL, TEN_ASK_RESIGN), TEN_LOST);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    assert_int_equal(renew(place, "t", "a", token, LONG_MS).ask, TEN_ASK_NOTHING);
    expect_outcome(ask_of(place, "t", NULL, TEN_ASK_RESIGN), TEN_OK);
    for (int i = 0; i < 2; i++) {
        ten_result result = renew(place, "t", "a", token, LONG_MS);
        expect_outcome(result, TEN_OK);
        assert_int_equal(result.ask, TEN_ASK_RESIGN);
    }
    expect_outcome(ask_of(place, "t", NULL, TEN_ASK_UNDO), TEN_OK);
    assert_int_equal(renew(place, "t", "a", token, LONG_MS).ask, TEN_ASK_NOTHING);
}

CASE(what_was_asked_of_one_holder_is_not_asked_of_the_next) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(ask_of(place, "t", NULL, TEN_ASK_RESIGN), TEN_OK);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    token = must_acquire(place, "t", "b", LONG_MS);
    ten_result result = renew(place, "t", "b", token, LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.ask, TEN_ASK_NOTHING);
}

CASE(what_is_asked_of_a_named_holder_is_asked_of_no_other) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    ten_result result = ask_of(place, "t", "b", TEN_ASK_RESIGN);
    expect_outcome(result, TEN_LOST);
    expect_holder(result, "a");
    assert_int_equal(result.token, token);
    assert_int_equal(renew(place, "t", "a", token, LONG_MS).ask, TEN_ASK_NOTHING);
    assert_int_equal(cursor_now(place->store, place->ns), cursor);
    expect_outcome(ask_of(place, "t", "a", TEN_ASK_RESIGN), TEN_OK);
    assert_int_equal(renew(place, "t", "a", token, LONG_MS).ask, TEN_ASK_RESIGN);
    expect_outcome(ask_of(place, "t", "b", TEN_ASK_UNDO), TEN_LOST);
    assert_int_equal(renew(place, "t", "a", token, LONG_MS).ask, TEN_ASK_RESIGN);
    expect_outcome(ask_of(place, "t", "a", TEN_ASK_UNDO), TEN_OK);
    assert_int_equal(renew(place, "t", "a", token, LONG_MS).ask, TEN_ASK_NOTHING);
    /* Nor of that instance itself. */
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    expect_outcome(ask_of(place, "t", "a", TEN_ASK_RESIGN), TEN_OK);
    assert_int_equal(announce(place, "a", LONG_MS).ask, TEN_ASK_NOTHING);
}

/* However the lease changes hands, also back to the same one. */
CASE(what_was_asked_is_gone_when_the_lease_has_ended) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", short_ttl(place->store));
    expect_outcome(ask_of(place, "t", NULL, TEN_ASK_RESIGN), TEN_OK);
    token = acquire_within(place, "t", "b", LONG_MS, HANG_MS).token;
    assert_int_equal(renew(place, "t", "b", token, LONG_MS).ask, TEN_ASK_NOTHING);
    expect_outcome(ask_of(place, "t", "a", TEN_ASK_RESIGN), TEN_LOST);
    expect_outcome(ask_of(place, "t", "b", TEN_ASK_RESIGN), TEN_OK);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, "operator"), TEN_OK);
    expect_outcome(ask_of(place, "t", "b", TEN_ASK_RESIGN), TEN_LOST);
    token = must_acquire(place, "t", "b", LONG_MS);
    ten_result result = renew(place, "t", "b", token, LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.ask, TEN_ASK_NOTHING);
}

CASE(asking_an_instance_to_drain_comes_back_in_its_heartbeat_until_undone) {
    const struct place *place = *state;
    expect_outcome(ask_of(place, NULL, "a", TEN_ASK_DRAIN), TEN_LOST);
    assert_int_equal(announce(place, "a", LONG_MS).ask, TEN_ASK_NOTHING);
    expect_outcome(ask_of(place, NULL, "a", TEN_ASK_DRAIN), TEN_OK);
    for (int i = 0; i < 2; i++) {
        ten_result result = announce(place, "a", LONG_MS);
        expect_outcome(result, TEN_OK);
        assert_int_equal(result.ask, TEN_ASK_DRAIN);
    }
    assert_int_equal(find(place, "a").instance.ask, TEN_ASK_DRAIN);
    expect_outcome(ask_of(place, NULL, "a", TEN_ASK_UNDO), TEN_OK);
    assert_int_equal(announce(place, "a", LONG_MS).ask, TEN_ASK_NOTHING);
}

/* ---- namespaces ---------------------------------------------------------------------------------------- */

struct search {
    const char *wanted;
    size_t matches;
    char last[TENURE_NAMESPACE_MAX + 1];
    bool in_order;
};

static int note_name(const char *name, void *userdata) {
    struct search *search = userdata;
    search->matches += strcmp(name, search->wanted) == 0;
    search->in_order &= strcmp(search->last, name) < 0;
    snprintf(search->last, sizeof search->last, "%s", name);
    return 0;
}

static bool is_listed(const struct place *place, const char *name) {
    struct search search = {.wanted = name, .in_order = true};
    assert_int_equal(place->other->ops->list_namespaces(place->other, note_name, &search, CALL_MS), TENURE_OK);
    assert_true(search.in_order);
    assert_true(search.matches <= 1);
    return search.matches == 1;
}

CASE(a_namespace_with_a_lease_is_listed_once) {
    const struct place *place = *state;
    assert_false(is_listed(place, place->ns));
    must_acquire(place, "one", "h1", LONG_MS);
    must_acquire(place, "two", "h1", LONG_MS);
    assert_true(is_listed(place, place->ns));
}

CASE(a_namespace_with_an_instance_alone_is_listed) {
    const struct place *place = *state;
    assert_int_equal(announce(place, "only-1", LONG_MS).outcome, TEN_OK);
    assert_true(is_listed(place, place->ns));
}

CASE(a_namespace_whose_name_begins_another_is_listed_beside_it) {
    struct place place = *(struct place *)*state;
    struct place longer = place;
    snprintf(longer.ns, sizeof longer.ns, "%.60s-a", place.ns);
    must_acquire(&place, "one", "h1", LONG_MS);
    must_acquire(&longer, "one", "h1", LONG_MS);
    assert_true(is_listed(&place, place.ns));
    assert_true(is_listed(&place, longer.ns));
}
