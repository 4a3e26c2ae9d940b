-- The SQLite store: its schema and every statement that it runs. Each part is a C constant after its name (see
-- embed.sh). Times that decide anything are milliseconds of CLOCK_BOOTTIME and mean something within one boot only
-- (store.boot_id); change.at_ms is Unix time, for people.

-- name: schema
-- Who and where this database is, one row. When it does not fit what is found, it is another store from then on: it
-- gets another identity, and an epoch begins in each namespace. lost_until_ms: what it may have lost had ended by then;
-- lost: it ever lost something. generation counts the transactions that wrote, so that older content in the same file
-- is noticed, also when nothing but renewals was lost; it is the version of what they wrote. cursor: of the newest
-- change.
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    boot_id TEXT NOT NULL,
    time_namespace INTEGER NOT NULL,
    device INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    schema_cookie INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    cursor INTEGER NOT NULL,
    identity TEXT NOT NULL,
    lost INTEGER NOT NULL,
    lost_until_ms INTEGER NOT NULL
) STRICT;
-- The records (rules/record.h). key: namespace, a blank, the digit of the kind (enum ten_kind) and the id; as one text
-- it is found faster than as three columns. ends_ms: dead from then on; 2^63 - 1: never. ttl_ms: how long the life was
-- when it was written, 0 if it was ended; after a reboot it begins anew. kept_ends_ms, if it is ends_ms: nobody
-- believes in it for so long, it only keeps others out.
CREATE TABLE record (
    key TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    ends_ms INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    kept_ends_ms INTEGER NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- The feed of changes, which is also the history of changes of hands. id: of a target that can be forgotten, with what
-- this says.
CREATE TABLE change (
    cursor INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    id TEXT,
    text TEXT NOT NULL
) STRICT;
-- For people: a lease that is attached to its holder's session ends with that.
CREATE VIEW lease AS
SELECT namespace, target, nullif(name, '') AS holder, number AS token,
       CASE WHEN value LIKE '% session=%'
            THEN max(ends_ms, coalesce((SELECT i.ends_ms FROM record AS i
                                         WHERE i.key = l.namespace || ' 2' || l.name), 0))
            ELSE ends_ms END AS ends_ms,
       kept_ends_ms, value
  FROM (SELECT substr(key, 1, instr(key, ' ') - 1) AS namespace, substr(key, instr(key, ' ') + 2) AS target, *
          FROM record WHERE substr(key, instr(key, ' ') + 1, 1) = '4') AS l;
-- As in sqlite_open.c.
PRAGMA application_id = 0x54656e75;
PRAGMA user_version = 2;

-- In one statement, so that a schema that another process makes is seen as a whole or not at all.
-- name: get_version
SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id),
       (SELECT count(*) FROM sqlite_schema);

-- name: get_store
SELECT boot_id, identity, time_namespace, device, inode, schema_cookie, generation, cursor, lost, lost_until_ms
  FROM store;

-- SQLite's own restore (sqlite3_backup, .restore) raises it in the file and leaves the older one in the row: older
-- content in the same file is noticed also when nothing but renewals was lost, which no cursor tells. So does VACUUM,
-- which then costs a quarantine.
-- name: schema_cookie
PRAGMA schema_version;

-- name: put_store
INSERT INTO store (one, boot_id, identity, time_namespace, device, inode, schema_cookie, generation, cursor, lost,
                   lost_until_ms)
VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9)
    ON CONFLICT (one) DO UPDATE
   SET boot_id = ?1, identity = ?2, time_namespace = ?3, device = ?4, inode = ?5, schema_cookie = ?6, cursor = ?7,
       lost = ?8, lost_until_ms = ?9;

-- name: raise_generation
UPDATE store SET generation = ?1, cursor = ?2;

-- After a reboot the old times mean nothing. Whoever was named as a holder keeps the target for its whole TTL from now:
-- on this host nobody is left to use it, but a disk that moved to another host may have left a holder behind.
-- name: restart_lives
UPDATE record
   SET ends_ms = ?1 + ttl_ms, kept_ends_ms = CASE WHEN kept_ends_ms = ends_ms THEN ?1 + ttl_ms ELSE 0 END
 WHERE ends_ms < 9223372036854775807;

