/*
 * What a store keeps, as the rules and the backends see it: a record is a value under a key, with a version, a name and
 * a number that the store shows to people, and a life. Types only. The rules (src/rules) say what a value means and
 * which life it gets; a backend (store/backend.h) keeps it and understands none of it.
 */
#ifndef TEN_RULES_RECORD_H
#define TEN_RULES_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In the order in which a backend locks them. */
enum ten_kind {
    TEN_KIND_NAMESPACE,  /* id "": name: the identity under which its epoch began; number: that of the epoch */
    TEN_KIND_QUARANTINE, /* id "": alive: an epoch began, and nobody new is let in; number: ten_quarantine_left_ms() */
    TEN_KIND_INSTANCE,   /* name: the instance if it is announced; number: its weight; alive: session or tombstone */
    TEN_KIND_TARGET,     /* a registration; it has no end */
    TEN_KIND_LEASE,      /* name: the holder; number: the token, which is also the counter */
    TEN_KIND_CHECKPOINT, /* number: the token under which it was written; it has no end */
    TEN_KIND_COUNT,
};

typedef struct ten_key {
    enum ten_kind kind;
    const char *id;
} ten_key;

static inline bool ten_key_is(ten_key key, ten_key other) {
    return key.kind == other.kind && strcmp(key.id, other.id) == 0;
}

#define TEN_FOREVER     UINT64_MAX /* of a time: without end, or not known */
#define TEN_VERSION_ANY UINT64_MAX
#define TEN_NO_KEY      ((ten_key){.id = NULL})

typedef struct ten_record {
    ten_key key;
    uint64_t version;  /* 0: it is absent, and nothing of the rest counts but `foreign` */
    const char *value; /* text without a NUL, ended by one */
    const char *name;  /* "": none */
    uint64_t number;   /* up to 2^53 - 1 */
    bool alive;
    /* Another program has put something in its place (Redis: the plain key has another content than ours). It is alive,
     * `name` is that content, and no check of it holds but TEN_CHECK_FOREIGN. */
    bool foreign;
    uint64_t left_ms;  /* of what is alive: at least 1, and never more than there is; TEN_FOREVER: it has no end */
    uint64_t ended_ms; /* of what is dead: for how long it has been so; TEN_FOREVER: that is not known */
} ten_record;

/* The life that a write gives. Ends are counted by the store when it executes the write. */
enum ten_life_kind {
    TEN_LIFE_ENDED,   /* it is dead */
    TEN_LIFE_ENDLESS, /* it is alive until another write */
    TEN_LIFE_LATEST,  /* until the latest of those that follow */
};

typedef struct ten_life {
    enum ten_life_kind kind;
    uint64_t ttl_ms; /* now + that; 0: no matter */
    bool as_it_is;   /* the end that it has */
    ten_key with;    /* the end that another record has, if that is alive; id NULL: no matter */
    /* Nobody believes in it for that long, it only keeps others out: what a backend remembers of lives that may be lost
     * (ten_backend.lost_ms) need not count it. */
    bool only_keeps;
    /* Of a lease that is attached: the session on which it hangs besides. It is for whoever looks into the store
     * (Redis: its plain key keeps other programs out). */
    uint64_t session;
} ten_life;

#define TEN_LIFE_AS_IT_IS ((ten_life){.kind = TEN_LIFE_LATEST, .as_it_is = true})
#define TEN_LIFE_FOR(ms)  ((ten_life){.kind = TEN_LIFE_LATEST, .ttl_ms = (ms)})

#endif
