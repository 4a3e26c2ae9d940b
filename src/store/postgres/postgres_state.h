/*
 * The inside of the PostgreSQL backend: its handle, and how its parts call the functions of postgres.sql. postgres.c is
 * the shelf of records, postgres_call.c runs transactions, postgres_schema.c creates what they need, postgres_watch.c
 * hears of changes, postgres_check.c is the doctor's.
 */
#ifndef TEN_STORE_POSTGRES_STATE_H
#define TEN_STORE_POSTGRES_STATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/encode.h"
#include "store/backend.h"
#include "store/common/dial.h"
#include "store/common/notice_watch.h"
#include "store/postgres/postgres_link.h"

/* An array for a statement, in the server's own format. */
enum ten_postgres_type {
    TEN_POSTGRES_BOOL = 16,
    TEN_POSTGRES_INT8 = 20,
    TEN_POSTGRES_INT2,
    TEN_POSTGRES_INT4 = 23,
    TEN_POSTGRES_TEXT = 25
};

typedef struct ten_postgres_list {
    enum ten_postgres_type type; /* of its elements */
    uint32_t count;
    ten_buf data;
} ten_postgres_list;

#define TEN_POSTGRES_LISTS 19u /* that one call has at most */

typedef struct ten_postgres_store {
    ten_backend base;
    ten_notice_watch watch;        /* its poll_ms is set when nobody can listen through a pooler before the server */
    ten_postgres_link *watch_link; /* NULL: down */
    ten_postgres_settings *settings;
    ten_postgres_settings *listen_settings; /* NULL: the same */
    ten_postgres_link *link;                /* NULL: not connected */
    ten_dial dial;
    PGresult *answer; /* the last, to which records point */
    ten_postgres_list lists[TEN_POSTGRES_LISTS];
} ten_postgres_store;

/* ---- calls; all by deadline_ms on the boot clock, errors in store->base.error */

#define TEN_POSTGRES_VALUES 29u /* parameters that a statement has at most */

/* One statement, which is a transaction of its own and one round trip. It may be sent again when others were in the
 * way, or the server had gone. */
typedef struct ten_postgres_call {
    const char *what; /* for messages */
    const char *statement;
    const char *values[TEN_POSTGRES_VALUES]; /* the first one is how long to wait for locks, and filled in */
    int sizes[TEN_POSTGRES_VALUES];          /* of those that are lists */
    int formats[TEN_POSTGRES_VALUES];        /* 1: a list */
    int count;
} ten_postgres_call;

#define TEN_POSTGRES_IN_VAIN 2 /* it was sent in hope, and undone (TN002, see postgres.sql): there is another way */

/* The rows are store->answer then. */
int ten_postgres_do(ten_postgres_store *store, ten_postgres_call *call, uint64_t deadline_ms);
/* Connected. */
int ten_postgres_connect(ten_postgres_store *store, uint64_t deadline_ms);
void ten_postgres_disconnect(ten_postgres_store *store);
/* TENURE_E_STORE: the answer is not one of our statements'. */
int ten_postgres_misunderstood(ten_postgres_store *store);
int ten_postgres_no_memory(ten_postgres_store *store);

/* Creates the schema when there is none and the role may; TENURE_E_SCHEMA when it is of another
 * version: nothing in it is changed then. */
int ten_postgres_migrate(ten_postgres_store *store, uint64_t deadline_ms);

/* ---- values */

void ten_postgres_begin_list(ten_postgres_list *list, enum ten_postgres_type type);
void ten_postgres_add_text(ten_postgres_list *list, const char *text);  /* NULL is NULL */
void ten_postgres_add_number(ten_postgres_list *list, uint64_t number); /* of any type but text */
/* The next parameter is that list. */
int ten_postgres_add_list(ten_postgres_store *store, ten_postgres_call *call, ten_postgres_list *list);
/* Of a result: "" and 0 for NULL. */
uint64_t ten_postgres_number(const PGresult *result, int row, int column);
bool ten_postgres_flag(const PGresult *result, int row, int column);
const char *ten_postgres_text(const PGresult *result, int row, int column); /* NULL for NULL */

/* ---- the ops */

extern const ten_notice_ops ten_postgres_notice_ops;
int ten_postgres_check(ten_backend *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms);

#endif
