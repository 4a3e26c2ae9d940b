/*
 * Candidates of ours and of others, beside each other. See contest.h.
 */
#include "contest.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "elections_work.h"

#define SETTLE_US  150000u /* until those who were started wait */
#define CROWD_MAX  16u
#define TEXTS_SIZE 65536u

/* ---- the place ----------------------------------------------------------------------------------------- */

static bool find_programs(struct contest *contest) {
    ssize_t length = readlink("/proc/self/exe", contest->programs, sizeof contest->programs - 1);
    char modules[GROUND_PATH_SIZE + 32];
    if (length <= 0)
        return false;
    contest->programs[length] = '\0';
    *strrchr(contest->programs, '/') = '\0';
    snprintf(modules, sizeof modules, "%s/peers/node_modules", contest->programs); /* ./dev bench has put them there */
    return setenv("NODE_PATH", modules, 1) == 0;
}

bool contest_open(struct contest *contest, const char *directory) {
    contest->directory = directory;
    srand48((long)ten_boot_us());
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!find_programs(contest) || redis_server_start(&contest->redis, NULL) != 0)
        return false;
    if (!etcd_start(&contest->etcd, directory))
        fprintf(stderr, "bench: etcd is not there, or does not start\n");
    return true;
}

void contest_close(struct contest *contest) {
    etcd_stop(&contest->etcd);
    redis_server_remove(&contest->redis);
    while (waitpid(-1, NULL, 0) > 0) /* what killed candidates left behind has ended by now */
        ;
}

/* ---- who takes part ------------------------------------------------------------------------------------ */

void contest_url(const struct contest *contest, enum contest_store store, const char *name,
                 char url[GROUND_PATH_SIZE]) {
    switch (store) {
    case CONTEST_REDIS:
        snprintf(url, GROUND_PATH_SIZE, "redis://127.0.0.1:%d/0?fresh=1", contest->redis.port);
        break;
    case CONTEST_SQLITE:
        snprintf(url, GROUND_PATH_SIZE, "sqlite:%.400s/%.32s.db", contest->directory, name);
        break;
    case CONTEST_ETCD:
        snprintf(url, GROUND_PATH_SIZE, "etcd://127.0.0.1:%d", contest->etcd.port);
        break;
    }
}

void contestant_name(const struct contest *contest, contestant *who, const char *name, const char *suffix) {
    snprintf(who->log, sizeof who->log, "%.400s/%.32s%s.log", contest->directory, name, suffix);
    who->pair.name = name;
    who->pair.log = who->log;
    pair_clear(&who->pair);
}

static void add_words(struct pair *pair, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        pair_add_word(pair, "%s", words[i]);
}

static void set_api(const struct contest *contest, struct pair *pair, const char *url, unsigned ttl_ms) {
    pair->resident = true;
    pair->end = PAIR_SAY_STOP;
    pair_add_word(pair, "%s/elections-candidate", contest->programs);
    pair_add_word(pair, "%s", url);
    pair_add_word(pair, "%s-%u", pair->name, ttl_ms); /* a namespace of its own: nobody is woken by others */
    pair_add_word(pair, "%u", ttl_ms);
}

static void set_elect(const struct contest *contest, struct pair *pair, const char *url, unsigned ttl_ms) {
    pair->end = PAIR_TERM;
    pair_add_word(pair, "%s/../tenure", contest->programs);
    add_words(pair, (const char *[]){"elect", "role", "--store", url, "--namespace"}, 5);
    pair_add_word(pair, "%s-%u", pair->name, ttl_ms);
    pair_add_word(pair, "--ttl");
    pair_add_word(pair, "%ums", ttl_ms);
    pair_add_word(pair, "--");
    pair_add_word(pair, "%s/" WORK_NAME, contest->programs);
}

/* The arguments of the programs that speak to Redis themselves. */
static void add_redis(const struct contest *contest, struct pair *pair, unsigned ttl_ms) {
    pair->resident = true;
    pair->end = PAIR_SAY_STOP;
    pair_add_word(pair, "%d", contest->redis.port);
    pair_add_word(pair, "bench:%s:%u", pair->name, ttl_ms);
    pair_add_word(pair, "%u", ttl_ms);
}

static void set_etcdctl(const struct contest *contest, struct pair *pair, bool locks, unsigned ttl_ms) {
    pair->end = locks ? PAIR_TERM_WORK : PAIR_INT;
    pair_add_word(pair, "etcdctl");
    pair_add_word(pair, "--endpoints=127.0.0.1:%d", contest->etcd.port);
    if (!locks) { /* its TTL of 60 s cannot be chosen */
        add_words(pair, (const char *[]){"elect", "bench-elect", "led"}, 3);
        return;
    }
    pair_add_word(pair, "lock");
    pair_add_word(pair, "bench-lock-%u", ttl_ms);
    pair_add_word(pair, "--ttl=%u", ttl_ms / 1000u);
    pair_add_word(pair, "%s/" WORK_NAME, contest->programs);
}

