/*
 * What the files of the election share: election.c (what the program wants, requests) and election_answer.c (answers,
 * the feed). No other file includes it.
 */
#ifndef TEN_CORE_ELECTION_STATE_H
#define TEN_CORE_ELECTION_STATE_H

#include "base/util.h"
#include "core/election.h"

static inline uint32_t ten_election_count(const ten_election *election) {
    return election->config.slots ? election->config.slot_count : 1;
}

static inline ten_election_slot *ten_election_slot_of(const ten_election *election, uint32_t number) {
    return election->config.slots ? &election->config.slots[number] : &((ten_election *)election)->own;
}

/* The slots that belong to one term: the one that it has or tries, or all of them. */
static inline uint32_t ten_election_first(const ten_election *election) {
    return election->config.wants == TEN_ELECTION_ALL ? 0 : election->at;
}

static inline uint32_t ten_election_end(const ten_election *election) {
    return election->config.wants == TEN_ELECTION_ALL ? ten_election_count(election) : election->at + 1;
}

#define TEN_ELECTION_EACH(election, slot)                                                                              \
    for (ten_election_slot *slot = ten_election_slot_of(election, ten_election_first(election)),                       \
                           *slot##_end = ten_election_slot_of(election, ten_election_end(election) - 1) + 1;           \
         slot < slot##_end; slot++)

static inline bool ten_election_leads(const ten_election *election) {
    return election->state == TEN_ELECTION_LEADING || election->state == TEN_ELECTION_STEPPING_DOWN;
}

/* election_answer.c */
/* The answer to the request. `error`: what apply() returned; the results are ignored if it is not 0. */
void ten_election_answer(ten_election *election, uint64_t now_ms, int error, const ten_result *results);
/* An entry of the feed. */
void ten_election_change(ten_election *election, uint64_t now_ms, const ten_change *change);
/* The feed is followed from now on, and what happened before may have been missed: campaigns or renews early, and
 * learns the state from the answer. */
void ten_election_follow(ten_election *election, uint64_t now_ms);

/* election.c */
void ten_election_move(ten_election *election, enum ten_election_state to);
void ten_election_tell(ten_election *election, tenure_event event, const char *other);
void ten_election_tell_term(ten_election *election, enum tenure_event_kind kind, enum ten_reason reason);
/* Stops the term; the lease is released when its work is over. */
void ten_election_step_down(ten_election *election, enum ten_reason reason, uint64_t pause_ms);
/* A slot of the term has ended against this instance's will: so has the term. */
void ten_election_demote(ten_election *election, const ten_election_slot *lost, uint64_t now_ms,
                         enum ten_reason reason);
/* For how long others go first after a lease was forced: the store may end it late. */
static inline uint64_t ten_election_forced_pause_ms(const ten_election *election) {
    return election->config.timing.ttl_ms + election->config.expiry_late_ms;
}
/* Notices deadlines. True: a term has just ended. */
bool ten_election_expire(ten_election *election, uint64_t now_ms);
/* When to campaign for a slot that is free from then on. `released`: it was, and does not expire then. */
uint64_t ten_election_turn_ms(ten_election *election, uint64_t free_ms, bool released);

#endif
