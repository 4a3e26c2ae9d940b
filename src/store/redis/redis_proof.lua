-- name: PROOF
-- What the lean scripts start with (redis_lean.lua, redis_lean_run.lua, redis_lean_beat.lua): the usual situation is proved, or the call is
-- left to redis_apply.lua. Usual: the epoch is known and has no quarantine, and nobody wants any lease of the namespace to
-- end. The answer is FULL otherwise, before anything is written.
--
-- A master has a new replication id after every start and every promotion, and the epoch has that under which it began.
-- Only numbers, strings and few tables are made here and in what follows: to Lua each costs more than a command to Redis.
--
-- KEYS[1..8]  epoch, fence, held, marks, feed, gone, ids, checkpoint (see redis_prelude.lua); then the leases' keys
-- ARGV[1..5]  kind ("acquire checkpoint": if there is one, it is wanted), holder ("": not given), ttl, the pattern of the leases' keys (":before*after"), the number of the
--             database; then the script's

if not redis.REDIS_VERSION_NUM then
    redis.replicate_commands() -- Redis 6 replicates scripts by their effects only when told so
end

local call, sub, find, format = redis.call, string.sub, string.find, string.format
local kind, holder, ttl = ARGV[1], ARGV[2], ARGV[3]
local record = call('HMGET', KEYS[1], 'server', 'database', 'provisional', 'began', 'ttl', 'floor', 'cursor', 'trimmed',
    'layout')
local replication = call('INFO', 'replication')
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local server = record[1] and sub(record[1], 42, 81) or '-' -- behind the run id

-- FULL says what is wrong with a replica, and with another layout.
if not find(replication, 'role:master', 1, true) or not find(replication, 'master_replid:' .. server, 1, true) or
    sub(record[1], 82) ~= ARGV[4] or record[2] ~= ARGV[5] or record[3] ~= '0' or record[9] ~= '2' then
    return redis.status_reply('FULL')
end
if record[4] ~= '0' then
    local since = now - record[4]
    if since < 0 or since < tonumber(record[5]) or since < tonumber(ttl) then
        return redis.status_reply('FULL')
    end
end
local others = call('EXISTS', KEYS[4], KEYS[6], KEYS[8]) -- marks, tombstones, checkpoints: usually there are none
if others > 0 and (call('EXISTS', KEYS[4]) == 1 or
    (kind == 'acquire checkpoint' and call('EXISTS', KEYS[8]) == 1)) then
    return redis.status_reply('FULL')
end
-- The full script trims the feed: once an hour because of what is old, and while there is too much until the rest is young.
if kind ~= 'renew' and kind ~= 'announce' then
    local trimmed = now - (record[8] or 0)
    if trimmed < 0 or trimmed > 3600000 or (trimmed > 1000 and call('ZCARD', KEYS[5]) > 10000) then
        return redis.status_reply('FULL')
    end
end
