/*
 * The inside of the Redis backend: its handle, and how its parts call a script. redis.c opens and connects,
 * redis_records.c reads and touches records, redis_commit.c commits them, redis_scan.c lists them and has the feed,
 * redis_watch.c receives notices of changes, redis_check.c is the doctor's.
 */
#ifndef TEN_STORE_REDIS_STATE_H
#define TEN_STORE_REDIS_STATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "store/backend.h"
#include "store/common/dial.h"
#include "store/common/notice_watch.h"
#include "store/redis/redis_layout.h"
#include "store/redis/redis_link.h"

enum ten_redis_script {
    TEN_REDIS_READ,
    TEN_REDIS_COMMIT,
    TEN_REDIS_TOUCH,
    TEN_REDIS_SCAN,
    TEN_REDIS_READ_FEED,
    TEN_REDIS_UNFEED,
    TEN_REDIS_SWEEP,
    TEN_REDIS_EXCHANGED,
    TEN_REDIS_SCRIPT_COUNT,
};

#define TEN_REDIS_SHA_SIZE     41u
#define TEN_REDIS_VERSION_SIZE 16u                                               /* digits, in a record */
#define TEN_REDIS_END_SIZE     13u                                               /* the same */
#define TEN_REDIS_HEAD_SIZE    (TEN_REDIS_VERSION_SIZE + 1 + TEN_REDIS_END_SIZE) /* before its name; see redis.lua */
#define TEN_REDIS_FOREVER      UINT64_C(9999999999999)                           /* an end */

/* The words of one command, collected. */
typedef struct ten_redis_words {
    ten_buf text; /* of the word that is not complete yet */
    ten_buf done; /* the others, as they are sent */
    size_t count;
} ten_redis_words;

/* From the first to the last of these numbers only this handle's commits have raised the namespace's: what it knew of a
 * record at one of them, it knows at the last. */
typedef struct ten_redis_alone {
    const ten_redis_space *space;
    uint64_t first, last;
} ten_redis_alone;

typedef struct ten_redis_store {
    ten_backend base;
    ten_notice_watch watch;
    ten_redis_link *watch_link; /* the subscription has a connection of its own; NULL: down */
    ten_redis_settings *settings;
    ten_redis_layout layout;
    uint64_t wait_replicas;
    bool fresh;
    ten_redis_link *link; /* NULL: not connected */
    ten_dial dial;
    char shas[TEN_REDIS_SCRIPT_COUNT][TEN_REDIS_SHA_SIZE];
    bool enough; /* set by one that takes a reply: the calls that are left are not sent */
    ten_redis_words words;
    struct ten_redis_parts *parts; /* redis_commit.c */
    struct {
        char replication[49]; /* id that was met last */
        char identity[TEN_IDENTITY_MAX + 1];
    } replied;
    ten_redis_alone alone;
    ten_arena texts; /* of the last answer */
} ten_redis_store;

/* ---- words */

void ten_redis_word(ten_redis_words *words, const char *text);
void ten_redis_word_bytes(ten_redis_words *words, const char *data, size_t size);
void ten_redis_word_number(ten_redis_words *words, uint64_t number);
/* before + id + after */
void ten_redis_word_key(ten_redis_words *words, const ten_redis_pattern *pattern, const char *id);
/* Starts a command: its words are to follow. */
void ten_redis_command(ten_redis_store *store);
/* Starts a script's command: its keys are to follow, then its arguments. */
void ten_redis_script(ten_redis_store *store, enum ten_redis_script script, size_t key_count);

/* ---- calls; all by deadline_ms on the boot clock, errors in *store->base.error */

/* Connected, with the scripts known to the server. */
int ten_redis_connect(ten_redis_store *store, uint64_t deadline_ms);
void ten_redis_disconnect(ten_redis_store *store);

/* Several calls, a few of which are under way at a time, with everything around them: connecting, scripts that the
 * server does not know, and another try if the connection was dead. `make` puts the words of one together, `take` gets
 * the reply to it: once, in their order. what: for messages, "reading records". */
typedef void (*ten_redis_make_fn)(ten_redis_store *store, void *userdata, size_t at);
typedef int (*ten_redis_take_fn)(ten_redis_store *store, void *userdata, size_t at, const redisReply *reply);
int ten_redis_call(ten_redis_store *store, const char *what, size_t count, ten_redis_make_fn make,
                   ten_redis_take_fn take, void *userdata, uint64_t deadline_ms);

/* TENURE_E_STORE: the server's answer is not one of our scripts'. */
int ten_redis_misunderstood(ten_redis_store *store);

/* A reply's text, "" when it has none; a number however it came. */
const char *ten_redis_text(const redisReply *reply);
uint64_t ten_redis_number(const redisReply *reply);

