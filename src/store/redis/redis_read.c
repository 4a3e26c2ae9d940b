/*
 * What the Redis backend reads (targets with their leases, instances, changes), and edits of the registry. A listing is
 * read page by page, so that no call holds the server for long.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "rules/pin.h"
#include "store/redis/redis_state.h"

#define LOOK_AT      250u /* ids that one call looks at */
#define EDITS_A_CALL 250u
#define NODES_A_CALL 1000u
#define ENTRIES      64u     /* of the feed, in one call */
#define CHANGES_MOST 100000u /* the same */
#define LINE_FIELDS  7u
#define ROW_FIELDS   7u
#define NUMBER_BASE  10

static ten_redis_store *self(ten_store *base) {
    return (ten_redis_store *)base;
}

static uint64_t left_ms(uint64_t deadline_ms) {
    return ten_sub_saturating(deadline_ms, ten_now_ms());
}

/* ---- the registry -------------------------------------------------------------------------------------- */

/* "+" or "-" (paused), then what people can read with redis-cli. */
static void describe(ten_buf *text, const tenure_target *target) {
    ten_buf_char(text, target->paused ? '-' : '+');
    ten_json_open(text);
    if (target->url)
        ten_json_text(text, "url", target->url);
    if (target->exec)
        ten_json_text(text, "exec", target->exec);
    if (target->spec)
        ten_json_text(text, "spec", target->spec);
    if (target->every_ms)
        ten_json_number(text, "every_ms", target->every_ms);
    ten_json_close(text);
}

static json_t *parse_description(const char *text, tenure_target *target) {
    json_t *object = json_loads(text[0] ? text + 1 : "", JSON_ALLOW_NUL, NULL);
    target->paused = text[0] == '-';
    target->url = json_string_value(json_object_get(object, "url"));
    target->exec = json_string_value(json_object_get(object, "exec"));
    target->spec = json_string_value(json_object_get(object, "spec"));
    json_int_t every_ms = json_integer_value(json_object_get(object, "every_ms"));
    target->every_ms = every_ms > 0 ? (uint64_t)every_ms : 0;
    return object;
}

struct edits {
    const ten_redis_space *space;
    ten_target_edit *at;
    size_t count;
    ten_buf text;
};

static void add_pin(ten_redis_store *store, const ten_target_edit *edit, const ten_change *change, ten_buf *text) {
    ten_buf_clear(text);
    if (edit->action == TEN_TARGET_PIN)
        ten_pin_write(text, &edit->pin);
    ten_redis_word(&store->words, ten_buf_string(text));
    ten_redis_word_number(&store->words, edit->pin.left_ms);
    ten_redis_word_number(&store->words, change->reason);
    ten_redis_word(&store->words, change->instance);
}

static void make_edits(ten_redis_store *store, void *userdata) {
    struct edits *edits = userdata;
    ten_redis_script_in(store, TEN_REDIS_EDIT_TARGETS, edits->space, edits->count);
    for (size_t i = 0; i < edits->count; i++)
        ten_redis_word_key(&store->words, &edits->space->lease, edits->at[i].target.id);
    ten_redis_arguments(store, edits->space);
    for (size_t i = 0; i < edits->count; i++) {
        const ten_target_edit *edit = &edits->at[i];
        ten_change change = {.instance = "", .actor = ""};
        ten_pin_tell(edit, &change);
        ten_buf_clear(&edits->text);
        if (edit->action == TEN_TARGET_PUT)
            describe(&edits->text, &edit->target);
        ten_redis_word(&store->words, ten_op_action_name(edit->action));
        ten_redis_word(&store->words, edit->target.id);
        ten_redis_word(&store->words, ten_buf_string(&edits->text));
        ten_redis_word(&store->words, change.actor);
        if (edit->action == TEN_TARGET_PIN || edit->action == TEN_TARGET_UNPIN)
            add_pin(store, edit, &change, &edits->text);
    }
    store->words.failed |= edits->text.failed;
}

