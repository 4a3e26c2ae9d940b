/*
 * A rolling restart: each of three instances that share 300 targets drains, leaves, and a new one joins in its place.
 * For each target that changes hands, how long does no instance believe that it holds it? All instances are fleet
 * members in this process: their beliefs are read in a loop, every some ten microseconds, and each reading is repeated
 * when two seem to believe, because one of them may have stopped meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenure.h>

#include "base/clock.h"
#include "base/io.h"
#include "measures.h"
#include "store_server.h"

#define MEMBERS     3u
#define TARGETS     300u
#define ROUNDS      3u
#define GAPS_MAX    (ROUNDS * MEMBERS * TARGETS * 4u)
#define PATIENCE_MS UINT64_C(60000)
#define EVEN_MS     UINT64_C(10000) /* a target may have gone to another than the planned holder, which keeps it */
#define NOBODY      MEMBERS
#define GOAL_MS     1000

/* ---- a fleet ------------------------------------------------------------------------------------------- */

struct instance {
    tenure_context *context;
    tenure_member *member;
    tenure_handle handles[TARGETS];
};

struct fleet {
    const char *url;
    const char *namespace_name;
    struct instance instances[MEMBERS];
    unsigned holders[TARGETS]; /* who believed last, */
    uint64_t lost_us[TARGETS]; /* and since when nobody does; 0: somebody does */
    bool counts;               /* the changes are measured */
    double gaps_ms[GAPS_MAX];
    size_t gap_count;
    size_t doubles; /* how often two believed */
};

static bool start(struct fleet *fleet, struct instance *instance) {
    tenure_options options = {
        .size = sizeof options, .instance_name = "bench", .namespace_name = fleet->namespace_name};
    bool done = tenure_open(fleet->url, &options, &instance->context) == TENURE_OK &&
                tenure_member_open(instance->context, NULL, &instance->member) == TENURE_OK;
    for (unsigned i = 0; done && i < TARGETS; i++) {
        char id[32];
        snprintf(id, sizeof id, "site-%u", i);
        done = tenure_member_put(instance->member, id, 0) == TENURE_OK &&
               tenure_member_handle(instance->member, id, &instance->handles[i]) == TENURE_OK;
    }
    if (!done)
        fprintf(stderr, "bench: %s\n", tenure_message(NULL));
    return done;
}

static void stop(struct instance *instance) {
    tenure_member_close(instance->member);
    tenure_close(instance->context);
    *instance = (struct instance){0};
}

/* ---- who believes -------------------------------------------------------------------------------------- */

/* Who believes in it; NOBODY, or twice as much: two at the same moment. */
static unsigned believer(const struct fleet *fleet, size_t target) {
    unsigned found = NOBODY;
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (!fleet->instances[i].member || !tenure_handle_is_held(fleet->instances[i].handles[target]))
            continue;
        if (found != NOBODY && tenure_handle_is_held(fleet->instances[found].handles[target]))
            return 2 * NOBODY;
        found = i;
    }
    return found;
}

static void note(struct fleet *fleet, size_t target, unsigned holder, uint64_t now_us) {
    if (holder == NOBODY) {
        if (fleet->lost_us[target] == 0)
            fleet->lost_us[target] = now_us;
        return;
    }
    bool changed = holder != fleet->holders[target] || fleet->lost_us[target];
    if (fleet->counts && changed && fleet->gap_count < GAPS_MAX)
        fleet->gaps_ms[fleet->gap_count++] =
            fleet->lost_us[target] ? (double)(now_us - fleet->lost_us[target]) / 1000 : 0;
    fleet->holders[target] = holder;
    fleet->lost_us[target] = 0;
}

/* Reads all beliefs once. How many each has; the last is what nobody has. */
static void look(struct fleet *fleet, unsigned loads[MEMBERS + 1]) {
    memset(loads, 0, (MEMBERS + 1) * sizeof *loads);
    for (size_t i = 0; i < TARGETS; i++) {
        unsigned holder = believer(fleet, i);
        if (holder > NOBODY) {
            fleet->doubles++;
            continue;
        }
        loads[holder]++;
        note(fleet, i, holder, ten_boot_us());
    }
}

