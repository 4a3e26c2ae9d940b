#!/bin/sh
# A store in trouble, and clocks: the fleet closes by its deadlines, and opens again by itself. Faults 10, 12 and 21. On
# SQLite or Redis: out of reach is a directory that has gone, or a server that has ended; locked is a lock on the file,
# or a server that is stopped, which is also fault 5.
#     fleet_store.sh [--outage SECONDS]   one outage of that length, with a third of it as the TTL (SC-005: 90)
OUTAGE_MS=0
if [ "${1:-}" = --outage ]; then OUTAGE_MS=$((${2:?} * 1000)); fi
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/faketime.sh
. "$TENURE_SOURCE/tests/lib/faketime.sh"

start_fleet() {
    TTL=1200
    RENEW=300
    if [ "$OUTAGE_MS" -gt 0 ]; then
        TTL=$((OUTAGE_MS / 3))
        RENEW=$((TTL / 3))
    fi
    if on_sqlite; then
        mkdir db
        TENURE_STORE=sqlite:$CASE/db/store.db
    fi
    for name in a b; do agent $name --timeout 60s; done
    all_there 2
    targets 6
    until_true 10 spread 3 3 a b
    until_true 5 all_polled
}

# trouble BEGIN END: commands that make the store unusable, and usable again.
trouble() {
    mark outage-begin
    $1
    pause_ms "$TTL"
    pause_ms 100
    mark closed
    pause_ms $((2 * TTL))
    mark outage-end
    $2
    until_true "$((10 + 2 * TTL / 1000))" all_polled outage-end
    # A holder keeps a target until its poll is over.
    if [ "$LASTS" -lt 1000 ]; then until_true 10 spread 3 3 a b; fi
    mark end
    # The deadline is the TTL less an eighth after the last renewal, and pollers are gone by then.
    no_poll_between closed outage-end
    said a '"event":"store_down"' || said a '"event":"lease_renew_failed"' || fail 'the trouble is not logged'
}

unreachable() {
    start_fleet
    trouble go_away come_back
    halt a b
    sound --targets "$TARGETS" --bound "$((3 * TTL))" --until end
}

# Polls are under way when the store goes: ended by the deadline, and nothing of them is published.
unreachable_in_polls() {
    LASTS=120000
    SETTLE=1000 # polls that long are not handed over: both have to be there before the first takes everything
    POLL_OPTIONS='stubborn print 1'
    start_fleet
    trouble go_away come_back
    for name in a b; do kill -TERM "$(warden_of $name)"; done
    pause_ms 100
    halt a b
    sound --targets "$TARGETS"
    if grep -h '"ok":true' "$CASE"/*.messages; then fail 'a poll that was cut was published as a result'; fi
}

lock() {
    lock_store
    mark outage-begin
}
unlock() {
    unlock_store
    mark outage-end
}

locked() {
    start_fleet
    trouble lock unlock
    halt a b
    sound --targets "$TARGETS" --bound "$((3 * TTL))" --until end
}

# A shorter trouble than the deadline: nothing is lost, no poll is cut.
hiccup() {
    TTL=4000
    RENEW=500
    LASTS=3000
    POLL_OPTIONS='print 1'
    targets 2
    agent a --timeout 60s
    until_true 10 all_polled
    lock
    pause_ms 1500
    unlock
    until_true 10 grep -q '"ok":true' "$CASE/a.messages"
    kill -TERM "$(warden_of a)"
    stop a
    same 'times that a lease was lost' "$(times_said a '"event":"lease_lost"')" 0
    sound --targets "$TARGETS"
    if grep -h '"ok":false' "$CASE/a.messages" | grep -v 'agent is stopping'; then fail 'a poll was cut'; fi
}

# The renewals of more than 100 leases are told by their count: what was withheld is published when they are confirmed, not
# at the old deadline. The polls wait at a gate until the renewals have failed.
withheld() {
    TTL=120000
    RENEW=1000
    EVERY=600000
    targets 130
    mkfifo gate
    bare_agent a --targets store --timeout 10m --poll "exec:cat $CASE/gate" --publish "file:$CASE/a.messages"
    until_true 10 polls_of_shell 130
    lock
    until_true 10 renewals_failed 130
    until_true 10 let_through
    let_run 300
    same 'messages while the leases are uncertain' "$(wc -l <"$CASE/a.messages")" 0
    unlock
    soon_true 2 published 130
    kill -TERM "$(warden_of a)"
    stop a
    same 'polls that failed' "$(grep -c '"ok":false' "$CASE/a.messages" || :)" 0
}
renewals_failed() { [ "$(times_said a '"event":"lease_renew_failed"')" -ge "$1" ]; }
published() { [ "$(wc -l <"$CASE/a.messages")" -eq "$1" ]; }
polls_of_shell() { [ "$(wc -w <"/proc/$(worker_of a)/task/$(worker_of a)/children")" -eq "$1" ]; }
# Whoever waits for the gate to be opened goes on, although it is closed at once. Those who come later find it closed.
let_through() {
    : 1<>gate
    polls_of_shell 0
}

# With --on-uncertain stop the polls are ended when a renewal has failed, long before the deadline.
uncertain_stop() {
    TTL=6000
    RENEW=500
    LASTS=120000
    targets 2
    agent a --timeout 60s --on-uncertain stop
    until_true 10 all_polled
    lock
    mark locked
    until_true 6 no_pollers
    took 'ms until the last sign of a poller' "$(last_of locked a-)" 0 4500
    unlock
    kill -TERM "$(warden_of a)"
    stop a
    sound
}

faked_clock() {
    steady_ttl 1200
    targets 6
    agent a
    until_true 10 all_polled
    UNDER=$(clock_of "$1")
    agent b
    UNDER=
    until_true 10 spread 3 3 a b
    mark both
    # Without this the rest would prove nothing.
    until_true 5 test -s "$CASE/b.messages"
    ahead=$("$PYTHON" -c '
import datetime, json, sys
at = datetime.datetime.fromisoformat(json.loads(sys.stdin.readline())["at"].replace("Z", "+00:00"))
print(round((at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()))' <"$CASE/b.messages")
    between 'seconds ahead' "$ahead" "$2" "$3"
    pause_ms $((2 * TTL))
    mark end
    spread 3 3 a b || fail 'the shares have changed'
    for name in a b; do
        same "times that $name lost a lease" "$(times_said $name '"event":"lease_lost"')" 0
    done
    halt a b
    sound --targets "$TARGETS" --bound 900 --from both --until end
}

it 'fault 10: a store out of reach for three TTLs closes the fleet, which then polls everything again' on_store unreachable
[ "$OUTAGE_MS" -eq 0 ] || finish
it 'fault 10: polls under way are ended by the deadline and not published' on_store unreachable_in_polls
it 'fault 21: a store locked for three TTLs closes the fleet, which then polls everything again' on_store locked
it 'a store in trouble for less than the TTL costs no lease and no poll' on_store hiccup
it 'what was withheld is published as soon as a large renewal is confirmed' on_store withheld
it '--on-uncertain stop ends polls when a renewal has failed' on_store uncertain_stop
it 'fault 12: an agent whose wall clock is an hour ahead shares as if it were not' on_store faked_clock +1h 3500 3700
it 'fault 12: an agent whose wall clock is an hour behind shares as if it were not' on_store faked_clock -1h -3700 -3500
finish
