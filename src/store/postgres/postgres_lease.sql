-- The PostgreSQL store: operations on leases. The rules are those of lease_row.c.
--
-- What waits for a lock judges the time after it: a plain UPDATE that had to wait was seen to renew a lease that had
-- ended meanwhile, because nothing is looked at again when the row itself has not changed. So rows are locked first, in
-- the order of their keys, and a later statement reads the clock; a statement sees what was committed before it began.

-- The usual case, nearly all that a store does: leases of one holder ($2) with one TTL ($3), as it believes them, only
-- later. $5 are their targets in order, a line each, $6 their tokens. The rows come back in the order of the index; in
-- any other order, as with an index of somebody else's, it refuses: which token belongs to which target is not known
-- then. To compare the lines is cheaper than to compare an array. It waits for locks itself, therefore it takes only leases that
-- have more than $4 milliseconds left, and refuses when it took longer than that; their new ends are counted from
-- before the wait, which is no later than they may be. It refuses also when not all of them are as believed, or one ends
-- later than it would make it: on a session, kept for longer, renewed by another connection of the holder during the
-- wait, or before the clock was set back. That one must not be shortened, or is no business of this statement.
-- name: renew_plainly
WITH clock AS MATERIALIZED (
    SELECT now + $3::bigint * interval '1 millisecond' AS ends, now + $4::bigint * interval '1 millisecond' AS too_late
      FROM clock_timestamp() AS now
), renewed AS (
    UPDATE tenure.lease
       SET expires_at = (SELECT ends FROM clock)
     -- The planner is kept from looking at each of a thousand targets, which took half of its time.
     WHERE namespace = $1 AND target_id = ANY ((SELECT string_to_array($5, E'\n'))::text[]) AND holder_id = $2 AND ttl_ms = $3::bigint
       AND expires_at > (SELECT too_late FROM clock) AND expires_at <= (SELECT ends FROM clock)
       AND NOT kept AND NOT barred AND ask = 0
    RETURNING target_id, version
)
SELECT CASE WHEN string_agg(target_id, E'\n') = $5 AND array_agg(version) = $6::bigint[]
             AND clock_timestamp() < (SELECT too_late FROM clock) THEN count(*)
            ELSE ('tenure: not as believed, or not in time: ' || count(*) || ' renewed, to be judged again')::bigint END
  FROM renewed;

-- All of the namespaces $1, in order. One that is not there yet cannot be locked: then everything is refused, and sent
-- again when it is.
-- name: lock_namespaces
SELECT CASE WHEN count(*) = (SELECT count(DISTINCT given) FROM unnest($1::text[]) AS given) THEN count(*)
            ELSE ('tenure: the namespace is not there yet: ' || count(*))::bigint END
  FROM (SELECT FROM tenure.namespace WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE) AS locked;

-- Rows for what is leased for the first time, so that two who want it meet at the same row. While an epoch's newcomers
-- wait, a renewal may put back what has no row.
-- name: make_leases
INSERT INTO tenure.lease (namespace, target_id, version, expires_at, ttl_ms, kept, acquired_at, barred, ask)
SELECT op.namespace, op.target_id, 0, 'epoch', 0, false, 'epoch', false, 0
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::integer[])
       AS op (kind, namespace, target_id, ttl_ms, flags)
  JOIN tenure.store ON one
  LEFT JOIN tenure.namespace ON name = op.namespace
 WHERE CASE kind
       WHEN 'acquire' THEN flags & 2 = 0
           OR EXISTS (SELECT FROM tenure.target WHERE target.namespace = op.namespace AND target.id = op.target_id)
       WHEN 'renew' THEN began_at + greatest(longest_ms, op.ttl_ms) * interval '1 millisecond' > clock_timestamp()
       END
 ORDER BY op.namespace, op.target_id
    ON CONFLICT DO NOTHING;

