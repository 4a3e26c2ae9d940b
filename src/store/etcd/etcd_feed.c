/*
 * The feed of changes in etcd. What one transaction changes is one key, PREFIX/NS/feed/REVISION-RANDOM-COUNT, where
 * REVISION is the one that its writer had read: so the keys are nearly in the order of their writing, and a reader
 * starts a little before where it stopped. The order itself is that of the revisions at which they were created: a
 * cursor is revision * 1024 + place within the entry. An entry is written once more when a target that it tells of is
 * forgotten: then there is a null at its place. Called by etcd_apply.c, etcd_forget.c and through store.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"
#include "store/common/feed_json.h"
#include "store/etcd/etcd_state.h"

#define PLACES      1024u
#define READ_BEHIND 4096u  /* revisions between a writer's reading and its writing, at most: it takes milliseconds */
#define PAGE        20000u /* entries, each of one change at least */
#define BLANK_PAGE  100u
#define BLANK_MAX   100u /* entries that one transaction rewrites */
#define LOOK_MAX    60u  /* targets that one transaction looks at: two keys each */
#define TRIM_EVERY  500u /* changes of one handle */
#define TRIM_CHANCE 200u /* of so many changes of whatever handles one leads to a look, too */
#define TRIM_WHOLE  64u  /* of so many looks one begins at the very first key */
#define SLACK       500u
#define STEP        400u /* changes that are removed at a time, and no more entries */
#define STEP_LEAST  32u  /* entries that a step reads, at least */
#define TRIM_MS     250u /* no caller waits longer for the feed; what is left to do is done next time */

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
    ten_etcd_txn_put(&store->txn, key, ten_buf_string(&store->value), 0);
    store->fed += count;
    store->fed_last = count;
}

/* ---- its length -------------------------------------------------------------------------------------------- */

/* How many changes an entry has, by its key. */
static uint64_t count_of(const char *key) {
    const char *last = strrchr(key, '-');
    return last ? strtoull(last + 1, NULL, 10) : 1;
}

/* The key before every entry that was created at this revision or later. */
static void key_before(const ten_etcd_store *store, char key[TEN_ETCD_KEY_MAX + 1], const char *namespace_name,
                       uint64_t revision) {
    char name[24];
    snprintf(name, sizeof name, "%016llx", (unsigned long long)ten_sub_saturating(revision, READ_BEHIND));
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_FEED, name);
}

/* A trimming: what is known of the feed and of the mark up to which it was cut. */
struct trimming {
    ten_etcd_store *store;
    const char *namespace_name;
    uint64_t deadline_ms;
    char from[TEN_ETCD_KEY_MAX + 1]; /* no entry is before it */
    json_t *answer;
    ten_etcd_kv trimmed;
    const json_t *entries; /* the oldest ones */
    size_t size;
    uint64_t count;   /* of all entries */
    uint64_t removed; /* changes */
};

static int read_mark(struct trimming *trimming, const struct ten_etcd_range *range) {
    ten_etcd_store *store = trimming->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    json_decref(trimming->answer);
    trimming->answer = NULL;
    ten_etcd_kv_free(&trimming->trimmed);
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, key, trimming->namespace_name, TEN_ETCD_TRIMMED, NULL);
    ten_etcd_txn_get(&store->txn, key);
    ten_etcd_key_of(store, key, trimming->namespace_name, TEN_ETCD_FEED, NULL);
    if (range)
        ten_etcd_txn_get_all(&store->txn, key, range);
    int r = ten_etcd_commit(store, false, trimming->deadline_ms, &succeeded, &trimming->answer);
    if (r == TENURE_OK)
        trimming->trimmed = ten_etcd_kv_at(trimming->answer, 0, &store->scratch);
    return r;
}

/* etcd walks over keys that were removed, too, until they are compacted, which may be never. So the reading begins at
 * the mark; but now and then at the very first key, for an entry whose writer was late by more revisions than that. */
