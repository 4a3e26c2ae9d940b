/*
 * The table of open handles: a hash set of addresses under one lock. See object.h.
 */
#include "runtime/object.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/hash.h"
#include "runtime/carrier.h"
#include "runtime/context_state.h"
#include "runtime/last_error.h"

#if defined(__SANITIZE_ADDRESS__)
#define RETIRED_MAX 0u /* the sanitizer does the same, and finds uses of the memory */
#else
#define RETIRED_MAX TEN_OBJECT_RETIRED_MAX
#endif

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

static bool leave(const void *handle, enum ten_object_kind kind) {
    const ten_object *object = find(handle);
    bool found = object && object->kind == kind;
    if (found)
        take_out(place_of(handle));
    if (found && table.count == 0) { /* nothing is left behind when the program has closed everything */
        ten_free(table.places);
        table.places = NULL;
        table.room = 0;
    }
    return found;
}

bool ten_object_leave(const void *handle, enum ten_object_kind kind) {
    lock_table();
    bool left = leave(handle, kind);
    unlock_table();
    return left;
}

/* ---- the memory of handles; a ring of those that were freed last */

static void *retired[TEN_OBJECT_RETIRED_MAX];
static size_t retired_count;

void ten_object_free(void *handle) {
    if (!handle)
        return;
    if (RETIRED_MAX > 0) {
        lock_table();
        void **place = &retired[retired_count++ % TEN_OBJECT_RETIRED_MAX];
        void *oldest = *place;
        *place = handle;
        handle = oldest;
        unlock_table();
    }
    ten_free(handle);
}

/* ---- checks; with the table's lock, so that no other thread frees the object meanwhile */

static const char *article_of(enum ten_object_kind kind) {
    return kind == TEN_OBJECT_ELECTION ? "an" : "a";
}

static int check_found(const void *handle, const ten_object *object, enum ten_object_kind kind) {
    if (!object)
        return ten_last_error_say(handle, TENURE_E_CLOSED, "this %s was closed or freed before, or is not a handle",
                                  names[kind]);
    if (object->kind != kind)
        return ten_last_error_say(handle, TENURE_E_INVALID, "this handle is %s %s, not %s %s", article_of(object->kind),
                                  names[object->kind], article_of(kind), names[kind]);
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

static _Thread_local const ten_object_use *uses; /* of this thread; the innermost first */

static bool is_used(const ten_object *object) {
    for (const ten_object_use *use = uses; use; use = use->outer)
        if (use->object == object || (const void *)atomic_load(&use->object->context) == (const void *)object)
            return true;
    return false;
}

static int check_callback(const ten_object *object, const char *function, bool closes) {
    const tenure_context *context = atomic_load(&object->context);
    bool telling = context && ten_carrier_is_telling(&context->carrier);
    bool public = strncmp(function, "tenure_", strlen("tenure_")) == 0;
    if (telling)
        return ten_last_error_say(object, TENURE_E_CALLBACK,
                                  "%s%s is not allowed in an on_... function, because it waits for the store or closes "
                                  "a handle. There, acquire with TENURE_ASYNC and release with tenure_lease_drop(); do "
                                  "the rest in another thread, or after the function has returned",
                                  public ? function : "this call", public ? "()" : "");
    if (closes && is_used(object))
        return ten_last_error_say(object, TENURE_E_CALLBACK,
                                  "this %s cannot be closed here: a call that is under way in this thread still uses "
                                  "it. Return from its function first",
                                  names[object->kind]);
    return TENURE_OK;
}

static int check_waiting(const void *handle, enum ten_object_kind kind, const char *function, bool closes) {
    const ten_object *object = find(handle);
    int r = check_found(handle, object, kind);
    return r < 0 ? r : check_callback(object, function, closes);
}

int ten_object_check_waiting_in(const void *handle, enum ten_object_kind kind, const char *function) {
    if (!handle)
        return ten_object_check(handle, kind);
    lock_table();
    int r = check_waiting(handle, kind, function, false);
    unlock_table();
    return r;
}

bool ten_object_close_in(const void *handle, enum ten_object_kind kind, const char *function, int *ret_usable) {
    lock_table();
    *ret_usable = check_waiting(handle, kind, function, true);
    bool closed = *ret_usable != TENURE_E_CALLBACK && leave(handle, kind);
    unlock_table();
    return closed;
}

void ten_object_use_begin(ten_object_use *use, const void *handle) {
    *use = (ten_object_use){.object = handle, .outer = uses};
    uses = use;
}

void ten_object_use_end(const ten_object_use *use) {
    uses = use->outer;
}

bool ten_object_are_related(const void *a, const void *b) {
    lock_table();
    const ten_object *first = find(a);
    const ten_object *second = find(b);
    bool related = first && second && (atomic_load(&first->context) == b || atomic_load(&second->context) == a);
    unlock_table();
    return related;
}
