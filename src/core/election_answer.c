/*
 * The election: what the store's answers and the entries of its feed mean. Called by election.c. See election.h;
 * requests are in election.c.
 */
#include <string.h>

#include "base/hash.h"
#include "core/election_state.h"

#define RELIST_MS 250u /* after another candidate has come, the line is read again after this and up to as much more */

/* ---- terms */

static void begin_term(ten_election *election, uint64_t now_ms) {
    ten_election_slot *slot = ten_election_slot_of(election, ten_election_first(election));
    election->working = true;
    election->began_ms = now_ms;
    election->keep_token = slot->holding.token;
    election->keep_until_ms = now_ms + election->config.at_least_ms;
    bool expired = !slot->end_reason && slot->heard_of_leader; /* nobody has released it */
    ten_election_tell_term(election, TENURE_EVENT_ACQUIRED, expired ? TEN_REASON_EXPIRED : slot->end_reason);
    slot->end_reason = TEN_REASON_NONE;
}

static void plan_renewal(ten_election *election) {
    uint64_t interval_ms = election->config.timing.renew_ms;
    election->renew_ms = election->sent_ms + interval_ms - ten_jitter(&election->random, interval_ms / 10 + 1);
}

/* The shortest TTL of the slots of the term. */
static uint64_t granted_ttl_ms(const ten_election *election) {
    uint64_t ttl_ms = UINT64_MAX;
    TEN_ELECTION_EACH(election, slot)
        ttl_ms = ten_min_u64(ttl_ms, slot->holding.ttl_ms);
    return ttl_ms;
}

static void note_granted(ten_election *election, uint64_t now_ms) {
    plan_renewal(election);
    ten_election_move(election, TEN_ELECTION_LEADING);
    /* at_least_ms counts from now, the lease from when its request was sent. */
    uint64_t covered_ms = ten_sub_saturating(granted_ttl_ms(election), now_ms - election->sent_ms);
    election->unkept = election->config.at_least_ms > covered_ms;
    if (election->unkept)
        election->renew_ms = now_ms;
    if (!election->campaigns || election->drained) /* since before the answer arrived */
        ten_election_step_down(election, election->campaigns ? TEN_REASON_DRAIN : TEN_REASON_SHUTDOWN, 0);
    else if (!election->unkept)
        begin_term(election, now_ms);
}

/* Some of the slots were granted, but not all: nothing is held while it waits for the rest. */
static void undo_granted(ten_election *election) {
    TEN_ELECTION_EACH(election, slot)
        if (slot->holding.state == TEN_HOLDING_HELD)
            ten_holding_close(&slot->holding);
}

static void note_renewed(ten_election *election, uint64_t now_ms, enum ten_ask ask) {
    plan_renewal(election);
    if (!election->unkept)
        ten_election_tell_term(election, TENURE_EVENT_RENEWED, TEN_REASON_NONE);
    else if (election->state == TEN_ELECTION_LEADING)
        begin_term(election, now_ms);
    election->unkept = false;
    if (ask == TEN_ASK_RESIGN)
        ten_election_resign(election, TEN_REASON_RESIGNED, election->config.timing.ttl_ms);
}

/* ---- what is held by others */

/* Another instance has the slot for that long. */
static void note_held(ten_election *election, ten_election_slot *slot, uint64_t now_ms, const ten_result *result) {
    slot->heard_of_leader |= result->holder != NULL;
    slot->holder = result->holder ? ten_hash_text(result->holder) : 0;
    slot->try_ms = ten_election_turn_ms(election, now_ms + ten_max_u64(result->remaining_ms, 1), false);
}

/* Whether there is nothing left to try now: with several slots, one that is held says nothing. */
static bool all_are_held(const ten_election *election, uint64_t now_ms) {
    for (uint32_t i = 0; i < ten_election_count(election); i++)
        if (ten_election_slot_of(election, i)->try_ms <= now_ms)
            return election->config.wants == TEN_ELECTION_ALL;
    return true;
}