-- All of $2 in all of the namespaces $1, which is usually one: what is locked for nothing is only locked. Each row is
-- looked up by itself: with statistics of a small table the planner would go through all rows in their order instead.
-- name: lock_leases
SELECT count(*)
  FROM (SELECT namespace, target_id
          FROM (SELECT DISTINCT given COLLATE "C" AS namespace FROM unnest($1::text[]) AS given) AS namespaces,
               (SELECT DISTINCT given COLLATE "C" AS target_id FROM unnest($2::text[]) AS given) AS targets
         ORDER BY namespace, target_id) AS wanted
 CROSS JOIN LATERAL (SELECT FROM tenure.lease
                      WHERE lease.namespace = wanted.namespace AND lease.target_id = wanted.target_id
                        FOR UPDATE) AS locked;

-- The instances on whose sessions leases of the batch hang ($1 namespaces, $2 targets, $3 holders, $4 flags, one each for an
-- operation), unless the holder itself sends the operation: their versions are raised, or they are judged to be over, and
-- then no heartbeat may be under way. The leases are locked.
-- name: lock_sessions
WITH wanted AS MATERIALIZED (
    SELECT DISTINCT lease.namespace, lease.holder_id
      FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[]) AS op (namespace, target_id, holder, flags)
     CROSS JOIN LATERAL (SELECT lease.namespace, lease.holder_id, lease.session FROM tenure.lease
                          WHERE lease.namespace = op.namespace AND lease.target_id = op.target_id
                            AND lease.expires_at = '9999-01-01 00:00:00+00' OFFSET 0) AS lease
     WHERE lease.session <> 0 AND lease.holder_id IS NOT NULL
       AND NOT coalesce(flags & 64 <> 0 AND holder = lease.holder_id, false)
)
SELECT count(*)
  FROM (SELECT namespace, holder_id FROM wanted ORDER BY namespace, holder_id) AS wanted
 CROSS JOIN LATERAL (SELECT FROM tenure.instance
                      WHERE instance.namespace = wanted.namespace AND instance.instance = wanted.holder_id
                        FOR NO KEY UPDATE) AS locked;

