/*
 * Listings over any backend: registrations and leases are two kinds of records in the same order, and a listing is
 * their merge, page by page. Called through ten_store_ops.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "rules/pin.h"
#include "rules/target_row.h"
#include "store/apply.h"
#include "store/record_store.h"

#define PAGE 256u
#define FEW  64u /* so many at least: a filter may leave most of them out */

struct seen {
    ten_record record;
    bool is_read; /* else nobody has looked for it */
};

struct line {
    struct seen target;
    struct seen lease;
    struct seen session; /* of the instance to whose session the lease is attached */
};

struct page {
    ten_record_store *store;
    const char *namespace_name;
    uint64_t end_us;
    struct line lines[2 * PAGE];
    size_t count;
    ten_arena texts;    /* of the lines */
    enum ten_kind kind; /* that is being scanned */
    size_t scanned;
    char last[TENURE_TARGET_MAX + 1];
};

static struct page *open_page(ten_record_store *store, const char *namespace_name, uint64_t timeout_ms) {
    struct page *page = ten_calloc(1, sizeof *page);
    if (!page)
        return NULL;
    page->store = store;
    page->namespace_name = namespace_name;
    page->end_us = ten_boot_us() + ten_min_u64(timeout_ms, TENURE_TTL_MAX_MS) * 1000u;
    return page;
}

static void close_page(struct page *page) {
    ten_arena_free(&page->texts);
    ten_free(page);
}

static void clear(struct page *page) {
    memset(page->lines, 0, page->count * sizeof *page->lines);
    page->count = 0;
    ten_arena_reset(&page->texts);
}

/* What a scan or a read has shown is valid only until the next. */
static int copy(struct page *page, const ten_record *record, struct seen *seen) {
    *seen = (struct seen){.record = *record, .is_read = true};
    seen->record.key.id = ten_arena_text(&page->texts, record->key.id);
    seen->record.value = ten_arena_text(&page->texts, record->version ? record->value : "");
    seen->record.name = ten_arena_text(&page->texts, record->version || record->foreign ? record->name : "");
    bool copied = seen->record.key.id && seen->record.value && seen->record.name;
    return copied ? TENURE_OK : ten_apply_no_memory(page->store);
}

static uint64_t left_ms(const struct page *page) {
    return ten_max_u64(ten_sub_saturating(page->end_us, ten_boot_us()) / 1000u, 1);
}

/* ---- reading -------------------------------------------------------------------------------------------- */

static int see(const ten_record *record, void *userdata) {
    struct page *page = userdata;
    struct line *line = &page->lines[page->count++];
    page->scanned++;
    ten_copy_text(page->last, sizeof page->last, record->key.id);
    return copy(page, record, page->kind == TEN_KIND_TARGET ? &line->target : &line->lease);
}

static int scan(struct page *page, enum ten_kind kind, const char *after, enum ten_scan_names names, size_t limit) {
    ten_backend *backend = page->store->backend;
    ten_scan request = {
        .namespace_name = page->namespace_name, .kind = kind, .after = after, .limit = limit, .names = names};
    page->kind = kind;
    page->scanned = 0;
    return backend->ops->scan(backend, &request, see, page, left_ms(page));
}

static const char *id_of(const struct line *line) {
    return line->target.is_read ? line->target.record.key.id : line->lease.record.key.id;
}

static int compare(const void *a, const void *b) {
    return strcmp(id_of(a), id_of(b));
}

/* Registrations and leases of the same id become one line. */
static void merge(struct page *page) {
    size_t kept = 0;
    qsort(page->lines, page->count, sizeof *page->lines, compare);
    for (size_t i = 0; i < page->count; i++) {
        struct line *line = &page->lines[i];
        struct line *before = kept ? &page->lines[kept - 1] : NULL;
        if (before && strcmp(id_of(before), id_of(line)) == 0) {
            *(line->target.is_read ? &before->target : &before->lease) =
                line->target.is_read ? line->target : line->lease;
        } else if (kept++ != i) {
            page->lines[kept - 1] = *line;
        }
    }
    memset(&page->lines[kept], 0, (page->count - kept) * sizeof *page->lines);
    page->count = kept;
}

