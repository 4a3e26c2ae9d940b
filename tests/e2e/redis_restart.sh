#!/bin/sh
# A Redis that is killed and comes back while its leases run: empty, with an older dump, with what it had. The living go
# on as if nothing had happened, nobody else is let in before what was forgotten has ended, and no token is lower
# (fault 9, trap 10). Outages of more than a TTL: fleet_store.sh with FLEET_STORE=redis.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

SLACK=1500

start_fleet() {
    TTL=3000
    RENEW=700
    targets_in_file 6
    for name in a b; do agent $name --timeout 60s; done
    until_true 15 spread 3 3 a b
    mark even # the first poll of what has just been handed over would count as a change of hands
    until_true 5 all_polled even
}

# lost COMMAND...: something that makes Redis forget. The living go on: no target is without a poll for half a TTL, and
# none changes hands. A newcomer is handed its share when a TTL has passed.
lost() {
    forgotten "$@"
    until_true 5 all_polled back
    # Long enough for everybody who might have been let in.
    pause_ms "$TTL"
    same hands "$(hands_since lost)" 0
    agent c --timeout 60s
    until_true 10 spread 2 2 a b c
    mark shared
    until_true 5 all_polled shared
    mark end
    between hands "$(hands_since lost)" 2 4
    for name in a b; do
        same "times that $name lost a lease" "$(times_said $name '"event":"lease_lost"')" 0
    done
    halt a b c
    sound --targets "$TARGETS" --bound "$((TTL / 2))" --from lost --until end
}
# forgotten COMMAND...: the same until all that was forgotten has been put back.
forgotten() {
    before=$(epoch)
    mark lost
    "$@"
    until_true 5 epoch_other_than "$before"
    until_true 5 all_put_back
    mark back
}
all_put_back() { [ "$("$TENURE" ls --json | grep -c '"state":"held"')" -eq 6 ]; }

kill_and_start() {
    redis_kill
    redis_start_again "$@"
}

flushed() {
    redis_store
    start_fleet
    lost redis FLUSHALL
}
restarted_empty() {
    redis_store
    start_fleet
    lost kill_and_start empty
}
restarted_with_its_data() {
    redis_store --appendonly yes --appendfsync always
    start_fleet
    lost kill_and_start
}

# The dump is from a time at which a held everything, and its leases have not ended when it is read: b has higher tokens
# than the store remembers, and a is named there as the holder of what it gave away.
restarted_older() {
    TTL=10000
    RENEW=2500
    redis_store
    targets_in_file 6
    agent a --timeout 60s
    until_true 15 holds a 6
    until_true 5 all_polled
    # Looked at now: as soon as the dump is read, the living write into it.
    same 'leases of a in the dump' "$(redis --scan --pattern 'poll:lease:*' | while read -r key; do redis GET "$key"; done | grep -c '^a-')" 6
    kept_ms=$(now_ms)
    redis_keep "$CASE/older"
    agent b --timeout 60s
    until_true 10 spread 3 3 a b
    mark even # the first poll of what has just been handed over would count as a change of hands
    until_true 5 all_polled even
    b=$(instance_of b)
    mark lost
    kill_and_start "$CASE/older"
    took 'ms since the dump, in which its leases must not have ended' "$(($(now_ms) - kept_ms))" 0 "$((TTL - RENEW))"
    until_true 5 spread 3 3 a b
    same 'instance of b' "$(instance_of b)" "$b"
    mark back
    until_true 5 all_polled back
    # Over the end of everything that was in the dump.
    pause_ms "$((TTL + 500))"
    mark end
    spread 3 3 a b || fail 'the shares have changed'
    same hands "$(hands_since lost)" 0
    halt a b
    sound --targets "$TARGETS" --bound "$((TTL / 4))" --from lost --until end --takeovers 3
}

