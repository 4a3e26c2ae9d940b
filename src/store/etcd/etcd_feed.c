/*
 * The feed in etcd. An entry is a key, PREFIX/NS/feed/REVISION-RANDOM, where REVISION is the one that its writer had
 * read: so the keys are nearly in the order of their writing, and a reader starts a little before where it stopped. The
 * order itself is that of the revisions at which they were created: a number is base + revision * 1024 + place within
 * the transaction. The entry has its base, which an epoch raises, and its place: `BASE PLACE TIME ID TEXT`. Called by
 * etcd_commit.c and through backend.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "base/hash.h"
#include "base/random.h"
#include "store/etcd/etcd_state.h"

#define READ_BEHIND 4096u  /* revisions, at most, that others make within the milliseconds of a write */
#define PAGE        20000u /* entries of one answer */
#define UNFEED_PAGE 1000u
#define DELETE_MAX  100u /* entries that one transaction deletes */
#define TRIM_CHANCE 200u /* of so many entries, by whatever handles, one leads to a look */
#define TRIM_WHOLE  64u  /* of so many looks one begins at the very first key */
#define SLACK       500u
#define STEP        400u /* entries that are removed at a time */
#define TRIM_MS     250u /* no caller waits longer for the feed; what is left to do is done next time */

/* ---- one entry --------------------------------------------------------------------------------------------- */

void ten_etcd_feed_put(ten_etcd_store *store, ten_etcd_txn *part, uint64_t base, const ten_entry *entry, size_t place) {
    char name[40];
    ten_buf *value = &store->value;
    snprintf(name, sizeof name, "%016llx-%016llx", (unsigned long long)store->revision,
             (unsigned long long)ten_random_u64());
    ten_buf_clear(value);
    ten_buf_format(value, "%llu %zu %llu ", (unsigned long long)base, place, (unsigned long long)store->base.wall_ms);
    ten_percent_encode_only(value, entry->id ? entry->id : "", " %");
    ten_buf_char(value, ' ');
    ten_buf_text(value, entry->text);
    ten_etcd_txn_put(part, ten_etcd_place(&store->dir, TEN_ETCD_FEED, name).text, ten_buf_string(value), 0);
}

/* The texts are in store->scratch. False: the value is not one of ours. */
static bool read_entry(ten_etcd_store *store, const json_t *item, ten_entry *entry) {
    ten_etcd_kv kv = ten_etcd_kv_read(item, &store->scratch);
    unsigned long long base;
    unsigned long long place;
    unsigned long long at_ms;
    int size = 0;
    if (sscanf(kv.value, "%llu %llu %llu%n", &base, &place, &at_ms, &size) != 3 || kv.value[size] != ' ')
        return false;
    char *id = (char *)kv.value + size + 1;
    char *text = strchr(id, ' ');
    if (!text)
        return false;
    *text++ = '\0';
    *entry = (ten_entry){
        .id = id[0] ? id : NULL, .text = text, .number = base + kv.created * TEN_ETCD_PLACES + place, .at_ms = at_ms};
    return ten_percent_decode(id, false);
}

/* The key before every entry that was created at this revision or later. */
static ten_etcd_key key_before(const ten_etcd_store *store, uint64_t revision) {
    char name[24];
    snprintf(name, sizeof name, "%016llx", (unsigned long long)ten_sub_saturating(revision, READ_BEHIND));
    return ten_etcd_place(&store->dir, TEN_ETCD_FEED, name);
}

/* Adds the reading of entries to store->txn, in the order of their keys unless the range says otherwise. */
static void get_range(ten_etcd_store *store, struct ten_etcd_range range) {
    ten_etcd_get_all(&store->txn.operations, ten_etcd_place(&store->dir, TEN_ETCD_FEED, NULL).text, &range);
}

/* ---- reading ----------------------------------------------------------------------------------------------- */

static int get_entries(ten_etcd_store *store, uint64_t after, size_t limit, json_t **ret_answer) {
    uint64_t revision = ten_sub_saturating(after, store->space->base) / TEN_ETCD_PLACES;
    ten_etcd_key from = key_before(store, revision);
    ten_etcd_state_begin(store);
    if (limit > 0)
        get_range(store, (struct ten_etcd_range){.from = from.text,
                                                 /* those of the cursor's own transaction, and of the last one */
                                                 .limit = ten_min_u64(limit, PAGE) + 2 * TEN_ETCD_TXN_MAX,
                                                 .created_since = revision ? revision : 1,
                                                 .by_creation = true});
    return ten_etcd_state_send(store, ret_answer);
}

struct found {
    uint64_t number;
    const json_t *item;
};

static int compare_numbers(const void *a, const void *b) {
    const struct found *one = a;
    const struct found *other = b;
    return one->number < other->number ? -1 : one->number > other->number;
}

