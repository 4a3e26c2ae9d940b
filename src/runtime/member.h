/*
 * The manager's insides, for the agent: slots in memory of the caller's, and targets with their specifications.
 */
#ifndef TEN_RUNTIME_MANAGER_H
#define TEN_RUNTIME_MANAGER_H

#include "base/clock.h"
#include "base/error.h"
#include "runtime/measures.h"
#include "runtime/slots.h"

/* What the registry says of a target; `removed`: it is no longer there, and only the id counts. Called from the
 * manager's thread. */
typedef void (*ten_target_news_fn)(const tenure_target *target, bool removed, void *userdata);

typedef struct ten_manager_extras {
    ten_slots *slots; /* NULL: the manager makes its own */
    ten_target_news_fn on_target;
    void *userdata;
    ten_measures *measures; /* NULL: nobody counts */
} ten_manager_extras;

int ten_manager_open(const char *url, const tenure_manager_options *options, const ten_manager_extras *extras,
                     tenure_manager **ret_manager);

/* tenure_manager_stop() without waiting: TENURE_EVENT_STOPPED tells when everything has been given back. */
void ten_manager_begin_stop(tenure_manager *manager);

#endif
