/*
 * What this handle has attached to which etcd lease, and keeping those alive. See etcd_state.h for the rules. Called by
 * etcd_apply.c and etcd_renew.c; nothing here is believed without being compared with the store.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_state.h"

#define SPARE_MS  10000u /* an empty group is kept for so long, to be used again */
#define SOON_MS   60000u /* what ends by itself within that is left to it */
#define ENDED_MAX 32u    /* empty groups that are ended at a time */
#define CLOSE_MS  500u   /* for what a handle that closes still has to say */
#define MARKS_MAX 100u   /* in one transaction */

/* ---- holds ------------------------------------------------------------------------------------------------- */

ten_etcd_hold *ten_etcd_hold_find(ten_etcd_store *store, const char *key) {
    return ten_map_get(&store->holds, key);
}

static void leave_group(ten_etcd_hold *hold) {
    ten_etcd_group *group = hold->group;
    ten_etcd_hold *last = group->holds[--group->count];
    group->holds[hold->index] = last;
    last->index = hold->index;
}

static void free_hold(ten_etcd_hold *hold) {
    ten_free(hold->key);
    ten_free(hold->metadata);
    ten_free(hold);
}

void ten_etcd_hold_drop(ten_etcd_store *store, const char *key) {
    ten_etcd_hold *hold = ten_map_remove(&store->holds, key);
    if (!hold)
        return;
    leave_group(hold);
    free_hold(hold);
}

void ten_etcd_hold_doubt(ten_etcd_store *store, const char *key, const ten_etcd_kv *kv) {
    const ten_etcd_hold *hold = ten_etcd_hold_find(store, key);
    if (!hold || (hold->revision == kv->revision && hold->group->lease == kv->lease))
        return;
    hold->group->uncertain = true;
    ten_etcd_hold_drop(store, key);
}

static bool enter_group(ten_etcd_group *group, ten_etcd_hold *hold) {
    if (group->count == group->room) {
        size_t room = group->room ? group->room * 2 : 8;
        ten_etcd_hold **holds = ten_realloc(group->holds, room * sizeof(ten_etcd_hold *));
        if (!holds)
            return false;
        group->holds = holds;
        group->room = room;
    }
    hold->group = group;
    hold->index = group->count;
    group->holds[group->count++] = hold;
    return true;
}

ten_etcd_hold *ten_etcd_hold_set(ten_etcd_store *store, ten_etcd_group *group, const char *key) {
    ten_etcd_hold *hold = ten_map_get(&store->holds, key);
    if (hold && hold->group == group)
        return hold;
    ten_etcd_hold_drop(store, key);
    hold = ten_calloc(1, sizeof *hold);
    bool known = hold && (hold->key = ten_strdup(key)) && enter_group(group, hold);
    if (known && ten_map_put(&store->holds, key, hold))
        return hold;
    if (known)
        leave_group(hold);
    if (hold)
        free_hold(hold);
    group->uncertain = true;
    return NULL;
}

/* ---- groups ------------------------------------------------------------------------------------------------ */

ten_etcd_group *ten_etcd_group_by_lease(ten_etcd_store *store, uint64_t lease) {
    for (ten_etcd_group *group = store->groups; group; group = group->next)
        if (group->lease == lease)
            return group;
    return NULL;
}

static void free_group(ten_etcd_store *store, ten_etcd_group *group) {
    while (group->count > 0)
        ten_etcd_hold_drop(store, group->holds[group->count - 1]->key);
    ten_free(group->namespace_name);
    ten_free(group->holder);
    ten_free(group->holds);
    ten_free(group);
}

/* By namespace, holder and TTL; none of the first two has a line feed. */
static void home_key(ten_buf *key, const char *namespace_name, const char *holder, uint64_t ttl_ms) {
    ten_buf_clear(key);
    ten_buf_format(key, "%s\n%s\n%llu", namespace_name, holder, (unsigned long long)ttl_ms);
}

