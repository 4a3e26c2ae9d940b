/*
 * The insides of a context, shared by the files of the runtime.
 */
#ifndef TEN_RUNTIME_CONTEXT_STATE_H
#define TEN_RUNTIME_CONTEXT_STATE_H

#include "base/buf.h"
#include "core/lease_book.h"
#include "core/timing.h"
#include "runtime/carrier.h"
#include "runtime/context.h"
#include "runtime/last_error.h"
#include "runtime/object.h"
#include "runtime/structs.h"

struct tenure_context {
    ten_object object;
    ten_carrier carrier;
    ten_timing timing;
    char instance[TENURE_HOLDER_MAX + 1];
    char actor[TENURE_HOLDER_MAX + 1]; /* who forces and asks, for the history; "": the instance */
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    ten_buf identity; /* address and labels, as members of its metadata */
    tenure_event_fn on_event;
    void *userdata;
    ten_channel *channel; /* of its namespace */
    ten_channel *roles;   /* of the namespace whose leaders were last asked for, or NULL; under the carrier's lock */
    ten_task task;        /* of the leases */

    /* Under the carrier's lock. */
    ten_lease_book *book;
    ten_object *objects;        /* fleet members, elections and guards that were opened on it */
    ten_object *leases;         /* handles of leases */
    tenure_lease *lost;         /* the queue of on_lost calls */
    tenure_lease **lost_end;    /* where the next one is linked; NULL: the queue was never used */
    const tenure_lease *losing; /* the one whose on_lost is being called */
};

/* Checks a target's name; the error is said about the handle. */
int ten_context_check_target(const void *handle, const char *target);

/* Checks the handle, too. */
int ten_context_check_named(const tenure_context *context, const char *target);
/* Errors about a target: nothing is known of it; its lease with that token is lost, by what the store says. */
int ten_context_say_unknown(const tenure_context *context, const char *target);
int ten_context_say_lost(const void *handle, const char *target, uint64_t token, const ten_result *result);

/* Who forces and asks, as the history names it. */
static inline const char *ten_context_actor(const tenure_context *context) {
    return context->actor[0] ? context->actor : context->instance;
}

/* One call on a store: enter, the call, leave. Enter checks the handle, takes the turn and clears the store's error.
 * Leave returns r, whose message is the store's. `channel` is NULL for the context's namespace. */
int ten_context_enter(tenure_context *context, ten_channel *channel, ten_store **ret_store);
int ten_context_leave(tenure_context *context, ten_channel *channel, int r);
/* One operation, entered and left; its namespace is filled in. The result's holder is copied; it may be NULL. */
int ten_context_apply(tenure_context *context, ten_channel *channel, const ten_op *op, ten_result *result,
                      char ret_holder[TENURE_HOLDER_MAX + 1]);

/* context_watch.c: tenure_watch_start() and tenure_watch_wait(), whose arguments were checked. */
int ten_context_watch_start(tenure_context *context, ten_channel *channel, uint64_t *ret_cursor);
int ten_context_watch_wait(tenure_context *context, ten_channel *channel, uint64_t *cursor, uint64_t wait_ms,
                           tenure_change_fn each, void *userdata);

/* Enters an object on the context: into the table and the context's list. An election or a member is refused beside
 * another holder of its targets in the context; the error is said about the context. */
int ten_context_adopt(tenure_context *context, ten_object *object, enum ten_object_kind kind);
/* Takes it out of the context's list. */
void ten_context_disown(tenure_context *context, ten_object *object);
/* Closes what was opened on a context; NULL: nothing. `leave` takes it off the carrier; `free_inside` frees it. */
void ten_context_close_object(void *handle, enum ten_object_kind kind, const char *function,
                              void (*leave)(ten_object *object), void (*free_inside)(ten_object *object));
/* Waits for the next event of the task. The error is said about the handle. */
int ten_context_next_event(const void *handle, ten_task *task, uint64_t wait_ms, tenure_event *ret_event);

/* With the lock. Whether no election or member of the context holds the target, or (NULL) any in the namespace. The
 * error is said about the context. */
int ten_context_check_free(const tenure_context *context, const char *namespace_name, const char *target);

/* context_targets.c: the handle, the target and the token. The error is said about the context. */
int ten_context_check_token(const tenure_context *context, const char *target, uint64_t token);

/* context_lease.c */
int ten_context_make_book(tenure_context *context, ten_error *error);
extern const ten_task_hooks ten_context_hooks;
/* Fills in the handle that the event is about; without the lock. */
void ten_context_name_lease(tenure_context *context, tenure_event *event);

#endif
