/*
 * One operation on a lease: which records it needs, what the rules make of it (rules/lease_row.h), and what the store
 * has to check and write for that. See apply.h.
 */
#include <string.h>

#include "rules/target_row.h"
#include "store/apply.h"

/* The records on which an operation rests. NULL: not needed. */
struct sight {
    ten_known *lease;
    ten_known *session;   /* of the instance to whose session the lease is attached */
    ten_known *own;       /* of the holder that the operation names */
    ten_known *successor; /* hand */
    ten_known *target;    /* registration */
    ten_known *checkpoint;
    ten_lease_row before;
    bool own_end_lives; /* the lease has an end of its own that has not come */
    bool session_lives;
};

static bool wants_session(const ten_op *op) {
    return (op->flags & TEN_OP_SESSION) && op->holder && (op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_RENEW);
}

static bool look_at(ten_run *run, ten_known **known, enum ten_kind kind, const char *id) {
    *known = ten_apply_get(run, kind, id);
    return ten_apply_knows(run, *known);
}

/* No holder believes in a lease that is only kept, so it makes no other client wait. */
static uint64_t recovering_ms(const ten_run *run, const ten_op *op) {
    return ten_apply_recovering_ms(run, op->flags & TEN_OP_KEEP ? 0 : op->ttl_ms);
}

/* In a quarantine a renewal can put a lease back; a late one of a process that was declared dead does not. */
static bool may_put_back(const ten_run *run, const ten_op *op) {
    return op->kind == TEN_OP_RENEW && op->holder && recovering_ms(run, op) > 0;
}

/* False: something has to be read first. */
static bool look(ten_run *run, const ten_op *op, struct sight *sight) {
    bool known = look_at(run, &sight->lease, TEN_KIND_LEASE, op->target);
    bool lease_known = known;
    if (op->kind == TEN_OP_ACQUIRE || wants_session(op) || may_put_back(run, op))
        known &= look_at(run, &sight->own, TEN_KIND_INSTANCE, op->holder);
    if (op->kind == TEN_OP_HAND)
        known &= look_at(run, &sight->successor, TEN_KIND_INSTANCE, op->successor);
    bool is_new = lease_known && sight->lease->record.version == 0;
    if (op->kind == TEN_OP_READ || ((op->flags & TEN_OP_REQUIRE_TARGET) && (is_new || !lease_known)))
        known &= look_at(run, &sight->target, TEN_KIND_TARGET, op->target);
    if ((op->flags & TEN_OP_WITH_CHECKPOINT) || op->kind == TEN_OP_CHECKPOINT)
        known &= look_at(run, &sight->checkpoint, TEN_KIND_CHECKPOINT, op->target);
    if (run->error || !lease_known)
        return false;
    if (!ten_lease_row_read(&sight->lease->record, &sight->before)) {
        run->error = ten_apply_damaged(run->store, sight->lease);
        return false;
    }
    if (sight->before.session != 0)
        known &= look_at(run, &sight->session, TEN_KIND_INSTANCE, sight->before.holder);
    return known && !run->error;
}

/* All of it is as it is in this call; *ret_changed: somebody before in this round changes it. */
static bool is_fresh(ten_run *run, const struct sight *sight, bool *ret_changed) {
    ten_known *const all[] = {sight->lease,  sight->session,    sight->own, sight->successor,
                              sight->target, sight->checkpoint, run->space, run->quarantine};
    bool fresh = true;
    *ret_changed = false;
    for (size_t i = 0; i < TEN_COUNT(all); i++) {
        if (!all[i])
            continue;
        fresh &= ten_apply_knows_fresh(run, all[i]);
        *ret_changed |= ten_apply_is_changed(run, all[i]);
    }
    return fresh;
}

/* What writes nothing. */
static int rest_on_reads(ten_run *run, const struct sight *sight) {
    bool changed;
    return is_fresh(run, sight, &changed) && !changed ? TEN_VERDICT_DONE : TEN_VERDICT_WAITS;
}

/* When the lease ends or has ended. Attached, it lives as long as the session, or until an end of its own that it had
 * before. */
