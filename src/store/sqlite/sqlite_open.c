/*
 * Opening a SQLite store: is the file in a place where leases may live, is it ours, and is its schema one that we know?
 * Called by the transactions of sqlite_db.c when there is no connection.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fork.h"
#include "base/io.h"
#include "store/sqlite/sqlite_db.h"

#include "store/sqlite/sqlite_sql.h"

/* As in sqlite.sql. */
#define APPLICATION_ID 0x54656e75 /* "Tenu" */
#define SCHEMA_VERSION 2          /* 1: of Tenure 0.1 and 0.2 */
#define PLACES         256

/* ---- open files, in a table without a lock: one could be held at the moment of fork() */

static struct {
    _Atomic(uint64_t) process; /* 0: free */
    _Atomic(uint64_t) device;
    _Atomic(uint64_t) inode; /* 0: just being noted or forgotten */
} table[PLACES];

static _Atomic(uint64_t) overflowed; /* the process in which the table was too small */

/* Whether the file was open in a process that this one was forked from. */
static bool is_inherited(uint64_t device, uint64_t inode) {
    uint64_t process = atomic_load(&overflowed);
    if (process && !ten_fork_is(process))
        return true;
    for (int i = 0; i < PLACES; i++) {
        process = atomic_load(&table[i].process);
        uint64_t noted = atomic_load(&table[i].inode);
        bool is_this = noted == 0 || (noted == inode && atomic_load(&table[i].device) == device);
        if (process && !ten_fork_is(process) && is_this)
            return true;
    }
    return false;
}

/* Notes that this process has it open; the place + 1, or 0 when there is none: then every file counts as inherited in a
 * child. */
static int note_file(uint64_t device, uint64_t inode) {
    uint64_t self = ten_fork_number();
    for (int i = 0; i < PLACES; i++) {
        uint64_t nobody = 0;
        if (atomic_compare_exchange_strong(&table[i].process, &nobody, self)) {
            atomic_store(&table[i].device, device);
            atomic_store(&table[i].inode, inode);
            return i + 1;
        }
    }
    atomic_store(&overflowed, self);
    return 0;
}

static void forget_place(int noted) {
    if (noted == 0 || !ten_fork_is(atomic_load(&table[noted - 1].process)))
        return;
    atomic_store(&table[noted - 1].inode, 0);
    atomic_store(&table[noted - 1].process, 0);
}

void ten_db_forget_file(ten_db *db) {
    forget_place(db->noted);
    db->noted = 0;
}

/* Without a moment in which the file is open and not noted. */
static void note_again(ten_db *db, const struct stat *info) {
    int former = db->noted;
    db->noted = note_file((uint64_t)info->st_dev, (uint64_t)info->st_ino);
    forget_place(former);
}

/* ---- places */

/* Local file systems only: on a network one locks and the boot clock belong to different machines. By an allow-list,
 * since nobody can list all that would be wrong. */
bool ten_db_filesystem_allowed(long type, const char **ret_name) {
    static const struct {
        long type;
        bool allowed;
        const char *name;
    } known[] = {
        {EXT4_SUPER_MAGIC, true, "ext4"},
        {XFS_SUPER_MAGIC, true, "xfs"},
        {BTRFS_SUPER_MAGIC, true, "btrfs"},
        {TMPFS_MAGIC, true, "tmpfs"},
        {RAMFS_MAGIC, true, "ramfs"},
        {OVERLAYFS_SUPER_MAGIC, true, "overlayfs"},
        {F2FS_SUPER_MAGIC, true, "f2fs"},
        {0x2fc12fc1, true, "zfs"},
        {0xca451a4e, true, "bcachefs"},
        {0x3153464a, true, "jfs"},
        {REISERFS_SUPER_MAGIC, true, "reiserfs"},
        {NILFS_SUPER_MAGIC, true, "nilfs2"},
        {NFS_SUPER_MAGIC, false, "nfs"},
        {SMB_SUPER_MAGIC, false, "smb"},
        {0xff534d42, false, "cifs"},
        {0xfe534d42, false, "smb2"},
        {V9FS_MAGIC, false, "9p"},
        {FUSE_SUPER_MAGIC, false, "fuse"},
        {CODA_SUPER_MAGIC, false, "coda"},
        {AFS_SUPER_MAGIC, false, "afs"},
        {0x00c36400, false, "ceph"},
        {0x01161970, false, "gfs2"},
        {0x7461636f, false, "ocfs2"},
        {0x0bd00bd0, false, "lustre"},
        {PROC_SUPER_MAGIC, false, "proc"},
        {SYSFS_MAGIC, false, "sysfs"},
    };
    for (size_t i = 0; i < TEN_COUNT(known); i++) {
        if (known[i].type == (type & 0xffffffff)) {
            *ret_name = known[i].name;
            return known[i].allowed;
        }
    }
    *ret_name = NULL;
    return false;
}

