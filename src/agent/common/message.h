/*
 * The message of a poll: {"target","instance","_version","at","ok","duration_ms","data" or "error"}, one line of JSON;
 * in the namespace `scenes` also "scene_id".
 */
#ifndef TEN_AGENT_MESSAGE_H
#define TEN_AGENT_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

typedef struct ten_message {
    const char *namespace_name;
    const char *target;
    const char *instance;
    uint64_t token;
    uint64_t at_ms;
    uint64_t duration_ms;
    const char *error; /* NULL: it went well, and `data` counts */
    const char *data;  /* what the poller said: one JSON value becomes the data as it is, anything else a string */
    size_t data_size;
} ten_message;

/* Appends the line, its newline included. */
void ten_message_write(const ten_message *message, ten_buf *line);

/* Names of keys, channels and topics in which {target} and {namespace} stand for the message's own, and {{ for a brace.
 * TENURE_E_INVALID: there is a brace that means nothing. */
int ten_message_name_check(const char *pattern, ten_error *error);
/* Appends the name. Bytes of target and namespace that are in `reserved` are percent-encoded. */
void ten_message_name(const char *pattern, const ten_message *message, const char *reserved, ten_buf *name);

#endif
