/*
 * What leases cost while nothing happens: `./dev bench held[/STORE[/COUNT]]`. One fleet member holds 1,000 to 1,000,000
 * leases at the default TTL, on a private server. When it has all of them, the processor time of the store, the bytes
 * that the store writes, and the processor time and memory of the client are measured over two renewal intervals.
 *
 * Leases have ends of their own, each of which is renewed (`each`), or hang on the session of their holder (`session`):
 * then its heartbeat renews all of them. Where a store has only one of the two, the other is left out.
 *
 * "Bytes written" are PostgreSQL's WAL, what SQLite and etcd write to their files, and what Redis receives, which is
 * what it would append to its log.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef TEN_STORE_REDIS
#include <hiredis/hiredis.h>

#include "lib/redis_server.h"
#endif
#ifdef TEN_STORE_POSTGRES
#include "lib/postgres_server.h"
#endif

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"
#include "bench.h"
#include "child.h"
#include "ground.h"
#include "runtime/member.h"
#include "scale_server.h"
#include "store/store.h"

#define BATCH       1000u
#define GIVE_UP_MS  UINT64_C(900000)
#define SETTLE_MS   UINT64_C(12000) /* a renewal interval and a little: what the start has left to do */
#define INTERVAL_MS UINT64_C(10000) /* between two renewals, at the default TTL */
#define INTERVALS   2u
#define IDLE_MS     UINT64_C(5000) /* what the server does without any client is not counted */

enum mode { EACH, SESSION, MODES };
static const char *const mode_names[MODES] = {[EACH] = "each", [SESSION] = "session"};

/* ---- leases with ends of their own: the linker leads the library's own calls through here (see meson.build) */

int __real_ten_store_open(const char *url, const ten_store_config *config, ten_store **ret_store, ten_error *error);
int __wrap_ten_store_open(const char *url, const ten_store_config *config, ten_store **ret_store, ten_error *error);

static enum mode opens_as;
static bool has_sessions; /* the store that was opened last */

int __wrap_ten_store_open(const char *url, const ten_store_config *config, ten_store **ret_store, ten_error *error) {
    int r = __real_ten_store_open(url, config, ret_store, error);
    if (r == TENURE_OK) {
        has_sessions = (*ret_store)->capabilities.sessions;
        (*ret_store)->capabilities.sessions = has_sessions && opens_as == SESSION;
    }
    return r;
}

/* ---- what is measured */

/* At one moment; later, what was used since. */
struct usage {
    double store_ms;  /* processor time; 0: the store is a part of the client */
    double client_ms; /* processor time */
    double bytes;
    double versions;   /* PostgreSQL: new versions of rows of leases */
    double scripts_ms; /* Redis: what its scripts took */
};

struct figures {
    struct usage interval; /* in each interval */
    double client_bytes;   /* of memory, a lease */
    double start_ms;
    double idle_ms; /* of the store in an interval, without leases; not part of the above */
    double lost;    /* leases, meanwhile: this machine could not renew them in time */
    bool has_server;
    bool measured; /* else this store does not have the mode */
};

/* Nanoseconds of all threads of a process. */
static double process_ns(const char *pid) {
    char path[300], text[64];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%.20s/task", pid);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/schedstat", pid, entry->d_name);
        if (entry->d_name[0] != '.' && ten_read_line(path, text, sizeof text) > 0)
            sum += strtod(text, NULL);
    }
    if (threads)
        closedir(threads);
    return sum;
}

