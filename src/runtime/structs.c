/*
 * Structs that the program allocates. See structs.h.
 */
#include "runtime/structs.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/last_error.h"

static size_t size_of(const void *theirs) {
    size_t size;
    memcpy(&size, theirs, sizeof size);
    return size;
}

int ten_struct_check(const void *handle, const char *name, const void *theirs) {
    if (!theirs)
        return ten_last_error_say(handle, TENURE_E_INVALID, "no %s was given", name);
    if (size_of(theirs) < sizeof(size_t))
        return ten_last_error_say(handle, TENURE_E_INVALID, "%s.size is %zu: set it to sizeof(%s)", name,
                                  size_of(theirs), name);
    return TENURE_OK;
}

int ten_struct_read(const void *handle, const char *name, const void *theirs, void *ours, size_t size) {
    memset(ours, 0, size);
    if (!theirs)
        return TENURE_OK;
    int r = ten_struct_check(handle, name, theirs);
    if (r < 0)
        return r;
    size_t their_size = size_of(theirs) / sizeof(size_t) * sizeof(size_t); /* half a field is none */
    const unsigned char *bytes = theirs;
    for (size_t i = size; i < their_size; i++)
        if (bytes[i] != 0)
            return ten_last_error_say(handle, TENURE_E_UNSUPPORTED,
                                      "%s has a field that this version of the library (" TENURE_VERSION
                                      ") does not have, and it is not 0",
                                      name);
    memcpy(ours, theirs, their_size < size ? their_size : size);
    return TENURE_OK;
}

void ten_struct_write(void *theirs, const void *ours, size_t size) {
    size_t their_size = size_of(theirs);
    memcpy(theirs, ours, their_size < size ? their_size : size);
    memcpy(theirs, &their_size, sizeof their_size);
}

int ten_flags_check(const void *handle, unsigned flags, unsigned known) {
    return flags & ~known ? ten_last_error_say(handle, TENURE_E_UNSUPPORTED,
                                               "flag 0x%x is not known to this version of the library (" TENURE_VERSION
                                               ") in this place",
                                               flags & ~known)
                          : TENURE_OK;
}
