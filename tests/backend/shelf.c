/*
 * A backend that lets others in, and goes wrong on purpose. See shelf.h.
 */
#include "backend/shelf.h"

#include <stdlib.h>
#include <string.h>

#include "mutants/mutants.h"

static const ten_backend_ops *real; /* one kind of store at a time */
static struct {
    const ten_backend *backend;
    enum shelf_call call;
    unsigned times;
    shelf_fn meanwhile;
    void *userdata;
} door;
static struct {
    const ten_backend *backend;
    char *log;
    size_t size;
} book;

static void enter(const ten_backend *backend, enum shelf_call call) {
    if (book.backend == backend && strlen(book.log) + 1 < book.size)
        book.log[strlen(book.log)] = (char)call;
    if (door.backend != backend || door.call != call || door.times == 0)
        return;
    door.times--;
    door.meanwhile(door.userdata);
}

/* ---- planted bugs */

/* A store that counts the versions of each record from 1 again. */
static uint64_t shown(uint64_t version) {
    return version && TEN_MUTANT(SHELF_VERSION_REPEATS) ? version % 3 + 1 : version;
}

static ten_record look(ten_backend *backend, const char *namespace_name, ten_key key) {
    ten_record record = {.key = key};
    (void)real->read(backend, namespace_name, &record, 1, 10000);
    return record;
}

static void spoil_check(ten_backend *backend, const char *namespace_name, ten_check *check) {
    if (TEN_MUTANT(SHELF_LIFE_UNCHECKED))
        check->life = TEN_CHECK_EITHER;
    if (TEN_MUTANT(SHELF_VERSION_UNCHECKED))
        check->version = TEN_VERSION_ANY;
    if (TEN_MUTANT(SHELF_ABSENCE_UNCHECKED) && check->version == 0)
        check->version = TEN_VERSION_ANY;
    if (TEN_MUTANT(SHELF_VERSION_REPEATS) && check->version != 0 && check->version != TEN_VERSION_ANY) {
        uint64_t version = look(backend, namespace_name, check->key).version;
        check->version = shown(version) == check->version ? version : INT64_MAX;
    }
}

static void spoil_write(ten_write *write) {
    if (TEN_MUTANT(SHELF_SHORTENS))
        write->life.as_it_is = write->life.as_it_is && write->life.ttl_ms == 0 && !write->life.with.id;
    if (TEN_MUTANT(SHELF_WITH_IGNORED))
        write->life.with = TEN_NO_KEY;
    if (TEN_MUTANT(SHELF_RAISE_IGNORED) && write->kind == TEN_WRITE_RAISE)
        write->key.id = "nobody";
}

/* What the caller relies on is so, whatever it was. */
static void spoil_epoch(ten_backend *backend, const char *namespace_name, char identity[TEN_IDENTITY_MAX + 1],
                        uint64_t *epoch) {
    if (!TEN_MUTANT(SHELF_IDENTITY_IGNORED) && !TEN_MUTANT(SHELF_EPOCH_IGNORED))
        return;
    ten_record space = look(backend, namespace_name, (ten_key){TEN_KIND_NAMESPACE, ""});
    if (TEN_MUTANT(SHELF_IDENTITY_IGNORED))
        ten_copy_text(identity, TEN_IDENTITY_MAX + 1, backend->identity);
    if (TEN_MUTANT(SHELF_EPOCH_IGNORED) && space.version)
        *epoch = space.number;
}

static void spoil_order(ten_commit_change *changes, size_t count) {
    for (size_t i = 0; TEN_MUTANT(SHELF_FEED_ORDER) && i < count / 2; i++) {
        const ten_entry *entries = changes[i].entries;
        changes[i].entries = changes[count - 1 - i].entries;
        changes[count - 1 - i].entries = entries;
    }
}

/* Half of what could not be carried out is carried out. */
static void write_half(ten_backend *backend, const ten_commit *commit, const ten_commit_change *change) {
    ten_check check = {.key = change->checks[0].key, .version = TEN_VERSION_ANY};
    ten_commit_change half = {.checks = &check, .check_count = 1, .writes = change->writes, .write_count = 1};
    ten_commit again = *commit;
    again.changes = &half;
    again.count = 1;
    (void)real->commit(backend, &again, 10000);
}

static void spoil_conflict(ten_backend *backend, const ten_commit *commit, ten_commit_change *change) {
    for (size_t i = 0; i < change->check_count; i++) {
        ten_check *check = &change->checks[i];
        if (TEN_MUTANT(SHELF_OLD_CONFLICT))
            check->present = (ten_record){.key = check->key, .name = ""};
        check->present.version = shown(check->present.version);
    }
    if (TEN_MUTANT(SHELF_HALF_DONE) && change->write_count > 1)
        write_half(backend, commit, change);
    if (TEN_MUTANT(SHELF_CONFLICT_SILENT))
        change->conflict = false;
}

/* ---- the calls */

static int shelf_read(ten_backend *backend, const char *namespace_name, ten_record *records, size_t count,
                      uint64_t timeout_ms) {
    enter(backend, SHELF_READ);
    int r = real->read(backend, namespace_name, records, count, timeout_ms);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        records[i].version = shown(records[i].version);
    return r;
}

