/*
 * The benchmarks of the fleet. A check by handle and by id, against a bare read of the clock. Bytes a held lease at a
 * million of them, of the fleet alone (driven here with made-up answers) and of a whole manager. Allocations in steady
 * state. The load of an idle fleet member with 1,000, 10,000 and 100,000 leases at default timings on the memory store,
 * against a bare loop that renews the same leases as often. What needs a process to itself runs in a child.
 */
#include "fleet.h"

#include <malloc.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "child.h"
#include "core/fleet.h"
#include "ground.h"
#include "runtime/beliefs.h"
#include "store/store.h"

#define OWNED_TARGETS   1000u
#define OWNED_ROUNDS    41u
#define CALLS           1000u
#define MILLION         1000000u
#define BATCH           1000u
#define STEADY_TARGETS  10000u
#define STEADY_CYCLES   20u
#define IDLE_MS         UINT64_C(30000) /* three cycles of renewals */
#define CALM_MS         UINT64_C(3000)
#define ACQUIRED_MAX_MS UINT64_C(300000)
#define ID_SIZE         48u

/* ---- counting allocations: the linker leads the program's own calls through here (see meson.build) ------ */

void *__real_ten_malloc(size_t size);
void *__real_ten_calloc(size_t count, size_t size);
void *__real_ten_realloc(void *memory, size_t size);
char *__real_ten_strdup(const char *text);
void *__wrap_ten_malloc(size_t size);
void *__wrap_ten_calloc(size_t count, size_t size);
void *__wrap_ten_realloc(void *memory, size_t size);
char *__wrap_ten_strdup(const char *text);

static atomic_ulong allocations;

