/*
 * The keyed hash of tables. Called by map.c and the plan's index.
 */
#include "base/hash.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/random.h"

static ten_hash_key secret;

static void make_secret(void) {
    secret = (ten_hash_key){{ten_random_u64(), ten_random_u64()}};
}

void ten_hash_key_make_secret(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_secret);
}

ten_hash_key ten_hash_key_now(void) {
    return secret;
}

static uint64_t turn(uint64_t x, unsigned bits) {
    return x << bits | x >> (64 - bits);
}

static void mix_round(uint64_t v[4]) {
    v[0] += v[1];
    v[1] = turn(v[1], 13) ^ v[0];
    v[0] = turn(v[0], 32);
    v[2] += v[3];
    v[3] = turn(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = turn(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = turn(v[1], 17) ^ v[2];
    v[2] = turn(v[2], 32);
}

static void take_word(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    mix_round(v);
    v[0] ^= word;
}

uint64_t ten_hash_keyed(const char *text, ten_hash_key key) {
    size_t size = strlen(text);
    uint64_t last = (uint64_t)size << 56;
    uint64_t word = 0;
    uint64_t v[4] = {key.words[0] ^ UINT64_C(0x736f6d6570736575), key.words[1] ^ UINT64_C(0x646f72616e646f6d),
                     key.words[0] ^ UINT64_C(0x6c7967656e657261), key.words[1] ^ UINT64_C(0x7465646279746573)};
    /* The order of bytes differs between machines, which does not matter: no hash of a table leaves the process. */
    for (; size >= sizeof word; text += sizeof word, size -= sizeof word) {
        memcpy(&word, text, sizeof word);
        take_word(v, word);
    }
    word = 0;
    memcpy(&word, text, size);
    take_word(v, last ^ word);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
