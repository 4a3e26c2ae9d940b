/*
 * See feed_json.h. Called by the HTTP and the etcd store.
 */
#include "store/common/feed_json.h"

#include <string.h>

bool ten_feed_json_read(const json_t *item, const char *namespace_name, ten_change *change) {
    const char *event = json_string_value(json_object_get(item, "event"));
    const char *reason = json_string_value(json_object_get(item, "reason"));
    json_int_t token = json_integer_value(json_object_get(item, "token"));
    change->kind = TEN_CHANGE_COUNT;
    change->namespace_name = namespace_name;
    change->target = json_string_value(json_object_get(item, "target"));
    change->instance = json_string_value(json_object_get(item, "instance"));
    change->actor = json_string_value(json_object_get(item, "actor"));
    change->token = token > 0 ? (uint64_t)token : 0;
    for (int i = 0; event && i < TEN_CHANGE_COUNT; i++)
        if (strcmp(event, ten_change_name((enum ten_change_kind)i)) == 0)
            change->kind = (enum ten_change_kind)i;
    for (int i = 0; reason && i < TEN_REASON_COUNT; i++)
        if (strcmp(reason, ten_reason_name((enum ten_reason)i)) == 0)
            change->reason = (enum ten_reason)i;
    return change->kind != TEN_CHANGE_COUNT && change->target && change->instance && change->actor;
}
