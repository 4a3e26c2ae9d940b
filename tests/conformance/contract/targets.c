/*
 * The store contract: the target registry, and listings of targets with their leases, by filter and page by page.
 */
#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what a listing gave ------------------------------------------------------------------------------- */

#define LISTED_MAX 1100u

struct listed {
    size_t count;
    struct {
        ten_row row;
        char id[TENURE_TARGET_MAX + 1];
        char holder[64];
        char texts[3][64]; /* url, exec, spec */
    } at[LISTED_MAX];
};

static void keep(char text[64], const char **at) {
    if (*at)
        snprintf(text, 64, "%s", *at);
    *at = *at ? text : NULL;
}

static int note_row(const ten_row *row, void *userdata) {
    struct listed *listed = userdata;
    if (listed->count == LISTED_MAX)
        return 1;
    size_t i = listed->count++;
    ten_row *kept = &listed->at[i].row;
    *kept = *row;
    snprintf(listed->at[i].id, sizeof listed->at[i].id, "%s", row->target.id);
    kept->target.id = listed->at[i].id;
    keep(listed->at[i].holder, &kept->holder);
    keep(listed->at[i].texts[0], &kept->target.url);
    keep(listed->at[i].texts[1], &kept->target.exec);
    keep(listed->at[i].texts[2], &kept->target.spec);
    return 0;
}

static struct listed *list(const struct place *place, enum tenure_filter filter) {
    struct listed *listed = calloc(1, sizeof *listed);
    assert_non_null(listed);
    ten_query query = {.namespace_name = place->ns, .filter = filter, .limit = LISTED_MAX};
    assert_int_equal(place->store->ops->list(place->store, &query, note_row, listed, CALL_MS), TENURE_OK);
    return listed;
}

static void expect_listed(const struct place *place, enum tenure_filter filter, const char *expected) {
    struct listed *listed = list(place, filter);
    char found[512] = "";
    for (size_t i = 0; i < listed->count; i++) {
        size_t length = strlen(found);
        snprintf(found + length, sizeof found - length, "%s%s", i ? " " : "", listed->at[i].id);
    }
    free(listed);
    assert_string_equal(found, expected);
}

/* ---- listings ------------------------------------------------------------------------------------------ */

CASE(every_filter_lists_what_it_says) {
    const struct place *place = *state;
    put_target(place, "free");
    put_target(place, "leased");
    put_target(place, "paused");
    put_target(place, "paused-leased");
    (void)edit_target(place, TEN_TARGET_PAUSE, "paused");
    (void)edit_target(place, TEN_TARGET_PAUSE, "paused-leased");
    must_acquire(place, "leased", "a", LONG_MS);
    must_acquire(place, "paused-leased", "a", LONG_MS);
    must_acquire(place, "unregistered-leased", "a", LONG_MS);
    uint64_t token = must_acquire(place, "unregistered-once", "a", LONG_MS);
    expect_outcome(release(place, "unregistered-once", "a", token), TEN_OK);
    expect_listed(place, TENURE_ALL, "free leased paused paused-leased unregistered-leased unregistered-once");
    expect_listed(place, TENURE_LEASED, "leased paused-leased unregistered-leased");
    expect_listed(place, TENURE_FREE, "free unregistered-once");
    expect_listed(place, TENURE_REGISTERED, "free leased paused paused-leased");
}

static void list_current(const struct place *place, size_t page, struct listed *listed) {
    ten_query query = {.namespace_name = place->ns, .filter = TENURE_ALL, .limit = page, .current = true};
    char after[TENURE_TARGET_MAX + 1] = "";
    *listed = (struct listed){0};
    for (size_t before = 1; listed->count != before;) {
        before = listed->count;
        query.after = after[0] ? after : NULL;
        assert_int_equal(place->store->ops->list(place->store, &query, note_row, listed, CALL_MS), TENURE_OK);
        if (listed->count > before)
            snprintf(after, sizeof after, "%s", listed->at[listed->count - 1].id);
        else
            break;
    }
}

