#!/bin/sh
# The warden: what becomes of the work and of the leases when a worker is killed, stopped or hung, or the warden itself
# is. Faults 1 and 3 (see docs/FAULTS.md).
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

SLACK=1500

# Polls that are too long to be handed over: all have to be there before the first takes everything.
long_polls() {
    LASTS=20000
    SETTLE=1000
}

worker_killed() {
    TTL=8000
    RENEW=2000
    POLL_OPTIONS=${1:-}
    for name in a b; do agent $name --timeout 60s; done
    all_there 2
    targets 6
    until_true 10 spread 3 3 a b
    until_true 5 all_polled
    instance=$(instance_of b)
    worker=$(worker_of b)
    mark kill
    kill -KILL "$worker"
    until_true 8 is_gone "$worker"
    until_true 8 all_taken_from "$instance"
    takeover kill "$instance"
    [ "$MOVED" -eq 3 ] || fail "$MOVED targets moved instead of 3"
    took 'ms until the last was taken over' "$LAST" 0 "$((TTL / 4))"
    # A new worker, which is a new instance.
    until_true 8 has_worker_other_than b "$worker"
    until_true 8 new_instance b "$instance"
    until_true 5 said b '"event":"worker_crashed"' '"signal":9'
    exits 0 "$TENURE" history --json
    out_has '"event":"lease_released"' '"reason":"crashed"'
    if [ "$LASTS" -lt 1000 ]; then
        until_true 8 spread 3 3 a b
        stop a
        stop b
    else
        hurry a b
    fi
    sound --targets "$TARGETS"
    soon_true 3 no_pollers
}
# hurry NAME...: stops them without waiting for their polls.
hurry() {
    for name in "$@"; do kill -TERM "$(warden_of "$name")"; done
    pause_ms 100
    halt "$@"
}
new_instance() {
    fleet_new=$(instance_of "$1")
    [ -n "$fleet_new" ] && [ "$fleet_new" != "$2" ]
}

# The grandchildren in sessions of their own are part of their poll: the judge sees an overlap if one outlives it.
worker_killed_detached() {
    long_polls
    worker_killed detach
}

# A poll whose command is over, but not what it started: it goes before the next poll of that target begins.
leftovers_of_a_poll() {
    POLL_OPTIONS=$1
    targets 2
    agent a
    until_true 10 all_polled
    pause_ms 1500
    stop a
    sound --targets "$TARGETS" --polls 6
    soon_true 3 no_pollers
}

warden_killed() {
    LASTS=20000
    POLL_OPTIONS=$1
    targets 3
    agent a --timeout 60s
    until_true 10 all_polled
    worker=$(worker_of a)
    [ -n "$(pollers)" ] || fail 'no poller is running, so nothing is tested'
    mark kill
    kill -KILL "$(warden_of a)"
    soon_true 2 is_gone "$worker"
    soon_true 2 no_pollers
    took 'ms of the last sign of a poller' "$(last_of kill a-)" -1000 200
}

# The worker is stopped in the middle of polls: nobody in it looks at a deadline.
worker_stopped() {
    TTL=2000
    RENEW=500
    long_polls
    POLL_OPTIONS=$1
    for name in a b; do agent $name --timeout 60s; done
    all_there 2
    targets 6
    until_true 10 spread 3 3 a b
    until_true 5 all_polled
    instance=$(instance_of b)
    worker=$(worker_of b)
    mark stop
    freeze "$worker"
    until_true 8 all_taken_from "$instance"
    takeover stop "$instance"
    took 'ms until the first was taken over' "$FIRST" "$((TTL - RENEW - 300))" "$((TTL + SLACK))"
    took 'ms until the last was taken over' "$LAST" "$((TTL - RENEW - 300))" "$((TTL + SLACK))"
    # Ended by the deadline, which is the TTL less an eighth from the last renewal.
    took 'ms of the last sign of its pollers' "$(last_of stop "$instance")" 0 "$((TTL * 7 / 8 + 50))"
    # A busy machine may be too late to wake it: then its warden has ended it.
    if [ "$2" = wake ] && kill -CONT "$worker" 2>/dev/null; then
        let_run 700
        said b '"event":"worker_killed"' || said b '"event":"lease_lost"' '"reason":"expired"' || fail 'the woken worker does not say that it lost its leases'
    else
        until_true 5 new_instance b "$instance"
        is_gone "$worker" || fail 'the stopped worker is still there'
        until_true 5 said b '"event":"worker_killed"'
    fi
    hurry a b
    sound --targets "$TARGETS" --takeovers 3
    soon_true 3 no_pollers
    no_stale_messages b "$instance"
}

