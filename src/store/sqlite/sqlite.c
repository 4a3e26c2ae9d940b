/*
 * The SQLite backend: records in one database file, for processes of one host. A commit is one transaction. The file,
 * the clock and its identity are sqlite_db.c's and sqlite_epoch.c's.
 *
 * A transaction of touches is committed without waiting for the disk. Losing it with the power is harmless: every
 * holder on this host is gone then, too, and after a reboot a life begins anew. Commits wait for the disk, so that a
 * token once granted is never granted again.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "store/record_store.h"
#include "store/sqlite/sqlite_db.h"

#define HISTORY_STEP 5000u /* changes that one step of unfeed() looks at */
#define NEVER_MS     ((uint64_t)INT64_MAX)

/* The columns of TEN_SQL_GET and TEN_SQL_SCAN. */
enum { KEY, VERSION, NAME, NUMBER, ENDS_MS, VALUE };

static ten_db *self(ten_backend *base) {
    return (ten_db *)base;
}

/* Nothing was written, unless it has become another store. */
static int end_unchanged(ten_db *db, int r) {
    ten_error none = *db->base.error;
    if (db->has_changed) {
        int ended = ten_db_end(db, TENURE_OK);
        return ended < 0 ? ended : r;
    }
    (void)ten_db_end(db, TENURE_E_CANCELLED);
    *db->base.error = none;
    return r;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static sqlite3_stmt *statement_of(ten_db *db, enum ten_sql id, const char *namespace_name, ten_key key) {
    sqlite3_stmt *statement = ten_db_statement(db, id);
    (void)ten_record_key(db->key, namespace_name, key);
    ten_bind_text(statement, 1, db->key);
    return statement;
}

static void read_life(const ten_db *db, uint64_t ends_ms, ten_record *record) {
    record->alive = ends_ms > db->now_ms;
    record->left_ms = ends_ms == NEVER_MS ? TEN_FOREVER : ten_sub_saturating(ends_ms, db->now_ms);
    record->ended_ms = ten_sub_saturating(db->now_ms, ends_ms);
}

/* The texts are SQLite's, until the next step. */
static int read_columns(ten_db *db, sqlite3_stmt *statement, ten_record *record) {
    record->key.id = ten_column_text(statement, KEY);
    record->version = ten_column_u64(statement, VERSION);
    record->name = ten_column_text(statement, NAME);
    record->number = ten_column_u64(statement, NUMBER);
    read_life(db, ten_column_u64(statement, ENDS_MS), record);
    record->value = ten_column_text(statement, VALUE);
    /* SQLite gives NULL if it has no memory for a text: that must not pass for an absent one. */
    return record->key.id && record->name && record->value ? TENURE_OK : ten_fail_memory(db->base.error, "a record");
}

static int get(ten_db *db, const char *namespace_name, ten_record *record) {
    ten_key key = record->key;
    sqlite3_stmt *statement = statement_of(db, TEN_SQL_GET, namespace_name, key);
    *record = (ten_record){.key = key, .name = ""};
    int found = ten_db_step(db, statement);
    if (found > 0) {
        int r = read_columns(db, statement, record);
        record->key = key;
        record->value = r == TENURE_OK ? ten_arena_text(&db->texts, record->value) : NULL;
        record->name = record->value ? ten_arena_text(&db->texts, record->name) : NULL;
        found = record->name ? 1 : ten_fail_memory(db->base.error, "a record");
    }
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int sqlite_read(ten_backend *base, const char *namespace_name, ten_record *records, size_t count,
                       uint64_t timeout_ms) {
    ten_db *db = self(base);
    ten_arena_reset(&db->texts);
    int r = ten_db_begin_read(db, timeout_ms);
    if (r < 0)
        return r;
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = get(db, namespace_name, &records[i]);
    return ten_db_end(db, r);
}

static int scan_namespaces(ten_db *db, const ten_scan *scan, ten_record_fn each, void *userdata) {
    char name[TENURE_NAMESPACE_MAX + 1];
    int r = TENURE_OK;
    ten_copy_text(name, sizeof name, scan->after);
    for (size_t given = 0; r == TENURE_OK && given < scan->limit; given++) {
        sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_NEXT_NAMESPACE);
        char behind[TENURE_NAMESPACE_MAX + 2];
        snprintf(behind, sizeof behind, "%s%s", name, name[0] ? "!" : "");
        ten_bind_text(statement, 1, behind);
        r = ten_db_step(db, statement);
        const char *found = r > 0 ? ten_column_text(statement, 0) : NULL;
        if (found) {
            ten_copy_text(name, sizeof name, found);
            name[strcspn(name, " ")] = '\0';
        }
        sqlite3_reset(statement);
        if (r < 0 || !found)
            return r < 0 ? r : TENURE_OK;
        ten_record record = {.key = {TEN_KIND_NAMESPACE, ""}};
        r = get(db, name, &record);
        record.key.id = name;
        if (r == TENURE_OK && record.version)
            r = each(&record, userdata);
    }
    return r;
}

static int scan_records(ten_db *db, const ten_scan *scan, ten_record_fn each, void *userdata) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_SCAN);
    char from[TEN_RECORD_KEY_SIZE];
    (void)ten_record_key(from, scan->namespace_name, (ten_key){scan->kind, scan->after});
    size_t size = ten_record_key(db->key, scan->namespace_name, (ten_key){scan->kind + 1, ""});
    ten_bind_text(statement, 1, from);
    ten_bind_text(statement, 2, db->key);
    ten_bind_u64(statement, 3, scan->limit);
    ten_bind_u64(statement, 4, (uint64_t)scan->names);
    int r;
    int stopped = 0;
    while (stopped == 0 && (r = ten_db_step(db, statement)) > 0) {
        ten_record record = {.key.kind = scan->kind};
        stopped = read_columns(db, statement, &record);
        if (stopped < 0)
            break;
        record.key.id += size;
        stopped = each(&record, userdata);
    }
    sqlite3_reset(statement);
    return stopped ? stopped : r;
}