-- Operations of one namespace ($1), none of them on the same target; their rows are locked. A row for each comes back,
-- in order: verdict, token, ttl_ms, remaining_ms, holder, barred, registered, paused, ask, acquired_at_ms, session.
--
-- The flags are those of store.h; $9 is who forced a release, or to whom a lease is handed over. An acquire of what one has never shortens it: it may be kept for longer, and this may
-- be a repetition that comes late. A TTL that is kept for others (16) makes nobody wait in an epoch.
--
-- seen: all that an operation has to know, each row looked up by itself, as above; ruled: what it comes to by itself;
-- judged: in a group (65536, all of the operations are one) nothing is given if one of them is refused; changed:
-- what has become of the lease, found by its place, which stays while it is locked. The row count is believed, not what
-- was read before: if a row appeared or changed since the locks were taken, or the namespace is not there yet, the whole
-- is refused, and sent again. oldest: the feed goes up to there, now and then; by count, because cursors leap when an
-- epoch begins, and the history from before it stays.
-- A 'proof' is a renewal with a token that the store never granted: it has lost data (prove_loss). One that may not speak
-- for other namespaces (1024) proves nothing.
-- name: apply_leases
WITH here AS MATERIALIZED (
    SELECT clock_timestamp() AS now, token_floor, began_at,
           coalesce((SELECT version FROM tenure.lease WHERE namespace = $1 AND target_id = ''), 0) AS forgotten,
           CASE WHEN name IS NULL THEN ('tenure: the namespace is not there yet: ' || identity)::bigint
                ELSE longest_ms END AS longest_ms
      FROM tenure.store LEFT JOIN tenure.namespace ON name = $1 WHERE one
), seen AS MATERIALIZED (
    SELECT at, kind, op.target_id, holder, token, op_ttl_ms, flags, reason, actor, op_ask, now, token_floor,
           place, row_version, holder_id AS held_by, coalesce(version, 0) AS version, lease.expires_at,
           lease.ttl_ms, acquired_at, coalesce(barred, false) AS barred, lease.ask, coalesce(lease.session, 0) AS session,
           own_session.session AS own_session, own_session.session_expires_at AS own_session_ends,
           abs(own_session.ttl_ms) AS own_session_ttl_ms,
           coalesce(own_session.session_expires_at >= lease.expires_at, false) AS may_join,
           flags & 64 <> 0 AND coalesce(holder = holder_id, false) AS is_known,
           coalesce(lease.expires_at > now AND holder_id IS NOT NULL, false) AS held,
           coalesce(lease.expires_at > now AND holder_id = holder AND NOT barred AND flags & 1 = 0, false) AS own,
           CASE WHEN kind = 'hand' THEN actor ELSE holder END AS next_holder, successor.expires_at AS successor_ends,
           target.id IS NOT NULL AS registered, coalesce(paused, false) AS paused, tombstone.gone IS NOT NULL AS is_gone,
           flags & 2 <> 0 AND target.id IS NULL AND coalesce(version, 0) = 0 AS is_unknown,
           coalesce(nullif(version, 0), forgotten) AS counter,
           greatest(coalesce(nullif(version, 0), forgotten) + 1, token_floor) AS granted,
           greatest(token_floor, (extract(epoch FROM now) * 1000)::bigint) + 31622400000 AS plausible,
           CASE WHEN began_at IS NULL THEN 0 WHEN flags & 16 <> 0 AND longest_ms = 0 THEN 1
                ELSE greatest(ceil(extract(epoch FROM began_at - now) * 1000)
                              + greatest(longest_ms, CASE WHEN flags & 16 = 0 THEN op_ttl_ms END), 0) END AS wait_ms,
           flags & 16 = 0 AND kind IN ('acquire', 'renew')
               AND (longest_ms = 0 OR began_at + longest_ms * interval '1 millisecond' > now) AS shows
      FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::integer[], $8::text[],
                  $9::text[], $10::integer[])
           WITH ORDINALITY AS op (kind, target_id, holder, token, op_ttl_ms, flags, reason, actor, op_ask, at)
     CROSS JOIN here
      LEFT JOIN LATERAL (SELECT ctid AS place, xmin AS row_version, holder_id, version,
-- use: lease_end
                                AS expires_at, ttl_ms, acquired_at, barred, ask,
-- use: lease_session
                                AS session
                           FROM tenure.lease WHERE namespace = $1 AND target_id = op.target_id OFFSET 0) AS lease ON true
      LEFT JOIN LATERAL (SELECT id, paused FROM tenure.target
                          WHERE namespace = $1 AND id = op.target_id OFFSET 0) AS target ON true
      LEFT JOIN tenure.instance AS tombstone
             ON tombstone.namespace = $1 AND tombstone.instance = ANY ($4::text[]) AND tombstone.instance = holder
            AND tombstone.gone AND tombstone.expires_at > now AND tombstone.ttl_ms > 0
      LEFT JOIN tenure.instance AS own_session
             ON own_session.namespace = $1 AND own_session.instance = ANY ($4::text[]) AND own_session.instance = holder
            AND flags & 64 <> 0 AND own_session.session <> 0 AND own_session.session_expires_at > now
      LEFT JOIN tenure.instance AS successor
             ON kind = 'hand' AND successor.namespace = $1 AND successor.instance = actor AND NOT successor.gone
            AND successor.expires_at > now AND successor.weight > 0 AND successor.ask <> 2
), ruled AS MATERIALIZED (
    SELECT *, CASE kind
           WHEN 'acquire' THEN
               CASE WHEN is_unknown THEN 'unknown'
                    WHEN is_gone THEN 'gone'
                    WHEN wait_ms > 0 AND (own OR NOT held) THEN 'recovering'
                    WHEN own AND version >= token_floor
                    THEN CASE WHEN may_join AND session = own_session THEN 'recognised'
                              WHEN may_join THEN 'on session'
                              WHEN expires_at >= now + op_ttl_ms * interval '1 millisecond' THEN 'recognised'
                              ELSE 'extended' END
                    WHEN held THEN 'held'
                    WHEN granted > 9007199254740991 THEN 'token'
                    ELSE 'given' END
           WHEN 'renew' THEN
               CASE WHEN held AND is_meant AND NOT barred AND coalesce(holder = held_by, true)
                    THEN CASE WHEN may_join AND session = own_session THEN 'recognised'
                              WHEN may_join THEN 'on session'
                              ELSE 'extended' END
                    WHEN flags & 1024 = 0 AND wait_ms = 0 AND op_ttl_ms > 0 AND holder IS NOT NULL AND token > counter
                     AND token >= token_floor AND token <= plausible THEN 'proof'
                    WHEN wait_ms = 0 OR token > plausible THEN 'lost'
                    WHEN op_ttl_ms > 0 AND holder IS NOT NULL AND NOT is_gone
                     AND (token > counter OR (token = version AND holder = held_by AND NOT barred)) THEN 'put back'
                    WHEN token > counter THEN 'noted'
                    ELSE 'lost' END
           WHEN 'release' THEN
               CASE WHEN NOT held OR holder <> held_by OR NOT (is_meant OR flags & 12 <> 0) THEN 'lost'
                    WHEN flags & 12 = 4 THEN 'barred'
                    ELSE 'freed' END
           WHEN 'hand' THEN
               CASE WHEN NOT held OR holder <> held_by OR NOT is_meant THEN 'lost'
                    WHEN barred OR wait_ms > 0 OR successor_ends IS NULL OR granted > 9007199254740991 THEN 'unknown'
                    ELSE 'handed' END
           WHEN 'ask' THEN
               CASE WHEN held AND coalesce(holder = held_by, true) THEN 'asked' ELSE 'lost' END
           ELSE
               CASE WHEN is_unknown THEN 'unknown' WHEN NOT held AND greatest(token_floor - 1, counter) > version THEN 'bound'
                    ELSE 'read' END
           END AS ruling
      FROM (SELECT *, token = version OR (token = 0 AND holder IS NOT NULL) AS is_meant FROM seen) AS seen
), judged AS MATERIALIZED (
    SELECT *, CASE WHEN ruling <> 'given' OR flags & 65536 = 0 THEN ruling
                   WHEN EXISTS (SELECT FROM ruled
                                 WHERE ruling NOT IN ('given', 'recognised', 'on session', 'extended')) THEN 'withheld'
                   ELSE 'given' END AS verdict
      FROM ruled
), changed AS (
    UPDATE tenure.lease
       SET holder_id = CASE WHEN is_new THEN next_holder WHEN verdict <> 'freed' THEN held_by END,
           version = CASE WHEN verdict IN ('given', 'handed') THEN granted WHEN verdict IN ('put back', 'noted') THEN token
                          ELSE lease.version END,
           expires_at = CASE WHEN goes_on_session THEN '9999-01-01 00:00:00+00'
                             WHEN verdict = 'extended' AND verdicts.session <> 0
                             THEN greatest(now + next_ttl_ms * interval '1 millisecond', verdicts.expires_at)
                             WHEN is_longer THEN least(now + next_ttl_ms * interval '1 millisecond', successor_ends)
                             WHEN verdict IN ('barred', 'freed') THEN verdicts.expires_at
                             ELSE lease.expires_at END,
           session = CASE WHEN goes_on_session THEN own_session WHEN verdict IN ('asked', 'noted') THEN lease.session
                          ELSE 0 END,
           ttl_ms = CASE WHEN goes_on_session THEN own_session_ttl_ms WHEN is_longer THEN next_ttl_ms
                         ELSE lease.ttl_ms END,
           kept = CASE WHEN is_longer AND op_ttl_ms > 0 THEN flags & 16 <> 0 ELSE lease.kept END,
           acquired_at = CASE WHEN is_new THEN now ELSE lease.acquired_at END,
           barred = NOT is_new AND verdict <> 'freed' AND (lease.barred OR verdict = 'barred'),
           ask = CASE WHEN is_new OR verdict = 'freed' THEN 0 WHEN verdict <> 'asked' THEN lease.ask
                      WHEN op_ask = 3 THEN 0 ELSE op_ask END
      FROM (SELECT *, CASE WHEN holder IS NULL THEN greatest(op_ttl_ms, ttl_ms)
                        ELSE coalesce(nullif(op_ttl_ms, 0), ttl_ms) END AS next_ttl_ms,
                   verdict IN ('given', 'put back', 'handed') AS is_new,
                   verdict IN ('given', 'put back', 'handed', 'extended') AS is_longer,
                   verdict IN ('given', 'put back', 'on session') AND own_session IS NOT NULL AS goes_on_session
              FROM judged
             WHERE verdict IN ('given', 'put back', 'handed', 'extended', 'on session', 'noted', 'barred', 'freed',
                               'asked')) AS verdicts
     WHERE lease.ctid = ANY (ARRAY(SELECT place FROM seen WHERE place IS NOT NULL)) AND lease.ctid = place
       AND lease.target_id = verdicts.target_id AND lease.xmin = row_version
    RETURNING at, verdict, lease.version, lease.ttl_ms,
              CASE WHEN goes_on_session THEN own_session_ends WHEN verdict = 'asked' THEN verdicts.expires_at
                   ELSE lease.expires_at END AS expires_at, now, lease.holder_id, lease.barred,
              registered, paused, lease.ask, lease.acquired_at,
              CASE WHEN verdict = 'asked' THEN verdicts.session ELSE lease.session END AS session
), touched AS (
    UPDATE tenure.instance SET session_version = session_version + 1
      FROM (SELECT DISTINCT held_by, session FROM judged
             WHERE session <> 0
               AND (verdict IN ('extended', 'asked', 'barred', 'put back') OR (verdict = 'given' AND NOT barred)
                    OR (verdict IN ('freed', 'handed') AND NOT (is_known AND flags & 12 = 0)))) AS touch
     WHERE instance.namespace = $1 AND instance.instance = ANY (ARRAY(SELECT held_by FROM judged WHERE session <> 0))
       AND instance.instance = touch.held_by AND instance.session = touch.session
), unchanged AS MATERIALIZED (
    SELECT at, verdict,
           CASE WHEN verdict = 'bound' THEN greatest(token_floor - 1, counter) ELSE version END, ttl_ms,
           CASE verdict WHEN 'recovering' THEN now + wait_ms * interval '1 millisecond' ELSE expires_at END, now, held_by,
           barred, registered, paused, ask, acquired_at, CASE WHEN held THEN session ELSE 0 END
      FROM judged
     WHERE verdict NOT IN ('given', 'put back', 'handed', 'extended', 'on session', 'noted', 'barred', 'freed', 'asked')
), events AS MATERIALIZED (
    SELECT at, part, target_id,
           CASE WHEN verdict = 'freed' OR (part = 1 AND verdict = 'handed') THEN 'lease_released'
                WHEN part = 1 OR verdict = 'barred' THEN 'lease_lost'
                WHEN verdict = 'asked' THEN 'lease_asked' ELSE 'lease_acquired' END AS event,
           CASE WHEN verdict = 'handed' THEN reason WHEN part = 1 THEN 'expired'
                WHEN verdict NOT IN ('barred', 'freed') THEN ''
                WHEN flags & 12 <> 0 THEN 'forced' ELSE reason END AS reason,
           CASE WHEN part = 1 OR verdict IN ('barred', 'freed', 'asked') THEN held_by ELSE next_holder END AS instance,
           CASE WHEN verdict IN ('barred', 'freed', 'asked') THEN actor ELSE '' END AS actor,
           CASE WHEN part = 1 OR verdict IN ('barred', 'freed', 'asked') THEN version
                WHEN verdict IN ('given', 'handed') THEN granted ELSE token END AS version,
           CASE WHEN part = 1 AND verdict = 'given' THEN nullif(expires_at, 'epoch') END AS ended_at
      FROM judged, (VALUES (1), (2)) AS parts (part)
     WHERE CASE WHEN part = 1 THEN verdict = 'handed' OR (verdict = 'given' AND held_by IS NOT NULL AND NOT barred)
                WHEN verdict = 'barred' THEN NOT barred
                WHEN verdict = 'asked' THEN op_ask NOT IN (0, 3)
                ELSE verdict IN ('given', 'put back', 'handed', 'freed') END
), told AS MATERIALIZED (
    SELECT max(op_ttl_ms) FILTER (WHERE shows AND wait_ms > 0) AS shown_ms,
           CASE WHEN (SELECT count(*) FROM changed) + (SELECT count(*) FROM unchanged) = count(*)
                THEN (SELECT count(*) FROM events)
                ELSE ('tenure: something changed meanwhile: ' || count(*) || ' to be judged again')::bigint END AS count
      FROM judged
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
    SELECT $1, cursor - count + row_number() OVER (ORDER BY at, part), coalesce(ended_at, now), event, reason,
           target_id, instance, actor, version
      FROM events, moved, here
-- use: trimmed
)
SELECT verdict, version, ttl_ms, ceil(extract(epoch FROM expires_at - now) * 1000)::bigint, holder_id, barred,
       registered, paused, ask, floor(extract(epoch FROM acquired_at) * 1000)::bigint, session
  FROM (SELECT * FROM changed UNION ALL SELECT * FROM unchanged) AS outcome
 ORDER BY at;

