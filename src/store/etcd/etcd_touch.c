/*
 * Extending lives in etcd: the etcd leases are kept alive, and then one transaction says which of the records are what the
 * caller takes them for. Those whose life is attached elsewhere, or has vanished in doubt, move to a group that was kept
 * alive or granted in this call. Called through backend.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_state.h"

#define TRIES_MAX 4u
#define PARTS_MAX 60u

/* One touch under way. */
struct item {
    ten_touch *touch;
    ten_etcd_key life;
    uint64_t lease; /* of the group that is to keep it; 0: none is known yet */
    ten_etcd_sight sight;
    bool is_compared; /* it is one of many that stay as they are, by what this handle knows */
    bool is_settled;  /* it was extended, or is not what is meant */
};

struct work {
    ten_etcd_store *store;
    const char *namespace_name;
    ten_etcd_reliance on;
    uint64_t deadline_ms;
    struct item *items;
    size_t count;
};

/* ---- which groups go on ------------------------------------------------------------------------------------ */

/* A group goes on if all of it is touched, and for the TTL that it has. */
static void cover(struct work *work) {
    for (size_t i = 0; i < work->count; i++) {
        struct item *item = &work->items[i];
        ten_etcd_hold *hold = ten_etcd_hold_find(work->store, item->life);
        item->lease = 0;
        if (!hold || hold->covered_in == work->store->call)
            continue;
        ten_etcd_group *group = hold->group;
        hold->covered_in = work->store->call;
        group->covered = group->covered_in == work->store->call ? group->covered + 1 : 1;
        group->covered_in = work->store->call;
    }
}

static bool goes_on(const ten_etcd_store *store, const ten_etcd_group *group) {
    return group->covered_in == store->call && group->covered == group->count && !group->uncertain &&
           (group->term == store->head.term || store->is_full);
}

/* The largest for such. One whose TTL is longer stays where it is: nothing may end earlier than it did. */
static ten_etcd_group *home_of(const struct work *work, const struct item *item) {
    const ten_touch *touch = item->touch;
    const ten_etcd_hold *hold = ten_etcd_hold_find(work->store, item->life);
    if (hold && hold->group->ttl_ms > touch->ttl_ms && goes_on(work->store, hold->group))
        return hold->group;
    ten_etcd_group *best = NULL;
    for (ten_etcd_group *group = work->store->groups; group; group = group->next)
        if (goes_on(work->store, group) && group->ttl_ms == touch->ttl_ms && strcmp(group->name, touch->name) == 0 &&
            strcmp(group->namespace_name, work->namespace_name) == 0 && (!best || group->count > best->count))
            best = group;
    return best;
}

static int keep_homes(struct work *work) {
    ten_etcd_group **homes = ten_calloc(work->count, sizeof *homes);
    size_t count = 0;
    if (!homes)
        return ten_etcd_no_memory(work->store);
    cover(work);
    for (size_t i = 0; i < work->count; i++) {
        struct item *item = &work->items[i];
        ten_etcd_group *home = home_of(work, item);
        item->lease = home ? home->lease : 0;
        bool is_new = home != NULL;
        for (size_t j = 0; is_new && j < count; j++)
            is_new = homes[j] != home;
        if (is_new)
            homes[count++] = home;
    }
    int r = count ? ten_etcd_groups_keep(work->store, homes, count, work->deadline_ms) : TENURE_OK;
    ten_free(homes);
    return r;
}

/* ---- what is so --------------------------------------------------------------------------------------------- */

static bool is_steady(const struct work *work, const struct item *item) {
    const ten_etcd_hold *hold = ten_etcd_hold_find(work->store, item->life);
    return work->count > TEN_ETCD_FLAT && item->touch->version != TEN_VERSION_ANY && hold && item->lease &&
           hold->group->lease == item->lease;
}

