-- What a bare loop over libsqlite3 does for a renewal and for an acquire and a release, on the schema of the SQLite
-- store (src/store/sqlite/sqlite.sql). The renewal has the store's own
-- conditions: leaving them out would be another promise.

-- name: renew
UPDATE record SET ends_ms = ?1
 WHERE key = ?2 || ' 4' || ?3 AND number = ?4 AND name = ?5 AND ttl_ms = ?6 AND ends_ms > ?7;

-- name: get
SELECT number FROM record WHERE key = ?1 || ' 4' || ?2 AND name = '';

-- name: put
INSERT INTO record (key, version, name, number, ends_ms, ttl_ms, kept_ends_ms, value)
VALUES (?1 || ' 4' || ?2, 1, ?3, ?4, ?5, ?6, 0, '1 ttl=' || ?6 || ' at=' || ?7)
    ON CONFLICT (key) DO UPDATE
   SET version = version + 1, name = ?3, number = ?4, ends_ms = ?5, ttl_ms = ?6, value = '1 ttl=' || ?6 || ' at=' || ?7;

-- name: release
UPDATE record SET name = '', version = version + 1
 WHERE key = ?1 || ' 4' || ?2 AND number = ?3 AND name = ?4;

-- name: feed
INSERT INTO change (cursor, at_ms, namespace, id, text)
VALUES ((SELECT coalesce(max(cursor), 0) + 1 FROM change), ?1, ?3, ?4,
        '1 event=' || ?2 || ' target=' || ?4 || ' instance=' || ?5 || ' token=' || ?6);
