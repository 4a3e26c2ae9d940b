/*
 * Structures that the caller allocates, of older and newer programs: smaller ones are read and filled in as far as they
 * go, larger ones as far as the library knows them, and what a newer program wants of a field that the library does not
 * have is refused.
 */
#include "unit/unit.h"

#include "runtime/context.h"

#define NEWER_BYTES 32u
#define FILLER      0xAA

struct fixture {
    struct fake_clock fake;
    ten_clock clock;
    tenure_context *context;
    tenure_context *leader; /* of another instance, in the namespace `leader` */
    tenure_lease *lease;
    tenure_lease *role;
    tenure_member *member; /* in the namespace `fleet` */
    tenure_guard *guard;
};

static tenure_context *open_driven(const struct fixture *fixture, const char *namespace_name) {
    tenure_options options = {.size = sizeof options, .flags = TENURE_DRIVEN, .namespace_name = namespace_name};
    tenure_context *context = NULL;
    if (ten_context_open("memory:unit-structs", &options, &fixture->clock, &context) < 0)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "fleet"};
    fixture->clock = fake_clock_make(&fixture->fake);
    fixture->context = open_driven(fixture, NULL);
    fixture->leader = open_driven(fixture, "leader");
    assert_int_equal(tenure_acquire(fixture->context, "x", 0, TENURE_MANUAL, &fixture->lease), TENURE_OK);
    assert_int_equal(tenure_acquire(fixture->leader, "web", 0, TENURE_MANUAL, &fixture->role), TENURE_OK);
    assert_int_equal(tenure_member_open(fixture->context, &fleet, &fixture->member), TENURE_OK);
    assert_int_equal(tenure_member_put(fixture->member, "t", 0), TENURE_OK);
    assert_int_equal(tenure_guard_open(fixture->context, NULL, &fixture->guard), TENURE_OK);
    assert_int_equal(tenure_guard_check(fixture->guard, "x", 1), TENURE_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    tenure_guard_close(fixture->guard);
    tenure_member_close(fixture->member);
    tenure_lease_free(fixture->lease);
    tenure_lease_free(fixture->role);
    tenure_close(fixture->context);
    tenure_close(fixture->leader);
    free(fixture);
    return 0;
}

#define STRUCT_TEST(name) TEST_WITH(name, set_up, tear_down)

/* ---- what a function fills in */

static _Alignas(max_align_t) unsigned char bytes[2048];

/* A structure of that size in `bytes`: what the program has not set is the filler, what the library cannot know is 0. */
static void *prepare(size_t size, size_t known) {
    memset(bytes, FILLER, sizeof bytes);
    if (size > known)
        memset(bytes + known, 0, size - known);
    memcpy(bytes, &size, sizeof size);
    return bytes;
}

static void assert_untouched(const char *name, size_t size, size_t known) {
    size_t left;
    memcpy(&left, bytes, sizeof left);
    if (left != size)
        fail_msg("%s of %zu bytes: its size was changed to %zu", name, size, left);
    size_t shared = size < known ? size : known;
    for (size_t i = shared < sizeof size ? sizeof size : shared; i < sizeof bytes; i++) {
        unsigned char expected = i < size ? 0 : FILLER;
        if (bytes[i] != expected)
            fail_msg("%s of %zu bytes: byte %zu was written", name, size, i);
    }
}

typedef int (*fill_fn)(struct fixture *fixture, void *structure);