static enum contest_store store_of(const char *name) {
    return strstr(name, "sqlite") ? CONTEST_SQLITE : strstr(name, "etcd") ? CONTEST_ETCD : CONTEST_REDIS;
}

void contestant_set(const struct contest *contest, contestant *who, const char *name, const char *suffix,
                    unsigned ttl_ms) {
    struct pair *pair = &who->pair;
    char url[GROUND_PATH_SIZE];
    contestant_name(contest, who, name, suffix);
    contest_url(contest, store_of(name), name, url);
    who->out = store_of(name) == CONTEST_ETCD && contest->etcd.pid == 0;
    if (strncmp(name, "api-", 4) == 0) {
        set_api(contest, pair, url, ttl_ms);
    } else if (strncmp(name, "etcdctl-", 8) == 0) {
        set_etcdctl(contest, pair, strcmp(name, "etcdctl-lock") == 0, ttl_ms);
    } else if (strcmp(name, "redis-py") == 0) {
        add_words(pair, (const char *[]){BENCH_PYTHON, BENCH_PEERS "/redis_lock.py"}, 2);
        add_redis(contest, pair, ttl_ms);
    } else if (strcmp(name, "redlock") == 0) {
        add_words(pair, (const char *[]){"node", BENCH_PEERS "/redlock.js"}, 2);
        add_redis(contest, pair, ttl_ms);
    } else if (strcmp(name, "set-nx-loop") == 0) {
        pair_add_word(pair, "%s/peers-plain", contest->programs);
        pair_add_word(pair, "seed");
        add_redis(contest, pair, ttl_ms);
    } else if (strcmp(name, "flock") == 0) {
        pair->resident = true;
        pair->end = PAIR_SAY_STOP;
        pair_add_word(pair, "%s/peers-plain", contest->programs);
        pair_add_word(pair, "flock");
        pair_add_word(pair, "%s/%s-%u.lock", contest->directory, name, ttl_ms);
    } else {
        set_elect(contest, pair, url, ttl_ms);
    }
}

/* ---- rounds -------------------------------------------------------------------------------------------- */

/* What it said last, since the reason is there. */
static void tell_log(const contestant *who) {
    char line[256];
    FILE *file = fopen(who->log, "re");
    char last[256] = "";
    while (file && fgets(line, sizeof line, file))
        memcpy(last, line, sizeof last);
    if (file)
        fclose(file);
    last[strcspn(last, "\n")] = '\0';
    fprintf(stderr, "bench: %s: round %zu failed%s%s\n", who->pair.name, who->count, last[0] ? ": " : "", last);
}

void contestant_leave_out(contestant *who) {
    tell_log(who);
    pair_close(&who->pair);
    who->out = true;
}

void contest_pause(uint64_t us) {
    ten_sleep_us(SETTLE_US + (uint64_t)(drand48() * (double)us));
}

void contest_open_all(contestant *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!all[i].out && !pair_open(&all[i].pair))
            contestant_leave_out(&all[i]);
}

void contest_prepare_all(contestant *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!all[i].out && !pair_prepare(&all[i].pair))
            contestant_leave_out(&all[i]);
}

void contest_close_all(contestant *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        pair_close(&all[i].pair);
}

static void hand_over(contestant *who) {
    if (who->out)
        return;
    TEN_INVARIANT(who->count < CONTEST_ROUNDS_MAX);
    if (pair_hand_over(&who->pair, CONTEST_PATIENCE_MS, &who->ms[who->count]))
        who->count++;
    else
        contestant_leave_out(who);
}

void contest_hand_over_all(contestant *all, size_t count, size_t round) {
    for (size_t i = 0; i < count; i++)
        hand_over(&all[round % 2 ? count - 1 - i : i]);
}

void contest_strike_all(contestant *all, size_t count) {
    uint64_t struck_ns[CROWD_MAX];
    TEN_INVARIANT(count <= CROWD_MAX);
    for (size_t i = 0; i < count; i++)
        if (all[i].alone)
            hand_over(&all[i]);
    for (size_t i = 0; i < count; i++)
        if (!all[i].alone && !all[i].out && !pair_strike(&all[i].pair, &struck_ns[i]))
            contestant_leave_out(&all[i]);
    for (size_t i = 0; i < count; i++) {
        contestant *who = &all[i];
        if (who->out || who->alone)
            continue;
        TEN_INVARIANT(who->count < CONTEST_ROUNDS_MAX);
        if (pair_follow(&who->pair, struck_ns[i], CONTEST_PATIENCE_MS, &who->ms[who->count]))
            who->count++;
        else
            contestant_leave_out(who);
    }
}