-- Leases ($2) of the namespace $1 as they are, for who only reads; $3 are the flags. What comes back is as above. A
-- guard that starts after a loss must not take the forgotten tokens for current.
-- name: read_leases
SELECT CASE WHEN flags & 2 <> 0 AND target.id IS NULL AND coalesce(version, 0) = 0 THEN 'unknown'
            WHEN expires_at > now AND holder_id IS NOT NULL OR last <= coalesce(version, 0) THEN 'read'
            ELSE 'bound' END,
       CASE WHEN expires_at > now AND holder_id IS NOT NULL THEN version ELSE greatest(version, last, 0) END,
       ttl_ms, ceil(extract(epoch FROM expires_at - now) * 1000)::bigint, holder_id, barred, target.id IS NOT NULL,
       coalesce(paused, false), ask, floor(extract(epoch FROM acquired_at) * 1000)::bigint,
       CASE WHEN expires_at > now THEN session ELSE 0 END
  FROM unnest($2::text[], $3::integer[]) WITH ORDINALITY AS op (target_id, flags, at)
 CROSS JOIN (SELECT clock_timestamp() AS now, token_floor,
                    (SELECT version FROM tenure.lease WHERE namespace = $1 AND target_id = '') AS forgotten
               FROM tenure.store WHERE one OFFSET 0) AS here
  LEFT JOIN (SELECT target_id, holder_id, version, ttl_ms, acquired_at, barred, ask,
-- use: lease_end
                    AS expires_at,
-- use: lease_session
                    AS session
               FROM tenure.lease WHERE lease.namespace = $1 AND lease.target_id = ANY ($2::text[]) OFFSET 0) AS lease
         ON lease.target_id = op.target_id
  LEFT JOIN tenure.target ON target.namespace = $1 AND target.id = ANY ($2::text[]) AND target.id = op.target_id
 CROSS JOIN LATERAL (SELECT greatest(token_floor - 1, coalesce(nullif(version, 0), forgotten)) AS last) AS bound
 ORDER BY at;