/* The prefix of each length is that of the whole. */
static void assert_filled_by_size(struct fixture *fixture, const char *name, size_t known, fill_fn fill) {
    static unsigned char whole[sizeof bytes];
    assert_true(known + NEWER_BYTES < sizeof bytes);
    assert_int_equal(fill(fixture, prepare(known, known)), TENURE_OK);
    memcpy(whole, bytes, known);
    for (size_t size = sizeof(size_t); size <= known + NEWER_BYTES; size++) {
        int r = fill(fixture, prepare(size, known));
        if (r != TENURE_OK)
            fail_msg("%s of %zu bytes: %s", name, size, tenure_message(NULL));
        assert_untouched(name, size, known);
        size_t shared = size < known ? size : known;
        if (memcmp(bytes + sizeof(size_t), whole + sizeof(size_t), shared - sizeof(size_t)) != 0)
            fail_msg("%s of %zu bytes: the fields that both have differ", name, size);
    }
    for (size_t size = 0; size < sizeof(size_t); size++) {
        assert_int_equal(fill(fixture, prepare(size, known)), TENURE_E_INVALID);
        assert_contains(tenure_message(NULL), name);
        assert_untouched(name, size, known);
    }
}

static int fill_info(struct fixture *fixture, void *structure) {
    return tenure_target_read(fixture->context, "x", structure);
}

static int fill_member_info(struct fixture *fixture, void *structure) {
    return tenure_member_read(fixture->member, "t", structure);
}

static int fill_leader(struct fixture *fixture, void *structure) {
    return tenure_leader_read(fixture->leader, NULL, "web", structure);
}

static int fill_totals(struct fixture *fixture, void *structure) {
    return tenure_guard_read(fixture->guard, structure);
}

STRUCT_TEST(a_structure_is_filled_in_as_far_as_it_goes) {
    struct fixture *fixture = *state;
    tenure_info info = {.size = sizeof info};
    tenure_member_info member_info = {.size = sizeof member_info};
    tenure_leader leader = {.size = sizeof leader};
    tenure_guard_totals totals = {.size = sizeof totals};
    assert_filled_by_size(fixture, "tenure_info", sizeof info, fill_info);
    assert_filled_by_size(fixture, "tenure_member_info", sizeof member_info, fill_member_info);
    assert_filled_by_size(fixture, "tenure_leader", sizeof leader, fill_leader);
    assert_filled_by_size(fixture, "tenure_guard_totals", sizeof totals, fill_totals);
    assert_int_equal(fill_info(fixture, &info) + fill_member_info(fixture, &member_info), TENURE_OK);
    assert_int_equal(fill_leader(fixture, &leader) + fill_totals(fixture, &totals), TENURE_OK);
    assert_string_equal(info.target, "x");
    assert_string_equal(member_info.target, "t");
    assert_string_equal(leader.instance, tenure_instance_id(fixture->leader));
    assert_int_equal(totals.accepted, 1);
}

/* An event is gone once it was pulled, so each size gets one of its own. */
static void next_acquired(tenure_context *context, size_t size) {
    tenure_event event = {.size = sizeof event};
    tenure_lease *lease = NULL;
    while (tenure_next_event(context, 0, &event) == TENURE_OK)
        ;
    assert_int_equal(tenure_acquire(context, "e", 0, TENURE_MANUAL, &lease), TENURE_OK);
    assert_int_equal(tenure_next_event(context, 0, prepare(size, sizeof event)), TENURE_OK);
    memcpy(&event, bytes, size < sizeof event ? size : sizeof event);
    if (size >= offsetof(tenure_event, error))
        assert_int_equal(event.kind, TENURE_EVENT_ACQUIRED);
    if (size >= offsetof(tenure_event, remaining_ms))
        assert_int_equal(event.token, tenure_lease_token(lease));
    if (size >= sizeof event)
        assert_string_equal(event.target, "e");
    assert_int_equal(tenure_release(lease), TENURE_OK);
    tenure_lease_free(lease);
}

STRUCT_TEST(an_event_is_filled_in_as_far_as_it_goes) {
    struct fixture *fixture = *state;
    size_t known = sizeof(tenure_event);
    for (size_t size = sizeof(size_t); size <= known + NEWER_BYTES; size++) {
        next_acquired(fixture->context, size);
        assert_untouched("tenure_event", size, known);
    }
    assert_int_equal(tenure_next_event(fixture->context, 0, prepare(0, known)), TENURE_E_INVALID);
    assert_untouched("tenure_event", 0, known);
}

/* ---- what a function reads */

typedef int (*use_fn)(struct fixture *fixture, const void *options);

