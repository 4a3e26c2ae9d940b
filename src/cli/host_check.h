/*
 * What `tenure doctor` finds in this host: how the commands of an agent can be kept together, and whether they can be
 * ended. It is tried on a child of this process.
 */
#ifndef TEN_CLI_HOST_CHECK_H
#define TEN_CLI_HOST_CHECK_H

#include "agent/warden/isolation.h"
#include "cli/arguments.h"

void ten_host_check(tenure_check_fn each, void *userdata);
/* Whether commands can be isolated as --pid-namespace asks. TEN_EXIT_DONE: they can; else it has been said why not. */
int ten_host_check_isolation(enum ten_isolation_wish wish);

#endif
