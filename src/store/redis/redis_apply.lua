-- name: APPLY
-- A batch of operations on leases and heartbeats, as runs: operations of one kind that have everything but the key and
-- the token in common. A run never names a key twice.
--
-- KEYS: the runs' keys, one for each operation: the lease's, or for operations on an instance its heartbeat's.
-- ARGV, for each run: kind, count, flags (words), holder ("": not given), ttl, reason, actor, number (weight or ask),
--   metadata (hand: the successor; checkpoint: the value), tokens (a line for each operation, "token ttl")
-- Reply: a list for each run, with an entry for each operation: a number (done; an acquire's token), or {outcome, token,
--   ttl, remaining, holder, flags, ask, acquired_at, session} with, if it was asked for and is there, the checkpoint and its
--   token behind (announce: the version of the session is in the place of the token); or {0, name of the error, a number}:
--   "gone", "token", "ttl" (with the fleet's), "mode" (1: the fleet's is session) or "type".
--
-- In the usual situation redis_lean.lua and redis_lean_run.lua do the same for acquires, renewals and releases, and much
-- faster. What is changed here for them has to be changed there.

local next_key, next_argument = OUR_KEYS + 1, OUR_ARGUMENTS + 1
local run

local function has(flag)
    return string.find(run.flags, flag, 1, true) ~= nil
end

local function run_keys()
    return unpack(KEYS, run.first, run.last)
end

