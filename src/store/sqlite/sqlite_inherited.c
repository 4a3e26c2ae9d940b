/*
 * Open database files, in a table without a lock: one could be held at the moment of fork(). Called when a connection
 * is opened or closed.
 */
#include "store/sqlite/sqlite_inherited.h"

#include <stdatomic.h>

#include "base/fork.h"

#define PLACES 256

static struct {
    _Atomic(uint64_t) process; /* 0: free */
    _Atomic(uint64_t) device;
    _Atomic(uint64_t) inode;
} table[PLACES];

static _Atomic(uint64_t) overflowed; /* the process in which the table was too small */

bool ten_inherited_is_open(uint64_t device, uint64_t inode) {
    uint64_t process = atomic_load(&overflowed);
    if (process && !ten_fork_is(process))
        return true;
    for (int i = 0; i < PLACES; i++) {
        process = atomic_load(&table[i].process);
        if (process && !ten_fork_is(process) && atomic_load(&table[i].device) == device &&
            atomic_load(&table[i].inode) == inode)
            return true;
    }
    return false;
}

int ten_inherited_note(uint64_t device, uint64_t inode) {
    uint64_t self = ten_fork_number();
    for (int i = 0; i < PLACES; i++) {
        uint64_t nobody = 0;
        if (atomic_compare_exchange_strong(&table[i].process, &nobody, self)) {
            atomic_store(&table[i].device, device);
            atomic_store(&table[i].inode, inode);
            return i;
        }
    }
    atomic_store(&overflowed, self);
    return -1;
}

void ten_inherited_forget(int place) {
    if (place >= 0 && ten_fork_is(atomic_load(&table[place].process)))
        atomic_store(&table[place].process, 0);
}
