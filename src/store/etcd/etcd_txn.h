/*
 * What is said to etcd and what it answers, as text: keys and transactions. A transaction is a list of comparisons and
 * a list of operations that take effect together when all comparisons hold; a part of it may be a transaction of its
 * own, with an outcome of its own. All comparisons are judged by the state before the whole. No network here.
 */
#ifndef TEN_STORE_ETCD_TXN_H
#define TEN_STORE_ETCD_TXN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "rules/record.h"
#include "store/etcd/etcd_settings.h"
#include "store/store.h"

/* etcd refuses a transaction with more comparisons or operations than 128, unless told otherwise. Those of a part count
 * together with those of the whole. */
#define TEN_ETCD_TXN_MAX 128u
#define TEN_ETCD_KEY_MAX (TEN_ETCD_PREFIX_MAX + TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 24u)

/* The keys below PREFIX/NAMESPACE/, beside those of records. */
enum ten_etcd_place {
    TEN_ETCD_EPOCH,   /* the identity and the number of the epoch, as the record NAMESPACE has them: for comparisons */
    TEN_ETCD_STATE,   /* what follows begins with this */
    TEN_ETCD_TERM,    /* the raft term that lives are counted in, and the longest TTL */
    TEN_ETCD_WAIT,    /* while it is there, lives of earlier terms may be believed in: attached */
    TEN_ETCD_NEWEST,  /* of the feed: the base of its numbers, and how many its last transaction gave */
    TEN_ETCD_TRIMMED, /* of the feed: the number up to which it was cut, and the revision */
    TEN_ETCD_FEED,    /* an entry */
    TEN_ETCD_MARK,    /* a holder's: whoever writes to one of its leases writes this, too */
    TEN_ETCD_NAMED,   /* a lease's, by its id: the record has a name */
};
typedef struct ten_etcd_key {
    char text[TEN_ETCD_KEY_MAX + 1];
} ten_etcd_key;
/* Where the keys of a namespace are: below PREFIX/NS/. */
typedef struct ten_etcd_dir {
    const char *prefix;
    const char *namespace_name;
} ten_etcd_dir;
ten_etcd_key ten_etcd_place(const ten_etcd_dir *dir, enum ten_etcd_place place, const char *name); /* NULL: "" */
/* PREFIX/NS/record/KIND/ID: what a record is. */
ten_etcd_key ten_etcd_record_key(const ten_etcd_dir *dir, ten_key of);
/* Whether records of that kind can end. Then PREFIX/NS/KIND/ID is there while the record is alive, attached to an etcd
 * lease if it has an end. */
bool ten_etcd_has_life(enum ten_kind kind);
ten_etcd_key ten_etcd_life_key(const ten_etcd_dir *dir, ten_key of);
/* PREFIX/tenure/NS (no namespace has the name "tenure"): there is a namespace of that name. */
ten_etcd_key ten_etcd_namespace_key(const ten_etcd_dir *dir);
/* PREFIX/NAME: of all namespaces. */
ten_etcd_key ten_etcd_top_key(const char *prefix, const char *name);

typedef struct ten_etcd_list {
    ten_buf text;
    size_t count;
} ten_etcd_list;
typedef struct ten_etcd_txn {
    ten_etcd_list compares;
    ten_etcd_list operations;
    ten_etcd_list otherwise; /* operations for when a comparison fails */
    ten_buf body;
} ten_etcd_txn;

void ten_etcd_txn_clear(ten_etcd_txn *txn);
void ten_etcd_txn_free(ten_etcd_txn *txn);
/* The most comparisons or operations that it has. */
size_t ten_etcd_txn_size(const ten_etcd_txn *txn);

/* The key was last written at that revision; 0: it is not there. */
void ten_etcd_txn_compare(ten_etcd_txn *txn, const char *key, uint64_t revision);
void ten_etcd_txn_compare_exists(ten_etcd_txn *txn, const char *key);
void ten_etcd_txn_compare_value(ten_etcd_txn *txn, const char *key, const char *value);
void ten_etcd_txn_compare_lease(ten_etcd_txn *txn, const char *key, uint64_t lease);

/* Lease 0: none. A value NULL deletes the key. */
void ten_etcd_txn_put(ten_etcd_txn *txn, const char *key, const char *value, uint64_t lease);
/* An empty value, whatever was there. */
void ten_etcd_txn_put_mark(ten_etcd_txn *txn, const char *key, uint64_t lease);
/* Writes the key once more, as it is, if it is there: a part with one operation. */
void ten_etcd_txn_raise(ten_etcd_txn *txn, const char *key);
/* Deletes from the first key up to, and without, the second. */
void ten_etcd_txn_delete_between(ten_etcd_txn *txn, const char *from, const char *to);
/* These two go to `operations`, or to `otherwise`. */
void ten_etcd_get(ten_etcd_list *list, const char *key);
/* Everything that begins with the key, which ends with a slash, in order. */
struct ten_etcd_range {
    const char *after; /* exclusive; NULL: from the start */
    const char *from;  /* inclusive; NULL: from the start */
    uint64_t limit;    /* 0: all */
    uint64_t created_since;
    bool by_creation; /* sorted by the revision at which they were created, not by key */
};
void ten_etcd_get_all(ten_etcd_list *list, const char *prefix_key, const struct ten_etcd_range *range);
/* The part becomes an operation. */
void ten_etcd_txn_add_part(ten_etcd_txn *txn, ten_etcd_txn *part);
/* The whole request; NULL: out of memory. */
const char *ten_etcd_txn_body(ten_etcd_txn *txn);

/* Of an answer: when the key that the n-th operation has marked or raised had been written before; 0: it was not
 * there. */
uint64_t ten_etcd_written_before(const json_t *answer, size_t operation);
/* The n-th operation's keys, or the answer of the part that it was. */
const json_t *ten_etcd_kvs(const json_t *answer, size_t operation);
const json_t *ten_etcd_part(const json_t *answer, size_t operation);
bool ten_etcd_succeeded(const json_t *answer);
bool ten_etcd_has_more(const json_t *answer, size_t operation);
/* How many keys there are in the range, also when fewer were asked for. */
uint64_t ten_etcd_count(const json_t *answer, size_t operation);

/* A key as it was read. */
typedef struct ten_etcd_kv {
    uint64_t revision; /* last written at; 0: it is not there */
    uint64_t created;
    uint64_t lease;
    const char *value; /* in the buffer; "" if it is not there */
} ten_etcd_kv;
/* The first key of the n-th operation, or `item`. The buffer has the value until the next one is read. */
ten_etcd_kv ten_etcd_kv_read(const json_t *item, ten_buf *value);
ten_etcd_kv ten_etcd_kv_at(const json_t *answer, size_t operation, ten_buf *value);
/* The key of an item; "": there is none. */
const char *ten_etcd_kv_key(const json_t *item, ten_buf *key);

#endif
