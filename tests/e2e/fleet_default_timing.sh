#!/bin/sh
# A fleet with the timing that users get when they say nothing: a TTL of 30 s, a renewal each 10 s.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

default_agent() {
    background "$1" "$TENURE" agent --name "$1" --targets store --every 500ms --log-format json \
        --poll "exec:exec $POLLER $CASE/polls poll 50" --publish "file:$CASE/$1.messages" --log-level debug
    echo "$PID" >"$CASE/$1.pid"
}

defaults() {
    LOG=$CASE/polls
    targets 6
    for name in a b; do default_agent $name; done
    until_true 15 spread 3 3 a b
    until_true 5 holders_polled
    between 'remaining ms of a lease' "$(remaining_of t-1)" 15000 30000
    instance=$(instance_of b)
    mark kill
    kill -KILL "$(worker_of b)"
    until_true 10 all_taken_from "$instance" # it may have begun to poll after the mark
    takeover kill "$instance"
    [ "$MOVED" -eq 3 ] || fail "$MOVED targets moved instead of 3"
    took 'ms until the last was taken over' "$LAST" 0 5000
    # Long enough for a renewal of the default interval.
    until_true 15 said a '"event":"lease_renewed"'
    # The new worker of b gets its share back after the default settle time.
    until_true 15 spread 3 3 a b
    instance=$(instance_of a)
    mark stop
    stop a
    until_true 5 holds b 6
    until_true 5 all_taken_from "$instance"
    takeover stop "$instance"
    took 'ms until the last was taken over from the stopped one' "$LAST" 0 3000
    stop b
    sound --targets "$TARGETS" --bound 6000 --takeovers 6
}

# SC-002. Nobody gives the leases back: the other one has to see them end.
host_dies() {
    LOG=$CASE/polls
    targets 6
    for name in a b; do default_agent $name; done
    until_true 15 spread 3 3 a b
    until_true 5 holders_polled
    instance=$(instance_of b)
    # Whoever dies right after a renewal has the whole TTL: not that moment.
    until_true 15 no_lease_above 28500
    mark death
    kill_host b
    until_true 35 all_taken_from "$instance"
    takeover death "$instance"
    [ "$MOVED" -eq 3 ] || fail "$MOVED targets moved instead of 3"
    took 'ms until the first was taken over' "$FIRST" 15000 30000
    took 'ms until the last was taken over' "$LAST" 15000 30000
    stop a
    sound --targets "$TARGETS" --bound 31000 --takeovers 3
}
# no_lease_above MS: none has so much time left.
no_lease_above() {
    "$TENURE" ls --json | awk -v most="$1" '
        { sub(/.*"remaining_ms":/, ""); if ($0 + 0 > most) exit 1 }'
}

it 'a killed worker and a stopped instance are taken over in seconds with a TTL of 30 s' on_store defaults
# Half a minute of waiting: once is enough, and on the store of machines that die apart.
on_sqlite || it 'SC-002: the targets of a dead host are polled again within 30 s' on_store host_dies
finish
