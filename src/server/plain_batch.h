/*
 * The body of a batch as the `http` store writes it, read without jansson: see base/plain.h. Only what keeps a fleet busy
 * is recognised, renewals and acquires of one holder. It is pure; lease_requests.c decides what may be done.
 */
#ifndef TEN_SERVER_PLAIN_BATCH_H
#define TEN_SERVER_PLAIN_BATCH_H

#include "rules/op.h"

typedef struct ten_plain_op {
    enum ten_op_kind kind;
    unsigned flags;
    const char *id; /* in the body, without a NUL */
    size_t id_size;
    uint64_t version; /* 0: not given */
    uint64_t ttl_ms;  /* 0: not given */
} ten_plain_op;

typedef struct ten_plain_batch {
    char holder[TENURE_HOLDER_MAX + 1];
    bool require_target;
    size_t count;
} ten_plain_batch;

/* Fills in as many operations as there is room for. False: it is something else, or there is more. */
bool ten_plain_batch_read(const char *body, size_t size, ten_plain_op *ops, size_t room, ten_plain_batch *ret_batch);

#endif
