/*
 * Extending lives in etcd: the etcd leases are kept alive, and then one transaction says which of the records are what
 * the caller takes them for: all leases of a holder by its mark, or each. Those whose life is attached elsewhere, or
 * has vanished in doubt, move to a group that was kept alive or granted in this call. Called through backend.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_state.h"

#define TRIES_MAX 4u
#define MARKS_MAX 24u
/* The same beside a reading without parts. */
#define FLAT_MARKS_MAX (TEN_ETCD_TXN_MAX - TEN_ETCD_STATE_READS - 2 * TEN_ETCD_FLAT)
#define MARKED_MIN     16u /* leases of a group for which a mark is worth it */
#define LOOKED_MAX     96u /* lives that are compared beside the marks of up to MARKS_MAX groups, in turn */

/* One touch under way. */
struct item {
    ten_touch *touch;
    ten_etcd_hold *hold;         /* what is known of it when the groups have been kept alive; NULL: nothing */
    uint64_t lease;              /* of the group that is to keep it; 0: none is known yet */
    const ten_etcd_sight *sight; /* NULL: it was not read */
    bool is_settled;             /* it was extended, or is not what is meant */
};

struct work {
    ten_etcd_store *store;
    ten_etcd_reliance on;
    struct item *items;
    size_t count;
    size_t unsettled;
    struct item **open;     /* those that are not settled, when each is read, */
    ten_etcd_sight *sights; /* and what they are */
    size_t open_count;
};

static ten_etcd_key life_of(const struct work *work, const struct item *item) {
    return ten_etcd_life_key(&work->store->dir, item->touch->key);
}

static ten_etcd_key mark_of(const struct work *work, const char *name) {
    return ten_etcd_place(&work->store->dir, TEN_ETCD_MARK, name);
}

static void settle(struct work *work, struct item *item, bool extended, uint64_t present) {
    work->unsettled--;
    item->is_settled = true;
    item->touch->extended = extended;
    item->touch->present = present;
}

/* ---- which groups go on ------------------------------------------------------------------------------------ */

/* Finds what is known of each, and how many of each group are touched. */
static void find_holds(const struct work *work) {
    for (size_t i = 0; i < work->count; i++) {
        ten_etcd_hold *hold = ten_etcd_hold_find(work->store, life_of(work, &work->items[i]).text);
        work->items[i].hold = hold;
        if (!hold || hold->covered_in == work->store->call)
            continue;
        ten_etcd_group *group = hold->group;
        hold->covered_in = work->store->call;
        group->covered = group->covered_in == work->store->call ? group->covered + 1 : 1;
        group->covered_in = work->store->call;
    }
}

/* A group goes on if all of it is touched, and for the TTL that it has. */
static bool goes_on(const ten_etcd_store *store, const ten_etcd_group *group) {
    return group->covered_in == store->call && group->covered == group->count && !group->uncertain &&
           (group->term == store->head.term || store->is_full);
}

/* The largest group with that TTL and name. A life whose group has a longer TTL stays there: no life may end earlier
 * than it would have. */
static ten_etcd_group *home_of(const struct work *work, const struct item *item) {
    const ten_touch *touch = item->touch;
    const ten_etcd_hold *hold = item->hold;
    if (hold && hold->group->ttl_ms > touch->ttl_ms && goes_on(work->store, hold->group))
        return hold->group;
    ten_etcd_group *best = NULL;
    for (ten_etcd_group *group = work->store->groups; group; group = group->next)
        if (goes_on(work->store, group) && group->ttl_ms == touch->ttl_ms && (!best || group->count > best->count) &&
            ten_etcd_group_is_of(work->store, group, touch->name))
            best = group;
    return best;
}

static int keep_homes(const struct work *work) {
    size_t groups = ten_etcd_groups_count(work->store);
    find_holds(work);
    for (size_t i = 0; i < work->count; i++) {
        ten_etcd_group *home = home_of(work, &work->items[i]);
        work->items[i].lease = home ? home->lease : 0;
        if (home)
            home->is_wanted = true;
    }
    int r = ten_etcd_groups_keep(work->store);
    if (ten_etcd_groups_count(work->store) != groups) /* some have ended */
        find_holds(work);
    return r;
}

