/*
 * Which database files this process has open, and whether it opened them itself. SQLite keeps the locks of a process in
 * a table of its own, which a child of fork() inherits without the locks: a file that the parent had open must not be
 * opened in the child, or closing it in the one can take the log away from under the other, and make two holders.
 */
#ifndef TEN_STORE_SQLITE_INHERITED_H
#define TEN_STORE_SQLITE_INHERITED_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the file was open in a process that this one was forked from. */
bool ten_inherited_is_open(uint64_t device, uint64_t inode);
/* Notes that this process has it open; a place to release, or -1 when there is none (then every file counts as
 * inherited in a child). */
int ten_inherited_note(uint64_t device, uint64_t inode);
void ten_inherited_forget(int place);

#endif
