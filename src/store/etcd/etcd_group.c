/*
 * Etcd leases of this handle, and the lives that it attached to them. See etcd_state.h. Called by etcd_commit.c and
 * etcd_touch.c. What is noted here is what this handle last did; etcd is asked before anything is believed.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_state.h"

#define CLOSE_MS 1000u

/* ---- holds ------------------------------------------------------------------------------------------------- */

ten_etcd_hold *ten_etcd_hold_find(const ten_etcd_store *store, const char *key) {
    return ten_map_get(&store->holds, key);
}

void ten_etcd_hold_drop(ten_etcd_store *store, const char *key) {
    ten_etcd_hold *hold = ten_map_remove(&store->holds, key);
    if (hold)
        hold->group->count--;
    ten_free(hold);
}

int ten_etcd_hold_set(ten_etcd_store *store, ten_etcd_group *group, const char *key) {
    ten_etcd_hold *hold = ten_etcd_hold_find(store, key);
    if (hold) {
        hold->group->count--;
    } else {
        hold = ten_calloc(1, sizeof *hold);
        if (!hold || !ten_map_put(&store->holds, key, hold)) {
            ten_free(hold);
            group->uncertain = true;
            return ten_etcd_no_memory(store);
        }
    }
    hold->group = group;
    hold->group->count++;
    return TENURE_OK;
}

/* ---- marks ------------------------------------------------------------------------------------------------- */

bool ten_etcd_group_is_of(const ten_etcd_store *store, const ten_etcd_group *group, const char *name) {
    return group->space == store->space && strcmp(group->name, name) == 0;
}

static void raise_mark(const ten_etcd_store *store, const char *name, uint64_t before) {
    for (ten_etcd_group *group = store->groups; group; group = group->next)
        if (group->mark && ten_etcd_group_is_of(store, group, name))
            group->mark = group->mark == before ? store->head.revision : 0;
}

void ten_etcd_mark_raised(const ten_etcd_store *store, const char *name, const json_t *part) {
    raise_mark(store, name, ten_etcd_written_before(part, 0));
}

void ten_etcd_mark_made(const ten_etcd_store *store, ten_etcd_group *group, uint64_t before) {
    raise_mark(store, group->name, before);
    group->mark = store->head.revision;
    group->proof = store->call;
}

/* ---- groups ------------------------------------------------------------------------------------------------ */

static void drop_group(ten_etcd_store *store, ten_etcd_group *group) {
    const ten_map_entry *entry;
    for (size_t at = 0; group->count > 0 && (entry = ten_map_next(&store->holds, &at));)
        if (((ten_etcd_hold *)entry->value)->group == group) {
            ten_etcd_hold_drop(store, entry->key);
            at--;
        }
    ten_etcd_group **place = &store->groups;
    while (*place != group)
        place = &(*place)->next;
    *place = group->next;
    ten_free(group->name);
    ten_free(group);
}

void ten_etcd_groups_free(ten_etcd_store *store) {
    while (store->groups)
        drop_group(store, store->groups);
    ten_map_free(&store->holds);
}

void ten_etcd_groups_close(ten_etcd_store *store) {
    ten_etcd_call calls[64];
    size_t count = 0;
    ten_error kept = *store->base.error;
    store->deadline_ms = ten_now_ms() + CLOSE_MS;
    for (const ten_etcd_group *group = store->groups; group; group = group->next) {
        if (group->count == 0 && !group->uncertain)
            calls[count++] = (ten_etcd_call){.path = "/v3/lease/revoke", .lease = group->lease};
        if (count < TEN_COUNT(calls) && group->next)
            continue;
        (void)ten_etcd_ask_all(store, calls, count);
        ten_etcd_calls_free(calls, count);
        count = 0;
    }
    *store->base.error = kept;
}

void ten_etcd_groups_begin(ten_etcd_store *store, const char *identity) {
    uint64_t now_ms = ten_boot_ms(store->base.clock);
    bool is_another = strcmp(store->marked, identity) != 0;
    ten_copy_text(store->marked, sizeof store->marked, identity);
    for (ten_etcd_group *group = store->groups, *next; group; group = next) {
        next = group->next;
        group->mark = is_another ? 0 : group->mark;
        if (group->ends_ms <= now_ms)
            drop_group(store, group);
    }
}

void ten_etcd_groups_answered(const ten_etcd_store *store) {
    for (ten_etcd_group *group = store->groups; group; group = group->next)
        group->uncertain &= group->kept_in != store->call;
}

size_t ten_etcd_groups_count(const ten_etcd_store *store) {
    size_t count = 0;
    for (const ten_etcd_group *group = store->groups; group; group = group->next)
        count++;
    return count;
}

