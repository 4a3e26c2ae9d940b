-- Scripts for the records of store/backend.h. Each is one atomic step. They compare, write and number records, and
-- decide nothing. redis_records.c, redis_commit.c and redis_scan.c call them.
--
--   tenure:<ns>:records  hash. Fields with a capital are records, by the letter of their kind and the id: N (the
--                        namespace), Q (its quarantine), I (instances), T (targets), L (leases), C (checkpoints). The
--                        others are `layout`, `number` (the last that was given: versions, and entries of the feed; and
--                        how many entries there have ever been), `before` (the feed is complete after this number),
--                        `sweep` and `swept` (the search for heartbeats of other programs), `waited` (for how many
--                        replicas)
--   tenure:<ns>:ids      sorted set of all records' fields, all with score 0: in byte order. Those with the letters
--                        k, n and i have an "n" in front
--   tenure:<ns>:feed     sorted set: for each commit with entries one member, with its last number as the score: "first
--                        number NUL time NUL entries before it", and for each entry "NUL id NUL text", both empty if
--                        it was taken out. Announced on the channel of this name@database
--
-- A record is its version (16 digits), a letter, its end (13 digits), and "name NUL number NUL value". Letters: "k": it
-- has a plain key, which other programs read, and lives as long as that; the end is what was last known of that. A
-- lease with a name has such a key, with the name as its content; so has an instance with a name, with its number. "n":
-- it has a name, but no such key. A lease on a session has one without a TTL, "name TAB session NUMBER", and an end
-- beside. A lease whose key has any other content is another program's; but the key of a lease on a session that has no
-- record is what somebody left who deleted records, and is nothing. "i": it has lost its name, and is still among those
-- that have one. "-": neither.

-- fragment: EFFECTS

if not redis.REDIS_VERSION_NUM then
    redis.replicate_commands() -- Redis 6 replicates scripts by their effects only when told so
end
local KEYS, ARGV, call = KEYS, ARGV, redis.call
local byte, find, format, match, sub = string.byte, string.find, string.format, string.match, string.sub
local FOREVER, ENDED_LONG_AGO = '9999999999999', '0000000000000'

-- fragment: MASTER
-- A replica that takes writes nevertheless (replica-read-only no) would lose them.

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_text = format('%d', now)
local replication = call('INFO', 'replication')
if not find(replication, 'role:master', 1, true) then
    return redis.error_reply('READONLY this server is a replica')
end

-- fragment: LETTERS

local LEASE = 76 -- first byte of its field: L
local KEYED, NAMED, UNNAMED = 107, 110, 45 -- a record's letter as a byte: k, n, -

-- fragment: RECORD

local function name_of(record)
    return match(record, '^[^%z]*', 31)
end

-- fragment: SHOW
-- Adds a record to a reply: itself, the content of its plain key, and how long that lives. If it has ended: when, as
-- far as the heartbeat of its holder shows, which is renewed with its leases.

local function show(reply, record, content, key)
    local size, ends = #reply, 0
    if content then
        ends = call('PTTL', key)
    elseif record and sub(record, 17, 17) == 'k' and sub(record, 18, 30) ~= FOREVER then
        local other = call('HGET', KEYS[1], 'I' .. name_of(record))
        local beaten = other and sub(other, 18, 30)
        ends = other and math.max(sub(record, 18, 30), beaten ~= FOREVER and beaten or 0) or 0
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
local reply = { now_text, match(replication, 'master_replid:(%x+)') }

-- name: READ
-- KEYS: and the plain key of each record (records, if it never has one). ARGV: their fields.
-- Reply: time, replication id; each record

-- use: EFFECTS
-- use: MASTER
-- use: RECORD
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
-- use: RECORD
-- use: SHOW
-- use: READABLE
if space[1] and #call('ZRANGEBYLEX', KEYS[3], '[nN', '[nN') == 0 then -- somebody has deleted the index
    local all = call('HGETALL', KEYS[1])
    for i = 1, #all, 2 do
        if find(all[i], '^%u') then
            call('ZADD', KEYS[3], '0', sub(all[i + 1], 17, 17) == '-' and all[i] or 'n' .. all[i])
        end
    end
end
local limit, fields = tonumber(ARGV[3]), {}
local others = ARGV[4] == 'named' and {} or call('ZRANGEBYLEX', KEYS[3], ARGV[1], ARGV[2], 'LIMIT', '0', limit)
local first, last = sub(ARGV[1], 1, 1) .. 'n' .. sub(ARGV[1], 2), sub(ARGV[2], 1, 1) .. 'n' .. sub(ARGV[2], 2)
local listed = call('ZRANGEBYLEX', KEYS[3], first, last, 'LIMIT', '0', limit)

