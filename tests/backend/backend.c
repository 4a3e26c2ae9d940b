/*
 * The suite of store/backend.h: versions, conflicts that bring the present record, lives, all or nothing, identity, scans and
 * the feed; and interleavings.c. `backend SCHEME:` makes a store of that kind and runs all of it; a new backend passes this
 * before anything else. `backend SCHEME: --mutants`: each planted bug has to be found.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/shelf.h"
#include "conformance/suite.h"
#include "mutants/mutants.h"

enum ten_mutant ten_mutant = TEN_MUTANT_NONE;

#define SHORT_MS UINT64_C(150)

struct shelf {
    ten_store *store;
    ten_store *second;
    ten_backend *backend; /* the same store by two handles */
    ten_backend *other;
    char ns[TENURE_NAMESPACE_MAX + 1];
    char identity[TEN_IDENTITY_MAX + 1];
};

static ten_backend *backend_of(ten_store *store) {
    return ((ten_record_store *)store)->backend;
}

/* ---- one-line calls */

static ten_key lease(const char *id) {
    return (ten_key){TEN_KIND_LEASE, id};
}

static ten_record look(ten_backend *backend, const char *ns, ten_key key) {
    ten_record record = {.key = key};
    assert_int_equal(backend->ops->read(backend, ns, &record, 1, CALL_MS), TENURE_OK);
    return record;
}

static ten_record get(const struct shelf *shelf, const char *id) {
    return look(shelf->other, shelf->ns, lease(id));
}

static int send(const struct shelf *shelf, ten_commit_change *changes, size_t count, uint64_t epoch) {
    ten_commit commit = {
        .namespace_name = shelf->ns, .identity = shelf->identity, .epoch = epoch, .changes = changes, .count = count};
    return shelf->backend->ops->commit(shelf->backend, &commit, CALL_MS);
}

static ten_write put(ten_key key, const char *value, const char *name, ten_life life) {
    return (ten_write){.kind = TEN_WRITE_PUT, .key = key, .value = value, .name = name, .number = 7, .life = life};
}