/* Lines behind that id belong to a later page: the scan of the other kind has not come so far. */
static void cut(struct page *page, const char *after) {
    while (page->count > 0 && strcmp(id_of(&page->lines[page->count - 1]), after) > 0)
        page->lines[--page->count] = (struct line){0};
}

/* Fills in one part of the lines, in one request. */
typedef bool (*part_fn)(struct line *line, ten_key *ret_key, struct seen **ret_seen);

static bool part_target(struct line *line, ten_key *key, struct seen **ret_seen) {
    *key = (ten_key){TEN_KIND_TARGET, id_of(line)};
    *ret_seen = &line->target;
    return !line->target.is_read;
}

static bool part_lease(struct line *line, ten_key *key, struct seen **ret_seen) {
    *key = (ten_key){TEN_KIND_LEASE, id_of(line)};
    *ret_seen = &line->lease;
    return !line->lease.is_read;
}

static bool part_session(struct line *line, ten_key *key, struct seen **ret_seen) {
    ten_lease_row row;
    bool attached = line->lease.is_read && line->lease.record.version != 0 && !line->session.is_read &&
                    ten_lease_row_read(&line->lease.record, &row) && row.session != 0;
    *key = (ten_key){TEN_KIND_INSTANCE, line->lease.is_read ? line->lease.record.name : ""};
    *ret_seen = &line->session;
    return attached;
}

static int read_part(struct page *page, part_fn part) {
    ten_backend *backend = page->store->backend;
    ten_record *records = ten_calloc(page->count + 1, sizeof *records);
    struct seen **places = ten_calloc(page->count + 1, sizeof *places);
    size_t count = 0;
    int r = records && places ? TENURE_OK : ten_apply_no_memory(page->store);
    for (size_t i = 0; r == TENURE_OK && i < page->count; i++)
        count += part(&page->lines[i], &records[count].key, &places[count]);
    if (r == TENURE_OK && count > 0)
        r = backend->ops->read(backend, page->namespace_name, records, count, left_ms(page));
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = copy(page, &records[i], places[i]);
    ten_free(records);
    ten_free(places);
    return r;
}

/* ---- rows ----------------------------------------------------------------------------------------------- */

static void describe_lease(const struct page *page, const struct line *line, ten_lease_row *lease, ten_row *row) {
    if (!line->lease.is_read || !ten_lease_row_read(&line->lease.record, lease))
        return;
    uint64_t left = line->lease.record.alive ? line->lease.record.left_ms : 0;
    ten_instance_row session;
    const char *metadata;
    if (line->session.is_read &&
        ten_instance_row_read(&line->session.record, TEN_APPLY_NOW_MS, page->store->backend->wall_ms, &session,
                              &metadata, &page->store->decoded))
        left = ten_max_u64(
            left, ten_sub_saturating(ten_instance_row_session_end_ms(&session, lease->session), TEN_APPLY_NOW_MS));
    row->token = lease->token;
    if (left == 0 || lease->holder[0] == '\0')
        return;
    row->holder = lease->holder;
    row->barred = lease->barred;
    row->ttl_ms = lease->ttl_ms;
    row->remaining_ms = left;
    row->acquired_at_ms = lease->acquired_at_ms;
}

static bool matches(const ten_row *row, const ten_query *query) {
    if (query->current && !row->holder && !row->registered)
        return false;
    switch (query->filter) {
    case TENURE_LEASED:
        return row->holder != NULL;
    case TENURE_FREE:
        return row->holder == NULL && !row->target.paused;
    case TENURE_REGISTERED:
        return row->registered;
    case TENURE_ALL:
        break;
    }
    return true;
}

/* Calls `each` for those lines that match; *given counts them. */
static int give(struct page *page, const ten_query *query, ten_row_fn each, void *userdata, size_t *given) {
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < page->count && *given < query->limit; i++) {
        const struct line *line = &page->lines[i];
        ten_row row = {0};
        ten_target_row target = {0};
        ten_lease_row lease;
        ten_pin_copy pin;
        describe_lease(page, line, &lease, &row);
        if (line->target.is_read && !ten_target_row_read(&line->target.record, &target, &page->store->decoded))
            return ten_apply_says_damaged(page->store, line->target.record.key.id);
        bool exists = target.registered || line->lease.record.version != 0 || line->lease.record.foreign;
        row.target = target.target;
        row.target.id = id_of(line);
        row.registered = target.registered;
        ten_pin_read(target.pin, page->store->backend->wall_ms, &pin);
        row.pin = pin.pin;
        if (!exists || !matches(&row, query))
            continue;
        r = each(&row, userdata);
        ++*given;
    }
    return r;
}