static long parent_of(const char *pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    const char *rest = ten_read_line(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    long parent = 0;
    return rest && sscanf(rest + 2, "%*c %ld", &parent) == 1 ? parent : 0;
}

/* Nanoseconds of the children that a process has waited for, in ticks. */
static double ended_ns(pid_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *rest = ten_read_line(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    unsigned long user = 0, system = 0;
    if (!rest || sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0;
    return (double)(user + system) * 1e9 / (double)sysconf(_SC_CLK_TCK);
}

/* Of the server and its children, also of those that have ended. */
static double server_ms(const scale_server *server) {
    double sum = server->pid ? ended_ns(server->pid) : 0;
    DIR *processes = server->pid ? opendir("/proc") : NULL;
    for (struct dirent *entry; processes && (entry = readdir(processes));)
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' &&
            (strtol(entry->d_name, NULL, 10) == server->pid || parent_of(entry->d_name) == server->pid))
            sum += process_ns(entry->d_name);
    if (processes)
        closedir(processes);
    return sum / 1e6;
}

static double file_bytes(pid_t pid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/io", (int)(pid ? pid : getpid()));
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    const char *found = strstr(text, "\nwrite_bytes:");
    return found ? strtod(found + strlen("\nwrite_bytes:"), NULL) : 0;
}

#ifdef TEN_STORE_POSTGRES
static double ask_postgres(const scale_server *server, const char *statement) {
    bool done = true;
    char *text = postgres_server_query(server->server, "postgres", statement, &done);
    double value = text ? strtod(text, NULL) : 0;
    free(text);
    return value;
}
#endif

#ifdef TEN_STORE_REDIS
/* The number behind this text in what INFO says of a section. */
static double ask_redis(const scale_server *server, const char *section, const char *line, const char *field) {
    const struct redis_server *redis = server->server;
    redisContext *context = redisConnect("127.0.0.1", redis->port);
    redisReply *reply = context ? redisCommand(context, "INFO %s", section) : NULL;
    const char *found = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, line) : NULL;
    found = found ? strstr(found, field) : NULL;
    double number = found ? strtod(found + strlen(field), NULL) : 0;
    if (reply)
        freeReplyObject(reply);
    if (context)
        redisFree(context);
    return number;
}
#endif

static struct usage look(const scale_server *server, const char *store) {
    struct usage now = {.bytes = file_bytes(server->pid)};
#ifdef TEN_STORE_POSTGRES
    if (strcmp(store, "postgres") == 0) {
        now.bytes = ask_postgres(server, "SELECT pg_current_wal_lsn() - '0/0'");
        now.versions = ask_postgres(server, "SELECT n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE "
                                            "schemaname = 'tenure' AND relname = 'record'");
    }
#endif
#ifdef TEN_STORE_REDIS
    if (strcmp(store, "redis") == 0) {
        now.bytes = ask_redis(server, "stats", "total_net_input_bytes:", "bytes:");
        now.scripts_ms = ask_redis(server, "commandstats", "cmdstat_evalsha:", "usec=") / 1e3;
    }
#endif
    now.client_ms = bench_cpu_seconds() * 1e3;
    now.store_ms = server_ms(server);
    return now;
}

static double resident_bytes(void) {
    char text[256] = "";
    size_t pages = 0, resident = 0;
    if (ten_read_line("/proc/self/statm", text, sizeof text) <= 0 || sscanf(text, "%zu %zu", &pages, &resident) != 2)
        return 0;
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* ---- one case, in a process of its own */

struct held_case {
    const char *store;
    enum mode mode;
    size_t count;
};
static struct held_case current; /* the child's */

static bool fail(const char *what) {
    fprintf(stderr, "bench: held/%s/%s/%zu: %s: %s\n", current.store, mode_names[current.mode], current.count, what,
            tenure_message(NULL));
    return false;
}

/* A program's own targets would be planned anew while it names them; those of the registry come all at once. */
static bool register_all(tenure_context *context) {
    static tenure_target targets[BATCH];
    static char ids[BATCH][GROUND_NAME_SIZE];
    for (size_t at = 0; at < current.count; at += BATCH) {
        size_t some = current.count - at < BATCH ? current.count - at : BATCH;
        for (size_t i = 0; i < some; i++) {
            snprintf(ids[i], sizeof ids[i], "session-%07zu", at + i);
            targets[i] = (tenure_target){.size = sizeof targets[i], .id = ids[i]};
        }
        if (tenure_registry_put(context, targets, some, NULL) != TENURE_OK)
            return fail("the registry");
    }
    return true;
}

static bool hold_all(tenure_context *context, ten_measures *measures, struct figures *figures) {
    tenure_member_options options = {.size = sizeof options, .flags = TENURE_TARGETS_FROM_STORE};
    ten_member_extras extras = {.measures = measures};
    tenure_member *member = NULL;
    double before = resident_bytes();
    uint64_t start_ms = ten_now_ms();
    if (ten_member_open(context, &options, &extras, &member) != TENURE_OK)
        return fail("the member does not start");
    while (ten_measure_get(&measures->held) < current.count) {
        if (ten_now_ms() - start_ms > GIVE_UP_MS)
            return fail("it does not get all of them");
        ten_sleep_us(20000);
    }
    figures->start_ms = (double)(ten_now_ms() - start_ms);
    figures->client_bytes = (resident_bytes() - before) / (double)current.count;
    return true;
}

/* Of the server, in an interval, before anybody has asked it for something. */
static double measure_idle(const scale_server *server) {
    double before_ms = server_ms(server);
    if (!server->pid)
        return 0;
    ten_sleep_us(IDLE_MS * 1000);
    double used_ms = server_ms(server) - before_ms;
    return used_ms > 0 ? used_ms * (double)INTERVAL_MS / (double)IDLE_MS : 0;
}

static void measure_intervals(const scale_server *server, struct figures *figures) {
    ten_sleep_us(SETTLE_MS * 1000);
#ifdef TEN_STORE_POSTGRES
    /* What a start leaves to autovacuum, for all tables: with a million rows it would begin some time in the next
     * minute. */
    if (strcmp(current.store, "postgres") == 0) {
        (void)ask_postgres(server, "VACUUM ANALYZE");
        (void)ask_postgres(server, "CHECKPOINT");
    }
#endif
    struct usage before = look(server, current.store);
    ten_sleep_us(INTERVAL_MS * INTERVALS * 1000);
    struct usage after = look(server, current.store);
    double store_ms = (after.store_ms - before.store_ms) / INTERVALS;
    figures->interval = (struct usage){.store_ms = store_ms > figures->idle_ms ? store_ms - figures->idle_ms : 0,
                                       .client_ms = (after.client_ms - before.client_ms) / INTERVALS,
                                       .bytes = (after.bytes - before.bytes) / INTERVALS,
                                       .versions = (after.versions - before.versions) / INTERVALS,
                                       .scripts_ms = (after.scripts_ms - before.scripts_ms) / INTERVALS};
    figures->measured = true;
}

static bool run_on(const scale_server *server, struct figures *figures) {
    static ten_measures measures;
    char url[440];
    bool by_url = strcmp(current.store, "redis") == 0 && current.mode == SESSION;
    snprintf(url, sizeof url, "%s%s", server->url, by_url ? "&leases=session" : "");
    opens_as = current.mode;
    tenure_context *context = NULL;
    tenure_options options = {.size = sizeof options, .instance_name = "holder", .timeout_ms = 30000};
    int r = tenure_open(url, &options, &context);
    if (r != TENURE_OK && by_url) /* a version that does not know the option */
        return true;
    if (r != TENURE_OK)
        return fail("the store");
    if (current.mode == SESSION && !has_sessions)
        return true;
    if (!register_all(context) || !hold_all(context, &measures, figures))
        return false;
    measure_intervals(server, figures);
    size_t held = ten_measure_get(&measures.held);
    figures->lost = (double)(held < current.count ? current.count - held : 0);
    return true; /* the process ends, and with it the member */
}

static bool run_case(unsigned count, void *ret_answer) {
    (void)count;
    scale_server server;
    if (!scale_server_start(&server, current.store))
        return false;
    struct figures *figures = ret_answer;
    figures->has_server = server.pid != 0;
    figures->idle_ms = measure_idle(&server);
    bool done = run_on(&server, figures);
    scale_server_stop(&server);
    return done;
}

/* ---- rows */

static const char *const stores[] = {"sqlite", "redis", "postgres", "etcd", "http"};
static const size_t counts[] = {1000, 10000, 100000, 1000000};
#define ETCD_MOST 100000u /* it takes a few hundred acquires a second */

static char *format_name(const struct held_case *it, const char *what) {
    char name[96];
    snprintf(name, sizeof name, "held/%s/%s/%zu%s", it->store, mode_names[it->mode], it->count, what);
    return ten_strdup(name); /* the report keeps it until the end of the process */
}

static bench_row *add_row(bench_report *report, bench_row head, double ours, double reference) {
    bench_row *row = bench_add(report, head, &ours, &reference, 1);
    return row;
}

/* Percent of a core. */
static double percent(double ms) {
    return ms / (double)INTERVAL_MS * 100;
}

/* What is asked of leases on sessions, whatever their number. */
static bool add_goals(bench_report *report, const struct held_case *it, const struct figures *figures) {
    bool is_session = it->mode == SESSION && strcmp(it->store, "postgres") == 0;
    if (strcmp(it->store, "postgres") != 0)
        return true;
    double wal = figures->interval.bytes * 1000 / (double)INTERVAL_MS;
    return add_row(report,
                   (bench_row){.name = format_name(it, "/wal"),
                               .against = "bytes of WAL a second",
                               .kind = BENCH_SIZE,
                               .goal = is_session ? 2048 : 0},
                   wal, wal) &&
           (!is_session || add_row(report,
                                   (bench_row){.name = format_name(it, "/versions"),
                                               .against = "new versions of rows in tenure.record, an interval",
                                               .kind = BENCH_NONE},
                                   figures->interval.versions, 0));
}

static bool report_case(bench_report *report, const struct held_case *it, const struct figures *figures) {
    bool is_redis_goal = it->mode == SESSION && strcmp(it->store, "redis") == 0 && it->count <= 100000;
    const struct usage *used = &figures->interval;
    bool has_server = figures->has_server;
    bench_row *row = add_row(report,
                             (bench_row){.name = format_name(it, ""),
                                         .against = has_server ? "processor of the store; of the client"
                                                               : "processor of the client, which is the store",
                                         .kind = BENCH_LOAD,
                                         .goal = is_redis_goal ? 0.1 : 0},
                             percent(has_server ? used->store_ms : used->client_ms), percent(used->client_ms));
    if (!row)
        return false;
    printf("    an interval: store %.2f ms (and %.2f without leases), client %.2f ms, %.0f bytes written; %.0f bytes "
           "of the client a lease; all "
           "held after %.1f s\n",
           used->store_ms, figures->idle_ms, used->client_ms, used->bytes, figures->client_bytes,
           figures->start_ms / 1e3);
    if (used->scripts_ms > 0)
        printf("    of that, scripts %.2f ms\n", used->scripts_ms);
    if (figures->lost > 0)
        printf("    %.0f of the leases were lost meanwhile: they could not be renewed in time\n", figures->lost);
    ten_buf_format(
        &row->more,
        ",\"store\":\"%s\",\"mode\":\"%s\",\"leases\":%zu,\"store_ms\":%.3f,\"idle_ms\":%.3f,\"scripts_ms\":%.3f,"
        "\"client_ms\":%.3f,"
        "\"written_bytes\":%.0f,\"client_bytes_a_lease\":%.0f,\"start_ms\":%.0f,\"lost\":%.0f",
        it->store, mode_names[it->mode], it->count, used->store_ms, figures->idle_ms, used->scripts_ms, used->client_ms,
        used->bytes, figures->client_bytes, figures->start_ms, figures->lost);
    return add_goals(report, it, figures);
}

/* All counts in one mode; on sessions the most leases are to cost no more than twice the fewest. */
static bool measure_mode(bench_report *report, const char *store, enum mode mode, size_t only) {
    /* ms of the processor of the store, of the scripts of Redis, or, where the store has no process of its own,
     * bytes. What Redis does without being asked takes ten times as long as the scripts, and more or less by as much
     * as they take. */
    double first = 0, latest = 0;
    bool has_server = false, by_scripts = false;
    size_t last = 0;
    for (size_t i = 0; i < TEN_COUNT(counts); i++) {
        struct figures figures = {0};
        bench_child child;
        current = (struct held_case){.store = store, .mode = mode, .count = only ? only : counts[i]};
        if ((only && i > 0) || (strcmp(store, "etcd") == 0 && current.count > ETCD_MOST))
            break;
        if (!bench_child_begin(&child, run_case, 0, &figures, sizeof figures) ||
            !bench_child_end(&child, &figures, sizeof figures)) {
            (void)bench_could_not(format_name(&current, ""));
            break; /* nor could more of them be */
        }
        if (!figures.measured)
            return true;
        if (!report_case(report, &current, &figures))
            return false;
        double cost = figures.has_server ? figures.interval.store_ms : figures.interval.bytes;
        cost = figures.interval.scripts_ms > 0 ? figures.interval.scripts_ms : cost;
        by_scripts = figures.interval.scripts_ms > 0;
        first = first > 0 ? first : cost;
        latest = cost;
        has_server = figures.has_server;
        last = current.count;
    }
    current = (struct held_case){.store = store, .mode = mode, .count = last};
    return only || mode == EACH || last == counts[0] ||
           add_row(report,
                   (bench_row){.name = format_name(&current, "/growth"),
                               .against = by_scripts ? "the same with 1,000 leases; time of the scripts in an interval"
                                          : has_server
                                              ? "the same with 1,000 leases; processor of the store in an interval"
                                              : "the same with 1,000 leases; bytes written in an interval",
                               .kind = has_server ? BENCH_LATE : BENCH_GROWTH,
                               .goal = 2},
                   latest, first);
}

/* "", "redis", "redis/10000" */
static bool measure_named(bench_report *report, char *name) {
    char *slash = strchr(name, '/');
    size_t only = slash ? strtoul(slash + 1, NULL, 10) : 0;
    bool done = true, known = false;
    if (slash)
        *slash = '\0';
    for (size_t i = 0; done && i < TEN_COUNT(stores); i++)
        for (enum mode mode = MODES; done && mode-- > EACH && (!name[0] || strcmp(name, stores[i]) == 0);) {
            known = true;
            done = measure_mode(report, stores[i], mode, only);
        }
    if (!known || (slash && only == 0)) {
        fprintf(stderr, "bench: '%s' is neither a store nor STORE/COUNT\n", name);
        return false;
    }
    return done;
}

int main(int argc, char **argv) {
    bench_report report = {0};
    struct utsname system = {0};
    double load = 0;
    const char *json = NULL;
    char *name = (char[]){""};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else
            name = argv[i];
    }
    (void)uname(&system);
    (void)getloadavg(&load, 1);
    snprintf(report.machine, sizeof report.machine, "%ld cores, load %.1f, %s %s, tenure %s",
             sysconf(_SC_NPROCESSORS_ONLN), load, system.sysname, system.release, tenure_version());
    bench_print_head(&report);
    bool done = measure_named(&report, name);
    int missed = 0;
    for (size_t i = 0; i < report.count; i++)
        missed += !bench_is_met(&report.rows[i]);
    done = (!json || bench_write_json(&report, json)) && done;
    bench_free(&report);
    return !done ? 2 : missed > 0;
}
