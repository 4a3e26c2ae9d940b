/*
 * The engine. Called by runtime/carrier.c and by the simulator. See engine.h.
 */
#include "core/engine.h"

#include <string.h>

#include "base/alloc.h"
#include "base/util.h"
#include "core/timing.h"

#define BACKOFF_MIN_MS 50u
#define UNREAD_MAX     3u    /* so many failed readings in a row are reported */
#define RETRY_MS       250u  /* for what was not a request: a page that failed */
#define BLIND_MS       250u  /* how often the feed of a store that sends no notices is read */
#define FEED_BURST     3u    /* readings of the feed after notices that wait for no gap, after a quiet time */
#define CHANGED_MAX    1024u /* more changed registrations than this: everything is listed */

void ten_engine_init(ten_engine *engine, const ten_engine_config *config, uint64_t now_ms) {
    *engine = (ten_engine){.config = *config, .random = config->seed, .cursor = TEN_CURSOR_NOW};
    engine->backoff = (ten_backoff){.min_ms = BACKOFF_MIN_MS,
                                    .max_ms = ten_max_u64(config->backoff_max_ms, BACKOFF_MIN_MS),
                                    .steady_ms = UINT64_MAX};
    for (size_t i = 0; i < TEN_CALL_COUNT; i++)
        engine->due_ms[i] = UINT64_MAX;
    engine->due_ms[TEN_CALL_CHANGES] = now_ms; /* sets the cursor */
}

void ten_engine_free(ten_engine *engine) {
    ten_free(engine->changed);
    engine->changed = NULL;
}

/* ---- when each call is due */

static void want(ten_engine *engine, enum ten_call_kind kind, uint64_t at_ms) {
    engine->due_ms[kind] = ten_min_u64(engine->due_ms[kind], at_ms);
}

/* Reads the feed soon: not sooner than a gap after the last reading. */
static void want_feed(ten_engine *engine, uint64_t now_ms) {
    want(engine, TEN_CALL_CHANGES, ten_max_u64(now_ms, engine->fed_ms + engine->config.feed_gap_ms));
}

/* Each reading costs a gap. Gaps that were not used are saved up, FEED_BURST of them, for notices: a target that is
 * handed over is often reported right after another change. */
static void pay_for_feed(ten_engine *engine, uint64_t now_ms) {
    uint64_t gap_ms = engine->config.feed_gap_ms;
    engine->fed_ms = now_ms;
    engine->feed_paid_ms = ten_max_u64(engine->feed_paid_ms, ten_sub_saturating(now_ms, FEED_BURST * gap_ms)) + gap_ms;
}

/* Everything is listed: after the listing under way, if there is one. */
static void want_listing(ten_engine *engine, uint64_t at_ms) {
    engine->changed_count = engine->changed_at = 0;
    engine->list_again = true;
    want(engine, TEN_CALL_LIST, at_ms);
}

/* The feed is followed no more: what comes from now on is not wanted. */
static void stop_following(ten_engine *engine) {
    engine->cursor = TEN_CURSOR_NOW;
    engine->followed = false;
    engine->changed_count = engine->changed_at = 0;
    engine->after[0] = '\0';
    engine->list_again = engine->lacking = false;
    engine->due_ms[TEN_CALL_LIST] = UINT64_MAX;
    engine->due_ms[TEN_CALL_CHANGES] = 0;
}

/* What is due when; UINT64_MAX: not before something happens. */
struct due {
    ten_part_due part;
    uint64_t at_ms[TEN_CALL_COUNT];
};

static struct due ask(const ten_engine *engine, uint64_t now_ms) {
    struct due due = {.part = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, .follows = true}};
    ten_part_due *part = &due.part;
    engine->config.due(engine->config.part, now_ms, part);
    due.at_ms[TEN_CALL_APPLY] = part->next_ms;
    due.at_ms[TEN_CALL_CHANGES] = part->follows ? engine->due_ms[TEN_CALL_CHANGES] : UINT64_MAX;
    due.at_ms[TEN_CALL_INSTANCES] = part->instances_ms;
    due.at_ms[TEN_CALL_LIST] = engine->due_ms[TEN_CALL_LIST];
    due.at_ms[TEN_CALL_READ] = engine->changed_at < engine->changed_count ? 0 : part->reread_ms;
    return due;
}

