#!/bin/sh
# Only the thread that renews stands still, while the rest of the agent works on: it is closed by the deadline, not by that
# thread. Fault 4.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

# stall SECONDS: of the worker of a, all threads but the first, which is the agent's loop.
stall() {
    background stall "$PYTHON" "$TENURE_SOURCE/tests/lib/stop_threads.py" "$(worker_of a)" "$1"
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
    took 'ms of the last sign of its polls' "$(last_of stalled "$INSTANCE")" 0 "$((TTL * 7 / 8 + 50))"
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
    took 'ms of the last sign of its polls' "$(last_of stalled "$INSTANCE")" 0 "$((TTL * 7 / 8 + 50))"
    wait "$STALL" || :
    halt a b
    sound --targets "$TARGETS" --bound "$((TTL + 2500))"
}

it 'fault 4: when only the renewing thread stalls, polls under way are ended by the deadline and taken over' \
    on_store renewing_thread stubborn
it 'fault 4: when only the renewing thread stalls, no poll is begun after the deadline' on_store short_polls
finish
