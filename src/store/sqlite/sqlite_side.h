/*
 * The side file of a SQLite store, `PATH-lock`. It carries what SQLite itself lacks: a fair queue for writers, a notice
 * of changes to other processes, and a memory of how far the database had come, so that one that was replaced or
 * restored is noticed.
 *
 * It holds no lease and decides nothing: losing it costs fairness and a notice. It is written with pwrite and never
 * mapped, so a full disk or a truncated file is an error and not a SIGBUS.
 */
#ifndef TEN_STORE_SQLITE_SIDE_H
#define TEN_STORE_SQLITE_SIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/error.h"

typedef struct ten_sqlite_side {
    int fd;
    int watch_fd; /* inotify; -1: nobody watches */
    char *path;
    mode_t mode;
    dev_t device;
    ino_t inode;
    uint64_t looked_ms; /* when its times were last found to be those of its content */
    uint64_t ticket;
    bool queued;
} ten_sqlite_side;

/* What the file remembers. Read and written inside a write transaction of the database, which orders it. */
typedef struct ten_side_memory {
    char boot_id[TEN_BOOT_ID_SIZE]; /* of what follows the cursor; "": nothing of it is remembered */
    uint64_t cursor;                /* the newest change that was committed */
    uint64_t last_end_ms;           /* boot clock: by then every lease that is not released has ended */
    uint64_t generation;            /* of the last transaction that was committed */
    bool put_back;                  /* it is a copy of what the file once was, and so the database may be */
} ten_side_memory;

/* `mode`: the permissions of the database, for a new file. */
int ten_sqlite_side_open(ten_sqlite_side *side, const char *database_path, mode_t mode, ten_error *error);
void ten_sqlite_side_close(ten_sqlite_side *side);

/* Waits for its turn among the writers, first come first served, at most until the boot clock says patience_end_us;
 * then it goes on without its turn, because a stopped process before it must not hold up everybody: SQLite's own lock
 * still excludes. */
void ten_sqlite_side_enter(ten_sqlite_side *side, uint64_t patience_end_us);
void ten_sqlite_side_leave(ten_sqlite_side *side);

/* A file that is too short or not ours is an empty memory. boot_id: of this boot. */
int ten_sqlite_side_read(ten_sqlite_side *side, const char *boot_id, ten_side_memory *memory, ten_error *error);
int ten_sqlite_side_write(ten_sqlite_side *side, const ten_side_memory *memory, ten_error *error);

/* Wakes everybody who watches, in every process. */
void ten_sqlite_side_notify(ten_sqlite_side *side);
/* Makes watch_fd. It also wakes when a process that had the file open dies, so that a change whose notice a killed
 * writer still owed is not missed. */
int ten_sqlite_side_watch(ten_sqlite_side *side, ten_error *error);
void ten_sqlite_side_watch_clear(ten_sqlite_side *side);

#endif
