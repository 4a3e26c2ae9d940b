-- The PostgreSQL store: its schema, and what every transaction starts with. Each part is a C constant after its name
-- (see embed.sh). Everything lies in the schema `tenure` and is named in full. Operators and functions are not: every
-- transaction pins search_path, so that nobody who may create objects in another schema can put theirs in the place of
-- PostgreSQL's.
-- Times are timestamptz, judged by the server's clock; ids have the collation "C", so that they sort by their bytes.

-- name: schema
CREATE SCHEMA tenure;

-- name: tables
-- Whose data this is (`identity`, see the view `server`), one row. When that is not the server which is found, an epoch
-- begins: began_at says when (NULL: never; infinity: its first write is not confirmed yet), and no token is below
-- token_floor from then on.
CREATE TABLE tenure.store (
    one boolean PRIMARY KEY CHECK (one),
    schema_version integer NOT NULL,
    identity text NOT NULL,
    began_at timestamptz,
    token_floor bigint NOT NULL,
    pings bigint NOT NULL
);
-- cursor: of the newest change; first_cursor: readers that are behind it have missed something; longest_ms: the longest
-- TTL that was known when the epoch began, or was shown while newcomers had to wait.
CREATE TABLE tenure.namespace (
    name text COLLATE "C" PRIMARY KEY,
    cursor bigint NOT NULL,
    first_cursor bigint NOT NULL,
    longest_ms bigint NOT NULL
);
-- A row is kept once a target was leased, until it is forgotten: version is the token, and the counter. 0: never granted.
-- Rows without a namespace or a target are no leases (postgres_lease.sql, forget). holder_id
-- NULL: released. kept: the TTL is longer than what the holder believes. Renewals change expires_at alone, which no
-- index has: with room on the page they leave the index alone. session counts while expires_at is far away (see
-- postgres_session.sql).
CREATE TABLE tenure.lease (
    namespace text COLLATE "C" NOT NULL,
    target_id text COLLATE "C" NOT NULL,
    holder_id text COLLATE "C",
    version bigint NOT NULL CHECK (version BETWEEN 0 AND 9007199254740991),
    expires_at timestamptz NOT NULL,
    ttl_ms bigint NOT NULL,
    kept boolean NOT NULL,
    acquired_at timestamptz NOT NULL,
    barred boolean NOT NULL,
    ask integer NOT NULL,
    session bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, target_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
-- What holders keep beside their leases, in a table of its own, so that renewals do not copy it.
CREATE TABLE tenure.checkpoint (
    namespace text COLLATE "C" NOT NULL,
    target_id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (namespace, target_id)
);
-- pin: a text, see rules/pin.h.
CREATE TABLE tenure.target (
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    url text,
    exec text,
    spec text,
    every_ms bigint NOT NULL,
    paused boolean NOT NULL,
    pin text,
    PRIMARY KEY (namespace, id)
);
-- gone: a tombstone, kept until expires_at. session: the number of its session, on which leases hang until
-- session_expires_at; 0: none. One that has left while its session lives is gone with a negative TTL.
CREATE TABLE tenure.instance (
    namespace text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    weight bigint NOT NULL,
    metadata text NOT NULL,
    ttl_ms bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    since timestamptz NOT NULL,
    gone boolean NOT NULL,
    ask integer NOT NULL,
    session bigint NOT NULL DEFAULT 0,
    session_version bigint NOT NULL DEFAULT 0,
    session_expires_at timestamptz NOT NULL DEFAULT 'epoch',
    PRIMARY KEY (namespace, instance)
) WITH (fillfactor = 50);
-- The feed of changes, which is also the history of changes of hands.
CREATE TABLE tenure.change (
    namespace text COLLATE "C" NOT NULL,
    cursor bigint NOT NULL,
    at timestamptz NOT NULL,
    event text NOT NULL,
    reason text NOT NULL,
    target_id text NOT NULL,
    instance text NOT NULL,
    actor text NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (namespace, cursor)
);
-- For people: all leases with their true ends.
CREATE VIEW tenure.leases AS
SELECT namespace, target_id, holder_id, version,
-- use: lease_end
           AS expires_at, ttl_ms, acquired_at, barred,
-- use: lease_session
           AS session
  FROM tenure.lease WHERE namespace <> '' AND target_id <> '' AND version > 0;
-- And the scenes as a table of their own.
CREATE VIEW tenure.scene_leases AS
SELECT target_id AS scene_id,
       CASE WHEN expires_at > clock_timestamp() THEN holder_id END AS holder_id,
       CASE WHEN expires_at > clock_timestamp() AND holder_id IS NOT NULL THEN expires_at END AS expires_at,
       version
  FROM tenure.leases
 WHERE namespace = 'scenes';

-- Whose data these are. A cluster has its identifier for life, a promotion or a restore to a point in time begins a
-- timeline, and a table that pg_restore made is another one. The path of its file has the number of the database in it:
-- one that was copied (CREATE DATABASE ... TEMPLATE) is another one, whatever its name. A table that was emptied with
-- TRUNCATE, and filled from a dump, has another file. So has one that VACUUM FULL or CLUSTER wrote anew: that begins an
-- epoch, too, because nothing tells the two apart.
-- name: server_view
CREATE VIEW tenure.server AS
SELECT concat_ws(':', (pg_control_system()).system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8),
                 'tenure.lease'::regclass::oid, pg_relation_filepath('tenure.lease')) AS identity;

