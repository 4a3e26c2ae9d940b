/*
 * What the tests of the store contract share: a place to test in (two handles on the store and a namespace that nobody
 * else uses), one-line operations, and other processes. Each topic is a file; conformance.c runs them.
 */
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include "lib/cases.h"

#include <string.h>
#include <sys/types.h>

#include "base/io.h"
#include "base/util.h"
#include "conformance/fixture.h"
#include "conformance/late.h"
#include "store/store.h"

#define CALL_MS UINT64_C(60000)  /* time-out of calls that are expected to work */
#define LONG_MS UINT64_C(240000) /* a TTL that does not end during a test */
#define HANG_MS UINT64_C(60000)  /* the end of a wait for what must come: only a program that hangs gets there */

/* The store under test, and this program's own file, to start workers with. */
extern struct fixture suite_fixture;
extern const char *suite_program;

struct place {
    ten_store *store;
    ten_store *other; /* a second handle on the same store */
    char ns[TENURE_NAMESPACE_MAX + 1];
};
/* The same place by its second handle. */
struct place elsewhere_of(const struct place *place);

int place_setup(void **state);
int place_teardown(void **state);
#define CASE(name) TEST_WITH(name, place_setup, place_teardown)

ten_store *open_store(const char *url);
/* A namespace that no other test and no other run uses. */
void make_namespace(char ns[TENURE_NAMESPACE_MAX + 1]);

/* A TTL whose end a test can wait for, as the store allows. */
uint64_t short_ttl(const ten_store *store);
uint64_t kept_ttl(const ten_store *store); /* one that a busy machine can renew in time, or look at before its end */
void sleep_ms(uint64_t ms);
uint64_t now_ms(void);
/* Long enough for another process to have had so much time of its own. */
void sleep_well_ms(uint64_t ms);

/* One operation, which the store must carry out; its outcome is the result's. */
ten_result apply_one(ten_store *store, ten_op op);
/* The same in the place's namespace. */
ten_result apply_at(const struct place *place, ten_op op);
ten_result acquire(const struct place *place, const char *target, const char *holder, uint64_t ttl_ms);
/* For others' sake, with TEN_OP_KEEP. */
ten_result keep_off(const struct place *place, const char *target, const char *holder, uint64_t token, uint64_t ttl_ms);
/* A NULL holder: by the token alone. */
ten_result renew(const struct place *place, const char *target, const char *holder, uint64_t token, uint64_t ttl_ms);
ten_result release(const struct place *place, const char *target, const char *holder, uint64_t token);
ten_result force(const struct place *place, const char *target, unsigned flag, const char *actor);
ten_result read_lease(const struct place *place, const char *target);
/* An instance announces itself, or its session; leaves, with a tombstone; is asked, or the holder of the target. */
ten_result announce(const struct place *place, const char *instance, uint64_t ttl_ms);
ten_result beat(const struct place *place, const char *instance, uint64_t ttl_ms);
/* The same, which must go well and have a session; takes what must be free on it, and gives the token. */
ten_result must_beat(const struct place *place, const char *instance, uint64_t ttl_ms);
uint64_t must_take(const struct place *place, const char *target, const char *holder, uint64_t ttl_ms);
ten_result leave(const struct place *place, const char *instance, uint64_t tombstone_ms);
ten_result ask_of(const struct place *place, const char *target, const char *instance, enum ten_ask ask);
/* Acquires what must be free, and gives the token. */
uint64_t must_acquire(const struct place *place, const char *target, const char *holder, uint64_t ttl_ms);
/* Tries until the target is had or wait_ms have passed. */
ten_result acquire_within(const struct place *place, const char *target, const char *holder, uint64_t ttl_ms,
                          uint64_t wait_ms);

/* Acquires and releases; the token. */
uint64_t use_once(const struct place *place, const char *target);
/* The same with PREFIX0, PREFIX1..., so many at once. */
void use_many(const struct place *place, const char *prefix, size_t count);

void put_target(const struct place *place, const char *id);
/* An operation of the holder, with TEN_OP_SESSION. */
ten_result apply_on_session(const struct place *place, enum ten_op_kind kind, const char *target, const char *holder,
                            uint64_t token, uint64_t ttl_ms);
bool edit_target(const struct place *place, enum ten_target_action action, const char *id);

/* Fails the test with both, unless they are the same. */
#define expect_outcome(result, outcome) check_outcome(result, outcome, __FILE__, __LINE__)
void check_outcome(ten_result result, enum ten_outcome outcome, const char *file, int line);
#define expect_holder(result, holder) check_holder(result, holder, __FILE__, __LINE__)
void check_holder(ten_result result, const char *holder, const char *file, int line);

/* What was read from the feed, with texts that last. */
#define SEEN_MAX 64u
struct seen {
    size_t count;
    struct {
        ten_change change;
        char namespace_name[TENURE_NAMESPACE_MAX + 1];
        char target[TENURE_TARGET_MAX + 1];
        char instance[TENURE_HOLDER_MAX + 1];
        char actor[64];
    } at[SEEN_MAX];
};
uint64_t cursor_now(ten_store *store, const char *ns);
/* All changes of the namespace (NULL: of all) after *cursor. */
void read_changes(ten_store *store, const char *ns, uint64_t *cursor, struct seen *seen);
int see_change(const ten_change *change, void *userdata);
/* How many entries the feed has, of that target or (NULL) of all. */
size_t count_changes(const struct place *place, const char *target);

/* This program once more, with these arguments; the last is NULL. Its pid, or the test fails. */
pid_t start_worker(const char *const *arguments);
/* Its exit code; -1 when it did not exit by itself. */
int wait_for_worker(pid_t pid);

/* In a worker: when the test that started it has failed, it must not stay behind. */
void end_with_parent(void);

/* What a worker does: conformance.c hands over the arguments after --worker. */
int change_worker(const char *url, const char *ns, int go_fd, int done_fd);
int competition_worker(const char *url, const char *ns, unsigned index, int shared_fd);

#endif
