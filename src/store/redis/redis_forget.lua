-- name: FORGET
-- Forgets the counters of targets that are free and not registered: of the ids that are given, or, without any, of some
-- that have been so for the age of the feed. Every token that a target without a counter gets is above the highest that
-- was forgotten. What the feed has of them is BLANK's to take out.
--
-- KEYS: the lease key of each id. Reply: a word for each: "forgotten", "held", "registered", "unknown", "recovering".

local STEP = '250'
local dropped = {}
local ended = {} -- keys of leases whose session has ended

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
    call('HDEL', CHECKPOINT, unpack(dropped))
    call('ZREM', IDS, unpack(ids))
    for _, key in ipairs(dropped) do
        if ended[key] then
            call('DEL', key)
        end
    end
end

-- What is known of these lease keys: their holders and descriptions, nil where there is none.
local function look(keys)
    local ids = {}
    for i, key in ipairs(keys) do
        ids[i] = id_of(key)
    end
    local values = call('MGET', unpack(keys))
    for i, key in ipairs(keys) do
        local holder, _, former = holder_of(SESSIONS, values[i], now)
        values[i], ended[key] = holder, former
    end
    return values, call('HMGET', TARGETS, unpack(ids))
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
        local ttl = tonumber(match(fences[i] or '', ' (%d+)$')) or 0
        local word = values[i] and 'held' or targets[i] and 'registered' or not fences[i] and 'unknown' or
            unsettled(ttl) > 0 and 'recovering' or 'forgotten'
        if word == 'forgotten' then
            forget(key, tonumber(match(fences[i], '^%d+')))
        end
        replies[i] = word
    end
elseif not waits then
    forget_aged()
end
drop()
publish()
return replies
