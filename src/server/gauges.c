/*
 * Gauges of namespaces. ten_gauges_note() is called by the HTTP thread, the rest by the lane of the listings.
 */
#include "server/gauges.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/metric.h"
#include "base/thread.h"

#define NAMESPACES_MAX 64u
#define PAGE           10000u
#define LOOK_EVERY_MS  5000u
#define ENDS_MAX       200000u

struct space {
    char name[TENURE_NAMESPACE_MAX + 1];
    uint64_t cursor; /* of the feed */
    ten_map ends;    /* target -> how its last lease ended, until it is taken again */
    uint64_t takeovers[TEN_REASON_COUNT];
    struct found {
        ten_map unowned; /* target -> since when, boot clock */
        uint64_t held;
        uint64_t longest_ms;
    } found;
};

struct ten_gauges {
    pthread_mutex_t lock; /* around the count: a space that is there stays there */
    size_t count;
    struct space spaces[NAMESPACES_MAX];
    uint64_t looked_ms;
};

ten_gauges *ten_gauges_new(void) {
    ten_gauges *gauges = ten_calloc(1, sizeof *gauges);
    if (gauges)
        pthread_mutex_init(&gauges->lock, NULL);
    return gauges;
}

void ten_gauges_free(ten_gauges *gauges) {
    if (!gauges)
        return;
    for (size_t i = 0; i < gauges->count; i++) {
        ten_map_free(&gauges->spaces[i].ends);
        ten_map_free(&gauges->spaces[i].found.unowned);
    }
    pthread_mutex_destroy(&gauges->lock);
    ten_free(gauges);
}

void ten_gauges_note(ten_gauges *gauges, const char *namespace_name) {
    for (size_t i = 0; i < gauges->count; i++) /* only this thread adds */
        if (strcmp(gauges->spaces[i].name, namespace_name) == 0)
            return;
    if (gauges->count == NAMESPACES_MAX || namespace_name[0] == '\0')
        return;
    struct space *space = &gauges->spaces[gauges->count];
    snprintf(space->name, sizeof space->name, "%s", namespace_name);
    space->cursor = TEN_CURSOR_NOW;
    TEN_LOCKED(&gauges->lock);
    gauges->count++;
}

/* ---- looking */

static int take_change(const ten_change *change, void *userdata) {
    struct space *space = userdata;
    if (change->kind == TENURE_EVENT_RELEASED || change->kind == TENURE_EVENT_LOST) {
        if (space->ends.count >= ENDS_MAX) /* ids that are used once and never again would fill it */
            ten_map_free(&space->ends);
        if (change->reason != TEN_REASON_NONE)
            (void)ten_map_put(&space->ends, change->target, (void *)(uintptr_t)change->reason);
    } else if (change->kind == TENURE_EVENT_ACQUIRED) {
        uintptr_t reason = (uintptr_t)ten_map_remove(&space->ends, change->target);
        if (reason != TEN_REASON_NONE)
            space->takeovers[reason]++;
    } else if (change->kind == TENURE_EVENT_TARGET_REMOVED) {
        (void)ten_map_remove(&space->ends, change->target);
    }
    return 0;
}

static int read_feed(struct space *space, ten_store *store, uint64_t timeout_ms) {
    uint64_t before;
    int r;
    do {
        before = space->cursor;
        r = store->ops->changes(store, space->name, &space->cursor, PAGE, take_change, space, timeout_ms);
    } while (r == TENURE_OK && space->cursor != before && before != TEN_CURSOR_NOW);
    return r == TENURE_E_RESYNC ? TENURE_OK : r; /* what was missed is not counted */
}

struct looking {
    const ten_map *unowned; /* before */
    struct found found;
    uint64_t now_ms;
    size_t count; /* of this page */
    char last[TENURE_TARGET_MAX + 1];
};

static int take_row(const ten_row *row, void *userdata) {
    struct looking *looking = userdata;
    looking->count++;
    snprintf(looking->last, sizeof looking->last, "%s", row->target.id);
    looking->found.held += row->holder != NULL;
    if (row->holder || !row->registered || row->target.paused)
        return 0;
    uintptr_t since_ms = (uintptr_t)ten_map_get(looking->unowned, row->target.id);
    if (!since_ms)
        since_ms = (uintptr_t)looking->now_ms;
    looking->found.longest_ms = ten_max_u64(looking->found.longest_ms, looking->now_ms - since_ms);
    return ten_map_put(&looking->found.unowned, row->target.id, (void *)since_ms) ? 0 : TENURE_E_NOMEM;
}

