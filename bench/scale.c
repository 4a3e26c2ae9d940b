/*
 * How a fleet settles at size: `./dev bench scale[/STORE[/INSTANCESxTARGETS | /growth]]`. All instances run in one
 * process, each with its own context, thread and connections, at the default TTL, on a private server. The targets are
 * registered before. Measured: the start of all instances, the fleet at rest, one that leaves, one that joins, and one
 * that is killed: that runs in a process of its own. A judge reads handles all the while and counts targets in which
 * two instances believe at once.
 *
 * The reference of a row is a bare loop that acquires as many targets on the same store with one client, in batches of
 * 1,000: what the store takes for that alone.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"
#include "ground.h"
#include "measures.h"
#include "runtime/member.h"
#include "store_server.h"
#include "usage.h"

#define BATCH       1000u
#define GIVE_UP_MS  UINT64_C(240000)
#define REST_MS     UINT64_C(30000) /* three heartbeats */
#define LOOK_MS     20u
#define PROGRESS_MS UINT64_C(10000)
#define JUDGED      512u /* so many targets the judge reads */
#define OPEN_FILES  16384u

/* ---- the fleet */

static atomic_ulong granted; /* leases: acquired, or confirmed after they were handed over */

static void count_event(const tenure_event *event, void *userdata) {
    (void)userdata;
    if (event->kind == TENURE_EVENT_ACQUIRED)
        atomic_fetch_add(&granted, 1);
}

struct instance {
    tenure_context *context;
    tenure_member *member; /* NULL: it is not there */
    ten_measures measures;
};

struct fleet {
    const char *url;
    size_t targets;
    size_t room; /* one more than there are at the start: it joins later */
    struct instance *instances;
};

static bool fail(const char *what) {
    fprintf(stderr, "bench: %s: %s\n", what, tenure_message(NULL));
    return false;
}

static bool start(struct fleet *fleet, size_t at) {
    struct instance *instance = &fleet->instances[at];
    char name[32];
    snprintf(name, sizeof name, "i%03zu", at);
    tenure_options options = {.size = sizeof options, .instance_name = name};
    tenure_member_options member = {.size = sizeof member, .flags = TENURE_TARGETS_FROM_STORE, .on_event = count_event};
    ten_member_extras extras = {.measures = &instance->measures};
    if (tenure_open(fleet->url, &options, &instance->context) != TENURE_OK ||
        ten_member_open(instance->context, &member, &extras, &instance->member) != TENURE_OK)
        return fail("an instance does not start");
    return true;
}

static void end(struct instance *instance) {
    tenure_member_close(instance->member);
    tenure_close(instance->context);
    instance->member = NULL;
    instance->context = NULL;
    ten_measures_fleet(&instance->measures, 0, 0, 0, 0);
}

struct view {
    size_t held, least, most;
};

static struct view look(const struct fleet *fleet) {
    struct view view = {.least = SIZE_MAX};
    for (size_t i = 0; i < fleet->room; i++) {
        if (!fleet->instances[i].member)
            continue;
        size_t held = ten_measure_get(&fleet->instances[i].measures.held);
        view.held += held;
        view.least = held < view.least ? held : view.least;
        view.most = held > view.most ? held : view.most;
    }
    return view;
}

static bool is_settled(const struct fleet *fleet) {
    struct view view = look(fleet);
    return view.held == fleet->targets && view.most - view.least <= 1;
}

/* Milliseconds since `since_us` when that came true; negative: it did not. After a while it shows what goes on. */
static double wait_for(const struct fleet *fleet, bool (*is_true)(const struct fleet *fleet), uint64_t since_us) {
    uint64_t next_us = ten_boot_us() + PROGRESS_MS * 1000;
    while (!is_true(fleet)) {
        uint64_t now_us = ten_boot_us();
        if (now_us - since_us > GIVE_UP_MS * 1000)
            return -1;
        if (now_us > next_us) {
            struct view view = look(fleet);
            fprintf(stderr, "  %5.1f s: held %zu, %zu to %zu each; granted %lu\n", (double)(now_us - since_us) / 1e6,
                    view.held, view.least, view.most, atomic_load(&granted));
            next_us += PROGRESS_MS * 1000;
        }
        ten_sleep_us(LOOK_MS * 1000u);
    }
    return (double)(ten_boot_us() - since_us) / 1e3;
}

