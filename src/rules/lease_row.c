/*
 * The rules of the store contract for one lease. Called by store/apply_lease.c.
 *
 *      free ---acquire---> held ---release, force now---> free
 *                           | \--force--> barred ---its TTL passes---> free |--hand---> held by the successor \---its
 *                           TTL passes---> free
 *
 * A free lease keeps its counter. The row does not change when the TTL passes: every reader compares its end with the
 * time.
 *
 * A lease that hangs on a session ends with it. It leaves the session, with the end that the session has at that
 * moment, when it is forced or renewed without TEN_OP_SESSION: its holder may believe in it until then. Whatever is
 * done to it by others raises the version of the session, by which its holder notices.
 */
#include "rules/lease_row.h"

#include <string.h>

#include "base/util.h"
#include "rules/value.h"

bool ten_lease_row_is_held(const ten_lease_row *row, uint64_t now_ms) {
    return row->holder[0] != '\0' && row->ends_ms > now_ms;
}

/* Tokens up to this one may have been granted: the row's own; without a row, whatever the namespace forgot. */
static uint64_t counter_of(const ten_lease_row *row, const ten_lease_context *context) {
    return row->exists ? row->token : ten_max_u64(row->token, context->forgotten);
}

static void describe(const ten_lease_row *row, const ten_lease_context *context, ten_result *result) {
    bool held = ten_lease_row_is_held(row, context->now_ms);
    result->token = row->token;
    result->holder = held ? row->holder : NULL;
    result->ttl_ms = held ? row->ttl_ms : 0;
    result->remaining_ms = held ? row->ends_ms - context->now_ms : 0;
    result->acquired_at_ms = held ? row->acquired_at_ms : 0;
    result->barred = held && row->barred;
    result->ask = held ? row->ask : TEN_ASK_NOTHING;
    result->session = held ? row->session : 0;
}

/* The whole result, of whatever the row has. */
static enum ten_outcome wait_for_epoch(const ten_lease_row *row, const ten_lease_context *context, ten_result *result) {
    *result = (ten_result){.token = row->token, .remaining_ms = context->recovering_ms, .recovering = true};
    return TEN_HELD;
}

/* The holder of a lease on a session does not know of what happens to it now. */
static void touch(const ten_lease_row *row, ten_lease_effect *effect) {
    effect->touched_session |= row->session != 0;
}

/* The holder itself ends a lease that it does not believe in any more. */
static bool is_known(const ten_lease_row *row, const ten_op *op) {
    return (op->flags & TEN_OP_SESSION) && op->holder && strcmp(row->holder, op->holder) == 0;
}

static void put_on_session(ten_lease_row *row, const ten_session *session, ten_lease_effect *effect) {
    row->session = session->id;
    row->ttl_ms = session->ttl_ms;
    row->ends_ms = session->ends_ms;
    /* The end of its own stays beside that of the session: attaching never shortens, not even when it was prepared
     * before a renewal. */
    effect->life = TEN_LIFE_AS_IT_IS;
    effect->row_changed = true;
}

/* Whether a lease that is held may hang on the session of its holder from now on. It never ends earlier by that: the
 * request may be a late repetition, and the holder may believe in the lease for as long as it lasts now. */
static bool may_join_session(const ten_lease_row *row, const ten_op *op, const ten_lease_context *context) {
    return (op->flags & TEN_OP_SESSION) && context->session.id != 0 && context->session.ends_ms >= row->ends_ms;
}

/* Gives it an end of its own, not before that of the session on which it hung. */
static void leave_session(ten_lease_row *row, uint64_t ttl_ms, const ten_lease_context *context,
                          ten_lease_effect *effect) {
    touch(row, effect);
    effect->life.as_it_is = true;
    effect->life.with = (ten_key){TEN_KIND_INSTANCE, row->holder};
    row->session = 0;
    row->ends_ms = ten_max_u64(row->ends_ms, context->now_ms + ttl_ms);
}

static void extend(ten_lease_row *row, uint64_t ttl_ms, const ten_lease_context *context, ten_lease_effect *effect) {
    effect->row_changed = true;
    effect->life = TEN_LIFE_FOR(ttl_ms);
    row->ttl_ms = ttl_ms;
    if (row->session != 0)
        leave_session(row, ttl_ms, context, effect);
    else
        row->ends_ms = context->now_ms + ttl_ms;
}

