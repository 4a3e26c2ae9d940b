/*
 * Patterns of keys. See redis_layout.h.
 */
#include "store/redis/redis_layout.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

#define PATTERN_MAX      200u
#define LEADER_NAMESPACE "leader"

static const char *const own_names[TEN_REDIS_OWN_COUNT] = {"records", "ids", "feed", "epoch"};

/* Writes the pattern for a namespace into `text`; *ret_place is where the id goes. */
static int expand(const char *pattern, const char *word, const char *namespace_name, ten_buf *text, size_t *ret_place,
                  ten_error *error) {
    size_t places = 0;
    size_t word_size = strlen(word);
    for (const char *at = pattern; *at;) {
        if (strncmp(at, "{{", 2) == 0 || strncmp(at, "}}", 2) == 0) {
            ten_buf_char(text, *at);
            at += 2;
        } else if (strncmp(at, "{ns}", 4) == 0) {
            ten_buf_text(text, namespace_name);
            at += 4;
        } else if (at[0] == '{' && strncmp(at + 1, word, word_size) == 0 && at[1 + word_size] == '}') {
            *ret_place = text->size;
            places++;
            at += word_size + 2;
        } else if (*at == '{') {
            return ten_fail(error, TENURE_E_INVALID,
                            "the key pattern '%s' has a brace that is neither {ns} nor {%s}; {{ is a literal one",
                            pattern, word);
        } else {
            ten_buf_char(text, *at++);
        }
    }
    if (places != 1)
        return ten_fail(error, TENURE_E_INVALID, "the key pattern '%s' must have {%s} in it, once", pattern, word);
    return text->failed ? ten_fail_memory(error, "a key pattern") : TENURE_OK;
}

/* NULL: out of memory. */
static const char *keep(ten_redis_layout *layout, const ten_buf *text) {
    return text->failed ? NULL : ten_arena_text(&layout->texts, ten_buf_string(text));
}

static int make_pattern(ten_redis_layout *layout, const char *pattern, const char *word, const char *namespace_name,
                        ten_redis_pattern *ret, ten_error *error) {
    TEN_CLEANUP(ten_buf_free) ten_buf text = {0};
    size_t place = 0;
    int r = expand(pattern, word, namespace_name, &text, &place, error);
    if (r < 0)
        return r;
    ret->after = ten_arena_text(&layout->texts, ten_buf_string(&text) + place);
    text.data[place] = '\0';
    ret->before = keep(layout, &text);
    return ret->before && ret->after ? TENURE_OK : ten_fail_memory(error, "a key pattern");
}

/* Two patterns that can give the same key would make a heartbeat look like a lease. */
static bool may_collide(const ten_redis_pattern *a, const ten_redis_pattern *b) {
    size_t common = ten_min_u64(strlen(a->before), strlen(b->before));
    size_t a_after = strlen(a->after);
    size_t b_after = strlen(b->after);
    size_t ending = ten_min_u64(a_after, b_after);
    return strncmp(a->before, b->before, common) == 0 &&
           strcmp(a->after + a_after - ending, b->after + b_after - ending) == 0;
}

