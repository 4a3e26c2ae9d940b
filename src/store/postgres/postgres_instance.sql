-- The PostgreSQL store: heartbeats, leaving, and requests to an instance. The rules are those of instance_row.c.

-- The plain heartbeat. The row is locked before the clock is read. $6 are the flags. Comes back: its session and the version.
-- name: beat
WITH locked AS MATERIALIZED (
    SELECT FROM tenure.instance WHERE namespace = $1 AND instance = $2 FOR NO KEY UPDATE
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now FROM (SELECT count(*) FROM locked) AS waited
)
UPDATE tenure.instance
   SET expires_at = now + $3::bigint * interval '1 millisecond',
       session_expires_at = CASE session WHEN 0 THEN session_expires_at
                                 ELSE now + $3::bigint * interval '1 millisecond' END
  FROM clock
 WHERE namespace = $1 AND instance = $2 AND ttl_ms = $3::bigint AND weight = $4::bigint AND metadata = $5
   AND expires_at > now AND NOT gone AND ask = 0
   AND CASE WHEN $6::integer & 64 <> 0 OR session <> 0
            THEN session <> 0 AND session_expires_at > now AND session_expires_at <= now + $3::bigint * interval '1 millisecond'
            ELSE true END
RETURNING session, session_version + (SELECT token_floor +
-- use: epoch_ms
                                      FROM tenure.store WHERE one);

-- Everybody who tells the feed something has this lock; who joins, leaves or edits takes it first, and is alone then.
-- name: lock_namespace
SELECT cursor FROM tenure.namespace WHERE name = $1 FOR UPDATE;

-- name: lock_instance
SELECT FROM tenure.instance WHERE namespace = $1 AND instance = $2 FOR UPDATE;