static void give(ten_lease_row *row, const ten_op *op, uint64_t token, const ten_lease_context *context,
                 ten_lease_effect *effect) {
    snprintf(row->holder, sizeof row->holder, "%s", op->holder);
    row->exists = true;
    row->token = token;
    row->acquired_at_ms = context->wall_ms;
    row->barred = false;
    row->ask = TEN_ASK_NOTHING;
    row->session = 0;
    if ((op->flags & TEN_OP_SESSION) && context->session.id != 0) {
        put_on_session(row, &context->session, effect);
        effect->life = (ten_life){.kind = TEN_LIFE_ENDED};
    } else {
        extend(row, op->ttl_ms, context, effect);
    }
    effect->acquired = true;
}

static void note_former(const ten_lease_row *row, enum ten_reason reason, ten_lease_effect *effect) {
    effect->reason = reason;
    effect->former_token = row->token;
    memcpy(effect->former_holder, row->holder, sizeof row->holder);
}

static enum ten_outcome acquire(ten_lease_row *row, const ten_op *op, const ten_lease_context *context,
                                ten_result *result, ten_lease_effect *effect) {
    bool held = ten_lease_row_is_held(row, context->now_ms);
    bool own =
        held && !row->foreign && strcmp(row->holder, op->holder) == 0 && !row->barred && !(op->flags & TEN_OP_FRESH);
    /* While the store is recovering, a holder does not get its own lease back by an acquire: it may have released the
     * lease after the row was written. Nor does it later, under a token from before the epoch: a late renewal may have
     * put the lease back although another instance held the target meanwhile. (Live holders renew; they do not
     * acquire.) */
    if (context->recovering_ms > 0 && (own || !held))
        return wait_for_epoch(row, context, result);
    if (own && row->token >= context->token_floor) {
        /* Never shortened: the lease may be kept for longer, and this acquire may be a late repetition. */
        if (may_join_session(row, op, context)) {
            if (row->session != context->session.id)
                put_on_session(row, &context->session, effect);
        } else if (context->now_ms + op->ttl_ms > row->ends_ms) {
            extend(row, op->ttl_ms, context, effect);
            effect->life.as_it_is = true;
        }
    } else if (held || context->withheld) {
        return TEN_HELD;
    } else {
        uint64_t least = row->exists ? context->token_floor : ten_max_u64(context->token_floor, context->first_token);
        uint64_t token = ten_max_u64(counter_of(row, context) + 1, least);
        if (token > TENURE_TOKEN_MAX) {
            result->error = TENURE_E_TOKEN;
            return TEN_ERROR;
        }
        /* A forced lease was reported lost when it was forced. */
        if (row->holder[0] != '\0' && !row->barred) {
            effect->lost = true;
            note_former(row, TEN_REASON_EXPIRED, effect);
            if (row->ends_ms > 0)
                effect->lost_at_ms = ten_sub_saturating(context->wall_ms, context->now_ms - row->ends_ms);
            /* Its session has ended. Should the clock be set back, it must not come back with this lease. */
            touch(row, effect);
        }
        give(row, op, token, context, effect);
    }
    return TEN_OK;
}

/* Tokens start at 1 or at the wall clock in ms, and grow by one. A number far beyond the clock is a mistake. Taken for
 * a token, it would use the target up. */
static bool is_plausible(uint64_t token, const ten_lease_context *context) {
    return token <= ten_max_u64(context->wall_ms, context->token_floor) + TEN_TOKEN_AHEAD_MS;
}

/* The operation could put a lease back: it says for whom, for how long, and under which token. */
static bool is_whole(const ten_op *op, const ten_lease_context *context) {
    return op->holder && op->ttl_ms > 0 && op->token > 0 && is_plausible(op->token, context);
}

/* While the store is recovering, a live holder may put back a lease that the store lost: its token is above the
 * counter, or equals it and the row names the same holder. */
static bool may_put_back(const ten_lease_row *row, const ten_op *op, const ten_lease_context *context) {
    if (context->recovering_ms == 0 || !is_whole(op, context) || row->foreign)
        return false; /* another program knows no epoch, and would not notice */
    return op->token > counter_of(row, context) ||
           (op->token == row->token && strcmp(row->holder, op->holder) == 0 && !row->barred);
}

/* A token above the counter was granted by a store that knew more than this one does. A token below the floor is no
 * proof: it may be from before an epoch that has begun since, and then the loss is known. */
