/*
 * A SQLite VFS that fails on request. See faulty_vfs.h.
 */
#include "conformance/sqlite/faulty_vfs.h"

#include <sqlite3.h>
#include <string.h>

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real; /* right behind this */
};

static sqlite3_vfs *real_vfs;
static unsigned failing_kinds;
static long countdown = -1;
static bool fails_on;
static bool has_failed;
static bool skips_sync;

void faulty_vfs_skip_sync(void) {
    skips_sync = true;
}

void faulty_vfs_fail(unsigned kinds, long skip, bool lasting) {
    failing_kinds = kinds;
    countdown = skip;
    fails_on = lasting;
    has_failed = false;
}

bool faulty_vfs_mend(void) {
    failing_kinds = 0;
    return has_failed;
}

static bool fails(unsigned kinds) {
    if (!(failing_kinds & kinds))
        return false;
    if (countdown > 0) {
        countdown--;
        return false;
    }
    if (has_failed && !fails_on)
        return false;
    has_failed = true;
    return true;
}

static sqlite3_file *real(sqlite3_file *file) {
    return ((struct faulty_file *)file)->real;
}

/* ---- files --------------------------------------------------------------------------------------------- */

static int faulty_close(sqlite3_file *file) {
    return real(file)->pMethods->xClose(real(file));
}

static int faulty_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset) {
    return fails(FAULT_READ) ? SQLITE_IOERR_READ : real(file)->pMethods->xRead(real(file), bytes, size, offset);
}

static int faulty_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset) {
    if (fails(FAULT_WRITE | FAULT_FULL)) {
        (void)real(file)->pMethods->xWrite(real(file), bytes, size / 2, offset);
        return failing_kinds & FAULT_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    }
    return real(file)->pMethods->xWrite(real(file), bytes, size, offset);
}

static int faulty_truncate(sqlite3_file *file, sqlite3_int64 size) {
    return fails(FAULT_TRUNCATE) ? SQLITE_IOERR_TRUNCATE : real(file)->pMethods->xTruncate(real(file), size);
}

static int faulty_sync(sqlite3_file *file, int flags) {
    if (skips_sync)
        return SQLITE_OK;
    return fails(FAULT_SYNC) ? SQLITE_IOERR_FSYNC : real(file)->pMethods->xSync(real(file), flags);
}

static int faulty_size(sqlite3_file *file, sqlite3_int64 *size) {
    return fails(FAULT_TRUNCATE) ? SQLITE_IOERR_FSTAT : real(file)->pMethods->xFileSize(real(file), size);
}

static int faulty_lock(sqlite3_file *file, int lock) {
    return fails(FAULT_LOCK) ? SQLITE_IOERR_LOCK : real(file)->pMethods->xLock(real(file), lock);
}

static int faulty_unlock(sqlite3_file *file, int lock) {
    return real(file)->pMethods->xUnlock(real(file), lock);
}

static int faulty_check_lock(sqlite3_file *file, int *locked) {
    return real(file)->pMethods->xCheckReservedLock(real(file), locked);
}

static int faulty_control(sqlite3_file *file, int operation, void *arg) {
    return real(file)->pMethods->xFileControl(real(file), operation, arg);
}

static int faulty_sector_size(sqlite3_file *file) {
    return real(file)->pMethods->xSectorSize(real(file));
}

static int faulty_characteristics(sqlite3_file *file) {
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

static int faulty_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **memory) {
    return fails(FAULT_SHM) ? SQLITE_IOERR_SHMMAP
                            : real(file)->pMethods->xShmMap(real(file), page, size, extend, memory);
}

static int faulty_shm_lock(sqlite3_file *file, int offset, int count, int flags) {
    if ((flags & SQLITE_SHM_LOCK) && fails(FAULT_SHM))
        return SQLITE_IOERR_SHMLOCK;
    return real(file)->pMethods->xShmLock(real(file), offset, count, flags);
}

static void faulty_shm_barrier(sqlite3_file *file) {
    real(file)->pMethods->xShmBarrier(real(file));
}

static int faulty_shm_unmap(sqlite3_file *file, int remove) {
    return real(file)->pMethods->xShmUnmap(real(file), remove);
}

static const sqlite3_io_methods faulty_methods = {
    .iVersion = 2,
    .xClose = faulty_close,
    .xRead = faulty_read,
    .xWrite = faulty_write,
    .xTruncate = faulty_truncate,
    .xSync = faulty_sync,
    .xFileSize = faulty_size,
    .xLock = faulty_lock,
    .xUnlock = faulty_unlock,
    .xCheckReservedLock = faulty_check_lock,
    .xFileControl = faulty_control,
    .xSectorSize = faulty_sector_size,
    .xDeviceCharacteristics = faulty_characteristics,
    .xShmMap = faulty_shm_map,
    .xShmLock = faulty_shm_lock,
    .xShmBarrier = faulty_shm_barrier,
    .xShmUnmap = faulty_shm_unmap,
};

/* ---- the file system ----------------------------------------------------------------------------------- */

static int faulty_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags) {
    struct faulty_file *faulty = (struct faulty_file *)file;
    (void)vfs;
    memset(faulty, 0, sizeof *faulty);
    faulty->real = (sqlite3_file *)(faulty + 1);
    if (fails(FAULT_OPEN))
        return SQLITE_CANTOPEN;
    int code = real_vfs->xOpen(real_vfs, name, faulty->real, flags, out_flags);
    if (faulty->real->pMethods)
        faulty->base.pMethods = &faulty_methods;
    return code;
}

static int faulty_delete(sqlite3_vfs *vfs, const char *name, int sync) {
    (void)vfs;
    return fails(FAULT_OPEN) ? SQLITE_IOERR_DELETE : real_vfs->xDelete(real_vfs, name, sync);
}

static int faulty_access(sqlite3_vfs *vfs, const char *name, int flags, int *found) {
    (void)vfs;
    return fails(FAULT_OPEN) ? SQLITE_IOERR_ACCESS : real_vfs->xAccess(real_vfs, name, flags, found);
}

void faulty_vfs_register(void) {
    static sqlite3_vfs vfs;
    real_vfs = sqlite3_vfs_find("unix");
    vfs = *real_vfs; /* what is not replaced does not look at its first argument */
    vfs.zName = "faulty";
    vfs.pNext = NULL;
    vfs.szOsFile = (int)sizeof(struct faulty_file) + real_vfs->szOsFile;
    vfs.xOpen = faulty_open;
    vfs.xDelete = faulty_delete;
    vfs.xAccess = faulty_access;
    sqlite3_vfs_register(&vfs, 1);
}
