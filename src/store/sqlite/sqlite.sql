-- The SQLite store: its schema and every statement that it runs. Each part is a C constant after its name (see embed.sh).
-- Times that decide anything are milliseconds of CLOCK_BOOTTIME and mean something within one boot only (store.boot_id);
-- columns that end in _at_ms are Unix time, for people.

-- name: schema_1
-- Who and where this database is, one row. When it does not fit what is found, an epoch begins.
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    boot_id TEXT NOT NULL,
    time_namespace INTEGER NOT NULL,
    device INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    recovering_until_ms INTEGER NOT NULL,
    token_floor INTEGER NOT NULL,
    schema_cookie INTEGER NOT NULL,
    pings INTEGER NOT NULL
) STRICT;
-- A row is kept once a target was leased, until it is forgotten: token is its counter. holder NULL: released, at
-- acquired_at_ms. kept_ends_ms, if it is ends_ms: the lease only keeps the others out, and its holder does not believe in
-- it for that long (TEN_OP_KEEP). Versions that do not know this column leave it alone when they set another end.
-- session, if ends_ms is 2^52: the lease hangs on that session of its holder (instance.session). A version that does not know
-- sessions takes such a lease for one that lasts very long, and leaves the number alone when it sets another end. The view
-- `leases` has the true ends. Rows without a namespace or a target are no leases (get_forgotten).
CREATE TABLE lease (
    namespace TEXT NOT NULL,
    target TEXT NOT NULL,
    holder TEXT,
    token INTEGER NOT NULL,
    ends_ms INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    acquired_at_ms INTEGER NOT NULL,
    barred INTEGER NOT NULL,
    ask INTEGER NOT NULL,
    kept_ends_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, target)
) STRICT, WITHOUT ROWID;
CREATE TABLE target (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    url TEXT,
    exec TEXT,
    spec TEXT,
    every_ms INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;
-- gone: 1 a tombstone, kept until ends_ms; 2 an instance that has left, kept until its session ends. session: the number of
-- its session, on which leases hang until session_ends_ms; 0: none.
CREATE TABLE instance (
    namespace TEXT NOT NULL,
    instance TEXT NOT NULL,
    weight INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    ttl_ms INTEGER NOT NULL,
    ends_ms INTEGER NOT NULL,
    since_at_ms INTEGER NOT NULL,
    gone INTEGER NOT NULL,
    ask INTEGER NOT NULL,
    PRIMARY KEY (namespace, instance)
) STRICT, WITHOUT ROWID;
-- The feed of changes, which is also the history of changes of hands.
CREATE TABLE change (
    cursor INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    event TEXT NOT NULL,
    reason TEXT NOT NULL,
    namespace TEXT NOT NULL,
    target TEXT NOT NULL,
    instance TEXT NOT NULL,
    actor TEXT NOT NULL,
    token INTEGER NOT NULL
) STRICT;

-- What holders keep beside their leases. It goes with the row of the lease, also when a version that does not know this
-- table removes that. The table is apart from the leases, so that renewals do not copy it; and older versions go on to use
-- the file, so the number of the schema is the same with it and without.
-- name: add_checkpoint
CREATE TABLE checkpoint (
    namespace TEXT NOT NULL,
    target TEXT NOT NULL,
    token INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (namespace, target)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER checkpoint_goes_with_lease AFTER DELETE ON lease BEGIN
    DELETE FROM checkpoint WHERE namespace = old.namespace AND target = old.target;
END;

-- In one statement, so that a migration by another process is seen as a whole or not at all.
-- name: get_version
SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id),
       (SELECT count(*) FROM sqlite_schema),
       (SELECT count(*) FROM pragma_table_info('lease') WHERE name = 'kept_ends_ms'),
       (SELECT count(*) FROM sqlite_schema WHERE name = 'checkpoint'),
       (SELECT count(*) FROM sqlite_schema WHERE name = 'leases'),
       (SELECT count(*) FROM pragma_table_info('target') WHERE name = 'pin');

-- A file of an older version gets what it lacks. That raises the schema cookie, which must not look like a restore: the
-- row that remembers it goes along (?1: as it was before), unless it was another one before.
-- name: add_kept
ALTER TABLE lease ADD COLUMN kept_ends_ms INTEGER NOT NULL DEFAULT 0;

-- A pin is a text, see rules/pin.h. It goes with the row, also when a version that does not know the column removes that.
-- name: add_pin
ALTER TABLE target ADD COLUMN pin TEXT;

-- name: follow_cookie
UPDATE store SET schema_cookie = (SELECT schema_version FROM pragma_schema_version) WHERE schema_cookie = ?1;

-- Sessions. The view: leases with their true ends; one that hangs on a session ends with it. 0: that is over, it is not known
-- since when.
-- name: add_sessions
ALTER TABLE lease ADD COLUMN session INTEGER NOT NULL DEFAULT 0;
ALTER TABLE instance ADD COLUMN session INTEGER NOT NULL DEFAULT 0;
ALTER TABLE instance ADD COLUMN session_ends_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE instance ADD COLUMN session_version INTEGER NOT NULL DEFAULT 0;
CREATE VIEW leases AS
SELECT namespace, target, holder, token,
       CASE WHEN session <> 0 AND ends_ms = 4503599627370496
            THEN coalesce((SELECT session_ends_ms FROM instance
                            WHERE instance.namespace = lease.namespace AND instance.instance = lease.holder
                              AND instance.session = lease.session), 0)
            ELSE ends_ms END AS ends_ms,
       ttl_ms, acquired_at_ms, barred, ask,
       CASE WHEN ends_ms = 4503599627370496 THEN session ELSE 0 END AS session
  FROM lease;

-- name: get_store
SELECT boot_id, time_namespace, device, inode, recovering_until_ms, token_floor,
       coalesce((SELECT max(cursor) FROM change), 0), schema_cookie, pings
  FROM store;

-- SQLite's own restore (sqlite3_backup, .restore) raises it in the file and leaves the older one in the row: older content in the same
-- file is noticed also when nothing but renewals was lost, which no cursor tells. So does VACUUM, which then costs a quarantine.
-- name: schema_cookie
PRAGMA schema_version;

-- name: put_store
INSERT INTO store (one, boot_id, time_namespace, device, inode, recovering_until_ms, token_floor, schema_cookie, pings)
VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)
    ON CONFLICT (one) DO UPDATE
   SET boot_id = ?1, time_namespace = ?2, device = ?3, inode = ?4, recovering_until_ms = ?5, token_floor = ?6,
       schema_cookie = ?7;

