/*
 * What a PostgreSQL store knows about its own fitness, for `tenure doctor`. Called through the store's check().
 */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "store/common/report.h"
#include "store/postgres/postgres_sql.h"
#include "store/postgres/postgres_state.h"

struct report {
    ten_postgres_store *store;
    ten_report to;
};

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

static void check_server(const struct report *report, const PGresult *row) {
    char found[256];
    snprintf(found, sizeof found, "PostgreSQL %.40s, database %.60s, role %.60s", PQgetvalue(row, 0, 0),
             PQgetvalue(row, 0, 9), PQgetvalue(row, 0, 8));
    ten_report_tell(&report->to, TENURE_CHECK_OK, "server", found, "");
    bool standby = ten_postgres_flag(row, 0, 2);
    ten_report_tell(&report->to, standby ? TENURE_CHECK_FAIL : TENURE_CHECK_OK, "role of the server",
                    standby ? "a standby" : "primary",
                    "name the primary, or all hosts with target_session_attrs=read-write");
    check_durability(report, row);
    int64_t apart_ms = (int64_t)ten_postgres_number(row, 0, 7) - (int64_t)ten_wall_ms(report->store->base.clock);
    ten_report_clock(&report->to, apart_ms, TEN_REPORT_CLOCK_JUMPS);
}

static void check_rights(const struct report *report, const PGresult *row) {
    const char *missing = ten_postgres_text(row, 0, 0);
    ten_report_tell(&report->to, missing ? TENURE_CHECK_FAIL : TENURE_CHECK_OK, "permissions",
                    missing ? missing : "all that is needed",
                    "let the owner GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenure");
}

/* What to do about a transaction or a slot that keeps dead rows. */
static const struct {
    const char *kind;
    const char *found;
    const char *advice; /* with the name */
} snapshots[] = {
    {"session", "session %s (%s)", "let it commit, or end it: SELECT pg_terminate_backend(%s)"},
    {"prepared", "prepared transaction %s (%s)", "ROLLBACK PREPARED %s, or commit it"},
    {"slot", "replication slot %s (%s)", "if nobody uses it any more: SELECT pg_drop_replication_slot(%s)"},
    {"standby", "standby at session %s (%s)", "end the long query there, or turn its hot_standby_feedback off"},
};

static void tell_snapshot(const struct report *report, const PGresult *rows, int at, size_t kind) {
    char what[256];
    char age[64];
    char found[512];
    char remedy[256];
    char advice[512];
    char time[TEN_DURATION_SIZE];
    const char *name = PQgetvalue(rows, at, 1);
    snprintf(what, sizeof what, snapshots[kind].found, name, PQgetvalue(rows, at, 2));
    snprintf(remedy, sizeof remedy, snapshots[kind].advice, name);
    ten_duration_show(ten_postgres_number(rows, at, 3), time);
    if (PQgetisnull(rows, at, 3))
        snprintf(age, sizeof age, "%s transactions ago", PQgetvalue(rows, at, 4));
    else
        snprintf(age, sizeof age, "%s ago", time);
    snprintf(found, sizeof found, "%s has begun %s; Tenure's tables have %s dead rows", what, age,
             PQgetvalue(rows, at, 5));
    snprintf(advice, sizeof advice, "rows that renewals left behind cannot be removed, so renewals get slower: %s",
             remedy);
    ten_report_tell(&report->to, TENURE_CHECK_WARN, "old snapshots", found, advice);
}

static void check_snapshots(const struct report *report, const PGresult *rows) {
    bool any = false;
    for (int i = 0; i < PQntuples(rows); i++)
        for (size_t kind = 0; kind < TEN_COUNT(snapshots); kind++)
            if (strcmp(PQgetvalue(rows, i, 0), snapshots[kind].kind) == 0) {
                tell_snapshot(report, rows, i, kind);
                any = true;
            }
    char found[128];
    uint64_t hidden = ten_postgres_number(rows, 0, 6);
    snprintf(found, sizeof found,
             "none among what this role may see (%llu sessions are hidden: GRANT pg_read_all_stats)",
             (unsigned long long)hidden);
    if (!any)
        ten_report_tell(&report->to, TENURE_CHECK_OK, "old snapshots", hidden > 0 ? found : "none", "");
}