/* As many as are alike. Of many each is compared, and read only if that fails; few are read. */
static size_t add_part(struct work *work, size_t first) {
    ten_etcd_store *store = work->store;
    bool flat = work->count <= TEN_ETCD_FLAT;
    bool compared = is_steady(work, &work->items[first]);
    size_t end = ten_min_u64(work->count, first + (flat ? TEN_ETCD_FLAT : TEN_ETCD_PART));
    size_t i = first;
    ten_etcd_txn_clear(&store->part);
    for (; i < end && is_steady(work, &work->items[i]) == compared; i++) {
        struct item *item = &work->items[i];
        ten_etcd_key record;
        item->is_compared = compared;
        ten_etcd_record_get(store, flat ? &store->txn : &store->part, work->namespace_name, item->touch->key, compared);
        if (!compared)
            continue;
        ten_etcd_key_of_record(record, store->settings.prefix, work->namespace_name, item->touch->key);
        ten_etcd_txn_compare(&store->part, record, item->touch->version);
        ten_etcd_txn_compare_lease(&store->part, item->life, item->lease);
    }
    if (!flat)
        ten_etcd_txn_add_part(&store->txn, &store->part);
    return i;
}

/* It goes on in the present term, unless there is no room for another one. */
static bool is_kept(const ten_etcd_store *store, uint64_t lease) {
    const ten_etcd_group *group = lease ? ten_etcd_group_by_lease(store, lease) : NULL;
    return group && ten_etcd_group_is_kept(store, group) && (group->term == store->head.term || store->is_full);
}

static bool is_meant(const struct item *item) {
    const ten_record *record = &item->sight.record;
    const ten_touch *touch = item->touch;
    return record->version && (touch->version == TEN_VERSION_ANY || touch->version == record->version) &&
           record->alive && strcmp(record->name, touch->name) == 0;
}

static void settle(struct item *item, bool extended, uint64_t present) {
    item->is_settled = true;
    item->touch->extended = extended;
    item->touch->present = present;
}

/* Whatever it is, it ends with what it is attached to. */
static int note_place(ten_etcd_store *store, const struct item *item) {
    ten_etcd_group *group = item->sight.lease ? ten_etcd_group_by_lease(store, item->sight.lease) : NULL;
    if (!group)
        ten_etcd_hold_drop(store, item->life);
    return !group || ten_etcd_hold_set(store, group, item->life) ? TENURE_OK : ten_etcd_no_memory(store);
}

static int judge(struct work *work, const json_t *answer, size_t operation, size_t first, size_t end) {
    ten_etcd_store *store = work->store;
    const ten_etcd_space *space = ten_etcd_space_of(store, work->namespace_name);
    bool flat = work->count <= TEN_ETCD_FLAT;
    const json_t *part = flat ? answer : ten_etcd_part(answer, operation);
    bool all_same = work->items[first].is_compared && ten_etcd_succeeded(part);
    int r = TENURE_OK;
    for (size_t i = first, at = flat ? operation : 0; r == TENURE_OK && i < end; i++) {
        struct item *item = &work->items[i];
        item->sight.record.key = item->touch->key;
        if (all_same) {
            if (is_kept(store, item->lease))
                settle(item, true, item->touch->version);
            continue;
        }
        r = ten_etcd_record_take(store, space, part, &at, &item->sight);
        if (r == TENURE_OK && !is_meant(item)) {
            settle(item, false, item->sight.record.version);
        } else if (r == TENURE_OK && item->sight.is_attached && !item->sight.lease) {
            settle(item, true, item->sight.record.version); /* it has no end */
        } else if (r == TENURE_OK && item->sight.lease == item->lease && is_kept(store, item->lease)) {
            settle(item, true, item->sight.record.version);
        }
        if (r == TENURE_OK)
            r = note_place(store, item);
    }
    return r;
}

/* One transaction for up to PARTS_MAX parts. */
static int verify(struct work *work) {
    ten_etcd_store *store = work->store;
    int r = TENURE_OK;
    for (size_t first = 0; r == TENURE_OK && first < work->count;) {
        json_t *answer = NULL;
        bool held = false;
        size_t ends[PARTS_MAX];
        size_t parts = 0;
        ten_etcd_rely_begin(store, &work->on);
        ten_etcd_state_get(store, work->namespace_name, false);
        for (size_t at = first; at < work->count && parts < PARTS_MAX;)
            at = ends[parts++] = add_part(work, at);
        r = ten_etcd_rely_send(store, &work->on, false, work->deadline_ms, &answer, &held);
        if (r == TENURE_OK && held)
            r = ten_etcd_state_take(store, work->namespace_name, answer, 0, NULL);
        for (size_t i = 0; r == TENURE_OK && held && i < parts; i++)
            r = judge(work, answer, TEN_ETCD_STATE_READS + i, i ? ends[i - 1] : first, ends[i]);
        first = ends[parts - 1];
        json_decref(answer);
    }
    return r;
}