static bool proves_loss(const ten_lease_row *row, const ten_op *op, const ten_lease_context *context) {
    return !(op->flags & TEN_OP_NO_PROOF) && context->recovering_ms == 0 && !row->foreign && is_whole(op, context) &&
           op->token > counter_of(row, context) && op->token >= context->token_floor;
}

/* Whether the operation matches the present lease: by its token, its holder, or both. */
static bool is_meant(const ten_lease_row *row, const ten_op *op) {
    bool by_token = op->token ? row->token == op->token : op->holder != NULL;
    return by_token && !row->foreign && (!op->holder || strcmp(row->holder, op->holder) == 0);
}

/* A holder may shorten its own lease, because it knows. A renewal by the token alone may come from anybody who knows
 * the token, and the holder would not hear of it: it believes in the TTL for which it asked itself. */
static uint64_t renewed_ttl_ms(const ten_lease_row *row, const ten_op *op) {
    return op->holder && op->ttl_ms ? op->ttl_ms : ten_max_u64(op->ttl_ms, row->ttl_ms);
}

static enum ten_outcome renew(ten_lease_row *row, const ten_op *op, const ten_lease_context *context,
                              ten_result *result, ten_lease_effect *effect) {
    (void)result;
    bool held = ten_lease_row_is_held(row, context->now_ms);
    if (held && !row->barred && is_meant(row, op) && op->holder && may_join_session(row, op, context)) {
        if (row->session != context->session.id)
            put_on_session(row, &context->session, effect);
    } else if (held && !row->barred && is_meant(row, op)) {
        extend(row, renewed_ttl_ms(row, op), context, effect);
        effect->life.only_keeps = (op->flags & TEN_OP_KEEP) != 0;
    } else if (may_put_back(row, op, context)) {
        touch(row, effect);
        give(row, op, op->token, context, effect);
        effect->life.only_keeps = (op->flags & TEN_OP_KEEP) != 0;
    } else {
        effect->proves_loss = proves_loss(row, op, context);
        return TEN_LOST;
    }
    return TEN_OK;
}

static enum ten_outcome release(ten_lease_row *row, const ten_op *op, const ten_lease_context *context,
                                ten_result *result, ten_lease_effect *effect) {
    (void)result;
    bool held = ten_lease_row_is_held(row, context->now_ms);
    bool forced = (op->flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW)) != 0;
    bool match = forced ? !op->holder || strcmp(row->holder, op->holder) == 0 : is_meant(row, op);
    bool spared = row->foreign && !(op->flags & TEN_OP_FORCE_NOW);
    if (!held || !match || spared)
        return TEN_LOST;
    effect->row_changed = true;
    note_former(row, forced ? TEN_REASON_FORCED : op->reason, effect);
    if (forced || !is_known(row, op))
        touch(row, effect);
    effect->life = TEN_LIFE_AS_IT_IS;
    if (row->session != 0) /* a forced lease ends when its session would have ended now */
        effect->life.with = (ten_key){TEN_KIND_INSTANCE, row->holder};
    row->session = 0;
    if (forced && !(op->flags & TEN_OP_FORCE_NOW)) {
        effect->lost = !row->barred;
        row->barred = true;
        return TEN_OK;
    }
    effect->released = true;
    effect->life = (ten_life){.kind = TEN_LIFE_ENDED};
    row->holder[0] = '\0';
    if (!row->exists) /* it was another program's alone */
        row->token = ten_max_u64(context->forgotten, context->first_token);
    row->exists = true;
    row->acquired_at_ms = context->wall_ms; /* since when it is free */
    row->barred = false;
    row->ask = TEN_ASK_NOTHING;
    return TEN_OK;
}

static enum ten_outcome hand(ten_lease_row *row, const ten_op *op, const ten_lease_context *context, ten_result *result,
                             ten_lease_effect *effect) {
    (void)result;
    bool meant = ten_lease_row_is_held(row, context->now_ms) && is_meant(row, op);
    uint64_t token = ten_max_u64(row->token + 1, context->token_floor);
    /* While the store is recovering, the row may be that of a lease which was released before: then a late request
     * would let the successor in beside a holder that the store has forgotten. */
    bool refused = row->barred || context->recovering_ms > 0 || context->successor_ms == 0 || token > TENURE_TOKEN_MAX;
    if (meant && !refused) {
        note_former(row, op->reason, effect);
        effect->released = true;
        if (!is_known(row, op))
            touch(row, effect);
        ten_op grant = {.holder = op->successor, .ttl_ms = op->ttl_ms};
        give(row, &grant, token, context, effect);
        /* It ends with the successor's heartbeat at the latest: should it be dead already, that is noticed then. */
        effect->life = TEN_LIFE_FOR(ten_min_u64(op->ttl_ms, context->successor_ms));
        row->ends_ms = context->now_ms + effect->life.ttl_ms;
    }
    return !meant ? TEN_LOST : refused ? TEN_UNKNOWN : TEN_OK;
}

