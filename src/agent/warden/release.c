/*
 * Giving back what a dead worker held: see release.h.
 */
#include "agent/warden/release.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define RELEASE_BATCH 500u

struct held {
    const char *holder;
    ten_op *ops;
    char (*ids)[TENURE_TARGET_MAX + 1];
    size_t count;
    size_t seen;
    char last[TENURE_TARGET_MAX + 1];
};

static int collect(const ten_row *row, void *userdata) {
    struct held *held = userdata;
    held->seen++;
    snprintf(held->last, sizeof held->last, "%s", row->target.id);
    if (row->holder && strcmp(row->holder, held->holder) == 0) {
        snprintf(held->ids[held->count], sizeof *held->ids, "%s", row->target.id);
        held->ops[held->count++].token = row->token;
    }
    return 0;
}

/* The tombstone first: a request of the dead worker that is still under way must not take a target after it was freed.
 */
static int release_page(const ten_release *release, ten_store *store, struct held *held, ten_result *results) {
    ten_query query = {.namespace_name = release->namespace_name,
                       .filter = TENURE_LEASED,
                       .after = held->last,
                       .limit = RELEASE_BATCH};
    char after[TENURE_TARGET_MAX + 1];
    memcpy(after, held->last, sizeof after);
    query.after = after;
    held->count = held->seen = 0;
    int r = store->ops->list(store, &query, collect, held, release->ttl_ms);
    for (size_t i = 0; i < held->count; i++)
        held->ops[i] = (ten_op){.kind = TEN_OP_RELEASE,
                                .namespace_name = release->namespace_name,
                                .target = held->ids[i],
                                .holder = held->holder,
                                .token = held->ops[i].token,
                                .reason = TEN_REASON_CRASHED};
    if (r == TENURE_OK && held->count > 0)
        r = ten_store_apply(store, held->ops, results, held->count, release->ttl_ms);
    return r;
}

int ten_release_all(const ten_release *release, ten_store *store) {
    struct held held = {.holder = release->instance};
    held.ops = ten_calloc(RELEASE_BATCH, sizeof *held.ops);
    held.ids = ten_calloc(RELEASE_BATCH, sizeof *held.ids);
    ten_result *results = ten_calloc(RELEASE_BATCH, sizeof *results);
    int r = held.ops && held.ids && results ? TENURE_OK : TENURE_E_NOMEM;
    ten_op leave = {.kind = TEN_OP_LEAVE,
                    .namespace_name = release->namespace_name,
                    .holder = release->instance,
                    .ttl_ms = release->ttl_ms,
                    .reason = TEN_REASON_CRASHED};
    TEN_STEP(r, ten_store_apply(store, &leave, results, 1, release->ttl_ms));
    while (r == TENURE_OK) {
        r = release_page(release, store, &held, results);
        if (held.seen < RELEASE_BATCH)
            break;
    }
    ten_free(held.ops);
    ten_free(held.ids);
    ten_free(results);
    return r;
}