/* ---- pages ---------------------------------------------------------------------------------------------- */

/* The next lines after page->last, which moves on. *ret_more: there may be others. */
static int read_page(struct page *page, const ten_query *query, size_t limit, bool *ret_more) {
    char after[TENURE_TARGET_MAX + 1];
    char first_last[TENURE_TARGET_MAX + 1] = "";
    bool targets = query->filter != TENURE_LEASED;
    bool leases = query->filter != TENURE_REGISTERED;
    bool named = query->current || query->filter == TENURE_LEASED;
    memcpy(after, page->last, sizeof after);
    clear(page);
    int r = targets ? scan(page, TEN_KIND_TARGET, after, TEN_SCAN_ALL, limit) : TENURE_OK;
    bool more_targets = targets && page->scanned == limit;
    if (more_targets)
        memcpy(first_last, page->last, sizeof first_last);
    if (r == TENURE_OK && leases)
        r = scan(page, TEN_KIND_LEASE, after, named ? TEN_SCAN_NAMED : TEN_SCAN_ALL, limit);
    bool more_leases = leases && page->scanned == limit;
    if (r < 0)
        return r;
    merge(page);
    if (more_targets)
        cut(page, first_last);
    if (more_leases)
        cut(page, page->last);
    if (page->count > 0)
        ten_copy_text(page->last, sizeof page->last, id_of(&page->lines[page->count - 1]));
    *ret_more = more_targets || more_leases;
    if (!targets)
        r = read_part(page, part_target);
    if (r == TENURE_OK && (named || !leases))
        r = read_part(page, part_lease);
    return r < 0 ? r : read_part(page, part_session);
}

int ten_record_store_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata,
                          uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    struct page *page = open_page(store, query->namespace_name, timeout_ms);
    if (!page)
        return ten_apply_no_memory(store);
    ten_copy_text(page->last, sizeof page->last, query->after ? query->after : "");
    size_t given = 0;
    int r = TENURE_OK;
    for (bool more = true; r == TENURE_OK && more && given < query->limit;) {
        r = read_page(page, query, (size_t)ten_min_u64(ten_max_u64(query->limit - given, FEW), PAGE), &more);
        if (r == TENURE_OK)
            r = give(page, query, each, userdata, &given);
    }
    close_page(page);
    return r;
}

int ten_record_store_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                                  ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    struct page *page = open_page(store, namespace_name, timeout_ms);
    if (!page)
        return ten_apply_no_memory(store);
    ten_query all = {.filter = TENURE_ALL, .limit = SIZE_MAX};
    size_t given = 0;
    int r = TENURE_OK;
    for (size_t at = 0; r == TENURE_OK && at < count; at += 2 * PAGE) {
        clear(page);
        for (size_t i = at; r == TENURE_OK && i < count && i < at + 2 * PAGE; i++) {
            struct line *line = &page->lines[page->count++];
            r = copy(page, &(ten_record){.key = {TEN_KIND_TARGET, ids[i]}, .name = ""}, &line->target);
        }
        if (r == TENURE_OK)
            r = read_part(page, part_lease);
        for (size_t i = 0; i < page->count; i++) /* the id is the lease's from now on */
            page->lines[i].target.is_read = false;
        if (r == TENURE_OK)
            r = read_part(page, part_target);
        if (r == TENURE_OK)
            r = read_part(page, part_session);
        if (r == TENURE_OK)
            r = give(page, &all, each, userdata, &given);
    }
    close_page(page);
    return r;
}

/* ---- instances and namespaces --------------------------------------------------------------------------- */

struct listing {
    ten_record_store *store;
    ten_instance_fn each;
    void *userdata;
    size_t seen;
    char last[TENURE_HOLDER_MAX + 1];
};