-- Texts ($5) that are kept beside the leases of the targets $2 in the namespace $1, if they are held under the tokens $4,
-- and by the holders $3 where those are given; '' removes one. None of them comes twice, and their rows are locked: nobody
-- else gets a lease between the judgement and the commit. What comes back is as of apply_leases.
-- name: write_checkpoints
WITH here AS MATERIALIZED (
    SELECT now, CASE WHEN began_at IS NULL THEN 0
                     ELSE greatest(ceil(extract(epoch FROM began_at - now) * 1000) + coalesce(longest_ms, 0), 0)
                END AS wait_ms
      FROM clock_timestamp() AS now, tenure.store LEFT JOIN tenure.namespace ON name = $1 WHERE one
), judged AS MATERIALIZED (
    SELECT at, op.target_id, token, value, now, wait_ms, holder_id, coalesce(version, 0) AS version, expires_at, ttl_ms,
           acquired_at, coalesce(barred, false) AS barred, coalesce(ask, 0) AS ask, coalesce(session, 0) AS session,
           CASE WHEN wait_ms > 0 THEN 'recovering'
                WHEN expires_at > now AND holder_id IS NOT NULL AND NOT barred AND version = token
                 AND coalesce(holder = holder_id, true) THEN 'kept'
                ELSE 'lost' END AS verdict
      FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[])
           WITH ORDINALITY AS op (target_id, holder, token, value, at)
     CROSS JOIN here
      LEFT JOIN LATERAL (SELECT holder_id, version, ttl_ms, acquired_at, barred, ask,
-- use: lease_end
                                AS expires_at,
-- use: lease_session
                                AS session
                           FROM tenure.lease WHERE namespace = $1 AND target_id = op.target_id OFFSET 0) AS lease ON true
), removed AS (
    DELETE FROM tenure.checkpoint USING judged
     WHERE checkpoint.namespace = $1 AND checkpoint.target_id = ANY ($2::text[])
       AND checkpoint.target_id = judged.target_id AND verdict = 'kept' AND judged.value = ''
), written AS (
    INSERT INTO tenure.checkpoint (namespace, target_id, version, value)
    SELECT $1, target_id, token, value FROM judged WHERE verdict = 'kept' AND value <> ''
        ON CONFLICT (namespace, target_id) DO UPDATE SET version = excluded.version, value = excluded.value
)
SELECT verdict, version, ttl_ms,
       CASE verdict WHEN 'recovering' THEN wait_ms::bigint
                    ELSE ceil(extract(epoch FROM expires_at - now) * 1000)::bigint END,
       holder_id, barred, false, false, ask, floor(extract(epoch FROM acquired_at) * 1000)::bigint, session
  FROM judged ORDER BY at;

