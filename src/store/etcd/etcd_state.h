/*
 * The insides of the etcd store, for its files.
 *
 * How records are kept. A record (store/backend.h) is a key PREFIX/NS/record/KIND/ID; its version is the revision at
 * which that was last written. What can end has a second key, PREFIX/NS/KIND/ID, which is there while the record is
 * alive and is attached to an etcd lease if the life has an end. So a life is extended by keeping the etcd lease alive,
 * which writes nothing, and whether a record is alive is a comparison in the transaction that writes. A commit is one
 * transaction with a part for each change.
 *
 * Which lives share an etcd lease. Those that were given together with the same TTL and name do, and those that are
 * touched together move to one (a group). A group is kept alive only by a touch of all of it: what is left out ends in
 * time, the others move to another group.
 *
 * Marks. PREFIX/NS/mark/NAME is a holder's mark. It is there when somebody holds many leases under that name, attached
 * to one of their groups. Who writes a lease's record, or moves its life, writes the mark of the name that it had in
 * the same transaction, if it is there; a record has one name in a version, so nobody has to look. A handle that has
 * verified its leases, each by itself, after it wrote the mark, knows by one comparison that they are all the same as
 * long as the mark has the revision that it knows. Its own writes raise the mark, too: they may be carried out late.
 * What is done to keys by hand raises no mark: some lives are compared with each touch, in turn.
 *
 * Why etcd's lease alone is not believed:
 *  - A keep-alive is answered by whoever thinks that it leads. Only when a linearizable comparison that was sent after
 *    it is answered by the same member in the same raft term was it the leader that counted.
 *  - A former leader that was stopped and goes on can revoke leases that have been kept alive since (etcd before 3.4.31
 *    and 3.5.13). It knows those that were granted in its own term or before: so an etcd lease is good for the term in
 *    which it was granted. After a change of leader each life moves to a new one with its next touch. While etcd has no
 *    room for new ones (NOSPACE), the old ones are kept alive.
 *  - So a life that has vanished after a change of leader may be believed in. Whoever first notices the new term
 *    (PREFIX/NS/state/term) writes PREFIX/NS/state/wait, which lasts for the longest TTL. While that is there, a record
 *    that has an end and whose life has vanished is in doubt: it counts as alive, and a touch gives it its life back. A
 *    commit that relies on a death was decided by a reading that had found it dead, in no doubt, under the same
 *    version, and what is dead stays so.
 *
 * etcd_epoch.c says by what a restored snapshot is noticed.
 */
#ifndef TEN_STORE_ETCD_STATE_H
#define TEN_STORE_ETCD_STATE_H

#include "base/arena.h"
#include "base/map.h"
#include "store/backend.h"
#include "store/common/stream_watch.h"
#include "store/etcd/etcd_link.h"
#include "store/etcd/etcd_txn.h"

#define TEN_ETCD_PART  30u /* records that one part of a transaction reads or moves: each is two keys */
#define TEN_ETCD_PARTS 40u /* in a transaction, beside marks and the state: they count together with what is in each */
/* Records that a transaction without parts reads. Only such a one is a reading to etcd; with parts it is agreed on. */
#define TEN_ETCD_FLAT        60u
#define TEN_ETCD_READING_MAX ((size_t)TEN_ETCD_PARTS * TEN_ETCD_PART)

typedef struct ten_etcd_group ten_etcd_group;
typedef struct ten_etcd_space ten_etcd_space;

/* A life that this handle attached to one of its groups, as far as it knows. */
typedef struct ten_etcd_hold {
    ten_etcd_group *group;
    uint64_t covered_in; /* the call that last touched it */
} ten_etcd_hold;