/* ---- the judge */

struct judge {
    struct fleet *fleet;
    pthread_t thread;
    pthread_mutex_t lock; /* instances come and go under it */
    atomic_bool over;
    atomic_ulong looks, doubles;
};

static bool believes(const struct instance *instance, const char *id, tenure_handle *handle) {
    if (!instance->member || (!handle->belief && tenure_member_handle(instance->member, id, handle) != TENURE_OK))
        return false;
    return tenure_handle_is_held(*handle);
}

/* a, b and a again: if a believes before and after b does, both believed at the time of b. */
static void judge_target(struct judge *judge, const char *id, tenure_handle *handles) {
    struct fleet *fleet = judge->fleet;
    for (size_t a = 0; a < fleet->room; a++) {
        if (!believes(&fleet->instances[a], id, &handles[a]))
            continue;
        for (size_t b = 0; b < fleet->room; b++)
            if (b != a && believes(&fleet->instances[b], id, &handles[b]) &&
                believes(&fleet->instances[a], id, &handles[a]))
                atomic_fetch_add(&judge->doubles, 1);
    }
}

static void *judge_all(void *arg) {
    struct judge *judge = arg;
    struct fleet *fleet = judge->fleet;
    size_t count = fleet->targets < JUDGED ? fleet->targets : JUDGED;
    tenure_handle *handles = ten_calloc(count * fleet->room, sizeof *handles);
    while (handles && !atomic_load(&judge->over)) {
        for (size_t i = 0; i < count; i++) {
            char id[GROUND_NAME_SIZE];
            snprintf(id, sizeof id, GROUND_SESSION, i * (fleet->targets / count));
            pthread_mutex_lock(&judge->lock);
            judge_target(judge, id, handles + i * fleet->room);
            pthread_mutex_unlock(&judge->lock);
        }
        atomic_fetch_add(&judge->looks, count);
        ten_sleep_us(5000); /* it is not what is measured */
    }
    ten_free(handles);
    return NULL;
}

/* ---- the bare loop */

static bool acquire_bare(const char *url, size_t count, double *ret_ms) {
    ten_store *store = ground_open("%s", url);
    bool done = store != NULL;
    uint64_t start_us = ten_boot_us();
    for (size_t at = 0; done && at < count; at += BATCH) {
        ground_leases leases;
        done = ground_acquire(store, (unsigned)at, ten_min_u64(count - at, BATCH), &leases);
        ground_free(&leases);
    }
    *ret_ms = (double)(ten_boot_us() - start_us) / 1e3;
    ten_store_close(store);
    return done;
}

/* ---- one case, in a process of its own */

struct figures {
    double bare_ms;
    double settled_ms;                  /* from the first start */
    double last_start_ms;               /* until the last instance had been started */
    double stop_ms, left_ms, joined_ms; /* one leaves: until it has; until the rest has settled. One joins */
    double killed_ms;                   /* one is killed: from the end of its leases until the rest has settled */
    double leave_moves, join_moves;     /* leases that changed hands, against those that had to */
    double kill_moves;
    double start_cpu_ms; /* of the server */
    double rest_cpu;     /* at rest, percent of a core of the server */
    double client_bytes; /* of memory, for each instance and target */
    double doubles, looks;
};

struct scale_case {
    const char *store;
    unsigned instances;
    unsigned targets;
    double goal_ms; /* from the last start until settled; 0: none */
    bool only_start;
};

/* Of the server; of this process where there is none. */
static double server_cpu_ms(const store_server *server) {
    return server->pid ? usage_server_ms(server->pid) : usage_self_us() / 1e3;
}

static bool measure_start(struct fleet *fleet, store_server *server, size_t count, struct figures *figures) {
    double cpu_ms = server_cpu_ms(server);
    double memory = usage_resident_bytes();
    uint64_t start_us = ten_boot_us();
    for (size_t i = 0; i < count; i++)
        if (!start(fleet, i))
            return false;
    figures->last_start_ms = (double)(ten_boot_us() - start_us) / 1e3;
    figures->settled_ms = wait_for(fleet, is_settled, start_us);
    figures->start_cpu_ms = server_cpu_ms(server) - cpu_ms;
    figures->client_bytes = (usage_resident_bytes() - memory) / (double)(count * fleet->targets);
    return true;
}

