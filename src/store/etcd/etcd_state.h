/*
 * The insides of the etcd store, for its files.
 *
 * How leases are kept. A held target has a key PREFIX/NS/lease/TARGET that is attached to an etcd lease, so that it
 * vanishes by itself; its token is the revision at which it was created.
 *  - A session (store.h) is an etcd lease. The key of the instance names it ("session" is the term in which it was
 *    granted), its leases are attached to it ("session" in their values), and PREFIX/NS/group/LEASE is written by
 *    whoever touches one of them: the revision of that key is the version. A heartbeat is one keep-alive and then one
 *    transaction that reads, whatever the session holds. The version is read after the keep-alive: whoever forces a lease
 *    after that finds the new end of the session, and one before has raised the version.
 *  - A lease with an end of its own is attached to a group: an etcd lease for what one holder renews together, so that
 *    a thousand renewals are one keep-alive and one transaction that compares. A group is kept alive only by a batch
 *    that renews all of it: whoever is left out moves nowhere and ends in time, the others move to another group.
 *
 * Why etcd's lease alone is not believed:
 *  - A keep-alive is answered by whoever thinks that it leads. Only when a linearizable comparison that was sent after
 *    it is answered by the same member in the same raft term was it the leader that counted.
 *  - A former leader that was stopped and goes on can revoke leases that have been kept alive since (etcd before
 *    3.4.31 and 3.5.13). It knows those that were granted in its own term or before: so an etcd lease is good for the
 *    term in which it was granted. After a change of leader everything moves to a new group, and the next heartbeat
 *    begins another session, to which its holder renews its leases. While etcd has no room for new
 *    ones (NOSPACE), the old ones are kept alive: nobody can enter then, and newcomers wait when there is room again,
 *    because nobody could write before that the term is another.
 *  - A key that has vanished, and whose last grant (PREFIX/NS/fence/TARGET) is of the present term, has expired. One of
 *    an earlier term may have been revoked like that while its holder believes in it: newcomers wait until the longest
 *    TTL has passed since the new term was noticed (PREFIX/NS/wait), the holder itself puts its lease back.
 *
 * A lease is handed over in two steps, see etcd_hand.c.
 *
 * A namespace that came back older than it was (a restored snapshot) begins an epoch: see etcd_epoch.c.
 */
#ifndef TEN_STORE_ETCD_STATE_H
#define TEN_STORE_ETCD_STATE_H

#include "base/arena.h"
#include "base/map.h"
#include "rules/instance_row.h"
#include "rules/lease_row.h"
#include "store/etcd/etcd_link.h"
#include "store/etcd/etcd_txn.h"

typedef struct ten_etcd_group ten_etcd_group;
typedef struct ten_etcd_chunk ten_etcd_chunk;
typedef struct ten_etcd_cell ten_etcd_cell;
typedef struct ten_etcd_waiting ten_etcd_waiting;
typedef struct ten_etcd_watch ten_etcd_watch;
typedef struct ten_etcd_handed ten_etcd_handed;

/* A key that this handle attached to one of its groups, as it last saw it. */
typedef struct ten_etcd_hold {
    ten_etcd_group *group;
    size_t index; /* in the group */
    char *key;
    uint64_t revision;
    uint64_t token; /* of a lease */
    enum ten_ask ask;
    uint32_t weight;     /* of an instance */
    char *metadata;      /* of an instance; NULL: none */
    uint64_t marked_in;  /* the call that last covered it */
    uint64_t named_in;   /* the call that last named it in a renewal, */
    uint64_t spoiled_in; /* and the one that last wanted something else of it, or named it twice */
} ten_etcd_hold;

/* An etcd lease of this handle, and what is attached to it. Of a session, only the key of its instance is a hold: what
 * else is attached to it is known to etcd alone. */
struct ten_etcd_group {
    ten_etcd_group *next;
    bool is_session;
    uint64_t reserve_ms; /* it was granted in advance, for so long (etcd_wait.c); 0: it was not */
    uint64_t wanted_ms;  /* boot clock: when somebody last waited with it */
    char *namespace_name;
    char *holder;
    uint64_t lease; /* etcd's name for it */
    uint64_t ttl_ms;
    uint64_t term;          /* in which it was granted */
    uint64_t revision;      /* at which its key was written; 0: not yet */
    uint64_t seen_revision; /* what the key's revision was when it was found to be another, */
    uint64_t seen_in;       /* and the call that found it */
    uint64_t member;        /* which last kept it alive or granted it, */
    uint64_t kept_term;     /* and in which term */
    uint64_t ends_ms;       /* boot clock, for clearing up: it cannot be alive later */
    uint64_t sent_ms;       /* boot clock: when the last keep-alive that succeeded was sent, or the grant */
    uint64_t kept_at;       /* the step at which that was answered: see the steps of the store */
    ten_etcd_hold **holds;
    size_t count;
    size_t room;
    size_t next_compared; /* of the holds, when not all fit into one transaction */
    uint64_t covered_in;  /* the call that last covered some of its holds */
    size_t covered;       /* how many */
    size_t renewed;       /* and how many of them are to go on */
    uint64_t home_in;     /* the call for which it has been kept alive */
    bool uncertain;       /* more may be attached than `holds`: an answer was missing, or a hold was dropped unseen */
    uint64_t empty_ms;    /* boot clock: when it was found empty; 0: it was not */
};

