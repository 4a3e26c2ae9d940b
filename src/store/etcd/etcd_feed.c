/*
 * The feed of changes in etcd. What one transaction changes is one key, PREFIX/NS/feed/REVISION-RANDOM-COUNT, where
 * REVISION is the one that its writer had read: so the keys are nearly in the order of their writing, and a reader
 * starts a little before where it stopped. The order itself is that of the revisions at which they were written: a
 * cursor is revision * 1024 + place within the entry. Called by etcd_apply.c and through store.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "base/json.h"
#include "base/random.h"
#include "store/common/feed_json.h"
#include "store/etcd/etcd_state.h"

#define PLACES      1024u
#define READ_BEHIND 4096u  /* revisions between a writer's reading and its writing, at most: it takes milliseconds */
#define PAGE        20000u /* entries, each of one change at least */
#define TRIM_EVERY  500u   /* changes; and so many entries are looked at for their age */
#define SLACK       500u

/* ---- writing ----------------------------------------------------------------------------------------------- */

void ten_etcd_feed_add(ten_buf *changes, const ten_change *change) {
    ten_json_open(changes);
    ten_json_text(changes, "event", ten_event_name(change->kind));
    ten_json_text(changes, "reason", ten_reason_name(change->reason));
    ten_json_text(changes, "target", change->target);
    ten_json_text(changes, "instance", change->instance);
    ten_json_text(changes, "actor", change->actor);
    ten_json_number(changes, "token", change->token);
    ten_json_close(changes);
}

void ten_etcd_feed_put(ten_etcd_store *store, const char *namespace_name, const char *changes, size_t count) {
    char name[64];
    char key[TEN_ETCD_KEY_MAX + 1];
    TEN_INVARIANT(count <= PLACES);
    snprintf(name, sizeof name, "%016llx-%08x-%zu", (unsigned long long)store->head.revision,
             (unsigned)(ten_random_u64() & 0xffffffffu), count);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_FEED, name);
    ten_buf_clear(&store->value);
    ten_json_open(&store->value);
    ten_json_number(&store->value, "at_ms", ten_wall_ms(store->base.clock));
    ten_json_raw(&store->value, "changes", changes);
    ten_json_close(&store->value);
    ten_etcd_put(&store->txn, key, ten_buf_string(&store->value), 0);
    store->fed += count;
}

/* ---- its length -------------------------------------------------------------------------------------------- */

/* How many changes an entry has, by its key. */
static uint64_t count_of(const char *key) {
    const char *last = strrchr(key, '-');
    return last ? strtoull(last + 1, NULL, 10) : 1;
}

static int cut(ten_etcd_store *store, const char *namespace_name, const char *first_kept, uint64_t revision,
               uint64_t deadline_ms) {
    char key[TEN_ETCD_KEY_MAX + 1];
    char value[40];
    bool succeeded;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_FEED, NULL);
    ten_etcd_delete_between(&store->txn, key, first_kept);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_TRIMMED, NULL);
    snprintf(value, sizeof value, "{\"revision\":%llu}", (unsigned long long)revision);
    ten_etcd_put(&store->txn, key, value, 0);
    return ten_etcd_commit(store, true, deadline_ms, &succeeded, NULL);
}

/* From the oldest on: those that are too old go, some at a time. */
static int trim_old(ten_etcd_store *store, const char *namespace_name, uint64_t deadline_ms) {
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    json_t *answer = NULL;
    uint64_t oldest_ms = ten_sub_saturating(ten_wall_ms(store->base.clock), TEN_FEED_AGE_MS);
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_FEED, NULL);
    ten_etcd_get_all(&store->txn, key, &(struct ten_etcd_range){.limit = TRIM_EVERY});
    int r = ten_etcd_commit(store, false, deadline_ms, &succeeded, &answer);
    const json_t *entries = r == TENURE_OK ? ten_etcd_kvs(answer, 0) : NULL;
    uint64_t revision = 0;
    for (size_t i = 0; r == TENURE_OK && i < json_array_size(entries); i++) {
        const json_t *item = json_array_get(entries, i);
        ten_etcd_kv entry = ten_etcd_kv_read(item, &store->scratch);
        bool is_old = ten_etcd_number(entry.value, "at_ms") < oldest_ms;
        ten_etcd_kv_free(&entry);
        if (is_old) {
            revision = ten_max_u64(revision, entry.revision);
            continue;
        }
        const char *text = json_string_value(json_object_get(item, "key"));
        char *first_kept =
            text && ten_base64_decode(&store->scratch, text) ? ten_strdup(ten_buf_string(&store->scratch)) : NULL;
        if (revision > 0 && first_kept)
            r = cut(store, namespace_name, first_kept, revision, deadline_ms);
        ten_free(first_kept);
        break;
    }
    json_decref(answer);
    return r;
}