/* What is wrong with each weaker sslmode for a server on another host. */
static const struct {
    const char *mode;
    const char *found;
} weaknesses[] = {
    {"disable", "sslmode=disable: nothing is encrypted, the password and the leases included"},
    {"allow", "sslmode=allow: whoever is between this host and the server can read and change everything"},
    {"prefer", "sslmode=prefer: whoever is between this host and the server can turn the encryption off"},
    {"require", "sslmode=require: it is encrypted, but any server can pass for this one"},
    {"verify-ca", "sslmode=verify-ca: any server that the same authority vouches for can pass for this one"},
};

static void check_tls(const struct report *report) {
    ten_postgres_link *link = report->store->link;
    PQconninfoOption *options = link ? PQconninfo(ten_postgres_link_connection(link)) : NULL;
    const char *mode = "";
    const char *found = NULL;
    if (!link || !options)
        return;
    for (const PQconninfoOption *at = options; at->keyword; at++)
        if (strcmp(at->keyword, "sslmode") == 0 && at->val)
            mode = at->val;
    for (size_t i = 0; i < TEN_COUNT(weaknesses); i++)
        if (strcmp(weaknesses[i].mode, mode) == 0)
            found = weaknesses[i].found;
    bool remote = ten_postgres_link_is_remote(link);
    ten_report_tell(&report->to, remote && found ? TENURE_CHECK_WARN : TENURE_CHECK_OK, "encryption",
                    !remote ? "not needed: the server is on this host"
                    : found ? found
                            : "TLS, and the server's name is verified",
                    "name the authority that signed the server's certificate with ca_file=FILE in the URL, and leave "
                    "sslmode out");
    PQconninfoFree(options);
}

static void check_notices(const struct report *report) {
    ten_postgres_store *store = report->store;
    const ten_notice_watch *watch = &store->watch;
    int fd;
    if (ten_notice_watch_get(&store->base, watch->namespace_name[0] ? watch->namespace_name : "poll", &fd) < 0)
        return;
    const char *found = watch->listening ? "listening"
                        : watch->poll_ms && !store->listen_settings
                            ? "a pooler without listen_url: changes are read every second"
                            : store->base.error->message;
    ten_report_tell(&report->to, watch->listening ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "change notices", found,
                    "add listen_url=URL of a direct connection to the server (with %26 for & inside of it)");
}

int ten_postgres_check(ten_backend *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    static const struct {
        const char *statement;
        int fields;
        void (*tell)(const struct report *report, const PGresult *rows);
    } parts[] = {
        {PG_DESCRIBE_SERVER, 10, check_server},
        {PG_DESCRIBE_RIGHTS, 1, check_rights},
        {PG_DESCRIBE_SNAPSHOTS, 7, check_snapshots},
    };
    ten_postgres_store *store = (ten_postgres_store *)base;
    struct report report = {.store = store, .to = {each, userdata}};
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    int r = ten_postgres_connect(store, deadline_ms);
    for (size_t i = 0; r == TENURE_OK && i < TEN_COUNT(parts); i++) {
        TEN_CLEANUP(ten_postgres_clear) PGresult *rows = NULL;
        r = ten_postgres_link_run(store->link, "the check", parts[i].statement, deadline_ms, &rows, base->error);
        if (r == TENURE_OK && (PQntuples(rows) < 1 || PQnfields(rows) != parts[i].fields))
            r = ten_postgres_misunderstood(store);
        if (r == TENURE_OK)
            parts[i].tell(&report, rows);
    }
    if (r < 0) {
        ten_postgres_disconnect(store);
        return r;
    }
    check_tls(&report);
    check_notices(&report);
    return TENURE_OK;
}
