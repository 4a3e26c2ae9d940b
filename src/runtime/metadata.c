/*
 * What an instance says of itself. Called by member.c and by the leader.
 */
#include "runtime/metadata.h"

#include <tenure.h>

#include "base/json.h"

void ten_metadata_write(const ten_metadata *metadata, ten_buf *text) {
    ten_json_open(text);
    ten_json_text(text, "version", TENURE_VERSION);
    if (metadata->role)
        ten_json_text(text, "role", metadata->role);
    if (metadata->priority)
        ten_buf_format(text, ",\"priority\":%lld", (long long)metadata->priority);
    if (metadata->isolation)
        ten_json_text(text, "isolation", metadata->isolation);
    ten_json_close(text);
}
