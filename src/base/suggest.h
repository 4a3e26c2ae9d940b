/*
 * "Did you mean": the word of a list that is nearest to a mistyped one.
 */
#ifndef TEN_BASE_SUGGEST_H
#define TEN_BASE_SUGGEST_H

#include <stddef.h>

/* The nearest of `count` words, or NULL when none is near enough to be helpful. */
const char *ten_suggest(const char *typed, const char *const *words, size_t count);

#endif