/* The group was kept alive, in the term in which it was granted; any term will do if etcd has no room for a new one. */
static bool is_kept(const ten_etcd_store *store, const ten_etcd_group *group) {
    return group && ten_etcd_group_is_kept(store, group) && (group->term == store->head.term || store->is_full);
}

static bool is_at_home(const ten_etcd_store *store, const struct item *item) {
    return is_kept(store, ten_etcd_group_by_lease(store, item->lease));
}

/* ---- what is known by a mark -------------------------------------------------------------------------------- */

/* Sends a transaction that was begun with ten_etcd_rely_begin() and reads the state first. */
static int send_look(const struct work *work, json_t **ret_answer, bool *ret_held) {
    int r = ten_etcd_rely_send(work->store, &work->on, false, ret_answer, ret_held);
    return r == TENURE_OK && *ret_held ? ten_etcd_state_take(work->store, *ret_answer) : r;
}

/* Beside the mark, some lives of each group are compared: all vanish if the etcd lease was revoked, and single ones if
 * they were deleted by hand. All of a group that goes on is touched. */
static void add_marks(const struct work *work, ten_etcd_group **groups, size_t count) {
    ten_etcd_txn *txn = &work->store->txn;
    for (size_t i = 0; i < count; i++) {
        ten_etcd_group *group = groups[i];
        ten_etcd_key mark = mark_of(work, group->name);
        ten_etcd_txn_compare(txn, mark.text, group->mark);
        ten_etcd_get(&txn->otherwise, mark.text);
        for (size_t j = 0, looked = 0; j < work->count && looked < LOOKED_MAX / count; j++) {
            const struct item *item = &work->items[group->looked_at++ % work->count];
            if (!item->hold || item->hold->group != group)
                continue;
            ten_etcd_txn_compare_lease(txn, life_of(work, item).text, group->lease);
            looked++;
        }
    }
}

/* Forgets the marks that have another revision; if none has, a life was deleted by hand, and all are forgotten. */
static void judge_marks(struct work *work, const json_t *answer, bool held, ten_etcd_group **groups, size_t count) {
    bool is_known = false;
    for (size_t i = 0; i < count; i++) {
        uint64_t revision = held ? 0 : ten_etcd_kv_at(answer, TEN_ETCD_STATE_READS + i, &work->store->scratch).revision;
        if (held)
            groups[i]->proven_in = work->store->call;
        else if (revision != groups[i]->mark)
            groups[i]->mark = 0;
        is_known |= groups[i]->mark == 0;
    }
    for (size_t i = 0; !held && !is_known && i < count; i++)
        groups[i]->mark = 0;
}

/* Of this namespace, kept alive in this call as a whole. */
static bool is_going_on(const struct work *work, const ten_etcd_group *group) {
    const ten_etcd_store *store = work->store;
    return group->space == store->space && goes_on(store, group) && group->kept_in == store->call;
}

static int compare_marks(struct work *work) {
    ten_etcd_store *store = work->store;
    ten_etcd_group *groups[MARKS_MAX];
    size_t count = 0;
    int r = TENURE_OK;
    for (ten_etcd_group *group = store->groups; r == TENURE_OK && group; group = group->next) {
        if (is_going_on(work, group) && group->mark && group->count)
            groups[count++] = group;
        if (count == 0 || (count < MARKS_MAX && group->next))
            continue;
        json_t *answer = NULL;
        bool held = false;
        ten_etcd_rely_begin(store, &work->on);
        ten_etcd_state_get(store, &store->txn.operations);
        add_marks(work, groups, count);
        r = send_look(work, &answer, &held);
        if (r == TENURE_OK)
            judge_marks(work, answer, held, groups, count);
        json_decref(answer);
        count = 0;
    }
    return r;
}

/* Settles the leases that are proven by their holder's mark: they were read since it was made, and not written since. A
 * record has one name in a version, so a lease whose version is known has that mark. */
