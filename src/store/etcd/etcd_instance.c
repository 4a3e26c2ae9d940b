/*
 * One operation on one instance in etcd: heartbeats, leaving, and requests. A heartbeat is attached to the same etcd
 * lease as what the instance holds, so that they end together. Called by etcd_apply.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "base/json.h"
#include "store/etcd/etcd_cell.h"

#define NOTICED_MAX 8u /* instances that have expired, reported by one that joins */

static void key_of(const ten_etcd_chunk *chunk, char key[TEN_ETCD_KEY_MAX + 1], enum ten_etcd_kind kind,
                   const char *instance) {
    ten_etcd_key_of(chunk->store, key, chunk->namespace_name, kind, instance);
}

/* ---- reading ----------------------------------------------------------------------------------------------- */

void ten_etcd_instance_reads(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_txn *txn = &chunk->store->txn;
    cell->at = txn->operation_count;
    ten_etcd_txn_get(txn, cell->key);
    key_of(chunk, key, TEN_ETCD_MEMBER, cell->op.holder);
    ten_etcd_txn_get(txn, key);
    key_of(chunk, key, TEN_ETCD_GONE, cell->op.holder);
    cell->gone_at = txn->operation_count;
    ten_etcd_txn_get(txn, key);
    cell->fleet_at = cell->session_at = SIZE_MAX;
    const ten_etcd_hold *hold = ten_etcd_hold_find(chunk->store, cell->key);
    if (cell->op.kind == TEN_OP_ANNOUNCE && hold && hold->group->is_session) {
        cell->session_at = txn->operation_count;
        cell->session.lease = hold->group->lease;
        ten_etcd_group_key(chunk->store, key, chunk->namespace_name, hold->group->lease);
        ten_etcd_txn_get(txn, key);
    }
    /* Who joins looks at the others; a join is rare. */
    if (cell->op.kind == TEN_OP_ANNOUNCE && !hold) {
        cell->fleet_at = txn->operation_count;
        key_of(chunk, key, TEN_ETCD_INSTANCE, NULL);
        ten_etcd_txn_get_all(txn, key, &(struct ten_etcd_range){0});
        key_of(chunk, key, TEN_ETCD_MEMBER, NULL);
        ten_etcd_txn_get_all(txn, key, &(struct ten_etcd_range){.keys_only = true});
    }
}

void ten_etcd_instance_take(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    ten_buf *scratch = &chunk->store->scratch;
    ten_etcd_kv_free(&cell->kv);
    ten_etcd_kv_free(&cell->behind);
    cell->kv = ten_etcd_kv_at(chunk->answer, cell->at, scratch);
    cell->behind = ten_etcd_kv_at(chunk->answer, cell->at + 1, scratch);
    ten_etcd_kv gone = ten_etcd_kv_at(chunk->answer, cell->gone_at, scratch);
    cell->tombstone = gone.revision;
    ten_etcd_kv_free(&gone);
    uint64_t asked = cell->session.lease;
    cell->session = ten_etcd_session_read(&cell->kv);
    if (cell->session_at == SIZE_MAX)
        return;
    ten_etcd_kv touched = ten_etcd_kv_at(chunk->answer, cell->session_at, scratch);
    cell->session.version = touched.revision;
    ten_etcd_kv_free(&touched);
    if (asked != cell->session.lease)
        cell->session_at = SIZE_MAX; /* it is that of an earlier session */
}

/* It has left, and the session is still there: so is the key. */
static bool has_left(const ten_etcd_kv *kv) {
    return json_is_true(json_object_get(kv->value, "left"));
}

/* `session_left_ms`: of the one that goes on; 0: none does. */
static ten_instance_row row_of(const ten_etcd_cell *cell, uint64_t now_ms, uint64_t session_left_ms) {
    const json_t *value = cell->kv.value;
    if (cell->kv.revision == 0)
        return (ten_instance_row){.exists = cell->tombstone > 0,
                                  .gone = cell->tombstone > 0,
                                  .ends_ms = cell->tombstone > 0 ? now_ms + 1 : 0};
    return (ten_instance_row){.exists = true,
                              .gone = has_left(&cell->kv),
                              .session = session_left_ms ? ten_etcd_session_number(cell->session.lease) : 0,
                              .session_ends_ms = session_left_ms ? now_ms + session_left_ms : 0,
                              .weight = (uint32_t)ten_etcd_number(value, "weight"),
                              .ttl_ms = ten_etcd_number(value, "ttl_ms"),
                              .ends_ms = has_left(&cell->kv) ? now_ms : now_ms + 1,
                              .since_ms = ten_etcd_number(value, "since_ms"),
                              .ask = (enum ten_ask)ten_etcd_number(value, "ask")};
}