typedef struct ten_etcd_store {
    ten_store base; /* first */
    ten_etcd_settings settings;
    ten_etcd_link *link;
    ten_etcd_head head; /* of the last answer */
    ten_etcd_group *groups;
    ten_map holds;           /* by key */
    ten_map homes;           /* of this call, by namespace, holder and TTL */
    ten_map checked;         /* for signs of a loss: namespaces, with how many connections there had been (plus one) */
    ten_map entered;         /* for their layout, in the same way */
    uint64_t call;           /* the calls are counted, */
    uint64_t step;           /* and the keep-alives and readings: which was first? */
    ten_map waits;           /* what is remembered of targets that others hold, by key */
    ten_etcd_handed *handed; /* etcd leases that this call granted for what it hands over */
    ten_arena results;
    ten_etcd_txn txn;
    ten_buf scratch;
    ten_buf value;
    size_t fed;          /* changes since the feed was last looked at for its length, */
    size_t fed_last;     /* and those of the last entry */
    uint64_t trimmed_in; /* the call in which it was last looked at */
    bool listed;         /* instances, at least once */
    bool is_full;        /* in this call: etcd has no room, so that what it has is used, of whatever term it is */
    bool answers;        /* the last request had an answer */
    ten_etcd_watch *watch;
} ten_etcd_store;

static inline uint64_t ten_etcd_seconds(uint64_t ttl_ms) {
    return (ttl_ms + 999) / 1000;
}

/* etcd_epoch.c */
/* TENURE_E_SCHEMA: another version has written this record of the namespace, and the rest of it. NULL: there is none. */
int ten_etcd_check_layout(ten_etcd_store *store, const char *namespace_name, const json_t *epoch);
/* The same for who does not read the record anyway: once with each connection. */
int ten_etcd_enter(ten_etcd_store *store, const char *namespace_name, uint64_t deadline_ms);

/* etcd.c */
int ten_etcd_no_memory(ten_etcd_store *store);
/* One request; *ret_answer is the caller's. TENURE_E_GONE: an etcd lease is not there. */
int ten_etcd_ask(ten_etcd_store *store, const char *path, const char *body, bool once, uint64_t deadline_ms,
                 json_t **ret_answer);
/* Carries store->txn out. *ret_succeeded: the comparisons held. */
int ten_etcd_commit(ten_etcd_store *store, bool once, uint64_t deadline_ms, bool *ret_succeeded, json_t **ret_answer);
void ten_etcd_key_of(const ten_etcd_store *store, char key[TEN_ETCD_KEY_MAX + 1], const char *namespace_name,
                     enum ten_etcd_kind kind, const char *name);
/* A new etcd lease, granted in the term of store->head. */
int ten_etcd_grant(ten_etcd_store *store, uint64_t ttl_ms, uint64_t deadline_ms, uint64_t *ret_lease);
/* Ends etcd leases that nothing hangs on any more. A failure is left to their TTLs. */
void ten_etcd_revoke(ten_etcd_store *store, const uint64_t *leases, size_t count, uint64_t deadline_ms);
/* What is left of each etcd lease, in ms, about; 0: it is not there any more. */
int ten_etcd_time_left(ten_etcd_store *store, const uint64_t *leases, uint64_t *left_ms, size_t count,
                       uint64_t deadline_ms);

/* etcd_group.c: what this handle has attached to what */
ten_etcd_hold *ten_etcd_hold_find(ten_etcd_store *store, const char *key);
/* Notes that the key is attached to the group. NULL: out of memory, and nothing is known of the key any more. */
ten_etcd_hold *ten_etcd_hold_set(ten_etcd_store *store, ten_etcd_group *group, const char *key);
void ten_etcd_hold_drop(ten_etcd_store *store, const char *key);
/* The key was read: what is known of it is forgotten unless it is just so. */
void ten_etcd_hold_doubt(ten_etcd_store *store, const char *key, const ten_etcd_kv *kv);
ten_etcd_group *ten_etcd_group_by_lease(ten_etcd_store *store, uint64_t lease);
/* An etcd lease of which this handle knew nothing. NULL: out of memory. */
ten_etcd_group *ten_etcd_group_add(ten_etcd_store *store, const char *namespace_name, const char *holder,
                                   uint64_t lease, uint64_t ttl_ms, uint64_t term);
/* Grants an etcd lease for it. */
int ten_etcd_group_make(ten_etcd_store *store, const char *namespace_name, const char *holder, uint64_t ttl_ms,
                        uint64_t deadline_ms, ten_etcd_group **ret_group);
