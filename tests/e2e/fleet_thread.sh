#!/bin/sh
# Only the thread that renews stands still, while the rest of the agent works on: it is closed by the deadline, not by that
# thread. Fault 4. And the other way round: only the loop stands still, while the leases are renewed for nothing. Then the
# warden kills the worker.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

# stall SECONDS [first]: of the worker of a, all threads but the first, which is the agent's loop; or that one alone.
stall() {
    background stall "$PYTHON" "$TENURE_SOURCE/tests/lib/stop_threads.py" "$(worker_of a)" "$@"
    STALL=$PID
    until_true 5 test -s "$CASE/stall.out"
    mark stalled
}

two_agents() {
    for name in a b; do agent $name --timeout 60s; done
    all_there 2
    targets 6
    until_true 10 spread 3 3 a b
    until_true 5 all_polled
    INSTANCE=$(instance_of a)
}

# renewing_thread OPTIONS: polls that are longer than the TTL are ended before the deadline; others take the targets over.
renewing_thread() {
    TTL=2000
    RENEW=500
    LASTS=8000
    POLL_OPTIONS=$1
    two_agents
    stall 2.9 # the warden gives up a worker that is past its deadlines for half a TTL
    until_true 10 all_taken_from "$INSTANCE"
    takeover stalled "$INSTANCE"
    same 'targets that moved' "$MOVED" 3
    took 'ms until the first was taken over' "$FIRST" "$((TTL - RENEW - 300))" "$((TTL + 1500))"
    # Its last renewal was sent at most a moment before.
    took 'ms of the last sign of its polls' "$(last_of stalled "$INSTANCE")" -60000 "$((TTL * 7 / 8 + 50))"
    wait "$STALL" || :
    mark awake
    until_true 15 polled_by a awake
    halt a b
    sound --targets "$TARGETS"
}

# With short polls nothing is begun any more when the deadline has passed, although the loop that begins them runs.
short_polls() {
    TTL=2000
    RENEW=500
    two_agents
    stall 2.9
    until_true 10 all_taken_from "$INSTANCE"
    took 'ms of the last sign of its polls' "$(last_of stalled "$INSTANCE")" -60000 "$((TTL * 7 / 8 + 50))"
    wait "$STALL" || :
    halt a b
    sound --targets "$TARGETS" --bound "$((TTL + 2500))"
}

# The loop hangs for good: as far as its store knows, all is well. Half a TTL (at least two seconds) of that, and the warden
# ends it, releases its leases, and starts another worker.
hung_loop() {
    TTL=4000
    RENEW=800
    two_agents
    before=$(worker_of a)
    stall 60 first
    until_true 10 has_worker_other_than a "$before"
    said a '"event":"worker_killed"' 'its loop hangs' || fail 'the warden did not say why it killed the worker'
    until_true 10 all_taken_from "$INSTANCE"
    takeover stalled "$INSTANCE"
    same 'targets that moved' "$MOVED" 3
    # The mark comes a moment after the stall.
    took 'ms until the last was taken over' "$LAST" "$((TTL / 2 - 500))" "$TTL"
    kill "$STALL" 2>/dev/null || :
    halt a b
    sound --targets "$TARGETS"
}

# A loop that stands still for a moment is left alone, and so is a worker that is stopped as a whole before its deadlines:
# it renews nothing meanwhile.
short_stall() {
    TTL=4000
    RENEW=800
    two_agents
    before=$(worker_of a)
    stall 1 first
    wait "$STALL" || :
    freeze "$before"
    pause_ms 1500
    kill -CONT "$before"
    mark awake
    until_true 10 polled_by a awake
    same 'the worker' "$(worker_of a)" "$before"
    halt a b
    sound --targets "$TARGETS" --bound "$((TTL + 2500))"
}

it 'a loop that hangs while its leases are renewed is killed, and its targets are taken over within a TTL' \
    on_store hung_loop
it 'a loop that stands still for a moment, and a worker that is stopped for a moment, are left alone' on_store short_stall
it 'fault 4: when only the renewing thread stalls, polls under way are ended by the deadline and taken over' \
    on_store renewing_thread stubborn
it 'fault 4: when only the renewing thread stalls, no poll is begun after the deadline' on_store short_polls
finish
