-- The PostgreSQL store: the target registry, and everything that only reads.

-- Edits of one namespace ($1), none of them of the same target; the namespace is locked. For each, in order: whether
-- the target was registered before. Removing one keeps its lease. A pin is a text, see rules/pin.h; $9 lacks its end.
-- name: edit_targets
WITH edit AS MATERIALIZED (
    SELECT at, action, edit.id, edit.url, edit.exec, edit.spec, edit.every_ms, edit.paused, edit.pin, for_ms, reason,
           instance, actor, target.id IS NOT NULL AS found
      FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::boolean[], $9::text[],
                  $10::bigint[], $11::text[], $12::text[], $13::text[])
           WITH ORDINALITY AS edit (action, id, url, exec, spec, every_ms, paused, pin, for_ms, reason, instance, actor,
                                    at)
      LEFT JOIN tenure.target ON namespace = $1 AND target.id = edit.id
), put AS (
    INSERT INTO tenure.target (namespace, id, url, exec, spec, every_ms, paused)
    SELECT $1, id, url, exec, spec, every_ms, paused FROM edit WHERE action = 'put'
        ON CONFLICT (namespace, id) DO UPDATE
       SET url = excluded.url, exec = excluded.exec, spec = excluded.spec, every_ms = excluded.every_ms,
           paused = excluded.paused
), removed AS (
    DELETE FROM tenure.target USING edit WHERE namespace = $1 AND target.id = edit.id AND action = 'remove'
), paused AS (
    UPDATE tenure.target SET paused = action = 'pause' FROM edit
     WHERE namespace = $1 AND target.id = edit.id AND action IN ('pause', 'resume')
), pinned AS (
    UPDATE tenure.target
       SET pin = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + for_ms || ' ' || edit.pin
      FROM edit WHERE namespace = $1 AND target.id = edit.id AND action IN ('pin', 'unpin')
), events AS MATERIALIZED (
    SELECT at, id, coalesce(reason, '') AS reason, coalesce(instance, '') AS instance, coalesce(actor, '') AS actor, CASE WHEN action = 'remove' THEN 'target_removed' WHEN found THEN 'target_changed'
                        ELSE 'target_added' END AS event
      FROM edit WHERE found OR action = 'put'
), told AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT FROM tenure.namespace WHERE name = $1) THEN count(*)
                ELSE ('tenure: the namespace is not there yet: ' || count(*))::bigint END AS count
      FROM events
-- use: oldest
), moved AS (
    UPDATE tenure.namespace
       SET cursor = cursor + count,
           first_cursor = CASE WHEN (cursor + count) / 1000 = cursor / 1000 THEN first_cursor
                               ELSE greatest(first_cursor, (SELECT bound FROM oldest)) END
      FROM told WHERE name = $1 AND count > 0
    RETURNING cursor, count, pg_notify(left('tenure:' || $1, 63), '')
), written AS (
    INSERT INTO tenure.change (namespace, cursor, at, event, reason, target_id, instance, actor, version)
    SELECT $1, cursor - count + row_number() OVER (ORDER BY at), clock_timestamp(), event, reason, id, instance, actor, 0
      FROM events, moved
-- use: trimmed
)
SELECT found FROM edit, told ORDER BY at;

-- A page of registered targets with their leases: $1 namespace, $2 after which id, $3 how many. Fleets read them when they
-- start, every instance all of them: one walk through an index, without the sort of the general form below.
-- name: list_registered
SELECT target.id, true, url, exec, spec, every_ms, paused, lease.version,
       CASE WHEN lease.holder_id IS NOT NULL AND lease.ends > now THEN lease.holder_id END, lease.ttl_ms,
       greatest(ceil(extract(epoch FROM lease.ends - now) * 1000), 1)::bigint,
       floor(extract(epoch FROM acquired_at) * 1000)::bigint, barred,
       pin, CASE WHEN pin IS NOT NULL THEN floor(extract(epoch FROM now) * 1000)::bigint END
  FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock
 CROSS JOIN (SELECT * FROM tenure.target WHERE namespace = $1 AND id > $2 ORDER BY id LIMIT $3::bigint) AS target
  LEFT JOIN LATERAL (SELECT lease.*,
-- use: lease_end
                            AS ends FROM tenure.lease
                      WHERE lease.namespace = $1 AND lease.target_id = target.id AND version > 0 OFFSET 0) AS lease ON true
 ORDER BY target.id;

