/*
 * The store contract: leases that hang on the session of their holder. One heartbeat renews all of them, and whoever
 * touches one of them raises the version of the session.
 */
#include "conformance/suite.h"

static bool cannot(const struct place *place) {
    return !place->store->capabilities.sessions;
}

static ten_result own_release(const struct place *place, const char *target, const char *holder, uint64_t token) {
    return apply_at(place, (ten_op){.kind = TEN_OP_RELEASE,
                                    .flags = TEN_OP_SESSION,
                                    .target = target,
                                    .holder = holder,
                                    .token = token,
                                    .reason = TEN_REASON_DONE});
}

/* The next heartbeat says what the last one said; says something else. */
static void expect_untouched(const struct place *place, const char *instance, ten_result *last) {
    ten_result next = must_beat(place, instance, LONG_MS);
    assert_int_equal(next.session, last->session);
    assert_int_equal(next.session_version, last->session_version);
}

static void expect_touched(const struct place *place, const char *instance, ten_result *last) {
    ten_result next = must_beat(place, instance, LONG_MS);
    assert_true(next.session != last->session || next.session_version != last->session_version);
    *last = next;
}

static void expect_free(const struct place *place, const char *target) {
    ten_result result = read_lease(place, target);
    expect_outcome(result, TEN_OK);
    assert_null(result.holder);
}

/* ---- what a session is */

CASE(a_lease_is_on_the_session_of_its_holder_and_read_and_listed_like_any_other) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    ten_result session = must_beat(place, "a", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    ten_result read = read_lease(place, "t");
    expect_holder(read, "a");
    assert_int_equal(read.token, token);
    assert_int_equal(read.session, session.session);
    assert_int_equal(read.ttl_ms, LONG_MS);
    assert_in_range(read.remaining_ms, 1, LONG_MS);
    expect_outcome(apply_on_session(place, TEN_OP_ACQUIRE, "t", "b", 0, LONG_MS), TEN_HELD);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_HELD);
    assert_int_equal(must_take(place, "t", "a", LONG_MS), token);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_ACQUIRED);
    assert_int_equal(seen.at[0].change.token, token);
    expect_untouched(place, "a", &session);
}

CASE(without_a_session_a_lease_has_an_end_of_its_own) {
    const struct place *place = *state;
    ten_result result = apply_on_session(place, TEN_OP_ACQUIRE, "t", "a", 0, LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.session, 0);
    result = apply_on_session(place, TEN_OP_RENEW, "t", "a", result.token, LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.session, 0);
    if (cannot(place)) {
        expect_outcome(beat(place, "a", LONG_MS), TEN_OK);
        assert_int_equal(beat(place, "a", LONG_MS).session, 0);
        return;
    }
    /* A heartbeat alone changes nothing about it; a renewal after that puts it on the session. */
    uint64_t session = must_beat(place, "a", LONG_MS).session;
    assert_int_equal(read_lease(place, "t").session, 0);
    result = apply_on_session(place, TEN_OP_RENEW, "t", "a", result.token, LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.session, session);
}

static int see_row(const ten_row *row, void *userdata) {
    ten_row *seen = userdata;
    assert_non_null(row->holder);
    assert_string_equal(row->holder, "a");
    *seen = *row;
    return 0;
}

static int see_instance(const ten_instance *instance, void *userdata) {
    unsigned *with_session = userdata;
    *with_session += instance->has_session;
    return 0;
}

CASE(listings_show_the_end_of_the_session_and_who_has_one) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    put_target(place, "t");
    announce(place, "older", LONG_MS);
    static const enum tenure_filter filters[] = {TENURE_ALL, TENURE_LEASED, TENURE_REGISTERED};
    for (size_t i = 0; i < TEN_COUNT(filters); i++) {
        ten_row row = {0};
        ten_query query = {.namespace_name = place->ns, .filter = filters[i], .limit = 10, .current = true};
        assert_int_equal(place->store->ops->list(place->store, &query, see_row, &row, CALL_MS), 0);
        assert_int_equal(row.token, token);
        assert_in_range(row.remaining_ms, 1, LONG_MS);
    }
    const char *ids[] = {"t"};
    ten_row row = {0};
    assert_int_equal(place->store->ops->read_targets(place->store, place->ns, ids, 1, see_row, &row, CALL_MS), 0);
    assert_in_range(row.remaining_ms, 1, LONG_MS);
    unsigned with_session = 0;
    assert_int_equal(place->store->ops->list_instances(place->store, place->ns, see_instance, &with_session, CALL_MS),
                     0);
    assert_int_equal(with_session, 1);
}

static int see_free_row(const ten_row *row, void *userdata) {
    unsigned *seen = userdata;
    assert_null(row->holder);
    ++*seen;
    return 0;
}