static int give_instance(const ten_record *record, void *userdata) {
    struct listing *listing = userdata;
    ten_record_store *store = listing->store;
    ten_instance_row row = {.exists = true, .weight = 1};
    const char *metadata = "";
    listing->seen++;
    ten_copy_text(listing->last, sizeof listing->last, record->key.id);
    if (record->version &&
        !ten_instance_row_read(record, TEN_APPLY_NOW_MS, store->backend->wall_ms, &row, &metadata, &store->decoded))
        return ten_apply_says_damaged(store, record->key.id);
    if (!record->alive || row.gone)
        return 0;
    ten_instance instance = {.instance = record->key.id,
                             .weight = row.weight,
                             .metadata = metadata[0] ? metadata : NULL,
                             .ttl_ms = row.ttl_ms,
                             .remaining_ms = record->left_ms,
                             .since_ms = row.since_ms,
                             .ask = row.ask,
                             .has_session = row.session != 0};
    return listing->each(&instance, listing->userdata);
}

int ten_record_store_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                                    uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    ten_backend *backend = store->backend;
    struct listing listing = {.store = store, .each = each, .userdata = userdata};
    ten_run run = ten_apply_run(store, namespace_name, timeout_ms);
    int r;
    do {
        char after[TENURE_HOLDER_MAX + 1];
        memcpy(after, listing.last, sizeof after);
        listing.seen = 0;
        ten_scan request = {.namespace_name = namespace_name,
                            .kind = TEN_KIND_INSTANCE,
                            .after = after,
                            .limit = PAGE,
                            .names = TEN_SCAN_NAMED};
        r = backend->ops->scan(backend, &request, give_instance, &listing, ten_apply_left_ms(&run));
    } while (r == TENURE_OK && listing.seen == PAGE);
    return r;
}

struct names {
    size_t count;
    char names[PAGE][TENURE_NAMESPACE_MAX + 1];
};

static int see_name(const ten_record *record, void *userdata) {
    struct names *names = userdata;
    ten_copy_text(names->names[names->count++], sizeof names->names[0], record->key.id);
    return 0;
}

static int count_record(const ten_record *record, void *userdata) {
    (void)record;
    ++*(size_t *)userdata;
    return 0;
}

/* A namespace in which everything was forgotten keeps its record. */
static int is_used(ten_backend *backend, const char *namespace_name, uint64_t timeout_ms, size_t *ret_count) {
    static const enum ten_kind kinds[] = {TEN_KIND_LEASE, TEN_KIND_TARGET, TEN_KIND_INSTANCE};
    int r = TENURE_OK;
    *ret_count = 0;
    for (size_t i = 0; r == TENURE_OK && *ret_count == 0 && i < TEN_COUNT(kinds); i++) {
        ten_scan request = {.namespace_name = namespace_name, .kind = kinds[i], .after = "", .limit = 1};
        r = backend->ops->scan(backend, &request, count_record, ret_count, timeout_ms);
    }
    return r;
}

int ten_record_store_list_namespaces(ten_store *base, tenure_name_fn each, void *userdata, uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    ten_backend *backend = store->backend;
    struct names *names = ten_calloc(1, sizeof *names);
    char after[TENURE_NAMESPACE_MAX + 1] = "";
    ten_run run = ten_apply_run(store, "", timeout_ms);
    int r = names ? TENURE_OK : ten_apply_no_memory(store);
    for (bool more = true; r == TENURE_OK && more;) {
        names->count = 0;
        ten_scan request = {.kind = TEN_KIND_NAMESPACE, .after = after, .limit = PAGE};
        r = backend->ops->scan(backend, &request, see_name, names, ten_apply_left_ms(&run));
        more = names->count == PAGE;
        for (size_t i = 0; r == TENURE_OK && i < names->count; i++) {
            size_t used = 0;
            memcpy(after, names->names[i], sizeof after);
            r = is_used(backend, after, ten_apply_left_ms(&run), &used);
            if (r == TENURE_OK && used > 0)
                r = each(after, userdata);
        }
    }
    ten_free(names);
    return r;
}
