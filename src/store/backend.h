/*
 * What a backend is: a shelf of records with compare-and-commit. It decides nothing about leases. apply.c and its
 * neighbours make everything that the store contract (store.h) promises from these functions, once for all backends;
 * src/rules decides what an operation does. tests/backend is this page in code: a new backend has to pass it first.
 *
 * Records. rules/record.h describes their parts. A key is (namespace, kind, id). Ids and names have up to 255 bytes and
 * no NUL; namespaces are as base/id.h defines them; values are texts of up to 1 MiB. All of them are data, never part
 * of a statement, a pattern or a path. A dead record stays readable until it is removed.
 *
 * Versions. Each write gives the record a version that this key never had before in its epoch, removals included. Only
 * equality counts. Versions lie between 1 and 2^63 - 1. A counter of the namespace or of the store, a transaction's
 * number or a revision will do. Extending a life does not change the version.
 *
 * Lives. A record is alive until its end by the store's own clock, or for ever, or it is dead. At its very end it is
 * dead. Absent records are dead. Whether a record is alive is judged when the store executes the call, after every lock
 * that it had to wait for. A store with locks makes the absent rows, locks all in the order (kind, id), and reads the
 * clock in a *later* statement; in the statement that waits it would be read too early. If the clock is set, no end may
 * come earlier than the life was written for, as far as the store can detect that.
 *
 * Identity and epoch. A backend has a text that tells whether it is still the same store. Whatever could be swapped or
 * lost behind its clients belongs into that text: a server's run or replication id, a system identifier and timeline, a
 * file. A namespace's NAMESPACE record has as its name the identity under which its epoch began, and as its number the
 * number of the epoch. commit() and touch() name the identity and the epoch that their caller relies on. In the same
 * atomic step in which they write, they compare the identity with that of the store at this moment, and both with the
 * NAMESPACE record, which must exist. If one differs, nothing is written, and the call returns TEN_OTHER_EPOCH. The
 * exception is a commit that writes the NAMESPACE record: its own check covers that record, so only the identity is
 * compared with that of the store. Thus nothing that was prepared before an epoch is written after it began.
 *
 * Changes. A commit has several changes, each with an outcome of its own. A change consists of checks, writes and
 * entries for the feed. It is carried out as a whole or not at all.
 *  - A check holds if the record has that version (0: it is absent; TEN_VERSION_ANY: either) and is alive or dead as
 *    the check says. TEN_CHECK_FOREIGN holds for foreign records and for no others; no other check holds for a foreign
 *    record. A write replaces a foreign record.
 *  - All checks of a commit are judged by the state before it. The caller makes sure that no change writes a record
 *    that another change of the same commit checks or writes, with one exception: several changes may *raise* the same
 *    record (TEN_WRITE_RAISE: it gets another version, and nothing else changes), unless it is a LEASE. It is raised
 *    once. Raising an absent record does nothing.
 *  - Among the checks of a change are all records that it writes, except for those that it raises, and the record whose
 *    end a life takes (ten_life.with).
 *  - A change whose checks do not hold is a conflict. It returns the records of all of its checks as they are at that
 *    moment, so that its caller knows who won.
 *  - If a store cannot carry out two changes of one commit together (it has a limit, or writes a record once in a
 *    transaction), it carries them out one after the other by itself.
 *  - A change that makes a record or writes a registration may fail with an error of its own: TENURE_E_FULL, where
 *    little room is left for those that exist.
 * A change has at most TEN_CHANGE_TARGETS ids of targets; a commit has any number of changes. It takes one round trip,
 * where the server allows that.
 *
 * The feed. Each namespace has one: entries with numbers that grow and become visible in their order. So the numbers
 * come from a row or a counter that is locked last and until the commit, never from a sequence: a reader that has seen
 * a number will see none below it. Entries of a commit have the order of its changes; those of a change are adjacent.
 * The store stamps each with its wall clock. The backend trims its feed by itself: it keeps at least TEN_FEED_MAX
 * entries, more up to TEN_FEED_MOST while they are younger than TEN_FEED_YOUNG_MS, and none that is older than
 * TEN_FEED_AGE_MS. It may be late with that by 2,000 entries. A change of the feed makes the watch() descriptors of
 * that namespace readable within 50 ms, in every process.
 *
 * Failure. A call that returned 0 has done what it says, and commits last as docs/GUARANTEES.md promises for the store;
 * touches need not survive a loss of power. After an error all, some or none of the changes may have been carried out;
 * a connection on which a late answer could still arrive is closed, and the next call connects again, within its own
 * time-out. Every call is bounded by its time-out, and one handle is used by one thread at a time. What a call returned
 * is valid until the next call on the handle. Callbacks do not use the backend; if one returns a value other than 0, it
 * ends the call, which returns that value.
 */