/* A fleet that starts reads the registered targets: one that seems to be held would have no holder for ever. */
CASE(listings_show_that_a_lease_has_ended_with_its_session) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    put_target(place, "t");
    uint64_t ttl_ms = kept_ttl(place->store);
    must_beat(place, "a", ttl_ms);
    must_take(place, "t", "a", ttl_ms);
    sleep_ms(ttl_ms + place->store->capabilities.expiry_late_ms + ROUNDING_MS);
    static const enum tenure_filter filters[] = {TENURE_ALL, TENURE_FREE, TENURE_REGISTERED};
    unsigned seen = 0;
    for (size_t i = 0; i < TEN_COUNT(filters); i++) {
        ten_query query = {.namespace_name = place->ns, .filter = filters[i], .limit = 10, .current = true};
        assert_int_equal(place->store->ops->list(place->store, &query, see_free_row, &seen, CALL_MS), 0);
    }
    const char *ids[] = {"t"};
    assert_int_equal(place->store->ops->read_targets(place->store, place->ns, ids, 1, see_free_row, &seen, CALL_MS), 0);
    assert_int_equal(seen, TEN_COUNT(filters) + 1);
}

CASE(a_heartbeat_renews_all_and_without_it_all_end_and_never_come_back) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    uint64_t ttl_ms = kept_ttl(place->store);
    ten_result session = must_beat(place, "a", ttl_ms);
    uint64_t first = must_take(place, "t", "a", ttl_ms);
    uint64_t second = must_take(place, "u", "a", ttl_ms);
    for (int i = 0; i < 4; i++) {
        sleep_ms(ttl_ms / 3);
        ten_result next = must_beat(place, "a", ttl_ms);
        if (next.session != session.session)
            return; /* this machine was away for longer than the TTL */
        assert_int_equal(next.session_version, session.session_version);
        expect_holder(read_lease(place, "t"), "a");
        expect_holder(read_lease(place, "u"), "a");
    }
    sleep_ms(ttl_ms + place->store->capabilities.expiry_late_ms + ROUNDING_MS);
    expect_free(place, "t");
    /* The next heartbeat begins another session. What was on the first is gone, although nobody has taken it. */
    ten_result next = must_beat(place, "a", ttl_ms);
    assert_int_not_equal(next.session, session.session);
    expect_free(place, "u");
    expect_outcome(renew(place, "u", "a", second, ttl_ms), TEN_LOST);
    expect_outcome(apply_on_session(place, TEN_OP_RENEW, "u", "a", second, ttl_ms), TEN_LOST);
    ten_result taken = acquire(place, "t", "b", LONG_MS);
    expect_outcome(taken, TEN_OK);
    assert_true(taken.token > first);
}

/* The holder may not have got the answers, and believe in what the first heartbeat gave it. */
CASE(heartbeats_with_a_shorter_ttl_never_shorten_the_session) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    ten_result session = must_beat(place, "a", 4 * LONG_MS);
    must_take(place, "t", "a", 4 * LONG_MS);
    for (int i = 0; i < 3; i++)
        session = must_beat(place, "a", LONG_MS);
    assert_true(session.session != 0);
    assert_in_range(read_lease(place, "t").remaining_ms, 2 * LONG_MS, 4 * LONG_MS);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_HELD);
}

/* ---- who touches what */

CASE(the_holder_itself_touches_nothing) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    ten_result session = must_beat(place, "a", LONG_MS);
    must_beat(place, "b", LONG_MS);
    uint64_t first = must_take(place, "t", "a", LONG_MS);
    uint64_t second = must_take(place, "u", "a", LONG_MS);
    expect_outcome(apply_on_session(place, TEN_OP_RENEW, "t", "a", first, LONG_MS), TEN_OK);
    expect_outcome(read_lease(place, "t"), TEN_OK);
    expect_outcome(apply_on_session(place, TEN_OP_ACQUIRE, "t", "b", 0, LONG_MS), TEN_HELD);
    expect_outcome(renew(place, "t", "b", first, LONG_MS), TEN_LOST);
    expect_outcome(release(place, "t", "b", first), TEN_LOST);
    expect_outcome(own_release(place, "t", "a", first), TEN_OK);
    expect_free(place, "t");
    expect_untouched(place, "a", &session);
    if (!place->store->capabilities.hands)
        return;
    ten_result handed = apply_at(place, (ten_op){.kind = TEN_OP_HAND,
                                                 .flags = TEN_OP_SESSION,
                                                 .target = "u",
                                                 .holder = "a",
                                                 .token = second,
                                                 .successor = "b",
                                                 .ttl_ms = LONG_MS});
    expect_outcome(handed, TEN_OK);
    expect_holder(handed, "b");
    assert_int_equal(handed.session, 0);
    expect_untouched(place, "a", &session);
    /* The successor confirms it, and has it on its own session. */
    must_beat(place, "b", LONG_MS);
    assert_int_equal(must_take(place, "u", "b", LONG_MS), handed.token);
}