static int find_begin(struct trimming *trimming) {
    int r = read_mark(trimming, NULL);
    uint64_t revision = ten_etcd_number(trimming->trimmed.value, "revision");
    bool whole = ten_hash_mix(trimming->store->head.revision) % TRIM_WHOLE == 0;
    key_before(trimming->store, trimming->from, trimming->namespace_name, whole ? 0 : revision);
    return r;
}

static int read_oldest(struct trimming *trimming, size_t limit, bool keys_only) {
    int r =
        read_mark(trimming, &(struct ten_etcd_range){.from = trimming->from, .limit = limit, .keys_only = keys_only});
    if (r < 0)
        return r;
    trimming->entries = ten_etcd_kvs(trimming->answer, 1);
    trimming->size = json_array_size(trimming->entries);
    trimming->count = ten_etcd_count(trimming->answer, 1);
    return TENURE_OK;
}

/* The targets that the first entries tell of. False: out of memory. */
static bool find_targets(const struct trimming *trimming, size_t count, ten_map *ret_targets) {
    bool good = true;
    for (size_t i = 0; good && i < count; i++) {
        ten_etcd_kv entry = ten_etcd_kv_read(json_array_get(trimming->entries, i), &trimming->store->scratch);
        const json_t *changes = json_object_get(entry.value, "changes");
        for (size_t j = 0; good && j < json_array_size(changes); j++) {
            const char *target = json_string_value(json_object_get(json_array_get(changes, j), "target"));
            if (target && target[0] && strlen(target) <= TENURE_TARGET_MAX)
                good = ten_map_put(ret_targets, target, NULL);
        }
        ten_etcd_kv_free(&entry);
    }
    return good;
}

/* What is free and not registered is forgotten with the last that is known of it. */
static int forget(const struct trimming *trimming, size_t count, uint64_t revision) {
    ten_map targets = {0};
    ten_forget *items = find_targets(trimming, count, &targets) ? ten_calloc(targets.count + 1, sizeof *items) : NULL;
    int r = items ? TENURE_OK : ten_etcd_no_memory(trimming->store);
    const ten_map_entry *entry;
    size_t found = 0;
    for (size_t at = 0; items && (entry = ten_map_next(&targets, &at));)
        items[found++].id = entry->key;
    if (r == TENURE_OK)
        r = ten_etcd_forget_aged(trimming->store, trimming->namespace_name, items, found, revision,
                                 trimming->deadline_ms);
    ten_free(items);
    ten_map_free(&targets);
    return r;
}

/* Removes the first of the entries that were read, unless somebody else does that at the moment. */
static int cut(struct trimming *trimming, size_t removed, bool *ret_succeeded) {
    ten_etcd_store *store = trimming->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    char value[40];
    uint64_t revision = ten_etcd_number(trimming->trimmed.value, "revision");
    for (size_t i = 0; i < removed; i++)
        revision = ten_max_u64(revision, ten_etcd_number(json_array_get(trimming->entries, i), "create_revision"));
    *ret_succeeded = false;
    int r = forget(trimming, removed, revision);
    const char *text = json_string_value(json_object_get(json_array_get(trimming->entries, removed), "key"));
    if (r < 0 || !text || !ten_base64_decode(&store->scratch, text))
        return r;
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_txn_delete_between(&store->txn, trimming->from, ten_buf_string(&store->scratch));
    ten_etcd_key_of(store, key, trimming->namespace_name, TEN_ETCD_TRIMMED, NULL);
    ten_etcd_txn_compare(&store->txn, key, trimming->trimmed.revision);
    snprintf(value, sizeof value, "{\"revision\":%llu}", (unsigned long long)revision);
    ten_etcd_txn_put(&store->txn, key, value, 0);
    return ten_etcd_commit(store, true, trimming->deadline_ms, ret_succeeded, NULL);
}