static ten_etcd_group *home_of(ten_etcd_store *store, const char *namespace_name, const char *holder, uint64_t ttl_ms) {
    home_key(&store->scratch, namespace_name, holder, ttl_ms);
    return store->scratch.failed ? NULL : ten_map_get(&store->homes, store->scratch.data);
}

void ten_etcd_group_drop(ten_etcd_store *store, ten_etcd_group *group) {
    if (home_of(store, group->namespace_name, group->holder, group->ttl_ms) == group)
        (void)ten_map_remove(&store->homes, store->scratch.data);
    for (ten_etcd_group **at = &store->groups; *at; at = &(*at)->next) {
        if (*at == group) {
            *at = group->next;
            break;
        }
    }
    free_group(store, group);
}

void ten_etcd_groups_free(ten_etcd_store *store) {
    while (store->groups) {
        ten_etcd_group *group = store->groups;
        store->groups = group->next;
        free_group(store, group);
    }
    ten_map_free(&store->holds);
    ten_map_free(&store->homes);
}

bool ten_etcd_is_confirmed(const ten_etcd_store *store, const ten_etcd_group *group) {
    bool same = store->head.term == group->kept_term && store->head.member == group->member;
    return same && (store->is_full || group->kept_term == group->term);
}

void ten_etcd_group_key(const ten_etcd_store *store, char key[TEN_ETCD_KEY_MAX + 1], const char *namespace_name,
                        uint64_t lease) {
    char name[24];
    snprintf(name, sizeof name, "%016llx", (unsigned long long)lease);
    ten_etcd_key_of(store, key, namespace_name, TEN_ETCD_GROUP, name);
}

/* ---- ends -------------------------------------------------------------------------------------------------- */

/* Nothing hangs on the group for sure: only this handle attaches to it. */
static bool is_empty(const ten_etcd_group *group) {
    return group->count == 0 && !group->uncertain && !group->is_session;
}

static void revoke_empty(ten_etcd_store *store, uint64_t deadline_ms) {
    uint64_t leases[ENDED_MAX];
    for (size_t count = ENDED_MAX; count == ENDED_MAX && ten_now_ms() < deadline_ms;) {
        count = 0;
        for (ten_etcd_group *group = store->groups, *next; group && count < ENDED_MAX; group = next) {
            next = group->next;
            if (!is_empty(group))
                continue;
            leases[count++] = group->lease;
            ten_etcd_group_drop(store, group);
        }
        ten_etcd_revoke(store, leases, count, deadline_ms);
    }
}

/* How many keys the group is left with: whoever takes the last one away ends it. */
static void mark_closed(ten_etcd_store *store, uint64_t deadline_ms) {
    char key[TEN_ETCD_KEY_MAX + 1];
    char value[40];
    bool succeeded;
    const ten_etcd_group *group = store->groups;
    while (group && ten_now_ms() < deadline_ms) {
        ten_etcd_txn_clear(&store->txn);
        for (; group && store->txn.operation_count < MARKS_MAX; group = group->next) {
            if (group->uncertain || group->is_session || group->revision == 0)
                continue;
            ten_etcd_group_key(store, key, group->namespace_name, group->lease);
            snprintf(value, sizeof value, "{\"closed\":%zu}", group->count);
            ten_etcd_txn_put_again(&store->txn, key, value);
        }
        if (store->txn.operation_count > 0 && ten_etcd_commit(store, true, deadline_ms, &succeeded, NULL) < 0)
            return;
    }
}

void ten_etcd_groups_close(ten_etcd_store *store) {
    uint64_t deadline_ms = ten_now_ms() + CLOSE_MS;
    revoke_empty(store, deadline_ms);
    mark_closed(store, deadline_ms);
}

