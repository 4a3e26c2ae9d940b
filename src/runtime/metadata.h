/*
 * What an instance says of itself with its heartbeat: a JSON object of at most TEN_METADATA_MAX bytes. Written by fleet
 * members and by candidates.
 */
#ifndef TEN_RUNTIME_METADATA_H
#define TEN_RUNTIME_METADATA_H

#include "base/buf.h"
#include "base/error.h"

typedef struct ten_metadata {
    const char *role; /* of a candidate; NULL: it is none */
    int64_t priority;
    const char *isolation; /* of its commands; NULL: it has none */
} ten_metadata;

/* "labels" is the last member: core/turns.h reads only what is before it. */
void ten_metadata_write(const ten_metadata *metadata, ten_buf *text);

#endif