/* *group: NULL if it has ended. It counts in this call if home_in says so. */
int ten_etcd_group_keep(ten_etcd_store *store, ten_etcd_group **group, uint64_t deadline_ms);
void ten_etcd_group_drop(ten_etcd_store *store, ten_etcd_group *group);
/* Of a handle that closes: empty groups end, and the others are marked, so that whoever takes the last of a group away
 * can end it. */
void ten_etcd_groups_close(ten_etcd_store *store);
void ten_etcd_groups_free(ten_etcd_store *store);
void ten_etcd_group_key(const ten_etcd_store *store, char key[TEN_ETCD_KEY_MAX + 1], const char *namespace_name,
                        uint64_t lease);
/* The groups that go on in this call are kept alive; of those that end nothing is known any more. */
int ten_etcd_keep_homes(ten_etcd_store *store, const ten_op *ops, size_t count, uint64_t deadline_ms);
/* Where this call attaches what the holder renews or acquires: kept alive, or granted now. */
int ten_etcd_home(ten_etcd_store *store, const char *namespace_name, const char *holder, uint64_t ttl_ms,
                  uint64_t deadline_ms, ten_etcd_group **ret_group);
/* Whether what was compared or written by the answer of store->head counts for that group. */
bool ten_etcd_is_confirmed(const ten_etcd_store *store, const ten_etcd_group *group);

/* etcd_renew.c: the renewals that change nothing. settled[i]: results[i] is final. */
int ten_etcd_renew_steady(ten_etcd_store *store, const ten_op *ops, ten_result *results, bool *settled, size_t count,
                          uint64_t deadline_ms);
/* The whole call has succeeded: what is attached to groups that others have written to has been read anew. */
void ten_etcd_learn_revisions(ten_etcd_store *store);

/* etcd_apply.c */
int ten_etcd_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);

/* etcd_wait.c */
/* An etcd lease that was granted in advance, and lasts for the TTL from now on; NULL: there is none. */
ten_etcd_group *ten_etcd_reserve_of(const ten_etcd_store *store, const char *namespace_name, const char *holder,
                                    uint64_t ttl_ms);
/* The operation was answered: if it waits now, an etcd lease is granted in advance. A failure changes nothing. */
void ten_etcd_reserve_want(ten_etcd_store *store, const ten_op *op, const ten_result *result, uint64_t deadline_ms);
/* When nothing else is to do. */
void ten_etcd_reserves_keep(ten_etcd_store *store);
void ten_etcd_waits_free(ten_etcd_store *store);

/* etcd_hand.c */
/* Forgets the etcd leases that the call granted; they end by themselves. */
void ten_etcd_hands_free(ten_etcd_store *store);

/* etcd_feed.c */
/* Adds an entry to the transaction; `changes` is a JSON array of that many. */
void ten_etcd_feed_put(ten_etcd_store *store, const char *namespace_name, const char *changes, size_t count);
void ten_etcd_feed_add(ten_buf *changes, const ten_change *change);
/* Now and then: cuts the feed when it has become too long. A failure is left to the next time. */
void ten_etcd_feed_trim(ten_etcd_store *store, const char *namespace_name, uint64_t deadline_ms);
int ten_etcd_forget_history(ten_store *store, const char *namespace_name, uint64_t timeout_ms);
int ten_etcd_changes(ten_store *store, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                     void *userdata, uint64_t timeout_ms);

/* etcd_forget.c */
/* Removes the fences of those that are free, not registered, and have not changed since that revision. TENURE_E_HELD:
 * somebody came in between, or an epoch or a term has just begun. */
int ten_etcd_forget_aged(ten_etcd_store *store, const char *namespace_name, ten_forget *items, size_t count,
                         uint64_t revision, uint64_t deadline_ms);
int ten_etcd_forget(ten_store *store, const char *namespace_name, ten_forget *items, size_t count, uint64_t timeout_ms);

/* etcd_read.c */
int ten_etcd_edit_targets(ten_store *store, const char *namespace_name, ten_target_edit *edits, size_t count,
                          uint64_t timeout_ms);
int ten_etcd_list(ten_store *store, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_etcd_read_targets(ten_store *store, const char *namespace_name, const char *const *ids, size_t count,
                          ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_etcd_list_namespaces(ten_store *store, tenure_name_fn each, void *userdata, uint64_t timeout_ms);
int ten_etcd_list_instances(ten_store *store, const char *namespace_name, ten_instance_fn each, void *userdata,
                            uint64_t timeout_ms);

/* etcd_watch.c */
int ten_etcd_watch_open(ten_store *store, const char *namespace_name, int *ret_fd);
void ten_etcd_watch_clear(ten_store *store);
void ten_etcd_watch_close(ten_etcd_watch *watch);

/* etcd_check.c */
int ten_etcd_check(ten_store *store, tenure_check_fn each, void *userdata, uint64_t timeout_ms);

#endif
