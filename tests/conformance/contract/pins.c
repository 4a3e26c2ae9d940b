/*
 * The store contract: pins. A pin is a part of a registration: it is listed with it, ends by the store's clock, stays
 * when the registration is changed and goes when that is removed. The feed tells of it.
 */
#include "conformance/suite.h"

#include <stdio.h>

#define REASON  "disk \"full\" \\ 50 % {so}, d\xc3\xa9m\xc3\xa9nagement"
#define HOUR_MS UINT64_C(3600000)

struct found {
    size_t count;
    ten_pin pin;
    char texts[3][TENURE_HOLDER_MAX + 1]; /* instance, actor, reason */
    char exec[64];
    bool paused;
};

static void keep(char text[TENURE_HOLDER_MAX + 1], const char **at) {
    if (*at)
        snprintf(text, TENURE_HOLDER_MAX + 1, "%s", *at);
    *at = *at ? text : NULL;
}

static int take_row(const ten_row *row, void *userdata) {
    struct found *found = userdata;
    found->count++;
    found->pin = row->pin;
    found->paused = row->target.paused;
    keep(found->texts[0], &found->pin.instance);
    keep(found->texts[1], &found->pin.actor);
    keep(found->texts[2], &found->pin.reason);
    snprintf(found->exec, sizeof found->exec, "%s", row->target.exec ? row->target.exec : "");
    return 0;
}

/* The pin of "t", which is the only target; a listing and a reading say the same. */
static void read_pin(const struct place *place, struct found *found) {
    const char *id = "t";
    struct found listed = {0};
    ten_query query = {.namespace_name = place->ns, .filter = TENURE_REGISTERED, .limit = 10};
    *found = (struct found){0};
    assert_int_equal(place->store->ops->read_targets(place->store, place->ns, &id, 1, take_row, found, CALL_MS),
                     TENURE_OK);
    assert_int_equal(place->store->ops->list(place->store, &query, take_row, &listed, CALL_MS), TENURE_OK);
    assert_int_equal(listed.count, found->count);
    assert_int_equal(listed.pin.until_ms, found->pin.until_ms);
    assert_int_equal(listed.pin.instance != NULL, found->pin.instance != NULL);
    query.filter = TENURE_ALL;
    query.current = true;
    assert_int_equal(place->store->ops->list(place->store, &query, take_row, &listed, CALL_MS), TENURE_OK);
    assert_int_equal(listed.pin.until_ms, found->pin.until_ms);
}

static bool edit(const struct place *place, enum ten_target_action action, ten_pin pin) {
    ten_target_edit change = {.action = action, .target = {.id = "t", .exec = "true"}, .pin = pin};
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, &change, 1, CALL_MS), TENURE_OK);
    return change.found;
}

static bool pin(const struct place *place, const char *instance, bool away, uint64_t for_ms) {
    return edit(place, TEN_TARGET_PIN,
                (ten_pin){.instance = instance, .away = away, .left_ms = for_ms, .actor = "root@vm", .reason = REASON});
}

CASE(a_pin_is_listed_with_its_target) {
    const struct place *place = *state;
    struct found found;
    (void)edit(place, TEN_TARGET_PUT, (ten_pin){0});
    read_pin(place, &found);
    assert_null(found.pin.instance);
    assert_true(pin(place, "host-b-1794802099365900932-b2c30b3c", false, HOUR_MS));
    read_pin(place, &found);
    assert_string_equal(found.pin.instance, "host-b-1794802099365900932-b2c30b3c");
    assert_string_equal(found.pin.reason, REASON);
    assert_non_null(strstr(found.pin.actor, "root@vm"));
    assert_false(found.pin.away);
    assert_true(found.pin.left_ms <= HOUR_MS && found.pin.left_ms > HOUR_MS - LONG_MS);
    assert_string_equal(found.exec, "true");
    assert_true(pin(place, "host-c-1", true, 2 * HOUR_MS));
    read_pin(place, &found);
    assert_string_equal(found.pin.instance, "host-c-1");
    assert_true(found.pin.away);
    assert_true(found.pin.left_ms > HOUR_MS);
}

