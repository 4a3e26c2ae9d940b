/*
 * Checkpoints in the C API: who may write them, who reads them, and what is refused.
 */
#include "unit/runtime/handles.h"

#include <string.h>
#include <tenure.h>

static tenure_context *open_fresh(const char *name) {
    tenure_options options = {.size = sizeof options, .instance_name = name, .ttl_ms = 20000};
    tenure_context *context;
    assert_int_equal(tenure_open("memory:checkpoints", &options, &context), TENURE_OK);
    return context;
}

struct pair {
    tenure_context *one;
    tenure_context *other;
};

static int setup(void **state) {
    static struct pair pair;
    pair = (struct pair){open_fresh("one"), open_fresh("other")};
    *state = &pair;
    return 0;
}

static int teardown(void **state) {
    const struct pair *pair = *state;
    (void)tenure_close(pair->one);
    (void)tenure_close(pair->other);
    return 0;
}

TEST_WITH(the_next_holder_reads_what_the_last_one_wrote, setup, teardown) {
    const struct pair *pair = *state;
    char value[TENURE_CHECKPOINT_MAX + 1];
    size_t size = 77;
    uint64_t token = 77;
    tenure_lease *first = acquire(pair->one, "t", 0);
    assert_int_equal(tenure_checkpoint_read(first, value, &size), TENURE_OK);
    assert_int_equal(size, 0);
    assert_int_equal(tenure_checkpoint_write(first, "page 7, and more", 6), TENURE_OK);
    assert_int_equal(tenure_checkpoint_read(first, value, &size), TENURE_OK);
    assert_int_equal(size, 6);
    assert_string_equal(value, "page 7");
    uint64_t first_token = tenure_lease_token(first);
    assert_int_equal(tenure_release(first), TENURE_OK);
    assert_int_equal(tenure_checkpoint_write(first, "late", 4), TENURE_E_LOST);
    assert_int_equal(tenure_checkpoint_read(first, value, &size), TENURE_E_LOST);
    tenure_lease *second = acquire(pair->other, "t", 0);
    assert_int_equal(tenure_checkpoint_read(second, value, &size), TENURE_OK);
    assert_string_equal(value, "page 7");
    assert_int_equal(tenure_token_checkpoint(pair->one, "t", first_token, "stale", 5), TENURE_E_LOST);
    assert_non_null(strstr(tenure_message(pair->one), "stale"));
    assert_int_equal(tenure_token_checkpoint(pair->one, "t", tenure_lease_token(second), "8", 1), TENURE_OK);
    assert_int_equal(tenure_target_checkpoint(pair->one, "t", value, &size, &token), TENURE_OK);
    assert_string_equal(value, "8");
    assert_int_equal(token, tenure_lease_token(second));
    assert_int_equal(tenure_checkpoint_write(second, NULL, 0), TENURE_OK);
    assert_int_equal(tenure_target_checkpoint(pair->one, "t", value, &size, &token), TENURE_OK);
    assert_int_equal(size, 0);
    assert_int_equal(token, 0);
    tenure_lease_free(first);
    tenure_lease_free(second);
}

TEST_WITH(what_is_no_text_or_too_long_is_refused, setup, teardown) {
    const struct pair *pair = *state;
    char value[TENURE_CHECKPOINT_MAX + 1];
    size_t size;
    tenure_lease *lease = acquire(pair->one, "t", 0);
    uint64_t token = tenure_lease_token(lease);
    memset(value, 'x', sizeof value);
    assert_int_equal(tenure_checkpoint_write(lease, value, TENURE_CHECKPOINT_MAX), TENURE_OK);
    assert_int_equal(tenure_checkpoint_write(lease, value, TENURE_CHECKPOINT_MAX + 1), TENURE_E_INVALID);
    assert_non_null(strstr(tenure_message(lease), "at most 4096 bytes"));
    assert_int_equal(tenure_checkpoint_write(lease, "a\0b", 3), TENURE_E_INVALID);
    assert_int_equal(tenure_checkpoint_write(lease, "\xff", 1), TENURE_E_INVALID);
    assert_int_equal(tenure_checkpoint_write(lease, NULL, 1), TENURE_E_INVALID);
    assert_int_equal(tenure_checkpoint_read(lease, NULL, &size), TENURE_E_INVALID);
    assert_int_equal(tenure_checkpoint_read(lease, value, NULL), TENURE_E_INVALID);
    assert_int_equal(tenure_token_checkpoint(pair->one, "a b", token, "x", 1), TENURE_E_INVALID);
    assert_int_equal(tenure_token_checkpoint(pair->one, "t", 0, "x", 1), TENURE_E_INVALID);
    assert_int_equal(tenure_target_checkpoint(pair->one, "t", NULL, &size, NULL), TENURE_E_INVALID);
    assert_int_equal(tenure_target_checkpoint(pair->one, "unknown", value, &size, NULL), TENURE_E_UNKNOWN_TARGET);
    tenure_lease_free(lease);
    assert_int_equal(tenure_checkpoint_write(lease, "x", 1), TENURE_E_CLOSED);
}
