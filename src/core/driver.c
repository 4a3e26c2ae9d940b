/*
 * The driver. Called by runtime/carrier.c and by the simulator. See driver.h.
 */
#include "core/driver.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/util.h"

#define BACKOFF_MIN_MS 50u
#define UNREAD_MAX     3u    /* so many failed readings in a row are reported */
#define RETRY_MS       250u  /* for what was not a request: a page that failed */
#define BLIND_MS       250u  /* how often the feed of a store that sends no notices is read */
#define FEED_BURST     3u    /* readings of the feed after notices that wait for no gap, after a quiet time */
#define CHANGED_MAX    1000u /* more changed registrations than this: everything is listed */

static uint64_t random_below(ten_driver *driver, uint64_t limit) {
    driver->random += UINT64_C(0x9e3779b97f4a7c15);
    return limit ? ten_hash_mix(driver->random) % limit : 0;
}

void ten_driver_init(ten_driver *driver, const ten_driver_config *config, uint64_t now_ms) {
    *driver = (ten_driver){.config = *config, .random = config->seed, .cursor = TEN_CURSOR_NOW};
    driver->backoff = (ten_backoff){.min_ms = BACKOFF_MIN_MS,
                                    .max_ms = ten_max_u64(config->backoff_max_ms, BACKOFF_MIN_MS),
                                    .steady_ms = UINT64_MAX};
    for (size_t i = 0; i < TEN_CALL_COUNT; i++)
        driver->due_ms[i] = UINT64_MAX;
    driver->due_ms[TEN_CALL_CHANGES] = now_ms; /* sets the cursor */
}

void ten_driver_free(ten_driver *driver) {
    ten_free(driver->changed);
    driver->changed = NULL;
}

/* ---- when each call is due */

static void want(ten_driver *driver, enum ten_call_kind kind, uint64_t at_ms) {
    driver->due_ms[kind] = ten_min_u64(driver->due_ms[kind], at_ms);
}

/* Reads the feed soon: not sooner than a gap after the last reading. */
static void want_feed(ten_driver *driver, uint64_t now_ms) {
    want(driver, TEN_CALL_CHANGES, ten_max_u64(now_ms, driver->fed_ms + driver->config.feed_gap_ms));
}

/* Each reading costs a gap. Gaps that were not used are saved up, FEED_BURST of them, for notices: a target that is handed
 * over is often told of right after something else was. */
static void pay_for_feed(ten_driver *driver, uint64_t now_ms) {
    uint64_t gap_ms = driver->config.feed_gap_ms;
    driver->fed_ms = now_ms;
    driver->feed_paid_ms = ten_max_u64(driver->feed_paid_ms, ten_sub_saturating(now_ms, FEED_BURST * gap_ms)) + gap_ms;
}

/* Everything is listed: after the listing under way, if there is one. */
static void want_listing(ten_driver *driver, uint64_t at_ms) {
    driver->changed_count = driver->changed_at = 0;
    driver->list_again = true;
    want(driver, TEN_CALL_LIST, at_ms);
}

/* The feed is followed no more: what comes from now on is not wanted. */
static void stop_following(ten_driver *driver) {
    driver->cursor = TEN_CURSOR_NOW;
    driver->followed = false;
    driver->changed_count = driver->changed_at = 0;
    driver->after[0] = '\0';
    driver->list_again = driver->lacking = false;
    driver->due_ms[TEN_CALL_LIST] = UINT64_MAX;
    driver->due_ms[TEN_CALL_CHANGES] = 0;
}

bool ten_driver_follows(const ten_driver *driver) {
    const ten_driver_part *part = driver->config.part;
    return !part->follows || part->follows(driver->config.self);
}

static uint64_t due_ms(const ten_driver *driver, enum ten_call_kind kind, uint64_t now_ms) {
    const ten_driver_part *part = driver->config.part;
    switch (kind) {
    case TEN_CALL_APPLY:
        return part->next_ms(driver->config.self, now_ms);
    case TEN_CALL_INSTANCES:
        return part->instances_ms ? part->instances_ms(driver->config.self) : UINT64_MAX;
    case TEN_CALL_READ:
        return driver->changed_at < driver->changed_count ? 0
               : part->reread_ms                          ? part->reread_ms(driver->config.self)
                                                          : UINT64_MAX;
    case TEN_CALL_CHANGES:
        return ten_driver_follows(driver) ? driver->due_ms[kind] : UINT64_MAX;
    case TEN_CALL_LIST:
        return driver->due_ms[kind];
    case TEN_CALL_NONE:
    case TEN_CALL_COUNT:
        break;
    }
    return UINT64_MAX;
}

