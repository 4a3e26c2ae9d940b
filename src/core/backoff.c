/*
 * The pause before something is started again. See backoff.h.
 */
#include "core/backoff.h"

#include "base/util.h"

uint64_t ten_backoff_pause_ms(ten_backoff *backoff, uint64_t ran_ms) {
    if (ran_ms >= backoff->steady_ms)
        backoff->brief = 0;
    return ten_min_u64(backoff->min_ms << ten_min_u64(backoff->brief++, 10), backoff->max_ms);
}
