/*
 * The filter's messages. Called by guard_lines.c and guard_topic.c. JSON with a key twice is refused: the reader behind
 * the filter might take the other one.
 */
#include "agent/guard/guard_filter.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

struct ten_guard_filter {
    ten_guard_filter_config config;
    ten_guard_filter_counts counts;
    ten_measures own; /* when there is no exporter */
    tenure_guard_item items[TEN_GUARD_FILTER_BATCH];
    char targets[TEN_GUARD_FILTER_BATCH][TENURE_TARGET_MAX + 1];
    size_t messages[TEN_GUARD_FILTER_BATCH]; /* which message an item is about */
};

int ten_guard_filter_open(const ten_guard_filter_config *config, ten_guard_filter **ret_filter, ten_error *error) {
    ten_guard_filter *filter = ten_calloc(1, sizeof *filter);
    if (!filter)
        return ten_fail_memory(error, "the messages");
    filter->config = *config;
    if (!config->measures)
        filter->config.measures = &filter->own;
    *ret_filter = filter;
    return TENURE_OK;
}

void ten_guard_filter_close(ten_guard_filter *filter) {
    ten_free(filter);
}

const ten_guard_filter_counts *ten_guard_filter_get_counts(const ten_guard_filter *filter) {
    return &filter->counts;
}

/* ---- refusing without asking the guard */

static void drop_malformed(ten_guard_filter *filter, uint64_t number, const char *why) {
    filter->counts.malformed++;
    ten_measure_add(&filter->config.measures->refused_other, 1);
    TEN_LOG(filter->config.log, TEN_LOG_WARN, "message_dropped", TEN_NUMBER("message", number),
            TEN_TEXT("reason", why));
}

void ten_guard_filter_too_long(ten_guard_filter *filter, uint64_t number) {
    drop_malformed(filter, number, "longer than 1 MiB");
}

void ten_guard_filter_not_taken(ten_guard_filter *filter, uint64_t number, const char *target, const char *why) {
    filter->counts.untaken++;
    TEN_LOG(filter->config.log, TEN_LOG_WARN, "message_dropped", TEN_NUMBER("message", number),
            TEN_TEXT("target", target), TEN_TEXT("reason", why));
}

static void drop_incomplete(ten_guard_filter *filter, uint64_t number, const char *target, const char *why) {
    filter->counts.incomplete++;
    ten_measure_add(&filter->config.measures->refused_other, 1);
    TEN_LOG(filter->config.log, TEN_LOG_WARN, "stale_refused", TEN_NUMBER("message", number),
            TEN_TEXT("target", target), TEN_TEXT("reason", why));
}

/* ---- reading */

/* The target's name, or NULL and why not. */
static const char *target_of(const ten_guard_filter *filter, const json_t *object, const char **ret_why) {
    const char *field = filter->config.id_field;
    const json_t *id = json_object_get(object, field ? field : "target");
    const json_t *scene_id = field ? NULL : json_object_get(object, "scene_id");
    /* A reader of one of them must not be sent what was checked by the other. */
    if (id && scene_id && !json_equal(id, scene_id)) {
        *ret_why = "target and scene_id differ";
        return NULL;
    }
    if (!id)
        id = scene_id;
    *ret_why = !id ? "no target" : "the target is not a text that could be one";
    const char *text = json_string_value(id);
    bool fits = text && text[0] != '\0' && strlen(text) <= TENURE_TARGET_MAX && strlen(text) == json_string_length(id);
    return fits ? text : NULL;
}

/* The token, or 0 and why not. */
static uint64_t token_of(const ten_guard_filter *filter, const json_t *object, bool has_large, const char **ret_why) {
    const json_t *token = json_object_get(object, filter->config.token_field);
    double number = json_number_value(token); /* exact, as far as tokens go */
    bool fits = number >= 1 && number <= (double)TENURE_TOKEN_MAX && number == (double)(uint64_t)number;
    *ret_why = !token ? "no token" : "the token is not a whole number between 1 and 2^53 - 1";
    return fits && (json_is_integer(token) || has_large) ? (uint64_t)number : 0;
}

/* The message as JSON, or NULL and why not. A number elsewhere in it that is too large for a machine's integer is JSON
 * all the same: then all numbers are read as reals, and the token may be written as 7.0. */
