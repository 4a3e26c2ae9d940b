#!/bin/sh
# Between an instance and its Redis, through the fault proxy: cut off in every way that a network has, replies that are
# lost or late, requests that come twice. Faults 5, 6, 7, 8, 17 and 18; and an operator who is far away, fault 49.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

SLACK=1500

# What is in a request, and not in the text of a script.
ACQUIRE='event=lease_acquired'
RENEWAL='$16\r\n1' # the number at which its holder knew the lease, or its version
RELEASE='event=lease_released'

# Each way at once, to an instance of its own; a is not touched. Their polls are longer than the TTL and ignore SIGTERM.
CUT='cut up down half hold slow'
cut_off() {
    TTL=3000
    RENEW=700
    LASTS=4000
    POLL_OPTIONS=stubborn
    redis_store
    targets 14
    for name in $CUT; do proxy_start "p-$name"; done
    agent a --timeout 60s
    for name in $CUT; do agent "$name" --timeout 60s --store "$(through "p-$name")"; done
    # shellcheck disable=SC2086
    until_true 20 spread 2 2 a $CUT
    until_true 5 holders_polled
    for name in $CUT; do instance_of "$name" >"$CASE/$name.instance"; done
    since=$(now_ms)
    mark cut
    proxy_tell p-cut refuse
    proxy_tell p-cut cut
    proxy_tell p-up drop up
    proxy_tell p-down drop down
    proxy_tell p-half half-open
    proxy_tell p-hold hold
    proxy_tell p-slow delay "$((TTL + 500))"
    told=$(($(now_ms) - since))
    for name in $CUT; do until_true 15 all_taken_from "$(cat "$CASE/$name.instance")"; done
    mark taken
    for name in $CUT; do
        instance=$(cat "$CASE/$name.instance")
        echo "--- $name"
        takeover cut "$instance"
        [ "$MOVED" -eq 2 ] || fail "$MOVED targets moved instead of 2"
        # What was under way when a reply was cut off still counts as a renewal in Redis.
        took 'ms until the first was taken over' "$FIRST" "$((TTL - RENEW - 300))" "$((TTL + told + SLACK))"
        took 'ms until the last was taken over' "$LAST" "$((TTL - RENEW - 300))" "$((TTL + told + SLACK))"
        # The polls went on for a while, since nobody had asked them to stop, and ended before the deadline.
        took 'ms of the last sign of its polls' "$(last_of cut "$instance")" "$((TTL - RENEW - TTL / 4 - 400))" \
            "$((TTL * 7 / 8 + told + 50))"
        noticed=$(logged_ms "$name" lease_renew_failed "$since")
        [ "$noticed" != never ] || fail "$name has noticed nothing"
        took 'ms until it was noticed' "$noticed" 0 "$((TTL * 7 / 8 + told))"
    done
    # Whole again, without being told; what hung half-open for ever was given up.
    for name in $CUT; do proxy_tell "p-$name" clear; done
    # shellcheck disable=SC2086
    until_true 30 spread 2 2 a $CUT
    for name in $CUT; do
        until_true 10 polled_by "$name" taken
        until_true 5 said "$name" '"event":"store_up"'
    done
    for name in a $CUT; do kill -TERM "$(warden_of "$name")"; done
    pause_ms 100
    # shellcheck disable=SC2086
    halt a $CUT
    sound --targets "$TARGETS" --takeovers 20
}

# Its Redis is out of reach, and it is told to stop: its leases end by themselves, so there is nothing to wait for.
stopped_while_cut_off() {
    redis_store
    targets 2
    proxy_start p
    agent a --store "$(through p)"
    until_true 10 all_polled
    proxy_tell p drop
    until_true 5 said a '"event":"lease_lost"'
    begin=$(boot_ms)
    kill -TERM "$(warden_of a)"
    until_true 20 is_gone "$(warden_of a)"
    took 'ms until the end' "$(($(boot_ms) - begin))" 0 "$((2 * TTL + SLACK))"
    ended 0 "$(warden_of a)"
    soon_true 3 no_pollers
}

