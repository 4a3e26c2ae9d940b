/*
 * The rules that the memory and SQLite stores share: they never wrap a counter (fault 30), and a store that may have
 * lost data lets nobody in, not even by an old name. The rest of those rules is the conformance suite's.
 */
#include "unit/unit.h"

#include "rules/lease_row.h"

static const ten_lease_context now = {.now_ms = 1000, .wall_ms = 2000};
static const ten_op acquire = {
    .kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = "a", .holder = "me", .ttl_ms = 1000};

TEST(the_last_token_is_granted) {
    ten_lease_row row = {.exists = true, .token = TENURE_TOKEN_MAX - 1};
    ten_result result = {0};
    ten_lease_effect effect;
    ten_lease_row_apply(&row, &acquire, &now, &result, &effect);
    assert_int_equal(result.outcome, TEN_OK);
    assert_int_equal(result.token, TENURE_TOKEN_MAX);
}

TEST(after_the_last_token_an_acquire_is_refused_and_changes_nothing) {
    ten_lease_row row = {.exists = true, .token = TENURE_TOKEN_MAX};
    ten_result result = {0};
    ten_lease_effect effect;
    ten_lease_row_apply(&row, &acquire, &now, &result, &effect);
    assert_int_equal(result.outcome, TEN_ERROR);
    assert_int_equal(result.error, TENURE_E_TOKEN);
    assert_int_equal(row.token, TENURE_TOKEN_MAX);
    assert_int_equal(row.holder[0], '\0');
    assert_false(effect.row_changed || effect.acquired);
}

TEST(a_floor_above_the_last_token_is_refused) {
    ten_lease_row row = {0};
    ten_result result = {0};
    ten_lease_effect effect;
    ten_lease_context high = now;
    high.token_floor = TENURE_TOKEN_MAX + 1;
    ten_lease_row_apply(&row, &acquire, &high, &result, &effect);
    assert_int_equal(result.error, TENURE_E_TOKEN);
    assert_false(effect.row_changed);
}

/* In an older copy "me" still has token 7; in truth it gave it up, and "other" holds 8. Its request to hand 7 over comes
 * late: it must not let the successor in. */
TEST(while_recovering_nothing_is_handed_over) {
    const ten_lease_row before = {.exists = true, .holder = "me", .token = 7, .ends_ms = 1500, .ttl_ms = 1000};
    const ten_op hand = {.kind = TEN_OP_HAND,
                         .namespace_name = "poll",
                         .target = "a",
                         .holder = "me",
                         .token = 7,
                         .successor = "next",
                         .ttl_ms = 1000};
    ten_lease_context recovering = now;
    recovering.recovering_ms = 800;
    recovering.successor_ms = 900;
    ten_lease_row row = before;
    ten_result result = {0};
    ten_lease_effect effect;
    ten_lease_row_apply(&row, &hand, &recovering, &result, &effect);
    assert_int_equal(result.outcome, TEN_UNKNOWN);
    assert_string_equal(row.holder, "me");
    assert_false(effect.row_changed);
    /* Later it may, for as long as the successor is known to live, and above the floor. */
    recovering.recovering_ms = 0;
    recovering.token_floor = 100;
    ten_lease_row_apply(&row, &hand, &recovering, &result, &effect);
    assert_int_equal(result.outcome, TEN_OK);
    assert_string_equal(row.holder, "next");
    assert_int_equal(row.token, 100);
    assert_int_equal(row.ends_ms, 1900);
}

TEST(while_recovering_a_holder_that_the_store_remembers_is_not_let_in) {
    /* In an older copy "me" still has token 7; in truth it gave it up, and "other" holds 8. */
    ten_lease_row row = {.exists = true, .holder = "me", .token = 7, .ends_ms = 1500, .ttl_ms = 1000};
    ten_lease_context recovering = now;
    recovering.recovering_ms = 800;
    ten_result result = {0};
    ten_lease_effect effect;
    ten_lease_row_apply(&row, &acquire, &recovering, &result, &effect);
    assert_int_equal(result.outcome, TEN_HELD);
    assert_true(result.recovering);
    assert_null(result.holder);
    assert_int_equal(result.remaining_ms, 800);
    assert_false(effect.row_changed);
    ten_op renew = {
        .kind = TEN_OP_RENEW, .namespace_name = "poll", .target = "a", .holder = "other", .token = 8, .ttl_ms = 1000};
    ten_lease_row_apply(&row, &renew, &recovering, &result, &effect);
    assert_int_equal(result.outcome, TEN_OK);
    assert_string_equal(row.holder, "other");
    assert_int_equal(row.token, 8);
}

