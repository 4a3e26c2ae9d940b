/*
 * A value that is JSON already, as text: a target's spec. The stores keep it as it was given, so one that a program
 * wrote by hand may be anything.
 */
#ifndef TEN_STORE_JSON_VALUE_H
#define TEN_STORE_JSON_VALUE_H

#include "base/buf.h"
#include "base/error.h"

/* TENURE_E_INVALID: it is not JSON; the message says why. */
int ten_json_value_check(const char *text, ten_error *error);
/* A member of an object: the value itself, or if it is not JSON a string with its text. NULL: null. */
void ten_json_value(ten_buf *buf, const char *key, const char *text);

#endif