int ten_redis_edit(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                   uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    struct edits call = {0};
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    int r = ten_redis_space_get(&store->layout, namespace_name, &call.space, &base->error);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = ten_redis_space_check(call.space, edits[i].target.id, &base->error);
    for (size_t first = 0; r == TENURE_OK && first < count; first += call.count) {
        call.at = &edits[first];
        call.count = ten_min_u64(count - first, EDITS_A_CALL);
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        r = ten_redis_call(store, "editing targets", make_edits, &call, left_ms(deadline_ms), &reply);
        if (r == TENURE_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements != call.count))
            r = ten_redis_misunderstood(store);
        for (size_t i = 0; r == TENURE_OK && i < call.count; i++)
            call.at[i].found = ten_redis_number(reply->element[i]) == 1;
    }
    ten_buf_free(&call.text);
    return r;
}

/* ---- forgetting ---------------------------------------------------------------------------------------- */

struct forgetting {
    const ten_redis_space *space;
    const ten_forget *items;
    size_t count;
};

static void make_forgetting(ten_redis_store *store, void *userdata) {
    const struct forgetting *forgetting = userdata;
    ten_redis_script_in(store, TEN_REDIS_FORGET, forgetting->space, forgetting->count);
    for (size_t i = 0; i < forgetting->count; i++)
        ten_redis_word_key(&store->words, &forgetting->space->lease, forgetting->items[i].id);
    ten_redis_arguments(store, forgetting->space);
}

int ten_redis_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count,
                     uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    struct forgetting forgetting = {.items = items, .count = count};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    int r = ten_redis_space_get(&store->layout, namespace_name, &forgetting.space, &base->error);
    if (r == TENURE_OK)
        r = ten_redis_call(store, "forgetting targets", make_forgetting, &forgetting, timeout_ms, &reply);
    if (r == TENURE_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements != count))
        r = ten_redis_misunderstood(store);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        if (!ten_forget_parse(ten_redis_text(reply->element[i]), &items[i].outcome))
            r = ten_redis_misunderstood(store);
    return r;
}

struct blanking {
    const ten_redis_space *space;
    uint64_t place;
    uint64_t last;
};

static void make_blanking(ten_redis_store *store, void *userdata) {
    const struct blanking *blanking = userdata;
    ten_redis_script_in(store, TEN_REDIS_BLANK, blanking->space, 0);
    ten_redis_arguments(store, blanking->space);
    ten_redis_word_number(&store->words, blanking->place);
    ten_redis_word_number(&store->words, blanking->last);
}

/* The whole feed at once: every step is a call of its own, and has the time-out. */
int ten_redis_forget_history(ten_store *base, const char *namespace_name, uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    struct blanking blanking = {0};
    int r = ten_redis_space_get(&store->layout, namespace_name, &blanking.space, &base->error);
    do {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        if (r == TENURE_OK)
            r = ten_redis_call(store, "forgetting the history of targets", make_blanking, &blanking, timeout_ms,
                               &reply);
        if (r == TENURE_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2))
            r = ten_redis_misunderstood(store);
        if (r == TENURE_OK) {
            blanking.place = ten_redis_number(reply->element[0]);
            blanking.last = ten_redis_number(reply->element[1]);
        }
    } while (r == TENURE_OK && blanking.place != blanking.last);
    return r;
}

/* ---- targets with their leases ------------------------------------------------------------------------- */

struct listing {
    const ten_redis_space *space;
    const char *filter;
    const char *after;
    size_t limit;
    const char *const *ids; /* only these */
    size_t id_count;
};

static void make_listing(ten_redis_store *store, void *userdata) {
    static const enum ten_redis_own keys[] = {TEN_REDIS_EPOCH, TEN_REDIS_FENCE,   TEN_REDIS_HELD,    TEN_REDIS_MARKS,
                                              TEN_REDIS_IDS,   TEN_REDIS_TARGETS, TEN_REDIS_SESSIONS};
    const struct listing *listing = userdata;
    ten_redis_script(store, TEN_REDIS_LIST, TEN_COUNT(keys));
    for (size_t i = 0; i < TEN_COUNT(keys); i++)
        ten_redis_word(&store->words, listing->space->own[keys[i]]);
    ten_redis_word(&store->words, listing->space->lease.before);
    ten_redis_word(&store->words, listing->space->lease.after);
    ten_redis_word(&store->words, listing->filter);
    ten_redis_word(&store->words, listing->after);
    ten_redis_word_number(&store->words, listing->limit);
    ten_redis_word_number(&store->words, LOOK_AT);
    for (size_t i = 0; i < listing->id_count; i++)
        ten_redis_word(&store->words, listing->ids[i]);
}

/* fields: id, description, holder, ms left, fence "token ttl", held "acquired_at holder", mark "token barred ask", and of
 * what is pinned the server's time */