static uint64_t next_ms(const ten_engine *engine, const struct due *due) {
    uint64_t first_ms = UINT64_MAX;
    for (enum ten_call_kind kind = TEN_CALL_APPLY; kind < TEN_CALL_COUNT && engine->call.kind == TEN_CALL_NONE; kind++)
        first_ms = ten_min_u64(first_ms, due->at_ms[kind]);
    first_ms = first_ms == UINT64_MAX ? first_ms : ten_max_u64(first_ms, engine->retry_ms);
    return ten_min_u64(due->part.deadline_ms, first_ms);
}

ten_update ten_engine_look(const ten_engine *engine, uint64_t now_ms) {
    struct due due = ask(engine, now_ms);
    return (ten_update){.next_ms = next_ms(engine, &due),
                        .urgent = now_ms >= due.part.urgent_ms,
                        .follows = due.part.follows,
                        .listens = due.part.follows && !engine->noticed};
}

/* ---- telling the part */

static ten_part_update pass(const ten_engine *engine, const ten_engine_event *event) {
    ten_part_update update = {.at_ms = event->now_ms};
    engine->config.step(engine->config.part, event, &update);
    return update;
}

static ten_part_update tell(const ten_engine *engine, uint64_t now_ms, enum ten_engine_event_kind kind) {
    return pass(engine, &(ten_engine_event){.kind = kind, .now_ms = now_ms});
}

/* ---- the next call */

/* The registration of a target is read after the reading of the feed: one call at a time. */
static void remember_changed(ten_engine *engine, uint64_t now_ms, const char *target) {
    if (engine->list_again)
        return;
    for (size_t i = engine->changed_at; i < engine->changed_count; i++)
        if (strcmp(engine->changed[i], target) == 0)
            return;
    if (engine->changed_count < CHANGED_MAX &&
        TEN_GROW(engine->changed, engine->changed_room, engine->changed_count + 1))
        (void)snprintf(engine->changed[engine->changed_count++], sizeof *engine->changed, "%s", target);
    else
        want_listing(engine, now_ms);
}

static void add_reread(ten_engine *engine, uint64_t now_ms) {
    for (const char *id; (id = tell(engine, now_ms, TEN_ON_REREAD).target);)
        remember_changed(engine, now_ms, id);
}

static ten_call call_of(ten_engine *engine, enum ten_call_kind kind, uint64_t now_ms) {
    ten_call call = {.kind = kind};
    ten_part_update update;
    switch (kind) {
    case TEN_CALL_APPLY:
        update = tell(engine, now_ms, TEN_ON_REQUEST);
        call.ops = update.ops;
        call.count = update.count;
        call.kind = call.ops ? TEN_CALL_APPLY : TEN_CALL_NONE;
        break;
    case TEN_CALL_CHANGES:
        call.cursor = engine->cursor;
        call.limit = engine->followed ? engine->config.feed_size : 1;
        engine->due_ms[TEN_CALL_CHANGES] = UINT64_MAX;
        engine->moved = engine->noticed = false;
        engine->rows = 0;
        pay_for_feed(engine, now_ms);
        break;
    case TEN_CALL_INSTANCES:
        (void)tell(engine, now_ms, TEN_ON_INSTANCES);
        break;
    case TEN_CALL_LIST:
        if (engine->after[0] == '\0') {
            engine->list_again = false;
            (void)tell(engine, now_ms, TEN_ON_LISTING);
        }
        call.after = engine->after;
        call.limit = engine->config.page_size;
        engine->rows = 0;
        break;
    case TEN_CALL_READ:
        add_reread(engine, now_ms);
        call.count = ten_min_u64(engine->changed_count - engine->changed_at, TEN_CALL_READ_MAX);
        for (size_t i = 0; i < call.count; i++) {
            engine->reading[i] = engine->changed[engine->changed_at + i];
            engine->found[i] = false;
        }
        call.ids = engine->reading;
        call.kind = call.count ? TEN_CALL_READ : TEN_CALL_NONE; /* a listing will bring it */
        break;
    default: /* there is none */
        break;
    }
    return call;
}

