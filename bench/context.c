/*
 * The benchmarks of the context. Opening and closing one, against the store alone. Acquiring and releasing in the
 * threaded form, the driven form and with TENURE_MANUAL, against the same two operations on the store, for each store.
 * The load and the memory of a driven context that holds 100,000 leases at rest, against the same renewals in a bare
 * loop and the store's own memory. The local check, against a bare read of the clock.
 */
#include "context.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "child.h"
#include "fleet.h"
#include "ground.h"
#ifdef TEN_STORE_REDIS
#include "lib/redis_server.h"
#endif

#define ROUNDS       21u
#define SLICE_MS     40u
#define PAIR_TARGETS 100u
#define DRIVEN_TURNS 50u
#define REST_LEASES  100000u
#define REST_MS      UINT64_C(30000) /* three cycles of renewals at default timings */
#define REST_CALM_MS UINT64_C(12000) /* a cycle and more: the first renewals grow buffers */
#define HELD_MAX_MS  UINT64_C(60000)
#define LOCAL_CALLS  1000u
#define ID_SIZE      48u
#define URL_SIZE     (GROUND_PATH_SIZE + 16u)

/* The rows keep their names. */
static const char *const open_names[] = {"context-open/memory", "context-open/sqlite", "context-open/redis"};
enum form { THREADED, DRIVEN, MANUAL, FORMS };
static const char *const pair_names[][FORMS] = {
    {"context-pair/memory/threaded", "context-pair/memory/driven", "context-pair/memory/manual"},
    {"context-pair/sqlite/threaded", "context-pair/sqlite/driven", "context-pair/sqlite/manual"},
    {"context-pair/redis/threaded", "context-pair/redis/driven", "context-pair/redis/manual"},
};

static void target_id(char id[ID_SIZE], unsigned i) {
    snprintf(id, ID_SIZE, "session-%07u-abcdef", i);
}

/* ---- stores -------------------------------------------------------------------------------------------- */

enum store { MEMORY, SQLITE, REDIS };
#ifdef TEN_STORE_REDIS
#define STORES (REDIS + 1u)
static bool start_server(struct redis_server *server) {
    return redis_server_start(server, NULL) == 0;
}
#else
#define STORES (SQLITE + 1u)
struct redis_server {
    int port;
};
static bool start_server(struct redis_server *server) {
    (void)server;
    return true;
}
static void redis_server_remove(struct redis_server *server) {
    (void)server;
}
#endif

/* One side's own place on a store: a name, a file or a database. */
static void place(char url[URL_SIZE], enum store store, const char *directory, const struct redis_server *server,
                  const char *name, unsigned number) {
    if (store == MEMORY)
        snprintf(url, URL_SIZE, "memory:%s", name);
    else if (store == SQLITE)
        snprintf(url, URL_SIZE, "sqlite:%s/context-%s.db", directory, name);
    else
        snprintf(url, URL_SIZE, "redis://127.0.0.1:%d/%u?fresh=1", server->port, number);
}

static ten_store *open_store(const char *url) {
    ten_error error = {0};
    ten_store *store = NULL;
    if (ten_store_open(url, &(ten_store_config){.clock = &ten_system_clock}, &store, &error) == TENURE_OK)
        return store;
    fprintf(stderr, "bench: %s\n", error.message);
    return NULL;
}

static bool add_rate(bench_report *report, const char *name, const char *against, const bench_side *ours,
                     const bench_side *reference) {
    bench_row head = {.name = name, .against = against, .kind = BENCH_RATE};
    const bench_row *row = bench_add(report, head, ours->rates, reference->rates, ROUNDS);
    if (row)
        bench_print_row(row);
    return row != NULL;
}

/* ---- contexts ------------------------------------------------------------------------------------------ */

/* Events that nobody takes would be kept. */
static void ignore_event(const tenure_event *event, void *userdata) {
    (void)event;
    (void)userdata;
}

static tenure_context *open_context(const char *url, unsigned flags, uint64_t ttl_ms, tenure_event_fn on_event,
                                    void *userdata) {
    tenure_options options = {.size = sizeof options,
                              .flags = flags,
                              .instance_name = "bench",
                              .ttl_ms = ttl_ms,
                              .on_event = on_event,
                              .userdata = userdata};
    tenure_context *context = NULL;
    if (tenure_open(url, &options, &context) < 0)
        fprintf(stderr, "bench: %s\n", tenure_message(NULL));
    return context;
}

