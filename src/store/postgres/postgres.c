/*
 * The PostgreSQL backend: records in the tables of a server. Each call is a transaction in one round trip
 * (postgres_call.c), which calls a function of postgres.sql: what is atomic, locked and judged is said there.
 *
 * Touches wait for the disk as commits do: a server that crashed and came back without them would let others in while
 * their holders still believe.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/common/record_key.h"
#include "store/postgres/postgres_sql.h"
#include "store/postgres/postgres_state.h"
#include "store/record_store.h"

/* The columns of an answer, see postgres.sql. */
enum { PLACE, KEY, VERSION, NUMBER, NAME, LEFT_MS, VALUE, COLUMNS };

static ten_postgres_store *self(ten_backend *base) {
    return (ten_postgres_store *)base;
}

static uint64_t deadline_of(uint64_t timeout_ms) {
    return ten_add_saturating(ten_now_ms(), timeout_ms);
}

/* ---- parameters ---------------------------------------------------------------------------------------- */

static void begin_lists(ten_postgres_store *store, const enum ten_postgres_type *types, size_t count) {
    for (size_t i = 0; i < count; i++)
        ten_postgres_begin_list(&store->lists[i], types[i]);
}

/* The next parameters are the first `count` lists. */
static int add_lists(ten_postgres_store *store, ten_postgres_call *call, size_t count) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = ten_postgres_add_list(store, call, &store->lists[i]);
    return r;
}

static void add_key(ten_postgres_list *list, const char *namespace_name, ten_key key) {
    char text[TEN_RECORD_KEY_SIZE];
    (void)ten_record_key(text, namespace_name, key);
    ten_postgres_add_text(list, text);
}