/* While nothing is held, nothing can be late: the feed is followed first, so that it tells of all that comes then. */
static bool follows_first(const ten_engine *engine, const struct due *due, uint64_t now_ms) {
    return !engine->followed && now_ms >= due->at_ms[TEN_CALL_CHANGES] && due->part.deadline_ms == UINT64_MAX;
}

/* False: there is no such call after all. */
static bool send(ten_engine *engine, enum ten_call_kind kind, uint64_t now_ms) {
    engine->call = call_of(engine, kind, now_ms);
    engine->sent_ms = now_ms;
    return engine->call.kind != TEN_CALL_NONE;
}

/* Chooses the next call, if there is one. */
static bool choose_call(ten_engine *engine, uint64_t now_ms) {
    if (engine->call.kind != TEN_CALL_NONE || now_ms < engine->retry_ms)
        return false;
    struct due due = ask(engine, now_ms);
    if (engine->followed && !due.part.follows)
        stop_following(engine);
    if (follows_first(engine, &due, now_ms))
        return send(engine, TEN_CALL_CHANGES, now_ms);
    engine->urgent = now_ms >= due.part.urgent_ms;
    if (engine->urgent && send(engine, TEN_CALL_APPLY, now_ms))
        return true;
    if (engine->urgent)
        due = ask(engine, now_ms); /* what was not sent may have changed the part */
    /* Calls that are due take turns, beginning behind the one that was last. */
    for (unsigned i = 0; i + 1 < TEN_CALL_COUNT; i++) {
        enum ten_call_kind kind = (enum ten_call_kind)((engine->last + i) % (TEN_CALL_COUNT - 1) + 1);
        if ((kind == TEN_CALL_APPLY && engine->urgent) || due.at_ms[kind] > now_ms)
            continue;
        if (send(engine, kind, now_ms)) {
            engine->last = kind;
            return true;
        }
        due = ask(engine, now_ms);
    }
    return false;
}

/* ---- answers */

static bool is_told(const ten_engine *engine) {
    return engine->down || engine->unread >= UNREAD_MAX;
}

/* Reports that the store is down, or up again. */
static void tell_state(const ten_engine *engine, bool was_told, int error) {
    if (is_told(engine) != was_told)
        ten_event_queue_put(engine->config.events,
                            (tenure_event){.kind = was_told ? TENURE_EVENT_STORE_UP : TENURE_EVENT_STORE_DOWN,
                                           .error = was_told ? TENURE_OK : error});
}

/* A store that takes requests and cannot be read keeps an instance from seeing what has become of the others: it would
 * take nothing over, and no event would say why. */
static void note_reading(ten_engine *engine, int error) {
    bool was_told = is_told(engine);
    if (error < 0 && error != TENURE_E_RESYNC)
        engine->unread += engine->unread < UNREAD_MAX;
    else
        engine->unread = 0;
    tell_state(engine, was_told, error);
}

static void note_failure(ten_engine *engine, uint64_t now_ms, int error) {
    bool was_told = is_told(engine);
    engine->down = true;
    tell_state(engine, was_told, error);
    uint64_t pause_ms = ten_backoff_pause_ms(&engine->backoff, 0);
    engine->retry_ms = now_ms + pause_ms / 2 + ten_jitter(&engine->random, pause_ms / 2 + 1);
}

