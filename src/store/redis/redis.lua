-- What Redis does for the records of store/backend.h, each script in one atomic step. They compare, write and number, and
-- decide nothing. redis_records.c, redis_commit.c and redis_scan.c call them.
--
--   tenure:<ns>:records  hash. Fields with a capital are records, by the letter of their kind and the id: N (the
--                        namespace), Q (its quarantine), I (instances), T (targets), L (leases), C (checkpoints). A
--                        record is "version NUL name NUL end NUL number NUL value". The others are `layout`, `number`
--                        (the last that was given: versions, and entries of the feed), `before` (the feed is complete
--                        after this number), `sweep` and `swept` (the search for heartbeats of other programs),
--                        `waited` (for how many replicas)
--   tenure:<ns>:ids      sorted set of all records' fields, all with score 0: in byte order; and of those with a name once
--                        more, with an "n" in front
--   tenure:<ns>:feed     sorted set of "number NUL time NUL id NUL text" by number; announced on the channel of this
--                        name@database
--
-- The end of a record is a time in ms, or "F": it has none. A "k" in front says that it has a plain key, which other
-- programs read, and lives as long as that; the time is what was last known of that. A lease with a name has such a key,
-- with the name as its content; so has an instance with a name, with its number. A lease on a session has one without a
-- TTL, "name TAB session NUMBER", and an end beside. A lease whose key has any other content is another program's. An "i"
-- in front of the end says that a record has lost its name, and is still among those that have one.

-- fragment: EFFECTS

if not redis.REDIS_VERSION_NUM then
    redis.replicate_commands() -- Redis 6 replicates scripts by their effects only when told so
end
local call, find, format, match, sub = redis.call, string.find, string.format, string.match, string.sub

-- fragment: MASTER
-- A replica that takes writes nevertheless (replica-read-only no) would lose them.

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local replication = call('INFO', 'replication')
if not find(replication, 'role:master', 1, true) then
    return redis.error_reply('READONLY this server is a replica')
end

-- fragment: SHOW
-- A record as replies have it: itself, the content of its plain key, and how long that lives; if it has ended, when that was, as
-- far as the heartbeat of its holder tells: that is renewed with its leases.

local function show(reply, record, content, key)
    local size, ends = #reply, 0
    if content then
        ends = call('PTTL', key)
    elseif record then
        local name, own = match(record, '^%d+%z([^%z]+)%zk(%d+)')
        local other = name and call('HGET', KEYS[1], 'I' .. name)
        ends = other and math.max(own, match(other, '^%d+%z[^%z]*%zk?(%d+)') or 0) or 0
    end
    reply[size + 1], reply[size + 2], reply[size + 3] = record, content or false, ends
end

-- fragment: READABLE
-- The namespace may have been written by another version, in another layout.
--
-- KEYS: records, and the epoch of an earlier layout

local space = call('HMGET', KEYS[1], 'N', 'layout', 'before', 'number')
if space[1] and space[2] ~= '3' or not space[1] and call('EXISTS', KEYS[2]) == 1 then
    return redis.error_reply('LAYOUT ' .. (space[2] or 'before 3') .. ', not 3')
end
local reply = { now, match(replication, 'master_replid:(%x+)') }

-- name: READ
-- KEYS: and the plain key of each record (records, if it never has one). ARGV: their fields.
-- Reply: time, replication id; each record

-- use: EFFECTS
-- use: MASTER
-- use: SHOW
-- use: READABLE
local records, contents = call('HMGET', KEYS[1], unpack(ARGV)), call('MGET', unpack(KEYS, 3))
for i = 1, #ARGV do
    show(reply, records[i], contents[i], KEYS[i + 2])
end
return reply

-- name: SCAN
-- KEYS: and ids. ARGV: the first and the last member, as ZRANGEBYLEX has them; how many; "named" or "unnamed", if only
--   those are wanted; what is before and after the id in a plain key, if such records have one.
-- Reply: as that of READ, each with its field in front; at the end the field behind which to go on, or nothing

