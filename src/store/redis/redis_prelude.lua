-- name: PRELUDE
-- What every script that changes something starts with: the names of the keys, the time, the epoch, and the feed. The
-- client puts it in front of the script itself, and Redis runs both as one atomic step.
--
-- KEYS[1..13]  our own keys of the namespace, in the order below; then the script's
-- ARGV[1..8]   the texts before and after the id in a lease's key, the same for an instance's key, whether a store without
--              an epoch may be taken for a new one, the number of the database, how many replicas the caller waits
--              for, and "session" if the leases of instances hang on their sessions, else "key"; then the script's
--
--   tenure:<ns>:epoch      hash: layout (of all these keys), server and database (whose epoch this is), began (ms), provisional (0, or when a caller
--                          that waits for replicas was last here, while none has confirmed the epoch), ttl (the longest
--                          that was shown meanwhile), floor (no token is lower), cursor (of the last change), first
--                          (cursor when it began), sweep and swept (the search for instances, and when it went on), wipe,
--                          forgotten (the highest token that was forgotten), aged (the search for what can be forgotten),
--                          trimmed (when nothing in the feed was too old), session (the number of the last one that began; absent
--                          if no session is remembered)
--   tenure:<ns>:fence      hash: lease key -> "token ttl" of the last grant; it is the token counter, kept until forgotten
--   tenure:<ns>:held       hash: lease key -> "acquired_at holder", until it is released
--   tenure:<ns>:marks      hash: lease key -> "token barred ask", for leases that somebody wants to end; usually absent
--   tenure:<ns>:feed       sorted set of the last changes by cursor; they are announced on the channel of this name@database
--   tenure:<ns>:nodes      sorted set: instance, by the time when its heartbeat ends
--   tenure:<ns>:instances  hash: instance -> "ttl since ask metadata"
--   tenure:<ns>:gone       sorted set of tombstones: instance, by their end; those of the last hour are kept
--   tenure:<ns>:ids        sorted set of every id that is registered or was leased, all with score 0: in byte order
--   tenure:<ns>:targets    hash: id -> "+" or "-" (paused) and its description in JSON
--   tenure:<ns>:idle       hash: lease key -> "token since": when it was first seen free and unregistered under that token
--   tenure:<ns>:checkpoint hash: lease key -> "token value": what a holder keeps beside its lease, kept until forgotten
--   tenure:<ns>:sessions   hash: instance -> "number ends ttl version" of its session (see redis_session.lua), kept for an
--                          hour after its end; number 0: the instance has none, but a URL with leases=session

-- Redis 6 replicates scripts by their effects only when told so; later ones always do.
if redis.replicate_commands then
    redis.replicate_commands()
end

local call, match, concat, find = redis.call, string.match, table.concat, string.find
local EPOCH, FENCE, HELD, MARKS, FEED, NODES, INSTANCES, GONE, IDS, TARGETS, IDLE, CHECKPOINT, SESSIONS =
    unpack(KEYS, 1, 13)
local OUR_KEYS, OUR_ARGUMENTS, LAYOUT = 13, 8, 2
local LEASE_BEFORE, LEASE_AFTER, NODE_BEFORE, NODE_AFTER, FRESH, DATABASE, REPLICAS, MODE = unpack(ARGV, 1, 8)
local TOKEN_MAX = 9007199254740991
local FEED_MAX, FEED_MOST = 10000, 250000
local FEED_YOUNG = 60000 -- milliseconds
local FEED_AGE = 2592000000 -- 30 days
local OLD_MAX = 32 -- entries that one call drops because of their age
local NOTICE_MAX = 4096

-- The numbers of store.h.
local ERROR, OK, LEASE_HELD, LOST, UNKNOWN = 0, 1, 2, 3, 4
local NO_REASON, FORCED, EXPIRED = 0, 5, 8
local LEASE_ACQUIRED, LEASE_RELEASED, LEASE_LOST = 0, 1, 2
local INSTANCE_JOINED, INSTANCE_CHANGED, INSTANCE_LEFT = 3, 4, 5
local TARGET_ADDED, TARGET_CHANGED, TARGET_REMOVED = 6, 7, 8
local STORE_RECOVERING, LEASE_ASKED = 9, 10
-- Of a detailed reply.
local BARRED, RECOVERING, REGISTERED, PAUSED = 1, 2, 4, 8

-- A number as Redis is to store it: Lua would write a long one with an exponent.
local function whole(number)
    return string.format('%.0f', number)
end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_text = whole(now)