CASE(a_pin_stays_when_the_target_is_changed_and_goes_when_it_is_removed) {
    const struct place *place = *state;
    struct found found;
    (void)edit(place, TEN_TARGET_PUT, (ten_pin){0});
    (void)pin(place, "b", false, HOUR_MS);
    (void)edit(place, TEN_TARGET_PUT, (ten_pin){0});
    (void)edit(place, TEN_TARGET_PAUSE, (ten_pin){0});
    read_pin(place, &found);
    assert_string_equal(found.pin.instance, "b");
    assert_true(found.paused);
    (void)edit(place, TEN_TARGET_RESUME, (ten_pin){0});
    (void)edit(place, TEN_TARGET_PUT, (ten_pin){0});
    read_pin(place, &found);
    assert_string_equal(found.pin.instance, "b");
    assert_false(found.paused);
    assert_string_equal(found.exec, "true");
    (void)edit(place, TEN_TARGET_REMOVE, (ten_pin){0});
    (void)edit(place, TEN_TARGET_PUT, (ten_pin){0});
    read_pin(place, &found);
    assert_null(found.pin.instance);
}

CASE(a_pin_is_taken_back) {
    const struct place *place = *state;
    struct found found;
    assert_false(pin(place, "b", false, HOUR_MS));
    assert_false(edit(place, TEN_TARGET_UNPIN, (ten_pin){0}));
    (void)edit(place, TEN_TARGET_PUT, (ten_pin){0});
    (void)pin(place, "b", false, HOUR_MS);
    assert_true(edit(place, TEN_TARGET_UNPIN, (ten_pin){.actor = "root@vm"}));
    read_pin(place, &found);
    assert_int_equal(found.count, 1);
    assert_null(found.pin.instance);
    assert_string_equal(found.exec, "true");
    assert_true(edit(place, TEN_TARGET_UNPIN, (ten_pin){0}));
}

CASE(a_pin_ends_by_itself) {
    const struct place *place = *state;
    struct found found;
    (void)edit(place, TEN_TARGET_PUT, (ten_pin){0});
    (void)pin(place, "b", false, 1);
    const char *id = "t";
    uint64_t end_ms = now_ms() + 30 * 1000;
    do {
        sleep_ms(5);
        assert_int_equal(place->store->ops->read_targets(place->store, place->ns, &id, 1, take_row, &found, CALL_MS),
                         TENURE_OK);
    } while (found.pin.instance && now_ms() < end_ms);
    read_pin(place, &found);
    assert_null(found.pin.instance);
}

CASE(the_feed_tells_who_was_pinned_where_and_by_whom) {
    const struct place *place = *state;
    (void)edit(place, TEN_TARGET_PUT, (ten_pin){0});
    uint64_t cursor = cursor_now(place->store, place->ns);
    (void)pin(place, "b", false, HOUR_MS);
    (void)pin(place, "c", true, HOUR_MS);
    (void)edit(place, TEN_TARGET_UNPIN, (ten_pin){.actor = "root@vm"});
    static const enum ten_reason reasons[] = {TEN_REASON_PINNED, TEN_REASON_PINNED_AWAY, TEN_REASON_UNPINNED};
    static const char *const instances[] = {"b", "c", ""};
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, TEN_COUNT(reasons));
    for (size_t i = 0; i < seen.count; i++) {
        assert_int_equal(seen.at[i].change.kind, TENURE_EVENT_TARGET_CHANGED);
        assert_int_equal(seen.at[i].change.reason, reasons[i]);
        assert_string_equal(seen.at[i].change.target, "t");
        assert_string_equal(seen.at[i].change.instance, instances[i]);
        assert_non_null(strstr(seen.at[i].change.actor, "root@vm"));
    }
}

/* Over HTTP the server names its client instead. */
CASE(the_feed_tells_who_has_made_any_other_edit) {
    const struct place *place = *state;
    static const enum ten_target_action actions[] = {TEN_TARGET_PUT, TEN_TARGET_PUT, TEN_TARGET_PAUSE,
                                                     TEN_TARGET_RESUME, TEN_TARGET_REMOVE};
    uint64_t cursor = cursor_now(place->store, place->ns);
    for (size_t i = 0; i < TEN_COUNT(actions); i++)
        (void)edit(place, actions[i], (ten_pin){.actor = "root@vm"});
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, TEN_COUNT(actions));
    const char *expected = strcmp(place->store->ops->name, "http") == 0 ? "" : "root@vm";
    for (size_t i = 0; i < seen.count; i++) {
        assert_int_equal(seen.at[i].change.reason, TEN_REASON_NONE);
        assert_string_equal(seen.at[i].change.instance, "");
        assert_string_equal(seen.at[i].change.actor, expected);
    }
}