/* Percent of a core of the server while nothing happens. */
static double measure_rest(const store_server *server) {
    double cpu_ms = server_cpu_ms(server);
    uint64_t start_us = ten_boot_us();
    ten_sleep_us(REST_MS * 1000);
    return (server_cpu_ms(server) - cpu_ms) / 10 / ((double)(ten_boot_us() - start_us) / 1e6);
}

/* Leases that changed hands since, against those that had to. */
static double moves_since(unsigned long before, double must) {
    return must > 0 ? (double)(atomic_load(&granted) - before) / must : 0;
}

static void measure_leave(struct fleet *fleet, struct judge *judge, struct figures *figures) {
    unsigned long before = atomic_load(&granted);
    double must = (double)ten_measure_get(&fleet->instances[0].measures.held);
    uint64_t start_us = ten_boot_us();
    (void)tenure_member_stop(fleet->instances[0].member, GIVE_UP_MS);
    figures->stop_ms = (double)(ten_boot_us() - start_us) / 1e3;
    pthread_mutex_lock(&judge->lock);
    end(&fleet->instances[0]);
    pthread_mutex_unlock(&judge->lock);
    figures->left_ms = wait_for(fleet, is_settled, start_us);
    figures->leave_moves = moves_since(before, must);
}

static bool measure_join(struct fleet *fleet, struct judge *judge, size_t at, struct figures *figures) {
    unsigned long before = atomic_load(&granted);
    uint64_t start_us = ten_boot_us();
    pthread_mutex_lock(&judge->lock);
    bool started = start(fleet, at);
    pthread_mutex_unlock(&judge->lock);
    if (!started)
        return false;
    figures->joined_ms = wait_for(fleet, is_settled, start_us);
    figures->join_moves = moves_since(before, (double)ten_measure_get(&fleet->instances[at].measures.held));
    return true;
}

/* ---- one that is killed */

#define VICTIM    "victim"
#define VICTIM_MS UINT64_C(22000)

struct victim {
    pid_t pid;
    int go; /* a byte: it starts */
};

/* An instance in a process of its own, until it is killed. Forked while this process has no threads yet. */
static bool fork_victim(const char *url, struct victim *victim) {
    int ends[2];
    char go;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    victim->go = ends[1];
    victim->pid = fork();
    if (victim->pid != 0) {
        close(ends[0]);
        return victim->pid > 0;
    }
    struct instance instance = {0};
    tenure_options options = {.size = sizeof options, .instance_name = VICTIM};
    tenure_member_options member = {.size = sizeof member, .flags = TENURE_TARGETS_FROM_STORE};
    close(ends[1]);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (read(ends[0], &go, 1) != 1)
        _exit(0);
    if (tenure_open(url, &options, &instance.context) != TENURE_OK ||
        tenure_member_open(instance.context, &member, &instance.member) != TENURE_OK)
        _exit(!fail("an instance does not start"));
    for (;;)
        pause();
}

/* The victim has its share: the others have the rest. */
static bool is_settled_beside(const struct fleet *fleet) {
    struct view view = look(fleet);
    size_t count = 1;
    for (size_t i = 0; i < fleet->room; i++)
        count += fleet->instances[i].member != NULL;
    size_t share = fleet->targets / count;
    return view.held <= fleet->targets - share && view.held + share + 1 >= fleet->targets &&
           view.most - view.least <= 1;
}

static int find_victim(const tenure_instance *instance, void *userdata) {
    if (strncmp(instance->instance, VICTIM "-", strlen(VICTIM "-")) == 0)
        *(uint64_t *)userdata = instance->remaining_ms;
    return 0;
}

static bool measure_kill(struct fleet *fleet, struct victim *victim, struct figures *figures) {
    tenure_context *context = NULL;
    uint64_t remaining_ms = 0;
    figures->killed_ms = -1;
    if (ten_write_all(victim->go, "g", 1) != 0 || wait_for(fleet, is_settled_beside, ten_boot_us()) < 0)
        return fail("the instance to be killed did not get its share");
    ten_sleep_us(VICTIM_MS * 1000); /* its heartbeat and its renewals go together by then */
    for (size_t i = 0; !context && i < fleet->room; i++)
        context = fleet->instances[i].context;
    unsigned long before = atomic_load(&granted);
    double must = (double)(fleet->targets - look(fleet).held);
    kill(victim->pid, SIGKILL);
    uint64_t start_us = ten_boot_us();
    (void)waitpid(victim->pid, NULL, 0);
    if (tenure_instance_list(context, find_victim, &remaining_ms) < 0 || remaining_ms == 0)
        return fail("the instance that was killed is not listed");
    uint64_t end_us = ten_boot_us() + remaining_ms * 1000;
    double settled_ms = wait_for(fleet, is_settled, start_us);
    double ended_ms = (double)(end_us - start_us) / 1e3;
    if (settled_ms >= 0)
        figures->killed_ms = settled_ms > ended_ms ? settled_ms - ended_ms : 0;
    figures->kill_moves = moves_since(before, must);
    return true;
}