uint64_t ten_driver_next_ms(const ten_driver *driver, uint64_t now_ms) {
    uint64_t deadline_ms = driver->config.part->deadline_ms(driver->config.self);
    if (driver->call.kind != TEN_CALL_NONE)
        return deadline_ms;
    uint64_t next_ms = UINT64_MAX;
    for (enum ten_call_kind kind = TEN_CALL_APPLY; kind < TEN_CALL_COUNT; kind++)
        next_ms = ten_min_u64(next_ms, due_ms(driver, kind, now_ms));
    return ten_min_u64(deadline_ms, next_ms == UINT64_MAX ? next_ms : ten_max_u64(next_ms, driver->retry_ms));
}

/* ---- the next call */

/* The registration of a target is read after the reading of the feed: one call at a time. */
static void remember_changed(ten_driver *driver, uint64_t now_ms, const char *target) {
    if (driver->list_again)
        return;
    for (size_t i = driver->changed_at; i < driver->changed_count; i++)
        if (strcmp(driver->changed[i], target) == 0)
            return;
    if (driver->changed_count == driver->changed_room) {
        size_t room = driver->changed_room ? driver->changed_room * 2 : 16;
        void *changed = room <= 2 * CHANGED_MAX ? ten_realloc(driver->changed, room * sizeof *driver->changed) : NULL;
        if (!changed) {
            want_listing(driver, now_ms);
            return;
        }
        driver->changed = changed;
        driver->changed_room = room;
    }
    (void)snprintf(driver->changed[driver->changed_count++], sizeof *driver->changed, "%s", target);
}

static void add_reread(ten_driver *driver, uint64_t now_ms) {
    const ten_driver_part *part = driver->config.part;
    char target[TENURE_TARGET_MAX + 1];
    while (part->reread && now_ms >= part->reread_ms(driver->config.self) &&
           part->reread(driver->config.self, now_ms, target))
        remember_changed(driver, now_ms, target);
}

static ten_call call_of(ten_driver *driver, enum ten_call_kind kind, uint64_t now_ms) {
    const ten_driver_part *part = driver->config.part;
    ten_call call = {.kind = kind};
    switch (kind) {
    case TEN_CALL_APPLY:
        call.ops = part->request(driver->config.self, now_ms, &call.count);
        call.kind = call.ops ? TEN_CALL_APPLY : TEN_CALL_NONE;
        break;
    case TEN_CALL_CHANGES:
        call.cursor = driver->cursor;
        call.limit = driver->followed ? driver->config.feed_size : 1;
        driver->due_ms[TEN_CALL_CHANGES] = UINT64_MAX;
        driver->moved = driver->noticed = false;
        driver->rows = 0;
        pay_for_feed(driver, now_ms);
        break;
    case TEN_CALL_INSTANCES:
        part->instances_begin(driver->config.self, now_ms);
        break;
    case TEN_CALL_LIST:
        if (driver->after[0] == '\0') {
            driver->list_again = false;
            part->listing_begin(driver->config.self);
        }
        call.after = driver->after;
        call.limit = driver->config.page_size;
        driver->rows = 0;
        break;
    case TEN_CALL_READ:
        add_reread(driver, now_ms);
        call.count = ten_min_u64(driver->changed_count - driver->changed_at, TEN_CALL_READ_MAX);
        for (size_t i = 0; i < call.count; i++) {
            driver->reading[i] = driver->changed[driver->changed_at + i];
            driver->found[i] = false;
        }
        call.ids = driver->reading;
        call.kind = call.count ? TEN_CALL_READ : TEN_CALL_NONE; /* a listing will bring it */
        break;
    case TEN_CALL_NONE:
    case TEN_CALL_COUNT:
        break;
    }
    return call;
}

bool ten_driver_is_urgent(const ten_driver *driver, uint64_t now_ms) {
    const ten_driver_part *part = driver->config.part;
    return !part->urgent_ms || now_ms >= part->urgent_ms(driver->config.self);
}

/* While nothing is held, nothing can be late: the feed is followed first, so that it tells of all that comes then. */
static bool follows_first(const ten_driver *driver, uint64_t now_ms) {
    return !driver->followed && now_ms >= due_ms(driver, TEN_CALL_CHANGES, now_ms) &&
           driver->config.part->deadline_ms(driver->config.self) == UINT64_MAX;
}

static ten_call send(ten_driver *driver, enum ten_call_kind kind, uint64_t now_ms) {
    driver->call = call_of(driver, kind, now_ms);
    driver->sent_ms = now_ms;
    return driver->call;
}