static int prove(struct work *work) {
    ten_etcd_store *store = work->store;
    int r = work->count > TEN_ETCD_FLAT ? compare_marks(work) : TENURE_OK;
    work->open_count = 0;
    for (size_t i = 0; r == TENURE_OK && i < work->count; i++) {
        struct item *item = &work->items[i];
        const ten_etcd_hold *hold = item->hold;
        const ten_touch *touch = item->touch;
        bool is_proven = !item->is_settled && hold && touch->seen && touch->seen == hold->group->proof &&
                         hold->group->lease == item->lease && hold->group->proven_in == store->call &&
                         touch->key.kind == TEN_KIND_LEASE && touch->version != TEN_VERSION_ANY &&
                         strcmp(hold->group->name, touch->name) == 0;
        if (is_proven && is_kept(store, hold->group))
            settle(work, item, true, touch->version);
        if (!item->is_settled)
            work->open[work->open_count++] = item;
    }
    return r;
}

/* ---- what is so, of each ------------------------------------------------------------------------------------ */

static bool is_meant(const struct item *item) {
    const ten_record *record = &item->sight->record;
    const ten_touch *touch = item->touch;
    return record->version && (touch->version == TEN_VERSION_ANY || touch->version == record->version) &&
           record->alive && strcmp(record->name, touch->name) == 0;
}

/* Notes to which etcd lease the life was found attached, whether or not the touch was meant for it; and if it was, by
 * which mark it is proven from now on. */
static int note_place(const struct work *work, const struct item *item, uint64_t lease) {
    ten_etcd_store *store = work->store;
    ten_etcd_group *group = ten_etcd_group_by_lease(store, lease);
    ten_etcd_key key = life_of(work, item);
    bool has_name = group && strcmp(group->name, item->touch->name) == 0;
    item->touch->seen = has_name && is_meant(item) ? group->proof : 0;
    if (group)
        return ten_etcd_hold_set(store, group, key.text);
    ten_etcd_hold_drop(store, key.text);
    return TENURE_OK;
}

static int judge(struct work *work, struct item *item, const ten_etcd_sight *sight) {
    const ten_record *record = &sight->record;
    item->sight = sight;
    if (!is_meant(item))
        settle(work, item, false, record->version);
    else if (ten_etcd_is_endless(sight) || (sight->lease == item->lease && is_at_home(work->store, item)))
        settle(work, item, true, record->version);
    return note_place(work, item, sight->lease);
}

/* Groups that are large enough for a mark and have none. It is written in the transaction that reads the first of their
 * leases; the others are read afterwards. */
static size_t find_unmarked(const struct work *work, ten_etcd_group **groups) {
    size_t most = work->open_count <= TEN_ETCD_FLAT ? FLAT_MARKS_MAX : MARKS_MAX;
    size_t count = 0;
    if (work->count <= TEN_ETCD_FLAT || work->store->is_full)
        return 0;
    for (ten_etcd_group *group = work->store->groups; group && count < most; group = group->next) {
        bool wants = is_going_on(work, group) && group->mark == 0 && group->count >= MARKED_MIN && group->name[0];
        for (size_t i = 0; wants && i < count; i++)
            wants = strcmp(groups[i]->name, group->name) != 0;
        if (wants)
            groups[count++] = group;
    }
    return count;
}

static int read_some(struct work *work, size_t first, size_t count, ten_etcd_group **unmarked, size_t marks) {
    ten_etcd_store *store = work->store;
    ten_etcd_sight *sights = work->sights + first;
    json_t *answer = NULL;
    bool held = false;
    ten_etcd_rely_begin(store, &work->on);
    ten_etcd_state_get(store, &store->txn.operations);
    for (size_t i = 0; i < marks; i++)
        ten_etcd_txn_put_mark(&store->txn, mark_of(work, unmarked[i]->name).text, unmarked[i]->lease);
    ten_etcd_reading_add(store, sights, count);
    int r = send_look(work, &answer, &held);
    count = held ? count : 0;
    for (size_t i = 0; r == TENURE_OK && held && i < marks; i++)
        ten_etcd_mark_made(store, unmarked[i], ten_etcd_written_before(answer, TEN_ETCD_STATE_READS + i));
    if (r == TENURE_OK)
        r = ten_etcd_reading_take(store, answer, TEN_ETCD_STATE_READS + marks, sights, count);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = judge(work, work->open[first + i], &sights[i]);
    json_decref(answer);
    return r;
}

static int verify(struct work *work) {
    ten_etcd_group *unmarked[MARKS_MAX];
    size_t marks = find_unmarked(work, unmarked);
    int r = TENURE_OK;
    for (size_t i = 0; i < work->open_count; i++) {
        work->open[i]->sight = NULL;
        work->sights[i].record.key = work->open[i]->touch->key;
    }
    for (size_t i = 0; r == TENURE_OK && i < work->open_count; i += TEN_ETCD_READING_MAX, marks = 0)
        r = read_some(work, i, ten_min_u64(work->open_count - i, TEN_ETCD_READING_MAX), unmarked, marks);
    return r;
}