/* A renewal whose token the store never granted. */
static const ten_op from_the_future = {
    .kind = TEN_OP_RENEW, .namespace_name = "poll", .target = "a", .holder = "other", .token = 8, .ttl_ms = 1000};

static ten_lease_effect renew_with(ten_op op, ten_lease_context context, ten_lease_row *row, ten_result *result) {
    ten_lease_effect effect;
    *result = (ten_result){0};
    ten_lease_row_apply(row, &op, &context, result, &effect);
    return effect;
}

TEST(a_token_above_the_counter_proves_a_loss_and_changes_nothing_by_itself) {
    ten_lease_row row = {.exists = true, .token = 7};
    ten_result result;
    ten_lease_effect effect = renew_with(from_the_future, now, &row, &result);
    assert_true(effect.proves_loss);
    assert_false(effect.row_changed || effect.acquired);
    assert_int_equal(result.outcome, TEN_LOST);
    ten_lease_context recovering = now;
    recovering.recovering_ms = 1000;
    recovering.token_floor = 2000; /* the epoch that begins raises it; what is put back may be below */
    effect = renew_with(from_the_future, recovering, &row, &result);
    assert_false(effect.proves_loss);
    assert_true(effect.row_changed && effect.acquired);
    assert_int_equal(result.outcome, TEN_OK);
    assert_int_equal(row.token, 8);
}

TEST(only_a_whole_and_plausible_renewal_above_the_floor_proves_a_loss) {
    ten_lease_row row = {.exists = true, .token = 7};
    ten_result result;
    ten_op op = from_the_future;
    op.holder = NULL;
    assert_false(renew_with(op, now, &row, &result).proves_loss);
    op = from_the_future;
    op.ttl_ms = 0;
    assert_false(renew_with(op, now, &row, &result).proves_loss);
    op = from_the_future;
    op.token = 7;
    assert_false(renew_with(op, now, &row, &result).proves_loss);
    op.token = now.wall_ms + TEN_TOKEN_AHEAD_MS;
    assert_true(renew_with(op, now, &row, &result).proves_loss);
    op.token++;
    assert_false(renew_with(op, now, &row, &result).proves_loss);
    assert_int_equal(result.outcome, TEN_LOST);
    ten_lease_context later = now;
    later.token_floor = 9; /* the token is from before an epoch that is over */
    assert_false(renew_with(from_the_future, later, &row, &result).proves_loss);
    later.token_floor = 8;
    assert_true(renew_with(from_the_future, later, &row, &result).proves_loss);
    op = from_the_future;
    op.kind = TEN_OP_RELEASE;
    assert_false(renew_with(op, now, &row, &result).proves_loss);
}

TEST(while_recovering_an_implausible_token_is_not_put_back) {
    ten_lease_row row = {.exists = true, .token = 7};
    ten_result result;
    ten_lease_context recovering = now;
    recovering.recovering_ms = 1000;
    ten_op op = from_the_future;
    op.token = TENURE_TOKEN_MAX;
    ten_lease_effect effect = renew_with(op, recovering, &row, &result);
    assert_false(effect.row_changed);
    assert_int_equal(result.outcome, TEN_LOST);
    recovering.token_floor = TENURE_TOKEN_MAX - 1; /* the floor may be ahead of the clock */
    assert_true(renew_with(op, recovering, &row, &result).row_changed);
}

/* ---- forgetting */