/* What an instance lists when it starts. */
CASE(what_is_free_and_not_registered_is_left_out_of_what_is_current) {
    enum { OLD = 30 };
    const struct place *place = *state;
    static const char *const expected[] = {"a-registered", "b-held", "m-held", "z-both", "z-registered"};
    struct listed *listed = calloc(1, sizeof *listed);
    assert_non_null(listed);
    for (int i = 0; i < OLD; i++) {
        char id[16];
        snprintf(id, sizeof id, "%c-old-%d", i % 2 ? 'c' : 'y', i);
        expect_outcome(release(place, id, "a", must_acquire(place, id, "a", LONG_MS)), TEN_OK);
    }
    must_acquire(place, "expired", "a", short_ttl(place->store));
    put_target(place, "a-registered");
    put_target(place, "z-registered");
    put_target(place, "z-both");
    uint64_t token = must_acquire(place, "z-registered", "a", LONG_MS);
    expect_outcome(release(place, "z-registered", "a", token), TEN_OK);
    must_acquire(place, "m-held", "a", LONG_MS);
    must_acquire(place, "b-held", "b", LONG_MS);
    must_acquire(place, "z-both", "b", LONG_MS);
    sleep_ms(short_ttl(place->store) + place->store->capabilities.expiry_late_ms + 50);
    static const size_t pages[] = {LISTED_MAX, 2, 1};
    for (size_t i = 0; i < TEN_COUNT(pages); i++) {
        list_current(place, pages[i], listed);
        assert_int_equal(listed->count, TEN_COUNT(expected));
        for (size_t j = 0; j < TEN_COUNT(expected); j++)
            assert_string_equal(listed->at[j].id, expected[j]);
        assert_int_equal(listed->at[4].row.token, token);
        assert_string_equal(listed->at[1].row.holder, "b");
        assert_null(listed->at[0].row.holder);
    }
    free(listed);
}

CASE(a_lease_that_has_ended_is_listed_as_free) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    uint64_t token = must_acquire(place, "t", "a", ttl_ms);
    expect_listed(place, TENURE_LEASED, "t");
    for (uint64_t end_ms = now_ms() + HANG_MS; read_lease(place, "t").holder && now_ms() < end_ms;)
        sleep_ms(10);
    expect_listed(place, TENURE_LEASED, "");
    expect_listed(place, TENURE_FREE, "t");
    struct listed *listed = list(place, TENURE_ALL);
    assert_null(listed->at[0].row.holder);
    assert_int_equal(listed->at[0].row.token, token);
    assert_int_equal(listed->at[0].row.remaining_ms, 0);
    free(listed);
}

CASE(a_listing_has_the_registration_and_the_lease_together) {
    const struct place *place = *state;
    ten_target_edit edit = {.action = TEN_TARGET_PUT,
                            .target = {.id = "t",
                                       .url = "http://host/a?b=c",
                                       .exec = "echo 'x' \"y\"",
                                       .spec = "{\"a\":[1,null]}",
                                       .every_ms = 1500,
                                       .paused = true}};
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, &edit, 1, CALL_MS), TENURE_OK);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    must_acquire(place, "u", "b", LONG_MS);
    expect_outcome(force(place, "u", TEN_OP_FORCE, NULL), TEN_OK);
    struct listed *listed = list(place, TENURE_ALL);
    assert_int_equal(listed->count, 2);
    const ten_row *row = &listed->at[0].row;
    assert_true(row->registered && row->target.paused && !row->barred);
    assert_string_equal(row->target.url, "http://host/a?b=c");
    assert_string_equal(row->target.exec, "echo 'x' \"y\"");
    assert_string_equal(row->target.spec, "{\"a\":[1,null]}");
    assert_int_equal(row->target.every_ms, 1500);
    assert_string_equal(row->holder, "a");
    assert_int_equal(row->token, token);
    assert_in_range(row->ttl_ms, LONG_MS, LONG_MS + 1000);
    assert_in_range(row->remaining_ms, LONG_MS - LONG_MS / 4, LONG_MS + 1000);
    assert_true(row->acquired_at_ms > 0);
    row = &listed->at[1].row;
    assert_false(row->registered);
    assert_true(row->barred);
    assert_null(row->target.url);
    assert_null(row->target.exec);
    assert_null(row->target.spec);
    free(listed);
}

