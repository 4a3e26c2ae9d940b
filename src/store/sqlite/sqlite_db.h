/*
 * The connection of a SQLite store: opening and checking the file, its schema, transactions with the time and the epoch
 * in them, and prepared statements. What the statements mean is sqlite.c's business.
 */
#ifndef TEN_STORE_SQLITE_DB_H
#define TEN_STORE_SQLITE_DB_H

#include <sqlite3.h>

#include "base/map.h"
#include "rules/lease_row.h"
#include "store/sqlite/sqlite_side.h"
#include "store/store.h"

enum ten_sql {
    TEN_SQL_BEGIN_READ,
    TEN_SQL_BEGIN_WRITE,
    TEN_SQL_COMMIT,
    TEN_SQL_ROLLBACK,
    TEN_SQL_GET_STORE,
    TEN_SQL_PUT_STORE,
    TEN_SQL_SCHEMA_COOKIE,
    TEN_SQL_RAISE_GENERATION,
    TEN_SQL_END_RECOVERY,
    TEN_SQL_RESTART_LEASES,
    TEN_SQL_RESTART_INSTANCES,
    TEN_SQL_LAST_END,
    TEN_SQL_LONGEST_TTL,
    TEN_SQL_GET_LEASE,
    TEN_SQL_PUT_LEASE,
    TEN_SQL_RENEW,
    TEN_SQL_GET_FORGOTTEN,
    TEN_SQL_PUT_FORGOTTEN,
    TEN_SQL_REMOVE_LEASE,
    TEN_SQL_GET_CHECKPOINT,
    TEN_SQL_PUT_CHECKPOINT,
    TEN_SQL_REMOVE_CHECKPOINT,
    TEN_SQL_FOLLOW_COOKIE,
    TEN_SQL_GET_AGED,
    TEN_SQL_REMOVE_AGED,
    TEN_SQL_PUT_AGED,
    TEN_SQL_LIST_AGED,
    TEN_SQL_LIST_LEASES,
    TEN_SQL_READ_LEASE,
    TEN_SQL_GET_TARGET,
    TEN_SQL_PUT_TARGET,
    TEN_SQL_REMOVE_TARGET,
    TEN_SQL_PAUSE_TARGET,
    TEN_SQL_PIN_TARGET,
    TEN_SQL_LIST_TARGETS,
    TEN_SQL_READ_TARGET,
    TEN_SQL_GET_INSTANCE,
    TEN_SQL_PUT_INSTANCE,
    TEN_SQL_BEAT,
    TEN_SQL_TOUCH_SESSION,
    TEN_SQL_REMOVE_INSTANCES,
    TEN_SQL_REMOVE_INSTANCE,
    TEN_SQL_FLEET_TTL,
    TEN_SQL_EXPIRED_INSTANCES,
    TEN_SQL_LIST_INSTANCES,
    TEN_SQL_NEXT_NAMESPACE,
    TEN_SQL_ADD_CHANGE,
    TEN_SQL_TRIM_CHANGES,
    TEN_SQL_BLANK_CHANGES,
    TEN_SQL_NEXT_CHANGES,
    TEN_SQL_CHANGE_RANGE,
    TEN_SQL_LIST_CHANGES,
    TEN_SQL_EPOCH_SINCE,
    TEN_SQL_COUNT,
};

typedef struct ten_db {
    const ten_clock *clock;
    ten_error *error;    /* where failures are told */
    char *given_path;    /* as in the URL, made absolute */
    sqlite3 *connection; /* NULL: closed, to be opened by the next transaction */
    const char *path;    /* absolute; belongs to the connection */
    sqlite3_stmt *statements[TEN_SQL_COUNT];
    ten_sqlite_side side;
    int noted;         /* place in the table of open files (sqlite_inherited.h) + 1; 0: none */
    bool lasting;      /* the connection's synchronous mode is FULL */
    uint64_t start_us; /* of this call, and its bound */
    uint64_t end_us;
    char boot_id[TEN_BOOT_ID_SIZE];
    uint64_t time_namespace;
    uint64_t device;
    uint64_t inode;
    /* The transaction under way. */
    bool writing;
    ten_lease_context context;
    uint64_t epoch_ms; /* when the quarantine of the epoch ends or has ended; 0: there was none since the boot */
    ten_side_memory memory;
    uint64_t cursor;      /* the newest change */
    uint64_t generation;  /* of the database as it was found */
    uint64_t last_end_ms; /* the latest end of a lease granted in it */
    bool recount;         /* the lease with the latest end was released */
    uint64_t room_at_ms;  /* when the room on the disk was looked at */
    bool little_room;
} ten_db;

/* The least of a disk that is kept for leases that exist: for renewals and changes of hands, with what they write into the
 * feed. Or an eighth of the disk, if that is less. */
#define TEN_DB_RESERVE (UINT64_C(64) << 20)
/* Whether there is room for new rows. Else whoever invents targets or instances would end everybody's leases. */
bool ten_db_has_room(ten_db *db);
/* TENURE_E_FULL, and where. */
int ten_db_say_full(ten_db *db);

void ten_db_init(ten_db *db, const ten_clock *clock, ten_error *error);
int ten_db_open(ten_db *db, const char *path, uint64_t timeout_ms);
void ten_db_close(ten_db *db);