static void tell_held(ten_election *election, uint64_t now_ms, const ten_result *result) {
    election->waits = true;
    if (!all_are_held(election, now_ms))
        return;
    tenure_event event = {.kind = result->recovering ? TENURE_EVENT_RECOVERING : TENURE_EVENT_ACQUIRE_FAILED,
                          .error = TENURE_E_HELD,
                          .token = result->token,
                          .remaining_ms = result->remaining_ms};
    ten_election_tell(election, event, result->holder);
}

static void refuse_for_good(ten_election *election, int error) {
    election->refused = true;
    ten_election_tell(election, (tenure_event){.kind = TENURE_EVENT_REFUSED, .error = error}, NULL);
}

static void note_refused(ten_election *election, ten_election_slot *slot, uint64_t now_ms, int error,
                         const ten_result *result) {
    if (ten_result_is_withheld(result)) { /* another slot, which is waited for, was refused */
        slot->holder = 0;
        slot->try_ms = now_ms;
        return;
    }
    if (error == TENURE_E_HELD) {
        note_held(election, slot, now_ms, result);
        tell_held(election, now_ms, result);
        return;
    }
    slot->try_ms = now_ms + election->config.timing.ttl_ms;
    if (error == TENURE_E_GONE || error == TENURE_E_TOKEN)
        refuse_for_good(election, error);
    else
        ten_election_tell(
            election,
            (tenure_event){.kind = TENURE_EVENT_ACQUIRE_FAILED, .error = error, .remaining_ms = result->remaining_ms},
            NULL);
}

/* A slot was read, before the first campaign. */
static void note_read(ten_election *election, ten_election_slot *slot, uint64_t now_ms, const ten_result *result) {
    if (result->outcome != TEN_OK)
        return; /* the campaign tells why */
    if (result->holder && strcmp(result->holder, election->config.instance) != 0)
        note_held(election, slot, now_ms, result);
    else
        slot->try_ms = now_ms;
}

/* ---- a lease that was forced */

/* It cannot be renewed, and no other instance enters before it ends or is released: what is believed stands, and the
 * work has until then to end in the orderly way. Others go first after that. */
static void bar(ten_election *election, ten_election_slot *barred, uint64_t now_ms) {
    barred->barred = true;
    if (election->state == TEN_ELECTION_LEADING && election->working)
        ten_election_step_down(election, TEN_REASON_FORCED, ten_election_forced_pause_ms(election));
    else if (election->state == TEN_ELECTION_LEADING)
        ten_election_demote(election, barred, now_ms, TEN_REASON_FORCED);
    election->renew_ms = UINT64_MAX;
}

static void note_released(ten_election *election, const ten_election_slot *slot, const ten_meaning *meaning,
                          const ten_result *result) {
    if (slot != ten_election_slot_at(election) || slot->barred)
        return; /* one event for all that belong together; the loss of a forced one was reported */
    if (meaning->outcome == TEN_HOLDING_KEPT)
        ten_election_tell(election,
                          (tenure_event){.kind = TENURE_EVENT_KEPT,
                                         .token = slot->holding.token,
                                         .reason = ten_reason_name(meaning->reason),
                                         .remaining_ms = result->remaining_ms},
                          NULL);
    else if (meaning->outcome == TEN_HOLDING_UNKEPT)
        ten_election_tell_term(election, TENURE_EVENT_LOST, meaning->reason);
    else if (meaning->reason != TEN_REASON_EXPIRED || result->outcome == TEN_OK) /* it was reported when it expired */
        ten_election_tell_term(election, TENURE_EVENT_RELEASED, meaning->reason);
}

/* ---- this candidate among the others */

static void note_announced(ten_election *election, uint64_t now_ms, const ten_result *result) {
    if (result->outcome == TEN_OK)
        election->drained = result->ask == TEN_ASK_DRAIN && !election->config.is_lock;
    if (result->outcome == TEN_OK && !election->turns.listed)
        election->turns.list_ms = ten_min_u64(election->turns.list_ms, now_ms);
    if (result->outcome != TEN_ERROR)
        return;
    election->announced = false;
    election->announce_refused = result->error == TENURE_E_TTL;
    if (election->announce_refused)
        ten_election_tell(
            election,
            (tenure_event){.kind = TENURE_EVENT_UNANNOUNCED, .error = TENURE_E_TTL, .remaining_ms = result->ttl_ms},
            NULL);
    if (result->error == TENURE_E_GONE)
        refuse_for_good(election, result->error);
}

