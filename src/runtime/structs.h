/*
 * Structs that the program allocates: they begin with their size, as the program's version of the header has it.
 */
#ifndef TEN_RUNTIME_STRUCTS_H
#define TEN_RUNTIME_STRUCTS_H

#include <stddef.h>

/* Copies what the program's struct has into ours, which is zeroed otherwise. NULL: nothing is copied. TENURE_E_INVALID:
 * its size is not set. TENURE_E_UNSUPPORTED: it has more than ours, and that is not 0. `name` is the struct's. The
 * error is said about the handle. */
int ten_struct_read(const void *handle, const char *name, const void *theirs, void *ours, size_t size);
/* Whether a struct that is filled in later can be: TENURE_E_INVALID if it is NULL or its size is not set. */
int ten_struct_check(const void *handle, const char *name, const void *theirs);
/* Fills in what the program's struct has, and leaves its size. */
void ten_struct_write(void *theirs, const void *ours, size_t size);
/* TENURE_E_UNSUPPORTED, if one of the flags is not among the known ones. */
int ten_flags_check(const void *handle, unsigned flags, unsigned known);

#endif