/* From the newest back: where TEN_FEED_MAX changes are kept, the rest goes. */
static int trim(ten_etcd_store *store, const char *namespace_name, uint64_t deadline_ms) {
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    json_t *answer = NULL;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_FEED, NULL);
    ten_etcd_get_all(&store->txn, key, &(struct ten_etcd_range){.keys_only = true});
    int r = ten_etcd_commit(store, false, deadline_ms, &succeeded, &answer);
    const json_t *entries = r == TENURE_OK ? ten_etcd_kvs(answer, 0) : NULL;
    uint64_t kept = 0;
    size_t i = json_array_size(entries);
    for (; i > 0 && kept < TEN_FEED_MAX + SLACK; i--) {
        const char *text = json_string_value(json_object_get(json_array_get(entries, i - 1), "key"));
        if (!text || !ten_base64_decode(&store->scratch, text))
            break;
        kept += count_of(ten_buf_string(&store->scratch));
    }
    if (i > 0 && kept >= TEN_FEED_MAX + SLACK) {
        uint64_t revision = 0;
        for (size_t j = 0; j < i; j++)
            revision = ten_max_u64(revision, ten_etcd_number(json_array_get(entries, j), "mod_revision"));
        char *first_kept = ten_strdup(ten_buf_string(&store->scratch));
        if (first_kept)
            r = cut(store, namespace_name, first_kept, revision, deadline_ms);
        ten_free(first_kept);
    }
    json_decref(answer);
    return r;
}

void ten_etcd_feed_trim(ten_etcd_store *store, const char *namespace_name, uint64_t deadline_ms) {
    if (store->fed < TRIM_EVERY)
        return;
    store->fed = 0;
    ten_etcd_head head = store->head;
    ten_error error = store->base.error;
    if (trim(store, namespace_name, deadline_ms) == TENURE_OK)
        (void)trim_old(store, namespace_name, deadline_ms);
    store->head = head;
    store->base.error = error;
}

/* ---- reading ----------------------------------------------------------------------------------------------- */

struct reading {
    const char *namespace_name;
    uint64_t *cursor;
    size_t left;
    ten_change_fn each;
    void *userdata;
};

/* What one entry says after the cursor. */
static int read_entry(struct reading *reading, const ten_etcd_kv *entry) {
    const json_t *changes = json_object_get(entry->value, "changes");
    for (size_t i = 0; i < json_array_size(changes) && reading->left > 0; i++) {
        ten_change change = {.cursor = entry->revision * PLACES + i, .at_ms = ten_etcd_number(entry->value, "at_ms")};
        if (change.cursor <= *reading->cursor)
            continue;
        *reading->cursor = change.cursor;
        /* What a newer version tells and this does not know is passed over. */
        if (!ten_feed_json_read(json_array_get(changes, i), reading->namespace_name, &change))
            continue;
        if (change.kind == TENURE_EVENT_ACQUIRED && change.token == 0)
            change.token = entry->revision;
        reading->left--;
        int stopped = reading->each(&change, reading->userdata);
        if (stopped)
            return stopped;
    }
    return TENURE_OK;
}

static void add_reads(ten_etcd_store *store, const char *namespace_name, uint64_t revision, size_t limit) {
    char key[TEN_ETCD_KEY_MAX + 1];
    char from[TEN_ETCD_KEY_MAX + 1];
    char name[24];
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_TRIMMED, NULL);
    ten_etcd_get(&store->txn, key);
    if (revision == UINT64_MAX)
        return;
    snprintf(name, sizeof name, "%016llx", (unsigned long long)ten_sub_saturating(revision, READ_BEHIND));
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_FEED, NULL);
    ten_etcd_key_of(store, from, namespace_name, TEN_ETCD_FEED, name);
    ten_etcd_get_all(&store->txn, key,
                     &(struct ten_etcd_range){.from = from,
                                              .limit = ten_min_u64(limit, PAGE) + 1, /* the cursor's own entry */
                                              .changed_since = revision ? revision : 1,
                                              .by_change = true});
}

int ten_etcd_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                     void *userdata, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    bool now = *cursor == TEN_CURSOR_NOW;
    bool succeeded;
    json_t *answer = NULL;
    if (*cursor == TEN_CURSOR_OLDEST)
        *cursor = 0;
    add_reads(store, namespace_name, now ? UINT64_MAX : *cursor / PLACES, limit);
    int r = ten_etcd_commit(store, false, ten_now_ms() + timeout_ms, &succeeded, &answer);
    if (r < 0)
        return r;
    ten_etcd_kv trimmed = ten_etcd_kv_at(answer, 0, &store->scratch);
    uint64_t cut_at = ten_etcd_number(trimmed.value, "revision");
    ten_etcd_kv_free(&trimmed);
    uint64_t this_moment = store->head.revision * PLACES + PLACES - 1;
    /* 0 is the beginning of what there is. */
    bool missed = !now && *cursor != 0 && (*cursor / PLACES < cut_at || *cursor > this_moment);
    if (now || missed) {
        bool epoch = *cursor > this_moment; /* revisions go back only with a snapshot that was restored */
        json_decref(answer);
        *cursor = this_moment;
        return now ? TENURE_OK : ten_store_missed(base, namespace_name, *cursor, epoch, each, userdata);
    }
    struct reading reading = {namespace_name, cursor, limit, each, userdata};
    const json_t *entries = ten_etcd_kvs(answer, 1);
    for (size_t i = 0; r == TENURE_OK && reading.left > 0 && i < json_array_size(entries); i++) {
        ten_etcd_kv entry = ten_etcd_kv_read(json_array_get(entries, i), &store->scratch);
        r = read_entry(&reading, &entry);
        ten_etcd_kv_free(&entry);
    }
    json_decref(answer);
    return r;
}
