/*
 * Gauges of namespaces. ten_gauges_note() is called by the HTTP thread, the rest by the lane of the listings.
 */
#include "server/gauges.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "server/metrics.h"

#define NAMESPACES_MAX 64u
#define PAGE           10000u
#define LOOK_EVERY_MS  5000u
#define ENDS_MAX       200000u

struct space {
    char name[TENURE_NAMESPACE_MAX + 1];
    uint64_t cursor; /* of the feed */
    ten_map ends;    /* target -> how its last lease ended, until it is taken again */
    ten_map unowned; /* target -> since when, boot clock */
    uint64_t takeovers[TEN_REASON_COUNT];
    uint64_t held;
    uint64_t longest_ms;
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
        ten_map_free(&gauges->spaces[i].unowned);
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
    pthread_mutex_lock(&gauges->lock);
    gauges->count++;
    pthread_mutex_unlock(&gauges->lock);
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
    struct space *space;
    ten_map unowned; /* as it is now */
    uint64_t now_ms;
    uint64_t held;
    uint64_t longest_ms;
    size_t count; /* of this page */
    char last[TENURE_TARGET_MAX + 1];
};

static int take_row(const ten_row *row, void *userdata) {
    struct looking *looking = userdata;
    looking->count++;
    snprintf(looking->last, sizeof looking->last, "%s", row->target.id);
    looking->held += row->holder != NULL;
    if (row->holder || !row->registered || row->target.paused)
        return 0;
    uintptr_t since_ms = (uintptr_t)ten_map_get(&looking->space->unowned, row->target.id);
    if (!since_ms)
        since_ms = (uintptr_t)looking->now_ms;
    uint64_t unowned_ms = looking->now_ms - since_ms;
    looking->longest_ms = ten_max_u64(looking->longest_ms, unowned_ms);
    return ten_map_put(&looking->unowned, row->target.id, (void *)since_ms) ? 0 : TENURE_E_NOMEM;
}

static int look(struct space *space, ten_store *store, uint64_t timeout_ms) {
    struct looking looking = {.space = space, .now_ms = ten_now_ms()};
    char after[TENURE_TARGET_MAX + 1] = "";
    int r = read_feed(space, store, timeout_ms);
    do {
        looking.count = 0;
        ten_query query = {.namespace_name = space->name, .filter = TENURE_ALL, .after = after, .limit = PAGE};
        if (r == TENURE_OK)
            r = store->ops->list(store, &query, take_row, &looking, timeout_ms);
        memcpy(after, looking.last, sizeof after);
    } while (r == TENURE_OK && looking.count == PAGE);
    if (r == TENURE_OK) {
        ten_map_free(&space->unowned);
        space->unowned = looking.unowned;
        space->held = looking.held;
        space->longest_ms = looking.longest_ms;
    } else {
        ten_map_free(&looking.unowned);
    }
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

static void write_metric(const struct writing *writing, const char *name, const char *type, const char *help,
                         void (*write)(ten_buf *to, const char *name, const struct space *space)) {
    ten_metrics_head(writing->to, name, type, help);
    for (size_t i = 0; i < writing->count; i++) {
        const struct space *space = &writing->gauges->spaces[i];
        if (writing->is_shown(space->name, writing->userdata))
            write(writing->to, name, space);
    }
}

static void write_number(ten_buf *to, const char *name, const struct space *space, uint64_t number) {
    ten_buf_format(to, "%s{namespace=\"%s\"} %llu\n", name, space->name, (unsigned long long)number);
}

static void write_held(ten_buf *to, const char *name, const struct space *space) {
    write_number(to, name, space, space->held);
}

static void write_unowned(ten_buf *to, const char *name, const struct space *space) {
    write_number(to, name, space, space->unowned.count);
}

static void write_longest(ten_buf *to, const char *name, const struct space *space) {
    ten_buf_format(to, "%s{namespace=\"%s\"} %.3f\n", name, space->name, (double)space->longest_ms / 1e3);
}

static void write_takeovers(ten_buf *to, const char *name, const struct space *space) {
    for (unsigned reason = TEN_REASON_NONE + 1; reason < TEN_REASON_COUNT; reason++)
        ten_buf_format(to, "%s{namespace=\"%s\",reason=\"%s\"} %llu\n", name, space->name,
                       ten_reason_name((enum ten_reason)reason), (unsigned long long)space->takeovers[reason]);
}

static void write_all(const struct writing *writing) {
    write_metric(writing, "tenure_leases_held", "gauge", "Leases that are held.", write_held);
    write_metric(writing, "tenure_targets_unowned", "gauge", "Registered targets that no instance holds.",
                 write_unowned);
    write_metric(writing, "tenure_targets_unowned_seconds_max", "gauge",
                 "How long the longest unowned of them has been seen so.", write_longest);
    write_metric(writing, "tenure_takeovers_total", "counter", "Leases taken after another, by how that one ended.",
                 write_takeovers);
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
