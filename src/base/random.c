/*
 * Random numbers from the kernel. Called for instance ids, marks of commands and jitter.
 */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/util.h"

uint64_t ten_random_u64(void) {
    uint64_t number = 0;
    ssize_t count;
    do
        count = getrandom(&number, sizeof number, 0);
    while (count < 0 && errno == EINTR);
    /* Eight bytes come whole once the pool is ready; an id that is not random could be somebody else's. */
    TEN_INVARIANT(count == (ssize_t)sizeof number);
    return number;
}
