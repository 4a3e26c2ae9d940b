/*
 * Renewals that change nothing, which are nearly all: the group has been kept alive, and one transaction compares its
 * key, which everybody else writes who touches what is attached to it. Up to COMPARED_MAX of the leases are compared
 * one by one as well, in turn, so that a key that was removed by hand is noticed, too. Called by etcd_apply.c, after
 * ten_etcd_keep_homes(); what is not settled here is read and written there.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/etcd/etcd_state.h"

#define COMPARED_MAX 96u
#define COMPARED_MIN 4u /* of each group, when there are many */
#define TXN_FULL     120u

/* One transaction that compares, and the groups that it speaks for. */
struct check {
    ten_etcd_txn txn;
    ten_etcd_group **groups;
    size_t count;
    bool confirmed;
};

static ten_etcd_hold *hold_of(ten_etcd_store *store, const ten_op *op) {
    char key[TEN_ETCD_KEY_MAX + 1];
    if (!op->target && op->kind == TEN_OP_ASK)
        return NULL;
    ten_etcd_key_of(store, key, op->namespace_name, op->target ? TEN_ETCD_LEASE : TEN_ETCD_INSTANCE,
                    op->target ? op->target : op->holder);
    return ten_etcd_hold_find(store, key);
}

static bool same_text(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Whether the operation only asks that what is there go on. */
static bool is_steady(const ten_etcd_store *store, const ten_etcd_hold *hold, const ten_op *op) {
    const ten_etcd_group *group = hold->group;
    if (group->is_session || group->home_in != store->call || op->flags != 0 ||
        (op->ttl_ms && op->ttl_ms != group->ttl_ms) || !same_text(op->holder, group->holder))
        return false;
    if (op->kind == TEN_OP_RENEW)
        return op->token == hold->token;
    return op->kind == TEN_OP_ANNOUNCE && op->weight == hold->weight && same_text(op->metadata, hold->metadata);
}

static void note_names(ten_etcd_store *store, const ten_op *ops, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ten_etcd_hold *hold = hold_of(store, &ops[i]);
        if (!hold)
            continue;
        if (hold->named_in == store->call || !is_steady(store, hold, &ops[i]))
            hold->spoiled_in = store->call;
        hold->named_in = store->call;
    }
}

/* ---- comparing --------------------------------------------------------------------------------------------- */

static void compare_group(const ten_etcd_store *store, ten_etcd_txn *txn, ten_etcd_group *group, size_t budget) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_group_key(store, key, group->namespace_name, group->lease);
    ten_etcd_txn_compare(txn, key, group->revision);
    ten_etcd_txn_get_otherwise(txn, key);
    for (size_t i = 0; i < group->count && i < budget; i++) {
        const ten_etcd_hold *hold = group->holds[group->next_compared++ % group->count];
        ten_etcd_txn_compare(txn, hold->key, hold->revision);
    }
}

/* The homes of this call, spread over as many transactions as they need. */
static int make_checks(ten_etcd_store *store, struct check **ret_checks, size_t *ret_count) {
    size_t home_count = store->homes.count;
    size_t budget = ten_max_u64(COMPARED_MAX / home_count, COMPARED_MIN);
    size_t most = home_count * (1 + budget) / (TXN_FULL - budget) + 1;
    struct check *checks = ten_calloc(most, sizeof *checks);
    *ret_checks = checks;
    *ret_count = 0;
    if (!checks)
        return ten_etcd_no_memory(store);
    const ten_map_entry *entry;
    for (size_t at = 0; (entry = ten_map_next(&store->homes, &at));) {
        ten_etcd_group *group = entry->value;
        if (group->home_in != store->call)
            continue;
        struct check *check = *ret_count ? &checks[*ret_count - 1] : NULL;
        if (!check || check->txn.compare_count + 1 + ten_min_u64(budget, group->count) > TXN_FULL) {
            TEN_INVARIANT(*ret_count < most);
            check = &checks[(*ret_count)++];
            check->groups = ten_calloc(home_count, sizeof(ten_etcd_group *));
            if (!check->groups)
                return ten_etcd_no_memory(store);
        }
        check->groups[check->count++] = group;
        compare_group(store, &check->txn, group, budget);
    }
    return TENURE_OK;
}

