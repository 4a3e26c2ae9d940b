/*
 * Candidates of ours and of others, beside each other. See contest.h.
 */
#include "contest.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "elections_work.h"

#define SETTLE_US 150000u /* until those who were started wait */
#define CROWD_MAX 16u

/* ---- the place ----------------------------------------------------------------------------------------- */

bool contest_open(struct contest *contest, const char *directory) {
    contest->directory = directory;
    (void)setenv("NODE_PATH", bench_keep_text("%s/peers/node_modules", ground_programs()), 1); /* see ./dev bench */
    srand48((long)ten_boot_us());
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (redis_server_start(&contest->redis, NULL) != 0)
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

bool contest_url(const struct contest *contest, const char *name, const char *file, char url[GROUND_PATH_SIZE]) {
    bool on_etcd = strstr(name, "etcd") != NULL;
    if (strstr(name, "sqlite"))
        snprintf(url, GROUND_PATH_SIZE, "sqlite:%.400s/%.32s.db", contest->directory, file);
    else if (on_etcd)
        snprintf(url, GROUND_PATH_SIZE, "etcd://127.0.0.1:%d", contest->etcd.port);
    else
        snprintf(url, GROUND_PATH_SIZE, "redis://127.0.0.1:%d/0?fresh=1", contest->redis.port);
    return !on_etcd || contest->etcd.pid != 0;
}

void contestant_name(const struct contest *contest, contestant *who, const char *name, const char *suffix) {
    snprintf(who->log, sizeof who->log, "%.400s/%.32s%s.log", contest->directory, name, suffix);
    who->name = name;
}

void contestant_set(const struct contest *contest, contestant *who, const char *name, const char *suffix,
                    unsigned ttl_ms) {
    const char *programs = ground_programs();
    bool python = strcmp(name, "redis-py") == 0, redlock = strcmp(name, "redlock") == 0;
    char url[GROUND_PATH_SIZE];
    contestant_name(contest, who, name, suffix);
    who->out = !contest_url(contest, name, name, url);
    who->resident = true;
    who->end = PAIR_SAY_STOP;
    /* Each has a namespace or key of its own: nobody is woken by others. */
    if (strncmp(name, "api-", 4) == 0) {
        pair_add_words(who, "%s/elections-candidate|%s|%s-%u|%u", programs, url, name, ttl_ms, ttl_ms);
    } else if (strncmp(name, "etcdctl-", 8) == 0) {
        who->resident = false;
        who->end = strcmp(name, "etcdctl-lock") == 0 ? PAIR_TERM_WORK : PAIR_INT;
        pair_add_words(who, "etcdctl|--endpoints=127.0.0.1:%d", contest->etcd.port);
        if (who->end == PAIR_INT) /* its TTL of 60 s cannot be chosen */
            pair_add_words(who, "elect|bench-elect|led");
        else
            pair_add_words(who, "lock|bench-lock-%u|--ttl=%u|%s/" WORK_NAME, ttl_ms, ttl_ms / 1000u, programs);
    } else if (strcmp(name, "flock") == 0) {
        pair_add_words(who, "%s/peers-plain|flock|%s/%s-%u.lock", programs, contest->directory, name, ttl_ms);
    } else if (python || redlock || strcmp(name, "set-nx-loop") == 0) {
        if (python || redlock)
            pair_add_words(who, "%s|" BENCH_DIRECTORY "/peers/%s", python ? BENCH_PYTHON : "node",
                           python ? "redis_lock.py" : "redlock.js");
        else
            pair_add_words(who, "%s/peers-plain|seed", programs);
        pair_add_words(who, "%d|bench:%s:%u|%u", contest->redis.port, name, ttl_ms, ttl_ms);
    } else {
        who->resident = false;
        who->end = PAIR_TERM;
        pair_add_words(who, "%s/../tenure|elect|role|--store|%s|--namespace|%s-%u|--ttl|%ums|--|%s/" WORK_NAME,
                       programs, url, name, ttl_ms, ttl_ms, programs);
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
    fprintf(stderr, "bench: %s: round %zu failed%s%s\n", who->name, who->count, last[0] ? ": " : "", last);
}

void contestant_leave_out(contestant *who) {
    tell_log(who);
    pair_close(who);
    who->out = true;
}

void contest_pause(uint64_t us) {
    ten_sleep_us(SETTLE_US + (uint64_t)(drand48() * (double)us));
}

void contest_each(contestant *all, size_t count, bool (*step)(contestant *pair)) {
    for (size_t i = 0; i < count; i++)
        if (!all[i].out && !step(&all[i]))
            contestant_leave_out(&all[i]);
}

void contest_close_all(contestant *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        pair_close(&all[i]);
}

static void hand_over(contestant *who) {
    uint64_t struck_ns;
    if (!who->out && (!pair_strike(who, &struck_ns) || !pair_follow(who, struck_ns, CONTEST_PATIENCE_MS)))
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
        if (!all[i].alone && !all[i].out && !pair_strike(&all[i], &struck_ns[i]))
            contestant_leave_out(&all[i]);
    for (size_t i = 0; i < count; i++)
        if (!all[i].out && !all[i].alone && !pair_follow(&all[i], struck_ns[i], CONTEST_PATIENCE_MS))
            contestant_leave_out(&all[i]);
}

/* ---- figures ------------------------------------------------------------------------------------------- */

void contestant_tell(ten_buf *more, const char *prefix, contestant *who) {
    ten_buf_format(more, ",\"%srounds\":%zu,\"%sp50_ms\":%.3f,\"%sp99_ms\":%.3f,\"%sworst_ms\":%.3f", prefix,
                   who->count, prefix, bench_percentile(who->ms, who->count, 50), prefix,
                   bench_percentile(who->ms, who->count, 99), prefix, bench_percentile(who->ms, who->count, 100));
}

void contest_tell_sides(ten_buf *more, const char *ours, const char *peer) {
    ten_json_text(more, "ours_is", ours);
    ten_json_text(more, "peer_is", peer);
}

bool contest_add_row(bench_report *report, bench_row head, contestant *own, contestant *other, unsigned percent) {
    bool measured = own->count && other->count && !own->out && !other->out;
    double ours = bench_percentile(own->ms, own->count, percent),
           reference = bench_percentile(other->ms, other->count, percent);
    if (!measured) {
        head.against = "NOT MEASURED";
        head.goal = 0;
    }
    bench_row *row = bench_add_one(report, head, ours, reference);
    if (!row)
        return false;
    contestant_tell(&row->more, "", own);
    contestant_tell(&row->more, "peer_", other);
    contest_tell_sides(&row->more, own->name, other->name);
    return true;
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

void contest_tell_versions(bench_report *report, size_t first) {
    TEN_CLEANUP(ten_buf_free) ten_buf versions = {0};
    ten_buf *text = &versions;
    add_version(text, "Redis", "redis-server --version 2>/dev/null | sed 's/.*v=\\([^ ]*\\).*/\\1/'");
    add_version(text, "redis-py", BENCH_PYTHON " -c 'import redis; print(redis.__version__)' 2>/dev/null");
    add_version(text, "redlock", "node -p 'require(\"redlock/package.json\").version' 2>/dev/null");
    add_version(text, "ioredis", "node -p 'require(\"ioredis/package.json\").version' 2>/dev/null");
    add_version(text, "node", "node --version 2>/dev/null");
    add_version(text, "etcd", "etcd --version 2>/dev/null | sed -n 's/^etcd Version: //p'");
    add_version(text, "etcdctl", "etcdctl version 2>/dev/null | sed -n 's/^etcdctl version: //p'");
    printf("    %s\n", ten_buf_string(text));
    if (report->count > first)
        ten_json_text(&report->rows[first].more, "versions", ten_buf_string(text));
}