ten_call ten_driver_next(ten_driver *driver, uint64_t now_ms) {
    if (driver->call.kind != TEN_CALL_NONE || now_ms < driver->retry_ms) {
        driver->config.part->expire(driver->config.self, now_ms);
        return (ten_call){0};
    }
    if (driver->followed && !ten_driver_follows(driver))
        stop_following(driver);
    if (follows_first(driver, now_ms))
        return send(driver, TEN_CALL_CHANGES, now_ms);
    driver->urgent = ten_driver_is_urgent(driver, now_ms);
    if (driver->urgent && send(driver, TEN_CALL_APPLY, now_ms).kind != TEN_CALL_NONE)
        return driver->call;
    /* Whoever is due takes turns, beginning behind the one that was last. */
    for (unsigned i = 0; i + 1 < TEN_CALL_COUNT; i++) {
        enum ten_call_kind kind = (enum ten_call_kind)((driver->last + i) % (TEN_CALL_COUNT - 1) + 1);
        if ((kind == TEN_CALL_APPLY && driver->urgent) || due_ms(driver, kind, now_ms) > now_ms ||
            send(driver, kind, now_ms).kind == TEN_CALL_NONE)
            continue;
        driver->last = kind;
        return driver->call;
    }
    driver->config.part->expire(driver->config.self, now_ms);
    return (ten_call){0};
}

/* ---- answers */

static bool is_told(const ten_driver *driver) {
    return driver->down || driver->unread >= UNREAD_MAX;
}

/* Reports that the store is down, or up again. */
static void tell_state(const ten_driver *driver, bool was_told, int error) {
    if (is_told(driver) != was_told)
        ten_event_queue_put(driver->config.events,
                            (tenure_event){.kind = was_told ? TENURE_EVENT_STORE_UP : TENURE_EVENT_STORE_DOWN,
                                           .error = was_told ? TENURE_OK : error});
}

/* A store that takes requests and cannot be read keeps an instance from seeing what has become of the others: it would
 * take nothing over, and nobody would know why. */
static void note_reading(ten_driver *driver, int error) {
    bool was_told = is_told(driver);
    if (error < 0 && error != TENURE_E_RESYNC)
        driver->unread += driver->unread < UNREAD_MAX;
    else
        driver->unread = 0;
    tell_state(driver, was_told, error);
}

static void note_failure(ten_driver *driver, uint64_t now_ms, int error) {
    bool was_told = is_told(driver);
    driver->down = true;
    tell_state(driver, was_told, error);
    uint64_t pause_ms = ten_backoff_pause_ms(&driver->backoff, 0);
    driver->retry_ms = now_ms + pause_ms / 2 + random_below(driver, pause_ms / 2 + 1);
}

static void note_success(ten_driver *driver) {
    bool was_told = is_told(driver);
    if (driver->down) /* the readings failed for the same reason, and the next may be far away */
        driver->unread = 0;
    driver->down = false;
    tell_state(driver, was_told, TENURE_OK);
    driver->backoff.brief = 0;
    driver->retry_ms = 0;
}

static void answer_apply(ten_driver *driver, uint64_t now_ms, int error, const ten_result *results) {
    driver->config.part->answer(driver->config.self, now_ms, error, results);
    if (error < 0) {
        note_failure(driver, now_ms, error);
        return;
    }
    note_success(driver);
    if (driver->followed && (driver->urgent || driver->config.feed_is_pulse))
        want_feed(driver, now_ms); /* a notice can be lost */
}

static void answer_changes(ten_driver *driver, uint64_t now_ms, int error, uint64_t cursor) {
    const ten_driver_part *part = driver->config.part;
    bool failed = error < 0 && error != TENURE_E_RESYNC;
    if (failed && driver->config.feed_is_pulse)
        note_failure(driver, now_ms, error);
    else if (driver->config.feed_is_pulse)
        note_success(driver);
    if (failed) { /* else it is read again after the next request that is answered */
        if (!driver->followed || driver->config.feed_is_pulse)
            want(driver, TEN_CALL_CHANGES, now_ms + RETRY_MS);
        return;
    }
    driver->moved |= cursor != driver->cursor;
    driver->cursor = cursor;
    if (driver->lacking) { /* an epoch would have been told by now */
        driver->lacking = false;
        want(driver, TEN_CALL_LIST, part->listing_checked(driver->config.self, now_ms));
    }
    if (error == TENURE_E_RESYNC || !driver->followed) {
        driver->followed = true;
        part->follow(driver->config.self, now_ms);
        if (part->row)
            want_listing(driver, now_ms);
        if (driver->noticed)
            want_feed(driver, now_ms);
        return;
    }
    if (driver->rows >= driver->config.feed_size)
        want(driver, TEN_CALL_CHANGES, now_ms); /* there is more: a gap would only let it fall behind */
    else if (driver->moved && !part->feed_ms)
        want_feed(driver, now_ms); /* its end is where nothing more comes */
    else if (part->fed)
        part->fed(driver->config.self);
}