static int sqlite_scan(ten_backend *base, const ten_scan *scan, ten_record_fn each, void *userdata,
                       uint64_t timeout_ms) {
    ten_db *db = self(base);
    ten_arena_reset(&db->texts);
    int r = ten_db_begin_read(db, timeout_ms);
    if (r < 0)
        return r;
    r = scan->namespace_name ? scan_records(db, scan, each, userdata) : scan_namespaces(db, scan, each, userdata);
    return ten_db_end(db, r);
}

/* ---- commit -------------------------------------------------------------------------------------------- */

/* The version and the end that a record has; 0 and 0: it is absent. With a name: one that has another is dead. */
static int look(ten_db *db, const char *namespace_name, ten_key key, const char *name, uint64_t *ret_version,
                uint64_t *ret_ends_ms) {
    sqlite3_stmt *statement = statement_of(db, TEN_SQL_GET, namespace_name, key);
    int found = ten_db_step(db, statement);
    *ret_version = found > 0 ? ten_column_u64(statement, VERSION) : 0;
    *ret_ends_ms = found > 0 ? ten_column_u64(statement, ENDS_MS) : 0;
    const char *has = found > 0 && name ? ten_column_text(statement, NAME) : name;
    if (name && (!has || strcmp(has, name) != 0))
        *ret_ends_ms = 0;
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int check_epoch(ten_db *db, const char *namespace_name, const char *identity, uint64_t epoch, bool is_written) {
    if (strcmp(db->row.identity, identity) != 0)
        return TEN_OTHER_EPOCH;
    if (is_written)
        return TENURE_OK;
    sqlite3_stmt *statement = statement_of(db, TEN_SQL_EPOCH, namespace_name, (ten_key){TEN_KIND_NAMESPACE, ""});
    ten_bind_text(statement, 2, identity);
    ten_bind_u64(statement, 3, epoch);
    int found = ten_db_numbers(db, statement, NULL, 0);
    return found < 0 ? found : found > 0 ? TENURE_OK : TEN_OTHER_EPOCH;
}

/* A client that makes up targets or instances must not fill the disk, so that nobody can renew. */
static bool grows(const ten_commit_change *change, const ten_write *write) {
    const ten_check *check = ten_check_of(change, write->key);
    enum ten_kind kind = write->key.kind;
    return write->kind == TEN_WRITE_PUT &&
           (kind == TEN_KIND_TARGET || (kind > TEN_KIND_QUARANTINE && check && check->present.version == 0));
}

/* Until it is a conflict, what is present has the version and the end, for end_of(). */
static int judge(ten_db *db, const char *namespace_name, ten_commit_change *change) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < change->check_count; i++) {
        ten_check *check = &change->checks[i];
        uint64_t version;
        uint64_t ends_ms;
        r = look(db, namespace_name, check->key, NULL, &version, &ends_ms);
        bool alive = ends_ms > db->now_ms;
        change->conflict |= (check->version != TEN_VERSION_ANY && check->version != version) ||
                            (check->life != TEN_CHECK_EITHER && alive != (check->life == TEN_CHECK_ALIVE));
        check->present = (ten_record){.key = check->key, .version = version, .left_ms = ends_ms};
    }
    for (size_t i = 0; r == TENURE_OK && change->conflict && i < change->check_count; i++)
        r = get(db, namespace_name, &change->checks[i].present);
    for (size_t i = 0; r == TENURE_OK && !change->conflict && i < change->write_count; i++)
        if (grows(change, &change->writes[i]) && !ten_db_has_room(db))
            change->error = ten_db_say_full(db);
    return r;
}

