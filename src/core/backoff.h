/*
 * The pause before something is tried again: twice as long each time, until it has gone well for a while. Pure
 * arithmetic; for commands (core/term.h), workers (core/worker.h) and requests (core/engine.h).
 */
#ifndef TEN_CORE_BACKOFF_H
#define TEN_CORE_BACKOFF_H

#include <stdint.h>

typedef struct ten_backoff {
    uint64_t min_ms;
    uint64_t max_ms;
    uint64_t steady_ms; /* what has run so long starts it anew */
    unsigned brief;     /* ends in a row that came sooner */
} ten_backoff;

/* The pause after something that ran for ran_ms. */
uint64_t ten_backoff_pause_ms(ten_backoff *backoff, uint64_t ran_ms);

#endif