/* An etcd lease of this handle, and the lives that it attached to it. */
struct ten_etcd_group {
    ten_etcd_group *next;
    const ten_etcd_space *space; /* of their namespace */
    char *name;                  /* of the records */
    uint64_t ttl_ms;
    uint64_t lease;      /* etcd's name for it */
    uint64_t term;       /* in which it was granted */
    uint64_t member;     /* which last kept it alive or granted it, */
    uint64_t kept_term;  /* and in which term */
    uint64_t kept_in;    /* the call for which it was kept alive or granted, */
    bool is_granted;     /* and which of the two: all members have agreed on a grant */
    uint64_t ends_ms;    /* boot clock: it cannot be alive later */
    uint64_t sent_ms;    /* boot clock: when the last keep-alive that succeeded was sent, or the grant */
    size_t count;        /* of its holds */
    uint64_t covered_in; /* the call that last touched some of them, */
    size_t covered;      /* and how many */
    bool is_wanted;      /* ten_etcd_groups_keep() keeps it alive */
    bool uncertain;      /* more may be attached: an answer was missing */
    uint64_t mark;       /* the revision of its holder's mark, as far as this handle knows it; 0: not known */
    uint64_t proof;      /* of what was read since that mark was made: ten_touch.seen. Each mark has another one */
    uint64_t proven_in;  /* the call in which the mark was compared */
    size_t looked_at;    /* what is touched is looked at in turn */
};

/* What is known of a namespace, from the last answer that told it. */
struct ten_etcd_space {
    bool known;
    char epoch[TEN_IDENTITY_MAX + 24]; /* the value of TEN_ETCD_EPOCH */
    uint64_t term;                     /* in which lives are counted */
    uint64_t longest_ms;
    uint64_t term_revision;
    uint64_t wait_revision; /* 0: nothing is in doubt */
    uint64_t wait_lease;    /* what that is attached to */
    uint64_t base;          /* of the numbers of the feed */
    uint64_t last;          /* number that was given */
    uint64_t cut;           /* number up to which the feed was cut, */
    uint64_t cut_at;        /* the revision of that entry, */
    uint64_t cut_revision;  /* and the revision of TEN_ETCD_TRIMMED */
};

typedef struct ten_etcd_store {
    ten_backend base; /* first */
    ten_etcd_settings settings;
    ten_etcd_link *link;
    /* The call under way (ten_etcd_begin): */
    uint64_t deadline_ms;
    ten_etcd_dir dir;      /* its namespace; NULL: none */
    ten_etcd_space *space; /* what is known of that */
    ten_etcd_head head;    /* of the last answer */
    uint64_t revision; /* the highest that was seen: it never goes down, unless the store came back older than it was */
    bool is_older;     /* it did, in this call */
    uint64_t checked;  /* for signs of a loss: with how many connections there had been, plus one */
    bool clock_known;  /* the member's wall clock less the boot clock of this host lies between these two, in ms */
    uint64_t clock_least;
    uint64_t clock_most;
    ten_map spaces;
    ten_etcd_group *groups;
    ten_map holds;                     /* by the key of the life */
    char marked[TEN_IDENTITY_MAX + 1]; /* of which store the marks are known */
    uint64_t call;                     /* the calls are counted */
    bool is_full; /* in this call: etcd has no room, so that what it has is used, of whatever term it is */
    ten_arena texts;
    ten_etcd_txn txn;
    ten_etcd_txn part;
    ten_buf scratch;
    ten_buf value;
    size_t fed;              /* entries of the feed that the last commit has written */
    bool answers;            /* the last request had an answer */
    ten_stream_watch *watch; /* NULL: nobody watches */
    struct ten_etcd_listener {
        ten_etcd_link *link; /* NULL: nothing was tried yet */
        struct curl_slist *headers;
        ten_buf body;
    } listener; /* of the thread that watches */
} ten_etcd_store;

static inline uint64_t ten_etcd_seconds(uint64_t ttl_ms) {
    return (ttl_ms + 999) / 1000;
}

/* etcd.c: requests, all of them by store->deadline_ms */
int ten_etcd_no_memory(ten_etcd_store *store);
/* A call on the backend begins: with its time-out, and about that namespace, whose name stays the caller's (NULL:
 * none). */
int ten_etcd_begin(ten_etcd_store *store, const char *namespace_name, uint64_t timeout_ms);
/* The call goes on with that namespace. */
int ten_etcd_use(ten_etcd_store *store, const char *namespace_name);
/* One request; *ret_answer is the caller's. TENURE_E_GONE: an etcd lease is not there. */
int ten_etcd_ask(ten_etcd_store *store, const char *path, const char *body, bool once, json_t **ret_answer);
/* Sets backend.wall_ms. */
void ten_etcd_tell_clock(ten_etcd_store *store);
/* Carries store->txn out. */
int ten_etcd_send(ten_etcd_store *store, bool once, json_t **ret_answer);
/* The same, where the answer does not matter. */
int ten_etcd_send_only(ten_etcd_store *store, bool once);
/* Several requests; calls[i] is what became of each. The caller frees the calls. */
int ten_etcd_ask_all(ten_etcd_store *store, ten_etcd_call *calls, size_t count);
/* A new etcd lease, granted in the term of store->head. */
int ten_etcd_grant(ten_etcd_store *store, uint64_t ttl_ms, uint64_t *ret_lease);

