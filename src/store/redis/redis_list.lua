-- name: LIST
-- A page of targets with their leases, or certain targets with theirs. It reads only, and has no prelude.
--
-- KEYS: epoch, fence, held, marks, ids, targets, sessions. ARGV: the texts before and after the id in a lease's key; filter ("all",
--   "leased", "free", "registered", "current": held or registered); the id after which it starts ("": from the first); how many rows at most; how many
--   ids to look at, at most; then ids, if only those are wanted.
-- Reply: {where to go on ("": there is no more), then for each row {id, description, holder, ms left, fence, held, mark}, and
--   if it is pinned the server's time}

local call = redis.call
local FENCE, HELD, MARKS, IDS, TARGETS, SESSIONS = unpack(KEYS, 2)
local BEFORE, AFTER, filter, start, limit, look_at = unpack(ARGV)
limit = tonumber(limit)

local wanted = #ARGV > 6

local function matches(description, value, fence)
    if wanted then
        return description or fence
    elseif filter == 'leased' then
        return value
    elseif filter == 'free' then
        return not value and not (description and string.sub(description, 1, 1) == '-')
    elseif filter == 'registered' then
        return description
    elseif filter == 'current' then
        return value or description
    end
    return true
end

-- What is held or registered, without going through every id that was ever leased; nil: that would not be less work. A
-- lease that another program made by hand may be missing.
local CURRENT_MAX = 1000 -- each costs a microsecond or more, and everybody waits meanwhile
local function current_ids()
    local count = call('HLEN', TARGETS) + (filter == 'current' and call('HLEN', HELD) or 0)
    if (filter ~= 'current' and filter ~= 'registered') or count > CURRENT_MAX or count * 2 > call('ZCARD', IDS) then
        return nil
    end
    -- By their place among all ids: Lua would compare texts by the server's locale.
    local first = start == '' and 0 or call('ZLEXCOUNT', IDS, '-', '[' .. start)
    local by_rank, ranks, page = {}, {}, {}
    local function add(id)
        local rank = call('ZRANK', IDS, id)
        if rank and rank >= first and not by_rank[rank] then
            by_rank[rank] = id
            ranks[#ranks + 1] = rank
        end
    end
    for _, key in ipairs(filter == 'current' and call('HKEYS', HELD) or {}) do
        add(string.sub(key, #BEFORE + 1, #key - #AFTER))
    end
    for _, id in ipairs(call('HKEYS', TARGETS)) do
        add(id)
    end
    table.sort(ranks)
    for i = 1, math.min(#ranks, tonumber(look_at)) do
        page[i] = by_rank[ranks[i]]
    end
    return page
end

local ids = wanted and { unpack(ARGV, 7) } or current_ids() or
    call('ZRANGEBYLEX', IDS, start == '' and '-' or '(' .. start, '+', 'LIMIT', '0', look_at)
local reply = { '' }
if #ids == 0 then
    return reply
end
local keys = {}
for i, id in ipairs(ids) do
    keys[i] = BEFORE .. id .. AFTER
end
local values = call('MGET', unpack(keys))
local fences = call('HMGET', FENCE, unpack(keys))
local time = call('TIME')
local now, ends = time[1] * 1000 + math.floor(time[2] / 1000), {}
for i, value in ipairs(values) do
    local holder, session = holder_of(SESSIONS, value, now)
    values[i], ends[keys[i]] = holder, session and session.ends or nil
end
-- Of what nobody holds there is nothing more to be read.
local leased, details = {}, {}
for i, key in ipairs(keys) do
    if values[i] then
        leased[#leased + 1] = key
    end
end
if #leased > 0 then
    local helds, marks = call('HMGET', HELD, unpack(leased)), call('HMGET', MARKS, unpack(leased))
    for i, key in ipairs(leased) do
        details[key] = { ends[key] and ends[key] - now or call('PTTL', key), helds[i], marks[i] }
    end
end
local NOTHING = { 0, false, false }
local descriptions = call('HMGET', TARGETS, unpack(ids))
for i, id in ipairs(ids) do
    if #reply - 1 == limit then
        reply[1] = ids[i - 1]
        return reply
    end
    if matches(descriptions[i], values[i], fences[i]) then
        local left, held, mark = unpack(details[keys[i]] or NOTHING)
        reply[#reply + 1] = { id, descriptions[i], values[i], left, fences[i], held, mark }
        if descriptions[i] and string.sub(descriptions[i], 2, 8) == '{"pin":' then
            reply[#reply][8] = now
        end
    end
end
if not wanted and #ids == tonumber(look_at) then
    reply[1] = ids[#ids]
end
return reply
