/*
 * The rules of the store contract for one instance. Called by store/apply_instance.c.
 */
#include "rules/instance_row.h"

#include "base/util.h"
#include "rules/value.h"

bool ten_instance_row_is_live(const ten_instance_row *row, uint64_t now_ms) {
    return row->exists && !row->gone && row->ends_ms > now_ms;
}

uint64_t ten_instance_row_ready_ms(const ten_instance_row *row, uint64_t now_ms) {
    bool ready = ten_instance_row_is_live(row, now_ms) && row->weight > 0 && row->ask != TEN_ASK_DRAIN;
    return ready ? row->ends_ms - now_ms : 0;
}

bool ten_instance_row_is_tombstone(const ten_instance_row *row, uint64_t now_ms) {
    return row->exists && row->gone && row->ends_ms > now_ms;
}

bool ten_instance_row_is_over(const ten_instance_row *row, uint64_t now_ms) {
    return ten_max_u64(row->ends_ms, row->session_ends_ms) + TEN_INSTANCE_KEPT_MS <= now_ms;
}

/* ---- the session */

ten_session ten_instance_row_session(const ten_instance_row *row, uint64_t now_ms) {
    bool lives = row->exists && row->session != 0 && row->session_ends_ms > now_ms;
    return lives ? (ten_session){.id = row->session, .ends_ms = row->session_ends_ms, .ttl_ms = row->ttl_ms}
                 : (ten_session){0};
}

uint64_t ten_instance_row_session_end_ms(const ten_instance_row *row, uint64_t session) {
    return row->exists && row->session == session ? row->session_ends_ms : 0;
}

/* After an epoch the row may be older than it was, and so may its version: a holder must not take it for the one that
 * it knows. The floor grows with each epoch by far more than there are touches, unless the wall clock was set back.
 * Then the time of the epoch is another one. */
uint64_t ten_instance_row_reported_version(const ten_instance_row *row, uint64_t token_floor, uint64_t epoch_ms) {
    return row->session_version + token_floor + epoch_ms;
}

/* A session that has not ended goes on, also after the instance had left: its leases are there. Then whoever made it
 * leave may have done more. One that has ended never comes back: its leases may be other instances' by now. */
static void extend_session(ten_instance_row *row, const ten_op *op, uint64_t now_ms, uint64_t next_session,
                           bool joins) {
    bool lives = row->session != 0 && row->session_ends_ms > now_ms;
    if (!lives && (!(op->flags & TEN_OP_SESSION) || next_session == 0)) {
        row->session = row->session_ends_ms = 0;
        return;
    }
    if (!lives)
        row->session = next_session;
    row->session_version += joins;
    row->session_ends_ms = ten_max_u64(lives ? row->session_ends_ms : 0, now_ms + op->ttl_ms);
}

/* ---- operations */

static void report(ten_instance_effect *effect, enum tenure_event_kind change) {
    effect->changed = true;
    effect->change = change;
}

static void announce(ten_instance_row *row, const ten_op *op, uint64_t now_ms, uint64_t wall_ms, bool metadata_differs,
                     uint64_t fleet_ttl_ms, uint64_t next_session, ten_result *result, ten_instance_effect *effect) {
    bool joins = !ten_instance_row_is_live(row, now_ms);
    if (ten_instance_row_is_tombstone(row, now_ms)) {
        result->error = TENURE_E_GONE;
        return;
    }
    if (joins && fleet_ttl_ms != 0 && fleet_ttl_ms != op->ttl_ms) {
        result->error = TENURE_E_TTL;
        result->ttl_ms = fleet_ttl_ms;
        return;
    }
    if (joins) {
        row->since_ms = wall_ms;
        row->ask = TEN_ASK_NOTHING;
        report(effect, TENURE_EVENT_JOINED);
    } else if (metadata_differs || row->weight != op->weight || row->ttl_ms != op->ttl_ms) {
        report(effect, TENURE_EVENT_INSTANCE_CHANGED);
    }
    extend_session(row, op, now_ms, next_session, joins);
    row->exists = true;
    row->gone = false;
    row->weight = op->weight;
    row->ttl_ms = op->ttl_ms;
    row->ends_ms = now_ms + op->ttl_ms;
    effect->life = TEN_LIFE_FOR(op->ttl_ms);
    effect->life.as_it_is = row->session != 0; /* its leases never end earlier */
    effect->row_changed = true;
    result->outcome = TEN_OK;
    result->ttl_ms = op->ttl_ms;
    result->remaining_ms = op->ttl_ms;
    result->ask = row->ask;
    result->session = row->session;
    result->session_version = row->session_version;
}

/* Leaving does not end the session: what cannot be stopped is not released, and whoever works under its leases believes
 * in them until their end. So the row stays until then; after a plain leave as one that refuses nobody. */