#ifndef TEN_STORE_BACKEND_H
#define TEN_STORE_BACKEND_H

#include "rules/record.h"
#include "store/store.h"

#define TEN_CHANGE_TARGETS 24u /* as many fit into one transaction of etcd */
#define TEN_IDENTITY_MAX   255u
#define TEN_OTHER_EPOCH    1 /* returned by commit() and touch(); see above */

typedef struct ten_backend ten_backend;

/* ---- commit -------------------------------------------------------------------------------------------- */

enum ten_check_life { TEN_CHECK_EITHER, TEN_CHECK_ALIVE, TEN_CHECK_DEAD, TEN_CHECK_FOREIGN };

typedef struct ten_check {
    ten_key key;
    uint64_t version; /* 0: absent; TEN_VERSION_ANY */
    const char *name; /* of the record in this version, for a backend that needs it; NULL: the caller does not know */
    enum ten_check_life life;
    ten_record present; /* result of a conflict: all of the record */
} ten_check;

enum ten_write_kind {
    TEN_WRITE_PUT,    /* value, name, number, life */
    TEN_WRITE_RAISE,  /* only the version changes. Not checked by itself; see above */
    TEN_WRITE_REMOVE, /* the record is removed; its versions are never used again */
};

typedef struct ten_write {
    enum ten_write_kind kind;
    ten_key key;
    const char *value;
    const char *name; /* not NULL */
    uint64_t number;
    ten_life life;
    uint64_t version; /* result: the new one */
} ten_write;

/* An entry of the feed. */
typedef struct ten_entry {
    const char *id;   /* unfeed() of this target takes it out; NULL: it stays, whatever is forgotten */
    const char *text; /* what the rules make of it (rules/feed.h), up to 2 KiB */
    uint64_t number;  /* the store sets these two when it is written, and gives them when it is read */
    uint64_t at_ms;
} ten_entry;

typedef struct ten_commit_change {
    ten_check *checks;
    size_t check_count;
    ten_write *writes;
    size_t write_count;
    const ten_entry *entries;
    size_t entry_count;
    bool conflict; /* result: it was not carried out, and the checks have the records */
    int error;     /* result: it was not carried out, and this is why; 0: no */
} ten_commit_change;

typedef struct ten_commit {
    const char *namespace_name;
    const char *identity; /* that the caller relies on */
    uint64_t epoch;
    uint64_t least_number; /* the entries' numbers are above this, too: an epoch leaves all former cursors behind */
    ten_commit_change *changes;
    size_t count;
} ten_commit;

/* The check of that record: there is one of each record that a change writes, or whose end it takes. Else NULL. */
static inline const ten_check *ten_check_of(const ten_commit_change *change, ten_key key) {
    for (size_t i = 0; i < change->check_count; i++)
        if (ten_key_is(change->checks[i].key, key))
            return &change->checks[i];
    return NULL;
}

/* The exception above: only the identity is compared. */
static inline bool ten_change_writes_namespace(const ten_commit_change *change) {
    for (size_t i = 0; i < change->write_count; i++)
        if (change->writes[i].key.kind == TEN_KIND_NAMESPACE)
            return true;
    return false;
}

static inline bool ten_commit_writes_namespace(const ten_commit *commit) {
    for (size_t i = 0; i < commit->count; i++)
        if (ten_change_writes_namespace(&commit->changes[i]))
            return true;
    return false;
}

/* ---- touch --------------------------------------------------------------------------------------------- */

typedef struct ten_touch {
    ten_key key;
    uint64_t version; /* TEN_VERSION_ANY: no matter */
    const char *name; /* as it is known. A record with another name is not extended */
    uint64_t ttl_ms;
    uint64_t seen; /* what the last touch left here, for the backend; or the version of a later write of this handle */
    bool extended; /* result */
    uint64_t present; /* result: the version that it has; 0: absent */
} ten_touch;

/* ---- the rest ------------------------------------------------------------------------------------------ */