-- A page of targets with their leases: $1 namespace, $2 after which id, $3 filter, $4 how many, $5 whether what is free and
-- not registered is left out. The ids come from two indexes, of each no more than the page can have. OFFSET 0 keeps the
-- planner from joining: what belongs to an id is found by index, one by one, whatever the statistics say.
-- name: list
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), page AS MATERIALIZED (
    SELECT id FROM (
        (SELECT target_id AS id FROM tenure.lease
          WHERE namespace = $1 AND target_id > $2 AND version > 0 AND $3::text <> 'registered'
            AND CASE WHEN holder_id IS NOT NULL AND (SELECT now FROM clock) <
-- use: lease_end
                     THEN $3::text <> 'free'
                     WHEN $5::boolean OR $3::text = 'leased' THEN false
                     ELSE $3::text <> 'free' OR NOT EXISTS (SELECT FROM tenure.target
                                                             WHERE target.namespace = $1 AND target.id = target_id
                                                               AND paused) END
          ORDER BY target_id LIMIT $4::bigint)
        UNION
        (SELECT id FROM tenure.target
          WHERE namespace = $1 AND id > $2 AND $3::text <> 'leased'
            AND ($3::text <> 'free'
                 OR (NOT paused AND NOT EXISTS (SELECT FROM tenure.lease
                                                 WHERE lease.namespace = $1 AND target_id = target.id AND version > 0
                                                   AND holder_id IS NOT NULL AND (SELECT now FROM clock) <
-- use: lease_end
                                               )))
          ORDER BY id LIMIT $4::bigint)) AS either
     ORDER BY id LIMIT $4::bigint
)
SELECT page.id, target.id IS NOT NULL, url, exec, spec, every_ms, paused, lease.version,
       CASE WHEN lease.holder_id IS NOT NULL AND lease.ends > now THEN lease.holder_id END, lease.ttl_ms,
       greatest(ceil(extract(epoch FROM lease.ends - now) * 1000), 1)::bigint,
       floor(extract(epoch FROM acquired_at) * 1000)::bigint, barred,
       pin, CASE WHEN pin IS NOT NULL THEN floor(extract(epoch FROM now) * 1000)::bigint END
  FROM page CROSS JOIN clock
  LEFT JOIN LATERAL (SELECT * FROM tenure.target WHERE target.namespace = $1 AND target.id = page.id OFFSET 0) AS target
         ON true
  LEFT JOIN LATERAL (SELECT lease.*,
-- use: lease_end
                            AS ends FROM tenure.lease
                      WHERE lease.namespace = $1 AND lease.target_id = page.id AND version > 0 OFFSET 0) AS lease ON true
 ORDER BY page.id;

-- Certain targets with their leases, in the order of their ids ($2) in the call.
-- name: read_targets
SELECT ids.id, target.id IS NOT NULL, url, exec, spec, every_ms, paused, lease.version,
       CASE WHEN lease.holder_id IS NOT NULL AND lease.ends > now THEN lease.holder_id END, lease.ttl_ms,
       greatest(ceil(extract(epoch FROM lease.ends - now) * 1000), 1)::bigint,
       floor(extract(epoch FROM acquired_at) * 1000)::bigint, barred,
       pin, CASE WHEN pin IS NOT NULL THEN floor(extract(epoch FROM now) * 1000)::bigint END
  FROM unnest($2::text[]) WITH ORDINALITY AS ids (id, at)
 CROSS JOIN (SELECT clock_timestamp() AS now OFFSET 0) AS clock
  LEFT JOIN LATERAL (SELECT * FROM tenure.target WHERE target.namespace = $1 AND target.id = ids.id OFFSET 0) AS target
         ON true
  LEFT JOIN LATERAL (SELECT lease.*,
-- use: lease_end
                            AS ends FROM tenure.lease
                      WHERE lease.namespace = $1 AND lease.target_id = ids.id AND version > 0 OFFSET 0) AS lease ON true
 WHERE target.id IS NOT NULL OR lease.target_id IS NOT NULL
 ORDER BY ids.at;

-- name: list_namespaces
SELECT name FROM tenure.namespace
 WHERE EXISTS (SELECT 1 FROM tenure.lease WHERE namespace = name)
    OR EXISTS (SELECT 1 FROM tenure.target WHERE namespace = name)
    OR EXISTS (SELECT 1 FROM tenure.instance WHERE namespace = name)
 ORDER BY name;

-- name: list_instances
SELECT instance, weight, metadata, ttl_ms, greatest(ceil(extract(epoch FROM expires_at - now) * 1000), 1)::bigint,
       floor(extract(epoch FROM since) * 1000)::bigint, ask, session <> 0
  FROM tenure.instance, (SELECT clock_timestamp() AS now OFFSET 0) AS clock
 WHERE namespace = $1 AND expires_at > now AND NOT gone
 ORDER BY instance;

