/*
 * The inside of the Redis backend: its handle, and how its parts call a script. redis.c opens and connects,
 * redis_apply.c carries batches, redis_read.c reads and edits the registry, redis_watch.c hears of changes,
 * redis_check.c is the doctor's.
 */
#ifndef TEN_STORE_REDIS_STATE_H
#define TEN_STORE_REDIS_STATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "store/common/dial.h"
#include "store/common/notice_watch.h"
#include "store/redis/redis_layout.h"
#include "store/redis/redis_link.h"
#include "store/store.h"

enum ten_redis_script {
    TEN_REDIS_APPLY,
    TEN_REDIS_LEAN,
    TEN_REDIS_LEAN_RUN,
    TEN_REDIS_LEAN_BEAT,
    TEN_REDIS_EDIT_TARGETS,
    TEN_REDIS_CURSOR,
    TEN_REDIS_SWEEP,
    TEN_REDIS_CONFIRM,
    TEN_REDIS_FORGET,
    TEN_REDIS_BLANK,
    TEN_REDIS_RECOVERY,
    TEN_REDIS_LIST,
    TEN_REDIS_LIST_INSTANCES,
    TEN_REDIS_CHANGES,
    TEN_REDIS_SCRIPT_COUNT,
};

#define TEN_REDIS_SHA_SIZE   41u
#define TEN_REDIS_PROOF_SIZE 72u
#define TEN_REDIS_PROOFS     1024u /* calls; 250,000 leases */

/* The subscription, on a connection of its own. */
typedef struct ten_redis_watch {
    ten_notice_watch notice;
    ten_redis_link *link; /* NULL: down */
    /* Entries of the feed that came by the subscription, one behind the other, each with its NUL: all changes after
     * `heard_from` up to `heard_to`. */
    ten_buf heard;
    uint64_t heard_from;
    uint64_t heard_to;
} ten_redis_watch;

/* The words of one command, collected. */
typedef struct ten_redis_words {
    ten_buf text;
    size_t *ends; /* where in the text each word ends */
    const char **starts;
    size_t *sizes;
    size_t count;
    size_t room;
    bool failed;
} ten_redis_words;

typedef struct ten_redis_store {
    ten_store base;
    ten_redis_settings *settings;
    ten_redis_layout layout;
    uint64_t wait_replicas;
    bool fresh;
    bool sessions;        /* leases=session: the leases of instances hang on their sessions */
    ten_redis_link *link; /* NULL: not connected */
    ten_dial dial;
    char shas[TEN_REDIS_SCRIPT_COUNT][TEN_REDIS_SHA_SIZE];
    ten_redis_words words;
    ten_arena results;
    /* Calls of renewals whose tokens the server has compared with its own, and the state in which it was then. */
    char proof[TEN_REDIS_PROOF_SIZE];
    uint64_t proved[TEN_REDIS_PROOFS];
    uint64_t aged_after; /* acquires until the next step in the search for what can be forgotten; 0: not chosen yet */
    ten_redis_watch watch;
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
/* The same for a script with the prelude, with the namespace's own keys; `key_count` more follow, then
 * ten_redis_arguments(), then the script's own. */
void ten_redis_script_in(ten_redis_store *store, enum ten_redis_script script, const ten_redis_space *space,
                         size_t key_count);
void ten_redis_arguments(ten_redis_store *store, const ten_redis_space *space);
void ten_redis_words_free(ten_redis_words *words);

/* ---- calls; all by deadline_ms on the boot clock, errors in store->base.error */

/* Connected, with the scripts known to the server. */
int ten_redis_connect(ten_redis_store *store, uint64_t deadline_ms);
void ten_redis_disconnect(ten_redis_store *store);
int ten_redis_load_scripts(ten_redis_store *store, uint64_t deadline_ms);
/* Queues the words on the connection. */
int ten_redis_send(ten_redis_store *store);
/* The next reply. An error reply is an error, but NOSCRIPT, which is *ret_reply NULL. */
int ten_redis_receive(ten_redis_store *store, const char *what, uint64_t deadline_ms, redisReply **ret_reply);

/* One script call with everything around it: `make` puts its words together; the caller frees the reply. */
typedef void (*ten_redis_make_fn)(ten_redis_store *store, void *userdata);
int ten_redis_call(ten_redis_store *store, const char *what, ten_redis_make_fn make, void *userdata,
                   uint64_t timeout_ms, redisReply **ret_reply);

static inline void ten_redis_free_reply(redisReply **reply) {
    if (*reply)
        freeReplyObject(*reply);
}

/* TENURE_E_STORE: the server's answer is not one of our scripts'. */
int ten_redis_misunderstood(ten_redis_store *store);

/* A reply's text, "" when it has none; a number however it came. */
const char *ten_redis_text(const redisReply *reply);
uint64_t ten_redis_number(const redisReply *reply);

/* ---- the ops */

int ten_redis_check_op(ten_store *base, const ten_op *op);
int ten_redis_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
int ten_redis_edit(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                   uint64_t timeout_ms);
int ten_redis_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count, uint64_t timeout_ms);
int ten_redis_forget_history(ten_store *base, const char *namespace_name, uint64_t timeout_ms);
int ten_redis_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_redis_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                           ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_redis_list_namespaces(ten_store *store, tenure_name_fn each, void *userdata, uint64_t timeout_ms);
int ten_redis_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                             uint64_t timeout_ms);
int ten_redis_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                      void *userdata, uint64_t timeout_ms);
void ten_redis_watch_init(ten_redis_store *store);
int ten_redis_watch_get(ten_store *base, const char *namespace_name, int *ret_fd);
void ten_redis_watch_clear(ten_store *base);
void ten_redis_watch_close(ten_redis_watch *watch);
void ten_redis_watch_forget(ten_redis_watch *watch);
int ten_redis_recovery(ten_store *base, const char *namespace_name, uint64_t ttl_ms, const char *actor,
                       uint64_t *ret_left_ms, uint64_t timeout_ms);
int ten_redis_check(ten_store *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms);

#endif
