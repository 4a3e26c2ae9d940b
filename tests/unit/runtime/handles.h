/*
 * What the tests of the C API share: a context, and a lease on it, or the test fails with the message.
 */
#ifndef TEN_TESTS_HANDLES_H
#define TEN_TESTS_HANDLES_H

#include "unit/unit.h"

#include <tenure.h>

UNIT_UNUSED static tenure_context *open_with(const char *url, const tenure_options *options) {
    tenure_context *context = NULL;
    if (tenure_open(url, options, &context) < 0)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

UNIT_UNUSED static tenure_context *open_context(const char *url) {
    return open_with(url, NULL);
}

UNIT_UNUSED static tenure_lease *acquire(tenure_context *context, const char *target, unsigned flags) {
    tenure_lease *lease = NULL;
    if (tenure_acquire(context, target, 0, flags, &lease) < 0)
        fail_msg("%s", tenure_message(context));
    return lease;
}

#endif