static int set_end(ten_run *run, struct sight *sight) {
    ten_lease_row *row = &sight->before;
    uint64_t own_ms = ten_apply_end_ms(run, sight->lease);
    sight->own_end_lives = sight->lease->record.alive;
    row->ends_ms = own_ms;
    if (!sight->session)
        return TENURE_OK;
    ten_instance_row instance;
    const char *metadata;
    int r = ten_apply_instance_row(run, sight->session, &instance, &metadata);
    uint64_t session_ms = ten_instance_row_session_end_ms(&instance, row->session);
    sight->session_lives = session_ms > TEN_APPLY_NOW_MS;
    row->ends_ms = sight->own_end_lives ? ten_max_u64(own_ms, session_ms) : session_ms;
    if (!sight->session_lives)
        row->session = 0;
    return r;
}

static ten_lease_context context_of(ten_run *run, const ten_op *op, const struct sight *sight) {
    ten_lease_context context = {.now_ms = TEN_APPLY_NOW_MS,
                                 .wall_ms = run->wall_ms,
                                 .token_floor = run->row.token_floor,
                                 .first_token = run->store->backend->ops->tokens_from_clock ? run->wall_ms : 0,
                                 .forgotten = run->row.forgotten,
                                 .recovering_ms = recovering_ms(run, op)};
    ten_instance_row row;
    const char *metadata;
    if (sight->successor && ten_apply_instance_row(run, sight->successor, &row, &metadata) == TENURE_OK)
        context.successor_ms = ten_instance_row_ready_ms(&row, TEN_APPLY_NOW_MS);
    if (wants_session(op) && ten_apply_instance_row(run, sight->own, &row, &metadata) == TENURE_OK) {
        context.session = ten_instance_row_session(&row, TEN_APPLY_NOW_MS);
        /* Seen in a former call: the check of the record says that it lives, and a TTL is the most that it has left. */
        if (context.session.id && !ten_record_cache_is_fresh(&run->store->cache, sight->own))
            context.session.ends_ms = TEN_APPLY_NOW_MS + row.ttl_ms;
    }
    return context;
}

/* A lease with an end of its own may be attached, if the session ends no earlier. */
static bool attaches(const ten_op *op, const struct sight *sight) {
    return wants_session(op) && sight->before.holder[0] != '\0' && sight->before.session == 0 &&
           strcmp(sight->before.holder, op->holder) == 0;
}

/* An answer that has the time left, or depends on it, needs records that were read in this call. */
static bool needs_times(const ten_op *op, const struct sight *sight) {
    bool takes = op->kind == TEN_OP_ACQUIRE && sight->before.holder[0] != '\0';
    bool forces = op->kind == TEN_OP_RELEASE && (op->flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW));
    return attaches(op, sight) || takes || forces || op->kind == TEN_OP_ASK || op->kind == TEN_OP_HAND;
}

/* ---- what the store checks and writes ------------------------------------------------------------------- */

static enum ten_check_life life_of(const struct sight *sight) {
    if (sight->lease->record.foreign)
        return TEN_CHECK_FOREIGN;
    if (sight->own_end_lives)
        return TEN_CHECK_ALIVE;
    return sight->session_lives || sight->lease->record.version == 0 ? TEN_CHECK_EITHER : TEN_CHECK_DEAD;
}

/* As it was seen when that was decided. */
static void check_as_seen(ten_intent *intent, ten_known *known) {
    ten_intent_check(intent, known, known->record.alive ? TEN_CHECK_ALIVE : TEN_CHECK_DEAD);
}

static void add_checks(ten_run *run, const ten_op *op, const struct sight *sight, const ten_lease_row *row,
                       const ten_lease_effect *effect, ten_intent *intent) {
    ten_intent_check(intent, sight->lease, life_of(sight));
    if (sight->session)
        check_as_seen(intent, sight->session);
    /* A tombstone refuses it; a session must live. */
    if (sight->own && sight->own != sight->session)
        ten_intent_check(intent, sight->own, row->session ? TEN_CHECK_ALIVE : TEN_CHECK_EITHER);
    if (sight->successor && sight->successor != sight->session)
        check_as_seen(intent, sight->successor);
    if (effect->acquired || effect->checkpointed || op->kind == TEN_OP_ACQUIRE) {
        check_as_seen(intent, run->quarantine);
        intent->checks[intent->check_count - 1].any = true;
    }
    if (sight->lease->record.version == 0)
        ten_intent_check(intent, run->space, TEN_CHECK_EITHER); /* forgetting raises it */
    /* Neither a late double nor a holder that read before the last write works from an old one. */
    if (sight->checkpoint)
        ten_intent_check(intent, sight->checkpoint, TEN_CHECK_EITHER);
}