CASE(listings_are_in_byte_order_of_the_ids) {
    static const char *const ids[] = {"b", "a~", "a/b", "a", "Z", "a.b", "a-b", "0", "a0", "~", "@", "zz", "a/0", "A"};
    const struct place *place = *state;
    for (size_t i = 0; i < TEN_COUNT(ids); i++) {
        if (i % 2)
            put_target(place, ids[i]);
        else
            must_acquire(place, ids[i], "h", LONG_MS);
    }
    struct listed *listed = list(place, TENURE_ALL);
    assert_int_equal(listed->count, TEN_COUNT(ids));
    for (size_t i = 1; i < listed->count; i++)
        assert_true(strcmp(listed->at[i - 1].id, listed->at[i].id) < 0);
    free(listed);
}

/* A thousand targets, each twentieth of them leased and some only leased. */
static void make_thousand(const struct place *place) {
    ten_target_edit *edits = calloc(1000, sizeof *edits);
    char(*ids)[16] = calloc(1000, sizeof *ids);
    assert_true(edits && ids);
    size_t count = 0;
    for (size_t i = 0; i < 1000; i++) {
        snprintf(ids[i], sizeof ids[i], "t%04zu", (i * 7919u) % 1000u);
        if (i % 20 == 0)
            must_acquire(place, ids[i], "a", LONG_MS);
        if (i % 40 != 0)
            edits[count++] = (ten_target_edit){.action = TEN_TARGET_PUT, .target = {.id = ids[i]}};
    }
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, edits, count, 30000), TENURE_OK);
    free(edits);
    free(ids);
}

CASE(a_thousand_targets_in_pages_are_each_seen_exactly_once) {
    const struct place *place = *state;
    make_thousand(place);
    struct listed *listed = calloc(1, sizeof *listed);
    assert_non_null(listed);
    ten_query query = {.namespace_name = place->ns, .filter = TENURE_ALL, .limit = 37};
    char after[TENURE_TARGET_MAX + 1] = "";
    size_t pages = 0;
    for (;; pages++) {
        size_t before = listed->count;
        query.after = pages ? after : NULL;
        assert_int_equal(place->store->ops->list(place->store, &query, note_row, listed, CALL_MS), TENURE_OK);
        assert_true(listed->count - before <= 37);
        if (listed->count == before)
            break;
        snprintf(after, sizeof after, "%s", listed->at[listed->count - 1].id);
        /* What comes or goes meanwhile, before and after the page, does not disturb the rest. */
        if (pages == 10) {
            put_target(place, "a-new-one-before");
            must_acquire(place, "s-new-one-before", "b", LONG_MS);
        }
    }
    assert_int_equal(pages, 28);
    assert_int_equal(listed->count, 1000);
    for (size_t i = 0; i < 1000; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, "t%04zu", i);
        assert_string_equal(listed->at[i].id, expected);
    }
    free(listed);
}

CASE(filters_and_pages_go_together) {
    const struct place *place = *state;
    make_thousand(place);
    struct listed *listed = calloc(1, sizeof *listed);
    assert_non_null(listed);
    ten_query query = {.namespace_name = place->ns, .filter = TENURE_LEASED, .limit = 7};
    size_t before;
    do {
        before = listed->count;
        assert_int_equal(place->store->ops->list(place->store, &query, note_row, listed, CALL_MS), TENURE_OK);
        assert_true(listed->count - before <= 7);
        query.after = listed->count ? listed->at[listed->count - 1].id : NULL;
    } while (listed->count > before);
    assert_int_equal(listed->count, 50);
    free(listed);
}

static int stop_at_third(const ten_row *row, void *userdata) {
    int *count = userdata;
    (void)row;
    return ++*count == 3 ? 7 : 0;
}