static int check_filesystem(ten_db *db, const char *path) {
    struct statfs found;
    const char *name;
    if (statfs(path, &found) != 0)
        return ten_fail_errno(db->base.error, TENURE_E_UNREACHABLE, errno, "cannot open the store %s: %s",
                              db->given_path, path);
    if (ten_db_filesystem_allowed((long)found.f_type, &name))
        return TENURE_OK;
    return ten_fail(db->base.error, TENURE_E_UNSUPPORTED,
                    "%s lies on a file system (%s, type 0x%lx) that may be shared between machines, or is not known to "
                    "keep locks and writes; put the store on a local disk, or use a store that is made for several "
                    "hosts",
                    db->given_path, name ? name : "unknown", (unsigned long)found.f_type & 0xffffffffu);
}

/* Whoever opens the file by another name has other side files (-wal, -shm, -lock), and sees none of our locks. */
static int check_names(ten_db *db, const struct stat *info) {
    struct statx mount;
    if (info->st_nlink > 1)
        return ten_fail(db->base.error, TENURE_E_UNSUPPORTED,
                        "%s has %lu names (hard links), and locks do not work across them: copy the file, and remove "
                        "the other names",
                        db->path, (unsigned long)info->st_nlink);
    if (statx(AT_FDCWD, db->path, 0, STATX_BASIC_STATS, &mount) == 0 && (mount.stx_attributes & STATX_ATTR_MOUNT_ROOT))
        return ten_fail(db->base.error, TENURE_E_UNSUPPORTED,
                        "%s is mounted as a single file, and the files beside it that carry its locks are not: mount "
                        "its directory instead",
                        db->path);
    return TENURE_OK;
}

/* Some containers put a boot id of their own in the kernel's place. Two that share a file would each take the other for
 * a reboot. */
static int check_boot_id(ten_db *db) {
    struct statfs found;
    if (db->boot_id[0] == '\0')
        return ten_fail(db->base.error, TENURE_E_UNSUPPORTED,
                        "%s cannot be used: this system has no boot id (" TEN_BOOT_ID_PATH
                        "), so a reboot would not be noticed; mount /proc, or use a store with a server (Redis, "
                        "PostgreSQL, etcd, or tenure serve)",
                        db->path);
    if (db->base.clock == &ten_system_clock && statfs(TEN_BOOT_ID_PATH, &found) == 0 &&
        found.f_type != PROC_SUPER_MAGIC)
        return ten_fail(db->base.error, TENURE_E_UNSUPPORTED,
                        "%s cannot be used: this container has a boot id of its own (" TEN_BOOT_ID_PATH
                        " is not the kernel's), so others would take it for a reboot; do not mount over that file, or "
                        "use a store with a server (Redis, PostgreSQL, etcd, or tenure serve)",
                        db->path);
    return TENURE_OK;
}

static int read_identity(ten_db *db) {
    struct stat info;
    db->base.clock->boot_id(db->base.clock->arg, db->boot_id);
    db->time_namespace = db->base.clock->time_namespace(db->base.clock->arg);
    int r = check_boot_id(db);
    if (r < 0)
        return r;
    if (stat(db->path, &info) != 0)
        return ten_fail_errno(db->base.error, TENURE_E_UNREACHABLE, errno, "%s", db->path);
    r = check_names(db, &info);
    if (r < 0)
        return r;
    db->device = (uint64_t)info.st_dev;
    db->inode = (uint64_t)info.st_ino;
    note_again(db, &info); /* the path may have been a link that was changed meanwhile */
    /* Once is enough, ten_sqlite_side_read() follows the file; a second time would lose the descriptor that somebody
     * watches.
     */
    return db->side.path ? TENURE_OK : ten_sqlite_side_open(&db->side, db->path, info.st_mode, db->base.error);
}

/* SQLite calls this when another connection has the lock. After the queue that is rare: a program that is not ours, or
 * a process that was not waited for. */
static int wait_for_lock(void *arg, int tries) {
    const ten_db *db = arg;
    (void)tries;
    if (ten_boot_us() >= db->end_us)
        return 0;
    ten_sleep_us(500);
    return 1;
}

/* What the file says that it is. *ret_new: nothing yet. */
static int check_version(ten_db *db, bool *ret_new) {
    enum { NUMBER, APPLICATION, TABLES, NUMBERS };
    uint64_t found[NUMBERS];
    int r = ten_db_numbers(db, ten_db_statement(db, TEN_SQL_GET_VERSION), found, NUMBERS);
    if (r < 0)
        return r;
    *ret_new = found[NUMBER] < SCHEMA_VERSION;
    if (found[TABLES] > 0 && found[APPLICATION] != APPLICATION_ID)
        return ten_fail(db->base.error, TENURE_E_UNSUPPORTED, "%s is a database of another program; name another file",
                        db->path);
    if (found[NUMBER] > SCHEMA_VERSION)
        return ten_fail(db->base.error, TENURE_E_SCHEMA,
                        "%s was written by a newer version of Tenure: it has schema version %llu, and this one "
                        "(" TENURE_VERSION ") knows up to %d; upgrade this program",
                        db->path, (unsigned long long)found[NUMBER], SCHEMA_VERSION);
    if (found[TABLES] > 0 && *ret_new)
        return ten_fail(db->base.error, TENURE_E_SCHEMA,
                        "%s was written by Tenure 0.1 or 0.2, whose layout this version (" TENURE_VERSION
                        ") does not use: stop all programs that use it, and name another file, or move this one away",
                        db->path);
    return TENURE_OK;
}

