-- name: LEAN
-- One acquire, renewal or release in the usual situation, which redis_proof.lua has proved, on a lease that is as its
-- caller believes, or free, or another's. Whatever is unusual is answered with FULL before anything is written, and the
-- client sends the same to redis_apply.lua. Outcomes and keys are the same either way: tests/conformance/redis/
-- test_redis_lean.c compares them.
--
-- KEYS[9]  the lease's
-- ARGV     renew: the fence as it is when nothing has changed; acquire, release: the start of the change's line in the feed
--          ("kind TAB reason TAB") and its end ("TAB id TAB holder TAB actor"); release: the token
-- Reply    FULL; the token (renew, release: 1); or {outcome, token, ttl, remaining, holder, flags, ask, acquired_at}

local key = KEYS[9]
local fence = call('HGET', KEYS[2], key)

if kind == 'renew' then
    if fence ~= ARGV[6] or call('MGET', key)[1] ~= holder then
        return redis.status_reply('FULL')
    end
    call('PEXPIRE', key, ttl)
    return 1
end

local held = call('HGET', KEYS[3], key)
local line, token = ARGV[6], ARGV[8]

if kind == 'release' then
    -- Under its token, and in the name that was granted it.
    if not fence or not held or sub(fence, 1, #token + 1) ~= token .. ' ' or
        sub(held, find(held, ' ', 1, true) + 1) ~= holder or call('MGET', key)[1] ~= holder then
        return redis.status_reply('FULL')
    end
    call('DEL', key)
    call('HDEL', KEYS[3], key)
else
    -- A tombstone; a holder's own lease; the end of a former one, which is to be told.
    if others > 0 and call('ZSCORE', KEYS[6], holder) then
        return redis.status_reply('FULL')
    end
    if held then
        local value, space = call('MGET', key)[1], find(held, ' ', 1, true)
        -- A tab: it hangs on a session.
        if not value or value == holder or not fence or find(value, '\t', 1, true) then
            return redis.status_reply('FULL')
        end
        local left, ours, middle = call('PTTL', key), sub(held, space + 1) == value, find(fence, ' ', 1, true)
        return { 2, tonumber(sub(fence, 1, middle - 1)), ours and tonumber(sub(fence, middle + 1)) or 0,
            left < 0 and tonumber(ttl) or math.max(left, 1), value, 0, 0, ours and tonumber(sub(held, 1, space - 1)) or 0 }
    end
    -- Without a fence nobody knows what was granted: it may have been forgotten, or deleted by hand.
    local granted = fence and sub(fence, 1, find(fence, ' ', 1, true) - 1) + 1 or
        math.max(now, (call('HGET', KEYS[1], 'forgotten') or 0) + 1)
    granted = math.max(granted, tonumber(record[6]))
    -- Without a holder it is free, or somebody else's key.
    if granted > 9007199254740991 or not call('SET', key, holder, 'NX', 'PX', ttl) then
        return redis.status_reply('FULL')
    end
    token = format('%d', granted)
    call('HSET', KEYS[2], key, token .. ' ' .. ttl)
    call('HSET', KEYS[3], key, format('%d %s', now, holder))
    if not fence then
        call('ZADD', KEYS[7], '0', ARGV[8])
    end
end

-- The feed, and those who wait for it: as publish() of the prelude does.
local cursor = format('%d', record[7] + 1)
local entry = format('%s\n%s%s\t%d%s', cursor, line, token, now, ARGV[7])
call('HSET', KEYS[1], 'cursor', cursor)
call('ZADD', KEYS[5], cursor, entry)
redis.pcall('PUBLISH', KEYS[5] .. '@' .. ARGV[5], entry)
if kind == 'acquire checkpoint' then -- its holder wants to know what time it is here
    return { 1, tonumber(token), tonumber(ttl), tonumber(ttl), holder, 0, 0, now }
end
return kind == 'release' and 1 or tonumber(token)
