/*
 * What a handle has seen of the leases that it renews: these records had these versions when the namespace had this number.
 * Every commit raises the number. As long as it is the same, or only this handle's commits have raised it, no version is
 * compared again (TOUCH in redis.lua). A mark is a keyed hash of a record's id and version;
 * beside it is that of its name.
 */
#include <string.h>

#include "base/alloc.h"
#include "store/redis/redis_state.h"

#define NO_MARK     0u /* an empty place */
#define FORMER_MARK 1u /* one that was taken out */

static uint64_t mark_of(const ten_redis_proof *proof, const char *id, uint64_t version) {
    uint64_t mark = ten_hash_mix(ten_hash_keyed(id, proof->key) ^ ten_hash_mix(version));
    return mark > FORMER_MARK ? mark : FORMER_MARK + 1;
}

/* Where it is, or where it belongs. */
static size_t place_of(const ten_redis_proof *proof, uint64_t mark) {
    size_t at = (size_t)mark & (proof->room - 1);
    while (proof->marks[at].mark != NO_MARK && proof->marks[at].mark != mark)
        at = (at + 1) & (proof->room - 1);
    return at;
}

/* Room for more, without those that were taken out. */
static bool make_room(ten_redis_proof *proof) {
    ten_redis_proof made = *proof;
    made.used = 0;
    for (size_t i = 0; i < proof->room; i++)
        made.used += proof->marks[i].mark > FORMER_MARK;
    for (made.room = 64; made.room < 4 * made.used; made.room *= 2)
        ;
    made.marks = ten_calloc(made.room, sizeof *made.marks);
    if (!made.marks)
        return false;
    for (size_t i = 0; i < proof->room; i++)
        if (proof->marks[i].mark > FORMER_MARK)
            made.marks[place_of(&made, proof->marks[i].mark)] = proof->marks[i];
    ten_free(proof->marks);
    *proof = made;
    return true;
}

void ten_redis_proof_free(ten_redis_proof *proof) {
    ten_free(proof->marks);
    *proof = (ten_redis_proof){0};
}

void ten_redis_proof_at(ten_redis_proof *proof, const ten_redis_space *space, uint64_t before, uint64_t number) {
    if (proof->space != space || proof->number != before) {
        ten_redis_proof_free(proof);
        proof->key = ten_hash_key_now();
    }
    proof->space = space;
    proof->number = number;
}

void ten_redis_proof_add(ten_redis_proof *proof, const char *id, uint64_t version, const char *name) {
    uint64_t mark = mark_of(proof, id, version);
    if (proof->used >= proof->room / 2 && !make_room(proof))
        return;
    struct ten_redis_mark *place = &proof->marks[place_of(proof, mark)];
    proof->used += place->mark == NO_MARK;
    *place = (struct ten_redis_mark){mark, ten_hash_keyed(name, proof->key)};
}

void ten_redis_proof_remove(ten_redis_proof *proof, const char *id, uint64_t version) {
    size_t at = proof->room ? place_of(proof, mark_of(proof, id, version)) : 0;
    if (proof->room && proof->marks[at].mark != NO_MARK)
        proof->marks[at].mark = FORMER_MARK;
}

bool ten_redis_proof_has(const ten_redis_proof *proof, const ten_redis_space *space, const char *id, uint64_t version,
                         const char *name) {
    if (proof->space != space || proof->room == 0)
        return false;
    uint64_t mark = mark_of(proof, id, version);
    const struct ten_redis_mark *place = &proof->marks[place_of(proof, mark)];
    return place->mark == mark && place->name == ten_hash_keyed(name, proof->key);
}
