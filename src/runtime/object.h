/*
 * What every handle of the C API begins with, and the table of the handles that are open. A call looks its handle up
 * before it touches it: so a handle that was closed, of another kind, or of another process is an error with a message,
 * and not a crash. The memory of a handle is not used again until TEN_OBJECT_RETIRED_MAX others were freed: so an old
 * handle is not taken for a new one at the same address.
 */
#ifndef TEN_RUNTIME_OBJECT_H
#define TEN_RUNTIME_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <tenure.h>

#define TEN_OBJECT_RETIRED_MAX 1024u

enum ten_object_kind {
    TEN_OBJECT_CONTEXT,
    TEN_OBJECT_LEASE,
    TEN_OBJECT_MEMBER,
    TEN_OBJECT_ELECTION,
    TEN_OBJECT_GUARD,
};

/* How an object ends with its context. All but `end` may be NULL. */
struct ten_object;
typedef struct ten_object_ends {
    void (*begin)(struct ten_object *object);          /* with the lock: asks for its end */
    bool (*is_ended)(const struct ten_object *object); /* with the lock: whether that has come */
    bool (*may_hold)(const struct ten_object *object); /* with the lock: something that was not released */
    void (*end)(struct ten_object *object);            /* takes it off the carrier */
} ten_object_ends;

typedef struct ten_object {
    enum ten_object_kind kind;
    const ten_object_ends *ends;       /* set by its owner, as are the next two */
    const char *namespace_name;        /* of a fleet member or an election, which hold targets there; else NULL */
    const char *target;                /* of an election: its role */
    uint64_t process;                  /* see base/fork.h */
    _Atomic(tenure_context *) context; /* NULL: it was closed */
    struct ten_object *next;           /* of the context's objects; under its carrier's lock */
    struct ten_object **before;        /* what points to it */
} ten_object;

/* Enters an object into the table. False: out of memory. */
bool ten_object_enter(ten_object *object, enum ten_object_kind kind, tenure_context *context);
/* Takes it out. False: it was not there. */
bool ten_object_leave(const void *handle, enum ten_object_kind kind);

/* TENURE_OK: the handle is open, of that kind, of this process, and so is its context. Else the error was said. */
int ten_object_check(const void *handle, enum ten_object_kind kind);
/* The same for a function that needs the store, waits or closes: not from an on_... function of this context. The name
 * of the function is for the message. */
int ten_object_check_waiting_in(const void *handle, enum ten_object_kind kind, const char *function);
#define ten_object_check_waiting(handle, kind) ten_object_check_waiting_in(handle, kind, __func__)
/* For a function that closes: also a handle whose context was closed, or that belongs to the parent process, may be
 * freed. True: it was open, and is no longer; the caller frees it. *ret_usable is TENURE_OK, or the error that was
 * said. */
bool ten_object_close_in(const void *handle, enum ten_object_kind kind, const char *function, int *ret_usable);
#define ten_object_close(handle, kind, ret_usable) ten_object_close_in(handle, kind, __func__, ret_usable)
/* Frees the memory of a handle that is not in the table. */
void ten_object_free(void *handle);

/* A call that uses the handle after a function of the program has returned. Until its end this thread cannot close the
 * handle, nor the context to which it belongs. */
typedef struct ten_object_use {
    const ten_object *object;
    const struct ten_object_use *outer;
} ten_object_use;
void ten_object_use_begin(ten_object_use *use, const void *handle);
void ten_object_use_end(const ten_object_use *use);

/* Whether both are open, and one is the context of the other. */
bool ten_object_are_related(const void *a, const void *b);

#endif