-- Every transaction that writes counts itself, so that older content in the same file is noticed, also when nothing but
-- renewals was lost. (The column has this name since it counted pings alone.)
-- name: raise_generation
UPDATE store SET pings = ?1;

-- name: end_recovery
UPDATE store SET recovering_until_ms = 0;

-- After a reboot the old times mean nothing. Whoever was named as a holder keeps the target for its whole TTL from now: on this host nobody
-- is left to use it, but a disk that moved to another host may have left a holder behind.
-- name: restart_leases
UPDATE lease
   SET ends_ms = ?1 + ttl_ms, kept_ends_ms = CASE WHEN kept_ends_ms = ends_ms THEN ?1 + ttl_ms ELSE 0 END
 WHERE holder IS NOT NULL;

-- Their leases have ends of their own now.
-- name: restart_instances
UPDATE instance SET ends_ms = ?1 + ttl_ms, session = 0, session_ends_ms = 0;

-- name: last_end
SELECT max(coalesce((SELECT max(ends_ms) FROM lease
                      WHERE holder IS NOT NULL AND kept_ends_ms <> ends_ms AND ends_ms <> 4503599627370496), 0),
           coalesce((SELECT max(session_ends_ms) FROM instance), 0));

-- name: longest_ttl
SELECT coalesce(max(ttl_ms), 0) FROM lease WHERE holder IS NOT NULL AND kept_ends_ms <> ends_ms;

-- name: get_lease
SELECT holder, token, ends_ms, ttl_ms, acquired_at_ms, barred, ask, session FROM leases
 WHERE namespace = ?1 AND target = ?2;

-- name: put_lease
INSERT INTO lease (namespace, target, holder, token, ends_ms, ttl_ms, acquired_at_ms, barred, ask, kept_ends_ms,
                   session)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, CASE WHEN ?10 THEN ?5 ELSE 0 END, ?11)
    ON CONFLICT (namespace, target) DO UPDATE
   SET holder = ?3, token = ?4, ends_ms = ?5, ttl_ms = ?6, acquired_at_ms = ?7, barred = ?8, ask = ?9, session = ?11,
       kept_ends_ms = CASE WHEN ?10 THEN ?5 ELSE kept_ends_ms END;

-- The plain renewal, which is nearly all that a store does: everything as it was, only later. What does not match is looked at
-- again through get_lease.
-- name: renew
UPDATE lease SET ends_ms = ?1
 WHERE namespace = ?2 AND target = ?3 AND token = ?4 AND holder = ?5 AND ttl_ms = ?6 AND ends_ms > ?7
   AND ends_ms <> 4503599627370496 AND barred = 0 AND ask = 0;

