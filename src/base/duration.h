/*
 * Durations as people write them: a whole number with its unit, `500ms`, `30s`, `5m`, `2h`, `1d`.
 */
#ifndef TEN_BASE_DURATION_H
#define TEN_BASE_DURATION_H

#include <stdint.h>

#include "base/error.h"

/* TENURE_E_INVALID with a message that names the text and the rule. */
int ten_duration_parse(const char *text, uint64_t *ret_ms, ten_error *error);

#define TEN_DURATION_SIZE 32u
/* For people: `850ms`, `12.3s`, `4m05s`, `3h20m`, `2d04h`. */
void ten_duration_show(uint64_t ms, char text[TEN_DURATION_SIZE]);

#endif
