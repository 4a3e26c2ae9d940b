/*
 * The guard's opening with a clock of the caller's, for tests.
 */
#ifndef TEN_RUNTIME_GUARD_H
#define TEN_RUNTIME_GUARD_H

#include <tenure.h>

#include "base/clock.h"

int ten_guard_reader_open(const char *url, const tenure_guard_options *options, const ten_clock *clock,
                          tenure_guard **ret_guard);

#endif
