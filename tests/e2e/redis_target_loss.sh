#!/bin/sh
# A Redis that has the targets and is flushed, restarted empty, or hangs: no target is given up for that. The leases are in
# SQLite, so that nothing else stops.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

TTL=3000
RENEW=800

three_sessions() { for name in one two three; do session $name http://a/; done; }
started() {
    three_sessions
    redis_agent a "$1"
    for name in one two three; do until_true 10 polled_as $name http://a/; done
}

flushed() {
    redis_up
    steady_ttl 3000
    started redis-keys:session:
    redis FLUSHALL
    pause_ms "$((TTL * 2 / 3))"
    three_sessions
    pause_ms "$((TTL * 2 / 3))"
    polled_on one two three
    never_removed
    # All but one are back before anybody looked: the flush is seen all the same.
    redis FLUSHALL
    session one http://a/
    session two http://a/
    pause_ms "$((TTL * 2 / 3))"
    session three http://a/
    pause_ms "$((TTL * 2 / 3))"
    polled_on one two three
    never_removed
    # One that stays away is gone after a TTL, and not before.
    redis FLUSHALL
    flushed_ms=$(now_ms)
    session one http://a/
    until_true 10 removed a two
    took 'ms until the removal' "$(($(now_ms) - flushed_ms))" $((TTL - 100)) $((TTL + 4000))
    polled_on one
    stop a
}

# The leases go, too: the fleet keeps its targets, and nobody has one twice.
flushed_with_leases() {
    redis_store
    steady_ttl 2000
    unset TENURE_REDIS_URL
    three_sessions
    for name in a b; do
        bare_agent $name --targets redis-keys:session: --poll "exec:exec $POLLER $CASE/polls poll 60"
    done
    TARGETS=one,two,three
    until_true 10 all_polled
    redis FLUSHALL
    pause_ms "$((TTL / 2))"
    three_sessions
    pause_ms "$TTL"
    mark back
    until_true 10 all_polled back
    halt a b
    sound --polls 10
    if cat a.err b.err | grep -F '"event":"lease_closing"' | grep -F '"reason":"removed"'; then fail 'a target was removed'; fi
}

restarted() {
    redis_up
    steady_ttl 3000
    started redis-keys:session:
    redis_down
    until_true 8 said a '"event":"target_source_failed"'
    pause_ms 1000
    polled_on one two three
    redis_up
    until_true 8 said a '"event":"target_source_ok"'
    pause_ms "$((TTL / 2))"
    three_sessions
    pause_ms "$((TTL / 2))"
    polled_on one two three
    never_removed
    same 'reports of the failure' "$(times_said a '"event":"target_source_failed"')" 1
    stop a
}

it 'a flush removes nothing that is written again within the TTL' flushed
it 'a flush of sessions and leases gives up no target, and none is polled twice' flushed_with_leases
it 'a restart that lost everything removes nothing that is written again within the TTL' restarted
finish
