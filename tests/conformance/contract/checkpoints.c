/*
 * The store contract: a holder keeps a text beside its lease, the next holder gets it with its grant, and whoever is not
 * the holder of this moment changes nothing.
 */
#include "conformance/suite.h"

static ten_result write_as(const struct place *place, const char *target, const char *holder, uint64_t token,
                           const char *value) {
    return apply_at(
        place,
        (ten_op){.kind = TEN_OP_CHECKPOINT, .target = target, .holder = holder, .token = token, .checkpoint = value});
}

static ten_result read_with(const struct place *place, const char *target) {
    return apply_at(place, (ten_op){.kind = TEN_OP_READ, .flags = TEN_OP_WITH_CHECKPOINT, .target = target});
}

static ten_result acquire_with(const struct place *place, const char *target, const char *holder) {
    return apply_at(place, (ten_op){.kind = TEN_OP_ACQUIRE,
                                    .flags = TEN_OP_WITH_CHECKPOINT,
                                    .target = target,
                                    .holder = holder,
                                    .ttl_ms = LONG_MS});
}

/* As any handle reads it. */
static void expect_kept(const struct place *place, const char *target, const char *value, uint64_t token) {
    struct place places[] = {*place, elsewhere_of(place)};
    for (size_t i = 0; i < TEN_COUNT(places); i++) {
        ten_result result = read_with(&places[i], target);
        expect_outcome(result, TEN_OK);
        if (!value) {
            assert_null(result.checkpoint);
            continue;
        }
        assert_non_null(result.checkpoint);
        assert_string_equal(result.checkpoint, value);
        assert_int_equal(result.checkpoint_token, token);
    }
}

CASE(the_next_holder_gets_it_with_the_grant) {
    const struct place *place = *state;
    ten_result first = acquire_with(place, "t", "a");
    expect_outcome(first, TEN_OK);
    assert_null(first.checkpoint);
    expect_outcome(write_as(place, "t", "a", first.token, "1"), TEN_OK);
    ten_result written = write_as(place, "t", "a", first.token, "2");
    expect_outcome(written, TEN_OK);
    expect_holder(written, "a");
    assert_int_equal(written.token, first.token);
    expect_kept(place, "t", "2", first.token);
    ten_result again = acquire_with(place, "t", "a"); /* a repetition gets it, too */
    expect_outcome(again, TEN_OK);
    assert_string_equal(again.checkpoint, "2");
    expect_outcome(release(place, "t", "a", first.token), TEN_OK);
    expect_kept(place, "t", "2", first.token);
    struct place elsewhere = elsewhere_of(place);
    ten_result second = acquire_with(&elsewhere, "t", "b");
    expect_outcome(second, TEN_OK);
    assert_true(second.token > first.token);
    assert_string_equal(second.checkpoint, "2");
    assert_int_equal(second.checkpoint_token, first.token);
    /* Who did not ask for it does not get it. */
    assert_null(acquire(place, "t", "b", LONG_MS).checkpoint);
    assert_null(read_lease(place, "t").checkpoint);
}

CASE(a_stale_writer_changes_nothing) {
    const struct place *place = *state;
    uint64_t stale = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(write_as(place, "t", "a", stale, "first"), TEN_OK);
    expect_outcome(release(place, "t", "a", stale), TEN_OK);
    expect_outcome(write_as(place, "t", "a", stale, "after the release"), TEN_LOST);
    uint64_t token = must_acquire(place, "t", "b", LONG_MS);
    ten_result refused = write_as(place, "t", "a", stale, "stale");
    expect_outcome(refused, TEN_LOST);
    expect_holder(refused, "b");
    assert_int_equal(refused.token, token);
    expect_outcome(write_as(place, "t", NULL, stale, "stale, by its token alone"), TEN_LOST);
    expect_outcome(write_as(place, "t", "a", token, "in another name"), TEN_LOST);
    expect_outcome(write_as(place, "t", "b", token + 1, "of a token that was never granted"), TEN_LOST);
    expect_outcome(write_as(place, "t", "b", stale, "the same holder, under an older token"), TEN_LOST);
    expect_outcome(write_as(place, "t", "a", stale, ""), TEN_LOST);
    expect_outcome(write_as(place, "never-leased", "a", 1, "nobody's"), TEN_LOST);
    expect_kept(place, "t", "first", stale);
    expect_outcome(write_as(place, "t", NULL, token, "by the token alone"), TEN_OK);
    expect_kept(place, "t", "by the token alone", token);
}

