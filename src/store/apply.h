/*
 * The store contract over any backend, inside: what apply.c and its neighbours share. A batch goes in rounds:
 *
 *      decide each operation by the rules  --unknown records-->  read them, and decide again
 *              |
 *      touch what is only extended, then commit what changes  --conflicts-->  decide those again, by what they brought
 *
 * An operation waits for the next round if one before it writes a record on which it depends, so that a batch takes
 * effect in its order. Operations that meet in no record go together.
 */
#ifndef TEN_STORE_APPLY_H
#define TEN_STORE_APPLY_H

#include "base/arena.h"
#include "rules/lease_row.h"
#include "rules/namespace_row.h"
#include "store/backend.h"
#include "store/record_cache.h"

/* Times are counted from this moment on: a record has a time left, and no end that two machines would understand. */
#define TEN_APPLY_NOW_MS (UINT64_C(1) << 50)

/* A handle of a store that is made of a backend. */
typedef struct ten_record_store {
    ten_store base;
    ten_backend *backend;
    ten_record_cache cache;
    ten_arena results;    /* what results point to */
    ten_arena texts;      /* of the round that is being prepared */
    ten_buf value;        /* scratch */
    ten_buf decoded;      /* scratch */
    uint64_t answered_ms; /* when the last answer came, by the local clock */
    uint64_t entries;     /* of the feed, that this handle has written since it last looked for what can be forgotten */
    char aged[TENURE_TARGET_MAX + 1]; /* how far it has come with that */
    const ten_known *damaged;         /* such a record was met in this call */
    struct ten_apply_round *round;
} ten_record_store;

/* ---- a round -------------------------------------------------------------------------------------------- */

#define TEN_INTENT_CHECKS 8u
#define TEN_INTENT_WRITES 4u

/* What one operation asks of the store: a touch, or a part of a change. */
typedef struct ten_intent {
    struct ten_intent_check {
        ten_known *known;
        enum ten_check_life life;
        bool any; /* whatever its version is */
    } checks[TEN_INTENT_CHECKS];
    size_t check_count;
    struct ten_intent_write {
        ten_known *known;
        ten_write write;
    } writes[TEN_INTENT_WRITES];
    size_t write_count;
    const char *entries[TEN_LEASE_CHANGES_MAX]; /* their texts */
    const char *entry_ids[TEN_LEASE_CHANGES_MAX];
    size_t entry_count;
    ten_known *touched; /* NULL: it is no touch */
    uint64_t touch_ms;
    bool touch_any;
    uint64_t least_number;
} ten_intent;

typedef struct ten_run {
    ten_record_store *store;
    const char *namespace_name;
    uint64_t end_us; /* of the call */
    uint64_t round;
    unsigned tries;   /* rounds so far in this namespace */
    uint64_t wall_ms; /* the store's, about */
    bool entered;     /* the namespace is known; else operations only say what they want to read */
    ten_known *space; /* the namespace's record, and its row */
    ten_known *quarantine;
    ten_namespace_row row;
    uint64_t ttl_ms; /* the longest that the batch asks for */
    int error;       /* out of memory, or a damaged record */
    bool wants;      /* records have to be read */
} ten_run;

/* What came of looking at an operation. Negative: the error of the whole batch. */
enum ten_verdict {
    TEN_VERDICT_DONE,    /* its result is final */
    TEN_VERDICT_PLANNED, /* its result is final when the intent is carried out */
    TEN_VERDICT_WAITS,   /* for records, which are marked as wanted, or for a round */
    TEN_VERDICT_AGAIN,   /* something was written: everything is decided anew */
};

/* Out of memory for the handle's answer. */
int ten_apply_no_memory(ten_record_store *store);
/* A record that cannot be read. It costs the operations that need it, and no others. */
int ten_apply_damaged(ten_record_store *store, ten_known *known);
int ten_apply_says_damaged(ten_record_store *store, const char *id);

/* apply_round.c: records and intents. */
ten_known *ten_apply_get(ten_run *run, enum ten_kind kind, const char *id);
/* Whether it is known; else it is read before the operation is looked at again. */
bool ten_apply_knows(ten_run *run, ten_known *known);
/* The same, of a record as it is in this call. */
bool ten_apply_knows_fresh(ten_run *run, ten_known *known);
/* Until when it lives, in the time of the rules; 0: it is dead, and it is not known since when. */
uint64_t ten_apply_end_ms(const ten_run *run, const ten_known *known);
const char *ten_apply_text(ten_run *run, const ten_buf *text);

