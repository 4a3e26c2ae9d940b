/*
 * The ground on which both sides run: a directory of its own on a real disk, and databases that the store has made and
 * filled with leases, so that the bare loop finds the very same tables.
 */
#ifndef BENCH_GROUND_H
#define BENCH_GROUND_H

#include <stdbool.h>

#include "store/store.h"

#define GROUND_TTL_MS     UINT64_C(3600000) /* no lease ends during a run */
#define GROUND_TIMEOUT_MS UINT64_C(5000)    /* what a client with a usual TTL has */
#define GROUND_NAME_SIZE  48u
#define GROUND_NAMESPACE  "bench" /* not that of the fleets */
#define GROUND_PATH_SIZE  512u
#define GROUND_SESSION    "session-%07zu" /* the target with that number */

/* Leases of one holder, as operations that renew them. */
typedef struct ground_leases {
    size_t count;
    char holder[GROUND_NAME_SIZE];
    char (*targets)[GROUND_NAME_SIZE];
    ten_op *ops;
    ten_result *results; /* room for the answers */
} ground_leases;

bool ground_make(char directory[GROUND_PATH_SIZE]); /* under $TMPDIR, or /tmp */
void ground_remove(const char *directory);

const char *ground_programs(void); /* the directory of this program and of those that it starts */

ten_store *ground_open(const char *format, ...) TEN_PRINTF(1, 2); /* by its URL; NULL: failed, and said so */
bool ground_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count); /* all TEN_OK */
bool ground_apply_within(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);

/* Acquires `count` targets for a holder with this number. */
bool ground_acquire(ten_store *store, unsigned holder, size_t count, ground_leases *ret_leases);
void ground_free(ground_leases *leases);
/* Registers GROUND_SESSION in the default namespace. */
bool ground_register(const char *url, size_t count);

#endif
