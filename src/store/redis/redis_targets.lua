-- name: TARGETS
-- Edits of the target registry. Removing a target keeps its token counter, and its lease.
--
-- KEYS: the lease key of each edit. ARGV, for each edit: action ("put", "remove", "pause", "resume", "pin", "unpin"), id,
--   description (for "put": as the hash has it), actor for the feed; and only for "pin" and "unpin": the pin (as rules/pin.h
--   has it, but for its end), for how many ms, and reason and instance for the feed. Reply: for each edit 1 if the target was
--   registered before, else 0.
--
-- A pin is the first member of a description: {"pin":"...", then the others. There is no quote in it. So this script need
-- not understand the rest.

local function pin_of(description)
    return description and string.match(description, '^[+-]{("pin":"[^"]*")')
end

-- The description with that pin; nil: without any.
local function with_pin(description, pin)
    local state, rest = string.sub(description, 1, 1), string.sub(description, 3)
    local old = pin_of(description)
    if old then
        rest = string.sub(rest, #old + 1)
        rest = string.sub(rest, 1, 1) == ',' and string.sub(rest, 2) or rest
    end
    if not pin then
        return state .. '{' .. rest
    end
    return state .. '{' .. pin .. (rest == '}' and '' or ',') .. rest
end

local found = {}
local at = OUR_ARGUMENTS
for i = 1, #KEYS - OUR_KEYS do
    local action, id, description, actor = unpack(ARGV, at + 1, at + 4)
    local pin, for_ms, reason, instance = nil, nil, NO_REASON, ''
    at = at + 4
    if action == 'pin' or action == 'unpin' then
        pin, for_ms, reason, instance = unpack(ARGV, at + 1, at + 4)
        at = at + 4
    end
    local old = call('HGET', TARGETS, id)
    local kind = TARGET_CHANGED
    found[i] = old and 1 or 0
    if action == 'put' then
        local kept = pin_of(old)
        call('HSET', TARGETS, id, kept and with_pin(description, kept) or description)
        call('ZADD', IDS, '0', id)
        kind = old and TARGET_CHANGED or TARGET_ADDED
    elseif old and action == 'remove' then
        call('HDEL', TARGETS, id)
        if call('HEXISTS', FENCE, KEYS[OUR_KEYS + i]) == 0 then
            call('ZREM', IDS, id)
        end
        kind = TARGET_REMOVED
    elseif old and action == 'pin' then
        call('HSET', TARGETS, id, with_pin(old, '"pin":"' .. whole(now + tonumber(for_ms)) .. ' ' .. pin .. '"'))
    elseif old and action == 'unpin' then
        call('HSET', TARGETS, id, with_pin(old, nil))
    elseif old then
        call('HSET', TARGETS, id, (action == 'pause' and '-' or '+') .. string.sub(old, 2))
    end
    if old or action == 'put' then
        tell(kind, reason, '0', id, instance, actor)
    end
end
publish()
return found
