-- The PostgreSQL store: leases that hang on the session of their holder, in what the statements have in common.
-- `-- use: NAME` stands for a fragment.

-- When a lease ends (`lease` is its row). One on a session has an expires_at that is far away, and ends with the session.
-- 'epoch': the session is over, it is not known since when.
-- fragment: lease_end
           CASE WHEN lease.session <> 0 AND lease.expires_at = '9999-01-01 00:00:00+00'
                THEN coalesce((SELECT held_on.session_expires_at FROM tenure.instance AS held_on
                                WHERE held_on.namespace = lease.namespace AND held_on.instance = lease.holder_id
                                  AND held_on.session = lease.session), 'epoch')
                ELSE lease.expires_at END

-- When the epoch began. The version of a session that is reported counts from the floor and from this: it is another one in
-- each epoch, also when the clock was set back.
-- fragment: epoch_ms
           coalesce((extract(epoch FROM began_at) * 1000)::bigint, 0)

-- The session on which it hangs; 0: none.
-- fragment: lease_session
           CASE WHEN lease.expires_at = '9999-01-01 00:00:00+00' THEN lease.session ELSE 0 END