/* One write behind one check of the same record. Whether it was carried out. */
static bool write_if(const struct shelf *shelf, ten_check check, ten_write write) {
    ten_commit_change change = {.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
    assert_int_equal(send(shelf, &change, 1, 1), TENURE_OK);
    assert_int_equal(change.error, 0);
    return !change.conflict;
}

static uint64_t must_put(const struct shelf *shelf, const char *id, const char *value, ten_life life) {
    ten_check check = {.key = lease(id), .version = get(shelf, id).version};
    ten_write write = put(lease(id), value, "h", life);
    ten_commit_change change = {.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
    assert_int_equal(send(shelf, &change, 1, 1), TENURE_OK);
    assert_false(change.conflict);
    assert_true(write.version != 0);
    return write.version;
}

static ten_touch touch(const struct shelf *shelf, const char *id, uint64_t version, const char *name, uint64_t ttl_ms) {
    ten_touch touch = {.key = lease(id), .version = version, .name = name, .ttl_ms = ttl_ms};
    assert_int_equal(shelf->backend->ops->touch(shelf->backend, shelf->ns, shelf->identity, 1, &touch, 1, CALL_MS),
                     TENURE_OK);
    return touch;
}

static const ten_life endless = {.kind = TEN_LIFE_ENDLESS};
static const ten_life ended = {.kind = TEN_LIFE_ENDED};

/* ---- a namespace of its own, in its first epoch */

static int open_shelf(void **state) {
    static struct shelf shelf;
    shelf.store = open_store(suite_fixture.url);
    shelf.second = open_store(suite_fixture.url);
    shelf_wrap(shelf.store);
    shelf_wrap(shelf.second);
    shelf.backend = backend_of(shelf.store);
    shelf.other = backend_of(shelf.second);
    make_namespace(shelf.ns);
    (void)look(shelf.backend, shelf.ns, lease("t"));
    snprintf(shelf.identity, sizeof shelf.identity, "%s", shelf.backend->identity);
    ten_key space = {TEN_KIND_NAMESPACE, ""};
    ten_write write = put(space, "1", shelf.identity, endless);
    write.number = 1;
    assert_true(write_if(&shelf, (ten_check){.key = space}, write));
    *state = &shelf;
    return 0;
}

static int close_shelf(void **state) {
    const struct shelf *shelf = *state;
    ten_store_close(shelf->store);
    ten_store_close(shelf->second);
    return 0;
}

#define ON_SHELF(name) TEST_WITH(name, open_shelf, close_shelf)

/* ---- records and versions */

ON_SHELF(a_record_comes_back_as_it_was_written) {
    const struct shelf *shelf = *state;
    assert_int_equal(get(shelf, "t").version, 0);
    assert_false(get(shelf, "t").alive);
    uint64_t version = must_put(shelf, "t", "1 a=b%20c '\"\\ \xc3\xa9", TEN_LIFE_FOR(LONG_MS));
    ten_record record = get(shelf, "t");
    assert_int_equal(record.version, version);
    assert_string_equal(record.value, "1 a=b%20c '\"\\ \xc3\xa9");
    assert_string_equal(record.name, "h");
    assert_int_equal(record.number, 7);
    assert_true(record.alive && !record.foreign);
    assert_in_range(record.left_ms, LONG_MS / 2, LONG_MS);
    assert_int_equal(look(shelf->other, shelf->ns, (ten_key){TEN_KIND_TARGET, "t"}).version, 0);
    must_put(shelf, "t", "1", endless);
    assert_true(get(shelf, "t").left_ms == TEN_FOREVER);
    must_put(shelf, "t", "1", ended);
    assert_false(get(shelf, "t").alive);
    assert_string_equal(get(shelf, "t").value, "1"); /* dead, and readable */
}

ON_SHELF(a_version_never_comes_again_not_even_after_a_removal) {
    enum { ROUNDS = 8 };
    const struct shelf *shelf = *state;
    uint64_t seen[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        seen[i] = must_put(shelf, "t", "1", endless);
        for (size_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
        if (i % 2)
            assert_true(write_if(shelf, (ten_check){.key = lease("t"), .version = seen[i]},
                                 (ten_write){.kind = TEN_WRITE_REMOVE, .key = lease("t"), .name = ""}));
    }
}

/* ---- checks */

enum state { ABSENT, ALIVE, DEAD };

ON_SHELF(a_check_holds_for_its_version_and_its_life_and_else_brings_the_record) {
    static const struct {
        enum state state;
        int version; /* 0: absent, 1: the right one, 2: another, 3: any */
        enum ten_check_life life;
        bool holds;
    } rows[] = {
        {ABSENT, 0, TEN_CHECK_EITHER, true}, {ABSENT, 0, TEN_CHECK_DEAD, true},    {ABSENT, 0, TEN_CHECK_ALIVE, false},
        {ABSENT, 3, TEN_CHECK_DEAD, true},   {ABSENT, 2, TEN_CHECK_EITHER, false}, {ALIVE, 1, TEN_CHECK_EITHER, true},
        {ALIVE, 1, TEN_CHECK_ALIVE, true},   {ALIVE, 1, TEN_CHECK_DEAD, false},    {ALIVE, 2, TEN_CHECK_ALIVE, false},
        {ALIVE, 0, TEN_CHECK_EITHER, false}, {ALIVE, 3, TEN_CHECK_ALIVE, true},    {ALIVE, 3, TEN_CHECK_DEAD, false},
        {DEAD, 1, TEN_CHECK_DEAD, true},     {DEAD, 1, TEN_CHECK_ALIVE, false},    {DEAD, 1, TEN_CHECK_EITHER, true},
        {DEAD, 0, TEN_CHECK_DEAD, false},    {DEAD, 3, TEN_CHECK_DEAD, true},
    };
    const struct shelf *shelf = *state;
    for (size_t i = 0; i < TEN_COUNT(rows); i++) {
        char id[16];
        snprintf(id, sizeof id, "t%zu", i);
        uint64_t version =
            rows[i].state == ABSENT ? 0 : must_put(shelf, id, "1 x=1", rows[i].state == ALIVE ? endless : ended);
        const uint64_t versions[] = {0, version, version + 12345, TEN_VERSION_ANY};
        ten_check checks[] = {{.key = lease(id), .version = versions[rows[i].version], .life = rows[i].life},
                              {.key = lease("other"), .version = 0}};
        ten_write write = put(lease(id), "1 x=2", "w", endless);
        ten_commit_change change = {.checks = checks, .check_count = 2, .writes = &write, .write_count = 1};
        assert_int_equal(send(shelf, &change, 1, 1), TENURE_OK);
        if (change.conflict == rows[i].holds)
            fail_msg("row %zu: conflict %d", i, change.conflict);
        if (rows[i].holds) {
            assert_string_equal(get(shelf, id).value, "1 x=2");
            continue;
        }
        assert_int_equal(checks[0].present.version, version);
        assert_int_equal(checks[0].present.alive, rows[i].state == ALIVE);
        if (version)
            assert_string_equal(checks[0].present.value, "1 x=1");
        assert_int_equal(checks[1].present.version, 0);
        assert_int_equal(get(shelf, id).version, version);
    }
}

ON_SHELF(of_two_that_make_the_same_record_one_learns_who_won) {
    const struct shelf *shelf = *state;
    struct shelf other = *shelf;
    other.backend = shelf->other;
    assert_true(write_if(shelf, (ten_check){.key = lease("t")}, put(lease("t"), "1", "first", endless)));
    ten_check check = {.key = lease("t")};
    ten_write write = put(lease("t"), "1", "second", endless);
    ten_commit_change change = {.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
    assert_int_equal(send(&other, &change, 1, 1), TENURE_OK);
    assert_true(change.conflict);
    assert_string_equal(check.present.name, "first");
}

/* The answer was lost, and the same is sent again. */
ON_SHELF(a_commit_that_is_sent_twice_conflicts_with_itself_and_shows_it) {
    const struct shelf *shelf = *state;
    ten_write write = put(lease("t"), "1", "me", endless);
    assert_true(write_if(shelf, (ten_check){.key = lease("t")}, write));
    ten_check check = {.key = lease("t")};
    ten_commit_change change = {.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
    assert_int_equal(send(shelf, &change, 1, 1), TENURE_OK);
    assert_true(change.conflict);
    assert_string_equal(check.present.name, "me");
}

ON_SHELF(a_change_is_carried_out_as_a_whole_and_the_others_beside_it) {
    const struct shelf *shelf = *state;
    uint64_t version = must_put(shelf, "b", "1 old", endless);
    ten_check checks[] = {{.key = lease("a")}, {.key = lease("b"), .version = version + 1}, {.key = lease("c")}};
    ten_write writes[] = {put(lease("a"), "1 new", "", endless), put(lease("b"), "1 new", "", endless),
                          put(lease("c"), "1 new", "", endless)};
    ten_entry entries[] = {{.id = "a", .text = "of a"}, {.id = "c", .text = "of c"}};
    ten_commit_change changes[] = {
        {.checks = checks, .check_count = 2, .writes = writes, .write_count = 2, .entries = entries, .entry_count = 1},
        {.checks = checks + 2,
         .check_count = 1,
         .writes = writes + 2,
         .write_count = 1,
         .entries = entries + 1,
         .entry_count = 1}};
    assert_int_equal(send(shelf, changes, 2, 1), TENURE_OK);
    assert_true(changes[0].conflict && !changes[1].conflict);
    assert_int_equal(get(shelf, "a").version, 0);
    assert_string_equal(get(shelf, "b").value, "1 old");
    assert_string_equal(get(shelf, "c").value, "1 new");
    assert_int_equal(get(shelf, "c").version, writes[2].version);
}

ON_SHELF(several_changes_raise_one_record_and_are_judged_by_what_was_before) {
    const struct shelf *shelf = *state;
    ten_key instance = {TEN_KIND_INSTANCE, "i"};
    assert_true(write_if(shelf, (ten_check){.key = instance}, put(instance, "1 i", "i", TEN_LIFE_FOR(LONG_MS))));
    uint64_t version = look(shelf->other, shelf->ns, instance).version;
    ten_check checks[2][2];
    ten_write writes[2][2];
    ten_commit_change changes[2];
    static const char *const ids[] = {"a", "b"};
    for (size_t i = 0; i < 2; i++) {
        checks[i][0] = (ten_check){.key = lease(ids[i])};
        checks[i][1] = (ten_check){.key = instance, .version = version, .life = TEN_CHECK_ALIVE};
        writes[i][0] = put(lease(ids[i]), "1", "", endless);
        writes[i][1] = (ten_write){.kind = TEN_WRITE_RAISE, .key = instance, .name = "", .life = TEN_LIFE_AS_IT_IS};
        changes[i] = (ten_commit_change){.checks = checks[i], .check_count = 2, .writes = writes[i], .write_count = 2};
    }
    assert_int_equal(send(shelf, changes, 2, 1), TENURE_OK);
    assert_false(changes[0].conflict || changes[1].conflict);
    ten_record record = look(shelf->other, shelf->ns, instance);
    assert_true(record.version != version);
    assert_string_equal(record.value, "1 i");
    assert_string_equal(record.name, "i");
    assert_in_range(record.left_ms, LONG_MS / 2, LONG_MS);
}

/* ---- lives */

ON_SHELF(a_life_ends_by_the_clock_of_the_store_and_is_judged_by_it) {
    const struct shelf *shelf = *state;
    uint64_t ttl_ms = ten_max_u64(SHORT_MS, shelf->store->capabilities.ttl_min_ms);
    uint64_t start_ms = now_ms();
    uint64_t version = must_put(shelf, "t", "1", TEN_LIFE_FOR(ttl_ms));
    while (get(shelf, "t").alive && now_ms() < start_ms + HANG_MS)
        sleep_ms(5);
    assert_true(now_ms() - start_ms + ROUNDING_MS >= ttl_ms);
    assert_int_equal(get(shelf, "t").version, version);
    ten_write write = put(lease("t"), "1 taken", "", endless);
    assert_false(write_if(shelf, (ten_check){.key = lease("t"), .version = version, .life = TEN_CHECK_ALIVE}, write));
    /* Nor does a touch bring it back. */
    assert_false(touch(shelf, "t", version, "h", LONG_MS).extended);
    assert_false(touch(shelf, "t", TEN_VERSION_ANY, "h", LONG_MS).extended);
    assert_false(get(shelf, "t").alive);
    assert_true(write_if(shelf, (ten_check){.key = lease("t"), .version = version, .life = TEN_CHECK_DEAD}, write));
}

ON_SHELF(a_life_is_the_latest_of_what_it_names) {
    const struct shelf *shelf = *state;
    static const struct {
        uint64_t before_ms; /* of the record; 0: it is dead */
        uint64_t other_ms;  /* of the other one */
        uint64_t ttl_ms;
        bool as_it_is, with;
        uint64_t expected_ms; /* 0: dead */
    } rows[] = {
        {LONG_MS, 0, LONG_MS / 4, false, false, LONG_MS / 4},
        {LONG_MS, 0, LONG_MS / 4, true, false, LONG_MS},
        {LONG_MS / 4, 0, LONG_MS, true, false, LONG_MS},
        {LONG_MS, 0, 0, true, false, LONG_MS},
        {0, 0, 0, true, false, 0},
        {LONG_MS / 4, LONG_MS, 0, true, true, LONG_MS},
        {LONG_MS, LONG_MS / 4, 0, true, true, LONG_MS},
        {LONG_MS, 0, 0, true, true, LONG_MS},
        {0, LONG_MS, 0, false, true, LONG_MS},
        {0, 0, LONG_MS, true, true, LONG_MS},
    };
    for (size_t i = 0; i < TEN_COUNT(rows); i++) {
        char id[16], other[16];
        snprintf(id, sizeof id, "t%zu", i);
        snprintf(other, sizeof other, "o%zu", i);
        ten_check checks[] = {
            {.key = lease(id),
             .version = must_put(shelf, id, "1", rows[i].before_ms ? TEN_LIFE_FOR(rows[i].before_ms) : ended)},
            {.key = lease(other),
             .version = must_put(shelf, other, "1", rows[i].other_ms ? TEN_LIFE_FOR(rows[i].other_ms) : ended)}};
        ten_write write = put(lease(id), "1", "h",
                              (ten_life){.kind = TEN_LIFE_LATEST,
                                         .ttl_ms = rows[i].ttl_ms,
                                         .as_it_is = rows[i].as_it_is,
                                         .with = rows[i].with ? lease(other) : TEN_NO_KEY});
        ten_commit_change change = {.checks = checks, .check_count = 2, .writes = &write, .write_count = 1};
        assert_int_equal(send(shelf, &change, 1, 1), TENURE_OK);
        assert_false(change.conflict);
        ten_record record = get(shelf, id);
        uint64_t expected_ms = rows[i].expected_ms;
        if (record.alive != (expected_ms > 0) ||
            (record.alive && (record.left_ms > expected_ms || record.left_ms < expected_ms - LONG_MS / 8)))
            fail_msg("row %zu: %llu ms left", i, (unsigned long long)(record.alive ? record.left_ms : 0));
    }
}

ON_SHELF(a_touch_extends_what_is_meant_never_shortens_and_keeps_the_version) {
    const struct shelf *shelf = *state;
    uint64_t version = must_put(shelf, "t", "1", TEN_LIFE_FOR(LONG_MS / 2));
    ten_touch touched = touch(shelf, "t", version, "h", LONG_MS);
    assert_true(touched.extended && touched.present == version);
    assert_in_range(get(shelf, "t").left_ms, LONG_MS - LONG_MS / 8, LONG_MS);
    assert_int_equal(touch(shelf, "t", TEN_VERSION_ANY, "h", LONG_MS / 4).present, version);
    assert_in_range(get(shelf, "t").left_ms, LONG_MS - LONG_MS / 8, LONG_MS);
    for (int i = 0; i < 100; i++) /* most of them end where the one before has ended, to the millisecond */
        assert_true(touch(shelf, "t", version, "h", LONG_MS).extended);
    touched = touch(shelf, "t", version + 1, "h", 4 * LONG_MS);
    assert_true(!touched.extended && touched.present == version);
    touched = touch(shelf, "t", TEN_VERSION_ANY, "another", 4 * LONG_MS);
    assert_true(!touched.extended && touched.present == version);
    assert_true(get(shelf, "t").left_ms <= LONG_MS);
    touched = touch(shelf, "absent", TEN_VERSION_ANY, "h", LONG_MS);
    assert_true(!touched.extended && touched.present == 0);
    /* What was prepared before a touch does not take it back. */
    assert_true(write_if(shelf, (ten_check){.key = lease("t"), .version = version, .life = TEN_CHECK_ALIVE},
                         put(lease("t"), "1 attached", "h", TEN_LIFE_AS_IT_IS)));
    assert_in_range(get(shelf, "t").left_ms, LONG_MS - LONG_MS / 8, LONG_MS);
}

/* ---- identity and epoch */

ON_SHELF(nothing_that_relies_on_another_epoch_is_carried_out) {
    const struct shelf *shelf = *state;
    struct shelf stranger = *shelf;
    struct shelf nowhere = *shelf;
    uint64_t version = must_put(shelf, "t", "1", TEN_LIFE_FOR(LONG_MS));
    snprintf(stranger.identity, sizeof stranger.identity, "another");
    make_namespace(nowhere.ns); /* without a record: emptied, for all that is known */
    const struct {
        const struct shelf *shelf;
        uint64_t epoch;
    } rows[] = {{shelf, 2}, {shelf, 0}, {&stranger, 1}, {&nowhere, 1}};
    for (size_t i = 0; i < TEN_COUNT(rows); i++) {
        ten_check check = {.key = lease("new")};
        ten_write write = put(lease("new"), "1", "", endless);
        ten_commit_change change = {.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
        assert_int_equal(send(rows[i].shelf, &change, 1, rows[i].epoch), TEN_OTHER_EPOCH);
        assert_int_equal(get(rows[i].shelf, "new").version, 0);
        ten_touch late = {.key = lease("t"), .version = version, .name = "h", .ttl_ms = 4 * LONG_MS};
        assert_int_equal(shelf->backend->ops->touch(shelf->backend, rows[i].shelf->ns, rows[i].shelf->identity,
                                                    rows[i].epoch, &late, 1, CALL_MS),
                         TEN_OTHER_EPOCH);
    }
    assert_true(get(shelf, "t").left_ms <= LONG_MS);
}

ON_SHELF(only_the_commit_that_writes_the_namespace_begins_an_epoch_and_others_wait) {
    const struct shelf *shelf = *state;
    ten_key space = {TEN_KIND_NAMESPACE, ""};
    ten_check check = {.key = space, .version = look(shelf->other, shelf->ns, space).version};
    ten_write write = put(space, "1", shelf->identity, endless);
    write.number = 2;
    ten_commit_change change = {.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
    struct shelf stranger = *shelf;
    snprintf(stranger.identity, sizeof stranger.identity, "another");
    assert_int_equal(send(&stranger, &change, 1, 1), TEN_OTHER_EPOCH);
    assert_int_equal(send(shelf, &change, 1, 1), TENURE_OK);
    assert_false(change.conflict);
    ten_check late = {.key = lease("t")};
    ten_write grant = put(lease("t"), "1", "", endless);
    change = (ten_commit_change){.checks = &late, .check_count = 1, .writes = &grant, .write_count = 1};
    assert_int_equal(send(shelf, &change, 1, 1), TEN_OTHER_EPOCH); /* prepared in the epoch before */
    assert_int_equal(send(shelf, &change, 1, 2), TENURE_OK);
}

/* ---- scans */

struct found {
    const struct shelf *shelf;
    size_t count, stop;
    char ids[512];
};

static int note(const ten_record *record, void *userdata) {
    struct found *found = userdata;
    size_t size = strlen(found->ids);
    snprintf(found->ids + size, sizeof found->ids - size, "%s ", record->key.id);
    return ++found->count == found->stop ? 9 : 0;
}

static void expect_scan(const struct shelf *shelf, const char *after, size_t limit, enum ten_scan_names names,
                        const char *expected) {
    struct found found = {.shelf = shelf};
    ten_scan scan = {
        .namespace_name = shelf->ns, .kind = TEN_KIND_LEASE, .after = after, .limit = limit, .names = names};
    assert_int_equal(shelf->other->ops->scan(shelf->other, &scan, note, &found, CALL_MS), TENURE_OK);
    assert_string_equal(found.ids, expected);
}

ON_SHELF(a_scan_goes_through_ids_in_byte_order_whatever_comes_and_goes) {
    const struct shelf *shelf = *state;
    static const char *const ids[] = {"b", "a~", "a/b", "a", "Z", "a.b", "0"};
    for (size_t i = 0; i < TEN_COUNT(ids); i++)
        assert_true(
            write_if(shelf, (ten_check){.key = lease(ids[i])}, put(lease(ids[i]), "1", i % 2 ? "n" : "", endless)));
    expect_scan(shelf, "", 100, TEN_SCAN_ALL, "0 Z a a.b a/b a~ b ");
    expect_scan(shelf, "a", 2, TEN_SCAN_ALL, "a.b a/b ");
    expect_scan(shelf, "", 100, TEN_SCAN_NAMED, "a a.b a~ ");
    expect_scan(shelf, "a.b", 100, TEN_SCAN_UNNAMED, "a/b b ");
    /* A name goes, and another one comes. */
    for (size_t i = 0; i < 2; i++) {
        uint64_t version = get(shelf, "a").version;
        assert_true(
            write_if(shelf, (ten_check){.key = lease("a"), .version = version}, put(lease("a"), "1", "", endless)));
        expect_scan(shelf, "", 100, TEN_SCAN_ALL, "0 Z a a.b a/b a~ b ");
        expect_scan(shelf, "", 100, TEN_SCAN_NAMED, "a.b a~ ");
        expect_scan(shelf, "", 100, TEN_SCAN_ALL, "0 Z a a.b a/b a~ b ");
        expect_scan(shelf, "Z", 100, TEN_SCAN_UNNAMED, "a a/b b ");
        version = get(shelf, "a").version;
        assert_true(
            write_if(shelf, (ten_check){.key = lease("a"), .version = version}, put(lease("a"), "1", "m", endless)));
        expect_scan(shelf, "", 100, TEN_SCAN_NAMED, "a a.b a~ ");
        expect_scan(shelf, "Z", 3, TEN_SCAN_ALL, "a a.b a/b ");
    }
    uint64_t version = get(shelf, "a.b").version;
    assert_true(write_if(shelf, (ten_check){.key = lease("a.b"), .version = version},
                         (ten_write){.kind = TEN_WRITE_REMOVE, .key = lease("a.b"), .name = ""}));
    expect_scan(shelf, "a.b", 100, TEN_SCAN_ALL, "a/b a~ b "); /* behind one that is gone */
    struct found found = {.stop = 2};
    ten_scan scan = {.namespace_name = shelf->ns, .kind = TEN_KIND_LEASE, .after = "", .limit = 100};
    assert_int_equal(shelf->other->ops->scan(shelf->other, &scan, note, &found, CALL_MS), 9);
    assert_int_equal(found.count, 2);
}

/* ---- the feed */

struct feed {
    size_t count;
    uint64_t numbers[16];
    char texts[256];
};

static int note_entry(const ten_entry *entry, void *userdata) {
    struct feed *feed = userdata;
    size_t size = strlen(feed->texts);
    feed->numbers[feed->count++] = entry->number;
    snprintf(feed->texts + size, sizeof feed->texts - size, "%s,", entry->text);
    assert_true(entry->at_ms > 0);
    return 0;
}

static struct feed read_feed(const struct shelf *shelf, uint64_t after, size_t limit, ten_feed_range *range) {
    struct feed feed = {0};
    assert_int_equal(shelf->other->ops->feed(shelf->other, shelf->ns, after, limit, note_entry, &feed, range, CALL_MS),
                     TENURE_OK);
    return feed;
}

static void tell(const struct shelf *shelf, const char *const *texts, size_t count, uint64_t least) {
    ten_entry entries[8];
    ten_commit_change changes[8];
    for (size_t i = 0; i < count; i++) {
        entries[i] = (ten_entry){.id = texts[i][0] == '-' ? NULL : texts[i], .text = texts[i]};
        changes[i] = (ten_commit_change){.entries = &entries[i], .entry_count = 1};
    }
    ten_commit commit = {.namespace_name = shelf->ns,
                         .identity = shelf->identity,
                         .epoch = 1,
                         .least_number = least,
                         .changes = changes,
                         .count = count};
    assert_int_equal(shelf->backend->ops->commit(shelf->backend, &commit, CALL_MS), TENURE_OK);
}

ON_SHELF(the_feed_has_growing_numbers_in_the_order_of_the_changes) {
    const struct shelf *shelf = *state;
    ten_feed_range range;
    ten_feed_range later;
    (void)read_feed(shelf, 0, 0, &range);
    tell(shelf, (const char *[]){"a", "b", "-c"}, 3, 0);
    tell(shelf, (const char *[]){"a"}, 1, 0);
    struct feed feed = read_feed(shelf, range.last, 10, &later);
    assert_string_equal(feed.texts, "a,b,-c,a,");
    for (size_t i = 1; i < feed.count; i++)
        assert_true(feed.numbers[i] > feed.numbers[i - 1]);
    assert_int_equal(later.last, feed.numbers[3]);
    assert_string_equal(read_feed(shelf, feed.numbers[0], 2, &later).texts, "b,-c,");
    assert_int_equal(read_feed(shelf, later.last, 10, &later).count, 0);
    assert_int_equal(read_feed(shelf, later.last + 1, 10, &later).count, 0); /* not given yet */
    /* Forgetting removes the entries of a target, and leaves all cursors as they are. */
    const char *const ids[] = {"a", "unknown"};
    assert_int_equal(shelf->backend->ops->unfeed(shelf->backend, shelf->ns, ids, 2, CALL_MS), TENURE_OK);
    assert_string_equal(read_feed(shelf, range.last, 10, &range).texts, "b,-c,");
    assert_int_equal(range.last, later.last);
    assert_int_equal(range.before, later.before);
    /* An epoch leaves all cursors behind. */
    tell(shelf, (const char *[]){"-epoch"}, 1, range.last + 1000000);
    assert_true(read_feed(shelf, range.last, 10, &later).numbers[0] > range.last + 1000000);
}

ON_SHELF(a_change_of_the_feed_wakes_whoever_watches_and_a_touch_does_not) {
    const struct shelf *shelf = *state;
    int fd = -1;
    must_put(shelf, "t", "1", TEN_LIFE_FOR(LONG_MS));
    assert_int_equal(shelf->other->ops->watch(shelf->other, shelf->ns, &fd), TENURE_OK);
    shelf->other->ops->watch_clear(shelf->other);
    for (int i = 0; i < 50 && ten_wait_readable(fd, -1, 30) == 1; i++)
        shelf->other->ops->watch_clear(shelf->other);
    assert_true(touch(shelf, "t", TEN_VERSION_ANY, "h", LONG_MS).extended);
    assert_int_equal(ten_wait_readable(fd, -1, 60), 0);
    tell(shelf, (const char *[]){"a"}, 1, 0);
    assert_int_equal(ten_wait_readable(fd, -1, HANG_MS), 1);
}

/* ---- planted bugs */

static const struct ten_mutant_name mutants[] = {TEN_SHELF_MUTANTS(TEN_MUTANT_NAME) TEN_APPLY_MUTANTS(TEN_MUTANT_NAME)};

int main(int argc, char **argv) {
    suite_program = argv[0];
    bool planted = argc == 3 && strcmp(argv[2], "--mutants") == 0;
    if ((argc != 2 && !planted) || fixture_create(&suite_fixture, argv[1]) != 0) {
        fprintf(stderr, "usage: backend SCHEME: [--mutants]\n");
        return 2;
    }
    int failed = planted ? ten_mutants_find(mutants, TEN_COUNT(mutants)) : run_cases(NULL, NULL);
    fixture_destroy(&suite_fixture);
    return failed ? 1 : 0;
}