static void count_one(void) {
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

void *__wrap_ten_malloc(size_t size) {
    count_one();
    return __real_ten_malloc(size);
}

void *__wrap_ten_calloc(size_t count, size_t size) {
    count_one();
    return __real_ten_calloc(count, size);
}

void *__wrap_ten_realloc(void *memory, size_t size) {
    count_one();
    return __real_ten_realloc(memory, size);
}

char *__wrap_ten_strdup(const char *text) {
    count_one();
    return __real_ten_strdup(text);
}

/* ---- small things -------------------------------------------------------------------------------------- */

static void target_id(char id[ID_SIZE], unsigned i) {
    snprintf(id, ID_SIZE, "session-%07u-abcdef", i);
}

static size_t allocated(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* ---- a fleet member that owns everything -------------------------------------------------------------------- */

/* A context with nothing but a fleet member. */
struct instance {
    tenure_context *context;
    tenure_member *member;
};

static void stop_instance(struct instance *instance) {
    tenure_member_close(instance->member);
    tenure_close(instance->context);
    *instance = (struct instance){0};
}

static bool start_instance(struct instance *instance, const char *url, uint32_t weight, unsigned count) {
    tenure_options options = {.size = sizeof options, .instance_name = "bench"};
    *instance = (struct instance){0};
    bool done = tenure_open(url, &options, &instance->context) == TENURE_OK &&
                tenure_member_open(instance->context, NULL, &instance->member) == TENURE_OK &&
                tenure_member_set_weight(instance->member, weight) == TENURE_OK;
    for (unsigned i = 0; done && i < count; i++) {
        char id[ID_SIZE];
        target_id(id, i);
        done = tenure_member_put(instance->member, id, 0) == TENURE_OK;
    }
    if (!done)
        fprintf(stderr, "bench: %s\n", tenure_message(NULL));
    return done;
}

static bool wait_owned(tenure_member *member, unsigned count) {
    uint64_t end_us = ten_boot_us() + ACQUIRED_MAX_MS * 1000u;
    for (unsigned i = 0; i < count;) {
        char id[ID_SIZE];
        target_id(id, i);
        if (tenure_member_is_held(member, id)) {
            i++;
        } else {
            if (ten_boot_us() > end_us)
                return false;
            ten_sleep_us(20000);
        }
    }
    return true;
}

/* Until the listings that follow the acquisition have ended, too. */
static bool wait_calm(tenure_member *member, unsigned count) {
    bool owned = wait_owned(member, count);
    ten_sleep_us(CALM_MS * 1000u);
    return owned;
}

/* ---- the check ----------------------------------------------------------------------------------------- */

struct checker {
    struct instance instance;
    tenure_handle handle;
    char id[ID_SIZE];
};

static bool check_handle(void *arg) {
    const struct checker *checker = arg;
    bool owned = true;
    for (unsigned i = 0; i < CALLS; i++)
        owned &= tenure_handle_is_held(checker->handle);
    return owned;
}

static bool check_id(void *arg) {
    const struct checker *checker = arg;
    bool owned = true;
    for (unsigned i = 0; i < CALLS; i++)
        owned &= tenure_member_is_held(checker->instance.member, checker->id);
    return owned;
}

static bool read_clock(void *arg) {
    (void)arg;
    uint64_t sum = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        struct timespec now;
        sum += clock_gettime(CLOCK_BOOTTIME, &now) == 0 ? (uint64_t)now.tv_nsec | 1u : 0;
    }
    return sum != 0;
}

static bool add_check(bench_report *report, const char *name, const char *against, double goal, const bench_side *ours,
                      const bench_side *reference) {
    bench_row head = {.name = name, .against = against, .kind = BENCH_RATE, .goal = goal};
    const bench_row *row = bench_add(report, head, ours->rates, reference->rates, OWNED_ROUNDS);
    if (row)
        bench_print_row(row);
    return row != NULL;
}

bool fleet_measure_owned(bench_report *report, const char *directory) {
    struct checker checker = {0};
    bench_side sides[] = {{.turn = check_handle, .arg = &checker, .per_turn = CALLS},
                          {.turn = check_id, .arg = &checker, .per_turn = CALLS},
                          {.turn = read_clock, .per_turn = CALLS}};
    (void)directory;
    target_id(checker.id, OWNED_TARGETS / 2);
    bool done = start_instance(&checker.instance, "memory:", 1, OWNED_TARGETS) &&
                wait_owned(checker.instance.member, OWNED_TARGETS) &&
                tenure_member_handle(checker.instance.member, checker.id, &checker.handle) == TENURE_OK;
    done = done && bench_race(sides, TEN_COUNT(sides), OWNED_ROUNDS, 10) &&
           add_check(report, "is-owned", "clock_gettime(CLOCK_BOOTTIME); by handle", 0.5, &sides[0], &sides[2]) &&
           add_check(report, "is-owned/by-id", "the same; by id", 0, &sides[1], &sides[2]);
    stop_instance(&checker.instance);
    return done || bench_could_not("the check");
}

/* ---- a fleet without a store --------------------------------------------------------------------------- */

struct driven {
    ten_fleet *fleet;
    ten_event_queue events;
    uint64_t now_ms;
    ten_result results[BATCH + 2];
};

/* What the engine would tell the fleet. */
static ten_part_update tell(struct driven *driven, ten_engine_event event) {
    ten_part_update update = {0};
    event.now_ms = driven->now_ms;
    ten_fleet_step(driven->fleet, &event, &update);
    return update;
}

static ten_part_due due_of(const struct driven *driven) {
    ten_part_due due = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    ten_fleet_due(driven->fleet, driven->now_ms, &due);
    return due;
}

static void answer_all(struct driven *driven, const ten_op *ops, size_t count) {
    for (size_t i = 0; i < count; i++)
        driven->results[i] = (ten_result){.outcome = TEN_OK,
                                          .token = ops[i].token ? ops[i].token : 1,
                                          .ttl_ms = ops[i].ttl_ms,
                                          .remaining_ms = ops[i].ttl_ms};
    ten_engine_event answer = {.kind = TEN_ON_ANSWER, .results = driven->results};
    (void)tell(driven, answer);
}

/* What the fleet member's thread would do, until `end_ms`, on a clock that jumps from one thing to do to the next. */
static void drive(struct driven *driven, uint64_t end_ms) {
    tenure_event event;
    while (driven->now_ms < end_ms) {
        ten_part_update request = tell(driven, (ten_engine_event){.kind = TEN_ON_REQUEST});
        if (request.ops)
            answer_all(driven, request.ops, request.count);
        if (due_of(driven).instances_ms <= driven->now_ms) {
            ten_instance self = {.instance = "bench", .weight = 1, .remaining_ms = TENURE_TTL_DEFAULT_MS};
            (void)tell(driven, (ten_engine_event){.kind = TEN_ON_INSTANCES});
            (void)tell(driven, (ten_engine_event){.kind = TEN_ON_INSTANCE, .instance = &self});
            (void)tell(driven, (ten_engine_event){.kind = TEN_ON_INSTANCES_END});
        }
        while (ten_event_queue_take(&driven->events, &event))
            ;
        ten_part_due due = due_of(driven);
        uint64_t next_ms = ten_min_u64(due.next_ms, due.instances_ms);
        driven->now_ms = ten_max_u64(driven->now_ms, ten_min_u64(next_ms, end_ms));
    }
}

/* A fleet that holds `count` leases, a minute after its start; NULL: not all of them. */
static void close_driven(struct driven *driven) {
    ten_fleet_free(driven->fleet);
    ten_event_queue_free(&driven->events);
    ten_free(driven);
}

static struct driven *open_driven(unsigned count) {
    struct driven *driven = ten_calloc(1, sizeof *driven);
    if (!driven)
        return NULL;
    ten_fleet_config config = {.namespace_name = "poll",
                               .instance = "bench",
                               .settle_ms = 2000,
                               .weight = 1,
                               .seed = 1,
                               .batch_max = BATCH,
                               .events = &driven->events};
    ten_timing_defaults(&config.timing);
    driven->now_ms = 1000;
    if (ten_event_queue_open(&driven->events))
        driven->fleet = ten_fleet_new(&config, driven->now_ms);
    for (unsigned i = 0; driven->fleet && i < count; i++) {
        char id[ID_SIZE];
        target_id(id, i);
        (void)ten_fleet_put_target(driven->fleet, driven->now_ms, id, false);
    }
    if (driven->fleet) {
        ten_fleet_targets_settled(driven->fleet, driven->now_ms);
        drive(driven, 61000);
        if (ten_fleet_owned_count(driven->fleet) == count)
            return driven;
    }
    close_driven(driven);
    return NULL;
}

/* ---- bytes --------------------------------------------------------------------------------------------- */

struct bytes {
    double target; /* beside the id */
    double id;
};

static size_t bytes_of_ids(unsigned count) {
    char id[ID_SIZE];
    target_id(id, 0);
    return (strlen(id) + 1) * count;
}

static bool weigh_fleet(unsigned count, void *ret_answer) {
    struct bytes *answer = ret_answer;
    size_t before = allocated();
    struct driven *driven = open_driven(count);
    if (!driven)
        return false;
    size_t ids = bytes_of_ids(count);
    *answer = (struct bytes){.target = (double)(allocated() - before - ids) / count, .id = (double)ids / count};
    close_driven(driven);
    return true;
}

static const char *weighed_directory;

static bool weigh_member(unsigned count, unsigned held, struct bytes *answer) {
    struct instance instance = {0};
    char path[GROUND_PATH_SIZE];
    char url[GROUND_PATH_SIZE + 16];
    ground_path(path, weighed_directory, held ? "held" : "known");
    snprintf(url, sizeof url, "sqlite:%s", path);
    bool done = start_instance(&instance, url, held ? 1 : 0, count) && wait_calm(instance.member, held);
    size_t before = allocated();
    stop_instance(&instance);
    size_t ids = bytes_of_ids(count);
    *answer = (struct bytes){.target = (double)(before - allocated() - ids) / count, .id = (double)ids / count};
    return done;
}

static bool weigh_held(unsigned count, void *ret_answer) {
    return weigh_member(count, count, ret_answer);
}

/* Of an instance without weight. */
static bool weigh_known(unsigned count, void *ret_answer) {
    return weigh_member(count, 0, ret_answer);
}

static bool add_bytes(bench_report *report, const char *name, bench_child_fn weigh, double goal) {
    struct bytes bytes = {0};
    bench_child child;
    if (!bench_child_begin(&child, weigh, MILLION, &bytes, sizeof bytes) ||
        !bench_child_end(&child, &bytes, sizeof bytes))
        return bench_could_not(name);
    bench_row head = {.name = name, .against = "the id itself; a million targets", .kind = BENCH_SIZE, .goal = goal};
    const bench_row *row = bench_add(report, head, &bytes.target, &bytes.id, 1);
    if (row)
        bench_print_row(row);
    return row != NULL;
}

bool fleet_measure_bytes(bench_report *report, const char *directory) {
    weighed_directory = directory;
    return add_bytes(report, "target-bytes/fleet", weigh_fleet, 0) &&
           add_bytes(report, "target-bytes/known", weigh_known, 120) &&
           add_bytes(report, "target-bytes/held", weigh_held, 200);
}

/* ---- allocations --------------------------------------------------------------------------------------- */

bool fleet_measure_allocations(bench_report *report, const char *directory) {
    (void)directory;
    struct driven *driven = open_driven(STEADY_TARGETS);
    if (!driven)
        return bench_could_not("renewals");
    unsigned long before = atomic_load(&allocations);
    drive(driven, driven->now_ms + STEADY_CYCLES * TENURE_TTL_DEFAULT_MS / 3);
    double made = (double)(atomic_load(&allocations) - before);
    close_driven(driven);
    double renewed = (double)STEADY_CYCLES * STEADY_TARGETS;
    bench_row head = {.name = "renewal-allocations",
                      .against = "renewals in that time; 20 cycles of 10,000 leases",
                      .kind = BENCH_NONE};
    const bench_row *row = bench_add(report, head, &made, &renewed, 1);
    if (row)
        bench_print_row(row);
    return row != NULL;
}

/* ---- an idle fleet member ----------------------------------------------------------------------------------- */

struct idle {
    double cpu_s;       /* of the whole process, store included, in `seconds` */
    double bare_s;      /* of the bare loop */
    double seconds;     /* of the clock */
    double allocations; /* by our own code, store included */
};

bool fleet_renew_bare(unsigned count, double seconds, double *ret_cpu_s) {
    static ten_op ops[BATCH];
    static ten_result results[BATCH];
    char(*ids)[ID_SIZE] = ten_calloc(count, sizeof *ids);
    ten_error error;
    ten_store *store = NULL;
    bool done =
        ids && ten_store_open("memory:", &(ten_store_config){.clock = &ten_system_clock}, &store, &error) == TENURE_OK;
    unsigned cycles = (unsigned)(seconds * 3000 / (double)TENURE_TTL_DEFAULT_MS + 0.5);
    double start_s = 0;
    for (unsigned cycle = 0; done && cycle <= cycles; cycle++) {
        for (unsigned i = 0; done && i < count; i += BATCH) {
            for (unsigned j = 0; j < BATCH; j++) {
                target_id(ids[i + j], i + j);
                ops[j] = (ten_op){.kind = cycle ? TEN_OP_RENEW : TEN_OP_ACQUIRE,
                                  .namespace_name = "poll",
                                  .target = ids[i + j],
                                  .holder = "bench",
                                  .token = cycle ? 1 : 0,
                                  .ttl_ms = TENURE_TTL_DEFAULT_MS};
            }
            done = ten_store_apply(store, ops, results, BATCH, 1000) == TENURE_OK && results[0].outcome == TEN_OK;
        }
        start_s = cycle ? start_s : bench_cpu_seconds(); /* the first was the acquisition */
    }
    *ret_cpu_s = bench_cpu_seconds() - start_s;
    ten_store_close(store);
    ten_free(ids);
    return done;
}

static bool rest(unsigned count, void *ret_answer) {
    struct idle *answer = ret_answer;
    struct instance instance;
    bool done = start_instance(&instance, "memory:", 1, count) && wait_calm(instance.member, count);
    unsigned long allocations_before = atomic_load(&allocations);
    uint64_t start_us = ten_boot_us();
    double start_s = bench_cpu_seconds();
    if (done)
        ten_sleep_us(IDLE_MS * 1000u);
    answer->cpu_s = bench_cpu_seconds() - start_s;
    answer->seconds = (double)(ten_boot_us() - start_us) / 1e6;
    answer->allocations = (double)(atomic_load(&allocations) - allocations_before);
    done = done && wait_owned(instance.member, count); /* and it still has all of them */
    stop_instance(&instance);
    return done && fleet_renew_bare(count, answer->seconds, &answer->bare_s);
}

static bool add_idle(bench_report *report, const char *name, unsigned count, const struct idle *idle) {
    double ours = idle->cpu_s / idle->seconds * 100;
    double bare = idle->bare_s / idle->seconds * 100;
    bench_row head = {
        .name = name, .against = "the same renewals by ten_store_apply in a bare loop", .kind = BENCH_LOAD};
    bench_row *row = bench_add(report, head, &ours, &bare, 1);
    if (!row)
        return false;
    bench_print_row(row);
    double hour_s = ours * 36;
    double lease_us = idle->cpu_s * 1e6 / idle->seconds / count * (double)TENURE_TTL_DEFAULT_MS / 3000;
    printf("    %6u leases: %.2f CPU seconds an hour, %.3f us a renewal, %.0f allocations\n", count, hour_s, lease_us,
           idle->allocations);
    ten_buf_format(&row->more,
                   ",\"leases\":%u,\"cpu_seconds_per_hour\":%.3f,\"us_per_renewal\":%.3f,\"allocations\":%.0f", count,
                   hour_s, lease_us, idle->allocations);
    return true;
}

bool fleet_measure_idle(bench_report *report, const char *directory) {
    static const struct {
        const char *name;
        unsigned leases;
    } sizes[] = {{"idle-1000", 1000}, {"idle-10000", 10000}, {"idle-100000", 100000}};
    bench_child children[TEN_COUNT(sizes)];
    struct idle idles[TEN_COUNT(sizes)] = {0};
    bool done = true;
    (void)directory;
    for (size_t i = 0; done && i < TEN_COUNT(sizes); i++)
        done = bench_child_begin(&children[i], rest, sizes[i].leases, &idles[i], sizeof idles[i]);
    for (size_t i = 0; done && i < TEN_COUNT(sizes); i++)
        done = bench_child_end(&children[i], &idles[i], sizeof idles[i]) &&
               add_idle(report, sizes[i].name, sizes[i].leases, &idles[i]);
    return done || bench_could_not("an idle fleet member");
}
