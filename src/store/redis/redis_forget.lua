-- name: FORGET
-- Forgets the counters of targets that are free and not registered: of the ids that are given, or, without any, of some
-- that have been so for the age of the feed. Every token that a target without a counter gets is above the highest that
-- was forgotten. What the feed has of those that were named is taken out: an entry keeps its cursor and its lines, and a
-- line of theirs says nothing any more (no kind has its number).
--
-- KEYS: the lease key of each id. Reply: a word for each: "forgotten", "held", "registered", "unknown", "recovering".

local STEP = '250'
local dropped = {}

local function id_of(key)
    return string.sub(key, #LEASE_BEFORE + 1, #key - #LEASE_AFTER)
end

local function forget(key, token)
    forgotten = math.max(forgotten, token)
    dropped[#dropped + 1] = key
end

local function drop()
    if #dropped == 0 then
        return
    end
    local ids = {}
    for i, key in ipairs(dropped) do
        ids[i] = id_of(key)
    end
    call('HSET', EPOCH, 'forgotten', whole(forgotten))
    call('HDEL', FENCE, unpack(dropped))
    call('HDEL', HELD, unpack(dropped))
    call('HDEL', MARKS, unpack(dropped))
    call('HDEL', IDLE, unpack(dropped))
    call('ZREM', IDS, unpack(ids))
end

-- What is known of these lease keys: their values and descriptions, nil where there is none.
local function look(keys)
    local ids = {}
    for i, key in ipairs(keys) do
        ids[i] = id_of(key)
    end
    return call('MGET', unpack(keys)), call('HMGET', TARGETS, unpack(ids))
end

-- That a target was registered or removed stays: who has not read it yet must hear of it, since it is not told again.
local OF_LEASES = { [tostring(LEASE_ACQUIRED)] = true, [tostring(LEASE_RELEASED)] = true, [tostring(LEASE_LOST)] = true,
    [tostring(LEASE_ASKED)] = true }
local function blank_history()
    local gone = {}
    for _, key in ipairs(dropped) do
        gone[escape(id_of(key))] = true
    end
    if not next(gone) then
        return
    end
    for at = 0, FEED_MAX, 1000 do
        local entries = call('ZRANGE', FEED, at, at + 999, 'WITHSCORES')
        for i = 1, #entries, 2 do
            local found = false
            local text = string.gsub(entries[i], '\n(%d+)\t%d+\t%d+\t(%d+)\t([^\t\n]*)[^\n]*', function(kind, at_text, target)
                if gone[target] and OF_LEASES[kind] then
                    found = true
                    return '\n99\t0\t0\t' .. at_text .. '\t\t\t'
                end
            end)
            if found then
                call('ZREM', FEED, entries[i])
                call('ZADD', FEED, entries[i + 1], text)
            end
        end
        if #entries < 2000 then
            return
        end
    end
end

-- One step through the counters. A target is forgotten when it was seen free and unregistered long ago, and has not been
-- leased since.
local function forget_aged()
    local found = call('HSCAN', FENCE, call('HGET', EPOCH, 'aged') or '0', 'COUNT', STEP)
    call('HSET', EPOCH, 'aged', found[1])
    local keys, tokens = {}, {}
    for i = 1, math.min(#found[2], 2000), 2 do
        keys[#keys + 1] = found[2][i]
        tokens[#tokens + 1] = match(found[2][i + 1], '^%d+') or '0'
    end
    if #keys == 0 then
        return
    end
    local values, targets = look(keys)
    local idle = call('HMGET', IDLE, unpack(keys))
    local seen = {}
    for i, key in ipairs(keys) do
        if not values[i] and not targets[i] then
            local token, since = match(idle[i] or '', '^(%d+) (%d+)$')
            since = tonumber(since)
            if token ~= tokens[i] or since > now then
                seen[#seen + 1] = key
                seen[#seen + 1] = tokens[i] .. ' ' .. now_text
            elseif now - since >= FEED_AGE then
                forget(key, tonumber(token))
            end
        end
    end
    if #seen > 0 then
        call('HSET', IDLE, unpack(seen))
    end
end

local replies = {}
local waits = recovering(0) > 0
if #KEYS > OUR_KEYS then
    local keys = { unpack(KEYS, OUR_KEYS + 1) }
    local values, targets = look(keys)
    local fences = call('HMGET', FENCE, unpack(keys))
    for i, key in ipairs(keys) do
        local word = values[i] and 'held' or targets[i] and 'registered' or not fences[i] and 'unknown' or
            waits and 'recovering' or 'forgotten'
        if word == 'forgotten' then
            forget(key, tonumber(match(fences[i], '^%d+')))
        end
        replies[i] = word
    end
    blank_history()
elseif not waits then
    forget_aged()
end
drop()
publish()
return replies