/* Groups that stay empty end now, when they would be there for long: a process may acquire with many TTLs. */
static void end_spare(ten_etcd_store *store, uint64_t deadline_ms) {
    uint64_t now_ms = ten_boot_ms(store->base.clock);
    uint64_t leases[ENDED_MAX];
    size_t count = 0;
    for (ten_etcd_group *group = store->groups, *next; group && count < ENDED_MAX; group = next) {
        next = group->next;
        if (!is_empty(group) || group->reserve_ms) {
            group->empty_ms = 0;
        } else if (group->empty_ms == 0) {
            group->empty_ms = now_ms;
        } else if (now_ms - group->empty_ms > SPARE_MS && group->ends_ms > now_ms + SOON_MS) {
            leases[count++] = group->lease;
            ten_etcd_group_drop(store, group);
        }
    }
    if (count > 0)
        ten_etcd_revoke(store, leases, count, deadline_ms);
}

/* What cannot be alive any more, by this host's clock and with much room: etcd may count a TTL anew. Without it, a
 * process that acquires and forgets would collect them. */
static void clear_up(ten_etcd_store *store) {
    uint64_t now_ms = ten_boot_ms(store->base.clock);
    for (ten_etcd_group *group = store->groups, *next; group; group = next) {
        next = group->next;
        if (group->ends_ms + 2 * group->ttl_ms < now_ms)
            ten_etcd_group_drop(store, group);
    }
}

/* ---- which groups a batch covers --------------------------------------------------------------------------- */

enum cover { NOT_COVERED, COVERED, GOES_ON };

static bool is_holder(const ten_etcd_group *group, const ten_op *op) {
    return op->holder && strcmp(op->holder, group->holder) == 0;
}

static enum cover cover(const ten_etcd_hold *hold, const ten_op *op) {
    const ten_etcd_group *group = hold->group;
    bool same_ttl = op->ttl_ms == 0 || op->ttl_ms == group->ttl_ms;
    switch (op->kind) {
    case TEN_OP_RENEW:
        return is_holder(group, op) && op->token == hold->token && same_ttl ? GOES_ON : NOT_COVERED;
    case TEN_OP_ACQUIRE:
        return is_holder(group, op) && same_ttl && !(op->flags & TEN_OP_FRESH) ? GOES_ON : NOT_COVERED;
    case TEN_OP_ANNOUNCE:
        return same_ttl ? GOES_ON : NOT_COVERED;
    case TEN_OP_RELEASE: /* it goes in this very call. (A hand may be refused: then it lasts for as long as the others.) */
    case TEN_OP_HAND:
        return is_holder(group, op) && op->token == hold->token ? COVERED : NOT_COVERED;
    case TEN_OP_LEAVE:
        return COVERED;
    case TEN_OP_READ:
    case TEN_OP_ASK:
    case TEN_OP_CHECKPOINT:
        break;
    }
    return NOT_COVERED;
}

static void note_cover(ten_etcd_store *store, const ten_op *op) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_key_of(store, key, op->namespace_name, op->target ? TEN_ETCD_LEASE : TEN_ETCD_INSTANCE,
                    op->target ? op->target : op->holder);
    ten_etcd_hold *hold = ten_etcd_hold_find(store, key);
    enum cover how = hold && hold->marked_in != store->call ? cover(hold, op) : NOT_COVERED;
    if (how == NOT_COVERED)
        return;
    ten_etcd_group *group = hold->group;
    if (group->covered_in != store->call) {
        group->covered_in = store->call;
        group->covered = group->renewed = 0;
    }
    hold->marked_in = store->call;
    group->covered++;
    group->renewed += how == GOES_ON;
}

/* A heartbeat renews the whole session. */
static bool is_session_beaten(const ten_etcd_store *store, const ten_etcd_group *group) {
    return group->is_session && group->covered_in == store->call && group->renewed > 0;
}