CASE(a_callback_that_says_stop_ends_the_listing_with_its_word) {
    const struct place *place = *state;
    for (const char *ids = "abcdef"; *ids; ids++)
        put_target(place, (char[]){*ids, '\0'});
    int count = 0;
    ten_query query = {.namespace_name = place->ns, .filter = TENURE_ALL, .limit = 100};
    assert_int_equal(place->store->ops->list(place->store, &query, stop_at_third, &count, CALL_MS), 7);
    assert_int_equal(count, 3);
    expect_listed(place, TENURE_ALL, "a b c d e f");
}

static int count_held(const ten_row *row, void *userdata) {
    size_t *counts = userdata;
    counts[0]++;
    counts[1] += row->registered && row->holder;
    return 0;
}

/* Registrations and leases are two lists in most stores; however they are cut into pages, a target is one row. */
CASE(a_long_listing_has_what_is_registered_and_leased_once) {
    enum { MANY = 700 };
    static ten_op ops[MANY];
    static ten_result results[MANY];
    static ten_target_edit edits[MANY];
    static char ids[MANY][16];
    const struct place *place = *state;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof ids[i], "t-%04zu", i);
        edits[i] = (ten_target_edit){.action = TEN_TARGET_PUT, .target = {.id = ids[i], .exec = "true"}};
        ops[i] = (ten_op){
            .kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = ids[i], .holder = "a", .ttl_ms = LONG_MS};
    }
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, edits, MANY, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < MANY; i += 100)
        assert_int_equal(ten_store_apply(place->store, ops + i, results + i, 100, CALL_MS), TENURE_OK);
    size_t counts[2] = {0};
    ten_query query = {.namespace_name = place->ns, .filter = TENURE_ALL, .limit = 2 * MANY};
    assert_int_equal(place->store->ops->list(place->store, &query, count_held, counts, CALL_MS), TENURE_OK);
    assert_int_equal(counts[0], MANY);
    assert_int_equal(counts[1], MANY);
}

CASE(a_listing_stays_in_its_namespace) {
    const struct place *place = *state;
    struct place elsewhere = *place;
    make_namespace(elsewhere.ns);
    put_target(place, "mine");
    put_target(&elsewhere, "theirs");
    must_acquire(&elsewhere, "zz", "a", LONG_MS);
    expect_listed(place, TENURE_ALL, "mine");
    expect_listed(&elsewhere, TENURE_ALL, "theirs zz");
    make_namespace(elsewhere.ns);
    expect_listed(&elsewhere, TENURE_ALL, "");
}

/* ---- certain targets ----------------------------------------------------------------------------------- */

static struct listed *read_targets(const struct place *place, const char *const *ids, size_t count) {
    struct listed *listed = calloc(1, sizeof *listed);
    assert_non_null(listed);
    assert_int_equal(place->store->ops->read_targets(place->store, place->ns, ids, count, note_row, listed, CALL_MS),
                     TENURE_OK);
    return listed;
}

CASE(certain_targets_are_read_in_the_order_of_their_ids_as_a_listing_has_them) {
    const struct place *place = *state;
    ten_target_edit edits[] = {
        {.action = TEN_TARGET_PUT,
         .target = {.id = "b", .url = "http://x", .exec = "e", .spec = "{\"n\":1}", .every_ms = 70, .paused = true}},
        {.action = TEN_TARGET_PUT, .target = {.id = "b/more~:@+-._z"}},
        {.action = TEN_TARGET_PUT, .target = {.id = "ba"}},
        {.action = TEN_TARGET_PUT, .target = {.id = "removed"}},
        {.action = TEN_TARGET_PUT, .target = {.id = "unleased"}},
    };
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, edits, TEN_COUNT(edits), CALL_MS),
                     TENURE_OK);
    uint64_t token = must_acquire(place, "b", "a", LONG_MS);
    must_acquire(place, "removed", "a", LONG_MS);
    must_acquire(place, "only-leased", "a", LONG_MS);
    assert_true(edit_target(place, TEN_TARGET_REMOVE, "removed"));
    assert_true(edit_target(place, TEN_TARGET_REMOVE, "unleased"));
    static const char *const ids[] = {"removed",  "unknown",        "only-leased", "b",
                                      "unleased", "b/more~:@+-._z", "a",           "ba"};
    static const char *const expected[] = {"removed", "only-leased", "b", "b/more~:@+-._z", "ba"};
    struct listed *listed = read_targets(place, ids, TEN_COUNT(ids));
    assert_int_equal(listed->count, TEN_COUNT(expected));
    for (size_t i = 0; i < TEN_COUNT(expected); i++) {
        assert_string_equal(listed->at[i].id, expected[i]);
        assert_int_equal(listed->at[i].row.registered, i >= 2);
        assert_int_equal(listed->at[i].row.holder != NULL, i < 3);
    }
    const ten_row *row = &listed->at[2].row;
    assert_string_equal(row->target.url, "http://x");
    assert_string_equal(row->target.exec, "e");
    assert_string_equal(row->target.spec, "{\"n\":1}");
    assert_int_equal(row->target.every_ms, 70);
    assert_true(row->target.paused);
    assert_string_equal(row->holder, "a");
    assert_int_equal(row->token, token);
    assert_int_equal(row->ttl_ms, LONG_MS);
    assert_in_range(row->remaining_ms, 1, LONG_MS);
    free(listed);
}

