/*
 * The key of a record as one text, for backends that keep all records in one table: namespace, a blank, the digit of
 * the kind, and the id. It sorts as scans do. Shared by the memory, the SQLite and the PostgreSQL store.
 */
#ifndef TEN_STORE_RECORD_KEY_H
#define TEN_STORE_RECORD_KEY_H

#include <string.h>
#include <tenure.h>

#include "base/util.h"
#include "rules/record.h"

#define TEN_RECORD_KEY_SIZE (TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 4u)

/* Returns how much of it is before the id. */
static inline size_t ten_record_key(char text[TEN_RECORD_KEY_SIZE], const char *namespace_name, ten_key key) {
    size_t size = strnlen(namespace_name, TENURE_NAMESPACE_MAX);
    memcpy(text, namespace_name, size);
    text[size] = ' ';
    text[size + 1] = (char)('0' + (int)key.kind);
    ten_copy_text(text + size + 2, TEN_RECORD_KEY_SIZE - size - 2, key.id);
    return size + 2;
}

#endif