/* etcd_epoch.c: the store's identity, terms, and the state of a namespace */
/* PREFIX/store: the identity. */
ten_etcd_key ten_etcd_store_key(const ten_etcd_store *store);
/* Follows ten_etcd_begin(), once more if the call is tried again: finds out whether it is the store that it was, if
 * there may be another one behind the address. */
int ten_etcd_enter(ten_etcd_store *store);
/* The same for a call that relies on that identity. TEN_OTHER_EPOCH: the store has another one. */
int ten_etcd_enter_as(ten_etcd_store *store, const char *identity);
/* A reading ends with this: it was answered by a connection that was looked at. */
int ten_etcd_confirm(ten_etcd_store *store);
/* A transaction that reads the state of the namespace before anything else: begins store->txn; sends it, and takes the
 * state from the answer, whose first TEN_ETCD_STATE_READS operations it is. TENURE_E_SCHEMA: another version has
 * written the namespace. */
#define TEN_ETCD_STATE_READS 3u
void ten_etcd_state_begin(ten_etcd_store *store);
int ten_etcd_state_send(ten_etcd_store *store, json_t **ret_answer);
int ten_etcd_state_read(ten_etcd_store *store);
/* The parts of these two: for when the comparisons of store->txn hold, or do not. */
void ten_etcd_state_get(const ten_etcd_store *store, ten_etcd_list *list);
int ten_etcd_state_take(ten_etcd_store *store, const json_t *answer);
void ten_etcd_epoch_value(ten_buf *value, const char *identity, uint64_t epoch);
/* What the caller of a commit or a touch relies on. */
typedef struct ten_etcd_reliance {
    const char *identity;
    uint64_t epoch;
    bool is_written; /* the namespace's record, which is then checked by itself */
} ten_etcd_reliance;
/* Begins store->txn with comparisons of that; and sends it. TEN_OTHER_EPOCH: it is not so. 0 and *ret_held false: other
 * comparisons did not hold, and the state is known anew. */
void ten_etcd_rely_begin(ten_etcd_store *store, const ten_etcd_reliance *on);
int ten_etcd_rely_send(ten_etcd_store *store, const ten_etcd_reliance *on, bool once, json_t **ret_answer,
                       bool *ret_held);
/* A life that has vanished may still be believed in. */
bool ten_etcd_is_in_doubt(const ten_etcd_store *store);
/* Writes that the term is that of store->head, and that TTLs are up to this one, unless both are so. */
int ten_etcd_set_term(ten_etcd_store *store, uint64_t ttl_ms);

/* etcd_record.c: one record, and reading */
enum ten_etcd_life_word { TEN_ETCD_ENDED, TEN_ETCD_ENDLESS, TEN_ETCD_ENDS };
/* A record as it was read, with what is etcd's. */
typedef struct ten_etcd_sight {
    ten_record record;
    bool in_doubt;   /* it is alive by doubt alone */
    uint64_t lease;  /* that its life is attached to; 0: it has no end */
    uint64_t ttl_ms; /* of that */
} ten_etcd_sight;
/* Of one that is alive. */
static inline bool ten_etcd_is_endless(const ten_etcd_sight *sight) {
    return !sight->in_doubt && !sight->lease;
}
void ten_etcd_record_write(ten_buf *value, const ten_write *write, enum ten_etcd_life_word word);
/* Adds the reading of a record. */
void ten_etcd_record_get(const ten_etcd_store *store, ten_etcd_list *list, ten_key key);
/* Reads what the operations from *at on have answered, and moves on. The key stays as it is. */
int ten_etcd_record_take(ten_etcd_store *store, const json_t *answer, size_t *at, ten_etcd_sight *sight);
/* Adds the reading of up to TEN_ETCD_READING_MAX records to store->txn, and takes it from the answer, from that
 * operation on. */
void ten_etcd_reading_add(ten_etcd_store *store, const ten_etcd_sight *sights, size_t count);
int ten_etcd_reading_take(ten_etcd_store *store, const json_t *answer, size_t operation, ten_etcd_sight *sights,
                          size_t count);