static int hand_out_row(redisReply *const *fields, size_t count, ten_row_fn each, void *userdata) {
    ten_row row = {.target = {.id = ten_redis_text(fields[0])}};
    const char *description = ten_redis_text(fields[1]);
    json_t *object = NULL;
    row.registered = description[0] != '\0';
    if (row.registered)
        object = parse_description(description, &row.target);
    ten_pin_copy pin;
    if (count > ROW_FIELDS) {
        ten_pin_read(json_string_value(json_object_get(object, "pin")), ten_redis_number(fields[ROW_FIELDS]), &pin);
        row.pin = pin.pin;
    }
    char *end = NULL;
    row.token = strtoull(ten_redis_text(fields[4]), &end, NUMBER_BASE);
    if (fields[2]->type == REDIS_REPLY_STRING) {
        char *name = NULL;
        uint64_t acquired_at_ms = strtoull(ten_redis_text(fields[5]), &name, NUMBER_BASE);
        char *mark = NULL;
        bool marked = strtoull(ten_redis_text(fields[6]), &mark, NUMBER_BASE) == row.token && *mark == ' ';
        row.holder = fields[2]->str;
        row.remaining_ms = ten_max_u64(ten_redis_number(fields[3]), 1);
        bool ours = *name == ' ' && strcmp(name + 1, row.holder) == 0;
        row.ttl_ms = ours ? strtoull(end, NULL, NUMBER_BASE) : 0;
        row.acquired_at_ms = ours ? acquired_at_ms : 0;
        row.barred = marked && mark[1] == '1';
    }
    int stopped = each(&row, userdata);
    json_decref(object);
    return stopped;
}

/* One reply. *ret_after, which may be NULL: where to go on; "": there is no more. */
static int take_listing(ten_redis_store *store, struct listing *listing, uint64_t deadline_ms, char *ret_after,
                        ten_row_fn each, void *userdata) {
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    int r = ten_redis_call(store, "listing targets", make_listing, listing, left_ms(deadline_ms), &reply);
    if (r == TENURE_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1))
        r = ten_redis_misunderstood(store);
    for (size_t i = 1; r == TENURE_OK && i < reply->elements && listing->limit > 0; i++) {
        const redisReply *row = reply->element[i];
        bool good = row->type == REDIS_REPLY_ARRAY && row->elements >= ROW_FIELDS;
        r = good ? hand_out_row(row->element, row->elements, each, userdata) : ten_redis_misunderstood(store);
        listing->limit--;
    }
    if (r == TENURE_OK && ret_after)
        snprintf(ret_after, TENURE_TARGET_MAX + 3, "%s", ten_redis_text(reply->element[0]));
    return r;
}

int ten_redis_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    char after[TENURE_TARGET_MAX + 3];
    snprintf(after, sizeof after, "%s", query->after ? query->after : "");
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    struct listing listing = {.filter = query->current && query->filter == TENURE_ALL ? "current"
                                                                                      : ten_filter_name(query->filter),
                              .after = after,
                              .limit = query->limit};
    int r = ten_redis_space_get(&store->layout, query->namespace_name, &listing.space, &base->error);
    for (bool more = true; r == TENURE_OK && more && listing.limit > 0; more = after[0] != '\0')
        r = take_listing(store, &listing, deadline_ms, after, each, userdata);
    return r;
}

int ten_redis_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                           ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    struct listing listing = {.filter = ten_filter_name(TENURE_ALL), .after = ""};
    int r = ten_redis_space_get(&store->layout, namespace_name, &listing.space, &base->error);
    for (size_t at = 0; r == TENURE_OK && at < count; at += listing.id_count) {
        listing.ids = ids + at;
        listing.id_count = listing.limit = ten_min_u64(count - at, LOOK_AT);
        r = take_listing(store, &listing, deadline_ms, NULL, each, userdata);
    }
    return r;
}

/* ---- instances ----------------------------------------------------------------------------------------- */

struct roll {
    const ten_redis_space *space;
    size_t from;
};

