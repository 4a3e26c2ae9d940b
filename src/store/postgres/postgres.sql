-- The PostgreSQL store: its schema, and every statement that it runs. Each part is a C constant after its name (see
-- embed.sh). Everything lies in the schema `tenure`. A call of the backend is one call of a function here, inside of a
-- transaction that is READ COMMITTED: then each statement of a function sees what others have committed before it
-- began, and a statement that locks comes before the one that reads what was locked. The functions know nothing of
-- leases.
--
-- Their plans are kept by the server's session, also behind a pooler. The planner must not guess, because a wrong guess
-- reads whole tables: LATERAL with OFFSET 0 leaves it only loops, so that rows are found by their keys, one by one,
-- whatever the statistics say. The search path is pinned, so that nobody who may create objects in another schema can
-- put theirs in the place of PostgreSQL's. An assignment, a condition or RETURN NEXT costs a fraction of a statement: a
-- heartbeat has two of those.
-- fragment: settings
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
    SET plan_cache_mode = force_generic_plan

-- fragment: here
    SELECT * INTO here FROM tenure.here;
-- And whether the namespace's record is in that epoch.
-- fragment: here_and_epoch
    SELECT *, EXISTS (SELECT FROM tenure.record
                       WHERE key = space || ' 0' AND name = store.identity AND number = epoch) AS in_epoch
      INTO here FROM tenure.here AS store;
-- What is sent behind an error that has this state is repeated after a look at the schema (postgres_schema.c).
-- fragment: found
    IF NOT FOUND THEN
        RAISE 'the schema is not what it was' USING ERRCODE = 'TN001';
    END IF;

-- How long to wait for locks, and what the commit waits for: a DBA's own synchronous_commit counts when it is a
-- stricter one. That a wait for a standby was cancelled is told by a warning alone.
-- fragment: careful
    done := set_config('lock_timeout', wait_ms, true);
    done := set_config('client_min_messages', 'warning', true);
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        done := set_config('synchronous_commit', 'on', true);
    END IF;

-- What has the key of `wanted`.
-- fragment: record
           LATERAL (SELECT * FROM tenure.record AS r WHERE r.key = wanted.key OFFSET 0) AS record
-- fragment: value
           LATERAL (SELECT v.value FROM tenure.value AS v WHERE v.key = wanted.key OFFSET 0) AS value

-- All rows of `wanted`, which is in the order of keys.
-- fragment: lock
       CROSS JOIN LATERAL
       (SELECT FROM tenure.record AS r WHERE r.key = wanted.key FOR NO KEY UPDATE OFFSET 0) AS locked;

-- name: schema
CREATE SCHEMA tenure;

