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
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"
#include "bench.h"
#include "child.h"
#include "core/engine.h"
#include "ground.h"
#include "runtime/member.h"
#include "scale_server.h"
#include "store/store.h"

#define BATCH       1000u
#define GIVE_UP_MS  UINT64_C(240000)
#define REST_MS     UINT64_C(30000) /* three heartbeats */
#define LOOK_MS     20u
#define PROGRESS_MS UINT64_C(10000)
#define JUDGED      512u /* so many targets the judge reads */
#define OPEN_FILES  16384u

/* ---- counting calls: the linker leads the engine's events through here (see meson.build) */

void __real_ten_engine_step(ten_engine *engine, const ten_engine_event *event, ten_update *update);
void __wrap_ten_engine_step(ten_engine *engine, const ten_engine_event *event, ten_update *update);

struct counts {
    uint64_t calls[TEN_CALL_COUNT];
    uint64_t changes; /* entries of the feed, over all readers */
    uint64_t overruns;
    uint64_t granted; /* leases: acquired, or confirmed after they were handed over */
    uint64_t refused;
    uint64_t handed;
    uint64_t released;
};

static atomic_ulong calls[TEN_CALL_COUNT];
static atomic_ulong changes, overruns, granted, refused, handed, released;

static void count_results(const ten_call *call, const ten_result *results) {
    for (size_t i = 0; i < call->count; i++) {
        bool done = results[i].outcome == TEN_OK;
        if (call->ops[i].kind == TEN_OP_ACQUIRE)
            atomic_fetch_add(done ? &granted : &refused, 1);
        else if (call->ops[i].kind == TEN_OP_HAND && done)
            atomic_fetch_add(&handed, 1);
        else if (call->ops[i].kind == TEN_OP_RELEASE && done)
            atomic_fetch_add(&released, 1);
    }
}

void __wrap_ten_engine_step(ten_engine *engine, const ten_engine_event *event, ten_update *update) {
    if (event->kind == TEN_ON_CHANGE)
        atomic_fetch_add(&changes, 1);
    if (event->kind == TEN_ON_ANSWER) {
        atomic_fetch_add(&calls[engine->call.kind], 1);
        if (event->error == TENURE_E_RESYNC)
            atomic_fetch_add(&overruns, 1);
        if (engine->call.kind == TEN_CALL_APPLY && event->error == TENURE_OK)
            count_results(&engine->call, event->results);
    }
    __real_ten_engine_step(engine, event, update);
}

static struct counts count_now(void) {
    struct counts now = {.changes = atomic_load(&changes),
                         .overruns = atomic_load(&overruns),
                         .granted = atomic_load(&granted),
                         .refused = atomic_load(&refused),
                         .handed = atomic_load(&handed),
                         .released = atomic_load(&released)};
    for (size_t i = 0; i < TEN_CALL_COUNT; i++)
        now.calls[i] = atomic_load(&calls[i]);
    return now;
}

static uint64_t all_calls(const struct counts *counts) {
    uint64_t sum = 0;
    for (size_t i = 0; i < TEN_CALL_COUNT; i++)
        sum += counts->calls[i];
    return sum;
}

/* ---- the fleet */

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

static void target_id(char id[GROUND_NAME_SIZE], size_t i) {
    snprintf(id, GROUND_NAME_SIZE, "session-%07zu", i);
}

static bool fail(const char *what) {
    fprintf(stderr, "bench: %s: %s\n", what, tenure_message(NULL));
    return false;
}