local function id_of(key)
    return string.sub(key, #LEASE_BEFORE + 1, #key - #LEASE_AFTER)
end

local function fence_of(text)
    if not text then
        return 0, 0
    end
    local token, ttl = match(text, '^(%d+) (%d+)$')
    return tonumber(token), tonumber(ttl)
end

local function held_of(text)
    if not text then
        return false, '0'
    end
    local since, holder = match(text, '^(%d+) (.*)$')
    return holder, since
end

-- A mark counts for the grant for which it was made.
local function mark_of(text, token)
    local marked, barred, ask = match(text or '', '^(%d+) (%d) (%d)$')
    if tonumber(marked) ~= token then
        return false, 0
    end
    return barred == '1', tonumber(ask)
end

local function read_marks()
    return call('EXISTS', MARKS) == 1 and call('HMGET', MARKS, run_keys()) or {}
end

-- All that is known of the run's leases.
local function read_leases()
    local values = call('MGET', run_keys())
    local fences = call('HMGET', FENCE, run_keys())
    local helds = call('HMGET', HELD, run_keys())
    local marks = read_marks()
    local leases = {}
    for i = 1, run.count do
        local token, ttl = fence_of(fences[i])
        local last, since = held_of(helds[i])
        local barred, ask = mark_of(marks[i], token)
        local holder, session = holder_of(SESSIONS, values[i], now)
        if session then
            last = holder -- it is ours, also if somebody has deleted what is known beside it
        end
        leases[i] = { key = KEYS[run.first + i - 1], value = holder, session = session, known = fences[i], token = token, ttl = ttl,
            last = last, since = since, barred = barred, ask = ask, marked = marks[i] }
    end
    return leases
end

local function describe(outcome, lease, flags)
    flags = flags or 0
    if not lease.value then
        return { outcome, lease.token, 0, 0, false, flags, 0, 0, 0 }
    end
    local left = lease.session and lease.session.ends - now or call('PTTL', lease.key)
    if left < 0 then
        left = run.ttl -- a key without an end, by another program's hand: asked for again in a while
    end
    local ours = lease.value == lease.last
    return { outcome, lease.token, ours and lease.ttl or 0, math.max(left, 1), lease.value,
        flags + (lease.barred and BARRED or 0), lease.ask, ours and tonumber(lease.since) or 0,
        lease.session and lease.session.number or 0 }
end

local function refuse_all(name, number)
    local replies = {}
    for i = 1, run.count do
        replies[i] = { ERROR, name, number or 0 }
    end
    return replies
end

local function is_gone(instance)
    local ends = call('ZSCORE', GONE, instance)
    return ends and tonumber(ends) > now
end

-- A fence changes that nobody is told of: the state is another one nevertheless.
local function move_on()
    cursor = cursor + 1
    call('HSET', EPOCH, 'cursor', whole(cursor))
end

-- What a run writes is collected and written at its end, in one command for each hash.
local function new_writes()
    return { fences = {}, helds = {}, ids = {}, unmarked = {}, unheld = {} }
end

local function write_fence(writes, key, token, ttl)
    writes.fences[#writes.fences + 1] = key
    writes.fences[#writes.fences + 1] = whole(token) .. ' ' .. ttl
end

local function write_grant(writes, key, id, token, ttl, is_known, holder)
    write_fence(writes, key, token, ttl)
    writes.helds[#writes.helds + 1] = key
    writes.helds[#writes.helds + 1] = now_text .. ' ' .. (holder or run.holder)
    if not is_known then
        writes.ids[#writes.ids + 1] = '0'
        writes.ids[#writes.ids + 1] = id
    end
end

local function write(writes)
    if #writes.fences > 0 then
        call('HSET', FENCE, unpack(writes.fences))
    end
    if #writes.helds > 0 then
        call('HSET', HELD, unpack(writes.helds))
    end
    if #writes.ids > 0 then
        call('ZADD', IDS, unpack(writes.ids))
    end
    if #writes.unmarked > 0 then
        call('HDEL', MARKS, unpack(writes.unmarked))
    end
    if #writes.unheld > 0 then
        call('HDEL', HELD, unpack(writes.unheld))
    end
end

-- ---- sessions

local function write_session(instance, session)
    call('HSET', SESSIONS, instance, concat({ whole(session.number), whole(session.ends), whole(session.ttl),
        whole(session.version) }, ' '))
end

-- Somebody else than its holder changes a lease of that session: the holder learns it with its next heartbeat.
local function touch(instance, number)
    local session = session_of(SESSIONS, instance)
    if session and session.number == number then
        session.version = session.version + 1
        write_session(instance, session)
    end
end

local function touch_lease(lease)
    if lease.session then
        touch(lease.value, lease.session.number)
    end
end

-- The holder itself ends a lease that it does not believe in any more.
local function is_known(lease)
    return has('session') and run.holder == lease.value
end

-- The session on which the leases of this run are to hang; nil: they have ends of their own.
local function session_of_run()
    return has('session') and run.holder ~= '' and live_session(SESSIONS, run.holder, now) or nil
end

local function value_on(session, holder)
    return holder .. '\tsession ' .. whole(session.number)
end

-- When a lease of ours that is held ends.
local function end_of(lease)
    return lease.session and lease.session.ends or now + call('PTTL', lease.key)
end

-- It never ends earlier by that: the request may be a late repetition, and the holder may believe in it for as long as it
-- lasts now.
local function may_join(session, lease)
    return session and session.ends >= end_of(lease)
end

local function put_on_session(writes, lease, session)
    if lease.session then
        return -- one holder has one session that lives
    end
    lease.session = session
    call('SET', lease.key, value_on(session, lease.value))
    if lease.ttl ~= session.ttl then
        lease.ttl = session.ttl
        write_fence(writes, lease.key, lease.token, whole(session.ttl))
        move_on()
    end
end

-- Gives it an end of its own, not before that of the session on which it hung. Returns how long it has still.
local function leave_session(lease, ttl)
    local left = math.max(lease.session.ends - now, ttl)
    touch_lease(lease)
    lease.session = nil
    call('SET', lease.key, lease.value, 'PX', whole(left))
    return left
end

-- Renews a lease with an end of its own, or gives it one.
local function extend(writes, lease, ttl)
    local left = ttl
    if lease.session then
        left = leave_session(lease, ttl)
    else
        call('PEXPIRE', lease.key, whole(ttl))
    end
    if ttl ~= lease.ttl then
        lease.ttl = ttl
        write_fence(writes, lease.key, lease.token, whole(ttl))
        move_on()
    end
    return left
end

-- ---- the checkpoint

-- Whoever does not hold the lease at this moment, under this very token, changes nothing.
local function write_checkpoint()
    local leases, replies = read_leases(), {}
    local i = 0
    for token in string.gmatch(run.tokens, '(%d+) %d+') do
        i = i + 1
        local lease = leases[i]
        local named = run.holder == '' or run.holder == lease.value
        local wait = unsettled(lease.ttl or 0)
        if wait > 0 then
            replies[i] = { LEASE_HELD, lease.token, 0, wait, false, RECOVERING, 0, 0, 0 }
        elseif lease.value and lease.value == lease.last and named and tonumber(token) == lease.token and
            not lease.barred then
            if run.metadata == '' then
                call('HDEL', CHECKPOINT, lease.key)
            else
                call('HSET', CHECKPOINT, lease.key, token .. ' ' .. run.metadata)
            end
            replies[i] = describe(OK, lease)
        else
            replies[i] = describe(LOST, lease)
        end
    end
    return replies
end

-- To the replies of a run that asked for it: what is there. One that has none is a plain token, but the first one: its
-- holder learns what time it is here.
local function add_checkpoints(replies)
    if not has('checkpoint') then
        return
    end
    local texts = call('HMGET', CHECKPOINT, run_keys())
    for i = 1, run.count do
        local token, value = match(texts[i] or '', '^(%d+) (.*)$')
        if (value or i == 1) and type(replies[i]) == 'number' then
            replies[i] = { OK, replies[i], run.ttl, run.ttl, run.holder, 0, 0, now, 0 }
        end
        if value and replies[i][1] == OK then
            replies[i][10], replies[i][11] = value, tonumber(token)
        end
    end
end

-- ---- acquire

-- When a lease that is no more has ended, as a text; nil: nobody knows. A key that has expired tells nothing, but the
-- leases of an instance are renewed with its heartbeat, and one that was taken since lives for its TTL. `number`: of the
-- session on which it hung.
local function ended_at(holder, since, ttl, number)
    if number then
        local session = session_of(SESSIONS, holder)
        return session and session.number == number and whole(session.ends) or nil
    end
    local ends = tonumber(call('ZSCORE', NODES, holder) or call('ZSCORE', GONE, holder) or nil)
    ends = ends and math.max(ends, tonumber(since) + ttl)
    return ends and ends <= now and whole(ends) or nil
end

-- The key is there, or newcomers have to wait. A holder recognises itself, but not while recovering: the data may be
-- older than the moment at which it gave the lease up, and somebody may hold it since. Nor later by a token from before
-- the epoch: a renewal that came late may have put that back, although another had the target meanwhile. (Living holders
-- renew; they do not ask.)
local function refuse_or_recognise(writes, key, token, ttl, held, mark, wait, session)
    local lease = { key = key, token = token, ttl = ttl }
    lease.value, lease.session = holder_of(SESSIONS, call('MGET', key)[1], now)
    lease.last, lease.since = held_of(held)
    lease.last = lease.session and lease.value or lease.last
    lease.barred, lease.ask = mark_of(mark, token)
    local own = lease.value == run.holder and lease.last == run.holder and not lease.barred and not has('fresh')
    if own and wait == 0 and token >= floor then
        -- Never shortened: it may be kept for longer, and this may be a repetition that comes late.
        if may_join(session, lease) then
            put_on_session(writes, lease, session)
        elseif end_of(lease) < now + run.ttl then
            extend(writes, lease, run.ttl)
        end
        return lease.session and describe(OK, lease) or token
    end
    if wait > 0 and (own or not lease.value) then
        return { LEASE_HELD, token, 0, wait, false, RECOVERING, 0, 0, 0 }
    elseif not lease.value then
        -- Somebody keeps a list or a hash there; MGET is the one that does not mind. The user may lack TYPE.
        return { ERROR, 'type', redis.pcall('TYPE', key).ok or 'value' }
    end
    return describe(LEASE_HELD, lease)
end

-- Takes the key of a lease, if it is free. If its last holder's session has ended, the second value is the number of that.
-- Should the clock be set back, that session must not come back with this lease.
local function take_key(key, session)
    local function set(...)
        if session then
            return call('SET', key, value_on(session, run.holder), ...)
        end
        return call('SET', key, run.holder, 'PX', run.ttl_text, ...)
    end
    if set('NX') then
        return true
    end
    local _, _, former, number = holder_of(SESSIONS, call('MGET', key)[1], now)
    if not former then
        return false
    end
    touch(former, number)
    set()
    return true, number
end

-- Of a run that is a group: nil if each of its leases is free, or the holder's own; else which of them are free. Nothing is
-- changed. Whatever is refused here is refused by acquire(), too, which says why.
local function withheld_of(fences, marks, is_required, wait)
    if not has('group') then
        return nil
    end
    local values = call('MGET', run_keys())
    local free, is_refused = {}, wait > 0
    for i = 1, run.count do
        local key = KEYS[run.first + i - 1]
        local token = fence_of(fences[i])
        local holder, _, former = holder_of(SESSIONS, values[i], now)
        local known = fences[i] or not is_required or call('HEXISTS', TARGETS, id_of(key)) == 1
        free[i] = known and wait == 0 and not holder and (former or call('EXISTS', key) == 0) and
            math.max(token + 1, floor) <= TOKEN_MAX
        local own = holder == run.holder and token >= floor and not mark_of(marks[i], token) and not has('fresh')
        is_refused = is_refused or not (free[i] or (known and own))
    end
    return is_refused and free or nil
end

local function acquire()
    if is_gone(run.holder) then
        return refuse_all('gone')
    end
    local fences = call('HMGET', FENCE, run_keys())
    local helds = call('HMGET', HELD, run_keys())
    local marks = read_marks()
    local is_required = has('require')
    local wait = recovering(run.ttl)
    local session = session_of_run()
    local granted_ttl = session and whole(session.ttl) or run.ttl_text
    local replies, writes = {}, new_writes()
    local withheld = withheld_of(fences, marks, is_required, wait)
    for i = 1, run.count do
        local key, fence = KEYS[run.first + i - 1], fences[i]
        local token, ttl = fence_of(fence)
        local id = id_of(key)
        local taken, ended = false, nil
        local unknown = is_required and not fence and call('HEXISTS', TARGETS, id) == 0
        local is_withheld = withheld and withheld[i]
        if wait == 0 and not unknown and not is_withheld then
            taken, ended = take_key(key, session)
        end
        if is_withheld then
            replies[i] = { LEASE_HELD, token, 0, 0, false, 0, 0, 0, 0 }
        elseif unknown then
            replies[i] = { UNKNOWN }
        elseif not taken then
            replies[i] = refuse_or_recognise(writes, key, token, ttl, helds[i], marks[i], wait, session)
        else
            -- Without a fence nobody knows what was granted: it may have been forgotten, or deleted by hand.
            local granted = math.max(token + 1, floor, fence and 0 or math.max(now, forgotten + 1))
            if granted > TOKEN_MAX then
                call('DEL', key)
                replies[i] = { ERROR, 'token', 0 }
            else
                if helds[i] and not mark_of(marks[i], token) then
                    local former, since = held_of(helds[i])
                    tell(LEASE_LOST, EXPIRED, whole(token), id, former, '',
                        ended_at(former, since, ttl, ended))
                end
                if marks[i] then
                    writes.unmarked[#writes.unmarked + 1] = key
                end
                write_grant(writes, key, id, granted, granted_ttl, fence)
                tell(LEASE_ACQUIRED, NO_REASON, whole(granted), id, run.holder, '')
                replies[i] = session and { OK, granted, session.ttl, session.ends - now, run.holder, 0, 0, now,
                    session.number } or granted
            end
        end
    end
    write(writes)
    add_checkpoints(replies)
    return replies
end

-- ---- renew

-- Tokens start at the clock and grow by one: a number far beyond it is a mistake, which would use the tokens up.
local function is_plausible(token)
    return token <= math.max(now, floor) + 31622400000
end

-- A token above the counter was granted by a store that knew more than this one does. One below the floor may be from
-- before this epoch, and then the loss is known.
local function proves_loss(lease, token)
    return run.holder ~= '' and run.ttl > 0 and token > lease.token and token >= floor and is_plausible(token) and
        (lease.known or token > forgotten)
end

-- While recovering, a living holder puts back what the store forgot: its token is above the counter, or it is the
-- counter and the name beside it is its own. A key that another program wrote meanwhile stays: that program knows no
-- epoch, and would not notice.
local function may_put_back(lease, token, wait)
    if wait == 0 or run.holder == '' or run.ttl == 0 or token == 0 or not is_plausible(token) then
        return false
    end
    if lease.value and lease.value ~= lease.last and lease.value ~= run.holder then
        return false
    end
    if not lease.known and token <= forgotten then
        return false
    end
    return token > lease.token or (token == lease.token and lease.last == run.holder and not lease.barred)
end

local function renew_one(writes, lease, token, wait, session)
    local ours = lease.value and lease.value == lease.last and (run.holder == '' or run.holder == lease.value)
    local meant = token == lease.token or (token == 0 and run.holder ~= '') -- without a token its name alone decides
    if ours and meant and not lease.barred then
        if may_join(session, lease) then
            put_on_session(writes, lease, session)
            return describe(OK, lease)
        end
        local ttl = run.ttl > 0 and run.ttl or lease.ttl
        if run.holder == '' then
            ttl = math.max(ttl, lease.ttl) -- by the token alone, it is never shortened: its holder would not hear of it
        end
        local left = extend(writes, lease, ttl)
        return { OK, lease.token, ttl, left, lease.value, 0, lease.ask, tonumber(lease.since), 0 }
    end
    if may_put_back(lease, token, wait) then
        local id = id_of(lease.key)
        touch_lease(lease)
        if session then
            call('SET', lease.key, value_on(session, run.holder))
        else
            call('SET', lease.key, run.holder, 'PX', run.ttl_text)
        end
        if lease.marked then
            writes.unmarked[#writes.unmarked + 1] = lease.key
        end
        local ttl = session and session.ttl or run.ttl
        write_grant(writes, lease.key, id, token, whole(ttl), lease.known)
        tell(LEASE_ACQUIRED, NO_REASON, whole(token), id, run.holder, '')
        return { OK, token, ttl, session and session.ends - now or ttl, run.holder, 0, 0, now,
            session and session.number or 0 }
    end
    -- A token that was forgotten is not granted again.
    if wait > 0 and token > lease.token and is_plausible(token) then
        write_fence(writes, lease.key, token, whole(math.max(lease.ttl, run.ttl)))
        move_on()
        if not lease.known then
            writes.ids[#writes.ids + 1] = '0'
            writes.ids[#writes.ids + 1] = id_of(lease.key)
        end
    end
    return describe(LOST, lease)
end

local function renew()
    local shown = has('keep') and 0 or run.ttl
    local wait = recovering(shown)
    local leases, replies, writes = read_leases(), {}, new_writes()
    local gone = is_gone(run.holder)
    local session = session_of_run()
    local i = 0
    for token in string.gmatch(run.tokens, '(%d+) %d+') do
        i = i + 1
        token = tonumber(token)
        if wait == 0 and proves_loss(leases[i], token) then
            begin_epoch(server)
            wait = recovering(shown)
        end
        -- A late request of a dead process puts nothing back.
        replies[i] = renew_one(writes, leases[i], token, gone and 0 or wait, session)
    end
    write(writes)
    return replies
end

-- ---- release

local function release_one(writes, lease, token)
    local forced = has('force')
    local meant = token == lease.token or (token == 0 and run.holder ~= '')
    local ours = lease.value == lease.last and meant
    local named = run.holder == '' or run.holder == lease.value
    if not lease.value or not named or not (forced or ours) then
        return describe(LOST, lease)
    end
    local id = id_of(lease.key)
    if forced and not has('now') then
        if not lease.barred then
            tell(LEASE_LOST, FORCED, whole(lease.token), id, lease.value, run.actor)
        end
        if lease.session then
            leave_session(lease, 0) -- with the end that the session has now
        end
        lease.barred = true
        call('HSET', MARKS, lease.key, whole(lease.token) .. ' 1 ' .. lease.ask)
        return describe(OK, lease)
    end
    if forced or not is_known(lease) then
        touch_lease(lease)
    end
    lease.session = nil
    call('DEL', lease.key)
    writes.unheld[#writes.unheld + 1] = lease.key
    if lease.marked then
        writes.unmarked[#writes.unmarked + 1] = lease.key
    end
    tell(LEASE_RELEASED, forced and FORCED or run.reason, whole(lease.token), id, lease.value, run.actor)
    lease.value = false
    return describe(OK, lease)
end

local function release()
    local leases, replies, writes = read_leases(), {}, new_writes()
    local i = 0
    for token in string.gmatch(run.tokens, '(%d+) %d+') do
        i = i + 1
        replies[i] = release_one(writes, leases[i], tonumber(token))
    end
    write(writes)
    return replies
end

-- ---- read, and asking a lease's holder for something

local function read()
    local replies = {}
    local is_required = has('require')
    for i, lease in ipairs(read_leases()) do
        local target = call('HGET', TARGETS, id_of(lease.key))
        if is_required and not target and not lease.known then
            replies[i] = { UNKNOWN }
        else
            -- A guard that starts after a loss must not take lost or forgotten tokens for current.
            local last = math.max(began > 0 and floor - 1 or 0, lease.known and 0 or forgotten)
            local bound = not lease.value and lease.token < last
            if bound then
                lease.token = last
            end
            local paused = target and string.sub(target, 1, 1) == '-'
            replies[i] = describe(OK, lease,
                (target and REGISTERED or 0) + (paused and PAUSED or 0) + (bound and RECOVERING or 0))
        end
    end
    add_checkpoints(replies)
    return replies
end

local UNDO = 3
local function asked()
    return run.number == UNDO and 0 or run.number
end

local function ask_holder()
    local replies = {}
    for i, lease in ipairs(read_leases()) do
        local found = lease.value and (run.holder == '' or run.holder == lease.value)
        if found then
            lease.ask = asked()
            touch_lease(lease)
            call('HSET', MARKS, lease.key, whole(lease.token) .. (lease.barred and ' 1 ' or ' 0 ') .. lease.ask)
            if lease.ask > 0 then
                tell(LEASE_ASKED, NO_REASON, whole(lease.token), id_of(lease.key), lease.value, '')
            end
        end
        replies[i] = describe(found and OK or LOST, lease)
    end
    return replies
end

-- ---- instances

local function instance_of(text)
    local ttl, since, ask, metadata = match(text or '', '^(%d+) (%d+) (%d) (.*)$')
    return tonumber(ttl), since, tonumber(ask), metadata
end

local function node_key(instance)
    return NODE_BEFORE .. instance .. NODE_AFTER
end

local function write_instance(instance, ttl, since, ask, metadata)
    call('HSET', INSTANCES, instance, concat({ whole(ttl), since, whole(ask), metadata }, ' '))
end

-- A tombstone, or, when its time is over already, no more than the memory of an end.
local GONE_AGE = 3600000
local function remember_end(ends, instance)
    call('ZREMRANGEBYSCORE', GONE, '-inf', whole(now - GONE_AGE))
    call('ZADD', GONE, ends, instance)
end

-- Instances whose time has passed. The heartbeat's key is the truth: another program renews it without telling the
-- index.
local function bury_the_dead()
    for _, instance in ipairs(call('ZRANGEBYSCORE', NODES, '-inf', now_text, 'LIMIT', '0', '100')) do
        local left = call('PTTL', node_key(instance))
        if left > 0 or left == -1 then -- without an end, by another program's hand: looked at again in a while
            call('ZADD', NODES, whole(now + (left > 0 and left or 30000)), instance)
        else
            -- Its end is remembered for a while, for those who find its leases gone: a tombstone whose time is over.
            remember_end(call('ZSCORE', NODES, instance), instance)
            call('ZREM', NODES, instance)
            call('HDEL', INSTANCES, instance)
            tell(INSTANCE_LEFT, EXPIRED, '0', '', instance, '')
        end
    end
end

-- The TTL of somebody else in the fleet, or nothing, and whether the leases there hang on sessions.
local function ways_of_fleet(joining)
    local others = call('ZRANGEBYSCORE', NODES, '(' .. now_text, '+inf', 'LIMIT', '0', '16')
    for _, instance in ipairs(others) do
        local ttl = instance_of(call('HGET', INSTANCES, instance))
        if ttl and instance ~= joining and call('EXISTS', node_key(instance)) == 1 then
            return ttl, call('HEXISTS', SESSIONS, instance) == 1 and 'session' or 'key'
        end
    end
end

-- Sessions that ended long ago. Whoever joins goes a step through them.
local function bury_sessions()
    local found = call('HSCAN', SESSIONS, call('HGET', EPOCH, 'buried') or '0', 'COUNT', '100')
    call('HSET', EPOCH, 'buried', found[1])
    for i = 1, #found[2], 2 do
        local ends = tonumber(match(found[2][i + 1], '^%d+ (%d+) ') or '0')
        if ends < now - GONE_AGE and not call('ZSCORE', NODES, found[2][i]) then
            call('HDEL', SESSIONS, found[2][i])
        end
    end
    if #found[2] > 0 and call('EXISTS', SESSIONS) == 0 then
        call('HDEL', EPOCH, 'session')
    end
end

-- When a living session ends. A heartbeat never makes that earlier, as its holder may not get the answer. But if the clock
-- was set back since the last heartbeat, the session would outlive its instance by as much.
local function end_by_this_clock(instance, session)
    if session.ends <= now + run.ttl then
        return session.ends
    end
    local last = tonumber(call('ZSCORE', NODES, instance) or '0') - session.ttl -- when that was, by the clock of then
    return session.ends - math.max(0, last - now)
end

-- With its heartbeat an instance begins a session, or goes on with it. One that has not ended goes on, also after the
-- instance had left: its leases are there. Then whoever made it leave may have done more. One that has ended never comes
-- back: its leases may be others' by now.
local function beat(instance, joins)
    local session = session_of(SESSIONS, instance) or { number = 0, ends = 0, version = 0 }
    local lives = session.number > 0 and session.ends > now
    local is_session_mode = MODE == 'session'
    if not lives and not is_session_mode then
        return 0, 0
    end
    if lives or has('session') then
        if not lives then
            session.number = math.max(tonumber(call('HGET', EPOCH, 'session') or '0') + 1, now)
            call('HSET', EPOCH, 'session', whole(session.number))
        end
        session.version = session.version + (joins and 1 or 0)
        session.ends = math.max(lives and end_by_this_clock(instance, session) or 0, now + run.ttl)
    else
        session.number, session.ends = 0, 0
    end
    session.ttl = run.ttl
    known_sessions[instance] = session
    write_session(instance, session)
    -- After an epoch the session may be older than it was, and so may its version: a holder must not take it for the one
    -- that it knows. The floor grows by far more than there are touches; when the clock was set back, `began` differs.
    return session.number, session.number > 0 and session.version + floor + kept_began or 0
end

-- Marks of leases that have ended: as long as there are any, renewals take the long way. Many are gone through in steps.
local function wipe_marks()
    if call('EXISTS', MARKS) == 0 then
        return
    end
    local found = call('HSCAN', MARKS, call('HGET', EPOCH, 'wipe') or '0', 'COUNT', '100')
    call('HSET', EPOCH, 'wipe', found[1])
    for i = 1, #found[2], 2 do
        if not holder_of(SESSIONS, call('MGET', found[2][i])[1], now) then
            call('HDEL', MARKS, found[2][i])
        end
    end
end

local function announce()
    local key, instance = KEYS[run.first], run.holder
    if is_gone(instance) then
        return refuse_all('gone')
    end
    recovering(run.ttl)
    bury_the_dead()
    wipe_marks()
    local weight = whole(run.number)
    local old_weight = call('MGET', key)[1]
    local ttl, since, ask, metadata = instance_of(call('HGET', INSTANCES, instance))
    local joins = not old_weight or not ttl
    if joins then
        local fleet_ttl, mode = ways_of_fleet(instance)
        if fleet_ttl and fleet_ttl ~= run.ttl then
            return refuse_all('ttl', fleet_ttl)
        elseif fleet_ttl and mode ~= MODE then
            return refuse_all('mode', mode == 'session' and 1 or 0)
        end
        since, ask = now_text, 0
        bury_sessions()
    end
    local changes = joins or old_weight ~= weight or ttl ~= run.ttl or metadata ~= run.metadata
    if changes then
        write_instance(instance, run.ttl, since, ask, run.metadata)
        tell(joins and INSTANCE_JOINED or INSTANCE_CHANGED, NO_REASON, '0', '', instance, '')
    end
    local session, version = beat(instance, joins)
    call('SET', key, weight, 'PX', run.ttl_text)
    call('ZADD', NODES, whole(now + run.ttl), instance)
    return { { OK, version, run.ttl, run.ttl, false, 0, ask, 0, session } }
end

-- The session lives on until its end: whoever works under its leases believes in them until then.
local function leave()
    local key, instance = KEYS[run.first], run.holder
    local live = call('DEL', key) == 1
    call('ZREM', NODES, instance)
    call('HDEL', INSTANCES, instance)
    if live then
        tell(INSTANCE_LEFT, run.reason, '0', '', instance, run.actor)
    end
    if run.ttl > 0 then
        local session = live_session(SESSIONS, instance, now)
        remember_end(whole(math.max(now + run.ttl, session and session.ends or 0)), instance)
    end
    return { { live and OK or LOST, 0, 0, 0, false, 0, 0, 0, 0 } }
end

local function ask_instance()
    local key, instance = KEYS[run.first], run.holder
    local ttl, since, _, metadata = instance_of(call('HGET', INSTANCES, instance))
    local live = ttl and call('EXISTS', key) == 1
    if live then
        write_instance(instance, ttl, since, asked(), metadata)
        tell(INSTANCE_CHANGED, NO_REASON, '0', '', instance, run.actor)
    end
    return { { live and OK or LOST, 0, 0, 0, false, 0, 0, 0, 0 } }
end

-- ---- hand: a lease goes to a successor

-- For how long leases may be handed over to an instance: until its heartbeat ends. 0: not at all.
local DRAIN = 2
local function ready(instance)
    local key = node_key(instance)
    local weight, left = tonumber(call('MGET', key)[1] or 0), call('PTTL', key)
    local ttl, _, ask = instance_of(call('HGET', INSTANCES, instance))
    if not ttl or not weight or weight == 0 or ask == DRAIN or left <= 0 or is_gone(instance) then
        return 0
    end
    return left
end

-- While recovering, the lease may have been released before: a late request must not let anybody in.
local function hand_one(writes, lease, token, successor, left)
    local id, granted = id_of(lease.key), math.max(lease.token + 1, floor)
    if lease.value ~= run.holder or lease.last ~= run.holder or token ~= lease.token then
        return describe(LOST, lease)
    end
    if left == 0 or lease.barred or granted > TOKEN_MAX then
        return { UNKNOWN }
    end
    if not is_known(lease) then
        touch_lease(lease)
    end
    call('SET', lease.key, successor, 'PX', whole(left))
    if lease.marked then
        writes.unmarked[#writes.unmarked + 1] = lease.key
    end
    write_grant(writes, lease.key, id, granted, run.ttl_text, true, successor)
    tell(LEASE_RELEASED, run.reason, whole(token), id, run.holder, '')
    tell(LEASE_ACQUIRED, run.reason, whole(granted), id, successor, '')
    return { OK, granted, run.ttl, left, successor, 0, 0, now, 0 }
end

local function hand()
    local successor = run.metadata
    local leases, replies, writes = read_leases(), {}, new_writes()
    local left = recovering(run.ttl) > 0 and 0 or math.min(run.ttl, ready(successor))
    local i = 0
    for token in string.gmatch(run.tokens, '(%d+) %d+') do
        i = i + 1
        replies[i] = hand_one(writes, leases[i], tonumber(token), successor, left)
    end
    write(writes)
    return replies
end

-- ---- the runs, in their order

local kinds = { acquire = acquire, renew = renew, release = release, read = read, ask = ask_holder,
    announce = announce, leave = leave, ask_instance = ask_instance, hand = hand, checkpoint = write_checkpoint }
local replies = {}
while next_argument <= #ARGV do
    local kind, count, flags, holder, ttl, reason, actor, number, metadata, tokens =
        unpack(ARGV, next_argument, next_argument + 9)
    next_argument = next_argument + 10
    run = { count = tonumber(count), flags = flags, holder = holder, ttl = tonumber(ttl), ttl_text = ttl,
        reason = reason, actor = actor, number = tonumber(number), metadata = metadata, tokens = tokens,
        first = next_key }
    run.last = run.first + run.count - 1
    next_key = run.last + 1
    replies[#replies + 1] = kinds[kind]()
end
publish()
return replies