static int check_pattern(const char *pattern, const char *word, ten_error *error) {
    if (strlen(pattern) > PATTERN_MAX)
        return ten_fail(error, TENURE_E_INVALID, "the key pattern '%.40s...' is longer than %u bytes", pattern,
                        PATTERN_MAX);
    for (const char *at = pattern; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return ten_fail(error, TENURE_E_INVALID, "a key pattern for {%s} has a control character", word);
    if (strncmp(pattern, TEN_REDIS_OWN_PREFIX, strlen(TEN_REDIS_OWN_PREFIX)) == 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "the key pattern '%s' starts with '%s', which is for Tenure's own keys", pattern,
                        TEN_REDIS_OWN_PREFIX);
    return TENURE_OK;
}

static int take_option(ten_redis_layout *layout, const ten_url *url, const char *option, const char *standard,
                       const char *word, const char **ret_text, ten_error *error) {
    const char *given = ten_url_option(url, option);
    int r = given ? check_pattern(given, word, error) : TENURE_OK;
    if (r < 0)
        return r;
    *ret_text = ten_arena_text(&layout->texts, given ? given : standard);
    return *ret_text ? TENURE_OK : ten_fail_memory(error, "a key pattern");
}

int ten_redis_layout_make(const ten_url *url, ten_redis_layout *layout, ten_error *error) {
    const ten_redis_space *space;
    *layout = (ten_redis_layout){0};
    int r = take_option(layout, url, "lease_key", "{ns}:lease:{id}", "id", &layout->lease_key, error);
    if (r == TENURE_OK)
        r = take_option(layout, url, "node_key", "{ns}:node:{instance}", "instance", &layout->node_key, error);
    if (r == TENURE_OK)
        r = take_option(layout, url, "leader_key", "{ns}:{role}", "role", &layout->leader_key, error);
    if (r == TENURE_OK) /* these two say whether the patterns are good ones */
        r = ten_redis_space_get(layout, "poll", &space, error);
    if (r == TENURE_OK)
        r = ten_redis_space_get(layout, LEADER_NAMESPACE, &space, error);
    if (r < 0)
        ten_redis_layout_free(layout);
    return r;
}

void ten_redis_layout_free(ten_redis_layout *layout) {
    const ten_map_entry *found;
    for (size_t at = 0; (found = ten_map_next(&layout->spaces, &at));)
        ten_free(found->value);
    ten_map_free(&layout->spaces);
    ten_arena_free(&layout->texts);
    *layout = (ten_redis_layout){0};
}

/* For SCAN's MATCH: what is special there is escaped. */
static void add_escaped(ten_buf *glob, const char *text) {
    for (const char *at = text; *at; at++) {
        if (strchr("*?[]^\\", *at))
            ten_buf_char(glob, '\\');
        ten_buf_char(glob, *at);
    }
}

static int fill_space(ten_redis_layout *layout, const char *namespace_name, ten_redis_space *space, ten_error *error) {
    bool elects = strcmp(namespace_name, LEADER_NAMESPACE) == 0;
    int r = make_pattern(layout, elects ? layout->leader_key : layout->lease_key, elects ? "role" : "id",
                         namespace_name, &space->lease, error);
    if (r == TENURE_OK)
        r = make_pattern(layout, layout->node_key, "instance", namespace_name, &space->node, error);
    if (r < 0)
        return r;
    space->overlaps = may_collide(&space->lease, &space->node);
    if (space->overlaps && !elects)
        return ten_fail(error, TENURE_E_INVALID,
                        "a key could be a lease's by lease_key=%s and an instance's by node_key=%s: make them differ "
                        "before the id",
                        layout->lease_key, layout->node_key);
    TEN_CLEANUP(ten_buf_free) ten_buf text = {0};
    add_escaped(&text, space->node.before);
    ten_buf_char(&text, '*');
    add_escaped(&text, space->node.after);
    bool kept = (space->node_glob = keep(layout, &text)) != NULL;
    for (size_t i = 0; i < TEN_REDIS_OWN_COUNT; i++) {
        ten_buf_clear(&text);
        ten_buf_format(&text, TEN_REDIS_OWN_PREFIX "%s:%s", namespace_name, own_names[i]);
        kept &= (space->own[i] = keep(layout, &text)) != NULL;
    }
    return kept ? TENURE_OK : ten_fail_memory(error, "the keys of a namespace");
}

/* A heartbeat of the instance "x" would else end the lease of the role "node:x", whose key is the same. */
int ten_redis_space_check(const ten_redis_space *space, const char *target, ten_error *error) {
    if (!space->overlaps)
        return TENURE_OK;
    char key[2 * (PATTERN_MAX + TENURE_NAMESPACE_MAX) + TENURE_TARGET_MAX + 1];
    int made = snprintf(key, sizeof key, "%s%s%s", space->lease.before, target, space->lease.after);
    size_t size = ten_min_u64((size_t)made, sizeof key - 1);
    size_t before = strlen(space->node.before);
    size_t after = strlen(space->node.after);
    if (size < before + after || memcmp(key, space->node.before, before) != 0 ||
        memcmp(key + size - after, space->node.after, after) != 0)
        return TENURE_OK;
    return ten_fail(
        error, TENURE_E_INVALID,
        "the key of %s, '%s', could be that of an instance's heartbeat: use another name, or other patterns "
        "(leader_key, node_key)",
        target, key);
}

int ten_redis_space_get(ten_redis_layout *layout, const char *namespace_name, const ten_redis_space **ret_space,
                        ten_error *error) {
    ten_redis_space *space = ten_map_get(&layout->spaces, namespace_name);
    if (!space) {
        space = ten_calloc(1, sizeof *space);
        int r = space ? fill_space(layout, namespace_name, space, error) : TENURE_OK;
        if (!space || (r == TENURE_OK && !ten_map_put(&layout->spaces, namespace_name, space)))
            r = ten_fail_memory(error, "the keys of a namespace");
        if (r < 0) {
            ten_free(space);
            return r;
        }
    }
    *ret_space = space;
    return TENURE_OK;
}
