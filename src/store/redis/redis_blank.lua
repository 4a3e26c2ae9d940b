-- name: BLANK
-- A step through the feed, after something was forgotten: takes out what it has of the leases of targets that have no
-- counter and are not registered. An entry keeps its cursor and its lines, and a line of theirs says nothing any more (no
-- kind has its number). That a target was registered or removed stays: who has not read it yet must hear of it, since it
-- is not told again.
--
-- ARGV: the cursor behind which it goes on; the last one to look at, or 0: the feed's.
-- Reply: {where to go on, the last one to look at}; there is no more to do when they are the same.

local LINES, SOME = 1000, 8 -- lines that are enough for a step, and entries that are read at a time
local OF_LEASES = { [tostring(LEASE_ACQUIRED)] = true, [tostring(LEASE_RELEASED)] = true, [tostring(LEASE_LOST)] = true,
    [tostring(LEASE_ASKED)] = true }
local LINE = '\n(%d+)\t%d+\t%d+\t(%d+)\t([^\t\n]*)[^\n]*'

-- The targets whose leases these entries tell of, and that are forgotten; and how many lines they have.
local function find_forgotten(entries)
    local ids, keys, seen, lines = {}, {}, {}, 0
    for i = 1, #entries, 2 do
        for kind, _, id in string.gmatch(entries[i], LINE) do
            lines = lines + 1
            if OF_LEASES[kind] and id ~= '' and not seen[id] then
                seen[id] = true
                ids[#ids + 1] = id
                keys[#keys + 1] = LEASE_BEFORE .. id .. LEASE_AFTER
            end
        end
    end
    local gone = {}
    if #ids > 0 then
        local fences, targets = call('HMGET', FENCE, unpack(keys)), call('HMGET', TARGETS, unpack(ids))
        for i, id in ipairs(ids) do
            gone[id] = not fences[i] and not targets[i] or nil
        end
    end
    return gone, lines
end

local function blank(entry, score, gone)
    local found = false
    local text = string.gsub(entry, LINE, function(kind, at, id)
        if gone[id] and OF_LEASES[kind] then
            found = true
            return '\n99\t0\t0\t' .. at .. '\t\t\t'
        end
    end)
    if found then
        call('ZREM', FEED, entry)
        call('ZADD', FEED, score, text)
    end
end

publish()
local place, last = ARGV[OUR_ARGUMENTS + 1], ARGV[OUR_ARGUMENTS + 2]
if last == '0' then
    last = whole(cursor)
end
local done = 0
while done < LINES and place ~= last do
    local entries = call('ZRANGEBYSCORE', FEED, '(' .. place, last, 'WITHSCORES', 'LIMIT', '0', whole(SOME))
    local gone, lines = find_forgotten(entries)
    if next(gone) then
        for i = 1, #entries, 2 do
            blank(entries[i], entries[i + 1], gone)
        end
    end
    done = done + lines
    place = #entries == 2 * SOME and entries[#entries] or last
end
return { place, last }