static bool run_fleet(const struct scale_case *it, store_server *server, struct figures *figures) {
    size_t count = it->instances;
    struct fleet fleet = {.url = server->url, .targets = it->targets, .room = count + 1};
    struct judge judge = {.fleet = &fleet, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct victim victim;
    fleet.instances = ten_calloc(fleet.room, sizeof *fleet.instances);
    if (!fleet.instances || !fork_victim(server->url, &victim) ||
        !acquire_bare(server->url, it->targets, &figures->bare_ms) || !ground_register(server->url, it->targets))
        return false;
    bool done =
        measure_start(&fleet, server, count, figures) && pthread_create(&judge.thread, NULL, judge_all, &judge) == 0;
    if (done && figures->settled_ms >= 0) {
        ten_sleep_us(3000000); /* what the start has left to do */
        figures->rest_cpu = measure_rest(server);
        if (count > 1 && !it->only_start) {
            measure_leave(&fleet, &judge, figures);
            done = figures->left_ms < 0 || measure_join(&fleet, &judge, count, figures);
            if (done && figures->left_ms >= 0 && figures->joined_ms >= 0)
                done = measure_kill(&fleet, &victim, figures);
        }
    }
    atomic_store(&judge.over, true);
    pthread_join(judge.thread, NULL);
    figures->doubles = (double)atomic_load(&judge.doubles);
    figures->looks = (double)atomic_load(&judge.looks);
    return done; /* the process ends, and with it the fleet */
}

static bool run_case(const void *what, void *ret_answer) {
    const struct scale_case *it = what;
    store_server server;
    const struct rlimit files = {.rlim_cur = OPEN_FILES, .rlim_max = OPEN_FILES};
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (!store_server_start(&server, it->store))
        return false;
    bool done = run_fleet(it, &server, ret_answer);
    store_server_stop(&server);
    return done;
}

/* ---- rows */

/* What the goals are about. More can be named on the command line. */
static const struct scale_case cases[] = {
    {"redis", 20, 10000, 6000},     {"redis", 50, 10000, 6000},     {"redis", 20, 50000, 15000},
    {"redis", 3, 200000, 30000},    {"redis", 100, 50000, 60000},   {"redis", 10, 1000000, 120000},
    {"sqlite", 20, 10000, 6000},    {"sqlite", 50, 10000, 6000},    {"sqlite", 20, 50000, 15000},
    {"sqlite", 3, 200000, 30000},   {"postgres", 20, 10000, 6000},  {"postgres", 50, 10000, 6000},
    {"postgres", 20, 50000, 15000}, {"postgres", 3, 200000, 30000}, {"postgres", 100, 50000, 60000},
    {"etcd", 10, 10000, 10000},     {"http", 20, 10000, 0},         {"redis-session", 10, 100000, 0},
};

static double or_late(double ms) {
    return ms < 0 ? (double)GIVE_UP_MS : ms;
}

static bool report_case(bench_report *report, const struct scale_case *it, const struct figures *figures) {
    bool changes = figures->settled_ms >= 0 && it->instances > 1 && !it->only_start;
    bool large = it->instances == 50 && it->targets == 10000;
    double change_goal = large ? 3000 : strcmp(it->store, "etcd") == 0 ? 5000 : 0;
    double settled_ms = or_late(figures->settled_ms < 0 ? -1 : figures->settled_ms - figures->last_start_ms);
    double left_ms = or_late(figures->left_ms), joined_ms = or_late(figures->joined_ms);
    const struct {
        const char *name, *against;
        double goal, ours, reference;
        enum bench_kind kind;
    } rows[] = {{"", "a bare loop that acquires all; from the last start until settled", it->goal_ms, settled_ms,
                 figures->bare_ms, BENCH_WAIT},
                {"/doubles", "looks of the judge", 0, figures->doubles, figures->looks, BENCH_NONE},
                {"/leave", "until it has stopped", change_goal, left_ms, figures->stop_ms, BENCH_WAIT},
                {"/join", "until the leave had settled", change_goal, joined_ms, left_ms, BENCH_WAIT},
                {"/kill", "until the join had settled; from the end of its leases", change_goal,
                 or_late(figures->killed_ms), joined_ms, BENCH_WAIT}};
    bench_row *row = NULL;
    for (size_t i = 0; i < (changes ? TEN_COUNT(rows) : 2); i++) {
        const char *name = bench_keep_text("scale/%s/%ux%u%s", it->store, it->instances, it->targets, rows[i].name);
        bench_row head = {.name = name, .against = rows[i].against, .kind = rows[i].kind, .goal = rows[i].goal};
        row = bench_add_one(report, head, rows[i].ours, rows[i].reference);
        if (!row)
            return false;
    }
    ten_buf_format(&row->more,
                   ",\"instances\":%u,\"targets\":%u,\"settled_ms\":%.0f,\"last_start_ms\":%.0f,"
                   "\"stop_ms\":%.0f,\"leave_moves\":%.2f,\"join_moves\":%.2f,\"kill_moves\":%.2f,"
                   "\"rest_server_percent\":%.3f,\"start_server_ms\":%.0f,"
                   "\"client_bytes\":%.0f",
                   it->instances, it->targets, figures->settled_ms, figures->last_start_ms, figures->stop_ms,
                   figures->leave_moves, figures->join_moves, figures->kill_moves, figures->rest_cpu,
                   figures->start_cpu_ms, figures->client_bytes);
    printf("    settled %.1f s after the first start; %.1f s of the server; %.0f bytes for each "
           "instance and target\n"
           "    at rest %.3f %% of a core of the server\n"
           "    leave: %.2f of what must move, join: %.2f, kill: %.2f; %.0f looks of the judge\n",
           figures->settled_ms / 1e3, figures->start_cpu_ms / 1e3, figures->client_bytes, figures->rest_cpu,
           figures->leave_moves, figures->join_moves, figures->kill_moves, figures->looks);
    fflush(stdout);
    return true;
}

static bool measure(bench_report *report, const struct scale_case *it) {
    struct figures figures = {0};
    return bench_apart(run_case, it, &figures, sizeof figures) ? report_case(report, it, &figures)
                                                               : bench_could_not(it->store);
}

/* How the start grows: with the instances, and with the targets. */
static bool measure_growth(bench_report *report, const char *store) {
    static const unsigned sizes[][2] = {{1, 10000}, {5, 10000},  {20, 10000}, {50, 10000},
                                        {10, 1000}, {10, 10000}, {10, 100000}};
    bool done = true;
    for (size_t i = 0; done && i < TEN_COUNT(sizes); i++)
        done = measure(report, &(struct scale_case){store, sizes[i][0], sizes[i][1], .only_start = true});
    return done;
}

/* "redis/50x10000", "redis" for all cases of that store, or "redis/growth". */
bool scale_measure(bench_report *report, const char *name) {
    unsigned instances = 0, targets = 0;
    size_t count = 0;
    bool done = true;
    const char *slash = strchr(name, '/');
    const char *store = slash ? bench_keep_text("%.*s", (int)(slash - name), name) : name;
    if (slash && strcmp(slash, "/growth") == 0)
        return measure_growth(report, store);
    bool sized = slash && sscanf(slash, "/%ux%u", &instances, &targets) == 2 && instances > 0 && targets > 0;
    for (size_t i = 0; done && i < TEN_COUNT(cases) && (!slash || sized); i++)
        if ((!store[0] || strcmp(cases[i].store, store) == 0) &&
            (!sized || (cases[i].instances == instances && cases[i].targets == targets))) {
            done = measure(report, &cases[i]);
            count++;
        }
    if (sized && count == 0)
        return measure(report, &(struct scale_case){.store = store, .instances = instances, .targets = targets});
    if (count == 0)
        fprintf(stderr, "bench: '%s' is neither a store, STORE/INSTANCESxTARGETS nor STORE/growth\n", name);
    return done && count > 0;
}
