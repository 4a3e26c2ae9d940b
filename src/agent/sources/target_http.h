/*
 * The target source http://HOST[:PORT]/PATH, and https:// (TLS, always verified): a GET answers with a JSON array of
 * objects, each a target: `id` (or `scene_id`), `url`, `exec`, `every`, `paused`, `spec` as in a line of `file:`; other
 * members, such as who holds it, are left alone. A list in pages names the next one by `Link: <...>; rel="next"`. This
 * is what GET /api/v1/{namespace} of a Tenure server answers.
 *
 * Options of the URL that are ours, and not sent: `every` (between two readings, 10s unless told), `timeout`,
 * `token_file` (a bearer token), `ca_file`, `cert_file`, `key_file`. Everything else in the query goes to the server;
 * `limit` is 1000 unless told.
 *
 * A thread of its own reads the list over and over and leaves the differences. A list that could not be read to its end
 * removes nothing.
 */
#ifndef TEN_AGENT_TARGET_HTTP_H
#define TEN_AGENT_TARGET_HTTP_H

#include "agent/sources/source_feed.h"

extern const ten_source_ops ten_target_http_ops;

#endif
