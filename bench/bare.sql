-- What a bare loop over libsqlite3 does for a renewal and for an acquire and a release, on the schema of the SQLite store
-- (src/store/sqlite/sqlite.sql). The renewal has the store's own conditions: leaving them out would be another promise.

-- name: renew
UPDATE lease SET ends_ms = ?1
 WHERE namespace = ?2 AND target = ?3 AND token = ?4 AND holder = ?5 AND ttl_ms = ?6 AND ends_ms > ?7
   AND barred = 0 AND ask = 0;

-- name: get
SELECT holder, token, ends_ms FROM lease WHERE namespace = ?1 AND target = ?2;

-- name: put
INSERT INTO lease (namespace, target, holder, token, ends_ms, ttl_ms, acquired_at_ms, barred, ask)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0)
    ON CONFLICT (namespace, target) DO UPDATE
   SET holder = ?3, token = ?4, ends_ms = ?5, ttl_ms = ?6, acquired_at_ms = ?7, barred = 0, ask = 0;

-- name: release
UPDATE lease SET holder = NULL WHERE namespace = ?1 AND target = ?2 AND token = ?3 AND holder = ?4;

-- name: feed
INSERT INTO change (cursor, at_ms, event, reason, namespace, target, instance, actor, token)
VALUES ((SELECT coalesce(max(cursor), 0) + 1 FROM change), ?1, ?2, '', ?3, ?4, ?5, '', ?6);
