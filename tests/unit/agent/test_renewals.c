/*
 * Which events of renewals, and of a store that recovers, the log has at a level that people read.
 */
#include "unit/unit.h"

#include "agent/common/renewals.h"

static bool is_known(uint64_t *left_ms, enum tenure_event_kind kind, uint64_t remaining_ms) {
    return ten_recovery_is_known(left_ms, &(tenure_event){.kind = kind, .remaining_ms = remaining_ms});
}

/* A candidate asks more often towards the end; etcd may be late, and says that 100 ms are left again and again. */
TEST(a_wait_for_a_store_is_told_once_and_again_when_it_begins_again) {
    uint64_t left_ms = 0;
    assert_false(is_known(&left_ms, TENURE_EVENT_RECOVERING, 3000));
    assert_true(is_known(&left_ms, TENURE_EVENT_RECOVERING, 3000)); /* of another target */
    assert_true(is_known(&left_ms, TENURE_EVENT_RECOVERING, 1000));
    for (int i = 0; i < 10; i++)
        assert_true(is_known(&left_ms, TENURE_EVENT_RECOVERING, 100));
    assert_false(is_known(&left_ms, TENURE_EVENT_RECOVERING, 2000)); /* the leader has changed again */
    assert_false(is_known(&left_ms, TENURE_EVENT_ACQUIRED, 0));
    assert_false(is_known(&left_ms, TENURE_EVENT_RECOVERING, 1000));
}

TEST(the_first_renewal_of_each_token_is_told) {
    uint64_t token = 0;
    assert_true(ten_renewals_is_first(&token, 7));
    assert_false(ten_renewals_is_first(&token, 7));
    assert_true(ten_renewals_is_first(&token, 8));
}