# The request was done, and its answer is lost: with the connection, or without a sign.
acquire_swallowed() {
    TTL=6000
    RENEW=1500
    redis_store
    targets 3
    background watch "$TENURE" watch --json
    until_true 5 watches
    proxy_start p
    proxy_tell p swallow 1 $1 after "$ACQUIRE"
    LOG=$CASE/polls
    mark begin
    agent a --store "$(through p)"
    until_true 10 all_polled
    same 'replies that were lost' "$(proxy_count p swallowed)" 1
    # It has recognised itself: nobody waited for an expiry, and there was no second grant.
    for target in t-1 t-2 t-3; do soon_true 3 granted_once $target; done
    took 'ms until the last was polled' "$(last_of begin a-)" 0 5000
    stop a
    sound
    # For a script: one request, one token; or no answer, and no token.
    proxy_tell p swallow 1 $1 after "$ACQUIRE"
    run "$TENURE" acquire job --ttl 60s --store "$(through p)?timeout=1s"
    same 'replies that were lost' "$(proxy_count p swallowed)" 2
    soon_true 3 granted_once job
    if [ -n "$1" ]; then
        same 'exit code' "$STATUS" 0
        out_is "$(token_of job)"
    else
        same 'exit code' "$STATUS" 3
        out_is ''
        err_has 'did not answer in time'
    fi
}
watches() {
    "$TENURE" target add probe --log-level error
    [ -s watch.out ]
}
granted_once() { [ "$(grep -F '"event":"lease_acquired"' watch.out | grep -cF "\"target\":\"$1\"")" -eq 1 ]; }

renewal_swallowed() {
    TTL=3000
    RENEW=500
    redis_store
    targets 3
    proxy_start p
    agent a --store "$(through p)"
    until_true 10 all_polled
    mark begin
    for how in cut '' cut ''; do
        lost=$(proxy_count p swallowed)
        proxy_tell p swallow 1 $how after "$RENEWAL"
        until_true 5 swallowed_more_than "$lost"
        pause_ms 700
    done
    mark end
    same hands "$(hands_since begin)" 0
    same 'times that a lease was lost' "$(times_said a '"event":"lease_lost"')" 0
    until_true 5 said a '"event":"lease_renew_failed"'
    stop a
    # Uncertain for a time-out, a sixth of the TTL, and a moment.
    sound --targets "$TARGETS" --bound 2000 --from begin --until end
}
swallowed_more_than() { [ "$(proxy_count p swallowed)" -gt "$1" ]; }

release_again() {
    redis_store
    proxy_start p
    for command in replay replay-session; do
        token=$("$TENURE" acquire job --store "$(through p)")
        exits 0 "$TENURE" release job --token "$token" --store "$(through p)"
        exits 0 "$TENURE" acquire job --ttl 60s
        successor=$OUT
        [ "$successor" -gt "$token" ] || fail "the token $successor is not above $token"
        holder=$(holder_of job)
        left=$(remaining_of job)
        answered "$(proxy_tell p $command "$RELEASE")"
        same 'the holder' "$(holder_of job)" "$holder"
        same 'the token' "$(token_of job)" "$successor"
        between 'ms left' "$(remaining_of job)" 50000 "$left"
        exits 0 "$TENURE" renew job --token "$successor"
        exits 0 "$TENURE" release job --token "$successor"
    done
}
# answered TEXT: of a replay: the server did get it.
answered() {
    echo "$1"
    case $1 in
    *' 0 bytes answered'*) fail 'the server did not answer, so nothing is tested' ;;
    *'bytes answered'*) ;;
    *) fail 'nothing was sent again' ;;
    esac
}

# All that an instance had ever sent comes again after it has left. Its tombstone keeps its heartbeats and acquires out.
# When that is gone they look alive for a TTL: a target may be offered to it and taken back, but that is all.
session_again() {
    TTL=4000
    RENEW=800
    redis_store
    targets 4
    proxy_start p
    agent a
    agent b --store "$(through p)"
    until_true 10 spread 2 2 a b
    until_true 5 all_polled
    stopped=$(boot_ms) # the tombstone lasts for a TTL from then on, at least
    stop b
    until_true 5 holds a 4
    mark even # the first poll of what has just been handed over would count as a change of hands
    until_true 5 all_polled even
    mark again
    answered "$(proxy_tell p replay "$RELEASE")"
    answered "$(proxy_tell p replay-session "$RELEASE")"
    answered_ms=$(($(boot_ms) - stopped))
    pause_ms 700
    if [ "$answered_ms" -lt "$TTL" ]; then # else a busy machine has let the tombstone end, and what follows is the case
        same hands "$(hands_since again)" 0
        same 'instances' "$("$TENURE" nodes --json | wc -l)" 1
    fi
    pause_ms "$TTL"
    answered "$(proxy_tell p replay-session "$RELEASE")"
    pause_ms "$TTL"
    until_true 5 holds a 4
    mark end
    same 'times that a lease was lost' "$(times_said a '"event":"lease_lost"')" 0
    stop a
    sound --targets "$TARGETS" --bound "$((TTL + SLACK))" --from again --until end
}

# The operator's shell is so far from the store that an idle holder has heard of the pin, and has handed the target over,
# before the force arrives. That must not meet the successor.
forced_from_afar() {
    TTL=9000
    RENEW=3000
    EVERY=600000
    redis_store
    targets 1
    for name in a b; do agent $name; done
    all_there 2
    until_true 30 all_polled
    proxy_start p
    proxy_tell p delay 300
    for now in '' --now; do
        forced_to $now
        forced_away $now
    done
    exits 0 "$TENURE" history t-1
    if printf '%s\n' "$OUT" | grep forced; then fail 'somebody was forced'; fi
    # Where it is already, nobody is taken anything.
    exits 0 "$TENURE" release t-1 --force --to "$to"
    err_has "t-1 is held by $to " 'already' 'nothing was forced'
    halt a b
    sound --targets "$TARGETS"
}
find_holder() { for name in a b; do if holds $name 1; then from=$name; else to=$name; fi; done; }
forced_to() {
    find_holder
    force_and_see --to "$to" "$@"
}
forced_away() {
    find_holder
    force_and_see --not "$from" "$@"
}
force_and_see() {
    mark forced
    exits 0 "$TENURE" release t-1 --force "$@" --store "$(through p)"
    err_has "$from " 'has handed the target over to' "$to " 'nothing was forced'
    until_true 30 holds "$to" 1
    until_true 30 polled_by "$to" forced
}

it 'faults 5, 17, 18: an instance cut off in any way stops before its deadline, is replaced, and comes back' cut_off
it 'an instance that is cut off and told to stop does so' stopped_while_cut_off
it 'fault 7: an acquire whose reply is lost with the connection recognises itself' acquire_swallowed cut
it 'fault 7: an acquire whose reply never comes recognises itself' acquire_swallowed ''
it 'fault 6: a renewal whose reply is lost costs nothing' renewal_swallowed
it 'fault 8: a late duplicate of a release does nothing to the successor' release_again
it 'fault 8: everything that an instance had sent comes again and does nothing to its successor' session_again
it 'fault 49: a force with --to or --not meets the holder that was meant, and never its successor' forced_from_afar
finish