-- Rows of the lease table that are no leases. The row without a target: the highest token that the namespace forgot.
-- The row without a namespace: how far the search for forgotten targets has come, "namespace/target".
-- name: get_forgotten
SELECT token FROM lease WHERE namespace = ?1 AND target = '';

-- name: put_forgotten
INSERT INTO lease (namespace, target, holder, token, ends_ms, ttl_ms, acquired_at_ms, barred, ask)
VALUES (?1, '', NULL, ?2, 0, 0, 0, 0, 0)
    ON CONFLICT (namespace, target) DO UPDATE SET token = max(token, ?2);

-- name: remove_lease
DELETE FROM lease WHERE namespace = ?1 AND target = ?2;

-- name: get_checkpoint
SELECT value, token FROM checkpoint WHERE namespace = ?1 AND target = ?2;

-- name: put_checkpoint
INSERT INTO checkpoint (namespace, target, token, value) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (namespace, target) DO UPDATE SET token = ?3, value = ?4;

-- name: remove_checkpoint
DELETE FROM checkpoint WHERE namespace = ?1 AND target = ?2;

-- name: get_aged
SELECT target FROM lease WHERE namespace = '' LIMIT 1;

-- name: remove_aged
DELETE FROM lease WHERE namespace = '';

-- name: put_aged
INSERT INTO lease (namespace, target, holder, token, ends_ms, ttl_ms, acquired_at_ms, barred, ask)
VALUES ('', ?1, NULL, 0, 0, 0, 0, 0, 0);

-- The next ?3 leases behind a target, and whether each has been free and unregistered for long: released before ?4 (Unix
-- time), or expired before ?5 (boot clock).
-- name: list_aged
SELECT namespace, target, token,
       CASE WHEN holder IS NULL OR ends_ms = 0 THEN acquired_at_ms < ?4 ELSE ends_ms < ?5 END AND target <> ''
       AND NOT EXISTS (SELECT 1 FROM target AS t WHERE t.namespace = leases.namespace AND t.id = leases.target)
  FROM leases WHERE (namespace, target) > (?1, ?2) ORDER BY namespace, target LIMIT ?3;

-- Without those that have ended before ?3; 0: all.
-- name: list_leases
SELECT target, holder, token, ends_ms, ttl_ms, acquired_at_ms, barred FROM leases
 WHERE namespace = ?1 AND target > ?2 AND (?3 = 0 OR (ends_ms > ?3 AND holder IS NOT NULL)) ORDER BY target;

-- name: read_lease
SELECT target, holder, token, ends_ms, ttl_ms, acquired_at_ms, barred FROM leases WHERE namespace = ?1 AND target = ?2;

-- name: get_target
SELECT paused FROM target WHERE namespace = ?1 AND id = ?2;

-- name: put_target
INSERT INTO target (namespace, id, url, exec, spec, every_ms, paused) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (namespace, id) DO UPDATE SET url = ?3, exec = ?4, spec = ?5, every_ms = ?6, paused = ?7;

-- name: remove_target
DELETE FROM target WHERE namespace = ?1 AND id = ?2;

-- name: pause_target
UPDATE target SET paused = ?3 WHERE namespace = ?1 AND id = ?2;

-- ?3: all but until when, which ?4 says; NULL: it is not pinned.
-- name: pin_target
UPDATE target SET pin = ?4 || ' ' || ?3 WHERE namespace = ?1 AND id = ?2;

-- name: list_targets
SELECT id, url, exec, spec, every_ms, paused, pin FROM target WHERE namespace = ?1 AND id > ?2 ORDER BY id;

-- name: read_target
SELECT id, url, exec, spec, every_ms, paused, pin FROM target WHERE namespace = ?1 AND id = ?2;

-- name: get_instance
SELECT weight, ttl_ms, ends_ms, since_at_ms, gone, ask, metadata = ?3, session, session_ends_ms, session_version
  FROM instance WHERE namespace = ?1 AND instance = ?2;

-- name: put_instance
INSERT INTO instance (namespace, instance, weight, metadata, ttl_ms, ends_ms, since_at_ms, gone, ask, session,
                      session_ends_ms, session_version)