/* How many changes an entry has, by its key. */
static uint64_t changes_of(const struct trimming *trimming, size_t entry) {
    const char *text = json_string_value(json_object_get(json_array_get(trimming->entries, entry), "key"));
    bool good = text && ten_base64_decode(&trimming->store->scratch, text);
    return good ? count_of(ten_buf_string(&trimming->store->scratch)) : 1;
}

/* How many of the oldest entries are too many: what is kept has TEN_FEED_MAX changes or a few more. */
static int count_surplus(struct trimming *trimming, uint64_t *ret_surplus) {
    int r = read_oldest(trimming, 1, true);
    *ret_surplus = 0;
    if (r < 0)
        return r;
    /* Every entry has at least one change: of so many entries the oldest are too many, whatever the others have. */
    if (trimming->count > TEN_FEED_MAX + 2 * SLACK) {
        *ret_surplus = trimming->count - TEN_FEED_MAX;
        return TENURE_OK;
    }
    r = read_oldest(trimming, TEN_FEED_MAX + 4 * SLACK, true);
    if (r < 0)
        return r;
    uint64_t kept = 0;
    size_t i = trimming->size;
    while (i > 0 && kept < TEN_FEED_MAX + SLACK)
        kept += changes_of(trimming, --i);
    *ret_surplus = kept >= TEN_FEED_MAX + SLACK ? i : 0;
    return TENURE_OK;
}

/* How many of the oldest entries are too many however young they are, if the others have as many changes each. */
static uint64_t count_excess(const struct trimming *trimming) {
    uint64_t changes = 0;
    for (size_t i = 0; i < trimming->size; i++)
        changes += changes_of(trimming, i);
    return changes ? ten_sub_saturating(trimming->count, TEN_FEED_MOST * trimming->size / changes) : 0;
}

/* Removes up to so many of the oldest entries, as many as are a step, and none that is young. Those that are too old are
 * always too many. */
static int take_step(struct trimming *trimming, uint64_t *surplus, bool *ret_more) {
    ten_etcd_store *store = trimming->store;
    uint64_t now_ms = ten_wall_ms(store->base.clock);
    uint64_t changes = 0;
    size_t removed = 0;
    bool succeeded = true;
    int r = read_oldest(trimming, ten_min_u64(ten_max_u64(*surplus, STEP_LEAST), STEP) + 1, false);
    uint64_t excess = r == TENURE_OK ? count_excess(trimming) : 0;
    for (bool more = true; r == TENURE_OK && more && removed + 1 < trimming->size && changes < STEP;) {
        ten_etcd_kv entry = ten_etcd_kv_read(json_array_get(trimming->entries, removed), &store->scratch);
        uint64_t at_ms = ten_etcd_number(entry.value, "at_ms"); /* by its writer's clock, which may be ahead */
        uint64_t kept_ms = removed < *surplus ? TEN_FEED_YOUNG_MS : TEN_FEED_AGE_MS;
        more = removed < excess || at_ms + kept_ms < now_ms || (removed < *surplus && at_ms > now_ms);
        ten_etcd_kv_free(&entry);
        changes += changes_of(trimming, removed);
        removed += more;
    }
    if (r == TENURE_OK && removed > 0)
        r = cut(trimming, removed, &succeeded);
    *surplus = ten_sub_saturating(*surplus, removed);
    trimming->removed += changes;
    *ret_more = r == TENURE_OK && succeeded && removed > 0;
    return r;
}

/* In steps, so that no answer is larger than the link takes, and nobody waits for long; but twice as much goes as came, or
 * a feed that is behind would never be done. False: there is more to do. */
static bool trim(ten_etcd_store *store, const char *namespace_name, uint64_t deadline_ms) {
    struct trimming trimming = {.store = store, .namespace_name = namespace_name, .deadline_ms = deadline_ms};
    uint64_t surplus = 0;
    bool more = true;
    int r = find_begin(&trimming);
    if (r == TENURE_OK)
        r = count_surplus(&trimming, &surplus);
    uint64_t until_ms = ten_now_ms() + TRIM_MS;
    do {
        if (r == TENURE_OK)
            r = take_step(&trimming, &surplus, &more);
    } while (r == TENURE_OK && more && (ten_now_ms() < until_ms || trimming.removed < 2 * store->fed));
    json_decref(trimming.answer);
    ten_etcd_kv_free(&trimming.trimmed);
    return r < 0 || !more;
}

