/*
 * An entry of the feed as JSON, the way REST and etcd write it.
 */
#ifndef TEN_STORE_FEED_JSON_H
#define TEN_STORE_FEED_JSON_H

#include <jansson.h>

#include "store/store.h"

/* Fills in all but cursor and time; the texts are the JSON's. False: it is not a change that this version knows. */
bool ten_feed_json_read(const json_t *item, const char *namespace_name, ten_change *change);

#endif
