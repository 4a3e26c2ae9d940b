-- name: SWEEP
-- One step through the keyspace for heartbeats that another program wrote: what it finds goes into the index. The fleet
-- shares one cursor and takes one step a second, so that a pass costs the server the same however many instances there
-- are.
--
-- ARGV: the pattern of a heartbeat's key for SCAN, how many keys to look at, the time between two steps in ms.
-- Reply: the policy by which the server evicts keys; empty if it was not looked at.

local swept = tonumber(call('HGET', EPOCH, 'swept') or '0')
if now >= swept and now - swept < tonumber(ARGV[OUR_ARGUMENTS + 3]) then
    publish()
    return ''
end
call('HSET', EPOCH, 'swept', now_text)
local found = call('SCAN', call('HGET', EPOCH, 'sweep') or '0', 'MATCH', ARGV[OUR_ARGUMENTS + 1],
    'COUNT', ARGV[OUR_ARGUMENTS + 2])
call('HSET', EPOCH, 'sweep', found[1])
for _, key in ipairs(found[2]) do
    local instance = string.sub(key, #NODE_BEFORE + 1, #key - #NODE_AFTER)
    local left = call('PTTL', key)
    if left > 0 and instance ~= '' and #instance < 256 and not string.find(instance, '%c') and not call('ZSCORE', NODES, instance) then
        call('ZADD', NODES, whole(now + left), instance)
        tell(INSTANCE_JOINED, NO_REASON, '0', '', instance, '')
    end
end
publish()
return match(call('INFO', 'memory'), 'maxmemory_policy:([%w-]+)') or ''
