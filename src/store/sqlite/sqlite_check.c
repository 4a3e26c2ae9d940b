/*
 * What a SQLite store knows about its own fitness, for `tenure doctor`. Called through the store's check().
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "store/common/report.h"
#include "store/sqlite/sqlite_db.h"

#define LITTLE_ROOM (2 * TEN_DB_RESERVE)

static void check_place(const ten_db *db, const ten_report *report) {
    struct statfs filesystem;
    const char *name = NULL;
    if (statfs(db->path, &filesystem) != 0 || !ten_db_filesystem_allowed((long)filesystem.f_type, &name)) {
        ten_report_tell(report, TENURE_CHECK_FAIL, "file system", "not a local one that is known",
                        "move the database to a local disk");
        return;
    }
    bool lasts = strcmp(name, "tmpfs") != 0 && strcmp(name, "ramfs") != 0;
    ten_report_tell(report, lasts ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "file system", name,
                    "tokens start over when this memory file system goes with the power; keep the database on a disk");
}

/* Who can read the file can lock it; who can write to its directory can replace it. */
static void check_access(const ten_db *db, const ten_report *report) {
    struct stat file;
    struct stat directory;
    char path[4096];
    snprintf(path, sizeof path, "%.*s", (int)(strrchr(db->path, '/') - db->path) + 1, db->path);
    if (stat(db->path, &file) != 0 || stat(path, &directory) != 0)
        return;
    bool reachable = directory.st_mode & S_IXOTH;
    bool open_file = reachable && (file.st_mode & (S_IROTH | S_IWOTH));
    bool open_directory = (directory.st_mode & S_IWOTH) && !(directory.st_mode & S_ISVTX);
    ten_report_tell(report, open_file || open_directory ? TENURE_CHECK_WARN : TENURE_CHECK_OK, "access",
                    open_directory ? "every user can write to the directory of the database"
                    : open_file    ? "every user can open the database, and by locking it stop all renewals"
                                   : "only its user or group can open the database",
                    open_directory ? "chmod o-w its directory" : "chmod o-rw the database and the files beside it");
}

static void check_room(const ten_db *db, const ten_report *report) {
    struct statvfs space;
    char found[64];
    if (statvfs(db->path, &space) != 0)
        return;
    uint64_t room = (uint64_t)space.f_bavail * space.f_frsize;
    snprintf(found, sizeof found, "%llu MiB free", (unsigned long long)(room >> 20));
    ten_report_tell(report, room >= LITTLE_ROOM ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "room on disk", found,
                    "make room: without it no lease can be granted or renewed");
}

static void check_watch(ten_db *db, const ten_report *report) {
    ten_error error;
    bool works = ten_sqlite_side_watch(&db->side, &error) == TENURE_OK;
    ten_report_tell(report, works ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "change notices",
                    works ? "inotify" : error.message,
                    "raise fs.inotify.max_user_instances; until then waiters look four times a second");
}

int ten_db_check(ten_backend *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    ten_db *db = (ten_db *)base;
    ten_report report = {.each = each, .userdata = userdata};
    int r = ten_db_begin_write(db, false, timeout_ms);
    if (r < 0)
        return r;
    ten_db_end(db, TENURE_OK);
    each(TENURE_CHECK_OK, "database", db->path, "", userdata);
    check_place(db, &report);
    check_access(db, &report);
    check_room(db, &report);
    check_watch(db, &report);
    return TENURE_OK;
}
