/*
 * What a backend is: a shelf of records with compare-and-commit. It decides nothing about leases. Everything that the
 * store contract (store.h) promises is made of these functions by apply.c and its neighbours, once for all backends;
 * what an operation does is decided by src/rules. tests/backend is this page in code, and a new backend passes it
 * first.
 *
 * Records. rules/record.h has their parts. A key is (namespace, kind, id). Ids and names are up to 255 bytes, without a
 * NUL; namespaces as base/id.h has them; values are texts of up to 1 MiB. All of them are data, never part of a
 * statement, a pattern or a path. A record that is dead stays readable until it is removed.
 *
 * Versions. Each write gives the record a version that this key never had before within its epoch, also before a
 * removal. Only equality counts. Versions lie between 1 and 2^63 - 1. A counter of the namespace will do, or of the
 * whole store, a transaction's number, a revision. Extending a life does not change the version.
 *
 * Lives. A record is alive until its end by the store's own clock, for ever, or it is dead. At its very end it is dead.
 * Absent records are dead. Whether a record is alive is judged when the store executes the call, after every lock that
 * it had to wait for. With locks: make the absent rows, lock all in the order (kind, id), and read the clock in a
 * *later* statement; a clock that is read in the statement that waits is too early. No end may come earlier by a
 * setting of the clock than the life was written for, as far as the store can see to it.
 *
 * Identity and epoch. A backend can tell by some text whether it is still the store that it was: whatever could be
 * swapped or lost under its clients belongs into that (a server's run or replication id, a system identifier and
 * timeline, a file). The record NAMESPACE of a namespace has as its name the identity under which its epoch began, and
 * as its number that of the epoch. commit() and touch() name the identity and the epoch that their caller relies on. In
 * the same atomic step in which they write, both are compared: the identity with that of the store at this moment, and
 * both with the record NAMESPACE, which must be there. If one differs, nothing happens, and the call returns
 * TEN_OTHER_EPOCH. One exception: a commit that writes the record NAMESPACE checks that by its own check, so only the
 * identity is compared with that of the store. So nothing that was prepared before an epoch lands after it.
 *
 * Changes. A commit has several changes, each with an outcome of its own. A change is checks, writes and entries for
 * the feed: all of it or nothing.
 *  - A check holds if the record has that version (0: it is absent; TEN_VERSION_ANY: either) and is alive or dead as
 *  the check
 *    says. Of a record that is foreign only TEN_CHECK_FOREIGN holds, and of no other: who forces it, writes what is
 *    there over.
 *  - All checks of a commit are judged by the state before it. The caller sees to it that no change writes a record
 *  that
 *    another change of the same commit checks or writes, with one exception: several may *raise* the same one
 *    (TEN_WRITE_RAISE: it gets another version, and nothing else changes), which is no LEASE. It is raised once. Every
 *    record that a change writes is among its own checks, except for what it raises, and so is the record whose end a
 *    life takes (ten_life.with). Raising an absent record does nothing.
 *  - A change whose checks do not hold is a conflict. It brings the records of all of its checks as they are at that
 *  moment,
 *    so that its caller knows who won.
 *  - If a store cannot carry out two changes of one commit because of each other (it has a limit, or writes a record
 *  once a
 *    transaction), it carries out one after the other by itself.
 *  - A change that makes a record or writes a registration may be refused with an error of its own: TENURE_E_FULL,
 *  where little room is left
 *    for those that exist.
 * A change has at most TEN_CHANGE_TARGETS ids of targets; a commit any number of changes. One round trip, where the
 * server allows it.
 *
 * The feed. Each namespace has one: entries with numbers that grow and become visible in their order. So numbers come
 * from a row or a counter that is locked last and until the commit, never from a sequence: a reader that has seen a
 * number will see none below it. Entries of a commit have the order of its changes; those of a change keep together.
 * The store gives each its wall clock. The backend trims its feed by itself: it keeps TEN_FEED_MAX entries at least,
 * more up to TEN_FEED_MOST while they are younger than TEN_FEED_YOUNG_MS, and none that is older than TEN_FEED_AGE_MS;
 * it may be late with that by 2,000 entries. A change of the feed makes watch() descriptors of that namespace readable
 * within 50 ms, in every process.
 *
 * Failure. A call that returned 0 has done what it says, and commits last as docs/GUARANTEES.md promises for the store;
 * touches need not survive a loss of power. After an error all, some or none of the changes may have been carried out.
 * The connection on which a late answer could still arrive is gone then. The next call connects again, within its own
 * time-out. Every call is bounded by its time-out, and one handle is used by one thread at a time. What a call returned
 * is valid until the next call on the handle. Callbacks do not use the backend; what they return, if it is not 0, ends
 * the call and is returned.
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
    const char
        *name; /* that the record has in this version, for a backend that needs it; NULL: the caller does not know */
    enum ten_check_life life;
    ten_record present; /* result of a conflict: all of the record */
} ten_check;

enum ten_write_kind {
    TEN_WRITE_PUT,    /* value, name, number, life */
    TEN_WRITE_RAISE,  /* all as it is, but for the version. Not checked by itself; see above */
    TEN_WRITE_REMOVE, /* the record is gone; its versions never come again */
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
    uint64_t number;  /* these two are the store's: given when it is written, told when it is read */
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
    bool extended;    /* result */
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
    uint64_t quarantine_min_ms; /* of an epoch, where nobody knows how long what was lost may last */
    /* Others can delete records by hand (Redis): the tokens of a target that has none begin at the store's clock in ms.
     */
    bool tokens_from_clock;
    /* As in ten_store_ops. The handle is zeroed but for its base. */
    int (*open)(ten_backend *backend, const ten_url *url, uint64_t timeout_ms);
    void (*close)(ten_backend *backend);
    /* Fills in what the keys of these records have. As of one moment, where the server allows it in one request. */
    int (*read)(ten_backend *backend, const char *namespace_name, ten_record *records, size_t count,
                uint64_t timeout_ms);
    int (*commit)(ten_backend *backend, ten_commit *commit, uint64_t timeout_ms);
    /* Extends each record that is alive and has that version and that name: it ends now + its TTL. One that ends later
     * than that already stays as it is. Where the clock can be set back it is not `extended` then: its caller reads it,
     * and decides. Each by itself. Without any touch it is one round trip that leaves nothing to see, and compares
     * nothing (namespace NULL). */
    int (*touch)(ten_backend *backend, const char *namespace_name, const char *identity, uint64_t epoch,
                 ten_touch *touches, size_t count, uint64_t timeout_ms);
    /* One page, in byte order of ids. Whoever was there throughout is given, whatever else comes and goes. */
    int (*scan)(ten_backend *backend, const ten_scan *scan, ten_record_fn each, void *userdata, uint64_t timeout_ms);
    /* Up to `limit` entries with numbers above `after`, oldest first. *ret_range is set before the first of them is
     * given. None is given where some are missing: `after` is below the range, or above it. */
    int (*feed)(ten_backend *backend, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                void *userdata, ten_feed_range *ret_range, uint64_t timeout_ms);
    /* Takes the entries with these ids out of the feed. The others, and the range, stay as they are. In steps that keep
     * nobody waiting. */
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