static int put_lease(ten_run *run, const struct sight *sight, const ten_lease_row *row, ten_life life,
                     ten_intent *intent) {
    const ten_record *record = &sight->lease->record;
    ten_buf *value = &run->store->value;
    ten_buf_clear(value);
    ten_lease_row_write(value, record->version ? record->value : NULL, row);
    life.session = row->session;
    return ten_intent_put(run, intent, sight->lease, value, row->holder, row->token, life);
}

static int put_checkpoint(ten_run *run, const ten_op *op, const struct sight *sight, ten_intent *intent) {
    ten_buf *value = &run->store->value;
    if (op->checkpoint[0] == '\0') {
        if (sight->checkpoint->record.version)
            ten_intent_remove(intent, sight->checkpoint);
        return TENURE_OK;
    }
    ten_buf_clear(value);
    ten_lease_row_write_checkpoint(value, op->checkpoint);
    return ten_intent_put(run, intent, sight->checkpoint, value, "", op->token, (ten_life){.kind = TEN_LIFE_ENDLESS});
}

static int make_plan(ten_run *run, const ten_op *op, const struct sight *sight, const ten_lease_row *row,
                     const ten_lease_effect *effect, ten_intent *intent) {
    ten_change changes[TEN_LEASE_CHANGES_MAX];
    int r = TENURE_OK;
    add_checks(run, op, sight, row, effect, intent);
    if (effect->row_changed)
        r = put_lease(run, sight, row, effect->life, intent);
    if (r == TENURE_OK && effect->touched_session)
        ten_intent_raise(intent, sight->session);
    if (r == TENURE_OK && effect->checkpointed)
        r = put_checkpoint(run, op, sight, intent);
    size_t count = ten_lease_row_changes(row, op, effect, changes);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = ten_intent_tell(run, intent, &changes[i]);
    return r;
}

/* Everything stays as it is, but for a later end: that is what nearly all renewals come to. An earlier end is written:
 * it has no more left than when it was last seen. So is what returns a checkpoint, for a touch does not check that. */
static bool is_touch(const struct sight *sight, const ten_lease_row *row, const ten_lease_effect *effect) {
    const ten_life *life = &effect->life;
    bool is_later = sight->lease->record.left_ms <= life->ttl_ms;
    return effect->row_changed && !effect->acquired && life->kind == TEN_LIFE_LATEST && life->ttl_ms > 0 && is_later &&
           !life->with.id && !life->only_keeps && !sight->checkpoint && sight->own_end_lives &&
           ten_lease_row_is_same(&sight->before, row);
}

/* ---- results -------------------------------------------------------------------------------------------- */

/* What a result points to lives as long as it does. */
static int keep_holder(ten_run *run, const ten_op *op, ten_result *result) {
    if (!result->holder)
        return TENURE_OK;
    result->holder = op->holder && strcmp(op->holder, result->holder) == 0
                         ? op->holder
                         : ten_arena_text(&run->store->results, result->holder);
    return result->holder ? TENURE_OK : ten_apply_no_memory(run->store);
}

static int tell_beside(ten_run *run, const ten_op *op, const struct sight *sight, ten_result *result) {
    ten_record_store *store = run->store;
    ten_target_row target = {0};
    if (sight->target && !ten_target_row_read(&sight->target->record, &target, &store->decoded))
        return ten_apply_damaged(store, sight->target);
    result->registered = target.registered;
    result->paused = target.target.paused;
    bool has = sight->checkpoint && sight->checkpoint->record.version != 0;
    if (!has || !(op->flags & TEN_OP_WITH_CHECKPOINT) || result->outcome != TEN_OK)
        return TENURE_OK;
    const char *text = ten_lease_row_read_checkpoint(&sight->checkpoint->record, &store->decoded);
    result->checkpoint = text ? ten_arena_text(&store->results, text) : NULL;
    result->checkpoint_token = sight->checkpoint->record.number;
    return result->checkpoint ? TENURE_OK : ten_apply_damaged(store, sight->checkpoint);
}

/* ---- the operation -------------------------------------------------------------------------------------- */

