/*
 * The list of a source that is read in passes: what counts as changed, as gone, and as not yet gone.
 */
#include "unit/unit.h"

#include "agent/sources/target_list.h"
#include "base/alloc.h"

enum { TTL = 10000 };

/* What ten_target_list_end() said is gone, with blanks between. */
static char gone[256];

static bool note_gone(const char *id, void *userdata) {
    (void)userdata;
    size_t used = strlen(gone);
    snprintf(gone + used, sizeof gone - used, "%s%s", used ? " " : "", id);
    return true;
}

static bool refuse_gone(const char *id, void *userdata) {
    (void)id;
    (void)userdata;
    return false;
}

static void show(ten_target_list *list, const char *id, const char *text) {
    if (ten_target_list_look(list, id, text, strlen(text)) != TEN_LISTED_SAME)
        assert_true(ten_target_list_keep(list, id, text, strlen(text)));
}

/* A complete pass that shows each letter of `ids`; what is gone after it. */
static const char *pass(ten_target_list *list, uint64_t now_ms, const char *ids) {
    ten_target_list_begin(list);
    for (; *ids; ids++)
        show(list, (const char[]){*ids, '\0'}, "text");
    gone[0] = '\0';
    ten_target_list_end(list, now_ms, note_gone, NULL);
    return gone;
}

TEST(a_target_is_the_same_until_its_text_changes) {
    ten_target_list list = {.ttl_ms = TTL};
    ten_target_list_begin(&list);
    assert_int_equal(ten_target_list_look(&list, "a", "1", 1), TEN_LISTED_CHANGED);
    assert_true(ten_target_list_keep(&list, "a", "1", 1));
    assert_int_equal(ten_target_list_look(&list, "a", "1", 1), TEN_LISTED_SAME);
    assert_int_equal(ten_target_list_look(&list, "a", "2", 1), TEN_LISTED_TWICE);
    ten_target_list_begin(&list);
    assert_int_equal(ten_target_list_look(&list, "a", "2", 1), TEN_LISTED_CHANGED);
    assert_int_equal(ten_target_list_look(&list, "a", "1 and more", 10), TEN_LISTED_CHANGED);
    assert_true(ten_target_list_keep(&list, "a", "2", 1));
    assert_int_equal(ten_target_list_look(&list, "a", "2", 1), TEN_LISTED_SAME);
    ten_target_list_free(&list);
}

TEST(a_target_is_gone_when_two_passes_in_a_row_miss_it) {
    ten_target_list list = {.ttl_ms = TTL};
    assert_string_equal(pass(&list, 1000, "abc"), "");
    assert_string_equal(pass(&list, 2000, "ab"), "");
    assert_string_equal(pass(&list, 3000, "abc"), "");
    assert_string_equal(pass(&list, 4000, "ab"), "");
    assert_string_equal(pass(&list, 5000, "ab"), "c");
    assert_string_equal(pass(&list, 6000, "abc"), "");
    ten_target_list_free(&list);
}

TEST(a_pass_that_was_not_completed_says_nothing) {
    ten_target_list list = {.ttl_ms = TTL};
    (void)pass(&list, 1000, "abc");
    for (int i = 0; i < 5; i++)
        ten_target_list_begin(&list);
    assert_string_equal(pass(&list, 2000, "ab"), "");
    ten_target_list_begin(&list);
    show(&list, "a", "text");
    assert_string_equal(pass(&list, 3000, "abc"), "");
    ten_target_list_free(&list);
}

TEST(an_empty_list_is_believed_after_a_ttl) {
    ten_target_list list = {.ttl_ms = TTL};
    (void)pass(&list, 1000, "a");
    assert_string_equal(pass(&list, 2000, ""), "");
    assert_string_equal(pass(&list, 3000, ""), "");
    assert_string_equal(pass(&list, 2000 + TTL - 1, ""), "");
    assert_string_equal(pass(&list, 2000 + TTL, ""), "a");
    /* Then all is as before. */
    (void)pass(&list, 20000, "abc");
    (void)pass(&list, 21000, "ab");
    assert_string_equal(pass(&list, 22000, "ab"), "c");
    ten_target_list_free(&list);
}

TEST(less_than_half_of_a_list_is_believed_after_a_ttl) {
    ten_target_list list = {.ttl_ms = TTL};
    (void)pass(&list, 1000, "abcde");
    (void)pass(&list, 2000, "ab");
    assert_string_equal(pass(&list, 3000, "ab"), "");
    /* More than half is there again: the rest still have their time, each from when it was first missed. */
    (void)pass(&list, 4000, "abcd");
    (void)pass(&list, 5000, "abc");
    assert_string_equal(pass(&list, 6000, "abc"), "");
    assert_string_equal(pass(&list, 2000 + TTL, "abc"), "e");
    assert_string_equal(pass(&list, 5000 + TTL - 1, "abc"), "");
    assert_string_equal(pass(&list, 5000 + TTL, "abc"), "d");
    ten_target_list_free(&list);
}