CASE(it_outlives_expiry_and_nobody_writes_to_a_lease_that_ended) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", kept_ttl(place->store));
    expect_outcome(write_as(place, "t", "a", token, "before the end"), TEN_OK);
    uint64_t end_ms = now_ms() + HANG_MS;
    while (read_lease(place, "t").holder && now_ms() < end_ms)
        sleep_ms(20);
    expect_outcome(write_as(place, "t", "a", token, "too late"), TEN_LOST);
    expect_kept(place, "t", "before the end", token);
    ten_result next = acquire_with(place, "t", "b");
    expect_outcome(next, TEN_OK);
    assert_string_equal(next.checkpoint, "before the end");
}

CASE(a_holder_whose_lease_was_forced_writes_no_more) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(write_as(place, "t", "a", token, "kept"), TEN_OK);
    expect_outcome(force(place, "t", TEN_OP_FORCE, "operator"), TEN_OK);
    expect_outcome(write_as(place, "t", "a", token, "barred"), TEN_LOST);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, "operator"), TEN_OK);
    expect_outcome(write_as(place, "t", "a", token, "free"), TEN_LOST);
    expect_kept(place, "t", "kept", token);
}

CASE(a_successor_gets_it_when_the_lease_is_handed_over) {
    const struct place *place = *state;
    if (!place->store->capabilities.hands)
        return;
    expect_outcome(announce(place, "b", LONG_MS), TEN_OK);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(write_as(place, "t", "a", token, "halfway"), TEN_OK);
    ten_op hand = {.kind = TEN_OP_HAND,
                   .namespace_name = place->ns,
                   .target = "t",
                   .holder = "a",
                   .token = token,
                   .successor = "b",
                   .ttl_ms = LONG_MS,
                   .reason = TEN_REASON_REBALANCE};
    expect_outcome(apply_one(place->store, hand), TEN_OK);
    expect_outcome(write_as(place, "t", "a", token, "stale"), TEN_LOST);
    ten_result confirmed = acquire_with(place, "t", "b");
    expect_outcome(confirmed, TEN_OK);
    assert_string_equal(confirmed.checkpoint, "halfway");
    expect_outcome(write_as(place, "t", "b", confirmed.token, "done"), TEN_OK);
    expect_kept(place, "t", "done", confirmed.token);
}

CASE(it_goes_with_the_counter_and_not_with_the_registration) {
    const struct place *place = *state;
    put_target(place, "t");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(write_as(place, "t", "a", token, "old"), TEN_OK);
    assert_true(edit_target(place, TEN_TARGET_REMOVE, "t"));
    expect_kept(place, "t", "old", token);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    ten_forget item = {.id = "t"};
    assert_int_equal(ten_store_forget(place->store, place->ns, &item, 1, CALL_MS), TENURE_OK);
    assert_int_equal(item.outcome, TEN_FORGET_DONE);
    expect_kept(place, "t", NULL, 0);
    ten_result anew = acquire_with(place, "t", "b");
    expect_outcome(anew, TEN_OK);
    assert_null(anew.checkpoint);
}

CASE(it_is_any_text_up_to_its_largest_size) {
    const struct place *place = *state;
    char largest[TENURE_CHECKPOINT_MAX + 1];
    memset(largest, 'x', sizeof largest - 1);
    largest[sizeof largest - 1] = '\0';
    char controls[32];
    for (size_t i = 0; i < sizeof controls - 1; i++)
        controls[i] = (char)(i + 1);
    controls[sizeof controls - 1] = '\0';
    const char *const texts[] = {"{\"a\":[1,2],\"b\":\"\\\"quoted\\\"\"}",
                                 "'; DROP TABLE lease; --",
                                 "{\"x\",NULL,\\N}",
                                 "NULL",
                                 " a line\nand\ta tab\r\n ",
                                 "7 8 9",
                                 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
                                 "\\u0041 %s %d \\ \\\\",
                                 controls,
                                 largest};
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    for (size_t i = 0; i < TEN_COUNT(texts); i++) {
        expect_outcome(write_as(place, "t", "a", token, texts[i]), TEN_OK);
        expect_kept(place, "t", texts[i], token);
    }
    expect_outcome(write_as(place, "t", "a", token, ""), TEN_OK);
    expect_kept(place, "t", NULL, 0);
    expect_outcome(write_as(place, "t", "a", token, ""), TEN_OK); /* there is none to remove */
}