/* Another process may have been here while this one waited. */
static int make_schema(ten_db *db) {
    bool is_new;
    int r = ten_db_execute(db, "BEGIN IMMEDIATE");
    if (r < 0)
        return r;
    r = check_version(db, &is_new);
    if (r == TENURE_OK && is_new)
        r = ten_db_execute(db, SQL_SCHEMA);
    if (r == TENURE_OK)
        r = ten_db_execute(db, "COMMIT");
    if (r < 0)
        (void)sqlite3_exec(db->connection, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

/* WAL, so that readers and the writer do not wait for each other. It fails with BUSY without waiting when two processes
 * make the same new database; the queue keeps ours apart. */
static int use_wal(ten_db *db) {
    int r;
    do {
        r = ten_db_execute(db, "PRAGMA journal_mode = WAL");
        if (r == TENURE_E_TIMEOUT)
            ten_sleep_us(1000);
    } while (r == TENURE_E_TIMEOUT && ten_boot_us() < db->end_us);
    if (r == TENURE_OK)
        r = ten_db_execute(db, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF");
    db->lasting = true;
    return r;
}

static int refuse_inherited(ten_db *db) {
    struct stat info;
    if (stat(db->given_path, &info) != 0 || !is_inherited((uint64_t)info.st_dev, (uint64_t)info.st_ino))
        return TENURE_OK;
    return ten_fail(
        db->base.error, TENURE_E_FORKED,
        "%s was open in the parent when this process was forked, and SQLite cannot open it in both: start a "
        "new program (exec), or fork before the store is opened",
        db->given_path);
}

/* A new database is its user's alone; in a directory that its group may write to, the group's, too. Who can read the
 * file can lock it, and so keep everybody from renewing: that is why others get nothing. SQLite gives its own files the
 * mode of this one. */
static void make_file(const ten_db *db, const char *directory) {
    struct stat about;
    bool shared = stat(directory, &about) == 0 && (about.st_mode & S_IWGRP);
    TEN_CLEANUP(ten_close_fd)
    int fd = open(db->given_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                  shared ? S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP : S_IRUSR | S_IWUSR);
    (void)fd; /* if it cannot be made, SQLite says why */
}

/* Looked at before anything is written, the side file included: a database of another program stays as it is. */
static int open_file(ten_db *db, bool *ret_new) {
    char directory[4096];
    size_t size = (size_t)(strrchr(db->given_path, '/') - db->given_path) + 1; /* the path is absolute */
    if (size >= sizeof directory)
        return ten_fail(db->base.error, TENURE_E_INVALID,
                        "the path of the store is longer than %zu bytes: name a shorter one", sizeof directory - 1);
    snprintf(directory, sizeof directory, "%.*s", (int)size, db->given_path);
    int r = check_filesystem(db, directory); /* before the file is made in a wrong place */
    if (r == TENURE_OK)
        r = refuse_inherited(db);
    if (r < 0)
        return r;
    struct stat info;
    if (stat(db->given_path, &info) == 0 && S_ISDIR(info.st_mode))
        return ten_fail(db->base.error, TENURE_E_UNREACHABLE,
                        "cannot open the store %s: it is a directory; name a file in it, such as sqlite:%s/tenure.db",
                        db->given_path, db->given_path);
    make_file(db, directory);
    if (stat(db->given_path, &info) == 0) /* else SQLite says why it cannot be opened */
        note_again(db, &info);
    int code =
        sqlite3_open_v2(db->given_path, &db->connection,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK)
        return ten_db_failed(db, code);
    db->path = sqlite3_db_filename(db->connection, "main");
    sqlite3_busy_handler(db->connection, wait_for_lock, db);
    /* Again, since the path may have been a link to somewhere else. */
    r = check_filesystem(db, db->path);
    return r < 0 ? r : check_version(db, ret_new);
}

int ten_db_connect(ten_db *db) {
    if (db->connection)
        return TENURE_OK;
    bool is_new;
    int r = open_file(db, &is_new);
    if (r == TENURE_OK)
        r = read_identity(db);
    if (r == TENURE_OK) {
        ten_sqlite_side_enter(&db->side, ten_db_patience_end_us(db));
        r = use_wal(db);
        if (r == TENURE_OK && is_new)
            r = make_schema(db);
        ten_sqlite_side_leave(&db->side);
    }
    if (r < 0)
        ten_db_disconnect(db);
    return r;
}