/* Until everything is held, nothing of it by instance `without` (NOBODY: by all of them), and evenly if that happens
 * soon. */
static bool settle(struct fleet *fleet, unsigned without) {
    uint64_t start_us = ten_boot_us();
    unsigned share = TARGETS / (without == NOBODY ? MEMBERS : MEMBERS - 1);
    unsigned loads[MEMBERS + 1] = {0};
    for (bool even = false, held = false; !even && !(held && ten_boot_us() - start_us > EVEN_MS * 1000);) {
        if (ten_boot_us() - start_us > PATIENCE_MS * 1000) {
            fprintf(stderr, "bench: fleet '%s' has not settled: %u, %u and %u targets, %u free\n",
                    fleet->namespace_name, loads[0], loads[1], loads[2], loads[NOBODY]);
            return false;
        }
        look(fleet, loads);
        even = held = loads[NOBODY] == 0 && (without == NOBODY || loads[without] == 0);
        for (unsigned i = 0; i < MEMBERS; i++)
            even = even && (i == without || loads[i] == share);
        ten_sleep_us(20);
    }
    return true;
}

/* One instance gives way to a new one. */
static bool replace(struct fleet *fleet, unsigned which) {
    struct instance *instance = &fleet->instances[which];
    fleet->counts = true;
    bool done = tenure_member_set_weight(instance->member, 0) == TENURE_OK && settle(fleet, which);
    fleet->counts = false;
    stop(instance);
    done = done && start(fleet, instance);
    fleet->counts = true;
    done = done && settle(fleet, NOBODY);
    fleet->counts = false;
    return done;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* A target is polled every 10 s unless somebody says otherwise: a tenth of that misses nothing. */
static const struct {
    const char *name;
    unsigned percent;
    double goal_ms;
} parts[] = {{"p50", 50, 0}, {"p99", 99, GOAL_MS}, {"worst", 100, 0}};
#define FIGURES TEN_COUNT(parts)

static bool roll(struct fleet *fleet, size_t round, double figures[][ROUNDS]) {
    fleet->gap_count = 0;
    for (unsigned i = 0; i < MEMBERS; i++)
        if (!replace(fleet, i))
            return false;
    if (fleet->gap_count < TARGETS || fleet->doubles > 0) {
        fprintf(stderr, "bench: %zu changes of hands, %zu times two believers\n", fleet->gap_count, fleet->doubles);
        return false;
    }
    for (size_t i = 0; i < FIGURES; i++)
        figures[i][round] = bench_percentile(fleet->gaps_ms, fleet->gap_count, parts[i].percent);
    return true;
}

bool handover_measure(bench_report *report, const char *store) {
    static struct fleet fleet;
    static const double goals[ROUNDS] = {GOAL_MS, GOAL_MS, GOAL_MS};
    static double figures[FIGURES][ROUNDS];
    store_server server;
    if (!store_server_start(&server, store))
        return false;
    fleet = (struct fleet){.url = server.url, .namespace_name = "handed"};
    bool done = true;
    for (unsigned i = 0; done && i < MEMBERS; i++)
        done = start(&fleet, &fleet.instances[i]);
    done = done && settle(&fleet, NOBODY);
    for (size_t round = 0; done && round < ROUNDS; round++)
        done = roll(&fleet, round, figures);
    for (unsigned i = 0; i < MEMBERS; i++)
        stop(&fleet.instances[i]);
    store_server_stop(&server);
    for (size_t i = 0; done && i < FIGURES; i++) {
        bench_row head = {.name = bench_keep_text("handover/%s-%s", store, parts[i].name),
                          .against = "the goal of p99; a rolling restart",
                          .kind = BENCH_WAIT,
                          .goal = parts[i].goal_ms};
        done = bench_add(report, head, figures[i], goals, ROUNDS);
    }
    return done || bench_could_not("handing over");
}
