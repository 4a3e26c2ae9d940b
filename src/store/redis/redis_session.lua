-- name: SESSION
-- Leases that hang on the session of their holder (see store.h). Comes before the prelude, and before scripts that only
-- read.
--
-- The key of such a lease has "holder TAB session NUMBER" in place of the plain holder, and no TTL: it is held as long as
-- that session of the holder lives, by the server's clock. No holder's name has a tab. To the lean scripts it is somebody
-- else's key without an end.

local known_sessions = {}

-- The session of an instance, also one that has ended; false: there is none.
local function session_of(sessions_key, instance)
    local session = known_sessions[instance]
    if session == nil then
        local number, ends, ttl, version = string.match(redis.call('HGET', sessions_key, instance) or '',
            '^(%d+) (%d+) (%d+) (%d+)$')
        session = number and { number = tonumber(number), ends = tonumber(ends), ttl = tonumber(ttl),
            version = tonumber(version) } or false
        known_sessions[instance] = session
    end
    return session
end

local function live_session(sessions_key, instance, now)
    local session = session_of(sessions_key, instance)
    return session and session.number > 0 and session.ends > now and session or nil
end

-- What the key of a lease says: its holder, and the session on which it hangs. If that session has ended there is no
-- holder, and behind them are the former one and the number of its session.
local function holder_of(sessions_key, value, now)
    if not value or not string.find(value, '\t', 1, true) then
        return value
    end
    local holder, number = string.match(value, '^(.+)\tsession (%d+)$')
    if not holder then
        return value -- another program's text
    end
    number = tonumber(number)
    local session = live_session(sessions_key, holder, now)
    if session and session.number == number then
        return holder, session
    end
    return false, nil, holder, number
end

