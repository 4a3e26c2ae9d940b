-- name: CHANGES
-- The entries of the feed after a cursor. It reads only, and has no prelude.
--
-- KEYS: epoch, feed. ARGV: cursor, how many changes are wanted, how many entries at most, whether entries of any epoch
--   will do. Reply: {cursor of the last change, entries...}, or a number alone: changes were missed; 1: because the
--   cursor is not of this epoch, 0: because the feed is not that long.

local call = redis.call
local EPOCH, FEED = unpack(KEYS)
local cursor, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local record = call('HMGET', EPOCH, 'cursor', 'first')
local last, first = tonumber(record[1]) or 0, tonumber(record[2]) or 0

-- Whether changes after the cursor have left the feed. Not if an entry at the cursor, or before it, is still there.
local function has_missed()
    if cursor == last or call('ZCOUNT', FEED, '-inf', ARGV[1]) > 0 then
        return false
    end
    local oldest = call('ZRANGE', FEED, '0', '0', 'WITHSCORES')
    if not oldest[1] then
        return true
    end
    local _, lines = string.gsub(oldest[1], '\n', '')
    return cursor < tonumber(oldest[2]) - lines
end

if ARGV[4] == '0' then
    if cursor > last or cursor < first then
        return 1
    elseif has_missed() then
        return 0
    end
end
-- An entry stands under the cursor of its last change. Those that lie within what is wanted, or else the next one.
local entries = call('ZRANGEBYSCORE', FEED, '(' .. ARGV[1], string.format('%.0f', cursor + wanted), 'LIMIT', '0', ARGV[3])
if #entries == 0 then
    entries = call('ZRANGEBYSCORE', FEED, '(' .. ARGV[1], '+inf', 'LIMIT', '0', '1')
end
return { last, unpack(entries) }
