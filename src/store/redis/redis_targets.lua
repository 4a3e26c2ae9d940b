-- name: TARGETS
-- Edits of the target registry. Removing a target keeps its token counter, and its lease.
--
-- KEYS: the lease key of each edit. ARGV, for each edit: action ("put", "remove", "pause", "resume"), id, description
--   (for "put": as the hash has it). Reply: for each edit 1 if the target was registered before, else 0.

local found = {}
for i = 1, #KEYS - OUR_KEYS do
    local at = OUR_ARGUMENTS + 3 * (i - 1)
    local action, id, description = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    local old = call('HGET', TARGETS, id)
    local kind = TARGET_CHANGED
    found[i] = old and 1 or 0
    if action == 'put' then
        call('HSET', TARGETS, id, description)
        call('ZADD', IDS, '0', id)
        kind = old and TARGET_CHANGED or TARGET_ADDED
    elseif old and action == 'remove' then
        call('HDEL', TARGETS, id)
        if call('HEXISTS', FENCE, KEYS[OUR_KEYS + i]) == 0 then
            call('ZREM', IDS, id)
        end
        kind = TARGET_REMOVED
    elseif old then
        call('HSET', TARGETS, id, (action == 'pause' and '-' or '+') .. string.sub(old, 2))
    end
    if old or action == 'put' then
        tell(kind, NO_REASON, '0', id, '', '')
    end
end
publish()
return found