static void leave(ten_instance_row *row, const ten_op *op, uint64_t now_ms, ten_result *result,
                  ten_instance_effect *effect) {
    bool live = ten_instance_row_is_live(row, now_ms);
    if (live) {
        report(effect, TENURE_EVENT_LEFT);
        effect->reason = op->reason;
    }
    bool session_lives = row->session != 0 && row->session_ends_ms > now_ms;
    if (op->ttl_ms > 0 || (live && session_lives)) {
        row->exists = true;
        row->gone = true;
        row->ends_ms = now_ms + op->ttl_ms;
        effect->life = TEN_LIFE_FOR(op->ttl_ms);
        effect->life.as_it_is = session_lives;
        if (!session_lives) /* the tombstone must not bring it back, with the leases that hung on it */
            row->session = row->session_ends_ms = 0;
        if (op->ttl_ms > 0) {
            row->ttl_ms = op->ttl_ms;
            row->ends_ms = ten_max_u64(row->ends_ms, row->session_ends_ms);
        }
        effect->row_changed = true;
    } else if (live) {
        effect->row_removed = true;
    }
    result->outcome = live ? TEN_OK : TEN_LOST;
}

static void ask(ten_instance_row *row, const ten_op *op, uint64_t now_ms, ten_result *result,
                ten_instance_effect *effect) {
    bool live = ten_instance_row_is_live(row, now_ms);
    if (live) {
        row->ask = op->ask == TEN_ASK_UNDO ? TEN_ASK_NOTHING : op->ask;
        effect->life = TEN_LIFE_AS_IT_IS;
        effect->row_changed = true;
        report(effect, TENURE_EVENT_INSTANCE_CHANGED);
    }
    result->outcome = live ? TEN_OK : TEN_LOST;
}

void ten_instance_row_apply(ten_instance_row *row, const ten_op *op, uint64_t now_ms, uint64_t wall_ms,
                            bool metadata_differs, uint64_t fleet_ttl_ms, uint64_t next_session, ten_result *result,
                            ten_instance_effect *effect) {
    *effect = (ten_instance_effect){0};
    if (op->kind == TEN_OP_ANNOUNCE)
        announce(row, op, now_ms, wall_ms, metadata_differs, fleet_ttl_ms, next_session, result, effect);
    else if (op->kind == TEN_OP_LEAVE)
        leave(row, op, now_ms, result, effect);
    else
        ask(row, op, now_ms, result, effect);
}

void ten_instance_row_expire(ten_instance_row *row) {
    row->gone = true;
}

/* ---- the record */

/* What has become of it. */
enum { ANNOUNCED, LEFT, TOMBSTONE };

struct instance_value {
    uint64_t state, ttl_ms, since_ms, ask, session;
    uint64_t ended_ms; /* Unix time at which the session ended that is over; 0: it is not known to be */
    const char *metadata;
};

static const ten_value_field instance_fields[] = {
    {"state", TEN_VALUE_NUMBER, offsetof(struct instance_value, state)},
    {"ttl", TEN_VALUE_NUMBER, offsetof(struct instance_value, ttl_ms)},
    {"since", TEN_VALUE_NUMBER, offsetof(struct instance_value, since_ms)},
    {"ask", TEN_VALUE_NUMBER, offsetof(struct instance_value, ask)},
    {"session", TEN_VALUE_NUMBER, offsetof(struct instance_value, session)},
    {"ended", TEN_VALUE_NUMBER, offsetof(struct instance_value, ended_ms)},
    {"metadata", TEN_VALUE_TEXT, offsetof(struct instance_value, metadata)},
};

bool ten_instance_row_read(const ten_record *record, uint64_t now_ms, uint64_t wall_ms, ten_instance_row *row,
                           const char **ret_metadata, ten_buf *texts) {
    struct instance_value value;
    *row = (ten_instance_row){0};
    *ret_metadata = "";
    if (record->version == 0)
        return true;
    if (!ten_value_read(record->value, instance_fields, TEN_COUNT(instance_fields), &value, texts))
        return false;
    uint64_t ago_ms = value.ended_ms ? ten_sub_saturating(wall_ms, value.ended_ms) : record->ended_ms;
    uint64_t ends_ms = record->alive     ? ten_add_saturating(now_ms, record->left_ms)
                       : ago_ms < now_ms ? now_ms - ago_ms
                                         : 0;
    *row = (ten_instance_row){.exists = true,
                              .gone = value.state != ANNOUNCED,
                              .weight = (uint32_t)record->number,
                              .ttl_ms = value.ttl_ms,
                              .ends_ms = value.state == LEFT && record->alive ? 0 : ends_ms,
                              .since_ms = value.since_ms,
                              .ask = (enum ten_ask)value.ask,
                              .session = value.session,
                              .session_ends_ms = value.session ? ends_ms : 0,
                              .session_version = record->version};
    if (value.metadata)
        *ret_metadata = value.metadata;
    return true;
}

void ten_instance_row_write(ten_buf *out, const char *old, const ten_instance_row *row, uint64_t now_ms,
                            uint64_t wall_ms, const char *metadata) {
    struct instance_value value = {.state = !row->gone              ? ANNOUNCED
                                            : row->ends_ms > now_ms ? TOMBSTONE
                                                                    : LEFT,
                                   .ttl_ms = row->ttl_ms,
                                   .since_ms = row->since_ms,
                                   .ask = (uint64_t)row->ask,
                                   .session = row->session,
                                   .metadata = metadata && metadata[0] ? metadata : NULL};
    uint64_t ends_ms = ten_max_u64(row->ends_ms, row->session_ends_ms);
    if (row->gone && ends_ms > 0 && ends_ms <= now_ms)
        value.ended_ms = ten_sub_saturating(wall_ms, now_ms - ends_ms);
    ten_value_write(out, old, instance_fields, TEN_COUNT(instance_fields), &value);
}