/* ---- answers */

/* What came of the operations on the slots of one request. */
struct outcomes {
    uint32_t granted;
    uint32_t renewed;
    ten_election_slot *barred;
    ten_election_slot *lost; /* the first of them */
    enum ten_reason lost_reason;
    const ten_result *lost_by;
    enum ten_ask ask;
    const ten_result *read; /* of the slot that it waits for: the one that is free first; with `all`, last */
};

static void take_slot(ten_election *election, ten_election_slot *slot, uint64_t now_ms, const ten_result *result,
                      struct outcomes *outcomes) {
    const ten_timing *timing = &election->config.timing;
    ten_holding *holding = &slot->holding;
    ten_meaning meaning = ten_holding_answer(holding, timing, election->sent_ms, now_ms, result);
    switch (meaning.outcome) {
    case TEN_HOLDING_GRANTED:
        slot->barred = false;
        outcomes->granted++;
        break;
    case TEN_HOLDING_RENEWED:
        outcomes->renewed++;
        outcomes->ask = result->ask ? result->ask : outcomes->ask;
        break;
    case TEN_HOLDING_LATE: /* a campaign is tried again, a renewed lease expires */
        (void)ten_election_expire(election, now_ms);
        break;
    case TEN_HOLDING_SPENT:
        /* A store that lost data may grant more tokens below those that were seen: pause between the tries. */
        slot->try_ms = now_ms + (holding->token < holding->known_token ? timing->ttl_ms / 4 : 0);
        break;
    case TEN_HOLDING_REFUSED:
        note_refused(election, slot, now_ms, meaning.error, result);
        break;
    case TEN_HOLDING_BARRED:
        outcomes->barred = slot;
        break;
    case TEN_HOLDING_LOST:
        if (outcomes->lost)
            break;
        outcomes->lost = slot;
        outcomes->lost_reason = meaning.reason;
        outcomes->lost_by = result;
        break;
    case TEN_HOLDING_RELEASED:
    case TEN_HOLDING_KEPT:
    case TEN_HOLDING_UNKEPT:
        note_released(election, slot, &meaning, result);
        break;
    case TEN_HOLDING_HANDED: /* only fleets hand over */
    case TEN_HOLDING_IGNORED:
        break;
    }
}

static ten_election_slot *find_slot(const ten_election *election, const char *target) {
    for (uint32_t i = 0; i < ten_election_count(election); i++)
        if (strcmp(ten_election_slot_of(election, i)->target, target) == 0)
            return ten_election_slot_of(election, i);
    return NULL;
}

static const ten_op *ops_of(const ten_election *election) {
    return election->config.slots ? election->config.ops : election->own_ops;
}

static void take_result(ten_election *election, const ten_op *op, uint64_t now_ms, const ten_result *result,
                        struct outcomes *outcomes) {
    ten_election_slot *slot = op->target ? find_slot(election, op->target) : NULL;
    if (op->kind == TEN_OP_ANNOUNCE) {
        note_announced(election, now_ms, result);
    } else if (op->kind == TEN_OP_LEAVE) {
        election->announced = false;
    } else if (op->kind == TEN_OP_READ) {
        note_read(election, slot, now_ms, result);
        bool all = election->config.wants == TEN_ELECTION_ALL;
        const ten_result *read = outcomes->read;
        if (!read || (result->remaining_ms > read->remaining_ms) == all)
            outcomes->read = result;
    } else {
        take_slot(election, slot, now_ms, result, outcomes);
    }
}

