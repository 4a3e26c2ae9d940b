#!/bin/sh
# Targets that are the sessions of a program in a Redis (redis-keys:). The leases are in SQLite, so that the Redis is nothing
# but the source.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

TTL=3000
RENEW=800

# ---- sessions

sessions() {
    redis_up
    session one http://a/1 ',"isPaused":false'
    session two http://a/2 ',"isPaused":true'
    session three http://a/3 ',"is_paused":true'
    session four http://a/4 ',"every":"50ms"'
    redis SET session 'not one' && redis SET sessions:x '{}' && redis SET other:five '{"address":"http://a/5"}'
    for name in a b; do redis_agent $name redis-keys:session:; done
    until_true 10 polled_as one http://a/1
    until_true 10 polled_as four http://a/4
    # Paused ones are not polled until they are resumed.
    same 'messages of two' "$(messages_of two)" 0
    same 'messages of three' "$(messages_of three)" 0
    session two http://a/2 ',"isPaused":false'
    session three http://a/3 ',"is_paused":false'
    until_true 5 polled_as two http://a/2
    until_true 5 polled_as three http://a/3
    session one http://a/1 ',"isPaused":true'
    pause_ms 1500 # until both have seen it
    quiet one
    # Another address; one more; one less.
    session two http://b/2
    until_true 5 polled_as two http://b/2
    session six http://a/6
    until_true 5 polled_as six http://a/6
    redis DEL session:four
    pause_ms 3500
    quiet four
    is_free four || fail 'the lease of a session that is gone is kept'
    polled_on two three six
    same 'messages of x' "$(messages_of x)" 0
    same 'messages of five' "$(messages_of five)" 0
    removed a four || removed b four || fail 'the removal is not logged'
    halt a b
    same 'calls of KEYS' "$(calls_of keys)" 0
}

specs() {
    redis_up
    redis SET session:s '{"url":"http://u/","address":"http://a/","n":12345678901234567890123,"x":{"y":[1, 2]}}'
    bare_agent a --targets redis-keys:session: --poll 'exec:printf "{\"url\":\"%s\",\"spec\":%s}" "$TENURE_URL" "$TENURE_SPEC"' \
        --publish -
    until_true 10 has_lines a.out 1
    stop a
    grep -qF '"data":{"url":"http://u/","spec":{"url":"http://u/","address":"http://a/","n":12345678901234567890123,"x":{"y":[1, 2]}}}}' a.out ||
        fail 'the spec is not the value'
}

bad_sessions() {
    redis_up
    session good http://a/
    redis LPUSH session:list x
    redis SET session:text 'not JSON'
    redis SET session:array '[1]'
    redis SET 'session:bad id' '{}'
    redis SET session:../up '{}'
    redis SET session: '{}'
    redis SET session:pause '{"isPaused":"yes"}'
    redis SET session:url '{"address":1}'
    redis SET session:every '{"every":"soon"}'
    redis SET session:nul '{"address":"http://a\u0000b"}'
    redis_agent a redis-keys:session:
    until_true 10 polled_as good http://a/
    for entry in list text array 'bad id' ../up '' pause url every nul; do
        until_true 5 said a '"event":"target_refused"' "\"entry\":\"session:$entry\""
    done
    until_true 5 said a '"entry":"session:list"' 'the key is a list, not a string'
    pause_ms 3500
    same 'reports, some passes later' "$(times_said a '"event":"target_refused"')" 10
    same 'questions for the type' "$(calls_of type)" 1
    # Repaired, it is polled; broken, it is told once more, and given up.
    redis DEL session:list
    session list http://a/list
    until_true 5 polled_as list http://a/list
    redis SET session:good 'broken now'
    until_true 5 said a '"event":"target_refused"' '"entry":"session:good"'
    until_true 8 removed a good
    stop a
    same reports "$(times_said a '"event":"target_refused"')" 11
}