-- The checkpoints of the targets $2, in order, with their tokens; NULL: none.
-- name: read_checkpoints
SELECT value, version
  FROM unnest($2::text[]) WITH ORDINALITY AS op (target_id, at)
  LEFT JOIN LATERAL (SELECT value, version FROM tenure.checkpoint
                      WHERE namespace = $1 AND target_id = op.target_id OFFSET 0) AS checkpoint ON true
 ORDER BY at;

-- Of targets ($2) that have just been forgotten.
-- name: forget_checkpoints
DELETE FROM tenure.checkpoint
 WHERE namespace = $1 AND target_id = ANY ($2::text[])
   AND NOT EXISTS (SELECT FROM tenure.lease
                    WHERE lease.namespace = $1 AND lease.target_id = checkpoint.target_id);

-- A renewal in the namespace $1 with the TTL $2 has proved that data was lost. From now on the data are nobody's, and
-- the gate lets nothing through until an epoch has begun; unless one has, since the renewal was judged.
-- name: prove_loss
UPDATE tenure.store SET identity = ''
 WHERE began_at IS NULL
    OR began_at + greatest((SELECT longest_ms FROM tenure.namespace WHERE name = $1), $2::bigint)
                  * interval '1 millisecond' <= clock_timestamp();

-- ---- counters of targets that are gone
-- Rows of the table that are no leases: the one without a target has the highest token that the namespace forgot, the one
-- without a namespace says how far the search for such targets has come, as "namespace/target".