static int look(struct space *space, ten_store *store, uint64_t timeout_ms) {
    struct looking looking = {.unowned = &space->found.unowned, .now_ms = ten_now_ms()};
    char after[TENURE_TARGET_MAX + 1] = "";
    int r = read_feed(space, store, timeout_ms);
    do {
        looking.count = 0;
        ten_query query = {.namespace_name = space->name, .filter = TENURE_ALL, .after = after, .limit = PAGE};
        TEN_STEP(r, store->ops->list(store, &query, take_row, &looking, timeout_ms));
        memcpy(after, looking.last, sizeof after);
    } while (r == TENURE_OK && looking.count == PAGE);
    ten_map_free(r == TENURE_OK ? &space->found.unowned : &looking.found.unowned);
    if (r == TENURE_OK)
        space->found = looking.found;
    return r;
}

/* ---- writing */

/* Which namespaces are written. */
struct writing {
    const ten_gauges *gauges;
    size_t count;
    ten_gauges_filter *is_shown;
    const void *userdata;
    ten_buf *to;
};

enum gauge { HELD, UNOWNED, LONGEST, GAUGES };

static double value_of(const struct found *found, enum gauge gauge) {
    return gauge == HELD      ? (double)found->held
           : gauge == UNOWNED ? (double)found->unowned.count
                              : (double)found->longest_ms / 1e3;
}

/* The next namespace that the client may see; NULL: no more. */
static const struct space *next_space(const struct writing *writing, size_t *at) {
    while (*at < writing->count) {
        const struct space *space = &writing->gauges->spaces[(*at)++];
        if (writing->is_shown(space->name, writing->userdata))
            return space;
    }
    return NULL;
}

static void write_all(const struct writing *writing) {
    static const char *const texts[GAUGES][2] = {
        [HELD] = {"tenure_leases_held", "Leases that are held."},
        [UNOWNED] = {"tenure_targets_unowned", "Registered targets that no instance holds."},
        [LONGEST] = {"tenure_targets_unowned_seconds_max", "How long the longest unowned of them has been seen so."}};
    const struct space *space;
    for (unsigned i = 0; i < GAUGES; i++) {
        ten_metric_head(writing->to, texts[i][0], "gauge", texts[i][1]);
        for (size_t at = 0; (space = next_space(writing, &at));)
            ten_buf_format(writing->to, "%s{namespace=\"%s\"} %.*f\n", texts[i][0], space->name, i == LONGEST ? 3 : 0,
                           value_of(&space->found, (enum gauge)i));
    }
    ten_metric_head(writing->to, "tenure_takeovers_total", "counter",
                    "Leases taken after another, by how that one ended.");
    for (size_t at = 0; (space = next_space(writing, &at));)
        for (unsigned reason = TEN_REASON_NONE + 1; reason < TEN_REASON_COUNT; reason++)
            ten_buf_format(writing->to, "tenure_takeovers_total{namespace=\"%s\",reason=\"%s\"} %llu\n", space->name,
                           ten_reason_name((enum ten_reason)reason), (unsigned long long)space->takeovers[reason]);
}

int ten_gauges_write(ten_gauges *gauges, ten_store *store, uint64_t timeout_ms, ten_gauges_filter *is_shown,
                     const void *userdata, ten_buf *to) {
    uint64_t now_ms = ten_now_ms();
    pthread_mutex_lock(&gauges->lock);
    size_t count = gauges->count;
    pthread_mutex_unlock(&gauges->lock);
    int r = TENURE_OK;
    if (gauges->looked_ms == 0 || now_ms >= gauges->looked_ms + LOOK_EVERY_MS) {
        for (size_t i = 0; r == TENURE_OK && i < count; i++)
            r = look(&gauges->spaces[i], store, timeout_ms);
        gauges->looked_ms = r == TENURE_OK ? now_ms : 0;
    }
    if (r == TENURE_OK && count > 0)
        write_all(&(struct writing){gauges, count, is_shown, userdata, to});
    return r;
}