-- name: tables
-- Whose data this is (`identity`, see the view `server`), one row. If that is not the server which is found, it is
-- another store: an epoch begins in each namespace, and namespaces may have been lost as a whole. The first that begins
-- one notes it: how often that was (changes), and when (changed_at).
CREATE TABLE tenure.store (
    one boolean PRIMARY KEY CHECK (one),
    schema_version integer NOT NULL,
    identity text NOT NULL,
    changes integer NOT NULL,
    changed_at timestamptz,
    pings bigint NOT NULL
);
-- The records (rules/record.h) but for their values, which are apart, so that whoever extends a life does not copy
-- them. key: namespace, a blank, the digit of the kind (enum ten_kind) and the id; as one text it is found faster than
-- as three columns. version: the transaction that wrote it; ends_at: by the server's clock; a life that was ended did
-- so a thousand years before, so that no setting of the clock brings it back. Extending a life changes ends_at alone,
-- which no index has: with room on the page it leaves the indexes alone. Keys sort by their bytes.
CREATE TABLE tenure.record (
    key text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    number bigint NOT NULL,
    ends_at timestamptz NOT NULL,
    name text COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
-- For scans.
CREATE INDEX named ON tenure.record (key) WHERE name <> '';
CREATE INDEX unnamed ON tenure.record (key) WHERE name = '';
CREATE INDEX spaces ON tenure.record (key) WHERE strpos(key, ' ') = length(key) - 1 AND right(key, 1) = '0';
CREATE TABLE tenure.value (
    key text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
) WITH (fillfactor = 70);
-- The feed of a namespace: after `before` nothing is missing, `last` is the newest number.
CREATE TABLE tenure.feed (
    namespace text COLLATE "C" PRIMARY KEY,
    before bigint NOT NULL,
    last bigint NOT NULL
) WITH (fillfactor = 20);
-- Its entries. id: of a target that can be forgotten, with what this says.
CREATE TABLE tenure.change (
    namespace text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    at timestamptz NOT NULL,
    id text COLLATE "C",
    text text NOT NULL,
    PRIMARY KEY (namespace, number)
);
-- For people: all leases with their true ends. One that is attached to its holder's session ends with that.
CREATE VIEW tenure.leases AS
SELECT namespace, target_id, nullif(name, '') AS holder_id, number AS version,
       CASE WHEN value LIKE '% session=%'
            THEN greatest(ends_at, (SELECT held_on.ends_at FROM tenure.record AS held_on
                                     WHERE held_on.key = namespace || ' 2' || lease.name))
            ELSE ends_at END AS expires_at, value
  FROM (SELECT split_part(key, ' ', 1) AS namespace, substr(key, strpos(key, ' ') + 2) AS target_id, *
          FROM tenure.record JOIN tenure.value USING (key) WHERE substr(key, strpos(key, ' ') + 1, 1) = '4') AS lease;
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
--
-- The cluster and its timeline are read when a statement is planned (that is what IMMUTABLE does), and a plan belongs
-- to one session of the server. While a session lives that may write, both stay: other data need another start of the
-- server, and a timeline begins when a standby is promoted. A session that began on the standby outlives that, but has
-- no plan from there: pg_current_wal_lsn() fails on a standby.
-- name: server_view
CREATE FUNCTION tenure.cluster() RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(':', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8)) FROM pg_control_system()
$$;
CREATE VIEW tenure.server AS
SELECT concat_ws(':', tenure.cluster(), 'tenure.record'::regclass::oid,
                 pg_relation_filepath('tenure.record')) AS identity;

-- Where these functions are not for everybody: a server that was started again may be another one.
-- name: server_view_by_start
CREATE VIEW tenure.server AS
SELECT concat_ws(':', extract(epoch FROM pg_postmaster_start_time()), 'tenure.record'::regclass::oid,
                 pg_relation_filepath('tenure.record')) AS identity;

-- name: functions
-- What an answer says of the store. lost_ms: how long what it may have lost may still last; NULL: it never lost
-- anything; -1: that is not known. An hour later nobody asks. (With clock_timestamp() it would be a query of its own
-- inside of others.)
CREATE VIEW tenure.here AS
SELECT concat_ws(':', server.identity, changes + (store.identity <> server.identity)::integer) AS identity,
       CASE WHEN store.identity <> server.identity OR changed_at > statement_timestamp() - interval '1 hour' THEN -1
            WHEN changed_at IS NOT NULL THEN 0 END::bigint AS lost_ms
  FROM tenure.store, tenure.server WHERE one AND schema_version = 3;
-- A row of an answer. Its place is 0 in the row that tells of the store: key: its identity, version: of what was
-- written, number: its clock, name: '' or why nothing was done, left_ms: lost_ms. In the others it is that of what was
-- asked for. left_ms NULL: without an end; 0 or less: dead for so long.
CREATE TYPE tenure.row AS
    (place integer, key text, version bigint, number bigint, name text, left_ms bigint, value text);
CREATE FUNCTION tenure.wall_ms() RETURNS bigint LANGUAGE sql AS $$
    SELECT floor(date_part('epoch', clock_timestamp()) * 1000)::bigint