/* ---- forgotten targets ------------------------------------------------------------------------------------- */

/* A pass through the feed. */
struct blanking {
    ten_etcd_store *store;
    const char *namespace_name;
    uint64_t deadline_ms;
    uint64_t until;    /* what was created after this revision is left alone: a target may have been used again */
    ten_map looked_at; /* targets; a value: it is forgotten, */
    ten_map unseen;    /* and those that are still to be looked at */
};

/* The target of a change of its lease; NULL: it is something else. */
static const char *leased_in(const json_t *change) {
    const char *target = json_string_value(json_object_get(change, "target"));
    const char *event = json_string_value(json_object_get(change, "event"));
    bool good = target && target[0] && strlen(target) <= TENURE_TARGET_MAX && event && strncmp(event, "lease_", 6) == 0;
    return good ? target : NULL;
}

static bool note_unseen(struct blanking *blanking, const json_t *entries) {
    bool good = true;
    for (size_t i = 0; good && i < json_array_size(entries); i++) {
        ten_etcd_kv entry = ten_etcd_kv_read(json_array_get(entries, i), &blanking->store->scratch);
        const json_t *changes = entry.created <= blanking->until ? json_object_get(entry.value, "changes") : NULL;
        for (size_t j = 0; good && j < json_array_size(changes); j++) {
            const char *target = leased_in(json_array_get(changes, j));
            if (target && !ten_map_key(&blanking->looked_at, target))
                good = ten_map_put(&blanking->unseen, target, NULL);
        }
        ten_etcd_kv_free(&entry);
    }
    return good;
}

/* Those that have neither a fence nor a registration are forgotten. */
static int look_at(struct blanking *blanking, const char *const *targets, size_t count) {
    ten_etcd_store *store = blanking->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded;
    json_t *answer = NULL;
    ten_etcd_txn_clear(&store->txn);
    for (size_t i = 0; i < count; i++) {
        ten_etcd_key_of(store, key, blanking->namespace_name, TEN_ETCD_FENCE, targets[i]);
        ten_etcd_txn_get(&store->txn, key);
        ten_etcd_key_of(store, key, blanking->namespace_name, TEN_ETCD_TARGET, targets[i]);
        ten_etcd_txn_get(&store->txn, key);
    }
    int r = count > 0 ? ten_etcd_commit(store, false, blanking->deadline_ms, &succeeded, &answer) : TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        bool known =
            json_array_size(ten_etcd_kvs(answer, 2 * i)) + json_array_size(ten_etcd_kvs(answer, 2 * i + 1)) > 0;
        if (!ten_map_put(&blanking->looked_at, targets[i], known ? NULL : blanking))
            r = ten_etcd_no_memory(store);
    }
    json_decref(answer);
    return r;
}

static int look_at_unseen(struct blanking *blanking) {
    const char *targets[LOOK_MAX];
    size_t count = 0;
    int r = TENURE_OK;
    const ten_map_entry *entry;
    for (size_t at = 0; r == TENURE_OK && (entry = ten_map_next(&blanking->unseen, &at));) {
        targets[count++] = entry->key;
        if (count == LOOK_MAX) {
            r = look_at(blanking, targets, count);
            count = 0;
        }
    }
    if (r == TENURE_OK)
        r = look_at(blanking, targets, count);
    ten_map_free(&blanking->unseen);
    return r;
}

/* Takes what an entry has of the leases of forgotten targets out of it. *ret_left: others are in it. False: it has none of
 * them. That a target was registered or removed stays: it is not told again. */
