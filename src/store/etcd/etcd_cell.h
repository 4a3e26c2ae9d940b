/*
 * A few operations of one namespace that etcd carries out together: what they need is read, each is decided by the
 * rules that all stores share (lease_row.h, instance_row.h), and what they change is written in one transaction that
 * compares everything that was read. When something changed in between, nothing happens, and they are decided again.
 */
#ifndef TEN_STORE_ETCD_CELL_H
#define TEN_STORE_ETCD_CELL_H

#include "store/etcd/etcd_state.h"

#define TEN_ETCD_CELLS_MAX 48u

enum ten_etcd_write {
    TEN_ETCD_NOTHING,
    TEN_ETCD_ATTACH,  /* to the holder's home: granted, renewed, announced */
    TEN_ETCD_REMOVE,  /* released, left */
    TEN_ETCD_BAR,     /* forced: attached to an etcd lease of its own, which nobody keeps alive */
    TEN_ETCD_ASK,     /* as it is, with a request */
    TEN_ETCD_KEEP,    /* the lease as it is, its checkpoint anew */
    TEN_ETCD_RESERVE, /* handed over, first step: the key is gone, the fence keeps everybody but the successor out */
    TEN_ETCD_PASS,    /* handed over, second step: a key of the successor, attached to the etcd lease of the first */
};

/* By what a namespace is known, and from which tokens on it grants. */
typedef struct ten_etcd_identity {
    uint64_t cluster; /* 0: not known */
    int64_t lead;     /* by how much raft's index is ahead of the revision, at least; INT64_MIN: not known */
    uint64_t floor;   /* new tokens are at least this */
    uint64_t forgot;  /* the highest token of a target whose fence was removed */
    uint64_t at;      /* the revision at which the last epoch began; 0: none did */
} ten_etcd_identity;

/* One operation and its key: of a lease or of an instance. */
struct ten_etcd_cell {
    ten_op op;
    ten_result *result;
    bool settled;  /* its result is final */
    bool granted;  /* an earlier round of this call has written it */
    bool reserved; /* hand: an earlier round of this call has carried out the first step */
    char key[TEN_ETCD_KEY_MAX + 1];
    /* where its reads are in the answer */
    size_t at;
    size_t target_at; /* SIZE_MAX: not read */
    size_t gone_at;
    size_t fleet_at;
    size_t successor_at; /* hand: its entry and its tombstone */
    size_t checkpoint_at;
    size_t
        session_at; /* an instance's: the key that whoever touches its session writes. A lease's: the holder's entry */
    /* what was read */
    ten_etcd_kv kv;     /* the lease's or the instance's */
    ten_etcd_kv behind; /* its fence; an instance's shadow */
    uint64_t tombstone; /* revision of it; 0: none */
    bool registered;
    bool paused;
    ten_etcd_kv successor; /* hand: the entry of the successor, */
    bool successor_gone;   /* and whether it is declared gone */
    /* The session of the holder, or of the instance; the lease is 0: it has none. */
    struct ten_etcd_session {
        uint64_t lease; /* etcd's name for it */
        uint64_t term;  /* in which that was granted */
        uint64_t ttl_ms;
        uint64_t
            version; /* of an instance: the revision of the key that others write; 0: it was not read, or is gone */
    } session;
    json_t *fence; /* hand: what its first step wrote */
    /* what was decided */
    ten_lease_row row;
    ten_lease_effect effect;
    enum ten_etcd_write write;
    bool passes;  /* hand: this is the second step */
    bool named;   /* its new token is written out: it is not the revision */
    bool wrote;   /* the key itself, not only compared */
    bool touches; /* an instance: raises the version of its session */
    bool again;   /* nothing was decided: it has to be read once more */
    ten_etcd_group *home;
    const char *foretold; /* what the fence is compared with, instead of its revision; "": with nothing */
    uint64_t own_lease;   /* an etcd lease for it alone, which nobody keeps alive: forced, or longer than its TTL, */
    uint64_t kept_ms;     /* and how long that lasts, if that is longer than the TTL */
};