/* ---- moving ------------------------------------------------------------------------------------------------- */

static bool has_to_move(const struct item *item) {
    return !item->is_settled && item->sight.record.version;
}

/* In the state in which it was seen. */
static void add_move(const struct work *work, const struct item *item) {
    ten_etcd_store *store = work->store;
    ten_etcd_key record;
    char value[24];
    ten_etcd_group *group = ten_etcd_group_by_lease(store, item->lease);
    ten_etcd_key_of_record(record, store->settings.prefix, work->namespace_name, item->touch->key);
    ten_etcd_txn_compare(&store->part, record, item->sight.record.version);
    if (!item->sight.in_doubt)
        ten_etcd_txn_compare_exists(&store->part, item->life);
    snprintf(value, sizeof value, "%llu", (unsigned long long)group->ttl_ms);
    ten_etcd_txn_put(&store->part, item->life, value, group->lease);
    group->uncertain = true; /* until the answer is there */
}

static size_t add_moves(const struct work *work, size_t first) {
    size_t count = 0;
    size_t i = first;
    ten_etcd_txn_clear(&work->store->part);
    for (; i < work->count && count < TEN_ETCD_PART; i++)
        if (has_to_move(&work->items[i])) {
            add_move(work, &work->items[i]);
            count++;
        }
    ten_etcd_txn_add_part(&work->store->txn, &work->store->part);
    return i;
}

static int note_moved(struct work *work, size_t first, size_t end) {
    ten_etcd_store *store = work->store;
    for (size_t i = first; i < end; i++) {
        struct item *item = &work->items[i];
        if (!has_to_move(item))
            continue;
        ten_etcd_group *group = ten_etcd_group_by_lease(store, item->lease);
        if (!group || !ten_etcd_hold_set(store, group, item->life))
            return ten_etcd_no_memory(store);
        if (is_kept(store, item->lease))
            settle(item, true, item->sight.record.version);
    }
    return TENURE_OK;
}

/* Where they go: kept alive in this call, or granted now. */
static int find_homes(struct work *work) {
    ten_etcd_store *store = work->store;
    for (size_t i = 0; i < work->count; i++) {
        struct item *item = &work->items[i];
        ten_etcd_group *group;
        if (!has_to_move(item))
            continue;
        int r = ten_etcd_group_get(store, work->namespace_name, item->touch->name,
                                   ten_max_u64(item->touch->ttl_ms, item->sight.ttl_ms), work->deadline_ms, &group);
        if (r < 0)
            return r;
        item->lease = group->lease;
    }
    return TENURE_OK;
}

static int move(struct work *work) {
    ten_etcd_store *store = work->store;
    const ten_etcd_space *space = ten_etcd_space_of(store, work->namespace_name);
    int r = find_homes(work);
    for (size_t first = 0; r == TENURE_OK && first < work->count;) {
        json_t *answer = NULL;
        bool held = false;
        size_t ends[PARTS_MAX];
        size_t parts = 0;
        ten_etcd_key key;
        ten_etcd_rely_begin(store, &work->on);
        ten_etcd_key_of_place(key, store->settings.prefix, work->namespace_name, TEN_ETCD_WAIT, NULL);
        ten_etcd_txn_compare(&store->txn, key, space->wait_revision); /* the doubt is the same */
        for (size_t at = first; at < work->count && parts < PARTS_MAX;)
            at = ends[parts++] = add_moves(work, at);
        r = ten_etcd_rely_send(store, &work->on, true, work->deadline_ms, &answer, &held);
        for (ten_etcd_group *group = store->groups; r == TENURE_OK && group; group = group->next)
            group->uncertain &= group->kept_in != store->call;
        for (size_t i = 0; r == TENURE_OK && held && i < parts; i++)
            if (ten_etcd_succeeded(ten_etcd_part(answer, i)))
                r = note_moved(work, i ? ends[i - 1] : first, ends[i]);
        first = ends[parts - 1];
        json_decref(answer);
    }
    return r;
}

/* ---- the call ----------------------------------------------------------------------------------------------- */

