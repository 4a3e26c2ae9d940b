/*
 * The connection of a SQLite store: opening and checking the file, its schema, transactions with the time and the epoch
 * in them, and prepared statements. What is done with records is sqlite.c's business.
 */
#ifndef TEN_STORE_SQLITE_DB_H
#define TEN_STORE_SQLITE_DB_H

#include <sqlite3.h>

#include "base/arena.h"
#include "store/backend.h"
#include "store/common/record_key.h"
#include "store/sqlite/sqlite_side.h"

/* The statements of sqlite.sql that are prepared once. */
// clang-format off
#define TEN_SQL_STATEMENTS(X) \
    X(GET_VERSION) \
    X(GET_STORE) \
    X(PUT_STORE) \
    X(SCHEMA_COOKIE) \
    X(RAISE_GENERATION) \
    X(RESTART_LIVES) \
    X(LAST_END) \
    X(GET) \
    X(EPOCH) \
    X(PUT) \
    X(RAISE) \
    X(REMOVE) \
    X(TOUCH) \
    X(SCAN) \
    X(NEXT_NAMESPACE) \
    X(ADD_CHANGE) \
    X(TRIM_CHANGES) \
    X(BLANK_CHANGES) \
    X(NEXT_CHANGES) \
    X(CHANGE_RANGE) \
    X(LIST_CHANGES)
// clang-format on

enum ten_sql {
    TEN_SQL_BEGIN_READ,
    TEN_SQL_BEGIN_WRITE,
    TEN_SQL_COMMIT,
    TEN_SQL_ROLLBACK,
#define X(name) TEN_SQL_##name,
    TEN_SQL_STATEMENTS(X)
#undef X
        TEN_SQL_COUNT,
};

/* Who and where the database is: the row of the table `store`. */
typedef struct ten_db_row {
    bool exists;
    char boot_id[TEN_BOOT_ID_SIZE];
    uint64_t time_namespace;
    uint64_t device;
    uint64_t inode;
    uint64_t schema_cookie;
    uint64_t generation;
    uint64_t cursor; /* the newest change; grows with the transaction under way */
    char identity[32];
    uint64_t lost; /* 1: it ever lost something */
    uint64_t lost_until_ms;
} ten_db_row;

/* The handle of the store. */
typedef struct ten_db {
    ten_backend base;
    ten_arena texts;               /* of the last answer */
    char key[TEN_RECORD_KEY_SIZE]; /* that a statement is bound to */
    char *given_path;              /* as in the URL, made absolute */
    sqlite3 *connection;           /* NULL: closed, to be opened by the next transaction */
    const char *path;              /* absolute; belongs to the connection */
    sqlite3_stmt *statements[TEN_SQL_COUNT];
    ten_sqlite_side side;
    int noted;         /* place in the table of open files + 1; 0: none */
    bool lasting;      /* the connection's synchronous mode is FULL */
    uint64_t start_us; /* of this call, and its bound */
    uint64_t end_us;
    char boot_id[TEN_BOOT_ID_SIZE];
    uint64_t time_namespace;
    uint64_t device;
    uint64_t inode;
    char seen_identity[32]; /* how far this handle has seen it come, and which store it was */
    uint64_t seen_generation;
    /* The transaction under way. */
    bool writing;
    uint64_t now_ms;  /* boot clock */
    ten_db_row row;   /* as it was found, */
    bool has_changed; /* or as it had to become: that must be committed */
    ten_side_memory memory;
    uint64_t last_end_ms; /* the latest end of a life that was written in it */
    bool recount;         /* the one with the latest end was ended */
    uint64_t room_at_ms;  /* when the room on the disk was looked at */
    bool little_room;
} ten_db;

/* The least of a disk that is kept for leases that exist: for renewals and changes of hands, with what they write into
 * the feed. Or an eighth of the disk, if that is less. */
#define TEN_DB_RESERVE (UINT64_C(64) << 20)
/* Whether there is room for new rows. Else a client that makes up targets or instances could fill the disk, and nobody
 * could renew. */
bool ten_db_has_room(ten_db *db);
/* TENURE_E_FULL, and where. */
int ten_db_say_full(ten_db *db);

int ten_db_open(ten_db *db, const char *path, uint64_t timeout_ms);
void ten_db_close(ten_backend *base);

/* A transaction that only reads; db->now_ms has the time, and the base what the store is. */
int ten_db_begin_read(ten_db *db, uint64_t timeout_ms);
/* A transaction that writes: waits for its turn, then for the lock, and reads the clock after that; begins an epoch if
 * it must. `lasting`: its commit survives power loss. */
int ten_db_begin_write(ten_db *db, bool lasting, uint64_t timeout_ms);
/* Ends the transaction, well or with everything undone. `r` is what the work in it came to; a negative one rolls
 * back and is returned. */
int ten_db_end(ten_db *db, int r);

/* The statement, ready to bind; reset it when done. NULL with the error told: whoever runs it gets that error. */
sqlite3_stmt *ten_db_statement(ten_db *db, enum ten_sql id);
/* One step: 1 for a row, 0 at the end, or an error. The caller resets. */
int ten_db_step(ten_db *db, sqlite3_stmt *statement);
/* The same with a reset, of one that gives a row of so many numbers; all are 0 if there is none. */
int ten_db_numbers(ten_db *db, sqlite3_stmt *statement, uint64_t *numbers, int count);
/* One step and a reset of a statement that gives no rows. */
int ten_db_run(ten_db *db, sqlite3_stmt *statement);
/* The same for a statement that has nothing to bind. */
int ten_db_run_plain(ten_db *db, enum ten_sql id);
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
/* Reads the row of the store (sqlite_epoch.c). */
int ten_db_get_row(ten_db *db);
/* The latest end of all that somebody may believe in, and the longest life. */
int ten_db_get_last_end(ten_db *db, uint64_t *ret_end_ms, uint64_t *ret_longest_ms);
/* Until when to wait for one's turn before going on without it. */
uint64_t ten_db_patience_end_us(const ten_db *db);

/* Appends to the feed; part of the transaction. */
int ten_db_add_change(ten_db *db, const char *namespace_name, const ten_entry *entry, uint64_t least_number);
/* Notes that a life was written that ends then; or one ended that would have ended then. */
void ten_db_note_end(ten_db *db, uint64_t ends_ms);
void ten_db_note_released(ten_db *db, uint64_t ends_ms);

/* Whether leases may be kept on this kind of file system (the f_type of statfs). *ret_name: its name, or NULL when
 * unknown. */
bool ten_db_filesystem_allowed(long type, const char **ret_name);

int ten_db_check(ten_backend *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms);

/* ---- which database files this process has open, and whether it opened them itself (sqlite_open.c). SQLite keeps the
 * locks of a process in a table of its own, which a child of fork() inherits without the locks: a file that the parent
 * had open must not be opened in the child, or closing it in the one can take the log away from under the other, and
 * make two holders. */
void ten_db_forget_file(ten_db *db);

/* Binding and reading. Texts must live until the statement is reset; NULL is NULL. */
void ten_bind_text(sqlite3_stmt *statement, int at, const char *text);
void ten_bind_u64(sqlite3_stmt *statement, int at, uint64_t number);
const char *ten_column_text(sqlite3_stmt *statement, int at); /* NULL for NULL */
uint64_t ten_column_u64(sqlite3_stmt *statement, int at);

#endif