static int shelf_commit(ten_backend *backend, ten_commit *commit, uint64_t timeout_ms) {
    char identity[TEN_IDENTITY_MAX + 1];
    enter(backend, SHELF_COMMIT);
    ten_copy_text(identity, sizeof identity, commit->identity);
    spoil_epoch(backend, commit->namespace_name, identity, &commit->epoch);
    commit->identity = identity;
    spoil_order(commit->changes, commit->count);
    for (size_t i = 0; i < commit->count; i++) {
        for (size_t j = 0; j < commit->changes[i].check_count; j++)
            spoil_check(backend, commit->namespace_name, &commit->changes[i].checks[j]);
        for (size_t j = 0; j < commit->changes[i].write_count; j++)
            spoil_write(&commit->changes[i].writes[j]);
    }
    int r = real->commit(backend, commit, timeout_ms);
    for (size_t i = 0; r == TENURE_OK && i < commit->count; i++) {
        for (size_t j = 0; j < commit->changes[i].write_count; j++)
            commit->changes[i].writes[j].version = shown(commit->changes[i].writes[j].version);
        if (commit->changes[i].conflict)
            spoil_conflict(backend, commit, &commit->changes[i]);
    }
    return r;
}

/* The dead comes back. */
static void revive(ten_backend *backend, const char *namespace_name, const char *identity, uint64_t epoch,
                   ten_touch *touch) {
    ten_record record = look(backend, namespace_name, touch->key);
    if (record.version == 0 || (touch->version != TEN_VERSION_ANY && touch->version != record.version))
        return;
    ten_check check = {.key = touch->key, .version = record.version};
    ten_write write = {.key = touch->key,
                       .value = strdup(record.value),
                       .name = strdup(record.name),
                       .number = record.number,
                       .life = TEN_LIFE_FOR(touch->ttl_ms)};
    ten_commit_change change = {.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
    ten_commit commit = {
        .namespace_name = namespace_name, .identity = identity, .epoch = epoch, .changes = &change, .count = 1};
    touch->extended = real->commit(backend, &commit, 10000) == TENURE_OK;
    free((char *)write.value);
    free((char *)write.name);
}

static int touch_wrongly(ten_backend *backend, const char *namespace_name, const char *identity, uint64_t epoch,
                         ten_touch *touch, uint64_t timeout_ms) {
    ten_touch one = *touch;
    char name[TENURE_HOLDER_MAX + 1];
    ten_record record = look(backend, namespace_name, touch->key);
    ten_copy_text(name, sizeof name, record.name);
    if (TEN_MUTANT(SHELF_TOUCH_ANY_NAME))
        one.name = name;
    if (TEN_MUTANT(SHELF_TOUCH_ANY_VERSION) || shown(record.version) == one.version)
        one.version = TEN_VERSION_ANY;
    int r = real->touch(backend, namespace_name, identity, epoch, &one, 1, timeout_ms);
    touch->extended = one.extended;
    touch->present = shown(one.present);
    if (r == TENURE_OK && TEN_MUTANT(SHELF_TOUCH_REVIVES) && !one.extended)
        revive(backend, namespace_name, identity, epoch, touch);
    return r;
}

static int shelf_touch(ten_backend *backend, const char *namespace_name, const char *identity, uint64_t epoch,
                       ten_touch *touches, size_t count, uint64_t timeout_ms) {
    char relied_on[TEN_IDENTITY_MAX + 1];
    int r = TENURE_OK;
    enter(backend, SHELF_TOUCH);
    if (TEN_MUTANT(NONE) || !namespace_name)
        return real->touch(backend, namespace_name, identity, epoch, touches, count, timeout_ms);
    ten_copy_text(relied_on, sizeof relied_on, identity);
    spoil_epoch(backend, namespace_name, relied_on, &epoch);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = touch_wrongly(backend, namespace_name, relied_on, epoch, &touches[i], timeout_ms);
    return r;
}

struct scanning {
    ten_record_fn each;
    void *userdata;
};

static int give(const ten_record *record, void *userdata) {
    const struct scanning *scanning = userdata;
    ten_record copy = *record;
    copy.version = shown(copy.version);
    return scanning->each(&copy, scanning->userdata);
}

static int shelf_scan(ten_backend *backend, const ten_scan *scan, ten_record_fn each, void *userdata,
                      uint64_t timeout_ms) {
    struct scanning scanning = {each, userdata};
    ten_scan request = *scan;
    enter(backend, SHELF_SCAN);
    if (TEN_MUTANT(SHELF_SCAN_UNFILTERED))
        request.names = TEN_SCAN_ALL;
    return real->scan(backend, &request, give, &scanning, timeout_ms);
}

void shelf_wrap(ten_store *store) {
    static ten_backend_ops ops;
    ten_backend *backend = ((ten_record_store *)store)->backend;
    real = store->ops->backend;
    ops = *real;
    ops.read = shelf_read;
    ops.commit = shelf_commit;
    ops.touch = shelf_touch;
    ops.scan = shelf_scan;
    backend->ops = &ops;
}

void shelf_before(ten_store *store, enum shelf_call call, unsigned times, shelf_fn meanwhile, void *userdata) {
    door.backend = ((ten_record_store *)store)->backend;
    door.call = call;
    door.times = times;
    door.meanwhile = meanwhile;
    door.userdata = userdata;
}

void shelf_log(const ten_store *store, char *log, size_t size) {
    memset(log, 0, size);
    book.backend = ((const ten_record_store *)store)->backend;
    book.log = log;
    book.size = size;
}

unsigned shelf_end(void) {
    unsigned times = door.times;
    memset(&door, 0, sizeof door);
    memset(&book, 0, sizeof book);
    return times;
}