CASE(whoever_else_changes_a_lease_raises_the_version) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    ten_result session = must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    expect_untouched(place, "a", &session);
    ten_result asked = ask_of(place, "t", NULL, TEN_ASK_RESIGN);
    expect_outcome(asked, TEN_OK);
    expect_touched(place, "a", &session);
    assert_int_equal(read_lease(place, "t").ask, TEN_ASK_RESIGN);
    assert_int_equal(read_lease(place, "t").session, session.session);
    /* Released by somebody who knows the token. */
    expect_outcome(release(place, "t", NULL, token), TEN_OK);
    expect_touched(place, "a", &session);
    must_take(place, "t", "a", LONG_MS);
    expect_untouched(place, "a", &session);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, "root"), TEN_OK);
    expect_touched(place, "a", &session);
    expect_outcome(apply_on_session(place, TEN_OP_ACQUIRE, "t", "b", 0, LONG_MS), TEN_OK);
    expect_untouched(place, "a", &session);
}

/* Who forces does not have the lease's word, whoever it says that it is. */
CASE(who_forces_a_lease_in_the_name_of_its_holder_raises_the_version) {
    static const unsigned flags[] = {TEN_OP_FORCE, TEN_OP_FORCE_NOW};
    const struct place *place = *state;
    if (cannot(place))
        return;
    ten_result session = must_beat(place, "a", LONG_MS);
    for (size_t i = 0; i < TEN_COUNT(flags); i++) {
        const char *target = i == 0 ? "t" : "u";
        must_take(place, target, "a", LONG_MS);
        expect_outcome(
            apply_at(
                place,
                (ten_op){.kind = TEN_OP_RELEASE, .flags = flags[i] | TEN_OP_SESSION, .target = target, .holder = "a"}),
            TEN_OK);
        expect_touched(place, "a", &session);
    }
}

CASE(a_forced_lease_leaves_the_session_and_ends_when_that_would_have_ended) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    uint64_t ttl_ms = kept_ttl(place->store);
    must_beat(place, "a", ttl_ms);
    uint64_t token = must_take(place, "t", "a", ttl_ms);
    must_take(place, "u", "a", ttl_ms);
    uint64_t forced_ms = now_ms();
    ten_result forced = force(place, "t", TEN_OP_FORCE, "root");
    if (forced.outcome == TEN_LOST)
        return; /* this machine was away for longer than the TTL */
    expect_outcome(forced, TEN_OK);
    assert_int_equal(forced.session, 0);
    /* Heartbeats do not renew it, nor does its holder. */
    while (now_ms() < forced_ms + ttl_ms + place->store->capabilities.expiry_late_ms) {
        must_beat(place, "a", ttl_ms);
        expect_outcome(apply_on_session(place, TEN_OP_RENEW, "t", "a", token, ttl_ms), TEN_LOST);
        sleep_ms(ttl_ms / 6);
    }
    ten_result taken = acquire(place, "t", "b", LONG_MS);
    expect_outcome(taken, TEN_OK);
    assert_true(taken.token > token);
}

/* The holder believes until the end of the session: nothing that others do ends the lease before. */
CASE(a_renewal_without_the_session_leaves_it_and_never_shortens) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    ten_result session = must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    ten_result renewed = renew(place, "t", "a", token, LONG_MS / 8);
    expect_outcome(renewed, TEN_OK);
    assert_int_equal(renewed.session, 0);
    assert_in_range(read_lease(place, "t").remaining_ms, LONG_MS / 2, LONG_MS);
    expect_touched(place, "a", &session);
    /* It comes back to the session, which ends later. */
    renewed = apply_on_session(place, TEN_OP_RENEW, "t", "a", token, LONG_MS);
    expect_outcome(renewed, TEN_OK);
    assert_int_equal(renewed.session, session.session);
    expect_untouched(place, "a", &session);
    /* Somebody who knows the token gives it longer than the session has: a late acquire does not take that away. */
    expect_outcome(renew(place, "t", NULL, token, 4 * LONG_MS), TEN_OK);
    expect_touched(place, "a", &session);
    ten_result late = apply_on_session(place, TEN_OP_ACQUIRE, "t", "a", 0, LONG_MS);
    expect_outcome(late, TEN_OK);
    assert_int_equal(late.session, 0);
    assert_in_range(read_lease(place, "t").remaining_ms, 2 * LONG_MS, 4 * LONG_MS);
}

