/*
 * A SQLite VFS that passes everything on to the system's, and fails the Nth call of the kinds that a test names: once,
 * or from then on until it is mended. It becomes the default VFS; "unix" is still the plain one.
 */
#ifndef CONFORMANCE_FAULTY_VFS_H
#define CONFORMANCE_FAULTY_VFS_H

#include <stdbool.h>

enum fault_kind {
    FAULT_READ = 1u << 0,
    FAULT_WRITE = 1u << 1,    /* half of it is written */
    FAULT_FULL = 1u << 2,     /* the same, told as a full disk; so are truncation and growing */
    FAULT_SYNC = 1u << 3,     /* fsync says EIO */
    FAULT_TRUNCATE = 1u << 4, /* and file size */
    FAULT_OPEN = 1u << 5,     /* and delete, access */
    FAULT_SHM = 1u << 6,      /* the shared index of the log */
    FAULT_LOCK = 1u << 7,
};

void faulty_vfs_register(void);
/* fsync does nothing from now on: for tests of something else than the disk, which it would only slow down. */
void faulty_vfs_skip_sync(void);
/* The call after `skip` more of those kinds fails; `lasting`: and every later one. */
void faulty_vfs_fail(unsigned kinds, long skip, bool lasting);
/* Ends the fault; whether there was one. */
bool faulty_vfs_mend(void);

#endif
