-- The PostgreSQL store: operations on leases. The rules are those of lease_row.c.
--
-- What waits for a lock judges the time after it: a plain UPDATE that had to wait was seen to renew a lease that had
-- ended meanwhile, because nothing is looked at again when the row itself has not changed. So rows are locked first, in
-- the order of their keys, and a later statement reads the clock; a statement sees what was committed before it began.

-- The usual case, nearly all that a store does: leases that are as their callers believe, only later. It waits for locks
-- itself, therefore it takes only leases that have more than $6 milliseconds left, and fails as a whole when it took
-- longer than that. Counted from before the wait, they end no later than they may.
-- name: renew_plainly
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, clock_timestamp() + $6::bigint * interval '1 millisecond' AS too_late
), renewed AS (
    UPDATE tenure.lease
       SET expires_at = now + op.ttl_ms * interval '1 millisecond'
      FROM clock, unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS op (target_id, holder_id, version, ttl_ms)
     WHERE lease.namespace = $1 AND lease.target_id = op.target_id AND lease.version = op.version
       AND lease.holder_id = op.holder_id AND lease.ttl_ms = op.ttl_ms AND lease.expires_at > too_late
       AND NOT lease.kept AND NOT lease.barred AND lease.ask = 0
    RETURNING 1
), done AS MATERIALIZED (
    SELECT count(*) AS count FROM renewed
)
SELECT CASE WHEN clock_timestamp() < too_late THEN count
            ELSE ('tenure: judged again, because it took too long: ' || count)::bigint END
  FROM done, clock;

-- Rows for what is leased for the first time, so that two who want it meet at the same row. While an epoch's newcomers
-- wait, a renewal may put back what has no row.
-- name: make_leases
INSERT INTO tenure.lease (namespace, target_id, version, expires_at, ttl_ms, kept, acquired_at, barred, ask)
SELECT op.namespace, op.target_id, 0, 'epoch', 0, false, 'epoch', false, 0
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::integer[]) AS op (kind, namespace, target_id, ttl_ms, flags)
  JOIN tenure.store ON one
  LEFT JOIN tenure.namespace ON name = op.namespace
 WHERE CASE kind
       WHEN 'acquire' THEN flags & 2 = 0
           OR EXISTS (SELECT FROM tenure.target WHERE target.namespace = op.namespace AND target.id = op.target_id)
       WHEN 'renew' THEN began_at + greatest(longest_ms, op.ttl_ms) * interval '1 millisecond' > clock_timestamp()
       END
 ORDER BY op.namespace, op.target_id
    ON CONFLICT DO NOTHING;

-- name: lock_leases
SELECT count(*) FROM (
    SELECT FROM unnest($1::text[], $2::text[]) AS op (namespace, target_id)
      JOIN tenure.lease ON lease.namespace = op.namespace AND lease.target_id = op.target_id
     ORDER BY lease.namespace, lease.target_id
       FOR UPDATE OF lease) AS locked;

