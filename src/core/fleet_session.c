/*
 * The fleet: leases that hang on this instance's session (see store.h). A heartbeat renews all of them. This file
 * decides when its answer may be believed for which of them, what has to be read or renewed one by one before, and when
 * a fleet uses sessions at all. Called by the fleet's other files.
 *
 *  - A lease is sure if it was granted or read after the last heartbeat that reported another version. If a heartbeat
 *    reports the session and the version that are known, no lease of the session was touched since: those that
 *    are sure are held for longer, counted from the sending of that heartbeat.
 *  - If it reports another version, all are unsure, and keep their deadlines. They are read. What is as it should be is
 *    believed from the sending of the heartbeat, because it was read after that. The others are renewed one by one,
 *    which says whether they are lost, and puts back what a store has lost.
 *  - Some are read with each heartbeat in any case: a store that lost leases without noticing raises no version.
 *  - Sessions are used if all instances have one. Clients of the REST API and programs that follow the key layout by
 *    hand have none, and may judge a lease by its own end alone. When the first of those comes, all leases get ends of
 *    their own again; when the last has gone, they are put back on the session.
 */
#include <string.h>

#include "core/fleet_state.h"

#define READ_WITH_BEAT 16u

/* ---- what is unsure */

void ten_fleet_set_check(ten_fleet *fleet, struct ten_fleet_held *held, enum ten_fleet_check check) {
    fleet->held.unsure += check != TEN_FLEET_SURE;
    fleet->held.unsure -= held->check != TEN_FLEET_SURE;
    held->check = (unsigned)check & 3u;
}

void ten_fleet_doubt_session_lease(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (held && held->in_order && held->on_session && held->check == TEN_FLEET_SURE)
        ten_fleet_set_check(fleet, held, TEN_FLEET_READ);
}

/* ---- when sessions are used */

void ten_fleet_choose_session_use(ten_fleet *fleet) {
    bool all = fleet->config.sessions;
    for (uint32_t i = 0; i < fleet->instance_room; i++)
        all &= !fleet->instances[i].known || !fleet->instances[i].listed || fleet->instances[i].has_session;
    if (all == fleet->session.used)
        return;
    fleet->session.used = all;
    if (fleet->held.oldest != TEN_NOBODY)
        fleet->own.next_beat_ms = fleet->now_ms; /* with its answer the leases change over */
}

unsigned ten_fleet_session_flag(const ten_fleet *fleet) {
    return fleet->session.used ? TEN_OP_SESSION : 0;
}

/* ---- answers */

uint64_t ten_fleet_belief_ms(const ten_fleet *fleet, const ten_result *result) {
    if (!fleet->config.sessions || result->session == 0)
        return fleet->request.sent_ms;
    return result->session == fleet->session.id ? fleet->session.sent_ms : 0;
}

/* It was on the session, unharmed, after the last heartbeat. */
static void extend(ten_fleet *fleet, uint32_t number, enum ten_ask ask) {
    ten_holding *holding = &ten_fleet_held(fleet, number)->holding;
    enum ten_holding_outcome outcome = ten_holding_extend(holding, &fleet->config.timing, fleet->session.sent_ms,
                                                          fleet->now_ms, fleet->session.ttl_ms);
    if (outcome == TEN_HOLDING_RENEWED)
        ten_fleet_renewed(fleet, number, ask);
    else if (outcome == TEN_HOLDING_LATE && ten_holding_expire(holding, fleet->now_ms))
        ten_fleet_lost(fleet, number, TEN_REASON_EXPIRED);
}

static void look_at_lease(ten_fleet *fleet, uint32_t number, bool same_session, bool same_version) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (held->on_session != (fleet->session.used && fleet->session.id != 0) || (held->on_session && !same_session))
        ten_fleet_set_check(fleet, held, TEN_FLEET_RENEW);
    else if (held->on_session && held->check == TEN_FLEET_SURE && same_version)
        extend(fleet, number, TEN_ASK_NOTHING);
    else if (held->on_session && held->check == TEN_FLEET_SURE)
        ten_fleet_set_check(fleet, held, TEN_FLEET_READ);
}

void ten_fleet_session_beaten(ten_fleet *fleet, const ten_result *result) {
    struct ten_fleet_session *session = &fleet->session;
    if (!fleet->config.sessions)
        return;
    bool same_session = result->session != 0 && result->session == session->id;
    bool same_version = same_session && result->session_version == session->version;
    session->id = result->session;
    session->version = result->session_version;
    session->ttl_ms = result->ttl_ms;
    session->sent_ms = fleet->request.sent_ms;
    uint32_t last = fleet->held.newest; /* what is extended goes to the end of the list */
    for (uint32_t number = fleet->held.oldest, next; number != TEN_NOBODY; number = next) {
        next = number == last ? TEN_NOBODY : ten_fleet_held(fleet, number)->newer;
        look_at_lease(fleet, number, same_session, same_version);
    }
}

static void doubt(ten_fleet *fleet, uint32_t number, int error) {
    if (!ten_holding_doubt(&ten_fleet_held(fleet, number)->holding))
        return;
    ten_fleet_changed(fleet, number);
    ten_fleet_tell(fleet, number, (tenure_event){.kind = TENURE_EVENT_RENEW_FAILED, .error = error});
}

void ten_fleet_session_unanswered(ten_fleet *fleet, int error) {
    for (uint32_t number = fleet->held.oldest; number != TEN_NOBODY; number = ten_fleet_held(fleet, number)->newer)
        if (ten_fleet_held(fleet, number)->on_session)
            doubt(fleet, number, error);
}

void ten_fleet_session_read(ten_fleet *fleet, uint32_t number, int error, const ten_result *result) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (!held || !held->in_order || !held->on_session || held->check != TEN_FLEET_READ)
        return; /* something else was decided meanwhile */
    if (error != TENURE_OK) {
        doubt(fleet, number, error);
        return;
    }
    bool mine = result->outcome == TEN_OK && result->holder && strcmp(result->holder, fleet->config.instance) == 0 &&
                result->token == held->holding.token && !result->barred && result->session == fleet->session.id;
    ten_fleet_set_check(fleet, held, mine ? TEN_FLEET_SURE : TEN_FLEET_RENEW);
    if (mine)
        extend(fleet, number, result->ask);
}

/* ---- requests */

void ten_fleet_add_session_checks(ten_fleet *fleet, bool beats) {
    uint32_t reads = 0;
    for (uint32_t number = fleet->held.oldest; number != TEN_NOBODY && fleet->request.count < fleet->config.batch_max;
         number = ten_fleet_held(fleet, number)->newer) {
        struct ten_fleet_held *held = ten_fleet_held(fleet, number);
        bool some = beats && held->on_session && reads < READ_WITH_BEAT;
        if (fleet->held.unsure == 0 && !some)
            return;
        if (held->holding.flight != TEN_FLIGHT_NONE)
            continue;
        if (some && held->check == TEN_FLEET_SURE)
            ten_fleet_set_check(fleet, held, TEN_FLEET_READ);
        if (held->check == TEN_FLEET_READ) {
            ten_fleet_add_op(fleet, number, (ten_op){.kind = TEN_OP_READ});
            reads++;
        } else if (held->check == TEN_FLEET_RENEW) {
            ten_fleet_add_renewal(fleet, number);
        }
    }
}