/* ---- figures ------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

double contestant_percentile(contestant *who, unsigned percent) {
    qsort(who->ms, who->count, sizeof *who->ms, compare);
    return who->count ? who->ms[(who->count - 1) * percent / 100] : 0;
}

void contestant_tell(ten_buf *more, const char *prefix, contestant *who) {
    ten_buf_format(more, ",\"%srounds\":%zu,\"%sp50_ms\":%.3f,\"%sp99_ms\":%.3f,\"%sworst_ms\":%.3f", prefix,
                   who->count, prefix, contestant_percentile(who, 50), prefix, contestant_percentile(who, 99), prefix,
                   contestant_percentile(who, 100));
}

bool contest_add_row(bench_report *report, bench_row head, contestant *own, contestant *other, unsigned percent) {
    bool measured = own->count && other->count && !own->out && !other->out;
    double ours = contestant_percentile(own, percent), reference = contestant_percentile(other, percent);
    if (!measured) {
        head.against = "NOT MEASURED";
        head.goal = 0;
    }
    bench_row *row = bench_add(report, head, &ours, &reference, 1);
    if (!row)
        return false;
    contestant_tell(&row->more, "", own);
    contestant_tell(&row->more, "peer_", other);
    ten_json_text(&row->more, "ours_is", own->pair.name);
    ten_json_text(&row->more, "peer_is", other->pair.name);
    return true;
}

const char *contest_keep_text(const char *format, ...) {
    static char texts[TEXTS_SIZE];
    static size_t used;
    va_list args;
    char *text = texts + used;
    va_start(args, format);
    int length = vsnprintf(text, sizeof texts - used, format, args);
    va_end(args);
    TEN_INVARIANT(length >= 0 && (size_t)length < sizeof texts - used);
    used += (size_t)length + 1;
    return text;
}

/* ---- the machine --------------------------------------------------------------------------------------- */

/* One line that a command says; "missing" where it says none. */
static void add_version(ten_buf *text, const char *name, const char *command) {
    char line[64] = "";
    FILE *said = popen(command, "re");
    bool known = said && fgets(line, sizeof line, said);
    if (said)
        (void)pclose(said);
    line[strcspn(line, "\n")] = '\0';
    ten_buf_format(text, "%s%s %s", text->size ? ", " : "", name, known ? line : "missing");
}

void contest_add_versions(ten_buf *text) {
    add_version(text, "Redis", "redis-server --version 2>/dev/null | sed 's/.*v=\\([^ ]*\\).*/\\1/'");
    add_version(text, "redis-py", BENCH_PYTHON " -c 'import redis; print(redis.__version__)' 2>/dev/null");
    add_version(text, "redlock", "node -p 'require(\"redlock/package.json\").version' 2>/dev/null");
    add_version(text, "ioredis", "node -p 'require(\"ioredis/package.json\").version' 2>/dev/null");
    add_version(text, "node", "node --version 2>/dev/null");
    add_version(text, "etcd", "etcd --version 2>/dev/null | sed -n 's/^etcd Version: //p'");
    add_version(text, "etcdctl", "etcdctl version 2>/dev/null | sed -n 's/^etcdctl version: //p'");
}

struct processors contest_look_at_processors(void) {
    char line[256] = "";
    unsigned long long ticks[8] = {0}; /* user, nice, system, idle, iowait, irq, softirq, steal */
    struct rusage self = {0}, gone = {0};
    (void)ten_read_line("/proc/stat", line, sizeof line);
    char *at = line + strcspn(line, " ");
    for (size_t i = 0; i < TEN_COUNT(ticks); i++)
        ticks[i] = strtoull(at, &at, 10);
    double second = (double)sysconf(_SC_CLK_TCK);
    struct processors seen = {.idle = (double)(ticks[3] + ticks[4]) / second};
    for (size_t i = 0; i < TEN_COUNT(ticks); i++)
        seen.busy += i == 3 || i == 4 ? 0 : (double)ticks[i] / second;
    (void)getrusage(RUSAGE_SELF, &self);
    (void)getrusage(RUSAGE_CHILDREN, &gone);
    for (size_t i = 0; i < 2; i++) {
        const struct rusage *used = i ? &gone : &self;
        seen.ours += (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
                     (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6;
    }
    return seen;
}

double contest_others_since(struct processors then) {
    struct processors now = contest_look_at_processors();
    double busy = now.busy - then.busy, all = busy + now.idle - then.idle, ours = now.ours - then.ours;
    return all > 0 && busy > ours ? (busy - ours) / all * 100 : 0;
}