/* ---- records */

/* Every answer that is an array starts with the time and the replication id. False: it is no such answer. */
bool ten_redis_answered(ten_redis_store *store, const redisReply *reply);
/* The usual answer to a write: "time number". The number. */
uint64_t ten_redis_take_times(ten_redis_store *store, const redisReply *reply);
/* What the store is, as long as it has that replication id. */
void ten_redis_make_identity(const ten_redis_store *store, const char *replication,
                             char identity[TEN_IDENTITY_MAX + 1]);
/* Fills in the record, but for its key.id, from three parts of an answer: itself, the content of its plain key, and how
 * long that lives. */
int ten_redis_take_record(ten_redis_store *store, redisReply *const *parts, ten_record *record);
/* Add to a word: a number; a version as records have it. */
void ten_redis_add_number(ten_redis_words *words, uint64_t number);
void ten_redis_add_version(ten_redis_words *words, uint64_t version);
/* The field of a record in the hash. */
void ten_redis_word_field(ten_redis_words *words, ten_key key);
/* Its plain key; the hash, if such a record never has one. */
void ten_redis_word_plain(ten_redis_words *words, const ten_redis_space *space, ten_key key);
/* The pattern of its plain key; NULL: such a record never has one. */
const ten_redis_pattern *ten_redis_plain(const ten_redis_space *space, enum ten_kind kind);
char ten_redis_letter(enum ten_kind kind);

/* ---- what a write relies on */

/* The identity and the epoch, as the scripts compare them; and what the calls of a write that rely on them have found.
 */
typedef struct ten_redis_reliance {
    const ten_redis_space *names; /* of the namespace */
    char replication[96];         /* a line of INFO */
    char space[TEN_IDENTITY_MAX + 32];
    size_t space_size; /* it has NULs in it */
    size_t done;       /* calls that were carried out */
    bool other;        /* one has met another epoch: the rest is not sent */
} ten_redis_reliance;

int ten_redis_rely_on(ten_redis_store *store, const char *namespace_name, const char *identity, uint64_t epoch,
                      ten_redis_reliance *ret_reliance);
/* Whether this is the answer to one that relied on another epoch. */
bool ten_redis_is_other(ten_redis_store *store, ten_redis_reliance *reliance, const redisReply *reply);
/* What came of all calls: TEN_OTHER_EPOCH if none was carried out, and 0 when as many replicas as the URL says have it.
 */
int ten_redis_settle(ten_redis_store *store, const ten_redis_reliance *reliance, const char *what,
                     uint64_t deadline_ms);
/* Before a namespace begins: whether it lies in another database, from which this one was exchanged. */
int ten_redis_look_elsewhere(ten_redis_store *store, const ten_redis_space *space, const char *identity,
                             uint64_t deadline_ms, bool *ret_found);

/* The namespace has that number now, and had the other one before this handle wrote; the same: it has written nothing.
 */
static inline void ten_redis_note_number(ten_redis_store *store, const ten_redis_space *space, uint64_t before,
                                         uint64_t number) {
    ten_redis_alone *alone = &store->alone;
    if (alone->space != space || alone->last != before)
        *alone = (ten_redis_alone){.space = space, .first = ten_min_u64(before + 1, number)};
    alone->last = number;
}

/* ---- the ops */

int ten_redis_read(ten_backend *base, const char *namespace_name, ten_record *records, size_t count,
                   uint64_t timeout_ms);
int ten_redis_commit(ten_backend *base, ten_commit *commit, uint64_t timeout_ms);
/* The same, and the texts of the last answer stay. */
int ten_redis_carry_out(ten_redis_store *store, ten_commit *commit, uint64_t deadline_ms);
int ten_redis_touch(ten_backend *base, const char *namespace_name, const char *identity, uint64_t epoch,
                    ten_touch *touches, size_t count, uint64_t timeout_ms);
int ten_redis_scan(ten_backend *base, const ten_scan *scan, ten_record_fn each, void *userdata, uint64_t timeout_ms);
int ten_redis_feed(ten_backend *base, const char *namespace_name, uint64_t after, size_t limit, ten_entry_fn each,
                   void *userdata, ten_feed_range *ret_range, uint64_t timeout_ms);
int ten_redis_unfeed(ten_backend *base, const char *namespace_name, const char *const *ids, size_t count,
                     uint64_t timeout_ms);
/* A heartbeat was sent: a step in the search for those of other programs. */
void ten_redis_sweep(ten_redis_store *store, const char *namespace_name, const char *identity, uint64_t epoch,
                     uint64_t deadline_ms);
extern const ten_notice_ops ten_redis_notice_ops;
int ten_redis_check(ten_backend *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms);

#endif
