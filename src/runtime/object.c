/*
 * The table of open handles: a hash set of addresses under one lock. See object.h.
 */
#include "runtime/object.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/hash.h"
#include "runtime/carrier.h"
#include "runtime/context_state.h"
#include "runtime/last_error.h"

static const char *const names[] = {[TEN_OBJECT_CONTEXT] = "context",
                                    [TEN_OBJECT_LEASE] = "lease",
                                    [TEN_OBJECT_MEMBER] = "fleet member",
                                    [TEN_OBJECT_ELECTION] = "election",
                                    [TEN_OBJECT_GUARD] = "guard"};

/* ---- the table; linear probing, no gaps */

static struct {
    pthread_mutex_t lock;
    const ten_object **places;
    size_t room; /* a power of two, or 0 */
    size_t count;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void lock_table(void) {
    pthread_mutex_lock(&table.lock);
}

static void unlock_table(void) {
    pthread_mutex_unlock(&table.lock);
}

/* A child of fork() finds the table whole, whatever other threads did at that moment. */
static void prepare(void) {
    pthread_atfork(lock_table, unlock_table, unlock_table);
}

static size_t place_of(const void *handle) {
    size_t at = (size_t)ten_hash_mix((uint64_t)(uintptr_t)handle) & (table.room - 1);
    while (table.places[at] && table.places[at] != handle)
        at = (at + 1) & (table.room - 1);
    return at;
}

static const ten_object *find(const void *handle) {
    return table.room ? table.places[place_of(handle)] : NULL;
}

static bool grow(void) {
    if (table.count * 2 < table.room)
        return true;
    size_t old_room = table.room;
    const ten_object **old = table.places;
    const ten_object **places = ten_calloc(old_room ? old_room * 2 : 16, sizeof *places);
    if (!places)
        return false;
    table.places = places;
    table.room = old_room ? old_room * 2 : 16;
    for (size_t i = 0; i < old_room; i++)
        if (old[i])
            places[place_of(old[i])] = old[i];
    ten_free(old);
    return true;
}

/* Takes one out and moves up those behind it, so that there is no gap. */
static void take_out(size_t at) {
    table.places[at] = NULL;
    table.count--;
    for (size_t i = (at + 1) & (table.room - 1); table.places[i]; i = (i + 1) & (table.room - 1)) {
        const ten_object *object = table.places[i];
        table.places[i] = NULL;
        table.places[place_of(object)] = object;
    }
}

bool ten_object_enter(ten_object *object, enum ten_object_kind kind, tenure_context *context) {
    pthread_once(&prepared, prepare);
    object->kind = kind;
    object->process = ten_fork_number();
    atomic_store(&object->context, context);
    lock_table();
    bool entered = grow();
    if (entered) {
        table.places[place_of(object)] = object;
        table.count++;
    }
    unlock_table();
    return entered;
}

bool ten_object_leave(const void *handle, enum ten_object_kind kind) {
    lock_table();
    const ten_object *object = find(handle);
    bool found = object && object->kind == kind;
    if (found)
        take_out(place_of(handle));
    if (found && table.count == 0) { /* nothing is left behind when the program has closed everything */
        ten_free(table.places);
        table.places = NULL;
        table.room = 0;
    }
    unlock_table();
    return found;
}

/* ---- checks */

static int check_found(const void *handle, const ten_object *object, enum ten_object_kind kind) {
    if (!object)
        return ten_last_error_say(handle, TENURE_E_CLOSED, "this %s was closed or freed before, or is not a handle",
                                  names[kind]);
    if (object->kind != kind)
        return ten_last_error_say(handle, TENURE_E_INVALID, "this handle is a %s, not a %s", names[object->kind],
                                  names[kind]);
    if (!ten_fork_is(object->process))
        return ten_last_error_say(handle, TENURE_E_FORKED,
                                  "this %s belongs to the parent of this process; open another one after fork()",
                                  names[kind]);
    if (!atomic_load(&object->context))
        return ten_last_error_say(handle, TENURE_E_CLOSED, "the context of this %s was closed", names[kind]);
    return TENURE_OK;
}

int ten_object_check(const void *handle, enum ten_object_kind kind) {
    if (!handle)
        return ten_last_error_say(NULL, TENURE_E_INVALID, "no %s was given", names[kind]);
    lock_table();
    int r = check_found(handle, find(handle), kind);
    unlock_table();
    return r;
}

static int check_callback(const void *handle, enum ten_object_kind kind) {
    const ten_object *object = handle;
    tenure_context *context = atomic_load(&object->context);
    return context && ten_carrier_is_telling(&context->carrier)
               ? ten_last_error_say(handle, TENURE_E_CALLBACK,
                                    "an on_... function must not wait for the store or close this %s: do it in "
                                    "another thread, or after the function has returned",
                                    names[kind])
               : TENURE_OK;
}

int ten_object_check_waiting(const void *handle, enum ten_object_kind kind) {
    int r = ten_object_check(handle, kind);
    return r < 0 ? r : check_callback(handle, kind);
}

bool ten_object_close(const void *handle, enum ten_object_kind kind) {
    int r = ten_object_check(handle, kind);
    if (r == TENURE_OK && check_callback(handle, kind) < 0)
        return false;
    return ten_object_leave(handle, kind); /* one that cannot be used may still be freed */
}

bool ten_object_are_related(const void *a, const void *b) {
    lock_table();
    const ten_object *first = find(a);
    const ten_object *second = find(b);
    bool related = first && second && (atomic_load(&first->context) == b || atomic_load(&second->context) == a);
    unlock_table();
    return related;
}