# no_stale_messages NAME INSTANCE: no message of the instance has a token below one that another has published before.
no_stale_messages() {
    cat "$CASE"/*.messages 2>/dev/null | "$PYTHON" -c '
import json, sys
messages = sorted((json.loads(line) for line in sys.stdin), key=lambda message: (message["at"], message["_version"]))
highest = {}
for message in messages:
    target, token = message["target"], message["_version"]
    assert token >= highest.get(target, 0), f"stale: {message}"
    highest[target] = token
print(len(messages), "messages, none stale")' || fail 'a stale message'
}

# The poll is over while the worker is stopped, its result is in the pipe. When the worker wakes after its lease has
# ended and another has polled, the result must not be published.
woken_does_not_publish() {
    TTL=1500
    RENEW=400
    LASTS=500
    POLL_OPTIONS='print woken'
    EVERY=600
    targets 4
    for name in a b; do agent $name --timeout 60s; done
    until_true 10 spread 2 2 a b
    until_true 5 all_polled
    instance=$(instance_of b)
    warden=$(warden_of b)
    worker=$(worker_of b)
    mark stop
    # All of it: the warden, so that it does not kill the worker, and the worker; its pollers end by themselves.
    freeze "$warden" "$worker"
    size=$(wc -c <"$CASE/b.messages")
    until_true 8 all_taken_from "$instance"
    pause_ms 500
    mark woken
    # The worker first: it has every chance to do something foolish before the warden looks.
    kill -CONT "$worker"
    pause_ms 300
    kill -CONT "$warden"
    pause_ms 500
    tail -c "+$((size + 1))" "$CASE/b.messages" >"$CASE/after"
    for token in $(awk -v instance="$instance" '$3 == "mark" { exit } $3 == "start" && $6 == instance { print $5 }' "$LOG" | sort -u); do
        if grep -F "\"instance\":\"$instance\",\"_version\":$token," "$CASE/after"; then fail 'a result of an ended lease was published'; fi
    done
    until_true 8 spread 2 2 a b
    until_true 5 polled_by b woken
    halt a b
    sound --targets "$TARGETS" --takeovers 2
    no_stale_messages b "$instance"
}

# The warden ends the poll of a stopped worker, which wakes at once and renews its lease: the poll has not failed.
ended_then_renewed() {
    TTL=6000
    RENEW=1000
    targets 1
    bare_agent a --targets store --grace 2s --timeout 100s --publish "file:$CASE/messages" \
        --poll "exec:touch '$CASE/began'; exec sleep 1000"
    until_true 10 test -e "$CASE/began"
    worker=$(worker_of a)
    freeze "$worker"
    until_true 20 children_ended "$worker"
    kill -CONT "$worker"
    until_true 10 said a '"event":"poll_discarded"'
    if said a '"event":"poll_failed"'; then fail 'the poll counts as failed'; fi
    [ ! -s "$CASE/messages" ] || fail 'the poll was published'
    halt a # which publishes the poll that has begun since as one that the agent ended
}
# The worker is stopped, and does not reap them.
children_ended() {
    for child in $(cat "/proc/$1/task"/*/children); do grep -q '^State:.Z' "/proc/$child/status" || return 1; done
}

