/*
 * What an instance says of itself with its heartbeat: a JSON object of at most TEN_METADATA_MAX bytes, with its
 * version, address, labels and whatever it is a candidate for. Written by fleet members and candidates; read by the
 * commands and the server, which show it.
 */
#ifndef TEN_RUNTIME_METADATA_H
#define TEN_RUNTIME_METADATA_H

#include <tenure.h>

#include "base/buf.h"
#include "base/error.h"

#define TEN_ADDRESS_MAX 255u
#define TEN_LABELS_MAX  16u
#define TEN_LABEL_MAX   63u /* bytes of a label's name */
#define TEN_VALUE_MAX   127u

/* ---- writing */

/* Checks address and labels and appends them as members, each with a comma before it. TENURE_E_INVALID: what is wrong
 * with them. */
int ten_metadata_identity(const tenure_options *options, ten_buf *members, ten_error *error);

typedef struct ten_metadata {
    const char *role; /* of a candidate; NULL: it is none */
    bool is_lock;     /* that role is a lock */
    int64_t priority;
    const char *isolation; /* of its commands; NULL: it has none */
    const char *identity;  /* of ten_metadata_identity() */
} ten_metadata;

/* "labels" is the last member: core/turns.h reads only what is before it. */
void ten_metadata_write(const ten_metadata *metadata, ten_buf *text);

/* ---- reading */

/* What of it can be shown. A program that may announce an instance can say anything: what is not well formed is left
 * out.
 */
typedef struct ten_metadata_shown {
    char role[TENURE_TARGET_MAX + 1]; /* "": none, as with the others */
    bool is_lock;                     /* its role is a lock, or a slot of a semaphore */
    char address[TEN_ADDRESS_MAX + 1];
    char isolation[24];
    int64_t priority;
    ten_buf labels; /* a JSON object; empty: it has none */
} ten_metadata_shown;

/* `text` may be NULL. */
void ten_metadata_read(const char *text, ten_metadata_shown *shown);
void ten_metadata_free(ten_metadata_shown *shown);
/* Labels as people write them: name=value,name=value. */
void ten_metadata_show_labels(const ten_metadata_shown *shown, ten_buf *text);

#endif
