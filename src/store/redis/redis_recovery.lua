-- name: RECOVERY
-- How long newcomers still have to wait, and the end of that.
--
-- ARGV: the TTL of a newcomer; who ends the quarantine, or nothing. Reply: {ms that it still lasts, whether replicas have yet to
--   confirm the epoch}. As long as they have not, a former master may still grant and renew, and nobody can end it.

local ttl, actor = tonumber(ARGV[OUR_ARGUMENTS + 1]), ARGV[OUR_ARGUMENTS + 2]
local left = began > 0 and math.max(began + math.max(longest, ttl) - now, 0) or 0
if actor ~= '' and left > 0 and not provisional then
    call('HSET', EPOCH, 'began', '0')
    tell(STORE_RECOVERING, FORCED, '0', '', '', actor)
end
publish()
return { left, provisional and 1 or 0 }