/* The largest for each namespace, holder and TTL: what is in the others moves there. */
static bool choose_homes(ten_etcd_store *store) {
    for (ten_etcd_group *group = store->groups; group; group = group->next) {
        bool goes_on = !group->is_session && !group->reserve_ms && group->covered_in == store->call &&
                       group->covered == group->count && group->renewed > 0 &&
                       (group->term == store->head.term || store->is_full) && group->revision > 0;
        if (!goes_on)
            continue;
        const ten_etcd_group *other = home_of(store, group->namespace_name, group->holder, group->ttl_ms);
        if (other && other->count >= group->count)
            continue;
        home_key(&store->scratch, group->namespace_name, group->holder, group->ttl_ms);
        if (store->scratch.failed || !ten_map_put(&store->homes, store->scratch.data, group))
            return false;
    }
    return true;
}

/* ---- keeping alive ----------------------------------------------------------------------------------------- */

/* What an answer to a keep-alive means for its group. */
static void judge_keep_alive(ten_etcd_store *store, ten_etcd_group *group, const ten_etcd_call *call,
                             uint64_t sent_ms) {
    const json_t *result = json_object_get(call->answer, "result");
    bool alive = call->error == TENURE_OK && ten_etcd_number(result, "TTL") * 1000 >= group->ttl_ms;
    if (!alive) {
        ten_etcd_group_drop(store, group);
        return;
    }
    if (call->head.term != group->term && !store->is_full) {
        if (home_of(store, group->namespace_name, group->holder, group->ttl_ms) == group)
            (void)ten_map_remove(&store->homes, store->scratch.data);
        return;
    }
    group->member = call->head.member;
    group->kept_term = call->head.term;
    group->home_in = store->call;
    group->sent_ms = sent_ms;
    group->kept_at = store->step;
    group->ends_ms = ten_boot_ms(store->base.clock) + 1000 * (ten_etcd_seconds(group->ttl_ms) + 1);
}

static int keep_alive(ten_etcd_store *store, ten_etcd_group **groups, size_t count, uint64_t deadline_ms) {
    ten_etcd_call *calls = ten_calloc(count, sizeof *calls);
    char(*bodies)[40] = ten_calloc(count, sizeof *bodies);
    int r = calls && bodies ? TENURE_OK : ten_etcd_no_memory(store);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        snprintf(bodies[i], sizeof bodies[i], "{\"ID\":\"%llu\"}", (unsigned long long)groups[i]->lease);
        calls[i] = (ten_etcd_call){.path = "/v3/lease/keepalive", .body = bodies[i]};
    }
    uint64_t sent_ms = ten_boot_ms(store->base.clock);
    if (r == TENURE_OK)
        r = ten_etcd_perform(store->link, calls, count, deadline_ms, &store->base.error);
    store->step++;
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        if (calls[i].error == TENURE_OK)
            store->head = calls[i].head;
        judge_keep_alive(store, groups[i], &calls[i], sent_ms);
    }
    if (calls)
        ten_etcd_calls_free(calls, count);
    ten_free(calls);
    ten_free(bodies);
    return r;
}

int ten_etcd_group_keep(ten_etcd_store *store, ten_etcd_group **group, uint64_t deadline_ms) {
    uint64_t lease = (*group)->lease;
    int r = keep_alive(store, group, 1, deadline_ms);
    *group = ten_etcd_group_by_lease(store, lease);
    return r;
}

int ten_etcd_keep_homes(ten_etcd_store *store, const ten_op *ops, size_t count, uint64_t deadline_ms) {
    clear_up(store);
    ten_map_free(&store->homes);
    end_spare(store, deadline_ms);
    for (size_t i = 0; i < count; i++)
        note_cover(store, &ops[i]);
    if (!choose_homes(store))
        return ten_etcd_no_memory(store);
    size_t room = store->homes.count;
    for (const ten_etcd_group *group = store->groups; group; group = group->next)
        room += is_session_beaten(store, group);
    if (room == 0)
        return TENURE_OK;
    ten_etcd_group **groups = ten_calloc(room, sizeof *groups);
    if (!groups)
        return ten_etcd_no_memory(store);
    const ten_map_entry *entry;
    size_t filled = 0;
    for (size_t at = 0; (entry = ten_map_next(&store->homes, &at));)
        groups[filled++] = entry->value;
    for (ten_etcd_group *group = store->groups; group; group = group->next)
        if (is_session_beaten(store, group))
            groups[filled++] = group;
    int r = keep_alive(store, groups, filled, deadline_ms);
    ten_free(groups);
    return r;
}

