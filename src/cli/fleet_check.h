/*
 * What `tenure doctor` finds in the fleet itself: versions that differ, and ids that two processes use. It reads the
 * store and changes nothing.
 */
#ifndef TEN_CLI_FLEET_CHECK_H
#define TEN_CLI_FLEET_CHECK_H

#include "cli/arguments.h"

/* *ret_ttl_ms: the fleet's TTL; 0: there is none. An error is the context's. */
int ten_fleet_check(const ten_arguments *arguments, tenure_check_fn each, void *userdata, uint64_t *ret_ttl_ms);

#endif