TEST(half_of_a_list_and_one_of_two_are_believed_at_once) {
    ten_target_list list = {.ttl_ms = TTL};
    (void)pass(&list, 1000, "abcd");
    (void)pass(&list, 2000, "ab");
    (void)pass(&list, 3000, "ab");
    assert_true(strcmp(gone, "c d") == 0 || strcmp(gone, "d c") == 0);
    (void)pass(&list, 4000, "a");
    assert_string_equal(pass(&list, 5000, "a"), "b");
    /* Another list of the same length is a change, not a loss. */
    (void)pass(&list, 6000, "abcd");
    (void)pass(&list, 7000, "efgh");
    (void)pass(&list, 8000, "efgh");
    assert_int_equal(strlen(gone), 7);
    ten_target_list_free(&list);
}

TEST(doubt_lasts_for_a_ttl_and_until_everything_is_there) {
    ten_target_list list = {.ttl_ms = TTL};
    (void)pass(&list, 1000, "abcd");
    ten_target_list_doubt(&list, 1500);
    (void)pass(&list, 2000, "abc");
    assert_string_equal(pass(&list, 3000, "abc"), "");
    assert_string_equal(pass(&list, 4000, "abcd"), "");
    /* Everything was there, but the TTL has not passed. */
    (void)pass(&list, 5000, "abc");
    assert_string_equal(pass(&list, 6000, "abc"), "");
    assert_string_equal(pass(&list, 1500 + TTL, "abc"), "");
    assert_string_equal(pass(&list, 5000 + TTL, "abc"), "d");
    (void)pass(&list, 20000, "ab");
    assert_string_equal(pass(&list, 21000, "ab"), "c");
    ten_target_list_free(&list);
}

TEST(what_could_not_be_removed_is_asked_again) {
    ten_target_list list = {.ttl_ms = TTL};
    (void)pass(&list, 1000, "abc");
    (void)pass(&list, 2000, "ab");
    ten_target_list_begin(&list);
    show(&list, "a", "text");
    show(&list, "b", "text");
    ten_target_list_end(&list, 3000, refuse_gone, NULL);
    assert_string_equal(pass(&list, 4000, "ab"), "c");
    ten_target_list_free(&list);
}

TEST(a_bad_entry_is_news_once_for_each_reason) {
    ten_target_list list = {.ttl_ms = TTL};
    ten_target_list_begin(&list);
    assert_false(ten_target_list_is_refused(&list, "x", 1));
    assert_true(ten_target_list_refuse(&list, "x", 1));
    assert_false(ten_target_list_refuse(&list, "x", 1));
    ten_target_list_end(&list, 1000, note_gone, NULL);
    ten_target_list_begin(&list);
    assert_true(ten_target_list_is_refused(&list, "x", 1));
    assert_false(ten_target_list_is_refused(&list, "x", 2));
    assert_true(ten_target_list_refuse(&list, "x", 2));
    ten_target_list_end(&list, 2000, note_gone, NULL);
    /* It was away, and is back. */
    ten_target_list_begin(&list);
    ten_target_list_end(&list, 3000, note_gone, NULL);
    ten_target_list_begin(&list);
    assert_true(ten_target_list_refuse(&list, "x", 2));
    ten_target_list_free(&list);
}

TEST(memory_that_is_refused_loses_nothing) {
    for (long skip = 0;; skip++) {
        ten_target_list list = {.ttl_ms = TTL};
        (void)pass(&list, 1000, "a");
        ten_target_list_begin(&list);
        ten_alloc_fail_after(skip);
        (void)ten_target_list_look(&list, "a", "text", 4);
        bool kept = ten_target_list_keep(&list, "b", "text", 4);
        bool changed = ten_target_list_keep(&list, "a", "other", 5);
        bool told = ten_target_list_refuse(&list, "x", 1);
        ten_alloc_fail_after(-1);
        bool clean = !ten_alloc_has_failed();
        assert_true(told);
        assert_true(kept + changed >= 1);
        assert_int_equal(ten_target_list_look(&list, "b", "text", 4), kept ? TEN_LISTED_SAME : TEN_LISTED_CHANGED);
        assert_int_equal(ten_target_list_look(&list, "a", "other", 5), changed ? TEN_LISTED_SAME : TEN_LISTED_TWICE);
        ten_target_list_free(&list);
        if (clean)
            return;
    }
}
