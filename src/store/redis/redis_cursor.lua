-- name: CURSOR
-- The feed's cursor at this moment. It begins an epoch where there is none, so that the cursor stays good from then on.

publish()
return cursor