-- One operation; the namespace and the instance's row are locked. $1 namespace, $2 kind, $3 instance, $4 ttl_ms,
-- $5 weight, $6 metadata, $7 reason, $8 actor, $9 ask, $10 flags. Comes back: verdict, the fleet's TTL, what is asked of it,
-- its session and the version of that.
--
-- Who joins marks those that have expired, and tells the feed. One whose row is locked is beating just now. They stay for a
-- while, because whoever takes over their leases tells since when those were free.
--
-- A heartbeat never makes the end of a session earlier, as its holder may not get the answer. But if the clock was set back
-- since the last heartbeat, by `ahead`, the session would outlive its instance by as much.
--
-- A session gets the number of this transaction, above the floor of the epoch: no other session of that instance has it.
-- name: apply_instance
WITH here AS MATERIALIZED (
    SELECT clock_timestamp() AS now, began_at, token_floor,
           CASE WHEN name IS NULL THEN ('tenure: the namespace is not there yet: ' || identity)::bigint
                ELSE longest_ms END AS longest_ms
      FROM tenure.store LEFT JOIN tenure.namespace ON name = $1 WHERE one
), seen AS MATERIALIZED (
    SELECT now, token_floor, began_at, weight, metadata, ttl_ms, since, coalesce(ask, 0) AS ask,
           coalesce(NOT gone AND expires_at > now, false) AS live,
           coalesce(gone AND expires_at > now AND ttl_ms > 0, false) AS dead,
           CASE WHEN session <> 0 AND session_expires_at > now THEN session ELSE 0 END AS session,
           CASE WHEN session <> 0 AND session_expires_at > now THEN session_expires_at END AS session_ends,
           coalesce(session_version, 0) AS session_version,
           CASE WHEN NOT gone THEN greatest(expires_at - ttl_ms * interval '1 millisecond' - now, '0') ELSE '0' END AS ahead,
           now + $4::bigint * interval '1 millisecond' AS ends,
           (SELECT other.ttl_ms FROM tenure.instance AS other
             WHERE other.namespace = $1 AND other.instance <> $3 AND NOT other.gone AND other.expires_at > now
             LIMIT 1) AS fleet_ttl_ms
      FROM here LEFT JOIN tenure.instance ON namespace = $1 AND instance = $3
), judged AS MATERIALIZED (
    SELECT *, CASE WHEN $2::text <> 'announce' OR session <> 0 THEN session
                   WHEN $10::integer & 64 <> 0 THEN token_floor + txid_current() ELSE 0 END AS next_session,
           CASE $2::text
           WHEN 'announce' THEN
               CASE WHEN dead THEN 'gone'
                    WHEN NOT live AND fleet_ttl_ms <> $4::bigint THEN 'ttl'
                    WHEN NOT live THEN 'joined'
                    WHEN weight <> $5::bigint OR metadata <> $6 OR ttl_ms <> $4::bigint THEN 'changed'
                    ELSE 'beaten' END
           WHEN 'leave' THEN CASE WHEN live THEN 'left' ELSE 'lost' END
           ELSE CASE WHEN live THEN 'asked' ELSE 'lost' END
           END AS verdict
      FROM seen
), swept AS (
    UPDATE tenure.instance SET gone = true
     WHERE namespace = $1 AND instance IN (
           SELECT instance FROM tenure.instance, judged
            WHERE $2::text = 'announce' AND NOT live AND NOT dead
              AND namespace = $1 AND instance <> $3 AND expires_at <= now AND NOT gone
              FOR UPDATE OF instance SKIP LOCKED)
    RETURNING instance
), dropped AS (
    DELETE FROM tenure.instance
     WHERE namespace = $1 AND instance IN (
           SELECT instance FROM tenure.instance, judged
            WHERE $2::text = 'announce' AND NOT live AND NOT dead AND namespace = $1 AND instance <> $3 AND gone
              AND greatest(expires_at, session_expires_at) <= now - interval '1 hour'
              FOR UPDATE OF instance SKIP LOCKED)
), put AS (
    INSERT INTO tenure.instance (namespace, instance, weight, metadata, ttl_ms, expires_at, session, session_version,
                                 session_expires_at, since, gone, ask)
    SELECT $1, $3, $5::bigint, $6, CASE WHEN verdict = 'asked' THEN ttl_ms WHEN $2::text = 'leave' AND $4::bigint = 0
                               THEN -abs(ttl_ms) ELSE $4::bigint END,
           CASE $2::text WHEN 'leave' THEN greatest(ends, session_ends) ELSE ends END, next_session,
           session_version + (verdict = 'joined')::integer,
           coalesce(CASE WHEN $2::text <> 'announce' THEN session_ends
                         WHEN next_session = 0 THEN NULL
                         ELSE greatest(ends, session_ends - ahead) END, 'epoch'),
           CASE WHEN live THEN since ELSE now END, $2::text = 'leave',
           CASE WHEN verdict = 'asked' THEN CASE $9::integer WHEN 3 THEN 0 ELSE $9::integer END
                WHEN verdict = 'joined' THEN 0 ELSE ask END
      FROM judged
     WHERE verdict IN ('joined', 'changed', 'beaten', 'asked') OR ($2::text = 'leave' AND $4::bigint > 0)
        OR (verdict = 'left' AND session <> 0)
        ON CONFLICT (namespace, instance) DO UPDATE
       SET weight = CASE $2::text WHEN 'announce' THEN excluded.weight ELSE instance.weight END,
           metadata = CASE $2::text WHEN 'announce' THEN excluded.metadata ELSE instance.metadata END,
           expires_at = CASE $2::text WHEN 'ask' THEN instance.expires_at ELSE excluded.expires_at END,
           session = excluded.session, session_version = excluded.session_version,
           session_expires_at = excluded.session_expires_at, ttl_ms = excluded.ttl_ms, since = excluded.since, gone = excluded.gone, ask = excluded.ask
), removed AS (
    DELETE FROM tenure.instance USING judged
     WHERE namespace = $1 AND instance = $3 AND verdict = 'left' AND $4::bigint = 0 AND judged.session = 0
), events AS MATERIALIZED (
    SELECT 1 AS part, 'instance_left' AS event, 'expired' AS reason, instance, '' AS actor FROM swept
    UNION ALL
    SELECT 2, CASE verdict WHEN 'joined' THEN 'instance_joined' WHEN 'left' THEN 'instance_left'
                           ELSE 'instance_changed' END,
           CASE verdict WHEN 'left' THEN $7 ELSE '' END, $3, $8
      FROM judged WHERE verdict IN ('joined', 'changed', 'left', 'asked')
), told AS MATERIALIZED (
    SELECT (SELECT count(*) FROM events) AS count,
           (SELECT $4::bigint FROM here
             WHERE $2::text = 'announce' AND began_at + $4::bigint * interval '1 millisecond' > now
               AND (longest_ms = 0 OR began_at + longest_ms * interval '1 millisecond' > now)) AS shown_ms
-- use: oldest
), moved AS (
    UPDATE tenure.namespace
       SET cursor = cursor + count, longest_ms = greatest(longest_ms, shown_ms),
           first_cursor = CASE WHEN (cursor + count) / 1000 = cursor / 1000 THEN first_cursor
                               ELSE greatest(first_cursor, (SELECT bound FROM oldest)) END
      FROM told
     WHERE name = $1 AND (count > 0 OR shown_ms > longest_ms)
    RETURNING cursor, count, CASE WHEN count > 0 THEN pg_notify(left('tenure:' || $1, 63), '')::text END
), written AS (
    INSERT INTO tenure.change (namespace, cursor, at, event, reason, target_id, instance, actor, version)
    SELECT $1, cursor - count + row_number() OVER (ORDER BY part, instance), now, event, reason, '', instance, actor, 0
      FROM events, moved, here
-- use: trimmed
)
SELECT verdict, fleet_ttl_ms, CASE verdict WHEN 'joined' THEN 0 ELSE ask END, next_session,
       session_version + (verdict = 'joined')::integer + token_floor +
-- use: epoch_ms
  FROM judged;