-- Where these functions are not for everybody: a server that was started again may be another one.
-- name: server_view_by_start
CREATE VIEW tenure.server AS
SELECT concat_ws(':', extract(epoch FROM pg_postmaster_start_time()), 'tenure.lease'::regclass::oid,
                 pg_relation_filepath('tenure.lease')) AS identity;

-- name: first_row
INSERT INTO tenure.store (one, schema_version, identity, token_floor, pings)
SELECT true, 2, identity, 0, 0 FROM tenure.server;

-- name: may_identify
SELECT has_function_privilege('pg_control_system()', 'EXECUTE')
   AND has_function_privilege('pg_walfile_name(pg_lsn)', 'EXECUTE')
   AND has_function_privilege('pg_current_wal_lsn()', 'EXECUTE');

-- name: find_schema
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'tenure'),
       EXISTS (SELECT FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
                WHERE nspname = 'tenure' AND relname = 'store'),
       current_user, current_database(),
       (SELECT pg_catalog.pg_get_userbyid(nspowner) FROM pg_catalog.pg_namespace
         WHERE nspname = 'tenure' AND NOT pg_catalog.pg_has_role(nspowner, 'USAGE')),
       EXISTS (SELECT FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
                WHERE nspname = 'tenure' AND relkind = 'r' AND (relhastriggers OR relhasrules));

-- Only if something was marked: a mark may outlive what it was set for.
-- name: find_foreign
SELECT 'trigger ' || tgname || ' on tenure.' || relname
  FROM pg_catalog.pg_trigger JOIN pg_catalog.pg_class ON pg_class.oid = tgrelid
  JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
 WHERE nspname = 'tenure' AND NOT tgisinternal
 UNION ALL
SELECT 'rule ' || rulename || ' on tenure.' || tablename FROM pg_catalog.pg_rules WHERE schemaname = 'tenure'
 LIMIT 1;

-- name: get_version
SELECT schema_version FROM tenure.store;

-- One at a time: two that start together would both create it.
-- name: lock_schema
SELECT pg_advisory_xact_lock(7310589505424127589);