$$;
CREATE FUNCTION tenure.left_ms(ends_at timestamptz, moment timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN ends_at < 'epoch'
                THEN least(extract(epoch FROM ends_at + interval '1000 years' - moment) * 1000, 0)
                WHEN ends_at < 'infinity' THEN ceil(extract(epoch FROM ends_at - moment) * 1000) END::bigint
$$;

CREATE FUNCTION tenure.read(wait_ms text, keys text[]) RETURNS SETOF tenure.row
    LANGUAGE plpgsql
-- use: settings
AS $$
DECLARE
    here tenure.here;
BEGIN
-- use: here
-- use: found
    RETURN NEXT (0, here.identity, 0, tenure.wall_ms(), '', here.lost_ms, NULL)::tenure.row;
    RETURN QUERY
    SELECT wanted.place::integer, NULL, version, number, name, tenure.left_ms(ends_at, clock_timestamp()), value.value
      FROM unnest(keys) WITH ORDINALITY AS wanted (key, place) CROSS JOIN
-- use: record
     CROSS JOIN
-- use: value
         ;
END $$;

-- Keys between these; names: enum ten_scan_names, or 3: the records of namespaces. Each has an index of its own; the
-- other parts of the union are not looked at.
CREATE FUNCTION tenure.scan(wait_ms text, after text, before text, most bigint, names integer)
    RETURNS SETOF tenure.row LANGUAGE plpgsql
-- use: settings
AS $$
BEGIN
    RETURN QUERY
    SELECT 1, wanted.key, version, number, name, tenure.left_ms(ends_at, clock_timestamp()), value.value
      FROM ((SELECT * FROM tenure.record WHERE names = 0 AND key > after AND key < before ORDER BY key LIMIT most)
             UNION ALL
            (SELECT * FROM tenure.record WHERE names = 1 AND key > after AND key < before AND record.name <> ''
              ORDER BY key LIMIT most)
             UNION ALL
            (SELECT * FROM tenure.record WHERE names = 2 AND key > after AND key < before AND record.name = ''
              ORDER BY key LIMIT most)
             UNION ALL
            (SELECT * FROM tenure.record
              WHERE names = 3 AND key > after AND strpos(key, ' ') = length(key) - 1 AND right(key, 1) = '0'
              ORDER BY key LIMIT most)) AS wanted CROSS JOIN
-- use: value
         ;
END $$;

-- Three locks beside those of rows, of a namespace each: 1 who relies on its epoch and its quarantine (shared) or
-- writes them, 2 who writes into its feed, 3 who relies on the absence of a record (shared) or makes one. Everybody
-- takes them in this order, and before any row. Whoever waits for the feed keeps nobody from a row meanwhile.
--
-- Lives are judged by a clock that is read when all locks are had. Of lives: 0 ended, 1 endless, 2 the latest of those
-- that follow. Of checks: version -1: any; life 0 either, 1 alive, 2 dead. other: records that are raised, or removed.
-- alone: it writes the epoch or the quarantine; begins: it writes the epoch; makes, misses: it makes records, or relies
-- on absent ones.
CREATE FUNCTION tenure.commit(
    wait_ms text, space text, identity text, epoch bigint, least_number bigint, changes integer,
    alone boolean, begins boolean, makes boolean, misses boolean,
    check_change integer[], check_key text[], check_version bigint[], check_life smallint[],
    put_change integer[], put_key text[], put_value text[], put_name text[], put_number bigint[],
    put_life smallint[], put_ttl bigint[], put_as_it_is boolean[], put_with text[],
    other_change integer[], other_key text[], other_removes boolean[],
    entry_change integer[], entry_id text[], entry_text text[]) RETURNS SETOF tenure.row LANGUAGE plpgsql
-- use: settings
AS $$
DECLARE
    own constant integer := hashtext('tenure:' || space);
    done text;
    here record;
    moment timestamptz;
    conflicts integer[];
    fits boolean[] := array_fill(true, ARRAY[changes]);
    expected bigint := cardinality(put_change);
    entries bigint := cardinality(entry_change);
    record_rows bigint;
    value_rows bigint;
    removed text[];
    newest bigint;
    oldest bigint;
BEGIN
-- use: careful
    IF alone THEN
        done := pg_advisory_xact_lock(own, 1);
    ELSE
        done := pg_advisory_xact_lock_shared(own, 1);
    END IF;
    IF entries > 0 THEN
        done := pg_advisory_xact_lock(own, 2);
    END IF;
    IF makes THEN
        done := pg_advisory_xact_lock(own, 3);
    ELSIF misses THEN
        done := pg_advisory_xact_lock_shared(own, 3);
    END IF;
    PERFORM FROM (SELECT key FROM unnest(check_key || other_key) AS key
                   WHERE substr(key, length(space) + 2, 1) > '1' ORDER BY key COLLATE "C") AS wanted
-- use: lock
-- use: here_and_epoch
-- use: found
    moment := clock_timestamp();
    IF here.identity <> identity OR NOT (begins OR here.in_epoch) THEN
        RETURN NEXT (0, here.identity, 0, tenure.wall_ms(), 'epoch', here.lost_ms, NULL)::tenure.row;
        RETURN;
    END IF;

    SELECT array_agg(DISTINCT wanted.change) INTO conflicts
      FROM unnest(check_change, check_key, check_version, check_life) AS wanted (change, key, version, life) LEFT JOIN
-- use: record
           ON true
     WHERE (wanted.version <> -1 AND wanted.version <> coalesce(record.version, 0))
        OR (wanted.life <> 0 AND coalesce(record.ends_at > moment, false) <> (wanted.life = 1));
    IF conflicts IS NOT NULL THEN
        FOR i IN 1 .. cardinality(conflicts) LOOP
            fits[conflicts[i]] := false;
        END LOOP;
        SELECT count(*) INTO expected FROM unnest(put_change) AS change WHERE fits[change];
        SELECT count(*) INTO entries FROM unnest(entry_change) AS change WHERE fits[change];
        RETURN QUERY
        SELECT wanted.place::integer, NULL, coalesce(version, 0), number, name, tenure.left_ms(ends_at, moment),
               value.value
          FROM unnest(check_change, check_key) WITH ORDINALITY AS wanted (change, key, place) LEFT JOIN
-- use: record
               ON true LEFT JOIN
-- use: value
               ON true
         WHERE NOT fits[wanted.change] ORDER BY wanted.place;
    END IF;

    INSERT INTO tenure.record (key, version, number, ends_at, name)
    SELECT wanted.key, txid_current(), wanted.number,
           CASE wanted.life WHEN 0 THEN moment - interval '1000 years' WHEN 1 THEN 'infinity'
                ELSE coalesce(greatest(moment + nullif(wanted.ttl, 0) * interval '1 millisecond',
                                       CASE WHEN wanted.as_it_is THEN record.ends_at END, beside.ends_at),
                              'epoch') END,
           wanted.name
      FROM unnest(put_change, put_key, put_name, put_number, put_life, put_ttl, put_as_it_is, put_with)
           AS wanted (change, key, name, number, life, ttl, as_it_is, beside) LEFT JOIN
-- use: record
           ON true
      LEFT JOIN LATERAL (SELECT r.ends_at FROM tenure.record AS r
                          WHERE r.key = wanted.beside AND r.ends_at > moment OFFSET 0) AS beside ON true
     WHERE fits[wanted.change]
        ON CONFLICT (key) DO UPDATE
       SET version = excluded.version, number = excluded.number, ends_at = excluded.ends_at, name = excluded.name;
    GET DIAGNOSTICS record_rows = ROW_COUNT;
    INSERT INTO tenure.value (key, value)
    SELECT put.key, put.value FROM unnest(put_change, put_key, put_value) AS put (change, key, value)
     WHERE fits[put.change]
        ON CONFLICT (key) DO UPDATE SET value = excluded.value;
    GET DIAGNOSTICS value_rows = ROW_COUNT;
    IF record_rows <> expected OR value_rows <> expected THEN
        RAISE 'something keeps rows from being written' USING ERRCODE = 'TN001';
    END IF;

    IF cardinality(other_change) > 0 THEN
        UPDATE tenure.record SET version = txid_current()
         WHERE key = ANY (ARRAY(SELECT other.key FROM unnest(other_change, other_key, other_removes)
                                       AS other (change, key, removes) WHERE NOT removes AND fits[change]));
        removed := ARRAY(SELECT other.key FROM unnest(other_change, other_key, other_removes)
                                AS other (change, key, removes) WHERE removes AND fits[change]);
        DELETE FROM tenure.record WHERE key = ANY (removed);
        DELETE FROM tenure.value WHERE key = ANY (removed);
    END IF;

    IF begins THEN
        UPDATE tenure.store SET identity = server.identity, changes = store.changes + 1, changed_at = moment
          FROM tenure.server WHERE store.identity <> server.identity;
    END IF;
    IF entries > 0 THEN
        INSERT INTO tenure.feed (namespace, before, last) VALUES (space, 0, least_number + entries)
            ON CONFLICT (namespace) DO UPDATE SET last = greatest(feed.last, least_number) + entries
        RETURNING last INTO newest;
        INSERT INTO tenure.change (namespace, number, at, id, text)
        SELECT space, newest - entries + row_number() OVER (ORDER BY place), moment, entry.id, entry.text
          FROM unnest(entry_change, entry_id, entry_text) WITH ORDINALITY AS entry (change, id, text, place)
         WHERE fits[entry.change];
        done := pg_notify(left('tenure:' || space, 63), '');
        -- Now and then it is trimmed: 10,000 entries are kept, and up to 250,000 if they are younger than a minute;
        -- nothing for longer than 30 days. 10,000 at most go at once, so that nobody waits for long.
        IF newest / 1000 > (newest - entries) / 1000 THEN
            SELECT least(greatest((SELECT number FROM tenure.change WHERE namespace = space
                                    ORDER BY number DESC LIMIT 1 OFFSET 250000),
                                  least(coalesce((SELECT number FROM tenure.change WHERE namespace = space
                                                   ORDER BY number DESC LIMIT 1 OFFSET 10000), 0),
                                        (SELECT number - 1 FROM tenure.change
                                          WHERE namespace = space AND at >= moment - interval '1 minute'
                                          ORDER BY number LIMIT 1)),
                                  (SELECT number - 1 FROM tenure.change
                                    WHERE namespace = space AND at >= moment - interval '30 days'
                                    ORDER BY number LIMIT 1)),
                         (SELECT number FROM tenure.change WHERE namespace = space ORDER BY number LIMIT 1 OFFSET 9999))
              INTO oldest;
            DELETE FROM tenure.change WHERE namespace = space AND number <= oldest;
            UPDATE tenure.feed SET before = greatest(before, oldest) WHERE namespace = space;
        END IF;
    END IF;
    RETURN NEXT (0, here.identity, txid_current(), tenure.wall_ms(), '', here.lost_ms, NULL)::tenure.row;
END $$;

-- Only what is not as expected is told: those that are not extended, and the versions of those with any (-1). number: 1
-- if it is extended. The same record may be meant several times. Without a namespace, it is a ping.
--
-- The clock has to be read when all rows are locked, and to lock a thousand takes as long as to extend them. So who
-- renews in time (slack_ms is not 0) has them extended at once if they have so much left, and the clock is read again
-- at the end: they were alive all the while. They then have one name and TTL, and come in order, and one with any
-- version comes alone. If anything is not as expected, all of it is undone (TN002), and comes again without slack.
--
-- In the row of the store: value: the server's process. Who renews will do so often, and may prepare its statements
-- there.
CREATE FUNCTION tenure.touch(wait_ms text, space text, identity text, epoch bigint, slack_ms bigint,
                             keys text[], versions bigint[], names text[], ttls bigint[])
    RETURNS SETOF tenure.row LANGUAGE plpgsql
-- use: settings
AS $$
DECLARE
    done text;
    here record;
    moment timestamptz;
    ends timestamptz;
    too_late timestamptz;
    extended bigint;
    found_keys text[];
    found_versions bigint[];
BEGIN
-- use: careful
    IF space IS NULL THEN
        UPDATE tenure.store SET pings = pings + 1;
    ELSE
        done := pg_advisory_xact_lock_shared(hashtext('tenure:' || space), 1);
    END IF;
    IF slack_ms = 0 THEN
        PERFORM FROM (SELECT key FROM unnest(keys) AS key ORDER BY key COLLATE "C") AS wanted
-- use: lock
    END IF;
-- use: here_and_epoch
-- use: found
    moment := clock_timestamp();
    IF space IS NOT NULL AND (here.identity <> identity OR NOT here.in_epoch) THEN
        RETURN NEXT (0, here.identity, 0, tenure.wall_ms(), 'epoch', here.lost_ms, NULL)::tenure.row;
        RETURN;
    END IF;
    RETURN NEXT (0, here.identity, 0, tenure.wall_ms(), '', here.lost_ms, pg_backend_pid())::tenure.row;

    IF slack_ms > 0 THEN
        ends := moment + ttls[1] * interval '1 millisecond';
        too_late := moment + slack_ms * interval '1 millisecond';
        WITH renewed AS (
            UPDATE tenure.record SET ends_at = ends
             WHERE key = ANY (keys) AND record.name = names[1] AND ends_at > too_late AND ends_at <= ends
            RETURNING key, version)
        SELECT array_agg(renewed.key), array_agg(renewed.version) INTO found_keys, found_versions FROM renewed;
        IF found_keys IS DISTINCT FROM keys OR versions NOT IN (found_versions, '{-1}')
           OR clock_timestamp() >= too_late THEN
            RAISE 'not as believed, or not in time' USING ERRCODE = 'TN002';
        END IF;
        IF versions = '{-1}' THEN
            RETURN NEXT (1, NULL, found_versions[1], 1, NULL, NULL, NULL)::tenure.row;
        END IF;
        RETURN;
    END IF;

    INSERT INTO tenure.record (key, version, number, ends_at, name)
    SELECT DISTINCT ON (wanted.key COLLATE "C") wanted.key, record.version, record.number,
           moment + wanted.ttl * interval '1 millisecond', record.name
      FROM unnest(keys, versions, names, ttls) AS wanted (key, version, name, ttl) CROSS JOIN
-- use: record
     WHERE wanted.version IN (-1, record.version) AND record.name = wanted.name AND record.ends_at > moment
       AND record.ends_at <= moment + wanted.ttl * interval '1 millisecond'
     ORDER BY wanted.key COLLATE "C", wanted.ttl DESC
        ON CONFLICT (key) DO UPDATE SET ends_at = excluded.ends_at;
    GET DIAGNOSTICS extended = ROW_COUNT;
    IF extended = cardinality(keys) AND -1 <> ALL (versions) THEN
        RETURN;
    END IF;
    IF extended < cardinality(keys) AND EXISTS (
           SELECT FROM unnest(keys, versions, names, ttls) AS wanted (key, version, name, ttl) CROSS JOIN
-- use: record
            WHERE wanted.version IN (-1, record.version) AND record.name = wanted.name AND record.ends_at > moment
              AND record.ends_at < moment + wanted.ttl * interval '1 millisecond') THEN
        RAISE 'something keeps rows from being written' USING ERRCODE = 'TN001';
    END IF;
    RETURN QUERY
    SELECT wanted.place::integer, NULL, coalesce(record.version, 0),
           coalesce(wanted.version IN (-1, record.version) AND record.name = wanted.name AND
                    record.ends_at = moment + wanted.ttl * interval '1 millisecond', false)::integer::bigint,
           NULL, NULL::bigint, NULL
      FROM unnest(keys, versions, names, ttls) WITH ORDINALITY AS wanted (key, version, name, ttl, place) LEFT JOIN
-- use: record
           ON true;
END $$;

-- Entries with numbers above that, if none of them is missing. In the row of the store: version: of the newest, value:
-- where it begins.
CREATE FUNCTION tenure.feed(wait_ms text, space text, after bigint, most bigint) RETURNS SETOF tenure.row
    LANGUAGE plpgsql
-- use: settings
AS $$
DECLARE
    here tenure.here;
BEGIN
-- use: here
-- use: found
    RETURN QUERY
    WITH range AS MATERIALIZED (SELECT before, last FROM tenure.feed WHERE namespace = space)
    SELECT 0, here.identity, (SELECT last FROM range), tenure.wall_ms(), '', here.lost_ms,
           (SELECT before::text FROM range)
    UNION ALL
    (SELECT 1, change.id, number, floor(extract(epoch FROM at) * 1000)::bigint, NULL, NULL, text
       FROM tenure.change WHERE namespace = space AND number > after
        AND after BETWEEN (SELECT before FROM range) AND (SELECT last FROM range) ORDER BY number LIMIT most);
END $$;

-- One step, through 5,000 entries after that one. The number up to which it came; NULL: to the end.
CREATE FUNCTION tenure.unfeed(wait_ms text, space text, ids text[], after bigint) RETURNS bigint LANGUAGE plpgsql
-- use: settings
AS $$
DECLARE
    done text;
    step_end bigint;
BEGIN
-- use: careful
    SELECT number INTO step_end FROM tenure.change WHERE namespace = space AND number > after
     ORDER BY number LIMIT 1 OFFSET 4999;
    DELETE FROM tenure.change
     WHERE namespace = space AND number > after AND number <= coalesce(step_end, 9223372036854775807)
       AND change.id = ANY (ids);
    RETURN step_end;
END $$;

-- name: read
SELECT * FROM tenure.read($1, $2);

-- name: scan
SELECT * FROM tenure.scan($1, $2, $3, $4, $5);

-- name: commit_records
SELECT * FROM tenure.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
                            $21, $22, $23, $24, $25, $26, $27, $28, $29);

