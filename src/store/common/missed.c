/*
 * The answer to a reader whose cursor misses entries of the feed. Called by every backend's changes(). It is a file of
 * its own, because the modules link what they use of store/ and nothing else.
 */
#include "store/store.h"

int ten_store_missed(ten_store *store, const char *namespace_name, uint64_t cursor, bool epoch, ten_change_fn each,
                     void *userdata) {
    ten_change change = {.kind = TENURE_EVENT_RECOVERING,
                         .cursor = cursor,
                         .at_ms = ten_wall_ms(store->clock),
                         .namespace_name = namespace_name ? namespace_name : "",
                         .target = "",
                         .instance = "",
                         .actor = ""};
    int stopped = epoch && each ? each(&change, userdata) : 0;
    if (stopped)
        return stopped;
    return ten_fail(&store->error, TENURE_E_RESYNC,
                    epoch ? "changes were missed: the store may have lost data since the last one that was read"
                          : "changes were missed: the feed keeps about the last %u",
                    TEN_FEED_MAX);
}