static uint64_t version_of(uint64_t version) {
    return version == TEN_VERSION_ANY ? (uint64_t)-1 : version;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

/* The row that tells of the store. */
static void take_store(ten_postgres_store *store, int row) {
    const PGresult *rows = store->answer;
    ten_backend *base = &store->base;
    base->wall_ms = ten_postgres_number(rows, row, NUMBER);
    ten_copy_text(base->identity, sizeof base->identity, PQgetvalue(rows, row, KEY));
    const char *lost_ms = ten_postgres_text(rows, row, LEFT_MS);
    base->lost = lost_ms != NULL;
    base->lost_ms = lost_ms && strcmp(lost_ms, "0") == 0 ? 0 : TEN_FOREVER;
}

/* All but the key. */
static void take_record(const PGresult *rows, int row, ten_record *record) {
    const char *left = ten_postgres_text(rows, row, LEFT_MS);
    int64_t left_ms = left ? strtoll(left, NULL, 10) : INT64_MAX;
    record->version = ten_postgres_number(rows, row, VERSION);
    record->value = ten_postgres_text(rows, row, VALUE);
    record->name = PQgetvalue(rows, row, NAME);
    record->number = ten_postgres_number(rows, row, NUMBER);
    record->alive = record->version != 0 && left_ms > 0;
    record->left_ms = !record->alive ? 0 : left ? (uint64_t)left_ms : TEN_FOREVER;
    record->ended_ms = record->alive ? 0 : (uint64_t)(left ? -left_ms : 0);
}

/* Sends the call; *ret_row: the row that tells of the store. TEN_OTHER_EPOCH: nothing was done, because of that. */
static int ask(ten_postgres_store *store, ten_postgres_call *call, uint64_t deadline_ms, int *ret_row) {
    int r = ten_postgres_do(store, call, deadline_ms);
    if (r != TENURE_OK)
        return r;
    int row = PQnfields(store->answer) == COLUMNS ? PQntuples(store->answer) - 1 : -1;
    while (row >= 0 && ten_postgres_number(store->answer, row, PLACE) != 0)
        row--;
    if (row < 0)
        return ten_postgres_misunderstood(store);
    take_store(store, row);
    *ret_row = row;
    return PQgetvalue(store->answer, row, NAME)[0] == '\0' ? TENURE_OK : TEN_OTHER_EPOCH;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static int postgres_read(ten_backend *base, const char *namespace_name, ten_record *records, size_t count,
                         uint64_t timeout_ms) {
    static const enum ten_postgres_type types[] = {TEN_POSTGRES_TEXT};
    ten_postgres_store *store = self(base);
    ten_postgres_call call = {.what = "reading records", .statement = PG_READ, .count = 1};
    int row;
    begin_lists(store, types, TEN_COUNT(types));
    for (size_t i = 0; i < count; i++)
        add_key(&store->lists[0], namespace_name, records[i].key);
    int r = add_lists(store, &call, TEN_COUNT(types));
    if (r == TENURE_OK)
        r = ask(store, &call, deadline_of(timeout_ms), &row);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        records[i] = (ten_record){.key = records[i].key, .name = ""};
    for (int i = 0; r == TENURE_OK && i < PQntuples(store->answer); i++) {
        uint64_t place = ten_postgres_number(store->answer, i, PLACE);
        if (place > count)
            return ten_postgres_misunderstood(store);
        if (place > 0)
            take_record(store->answer, i, &records[place - 1]);
    }
    return r;
}

#define SPACES 3 /* beside enum ten_scan_names, for the function */

static int postgres_scan(ten_backend *base, const ten_scan *scan, ten_record_fn each, void *userdata,
                         uint64_t timeout_ms) {
    ten_postgres_store *store = self(base);
    bool spaces = scan->namespace_name == NULL;
    char after[TEN_RECORD_KEY_SIZE];
    char before[TEN_RECORD_KEY_SIZE] = "";
    char limit[TEN_DIGITS_SIZE];
    char names[TEN_DIGITS_SIZE];
    size_t size = 0;
    if (spaces) {
        snprintf(after, sizeof after, "%s%s", scan->after, scan->after[0] ? " 0" : "");
    } else {
        size = ten_record_key(after, scan->namespace_name, (ten_key){scan->kind, scan->after});
        (void)ten_record_key(before, scan->namespace_name, (ten_key){scan->kind + 1, ""});
    }
    ten_postgres_call call = {.what = "listing records",
                              .statement = PG_SCAN,
                              .values = {NULL, after, before, ten_digits(limit, ten_min_u64(scan->limit, INT32_MAX)),
                                         ten_digits(names, spaces ? SPACES : (uint64_t)scan->names)},
                              .count = 5};
    int r = ten_postgres_do(store, &call, deadline_of(timeout_ms));
    if (r == TENURE_OK && PQnfields(store->answer) != COLUMNS)
        r = ten_postgres_misunderstood(store);
    for (int i = 0; r == TENURE_OK && i < PQntuples(store->answer); i++) {
        char *key = PQgetvalue(store->answer, i, KEY);
        ten_record record = {.key = {scan->kind, key + size}};
        if (spaces)
            key[strcspn(key, " ")] = '\0';
        take_record(store->answer, i, &record);
        r = each(&record, userdata);
    }
    return r;
}

/* ---- commit -------------------------------------------------------------------------------------------- */

/* The lists of a commit, in the order of the function's parameters. */
enum {
    CHECK_CHANGE,
    CHECK_KEY,
    CHECK_VERSION,
    CHECK_LIFE,
    PUT_CHANGE,
    PUT_KEY,
    PUT_VALUE,
    PUT_NAME,
    PUT_NUMBER,
    PUT_LIFE,
    PUT_TTL,
    PUT_AS_IT_IS,
    PUT_WITH,
    OTHER_CHANGE,
    OTHER_KEY,
    OTHER_REMOVES,
    ENTRY_CHANGE,
    ENTRY_ID,
    ENTRY_TEXT,
};

static const enum ten_postgres_type commit_types[TEN_POSTGRES_LISTS] = {
    [CHECK_CHANGE] = TEN_POSTGRES_INT4,  [CHECK_KEY] = TEN_POSTGRES_TEXT,    [CHECK_VERSION] = TEN_POSTGRES_INT8,
    [CHECK_LIFE] = TEN_POSTGRES_INT2,    [PUT_CHANGE] = TEN_POSTGRES_INT4,   [PUT_KEY] = TEN_POSTGRES_TEXT,
    [PUT_VALUE] = TEN_POSTGRES_TEXT,     [PUT_NAME] = TEN_POSTGRES_TEXT,     [PUT_NUMBER] = TEN_POSTGRES_INT8,
    [PUT_LIFE] = TEN_POSTGRES_INT2,      [PUT_TTL] = TEN_POSTGRES_INT8,      [PUT_AS_IT_IS] = TEN_POSTGRES_BOOL,
    [PUT_WITH] = TEN_POSTGRES_TEXT,      [OTHER_CHANGE] = TEN_POSTGRES_INT4, [OTHER_KEY] = TEN_POSTGRES_TEXT,
    [OTHER_REMOVES] = TEN_POSTGRES_BOOL, [ENTRY_CHANGE] = TEN_POSTGRES_INT4, [ENTRY_ID] = TEN_POSTGRES_TEXT,
    [ENTRY_TEXT] = TEN_POSTGRES_TEXT,
};

/* What a commit is made of, and which locks it needs beside those of rows. */
struct composition {
    const char *namespace_name;
    ten_postgres_list *lists;
    bool alone;  /* it writes the epoch or the quarantine */
    bool begins; /* it writes the epoch */
    bool makes;  /* it makes records */
    bool misses; /* it relies on the absence of others */
};

static void add_write(struct composition *composition, uint64_t number, const ten_write *write) {
    const ten_life *life = &write->life;
    ten_postgres_list *lists = composition->lists;
    composition->alone |= write->key.kind <= TEN_KIND_QUARANTINE;
    composition->begins |= write->key.kind == TEN_KIND_NAMESPACE;
    if (write->kind != TEN_WRITE_PUT) {
        ten_postgres_add_number(&lists[OTHER_CHANGE], number);
        add_key(&lists[OTHER_KEY], composition->namespace_name, write->key);
        ten_postgres_add_number(&lists[OTHER_REMOVES], write->kind == TEN_WRITE_REMOVE);
        return;
    }
    ten_postgres_add_number(&lists[PUT_CHANGE], number);
    add_key(&lists[PUT_KEY], composition->namespace_name, write->key);
    ten_postgres_add_text(&lists[PUT_VALUE], write->value);
    ten_postgres_add_text(&lists[PUT_NAME], write->name);
    ten_postgres_add_number(&lists[PUT_NUMBER], write->number);
    ten_postgres_add_number(&lists[PUT_LIFE], life->kind);
    ten_postgres_add_number(&lists[PUT_TTL], life->ttl_ms);
    ten_postgres_add_number(&lists[PUT_AS_IT_IS], life->as_it_is);
    if (life->with.id)
        add_key(&lists[PUT_WITH], composition->namespace_name, life->with);
    else
        ten_postgres_add_text(&lists[PUT_WITH], NULL);
}

static bool is_put(const ten_commit_change *change, ten_key key) {
    for (size_t i = 0; i < change->write_count; i++)
        if (change->writes[i].kind == TEN_WRITE_PUT && ten_key_is(change->writes[i].key, key))
            return true;
    return false;
}

static void add_change(struct composition *composition, uint64_t number, const ten_commit_change *change) {
    ten_postgres_list *lists = composition->lists;
    for (size_t i = 0; i < change->check_count; i++) {
        const ten_check *check = &change->checks[i];
        bool may_be_absent = check->version == 0 || check->version == TEN_VERSION_ANY;
        ten_postgres_add_number(&lists[CHECK_CHANGE], number);
        add_key(&lists[CHECK_KEY], composition->namespace_name, check->key);
        ten_postgres_add_number(&lists[CHECK_VERSION], version_of(check->version));
        ten_postgres_add_number(&lists[CHECK_LIFE], check->life);
        if (check->key.kind <= TEN_KIND_QUARANTINE || !may_be_absent)
            continue;
        if (is_put(change, check->key))
            composition->makes = true;
        else
            composition->misses = true;
    }
    for (size_t i = 0; i < change->write_count; i++)
        add_write(composition, number, &change->writes[i]);
    for (size_t i = 0; i < change->entry_count; i++) {
        ten_postgres_add_number(&lists[ENTRY_CHANGE], number);
        ten_postgres_add_text(&lists[ENTRY_ID], change->entries[i].id);
        ten_postgres_add_text(&lists[ENTRY_TEXT], change->entries[i].text);
    }
}

static int take_conflicts(ten_postgres_store *store, const ten_commit *commit) {
    size_t change = 0;
    size_t before = 0; /* checks of the changes before it */
    for (int i = 0; i < PQntuples(store->answer); i++) {
        uint64_t place = ten_postgres_number(store->answer, i, PLACE);
        if (place == 0)
            continue;
        while (change < commit->count && place > before + commit->changes[change].check_count)
            before += commit->changes[change++].check_count;
        if (change == commit->count || place <= before)
            return ten_postgres_misunderstood(store);
        ten_check *check = &commit->changes[change].checks[place - before - 1];
        commit->changes[change].conflict = true;
        check->present = (ten_record){.key = check->key};
        take_record(store->answer, i, &check->present);
    }
    return TENURE_OK;
}

static int postgres_commit(ten_backend *base, ten_commit *commit, uint64_t timeout_ms) {
    ten_postgres_store *store = self(base);
    struct composition composition = {.namespace_name = commit->namespace_name, .lists = store->lists};
    char epoch[TEN_DIGITS_SIZE];
    char least[TEN_DIGITS_SIZE];
    char count[TEN_DIGITS_SIZE];
    int row;
    begin_lists(store, commit_types, TEN_POSTGRES_LISTS);
    for (size_t i = 0; i < commit->count; i++)
        add_change(&composition, i + 1, &commit->changes[i]);
    ten_postgres_call call = {.what = "writing records",
                              .statement = PG_COMMIT_RECORDS,
                              .values = {NULL, commit->namespace_name, commit->identity,
                                         ten_digits(epoch, commit->epoch), ten_digits(least, commit->least_number),
                                         ten_digits(count, commit->count), composition.alone ? "t" : "f",
                                         composition.begins ? "t" : "f", composition.makes ? "t" : "f",
                                         composition.misses ? "t" : "f"},
                              .count = 10};
    int r = add_lists(store, &call, TEN_POSTGRES_LISTS);
    if (r == TENURE_OK)
        r = ask(store, &call, deadline_of(timeout_ms), &row);
    if (r != TENURE_OK)
        return r;
    r = take_conflicts(store, commit);
    uint64_t version = ten_postgres_number(store->answer, row, VERSION);
    for (size_t i = 0; i < commit->count; i++)
        for (size_t j = 0; j < commit->changes[i].write_count; j++)
            commit->changes[i].writes[j].version = commit->changes[i].writes[j].kind == TEN_WRITE_REMOVE ? 0 : version;
    return r;
}

/* ---- touch --------------------------------------------------------------------------------------------- */

/* How much of its TTL a life has left when it is extended in time, and the statement may take. */
#define SLACK_PART 4u

static int by_key(const void *a, const void *b) {
    const ten_touch *first = *(ten_touch *const *)a;
    const ten_touch *second = *(ten_touch *const *)b;
    return first->key.kind != second->key.kind ? (int)first->key.kind - (int)second->key.kind
                                               : strcmp(first->key.id, second->key.id);
}

/* The lists of a touch, in the order of the function's parameters. */
enum { TOUCH_KEY, TOUCH_VERSION, TOUCH_NAME, TOUCH_TTL, TOUCH_LISTS };

/* A heartbeat, or renewals of one holder, as it sends them all the time; each record once. */
static bool is_usual(ten_touch *const *touches, size_t count) {
    for (size_t i = 0; i < count; i++)
        if ((touches[i]->version == TEN_VERSION_ANY && count > 1) || touches[i]->ttl_ms != touches[0]->ttl_ms ||
            strcmp(touches[i]->name, touches[0]->name) != 0 || (i > 0 && by_key(&touches[i - 1], &touches[i]) == 0))
            return false;
    return count > 0 && touches[0]->ttl_ms >= SLACK_PART;
}

static int take_touches(ten_postgres_store *store, ten_touch *const *touches, size_t count) {
    for (int i = 0; i < PQntuples(store->answer); i++) {
        uint64_t place = ten_postgres_number(store->answer, i, PLACE);
        if (place > count)
            return ten_postgres_misunderstood(store);
        if (place == 0)
            continue;
        touches[place - 1]->extended = ten_postgres_number(store->answer, i, NUMBER) == 1;
        touches[place - 1]->present = ten_postgres_number(store->answer, i, VERSION);
    }
    return TENURE_OK;
}

static int send_touches(ten_postgres_store *store, const char *namespace_name, const char *identity, uint64_t epoch,
                        ten_touch *const *touches, size_t count, bool usual, uint64_t deadline_ms) {
    static const enum ten_postgres_type types[TOUCH_LISTS] = {[TOUCH_KEY] = TEN_POSTGRES_TEXT,
                                                              [TOUCH_VERSION] = TEN_POSTGRES_INT8,
                                                              [TOUCH_NAME] = TEN_POSTGRES_TEXT,
                                                              [TOUCH_TTL] = TEN_POSTGRES_INT8};
    char number[TEN_DIGITS_SIZE];
    char slack[TEN_DIGITS_SIZE];
    int row;
    ten_postgres_list *lists = store->lists;
    begin_lists(store, types, TOUCH_LISTS);
    for (size_t i = 0; i < count; i++) {
        add_key(&lists[TOUCH_KEY], namespace_name, touches[i]->key);
        ten_postgres_add_number(&lists[TOUCH_VERSION], version_of(touches[i]->version));
        touches[i]->extended = true;
        touches[i]->present = touches[i]->version;
        if (i > 0 && usual)
            continue; /* the rest is the same for all */
        ten_postgres_add_text(&lists[TOUCH_NAME], touches[i]->name);
        ten_postgres_add_number(&lists[TOUCH_TTL], touches[i]->ttl_ms);
    }
    ten_postgres_call call = {.what = "extending records",
                              .statement = PG_TOUCH,
                              .values = {NULL, namespace_name, identity, ten_digits(number, epoch),
                                         ten_digits(slack, usual ? touches[0]->ttl_ms / SLACK_PART : 0)},
                              .count = 5};
    int r = add_lists(store, &call, TOUCH_LISTS);
    if (r == TENURE_OK)
        r = ask(store, &call, deadline_ms, &row);
    if (r != TENURE_OK)
        return r;
    ten_postgres_link_note_process(store->link, ten_postgres_number(store->answer, row, VALUE));
    return take_touches(store, touches, count);
}

/* In the order of their keys, as everybody takes locks. */
static int postgres_touch(ten_backend *base, const char *namespace_name, const char *identity, uint64_t epoch,
                          ten_touch *touches, size_t count, uint64_t timeout_ms) {
    ten_postgres_store *store = self(base);
    ten_touch **sorted = ten_calloc(count + 1, sizeof(ten_touch *));
    uint64_t deadline_ms = deadline_of(timeout_ms);
    bool in_order = true;
    if (!sorted)
        return ten_postgres_no_memory(store);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &touches[i];
        in_order &= i == 0 || by_key(&sorted[i - 1], &sorted[i]) <= 0;
    }
    if (!in_order)
        qsort(sorted, count, sizeof *sorted, by_key);
    bool usual = is_usual(sorted, count);
    int r = send_touches(store, namespace_name, identity, epoch, sorted, count, usual, deadline_ms);
    if (r == TEN_POSTGRES_IN_VAIN)
        r = send_touches(store, namespace_name, identity, epoch, sorted, count, false, deadline_ms);
    ten_free(sorted);
    return r;
}

/* ---- the feed ------------------------------------------------------------------------------------------ */

static int postgres_feed(ten_backend *base, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                         void *userdata, ten_feed_range *ret_range, uint64_t timeout_ms) {
    ten_postgres_store *store = self(base);
    char number[TEN_DIGITS_SIZE];
    char most[TEN_DIGITS_SIZE];
    int row;
    ten_postgres_call call = {.what = "reading the feed",
                              .statement = PG_FEED,
                              .values = {NULL, namespace_name, ten_digits(number, ten_min_u64(after, INT64_MAX)),
                                         ten_digits(most, ten_min_u64(limit, INT32_MAX))},
                              .count = 4};
    ten_notice_watch_reconnect(base); /* what happens from now on is heard, or read */
    int r = ask(store, &call, deadline_of(timeout_ms), &row);
    if (r == TENURE_OK)
        *ret_range = (ten_feed_range){.before = ten_postgres_number(store->answer, row, VALUE),
                                      .last = ten_postgres_number(store->answer, row, VERSION)};
    for (int i = 0; r == TENURE_OK && i < PQntuples(store->answer); i++) {
        ten_entry entry = {.number = ten_postgres_number(store->answer, i, VERSION),
                           .at_ms = ten_postgres_number(store->answer, i, NUMBER),
                           .id = ten_postgres_text(store->answer, i, KEY),
                           .text = PQgetvalue(store->answer, i, VALUE)};
        if (ten_postgres_number(store->answer, i, PLACE) != 0)
            r = each(&entry, userdata);
    }
    return r;
}

static int postgres_unfeed(ten_backend *base, const char *namespace_name, const char *const *ids, size_t count,
                           uint64_t timeout_ms) {
    ten_postgres_store *store = self(base);
    char after[TEN_DIGITS_SIZE];
    ten_postgres_call call = {
        .what = "clearing the feed", .statement = PG_UNFEED, .values = {NULL, namespace_name}, .count = 2};
    ten_postgres_begin_list(&store->lists[0], TEN_POSTGRES_TEXT);
    for (size_t i = 0; i < count; i++)
        ten_postgres_add_text(&store->lists[0], ids[i]);
    int r = add_lists(store, &call, 1);
    uint64_t place = 0;
    call.count++;
    do {
        call.values[call.count - 1] = ten_digits(after, place);
        if (r == TENURE_OK)
            r = ten_postgres_do(store, &call, deadline_of(timeout_ms));
        place = r == TENURE_OK && PQntuples(store->answer) == 1 ? ten_postgres_number(store->answer, 0, 0) : 0;
    } while (place > 0);
    return r;
}

/* ---- the handle ---------------------------------------------------------------------------------------- */

static void postgres_close(ten_backend *base) {
    ten_postgres_store *store = self(base);
    ten_notice_watch_close(base);
    ten_postgres_disconnect(store);
    ten_postgres_settings_free(store->settings);
    ten_postgres_settings_free(store->listen_settings);
    PQclear(store->answer);
    for (size_t i = 0; i < TEN_POSTGRES_LISTS; i++)
        ten_buf_free(&store->lists[i].data);
}

static int take_listen_url(const ten_url *url, ten_postgres_store *store, ten_error *error) {
    const char *text = ten_url_option(url, "listen_url");
    ten_url parsed;
    if (!text)
        return TENURE_OK;
    int r = ten_url_parse(text, &parsed, error);
    if (r < 0)
        return r;
    if (strcmp(parsed.scheme, "postgres") != 0 && strcmp(parsed.scheme, "postgresql") != 0)
        r = ten_fail(error, TENURE_E_INVALID, "listen_url is a postgres:// URL, with %%26 for & inside of it");
    else
        r = ten_postgres_settings_make(&parsed, &store->listen_settings, error);
    ten_url_free(&parsed);
    return r;
}

static int postgres_open(ten_backend *base, const ten_url *url, uint64_t timeout_ms) {
    ten_postgres_store *store = self(base);
    uint64_t deadline_ms = deadline_of(timeout_ms);
    ten_notice_watch_init(base, &ten_postgres_notice_ops);
    if (!url->hosts)
        return ten_fail(base->error, TENURE_E_INVALID, "a PostgreSQL URL looks like %s://user@host:5432/database",
                        url->scheme);
    int r = ten_postgres_settings_make(url, &store->settings, base->error);
    if (r == TENURE_OK)
        r = take_listen_url(url, store, base->error);
    if (r == TENURE_OK)
        r = ten_postgres_connect(store, deadline_ms);
    return r < 0 ? r : ten_postgres_migrate(store, deadline_ms);
}

static const ten_backend_ops postgres_ops = {
    .size = sizeof(ten_postgres_store),
    .confirms = true,
    .open = postgres_open,
    .close = postgres_close,
    .read = postgres_read,
    .commit = postgres_commit,
    .touch = postgres_touch,
    .scan = postgres_scan,
    .feed = postgres_feed,
    .unfeed = postgres_unfeed,
    .watch = ten_notice_watch_get,
    .watch_clear = ten_notice_watch_clear,
    .check = ten_postgres_check,
};

const ten_store_ops ten_postgres_ops =
    TEN_RECORD_STORE("postgres", &postgres_ops,
                     .capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS,
                                      .shared_between_processes = true,
                                      .survives_restart = true,
                                      .hands = true,
                                      .sessions = true,
                                      .expiry_clock = "the PostgreSQL server's clock, read after the row is locked",
                                      .change_notice = "LISTEN and NOTIFY"});
