/*
 * The inside of the PostgreSQL backend: its handle, and how its parts run a transaction. postgres.c opens and runs
 * transactions, postgres_schema.c creates what they need, postgres_apply.c carries batches, postgres_read.c lists and
 * edits the registry, postgres_watch.c hears of changes, postgres_check.c is the doctor's.
 */
#ifndef TEN_STORE_POSTGRES_STATE_H
#define TEN_STORE_POSTGRES_STATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/encode.h"
#include "store/common/dial.h"
#include "store/common/notice_watch.h"
#include "store/postgres/postgres_link.h"
#include "store/store.h"

/* The connection that listens. Its poll_ms is set when a pooler stands in front of the server, and nobody can listen
 * through it. */
typedef struct ten_postgres_watch {
    ten_notice_watch notice;
    ten_postgres_link *link; /* NULL: down */
} ten_postgres_watch;

typedef struct ten_postgres_store {
    ten_store base;
    ten_postgres_settings *settings;
    ten_postgres_settings *listen_settings; /* NULL: the same */
    ten_postgres_link *link;                /* NULL: not connected */
    ten_dial dial;
    size_t sent; /* statements of the transaction that is put together */
    ten_arena results;
    ten_postgres_watch watch;
} ten_postgres_store;

/* ---- transactions; all by deadline_ms on the boot clock, errors in store->base.error */

/* The work of one transaction: what is sent, all at once, and what is done with each answer. It may be called again
 * when others were in the way, or the server had gone. */
typedef struct ten_postgres_work {
    const char *what;       /* for messages */
    const char *namespaces; /* that must be there, an array as text; NULL: the work only reads */
    bool lists;             /* a listing, read row by row; else rows are found by an array of keys */
    bool once;              /* not to be repeated when it may have been done: it would hit somebody else */
    bool hopeful;           /* when it refused by itself the caller has another way: TEN_POSTGRES_REFUSED */
    int (*send)(ten_postgres_store *store, void *userdata);
    int (*take)(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata);
    void *userdata;
} ten_postgres_work;

#define TEN_POSTGRES_REFUSED 1

int ten_postgres_transact(ten_postgres_store *store, const ten_postgres_work *work, uint64_t deadline_ms);
/* For `send`: the next statement. */
int ten_postgres_send(ten_postgres_store *store, const char *statement, int count, const char *const *values);
/* For `take`: the answers say nothing. */
int ten_postgres_take_nothing(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata);
/* Connected. */
int ten_postgres_connect(ten_postgres_store *store, uint64_t deadline_ms);
void ten_postgres_disconnect(ten_postgres_store *store);
/* After an error that ended a pipeline. False: the connection is not to be used any more. */
bool ten_postgres_roll_back(ten_postgres_store *store, uint64_t deadline_ms);
/* For a transaction that is one of many: prepares their statements, when the connection is worth it. */
int ten_postgres_prepare(ten_postgres_store *store, uint64_t deadline_ms);
/* TENURE_E_STORE: the answer is not one of our statements'. */
int ten_postgres_misunderstood(ten_postgres_store *store);
int ten_postgres_no_memory(ten_postgres_store *store);

/* Creates the schema when there is none and the role may; TENURE_E_SCHEMA when it is of another
 * version: nothing in it is changed then. */
int ten_postgres_migrate(ten_postgres_store *store, uint64_t deadline_ms);
/* After a transaction was refused at the gate: begins an epoch, adds the namespaces, as needed. */
int ten_postgres_enter(ten_postgres_store *store, const char *namespaces, uint64_t deadline_ms);

/* ---- values */

/* Arrays as text: elements one after the other, then the end. */
void ten_postgres_add_text(ten_buf *list, const char *text); /* NULL is NULL */
void ten_postgres_add_number(ten_buf *list, uint64_t number);
void ten_postgres_end_list(ten_buf *list);
/* Of a result: "" and 0 for NULL. */
uint64_t ten_postgres_number(const PGresult *result, int row, int column);
bool ten_postgres_flag(const PGresult *result, int row, int column);
const char *ten_postgres_text(const PGresult *result, int row, int column); /* NULL for NULL */

/* ---- the ops */

int ten_postgres_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
int ten_postgres_edit(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                      uint64_t timeout_ms);
int ten_postgres_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count,
                        uint64_t timeout_ms);
int ten_postgres_forget_history(ten_store *base, const char *namespace_name, uint64_t timeout_ms);
/* After so many acquires: perhaps a step of forgetting what has been free and unregistered for long. A failure costs
 * nothing: a later step looks at the same targets. */
void ten_postgres_forget_aged(ten_postgres_store *store, size_t acquires, uint64_t deadline_ms);
int ten_postgres_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_postgres_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                              ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_postgres_list_namespaces(ten_store *store, tenure_name_fn each, void *userdata, uint64_t timeout_ms);
int ten_postgres_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                                uint64_t timeout_ms);
int ten_postgres_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit,
                         ten_change_fn each, void *userdata, uint64_t timeout_ms);
void ten_postgres_watch_init(ten_postgres_store *store);
int ten_postgres_watch_get(ten_store *base, const char *namespace_name, int *ret_fd);
void ten_postgres_watch_clear(ten_store *base);
int ten_postgres_recovery(ten_store *base, const char *namespace_name, uint64_t ttl_ms, const char *actor,
                          uint64_t *ret_left_ms, uint64_t timeout_ms);
int ten_postgres_check(ten_store *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms);

#endif
