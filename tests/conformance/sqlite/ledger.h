/*
 * For the tests that fail one call after another: a script of operations on a store, and a ledger of what the store
 * acknowledged. Whatever was acknowledged must be there, whatever failed must be there or not be, and no token may be
 * granted twice.
 */
#ifndef CONFORMANCE_LEDGER_H
#define CONFORMANCE_LEDGER_H

#include "conformance/sqlite/sqlite_place.h"

#define LEDGER_TARGETS 3u

struct ledger {
    uint64_t highest[LEDGER_TARGETS]; /* token that was ever acknowledged */
    /* The lease as last acknowledged; `unsure` when something failed since, so that it may also have ended. */
    uint64_t token[LEDGER_TARGETS]; /* 0: free */
    bool unsure[LEDGER_TARGETS];
    unsigned rounds;
};

/* Acquires, renews, releases, forces, edits, announces, lists and reads; notes what was acknowledged. Returns the first
 * error, or TENURE_OK. With `guarded` held by somebody else throughout, an acquire of it must never succeed. */
int ledger_run(struct ledger *ledger, ten_store *store);
/* Takes the guarded target for good; to be called once, before faults. */
void ledger_start(struct ledger *ledger, ten_store *store);
/* Compares what a store without faults shows with the ledger, and settles what was unsure. */
void ledger_check(struct ledger *ledger, ten_store *store);

#endif
