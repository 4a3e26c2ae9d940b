-- name: CHANGES
-- The entries of the feed after a cursor. It reads only, and has no prelude.
--
-- KEYS: epoch, feed. ARGV: cursor, how many entries at most, whether entries of any epoch will do. Reply: {cursor of the last change, entries...}, or a number
--   alone: changes were missed; 1: because the cursor is not of this epoch, 0: because the feed is not that long.

local call = redis.call
local EPOCH, FEED = unpack(KEYS)
local cursor = tonumber(ARGV[1])
local record = call('HMGET', EPOCH, 'cursor', 'first')
local last, first = tonumber(record[1]) or 0, tonumber(record[2]) or 0
local epoch = cursor > last or cursor < first
local oldest = call('ZRANGE', FEED, '0', '0', 'WITHSCORES')
if oldest[1] then
    local _, lines = string.gsub(oldest[1], '\n', '')
    first = math.max(first, tonumber(oldest[2]) - lines)
else
    first = math.max(first, last)
end
if ARGV[3] == '0' and (cursor > last or cursor < first) then
    return epoch and 1 or 0
end
return { last, unpack(call('ZRANGEBYSCORE', FEED, '(' .. ARGV[1], '+inf', 'LIMIT', '0', ARGV[2])) }