-- What every transaction starts with: settings that end with it, and a look whether the store is this server's. If not,
-- a text that is no number stops everything that was sent behind it; so do other statements that refuse to go on. The
-- caller then brings the store up to date, and sends it again.
--
-- The planner must not guess, because a wrong guess reads whole tables: a batch ($4 'off') finds its rows by the index
-- and the array of their keys, in the order of the keys, and joins them by hashing; a listing goes row by row. A DBA's
-- own synchronous_commit counts when it is a stricter one.
-- name: gate
SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
       set_config('idle_in_transaction_session_timeout', $3, true),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                                             ELSE current_setting('synchronous_commit') END, true),
       set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_nestloop', $4, true),
       set_config('enable_hashjoin', CASE $4 WHEN 'on' THEN 'off' ELSE 'on' END, true),
       CASE WHEN store.identity = server.identity AND schema_version >= 2
             AND (began_at IS NULL OR began_at <= clock_timestamp()) THEN 0
            ELSE ('tenure: the store has to be brought up to date for ' || server.identity)::integer END
  FROM tenure.store, tenure.server WHERE one;

-- name: needs_epoch
SELECT store.identity <> server.identity OR coalesce(began_at > clock_timestamp(), false)
  FROM tenure.store, tenure.server;

-- The data are not this server's own, or not all of them: an epoch begins. Cursors and tokens go on above the wall
-- clock, so that nothing which was forgotten is met again. When the clock was set back, newcomers wait no longer than
-- they would have.
--
-- Until the commit has returned, synchronous standbys may still follow a former primary, which grants and renews with
-- them. So the epoch has no beginning yet, and nothing gets past the gate. Whoever finds it like that commits a write of
-- its own before it confirms: that the row can be seen does not mean that a standby has it.
-- name: begin_epoch
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL jit = off;
SET LOCAL lock_timeout = '1s';
SET LOCAL statement_timeout = '5s';
UPDATE tenure.store SET began_at = clock_timestamp() WHERE began_at > clock_timestamp() AND began_at < 'infinity';
WITH begun AS (
    UPDATE tenure.store
       SET identity = server.identity, began_at = 'infinity',
           token_floor = greatest(token_floor, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
      FROM tenure.server
     WHERE store.identity <> server.identity
    RETURNING token_floor
), moved AS (
    UPDATE tenure.namespace
       SET cursor = greatest(cursor, token_floor) + 1, first_cursor = greatest(cursor, token_floor) + 1,
           longest_ms = greatest(
               (SELECT max(ttl_ms) FROM tenure.lease WHERE namespace = name AND holder_id IS NOT NULL AND NOT kept),
               (SELECT max(ttl_ms) FROM tenure.instance WHERE namespace = name AND NOT gone), 0)
      FROM begun
    RETURNING name, cursor
), told AS (
    INSERT INTO tenure.change (namespace, cursor, at, event, reason, target_id, instance, actor, version)
    SELECT name, cursor, clock_timestamp(), 'store_recovering', '', '', '', '', 0 FROM moved
)
SELECT pg_notify(left('tenure:' || name, 63), '') FROM moved;
UPDATE tenure.store SET pings = pings + 1 WHERE began_at = 'infinity';
COMMIT;

-- The commit before has returned: no other server has the standbys any more. What a former primary granted until now,
-- with tokens that may be above the floor as it was, ends within the quarantine that begins here.
-- name: confirm_epoch
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '1s';
SET LOCAL statement_timeout = '5s';
UPDATE tenure.store
   SET began_at = clock_timestamp(),
       token_floor = greatest(token_floor, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  FROM tenure.server
 WHERE began_at = 'infinity' AND store.identity = server.identity;
COMMIT;

-- name: add_namespaces
INSERT INTO tenure.namespace (name, cursor, first_cursor, longest_ms)
SELECT DISTINCT wanted, token_floor, token_floor, 0 FROM tenure.store, unnest($1::text[]) AS wanted ORDER BY wanted
    ON CONFLICT DO NOTHING;

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED;

-- name: pin
SET LOCAL search_path = pg_catalog, pg_temp;

-- Outside of a transaction, where search_path is not pinned.
-- name: process
SELECT pg_catalog.pg_backend_pid();

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: ping
UPDATE tenure.store SET pings = pings + 1;