-- use: EFFECTS
-- use: MASTER
-- use: SHOW
-- use: READABLE
local fields = call('ZRANGEBYLEX', KEYS[3], ARGV[1], ARGV[2], 'LIMIT', '0', ARGV[3])
for i = 1, ARGV[4] == 'named' and #fields or 0 do
    fields[i] = sub(fields[i], 2)
end
if #fields > 0 then
    local records, keys, contents = call('HMGET', KEYS[1], unpack(fields)), {}, {}
    if ARGV[5] then
        for i, field in ipairs(fields) do
            keys[i] = ARGV[5] .. sub(field, 2) .. ARGV[6]
        end
        contents = call('MGET', unpack(keys))
    end
    for i, field in ipairs(fields) do
        local version, flag, rest = match(records[i] or '0', '^(%d+)%z%z(i?)(.*)$')
        local named = contents[i] or records[i] and not version
        if ARGV[4] == 'named' and not named then
            call('ZREM', KEYS[3], 'n' .. field)
            if flag == 'i' then
                call('HSET', KEYS[1], field, version .. '\0\0' .. rest)
            end
        elseif ARGV[4] ~= 'unnamed' or not named then
            reply[#reply + 1] = field
            show(reply, records[i], contents[i], keys[i])
        end
    end
end
reply[#reply + 1] = #fields == tonumber(ARGV[3]) and fields[#fields] or ''
return reply

-- name: FEED
-- KEYS: and feed. ARGV: after which number, how many.
-- Reply: time, replication id, after which number it is complete, the last number; entries

-- use: EFFECTS
-- use: MASTER
-- use: READABLE
local before, number, after = space[3] or '0', space[4] or '0', tonumber(ARGV[1])
reply[3], reply[4] = before, number
if ARGV[2] == '0' or after < tonumber(before) or after > tonumber(number) then
    return reply
end
for _, entry in ipairs(call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[1], '+inf', 'LIMIT', '0', ARGV[2])) do
    reply[#reply + 1] = entry
end
return reply

-- name: UNFEED
-- A step through the feed. KEYS: feed. ARGV: after which number, how many entries, and the ids whose entries go.
-- Reply: where to go on; nothing: it is through

-- use: EFFECTS
local unwanted, gone = {}, {}
for i = 3, #ARGV do
    unwanted[ARGV[i]] = true
end
local entries = call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf', 'LIMIT', '0', ARGV[2])
for _, entry in ipairs(entries) do
    if unwanted[match(entry, '^%d+%z%d+%z([^%z]*)%z')] then
        gone[#gone + 1] = entry
    end
end
if #gone > 0 then
    call('ZREM', KEYS[1], unpack(gone))
end
return #entries == tonumber(ARGV[2]) and match(entries[#entries], '^%d+') or false

-- name: COMMIT
-- KEYS: records, ids, feed; the plain keys of the first records.
-- ARGV: the line of the replication id that the caller relies on; what the namespace's record then has in it (empty: this
--   commit writes it); the number above which those of the feed are; the channel; how many records there are; their
--   fields, the last being N; "number"; then for each change
--     how many checks, writes and entries it has,
--     checks: place of the record; its version (empty: any; 0: it is absent); "alive", "dead", "foreign" or nothing,
--     writes: place; life; TTL; place of the record whose end counts, too (0: none); name; "number NUL value"; content of
--             the plain key (empty: none). Life: R (raised), X (removed), D (dead), F (for ever), T (for the TTL), W
--             (the latest of those that are given), K (and of the end that it has),
--     entries: id, text
-- Reply: time, and the replication id if it is another epoch; else the version of all that was written; then for each
--   change that was not carried out its place, and the records of its checks as READ has them; or its place, negative,
--   and the type of what is where its plain key belongs

-- use: EFFECTS
-- use: MASTER
-- use: SHOW
local count, FOREVER = tonumber(ARGV[5]), 9007199254740991
local records = call('HMGET', KEYS[1], unpack(ARGV, 6, 6 + count))
if not find(replication, ARGV[1], 1, true) or
    ARGV[2] ~= '' and not (records[count] and find(records[count], ARGV[2], 1, true)) then
    return { now, match(replication, 'master_replid:(%x+)') }
end
local contents, listed = {}, {} -- listed: those that are among the ones with a name
for i = 4, #KEYS do
    contents[i - 3] = redis.pcall('GET', KEYS[i])
end

-- "yes", "no", or "type".
local function holds(i, version, life)
    local record, content, present, name, keyed, ends = records[i], contents[i], '0', '', '', '0'
    if record then
        present, name, keyed, ends = match(record, '^(%d+)%z([^%z]*)%z(%l?)([^%z]*)')
        listed[i] = name ~= '' or keyed == 'i'
    end
    if version ~= '' and version ~= present then
        return 'no'
    end
    if content and sub(ARGV[5 + i], 1, 1) == 'L' and not (keyed == 'k' and content == name or
        keyed == '' and name ~= '' and type(content) == 'string' and sub(content, 1, #name + 1) == name .. '\t') then
        return type(content) == 'table' and 'type' or life == 'foreign' and 'yes' or 'no'
    end
    local alive = keyed == 'k' and content or keyed ~= 'k' and (ends == 'F' or tonumber(ends) > now)
    return (life == '' or life == (alive and 'alive' or 'dead')) and 'yes' or 'no'
end

-- All are judged before the first is carried out.
local at, changes, outcomes = 7 + count, {}, {}
while ARGV[at] do
    local writes, outcome = at + 3 + 3 * ARGV[at], 'yes'
    for i = at + 3, writes - 1, 3 do
        if outcome == 'yes' then
            outcome = holds(tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2])
        end
    end
    changes[#changes + 1] = at
    outcomes[#changes] = outcome
    at = writes + 7 * ARGV[at + 1] + 2 * ARGV[at + 2]
end

local function end_of(i)
    local keyed, ends = 'k', '0'
    if records[i] then
        keyed, ends = match(records[i], '^%d+%z[^%z]*%z(%l?)([^%z]*)')
    end
    if keyed == 'k' then
        local left = contents[i] and call('PTTL', KEYS[3 + i]) or -2
        return left == -1 and FOREVER or left > 0 and now + left or 0
    end
    return ends == 'F' and FOREVER or tonumber(ends)
end

local function latest(i, life, ttl, with)
    local ends, other = life == 'K' and end_of(i) or 0, with ~= '0' and end_of(tonumber(with)) or 0
    if other > now and other > ends then
        ends = other
    end
    return ttl ~= '0' and now + ttl > ends and now + ttl or ends
end

-- Versions and the feed have one counter. What a hash that somebody deleted has given never comes again.
local former = tonumber(records[count + 1] or now * 1000)
local number = math.max(former, tonumber(ARGV[3])) + 1
local version = format('%d', number)
local last = version
local puts, added, entries = {}, {}, {}

local function write(at)
    local i, life, ttl, name, content = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 4], ARGV[at + 6]
    local field, record = ARGV[5 + i], records[i]
    if life == 'R' then
        if record then
            puts[#puts + 1] = field
            puts[#puts + 1] = version .. sub(record, (find(record, '\0', 1, true)))
        end
        return
    end
    local ends = life == 'T' and now + ttl or life == 'D' and now or life == 'F' and FOREVER or life == 'X' and 0 or
        latest(i, life, ttl, ARGV[at + 3])
    local attached = content ~= name and sub(field, 1, 1) == 'L'
    if content ~= '' and (attached or ends == FOREVER) then
        call('SET', KEYS[3 + i], content)
    elseif content ~= '' and ends > now then
        call('SET', KEYS[3 + i], content, 'PX', life == 'T' and ttl or ends - now)
    elseif contents[i] then
        call('DEL', KEYS[3 + i])
    end
    if life == 'X' then
        call('HDEL', KEYS[1], field)
        call('ZREM', KEYS[2], field, 'n' .. field)
        return
    end
    local flag = content ~= '' and not attached and 'k' or name == '' and listed[i] and 'i' or ''
    puts[#puts + 1] = field
    puts[#puts + 1] = version .. '\0' .. name .. '\0' .. flag .. (ends == FOREVER and 'F' or ends) .. '\0' .. ARGV[at + 5]
    if not record then
        added[#added + 1] = 0
        added[#added + 1] = field
    end
    if name ~= '' and not listed[i] then
        added[#added + 1] = 0
        added[#added + 1] = 'n' .. field
    end
end

local reply, carried_out = { now, number }, false
for place, at in ipairs(changes) do
    local writes = at + 3 + 3 * ARGV[at]
    if outcomes[place] == 'yes' then
        carried_out = true
        local told = writes + 7 * ARGV[at + 1]
        for i = writes, told - 1, 7 do
            write(i)
        end
        for i = told, told + 2 * ARGV[at + 2] - 1, 2 do
            last = #entries == 0 and version or format('%d', number + #entries / 2)
            entries[#entries + 1] = last
            entries[#entries + 1] = last .. '\0' .. now .. '\0' .. ARGV[i] .. '\0' .. ARGV[i + 1]
        end
    elseif outcomes[place] == 'type' then
        reply[#reply + 1] = -place
        for i, content in ipairs(contents) do
            if type(content) == 'table' then
                reply[#reply + 1] = redis.pcall('TYPE', KEYS[3 + i]).ok or 'value' -- the user may lack the permission
                break
            end
        end
    else
        reply[#reply + 1] = place
        for i = at + 3, writes - 1, 3 do
            local record = tonumber(ARGV[i])
            show(reply, records[record], type(contents[record]) == 'string' and contents[record], KEYS[3 + record])
        end
    end
end
if not carried_out then
    return reply
end
if ARGV[2] == '' then
    puts[#puts + 1] = 'layout'
    puts[#puts + 1] = 3
end
call('HSET', KEYS[1], 'number', last, unpack(puts))
if #added > 0 then
    call('ZADD', KEYS[2], unpack(added))
end
if #entries == 0 then
    return reply
end
call('ZADD', KEYS[3], unpack(entries))
redis.pcall('PUBLISH', ARGV[4], version) -- without the permission others are not woken, and nobody loses more by it

-- The feed is trimmed in blocks of 500: to 250,000 entries, to 10,000 that are older than a minute, and after 30 days.
for _ = 1, math.floor(last / 500) > math.floor(former / 500) and 4 or 0 do
    local size, newest = call('ZCARD', KEYS[3]), call('ZRANGE', KEYS[3], '499', '499')[1]
    local before, told = match(newest or '', '^(%d+)%z(%d+)')
    local age = told and now - told or 0
    if age <= 2592000000 and (size < 10500 or age <= 60000 and size <= 250000) then
        break
    end
    call('ZREMRANGEBYRANK', KEYS[3], '0', '499')
    call('HSET', KEYS[1], 'before', before)
end
return reply

-- name: TOUCH
-- Extends records of one name by one TTL.
--
-- KEYS: records; their plain keys. ARGV: as for COMMIT the replication id and the namespace; the TTL, the name, how many;
--   their fields; with what each begins if it is as the caller knows it and has a plain key (empty: of any version).
-- Reply: time, and the replication id if it is another epoch; else for each that is not so, or of any version: its
--   place, whether it was extended, and its version (0: it is absent)

-- use: EFFECTS
-- use: MASTER
local name, count = ARGV[4], tonumber(ARGV[5])
local records = call('HMGET', KEYS[1], 'N', unpack(ARGV, 6, 5 + count))
if not find(replication, ARGV[1], 1, true) or not (records[1] and find(records[1], ARGV[2], 1, true)) then
    return { now, match(replication, 'master_replid:(%x+)') }
end
local contents = call('MGET', unpack(KEYS, 2))
local later, can_compare = format('%d', now + ARGV[3]), redis.REDIS_VERSION_NUM

-- Never to an earlier end. Redis 6 cannot say that in one command.
local function extend(key)
    if can_compare then
        call('PEXPIREAT', key, later, 'GT')
    else
        local left = call('PTTL', key)
        if left >= 0 and left < tonumber(ARGV[3]) then
            call('PEXPIREAT', key, later)
        end
    end
end

local function touch(i, known)
    local record, content = records[i + 1], contents[i]
    if not record then
        return 0, '0'
    end
    local version, present, keyed, ends, rest = match(record, '^(%d+)%z([^%z]*)%z(%l?)([^%z]*)(%z.*)$')
    local alive = keyed == 'k' and content or keyed ~= 'k' and (ends == 'F' or tonumber(ends) > now)
    local foreign = keyed == 'k' and content ~= name and sub(ARGV[5 + i], 1, 1) == 'L'
    if not alive or foreign or present ~= name or known ~= '' and match(known, '^%d+') ~= version then
        return 0, version
    end
    if keyed == 'k' then
        extend(KEYS[i + 1])
    end
    if ends ~= 'F' and tonumber(ends) < tonumber(later) then
        call('HSET', KEYS[1], ARGV[5 + i], version .. '\0' .. name .. '\0' .. keyed .. later .. rest)
    end
    return 1, version
end

local reply = { now }
for i = 1, count do
    local record, known = records[i + 1], ARGV[5 + count + i]
    if known ~= '' and contents[i] == name and record and sub(record, 1, #known) == known then
        extend(KEYS[i + 1])
    else
        local size = #reply
        reply[size + 1] = i
        reply[size + 2], reply[size + 3] = touch(i, known)
    end
end
return reply

-- name: SWEEP
-- One step through the keyspace for heartbeats that another program wrote. The fleet shares one cursor and takes one step a
-- second, so that a pass costs the server the same however many instances there are.
--
-- KEYS: records. ARGV: the pattern of a heartbeat's key for SCAN; what is before and after the instance in it; how many
--   keys to look at; the time between two steps in ms.
-- Reply: the policy by which the server evicts keys, and for each instance that has no record its name and weight; or
--   nothing, if it is not time yet

-- use: EFFECTS
-- use: MASTER
local state = call('HMGET', KEYS[1], 'sweep', 'swept')
local ago = now - (state[2] or 0)
if ago >= 0 and ago < tonumber(ARGV[5]) then
    return false
end
local found = call('SCAN', state[1] or '0', 'MATCH', ARGV[1], 'COUNT', ARGV[4])
call('HSET', KEYS[1], 'sweep', found[1], 'swept', format('%d', now))
local reply = { match(call('INFO', 'memory'), 'maxmemory_policy:([%w-]+)') or '' }
for _, key in ipairs(found[2]) do
    local instance = sub(key, #ARGV[2] + 1, #key - #ARGV[3])
    local weight = call('MGET', key)[1]
    if weight and instance ~= '' and #instance < 256 and not find(instance, '[%c%z]') and call('PTTL', key) > 0 and
        call('HEXISTS', KEYS[1], 'I' .. instance) == 0 then
        reply[#reply + 1] = instance
        reply[#reply + 1] = weight
    end
end
return reply

-- name: EXCHANGED
-- SWAPDB exchanges databases as often as it is asked to. Before a namespace begins, whatever says that it is this one and
-- lies in another database is marked: when it comes back, an epoch has to begin. A user who may not SELECT does not look.
--
-- KEYS: records. ARGV: the number of the database, the identity. Reply: 1 if there is such, else 0

-- use: EFFECTS
local moved, exchanged = false, 0
for other in string.gmatch(call('INFO', 'keyspace'), 'db(%d+):') do
    if other ~= ARGV[1] and not redis.pcall('SELECT', other).err then
        moved = true
        local record = redis.pcall('HGET', KEYS[1], 'N')
        local from = find(type(record) == 'string' and record or '', ARGV[2], 1, true)
        if from then
            call('HSET', KEYS[1], 'N', sub(record, 1, from - 1) .. 'was ' .. sub(record, from))
            exchanged = 1
        end
    end
end
if moved then
    call('SELECT', ARGV[1])
end
return exchanged
