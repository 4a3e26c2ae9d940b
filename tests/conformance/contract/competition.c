/*
 * The store contract under competition: eight processes (threads, where the store lives in one process) want the same
 * target. Whoever has it looks whether somebody else is inside, and writes down its token.
 */
#include "conformance/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define COMPETITORS 8u
#define ROUNDS      25u /* of each */
#define BOUND_MS    (10 * HANG_MS)

/* Between processes; everything in it is only written by who is inside, or atomic. */
struct arena {
    atomic_uint ready;
    atomic_uint inside;
    atomic_uint overlaps;
    atomic_uint entered;
    atomic_uint turns[COMPETITORS];
    atomic_ullong tokens[COMPETITORS * ROUNDS];
};

static void be_inside(struct arena *arena, unsigned index, uint64_t token) {
    if (atomic_fetch_add(&arena->inside, 1) != 0)
        atomic_fetch_add(&arena->overlaps, 1);
    unsigned at = atomic_fetch_add(&arena->entered, 1);
    if (at < COMPETITORS * ROUNDS)
        atomic_store(&arena->tokens[at], token);
    atomic_fetch_add(&arena->turns[index], 1);
    if (at % 8 == 0)
        sleep_ms(1); /* long enough for others to come in, if they could */
    if (atomic_fetch_sub(&arena->inside, 1) != 1)
        atomic_fetch_add(&arena->overlaps, 1);
}

static int compete(const char *url, const char *ns, unsigned index, struct arena *arena) {
    ten_store *store = NULL;
    ten_error error;
    char holder[16];
    snprintf(holder, sizeof holder, "worker-%u", index);
    if (ten_store_open(url, NULL, &store, &error) < 0)
        return 3;
    ten_op take = {.kind = TEN_OP_ACQUIRE, .namespace_name = ns, .target = "t", .holder = holder, .ttl_ms = LONG_MS};
    int code = 0;
    uint64_t end_ms = now_ms() + BOUND_MS;
    /* All start together, or the first would be done before the last is there. */
    atomic_fetch_add(&arena->ready, 1);
    while (atomic_load(&arena->ready) < COMPETITORS && now_ms() < end_ms)
        sleep_ms(1);
    for (unsigned round = 0; code == 0 && round < ROUNDS;) {
        ten_result result;
        if (now_ms() > end_ms)
            code = 4;
        else if (ten_store_apply(store, &take, &result, 1, CALL_MS) < 0)
            code = 5;
        else if (result.outcome == TEN_HELD)
            sleep_ms(1);
        else if (result.outcome != TEN_OK)
            code = 6;
        else {
            be_inside(arena, index, result.token);
            ten_op give = take;
            give.kind = TEN_OP_RELEASE;
            give.token = result.token;
            give.ttl_ms = 0;
            if (ten_store_apply(store, &give, &result, 1, CALL_MS) < 0 || result.outcome != TEN_OK)
                code = 7;
            round++;
        }
    }
    ten_store_close(store);
    return code;
}

int competition_worker(const char *url, const char *ns, unsigned index, int shared_fd) {
    struct arena *arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
    return arena == MAP_FAILED || index >= COMPETITORS ? 2 : compete(url, ns, index, arena);
}

/* ---- running ------------------------------------------------------------------------------------------- */

struct competitor {
    pthread_t thread;
    const char *ns;
    struct arena *arena;
    unsigned index;
    int code;
};

static void *compete_in_thread(void *arg) {
    struct competitor *competitor = arg;
    competitor->code = compete(suite_fixture.url, competitor->ns, competitor->index, competitor->arena);
    return NULL;
}

static void run_threads(const struct place *place, struct arena *arena) {
    struct competitor competitors[COMPETITORS];
    for (unsigned i = 0; i < COMPETITORS; i++) {
        competitors[i] = (struct competitor){.ns = place->ns, .arena = arena, .index = i};
        assert_int_equal(pthread_create(&competitors[i].thread, NULL, compete_in_thread, &competitors[i]), 0);
    }
    for (unsigned i = 0; i < COMPETITORS; i++) {
        pthread_join(competitors[i].thread, NULL);
        assert_int_equal(competitors[i].code, 0);
    }
}

static void run_processes(const struct place *place, int shared_fd) {
    pid_t pids[COMPETITORS];
    char fd_text[16];
    snprintf(fd_text, sizeof fd_text, "%d", shared_fd);
    for (unsigned i = 0; i < COMPETITORS; i++) {
        char index[16];
        snprintf(index, sizeof index, "%u", i);
        pids[i] = start_worker((const char *[]){"compete", suite_fixture.url, place->ns, index, fd_text, NULL});
    }
    int failed = 0;
    for (unsigned i = 0; i < COMPETITORS; i++) {
        int code = wait_for_worker(pids[i]);
        if (code != 0)
            print_error("competitor %u ended with %d\n", i, code);
        failed += code != 0;
    }
    assert_int_equal(failed, 0);
}

CASE(a_target_that_eight_want_has_one_holder_at_a_time_and_growing_tokens) {
    const struct place *place = *state;
    int shared_fd = memfd_create("arena", 0);
    assert_true(shared_fd >= 0 && ftruncate(shared_fd, sizeof(struct arena)) == 0);
    struct arena *arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
    assert_true(arena != MAP_FAILED);
    if (place->store->capabilities.shared_between_processes)
        run_processes(place, shared_fd);
    else
        run_threads(place, arena);
    assert_int_equal(atomic_load(&arena->overlaps), 0);
    assert_int_equal(atomic_load(&arena->entered), COMPETITORS * ROUNDS);
    unsigned long long last = 0;
    for (unsigned i = 0; i < COMPETITORS * ROUNDS; i++) {
        unsigned long long token = atomic_load(&arena->tokens[i]);
        assert_true(token > last);
        last = token;
    }
    for (unsigned i = 0; i < COMPETITORS; i++)
        assert_int_equal(atomic_load(&arena->turns[i]), ROUNDS);
    munmap(arena, sizeof *arena);
    close(shared_fd);
}

/* The same without releases: each change of hands waits for the end of a lease, and nobody is let in before it. */
CASE(nobody_enters_before_the_end_of_a_lease_that_is_not_released) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    uint64_t last_token = 0;
    uint64_t last_end_ms = 0;
    for (int round = 0; round < 4; round++) {
        char holder[16];
        snprintf(holder, sizeof holder, "h%d", round);
        uint64_t sent_ms;
        ten_result result;
        uint64_t give_up_ms = now_ms() + HANG_MS;
        do {
            sent_ms = now_ms();
            result = acquire(place, "t", holder, ttl_ms);
        } while (result.outcome == TEN_HELD && now_ms() < give_up_ms);
        expect_outcome(result, TEN_OK);
        assert_true(result.token > last_token);
        /* The one before counted from the moment at which it sent its request. */
        assert_true(now_ms() + ROUNDING_MS >= last_end_ms);
        last_token = result.token;
        last_end_ms = sent_ms + ttl_ms;
    }
}