static void note_success(ten_engine *engine) {
    bool was_told = is_told(engine);
    if (engine->down) /* the readings failed for the same reason, and the next may be far away */
        engine->unread = 0;
    engine->down = false;
    tell_state(engine, was_told, TENURE_OK);
    engine->backoff.brief = 0;
    engine->retry_ms = 0;
}

static void answer_apply(ten_engine *engine, const ten_engine_event *answer) {
    uint64_t now_ms = answer->now_ms;
    (void)pass(engine, answer);
    if (answer->error < 0) {
        note_failure(engine, now_ms, answer->error);
        return;
    }
    note_success(engine);
    if (engine->followed && (engine->urgent || engine->config.feed_is_pulse))
        want_feed(engine, now_ms); /* a notice can be lost */
}

static void answer_changes(ten_engine *engine, const ten_engine_event *answer) {
    uint64_t now_ms = answer->now_ms;
    int error = answer->error;
    bool failed = error < 0 && error != TENURE_E_RESYNC;
    if (failed && engine->config.feed_is_pulse)
        note_failure(engine, now_ms, error);
    else if (engine->config.feed_is_pulse)
        note_success(engine);
    if (failed) { /* else it is read again after the next request that is answered */
        if (!engine->followed || engine->config.feed_is_pulse)
            want(engine, TEN_CALL_CHANGES, now_ms + RETRY_MS);
        return;
    }
    engine->moved |= answer->cursor != engine->cursor;
    engine->cursor = answer->cursor;
    if (engine->lacking) { /* an epoch would have been reported by now */
        engine->lacking = false;
        want(engine, TEN_CALL_LIST, tell(engine, now_ms, TEN_ON_CHECKED).at_ms);
    }
    if (error == TENURE_E_RESYNC || !engine->followed) {
        engine->followed = true;
        (void)tell(engine, now_ms, TEN_ON_FOLLOW);
        if (engine->config.lists)
            want_listing(engine, now_ms);
        if (engine->noticed)
            want_feed(engine, now_ms);
        return;
    }
    if (engine->rows >= engine->config.feed_size)
        want(engine, TEN_CALL_CHANGES, now_ms); /* there is more: a gap would only let it fall behind */
    else if (engine->moved && !engine->config.feed_in_turns)
        want_feed(engine, now_ms); /* its end is where nothing more comes */
    else
        (void)tell(engine, now_ms, TEN_ON_FED);
}

/* The feed is followed meanwhile, so a page that failed is read again where it was. */
static void answer_list(ten_engine *engine, const ten_engine_event *answer) {
    uint64_t now_ms = answer->now_ms;
    if (answer->error < 0) {
        engine->due_ms[TEN_CALL_LIST] = now_ms + RETRY_MS;
    } else if (engine->rows < engine->config.page_size) {
        engine->lacking = tell(engine, now_ms, TEN_ON_LISTING_END).lacks;
        engine->after[0] = '\0';
        engine->due_ms[TEN_CALL_LIST] = engine->list_again ? now_ms : UINT64_MAX;
        if (engine->lacking)
            want_feed(engine, now_ms);
    }
}

/* Whatever the reason is, a listing brings the same. */
static void answer_read(ten_engine *engine, const ten_engine_event *answer, size_t count) {
    uint64_t now_ms = answer->now_ms;
    int error = answer->error;
    if (error < 0)
        want_listing(engine, now_ms + RETRY_MS);
    for (size_t i = 0; error == TENURE_OK && i < count; i++)
        if (!engine->found[i])
            (void)pass(engine,
                       &(ten_engine_event){.kind = TEN_ON_ABSENT, .now_ms = now_ms, .target = engine->reading[i]});
    engine->changed_at += error < 0 ? 0 : (uint32_t)count;
    if (engine->changed_at >= engine->changed_count) {
        engine->changed_count = engine->changed_at = 0;
        (void)tell(engine, now_ms, TEN_ON_READ_END);
    }
}