CASE(ids_that_nobody_knows_have_no_rows) {
    const struct place *place = *state;
    static const char *const ids[] = {"x", "y"};
    struct place elsewhere = *place;
    make_namespace(elsewhere.ns);
    put_target(&elsewhere, "x");
    struct listed *listed = read_targets(place, ids, 2);
    assert_int_equal(listed->count, 0);
    free(listed);
}

/* As long as ids can be, so that whatever limits a request has is met. */
CASE(a_thousand_targets_are_read_in_one_call) {
    const struct place *place = *state;
    enum { COUNT = 1000 };
    char(*texts)[TENURE_TARGET_MAX + 1] = calloc(COUNT, sizeof *texts);
    const char **ids = calloc(COUNT, sizeof *ids);
    ten_target_edit *edits = calloc(COUNT, sizeof *edits);
    assert_true(texts && ids && edits);
    for (size_t i = 0; i < COUNT; i++) {
        memset(texts[i], i % 3 ? 'x' : '+', TENURE_TARGET_MAX);
        char number[8];
        snprintf(number, sizeof number, "%04zu", (i * 7919u) % COUNT);
        memcpy(texts[i], number, 4);
        texts[i][i % 5 == 0 ? TENURE_TARGET_MAX : 4] = '\0';
        ids[i] = texts[i];
        edits[i] = (ten_target_edit){.action = TEN_TARGET_PUT, .target = {.id = texts[i]}};
    }
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, edits, COUNT / 2, 30000), TENURE_OK);
    struct listed *listed = read_targets(place, ids, COUNT);
    assert_int_equal(listed->count, COUNT / 2);
    for (size_t i = 0; i < listed->count; i++)
        assert_string_equal(listed->at[i].id, ids[i]);
    free(listed);
    free(edits);
    free(ids);
    free(texts);
}

/* More than 4 MiB, where a server ends an answer. */
CASE(large_registrations_are_read_in_one_call) {
    const struct place *place = *state;
    enum { COUNT = 90, SIZE = 50000 };
    char *spec = malloc(SIZE + 3);
    const char *ids[COUNT];
    char texts[COUNT][8];
    assert_non_null(spec);
    memset(spec, 'x', SIZE + 2);
    spec[0] = spec[SIZE + 1] = '"';
    spec[SIZE + 2] = '\0';
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "t%02zu", i);
        ids[i] = texts[i];
        ten_target_edit edit = {.action = TEN_TARGET_PUT, .target = {.id = texts[i], .spec = spec}};
        if (i % 10 != 9) /* some are not known, also behind the last that fits into an answer */
            assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, &edit, 1, CALL_MS), TENURE_OK);
    }
    struct listed *listed = read_targets(place, ids, COUNT);
    assert_int_equal(listed->count, COUNT / 10 * 9);
    for (size_t i = 0; i < listed->count; i++)
        assert_string_equal(listed->at[i].id, ids[i + i / 9]);
    free(listed);
    free(spec);
}

