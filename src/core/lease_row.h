/*
 * What an operation does to one lease, as a pure function of the lease, the operation and the time. The backends that
 * keep their leases themselves (memory, SQLite) read a row, call this, and write the row back, so that the contract's
 * rules stand in one place. It knows nothing of storage.
 */
#ifndef TEN_STORE_LEASE_ROW_H
#define TEN_STORE_LEASE_ROW_H

#include "core/op.h"

typedef struct ten_lease_row {
    bool exists;                        /* was leased before: the counter means something */
    char holder[TENURE_HOLDER_MAX + 1]; /* "": free */
    uint64_t token;                     /* the counter: the last token granted */
    uint64_t ends_ms;                   /* boot clock */
    uint64_t ttl_ms;
    uint64_t acquired_at_ms; /* Unix time */
    bool barred;
    enum ten_ask ask;
} ten_lease_row;

/* The store's circumstances at this moment. */
typedef struct ten_lease_context {
    uint64_t now_ms;        /* boot clock */
    uint64_t wall_ms;       /* Unix time, for display */
    uint64_t token_floor;   /* tokens granted are at least this */
    uint64_t recovering_ms; /* how long newcomers still wait because an epoch began; 0: it is over */
} ten_lease_context;

/* What has happened, for the feed: first the loss, then the rest. */
typedef struct ten_lease_effect {
    bool row_changed;
    bool must_last; /* the change must survive power loss: all but a plain renewal */
    bool lost;      /* the lease of former_holder expired or was forced */
    bool acquired;
    bool released;
    bool asked;
    enum ten_reason reason; /* of the loss or the release */
    char former_holder[TENURE_HOLDER_MAX + 1];
    uint64_t former_token;
    uint64_t lost_at_ms; /* Unix time of a lease's end that is noticed only now; 0: it is not known */
} ten_lease_effect;

/* Applies an acquire, renew, release, read or (with a target) ask to the row. Fills in result and effect;
 * result->holder points into the row. Whether a required target is registered is the caller's to check. */
void ten_lease_row_apply(ten_lease_row *row, const ten_op *op, const ten_lease_context *context, ten_result *result,
                         ten_lease_effect *effect);

#define TEN_LEASE_CHANGES_MAX 2u
/* What the effect says to the feed: up to two changes, in order; their texts are the row's, the operation's and the
 * effect's. at_ms 0: it has happened now. */
size_t ten_lease_changes(const ten_lease_row *row, const ten_op *op, const ten_lease_effect *effect,
                         ten_change changes[TEN_LEASE_CHANGES_MAX]);

/* Whether the row is held at this moment. */
bool ten_lease_row_is_held(const ten_lease_row *row, uint64_t now_ms);

#endif