static void make_roll(ten_redis_store *store, void *userdata) {
    const struct roll *roll = userdata;
    ten_redis_script(store, TEN_REDIS_LIST_INSTANCES, 4);
    ten_redis_word(&store->words, roll->space->own[TEN_REDIS_EPOCH]);
    ten_redis_word(&store->words, roll->space->own[TEN_REDIS_NODES]);
    ten_redis_word(&store->words, roll->space->own[TEN_REDIS_INSTANCES]);
    ten_redis_word(&store->words, roll->space->own[TEN_REDIS_SESSIONS]);
    ten_redis_word(&store->words, roll->space->node.before);
    ten_redis_word(&store->words, roll->space->node.after);
    ten_redis_word_number(&store->words, roll->from);
    ten_redis_word_number(&store->words, NODES_A_CALL);
}

/* fields: instance, weight, ms left, "ttl since ask metadata", its session or 0. Another program's heartbeat has no record; one that says
 * nothing sensible about its weight counts once. */
static int hand_out_instance(redisReply *const *fields, ten_instance_fn each, void *userdata) {
    char *rest = NULL;
    const char *weight = ten_redis_text(fields[1]);
    unsigned long long number = strtoull(weight, &rest, NUMBER_BASE);
    bool sensible = weight[0] >= '0' && weight[0] <= '9' && *rest == '\0' && number <= UINT32_MAX;
    ten_instance instance = {.instance = ten_redis_text(fields[0]),
                             .weight = sensible ? (uint32_t)number : 1,
                             .remaining_ms = ten_max_u64(ten_redis_number(fields[2]), 1),
                             .has_session = ten_redis_number(fields[4]) > 0};
    instance.ttl_ms = strtoull(ten_redis_text(fields[3]), &rest, NUMBER_BASE);
    if (*rest == ' ')
        instance.since_ms = strtoull(rest, &rest, NUMBER_BASE);
    if (*rest == ' ')
        instance.ask = (enum ten_ask)strtoul(rest, &rest, NUMBER_BASE);
    if (*rest == ' ' && rest[1] != '\0')
        instance.metadata = rest + 1;
    return each(&instance, userdata);
}

int ten_redis_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                             uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    struct roll roll = {0};
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    size_t found = NODES_A_CALL;
    int r = ten_redis_space_get(&store->layout, namespace_name, &roll.space, &base->error);
    for (; r == TENURE_OK && found == NODES_A_CALL; roll.from += found) {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        r = ten_redis_call(store, "listing instances", make_roll, &roll, left_ms(deadline_ms), &reply);
        if (r == TENURE_OK && reply->type != REDIS_REPLY_ARRAY)
            r = ten_redis_misunderstood(store);
        found = r == TENURE_OK ? reply->elements : 0;
        for (size_t i = 0; r == TENURE_OK && i < found; i++) {
            const redisReply *one = reply->element[i];
            if (one->type != REDIS_REPLY_ARRAY || one->elements != 5)
                r = ten_redis_misunderstood(store);
            else if (one->element[1]->type == REDIS_REPLY_STRING)
                r = hand_out_instance(one->element, each, userdata);
        }
    }
    return r;
}

/* ---- changes ------------------------------------------------------------------------------------------- */

struct reading {
    const ten_redis_space *space;
    uint64_t cursor;
    size_t limit; /* changes */
    bool all;     /* also what is of an epoch before this */
};

static void make_cursor(ten_redis_store *store, void *userdata) {
    const struct reading *reading = userdata;
    ten_redis_script_in(store, TEN_REDIS_CURSOR, reading->space, 0);
    ten_redis_arguments(store, reading->space);
}

static void make_reading(ten_redis_store *store, void *userdata) {
    const struct reading *reading = userdata;
    ten_redis_script(store, TEN_REDIS_CHANGES, 2);
    ten_redis_word(&store->words, reading->space->own[TEN_REDIS_EPOCH]);
    ten_redis_word(&store->words, reading->space->own[TEN_REDIS_FEED]);
    ten_redis_word_number(&store->words, reading->cursor);
    ten_redis_word_number(&store->words, ten_min_u64(reading->limit, CHANGES_MOST));
    ten_redis_word_number(&store->words, ENTRIES);
    ten_redis_word_number(&store->words, reading->all);
}