-- name: touch
SELECT * FROM tenure.touch($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: feed
SELECT * FROM tenure.feed($1, $2, $3, $4);

-- name: unfeed
SELECT tenure.unfeed($1, $2, $3, $4);

-- name: first_row
INSERT INTO tenure.store (one, schema_version, identity, changes, pings) SELECT true, 3, identity, 0, 0
  FROM tenure.server;

-- name: may_identify
SELECT has_function_privilege('pg_control_system()', 'EXECUTE')
   AND has_function_privilege('pg_walfile_name(pg_lsn)', 'EXECUTE')
   AND has_function_privilege('pg_current_wal_lsn()', 'EXECUTE');

-- These are scripts that begin outside of a transaction: each pins the search path for itself.
-- fragment: pinned
SET LOCAL search_path = pg_catalog, pg_temp;

-- name: find_schema
-- use: pinned
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'tenure'),
       EXISTS (SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
                WHERE nspname = 'tenure' AND relname = 'store'),
       current_user, current_database(),
       (SELECT pg_get_userbyid(nspowner) FROM pg_namespace
         WHERE nspname = 'tenure' AND NOT pg_has_role(nspowner, 'USAGE')),
       EXISTS (SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
                WHERE nspname = 'tenure' AND relkind = 'r' AND (relhastriggers OR relhasrules));