# Without a PID namespace, what detached itself survives only the death of the warden and the worker together.
unprivileged() {
    without_namespaces has_no_namespaces
}
has_no_namespaces() {
    # shellcheck disable=SC2086
    run $UNDER "$TENURE" doctor
    echo "$OUT" | grep 'process isolation' || fail 'doctor says nothing of isolation'
    # shellcheck disable=SC2086
    if $UNDER unshare --pid --fork true 2>/dev/null; then fail 'PID namespaces are still permitted, so nothing is tested'; fi
}

crash_loop() {
    targets 1
    agent a
    until_true 10 all_polled
    for _ in 1 2 3; do
        instance=$(instance_of a)
        kill -KILL "$(worker_of a)"
        until_true 5 new_instance a "$instance"
    done
    until_true 5 said a '"event":"worker_crashed"' '"restart_in_ms":100'
    until_true 5 said a '"event":"worker_crashed"' '"restart_in_ms":400'
    mark crashed
    until_true 5 polled t-1 crashed
    stop a
    sound
}

# It holds nothing, so that no deadline ends it; and it does not hear that it is asked to end.
stopped_with_nothing() {
    bare_agent a --targets store --poll 'exec:true'
    until_true 10 instances_are 1
    let_run 300 # it is in its loop by then
    freeze "$(worker_of a)"
    kill -TERM "$(warden_of a)"
    ended 137 "$(warden_of a)"
    said a '"event":"worker_killed"' 'its loop hangs' || fail 'the log does not say why it was killed'
}

if has_namespaces; then
    it 'fault 1: the targets of a killed worker are taken over in a fraction of the TTL, and a new worker joins' on_store worker_killed
    it 'fault 1: no descendant of a killed worker survives, not even a double fork with setsid' on_store worker_killed_detached
    it 'what a poll leaves running is ended before the next poll of its target' \
        on_store leftovers_of_a_poll detach
    it 'the death of the warden ends the worker and its pollers, also the detached' on_store warden_killed detach
    it 'fault 3: the pollers of a stopped worker are ended by the deadline and its targets polled elsewhere' \
        on_store worker_stopped 'stubborn detach' wake
    it 'fault 3: a worker that wakes after its leases have ended publishes nothing of them' on_store woken_does_not_publish
fi
it 'a poll that the warden ended because of its lease is not published as failed when the lease is renewed after all' \
    on_store ended_then_renewed
it 'without PID namespaces the agent works, too' on_store unprivileged
it 'fault 1, no namespaces: the targets of a killed worker are taken over in a fraction of the TTL' \
    on_store without_namespaces worker_killed
it 'fault 1, no namespaces: no descendant of a killed worker survives, not even a double fork with setsid' \
    on_store without_namespaces worker_killed_detached
it 'no namespaces: what a poll leaves running is ended before the next poll of its target' \
    on_store without_namespaces leftovers_of_a_poll detach
it 'no namespaces: so is what has chosen a mark of its own' \
    on_store without_namespaces leftovers_of_a_poll 'detach forge'
it 'no namespaces: the death of the warden ends the worker and its pollers' on_store without_namespaces warden_killed ''
it 'fault 3, no namespaces: the pollers of a stopped worker are ended by the deadline' \
    on_store without_namespaces worker_stopped '' wake
it 'fault 3, no namespaces: pollers that ignore SIGTERM, and their detached grandchildren, are ended by the deadline, too' \
    on_store without_namespaces worker_stopped 'stubborn detach' wake
it 'fault 3, no namespaces: so are those that have chosen a mark of their own' \
    on_store without_namespaces worker_stopped 'stubborn detach forge' wake
it 'fault 3: a worker that stays stopped is killed and another takes its place' on_store worker_stopped '' sleep
it 'a stopped worker that holds nothing does not keep the agent from ending' on_store stopped_with_nothing
it 'a worker that crashes again and again is restarted with growing pauses' on_store crash_loop
finish