-- Operations of one namespace ($1), none of them on the same target; their rows are locked. A row for each comes back,
-- in order: verdict, token, ttl_ms, remaining_ms, holder, barred, registered, paused, ask, acquired_at_ms.
--
-- The flags are those of store.h. seen: the lease as it is; judged: what the operation comes to; outcome: the lease as
-- it will be. Whatever was not changed as it was judged (its row appeared or changed since the locks were taken) fails
-- the whole, which is then sent again: the row count is believed, not what was read before.
-- name: apply_leases
WITH op AS MATERIALIZED (
    SELECT at, kind, target_id, holder_id, version, ttl_ms, reason, actor, ask, flags & 1 <> 0 AS fresh,
           flags & 2 <> 0 AS required, flags & 12 <> 0 AS forced, flags & 8 <> 0 AS at_once, flags & 16 <> 0 AS keeps
      FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::integer[], $8::text[], $9::text[],
                  $10::integer[])
           WITH ORDINALITY AS op (kind, target_id, holder_id, version, ttl_ms, flags, reason, actor, ask, at)
), here AS MATERIALIZED (
    SELECT clock_timestamp() AS now, token_floor, began_at, longest_ms
      FROM tenure.store LEFT JOIN tenure.namespace ON name = $1 WHERE one
), seen AS MATERIALIZED (
    SELECT op.*, here.now, here.token_floor,
           lease.xmin AS row_version, lease.holder_id AS owner, coalesce(lease.version, 0) AS counter, lease.expires_at,
           lease.ttl_ms AS old_ttl_ms, lease.kept, lease.acquired_at, coalesce(lease.barred, false) AS barred,
           coalesce(lease.ask, 0) AS old_ask, coalesce(lease.holder_id IS NOT NULL AND lease.expires_at > now, false) AS held,
           target.id IS NOT NULL AS registered, coalesce(target.paused, false) AS paused,
           coalesce(greatest(ceil(extract(epoch FROM began_at - now) * 1000 + greatest(longest_ms, op.ttl_ms)), 0), 0)::bigint
               AS wait_ms,
           op.version <= greatest(token_floor, (extract(epoch FROM now) * 1000)::bigint) + 31622400000 AS plausible,
           EXISTS (SELECT FROM tenure.instance
                    WHERE namespace = $1 AND instance = op.holder_id AND gone AND instance.expires_at > now) AS gone
      FROM here CROSS JOIN op
      LEFT JOIN tenure.lease ON lease.namespace = $1 AND lease.target_id = op.target_id
      LEFT JOIN tenure.target ON target.namespace = $1 AND target.id = op.target_id
), judged AS MATERIALIZED (
    SELECT *, greatest(counter + 1, token_floor) AS granted,
           CASE kind
           WHEN 'acquire' THEN
               CASE WHEN required AND NOT registered AND counter = 0 THEN 'unknown'
                    WHEN gone THEN 'gone'
                    WHEN wait_ms > 0 AND (NOT held OR (owner = holder_id AND NOT barred AND NOT fresh)) THEN 'recovering'
                    WHEN held AND owner = holder_id AND NOT barred AND NOT fresh AND counter >= token_floor THEN 'extended'
                    WHEN held THEN 'held'
                    WHEN greatest(counter + 1, token_floor) > 9007199254740991 THEN 'token'
                    ELSE 'given' END
           WHEN 'renew' THEN
               CASE WHEN held AND counter = version AND NOT barred AND coalesce(owner = holder_id, true) THEN 'extended'
                    WHEN wait_ms > 0 AND ttl_ms > 0 AND plausible AND NOT gone AND holder_id IS NOT NULL
                     AND (version > counter OR (version = counter AND owner = holder_id AND NOT barred)) THEN 'put back'
                    WHEN wait_ms > 0 AND plausible AND version > counter THEN 'noted'
                    ELSE 'lost' END
           WHEN 'release' THEN
               CASE WHEN NOT held OR owner <> holder_id OR NOT (forced OR counter = version) THEN 'lost'
                    WHEN forced AND NOT at_once THEN 'barred'
                    ELSE 'freed' END
           WHEN 'ask' THEN CASE WHEN held AND coalesce(owner = holder_id, true) THEN 'asked' ELSE 'lost' END
           ELSE CASE WHEN required AND NOT registered AND counter = 0 THEN 'unknown' ELSE 'read' END
           END AS verdict
      FROM seen
), outcome AS MATERIALIZED (
    SELECT judged.*, verdict IN ('given', 'put back', 'extended', 'noted', 'barred', 'freed', 'asked') AS changes,
           CASE WHEN verdict IN ('given', 'put back') THEN holder_id WHEN verdict <> 'freed' THEN owner END AS next_holder,
           CASE verdict WHEN 'given' THEN granted WHEN 'put back' THEN version WHEN 'noted' THEN version ELSE counter END
               AS next_version,
           CASE WHEN verdict IN ('given', 'put back', 'extended')
                THEN now + coalesce(nullif(ttl_ms, 0), old_ttl_ms) * interval '1 millisecond' ELSE expires_at END
               AS next_expires_at,
           CASE WHEN verdict IN ('given', 'put back', 'extended') THEN coalesce(nullif(ttl_ms, 0), old_ttl_ms) ELSE old_ttl_ms END
               AS next_ttl_ms,
           CASE WHEN verdict IN ('given', 'put back') OR (verdict = 'extended' AND ttl_ms > 0) THEN keeps ELSE kept END AS next_kept,
           CASE WHEN verdict IN ('given', 'put back') THEN now ELSE acquired_at END AS next_acquired_at,
           CASE WHEN verdict IN ('given', 'put back', 'freed') THEN false ELSE barred OR verdict = 'barred' END AS next_barred,
           CASE WHEN verdict IN ('given', 'put back', 'freed') THEN 0
                WHEN verdict = 'asked' THEN CASE ask WHEN 3 THEN 0 ELSE ask END ELSE old_ask END AS next_ask
      FROM judged
), changed AS (
    UPDATE tenure.lease
       SET holder_id = next_holder, version = next_version, expires_at = next_expires_at, ttl_ms = next_ttl_ms,
           kept = next_kept, acquired_at = next_acquired_at, barred = next_barred, ask = next_ask
      FROM outcome
     WHERE changes AND lease.namespace = $1 AND lease.target_id = outcome.target_id AND lease.xmin = row_version
    RETURNING 1
), news AS MATERIALIZED (
    SELECT at, 1 AS part, 'lease_lost' AS event, 'expired' AS reason, target_id, owner AS instance, '' AS actor, counter AS version
      FROM judged WHERE verdict = 'given' AND owner IS NOT NULL AND NOT barred
    UNION ALL
    SELECT at, 2, 'lease_acquired', '', target_id, next_holder, '', next_version
      FROM outcome WHERE verdict IN ('given', 'put back')
    UNION ALL
    SELECT at, 2, 'lease_lost', 'forced', target_id, owner, actor, counter FROM judged WHERE verdict = 'barred' AND NOT barred
    UNION ALL
    SELECT at, 2, 'lease_released', CASE WHEN forced THEN 'forced' ELSE reason END, target_id, owner, actor, counter
      FROM judged WHERE verdict = 'freed'
    UNION ALL
    SELECT at, 2, 'lease_asked', '', target_id, owner, actor, counter FROM judged WHERE verdict = 'asked'
), told AS MATERIALIZED (
    SELECT (SELECT count(*) FROM news) AS count,
           (SELECT max(ttl_ms) FROM op, here
             WHERE kind IN ('acquire', 'renew') AND NOT keeps AND began_at + ttl_ms * interval '1 millisecond' > now
               AND (longest_ms = 0 OR began_at + longest_ms * interval '1 millisecond' > now)) AS shown_ms
), moved AS (
    UPDATE tenure.namespace
       SET cursor = cursor + count, longest_ms = greatest(longest_ms, shown_ms),
           first_cursor = CASE WHEN (cursor + count) / 1000 > cursor / 1000 THEN greatest(first_cursor, cursor + count - 10000)
                               ELSE first_cursor END
      FROM told
     WHERE name = $1 AND (count > 0 OR shown_ms > longest_ms)
    RETURNING cursor, first_cursor, count
), written AS (
    INSERT INTO tenure.change (namespace, cursor, at, event, reason, target_id, instance, actor, version)
    SELECT $1, cursor - count + row_number() OVER (ORDER BY at, part), now, event, reason, target_id, instance, actor, version
      FROM news, moved, here
), trimmed AS (
    DELETE FROM tenure.change
     WHERE namespace = $1
       AND cursor <= (SELECT first_cursor FROM moved WHERE cursor / 1000 > (cursor - count) / 1000)
), notified AS MATERIALIZED (
    SELECT pg_notify(left('tenure:' || $1, 63), '') FROM moved WHERE count > 0
)
SELECT verdict,
       CASE WHEN verdict = 'read' AND NOT held AND token_floor > 0 THEN greatest(counter, token_floor - 1) ELSE next_version END,
       CASE WHEN shown THEN next_ttl_ms ELSE 0 END,
       CASE WHEN verdict = 'recovering' THEN wait_ms
            WHEN shown THEN greatest(ceil(extract(epoch FROM next_expires_at - now) * 1000), 1)::bigint ELSE 0 END,
       CASE WHEN shown THEN next_holder END, shown AND next_barred, registered, paused,
       CASE WHEN shown THEN next_ask ELSE 0 END,
       CASE WHEN shown THEN floor(extract(epoch FROM next_acquired_at) * 1000)::bigint ELSE 0 END,
       CASE WHEN (SELECT count(*) FROM changed) = (SELECT count(*) FROM outcome WHERE changes) THEN 0
            ELSE ('tenure: judged again, because something changed meanwhile: ' || at)::integer END,
       (SELECT count(*) FROM notified)
  FROM (SELECT *, verdict <> 'recovering' AND coalesce(next_holder IS NOT NULL AND next_expires_at > now, false) AS shown
          FROM outcome) AS outcome
 ORDER BY at;
