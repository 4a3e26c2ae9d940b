-- name: LEAN
-- One run of acquires, renewals or releases in the usual situation: the epoch is known and has no quarantine, nobody wants
-- any lease of the namespace to end, and every lease is as its caller believes or is free. It stands alone, without the
-- prelude, and makes no function: for one operation these take four times as long as its commands. Whatever is unusual is
-- answered with FULL before anything is written, and the client sends the same to redis_apply.lua, which decides alone:
-- the outcome and the keys are the same either way (tests/conformance/redis_lean.c compares them).
--
-- KEYS[1..7]  epoch, fence, held, marks, feed, gone, ids (see redis_prelude.lua); then the leases' keys
-- ARGV        kind, holder ("": not given), ttl, the pattern of the leases' keys ("before*after"), the number of the
--             database; renew: tokens as for redis_apply.lua ("token ttl" lines, as the fences are when nothing has changed),
--             or the state in which these very leases were last compared with their fences; else: first byte of an id in its
--             key, last byte counted from the end, the start of a change's line in the feed ("kind TAB reason TAB"), its
--             actor; release: tokens
-- Reply       FULL, AGAIN (renewals: the state that was shown is over, send tokens), or as redis_apply.lua answers one run.
--             Empty: every operation is done as it was asked.
--
-- The epoch is proved by the replication id: a master has a new one after every start and every promotion.

if redis.replicate_commands then
    redis.replicate_commands()
end

local call, sub, find, match, format, concat = redis.call, string.sub, string.find, string.match, string.format,
    table.concat
local kind, holder, ttl = ARGV[1], ARGV[2], ARGV[3]
local record = call('HMGET', KEYS[1], 'server', 'database', 'provisional', 'began', 'ttl', 'floor', 'cursor',
    'trimmed')
local replication = call('INFO', 'replication')
local _, _, server = find(replication, 'master_replid:(%x+)')
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A run id has 40 digits. FULL says what is wrong with a replica.
if not find(replication, 'role:master', 1, true) or sub(record[1] or '', 41) ~= ':' .. server .. ':' .. ARGV[4] or
    record[2] ~= ARGV[5] or record[3] ~= '0' or call('EXISTS', KEYS[4]) == 1 then
    return redis.status_reply('FULL')
end
if record[4] ~= '0' then
    local since = now - record[4]
    if since < 0 or since < tonumber(record[5]) or since < tonumber(ttl) then
        return redis.status_reply('FULL')
    end
end

-- ---- renew: all of them, or none here

if kind == 'renew' then
    local tokens, state = ARGV[6], server .. ':' .. record[7]
    local proved = tokens == state
    if not proved then
        if find(tokens, ':', 1, true) then
            return redis.status_reply('AGAIN')
        end
        local fences = call('HMGET', KEYS[2], unpack(KEYS, 8))
        for i = 1, #fences do
            if not fences[i] then
                return redis.status_reply('FULL')
            end
        end
        if concat(fences, '\n') ~= tokens then
            return redis.status_reply('FULL')
        end
    end
    local values = call('MGET', unpack(KEYS, 8))
    for i = 1, #values do
        if values[i] ~= holder then
            return redis.status_reply('FULL')
        end
    end
    local ends = format('%d', now + ttl) -- cheaper than a TTL: Redis need not ask the clock for each
    for i = 8, #KEYS do
        call('PEXPIREAT', KEYS[i], ends)
    end
    return { proved and {} or { state } }
end

-- The full script trims the feed: once an hour because of what is old, more often while there is too much.
local trimmed = now - (record[8] or 0)
if trimmed < 0 or trimmed > 3600000 or (time[2] % 16 == 0 and call('ZCARD', KEYS[5]) > 10000) then
    return redis.status_reply('FULL')
end

local before, after = tonumber(ARGV[6]), -ARGV[7]
local values = call('MGET', unpack(KEYS, 8))
local fences = call('HMGET', KEYS[2], unpack(KEYS, 8))
local helds = call('HMGET', KEYS[3], unpack(KEYS, 8))
local count = #values
local start, at = ARGV[8], format('\t%d\t', now)
local lines, replies = {}, {}