uint64_t ten_etcd_ready_ms(const ten_etcd_kv *kv, bool gone, uint64_t now_ms, uint64_t left_ms) {
    ten_instance_row row = {.exists = kv->revision > 0,
                            .gone = gone || has_left(kv),
                            .weight = (uint32_t)ten_etcd_number(kv->value, "weight"),
                            .ends_ms = now_ms + left_ms,
                            .ask = (enum ten_ask)ten_etcd_number(kv->value, "ask")};
    return ten_instance_row_ready_ms(&row, now_ms);
}

static uint64_t fleet_ttl(const ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    const json_t *nodes = cell->fleet_at == SIZE_MAX ? NULL : ten_etcd_kvs(chunk->answer, cell->fleet_at);
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        ten_etcd_kv kv = ten_etcd_kv_read(json_array_get(nodes, i), &chunk->store->scratch);
        uint64_t ttl_ms = has_left(&kv) ? 0 : ten_etcd_number(kv.value, "ttl_ms");
        ten_etcd_kv_free(&kv);
        if (ttl_ms)
            return ttl_ms;
    }
    return 0;
}

/* ---- writing ----------------------------------------------------------------------------------------------- */

/* `session`: the term in which the etcd lease was granted, if that is a session. */
static void put_node(ten_etcd_chunk *chunk, ten_etcd_cell *cell, const ten_instance_row *row, const char *metadata,
                     uint64_t lease, uint64_t session) {
    ten_buf *value = &chunk->store->value;
    ten_buf_clear(value);
    ten_json_open(value);
    ten_json_number(value, "weight", row->weight);
    ten_json_number(value, "ttl_ms", row->ttl_ms);
    ten_json_number(value, "since_ms", row->since_ms);
    if (metadata)
        ten_json_text(value, "metadata", metadata);
    if (row->ask)
        ten_json_number(value, "ask", row->ask);
    if (session)
        ten_json_number(value, "session", session);
    if (row->gone)
        ten_json_bool(value, "left", true);
    ten_json_close(value);
    ten_etcd_txn_put(&chunk->store->txn, cell->key, ten_buf_string(value), lease);
    cell->wrote = true;
}

/* The name of the key behind the prefix, decoded into `scratch`; NULL: it has none. */
static const char *name_of(const json_t *item, size_t prefix_size, ten_buf *scratch) {
    const char *text = json_string_value(json_object_get(item, "key"));
    bool good = text && ten_base64_decode(scratch, text) && scratch->size > prefix_size;
    return good ? ten_buf_string(scratch) + prefix_size : NULL;
}

static void notice(ten_etcd_chunk *chunk, const char *instance, uint64_t shadow_revision) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_txn *txn = &chunk->store->txn;
    ten_etcd_change(
        chunk,
        &(ten_change){
            .kind = TENURE_EVENT_LEFT, .reason = TEN_REASON_EXPIRED, .target = "", .instance = instance, .actor = ""});
    key_of(chunk, key, TEN_ETCD_INSTANCE, instance);
    ten_etcd_txn_compare(txn, key, 0);
    key_of(chunk, key, TEN_ETCD_MEMBER, instance);
    ten_etcd_txn_compare(txn, key, shadow_revision);
    ten_etcd_txn_delete(txn, key);
}

/* Those that have a shadow and are not there any more have expired, and nobody has said so yet. Both lists are in the
 * order of the names. */
static void notice_expired(ten_etcd_chunk *chunk, const json_t *nodes, const json_t *shadows, const char *self) {
    ten_etcd_store *store = chunk->store;
    char prefix[TEN_ETCD_KEY_MAX + 1];
    key_of(chunk, prefix, TEN_ETCD_INSTANCE, NULL);
    size_t node_prefix = strlen(prefix);
    key_of(chunk, prefix, TEN_ETCD_MEMBER, NULL);
    size_t shadow_prefix = strlen(prefix);
    size_t noticed = 0;
    size_t at = 0;
    const char *node = name_of(json_array_get(nodes, at), node_prefix, &store->value);
    for (size_t i = 0; i < json_array_size(shadows) && noticed < NOTICED_MAX; i++) {
        const json_t *item = json_array_get(shadows, i);
        const char *instance = name_of(item, shadow_prefix, &store->scratch);
        while (node && instance && strcmp(node, instance) < 0)
            node = name_of(json_array_get(nodes, ++at), node_prefix, &store->value);
        if (!instance || (node && strcmp(node, instance) == 0) || strcmp(instance, self) == 0)
            continue;
        notice(chunk, instance, ten_etcd_number(item, "mod_revision"));
        noticed++;
    }
}

