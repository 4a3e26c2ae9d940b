-- name: LEAN_RUN
-- Many acquires or renewals of one holder in the usual situation, which redis_proof.lua has proved: as redis_lean.lua does
-- with one.
--
-- KEYS[9...]  the leases'
-- ARGV        renew: tokens as for redis_apply.lua ("token ttl" lines, as the fences are when nothing has changed), or the state
--             in which these very leases were last compared with their fences; acquire: the start of a change's line in the feed
--             ("kind TAB reason TAB") and its end ("TAB holder TAB actor"), first byte of an id in its key, and the last
--             one counted from the end
-- Reply       FULL; AGAIN (the state that was shown is over, send tokens); renewals: empty, or the state to show the next time;
--             acquires: an entry for each as in a reply of redis_apply.lua

local concat, match = table.concat, string.match

if kind == 'renew' then
    -- While the state is the same no token has changed: whoever holds a key still holds it under the same token.
    local tokens, state = ARGV[6], server .. ':' .. record[7]
    local proved = tokens == state
    if not proved then
        if find(tokens, ':', 1, true) then
            return redis.status_reply('AGAIN')
        end
        local fences = call('HMGET', KEYS[2], unpack(KEYS, 9))
        for i = 1, #fences do
            if not fences[i] then
                return redis.status_reply('FULL')
            end
        end
        if concat(fences, '\n') ~= tokens then
            return redis.status_reply('FULL')
        end
    end
    local values = call('MGET', unpack(KEYS, 9))
    for i = 1, #values do
        if values[i] ~= holder then
            return redis.status_reply('FULL')
        end
    end
    local ends = format('%d', now + ttl) -- cheaper than a TTL: Redis need not ask the clock for each
    for i = 9, #KEYS do
        call('PEXPIREAT', KEYS[i], ends)
    end
    return proved and {} or { state }
end

-- All is looked at before the first is written. A tombstone; a holder's own lease; the end of a former one, which is to be
-- told.
if others > 0 and call('ZSCORE', KEYS[6], holder) then
    return redis.status_reply('FULL')
end
local fences = call('HMGET', KEYS[2], unpack(KEYS, 9))
local helds = call('HMGET', KEYS[3], unpack(KEYS, 9))
local values = call('MGET', unpack(KEYS, 9))
local floor, first, replies = tonumber(record[6]), nil, {}
for i = 1, #values do
    local fence, token = fences[i], first
    -- A tab: it hangs on a session.
    if values[i] == holder or (helds[i] and not values[i]) or (values[i] and find(values[i], '\t', 1, true)) then
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
    replies[i] = token
end

local from, to, tail = tonumber(ARGV[8]), -ARGV[9], ARGV[7]
local since = format('%d %s', now, holder)
local lines, new_fences, new_helds, new_ids, events, new = {}, {}, {}, {}, 0, 0
local token, head, new_fence -- of the last one: new targets have the same
for i = 1, #values do
    local key, value = KEYS[8 + i], values[i]
    if value then
        local held_at, former = match(helds[i] or '0 ', '^(%d+) (.*)$')
        local last, length = match(fences[i] or '0 0', '^(%d+) (%d+)$')
        local left, ours = call('PTTL', key), helds[i] and former == value
        replies[i] = { 2, tonumber(last), ours and tonumber(length) or 0,
            left < 0 and tonumber(ttl) or math.max(left, 1), value, 0, 0, ours and tonumber(held_at) or 0 }
    elseif not call('SET', key, holder, 'NX', 'PX', ttl) then
        replies[i] = { 0, 'type', redis.pcall('TYPE', key).ok or 'value' } -- somebody keeps a list or a hash there
    else
        local id = sub(key, from, to)
        if replies[i] ~= token then
            token = replies[i]
            head, new_fence = format('%s%d\t%d\t', ARGV[6], token, now), format('%d %s', token, ttl)
        end
        events = events + 1
        lines[events] = head .. id .. tail
        new_fences[2 * events - 1], new_fences[2 * events] = key, new_fence
        new_helds[2 * events - 1], new_helds[2 * events] = key, since
        if not fences[i] then
            new = new + 2
            new_ids[new - 1], new_ids[new] = '0', id
        end
    end
end
if events > 0 then
    local cursor = format('%d', record[7] + events)
    local entry = cursor .. '\n' .. concat(lines, '\n')
    call('HSET', KEYS[2], unpack(new_fences))
    call('HSET', KEYS[3], unpack(new_helds))
    if new > 0 then
        call('ZADD', KEYS[7], unpack(new_ids))
    end
    call('HSET', KEYS[1], 'cursor', cursor)
    call('ZADD', KEYS[5], cursor, entry)
    redis.pcall('PUBLISH', KEYS[5] .. '@' .. ARGV[5], #entry <= 4096 and entry or cursor)
end
if kind == 'acquire checkpoint' and type(replies[1]) == 'number' then -- its holder wants to know what time it is here
    replies[1] = { 1, replies[1], tonumber(ttl), tonumber(ttl), holder, 0, 0, now }
end
return replies
