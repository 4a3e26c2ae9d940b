-- name: INSTANCES
-- The live instances. It reads only, and has no prelude.
--
-- KEYS: epoch, nodes, instances, sessions. ARGV: the texts before and after the instance in a heartbeat's key; from which place in the
--   index; how many at most. Reply: for each place {instance, weight, ms left, "ttl since ask metadata", number of
--   its session}; without a weight it is dead.

local call = redis.call
local NODES, INSTANCES, SESSIONS = unpack(KEYS, 2)
local BEFORE, AFTER, from, count = unpack(ARGV)
local names = call('ZRANGE', NODES, from, tostring(from + count - 1))
local reply = {}
if #names == 0 then
    return reply
end
local keys = {}
for i, name in ipairs(names) do
    keys[i] = BEFORE .. name .. AFTER
end
local weights = call('MGET', unpack(keys))
local records = call('HMGET', INSTANCES, unpack(names))
local sessions = call('HMGET', SESSIONS, unpack(names))
for i, name in ipairs(names) do
    local left = weights[i] and call('PTTL', keys[i]) or 0
    -- A key without an end, by another program's hand: looked at again in a while.
    reply[i] = { name, weights[i], left == -1 and 30000 or left, records[i],
        sessions[i] and string.match(sessions[i], '^%d+') or '0' }
end
return reply