/* ---- leaving */

CASE(who_leaves_keeps_the_leases_until_the_session_ends) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    ten_result session = must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    expect_outcome(leave(place, "a", 0), TEN_OK);
    expect_holder(read_lease(place, "t"), "a");
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_HELD);
    expect_outcome(leave(place, "a", 0), TEN_LOST);
    /* It is not declared gone: with its next heartbeat the session goes on, and says that something happened. */
    ten_result next = must_beat(place, "a", LONG_MS);
    assert_int_equal(next.session, session.session);
    assert_int_not_equal(next.session_version, session.session_version);
    expect_outcome(own_release(place, "t", "a", token), TEN_OK);
    expect_free(place, "t");
}

CASE(who_is_declared_gone_keeps_the_leases_and_gets_no_more) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    /* A tombstone for a moment only: it stays as long as the session would have lived. */
    expect_outcome(leave(place, "a", place->store->capabilities.ttl_min_ms), TEN_OK);
    sleep_ms(2 * place->store->capabilities.ttl_min_ms);
    expect_holder(read_lease(place, "t"), "a");
    ten_result late = beat(place, "a", LONG_MS);
    expect_outcome(late, TEN_ERROR);
    assert_int_equal(late.error, TENURE_E_GONE);
    expect_outcome(apply_on_session(place, TEN_OP_ACQUIRE, "u", "a", 0, LONG_MS), TEN_ERROR);
    /* Whoever made it leave releases what has stopped. */
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_OK);
}

/* Whoever declares an instance dead may come after its session has ended. */
CASE(a_tombstone_does_not_bring_back_what_hung_on_a_session) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    must_beat(place, "a", short_ttl(place->store));
    uint64_t token = must_take(place, "t", "a", short_ttl(place->store));
    while (read_lease(place, "t").holder)
        sleep_ms(10);
    (void)leave(place, "a", LONG_MS);
    expect_holder(read_lease(place, "t"), NULL);
    expect_outcome(release(place, "t", "a", token), TEN_LOST);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_OK);
}

/* ---- batches */

CASE(a_batch_takes_the_heartbeat_first) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    ten_op ops[] = {{.kind = TEN_OP_ANNOUNCE, .flags = TEN_OP_SESSION, .ttl_ms = LONG_MS, .weight = 1},
                    {.kind = TEN_OP_ACQUIRE, .flags = TEN_OP_SESSION, .target = "t", .ttl_ms = LONG_MS},
                    {.kind = TEN_OP_READ, .target = "t"},
                    {.kind = TEN_OP_ACQUIRE, .flags = TEN_OP_SESSION, .target = "u", .ttl_ms = LONG_MS}};
    ten_result results[TEN_COUNT(ops)];
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].namespace_name = place->ns;
        ops[i].holder = "a";
    }
    for (int i = 0; i < 2; i++) { /* the second time everything is there already */
        assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), 0);
        assert_int_not_equal(results[0].session, 0);
        for (size_t at = 0; at < TEN_COUNT(ops); at++) {
            expect_outcome(results[at], TEN_OK);
            assert_int_equal(results[at].session, results[0].session);
        }
        expect_holder(results[2], "a");
    }
}

/* Without the heartbeat before it, the lease would end later than its session and stay beside it. That another lease is to
 * end is unusual, which must not change the order of the batch. */
CASE(a_renewal_in_the_batch_of_a_heartbeat_finds_the_session_that_it_extended) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    sleep_ms(20);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    sleep_ms(20);
    must_acquire(place, "u", "b", LONG_MS);
    expect_outcome(ask_of(place, "u", NULL, TEN_ASK_RESIGN), TEN_OK);
    ten_op ops[] = {{.kind = TEN_OP_ANNOUNCE, .flags = TEN_OP_SESSION, .ttl_ms = LONG_MS, .weight = 1},
                    {.kind = TEN_OP_RENEW, .flags = TEN_OP_SESSION, .target = "t", .token = token}};
    ten_result results[TEN_COUNT(ops)];
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].namespace_name = place->ns;
        ops[i].holder = "a";
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), 0);
    expect_outcome(results[1], TEN_OK);
    assert_int_not_equal(results[0].session, 0);
    assert_int_equal(results[1].session, results[0].session);
}

CASE(what_is_on_a_session_is_not_forgotten) {
    const struct place *place = *state;
    if (cannot(place) || !place->store->ops->forget)
        return;
    must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    ten_forget item = {.id = "t"};
    assert_int_equal(ten_store_forget(place->store, place->ns, &item, 1, CALL_MS), 0);
    assert_int_equal(item.outcome, TEN_FORGET_HELD);
    assert_int_equal(read_lease(place, "t").token, token);
}
