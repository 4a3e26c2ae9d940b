/*
 * Entries of the feed. See feed.h.
 */
#include "rules/feed.h"

#include "rules/value.h"

struct feed_value {
    const char *event, *reason, *target, *instance, *actor;
    uint64_t token, ago_ms;
};

static const ten_value_field feed_fields[] = {
    {"event", TEN_VALUE_TEXT, offsetof(struct feed_value, event)},
    {"reason", TEN_VALUE_TEXT, offsetof(struct feed_value, reason)},
    {"target", TEN_VALUE_TEXT, offsetof(struct feed_value, target)},
    {"instance", TEN_VALUE_TEXT, offsetof(struct feed_value, instance)},
    {"actor", TEN_VALUE_TEXT, offsetof(struct feed_value, actor)},
    {"token", TEN_VALUE_NUMBER, offsetof(struct feed_value, token)},
    {"ago", TEN_VALUE_NUMBER, offsetof(struct feed_value, ago_ms)},
};

static const char *or_none(const char *text) {
    return text && text[0] ? text : NULL;
}

static const char *or_empty(const char *text) {
    return text ? text : "";
}

void ten_feed_write(ten_buf *text, const ten_change *change, uint64_t wall_ms) {
    struct feed_value value = {.event = ten_event_name(change->kind),
                               .reason = or_none(ten_reason_name(change->reason)),
                               .target = or_none(change->target),
                               .instance = or_none(change->instance),
                               .actor = or_none(change->actor),
                               .token = change->token,
                               .ago_ms = change->at_ms ? ten_sub_saturating(wall_ms, change->at_ms) : 0};
    ten_value_write(text, NULL, feed_fields, TEN_COUNT(feed_fields), &value);
}

bool ten_feed_read(const char *text, uint64_t at_ms, ten_change *change, ten_buf *texts) {
    struct feed_value value;
    if (!ten_value_read(text, feed_fields, TEN_COUNT(feed_fields), &value, texts) || !value.event)
        return false;
    int kind = ten_event_parse(value.event);
    *change = (ten_change){.kind = (enum tenure_event_kind)kind,
                           .at_ms = ten_sub_saturating(at_ms, value.ago_ms),
                           .reason = ten_reason_parse(or_empty(value.reason)),
                           .target = or_empty(value.target),
                           .instance = or_empty(value.instance),
                           .actor = or_empty(value.actor),
                           .token = value.token};
    return kind < TEN_EVENT_COUNT;
}

bool ten_feed_is_of_lease(const ten_change *change) {
    return change->kind == TENURE_EVENT_ACQUIRED || change->kind == TENURE_EVENT_RELEASED ||
           change->kind == TENURE_EVENT_LOST || change->kind == TENURE_EVENT_ASKED;
}