-- The latest end of what somebody may believe in, and the longest life.
-- name: last_end
SELECT coalesce(max(ends_ms), 0), coalesce(max(ttl_ms), 0) FROM record
 WHERE ttl_ms > 0 AND kept_ends_ms <> ends_ms AND ends_ms < 9223372036854775807;

-- name: get
SELECT key, version, name, number, ends_ms, value FROM record WHERE key = ?1;

-- Whether the namespace is in that epoch.
-- name: epoch
SELECT 1 FROM record WHERE key = ?1 AND name = ?2 AND number = ?3;

-- name: put
INSERT INTO record (key, version, name, number, ends_ms, ttl_ms, kept_ends_ms, value)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (key) DO UPDATE
   SET version = ?2, name = ?3, number = ?4, ends_ms = ?5, ttl_ms = CASE WHEN ends_ms = ?5 THEN ttl_ms ELSE ?6 END,
       kept_ends_ms = CASE WHEN ?7 > 0 THEN ?7 ELSE kept_ends_ms END, value = ?8;

-- name: raise
UPDATE record SET version = ?2 WHERE key = ?1;

-- name: remove
DELETE FROM record WHERE key = ?1;

-- Renewals and heartbeats, which is nearly all that a store does. Without RETURNING, which needs a savepoint.
-- name: touch
UPDATE record SET ends_ms = ?2 WHERE key = ?1 AND version = ?4 AND ends_ms BETWEEN ?3 AND ?2;

-- ?4: 0 all, 1 those with a name, 2 those without.
-- name: scan
SELECT key, version, name, number, ends_ms, value FROM record
 WHERE key > ?1 AND key < ?2 AND (?4 = 0 OR (name <> '') = (?4 = 1)) ORDER BY key LIMIT ?3;

-- The first key of the namespace after ?1, which ends with what comes behind a blank.
-- name: next_namespace
SELECT min(key) FROM record WHERE key > ?1;

-- name: add_change
INSERT INTO change (cursor, at_ms, namespace, id, text) VALUES (?1, ?2, ?3, ?4, ?5);

-- By count (cursors leap when an epoch begins, and what came before stays): ?1 are kept, and up to ?3 if they are not
-- older than ?4. And those before the first that is not older than ?2. 20,000 at most, so that nobody waits for long.
-- name: trim_changes
DELETE FROM change
 WHERE cursor <= max(coalesce((SELECT cursor FROM change ORDER BY cursor DESC LIMIT 1 OFFSET ?3), 0),
                     min(coalesce((SELECT cursor FROM change ORDER BY cursor DESC LIMIT 1 OFFSET ?1), 0),
                         coalesce((SELECT cursor - 1 FROM change WHERE at_ms >= ?4 ORDER BY cursor LIMIT 1),
                                  9223372036854775807)),
                     coalesce((SELECT cursor - 1 FROM change WHERE at_ms >= ?2 ORDER BY cursor LIMIT 1), 0))
   AND cursor <= coalesce((SELECT cursor FROM change ORDER BY cursor LIMIT 1 OFFSET 19999), 9223372036854775807);

-- An entry whose target is forgotten stays as one that says nothing: the oldest tells who has missed something. ?4: the
-- ids, as a JSON array.
-- name: blank_changes
UPDATE change SET id = NULL, text = ''
 WHERE cursor > ?2 AND cursor <= ?3 AND namespace = ?1 AND id IN (SELECT value FROM json_each(?4));

-- The cursor of the ?2th change after a cursor (?1); 0: there are no more.
-- name: next_changes
SELECT coalesce((SELECT cursor FROM change WHERE cursor > ?1 ORDER BY cursor LIMIT 1 OFFSET ?2 - 1), 0);

-- As two: both at once would go through the whole table.
-- name: change_range
SELECT coalesce((SELECT min(cursor) - 1 FROM change), (SELECT cursor FROM store), 0),
       coalesce((SELECT cursor FROM store), 0);

-- name: list_changes
SELECT cursor, at_ms, id, text FROM change WHERE cursor > ?1 AND namespace = ?2 AND text <> '' ORDER BY cursor LIMIT ?3;