void ten_etcd_tell_expired(ten_etcd_store *store, const char *namespace_name, const json_t *nodes,
                           const json_t *shadows, uint64_t deadline_ms) {
    ten_etcd_chunk *chunk = ten_calloc(1, sizeof *chunk);
    if (!chunk)
        return;
    chunk->store = store;
    chunk->namespace_name = namespace_name;
    ten_etcd_txn_clear(&store->txn);
    notice_expired(chunk, nodes, shadows, "");
    if (chunk->change_count > 0) {
        ten_etcd_head head = store->head;
        ten_error error = store->base.error;
        bool succeeded;
        ten_buf_char(&chunk->changes, ']');
        ten_etcd_feed_put(store, namespace_name, ten_buf_string(&chunk->changes), chunk->change_count);
        if (!chunk->changes.failed)
            (void)ten_etcd_commit(store, true, deadline_ms, &succeeded, NULL);
        store->head = head;
        store->base.error = error;
    }
    ten_buf_free(&chunk->changes);
    ten_free(chunk);
}

/* `session`: the one that goes on; NULL: there is none. */
static int announce(ten_etcd_chunk *chunk, ten_etcd_cell *cell, const ten_instance_row *row,
                    const ten_instance_effect *effect, ten_etcd_group *session) {
    char key[TEN_ETCD_KEY_MAX + 1];
    int r = TENURE_OK;
    cell->home = session;
    cell->write = TEN_ETCD_ATTACH;
    if (session && !effect->changed && cell->behind.revision > 0)
        return TENURE_OK; /* it was kept alive, and then everything was read */
    if (!session && row->session)
        r = ten_etcd_session_begin(chunk, cell, &cell->home);
    else if (!session)
        r = ten_etcd_home(chunk->store, chunk->namespace_name, cell->op.holder, row->ttl_ms, chunk->deadline_ms,
                          &cell->home);
    if (r < 0)
        return r;
    ten_etcd_txn_compare(&chunk->store->txn, cell->key, cell->kv.revision);
    key_of(chunk, key, TEN_ETCD_GONE, cell->op.holder);
    ten_etcd_txn_compare(&chunk->store->txn, key, 0);
    if (cell->kv.lease != cell->home->lease || effect->changed)
        put_node(chunk, cell, row, cell->op.metadata, cell->home->lease, cell->home->is_session ? cell->home->term : 0);
    cell->touches = session && effect->changed && effect->change == TENURE_EVENT_JOINED;
    if (cell->touches) /* it had left: whoever made it leave may have done more */
        ten_etcd_touch_lease(chunk, session->lease);
    if (cell->behind.revision == 0) {
        key_of(chunk, key, TEN_ETCD_MEMBER, cell->op.holder);
        ten_etcd_txn_put(&chunk->store->txn, key, "{}", 0);
    }
    return TENURE_OK;
}

static int leave(ten_etcd_chunk *chunk, ten_etcd_cell *cell, const ten_instance_row *row) {
    char key[TEN_ETCD_KEY_MAX + 1];
    ten_etcd_txn *txn = &chunk->store->txn;
    uint64_t lease = 0;
    uint64_t now_ms = ten_boot_ms(chunk->store->base.clock);
    uint64_t gone_ms = ten_max_u64(cell->op.ttl_ms, ten_sub_saturating(row->ends_ms, now_ms));
    int r = cell->op.ttl_ms ? ten_etcd_grant(chunk->store, gone_ms, chunk->deadline_ms, &lease) : TENURE_OK;
    if (r < 0)
        return r;
    if (lease == 0 && row->session) /* which may go on */
        put_node(chunk, cell, row, NULL, cell->session.lease, cell->session.term);
    else if (cell->kv.revision > 0)
        ten_etcd_txn_delete(txn, cell->key);
    key_of(chunk, key, TEN_ETCD_MEMBER, cell->op.holder);
    if (cell->behind.revision > 0)
        ten_etcd_txn_delete(txn, key);
    key_of(chunk, key, TEN_ETCD_GONE, cell->op.holder);
    if (lease)
        ten_etcd_txn_put(txn, key, "{}", lease);
    ten_etcd_txn_compare(txn, cell->key, cell->kv.revision);
    cell->wrote = true;
    cell->write = TEN_ETCD_REMOVE;
    return TENURE_OK;
}

static int ask(ten_etcd_chunk *chunk, ten_etcd_cell *cell, const ten_instance_row *row) {
    ten_etcd_txn_compare(&chunk->store->txn, cell->key, cell->kv.revision);
    put_node(chunk, cell, row, json_string_value(json_object_get(cell->kv.value, "metadata")), cell->kv.lease,
             cell->session.term);
    cell->write = TEN_ETCD_ASK;
    return TENURE_OK;
}

/* What is left of the session that is there when the operation comes, as the shared rules are to see it. Of one with
 * which a heartbeat cannot go on nothing is. */