static void unescape(char *text) {
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (*at == '\\' && at[1] != '\0') {
            at++;
            *to++ = *at == 't' ? '\t' : *at == 'n' ? '\n' : *at;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
}

/* The numbers of kinds in the feed, as redis_prelude.lua has them. */
static const enum tenure_event_kind kinds[] = {
    TENURE_EVENT_ACQUIRED,         TENURE_EVENT_RELEASED,   TENURE_EVENT_LOST,         TENURE_EVENT_JOINED,
    TENURE_EVENT_INSTANCE_CHANGED, TENURE_EVENT_LEFT,       TENURE_EVENT_TARGET_ADDED, TENURE_EVENT_TARGET_CHANGED,
    TENURE_EVENT_TARGET_REMOVED,   TENURE_EVENT_RECOVERING, TENURE_EVENT_ASKED,
};

/* A line of an entry: kind, reason, token, at, target, instance, actor, with tabs between them; it is cut in place. */
static bool parse_line(char *line, ten_change *change) {
    char *fields[LINE_FIELDS];
    for (size_t i = 0; i < LINE_FIELDS; i++) {
        fields[i] = line;
        line = strchr(line, '\t');
        if ((line == NULL) != (i + 1 == LINE_FIELDS))
            return false;
        if (line)
            *line++ = '\0';
    }
    unsigned long kind = strtoul(fields[0], NULL, NUMBER_BASE);
    if (kind >= TEN_COUNT(kinds))
        return false;
    change->kind = kinds[kind];
    unsigned long reason = strtoul(fields[1], NULL, NUMBER_BASE);
    change->reason = reason < TEN_REASON_COUNT ? (enum ten_reason)reason : TEN_REASON_NONE;
    change->token = strtoull(fields[2], NULL, NUMBER_BASE);
    change->at_ms = strtoull(fields[3], NULL, NUMBER_BASE);
    for (size_t i = 4; i < LINE_FIELDS; i++)
        unescape(fields[i]);
    change->target = fields[4];
    change->instance = fields[5];
    change->actor = fields[6];
    return true;
}

/* An entry: the cursor of its last change, then a line for each. Those that were read before are passed over. */
static int hand_out_entry(char *text, const char *namespace_name, uint64_t *cursor, size_t *limit, ten_change_fn each,
                          void *userdata) {
    size_t lines = 0;
    for (const char *at = strchr(text, '\n'); at; at = strchr(at + 1, '\n'))
        lines++;
    uint64_t last = strtoull(text, NULL, NUMBER_BASE);
    uint64_t at_cursor = last - lines;
    char *line = strchr(text, '\n');
    int r = TENURE_OK;
    while (r == TENURE_OK && line && *limit > 0) {
        char *start = line + 1;
        line = strchr(start, '\n');
        if (line)
            *line = '\0';
        if (++at_cursor <= *cursor)
            continue;
        ten_change change = {.cursor = at_cursor, .namespace_name = namespace_name};
        *cursor = at_cursor;
        if (!parse_line(start, &change))
            continue; /* by a version that is newer, or by a stranger's hand: it must not hide the rest */
        --*limit;
        r = each(&change, userdata);
    }
    return r;
}

static int read_cursor(ten_redis_store *store, struct reading *reading, uint64_t timeout_ms, uint64_t *cursor) {
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    int r = ten_redis_call(store, "reading the feed", make_cursor, reading, timeout_ms, &reply);
    if (r == TENURE_OK)
        *cursor = ten_redis_number(reply);
    return r;
}

/* The events that came by the subscription, if it goes on from the cursor. Then the server need not be asked; what it may have told
 * since wakes the caller again. */
static int hand_out_heard(ten_redis_store *store, const char *namespace_name, uint64_t *cursor, size_t limit,
                          ten_change_fn each, void *userdata) {
    ten_redis_watch *watch = &store->watch;
    int r = TENURE_OK;
    for (size_t at = 0; r == TENURE_OK && limit > 0 && at < watch->heard.size;) {
        size_t size = strlen(watch->heard.data + at) + 1; /* before it is cut into lines */
        r = hand_out_entry(watch->heard.data + at, namespace_name, cursor, &limit, each, userdata);
        at += size;
    }
    ten_redis_watch_forget(watch);
    return r;
}

static bool has_heard(const ten_redis_watch *watch, const char *namespace_name, uint64_t cursor) {
    return watch->heard.size > 0 && !watch->heard.failed && watch->heard_from <= cursor && cursor < watch->heard_to &&
           strcmp(watch->notice.namespace_name, namespace_name) == 0;
}

int ten_redis_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                      void *userdata, uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    struct reading reading = {.cursor = *cursor};
    int r = ten_redis_space_get(&store->layout, namespace_name, &reading.space, &base->error);
    ten_notice_watch_reconnect(&store->watch.notice);
    if (r < 0 || *cursor == TEN_CURSOR_NOW)
        return r < 0 ? r : read_cursor(store, &reading, timeout_ms, cursor);
    reading.all = *cursor == TEN_CURSOR_OLDEST;
    if (reading.all)
        *cursor = 0;
    if (limit > 0 && has_heard(&store->watch, namespace_name, *cursor))
        return hand_out_heard(store, namespace_name, cursor, limit, each, userdata);
    for (bool more = true; r == TENURE_OK && more && limit > 0;) {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        reading.cursor = *cursor;
        reading.limit = limit;
        r = ten_redis_call(store, "reading the feed", make_reading, &reading, timeout_ms, &reply);
        if (r == TENURE_OK && reply->type == REDIS_REPLY_INTEGER) {
            r = read_cursor(store, &reading, timeout_ms, cursor);
            return r < 0
                       ? r
                       : ten_store_missed(base, namespace_name, *cursor, ten_redis_number(reply) == 1, each, userdata);
        }
        if (r == TENURE_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1))
            r = ten_redis_misunderstood(store);
        for (size_t i = 1; r == TENURE_OK && i < reply->elements && limit > 0; i++)
            r = reply->element[i]->type == REDIS_REPLY_STRING
                    ? hand_out_entry(reply->element[i]->str, namespace_name, cursor, &limit, each, userdata)
                    : ten_redis_misunderstood(store);
        more = r == TENURE_OK && reply->elements > 1 && *cursor < ten_redis_number(reply->element[0]);
        if (r == TENURE_OK && reading.all && *cursor == 0) /* there are none */
            *cursor = ten_redis_number(reply->element[0]);
    }
    return r;
}