static void take_answer(ten_election *election, uint64_t now_ms, const ten_result *results) {
    struct outcomes outcomes = {0};
    uint32_t wanted = ten_election_end(election) - ten_election_first(election);
    election->unsure = false;
    for (size_t i = 0; i < election->op_count; i++)
        take_result(election, &ops_of(election)[i], now_ms, &results[i], &outcomes);
    if (outcomes.lost && ten_election_leads(election)) {
        ten_election_demote(election, outcomes.lost, now_ms, outcomes.lost_reason);
        if (outcomes.lost_by->holder)
            note_held(election, outcomes.lost, now_ms, outcomes.lost_by);
    } else if (outcomes.barred && ten_election_leads(election))
        bar(election, outcomes.barred, now_ms);
    if (outcomes.granted == wanted)
        note_granted(election, now_ms);
    else if (outcomes.granted)
        undo_granted(election);
    if (outcomes.renewed == wanted && ten_election_leads(election))
        note_renewed(election, now_ms, outcomes.ask);
    if (election->drained && election->state == TEN_ELECTION_LEADING)
        ten_election_step_down(election, TEN_REASON_DRAIN, 0);
    if (outcomes.read) {
        election->looked = true;
        if (outcomes.read->holder)
            tell_held(election, now_ms, outcomes.read);
    }
}

/* No answer: what was sent may have taken effect or not. */
static void take_silence(ten_election *election, uint64_t now_ms, int error) {
    bool doubted = false;
    for (size_t i = 0; i < election->op_count; i++) {
        const ten_op *op = &ops_of(election)[i];
        election->unsure |= op->kind == TEN_OP_ACQUIRE;
        if (op->kind == TEN_OP_ANNOUNCE)
            election->beat_ms = now_ms;
        else if (op->target && op->kind != TEN_OP_READ)
            doubted |= ten_holding_unanswered(&find_slot(election, op->target)->holding);
    }
    if (doubted)
        ten_election_tell(election,
                          (tenure_event){.kind = TENURE_EVENT_RENEW_FAILED,
                                         .token = ten_election_slot_at(election)->holding.token,
                                         .error = error},
                          NULL);
}

void ten_election_answer(ten_election *election, uint64_t now_ms, int error, const ten_result *results) {
    (void)ten_election_expire(election, now_ms);
    if (error == TENURE_OK)
        take_answer(election, now_ms, results);
    else
        take_silence(election, now_ms, error);
    election->op_count = 0;
    election->answered |= error == TENURE_OK;
    /* The store cannot have a role of that name, or not under these settings: it will not be otherwise later. Nor will
     * it accept credentials that it never accepted; those that it accepted before may have been replaced. */
    bool is_final = error == TENURE_E_INVALID || (error == TENURE_E_DENIED && !election->answered);
    if (is_final && !ten_election_leads(election) && !election->refused) {
        election->announced &= election->answered; /* there is nothing to leave */
        refuse_for_good(election, error);
    }
}

/* ---- the feed */

/* The notice after which the feed was read: candidates count their turns from that. One that came long ago belongs to
 * an earlier reading. */
static uint64_t noticed_ms(const ten_election *election, uint64_t now_ms) {
    uint64_t at_ms = election->turns.noticed_ms;
    return at_ms && now_ms - at_ms <= 2 * ten_turns_delay_ms(&election->turns, SIZE_MAX) ? at_ms : now_ms;
}

static void note_free(ten_election *election, ten_election_slot *slot, uint64_t now_ms) {
    uint64_t turn_ms = ten_election_turn_ms(election, noticed_ms(election, now_ms), true);
    slot->try_ms = ten_min_u64(slot->try_ms, ten_max_u64(turn_ms, now_ms));
}

static void note_other(ten_election *election, ten_election_slot *slot, uint64_t now_ms, const ten_change *change) {
    bool held = ten_holding_is_held(&slot->holding);
    if (ten_holding_hear(&slot->holding, change->token, false) == TEN_HOLDING_NEWER && held) {
        ten_holding_lose(&slot->holding);
        if (ten_election_leads(election))
            ten_election_demote(election, slot, now_ms, TEN_REASON_TAKEN);
    }
    slot->holder = ten_hash_text(change->instance);
    /* The feed does not say for how long. A lease of a candidate in the line has its TTL; another one may be shorter
     * than what this candidate would wait: it is read. */
    uint64_t ttl_ms = ten_turns_ttl_ms(&election->turns, slot->holder);
    slot->try_ms = ten_election_turn_ms(election, now_ms + ttl_ms, false);
    if (ttl_ms == 0)
        election->looked = false;
}