/* The feed is followed meanwhile, so a page that failed is read again where it was. */
static void answer_list(ten_driver *driver, uint64_t now_ms, int error) {
    if (error < 0) {
        driver->due_ms[TEN_CALL_LIST] = now_ms + RETRY_MS;
    } else if (driver->rows < driver->config.page_size) {
        driver->lacking = driver->config.part->listing_end(driver->config.self, now_ms);
        driver->after[0] = '\0';
        driver->due_ms[TEN_CALL_LIST] = driver->list_again ? now_ms : UINT64_MAX;
        if (driver->lacking)
            want_feed(driver, now_ms);
    }
}

/* Whatever the reason is, a listing brings the same. */
static void answer_read(ten_driver *driver, uint64_t now_ms, int error, size_t count) {
    const ten_driver_part *part = driver->config.part;
    if (error < 0)
        want_listing(driver, now_ms + RETRY_MS);
    for (size_t i = 0; error == TENURE_OK && i < count; i++)
        if (!driver->found[i])
            part->unregistered(driver->config.self, now_ms, driver->reading[i]);
    driver->changed_at += error < 0 ? 0 : count;
    if (driver->changed_at >= driver->changed_count) {
        driver->changed_count = driver->changed_at = 0;
        part->registrations_end(driver->config.self, now_ms);
    }
}

void ten_driver_answer(ten_driver *driver, uint64_t now_ms, int error, const ten_result *results, uint64_t cursor) {
    enum ten_call_kind kind = driver->call.kind;
    size_t count = driver->call.count;
    driver->call = (ten_call){0};
    if (kind != TEN_CALL_APPLY)
        note_reading(driver, error);
    switch (kind) {
    case TEN_CALL_APPLY:
        answer_apply(driver, now_ms, error, results);
        break;
    case TEN_CALL_CHANGES:
        answer_changes(driver, now_ms, error, cursor);
        break;
    case TEN_CALL_INSTANCES:
        driver->config.part->instances_end(driver->config.self, now_ms, error);
        break;
    case TEN_CALL_LIST:
        answer_list(driver, now_ms, error);
        break;
    case TEN_CALL_READ:
        answer_read(driver, now_ms, error, count);
        break;
    case TEN_CALL_NONE:
    case TEN_CALL_COUNT:
        break;
    }
    if (driver->config.feed_max_ms || driver->blind)
        want(driver, TEN_CALL_CHANGES,
             driver->fed_ms + ten_min_u64(driver->blind ? BLIND_MS : UINT64_MAX,
                                          driver->config.feed_max_ms ? driver->config.feed_max_ms : UINT64_MAX));
}

/* ---- what a call brings */

void ten_driver_row(ten_driver *driver, uint64_t now_ms, const ten_row *row) {
    driver->rows++;
    if (driver->call.kind == TEN_CALL_LIST)
        (void)snprintf(driver->after, sizeof driver->after, "%s", row->target.id);
    for (size_t i = 0; driver->call.kind == TEN_CALL_READ && i < driver->call.count; i++)
        driver->found[i] |= row->registered && strcmp(driver->reading[i], row->target.id) == 0;
    driver->config.part->row(driver->config.self, now_ms, row);
}

void ten_driver_instance(ten_driver *driver, uint64_t now_ms, const ten_instance *instance) {
    driver->config.part->instance(driver->config.self, now_ms, instance);
}

void ten_driver_list(ten_driver *driver, uint64_t now_ms) {
    want_listing(driver, now_ms);
}

void ten_driver_change(ten_driver *driver, uint64_t now_ms, const ten_change *change) {
    bool registration = change->kind == TENURE_EVENT_TARGET_ADDED || change->kind == TENURE_EVENT_TARGET_CHANGED ||
                        change->kind == TENURE_EVENT_TARGET_REMOVED;
    driver->moved = true;
    driver->rows++;
    if (registration && driver->config.registrations)
        remember_changed(driver, now_ms, change->target);
    if (change->kind == TENURE_EVENT_RECOVERING && driver->config.part->row)
        want_listing(driver, now_ms);
    driver->config.part->change(driver->config.self, now_ms, change);
}

/* ---- notices */

void ten_driver_hurry(ten_driver *driver) {
    driver->retry_ms = 0;
}

bool ten_driver_listens(const ten_driver *driver) {
    return !driver->noticed && ten_driver_follows(driver);
}

void ten_driver_notice(ten_driver *driver, uint64_t now_ms) {
    const ten_driver_part *part = driver->config.part;
    bool first = !driver->noticed;
    driver->noticed = true;
    if (driver->followed && first)
        want(driver, TEN_CALL_CHANGES,
             ten_max_u64(part->feed_ms ? part->feed_ms(driver->config.self, now_ms) : now_ms, driver->feed_paid_ms));
}

void ten_driver_watched(ten_driver *driver, uint64_t now_ms, bool watched) {
    if (!watched && !driver->blind)
        want_feed(driver, now_ms);
    driver->blind = !watched;
}