-- Changes of the namespace ($1) after a cursor ($2), at most $3; each row starts with the feed's last cursor and the
-- oldest from which it can be read. Without changes there is one row, without the namespace none. The last column, if
-- the cursor cannot be used: whether an epoch has begun since.
-- name: list_changes
SELECT namespace.cursor, first_cursor, change.cursor, floor(extract(epoch FROM at) * 1000)::bigint, event, reason,
       target_id, instance, actor, version,
       $2::bigint > namespace.cursor OR
       CASE WHEN $2::bigint < first_cursor
            THEN EXISTS (SELECT FROM tenure.change AS begun
                          WHERE begun.namespace = $1 AND begun.cursor > $2::bigint
                            AND begun.event = 'store_recovering') ELSE false END
  FROM tenure.namespace
  LEFT JOIN LATERAL (SELECT * FROM tenure.change
                      WHERE change.namespace = $1 AND change.cursor > $2::bigint
                      ORDER BY change.cursor LIMIT $3::bigint) AS change ON true
 WHERE name = $1
 ORDER BY change.cursor;

-- For `tenure doctor`.
-- name: describe_server
SELECT current_setting('server_version'), current_setting('server_version_num')::integer, pg_is_in_recovery(),
       current_setting('fsync'), current_setting('full_page_writes'),
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
       current_setting('synchronous_standby_names'), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       current_user, current_database();

-- name: describe_rights
SELECT string_agg(privilege || ' on ' || relation, ', ')
  FROM (VALUES ('tenure.lease', 'SELECT INSERT UPDATE DELETE'), ('tenure.target', 'SELECT INSERT UPDATE DELETE'),
               ('tenure.instance', 'SELECT INSERT UPDATE DELETE'), ('tenure.change', 'SELECT INSERT DELETE'),
               ('tenure.checkpoint', 'SELECT INSERT UPDATE DELETE'),
               ('tenure.namespace', 'SELECT INSERT UPDATE'), ('tenure.store', 'SELECT UPDATE'),
               ('tenure.server', 'SELECT')) AS needed (relation, privileges),
       unnest(string_to_array(privileges, ' ')) AS privilege
 WHERE NOT has_table_privilege(relation, privilege);

-- What keeps dead rows from being removed, the oldest first: transactions that are open, or prepared, and replication
-- slots. One that is not seen by its time is by the transactions since. A name is quoted as a statement needs it. The
-- last column: sessions whose state this role may not see.
-- name: describe_snapshots
WITH hidden AS MATERIALIZED (
    SELECT count(*) AS count FROM pg_stat_activity
     WHERE datname = current_database() AND state IS NULL AND pid <> pg_backend_pid() AND usename IS NOT NULL
), dead AS MATERIALIZED (
    SELECT sum(n_dead_tup) AS count FROM pg_stat_user_tables WHERE schemaname = 'tenure'
)
SELECT kind, name, detail, floor(extract(epoch FROM age) * 1000)::bigint, transactions, dead.count, hidden.count
  FROM dead CROSS JOIN hidden
  LEFT JOIN (
       SELECT 'session' AS kind, pid::text AS name, concat_ws(', ', state, usename, nullif(application_name, '')) AS detail,
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

-- How long a newcomer with the TTL $1 still waits, in whatever namespace.
-- name: get_recovery
SELECT greatest(ceil(extract(epoch FROM began_at - clock_timestamp()) * 1000
                     + greatest((SELECT max(longest_ms) FROM tenure.namespace), $1::bigint)), 0)::bigint
  FROM tenure.store WHERE one;

-- The same, and newcomers wait no longer: $2 has decided that.
-- name: end_recovery
WITH waiting AS MATERIALIZED (
    SELECT greatest(ceil(extract(epoch FROM began_at - clock_timestamp()) * 1000
                         + greatest((SELECT max(longest_ms) FROM tenure.namespace), $1::bigint)), 0)::bigint AS left_ms
      FROM tenure.store WHERE one FOR UPDATE
), ended AS (
    UPDATE tenure.store SET began_at = NULL FROM waiting WHERE one AND left_ms > 0 RETURNING left_ms
), moved AS (
    UPDATE tenure.namespace SET cursor = cursor + 1 FROM ended
    RETURNING name, cursor, pg_notify(left('tenure:' || name, 63), '')
), told AS (
    INSERT INTO tenure.change (namespace, cursor, at, event, reason, target_id, instance, actor, version)
    SELECT name, cursor, clock_timestamp(), 'store_recovering', 'forced', '', '', $2, 0 FROM moved
)
SELECT left_ms FROM waiting;