# A hundred thousand of them would be a hundred thousand lines.
many_bad_sessions() {
    redis_up
    redis EVAL "for i = 1, 300 do redis.call('SET', 'session:bad' .. i, 'x') end" 0
    session good http://a/
    redis_agent a redis-keys:session:
    until_true 10 said a '"event":"target_refused"' '"count":250'
    until_true 10 polled_as good http://a/
    pause_ms 2500
    stop a
    same reports "$(times_said a '"event":"target_refused"')" 51
}

glob_prefix() {
    redis_up
    prefix='s*[a]?\x{b}:'
    redis SET "${prefix}one" '{"address":"http://a/1"}'
    redis SET 'sssa.x{b}:two' '{"address":"http://a/2"}'
    redis SET 's*a?\x{b}:three' '{"address":"http://a/3"}'
    redis_agent a "redis-keys:$prefix"
    until_true 10 polled_as one http://a/1
    pause_ms 1500
    stop a
    same 'messages of others' "$(grep -vcF '"target":"one"' a.out)" 0
    same reports "$(times_said a target_refused)" 0
}

# Many keys, so that a pass takes many steps and a step many MGETs.
many_keys() {
    redis_up
    redis EVAL "for i = 1, 10000 do redis.call('SET', 'unrelated:' .. i, 'x') end" 0
    redis EVAL "for i = 1, 1500 do redis.call('SET', 'session:idle' .. i, '{\"isPaused\":true}') end" 0
    for name in one two three; do session $name http://a/; done
    redis_agent a redis-keys:session:
    for name in one two three; do until_true 15 polled_as $name http://a/; done
    session late http://a/late
    until_true 10 polled_as late http://a/late
    redis DEL session:two
    until_true 15 removed a two
    steps=$(calls_of scan)
    pause_ms 2000
    repeated 'steps in two seconds' "$(($(calls_of scan) - steps))" 5 22 100
    polled_on one three late
    stop a
    same reports "$(times_said a target_refused)" 0
}

# ---- the start

# Without a Redis of their own, sources and sinks use the store's.
same_as_store() {
    redis_store
    unset TENURE_REDIS_URL
    for name in one two; do session $name http://a/$name; done
    for name in a b; do
        bare_agent $name --targets redis-keys:session: --poll 'exec:echo "$TENURE_URL"' --publish - --publish 'redis-stream:polls:{target}'
    done
    for name in one two; do until_true 10 polled_as $name http://a/$name; done
    halt a b
    for name in one two; do
        printed=$(messages_of $name)
        [ "$(redis XLEN polls:$name)" -eq "$printed" ] || fail "not every message of $name is in its stream"
    done
}

wrong_usage() {
    unset TENURE_REDIS_URL
    exits 2 "$TENURE" agent --targets redis-keys:session: --poll http
    err_has 'redis-keys:session: needs a Redis store: use --store redis://..., or set TENURE_REDIS_URL'
    exits 2 "$TENURE" agent --targets redis-set:ids --poll http --redis sqlite:x
    err_has 'TENURE_REDIS_URL' 'redis://'
    exits 2 "$TENURE" agent --targets redis-set:ids --poll http --redis 'redis://localhost?ca_flie=x'
    err_has 'ca_flie'
    for source in redis-keys: redis-set: redis-set:,x; do
        exits 2 "$TENURE" agent --targets $source --poll http --redis redis://localhost
        err_has 'redis-keys:PREFIX' 'redis-set:KEY'
    done
    exits 2 "$TENURE" agent --targets redis:x --poll http --redis redis://localhost
    err_has 'there is no target source'
    nothing_written
}

it 'sessions are found, paused, resumed, changed, added and removed at runtime' sessions
it 'the spec of a session is its value, and its url beats its address' specs
it 'sessions that cannot be used are told once each, and the rest go on' bad_sessions
it 'many sessions that cannot be used are not as many lines' many_bad_sessions
it 'a prefix with glob characters means itself' glob_prefix
it 'many keys are walked within the budget, and none is missed' many_keys
it 'targets, leases and messages can be in one Redis' same_as_store
it 'a source without a Redis, or written wrongly, is refused at the start' wrong_usage
finish