static uint64_t end_found(const ten_commit_change *change, ten_key key) {
    const ten_check *check = ten_check_of(change, key);
    return check ? check->present.left_ms : 0;
}

/* The end of a life that is written now, and how long it is. */
static uint64_t end_of(ten_db *db, const ten_commit_change *change, const ten_write *write, uint64_t *ret_ttl_ms) {
    const ten_life *life = &write->life;
    uint64_t before_ms = end_found(change, write->key);
    uint64_t other_ms = life->with.id ? end_found(change, life->with) : 0;
    *ret_ttl_ms = 0;
    if (life->kind == TEN_LIFE_ENDLESS)
        return NEVER_MS;
    if (life->kind == TEN_LIFE_ENDED) {
        ten_db_note_released(db, before_ms);
        return db->now_ms;
    }
    uint64_t ends_ms = life->as_it_is ? before_ms : 0;
    if (other_ms > db->now_ms)
        ends_ms = ten_max_u64(ends_ms, other_ms);
    if (life->ttl_ms)
        ends_ms = ten_max_u64(ends_ms, db->now_ms + life->ttl_ms);
    *ret_ttl_ms = ends_ms == NEVER_MS ? 0 : ten_max_u64(life->ttl_ms, ten_sub_saturating(ends_ms, db->now_ms));
    if (!life->only_keeps && ends_ms != NEVER_MS && ends_ms != before_ms)
        ten_db_note_end(db, ends_ms);
    return ends_ms;
}

static int put(ten_db *db, const char *namespace_name, const ten_commit_change *change, const ten_write *write) {
    uint64_t ttl_ms;
    uint64_t ends_ms = end_of(db, change, write, &ttl_ms);
    sqlite3_stmt *statement = statement_of(db, TEN_SQL_PUT, namespace_name, write->key);
    bool is_kept = write->life.kind == TEN_LIFE_LATEST && write->life.only_keeps;
    ten_bind_u64(statement, 2, db->row.generation + 1);
    ten_bind_text(statement, 3, write->name);
    ten_bind_u64(statement, 4, write->number);
    ten_bind_u64(statement, 5, ends_ms);
    ten_bind_u64(statement, 6, ttl_ms);
    ten_bind_u64(statement, 7, is_kept ? ends_ms : 0);
    ten_bind_text(statement, 8, write->value);
    return ten_db_run(db, statement);
}

static int write_one(ten_db *db, const char *namespace_name, const ten_commit_change *change, ten_write *write) {
    write->version = db->row.generation + 1;
    if (write->kind == TEN_WRITE_PUT)
        return put(db, namespace_name, change, write);
    bool removes = write->kind == TEN_WRITE_REMOVE;
    sqlite3_stmt *statement = statement_of(db, removes ? TEN_SQL_REMOVE : TEN_SQL_RAISE, namespace_name, write->key);
    if (removes)
        write->version = 0;
    else
        ten_bind_u64(statement, 2, write->version);
    return ten_db_run(db, statement);
}

static int carry_out(ten_db *db, const ten_commit *commit, ten_commit_change *change) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < change->write_count; i++)
        r = write_one(db, commit->namespace_name, change, &change->writes[i]);
    for (size_t i = 0; r == TENURE_OK && i < change->entry_count; i++)
        r = ten_db_add_change(db, commit->namespace_name, &change->entries[i], commit->least_number);
    return r;
}

