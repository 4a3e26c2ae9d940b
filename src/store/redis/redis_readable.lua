-- name: READABLE
-- What scripts that only read start with: another version may have written the namespace in another layout.
--
-- KEYS[1]  epoch (see redis_prelude.lua); then the script's

do
    local record = redis.call('HMGET', KEYS[1], 'server', 'layout')
    if record[1] and record[2] ~= '2' then
        return redis.error_reply('LAYOUT the layout of its records is ' .. (record[2] or 1) .. ', not 2')
    end
end