/* ---- the quarantine ------------------------------------------------------------------------------------ */

struct recovery {
    const ten_redis_space *space;
    uint64_t ttl_ms;
    const char *actor; /* NULL: nobody ends it */
};

static void make_recovery(ten_redis_store *store, void *userdata) {
    const struct recovery *recovery = userdata;
    ten_redis_script_in(store, TEN_REDIS_RECOVERY, recovery->space, 0);
    ten_redis_arguments(store, recovery->space);
    ten_redis_word_number(&store->words, recovery->ttl_ms);
    ten_redis_word(&store->words, recovery->actor ? recovery->actor : "");
}

/* Who only asks must not begin the first epoch of a namespace. */
static int has_epoch(ten_redis_store *store, const ten_redis_space *space, uint64_t deadline_ms, bool *ret_has) {
    const char *const words[] = {"EXISTS", space->own[TEN_REDIS_EPOCH]};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    int r = ten_redis_connect(store, deadline_ms);
    if (r == TENURE_OK)
        r = ten_redis_link_ask(store->link, deadline_ms, &reply, &store->base.error, words, TEN_COUNT(words));
    if (r == TENURE_OK)
        *ret_has = ten_redis_number(reply) > 0;
    else
        ten_redis_disconnect(store);
    return r;
}

int ten_redis_recovery(ten_store *base, const char *namespace_name, uint64_t ttl_ms, const char *actor,
                       uint64_t *ret_left_ms, uint64_t timeout_ms) {
    ten_redis_store *store = self(base);
    struct recovery recovery = {.ttl_ms = ttl_ms, .actor = actor};
    bool has = actor != NULL;
    int r = ten_redis_space_get(&store->layout, namespace_name, &recovery.space, &base->error);
    if (r == TENURE_OK && !has)
        r = has_epoch(store, recovery.space, ten_add_saturating(ten_now_ms(), timeout_ms), &has);
    if (r < 0 || !has) {
        *ret_left_ms = 0;
        return r;
    }
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    r = ten_redis_call(store, "ending the recovery", make_recovery, &recovery, timeout_ms, &reply);
    if (r == TENURE_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2))
        r = ten_redis_misunderstood(store);
    if (r < 0)
        return r;
    if (actor && ten_redis_number(reply->element[1]) > 0)
        return ten_fail(&base->error, TENURE_E_HELD,
                        "the recovery of %s cannot be ended yet: no write of this master was confirmed by %llu "
                        "replicas, so a former master may still grant and renew leases; let the replicas follow this "
                        "master, and try again",
                        namespace_name, (unsigned long long)store->wait_replicas);
    *ret_left_ms = ten_redis_number(reply->element[0]);
    return TENURE_OK;
}