ten_etcd_group *ten_etcd_group_by_lease(const ten_etcd_store *store, uint64_t lease) {
    for (ten_etcd_group *group = store->groups; group; group = group->next)
        if (group->lease == lease)
            return group;
    return NULL;
}

static void note_kept(ten_etcd_store *store, ten_etcd_group *group, const ten_etcd_head *head, uint64_t sent_ms,
                      bool is_granted) {
    group->sent_ms = sent_ms;
    group->is_granted = is_granted;
    group->member = head->member;
    group->kept_term = head->term;
    group->kept_in = store->call;
    group->ends_ms = ten_boot_ms(store->base.clock) + 1000 * (ten_etcd_seconds(group->ttl_ms) + 1);
}

int ten_etcd_groups_keep(ten_etcd_store *store) {
    ten_etcd_call *calls = ten_calloc(ten_etcd_groups_count(store) + 1, sizeof *calls);
    uint64_t sent_ms = ten_boot_ms(store->base.clock);
    size_t count = 0;
    if (!calls)
        return ten_etcd_no_memory(store);
    for (const ten_etcd_group *group = store->groups; group; group = group->next)
        if (group->is_wanted)
            calls[count++] = (ten_etcd_call){.path = "/v3/lease/keepalive", .lease = group->lease};
    int r = ten_etcd_ask_all(store, calls, count);
    const ten_etcd_call *call = calls;
    for (ten_etcd_group *group = store->groups, *next; group; group = next) {
        next = group->next;
        if (!group->is_wanted)
            continue;
        group->is_wanted = false;
        const json_t *result = json_object_get(call->answer, "result");
        if (r == TENURE_OK && call->error == TENURE_OK)
            store->head = call->head;
        if (r == TENURE_OK && (call->error < 0 || ten_etcd_number(result, "TTL") * 1000 < group->ttl_ms))
            drop_group(store, group);
        else if (r == TENURE_OK)
            note_kept(store, group, &call->head, sent_ms, false);
        call++;
    }
    ten_etcd_calls_free(calls, count);
    ten_free(calls);
    return r;
}

/* An empty group is used again: a keep-alive costs the cluster less than a grant. */
static ten_etcd_group *find(const ten_etcd_store *store, const char *name, uint64_t ttl_ms) {
    ten_etcd_group *spare = NULL;
    for (ten_etcd_group *group = store->groups; group; group = group->next) {
        if (group->ttl_ms != ttl_ms || !ten_etcd_group_is_of(store, group, name) || group->term != store->head.term)
            continue;
        if (group->kept_in == store->call)
            return group;
        if (group->count == 0 && !group->uncertain)
            spare = group;
    }
    return spare;
}

static int make(ten_etcd_store *store, const char *name, uint64_t ttl_ms, ten_etcd_group **ret_group) {
    uint64_t lease = 0;
    uint64_t sent_ms = ten_boot_ms(store->base.clock);
    int r = ten_etcd_grant(store, ttl_ms, &lease);
    if (r < 0)
        return r;
    ten_etcd_group *group = ten_calloc(1, sizeof *group);
    char *copy = ten_strdup(name);
    if (!group || !copy) {
        ten_free(group);
        ten_free(copy);
        return ten_etcd_no_memory(store);
    }
    *group = (ten_etcd_group){.next = store->groups,
                              .space = store->space,
                              .name = copy,
                              .ttl_ms = ttl_ms,
                              .lease = lease,
                              .term = store->head.term};
    store->groups = group;
    note_kept(store, group, &store->head, sent_ms, true);
    *ret_group = group;
    return TENURE_OK;
}

int ten_etcd_group_get(ten_etcd_store *store, const char *name, uint64_t ttl_ms, ten_etcd_group **ret_group) {
    ten_etcd_group *group = find(store, name, ttl_ms);
    if (group && group->kept_in != store->call) {
        uint64_t lease = group->lease;
        group->is_wanted = true;
        int r = ten_etcd_groups_keep(store);
        if (r < 0)
            return r;
        group = ten_etcd_group_by_lease(store, lease);
        if (group && group->kept_term != group->term)
            group = NULL;
    }
    *ret_group = group;
    return group ? TENURE_OK : make(store, name, ttl_ms, ret_group);
}

bool ten_etcd_group_is_kept(const ten_etcd_store *store, const ten_etcd_group *group) {
    bool same_leader = group->member == store->head.member && group->kept_term == store->head.term;
    return group->kept_in == store->call && (same_leader || group->is_granted);
}
