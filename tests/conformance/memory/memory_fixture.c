/*
 * A store in this process. See conformance/fixture.h.
 */
#include <stdio.h>
#include <unistd.h>

#include "conformance/fixture.h"

static int create_memory(struct fixture *fixture) {
    snprintf(fixture->url, sizeof fixture->url, "memory:conformance-%ld", (long)getpid());
    return 0;
}

static void destroy_nothing(struct fixture *fixture) {
    (void)fixture;
}

const fixture_kind memory_fixture = {
    .scheme = "memory:",
    .create = create_memory,
    .destroy = destroy_nothing,
};