/* ---- moving ------------------------------------------------------------------------------------------------- */

static bool has_to_move(const struct item *item) {
    return !item->is_settled && item->sight && item->sight->record.version;
}

/* Moves the life only if the record is as it was read. */
static void add_move(const struct work *work, const struct item *item) {
    ten_etcd_store *store = work->store;
    char value[24];
    ten_etcd_group *group = ten_etcd_group_by_lease(store, item->lease);
    ten_etcd_key life = life_of(work, item);
    ten_etcd_txn_compare(&store->part, ten_etcd_record_key(&store->dir, item->touch->key).text,
                         item->sight->record.version);
    if (!item->sight->in_doubt)
        ten_etcd_txn_compare_exists(&store->part, life.text);
    snprintf(value, sizeof value, "%llu", (unsigned long long)group->ttl_ms);
    ten_etcd_txn_put(&store->part, life.text, value, group->lease);
    group->uncertain = true; /* until the answer is there */
}

/* The holders whose lives are moved in a transaction. Their marks are raised, for other handles that know the former
 * place of a life. */
struct names {
    const char *names[MARKS_MAX];
    size_t count;
};

static void add_name(struct names *names, const ten_touch *touch) {
    bool is_new = touch->key.kind == TEN_KIND_LEASE;
    for (size_t i = 0; is_new && i < names->count; i++)
        is_new = strcmp(names->names[i], touch->name) != 0;
    if (is_new)
        names->names[names->count++] = touch->name;
}

static size_t add_moves(const struct work *work, size_t first, struct names *names) {
    size_t count = 0;
    size_t i = first;
    ten_etcd_txn_clear(&work->store->part);
    for (; i < work->count && count < TEN_ETCD_PART && names->count < MARKS_MAX; i++)
        if (has_to_move(&work->items[i])) {
            add_move(work, &work->items[i]);
            add_name(names, work->items[i].touch);
            count++;
        }
    ten_etcd_txn_add_part(&work->store->txn, &work->store->part);
    return i;
}

static int note_moved(struct work *work, size_t first, size_t end) {
    int r = TENURE_OK;
    for (size_t i = first; r == TENURE_OK && i < end; i++) {
        struct item *item = &work->items[i];
        if (!has_to_move(item))
            continue;
        r = note_place(work, item, item->lease);
        if (is_at_home(work->store, item))
            settle(work, item, true, item->sight->record.version);
    }
    return r;
}

/* Finds the groups that they move to: kept alive in this call, or granted now. */
static int find_homes(const struct work *work, size_t *ret_moves) {
    for (size_t i = 0; i < work->count; i++) {
        struct item *item = &work->items[i];
        ten_etcd_group *group;
        if (!has_to_move(item))
            continue;
        int r = ten_etcd_group_get(work->store, item->touch->name,
                                   ten_max_u64(item->touch->ttl_ms, item->sight->ttl_ms), &group);
        if (r < 0)
            return r;
        item->lease = group->lease;
        ++*ret_moves;
    }
    return TENURE_OK;
}

/* One transaction of moves, from *first on; *first becomes the next one. */
static int move_some(struct work *work, size_t *first) {
    ten_etcd_store *store = work->store;
    ten_etcd_txn *txn = &store->txn;
    json_t *answer = NULL;
    bool held = false;
    size_t ends[TEN_ETCD_PARTS];
    size_t parts = 0;
    struct names names = {.count = 0};
    ten_etcd_rely_begin(store, &work->on);
    /* the doubt is still the same one */
    ten_etcd_txn_compare(txn, ten_etcd_place(&store->dir, TEN_ETCD_WAIT, NULL).text, store->space->wait_revision);
    for (size_t at = *first; at < work->count && parts < TEN_ETCD_PARTS && names.count < MARKS_MAX;)
        at = ends[parts++] = add_moves(work, at, &names);
    for (size_t i = 0; i < names.count; i++)
        ten_etcd_txn_raise(txn, mark_of(work, names.names[i]).text);
    int r = ten_etcd_rely_send(store, &work->on, true, &answer, &held);
    if (r == TENURE_OK)
        ten_etcd_groups_answered(store);
    for (size_t i = 0; r == TENURE_OK && held && i < names.count; i++)
        ten_etcd_mark_raised(store, names.names[i], ten_etcd_part(answer, parts + i));
    for (size_t i = 0; r == TENURE_OK && held && i < parts; i++)
        if (ten_etcd_succeeded(ten_etcd_part(answer, i)))
            r = note_moved(work, i ? ends[i - 1] : *first, ends[i]);
    *first = ends[parts - 1];
    json_decref(answer);
    return r;
}