-- Only if something was marked: a mark may outlive what it was set for.
-- name: find_foreign
-- use: pinned
SELECT 'trigger ' || tgname || ' on tenure.' || relname
  FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE nspname = 'tenure' AND NOT tgisinternal
 UNION ALL
SELECT 'rule ' || rulename || ' on tenure.' || tablename FROM pg_rules WHERE schemaname = 'tenure'
 LIMIT 1;

-- name: get_version
-- use: pinned
SELECT schema_version FROM tenure.store;

-- One at a time: two that start together would both create it.
-- name: lock_schema
BEGIN ISOLATION LEVEL READ COMMITTED;
-- use: pinned
SELECT pg_advisory_xact_lock(7310589505424127589);

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- For `tenure doctor`.
-- name: describe_server
-- use: pinned
SELECT current_setting('server_version'), current_setting('server_version_num')::integer, pg_is_in_recovery(),
       current_setting('fsync'), current_setting('full_page_writes'),
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
       current_setting('synchronous_standby_names'), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       current_user, current_database();

-- name: describe_rights
-- use: pinned
SELECT string_agg(privilege || ' on ' || relation, ', ')
  FROM (VALUES ('tenure.record', 'SELECT INSERT UPDATE DELETE'), ('tenure.value', 'SELECT INSERT UPDATE DELETE'),
               ('tenure.change', 'SELECT INSERT DELETE'), ('tenure.feed', 'SELECT INSERT UPDATE'),
               ('tenure.store', 'SELECT UPDATE'), ('tenure.server', 'SELECT'), ('tenure.here', 'SELECT'))
       AS needed (relation, privileges),
       unnest(string_to_array(privileges, ' ')) AS privilege
 WHERE NOT has_table_privilege(relation, privilege);