static bool blank(json_t *value, const ten_map *looked_at, bool *ret_left) {
    json_t *changes = json_object_get(value, "changes");
    bool found = false;
    *ret_left = false;
    for (size_t i = 0; i < json_array_size(changes); i++) {
        const json_t *change = json_array_get(changes, i);
        const char *target = leased_in(change);
        if (target && ten_map_get(looked_at, target))
            found = json_array_set_new(changes, i, json_null()) == 0 || found;
        else
            *ret_left |= !json_is_null(change);
    }
    return found;
}

/* Adds what becomes of an entry to the transaction. */
static int blank_entry(struct blanking *blanking, const json_t *item) {
    ten_etcd_store *store = blanking->store;
    bool left;
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_kv entry = ten_etcd_kv_read(item, &store->scratch);
    bool found = entry.created <= blanking->until && blank(entry.value, &blanking->looked_at, &left);
    char *text = found && left ? json_dumps(entry.value, JSON_COMPACT) : NULL;
    ten_etcd_kv_free(&entry);
    const char *name = json_string_value(json_object_get(item, "key"));
    if (!found)
        return TENURE_OK;
    if ((left && !text) || !name || !ten_base64_decode(&store->scratch, name)) {
        free(text);
        return ten_etcd_no_memory(store);
    }
    snprintf(key, sizeof key, "%s", ten_buf_string(&store->scratch));
    ten_etcd_txn_compare(&store->txn, key, entry.revision);
    if (left)
        ten_etcd_txn_put(&store->txn, key, text, 0);
    else
        ten_etcd_txn_delete(&store->txn, key);
    free(text);
    return TENURE_OK;
}

/* A page of entries after a key. If somebody else has changed one of them meanwhile, the key stays: once more. */
static int blank_page(struct blanking *blanking, char *after, bool *ret_more) {
    ten_etcd_store *store = blanking->store;
    char key[TEN_ETCD_KEY_MAX + 1];
    bool succeeded = true;
    json_t *answer = NULL;
    ten_etcd_key_of(store, key, blanking->namespace_name, TEN_ETCD_FEED, NULL);
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_txn_get_all(&store->txn, key, &(struct ten_etcd_range){.after = after, .limit = BLANK_PAGE});
    int r = ten_etcd_commit(store, false, blanking->deadline_ms, &succeeded, &answer);
    const json_t *entries = ten_etcd_kvs(answer, 0);
    size_t count = json_array_size(entries);
    if (blanking->until == 0)
        blanking->until = store->head.revision;
    if (r == TENURE_OK)
        r = note_unseen(blanking, entries) ? look_at_unseen(blanking) : ten_etcd_no_memory(store);
    size_t at = 0;
    ten_etcd_txn_clear(&store->txn);
    for (; r == TENURE_OK && at < count && store->txn.operation_count < BLANK_MAX; at++)
        r = blank_entry(blanking, json_array_get(entries, at));
    if (r == TENURE_OK && store->txn.operation_count > 0)
        r = ten_etcd_commit(store, true, blanking->deadline_ms, &succeeded, NULL);
    *ret_more = at < count || ten_etcd_has_more(answer, 0) || !succeeded;
    const char *last = at > 0 ? json_string_value(json_object_get(json_array_get(entries, at - 1), "key")) : NULL;
    if (r == TENURE_OK && succeeded && last && ten_base64_decode(&store->scratch, last))
        snprintf(after, TEN_ETCD_KEY_MAX + 1, "%s", ten_buf_string(&store->scratch));
    json_decref(answer);
    return r;
}

/* The whole feed at once: every page is a request of its own, and has the time-out. */
int ten_etcd_forget_history(ten_store *base, const char *namespace_name, uint64_t timeout_ms) {
    struct blanking blanking = {.store = (ten_etcd_store *)base, .namespace_name = namespace_name};
    char after[TEN_ETCD_KEY_MAX + 1];
    int r = ten_etcd_enter(blanking.store, namespace_name, ten_add_saturating(ten_now_ms(), timeout_ms));
    key_before(blanking.store, after, namespace_name, 0);
    for (bool more = true; r == TENURE_OK && more;) {
        blanking.deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
        r = blank_page(&blanking, after, &more);
    }
    ten_map_free(&blanking.looked_at);
    ten_map_free(&blanking.unseen);
    return r;
}

