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

#ifdef TEN_STORE_ETCD
#include "store/etcd/etcd_state.h"
#include "store/record_store.h"
#endif

#include "measures.h"
#include "store_server.h"

#define ROUNDS     4u
#define WARM       2u /* rounds until the feed is full, and tables have the room that a round needs */
#define BATCH      250u
#define TIMEOUT_MS UINT64_C(30000)
#define MOST       1.1 /* a later round against the first two */

size_t growth_ids = 150000; /* two changes each: more than a feed keeps */

struct subject {
    ten_store *store;
    store_server server;
    const struct kind *kind;
};

struct kind {
    const char *store;
    double (*size)(const struct subject *subject); /* bytes; 0: failed */
    const char *file;                              /* of SQLite */
};

/* ---- use and forgetting */

static bool use_all(ten_store *store, size_t round) {
    bool done = true;
    for (size_t at = 0; done && at < growth_ids; at += BATCH) {
        ground_leases leases;
        size_t count = ten_min_u64(growth_ids - at, BATCH);
        done = ground_acquire(store, (unsigned)(round * growth_ids + at), count, &leases);
        for (size_t i = 0; done && i < count; i++)
            leases.ops[i].kind = TEN_OP_RELEASE;
        done = done && ground_apply_within(store, leases.ops, leases.results, count, TIMEOUT_MS);
        ground_free(&leases);
    }
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
        if (ten_store_forget_unregistered(store, GROUND_NAMESPACE, after, &some, TIMEOUT_MS) < 0) {
            fprintf(stderr, "bench: cannot forget: %s\n", store->error.message);
            return false;
        }
        forgotten += some;
    } while (after[0]);
    /* etcd has forgotten those whose changes have left the feed by itself. */
    size_t left = 0;
    ten_query query = {.namespace_name = GROUND_NAMESPACE, .filter = TENURE_ALL, .limit = BATCH};
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
    char path[GROUND_PATH_SIZE];
    snprintf(path, sizeof path, "%.400s/%s", subject->server.directory, subject->kind->file);
    bool done = sqlite3_open(path, &connection) == SQLITE_OK && sqlite3_busy_timeout(connection, 5000) == SQLITE_OK &&
                sqlite3_exec(connection, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL) == SQLITE_OK &&
                stat(path, &info) == 0;
    sqlite3_close(connection);
    return done ? (double)info.st_size : 0;
}

static double redis_size(const struct subject *subject) {
    return store_server_info(&subject->server, "memory", "used_memory:", ":");
}

static double postgres_size(const struct subject *subject) {
    (void)store_server_query(&subject->server, "VACUUM tenure.record, tenure.value");
    (void)store_server_query(&subject->server, "VACUUM tenure.change");
    return store_server_query(&subject->server, "SELECT sum(pg_total_relation_size(name)) FROM "
                                                "unnest('{tenure.record,tenure.value,tenure.change}'::text[]) AS name");
}

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

enum figure { USED_S, FULL_BYTES, FORGOT_S, BYTES, FIGURES };

static bool run_round(const struct subject *subject, size_t round, double figures[FIGURES][ROUNDS]) {
    uint64_t begin_ms = ten_now_ms();
    bool done = use_all(subject->store, round);
    figures[USED_S][round] = (double)(ten_now_ms() - begin_ms) / 1e3;
    figures[FULL_BYTES][round] = done ? subject->kind->size(subject) : 0;
    begin_ms = ten_now_ms();
    done = done && forget_all(subject->store);
    figures[FORGOT_S][round] = (double)(ten_now_ms() - begin_ms) / 1e3;
    figures[BYTES][round] = done ? subject->kind->size(subject) : 0;
    return done && figures[BYTES][round] > 0;
}

static bool measure(bench_report *report, const struct subject *subject) {
    static const struct {
        const char *words, *key;
        double unit;
    } texts[FIGURES] = {{"used in s:", "use_s", 1},
                        {"before forgetting, MB:", "bytes_before_forgetting", 1e6},
                        {"forgotten in s:", "forget_s", 1},
                        {"after, MB:", "bytes", 1e6}};
    double figures[FIGURES][ROUNDS] = {0};
    for (size_t round = 0; round < ROUNDS; round++)
        if (!run_round(subject, round, figures))
            return false;
    double most = figures[BYTES][0] > figures[BYTES][1] ? figures[BYTES][0] : figures[BYTES][1];
    const double first[] = {most, most};
    bench_row head = {.name = bench_keep_text("growth/%s", subject->kind->store),
                      .against = "the same store after the first two rounds",
                      .kind = BENCH_GROWTH,
                      .goal = MOST};
    bench_row *row = bench_add(report, head, figures[BYTES] + WARM, first, ROUNDS - WARM);
    if (!row)
        return false;
    printf("    %zu ids a round", growth_ids);
    ten_buf_format(&row->more, ",\"ids_a_round\":%zu", growth_ids);
    for (size_t i = 0; i < FIGURES; i++) {
        printf("; %s", texts[i].words);
        for (size_t round = 0; round < ROUNDS; round++)
            printf(" %.2f", figures[i][round] / texts[i].unit);
        ten_buf_format(&row->more, ",\"%s\":%.1f", texts[i].key, figures[i][ROUNDS - 1]);
    }
    printf("\n");
    return true;
}

static const struct kind kinds[] = {
    {"sqlite", sqlite_size, "scale.db"},
    {"redis", redis_size, NULL},
    {"postgres", postgres_size, NULL},
#ifdef TEN_STORE_ETCD
    {"etcd", etcd_size, NULL},
#endif
    {"http", sqlite_size, "http/leases.db"},
};

bool growth_measure(bench_report *report, const char *store) {
    struct subject subject = {0};
    if (!store_server_start(&subject.server, store))
        return false;
    for (size_t i = 0; i < TEN_COUNT(kinds); i++)
        if (strcmp(kinds[i].store, store) == 0)
            subject.kind = &kinds[i];
    subject.store = ground_open("%s", subject.server.url);
    bool done = subject.store && measure(report, &subject);
    ten_store_close(subject.store);
    store_server_stop(&subject.server);
    return done;
}