/* A transaction that only reads; db->context has the time. */
int ten_db_begin_read(ten_db *db, uint64_t timeout_ms);
/* A transaction that writes: waits for its turn, then for the lock, and reads the clock after that; begins an epoch if
 * it must. `lasting`: its commit survives power loss. */
int ten_db_begin_write(ten_db *db, bool lasting, uint64_t timeout_ms);
/* Ends the transaction, well or with everything undone. `r` is what the work in it came to; a negative one rolls
 * back and is returned. */
int ten_db_end(ten_db *db, int r);

/* lease.ends_ms of a lease that hangs on a session; it ends with that (see the view `leases` in sqlite.sql). */
#define TEN_ENDS_WITH_SESSION (UINT64_C(1) << 52)

/* The statement, ready to bind; NULL with the error told. Reset it when done. */
sqlite3_stmt *ten_db_statement(ten_db *db, enum ten_sql id);
/* One step and a reset of a statement that gives no rows. */
int ten_db_run(ten_db *db, sqlite3_stmt *statement);
/* One step: 1 for a row, 0 at the end, or an error. The caller resets. */
int ten_db_step(ten_db *db, sqlite3_stmt *statement);

/* The same for a statement that has nothing to bind, and for one whose only parameter is a number. */
int ten_db_run_plain(ten_db *db, enum ten_sql id);
int ten_db_run_number(ten_db *db, enum ten_sql id, uint64_t number);
/* Text that is not prepared: pragmas and the schema. */
int ten_db_execute(ten_db *db, const char *text);
/* Tells what SQLite said, and returns our code for it. */
int ten_db_failed(ten_db *db, int code);

/* Opens the connection if there is none (sqlite_open.c), and closes it; the handle stays. */
int ten_db_connect(ten_db *db);
void ten_db_disconnect(ten_db *db);
/* Compares what the store says of itself with what is found, and brings it up to date; *ret_changed: it had to
 * (sqlite_epoch.c). */
int ten_db_check_epoch(ten_db *db, bool *ret_changed);
/* How long newcomers still wait; with an actor, they do no longer (sqlite_epoch.c). */
int ten_db_recovery(ten_db *db, const char *actor, uint64_t *ret_left_ms, uint64_t timeout_ms);
/* Begins an epoch in the transaction under way: a renewal with this TTL has proved that data was lost. */
int ten_db_begin_proved_epoch(ten_db *db, uint64_t shown_ttl_ms);
/* SQLite counts the changes of a schema; that number (sqlite_epoch.c). */
int ten_db_get_schema_cookie(ten_db *db, uint64_t *ret_cookie);
/* Until when to wait for one's turn before going on without it. */
uint64_t ten_db_patience_end_us(const ten_db *db);

/* Listings and changes (sqlite_list.c), as in the store contract. */
int ten_db_list(ten_db *db, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms);
int ten_db_read_targets(ten_db *db, const char *namespace_name, const char *const *ids, size_t count, ten_row_fn each,
                        void *userdata, uint64_t timeout_ms);
int ten_db_list_namespaces(ten_db *db, tenure_name_fn each, void *userdata, uint64_t timeout_ms);
int ten_db_list_instances(ten_db *db, const char *namespace_name, ten_instance_fn each, void *userdata,
                          uint64_t timeout_ms);
/* *ret_epoch, with TENURE_E_RESYNC: an epoch has begun since that cursor. */
int ten_db_changes(ten_db *db, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                   void *userdata, uint64_t timeout_ms, bool *ret_epoch);

/* Appends to the feed; part of the transaction. */
int ten_db_add_change(ten_db *db, const ten_change *change);
/* Notes that a lease was granted until then; or released, that would have ended then. */
void ten_db_note_end(ten_db *db, uint64_t ends_ms);
void ten_db_note_released(ten_db *db, uint64_t ends_ms);

/* Whether leases may be kept on this kind of file system (the f_type of statfs). *ret_name: its name, or NULL when
 * unknown. */
bool ten_db_filesystem_allowed(long type, const char **ret_name);

int ten_db_check(ten_db *db, tenure_check_fn each, void *userdata, uint64_t timeout_ms);

/* Counters of targets that are gone (sqlite_forget.c). Reads the highest token that the namespace forgot into
 * db->context. */
int ten_db_get_forgotten(ten_db *db, const char *namespace_name);
/* Removes the row of a lease with that token. */
int ten_db_forget(ten_db *db, const char *namespace_name, const char *target, uint64_t token);
/* One step of forgetting what has been free and unregistered for long; part of the transaction. */
int ten_db_forget_aged(ten_db *db);
/* A step of forget_history() behind that cursor, which moves on; 0 afterwards: it was the last. Part of the
 * transaction. */
int ten_db_forget_history(ten_db *db, const char *namespace_name, uint64_t *place);

/* Binding and reading. Texts must live until the statement is reset; NULL is NULL. */
void ten_bind_text(sqlite3_stmt *statement, int at, const char *text);
void ten_bind_u64(sqlite3_stmt *statement, int at, uint64_t number);
const char *ten_column_text(sqlite3_stmt *statement, int at); /* NULL for NULL */
uint64_t ten_column_u64(sqlite3_stmt *statement, int at);

#endif