CASE(the_operations_of_a_batch_take_effect_in_their_order) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t other = must_acquire(place, "u", "a", LONG_MS);
    ten_op ops[] = {
        {.kind = TEN_OP_RENEW, .target = "t", .holder = "a", .token = token, .ttl_ms = LONG_MS},
        {.kind = TEN_OP_CHECKPOINT, .target = "t", .holder = "a", .token = token, .checkpoint = "1"},
        {.kind = TEN_OP_CHECKPOINT, .target = "u", .holder = "a", .token = other, .checkpoint = "other"},
        {.kind = TEN_OP_CHECKPOINT, .target = "t", .holder = "a", .token = token, .checkpoint = "2"},
        {.kind = TEN_OP_RELEASE, .target = "t", .holder = "a", .token = token},
        {.kind = TEN_OP_CHECKPOINT, .target = "t", .holder = "a", .token = token, .checkpoint = "3"},
        {.kind = TEN_OP_ACQUIRE, .target = "t", .holder = "a", .ttl_ms = LONG_MS, .flags = TEN_OP_WITH_CHECKPOINT},
    };
    static const enum ten_outcome outcomes[] = {TEN_OK, TEN_OK, TEN_OK, TEN_OK, TEN_OK, TEN_LOST, TEN_OK};
    ten_result results[TEN_COUNT(ops)];
    for (size_t i = 0; i < TEN_COUNT(ops); i++)
        ops[i].namespace_name = place->ns;
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    for (size_t i = 0; i < TEN_COUNT(ops); i++)
        expect_outcome(results[i], outcomes[i]);
    assert_string_equal(results[6].checkpoint, "2");
    expect_kept(place, "u", "other", other);
}

CASE(a_large_batch_keeps_each_and_brings_each_along) {
    enum { COUNT = 300 };
    const struct place *place = *state;
    static ten_op ops[COUNT];
    static ten_result results[COUNT];
    static char targets[COUNT][16];
    static char values[COUNT][TENURE_CHECKPOINT_MAX + 1];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(targets[i], sizeof targets[i], "t-%zu", i);
        memset(values[i], 'a' + (int)(i % 26), sizeof values[i] - 1);
        ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                          .namespace_name = place->ns,
                          .target = targets[i],
                          .holder = "a",
                          .ttl_ms = LONG_MS};
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, COUNT, CALL_MS), TENURE_OK);
    uint64_t cursor = cursor_now(place->store, place->ns);
    for (size_t i = 0; i < COUNT; i++) {
        expect_outcome(results[i], TEN_OK);
        ops[i].kind = TEN_OP_CHECKPOINT;
        ops[i].token = results[i].token + (i % 5 == 0);
        ops[i].checkpoint = values[i];
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, COUNT, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < COUNT; i++) {
        expect_outcome(results[i], i % 5 ? TEN_OK : TEN_LOST);
        ops[i] = (ten_op){.kind = i % 2 ? TEN_OP_ACQUIRE : TEN_OP_READ,
                          .flags = TEN_OP_WITH_CHECKPOINT,
                          .namespace_name = place->ns,
                          .target = targets[i],
                          .holder = "a",
                          .ttl_ms = LONG_MS};
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, COUNT, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < COUNT; i++) {
        expect_outcome(results[i], TEN_OK);
        if (i % 5)
            assert_string_equal(results[i].checkpoint, values[i]);
        else
            assert_null(results[i].checkpoint);
    }
    /* It is no change: nobody is woken. */
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 0);
}

CASE(a_handle_that_is_opened_later_finds_it) {
    const struct place *place = *state;
    if (!place->store->capabilities.shared_between_processes)
        return;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(write_as(place, "t", "a", token, "stays"), TEN_OK);
    struct place later = *place;
    later.store = open_store(suite_fixture.url);
    ten_result found = read_with(&later, "t");
    expect_outcome(found, TEN_OK);
    assert_string_equal(found.checkpoint, "stays");
    expect_outcome(write_as(&later, "t", "a", token, "goes on"), TEN_OK);
    ten_store_close(later.store);
    expect_kept(place, "t", "goes on", token);
}
