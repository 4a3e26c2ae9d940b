/*
 * The context for the layers above: opening one with another clock, and what the C API does not tell.
 */
#ifndef TEN_RUNTIME_CONTEXT_H
#define TEN_RUNTIME_CONTEXT_H

#include <tenure.h>

#include "base/clock.h"

/* tenure_open() with a clock of the caller's, for tests. */
int ten_context_open(const char *url, const tenure_options *options, const ten_clock *clock,
                     tenure_context **ret_context);

/* Who forces and asks by this context, as the history names it: a person, where the process is of no interest. */
void ten_context_set_actor(tenure_context *context, const char *actor);

/* How long newcomers with the context's TTL still have to wait because the store may have lost data; 0: not at all.
 * With an actor, for the history, they wait no longer. TENURE_E_UNSUPPORTED: this kind of store cannot tell. */
int ten_context_recovery(tenure_context *context, const char *actor, uint64_t *ret_left_ms);

#endif
