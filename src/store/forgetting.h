/*
 * Forgetting over any backend, as ten_store_ops has it.
 */
#ifndef TEN_STORE_FORGETTING_H
#define TEN_STORE_FORGETTING_H

#include "store/store.h"

int ten_forgetting_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count,
                          uint64_t timeout_ms);

#endif