static int look_at_session(ten_etcd_chunk *chunk, ten_etcd_cell *cell, ten_etcd_group **ret_session,
                           uint64_t *ret_left_ms) {
    *ret_session = NULL;
    *ret_left_ms = cell->session.lease ? ten_etcd_left_of(chunk, cell->session.lease, cell->session.ttl_ms) + 1000 : 0;
    if (cell->op.kind != TEN_OP_ANNOUNCE)
        return TENURE_OK;
    int r = ten_etcd_session_go_on(chunk, cell, ret_session);
    if (!*ret_session)
        *ret_left_ms = 0;
    return r;
}

int ten_etcd_instance_decide(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    ten_etcd_store *store = chunk->store;
    uint64_t now_ms = ten_boot_ms(store->base.clock);
    const char *old = json_string_value(json_object_get(cell->kv.value, "metadata"));
    bool differs =
        cell->op.kind == TEN_OP_ANNOUNCE && strcmp(old ? old : "", cell->op.metadata ? cell->op.metadata : "") != 0;
    ten_etcd_group *session;
    uint64_t session_left_ms;
    *cell->result = (ten_result){0};
    cell->write = TEN_ETCD_NOTHING;
    cell->home = NULL;
    cell->wrote = cell->touches = false;
    int r = look_at_session(chunk, cell, &session, &session_left_ms);
    if (r < 0 || cell->again)
        return r;
    ten_instance_row row = row_of(cell, now_ms, session_left_ms);
    ten_instance_effect effect;
    ten_instance_row_apply(&row, &cell->op, now_ms, ten_wall_ms(store->base.clock), differs, fleet_ttl(chunk, cell), 1,
                           cell->result, &effect);
    if (effect.changed && effect.change == TENURE_EVENT_JOINED && cell->fleet_at != SIZE_MAX)
        notice_expired(chunk, ten_etcd_kvs(chunk->answer, cell->fleet_at),
                       ten_etcd_kvs(chunk->answer, cell->fleet_at + 1), cell->op.holder);
    if (effect.changed)
        ten_etcd_change(chunk, &(ten_change){.kind = effect.change,
                                             .reason = effect.reason,
                                             .target = "",
                                             .instance = cell->op.holder,
                                             .actor = cell->op.actor ? cell->op.actor : ""});
    if (!effect.row_changed && !effect.row_removed)
        return TENURE_OK;
    cell->row.ask = row.ask;
    r = cell->op.kind == TEN_OP_ANNOUNCE ? announce(chunk, cell, &row, &effect, session)
        : cell->op.kind == TEN_OP_LEAVE  ? leave(chunk, cell, &row)
                                         : ask(chunk, cell, &row);
    if (r == TENURE_OK && cell->wrote && cell->kv.lease && cell->session.lease == 0)
        ten_etcd_touch_other(chunk, cell->kv.lease);
    return r;
}

/* What the answer to a heartbeat says of the session. A key that was written in this transaction has its revision. */
static void report_session(const ten_etcd_chunk *chunk, const ten_etcd_cell *cell) {
    ten_result *result = cell->result;
    result->session = result->session_version = 0;
    if (!cell->home || !cell->home->is_session)
        return;
    bool written = cell->touches || cell->home->revision == 0;
    result->session = ten_etcd_session_number(cell->home->lease);
    result->session_version = chunk->identity.floor + (written ? chunk->store->head.revision : cell->session.version);
}

void ten_etcd_instance_written(ten_etcd_chunk *chunk, ten_etcd_cell *cell) {
    ten_etcd_store *store = chunk->store;
    if (cell->write == TEN_ETCD_REMOVE)
        ten_etcd_hold_drop(store, cell->key);
    if (cell->write == TEN_ETCD_NOTHING)
        ten_etcd_hold_doubt(store, cell->key, &cell->kv);
    if (cell->op.kind == TEN_OP_ANNOUNCE)
        report_session(chunk, cell);
    ten_etcd_hold *hold = cell->write == TEN_ETCD_ATTACH ? ten_etcd_hold_set(store, cell->home, cell->key)
                                                         : ten_etcd_hold_find(store, cell->key);
    if (!hold || cell->write == TEN_ETCD_NOTHING)
        return;
    hold->revision = cell->wrote ? store->head.revision : cell->kv.revision;
    hold->ask = cell->row.ask;
    if (cell->write != TEN_ETCD_ATTACH)
        return;
    char *metadata = cell->op.metadata ? ten_strdup(cell->op.metadata) : NULL;
    if (cell->op.metadata && !metadata) {
        hold->group->uncertain = true;
        ten_etcd_hold_drop(store, cell->key);
        return;
    }
    ten_free(hold->metadata);
    hold->metadata = metadata;
    hold->weight = cell->op.weight;
}
