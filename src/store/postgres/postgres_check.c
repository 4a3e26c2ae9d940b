/*
 * What a PostgreSQL store knows about its own fitness, for `tenure doctor`. Called through the store's check().
 */
#include <stdio.h>
#include <string.h>

#include "store/common/report.h"
#include "store/postgres/postgres_state.h"
#include "store/postgres/postgres_target_sql.h"

enum { SERVER_FIELDS = 10 };

struct report {
    ten_postgres_store *store;
    ten_report to;
};

static void check_server(const struct report *report, const PGresult *row) {
    char found[256];
    snprintf(found, sizeof found, "PostgreSQL %.40s, database %.60s, role %.60s", PQgetvalue(row, 0, 0),
             PQgetvalue(row, 0, 9), PQgetvalue(row, 0, 8));
    ten_report_tell(&report->to, TENURE_CHECK_OK, "server", found, "");
    bool standby = ten_postgres_flag(row, 0, 2);
    ten_report_tell(&report->to, standby ? TENURE_CHECK_FAIL : TENURE_CHECK_OK, "role of the server",
                    standby ? "a standby" : "primary",
                    "name the primary, or all hosts with target_session_attrs=read-write");
}

static void check_durability(const struct report *report, const PGresult *row) {
    bool fsync = strcmp(PQgetvalue(row, 0, 3), "on") == 0 && strcmp(PQgetvalue(row, 0, 4), "on") == 0;
    ten_report_tell(&report->to, fsync ? TENURE_CHECK_OK : TENURE_CHECK_FAIL, "durability",
                    fsync ? "fsync and full_page_writes are on" : "fsync or full_page_writes is off",
                    "a crash of this server can lose leases and lower tokens without anybody noticing: turn both on");
    const char *commit = PQgetvalue(row, 0, 5);
    bool waits = strcmp(commit, "off") != 0 && strcmp(commit, "local") != 0;
    char found[128];
    snprintf(found, sizeof found, "synchronous_commit is %.20s%s", commit, waits ? "" : "; our transactions use on");
    ten_report_tell(&report->to, TENURE_CHECK_OK, "commits", found, "");
    const char *standbys = PQgetvalue(row, 0, 6);
    ten_report_tell(&report->to, TENURE_CHECK_OK, "synchronous standbys",
                    standbys[0]
                        ? standbys
                        : "none: a failover begins an epoch, and GUARANTEES excludes an old primary that lives on",
                    "");
}

static void check_clock(const struct report *report, const PGresult *row) {
    int64_t apart_ms = (int64_t)ten_postgres_number(row, 0, 7) - (int64_t)ten_wall_ms(report->store->base.clock);
    ten_report_clock(&report->to, apart_ms, TEN_REPORT_CLOCK_JUMPS);
}

static void check_rights(const struct report *report, const PGresult *row) {
    const char *missing = PQntuples(row) == 1 ? ten_postgres_text(row, 0, 0) : NULL;
    ten_report_tell(&report->to, missing ? TENURE_CHECK_FAIL : TENURE_CHECK_OK, "permissions",
                    missing ? missing : "all that is needed",
                    "let the owner GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenure");
}

static void check_notices(const struct report *report) {
    ten_postgres_store *store = report->store;
    const ten_notice_watch *watch = &store->watch.notice;
    int fd;
    if (ten_postgres_watch_get(&store->base, watch->namespace_name[0] ? watch->namespace_name : "poll", &fd) < 0)
        return;
    const char *found = watch->listening ? "listening"
                        : watch->poll_ms && !store->listen_settings
                            ? "a pooler without listen_url: changes are read every second"
                            : store->base.error.message;
    ten_report_tell(&report->to, watch->listening ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "change notices", found,
                    "add listen_url=URL of a direct connection to the server (with %26 for & inside of it)");
}

static int send_questions(ten_postgres_store *store, void *userdata) {
    (void)userdata;
    int r = ten_postgres_send(store, PG_DESCRIBE_SERVER, 0, NULL);
    return r < 0 ? r : ten_postgres_send(store, PG_DESCRIBE_RIGHTS, 0, NULL);
}

static int take_answer(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata) {
    const struct report *report = userdata;
    if (statement == 0 && (PQntuples(result) != 1 || PQnfields(result) != SERVER_FIELDS))
        return ten_postgres_misunderstood(store);
    if (statement == 0) {
        check_server(report, result);
        check_durability(report, result);
        check_clock(report, result);
    } else {
        check_rights(report, result);
    }
    return TENURE_OK;
}

int ten_postgres_check(ten_store *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    ten_postgres_store *store = (ten_postgres_store *)base;
    struct report report = {.store = store, .to = {each, userdata}};
    ten_postgres_work work = {
        .what = "the check", .send = send_questions, .take = take_answer, .userdata = &report, .once = true};
    int r = ten_postgres_transact(store, &work, ten_add_saturating(ten_now_ms(), timeout_ms));
    if (r == TENURE_OK)
        check_notices(&report);
    return r;
}
