/*
 * Values of records: what is written is read, unknown fields stay, and a record of newer rules is not replaced.
 */
#include "unit/unit.h"

#include "rules/feed.h"
#include "rules/lease_row.h"
#include "rules/namespace_row.h"
#include "rules/value.h"

struct pair {
    uint64_t number;
    const char *text;
};

static const ten_value_field fields[] = {{"number", TEN_VALUE_NUMBER, offsetof(struct pair, number)},
                                         {"text", TEN_VALUE_TEXT, offsetof(struct pair, text)}};

TEST(what_is_written_is_read_whatever_bytes_it_has) {
    static const char *const texts[] = {"plain", "", " a b=c%20 ", "\x01\t\n\x7f", "\xc3\xa9\xff", "100%"};
    (void)state;
    for (size_t i = 0; i < TEN_COUNT(texts); i++) {
        ten_buf value = {0}, read = {0};
        struct pair pair = {.number = UINT64_MAX, .text = texts[i]};
        ten_value_write(&value, NULL, fields, 2, &pair);
        assert_null(strpbrk(ten_buf_string(&value), "\t\n"));
        struct pair back;
        assert_true(ten_value_read(ten_buf_string(&value), fields, 2, &back, &read));
        assert_true(back.number == UINT64_MAX);
        assert_string_equal(back.text, texts[i]);
        ten_buf_free(&value);
        ten_buf_free(&read);
    }
}

TEST(fields_that_are_not_known_stay_and_so_does_the_version) {
    ten_buf value = {0};
    struct pair pair = {.number = 2, .text = NULL};
    const char *old = "3 colour=light%20blue number=1 text=gone flag=1";
    ten_value_write(&value, old, fields, 2, &pair);
    assert_string_equal(ten_buf_string(&value), "3 number=2 colour=light%20blue flag=1");
    assert_false(ten_value_is_writable(old));
    assert_true(ten_value_is_writable("1 number=1"));
    assert_true(ten_value_is_writable(NULL));
    ten_buf_free(&value);
}

TEST(what_is_no_value_is_told) {
    static const char *const values[] = {"", "x", " number=1", "1 text=%zz"};
    (void)state;
    ten_buf texts = {0};
    for (size_t i = 0; i < TEN_COUNT(values); i++) {
        struct pair pair;
        assert_false(ten_value_read(values[i], fields, 2, &pair, &texts));
    }
    ten_buf_free(&texts);
}

TEST(a_lease_comes_back_from_its_record) {
    ten_lease_row row = {.exists = true, .holder = "a b", .token = 7, .session = 9, .ttl_ms = 1000, .barred = true};
    ten_lease_row back;
    ten_buf value = {0};
    ten_lease_row_write(&value, "1 unknown=1", &row);
    ten_record record = {.version = 3, .value = ten_buf_string(&value), .name = row.holder, .number = row.token};
    assert_true(ten_lease_row_read(&record, &back));
    assert_true(ten_lease_row_is_same(&row, &back));
    assert_non_null(strstr(ten_buf_string(&value), "unknown=1"));
    record.number = TENURE_TOKEN_MAX + 1; /* no store grants it */
    assert_false(ten_lease_row_read(&record, &back));
    ten_buf_free(&value);
}

TEST(an_epoch_raises_floor_and_cursors_and_lasts_as_long_as_what_was_lost) {
    const uint64_t wall_ms = UINT64_C(1700000000000);
    static const struct {
        uint64_t longest_ms, lost_ms, least_ms, shown_ms, expected_ms;
    } rows[] = {{5000, TEN_FOREVER, 30000, 0, 30000},
                {50000, TEN_FOREVER, 30000, 0, 50000},
                {5000, TEN_FOREVER, 0, 7000, 7000},
                {50000, 1000, 30000, 0, 1000},
                {50000, 0, 30000, 0, 0}};
    for (size_t i = 0; i < TEN_COUNT(rows); i++) {
        ten_namespace_row row = {.exists = true, .epoch = 1, .longest_ms = rows[i].longest_ms, .first = 5};
        ten_loss loss = {wall_ms, rows[i].lost_ms, rows[i].least_ms, rows[i].shown_ms};
        assert_int_equal(ten_namespace_row_begin_epoch(&row, &loss), rows[i].expected_ms);
        assert_int_equal(row.epoch,
                         ten_max_u64(2, loss.wall_ms)); /* an emptied store never comes back to a former one */
        assert_int_equal(row.token_floor, wall_ms + 1);
        assert_int_equal(row.first, wall_ms * 1000);
        loss.wall_ms = 1; /* the clock was set back */
        ten_namespace_row_begin_epoch(&row, &loss);
        assert_int_equal(row.token_floor, wall_ms + 1);
        assert_int_equal(row.first, wall_ms * 1000 + 1);
    }
}

TEST(an_entry_of_the_feed_comes_back_with_the_time_at_which_it_happened) {
    ten_buf text = {0}, texts = {0};
    ten_change change = {.kind = TENURE_EVENT_LOST,
                         .reason = TEN_REASON_EXPIRED,
                         .target = "t",
                         .instance = "a",
                         .actor = "",
                         .token = 4,
                         .at_ms = 900};
    ten_change back;
    ten_feed_write(&text, &change, 1000);
    assert_true(ten_feed_read(ten_buf_string(&text), 2000, &back, &texts));
    assert_int_equal(back.at_ms, 1900);
    assert_int_equal(back.kind, TENURE_EVENT_LOST);
    assert_int_equal(back.reason, TEN_REASON_EXPIRED);
    assert_string_equal(back.target, "t");
    assert_string_equal(back.actor, "");
    assert_false(ten_feed_read("1 event=of_another_version", 1, &back, &texts));
    assert_false(ten_feed_read("", 1, &back, &texts));
    ten_buf_free(&text);
    ten_buf_free(&texts);
}
