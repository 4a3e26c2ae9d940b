/*
 * What a store's answers are asked for in the fuzz targets of backends, and what must be true of whatever came of them:
 * a server that is broken, or another program on its port, may make a call fail, but nothing is held by nonsense.
 * A backend's target opens a store whose answers are the input, and calls fuzz_replies().
 */
#ifndef TEN_TESTS_FUZZ_REPLIES_H
#define TEN_TESTS_FUZZ_REPLIES_H

#include "fuzz.h"
#include "store/store.h"

/* The call that `which` names (any number), with the store's answers as they come. */
void fuzz_replies(ten_store *store, unsigned which);

#endif