/* The entries after the cursor, in order. If the page is not the last one, its last transaction may be incomplete, and
 * is left out. */
static size_t find_entries(ten_etcd_store *store, const json_t *answer, uint64_t after, struct found *found) {
    const json_t *items = ten_etcd_kvs(answer, TEN_ETCD_STATE_READS);
    size_t size = json_array_size(items);
    uint64_t cut = 0;
    size_t count = 0;
    if (ten_etcd_has_more(answer, TEN_ETCD_STATE_READS) && size > 0)
        cut = ten_etcd_number(json_array_get(items, size - 1), "create_revision");
    for (size_t i = 0; i < size; i++) {
        ten_entry entry;
        const json_t *item = json_array_get(items, i);
        bool is_cut = cut && ten_etcd_number(item, "create_revision") == cut;
        if (!is_cut && read_entry(store, item, &entry) && entry.number > after)
            found[count++] = (struct found){entry.number, item};
    }
    qsort(found, count, sizeof *found, compare_numbers);
    return count;
}

static int give_entries(ten_etcd_store *store, const json_t *answer, uint64_t after, size_t limit, ten_entry_fn each,
                        void *userdata) {
    size_t size = json_array_size(ten_etcd_kvs(answer, TEN_ETCD_STATE_READS));
    struct found *found = ten_calloc(size + 1, sizeof *found);
    int stopped = found ? 0 : ten_etcd_no_memory(store);
    size_t count = found ? find_entries(store, answer, after, found) : 0;
    for (size_t i = 0; stopped == 0 && i < count && i < limit; i++) {
        ten_entry entry;
        if (read_entry(store, found[i].item, &entry))
            stopped = each(&entry, userdata);
    }
    ten_free(found);
    return stopped;
}

static int feed_once(ten_etcd_store *store, uint64_t after, size_t limit, json_t **ret_answer) {
    json_decref(*ret_answer);
    *ret_answer = NULL;
    int r = ten_etcd_enter(store);
    if (r == TENURE_OK && !store->space->known && limit > 0) /* where numbers are counted from */
        r = ten_etcd_state_read(store);
    if (r == TENURE_OK)
        r = get_entries(store, after, limit, ret_answer);
    return r == TENURE_OK ? ten_etcd_confirm(store) : r;
}

int ten_etcd_feed(ten_backend *base, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                  void *userdata, ten_feed_range *ret_range, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    json_t *answer = NULL;
    int r = ten_etcd_begin(store, namespace_name, timeout_ms);
    if (r == TENURE_OK)
        r = feed_once(store, after, limit, &answer);
    if (r < 0 && store->is_older)
        r = feed_once(store, after, limit, &answer);
    if (r == TENURE_OK) {
        *ret_range = (ten_feed_range){.before = store->space->cut, .last = store->space->last};
        bool missing = after < ret_range->before || after > ret_range->last;
        if (!missing && limit > 0)
            r = give_entries(store, answer, after, limit, each, userdata);
    }
    json_decref(answer);
    return r;
}

/* ---- forgotten targets ------------------------------------------------------------------------------------- */

static int delete_entries(ten_etcd_store *store, const json_t *items, const ten_map *ids) {
    int r = TENURE_OK;
    size_t count = json_array_size(items);
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        ten_entry entry;
        bool is_meant = read_entry(store, json_array_get(items, i), &entry) && entry.id && ten_map_key(ids, entry.id);
        if (is_meant)
            ten_etcd_txn_put(&store->txn, ten_etcd_kv_key(json_array_get(items, i), &store->scratch), NULL, 0);
        if (store->txn.operations.count == 0 || (store->txn.operations.count < DELETE_MAX && i + 1 < count))
            continue;
        r = ten_etcd_send_only(store, true);
        ten_etcd_txn_clear(&store->txn);
    }
    return r;
}

/* One page of entries after that key, which becomes the last of the page. */
static int unfeed_page(ten_etcd_store *store, const ten_map *ids, ten_etcd_key *after, bool *ret_more) {
    json_t *answer = NULL;
    ten_etcd_txn_clear(&store->txn);
    get_range(store, (struct ten_etcd_range){.after = after->text, .limit = UNFEED_PAGE});
    int r = ten_etcd_send(store, false, &answer);
    const json_t *items = ten_etcd_kvs(answer, 0);
    size_t count = json_array_size(items);
    *ret_more = r == TENURE_OK && ten_etcd_has_more(answer, 0) && count > 0;
    if (*ret_more)
        ten_copy_text(after->text, sizeof after->text,
                      ten_etcd_kv_key(json_array_get(items, count - 1), &store->scratch));
    if (r == TENURE_OK)
        r = delete_entries(store, items, ids);
    json_decref(answer);
    return r;
}