/* Behind its size lies what would end badly if it were read. A structure ends where a field does: at whole words. */
static void assert_read_by_size(struct fixture *fixture, const char *name, const void *options, size_t known,
                                use_fn use) {
    for (size_t size = sizeof(size_t); size <= known + NEWER_BYTES; size += sizeof(size_t)) {
        prepare(size, known);
        memcpy(bytes + sizeof(size_t), (const unsigned char *)options + sizeof(size_t),
               (size < known ? size : known) - sizeof(size_t));
        int r = use(fixture, bytes);
        if (r < 0)
            fail_msg("%s of %zu bytes: %s", name, size, tenure_message(NULL));
    }
    for (size_t at = known; at < known + NEWER_BYTES; at++) {
        prepare(known + NEWER_BYTES, known);
        memcpy(bytes + sizeof(size_t), (const unsigned char *)options + sizeof(size_t), known - sizeof(size_t));
        bytes[at] = 1;
        assert_int_equal(use(fixture, bytes), TENURE_E_UNSUPPORTED);
        assert_contains(tenure_message(NULL), name);
    }
    for (size_t size = 0; size < sizeof(size_t); size++) {
        assert_int_equal(use(fixture, prepare(size, known)), TENURE_E_INVALID);
        assert_contains(tenure_message(NULL), name);
    }
}

static int use_options(struct fixture *fixture, const void *options) {
    tenure_context *context = NULL;
    int r = ten_context_open("memory:unit-options", options, &fixture->clock, &context);
    assert_int_equal(context == NULL, r < 0);
    tenure_close(context);
    return r;
}

static int use_member_options(struct fixture *fixture, const void *options) {
    tenure_member *member = NULL;
    tenure_context *context = open_driven(fixture, "another");
    int r = tenure_member_open(context, options, &member);
    assert_int_equal(member == NULL, r < 0);
    tenure_member_close(member);
    tenure_close(context);
    return r;
}

static int use_election_options(struct fixture *fixture, const void *options) {
    tenure_election *election = NULL;
    int r = tenure_election_open(fixture->context, "db", options, &election);
    assert_int_equal(election == NULL, r < 0);
    tenure_election_close(election);
    return r;
}

static int use_guard_options(struct fixture *fixture, const void *options) {
    tenure_guard *guard = NULL;
    int r = tenure_guard_open(fixture->context, options, &guard);
    assert_int_equal(guard == NULL, r < 0);
    tenure_guard_close(guard);
    return r;
}

static int use_target(struct fixture *fixture, const void *target) {
    return tenure_registry_put(fixture->context, target, 1, NULL);
}

STRUCT_TEST(options_are_read_as_far_as_they_go) {
    tenure_options options = {.flags = TENURE_DRIVEN,
                              .namespace_name = "sized",
                              .instance_name = "sized",
                              .ttl_ms = 30000,
                              .renew_ms = 9000,
                              .margin_ms = 3000,
                              .timeout_ms = 500};
    tenure_member_options member = {.weight = 2, .namespace_name = "sized", .settle_ms = 100};
    tenure_election_options election = {.namespace_name = "sized"};
    tenure_guard_options guard = {.namespace_name = "sized", .cache_ttl_ms = 5000, .max_targets = 10};
    assert_read_by_size(*state, "tenure_options", &options, sizeof options, use_options);
    assert_read_by_size(*state, "tenure_member_options", &member, sizeof member, use_member_options);
    assert_read_by_size(*state, "tenure_election_options", &election, sizeof election, use_election_options);
    assert_read_by_size(*state, "tenure_guard_options", &guard, sizeof guard, use_guard_options);
}