static int sqlite_commit(ten_backend *base, ten_commit *commit, uint64_t timeout_ms) {
    ten_db *db = self(base);
    ten_arena_reset(&db->texts);
    int r = ten_db_begin_write(db, true, timeout_ms);
    if (r < 0)
        return r;
    r = check_epoch(db, commit->namespace_name, commit->identity, commit->epoch, ten_commit_writes_namespace(commit));
    if (r > 0)
        return end_unchanged(db, r);
    size_t written = 0;
    for (size_t i = 0; r == TENURE_OK && i < commit->count; i++)
        r = judge(db, commit->namespace_name, &commit->changes[i]);
    for (size_t i = 0; r == TENURE_OK && i < commit->count; i++) {
        if (commit->changes[i].conflict || commit->changes[i].error)
            continue;
        r = carry_out(db, commit, &commit->changes[i]);
        written++;
    }
    return r == TENURE_OK && written == 0 ? end_unchanged(db, r) : ten_db_end(db, r);
}

/* One statement for nearly every renewal. A heartbeat goes on whatever the version is, so it looks first. */
static int touch_one(ten_db *db, const char *namespace_name, ten_touch *touch) {
    bool any = touch->version == TEN_VERSION_ANY;
    uint64_t ends_ms = db->now_ms + touch->ttl_ms;
    uint64_t before_ms;
    int r = TENURE_OK;
    touch->present = touch->version;
    touch->extended = false;
    if (any)
        r = look(db, namespace_name, touch->key, touch->name, &touch->present, &before_ms);
    if (r < 0 || (any && before_ms <= db->now_ms))
        return r;
    sqlite3_stmt *statement = statement_of(db, TEN_SQL_TOUCH, namespace_name, touch->key);
    ten_bind_u64(statement, 2, ends_ms);
    ten_bind_u64(statement, 3, db->now_ms + 1);
    ten_bind_u64(statement, 4, touch->present);
    r = ten_db_run(db, statement);
    touch->extended = r == TENURE_OK && sqlite3_changes(db->connection) > 0;
    if (r == TENURE_OK && !touch->extended)
        r = look(db, namespace_name, touch->key, touch->name, &touch->present, &before_ms);
    if (touch->extended)
        ten_db_note_end(db, ends_ms);
    return r;
}

static int sqlite_touch(ten_backend *base, const char *namespace_name, const char *identity, uint64_t epoch,
                        ten_touch *touches, size_t count, uint64_t timeout_ms) {
    ten_db *db = self(base);
    ten_arena_reset(&db->texts);
    int r = ten_db_begin_write(db, false, timeout_ms);
    if (r < 0)
        return r;
    r = namespace_name ? check_epoch(db, namespace_name, identity, epoch, false) : TENURE_OK;
    if (r > 0)
        return end_unchanged(db, r);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = touch_one(db, namespace_name, &touches[i]);
    return ten_db_end(db, r);
}

/* ---- the feed ------------------------------------------------------------------------------------------ */

static int list_changes(ten_db *db, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                        void *userdata) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_LIST_CHANGES);
    ten_bind_u64(statement, 1, after);
    ten_bind_text(statement, 2, namespace_name);
    ten_bind_u64(statement, 3, limit);
    int r;
    int stopped = 0;
    while (stopped == 0 && (r = ten_db_step(db, statement)) > 0) {
        ten_entry entry = {.number = ten_column_u64(statement, 0),
                           .at_ms = ten_column_u64(statement, 1),
                           .id = ten_column_text(statement, 2),
                           .text = ten_column_text(statement, 3)};
        stopped = entry.text ? each(&entry, userdata) : ten_fail_memory(db->base.error, "a change");
    }
    sqlite3_reset(statement);
    return stopped ? stopped : r;
}

static int sqlite_feed(ten_backend *base, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                       void *userdata, ten_feed_range *ret_range, uint64_t timeout_ms) {
    ten_db *db = self(base);
    int r = ten_db_begin_read(db, timeout_ms);
    if (r < 0)
        return r;
    uint64_t range[2];
    r = ten_db_numbers(db, ten_db_statement(db, TEN_SQL_CHANGE_RANGE), range, 2);
    r = r < 0 ? r : TENURE_OK;
    *ret_range = (ten_feed_range){.before = range[0], .last = range[1]};
    bool missing = after < ret_range->before || after > ret_range->last;
    if (r == TENURE_OK && !missing && limit > 0)
        r = list_changes(db, namespace_name, after, limit, each, userdata);
    return ten_db_end(db, r);
}

