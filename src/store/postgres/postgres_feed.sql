-- The PostgreSQL store: what the statements that write changes have in common. `-- use: NAME` stands for a fragment.

-- The newest cursor that leaves the feed of the namespace ($1) when it is trimmed, which happens with every thousandth
-- change: 10,000 changes are kept, and up to 250,000 if they are younger than a minute; nothing for longer than 30 days.
-- A trimming removes 10,000 at most, so that nobody waits for long. It is read only then (in a CASE; a join would read it
-- with every change): that takes as long as the feed is.
-- fragment: oldest
), oldest AS MATERIALIZED (
    SELECT least(greatest((SELECT cursor FROM tenure.change WHERE namespace = $1
                            ORDER BY cursor DESC LIMIT 1 OFFSET 250000),
                          least(coalesce((SELECT cursor FROM tenure.change WHERE namespace = $1
                                           ORDER BY cursor DESC LIMIT 1 OFFSET 10000), 0),
                                (SELECT cursor - 1 FROM tenure.change
                                  WHERE namespace = $1 AND at >= clock_timestamp() - interval '1 minute'
                                  ORDER BY cursor LIMIT 1)),
                          (SELECT cursor - 1 FROM tenure.change
                            WHERE namespace = $1 AND at >= clock_timestamp() - interval '30 days'
                            ORDER BY cursor LIMIT 1)),
                 (SELECT cursor FROM tenure.change WHERE namespace = $1 ORDER BY cursor LIMIT 1 OFFSET 9999)) AS bound

-- fragment: trimmed
), trimmed AS (
    DELETE FROM tenure.change
     WHERE namespace = $1
       AND cursor <= (SELECT CASE WHEN cursor / 1000 > (cursor - count) / 1000 THEN (SELECT bound FROM oldest) END
                        FROM moved)
