/*
 * Growth: in each round so many new ids are acquired and released, once each, and then forgotten. What the store takes
 * after a later round is compared with what it took after the first two; beside it, what it takes before it forgets.
 * What a store does by itself from time to time (a checkpoint of SQLite, VACUUM of PostgreSQL, compaction of etcd) is
 * done before it is measured.
 */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef TEN_STORE_REDIS
#include <hiredis/hiredis.h>

#include "lib/redis_server.h"
#endif
#ifdef TEN_STORE_POSTGRES
#include "lib/postgres_server.h"
#endif
#ifdef TEN_STORE_ETCD
#include "lib/etcd_server.h"
#include "store/etcd/etcd_state.h"
#include "store/record_store.h"
#endif

#include "child.h"
#include "measures.h"
#include "scale_server.h"

#define ROUNDS     4u
#define WARM       2u /* rounds until the feed is full, and tables have the room that a round needs */
#define BATCH      250u
#define TIMEOUT_MS UINT64_C(30000)
#define MOST       1.1 /* a later round against the first two */

size_t growth_ids = 150000; /* two changes each: more than a feed keeps */

struct subject {
    const char *name;
    ten_store *store;
    double (*size)(const struct subject *subject); /* bytes; 0: failed */
    char path[GROUND_PATH_SIZE];
    const scale_server *server;
};

/* ---- use and forgetting */

static bool use_batch(ten_store *store, size_t round, size_t first, size_t count) {
    static char ids[BATCH][GROUND_NAME_SIZE];
    static ten_op ops[BATCH];
    static ten_result results[BATCH];
    for (size_t i = 0; i < count; i++) {
        snprintf(ids[i], sizeof ids[i], "job-%zu-%zu", round, first + i);
        ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                          .namespace_name = "jobs",
                          .target = ids[i],
                          .holder = "worker",
                          .ttl_ms = GROUND_TTL_MS};
    }
    if (!ground_apply_within(store, ops, results, count, TIMEOUT_MS))
        return false;
    for (size_t i = 0; i < count; i++) {
        ops[i].kind = TEN_OP_RELEASE;
        ops[i].token = results[i].token;
    }
    return ground_apply_within(store, ops, results, count, TIMEOUT_MS);
}

static bool use_all(ten_store *store, size_t round) {
    bool done = true;
    for (size_t at = 0; done && at < growth_ids; at += BATCH)
        done = use_batch(store, round, at, growth_ids - at < BATCH ? growth_ids - at : BATCH);
    return done;
}

static int count_row(const ten_row *row, void *userdata) {
    (void)row;
    ++*(size_t *)userdata;
    return 0;
}

static bool forget_all(ten_store *store) {
    char after[TENURE_TARGET_MAX + 1] = "";
    size_t forgotten = 0;
    do {
        size_t some = 0;
        if (ten_store_forget_unregistered(store, "jobs", after, &some, TIMEOUT_MS) < 0) {
            fprintf(stderr, "bench: cannot forget: %s\n", store->error.message);
            return false;
        }
        forgotten += some;
    } while (after[0]);
    /* etcd has forgotten those whose changes have left the feed by itself. */
    size_t left = 0;
    ten_query query = {.namespace_name = "jobs", .filter = TENURE_ALL, .limit = BATCH};
    bool done = store->ops->list(store, &query, count_row, &left, TIMEOUT_MS) == TENURE_OK && left == 0 &&
                (forgotten == growth_ids || strcmp(store->ops->name, "etcd") == 0);
    if (!done)
        fprintf(stderr, "bench: %zu of %zu ids were forgotten\n", forgotten, growth_ids);
    return done;
}

/* ---- sizes */

static double sqlite_size(const struct subject *subject) {
    sqlite3 *connection = NULL;
    struct stat info = {0};
    bool done = sqlite3_open(subject->path, &connection) == SQLITE_OK &&
                sqlite3_busy_timeout(connection, 5000) == SQLITE_OK &&
                sqlite3_exec(connection, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL) == SQLITE_OK &&
                stat(subject->path, &info) == 0;
    sqlite3_close(connection);
    return done ? (double)info.st_size : 0;
}

#ifdef TEN_STORE_REDIS
static double redis_size(const struct subject *subject) {
    const struct redis_server *server = subject->server->server;
    redisContext *context = redisConnect("127.0.0.1", server->port);
    redisReply *reply = context ? redisCommand(context, "INFO memory") : NULL;
    const char *found = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "used_memory:") : NULL;
    double size = found ? strtod(found + strlen("used_memory:"), NULL) : 0;
    if (reply)
        freeReplyObject(reply);
    if (context)
        redisFree(context);
    return size;
}
#endif

#ifdef TEN_STORE_POSTGRES
static double postgres_size(const struct subject *subject) {
    bool done = true;
    free(postgres_server_query(subject->server->server, "postgres", "VACUUM tenure.record, tenure.value", &done));
    free(done ? postgres_server_query(subject->server->server, "postgres", "VACUUM tenure.change", &done) : NULL);
    char *text = done ? postgres_server_query(subject->server->server, "postgres",
                                              "SELECT sum(pg_total_relation_size(name)) FROM "
                                              "unnest('{tenure.record,tenure.value,tenure.change}'::text[]) AS name",
                                              &done)
                      : NULL;
    double size = text ? strtod(text, NULL) : 0;
    free(text);
    return size;
}
#endif

