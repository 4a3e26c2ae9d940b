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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "ground.h"
#include "measures.h"
#include "runtime/member.h"
#include "store_server.h"
#include "usage.h"

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

static enum mode opens_as = SESSION;
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

static struct usage look(const store_server *server, const char *store) {
    struct usage now = {.bytes = file_bytes(server->pid)};
    if (strcmp(store, "postgres") == 0) {
        now.bytes = store_server_query(server, "SELECT pg_current_wal_lsn() - '0/0'");
        now.versions = store_server_query(server, "SELECT n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE "
                                                  "schemaname = 'tenure' AND relname = 'record'");
    } else if (strcmp(store, "redis") == 0) {
        now.bytes = store_server_info(server, "stats", "total_net_input_bytes:", "bytes:");
        now.scripts_ms = store_server_info(server, "commandstats", "cmdstat_evalsha:", "usec=") / 1e3;
    }
    now.client_ms = usage_self_us() / 1e3;
    now.store_ms = server->pid ? usage_server_ms(server->pid) : 0;
    return now;
}

/* ---- one case, in a process of its own */

struct held_case {
    const char *store;
    enum mode mode;
    size_t count;
};
static const char *name_of(const struct held_case *it, const char *what) {
    return bench_keep_text("held/%s/%s/%zu%s", it->store, mode_names[it->mode], it->count, what);
}

static bool fail(const struct held_case *it, const char *what) {
    fprintf(stderr, "bench: %s: %s: %s\n", name_of(it, ""), what, tenure_message(NULL));
    return false;
}

static bool hold_all(const struct held_case *it, tenure_context *context, ten_measures *measures,
                     struct figures *figures) {
    tenure_member_options options = {.size = sizeof options, .flags = TENURE_TARGETS_FROM_STORE};
    ten_member_extras extras = {.measures = measures};
    tenure_member *member = NULL;
    double before = usage_resident_bytes();
    uint64_t start_ms = ten_now_ms();
    if (ten_member_open(context, &options, &extras, &member) != TENURE_OK)
        return fail(it, "the member does not start");
    while (ten_measure_get(&measures->held) < it->count) {
        if (ten_now_ms() - start_ms > GIVE_UP_MS)
            return fail(it, "it does not get all of them");
        ten_sleep_us(20000);
    }
    figures->start_ms = (double)(ten_now_ms() - start_ms);
    figures->client_bytes = (usage_resident_bytes() - before) / (double)it->count;
    return true;
}

/* Of the server, in an interval, before anybody has asked it for something. */
static double measure_idle(const store_server *server) {
    if (!server->pid)
        return 0;
    double before_ms = usage_server_ms(server->pid);
    ten_sleep_us(IDLE_MS * 1000);
    double used_ms = usage_server_ms(server->pid) - before_ms;
    return used_ms > 0 ? used_ms * (double)INTERVAL_MS / (double)IDLE_MS : 0;
}

static void measure_intervals(const struct held_case *it, const store_server *server, struct figures *figures) {
    ten_sleep_us(SETTLE_MS * 1000);
    /* What a start leaves to autovacuum, for all tables: with a million rows it would begin some time in the next
     * minute. */
    if (strcmp(it->store, "postgres") == 0) {
        (void)store_server_query(server, "VACUUM ANALYZE");
        (void)store_server_query(server, "CHECKPOINT");
    }
    struct usage before = look(server, it->store);
    ten_sleep_us(INTERVAL_MS * INTERVALS * 1000);
    struct usage after = look(server, it->store);
    double store_ms = (after.store_ms - before.store_ms) / INTERVALS;
    figures->interval = (struct usage){.store_ms = store_ms > figures->idle_ms ? store_ms - figures->idle_ms : 0,
                                       .client_ms = (after.client_ms - before.client_ms) / INTERVALS,
                                       .bytes = (after.bytes - before.bytes) / INTERVALS,
                                       .versions = (after.versions - before.versions) / INTERVALS,
                                       .scripts_ms = (after.scripts_ms - before.scripts_ms) / INTERVALS};
    figures->measured = true;
}

static bool run_on(const struct held_case *it, const store_server *server, struct figures *figures) {
    static ten_measures measures;
    opens_as = it->mode;
    tenure_context *context = NULL;
    tenure_options options = {.size = sizeof options, .instance_name = "holder", .timeout_ms = 30000};
    if (tenure_open(server->url, &options, &context) != TENURE_OK)
        return fail(it, "the store");
    if (it->mode == SESSION && !has_sessions)
        return true;
    if (!ground_register(server->url, it->count) || !hold_all(it, context, &measures, figures))
        return false;
    measure_intervals(it, server, figures);
    size_t held = ten_measure_get(&measures.held);
    figures->lost = (double)(held < it->count ? it->count - held : 0);
    return true; /* the process ends, and with it the member */
}