static void free_checks(struct check *checks, size_t count) {
    for (size_t i = 0; checks && i < count; i++) {
        ten_etcd_txn_free(&checks[i].txn);
        ten_free(checks[i].groups);
    }
    ten_free(checks);
}

/* What a transaction says of its groups. Where something was different, everything that is attached is read anew, and
 * only when that has succeeded is the revision learned: a call that fails on its way must find the difference again.
 * What others change after this is seen by the next comparison. */
static void judge(ten_etcd_store *store, const struct check *check, const json_t *answer) {
    bool same = json_is_true(json_object_get(answer, "succeeded"));
    for (size_t i = 0; i < check->count; i++) {
        ten_etcd_group *group = check->groups[i];
        if (!same || !ten_etcd_is_confirmed(store, group))
            group->home_in = 0;
        if (same)
            continue;
        ten_etcd_kv kv = ten_etcd_kv_at(answer, i, &store->scratch);
        group->seen_revision = kv.revision;
        group->seen_in = store->call;
        ten_etcd_kv_free(&kv);
    }
}

void ten_etcd_learn_revisions(ten_etcd_store *store) {
    for (ten_etcd_group *group = store->groups; group; group = group->next)
        if (group->seen_in == store->call)
            group->revision = group->seen_revision;
}

static int perform(ten_etcd_store *store, struct check *checks, size_t count, uint64_t deadline_ms) {
    ten_etcd_call *calls = ten_calloc(count, sizeof *calls);
    int r = calls ? TENURE_OK : ten_etcd_no_memory(store);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        calls[i] = (ten_etcd_call){.path = "/v3/kv/txn", .body = ten_etcd_txn_body(&checks[i].txn)};
        if (!calls[i].body)
            r = ten_etcd_no_memory(store);
    }
    if (r == TENURE_OK)
        r = ten_etcd_perform(store->link, calls, count, deadline_ms, &store->base.error);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        store->head = calls[i].head;
        judge(store, &checks[i], calls[i].answer);
    }
    if (calls)
        ten_etcd_calls_free(calls, count);
    ten_free(calls);
    return r;
}

/* Groups that are not confirmed are kept alive once more, when what is attached to them has been read. */
static int confirm_homes(ten_etcd_store *store, uint64_t deadline_ms) {
    struct check *checks;
    size_t count;
    int r = make_checks(store, &checks, &count);
    if (r == TENURE_OK && count > 0)
        r = perform(store, checks, count, deadline_ms);
    free_checks(checks, count);
    return r;
}

/* ---- the answer -------------------------------------------------------------------------------------------- */

static bool answer(ten_etcd_store *store, const ten_etcd_hold *hold, const ten_op *op, ten_result *result) {
    const ten_etcd_group *group = hold->group;
    *result = (ten_result){.outcome = TEN_OK,
                           .token = op->kind == TEN_OP_RENEW ? hold->token : 0,
                           .ttl_ms = group->ttl_ms,
                           .remaining_ms = group->ttl_ms,
                           .ask = hold->ask};
    if (op->kind == TEN_OP_RENEW)
        result->holder = ten_arena_text(&store->results, group->holder);
    return op->kind != TEN_OP_RENEW || result->holder;
}

int ten_etcd_renew_steady(ten_etcd_store *store, const ten_op *ops, ten_result *results, bool *settled, size_t count,
                          uint64_t deadline_ms) {
    if (store->homes.count == 0)
        return TENURE_OK;
    note_names(store, ops, count);
    int r = confirm_homes(store, deadline_ms);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        const ten_etcd_hold *hold = hold_of(store, &ops[i]);
        if (!hold || hold->spoiled_in == store->call || !is_steady(store, hold, &ops[i]))
            continue;
        settled[i] = true;
        if (!answer(store, hold, &ops[i], &results[i]))
            r = ten_etcd_no_memory(store);
    }
    return r;
}
