#!/bin/sh
# Targets that are the members of a set in a Redis (redis-set:).
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

TTL=3000
RENEW=800

sets() {
    redis_up
    redis EVAL "for i = 1, 10000 do redis.call('SET', 'unrelated:' .. i, 'x') end" 0
    redis SADD polls plain '{"id":"full","url":"http://a/full","every":"100ms"}' '{"id":"off","paused":true}' 'bad one' '{"id":'
    redis_agent a redis-set:polls
    until_true 10 polled_as plain ''
    until_true 10 polled_as full http://a/full
    until_true 5 said a target_refused '"entry":"bad one"'
    until_true 5 said a target_refused '"entry":"{'
    redis SADD polls new
    until_true 5 polled_as new ''
    redis SREM polls plain
    until_true 8 removed a plain
    redis SREM polls '{"id":"full","url":"http://a/full","every":"100ms"}'
    redis SADD polls '{"id":"full","url":"http://b/full"}'
    until_true 5 polled_as full http://b/full
    same 'messages of off' "$(messages_of off)" 0
    stop a
    same reports "$(times_said a target_refused)" 2
    for command in scan keys mget; do same "calls of $command" "$(calls_of $command)" 0; done
    [ "$(calls_of sscan)" -gt 0 ] || fail 'nothing was read'
    if removed a full; then fail 'a changed member was removed'; fi
}

sets_of_sessions() {
    redis_up
    session one http://a/1
    session two http://a/2 ',"isPaused":true'
    session stray http://a/stray
    redis SADD ids one two gone
    redis_agent a redis-set:ids,session:
    until_true 10 polled_as one http://a/1
    until_true 5 said a target_refused '"entry":"session:gone"'
    session two http://b/2
    until_true 5 polled_as two http://b/2
    session gone http://a/back
    until_true 5 polled_as gone http://a/back
    redis SREM ids one
    until_true 8 removed a one
    stop a
    same 'messages of stray' "$(messages_of stray)" 0
    same reports "$(times_said a target_refused)" 1
    for command in scan keys; do same "calls of $command" "$(calls_of $command)" 0; done
}

wrong_set() {
    redis_up
    redis SET polls x
    redis_agent a redis-set:polls
    until_true 5 said a '"event":"target_source_failed"' WRONGTYPE
    # At once: it must not be read in between, when it is a set without members.
    redis SADD other one
    redis RENAME other polls
    until_true 8 polled_as one ''
    until_true 5 said a '"event":"target_source_ok"' '"count":1'
    stop a
    same reports "$(times_said a '"event":"target_source_failed"')" 1
}

it 'members of a set are targets, and other keys are never walked' sets
it 'members of a set can be ids of sessions' sets_of_sessions
it 'a key that is no set is told, and read when it has become one' wrong_set
finish