/* The time that is left: not more than it has, since its holder may rely on it. */
int ten_etcd_tell_left(ten_etcd_store *store, ten_etcd_sight *sights, size_t count);
/* Reads records, but for the time that is left. */
int ten_etcd_look(ten_etcd_store *store, ten_etcd_sight *sights, size_t count);
int ten_etcd_read(ten_backend *base, const char *namespace_name, ten_record *records, size_t count,
                  uint64_t timeout_ms);
int ten_etcd_scan(ten_backend *base, const ten_scan *scan, ten_record_fn each, void *userdata, uint64_t timeout_ms);

/* etcd_group.c: what this handle has attached to what */
ten_etcd_hold *ten_etcd_hold_find(const ten_etcd_store *store, const char *key);
/* Notes that the key is attached to the group. */
int ten_etcd_hold_set(ten_etcd_store *store, ten_etcd_group *group, const char *key);
void ten_etcd_hold_drop(ten_etcd_store *store, const char *key);
/* This handle has raised the mark of that holder in the transaction of store->head, by the operation that was such a
 * part. */
void ten_etcd_mark_raised(const ten_etcd_store *store, const char *name, const json_t *part);
/* This handle has written the mark of that group, under which its holds are about to be read. Before, it had that
 * revision. */
void ten_etcd_mark_made(const ten_etcd_store *store, ten_etcd_group *group, uint64_t before);
/* Another call on the store with that identity begins: what has ended is forgotten, and what is known by marks of
 * another store, whose revisions may be the same. */
void ten_etcd_groups_begin(ten_etcd_store *store, const char *identity);
/* There is an answer: what this call was about to attach is attached, or not. */
void ten_etcd_groups_answered(const ten_etcd_store *store);
/* One that lasts for the TTL from this call on: kept alive, or granted. */
int ten_etcd_group_get(ten_etcd_store *store, const char *name, uint64_t ttl_ms, ten_etcd_group **ret_group);
/* Those that are wanted. Those that were kept alive have kept_in set; those that have ended are dropped. */
int ten_etcd_groups_keep(ten_etcd_store *store);
/* Whether that counts, after the answer of store->head: the same member has answered in the same term, so that it was
 * the leader that kept it alive. */
bool ten_etcd_group_is_kept(const ten_etcd_store *store, const ten_etcd_group *group);
size_t ten_etcd_groups_count(const ten_etcd_store *store);
/* In the namespace of this call. */
bool ten_etcd_group_is_of(const ten_etcd_store *store, const ten_etcd_group *group, const char *name);
/* NULL: it is none of this handle's; so is 0. */
ten_etcd_group *ten_etcd_group_by_lease(const ten_etcd_store *store, uint64_t lease);
/* Of a handle that closes: empty ones end. */
void ten_etcd_groups_close(ten_etcd_store *store);
void ten_etcd_groups_free(ten_etcd_store *store);

/* etcd_commit.c, etcd_touch.c */
int ten_etcd_commit(ten_backend *base, ten_commit *commit, uint64_t timeout_ms);
int ten_etcd_touch(ten_backend *base, const char *namespace_name, const char *identity, uint64_t epoch,
                   ten_touch *touches, size_t count, uint64_t timeout_ms);

/* etcd_feed.c */
#define TEN_ETCD_PLACES 1024u /* numbers that one transaction can give */
/* Adds an entry to a part of a transaction. */
void ten_etcd_feed_put(ten_etcd_store *store, ten_etcd_txn *part, uint64_t base, const ten_entry *entry, size_t place);
/* Now and then: cuts the feed when it has become too long. A failure is left to the next time. */
void ten_etcd_feed_trim(ten_etcd_store *store);
int ten_etcd_feed(ten_backend *base, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                  void *userdata, ten_feed_range *ret_range, uint64_t timeout_ms);
int ten_etcd_unfeed(ten_backend *base, const char *namespace_name, const char *const *ids, size_t count,
                    uint64_t timeout_ms);

/* etcd_watch.c */
int ten_etcd_watch_open(ten_backend *base, const char *namespace_name, int *ret_fd);
void ten_etcd_watch_clear(ten_backend *base);

/* etcd_check.c */
int ten_etcd_check(ten_backend *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms);

#endif