/* A step behind that cursor, which moves on; 0 afterwards: it was the last. */
static int blank(ten_db *db, const char *namespace_name, const char *ids, uint64_t *place) {
    uint64_t end;
    sqlite3_stmt *next = ten_db_statement(db, TEN_SQL_NEXT_CHANGES);
    ten_bind_u64(next, 1, *place);
    ten_bind_u64(next, 2, HISTORY_STEP);
    int found = ten_db_numbers(db, next, &end, 1);
    if (found < 0)
        return found;
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_BLANK_CHANGES);
    ten_bind_text(statement, 1, namespace_name);
    ten_bind_u64(statement, 2, *place);
    ten_bind_u64(statement, 3, end ? end : INT64_MAX);
    ten_bind_text(statement, 4, ids);
    *place = end;
    return ten_db_run(db, statement);
}

static int sqlite_unfeed(ten_backend *base, const char *namespace_name, const char *const *ids, size_t count,
                         uint64_t timeout_ms) {
    ten_db *db = self(base);
    TEN_CLEANUP(ten_buf_free) ten_buf list = {0};
    for (size_t i = 0; i < count; i++) {
        ten_buf_char(&list, i ? ',' : '[');
        ten_json_string(&list, ids[i]);
    }
    ten_buf_char(&list, ']');
    if (list.failed)
        return ten_fail_memory(base->error, "a list of targets");
    uint64_t place = 0;
    int r;
    do {
        r = ten_db_begin_write(db, true, timeout_ms);
        if (r == TENURE_OK)
            r = ten_db_end(db, blank(db, namespace_name, ten_buf_string(&list), &place));
    } while (r == TENURE_OK && place > 0);
    return r;
}

/* ---- the handle ---------------------------------------------------------------------------------------- */

static int sqlite_watch(ten_backend *base, const char *namespace_name, int *ret_fd) {
    (void)namespace_name; /* a notice says that the file has changed, and no more */
    ten_db *db = self(base);
    int r = ten_sqlite_side_watch(&db->side, base->error);
    if (r == TENURE_OK)
        *ret_fd = db->side.watch_fd;
    return r;
}

static void sqlite_watch_clear(ten_backend *base) {
    ten_sqlite_side_watch_clear(&self(base)->side);
}

static int sqlite_open(ten_backend *base, const ten_url *url, uint64_t timeout_ms) {
    static const char *const options[] = {"timeout", NULL};
    self(base)->side = (ten_sqlite_side){.fd = -1, .watch_fd = -1};
    int r = ten_url_check_options(url, options, base->error);
    if (r < 0)
        return r;
    if (url->hosts && url->hosts[0] != '\0')
        return ten_fail(base->error, TENURE_E_INVALID,
                        "a sqlite: URL names a file on this host and no host: write sqlite:/%s%s", url->hosts,
                        url->path);
    if (url->path[0] == '\0')
        return ten_fail(base->error, TENURE_E_INVALID,
                        "a sqlite: URL names a file: write sqlite:/var/lib/jobs.db or sqlite:jobs.db");
    return ten_db_open(self(base), url->path, timeout_ms);
}

static const ten_backend_ops sqlite_ops = {
    .size = sizeof(ten_db),
    .quarantine_min_ms = TENURE_TTL_DEFAULT_MS,
    .open = sqlite_open,
    .close = ten_db_close,
    .read = sqlite_read,
    .commit = sqlite_commit,
    .touch = sqlite_touch,
    .scan = sqlite_scan,
    .feed = sqlite_feed,
    .unfeed = sqlite_unfeed,
    .watch = sqlite_watch,
    .watch_clear = sqlite_watch_clear,
    .check = ten_db_check,
};

const ten_store_ops ten_sqlite_ops =
    TEN_RECORD_STORE("sqlite", &sqlite_ops,
                     .capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS,
                                      .shared_between_processes = true,
                                      .survives_restart = true,
                                      .hands = true,
                                      .sessions = true,
                                      .expiry_clock = "this host's boot clock, read after the lock is had",
                                      .change_notice = "inotify on the side file"});
