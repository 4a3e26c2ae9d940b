/*
 * See feed_json.h. Called by the HTTP and the etcd store.
 */
#include "store/common/feed_json.h"

bool ten_feed_json_read(const json_t *item, const char *namespace_name, ten_change *change) {
    json_int_t token = json_integer_value(json_object_get(item, "token"));
    change->kind = (enum tenure_event_kind)ten_event_parse(json_string_value(json_object_get(item, "event")));
    change->reason = ten_reason_parse(json_string_value(json_object_get(item, "reason")));
    change->namespace_name = namespace_name;
    change->target = json_string_value(json_object_get(item, "target"));
    change->instance = json_string_value(json_object_get(item, "instance"));
    change->actor = json_string_value(json_object_get(item, "actor"));
    change->token = token > 0 ? (uint64_t)token : 0;
    return (int)change->kind != TEN_EVENT_COUNT && change->target && change->instance && change->actor;
}