/* Of a lease that this instance holds. */
static void note_own(ten_election *election, ten_election_slot *slot, uint64_t now_ms, const ten_change *change) {
    if (change->kind == TENURE_EVENT_ASKED) {
        election->renew_ms = now_ms; /* the answer says what is asked */
    } else if (change->kind == TENURE_EVENT_LOST && change->reason == TEN_REASON_FORCED) {
        bar(election, slot, now_ms);
    } else if (change->kind == TENURE_EVENT_RELEASED && change->reason == TEN_REASON_FORCED) { /* at once */
        ten_holding_lose(&slot->holding);
        if (ten_election_leads(election))
            ten_election_demote(election, slot, now_ms, TEN_REASON_FORCED);
        /* Others go first: they get the role when the lease has ended by the store's clock. */
        slot->try_ms = now_ms + ten_election_forced_pause_ms(election);
    }
}

static void note_instance(ten_election *election, uint64_t now_ms, const ten_change *change) {
    bool own = strcmp(change->instance, election->config.instance) == 0;
    if (change->kind == TENURE_EVENT_LEFT)
        ten_turns_left(&election->turns, change->instance);
    else if (own && change->kind == TENURE_EVENT_INSTANCE_CHANGED)
        election->beat_ms = now_ms; /* the answer says what is asked */
    /* One that comes to wait for a lock stands behind. A candidate can have a higher priority. */
    else if (election->config.announces == TEN_ELECTION_ALWAYS)
        election->turns.list_ms =
            ten_min_u64(election->turns.list_ms, now_ms + RELIST_MS + ten_jitter(&election->random, RELIST_MS));
}

void ten_election_change(ten_election *election, uint64_t now_ms, const ten_change *change) {
    if (change->kind == TENURE_EVENT_RECOVERING) {
        ten_election_follow(election, now_ms);
        return;
    }
    if (change->target[0] == '\0') {
        note_instance(election, now_ms, change);
        return;
    }
    ten_election_slot *slot = find_slot(election, change->target);
    if (!slot)
        return;
    bool ended = change->kind == TENURE_EVENT_RELEASED || change->kind == TENURE_EVENT_LOST;
    if (ended) {
        slot->end_reason = change->reason;
        ten_turns_served(&election->turns, change->instance);
    }
    if (change->token < slot->holding.known_token)
        return;
    if (ended)
        slot->holder = 0;
    bool mine = strcmp(change->instance, election->config.instance) == 0;
    bool held = ten_holding_is_held(&slot->holding);
    if (change->kind == TENURE_EVENT_ACQUIRED && !mine) {
        note_other(election, slot, now_ms, change);
    } else if (change->kind == TENURE_EVENT_RELEASED && !held) {
        if (!mine) /* after its own release, try_ms is set already */
            note_free(election, slot, now_ms);
    } else if (held && mine && change->token == slot->holding.token) {
        note_own(election, slot, now_ms, change);
    }
}

void ten_election_follow(ten_election *election, uint64_t now_ms) {
    if (ten_election_leads(election)) {
        election->renew_ms = ten_min_u64(election->renew_ms, now_ms);
        return;
    }
    if (election->state != TEN_ELECTION_FOLLOWING)
        return;
    election->looked = ten_election_count(election) == 1;
    election->turns.list_ms = ten_min_u64(election->turns.list_ms, now_ms);
    uint64_t turn_ms = ten_election_turn_ms(election, now_ms, false);
    for (uint32_t i = 0; i < ten_election_count(election); i++) {
        ten_election_slot *slot = ten_election_slot_of(election, i);
        slot->try_ms = ten_min_u64(slot->try_ms, turn_ms);
    }
}