/* A target without an id is refused, so the smallest has one. */
STRUCT_TEST(a_target_is_read_as_far_as_it_goes) {
    struct fixture *fixture = *state;
    tenure_target target = {.id = "sized", .url = "http://h/", .exec = "true", .spec = "{}", .every_ms = 1000};
    size_t known = sizeof target;
    for (size_t size = offsetof(tenure_target, url); size <= known + NEWER_BYTES; size += sizeof(size_t)) {
        prepare(size, known);
        memcpy(bytes + sizeof(size_t), (const unsigned char *)&target + sizeof(size_t),
               (size < known ? size : known) - sizeof(size_t));
        if (use_target(fixture, bytes) < 0)
            fail_msg("tenure_target of %zu bytes: %s", size, tenure_message(NULL));
    }
    assert_int_equal(use_target(fixture, prepare(sizeof(size_t), known)), TENURE_E_INVALID);
}

/* ---- several, one behind the other */

struct older_target {
    size_t size;
    const char *id;
};

struct newer_target {
    tenure_target known;
    uint64_t priority;
};

static int note_id(const tenure_target *target, void *userdata) {
    char *text = userdata;
    snprintf(text + strlen(text), 64 - strlen(text), "%s%s ", target->id, target->url ? target->url : "");
    return 0;
}

static void assert_registry(struct fixture *fixture, const char *expected) {
    char text[64] = "";
    assert_int_equal(tenure_registry_list(fixture->context, note_id, text), TENURE_OK);
    assert_string_equal(text, expected);
}

STRUCT_TEST(targets_of_an_older_program_are_closer_together) {
    struct fixture *fixture = *state;
    struct older_target targets[] = {{sizeof targets[0], "a"}, {sizeof targets[0], "b"}, {sizeof targets[0], "c"}};
    size_t added = 0;
    assert_int_equal(tenure_registry_put(fixture->context, (const tenure_target *)(const void *)targets, 3, &added),
                     TENURE_OK);
    assert_int_equal(added, 3);
    assert_registry(fixture, "a b c ");
}

STRUCT_TEST(targets_of_a_newer_program_are_further_apart_and_what_is_not_known_is_zero) {
    struct fixture *fixture = *state;
    struct newer_target targets[] = {{.known = {.size = sizeof targets[0], .id = "a", .url = ":1"}},
                                     {.known = {.size = sizeof targets[0], .id = "b", .url = ":2"}},
                                     {.known = {.size = sizeof targets[0], .id = "c"}}};
    size_t added = 77;
    targets[2].priority = 1;
    assert_int_equal(tenure_registry_put(fixture->context, &targets[0].known, 3, &added), TENURE_E_UNSUPPORTED);
    assert_contains(tenure_message(fixture->context), "tenure_target");
    assert_int_equal(added, 77);
    assert_registry(fixture, ""); /* all or none */
    targets[2].priority = 0;
    assert_int_equal(tenure_registry_put(fixture->context, &targets[0].known, 3, &added), TENURE_OK);
    assert_int_equal(added, 3);
    assert_registry(fixture, "a:1 b:2 c ");
}

struct newer_item {
    tenure_guard_item known;
    uint64_t hint;
};

STRUCT_TEST(items_of_a_newer_program_are_further_apart) {
    struct fixture *fixture = *state;
    struct newer_item items[] = {{.known = {.target = "x", .token = 1}, .hint = 7},
                                 {.known = {.target = "x", .token = 2}, .hint = 8},
                                 {.known = {.target = "never", .token = 1}, .hint = 9}};
    assert_int_equal(tenure_guard_check_many(fixture->guard, &items[0].known, 3, sizeof items[0]), TENURE_OK);
    assert_int_equal(items[0].known.verdict, TENURE_OK);
    assert_int_equal(items[0].known.newest, 1);
    assert_int_equal(items[1].known.verdict, TENURE_E_TOKEN);
    assert_int_equal(items[2].known.verdict, TENURE_E_TOKEN);
    for (size_t i = 0; i < TEN_COUNT(items); i++)
        assert_int_equal(items[i].hint, 7 + i);
    assert_int_equal(tenure_guard_check_many(fixture->guard, &items[0].known, 3, sizeof(tenure_guard_item) - 1),
                     TENURE_E_INVALID);
    assert_contains(tenure_message(fixture->guard), "stride");
}