static enum ten_outcome ask(ten_lease_row *row, const ten_op *op, const ten_lease_context *context, ten_result *result,
                            ten_lease_effect *effect) {
    (void)result;
    bool match = ten_lease_row_is_held(row, context->now_ms) && !row->foreign &&
                 (!op->holder || strcmp(row->holder, op->holder) == 0);
    if (match) {
        effect->life = TEN_LIFE_AS_IT_IS;
        row->ask = op->ask == TEN_ASK_UNDO ? TEN_ASK_NOTHING : op->ask;
        effect->row_changed = true;
        effect->asked = row->ask != TEN_ASK_NOTHING;
        touch(row, effect);
    }
    return match ? TEN_OK : TEN_LOST;
}

/* The fence at work: whoever is not the holder of this moment, under this very token, changes nothing. */
static enum ten_outcome checkpoint(ten_lease_row *row, const ten_op *op, const ten_lease_context *context,
                                   ten_result *result, ten_lease_effect *effect) {
    if (context->recovering_ms > 0)
        return wait_for_epoch(row, context, result);
    bool match =
        ten_lease_row_is_held(row, context->now_ms) && !row->barred && op->token == row->token && is_meant(row, op);
    effect->checkpointed = match;
    return match ? TEN_OK : TEN_LOST;
}

/* A guard that starts after a loss of data must not accept the lost tokens as current, nor forgotten ones. */
static enum ten_outcome look_up(ten_lease_row *row, const ten_op *op, const ten_lease_context *context,
                                ten_result *result, ten_lease_effect *effect) {
    (void)op;
    (void)effect;
    uint64_t last = ten_max_u64(ten_sub_saturating(context->token_floor, 1), counter_of(row, context));
    if (!ten_lease_row_is_held(row, context->now_ms) && last > row->token)
        *result = (ten_result){.token = last, .recovering = true};
    return TEN_OK;
}

void ten_lease_row_apply(ten_lease_row *row, const ten_op *op, const ten_lease_context *context, ten_result *result,
                         ten_lease_effect *effect) {
    static enum ten_outcome (*const operations[])(ten_lease_row *, const ten_op *, const ten_lease_context *,
                                                  ten_result *, ten_lease_effect *) = {
        [TEN_OP_ACQUIRE] = acquire, [TEN_OP_RENEW] = renew, [TEN_OP_RELEASE] = release,      [TEN_OP_READ] = look_up,
        [TEN_OP_ASK] = ask,         [TEN_OP_HAND] = hand,   [TEN_OP_CHECKPOINT] = checkpoint};
    *effect = (ten_lease_effect){0};
    *result = (ten_result){0};
    TEN_INVARIANT(operations[op->kind]); /* else it is an instance's operation */
    result->outcome = operations[op->kind](row, op, context, result, effect);
    if (result->outcome != TEN_ERROR && !result->recovering)
        describe(row, context, result);
    TEN_INVARIANT(row->token <= TENURE_TOKEN_MAX);
}

/* In a quarantine a row that looks free may be held by somebody who has not renewed yet. */
enum ten_forget_outcome ten_lease_row_forget(const ten_lease_row *row, bool registered,
                                             const ten_lease_context *context, uint64_t *forgotten) {
    if (row->exists && ten_lease_row_is_held(row, context->now_ms))
        return TEN_FORGET_HELD;
    if (registered)
        return TEN_FORGET_REGISTERED;
    if (!row->exists)
        return TEN_FORGET_UNKNOWN;
    if (context->recovering_ms > 0)
        return TEN_FORGET_RECOVERING;
    *forgotten = ten_max_u64(*forgotten, row->token);
    return TEN_FORGET_DONE;
}