/* It is refused before the rules are asked: DONE or WAITS; else PLANNED. */
static int refuse(ten_run *run, const ten_op *op, const struct sight *sight, ten_result *result) {
    ten_instance_row row;
    const char *metadata;
    const ten_record *lease = &sight->lease->record;
    bool known = lease->version != 0 || lease->foreign || (sight->target && sight->target->record.version != 0);
    if ((op->flags & TEN_OP_REQUIRE_TARGET) && !known) {
        result->outcome = TEN_UNKNOWN;
        return rest_on_reads(run, sight);
    }
    if (op->kind != TEN_OP_ACQUIRE && !may_put_back(run, op))
        return TEN_VERDICT_PLANNED;
    int r = ten_apply_instance_row(run, sight->own, &row, &metadata);
    if (r == TENURE_OK && ten_instance_row_is_tombstone(&row, TEN_APPLY_NOW_MS)) {
        result->error = op->kind == TEN_OP_ACQUIRE ? TENURE_E_GONE : TENURE_OK;
        result->outcome = op->kind == TEN_OP_ACQUIRE ? TEN_ERROR : TEN_LOST;
        return rest_on_reads(run, sight);
    }
    return r < 0 ? r : TEN_VERDICT_PLANNED;
}

/* The lease was attached to a session that is over. The first client that finds this ends the session's record, in a
 * change of its own: should the clock be set back, the session must not come back with what others hold by then. */
static bool is_to_be_buried(const ten_op *op, const struct sight *sight) {
    return op->kind == TEN_OP_ACQUIRE && sight->session && !sight->session_lives && !sight->own_end_lives &&
           sight->session->record.version != 0 && !sight->session->record.alive &&
           sight->session->record.name[0] != '\0';
}

static int bury_session(ten_run *run, const struct sight *sight) {
    ten_intent intent = {0};
    size_t place;
    if (!ten_apply_knows_fresh(run, sight->session))
        return TEN_VERDICT_WAITS;
    int r = ten_apply_bury(run, sight->session, &intent);
    if (r == TENURE_OK && ten_apply_may(run, &intent))
        r = ten_apply_add(run, &intent, false, &place);
    return r < 0 ? r : TEN_VERDICT_WAITS;
}

int ten_apply_to_lease(ten_run *run, const ten_op *op, bool withheld, ten_result *result, ten_intent *intent) {
    struct sight sight = {0};
    ten_lease_effect effect;
    bool changed;
    *result = (ten_result){0};
    *intent = (ten_intent){0};
    if (!look(run, op, &sight) || !run->entered)
        return run->error ? run->error : TEN_VERDICT_WAITS;
    int r = set_end(run, &sight);
    if (r == TENURE_OK && needs_times(op, &sight) && !is_fresh(run, &sight, &changed))
        return run->error ? run->error : TEN_VERDICT_WAITS;
    if (r == TENURE_OK && attaches(op, &sight) && ten_apply_is_changed(run, sight.own))
        return TEN_VERDICT_WAITS; /* for the heartbeat before it */
    r = r < 0 ? r : refuse(run, op, &sight, result);
    if (r != TEN_VERDICT_PLANNED)
        return r;
    if (is_to_be_buried(op, &sight))
        return bury_session(run, &sight);
    ten_lease_context context = context_of(run, op, &sight);
    ten_lease_row row = sight.before;
    context.withheld = withheld;
    ten_lease_row_apply(&row, op, &context, result, &effect);
    if (effect.proves_loss && rest_on_reads(run, &sight) == TEN_VERDICT_DONE)
        return ten_apply_prove_loss(run, sight.lease, op->flags & TEN_OP_KEEP ? 0 : op->ttl_ms);
    r = keep_holder(run, op, result);
    if (r == TENURE_OK)
        r = tell_beside(run, op, &sight, result);
    if (r < 0)
        return r;
    if (!effect.row_changed && !effect.checkpointed)
        return rest_on_reads(run, &sight);
    if (is_touch(&sight, &row, &effect)) {
        intent->touched = sight.lease;
        intent->touch_ms = effect.life.ttl_ms;
        if (sight.own) /* a heartbeat before it in this round may begin a session */
            ten_intent_check(intent, sight.own, TEN_CHECK_EITHER);
        return TEN_VERDICT_PLANNED;
    }
    r = make_plan(run, op, &sight, &row, &effect, intent);
    return r < 0 ? r : TEN_VERDICT_PLANNED;
}