static int move(struct work *work) {
    size_t moves = 0;
    int r = find_homes(work, &moves);
    for (size_t first = 0; r == TENURE_OK && moves > 0 && first < work->count;)
        r = move_some(work, &first);
    return r;
}

/* ---- the call ----------------------------------------------------------------------------------------------- */

static uint64_t longest_of(const struct work *work) {
    uint64_t longest_ms = 0;
    for (size_t i = 0; i < work->count; i++)
        longest_ms = ten_max_u64(longest_ms, work->items[i].touch->ttl_ms);
    return longest_ms;
}

/* If etcd has no room for new etcd leases, the present ones are kept alive. */
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
    for (unsigned tries = 0; r == TENURE_OK && work->unsettled > 0; tries++) {
        if (tries == TRIES_MAX)
            return ten_fail(store->base.error, TENURE_E_UNREACHABLE, "etcd is changing its leader; try again");
        store->call++;
        if (!store->space->known)
            r = ten_etcd_state_read(store);
        if (r == TENURE_OK && !store->is_full)
            r = without_room(work, ten_etcd_set_term(store, longest_of(work)));
        if (r == TENURE_OK)
            r = keep_homes(work);
        if (r == TENURE_OK)
            r = prove(work);
        if (r == TENURE_OK)
            r = without_room(work, verify(work));
        if (r == TENURE_OK && store->space->term == store->head.term)
            r = without_room(work, move(work));
        r = r == TENURE_E_GONE ? TENURE_OK : r; /* an etcd lease was revoked by hand */
    }
    return r;
}

static int touch_once(struct work *work) {
    ten_etcd_store *store = work->store;
    int r = ten_etcd_enter_as(store, work->on.identity);
    if (r != TENURE_OK)
        return r;
    for (size_t i = 0; i < work->count; i++)
        work->items[i] = (struct item){.touch = work->items[i].touch};
    work->unsettled = work->count;
    r = extend(work);
    if (r == TENURE_OK)
        r = ten_etcd_confirm(store);
    bool same = strcmp(store->base.identity, work->on.identity) == 0;
    return r != TENURE_OK ? r : same ? TENURE_OK : TEN_OTHER_EPOCH;
}

static int ping(ten_etcd_store *store) {
    int r = ten_etcd_enter(store);
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_get(&store->txn.operations, ten_etcd_store_key(store).text);
    if (r == TENURE_OK)
        r = ten_etcd_send_only(store, false);
    /* A refusal for lack of permission is a round trip, too; check() tells what is missing. */
    return r == TENURE_E_DENIED && ten_etcd_is_known(store->link) ? TENURE_OK : r;
}

int ten_etcd_touch(ten_backend *base, const char *namespace_name, const char *identity, uint64_t epoch,
                   ten_touch *touches, size_t count, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    struct work work = {.store = store, .on = {.identity = identity, .epoch = epoch}, .count = count};
    int r = ten_etcd_begin(store, namespace_name, timeout_ms);
    if (r < 0 || count == 0)
        return r < 0 ? r : ping(store);
    work.items = ten_calloc(count, sizeof *work.items);
    work.open = ten_calloc(count, sizeof(struct item *));
    work.sights = ten_calloc(count, sizeof *work.sights);
    bool has_room = work.items && work.open && work.sights;
    for (size_t i = 0; has_room && i < count; i++)
        work.items[i].touch = &touches[i];
    r = has_room ? touch_once(&work) : ten_etcd_no_memory(store);
    if (r < 0 && store->is_older)
        r = touch_once(&work);
    ten_free(work.items);
    ten_free(work.open);
    ten_free(work.sights);
    return r;
}
