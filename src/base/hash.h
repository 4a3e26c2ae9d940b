/*
 * Hashing: FNV-1a for a string, and a mixer with full avalanche. FNV alone hardly carries its last byte into the high
 * bits (`scene-01` to `scene-09` would all go to one of three instances), so whatever is compared by size is mixed
 * first.
 */
#ifndef TEN_BASE_HASH_H
#define TEN_BASE_HASH_H

#include <stdint.h>

/* FNV-1a, 64 bits. */
static inline uint64_t ten_hash_text(const char *text) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        hash = (hash ^ *at) * UINT64_C(1099511628211);
    return hash;
}

/* Every bit of the input reaches every bit of the output (the finaliser of splitmix64). One to one. */
static inline uint64_t ten_hash_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif
