/*
 * The cases of test_redis_records.c with planted bugs: each has to be found. Some are planted in the text of a script, as it
 * is loaded by the planted redis.c (tests/mutants/store/redis).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "mutants/mutants.h"

enum ten_mutant ten_mutant = TEN_MUTANT_NONE;
const char *planted_script(const char *script);

static const struct {
    enum ten_mutant mutant;
    const char *from, *to;
} changes[] = {
    {TEN_MUTANT_REDIS_FOREIGN_EXTENDED, "contents[i] == name", "contents[i]"},
    {TEN_MUTANT_REDIS_FOREIGN_EXTENDED, "content == name or content", "content or content"},
    {TEN_MUTANT_REDIS_CHANGE_UNSEEN, "local same = known == number", "local same = true"},
};

const char *planted_script(const char *script) {
    static char text[65536];
    static char rest[65536];
    snprintf(text, sizeof text, "%s", script);
    for (size_t i = 0; i < TEN_COUNT(changes); i++) {
        char *at = changes[i].mutant == ten_mutant ? strstr(text, changes[i].from) : NULL;
        if (!at)
            continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(changes[i].from));
        snprintf(at, sizeof text - (size_t)(at - text), "%s%s", changes[i].to, rest);
    }
    return text;
}

static const struct ten_mutant_name mutants[] = {TEN_REDIS_MUTANTS(TEN_MUTANT_NAME)};

int main(void) {
    return ten_mutants_find(mutants, TEN_COUNT(mutants)) ? 1 : 0;
}
