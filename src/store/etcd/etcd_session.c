/*
 * Sessions in etcd: an etcd lease that the heartbeats of an instance keep alive. This file decides with which one a
 * heartbeat goes on, and what an acquire or a renewal may hang on. etcd_state.h says how they are kept. Called by
 * etcd_instance.c and etcd_lease.c.
 */
#include <string.h>

#include "store/etcd/etcd_cell.h"

#define NUMBER_BITS 53u /* of a JSON number. The bits of an etcd lease above name the member that granted it */

uint64_t ten_etcd_session_number(uint64_t lease) {
    return lease & ((UINT64_C(1) << NUMBER_BITS) - 1);
}

bool ten_etcd_wants_session(const ten_op *op) {
    bool may = op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_RENEW;
    return may && op->holder && (op->flags & TEN_OP_SESSION);
}

struct ten_etcd_session ten_etcd_session_read(const ten_etcd_kv *instance) {
    uint64_t term = ten_etcd_number(instance->value, "session");
    if (instance->revision == 0 || term == 0 || instance->lease == 0)
        return (struct ten_etcd_session){0};
    return (struct ten_etcd_session){
        .lease = instance->lease, .term = term, .ttl_ms = ten_etcd_number(instance->value, "ttl_ms")};
}

uint64_t ten_etcd_session_left_ms(ten_etcd_store *store, uint64_t lease) {
    const ten_etcd_group *group = ten_etcd_group_by_lease(store, lease);
    if (!group || !group->is_session)
        return 0;
    return ten_sub_saturating(group->sent_ms + group->ttl_ms, ten_boot_ms(store->base.clock));
}

/* The session as this handle knows it. It may have been begun by another one. NULL: out of memory. */
static ten_etcd_group *know(ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    const struct ten_etcd_session *session = &cell->session;
    ten_etcd_group *group = ten_etcd_group_by_lease(chunk->store, session->lease);
    if (group)
        return group;
    group = ten_etcd_group_add(chunk->store, chunk->namespace_name, cell->op.holder, session->lease, session->ttl_ms,
                               session->term);
    if (!group)
        return NULL;
    group->is_session = true;
    group->revision = 1; /* its key has been written */
    return group;
}

/* ---- heartbeats -------------------------------------------------------------------------------------------- */

/* Only what was read after the keep-alive counts. Whoever forced a lease of the session before the keep-alive has found
 * the old end of the session, and the holder must hear of it; whoever does it later finds the new end. */
static bool is_kept(const ten_etcd_chunk *chunk, const ten_etcd_group *group) {
    return group->home_in == chunk->store->call && group->kept_at < chunk->read_at;
}

int ten_etcd_session_go_on(ten_etcd_chunk *chunk, ten_etcd_cell *cell, ten_etcd_group **ret_session) {
    const struct ten_etcd_session *session = &cell->session;
    *ret_session = NULL;
    bool fits = session->lease && session->ttl_ms == cell->op.ttl_ms &&
                (session->term == chunk->head.term || chunk->store->is_full);
    if (!fits)
        return TENURE_OK;
    ten_etcd_group *group = know(chunk, cell);
    if (!group || !ten_etcd_hold_set(chunk->store, group, cell->key))
        return ten_etcd_no_memory(chunk->store);
    if (ten_etcd_is_touched(chunk, session->lease)) {
        cell->again = true; /* by an operation before it: its version is known when that has been carried out */
        return TENURE_OK;
    }
    if (is_kept(chunk, group) && cell->session_at != SIZE_MAX) {
        *ret_session = session->version ? group : NULL;
        return TENURE_OK;
    }
    int r = group->home_in == chunk->store->call ? TENURE_OK
                                                 : ten_etcd_group_keep(chunk->store, &group, chunk->deadline_ms);
    cell->again = r == TENURE_OK && group;
    return r;
}

int ten_etcd_session_begin(ten_etcd_chunk *chunk, const ten_etcd_cell *cell, ten_etcd_group **ret_session) {
    ten_etcd_store *store = chunk->store;
    /* The transaction of an earlier round was refused: its session is there, and nothing is attached to it. */
    for (ten_etcd_group *group = store->groups; group; group = group->next) {
        if (group->is_session && group->revision == 0 && group->home_in == store->call &&
            group->ttl_ms == cell->op.ttl_ms && strcmp(group->holder, cell->op.holder) == 0 &&
            strcmp(group->namespace_name, chunk->namespace_name) == 0) {
            *ret_session = group;
            return TENURE_OK;
        }
    }
    int r = ten_etcd_group_make(store, chunk->namespace_name, cell->op.holder, cell->op.ttl_ms, chunk->deadline_ms,
                                ret_session);
    if (r == TENURE_OK)
        (*ret_session)->is_session = true;
    return r;
}

/* ---- leases ------------------------------------------------------------------------------------------------ */

uint64_t ten_etcd_longest_ms(const ten_etcd_kv *lease) {
    return ten_max_u64(ten_etcd_number(lease->value, "ttl_ms"), ten_etcd_number(lease->value, "kept_ms"));
}

/* The holder has the lease already, with another end. It must not end earlier on the session, so the session is kept
 * alive first: then it lasts for its whole TTL, and nothing with a TTL that is not longer ends after that. */
static int offer_to_held(ten_etcd_chunk *chunk, ten_etcd_cell *cell, ten_lease_context *context) {
    ten_etcd_store *store = chunk->store;
    ten_etcd_group *group = know(chunk, cell);
    int r = group ? TENURE_OK : ten_etcd_no_memory(store);
    if (r == TENURE_OK && group->home_in != store->call)
        r = ten_etcd_group_keep(store, &group, chunk->deadline_ms);
    if (r < 0 || !group || group->home_in != store->call) {
        cell->session = (struct ten_etcd_session){0}; /* it has ended, or is of an earlier term */
        return r;
    }
    context->session.ends_ms = context->now_ms + group->ttl_ms;
    if (ten_etcd_longest_ms(&cell->kv) <= group->ttl_ms)
        cell->row.ends_ms = context->now_ms + 1;
    else
        cell->row.ends_ms = context->now_ms + ten_etcd_left_of(chunk, cell->kv.lease, UINT32_MAX) + 1000;
    return TENURE_OK;
}

int ten_etcd_session_offer(ten_etcd_chunk *chunk, ten_etcd_cell *cell, ten_lease_context *context) {
    const struct ten_etcd_session *session = &cell->session;
    if (session->lease == 0)
        return TENURE_OK;
    uint64_t known_ms = ten_etcd_session_left_ms(chunk->store, session->lease);
    uint64_t left_ms = ten_etcd_left_of(chunk, session->lease, ten_max_u64(known_ms, 1));
    context->session = (ten_session){
        .id = ten_etcd_session_number(session->lease), .ends_ms = context->now_ms + left_ms, .ttl_ms = session->ttl_ms};
    bool held = cell->kv.revision > 0 && strcmp(cell->row.holder, cell->op.holder) == 0;
    int r = TENURE_OK;
    if (held && cell->row.session == context->session.id)
        context->session.ends_ms = cell->row.ends_ms; /* which was read a moment ago, when more was left */
    else if (held)
        r = offer_to_held(chunk, cell, context);
    if (cell->session.lease == 0)
        context->session = (ten_session){0};
    return r;
}