# The heart of trap 10: b is cut off and does not know what the store forgot. It believes until its deadline, its polls
# run until then, and nobody may be let in before.
forgotten_holder() {
    TTL=3000
    RENEW=700
    redis_store
    proxy_start p
    targets_in_file 6
    # Polls that long are not handed over: both have to be there before there is anything to take.
    mv "$CASE/targets" "$CASE/targets.all"
    : >"$CASE/targets"
    long_polls
    agent a --timeout 60s
    agent b --timeout 60s --store "$(through p)"
    all_there 2
    mv "$CASE/targets.all" "$CASE/targets"
    until_true 10 spread 3 3 a b
    until_true 5 all_polled
    cut_off "$@"
}
# The same with a dump in which a holds everything: it was so once, and a is the first to ask.
forgotten_successor() {
    TTL=4000
    RENEW=900
    redis_store
    proxy_start p
    targets_in_file 6
    agent a --timeout 60s
    until_true 10 holds a 6
    redis_keep "$CASE/older"
    long_polls
    agent b --timeout 60s --store "$(through p)"
    until_true 10 spread 3 3 a b
    until_true 5 holders_polled
    cut_off kill_and_start "$CASE/older"
}
long_polls() {
    LASTS=20000
    POLL_OPTIONS=stubborn
}
# cut_off COMMAND...: b is, and then Redis forgets.
cut_off() {
    b=$(instance_of b)
    proxy_tell p drop
    mark lost
    "$@"
    until_true 10 all_taken_from "$b"
    takeover lost "$b"
    [ "$MOVED" -eq 3 ] || fail "$MOVED targets moved instead of 3"
    # A TTL from the moment at which the loss was noticed, which is at most a renewal of a later.
    took 'ms until the first was taken over' "$FIRST" "$((TTL - 50))" "$((TTL + RENEW + SLACK))"
    took 'ms until the last was taken over' "$LAST" "$((TTL - 50))" "$((TTL + RENEW + SLACK))"
    # Without this nothing would be tested: it went on for a while, and not beyond its deadline.
    took 'ms of the last sign of its polls' "$(last_of lost "$b")" "$((TTL - RENEW - TTL / 4 - 400))" "$((TTL * 7 / 8 + 50))"
    until_true 5 said a '"event":"store_recovering"'
    proxy_tell p clear
    for name in a b; do kill -TERM "$(warden_of $name)"; done
    pause_ms 100
    halt a b
    sound --targets "$TARGETS" --takeovers 3
}

# Everybody is dead, and so is what Redis knew. Nobody knows that: it takes one TTL, and the tokens go on above.
all_dead() {
    redis_store
    start_fleet
    mark lost
    for name in a b; do kill_host $name; done
    mark dead # until now they may have begun to poll
    kill_and_start empty
    for name in c d; do agent $name; done
    until_true 10 all_polled dead
    for name in a b; do
        takeover lost $name-
        took 'ms until the first was polled again' "$FIRST" "$TTL" "$((2 * TTL + SLACK))"
    done
    until_true 10 spread 3 3 c d
    halt c d
    sound --targets "$TARGETS" --takeovers 6
}

it 'fault 9: FLUSHALL: the living go on, newcomers wait for a TTL, tokens are not lower' flushed
it 'fault 9: killed and restarted empty: the living go on, newcomers wait for a TTL, tokens are not lower' restarted_empty
it 'killed and restarted with its data: the living go on, newcomers wait for a TTL' restarted_with_its_data
it 'fault 9: killed and restarted from an older dump: its tokens and names do not count' restarted_older
it 'fault 9: what a holder that is cut off believes in is not given away after FLUSHALL' forgotten_holder redis FLUSHALL
it 'fault 9: what a holder that is cut off believes in is not given away by an empty Redis' forgotten_holder kill_and_start empty
it 'fault 9: what a holder that is cut off believes in is not given back to whom an older dump names' forgotten_successor
it 'Redis and all instances die: everything is polled again after a TTL, with higher tokens' all_dead
finish