-- name: make_forgotten
INSERT INTO tenure.lease (namespace, target_id, version, expires_at, ttl_ms, kept, acquired_at, barred, ask)
VALUES ($1, '', 0, 'epoch', 0, false, 'epoch', false, 0) ON CONFLICT DO NOTHING;

-- Forgets targets ($2) of the namespace ($1); their rows and the one without a target are locked. For each, in order:
-- what has become of it. What has changed since the locks were taken stays.
-- name: forget
WITH judged AS MATERIALIZED (
    SELECT at, op.target_id, version, lease.xmin AS row_version,
           CASE WHEN holder_id IS NOT NULL AND now <
-- use: lease_end
                THEN 'held'
                WHEN target.id IS NOT NULL THEN 'registered'
                WHEN lease.target_id IS NULL THEN 'unknown'
                WHEN began_at + longest_ms * interval '1 millisecond' > now THEN 'recovering'
                ELSE 'forgotten' END AS verdict
      FROM unnest($2::text[]) WITH ORDINALITY AS op (target_id, at)
     CROSS JOIN (SELECT clock_timestamp() AS now, began_at, coalesce(longest_ms, 0) AS longest_ms
                   FROM tenure.store LEFT JOIN tenure.namespace ON name = $1 WHERE one OFFSET 0) AS here
      LEFT JOIN tenure.lease
             ON lease.namespace = $1 AND lease.target_id = ANY ($2::text[]) AND lease.target_id = op.target_id
      LEFT JOIN tenure.target ON target.namespace = $1 AND target.id = ANY ($2::text[]) AND target.id = op.target_id
), remembered AS (
    UPDATE tenure.lease
       SET version = greatest(version, (SELECT max(judged.version) FROM judged WHERE verdict = 'forgotten'))
     WHERE namespace = $1 AND target_id = '' AND EXISTS (SELECT FROM judged WHERE verdict = 'forgotten')
), removed AS (
    DELETE FROM tenure.lease USING judged
     WHERE lease.namespace = $1 AND lease.target_id = ANY ($2::text[]) AND lease.target_id = judged.target_id
       AND verdict = 'forgotten' AND lease.xmin = row_version
)
SELECT verdict FROM judged ORDER BY at;

