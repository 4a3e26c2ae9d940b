/*
 * The rules for names: namespaces, targets, holders, instance ids and tokens. Every door through which a name comes in
 * (C API, command line, REST, files) checks it here, so that nothing behind the door has to think about injection.
 */
#ifndef TEN_BASE_ID_H
#define TEN_BASE_ID_H

#include <stdint.h>

#include "base/error.h"

/* Each returns TENURE_E_INVALID with a message that names the value (control characters shown as \xHH) and the rule. */
int ten_id_check_namespace(const char *name, ten_error *error); /* 1 to 63 of A-Z a-z 0-9 . _ -; never `tenure` */
int ten_id_check_target(const char *id, ten_error *error);      /* 1 to 255 of A-Z a-z 0-9 . _ ~ : @ + - / ... */
int ten_id_check_role(const char *role, ten_error *error);      /* as a target */
int ten_id_check_holder(const char *id, ten_error *error);      /* 1 to 255 bytes of UTF-8 without control characters */
int ten_id_check_instance_name(const char *name, ten_error *error);

/* A token as text: 1 to 2^53 - 1, digits only. */
int ten_id_parse_token(const char *text, uint64_t *ret_token, ten_error *error);

/* As people see an instance: `host-b 8758` for `host-b-1794800866584062094-8758ba42`; another id as it is. */
void ten_id_shorten(const char *id, char text[TENURE_HOLDER_MAX + 1]);

/* A new instance id: `name-startNanoseconds-8hex`; name is the host's when NULL. Never the same twice. */
int ten_id_make_instance(const char *name, char id[TENURE_HOLDER_MAX + 1], ten_error *error);

#endif
