-- name: LEAN_BEAT
-- The heartbeat of an instance whose leases hang on its session, and the leases that it reads along with it, in the usual
-- situation, which redis_proof.lua has proved: the instance and its session live and are as they were, nobody in the fleet
-- has died, and every lease hangs on that very session, which does not end later than this heartbeat asks (as after a
-- longer TTL, or when the clock was set back). Whatever else there is, is answered with FULL before anything is
-- written, and the client sends the same to redis_apply.lua.
--
-- That the sessions were deleted, which begins an epoch, need not be looked for: this one is there.
--
-- KEYS[9..13]  nodes, instances, sessions, targets (see redis_prelude.lua), the instance's heartbeat; then the leases'
-- ARGV[6..9]   weight, metadata, first byte of an id in its lease's key, and the last one counted from the end
-- Reply        FULL; or entries as in a reply of redis_apply.lua, of the heartbeat and then of each lease

local match = string.match
local number, ends, lasts, version = match(call('HGET', KEYS[11], holder) or '', '^([1-9]%d*) (%d+) (%d+) (%d+)$')
local length, ask, metadata = match(call('HGET', KEYS[10], holder) or '', '^(%d+) %d+ (%d) (.*)$')
if not number or ends + 0 <= now or ends + 0 > now + ttl or lasts ~= ttl or length ~= ttl or metadata ~= ARGV[7] or
    call('MGET', KEYS[13])[1] ~= ARGV[6] or call('ZCOUNT', KEYS[9], '-inf', format('%d', now)) > 0 or
    (others > 0 and call('ZSCORE', KEYS[6], holder)) then
    return redis.status_reply('FULL')
end
ends = now + ttl
local replies = { { 1, version + record[6] + record[4], ttl + 0, ttl + 0, false, 0, ask + 0, 0, number + 0 } }

if #KEYS > 13 then
    local from, to = tonumber(ARGV[8]), -ARGV[9]
    local value, since = holder .. '\tsession ' .. number, '^(%d+) (.*)$'
    local values = call('MGET', unpack(KEYS, 14))
    local fences = call('HMGET', KEYS[2], unpack(KEYS, 14))
    local helds = call('HMGET', KEYS[3], unpack(KEYS, 14))
    for i = 1, #values do
        local token, granted = match(fences[i] or '', '^(%d+) (%d+)$')
        local at, last = match(helds[i] or '', since)
        if values[i] ~= value or not token or last ~= holder then
            return redis.status_reply('FULL')
        end
        local target = call('HGET', KEYS[12], sub(KEYS[13 + i], from, to))
        -- Registered, paused.
        local flags = not target and 0 or sub(target, 1, 1) == '-' and 12 or 4
        replies[i + 1] = { 1, token + 0, granted + 0, ends - now, holder, flags, 0, at + 0, number + 0 }
    end
end

call('SET', KEYS[13], ARGV[6], 'PX', ttl)
call('ZADD', KEYS[9], format('%d', now + ttl), holder)
call('HSET', KEYS[11], holder, format('%s %d %s %s', number, ends, ttl, version))
return replies
