/*
 * What an operation does to one lease, as a pure function of the lease, the operation and the time. store/apply_lease.c
 * reads the record, calls this and commits what has come of it. It knows nothing about storage.
 */
#ifndef TEN_RULES_LEASE_ROW_H
#define TEN_RULES_LEASE_ROW_H

#include "base/buf.h"
#include "rules/instance_row.h"
#include "rules/op.h"
#include "rules/record.h"

typedef struct ten_lease_row {
    bool exists;                        /* was leased before: the counter is valid */
    char holder[TENURE_HOLDER_MAX + 1]; /* "": free */
    uint64_t token;                     /* the counter: the last token granted */
    uint64_t ends_ms;                   /* boot clock. On a session: that of the session, which the store fills in */
    uint64_t session;                   /* of its holder, on which it hangs; 0: it has an end of its own */
    uint64_t ttl_ms;
    uint64_t acquired_at_ms; /* Unix time; of a released lease: when it was released */
    bool barred;
    enum ten_ask ask;
    bool foreign; /* another program's: whoever it is, it is nobody whom an operation can mean */
} ten_lease_row;

/* The state of the store at this moment. */
typedef struct ten_lease_context {
    uint64_t now_ms;        /* boot clock */
    uint64_t wall_ms;       /* Unix time, for display */
    uint64_t token_floor;   /* new tokens are at least this */
    uint64_t first_token;   /* of targets that have no row: at least this */
    uint64_t forgotten;     /* the highest token that the namespace forgot; used for targets that have no row */
    uint64_t recovering_ms; /* for how long nothing is granted yet because an epoch began; 0: not recovering */
    uint64_t successor_ms;  /* hand: see ten_instance_row_ready_ms() */
    bool withheld;          /* acquire: another target of its group was refused, so nobody gets this one */
    ten_session session;    /* acquire, renew: of the operation's holder */
} ten_lease_context;

/* How far a token may be ahead of the wall clock in ms, or of the floor, to be believed: 366 days. */
#define TEN_TOKEN_AHEAD_MS (UINT64_C(366) * 24 * 60 * 60 * 1000)

/* What happened, for the feed: first the loss, then the rest. */
typedef struct ten_lease_effect {
    bool row_changed;
    bool lost; /* the lease of former_holder expired or was forced */
    bool acquired;
    bool released;
    bool asked;
    bool checkpointed; /* the operation's checkpoint is to be stored, under the token of the row */
    /* A renewal has shown a token that this store never granted, although it is not recovering: the store has lost
     * data. The store begins an epoch and applies the operation again, which then puts the lease back. */
    bool proves_loss;
    enum ten_reason reason; /* of the loss or the release */
    char former_holder[TENURE_HOLDER_MAX + 1];
    uint64_t former_token;
    /* The lease hung on the session of a holder that did not send the operation: the store raises the version of that
     * session, in the same step. */
    bool touched_session;
    uint64_t lost_at_ms; /* Unix time at which the lease that is found expired now did expire; 0: not known */
    /* Of a row that changed: which end of its own the lease has from now on. `with` points into the row. */
    ten_life life;
} ten_lease_effect;

/* Applies an acquire, renew, release, hand, read, checkpoint or (with a target) ask to the row. Fills in result and
 * effect; result->holder points into the row. The caller checks whether a required target is registered. */
void ten_lease_row_apply(ten_lease_row *row, const ten_op *op, const ten_lease_context *context, ten_result *result,
                         ten_lease_effect *effect);

#define TEN_LEASE_CHANGES_MAX 2u
/* The entries of the feed that follow from the effect: up to two, in order. Their texts point into the row, the
 * operation and the effect. at_ms 0: now. */
size_t ten_lease_row_changes(const ten_lease_row *row, const ten_op *op, const ten_lease_effect *effect,
                             ten_change changes[TEN_LEASE_CHANGES_MAX]);

/* Whether the counter of a target may be forgotten. If so (TEN_FORGET_DONE), *forgotten is raised to the token of the
 * row: the caller stores it for the namespace and removes the row. */
enum ten_forget_outcome ten_lease_row_forget(const ten_lease_row *row, bool registered,
                                             const ten_lease_context *context, uint64_t *forgotten);

/* What expired unnoticed is free from now on: who forgets what was free for long may not know for how long it has
 * been. */
void ten_lease_row_expire(ten_lease_row *row, uint64_t wall_ms, ten_lease_effect *effect);

/* Whether the lease is held at that moment. */
bool ten_lease_row_is_held(const ten_lease_row *row, uint64_t now_ms);

/* The row that a record has, without its end: that may be the session's. False: the record is damaged. */
bool ten_lease_row_read(const ten_record *record, ten_lease_row *row);
/* Its value; the name is the holder, the number the token. `old` as in rules/value.h. */
void ten_lease_row_write(ten_buf *value, const char *old, const ten_lease_row *row);
/* The value of a checkpoint, whose number is the token under which it was written; and its text, which lies in `texts`.
 * NULL: the record is damaged. */
void ten_lease_row_write_checkpoint(ten_buf *value, const char *text);
const char *ten_lease_row_read_checkpoint(const ten_record *record, ten_buf *texts);
/* Whether the records of both differ in nothing but their ends. */
bool ten_lease_row_is_same(const ten_lease_row *row, const ten_lease_row *other);

#endif
