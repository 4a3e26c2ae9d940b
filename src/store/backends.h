/*
 * Which backend serves a URL's scheme. The program, the tests and libtenure.a have all backends of the build linked in.
 * The shared library has SQLite and memory; it loads the others as modules (module.h) when a URL names them, so that a
 * program on SQLite does not load libpq, libcurl, hiredis and OpenSSL. Called by store.c, and by
 * `tenure version`.
 */
#ifndef TEN_STORE_BACKENDS_H
#define TEN_STORE_BACKENDS_H

#include "store/store.h"

/* TENURE_E_INVALID: no store has this scheme; the message lists those that there are. TENURE_E_UNSUPPORTED: it was left
 * out of this build, or its module is missing or of another version. */
int ten_backend_find(const char *scheme, const ten_store_ops **ret_ops, ten_error *error);

/* The names of the backends of this build, one by one; NULL after the last. */
const char *ten_backend_name(size_t index);

#endif