-- Both in one order. Lua compares as the server's locale says.
local function is_before(a, b)
    local at = 1
    while at <= #a and byte(a, at) == byte(b, at) do
        at = at + 1
    end
    return (byte(a, at) or -1) < (byte(b, at) or -1)
end
local from_listed, from_others = 1, 1
while #fields < limit and (listed[from_listed] or others[from_others]) do
    local field, other = listed[from_listed] and sub(listed[from_listed], 2), others[from_others]
    if field and not (other and is_before(other, field)) then
        fields[#fields + 1], from_listed = field, from_listed + 1
    else
        fields[#fields + 1], from_others = other, from_others + 1
    end
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
        local flag = records[i] and sub(records[i], 17, 17)
        local named = contents[i] or flag == 'k' or flag == 'n'
        if ARGV[4] == 'named' and not named then
            call('ZREM', KEYS[3], 'n' .. field)
            if flag == 'i' then
                call('ZADD', KEYS[3], '0', field)
                call('HSET', KEYS[1], field, sub(records[i], 1, 16) .. '-' .. sub(records[i], 18))
            end
        elseif ARGV[4] ~= 'unnamed' or not named then
            reply[#reply + 1] = field
            show(reply, records[i], contents[i], keys[i])
        end
    end
end
reply[#reply + 1] = #fields == limit and fields[#fields] or ''
return reply

-- name: FEED
-- KEYS: and feed. ARGV: after which number, how many commits.
-- Reply: time, replication id, after which number it is complete, the last number; members of the feed

-- use: EFFECTS
-- use: MASTER
-- use: READABLE
local before, number, after = space[3] or '0', sub(space[4] or '0', 1, 16), tonumber(ARGV[1])
reply[3], reply[4] = before, number
if ARGV[2] == '0' or after < tonumber(before) or after > tonumber(number) then
    return reply
end
for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[1], '+inf', 'LIMIT', '0', ARGV[2])) do
    reply[#reply + 1] = member
end
return reply

-- name: UNFEED
-- A step through the feed. KEYS: feed. ARGV: after which number, how many commits, and the ids whose entries go.
-- Reply: where to go on; nothing: it is through

-- use: EFFECTS
local unwanted = {}
for i = 3, #ARGV do
    unwanted[ARGV[i]] = true
end
local commits = call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', '0', ARGV[2])
for i = 1, #commits, 2 do
    local head, entries = match(commits[i], '^(%d+%z%d+%z%d+)(.*)$')
    local kept = entries and string.gsub(entries, '%z([^%z]*)%z[^%z]*', function(id)
        return unwanted[id] and '\0\0' or nil
    end)
    if kept ~= entries then
        call('ZREM', KEYS[1], commits[i])
        call('ZADD', KEYS[1], commits[i + 1], head .. kept)
    end
end
return #commits == 2 * ARGV[2] and commits[#commits] or false

-- name: COMMIT
-- KEYS: records, ids, feed; the plain keys of leases, then those of instances.
-- ARGV: the line of the replication id that the caller relies on; what the namespace's record then has as its name and
--   number (empty: this commit writes it); the channel; the number above which those of the feed are; the plan; the
--   fields of all records that it is about, in the order of their plain keys; and the words that the plan asks for.
-- The plan is bytes: how many records there are, and how many of them leases; for each record a letter for its version
--   and one for its life, as below (word: the version, if it has to be that); then for each change
--     how many checks, writes and entries it has; the places of its checks' records,
--     writes: the place of the record; a letter for its life; the place of another record, or 0; a letter for its plain
--       key; which words there are: 1 a content, 2 a TTL, 3 both. Words, unless it is raised or removed: "name NUL
--       number NUL value"; the content of its plain key, and the TTL on which its life depends, unless they are those
--       of the last write that had one,
--     entries. Words: "id NUL text".
--   A place has two bytes, and so have the numbers of records.
-- Reply: "time version" of all that was written. If something was not: time, and the replication id if it is another
--   epoch; else nothing, and the version; then for each change that was not carried out its place, and the records of
--   its checks as READ has them; or its place, negative, and the type of what is where its plain key belongs

-- use: EFFECTS
-- use: MASTER
-- use: LETTERS
local EXACT, ABSENT = 69, 90 -- E, Z; else it may have any version
local ALIVE, DEAD, FOREIGN, EITHER = 97, 100, 102, 45 -- a, d, f, -
local RAISED, REMOVED = 82, 88 -- R, X
local ENDED, ENDLESS, FOR_TTL, KEEPS = 68, 70, 84, 75 -- D, F, T; K: the latest of the TTL, the other's end and its own
-- Else W: the latest of the TTL and the other's end. Plain keys: k, as the record's letter; s: of a lease on a session;
-- n and -, without a key, as the record's letter.
local ON_SESSION = 115 -- s

local relied, least, plan = ARGV[2], ARGV[4], ARGV[5]
local high, low, high_leases, low_leases = byte(plan, 1, 4)
local count, leases = high * 256 + low, high_leases * 256 + low_leases
local records = call('HMGET', KEYS[1], 'N', 'number', unpack(ARGV, 6, 5 + count))
local space, counter = records[1], records[2]
if not find(replication, ARGV[1], 1, true) or relied ~= '' and not (space and find(space, relied, 31, true) == 31) then
    return { now_text, match(replication, 'master_replid:(%x+)') }
end

-- All are judged before the first is carried out. `refused` has those of which the check does not hold.
local at, word, contents, refused = 5, 6 + count, {}, nil
if leases > 4 then
    contents = call('MGET', unpack(KEYS, 4, 3 + leases))
    local absent = {}
    for i = 1, leases do
        absent[#absent + 1] = not contents[i] and KEYS[3 + i] or nil
    end
    if #absent > 0 and call('EXISTS', unpack(absent)) > 0 then
        contents = {} -- something that is no text
    end
end
for i = 1, count do
    local record, holds, content = records[i + 2], true, nil
    local letter, version, life = record and byte(record, 17), byte(plan, at, at + 1)
    at = at + 2
    if version == EXACT then
        holds = record and find(record, ARGV[word], 1, true) == 1
        word = word + 1
    elseif version == ABSENT then
        holds = not record
    end
    if holds and (i <= leases or life ~= EITHER and letter == KEYED) then
        content = contents[i]
        if content == nil then
            content = redis.pcall('GET', KEYS[3 + i])
            contents[i] = content
        end
    end
    if not record and type(content) == 'string' and i <= leases and find(content, '\tsession %d+$') then
        content = false
    end
    local is_its_own = content and type(content) == 'string'
    if is_its_own and letter == KEYED then
        is_its_own = find(record, content, 31, true) == 31 and find(record, '\0', 31, true) == 31 + #content
    elseif is_its_own then
        is_its_own = letter == NAMED and find(content, match(record, '^[^%z]*', 31) .. '\t', 1, true) == 1
    end
    if content and i <= leases and not is_its_own then
        holds = life == FOREIGN and type(content) == 'string'
    elseif holds and life ~= EITHER then
        local alive = content
        if letter and letter ~= KEYED then
            alive = sub(record, 18, 30) > now_text
        end
        holds = life == (alive and ALIVE or DEAD)
    end
    if not holds then
        refused = refused or {}
        refused[i] = true
    end
end

-- Versions and the feed have one counter. What a hash that somebody deleted has given never comes again.
local number, total = now * 1000, '0'
if counter then
    number, total = sub(counter, 1, 16) + 0, sub(counter, 18)
end
number = math.max(number, least) + 1
local version = format('%016d', number)

-- Adds a change that is not carried out to the reply. Its checks are in these places of the plan. Functions are made
-- only where they are needed: what they share with the rest costs more than they do.
local reply, refuse = { now_text, false, version }, nil
if refused then
-- use: RECORD
-- use: SHOW
    refuse = function(change, first, last)
        local size, kind = #reply + 1, nil
        reply[size] = change
        for from = first, last, 2 do
            local high, low = byte(plan, from, from + 1)
            local i = high * 256 + low
            local key = KEYS[3 + i]
            local content = key and redis.pcall('GET', key)
            if type(content) == 'table' then
                -- The user may lack the permission for TYPE.
                kind = i <= leases and (redis.pcall('TYPE', key).ok or 'value') or kind
                content = false
            end
            show(reply, records[i + 2], content, key)
        end
        if kind then
            for i = #reply, size + 2, -1 do
                reply[i] = nil
            end
            reply[size], reply[size + 1] = -change, kind
        end
    end
end

local puts, put, added, add, feed, fed, change, done = {}, 0, {}, 0, {}, 0, 0, false
local content, ttl, known_ttl, known_end -- the last ones, and when the known TTL ends
while at <= #plan do
    local checks, writes, entries = byte(plan, at, at + 2)
    local first, holds = at + 3, true
    change, at = change + 1, first + 2 * checks
    if refused then
        for from = first, at - 1, 2 do
            local high, low = byte(plan, from, from + 1)
            holds = holds and not refused[high * 256 + low]
        end
    end
    if holds then
        done = true
    else
        refuse(change, first, at - 1)
    end
    for _ = 1, writes do
        local high, low, life, high_other, low_other, letter, more = byte(plan, at, at + 6)
        local i = high * 256 + low
        local field, record, key = ARGV[5 + i], records[i + 2], KEYS[3 + i]
        at = at + 7
        if life == RAISED then
            if holds and record then
                puts[put + 1], puts[put + 2] = field, version .. sub(record, 17)
                put = put + 2
            end
        elseif life == REMOVED then
            if holds then
                if key and contents[i] ~= false then
                    call('DEL', key)
                end
                call('HDEL', KEYS[1], field)
                call('ZREM', KEYS[2], field, 'n' .. field)
            end
        else
            local tail, has_key = ARGV[word], letter == KEYED or letter == ON_SESSION
            word = word + 1
            if more % 2 == 1 then
                content, word = ARGV[word], word + 1
            end
            if more > 1 then
                ttl, word = ARGV[word], word + 1
            end
            if holds then
                local ends, left = ENDED_LONG_AGO, nil -- whatever the clock says later
                if life == FOR_TTL then
                    if ttl ~= known_ttl then
                        known_ttl, known_end = ttl, format('%013d', now + ttl)
                    end
                    ends, left = known_end, ttl
                elseif life == ENDLESS then
                    ends = FOREVER
                elseif life ~= ENDED then
                    local at_ms = ttl == '0' and 0 or now + ttl
                    for _, from in ipairs({ high_other * 256 + low_other, life == KEEPS and i or nil }) do
                        local seen, its = records[from + 2], 0
                        if from > 0 and seen and byte(seen, 17) ~= KEYED then
                            its = tonumber(sub(seen, 18, 30))
                        elseif from > 0 then
                            local its_left = KEYS[3 + from] and call('PTTL', KEYS[3 + from]) or -2
                            its = its_left == -1 and tonumber(FOREVER) or its_left > 0 and now + its_left or 0
                        end
                        if its > at_ms and (its > now or from == i) then
                            at_ms = its
                        end
                    end
                    ends, left = format('%013d', at_ms), at_ms > now and at_ms - now or nil
                end
                if has_key and (letter == ON_SESSION or ends == FOREVER) then
                    call('SET', key, content)
                elseif has_key and left then
                    call('SET', key, content, 'PX', left)
                elseif key and contents[i] ~= false then
                    call('DEL', key)
                end
                local listed = record and byte(record, 17) ~= UNNAMED
                local text = letter == KEYED and 'k' or letter ~= UNNAMED and 'n' or listed and 'i' or '-'
                puts[put + 1], puts[put + 2] = field, version .. text .. ends .. tail
                put = put + 2
                if not record or not listed and letter ~= UNNAMED then
                    added[add + 1], added[add + 2] = '0', letter == UNNAMED and field or 'n' .. field
                    add = add + 2
                    if record then
                        call('ZREM', KEYS[2], field)
                    end
                end
            end
        end
    end
    if holds then
        for i = 0, entries - 1 do
            feed[fed + 2 + i] = ARGV[word + i]
        end
        fed = fed + entries
    end
    word = word + entries
end
if not done then
    return reply
end
if relied == '' then
    puts[put + 1], puts[put + 2] = 'layout', '3'
end
local last = fed < 2 and version or format('%016d', number + fed - 1)
call('HSET', KEYS[1], 'number', last .. ' ' .. format('%d', total + fed), unpack(puts))
if add > 0 then
    call('ZADD', KEYS[2], unpack(added))
end
if not refused then
    reply = now_text .. ' ' .. version
end
if fed == 0 then
    return reply
end
feed[1] = version .. '\0' .. now_text .. '\0' .. total
call('ZADD', KEYS[3], last, table.concat(feed, '\0'))
redis.pcall('PUBLISH', ARGV[3], version) -- without that permission others are only not woken
if total % 500 + fed < 500 then
    return reply
end

-- The feed is trimmed after every 500 entries: to 250,000, to 10,000 that are older than a minute, and after 30 days.
for _, behind in ipairs({ 500, 100, 20, 4, 1 }) do
    local ends = call('ZRANGE', KEYS[3], behind - 1, behind)
    local written = match(ends[1] or '', '^%d+%z(%d+)')
    local first, fewer = match(ends[2] or '', '^(%d+)%z%d+%z(%d+)')
    local left, age = fewer and total + fed - fewer or 0, written and now - written or 0
    if first and (age > 2592000000 or left >= 10000 and (age > 60000 or left >= 250000)) then
        call('ZREMRANGEBYRANK', KEYS[3], '0', behind - 1)
        call('HSET', KEYS[1], 'before', format('%016d', first - 1))
        break
    end
end
return reply

-- name: TOUCH
-- Extends records of one name by one TTL. Every commit raises the namespace's number: if that is still the number at
-- which the caller knew all of them, their versions are unchanged, and only the plain keys are compared.
--
-- KEYS: records; their plain keys. ARGV: as for COMMIT the replication id and the namespace; the TTL, the name; that
--   number (empty: there is none); unless there is one, their fields, and then their versions (empty: any).
-- Reply: "time number"; "time 0": the number has changed, or a plain key has another content, and nothing was done;
--   time, and the replication id if it is another epoch; else nothing, the number, and for each that was not extended
--   or of any version its place, whether it was extended, and its version (0: it is absent)

-- use: EFFECTS
-- use: MASTER
-- use: LETTERS
local relied, ttl, name, known, count = ARGV[2], ARGV[3], ARGV[4], ARGV[5], #KEYS - 1
local space = call('HMGET', KEYS[1], 'N', 'number')
if not find(replication, ARGV[1], 1, true) or not (space[1] and find(space[1], relied, 31, true) == 31) then
    return { now_text, match(replication, 'master_replid:(%x+)') }
end
local number, contents = sub(space[2] or '1', 1, 16), call('MGET', unpack(KEYS, 2))
local later, can_compare = format('%013d', now + ttl), redis.REDIS_VERSION_NUM

-- Never to an earlier end; the same one, within a millisecond, is right. Redis 6 cannot say that in one command.
local function extend(key)
    if can_compare and call('PEXPIREAT', key, later, 'GT') == 1 then
        return true
    end
    local left = call('PTTL', key)
    return left >= 0 and left <= tonumber(ttl) and call('PEXPIREAT', key, later) == 1
end

if known ~= '' then
    local same = known == number
    for i = 1, count do
        same = same and contents[i] == name
    end
    for i = 1, same and count or 0 do
        same = extend(KEYS[i + 1]) and same
    end
    return now_text .. ' ' .. (same and number or '0')
end

local records, reply = call('HMGET', KEYS[1], unpack(ARGV, 6, 5 + count)), { now_text, false, number }
for i = 1, count do
    local record, content, field, expected = records[i], contents[i], ARGV[5 + i], ARGV[5 + count + i]
    local letter, extended = record and byte(record, 17), 0
    if record and find(record, expected, 1, true) == 1 and find(record, name .. '\0', 31, true) == 31 then
        if letter ~= KEYED then
            local ends = sub(record, 18, 30)
            extended = ends > now_text and ends <= later and 1 or 0
        elseif content == name or content and byte(field) ~= LEASE then
            extended = extend(KEYS[i + 1]) and 1 or 0
        end
        -- For a lease with a plain key, the heartbeat of its holder shows this.
        if extended == 1 and not (letter == KEYED and byte(field) == LEASE) and sub(record, 18, 30) < later then
            call('HSET', KEYS[1], field, sub(record, 1, 17) .. later .. sub(record, 31))
        end
    end
    if extended == 0 or expected == '' then
        local size = #reply
        reply[size + 1], reply[size + 2], reply[size + 3] = i, extended, record and sub(record, 1, 16) or '0'
    end
end
return #reply > 3 and reply or now_text .. ' ' .. number

-- name: SWEEP
-- One step through the keyspace for heartbeats that another program wrote. The fleet shares one cursor and takes one
-- step a second, so that a pass costs the server the same however many instances there are.
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
-- SWAPDB exchanges databases as often as it is asked to. Before a namespace begins, whatever says that it is this one
-- and lies in another database is marked: when it comes back, an epoch has to begin. A user who may not SELECT does not
-- look.
--
-- KEYS: records. ARGV: the number of the database, the identity. Reply: 1 if there is such, else 0

-- use: EFFECTS
local moved, exchanged = false, 0
for other in string.gmatch(call('INFO', 'keyspace'), 'db(%d+):') do
    if other ~= ARGV[1] and not redis.pcall('SELECT', other).err then
        moved = true
        local record = redis.pcall('HGET', KEYS[1], 'N')
        local from = type(record) == 'string' and find(record, ARGV[2], 31, true)
        if from == 31 then
            call('HSET', KEYS[1], 'N', sub(record, 1, 30) .. 'was ' .. sub(record, 31))
        end
        exchanged = from and 1 or exchanged
    end
end
if moved then
    call('SELECT', ARGV[1])
end
return exchanged