-- What keeps dead rows from being removed, the oldest first: transactions that are open, or prepared, and replication
-- slots. One that is not seen by its time is by the transactions since. A name is quoted as a statement needs it. The
-- last column: sessions whose state this role may not see.
-- name: describe_snapshots
-- use: pinned
WITH hidden AS MATERIALIZED (
    SELECT count(*) AS count FROM pg_stat_activity
     WHERE datname = current_database() AND state IS NULL AND pid <> pg_backend_pid() AND usename IS NOT NULL
), dead AS MATERIALIZED (
    SELECT sum(n_dead_tup) AS count FROM pg_stat_user_tables WHERE schemaname = 'tenure'
)
SELECT kind, name, detail, floor(extract(epoch FROM age) * 1000)::bigint, transactions, dead.count, hidden.count
  FROM dead CROSS JOIN hidden
  LEFT JOIN (
       SELECT 'session' AS kind, pid::text AS name,
              concat_ws(', ', state, usename, nullif(application_name, '')) AS detail,
              clock_timestamp() - xact_start AS age, age(coalesce(backend_xmin, backend_xid)) AS transactions
         FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
          AND coalesce(backend_xmin, backend_xid) IS NOT NULL AND xact_start < clock_timestamp() - interval '1 minute'
       UNION ALL
       SELECT 'prepared', quote_literal(gid), owner::text, clock_timestamp() - prepared, age(transaction)
         FROM pg_prepared_xacts
        WHERE database = current_database() AND prepared < clock_timestamp() - interval '1 minute'
       UNION ALL
       SELECT 'slot', quote_literal(slot_name), CASE WHEN active THEN 'in use' ELSE 'not in use' END, NULL, age(xmin)
         FROM pg_replication_slots
        WHERE xmin IS NOT NULL AND age(xmin) > CASE WHEN active THEN 100000 ELSE 1000 END
       UNION ALL
       SELECT 'standby', pid::text, concat_ws(', ', application_name, client_addr::text), NULL, age(backend_xmin)
         FROM pg_stat_replication
        WHERE age(backend_xmin) > 100000) AS snapshots ON true
 ORDER BY transactions DESC NULLS LAST LIMIT 3;