struct ten_etcd_chunk {
    ten_etcd_store *store;
    const char *namespace_name;
    uint64_t deadline_ms;
    ten_etcd_cell cells[TEN_ETCD_CELLS_MAX];
    size_t count;
    bool withheld;  /* it is a group, and one of its targets is refused */
    json_t *answer; /* of the read */
    bool has_read;  /* the answer is there, and has not been looked at */
    bool known; /* nothing has to be read: only second steps are left, and this chunk has just written their first */
    ten_etcd_head head;
    uint64_t read_at; /* the step at which it was read */
    ten_etcd_kv term;
    ten_etcd_kv wait;
    ten_etcd_kv epoch;
    ten_etcd_identity identity; /* of it */
    uint64_t index;             /* of raft's log, read after the rest; 0: not read */
    bool in_epoch;              /* the wait is for whatever may have been lost */
    uint64_t shown_token;       /* by a renewal, which proves a loss; 0: none */
    uint64_t shown_ttl_ms;
    uint64_t wait_left_ms;
    uint64_t longest_ms;                     /* TTL that has been granted in this namespace, */
    bool raised;                             /* and whether this chunk grants a longer one */
    uint64_t leases[2 * TEN_ETCD_CELLS_MAX]; /* whose time left was asked for */
    uint64_t left_ms[2 * TEN_ETCD_CELLS_MAX];
    size_t lease_count;
    uint64_t touched[2 * TEN_ETCD_CELLS_MAX]; /* others' groups that were written to in this transaction */
    size_t touched_count;
    uint64_t
        left[TEN_ETCD_CELLS_MAX]; /* others' etcd leases that a key leaves in this transaction, once for each key */
    size_t left_count;
    ten_buf changes; /* for the feed */
    size_t change_count;
};

/* etcd_epoch.c */
/* Of the keys that were read. TENURE_E_SCHEMA: see ten_etcd_check_layout(). */
int ten_etcd_epoch_take(ten_etcd_chunk *chunk);
/* Begins a term or an epoch if one is due. Then *ret_current is false, and the caller reads everything again. */
int ten_etcd_epoch_check(ten_etcd_chunk *chunk, bool *ret_current);
int ten_etcd_begin_epoch(ten_etcd_chunk *chunk);
/* Signs of a loss have been looked for since the last connection was made. */
bool ten_etcd_is_checked(const ten_etcd_chunk *chunk);
/* Add to the transaction, which happens only if nobody else has written them since they were read. */
void ten_etcd_epoch_put(ten_etcd_chunk *chunk, const ten_etcd_identity *identity);
void ten_etcd_term_put(ten_etcd_chunk *chunk, uint64_t longest_ms);