/* ---- the registry -------------------------------------------------------------------------------------- */

CASE(an_edit_says_whether_the_target_was_registered) {
    const struct place *place = *state;
    assert_false(edit_target(place, TEN_TARGET_REMOVE, "t"));
    assert_false(edit_target(place, TEN_TARGET_PAUSE, "t"));
    assert_false(edit_target(place, TEN_TARGET_RESUME, "t"));
    assert_false(read_lease(place, "t").registered);
    assert_false(edit_target(place, TEN_TARGET_PUT, "t"));
    assert_true(edit_target(place, TEN_TARGET_PUT, "t"));
    assert_true(edit_target(place, TEN_TARGET_PAUSE, "t"));
    assert_true(read_lease(place, "t").paused);
    assert_true(edit_target(place, TEN_TARGET_RESUME, "t"));
    assert_false(read_lease(place, "t").paused);
    assert_true(edit_target(place, TEN_TARGET_REMOVE, "t"));
    assert_false(edit_target(place, TEN_TARGET_REMOVE, "t"));
    must_acquire(place, "leased", "a", LONG_MS);
    assert_false(edit_target(place, TEN_TARGET_PAUSE, "leased"));
}

CASE(a_put_replaces_all_of_the_registration) {
    const struct place *place = *state;
    ten_target_edit edits[] = {
        {.action = TEN_TARGET_PUT, .target = {.id = "t", .url = "http://a", .exec = "b", .every_ms = 5}},
        {.action = TEN_TARGET_PUT, .target = {.id = "t", .spec = "[]", .paused = true}},
    };
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, edits, 2, CALL_MS), TENURE_OK);
    assert_false(edits[0].found);
    assert_true(edits[1].found);
    struct listed *listed = list(place, TENURE_REGISTERED);
    assert_int_equal(listed->count, 1);
    const tenure_target *target = &listed->at[0].row.target;
    assert_null(target->url);
    assert_null(target->exec);
    assert_string_equal(target->spec, "[]");
    assert_int_equal(target->every_ms, 0);
    assert_true(target->paused);
    free(listed);
}

CASE(removing_a_target_keeps_its_lease_and_its_counter) {
    const struct place *place = *state;
    put_target(place, "t");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    assert_true(edit_target(place, TEN_TARGET_REMOVE, "t"));
    ten_result result = acquire(place, "t", "b", LONG_MS);
    expect_outcome(result, TEN_HELD);
    expect_holder(result, "a");
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    expect_listed(place, TENURE_REGISTERED, "");
    expect_listed(place, TENURE_LEASED, "t");
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    put_target(place, "t");
    assert_true(must_acquire(place, "t", "b", LONG_MS) > token);
}

CASE(edits_are_told_to_the_feed_and_edits_of_nothing_are_not) {
    const struct place *place = *state;
    uint64_t cursor = cursor_now(place->store, place->ns);
    static const enum ten_target_action actions[] = {TEN_TARGET_REMOVE, TEN_TARGET_PUT,    TEN_TARGET_PUT,
                                                     TEN_TARGET_PAUSE,  TEN_TARGET_RESUME, TEN_TARGET_REMOVE};
    static const enum tenure_event_kind expected[] = {TENURE_EVENT_TARGET_ADDED, TENURE_EVENT_TARGET_CHANGED,
                                                      TENURE_EVENT_TARGET_CHANGED, TENURE_EVENT_TARGET_CHANGED,
                                                      TENURE_EVENT_TARGET_REMOVED};
    for (size_t i = 0; i < TEN_COUNT(actions); i++)
        (void)edit_target(place, actions[i], "t");
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, TEN_COUNT(expected));
    for (size_t i = 0; i < seen.count; i++) {
        assert_int_equal(seen.at[i].change.kind, expected[i]);
        assert_string_equal(seen.at[i].change.target, "t");
        assert_string_equal(seen.at[i].change.instance, "");
        assert_int_equal(seen.at[i].change.token, 0);
    }
}