-- A change is a line with tabs between its fields. A name that has such characters is a hostile one, but data.
local function escape(text)
    if not find(text, '[%z\t\n\\]') then
        return text
    end
    return (string.gsub(string.gsub(text, '%z', '?'), '[\t\n\\]',
        { ['\t'] = '\\t', ['\n'] = '\\n', ['\\'] = '\\\\' }))
end

local events = {}
local function tell(kind, reason, token, target, instance, actor, at_text)
    target, instance, actor = escape(target), escape(instance), escape(actor)
    events[#events + 1] = concat({ kind, reason, token, at_text or now_text, target, instance, actor }, '\t')
end

-- The epoch. The server's name is its run id, which is new at every start, with its replication id, which is new at
-- every promotion: a server that was demoted, took over another's older data and was promoted again has its old run id.
-- The keys' pattern belongs to it, too, because leases under other keys are as good as forgotten; and the database,
-- because SWAPDB exchanges two of them.
local began, longest, floor, cursor, first
local forgotten -- the highest token that was forgotten
local provisional = false -- the quarantine has not begun
local kept_began -- as it is in the epoch's record

-- Something may have been forgotten: newcomers wait from now on. With replicas the quarantine begins when they have
-- confirmed a write of this epoch (CONFIRM). Until then a former master may still have them, and grant and renew.
local function begin_epoch(server)
    began, kept_began, longest = now, now, 0
    provisional = REPLICAS ~= '0'
    -- What was granted in this very millisecond may be forgotten, too.
    floor = math.max(floor, now + 1)
    cursor = math.max(cursor, now * 1000)
    first = cursor
    call('HSET', EPOCH, 'layout', LAYOUT, 'server', server, 'database', DATABASE, 'began', now_text,
        'provisional', provisional and now_text or '0', 'ttl', '0', 'floor', whole(floor), 'cursor', whole(cursor),
        'first', whole(first))
    tell(STORE_RECOVERING, NO_REASON, '0', '', '', '')
end

-- SWAPDB exchanges databases as often as it is asked to. What was here before lies in another database now, and says that
-- it is this one: when it comes back, an epoch has to begin. Returns whether there was something. A user who may not
-- SELECT does not look.
local function bar_exchanged()
    local found, moved = false, false
    for number in string.gmatch(call('INFO', 'keyspace'), 'db(%d+):') do
        if number ~= DATABASE and not redis.pcall('SELECT', number).err then
            moved = true
            if redis.pcall('HGET', EPOCH, 'database') == DATABASE then
                call('HSET', EPOCH, 'server', 'exchanged')
                found = true
            end
        end
    end
    if moved then
        call('SELECT', DATABASE)
    end
    return found
end

-- Nobody has ever held a lease here, says the caller: it grants at once, from now on.
local function begin_fresh(server)
    began, kept_began, longest = 0, 0, 0
    floor, cursor = math.max(floor, now), math.max(cursor, now * 1000)
    first = cursor
    call('HSET', EPOCH, 'layout', LAYOUT, 'server', server, 'database', DATABASE, 'began', '0', 'provisional', '0',
        'ttl', '0', 'floor', whole(floor), 'cursor', whole(cursor), 'first', whole(first))
end

-- From now on nobody else has the replicas. Tokens that a former master granted until now are below the floor.
local function confirm_epoch()
    began, kept_began, provisional = now, now, false
    floor = math.max(floor, now + 1)
    call('HSET', EPOCH, 'began', now_text, 'provisional', '0', 'floor', whole(floor))
end

local server
do
    local record = call('HMGET', EPOCH, 'server', 'began', 'ttl', 'floor', 'cursor', 'first', 'database', 'provisional',
        'forgotten', 'session', 'layout')
    local replication = call('INFO', 'replication')
    -- One that takes writes nevertheless (replica-read-only no) would lose them to its master.
    if not find(replication, 'role:master', 1, true) then
        return redis.error_reply('READONLY this server is a replica')
    end
    local layout = record[1] and tonumber(record[11] or 1) or LAYOUT
    if layout ~= LAYOUT then
        -- Written by another version. FRESH says that nobody uses it: what an earlier one wrote is removed.
        if layout > LAYOUT or FRESH ~= 'fresh' then
            return redis.error_reply('LAYOUT the layout of its records is ' .. layout .. ', not ' .. LAYOUT)
        end
        call('DEL', unpack(KEYS, 1, OUR_KEYS))
        record = {}
    end
    replication = match(replication, 'master_replid:(%x+)')
    server = match(call('INFO', 'server'), 'run_id:(%x+)') .. ':' .. replication .. ':' ..
        LEASE_BEFORE .. '*' .. LEASE_AFTER
    began, longest = tonumber(record[2]) or 0, tonumber(record[3]) or 0
    kept_began = began
    floor, cursor, first = tonumber(record[4]) or 0, tonumber(record[5]) or 0, tonumber(record[6]) or 0
    forgotten = tonumber(record[9]) or 0
    local seen = tonumber(record[8]) or 0
    if record[1] ~= server or record[7] ~= DATABASE then
        -- Something was forgotten, or nothing was ever known: these look the same from here. FRESH says that it is the
        -- latter.
        if bar_exchanged() or record[1] or FRESH ~= 'fresh' then
            begin_epoch(server)
        else
            begin_fresh(server)
        end
    else
        if record[10] and call('EXISTS', SESSIONS) == 0 then
            -- The sessions were deleted, on which leases hang: their holders put them back.
            call('HDEL', EPOCH, 'session')
            begin_epoch(server)
        end
        if now < began then
            began, kept_began = now, now -- the server's clock was set back
            call('HSET', EPOCH, 'began', now_text)
        end
        if seen > 0 then
            provisional = true
            if REPLICAS ~= '0' then
                call('HSET', EPOCH, 'provisional', now_text)
            elseif now - seen > math.max(longest, 60000) or now < seen then
                confirm_epoch() -- nobody waits for replicas any more
            end
            began = now
        end
    end
end

-- How long newcomers with that TTL still wait, because a lease of such a length may have been forgotten; 0: no more.
local function recovering(ttl)
    -- Nobody has shown a TTL yet, so nobody was let in: a lease that is kept can be put back, and makes nobody wait.
    if began > 0 and longest == 0 and ttl == 0 then
        return 1
    end
    local length = math.max(longest, ttl)
    if began == 0 or now - began >= length then
        return 0
    end
    -- What counts for everybody is what was shown while newcomers had to wait anyway; later it is only the asker's own.
    if ttl > longest and (longest == 0 or now - began < longest) then
        longest = ttl
        call('HSET', EPOCH, 'ttl', whole(ttl))
    end
    return math.min(length, began + length - now)
end

-- How long somebody else may still believe in a lease of that TTL, because an epoch has begun; 0: no more. It shows no
-- TTL to others, and ends also where nobody has shown one.
local function unsettled(ttl)
    local length = math.max(longest, ttl)
    return began > 0 and now - began < length and began + length - now or 0
end

-- The feed keeps FEED_MAX changes, and what is younger than FEED_YOUNG up to FEED_MOST: at the start of a large fleet
-- nobody can read as fast as all write. The time of an entry is that of its last line: a loss has that of the lease's
-- end, but never stands last. The cursor leaps when an epoch begins; what came before stays until the present epoch has
-- as many changes.
local function trim_feed()
    local entries = call('ZCARD', FEED)
    if cursor - first >= FEED_MOST then
        call('ZREMRANGEBYSCORE', FEED, '-inf', whole(cursor - FEED_MOST))
    elseif entries > FEED_MOST then
        call('ZREMRANGEBYRANK', FEED, '0', whole(entries - FEED_MOST - 1))
    end
    for removed = 0, OLD_MAX - 1 do
        local oldest = call('ZRANGE', FEED, '0', '0', 'WITHSCORES')
        local at = tonumber(match(oldest[1] or '', '.*\n%d+\t%d+\t%d+\t(%d+)\t'))
        local is_surplus = entries - removed > FEED_MAX or
            (cursor - first >= FEED_MAX and tonumber(oldest[2] or '0') <= cursor - FEED_MAX)
        if not at or at >= now - (is_surplus and FEED_YOUNG or FEED_AGE) then
            call('HSET', EPOCH, 'trimmed', now_text)
            return
        end
        call('ZREM', FEED, oldest[1])
    end
end

-- Puts the changes into the feed and wakes those who wait for them. A call is one entry, however many changes it has.
local function publish()
    if #events == 0 then
        return
    end
    cursor = cursor + #events
    local text = whole(cursor)
    call('HSET', EPOCH, 'cursor', text)
    local entry = text .. '\n' .. concat(events, '\n')
    call('ZADD', FEED, text, entry)
    trim_feed()
    -- A small one tells what changed: those who hear it need not ask.
    -- The channel is the feed's name with the database, because channels are not a database's own. A user without the
    -- permission costs others the notice, and nobody the lease.
    redis.pcall('PUBLISH', FEED .. '@' .. DATABASE, #entry <= NOTICE_MAX and entry or text)
end