/* Each page is a request of its own, and has the time-out. */
int ten_etcd_unfeed(ten_backend *base, const char *namespace_name, const char *const *ids, size_t count,
                    uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    ten_map set = {0};
    int r = ten_etcd_begin(store, namespace_name, timeout_ms);
    if (r == TENURE_OK)
        r = ten_etcd_enter(store);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        if (!ten_map_put(&set, ids[i], NULL))
            r = ten_etcd_no_memory(store);
    ten_etcd_key after = key_before(store, 0);
    for (bool more = true; r == TENURE_OK && more;) {
        store->deadline_ms = ten_now_ms() + timeout_ms;
        r = unfeed_page(store, &set, &after, &more);
    }
    ten_map_free(&set);
    return r;
}

/* ---- its length -------------------------------------------------------------------------------------------- */

/* How many of the oldest entries are removed: those above the limit unless they are young, and those that are too
 * old. */
static size_t count_surplus(ten_etcd_store *store, const json_t *items, uint64_t all, uint64_t *ret_cut) {
    uint64_t now_ms = store->base.wall_ms;
    size_t size = json_array_size(items);
    size_t gone = 0;
    for (; gone + 1 < size; gone++) {
        ten_entry entry;
        if (!read_entry(store, json_array_get(items, gone), &entry))
            continue;
        bool is_surplus = all - gone > TEN_FEED_MAX + SLACK;
        uint64_t kept_ms = is_surplus ? TEN_FEED_YOUNG_MS : TEN_FEED_AGE_MS;
        bool is_ahead = is_surplus && entry.at_ms > now_ms + TEN_FEED_YOUNG_MS; /* the writer's clock was */
        if (entry.at_ms + kept_ms >= now_ms && !is_ahead && all - gone <= TEN_FEED_MOST)
            break;
        *ret_cut = ten_max_u64(*ret_cut, entry.number);
    }
    return gone;
}

/* Removes the first of those that were read, unless somebody else does that at the moment. */
static int cut(ten_etcd_store *store, const char *from, const json_t *items, size_t gone, uint64_t number) {
    ten_etcd_key trimmed = ten_etcd_place(&store->dir, TEN_ETCD_TRIMMED, NULL);
    char value[48];
    uint64_t revision = ten_etcd_number(json_array_get(items, gone - 1), "create_revision");
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_txn_delete_between(&store->txn, from, ten_etcd_kv_key(json_array_get(items, gone), &store->scratch));
    ten_etcd_txn_compare(&store->txn, trimmed.text, store->space->cut_revision);
    snprintf(value, sizeof value, "%llu %llu", (unsigned long long)ten_max_u64(number, store->space->cut),
             (unsigned long long)ten_max_u64(revision, store->space->cut_at));
    ten_etcd_txn_put(&store->txn, trimmed.text, value, 0);
    return ten_etcd_send_only(store, true);
}

/* etcd walks over keys that were removed, too, until they are compacted, which may be never. So the reading begins
 * where the feed was last cut; but now and then at the very first key, for an entry whose writer was late by more
 * revisions than that. */
static int trim_step(ten_etcd_store *store, bool whole, bool *ret_more) {
    ten_etcd_key from = key_before(store, whole ? 0 : store->space->cut_at);
    json_t *answer = NULL;
    ten_etcd_state_begin(store);
    get_range(store, (struct ten_etcd_range){.from = from.text, .limit = STEP + 1});
    int r = ten_etcd_state_send(store, &answer);
    const json_t *items = ten_etcd_kvs(answer, TEN_ETCD_STATE_READS);
    uint64_t all = ten_etcd_count(answer, TEN_ETCD_STATE_READS);
    uint64_t number = 0;
    size_t gone = r == TENURE_OK ? count_surplus(store, items, all, &number) : 0;
    if (gone > 0)
        r = cut(store, from.text, items, gone, number);
    *ret_more = r == TENURE_OK && gone > 0;
    json_decref(answer);
    return r;
}

/* A commit that writes much looks; most write one entry: some of them look, chosen by the revision at which they wrote.
 * It goes in steps, so that no caller waits for long; but at least twice as many entries are removed as came since
 * somebody looked, so that a feed that is too long becomes shorter. */
void ten_etcd_feed_trim(ten_etcd_store *store) {
    size_t fed = store->fed;
    store->fed = 0;
    if (ten_hash_mix(store->revision) % TRIM_CHANCE >= fed)
        return;
    ten_error kept = *store->base.error;
    bool whole = ten_hash_mix(store->revision + 1) % TRIM_WHOLE == 0;
    bool more = true;
    size_t gone = 0;
    uint64_t until_ms = ten_now_ms() + TRIM_MS;
    int r = TENURE_OK;
    while (r == TENURE_OK && more && (ten_now_ms() < until_ms || gone < 2 * fed) && ten_now_ms() < store->deadline_ms) {
        r = trim_step(store, whole, &more);
        gone += STEP;
    }
    *store->base.error = kept;
}