-- A step through the feed of the namespace ($1) behind a cursor ($2), of $3 changes: what it has of leases of targets that
-- have no row and are not registered is removed. That a target was registered or removed stays. The cursor of the last
-- change of the step; 0: it was the end.
-- name: forget_history
WITH step AS MATERIALIZED (
    SELECT coalesce((SELECT cursor FROM tenure.change WHERE namespace = $1 AND cursor > $2::bigint
                      ORDER BY cursor LIMIT 1 OFFSET $3::bigint - 1), 0) AS last
), untold AS (
    DELETE FROM tenure.change
     WHERE namespace = $1 AND cursor > $2::bigint
       AND cursor <= (SELECT CASE last WHEN 0 THEN 9223372036854775807 ELSE last END FROM step)
       AND event LIKE 'lease%' AND target_id <> ''
       AND NOT EXISTS (SELECT FROM tenure.lease
                        WHERE lease.namespace = $1 AND lease.target_id = change.target_id COLLATE "C" AND version > 0)
       AND NOT EXISTS (SELECT FROM tenure.target WHERE target.namespace = $1 AND target.id = change.target_id COLLATE "C")
)
SELECT last FROM step;

-- The next $1 leases behind the place of the search: whether each has been free and unregistered for long.
-- name: list_aged
SELECT namespace, target_id,
-- use: lease_end
           < clock_timestamp() - interval '30 days' AND acquired_at < clock_timestamp() - interval '30 days'
           AND target_id <> ''
           AND NOT EXISTS (SELECT FROM tenure.target
                            WHERE target.namespace = lease.namespace AND target.id = lease.target_id)
  FROM tenure.lease
 WHERE (namespace, target_id) > (SELECT coalesce(max(split_part(target_id, '/', 1)), ' '),
                                        coalesce(max(substr(target_id, strpos(target_id, '/') + 1)), '')
                                   FROM tenure.lease WHERE namespace = '')
   AND namespace <> ''
 ORDER BY namespace, target_id LIMIT $1::bigint;

-- name: remove_place
DELETE FROM tenure.lease WHERE namespace = '';

-- name: put_place
INSERT INTO tenure.lease (namespace, target_id, version, expires_at, ttl_ms, kept, acquired_at, barred, ask)
VALUES ('', $1, 0, 'epoch', 0, false, 'epoch', false, 0) ON CONFLICT DO NOTHING;