if kind == 'release' then
    -- Under its token, and in the name that was granted it.
    local i = 0
    for token in string.gmatch(ARGV[10], '(%d+) ') do
        i = i + 1
        local value, fence, held = values[i], fences[i], helds[i]
        if not value or not fence or not held or sub(fence, 1, #token + 1) ~= token .. ' ' or
            sub(held, find(held, ' ', 1, true) + 1) ~= value or (holder ~= '' and holder ~= value) then
            return redis.status_reply('FULL')
        end
        lines[i] = start .. token .. at .. sub(KEYS[7 + i], before, after) .. '\t' .. value .. '\t' .. ARGV[9]
    end
    for _, value in ipairs(values) do
        if find(value, '[%z\t\n\\]') then
            return redis.status_reply('FULL')
        end
    end
    call('DEL', unpack(KEYS, 8))
    call('HDEL', KEYS[3], unpack(KEYS, 8))
else
    -- A tombstone; a holder's own lease; the end of a former one, which is to be told.
    if call('ZSCORE', KEYS[6], holder) then
        return redis.status_reply('FULL')
    end
    local floor, first, granted = tonumber(record[6]), nil, {}
    for i = 1, count do
        local fence, token = fences[i], first
        if values[i] == holder or (helds[i] and not values[i]) then
            return redis.status_reply('FULL')
        elseif fence then
            token = sub(fence, 1, find(fence, ' ', 1, true) - 1) + 1
            token = token < floor and floor or token
        elseif not first then
            -- Without a fence nobody knows what was granted: it may have been forgotten, or deleted by hand.
            first = math.max(now, floor, (call('HGET', KEYS[1], 'forgotten') or 0) + 1)
            token = first
        end
        if token > 9007199254740991 then
            return redis.status_reply('FULL')
        end
        granted[i] = token
    end
    local tail, since = '\t' .. holder .. '\t', format('%d ', now) .. holder
    local new_fences, new_helds, new_ids, writes, new, events = {}, {}, {}, 0, 0, 0
    local token, text, fence -- of the last one: new targets have the same
    for i = 1, count do
        local key, value = KEYS[7 + i], values[i]
        if value then
            local held_at, former = match(helds[i] or '0 ', '^(%d+) (.*)$')
            local last, length = match(fences[i] or '0 0', '^(%d+) (%d+)$')
            local left, ours = call('PTTL', key), helds[i] and former == value
            replies[i] = { 2, tonumber(last), ours and tonumber(length) or 0,
                left < 0 and tonumber(ttl) or math.max(left, 1), value, 0, 0, ours and tonumber(held_at) or 0 }
        elseif not call('SET', key, holder, 'NX', 'PX', ttl) then
            replies[i] = { 0, 'type', 0 } -- somebody keeps a list or a hash there
        else
            local id = sub(key, before, after)
            if granted[i] ~= token then
                token = granted[i]
                text = format('%d', token)
                fence = text .. ' ' .. ttl
                text = start .. text .. at
            end
            replies[i] = token
            events = events + 1
            lines[events] = text .. id .. tail
            writes = writes + 2
            new_fences[writes - 1], new_fences[writes] = key, fence
            new_helds[writes - 1], new_helds[writes] = key, since
            if not fences[i] then
                new = new + 2
                new_ids[new - 1], new_ids[new] = '0', id
            end
        end
    end
    if writes > 0 then
        call('HSET', KEYS[2], unpack(new_fences))
        call('HSET', KEYS[3], unpack(new_helds))
    end
    if new > 0 then
        call('ZADD', KEYS[7], unpack(new_ids))
    end
end

-- The feed, and those who wait for it: as publish() of the prelude does.
if #lines > 0 then
    local cursor = format('%d', record[7] + #lines)
    local entry = cursor .. '\n' .. concat(lines, '\n')
    call('HSET', KEYS[1], 'cursor', cursor)
    call('ZADD', KEYS[5], cursor, entry)
    redis.pcall('PUBLISH', KEYS[5] .. '@' .. ARGV[5], #entry <= 4096 and entry or cursor)
end
return { replies }