static bool is_over(const struct work *work) {
    for (size_t i = 0; i < work->count; i++)
        if (!work->items[i].is_settled)
            return false;
    return true;
}

static bool has_moves(const struct work *work) {
    for (size_t i = 0; i < work->count; i++)
        if (has_to_move(&work->items[i]))
            return true;
    return false;
}

static uint64_t longest_of(const struct work *work) {
    uint64_t longest_ms = 0;
    for (size_t i = 0; i < work->count; i++)
        longest_ms = ten_max_u64(longest_ms, work->items[i].touch->ttl_ms);
    return longest_ms;
}

/* Without room for a new etcd lease, those that are there go on. */
static int without_room(struct work *work, int r) {
    if (r == TENURE_E_FULL && !work->store->is_full) {
        work->store->is_full = true;
        return TENURE_OK;
    }
    return r;
}

static int extend(struct work *work) {
    ten_etcd_store *store = work->store;
    int r = TENURE_OK;
    for (unsigned tries = 0; r == TENURE_OK && !is_over(work); tries++) {
        if (tries == TRIES_MAX)
            return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "etcd is changing its leader; try again");
        store->call++;
        const ten_etcd_space *space = ten_etcd_space_of(store, work->namespace_name);
        if (!space)
            return store->base.error->code;
        if (!space->known)
            r = ten_etcd_state_read(store, work->namespace_name, work->deadline_ms);
        if (r == TENURE_OK && !store->is_full)
            r = without_room(work, ten_etcd_set_term(store, work->namespace_name, longest_of(work), work->deadline_ms));
        if (r == TENURE_OK)
            r = keep_homes(work);
        if (r == TENURE_OK)
            r = verify(work);
        if (r == TENURE_OK && has_moves(work) && space->term == store->head.term)
            r = without_room(work, move(work));
        r = r == TENURE_E_GONE ? TENURE_OK : r; /* an etcd lease was revoked by hand */
    }
    return r;
}

static int touch_once(struct work *work) {
    ten_etcd_store *store = work->store;
    int r = ten_etcd_enter(store, work->deadline_ms);
    if (r < 0)
        return r;
    if (strcmp(store->base.identity, work->on.identity) != 0)
        return TEN_OTHER_EPOCH;
    ten_etcd_groups_begin(store);
    for (size_t i = 0; i < work->count; i++) {
        struct item *item = &work->items[i];
        item->is_settled = false;
        item->sight = (ten_etcd_sight){.record.name = ""};
        ten_etcd_key_of_life(item->life, store->settings.prefix, work->namespace_name, item->touch->key);
    }
    r = extend(work);
    if (r == TENURE_OK)
        r = ten_etcd_confirm(store, work->deadline_ms);
    bool same = strcmp(store->base.identity, work->on.identity) == 0;
    return r != TENURE_OK ? r : same ? TENURE_OK : TEN_OTHER_EPOCH;
}

static int ping(ten_etcd_store *store, uint64_t deadline_ms) {
    int r = ten_etcd_enter(store, deadline_ms);
    json_t *answer = NULL;
    ten_etcd_key key;
    snprintf(key, sizeof key, "%s/store", store->settings.prefix);
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_txn_get(&store->txn, key);
    if (r == TENURE_OK)
        r = ten_etcd_send(store, false, deadline_ms, &answer);
    json_decref(answer);
    /* Without the permission it is a round trip all the same; check() tells what is missing. */
    return r == TENURE_E_DENIED && ten_etcd_is_known(store->link) ? TENURE_OK : r;
}

int ten_etcd_touch(ten_backend *base, const char *namespace_name, const char *identity, uint64_t epoch,
                   ten_touch *touches, size_t count, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    struct work work = {.store = store,
                        .namespace_name = namespace_name,
                        .on = {.namespace_name = namespace_name, .identity = identity, .epoch = epoch},
                        .deadline_ms = ten_now_ms() + timeout_ms,
                        .count = count};
    if (count == 0)
        return ping(store, work.deadline_ms);
    work.items = ten_calloc(count, sizeof *work.items);
    if (!work.items)
        return ten_etcd_no_memory(store);
    for (size_t i = 0; i < count; i++)
        work.items[i].touch = &touches[i];
    int r = touch_once(&work);
    if (r < 0 && store->is_older)
        r = touch_once(&work);
    ten_free(work.items);
    return r;
}