/* ---- a home that is not there yet -------------------------------------------------------------------------- */

/* A group that was emptied can be used again: a keep-alive costs the cluster less than a grant. */
static ten_etcd_group *find_spare(const ten_etcd_store *store, const char *namespace_name, const char *holder,
                                  uint64_t ttl_ms) {
    uint64_t now_ms = ten_boot_ms(store->base.clock);
    for (ten_etcd_group *group = store->groups; group; group = group->next)
        if (!group->is_session && !group->reserve_ms && group->count == 0 && group->ttl_ms == ttl_ms &&
            group->term == store->head.term && group->ends_ms > now_ms + 1000 && strcmp(group->holder, holder) == 0 &&
            strcmp(group->namespace_name, namespace_name) == 0)
            return group;
    return NULL;
}

ten_etcd_group *ten_etcd_group_add(ten_etcd_store *store, const char *namespace_name, const char *holder,
                                   uint64_t lease, uint64_t ttl_ms, uint64_t term) {
    ten_etcd_group *group = ten_calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->next = store->groups;
    store->groups = group;
    group->namespace_name = ten_strdup(namespace_name);
    group->holder = ten_strdup(holder);
    group->lease = lease;
    group->ttl_ms = ttl_ms;
    group->term = term;
    group->ends_ms = ten_boot_ms(store->base.clock) + 1000 * (ten_etcd_seconds(ttl_ms) + 1);
    if (group->namespace_name && group->holder)
        return group;
    store->groups = group->next;
    free_group(store, group);
    return NULL;
}

int ten_etcd_group_make(ten_etcd_store *store, const char *namespace_name, const char *holder, uint64_t ttl_ms,
                        uint64_t deadline_ms, ten_etcd_group **ret_group) {
    uint64_t lease = 0;
    uint64_t sent_ms = ten_boot_ms(store->base.clock);
    int r = ten_etcd_grant(store, ttl_ms, deadline_ms, &lease);
    if (r < 0)
        return r;
    ten_etcd_group *group = ten_etcd_group_add(store, namespace_name, holder, lease, ttl_ms, store->head.term);
    if (!group)
        return ten_etcd_no_memory(store);
    group->member = store->head.member;
    group->kept_term = store->head.term;
    group->home_in = store->call;
    group->sent_ms = sent_ms;
    *ret_group = group;
    return TENURE_OK;
}

int ten_etcd_home(ten_etcd_store *store, const char *namespace_name, const char *holder, uint64_t ttl_ms,
                  uint64_t deadline_ms, ten_etcd_group **ret_group) {
    ten_etcd_group *group = home_of(store, namespace_name, holder, ttl_ms);
    int r = TENURE_OK;
    if (!group)
        group = find_spare(store, namespace_name, holder, ttl_ms);
    if (group && group->home_in != store->call) {
        r = ten_etcd_group_keep(store, &group, deadline_ms);
        if (group && group->home_in != store->call)
            group = NULL;
    }
    if (r == TENURE_OK && !group)
        r = ten_etcd_group_make(store, namespace_name, holder, ttl_ms, deadline_ms, &group);
    if (r < 0)
        return r;
    home_key(&store->scratch, namespace_name, holder, ttl_ms);
    if (store->scratch.failed || !ten_map_put(&store->homes, store->scratch.data, group))
        return ten_etcd_no_memory(store);
    *ret_group = group;
    return TENURE_OK;
}