void ten_intent_check(ten_intent *intent, ten_known *known, enum ten_check_life life);
/* Replaces a record, which is checked with that life. */
int ten_intent_put(ten_run *run, ten_intent *intent, ten_known *known, const ten_buf *value, const char *name,
                   uint64_t number, ten_life life);
void ten_intent_remove(ten_intent *intent, ten_known *known);
void ten_intent_raise(ten_intent *intent, ten_known *known);
int ten_intent_tell(ten_run *run, ten_intent *intent, const ten_change *change);

/* Whether what was planned before in this round leaves room for it. */
bool ten_apply_may(const ten_run *run, const ten_intent *intent);
/* It is written by an operation that has to wait: those behind it wait, too. */
void ten_apply_reserve(const ten_run *run, ten_known *known);
/* Whether somebody before it in this round changes the record. */
bool ten_apply_is_changed(const ten_run *run, const ten_known *known);
/* Adds it to the round: to the change before it (`joins`), or as one of its own. Its place among the changes, or the
 * touches. */
int ten_apply_add(ten_run *run, const ten_intent *intent, bool joins, size_t *ret_place);

struct ten_apply_round *ten_apply_round_new(void); /* NULL: out of memory */
/* Another round. TENURE_E_TIMEOUT: there were so many that others must be in the way, and the time is up. */
int ten_apply_round_begin(ten_run *run);
void ten_apply_round_free(ten_record_store *store);
/* Reads the records that this round needs and does not know. */
int ten_apply_read(ten_run *run);
/* Sends the touches, then the changes. TEN_OTHER_EPOCH: nothing happened, and nothing is known any more. 0: look at
 * each. */
int ten_apply_send(ten_run *run);
bool ten_apply_touch_went_well(const ten_run *run, size_t place);
bool ten_apply_change_went_well(const ten_run *run, size_t place, int *ret_error);
/* One intent by itself, at once. *ret_done false: a conflict. */
int ten_apply_commit_alone(ten_run *run, const ten_intent *intent, bool *ret_done);

uint64_t ten_apply_left_ms(const ten_run *run); /* of the call */
/* After each answer of the backend. */
void ten_apply_answered(ten_record_store *store);
ten_run ten_apply_run(ten_record_store *store, const char *namespace_name, uint64_t timeout_ms);

/* apply_epoch.c: the namespace. Makes sure that it is known, and that its epoch is this store's; `writes`: it is made
 * if it is not there. TEN_VERDICT_DONE: so it is, and run->entered says so. */
int ten_apply_enter(ten_run *run, bool writes);
/* A renewal with that TTL has proved by this record that data was lost. */
int ten_apply_prove_loss(ten_run *run, ten_known *by, uint64_t ttl_ms);
/* How long no acquire with that TTL is granted; 0: it is granted at once. */
uint64_t ten_apply_recovering_ms(const ten_run *run, uint64_t ttl_ms);

/* apply_lease.c, apply_instance.c: one operation. The texts of the result are in the store's arena, or the operation's.
 */
/* withheld: another target of its group was refused. */
int ten_apply_to_lease(ten_run *run, const ten_op *op, bool withheld, ten_result *result, ten_intent *intent);
int ten_apply_to_instance(ten_run *run, const ten_op *op, ten_result *result, ten_intent *intent);
/* The row of an instance whose record is known. */
int ten_apply_instance_row(ten_run *run, ten_known *known, ten_instance_row *row, const char **ret_metadata);
/* It has expired: its record is ended. */
int ten_apply_bury(ten_run *run, ten_known *known, ten_intent *intent);

/* The functions of ten_store_ops. */
int ten_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
int ten_apply_recovery(ten_store *base, const char *namespace_name, uint64_t ttl_ms, const char *actor,
                       uint64_t *ret_left_ms, uint64_t timeout_ms);
/* One step of forgetting by itself (forgetting.c). */
void ten_forgetting_step(ten_run *run);

#endif
