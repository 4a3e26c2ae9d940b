/*
 * Hashing. For what all instances compute alike: FNV-1a for a string, and a mixer with full avalanche. FNV alone hardly
 * carries its last byte into the high bits (`scene-01` to `scene-09` would all go to one of three instances), so
 * whatever is compared by size is mixed first. For tables: a hash with a secret, because ids come from clients. A
 * client that knows how a table hashes can choose ids that all land in one place, and every look-up becomes a walk
 * through all of them.
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

/* What a table hashes with; it keeps the one that it began with. */
typedef struct ten_hash_key {
    uint64_t words[2];
} ten_hash_key;

/* The process's own. Zero, so that tests and simulations repeat, until a program or a context asks for a secret one,
 * which happens once. */
ten_hash_key ten_hash_key_now(void);
void ten_hash_key_make_secret(void);

/* SipHash-1-3. */
uint64_t ten_hash_keyed(const char *text, ten_hash_key key);

#endif