/* ---- when it is trimmed ------------------------------------------------------------------------------------ */

/* A handle that writes much looks now and then. Most handles of commands write once: of all that write, some look, by
 * the revision at which they wrote. */
static bool is_due(const ten_etcd_store *store) {
    if (store->trimmed_in == store->call) /* a batch has many transactions, and its caller waits for all of them */
        return false;
    return store->fed >= TRIM_EVERY || ten_hash_mix(store->head.revision) % TRIM_CHANCE < store->fed_last;
}

void ten_etcd_feed_trim(ten_etcd_store *store, const char *namespace_name, uint64_t deadline_ms) {
    if (!is_due(store))
        return;
    ten_etcd_head head = store->head;
    ten_error error = store->base.error;
    store->trimmed_in = store->call;
    bool done = trim(store, namespace_name, ten_min_u64(deadline_ms, ten_now_ms() + 8 * TRIM_MS));
    store->fed = done ? 0 : TRIM_EVERY;
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
        ten_change change = {.cursor = entry->created * PLACES + i, .at_ms = ten_etcd_number(entry->value, "at_ms")};
        if (change.cursor <= *reading->cursor)
            continue;
        *reading->cursor = change.cursor;
        /* What was forgotten, or a newer version tells and this does not know, is passed over. */
        if (!ten_feed_json_read(json_array_get(changes, i), reading->namespace_name, &change))
            continue;
        if (change.kind == TENURE_EVENT_ACQUIRED && change.token == 0)
            change.token = entry->created;
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
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_TRIMMED, NULL);
    ten_etcd_txn_get(&store->txn, key);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_EPOCH, NULL);
    ten_etcd_txn_get(&store->txn, key);
    if (revision == UINT64_MAX)
        return;
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_FEED, NULL);
    key_before(store, from, namespace_name, revision);
    ten_etcd_txn_get_all(&store->txn, key,
                         &(struct ten_etcd_range){.from = from,
                                                  .limit = ten_min_u64(limit, PAGE) + 1, /* the cursor's own entry */
                                                  .created_since = revision ? revision : 1,
                                                  .by_creation = true});
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
    ten_etcd_kv epoch = ten_etcd_kv_at(answer, 1, &store->scratch);
    uint64_t epoch_at = ten_etcd_number(epoch.value, "at");
    r = ten_etcd_check_layout(store, namespace_name, epoch.value);
    ten_etcd_kv_free(&epoch);
    if (r < 0) {
        json_decref(answer);
        return r;
    }
    uint64_t this_moment = store->head.revision * PLACES + PLACES - 1;
    /* 0 is the beginning of what there is. */
    bool lost = *cursor != 0 && (*cursor / PLACES <= epoch_at || *cursor > this_moment);
    bool missed = !now && *cursor != 0 && (*cursor / PLACES < cut_at || lost);
    if (now || missed) {
        json_decref(answer);
        *cursor = this_moment;
        return now ? TENURE_OK : ten_store_missed(base, namespace_name, *cursor, lost, each, userdata);
    }
    struct reading reading = {namespace_name, cursor, limit, each, userdata};
    const json_t *entries = ten_etcd_kvs(answer, 2);
    bool quiet = json_array_size(entries) == 0;
    for (size_t i = 0; r == TENURE_OK && reading.left > 0 && i < json_array_size(entries); i++) {
        ten_etcd_kv entry = ten_etcd_kv_read(json_array_get(entries, i), &store->scratch);
        r = read_entry(&reading, &entry);
        ten_etcd_kv_free(&entry);
    }
    json_decref(answer);
    if (quiet)
        ten_etcd_reserves_keep(store);
    return r;
}