static bool start(struct fleet *fleet, size_t at) {
    struct instance *instance = &fleet->instances[at];
    char name[32];
    snprintf(name, sizeof name, "i%03zu", at);
    tenure_options options = {.size = sizeof options, .instance_name = name};
    tenure_member_options member = {.size = sizeof member, .flags = TENURE_TARGETS_FROM_STORE};
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

static bool owns_all(const struct fleet *fleet) {
    return look(fleet).held == fleet->targets;
}

static bool is_settled(const struct fleet *fleet) {
    struct view view = look(fleet);
    return view.held == fleet->targets && view.most - view.least <= 1;
}

static void print_progress(const struct fleet *fleet, uint64_t since_us) {
    struct view view = look(fleet);
    struct counts counts = count_now();
    fprintf(stderr,
            "  %5.1f s: held %zu, %zu to %zu each; calls: apply %" PRIu64 ", feed %" PRIu64 ", list %" PRIu64
            ", instances %" PRIu64 "; changes %" PRIu64 ", overruns %" PRIu64 "; granted %" PRIu64 ", refused %" PRIu64
            ", handed %" PRIu64 ", released %" PRIu64 "\n",
            (double)(ten_boot_us() - since_us) / 1e6, view.held, view.least, view.most, counts.calls[TEN_CALL_APPLY],
            counts.calls[TEN_CALL_CHANGES], counts.calls[TEN_CALL_LIST], counts.calls[TEN_CALL_INSTANCES],
            counts.changes, counts.overruns, counts.granted, counts.refused, counts.handed, counts.released);
}

/* Milliseconds since `since_us` when that came true; negative: it did not. After a while it shows what goes on. */
static double wait_for(const struct fleet *fleet, bool (*is_true)(const struct fleet *fleet), uint64_t since_us) {
    uint64_t next_us = ten_boot_us() + PROGRESS_MS * 1000;
    while (!is_true(fleet)) {
        uint64_t now_us = ten_boot_us();
        if (now_us - since_us > GIVE_UP_MS * 1000)
            return -1;
        if (now_us > next_us) {
            print_progress(fleet, since_us);
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
            target_id(id, i * (fleet->targets / count));
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
    static char ids[BATCH][GROUND_NAME_SIZE];
    static ten_op ops[BATCH];
    static ten_result results[BATCH];
    ten_error error;
    ten_store *store = NULL;
    if (ten_store_open(url, &(ten_store_config){.clock = &ten_system_clock}, &store, &error) < 0) {
        fprintf(stderr, "bench: %s\n", error.message);
        return false;
    }
    bool done = true;
    uint64_t start_us = ten_boot_us();
    for (size_t at = 0; done && at < count; at += BATCH) {
        size_t some = count - at < BATCH ? count - at : BATCH;
        for (size_t i = 0; i < some; i++) {
            target_id(ids[i], at + i);
            ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                              .namespace_name = "bare",
                              .target = ids[i],
                              .holder = "bare",
                              .ttl_ms = TENURE_TTL_DEFAULT_MS};
        }
        done = ten_store_apply(store, ops, results, some, 30000) == TENURE_OK && results[0].outcome == TEN_OK;
    }
    *ret_ms = (double)(ten_boot_us() - start_us) / 1e3;
    if (!done)
        fprintf(stderr, "bench: the bare loop failed: %s\n", store->error.message);
    ten_store_close(store);
    return done;
}

/* ---- one case, in a process of its own */

struct figures {
    double bare_ms;
    double owned_ms, settled_ms;        /* from the first start */
    double last_start_ms;               /* until the last instance had been started */
    double stop_ms, left_ms, joined_ms; /* one leaves: until it has; until the rest has settled. One joins */
    double killed_ms;                   /* one is killed: from the end of its leases until the rest has settled */
    double leave_moves, join_moves;     /* leases that changed hands, against those that had to */
    double kill_moves;
    double rest_calls, rest_cpu;      /* at rest: calls a second and instance, percent of a core of the server */
    double idle_cpu;                  /* of the same server before the fleet came */
    double start_calls, start_cpu_ms; /* of an instance; of the server */
    double client_bytes;              /* of memory, for each instance and target */
    double doubles, looks;
};

struct scale_case {
    const char *store;
    unsigned instances;
    unsigned targets;
    double goal_ms; /* from the last start until settled; 0: none */
    bool only_start;
};

static struct scale_case current; /* the child's */

static bool register_all(const char *url, size_t count) {
    static tenure_target targets[BATCH];
    static char ids[BATCH][GROUND_NAME_SIZE];
    tenure_context *context = NULL;
    tenure_options options = {.size = sizeof options, .instance_name = "registrar", .timeout_ms = 30000};
    if (tenure_open(url, &options, &context) != TENURE_OK)
        return fail("the store");
    bool done = true;
    for (size_t at = 0; done && at < count; at += BATCH) {
        size_t some = count - at < BATCH ? count - at : BATCH;
        for (size_t i = 0; i < some; i++) {
            target_id(ids[i], at + i);
            targets[i] = (tenure_target){.size = sizeof targets[i], .id = ids[i]};
        }
        done = tenure_registry_put(context, targets, some, NULL) == TENURE_OK;
    }
    if (!done)
        (void)fail("the registry");
    tenure_close(context);
    return done;
}

static size_t memory_of_process(void) {
    char text[256] = "";
    size_t pages = 0, resident = 0;
    if (ten_read_line("/proc/self/statm", text, sizeof text) <= 0 || sscanf(text, "%zu %zu", &pages, &resident) != 2)
        return 0;
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static bool measure_start(struct fleet *fleet, scale_server *server, size_t count, struct figures *figures) {
    struct counts before = count_now();
    double cpu_ms = scale_server_cpu_ms(server);
    size_t memory = memory_of_process();
    uint64_t start_us = ten_boot_us();
    for (size_t i = 0; i < count; i++)
        if (!start(fleet, i))
            return false;
    figures->last_start_ms = (double)(ten_boot_us() - start_us) / 1e3;
    figures->owned_ms = wait_for(fleet, owns_all, start_us);
    figures->settled_ms = figures->owned_ms < 0 ? -1 : wait_for(fleet, is_settled, start_us);
    struct counts after = count_now();
    figures->start_calls = (double)(all_calls(&after) - all_calls(&before)) / (double)count;
    figures->start_cpu_ms = scale_server_cpu_ms(server) - cpu_ms;
    figures->client_bytes = (double)(memory_of_process() - memory) / (double)(count * fleet->targets);
    return true;
}

static void measure_idle(const scale_server *server, struct figures *figures) {
    double cpu_ms = scale_server_cpu_ms(server);
    uint64_t start_us = ten_boot_us();
    ten_sleep_us(REST_MS * 1000);
    figures->idle_cpu = (scale_server_cpu_ms(server) - cpu_ms) / 10 / ((double)(ten_boot_us() - start_us) / 1e6);
}

static void measure_rest(const scale_server *server, size_t count, struct figures *figures) {
    ten_sleep_us(3000000); /* what the start has left to do */
    struct counts before = count_now();
    double cpu_ms = scale_server_cpu_ms(server);
    uint64_t start_us = ten_boot_us();
    ten_sleep_us(REST_MS * 1000);
    struct counts after = count_now();
    double seconds = (double)(ten_boot_us() - start_us) / 1e6;
    figures->rest_calls = (double)(all_calls(&after) - all_calls(&before)) / seconds / (double)count;
    figures->rest_cpu = (scale_server_cpu_ms(server) - cpu_ms) / 10 / seconds;
}

static void measure_leave(struct fleet *fleet, struct judge *judge, struct figures *figures) {
    struct counts before = count_now();
    double must = (double)ten_measure_get(&fleet->instances[0].measures.held);
    uint64_t start_us = ten_boot_us();
    (void)tenure_member_stop(fleet->instances[0].member, GIVE_UP_MS);
    figures->stop_ms = (double)(ten_boot_us() - start_us) / 1e3;
    pthread_mutex_lock(&judge->lock);
    end(&fleet->instances[0]);
    pthread_mutex_unlock(&judge->lock);
    figures->left_ms = wait_for(fleet, is_settled, start_us);
    struct counts after = count_now();
    figures->leave_moves = (double)(after.granted - before.granted) / must;
}

static bool measure_join(struct fleet *fleet, struct judge *judge, size_t at, struct figures *figures) {
    struct counts before = count_now();
    uint64_t start_us = ten_boot_us();
    pthread_mutex_lock(&judge->lock);
    bool started = start(fleet, at);
    pthread_mutex_unlock(&judge->lock);
    if (!started)
        return false;
    figures->joined_ms = wait_for(fleet, is_settled, start_us);
    struct counts after = count_now();
    double must = (double)ten_measure_get(&fleet->instances[at].measures.held);
    figures->join_moves = must > 0 ? (double)(after.granted - before.granted) / must : 0;
    return true;
}

/* ---- one that is killed */

#define VICTIM    "victim"
#define VICTIM_MS UINT64_C(22000)

/* `scale --member URL`: an instance, until it is killed. */
static int be_member(const char *url) {
    struct instance instance = {0};
    tenure_options options = {.size = sizeof options, .instance_name = VICTIM};
    tenure_member_options member = {.size = sizeof member, .flags = TENURE_TARGETS_FROM_STORE};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (tenure_open(url, &options, &instance.context) != TENURE_OK ||
        tenure_member_open(instance.context, &member, &instance.member) != TENURE_OK)
        return !fail("an instance does not start");
    for (;;)
        pause();
}

static pid_t start_victim(const char *url) {
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "scale", "--member", url, (char *)NULL);
        _exit(127);
    }
    return pid;
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

static bool measure_kill(struct fleet *fleet, struct figures *figures) {
    tenure_context *context = NULL;
    uint64_t remaining_ms = 0;
    pid_t victim = start_victim(fleet->url);
    figures->killed_ms = -1;
    if (victim < 0 || wait_for(fleet, is_settled_beside, ten_boot_us()) < 0)
        return fail("the instance to be killed did not get its share");
    ten_sleep_us(VICTIM_MS * 1000); /* its heartbeat and its renewals go together by then */
    for (size_t i = 0; !context && i < fleet->room; i++)
        context = fleet->instances[i].context;
    struct counts before = count_now();
    double must = (double)(fleet->targets - look(fleet).held);
    kill(victim, SIGKILL);
    uint64_t start_us = ten_boot_us();
    (void)waitpid(victim, NULL, 0);
    if (tenure_instance_list(context, find_victim, &remaining_ms) < 0 || remaining_ms == 0)
        return fail("the instance that was killed is not listed");
    uint64_t end_us = ten_boot_us() + remaining_ms * 1000;
    double settled_ms = wait_for(fleet, is_settled, start_us);
    struct counts after = count_now();
    double ended_ms = (double)(end_us - start_us) / 1e3;
    if (settled_ms >= 0)
        figures->killed_ms = settled_ms > ended_ms ? settled_ms - ended_ms : 0;
    figures->kill_moves = must > 0 ? (double)(after.granted - before.granted) / must : 0;
    return true;
}

static bool run_fleet(scale_server *server, struct figures *figures) {
    size_t count = current.instances;
    struct fleet fleet = {.url = server->url, .targets = current.targets, .room = count + 1};
    struct judge judge = {.fleet = &fleet, .lock = PTHREAD_MUTEX_INITIALIZER};
    fleet.instances = ten_calloc(fleet.room, sizeof *fleet.instances);
    if (!fleet.instances || !acquire_bare(server->url, current.targets, &figures->bare_ms) ||
        !register_all(server->url, current.targets))
        return false;
    measure_idle(server, figures);
    bool done =
        measure_start(&fleet, server, count, figures) && pthread_create(&judge.thread, NULL, judge_all, &judge) == 0;
    if (done && figures->settled_ms >= 0) {
        measure_rest(server, count, figures);
        if (count > 1 && !current.only_start) {
            measure_leave(&fleet, &judge, figures);
            done = figures->left_ms < 0 || measure_join(&fleet, &judge, count, figures);
            if (done && figures->left_ms >= 0 && figures->joined_ms >= 0)
                done = measure_kill(&fleet, figures);
        }
    }
    atomic_store(&judge.over, true);
    pthread_join(judge.thread, NULL);
    figures->doubles = (double)atomic_load(&judge.doubles);
    figures->looks = (double)atomic_load(&judge.looks);
    return done; /* the process ends, and with it the fleet */
}

static bool run_case(unsigned count, void *ret_answer) {
    (void)count;
    scale_server server;
    const struct rlimit files = {.rlim_cur = OPEN_FILES, .rlim_max = OPEN_FILES};
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (!scale_server_start(&server, current.store))
        return false;
    bool done = run_fleet(&server, ret_answer);
    scale_server_stop(&server);
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

static bool add_row(bench_report *report, const char *name, const char *against, double goal, double ours,
                    double reference, enum bench_kind kind) {
    bench_row head = {.name = name, .against = against, .kind = kind, .goal = goal};
    return bench_add(report, head, &ours, &reference, 1) != NULL;
}

static char *format_name(const struct scale_case *it, const char *what) {
    char name[96];
    snprintf(name, sizeof name, "scale/%s/%ux%u%s", it->store, it->instances, it->targets, what);
    return ten_strdup(name); /* the report keeps it until the end of the process */
}

static double or_late(double ms) {
    return ms < 0 ? (double)GIVE_UP_MS : ms;
}

static bool report_case(bench_report *report, const struct scale_case *it, const struct figures *figures) {
    bool large = it->instances == 50 && it->targets == 10000;
    double change_goal = large ? 3000 : strcmp(it->store, "etcd") == 0 ? 5000 : 0;
    double settled_ms = or_late(figures->settled_ms < 0 ? -1 : figures->settled_ms - figures->last_start_ms);
    bool done = add_row(report, format_name(it, ""), "a bare loop that acquires all; from the last start until settled",
                        it->goal_ms, settled_ms, figures->bare_ms, BENCH_WAIT) &&
                add_row(report, format_name(it, "/doubles"), "looks of the judge", 0, figures->doubles, figures->looks,
                        BENCH_NONE);
    if (done && figures->settled_ms >= 0 && it->instances > 1 && !it->only_start)
        done = add_row(report, format_name(it, "/leave"), "until it has stopped", change_goal,
                       or_late(figures->left_ms), figures->stop_ms, BENCH_WAIT) &&
               add_row(report, format_name(it, "/join"), "until the leave had settled", change_goal,
                       or_late(figures->joined_ms), or_late(figures->left_ms), BENCH_WAIT) &&
               add_row(report, format_name(it, "/kill"), "until the join had settled; from the end of its leases",
                       change_goal, or_late(figures->killed_ms), or_late(figures->joined_ms), BENCH_WAIT);
    if (!done)
        return false;
    bench_row *row = &report->rows[report->count - 1];
    ten_buf_format(&row->more,
                   ",\"instances\":%u,\"targets\":%u,\"owned_ms\":%.0f,\"settled_ms\":%.0f,\"last_start_ms\":%.0f,"
                   "\"stop_ms\":%.0f,\"leave_ms\":%.0f,\"join_ms\":%.0f,\"kill_ms\":%.0f,"
                   "\"leave_moves\":%.2f,\"join_moves\":%.2f,\"kill_moves\":%.2f,\"rest_calls_per_second\":%.2f,"
                   "\"rest_server_percent\":%.3f,\"idle_server_percent\":%.3f,\"start_calls\":%.0f,\"start_server_ms\":"
                   "%.0f,\"client_bytes\":%.0f",
                   it->instances, it->targets, figures->owned_ms, figures->settled_ms, figures->last_start_ms,
                   figures->stop_ms, figures->left_ms, figures->joined_ms, figures->killed_ms, figures->leave_moves,
                   figures->join_moves, figures->kill_moves, figures->rest_calls, figures->rest_cpu, figures->idle_cpu,
                   figures->start_calls, figures->start_cpu_ms, figures->client_bytes);
    printf("    all owned %.1f s, settled %.1f s after the first start (last start %.1f s); %.0f calls an instance, "
           "%.1f s of the server\n"
           "    at rest %.2f calls a second and instance, %.3f %% of a core of the server, which had %.3f %% before; "
           "%.0f bytes for each instance and target\n"
           "    leave: %.2f of what must move, join: %.2f, kill: %.2f; %.0f looks of the judge\n",
           figures->owned_ms / 1e3, figures->settled_ms / 1e3, figures->last_start_ms / 1e3, figures->start_calls,
           figures->start_cpu_ms / 1e3, figures->rest_calls, figures->rest_cpu, figures->idle_cpu,
           figures->client_bytes, figures->leave_moves, figures->join_moves, figures->kill_moves, figures->looks);
    fflush(stdout);
    return true;
}

static bool measure(bench_report *report, const struct scale_case *it) {
    struct figures figures = {0};
    bench_child child;
    current = *it;
    if (!bench_child_begin(&child, run_case, 0, &figures, sizeof figures) ||
        !bench_child_end(&child, &figures, sizeof figures))
        return bench_could_not(it->store);
    return report_case(report, it, &figures);
}

/* How the start grows: with the instances, and with the targets. */
static bool measure_growth(bench_report *report, const char *store) {
    static const struct scale_case growth[] = {
        {"", 1, 10000, 0, true}, {"", 5, 10000, 0, true},  {"", 20, 10000, 0, true}, {"", 50, 10000, 0, true},
        {"", 10, 1000, 0, true}, {"", 10, 10000, 0, true}, {"", 10, 100000, 0, true}};
    bool done = true;
    for (size_t i = 0; done && i < TEN_COUNT(growth); i++) {
        struct scale_case it = growth[i];
        it.store = store;
        done = measure(report, &it);
    }
    return done;
}

/* "redis/50x10000", "redis" for all cases of that store, or "redis/growth". */
static bool measure_named(bench_report *report, char *name) {
    unsigned instances = 0, targets = 0;
    char *slash = strchr(name, '/');
    if (slash && sscanf(slash + 1, "%ux%u", &instances, &targets) == 2 && instances > 0 && targets > 0) {
        *slash = '\0';
        struct scale_case it = {.store = name, .instances = instances, .targets = targets};
        for (size_t i = 0; i < TEN_COUNT(cases); i++)
            if (strcmp(cases[i].store, name) == 0 && cases[i].instances == instances && cases[i].targets == targets)
                it = cases[i];
        return measure(report, &it);
    }
    if (slash && strcmp(slash + 1, "growth") == 0) {
        *slash = '\0';
        return measure_growth(report, name);
    }
    bool done = true;
    size_t count = 0;
    for (size_t i = 0; done && i < TEN_COUNT(cases); i++)
        if (name[0] == '\0' || strcmp(cases[i].store, name) == 0) {
            done = measure(report, &cases[i]);
            count++;
        }
    if (count == 0)
        fprintf(stderr, "bench: '%s' is neither a store, STORE/INSTANCESxTARGETS nor STORE/growth\n", name);
    return done && count > 0;
}

int main(int argc, char **argv) {
    bench_report report = {0};
    struct utsname system = {0};
    double load = 0;
    const char *json = NULL;
    bool done = true, named = false;
    if (argc == 3 && strcmp(argv[1], "--member") == 0)
        return be_member(argv[2]);
    (void)uname(&system);
    (void)getloadavg(&load, 1);
    snprintf(report.machine, sizeof report.machine, "%ld cores, load %.1f, %s %s, tenure %s",
             sysconf(_SC_NPROCESSORS_ONLN), load, system.sysname, system.release, tenure_version());
    bench_print_head(&report);
    for (int i = 1; done && i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            json = argv[++i];
        } else {
            done = measure_named(&report, argv[i]);
            named = true;
        }
    }
    if (done && !named)
        done = measure_named(&report, (char[]){""});
    int missed = 0;
    for (size_t i = 0; i < report.count; i++)
        missed += !bench_is_met(&report.rows[i]);
    done = done && (!json || bench_write_json(&report, json));
    bench_free(&report);
    return !done ? 2 : missed > 0;
}