/* One turn of a program's own loop. */
static bool drive(tenure_context *context, int most_ms) {
    struct pollfd ready = {.fd = tenure_fd(context), .events = POLLIN};
    int timeout_ms = tenure_timeout_ms(context);
    if (timeout_ms < 0 || timeout_ms > most_ms)
        timeout_ms = most_ms;
    if (timeout_ms > 0)
        (void)poll(&ready, 1, timeout_ms);
    if (tenure_process(context) == TENURE_OK)
        return true;
    fprintf(stderr, "bench: %s\n", tenure_message(context));
    return false;
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

static bool context_turn(void *url) {
    tenure_context *context = open_context(url, 0, 0, NULL, NULL);
    return context && tenure_close(context) == TENURE_OK;
}

static bool store_turn(void *url) {
    ten_store *store = open_store(url);
    ten_store_close(store);
    return store != NULL;
}

static bool measure_open(bench_report *report, const char *directory, const struct redis_server *server,
                         enum store store) {
    char url[URL_SIZE];
    bench_side sides[] = {{.turn = context_turn, .arg = url, .per_turn = 1},
                          {.turn = store_turn, .arg = url, .per_turn = 1}};
    place(url, store, directory, server, "open", 0);
    ten_store *kept = open_store(url); /* it is not made anew in each turn */
    bool done = kept && bench_race(sides, TEN_COUNT(sides), ROUNDS, SLICE_MS) &&
                add_rate(report, open_names[store], "opening and closing the store alone", &sides[0], &sides[1]);
    ten_store_close(kept);
    return done;
}

bool context_measure_open(bench_report *report, const char *directory) {
    struct redis_server server = {0};
    bool done = start_server(&server);
    for (unsigned store = 0; done && store < STORES; store++)
        done = measure_open(report, directory, &server, store);
    redis_server_remove(&server);
    return done || bench_could_not("opening a context");
}

/* ---- acquire and release ------------------------------------------------------------------------------- */

/* One form, or (context NULL) the store alone. */
struct pair_side {
    tenure_context *context;
    ten_store *store;
    unsigned flags;
    unsigned next;
};

static void next_id(struct pair_side *side, char id[ID_SIZE]) {
    side->next = (side->next + 1) % PAIR_TARGETS;
    target_id(id, side->next);
}

static bool store_pair(void *arg) {
    struct pair_side *side = arg;
    char id[ID_SIZE];
    ten_result result;
    next_id(side, id);
    ten_op op = {.kind = TEN_OP_ACQUIRE,
                 .namespace_name = "poll",
                 .target = id,
                 .holder = "bench-1700000000000000000-00000001",
                 .ttl_ms = GROUND_TTL_MS};
    if (!ground_apply(side->store, &op, &result, 1))
        return false;
    op.kind = TEN_OP_RELEASE;
    op.token = result.token;
    return ground_apply(side->store, &op, &result, 1);
}

/* The outcome of an acquire that was only asked for: nobody else holds the targets, so it is granted at once. */
static bool is_granted(struct pair_side *side, tenure_lease *lease) {
    for (unsigned turn = 0; tenure_lease_token(lease) == 0 && turn < DRIVEN_TURNS; turn++)
        if (!drive(side->context, 100))
            return false;
    return tenure_lease_valid(lease);
}

static bool context_pair(void *arg) {
    struct pair_side *side = arg;
    tenure_lease *lease = NULL;
    char id[ID_SIZE];
    next_id(side, id);
    bool done = tenure_acquire(side->context, id, 0, side->flags, &lease) == TENURE_OK &&
                (!(side->flags & TENURE_ASYNC) || is_granted(side, lease)) && tenure_release(lease) == TENURE_OK;
    if (!done)
        fprintf(stderr, "bench: %s\n", tenure_message(NULL));
    tenure_lease_free(lease);
    return done;
}

static bool open_pairs(struct pair_side sides[FORMS + 1], const char *directory, const struct redis_server *server,
                       enum store store) {
    static const char *const names[] = {"threaded", "driven", "manual", "bare"};
    char url[URL_SIZE];
    for (unsigned form = 0; form < FORMS; form++) {
        place(url, store, directory, server, names[form], form);
        sides[form].flags = form == DRIVEN ? TENURE_ASYNC : form == MANUAL ? TENURE_MANUAL : 0;
        sides[form].context = open_context(url, form == DRIVEN ? TENURE_DRIVEN : 0, GROUND_TTL_MS, ignore_event, NULL);
        if (!sides[form].context)
            return false;
    }
    place(url, store, directory, server, names[FORMS], FORMS);
    sides[FORMS].store = open_store(url);
    return sides[FORMS].store != NULL;
}

static bool measure_pairs(bench_report *report, const char *directory, const struct redis_server *server,
                          enum store store) {
    struct pair_side pairs[FORMS + 1] = {0};
    bench_side sides[FORMS + 1] = {0};
    for (unsigned i = 0; i <= FORMS; i++)
        sides[i] = (bench_side){.turn = i < FORMS ? context_pair : store_pair, .arg = &pairs[i], .per_turn = 1};
    bool done = open_pairs(pairs, directory, server, store) && bench_race(sides, FORMS + 1, ROUNDS, SLICE_MS);
    for (unsigned form = 0; done && form < FORMS; form++)
        done = add_rate(report, pair_names[store][form], "acquire and release by ten_store_apply", &sides[form],
                        &sides[FORMS]);
    for (unsigned i = 0; i <= FORMS; i++) {
        (void)tenure_close(pairs[i].context);
        ten_store_close(pairs[i].store);
    }
    return done;
}

bool context_measure_pairs(bench_report *report, const char *directory) {
    struct redis_server server = {0};
    bool done = start_server(&server);
    for (unsigned store = 0; done && store < STORES; store++)
        done = measure_pairs(report, directory, &server, store);
    redis_server_remove(&server);
    return done || bench_could_not("a lease in the forms of a context");
}

/* ---- many leases at rest ------------------------------------------------------------------------------- */

struct rest {
    double cpu_s; /* of the whole process, store included, in `seconds` */
    double bare_s;
    double seconds;
    double bytes; /* of resident memory, store included */
};

static double resident_bytes(void) {
    char text[128] = "";
    unsigned long pages = 0;
    if (ten_read_line("/proc/self/statm", text, sizeof text) <= 0 || sscanf(text, "%*u %lu", &pages) != 1)
        return 0;
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void count_held(const tenure_event *event, void *userdata) {
    unsigned *held = userdata;
    if (event->kind == TENURE_EVENT_ACQUIRED)
        ++*held;
    else if (event->kind == TENURE_EVENT_LOST || event->kind == TENURE_EVENT_ACQUIRE_FAILED)
        fprintf(stderr, "bench: %s: %s\n", event->target, tenure_event_name(event->kind));
}

static bool drive_for(tenure_context *context, uint64_t ms) {
    uint64_t end_us = ten_boot_us() + ms * 1000u;
    bool driven = true;
    for (uint64_t now_us = ten_boot_us(); driven && now_us < end_us; now_us = ten_boot_us())
        driven = drive(context, (int)((end_us - now_us) / 1000u) + 1);
    return driven;
}

static bool hold_all(tenure_context *context, tenure_lease **leases, unsigned count, const unsigned *held) {
    uint64_t end_us = ten_boot_us() + HELD_MAX_MS * 1000u;
    for (unsigned i = 0; i < count; i++) {
        char id[ID_SIZE];
        target_id(id, i);
        if (tenure_acquire(context, id, HELD_MAX_MS, TENURE_ASYNC, &leases[i]) < 0) {
            fprintf(stderr, "bench: %s\n", tenure_message(context));
            return false;
        }
    }
    while (*held < count)
        if (ten_boot_us() > end_us || !drive(context, 100))
            return false;
    return drive_for(context, REST_CALM_MS);
}

static bool rest(unsigned count, void *ret_answer) {
    struct rest *answer = ret_answer;
    unsigned held = 0;
    tenure_lease **leases = ten_calloc(count, sizeof(tenure_lease *));
    tenure_context *context = open_context("memory:", TENURE_DRIVEN, 0, count_held, &held);
    double bytes = resident_bytes();
    bool done = leases && context && hold_all(context, leases, count, &held);
    answer->bytes = resident_bytes() - bytes;
    uint64_t start_us = ten_boot_us();
    double start_s = bench_cpu_seconds();
    done = done && drive_for(context, REST_MS);
    answer->cpu_s = bench_cpu_seconds() - start_s;
    answer->seconds = (double)(ten_boot_us() - start_us) / 1e6;
    for (unsigned i = 0; done && i < count; i++)
        done = tenure_lease_valid(leases[i]); /* and it still holds all of them */
    for (unsigned i = 0; leases && i < count; i++)
        if (leases[i])
            tenure_lease_free(leases[i]);
    (void)tenure_close(context);
    ten_free(leases);
    return done && fleet_renew_bare(count, answer->seconds, &answer->bare_s);
}

/* The same leases in a store without a context. */
static bool weigh_store(unsigned count, void *ret_answer) {
    double *answer = ret_answer;
    ten_store *store = open_store("memory:");
    double bytes = resident_bytes();
    bool done = store != NULL;
    for (unsigned i = 0; done && i < count; i++) {
        char id[ID_SIZE];
        ten_result result;
        target_id(id, i);
        ten_op op = {.kind = TEN_OP_ACQUIRE,
                     .namespace_name = "poll",
                     .target = id,
                     .holder = "bench-1700000000000000000-00000001",
                     .ttl_ms = TENURE_TTL_DEFAULT_MS};
        done = ground_apply(store, &op, &result, 1);
    }
    *answer = resident_bytes() - bytes;
    ten_store_close(store);
    return done;
}

static bool add_rest(bench_report *report, const struct rest *rest, double store_bytes) {
    double ours = rest->cpu_s / rest->seconds * 100;
    double bare = rest->bare_s / rest->seconds * 100;
    double context_bytes = (rest->bytes - store_bytes) / REST_LEASES;
    double store_each = store_bytes / REST_LEASES;
    bench_row load = {.name = "context-rest/load",
                      .against = "the same renewals by ten_store_apply in a bare loop; 100,000 leases, driven",
                      .kind = BENCH_LOAD};
    bench_row size = {.name = "context-rest/bytes",
                      .against = "what the memory store needs for the same; resident, a lease",
                      .kind = BENCH_SIZE};
    const bench_row *load_row = bench_add(report, load, &ours, &bare, 1);
    const bench_row *size_row = bench_add(report, size, &context_bytes, &store_each, 1);
    if (load_row)
        bench_print_row(load_row);
    if (size_row)
        bench_print_row(size_row);
    return load_row && size_row;
}

bool context_measure_rest(bench_report *report, const char *directory) {
    struct rest answer = {0};
    double store_bytes = 0;
    bench_child child;
    (void)directory;
    return (bench_child_begin(&child, weigh_store, REST_LEASES, &store_bytes, sizeof store_bytes) &&
            bench_child_end(&child, &store_bytes, sizeof store_bytes) &&
            bench_child_begin(&child, rest, REST_LEASES, &answer, sizeof answer) &&
            bench_child_end(&child, &answer, sizeof answer) && add_rest(report, &answer, store_bytes)) ||
           bench_could_not("a context at rest");
}

/* ---- the local check ----------------------------------------------------------------------------------- */

static bool check_lease(void *lease) {
    bool valid = true;
    for (unsigned i = 0; i < LOCAL_CALLS; i++)
        valid &= tenure_lease_valid(lease);
    return valid;
}

static bool read_clock(void *arg) {
    (void)arg;
    uint64_t sum = 0;
    for (unsigned i = 0; i < LOCAL_CALLS; i++) {
        struct timespec now;
        sum += clock_gettime(CLOCK_BOOTTIME, &now) == 0 ? (uint64_t)now.tv_nsec | 1u : 0;
    }
    return sum != 0;
}

static bool add_valid(bench_report *report, const bench_side *ours, const bench_side *bare) {
    double ours_ns[ROUNDS], bare_ns[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        ours_ns[i] = 1e9 / ours->rates[i];
        bare_ns[i] = 1e9 / bare->rates[i];
    }
    bench_row head = {.name = "lease-valid/check", .against = "the same, a call", .kind = BENCH_NANO};
    const bench_row *row = bench_add(report, head, ours_ns, bare_ns, ROUNDS);
    if (row)
        bench_print_row(row);
    return row != NULL;
}

bool context_measure_valid(bench_report *report, const char *directory) {
    tenure_lease *lease = NULL;
    tenure_context *context = open_context("memory:", 0, GROUND_TTL_MS, ignore_event, NULL);
    (void)directory;
    bool done = context && tenure_acquire(context, "checked", 0, 0, &lease) == TENURE_OK;
    bench_side sides[] = {{.turn = check_lease, .arg = lease, .per_turn = LOCAL_CALLS},
                          {.turn = read_clock, .per_turn = LOCAL_CALLS}};
    done = done && bench_race(sides, TEN_COUNT(sides), ROUNDS, 10) &&
           add_rate(report, "lease-valid", "clock_gettime(CLOCK_BOOTTIME)", &sides[0], &sides[1]) &&
           add_valid(report, &sides[0], &sides[1]);
    tenure_lease_free(lease);
    (void)tenure_close(context);
    return done || bench_could_not("the check of a lease");
}