enum ten_scan_names { TEN_SCAN_ALL, TEN_SCAN_NAMED, TEN_SCAN_UNNAMED };

typedef struct ten_scan {
    const char *namespace_name; /* NULL: the NAMESPACE records of all, each with its namespace as the id */
    enum ten_kind kind;
    const char *after; /* ids after this one, in byte order; "": from the first */
    size_t limit;      /* not 0 */
    enum ten_scan_names names;
} ten_scan;

/* What there is of a feed: after `before` nothing is missing, and `last` is the newest number that was given. Both 0:
 * it never had an entry. */
typedef struct ten_feed_range {
    uint64_t before;
    uint64_t last;
} ten_feed_range;

typedef int (*ten_record_fn)(const ten_record *record, void *userdata);
typedef int (*ten_entry_fn)(const ten_entry *entry, void *userdata);

typedef struct ten_backend_ops {
    size_t size; /* of the handle, which starts with a ten_backend */
    /* A write is confirmed only when it has returned (Redis with wait_replicas): an epoch begins with a quarantine
     * without an end, and the TTL counts from the confirmation. */
    bool confirms;
    /* What a read shows may be lost yet, until a later touch has returned (Redis with wait_replicas). */
    bool confirms_reads;
    uint64_t quarantine_min_ms; /* of an epoch, where it is not known how long what was lost may last */
    /* Others can delete records by hand (Redis): the tokens of a target that has none begin at the store's clock in ms.
     */
    bool tokens_from_clock;
    /* As in ten_store_ops. The handle is zeroed but for its base. */
    int (*open)(ten_backend *backend, const ten_url *url, uint64_t timeout_ms);
    void (*close)(ten_backend *backend);
    /* Fills in the records of these keys, as they are at one moment, where the server allows that in one request. */
    int (*read)(ten_backend *backend, const char *namespace_name, ten_record *records, size_t count,
                uint64_t timeout_ms);
    int (*commit)(ten_backend *backend, ten_commit *commit, uint64_t timeout_ms);
    /* Extends each record that is alive and has that version and that name, independently of the others: it ends now +
     * its TTL. One that already ends later stays as it is. Where the clock can be set back it is not `extended` then:
     * the caller reads it, and decides. Without touches (namespace NULL) it is one round trip without any effect. */
    int (*touch)(ten_backend *backend, const char *namespace_name, const char *identity, uint64_t epoch,
                 ten_touch *touches, size_t count, uint64_t timeout_ms);
    /* One page, in byte order of ids. Every record that exists throughout is given, whatever else comes and goes. */
    int (*scan)(ten_backend *backend, const ten_scan *scan, ten_record_fn each, void *userdata, uint64_t timeout_ms);
    /* Up to `limit` entries with numbers above `after`, oldest first. *ret_range is set before the first of them is
     * given. None is given where some are missing: `after` is below the range, or above it. */
    int (*feed)(ten_backend *backend, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                void *userdata, ten_feed_range *ret_range, uint64_t timeout_ms);
    /* Takes the entries with these ids out of the feed. The others, and the range, stay as they are. It goes in steps,
     * so that it does not delay other clients. */
    int (*unfeed)(ten_backend *backend, const char *namespace_name, const char *const *ids, size_t count,
                  uint64_t timeout_ms);
    /* As in ten_store_ops. */
    int (*watch)(ten_backend *backend, const char *namespace_name, int *ret_fd);
    void (*watch_clear)(ten_backend *backend);
    int (*check)(ten_backend *backend, tenure_check_fn each, void *userdata, uint64_t timeout_ms);
} ten_backend_ops;

/* What every backend's handle starts with. The first part is filled in before open(). */
struct ten_backend {
    const ten_backend_ops *ops;
    const ten_clock *clock;
    ten_error *error;               /* where failures go */
    ten_capabilities *capabilities; /* open() may change them */
    /* Of the last answer to read(), commit(), touch() or feed(): */
    uint64_t wall_ms; /* the store's Unix time */
    char identity[TEN_IDENTITY_MAX + 1];
    /* The store may have lost namespaces as a whole: one that is not there begins with an epoch. (SQLite: the file was
     * replaced beside its side file. Redis: it cannot tell a new store from an empty one.) */
    bool lost;
    uint64_t lost_ms; /* how long a life that was lost may still last; TEN_FOREVER: that is not known */
};

#endif