static json_t *parse(const ten_guard_filter_message *message, bool *ret_has_large, json_error_t *trouble) {
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    *ret_has_large = false;
    if (ten_text_has_nul(message->data, message->size)) {
        snprintf(trouble->text, sizeof trouble->text, "it contains a NUL");
        return NULL;
    }
    json_t *object = json_loadb(message->data, message->size, flags, trouble);
    *ret_has_large = !object && json_error_code(trouble) == json_error_numeric_overflow;
    if (*ret_has_large)
        object = json_loadb(message->data, message->size, flags | JSON_DECODE_INT_AS_REAL, trouble);
    return object;
}

/* Makes an item of the message for the guard. False: it has been refused. */
static bool read_message(ten_guard_filter *filter, const ten_guard_filter_message *message, size_t place) {
    json_error_t trouble;
    bool has_large;
    json_t *object = parse(message, &has_large, &trouble);
    const char *why = NULL;
    bool good = json_is_object(object);
    if (!good) {
        drop_malformed(filter, message->number, object ? "not a JSON object" : trouble.text);
    } else {
        const char *target = target_of(filter, object, &why);
        uint64_t token = target ? token_of(filter, object, has_large, &why) : 0;
        good = token != 0;
        if (good) {
            snprintf(filter->targets[place], sizeof filter->targets[place], "%s", target);
            filter->items[place] = (tenure_guard_item){.target = filter->targets[place], .token = token};
        } else {
            drop_incomplete(filter, message->number, target ? target : "", why);
        }
    }
    json_decref(object);
    return good;
}

/* ---- judging */

static void take_verdict(ten_guard_filter *filter, const tenure_guard_item *item, ten_guard_filter_message *message) {
    const char *why;
    message->passes = item->verdict == TENURE_OK;
    message->target = item->target;
    message->token = item->token;
    switch (item->verdict) {
    case TENURE_OK:
        filter->counts.passed++;
        return;
    case TENURE_E_STALE:
        filter->counts.stale++;
        ten_measure_add(&filter->config.measures->refused_stale, 1);
        why = "stale";
        break;
    case TENURE_E_TOKEN:
        filter->counts.ungranted++;
        ten_measure_add(&filter->config.measures->refused_other, 1);
        why = "never granted";
        break;
    case TENURE_E_INVALID:
        drop_incomplete(filter, message->number, item->target, "the target is not a text that could be one");
        return;
    default:
        filter->counts.unconfirmed++;
        ten_measure_add(&filter->config.measures->refused_other, 1);
        why = "the store cannot confirm it";
        break;
    }
    TEN_LOG(filter->config.log, TEN_LOG_WARN, "stale_refused", TEN_NUMBER("message", message->number),
            TEN_TEXT("target", item->target), TEN_NUMBER("token", item->token), TEN_NUMBER("current", item->newest),
            TEN_TEXT("reason", why));
}

bool ten_guard_filter_still_passes(ten_guard_filter *filter, uint64_t number, const char *target, uint64_t token) {
    tenure_guard_item item = {.target = target, .token = token};
    ten_guard_filter_message message = {.number = number};
    filter->counts.passed--; /* it is counted by its last verdict */
    int r = tenure_guard_check_many(filter->config.guard, &item, 1, sizeof item);
    if (r < 0)
        item.verdict = r;
    take_verdict(filter, &item, &message);
    return message.passes;
}

int ten_guard_filter_judge(ten_guard_filter *filter, ten_guard_filter_message *messages, size_t count,
                           ten_error *error) {
    TEN_INVARIANT(count <= TEN_GUARD_FILTER_BATCH);
    size_t asked = 0;
    for (size_t i = 0; i < count; i++) {
        messages[i].passes = false;
        if (read_message(filter, &messages[i], asked))
            filter->messages[asked++] = i;
    }
    int r = tenure_guard_check_many(filter->config.guard, filter->items, asked, sizeof filter->items[0]);
    if (r < 0)
        return ten_fail(error, r, "%s", tenure_message(filter->config.guard));
    for (size_t i = 0; i < asked; i++) {
        take_verdict(filter, &filter->items[i], &messages[filter->messages[i]]);
        ten_measure_add(&filter->config.measures->passed, messages[filter->messages[i]].passes);
    }
    return TENURE_OK;
}
