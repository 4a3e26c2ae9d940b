/*
 * What is said to etcd and what it answers, as text: keys and transactions. A transaction is a list of
 * comparisons and a list of operations that take effect together when all comparisons hold. No network here.
 */
#ifndef TEN_STORE_ETCD_TXN_H
#define TEN_STORE_ETCD_TXN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/etcd/etcd_settings.h"
#include "store/store.h"

/* etcd refuses a transaction with more comparisons or operations than 128, unless told otherwise. */
#define TEN_ETCD_TXN_MAX 128u
#define TEN_ETCD_KEY_MAX (TEN_ETCD_PREFIX_MAX + TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 16u)

/* The keys of a namespace, PREFIX/NAMESPACE/KIND/NAME. */
enum ten_etcd_kind {
    TEN_ETCD_LEASE,      /* a target's lease, gone when it ends: attached to an etcd lease */
    TEN_ETCD_FENCE,      /* a target's last grant: the token counter; kept until the target is forgotten */
    TEN_ETCD_TARGET,     /* the registry */
    TEN_ETCD_INSTANCE,   /* a live instance: attached */
    TEN_ETCD_MEMBER,     /* the same, kept until somebody notices that the instance has gone */
    TEN_ETCD_GONE,       /* a tombstone: attached */
    TEN_ETCD_GROUP,      /* written by others when they change what is attached to that etcd lease: attached */
    TEN_ETCD_FEED,       /* changes */
    TEN_ETCD_TRIMMED,    /* the revision up to which the feed was cut; no name */
    TEN_ETCD_TERM,       /* the raft term that leases are counted in; no name */
    TEN_ETCD_WAIT,       /* while it is there, leases of earlier terms or epochs may be believed: attached; no name */
    TEN_ETCD_EPOCH,      /* what the namespace is known by, and from which tokens on it grants; no name */
    TEN_ETCD_CHECKPOINT, /* what a holder keeps beside its lease; goes with the fence */
};
void ten_etcd_key(char key[TEN_ETCD_KEY_MAX + 1], const char *prefix, const char *namespace_name,
                  enum ten_etcd_kind kind, const char *name);

typedef struct ten_etcd_txn {
    ten_buf compares;
    ten_buf operations;
    ten_buf otherwise; /* operations for when a comparison fails */
    ten_buf body;
    size_t compare_count;
    size_t operation_count;
    size_t otherwise_count;
} ten_etcd_txn;

void ten_etcd_txn_clear(ten_etcd_txn *txn);
void ten_etcd_txn_free(ten_etcd_txn *txn);
/* The key was last written at that revision; 0: it is not there. */
void ten_etcd_txn_compare(ten_etcd_txn *txn, const char *key, uint64_t revision);
/* The key has that value. */
void ten_etcd_txn_compare_value(ten_etcd_txn *txn, const char *key, const char *value);
void ten_etcd_txn_put(ten_etcd_txn *txn, const char *key, const char *value, uint64_t lease);
/* Writes the key once more, as it is, where and as long as it is; or with another value. */
void ten_etcd_txn_touch(ten_etcd_txn *txn, const char *key);
void ten_etcd_txn_put_again(ten_etcd_txn *txn, const char *key, const char *value);
void ten_etcd_txn_delete(ten_etcd_txn *txn, const char *key);
void ten_etcd_txn_get(ten_etcd_txn *txn, const char *key);
void ten_etcd_txn_get_otherwise(ten_etcd_txn *txn, const char *key);
/* Everything that begins with the key, in order, from `after` on when that is given. */
struct ten_etcd_range {
    const char *after; /* exclusive; NULL: from the start */
    const char *from;  /* inclusive; NULL: from the start */
    uint64_t limit;    /* 0: all */
    uint64_t created_since;
    bool keys_only;
    bool by_creation; /* sorted by the revision at which they were created, not by key */
};
void ten_etcd_txn_get_all(ten_etcd_txn *txn, const char *prefix_key, const struct ten_etcd_range *range);
/* Deletes from the first key up to, and without, the second. */
void ten_etcd_txn_delete_between(ten_etcd_txn *txn, const char *from, const char *to);
/* The whole request; NULL: out of memory. */
const char *ten_etcd_txn_body(ten_etcd_txn *txn);

/* An answer's part: the n-th operation's keys, and a key's facts. */
const json_t *ten_etcd_kvs(const json_t *answer, size_t operation);
bool ten_etcd_has_more(const json_t *answer, size_t operation);
/* How many keys there are in the range, also when fewer were asked for. */
uint64_t ten_etcd_count(const json_t *answer, size_t operation);

/* A key as it was read. */
typedef struct ten_etcd_kv {
    uint64_t revision; /* last written at; 0: it is not there */
    uint64_t created;
    uint64_t lease;
    json_t *value; /* NULL: not there, or not JSON; the caller's */
} ten_etcd_kv;
/* The first key of the n-th operation, or of `item`. */
ten_etcd_kv ten_etcd_kv_read(const json_t *item, ten_buf *scratch);
ten_etcd_kv ten_etcd_kv_at(const json_t *answer, size_t operation, ten_buf *scratch);
void ten_etcd_kv_free(ten_etcd_kv *kv);

#endif