TEST(a_free_unregistered_row_is_forgotten_and_raises_the_floor) {
    ten_lease_row row = {.exists = true, .token = 7};
    uint64_t forgotten = 5;
    assert_int_equal(ten_lease_row_forget(&row, false, &now, &forgotten), TEN_FORGET_DONE);
    assert_int_equal(forgotten, 7);
    row.token = 3;
    assert_int_equal(ten_lease_row_forget(&row, false, &now, &forgotten), TEN_FORGET_DONE);
    assert_int_equal(forgotten, 7);
    assert_int_equal(ten_lease_row_forget(&row, true, &now, &forgotten), TEN_FORGET_REGISTERED);
    ten_lease_context recovering = now;
    recovering.recovering_ms = 1;
    assert_int_equal(ten_lease_row_forget(&row, false, &recovering, &forgotten), TEN_FORGET_RECOVERING);
    row = (ten_lease_row){.exists = true, .token = 9, .holder = "me", .ends_ms = 1500};
    assert_int_equal(ten_lease_row_forget(&row, false, &now, &forgotten), TEN_FORGET_HELD);
    row.ends_ms = 1000;
    assert_int_equal(ten_lease_row_forget(&row, false, &now, &forgotten), TEN_FORGET_DONE);
    assert_int_equal(forgotten, 9);
    row = (ten_lease_row){0};
    assert_int_equal(ten_lease_row_forget(&row, false, &now, &forgotten), TEN_FORGET_UNKNOWN);
    assert_int_equal(ten_lease_row_forget(&row, true, &now, &forgotten), TEN_FORGET_REGISTERED);
}

TEST(a_target_without_a_row_starts_above_what_was_forgotten) {
    ten_lease_context context = now;
    context.forgotten = 40;
    ten_lease_row row = {0};
    ten_result result = {0};
    ten_lease_effect effect;
    ten_op read = {.kind = TEN_OP_READ, .target = "a"};
    ten_lease_row_apply(&row, &read, &context, &result, &effect);
    assert_true(result.recovering); /* 40 is a bound, and perhaps no token of this target */
    assert_int_equal(result.token, 40);
    ten_lease_row_apply(&row, &acquire, &context, &result, &effect);
    assert_int_equal(result.token, 41);
    /* One that has a row is not concerned. */
    row = (ten_lease_row){.exists = true, .token = 7};
    ten_lease_row_apply(&row, &read, &context, &result, &effect);
    assert_false(result.recovering);
    assert_int_equal(result.token, 7);
    ten_lease_row_apply(&row, &acquire, &context, &result, &effect);
    assert_int_equal(result.token, 8);
}

TEST(a_forgotten_token_proves_nothing_and_is_not_put_back) {
    ten_lease_context context = now;
    context.forgotten = 8;
    ten_lease_row row = {0};
    ten_result result;
    assert_false(renew_with(from_the_future, context, &row, &result).proves_loss);
    assert_int_equal(result.outcome, TEN_LOST);
    context.recovering_ms = 1000;
    assert_false(renew_with(from_the_future, context, &row, &result).row_changed);
    context.forgotten = 7;
    assert_true(renew_with(from_the_future, context, &row, &result).row_changed);
}

/* Whoever knows the token may renew, but the holder would not hear of a shorter lease. */
TEST(only_the_holder_shortens_its_lease) {
    ten_lease_row row = {.exists = true, .holder = "me", .token = 7, .ends_ms = 1900, .ttl_ms = 1000};
    ten_result result = {0};
    ten_lease_effect effect;
    ten_op renew = {.kind = TEN_OP_RENEW, .namespace_name = "poll", .target = "a", .token = 7, .ttl_ms = 100};
    ten_lease_row_apply(&row, &renew, &now, &result, &effect);
    assert_int_equal(result.outcome, TEN_OK);
    assert_int_equal(result.ttl_ms, 1000);
    assert_int_equal(row.ends_ms, 2000);
    renew.holder = "me";
    ten_lease_row_apply(&row, &renew, &now, &result, &effect);
    assert_int_equal(result.ttl_ms, 100);
    assert_int_equal(row.ends_ms, 1100);
    renew.ttl_ms = 0;
    ten_lease_row_apply(&row, &renew, &now, &result, &effect);
    assert_int_equal(result.ttl_ms, 100);
}

static void apply_to(void *arg) {
    ten_result result = {0};
    ten_lease_effect effect;
    ten_op read = {.kind = TEN_OP_READ, .target = "a"};
    ten_lease_row_apply(arg, &read, &now, &result, &effect);
}

TEST(a_row_with_an_impossible_token_aborts) {
    ten_lease_row row = {.exists = true, .token = TENURE_TOKEN_MAX + 1};
    assert_aborts(apply_to, &row);
}
