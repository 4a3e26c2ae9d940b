/*
 * The nearest word by edit distance. Called when a command, an option or a URL option is not known.
 */
#include "base/suggest.h"

#include <string.h>

#include "base/util.h"

#define LONGEST 40u

/* Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment). */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][LONGEST + 1];
    size_t a_size = strlen(a);
    size_t b_size = strlen(b);
    if (a_size > LONGEST || b_size > LONGEST)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_size; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        const size_t *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = (size_t)ten_min_u64(best, ten_min_u64(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = (size_t)ten_min_u64(best, before[j - 2] + 1);
            row[j] = best;
        }
    }
    return rows[a_size % 3][b_size];
}

const char *ten_suggest(const char *typed, const char *const *words, size_t count) {
    const char *nearest = NULL;
    size_t best = strlen(typed) / 3 + 2;
    for (size_t i = 0; i < count; i++) {
        size_t far = distance(typed, words[i]);
        if (far < best) {
            best = far;
            nearest = words[i];
        }
    }
    return nearest;
}