static bool run_case(const void *what, void *ret_answer) {
    const struct held_case *it = what;
    struct figures *figures = ret_answer;
    store_server server;
    bool by_url = strcmp(it->store, "redis") == 0 && it->mode == SESSION;
    if (!store_server_start(&server, by_url ? "redis-session" : it->store))
        return false;
    figures->has_server = server.pid != 0;
    figures->idle_ms = measure_idle(&server);
    bool done = run_on(it, &server, figures);
    store_server_stop(&server);
    return done;
}

/* ---- rows */

static const char *const stores[] = {"sqlite", "redis", "postgres", "etcd", "http"};
static const size_t counts[] = {1000, 10000, 100000, 1000000};
#define ETCD_MOST 100000u /* it takes a few hundred acquires a second */

/* Percent of a core. */
static double percent(double ms) {
    return ms / (double)INTERVAL_MS * 100;
}

/* What is asked of leases on sessions, whatever their number. */
static bool add_goals(bench_report *report, const struct held_case *it, const struct usage *used) {
    bool is_session = it->mode == SESSION;
    double wal = used->bytes * 1000 / (double)INTERVAL_MS;
    bench_row bytes = {.name = name_of(it, "/wal"),
                       .against = "bytes of WAL a second",
                       .kind = BENCH_SIZE,
                       .goal = is_session ? 2048 : 0};
    bench_row versions = {.name = name_of(it, "/versions"),
                          .against = "new versions of rows in tenure.record, an interval",
                          .kind = BENCH_NONE};
    return strcmp(it->store, "postgres") != 0 || (bench_add_one(report, bytes, wal, wal) &&
                                                  (!is_session || bench_add_one(report, versions, used->versions, 0)));
}

static bool report_case(bench_report *report, const struct held_case *it, const struct figures *figures) {
    bool is_redis_goal = it->mode == SESSION && strcmp(it->store, "redis") == 0 && it->count <= 100000;
    const struct usage *used = &figures->interval;
    bool has_server = figures->has_server;
    bench_row head = {.name = name_of(it, ""),
                      .against = has_server ? "processor of the store; of the client"
                                            : "processor of the client, which is the store",
                      .kind = BENCH_LOAD,
                      .goal = is_redis_goal ? 0.1 : 0};
    bench_row *row =
        bench_add_one(report, head, percent(has_server ? used->store_ms : used->client_ms), percent(used->client_ms));
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
    return add_goals(report, it, used);
}

/* What grows with the number of leases: ms of the scripts of Redis, of the processor of the store, or, where the store
 * has no process of its own, bytes. What Redis does without being asked takes ten times as long as the scripts, and more
 * or less by as much as they take. */
static double cost_of(const struct figures *figures) {
    const struct usage *used = &figures->interval;
    return used->scripts_ms > 0 ? used->scripts_ms : figures->has_server ? used->store_ms : used->bytes;
}

/* All counts in one mode; on sessions the most leases are to cost no more than twice the fewest. */
static bool measure_mode(bench_report *report, const char *store, enum mode mode, size_t only) {
    struct figures first = {0}, last = {0};
    size_t most = 0;
    for (size_t i = 0; i < (only ? 1 : TEN_COUNT(counts)); i++) {
        struct held_case it = {.store = store, .mode = mode, .count = only ? only : counts[i]};
        struct figures figures = {0};
        if (strcmp(store, "etcd") == 0 && it.count > ETCD_MOST)
            break;
        if (!bench_apart(run_case, &it, &figures, sizeof figures)) {
            (void)bench_could_not(name_of(&it, ""));
            break; /* nor could more of them be */
        }
        if (!figures.measured)
            return true;
        if (!report_case(report, &it, &figures))
            return false;
        first = cost_of(&first) > 0 ? first : figures;
        last = figures;
        most = it.count;
    }
    bench_row head = {.name = bench_keep_text("held/%s/%s/%zu/growth", store, mode_names[mode], most),
                      .against = last.interval.scripts_ms > 0
                                     ? "the same with 1,000 leases; time of the scripts in an interval"
                                 : last.has_server ? "the same with 1,000 leases; processor of the store in an interval"
                                                   : "the same with 1,000 leases; bytes written in an interval",
                      .kind = last.has_server ? BENCH_LATE : BENCH_GROWTH,
                      .goal = 2};
    return only || mode == EACH || most == counts[0] || bench_add_one(report, head, cost_of(&last), cost_of(&first));
}

bool held_measure(bench_report *report, const char *name) {
    const char *slash = strchr(name, '/');
    size_t length = slash ? (size_t)(slash - name) : strlen(name);
    size_t only = slash ? strtoul(slash + 1, NULL, 10) : 0;
    bool done = true, known = false;
    for (size_t i = 0; done && i < TEN_COUNT(stores); i++)
        for (enum mode mode = MODES; done && mode-- > EACH;)
            if (length == 0 || (strncmp(name, stores[i], length) == 0 && stores[i][length] == '\0')) {
                known = true;
                done = measure_mode(report, stores[i], mode, only);
            }
    if (!known || (slash && only == 0)) {
        fprintf(stderr, "bench: '%s' is neither a store nor STORE/COUNT\n", name);
        return false;
    }
    return done;
}