static void take_answer(ten_engine *engine, ten_engine_event answer) {
    ten_call call = engine->call;
    engine->call = (ten_call){0};
    if (call.kind != TEN_CALL_APPLY)
        note_reading(engine, answer.error);
    switch (call.kind) {
    case TEN_CALL_APPLY:
        answer_apply(engine, &answer);
        break;
    case TEN_CALL_CHANGES:
        answer_changes(engine, &answer);
        break;
    case TEN_CALL_INSTANCES:
        answer.kind = TEN_ON_INSTANCES_END;
        (void)pass(engine, &answer);
        break;
    case TEN_CALL_LIST:
        answer_list(engine, &answer);
        break;
    case TEN_CALL_READ:
        answer_read(engine, &answer, call.count);
        break;
    default: /* there is none */
        break;
    }
    if (engine->config.feed_max_ms || engine->blind)
        want(engine, TEN_CALL_CHANGES,
             engine->fed_ms + ten_min_u64(engine->blind ? BLIND_MS : UINT64_MAX,
                                          engine->config.feed_max_ms ? engine->config.feed_max_ms : UINT64_MAX));
}

/* ---- what a call brings */

static void note_row(ten_engine *engine, const ten_row *row) {
    engine->rows++;
    if (engine->call.kind == TEN_CALL_LIST)
        (void)snprintf(engine->after, sizeof engine->after, "%s", row->target.id);
    for (size_t i = 0; engine->call.kind == TEN_CALL_READ && i < engine->call.count; i++)
        engine->found[i] |= row->registered && strcmp(engine->reading[i], row->target.id) == 0;
}

static void note_change(ten_engine *engine, uint64_t now_ms, const ten_change *change) {
    bool registration = change->kind == TENURE_EVENT_TARGET_ADDED || change->kind == TENURE_EVENT_TARGET_CHANGED ||
                        change->kind == TENURE_EVENT_TARGET_REMOVED;
    engine->moved = true;
    engine->rows++;
    if (registration && engine->config.registrations)
        remember_changed(engine, now_ms, change->target);
    if (change->kind == TENURE_EVENT_RECOVERING && engine->config.lists)
        want_listing(engine, now_ms);
}

/* ---- notices */

static void take_notice(ten_engine *engine, const ten_engine_event *notice) {
    bool first = !engine->noticed;
    engine->noticed = true;
    if (engine->followed && first)
        want(engine, TEN_CALL_CHANGES, ten_max_u64(pass(engine, notice).at_ms, engine->feed_paid_ms));
}

/* ---- the door */

void ten_engine_step(ten_engine *engine, const ten_engine_event *event, ten_update *update) {
    uint64_t now_ms = event->now_ms;
    bool passes = event->kind == TEN_ON_ROW || event->kind == TEN_ON_INSTANCE || event->kind == TEN_ON_CHANGE;
    bool sends = false;
    switch (event->kind) {
    case TEN_ON_TIMER:
        sends = choose_call(engine, now_ms);
        passes = !sends;
        break;
    case TEN_ON_NOTICE:
        take_notice(engine, event);
        break;
    case TEN_ON_ROW:
        note_row(engine, event->row);
        break;
    case TEN_ON_CHANGE:
        note_change(engine, now_ms, event->change);
        break;
    case TEN_ON_ANSWER:
        take_answer(engine, *event);
        break;
    case TEN_ON_WATCHED:
        if (!event->watched && !engine->blind)
            want_feed(engine, now_ms);
        engine->blind = !event->watched;
        break;
    case TEN_ON_CALLER:
        engine->retry_ms = 0;
        break;
    case TEN_ON_RELIST:
        want_listing(engine, now_ms);
        break;
    default: /* an instance, or what the engine tells the part by itself */
        break;
    }
    if (passes)
        (void)pass(engine, event);
    if (update && sends)
        *update = (ten_update){.call = engine->call};
    else if (update)
        *update = ten_engine_look(engine, now_ms);
}