/* etcd_lease.c */
void ten_etcd_lease_reads(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
void ten_etcd_lease_take(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
int ten_etcd_lease_decide(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
int ten_etcd_lease_write(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
void ten_etcd_lease_written(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
/* The start of a fence's value; the token and the end are the caller's. */
void ten_etcd_write_fence(ten_buf *value, bool held, const char *holder, uint64_t term, uint64_t lease);
/* Whether somebody's lease of an earlier term has vanished, and may still be believed. */
bool ten_etcd_has_vanished(const ten_etcd_chunk *chunk, const ten_etcd_kv *lease, const ten_etcd_kv *fence);
/* A row from what was read; `left_ms` is what is left of a held one. */
void ten_etcd_row_read(const ten_etcd_kv *lease, const ten_etcd_kv *fence, uint64_t now_ms, uint64_t left_ms,
                       ten_lease_row *row);

/* What the key is attached to; of a target that is reserved, what the reservation lasts as long as; 0: nothing. */
uint64_t ten_etcd_lease_of(const ten_etcd_kv *lease, const ten_etcd_kv *fence);

/* etcd_session.c */
/* An acquire or a renewal by a holder that wants it on its session. */
bool ten_etcd_wants_session(const ten_op *op);
/* How the contract names the session that is this etcd lease: a JSON number. */
uint64_t ten_etcd_session_number(uint64_t lease);
/* The session that the entry of an instance names. */
struct ten_etcd_session ten_etcd_session_read(const ten_etcd_kv *instance);
/* What is left of it at least, if this handle keeps it alive; else 0. */
uint64_t ten_etcd_session_left_ms(ten_etcd_store *store, uint64_t lease);
/* For a heartbeat: with which session it goes on. *ret_session NULL: with none. Or cell->again. */
int ten_etcd_session_go_on(ten_etcd_chunk *chunk, ten_etcd_cell *cell, ten_etcd_group **ret_session);
/* For a heartbeat: begins a session. */
int ten_etcd_session_begin(ten_etcd_chunk *chunk, const ten_etcd_cell *cell, ten_etcd_group **ret_session);
/* For an acquire or a renewal: the session of the holder as the shared rules are to see it; and when the lease ends. */
int ten_etcd_session_offer(ten_etcd_chunk *chunk, ten_etcd_cell *cell, ten_lease_context *context);
/* How long a lease is kept by etcd at most if nobody keeps it alive: more than its TTL, if it had left a session. */
uint64_t ten_etcd_longest_ms(const ten_etcd_kv *lease);

/* etcd_hand.c */
void ten_etcd_hand_reads(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
void ten_etcd_hand_take(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
/* Of a cell that hands over: for how long leases may be handed over to its successor; 0: not at all. */
uint64_t ten_etcd_successor_ms(const ten_etcd_chunk *chunk, const ten_etcd_cell *cell);
/* For whom the target is reserved; NULL: for nobody. */
const char *ten_etcd_reserved_for(const ten_etcd_kv *lease, const ten_etcd_kv *fence);
/* Decides a cell that hands over, by what was read into its row. */
void ten_etcd_hand_decide(ten_etcd_chunk *chunk, ten_etcd_cell *cell, const ten_lease_context *context);
/* A release by whoever has reserved the target is meant for what it held before: the row shows that. */
void ten_etcd_take_back(const ten_etcd_cell *cell, ten_lease_row *row);
/* What becomes of a target that was reserved: the feed is to tell whose it was. */
void ten_etcd_tell_former(ten_etcd_cell *cell);
/* The first step has been carried out. */
void ten_etcd_hand_written(const ten_etcd_chunk *chunk, ten_etcd_cell *cell);
/* The etcd lease to which what this call hands over to the successor of that cell is attached: granted now, or by an
 * earlier cell. Nobody keeps it alive. */
int ten_etcd_hand_lease(ten_etcd_chunk *chunk, ten_etcd_cell *cell, uint64_t *ret_lease, uint64_t *ret_term);
/* Adds the comparison that the successor is as it was read, once for all cells that name it. */
void ten_etcd_compare_successor(ten_etcd_chunk *chunk, const ten_etcd_cell *cell);
/* What is left of an etcd lease that this call granted for a hand; 0: it is none of those. */
uint64_t ten_etcd_handed_ms(const ten_etcd_store *store, uint64_t lease);
/* The one that this call granted for that successor and TTL, if any: how long it lasts; else 0. */
uint64_t ten_etcd_hand_known_ms(const ten_etcd_chunk *chunk, const ten_etcd_cell *cell);

/* etcd_instance.c */
/* For how long leases may be handed over to that instance, which has that entry and so much left of its heartbeat. */
uint64_t ten_etcd_ready_ms(const ten_etcd_kv *kv, bool gone, uint64_t now_ms, uint64_t left_ms);
void ten_etcd_instance_reads(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
void ten_etcd_instance_take(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
/* Decides and adds to the transaction. */
int ten_etcd_instance_decide(ten_etcd_chunk *chunk, ten_etcd_cell *cell);
/* Tells the feed of those that have a shadow but no key any more, a few at a time. A failure is left to the next. */
void ten_etcd_tell_expired(ten_etcd_store *store, const char *namespace_name, const json_t *nodes,
                           const json_t *shadows, uint64_t deadline_ms);
void ten_etcd_instance_written(ten_etcd_chunk *chunk, ten_etcd_cell *cell);

/* etcd_wait.c */
/* The cell was refused: what was read is remembered. */
void ten_etcd_wait_note(ten_etcd_chunk *chunk, const ten_etcd_cell *cell);
/* *ret_prepared: the transaction for the only cell is there, without anything having been read. */
int ten_etcd_prepare_at_once(ten_etcd_chunk *chunk, bool *ret_prepared);

/* etcd_apply.c: for those two */
/* Decides as many as fit into one transaction; how many those are. */
int ten_etcd_decide(ten_etcd_chunk *chunk, size_t *ret_count);
uint64_t ten_etcd_left_of(const ten_etcd_chunk *chunk, uint64_t lease, uint64_t otherwise_ms);
void ten_etcd_change(ten_etcd_chunk *chunk, const ten_change *change);
/* Tells whoever keeps that etcd lease alive to look at what is attached to it. For a session: raises its version. */
void ten_etcd_touch_lease(ten_etcd_chunk *chunk, uint64_t lease);
bool ten_etcd_is_touched(const ten_etcd_chunk *chunk, uint64_t lease);
/* The same, unless that is a group of this handle, which knows. */
void ten_etcd_touch_other(ten_etcd_chunk *chunk, uint64_t lease);

#endif