void ten_lease_row_expire(ten_lease_row *row, uint64_t wall_ms, ten_lease_effect *effect) {
    *effect = (ten_lease_effect){.row_changed = true, .lost = !row->barred, .life = {.kind = TEN_LIFE_ENDED}};
    note_former(row, TEN_REASON_EXPIRED, effect);
    row->holder[0] = '\0';
    row->session = 0;
    row->barred = false;
    row->ask = TEN_ASK_NOTHING;
    row->acquired_at_ms = wall_ms;
}

size_t ten_lease_row_changes(const ten_lease_row *row, const ten_op *op, const ten_lease_effect *effect,
                             ten_change changes[TEN_LEASE_CHANGES_MAX]) {
    size_t count = 0;
    ten_change change = {
        .namespace_name = op->namespace_name, .target = op->target, .actor = op->actor ? op->actor : ""};
    if (effect->lost || effect->released) {
        change.kind = effect->lost ? TENURE_EVENT_LOST : TENURE_EVENT_RELEASED;
        change.reason = effect->reason;
        change.instance = effect->former_holder;
        change.token = effect->former_token;
        change.at_ms = effect->lost_at_ms;
        changes[count++] = change;
    }
    if (effect->acquired || effect->asked) {
        change.kind = effect->acquired ? TENURE_EVENT_ACQUIRED : TENURE_EVENT_ASKED;
        change.reason = op->kind == TEN_OP_HAND ? op->reason : TEN_REASON_NONE;
        change.at_ms = 0;
        change.instance = row->holder;
        change.token = row->token;
        changes[count++] = change;
    }
    return count;
}

/* ---- the record */

struct lease_value {
    uint64_t ttl_ms, acquired_at_ms, session, barred, ask;
};

static const ten_value_field lease_fields[] = {
    {"ttl", TEN_VALUE_NUMBER, offsetof(struct lease_value, ttl_ms)},
    {"at", TEN_VALUE_NUMBER, offsetof(struct lease_value, acquired_at_ms)},
    {"session", TEN_VALUE_NUMBER, offsetof(struct lease_value, session)},
    {"barred", TEN_VALUE_NUMBER, offsetof(struct lease_value, barred)},
    {"ask", TEN_VALUE_NUMBER, offsetof(struct lease_value, ask)},
};

bool ten_lease_row_read(const ten_record *record, ten_lease_row *row) {
    struct lease_value value = {0};
    *row = (ten_lease_row){.exists = record->version != 0, .foreign = record->foreign};
    bool sound = true;
    if (row->exists)
        sound = ten_value_read(record->value, lease_fields, TEN_COUNT(lease_fields), &value, NULL);
    if (row->exists || row->foreign)
        ten_copy_text(row->holder, sizeof row->holder, record->name);
    row->token = row->exists ? record->number : 0;
    if (record->foreign)
        return sound && row->token <= TENURE_TOKEN_MAX;
    row->ttl_ms = value.ttl_ms;
    row->acquired_at_ms = value.acquired_at_ms;
    row->session = value.session;
    row->barred = value.barred != 0;
    row->ask = (enum ten_ask)value.ask;
    return sound && row->token <= TENURE_TOKEN_MAX;
}

void ten_lease_row_write(ten_buf *out, const char *old, const ten_lease_row *row) {
    struct lease_value value = {row->ttl_ms, row->acquired_at_ms, row->session, row->barred, (uint64_t)row->ask};
    ten_value_write(out, old, lease_fields, TEN_COUNT(lease_fields), &value);
}

bool ten_lease_row_is_same(const ten_lease_row *row, const ten_lease_row *other) {
    return row->exists == other->exists && row->token == other->token && row->ttl_ms == other->ttl_ms &&
           row->acquired_at_ms == other->acquired_at_ms && row->session == other->session &&
           row->barred == other->barred && row->ask == other->ask && strcmp(row->holder, other->holder) == 0;
}

static const ten_value_field checkpoint_fields[] = {{"text", TEN_VALUE_TEXT, 0}};

void ten_lease_row_write_checkpoint(ten_buf *value, const char *text) {
    ten_value_write(value, NULL, checkpoint_fields, TEN_COUNT(checkpoint_fields), &text);
}

const char *ten_lease_row_read_checkpoint(const ten_record *record, ten_buf *texts) {
    const char *text;
    bool sound = ten_value_read(record->value, checkpoint_fields, TEN_COUNT(checkpoint_fields), &text, texts);
    return sound ? text : NULL;
}