#ifdef TEN_STORE_ETCD
/* What is in use; the file does not shrink. */
static double etcd_size(const struct subject *subject) {
    ten_etcd_store *store = (ten_etcd_store *)((ten_record_store *)subject->store)->backend;
    char body[80];
    json_t *answer = NULL;
    if (subject->store->ops->ping(subject->store, TIMEOUT_MS) < 0)
        return 0;
    snprintf(body, sizeof body, "{\"revision\":\"%" PRIu64 "\",\"physical\":true}", store->head.revision);
    store->deadline_ms = ten_now_ms() + TIMEOUT_MS;
    if (ten_etcd_ask(store, "/v3/kv/compaction", body, true, &answer) == TENURE_OK)
        json_decref(answer);
    if (ten_etcd_ask(store, "/v3/maintenance/status", "{}", false, &answer) < 0)
        return 0;
    double size = (double)ten_etcd_number(answer, "dbSizeInUse");
    json_decref(answer);
    return size;
}
#endif

/* ---- one store */

static bool measure(bench_report *report, const struct subject *subject) {
    double full[ROUNDS] = {0};
    double sizes[ROUNDS] = {0};
    double used_s[ROUNDS] = {0};
    double forgot_s[ROUNDS] = {0};
    bool done = subject->store != NULL;
    for (size_t round = 0; done && round < ROUNDS; round++) {
        uint64_t begin_ms = ten_now_ms();
        done = use_all(subject->store, round);
        used_s[round] = (double)(ten_now_ms() - begin_ms) / 1e3;
        full[round] = done ? subject->size(subject) : 0;
        begin_ms = ten_now_ms();
        done = done && forget_all(subject->store);
        forgot_s[round] = (double)(ten_now_ms() - begin_ms) / 1e3;
        sizes[round] = done ? subject->size(subject) : 0;
        done = done && sizes[round] > 0;
    }
    double most = sizes[0] > sizes[1] ? sizes[0] : sizes[1];
    const double first[] = {most, most};
    bench_row head = {.name = subject->name,
                      .against = "the same store after the first two rounds",
                      .kind = BENCH_GROWTH,
                      .goal = MOST};
    bench_row *row = done ? bench_add(report, head, sizes + WARM, first, ROUNDS - WARM) : NULL;
    if (row) {
        ten_buf_format(&row->more,
                       ",\"ids_a_round\":%zu,\"bytes_before_forgetting\":%.0f,\"use_s\":[%.1f,%.1f],\"forget_s\":%.1f",
                       growth_ids, full[ROUNDS - 1], used_s[0], used_s[ROUNDS - 1], forgot_s[ROUNDS - 1]);
        printf("    %zu ids a round, used in", growth_ids);
        for (size_t round = 0; round < ROUNDS; round++)
            printf(" %.1f", used_s[round]);
        printf(" s, forgotten in");
        for (size_t round = 0; round < ROUNDS; round++)
            printf(" %.1f", forgot_s[round]);
        printf(" s; before forgetting");
        for (size_t round = 0; round < ROUNDS; round++)
            printf(" %.2f", full[round] / 1e6);
        printf(" MB, after");
        for (size_t round = 0; round < ROUNDS; round++)
            printf(" %.2f", sizes[round] / 1e6);
        printf(" MB\n");
    }
    ten_store_close(subject->store);
    return row != NULL;
}

static const struct {
    const char *store;
    const char *name; /* of the row */
    double (*size)(const struct subject *subject);
    const char *file; /* of SQLite */
} kinds[] = {
    {"sqlite", "growth/sqlite", sqlite_size, "scale.db"},
#ifdef TEN_STORE_REDIS
    {"redis", "growth/redis", redis_size, NULL},
#endif
#ifdef TEN_STORE_POSTGRES
    {"postgres", "growth/postgres", postgres_size, NULL},
#endif
#ifdef TEN_STORE_ETCD
    {"etcd", "growth/etcd", etcd_size, NULL},
#endif
    {"http", "growth/http", sqlite_size, "http/leases.db"},
};

bool growth_measure(bench_report *report, const char *store) {
    scale_server server;
    ten_error error = {0};
    struct subject subject = {.server = &server};
    if (!scale_server_start(&server, store))
        return false;
    for (size_t i = 0; i < TEN_COUNT(kinds); i++) {
        if (strcmp(kinds[i].store, store) != 0)
            continue;
        subject.name = kinds[i].name;
        subject.size = kinds[i].size;
        if (kinds[i].file)
            snprintf(subject.path, sizeof subject.path, "%.400s/%s", server.directory, kinds[i].file);
    }
    bool done = ten_store_open(server.url, NULL, &subject.store, &error) == TENURE_OK;
    if (!done)
        fprintf(stderr, "bench: cannot open %s: %s\n", server.url, error.message);
    done = done && measure(report, &subject);
    scale_server_stop(&server);
    return done;
}
