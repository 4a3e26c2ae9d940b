/*
 * The election's insides, for the commands that run work under a warden: a belief in memory of the caller's.
 */
#ifndef TEN_RUNTIME_ELECTION_H
#define TEN_RUNTIME_ELECTION_H

#include "base/buf.h"
#include "base/clock.h"
#include "core/election.h"
#include "runtime/beliefs.h"
#include "runtime/measures.h"
#include "store/store.h"

typedef struct ten_election_extras {
    ten_beliefs *beliefs; /* NULL: the election keeps its belief itself; else number 0 is its */
    /* ten_candidate_work_over() says that the work has ended, not on_demoted's return; and nothing happens before
     * ten_candidate_begin(). */
    bool works_elsewhere;
    ten_measures *measures; /* NULL: nothing is counted */
    /* Several roles that are led together or not at all, in the order in which they are acquired; NULL: the role. */
    const char *const *all;
    uint32_t all_count;
    /* Whether and how it announces itself: only for a context with one election and no fleet member in that namespace,
     * because there is one heartbeat for all of them. */
    enum ten_election_announces announces;
    int64_t priority;     /* announced, too */
    bool is_lock;         /* the same: the role is a lock, which its holder keeps until its work is over */
    uint64_t failback_ms; /* one more than in core/election.h; 0: never */
} ten_election_extras;

int ten_candidate_open(tenure_context *context, const char *role, const tenure_election_options *options,
                       const ten_election_extras *extras, tenure_election **ret_election);

/* Starts to campaign. */
int ten_candidate_begin(tenure_election *election);
/* The term is to end: others go first, for the pause; UINT64_MAX: it campaigns no more. Waits for nothing. */
void ten_candidate_end_term(tenure_election *election, enum ten_reason reason, uint64_t pause_ms);
/* Whether this instance is able to do the work; while it is not, it does not lead. Waits for nothing. */
void ten_candidate_set_fit(tenure_election *election, bool is_fit);
/* The work of this term could not begin: the role is released with it, whatever at_least_ms is. */
void ten_candidate_keep_nothing(tenure_election *election);
/* Appends the tokens of all roles that are led together, as "ROLE=TOKEN ROLE=TOKEN". */
void ten_candidate_tokens(tenure_election *election, ten_buf *text);
/* The work of the term has ended. */
void ten_candidate_work_over(tenure_election *election);

#endif