VALUES (?1, ?2, ?3, coalesce(?4, ''), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (namespace, instance) DO UPDATE
   SET weight = ?3, metadata = coalesce(?4, metadata), ttl_ms = ?5, ends_ms = ?6, since_at_ms = ?7, gone = ?8, ask = ?9,
       session = ?10, session_ends_ms = ?11, session_version = ?12;

-- The plain heartbeat. ?8: it is to have a session.
-- name: beat
UPDATE instance SET ends_ms = ?1, session_ends_ms = CASE session WHEN 0 THEN 0 ELSE max(session_ends_ms, ?1) END
 WHERE namespace = ?2 AND instance = ?3 AND weight = ?4 AND metadata = ?5 AND ttl_ms = ?6 AND ends_ms > ?7
   AND gone = 0 AND ask = 0 AND CASE WHEN ?8 OR session <> 0 THEN session <> 0 AND session_ends_ms > ?7 ELSE 1 END
RETURNING session, session_version;

-- Somebody has touched a lease of that session.
-- name: touch_session
UPDATE instance SET session_version = session_version + 1 WHERE namespace = ?1 AND instance = ?2 AND session = ?3;

-- name: remove_instance
DELETE FROM instance WHERE namespace = ?1 AND instance = ?2;

-- name: fleet_ttl
SELECT ttl_ms FROM instance WHERE namespace = ?1 AND instance <> ?2 AND ends_ms > ?3 AND gone = 0 LIMIT 1;

-- name: expired_instances
UPDATE instance SET gone = 1 WHERE namespace = ?1 AND instance <> ?2 AND ends_ms <= ?3 AND gone = 0 RETURNING instance;

-- They stay for a while, because whoever takes over their leases tells since when those were free.
-- name: remove_instances
DELETE FROM instance WHERE namespace = ?1 AND instance <> ?2 AND max(ends_ms, session_ends_ms) <= ?3;

-- name: list_instances
SELECT instance, weight, metadata, ttl_ms, ends_ms, since_at_ms, ask, session FROM instance
 WHERE namespace = ?1 AND ends_ms > ?2 AND gone = 0 ORDER BY instance;

-- The namespace after ?1, or NULL: each step finds the next one by the primary keys.
-- name: next_namespace
SELECT min(name)
  FROM (SELECT min(namespace) AS name FROM lease WHERE namespace > ?1 AND target <> ''
        UNION ALL
        SELECT min(namespace) FROM target WHERE namespace > ?1
        UNION ALL
        SELECT min(namespace) FROM instance WHERE namespace > ?1);

-- name: add_change
INSERT INTO change (cursor, at_ms, event, reason, namespace, target, instance, actor, token)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- By count (cursors leap when an epoch begins, and what came before stays): ?1 are kept, and up to ?3 if they are not
-- older than ?4. And those before the first that is not older than ?2: what lies between younger ones stays, because a
-- loss has the time of the lease's end, which may be long ago. 20,000 at most, so that nobody waits for long.
-- name: trim_changes
DELETE FROM change
 WHERE cursor <= max(coalesce((SELECT cursor FROM change ORDER BY cursor DESC LIMIT 1 OFFSET ?3), 0),
                     min(coalesce((SELECT cursor FROM change ORDER BY cursor DESC LIMIT 1 OFFSET ?1), 0),
                         coalesce((SELECT cursor - 1 FROM change WHERE at_ms >= ?4 ORDER BY cursor LIMIT 1),
                                  9223372036854775807)),
                     coalesce((SELECT cursor - 1 FROM change WHERE at_ms >= ?2 ORDER BY cursor LIMIT 1), 0))
   AND cursor <= coalesce((SELECT cursor FROM change ORDER BY cursor LIMIT 1 OFFSET 19999), 9223372036854775807);

-- What the feed has of leases. That a target was registered or removed stays: who has not read it yet must hear of it,
-- since it is not told again. An entry whose target is forgotten stays as one that says nothing: the newest cursor tells
-- an older file from this one, and the oldest who has missed something.
-- name: blank_changes
UPDATE change SET event = '', reason = '', target = '', instance = '', actor = '', token = 0
 WHERE cursor > ?2 AND cursor <= ?3 AND namespace = ?1 AND target <> '' AND event LIKE 'lease_%'
   AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.namespace = ?1 AND lease.target = change.target)
   AND NOT EXISTS (SELECT 1 FROM target WHERE target.namespace = ?1 AND target.id = change.target);

-- The cursor of the ?2th change after a cursor (?1); 0: there are no more.
-- name: next_changes
SELECT coalesce((SELECT cursor FROM change WHERE cursor > ?1 ORDER BY cursor LIMIT 1 OFFSET ?2 - 1), 0);

-- name: change_range
-- As two: both at once would go through the whole table.
SELECT coalesce((SELECT min(cursor) FROM change), 1), coalesce((SELECT max(cursor) FROM change), 0);

-- name: list_changes
SELECT cursor, at_ms, event, reason, namespace, target, instance, actor, token FROM change
 WHERE cursor > ?1 AND (?2 IS NULL OR namespace IN (?2, '')) ORDER BY cursor LIMIT ?3;

-- Whether an epoch has begun since a cursor.
-- name: epoch_since
SELECT 1 FROM change WHERE cursor > ?1 AND event = 'store_recovering' LIMIT 1;
