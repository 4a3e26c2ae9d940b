/*
 * A backend between a test and the real one: it shows which calls were made, lets somebody else in before one of them, and
 * breaks a promise if a planted bug is switched on (tests/mutants/mutants.h, TEN_SHELF_MUTANTS).
 */
#ifndef BACKEND_SHELF_H
#define BACKEND_SHELF_H

#include "store/record_store.h"

/* The store's backend is wrapped from now on. */
void shelf_wrap(ten_store *store);

enum shelf_call { SHELF_READ = 'r', SHELF_COMMIT = 'c', SHELF_TOUCH = 't', SHELF_SCAN = 's' };
typedef void (*shelf_fn)(void *userdata);
/* Before the next such calls of this handle, so many times, `meanwhile` is called. */
void shelf_before(ten_store *store, enum shelf_call call, unsigned times, shelf_fn meanwhile, void *userdata);
/* The calls of this handle from now on, one letter each. */
void shelf_log(const ten_store *store, char *log, size_t size);
/* Ends both. How often nobody was let in because there was no such call. */
unsigned shelf_end(void);

#endif
