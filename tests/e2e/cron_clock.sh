#!/bin/sh
# Hosts of `tenure cron` whose clocks are wrong, by faketime. FLEET_STORE chooses the store; SQLite has the clock of each
# host, and etcd tells none.
FLEET_STORE=${FLEET_STORE:-http}
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/faketime.sh
. "$TENURE_SOURCE/tests/lib/faketime.sh"

# runner NAME OFFSET
runner() {
    # shellcheck disable=SC2046
    background "$1" $(clock_of "$2") "$TENURE" cron "$CASE/tab" --name "$1" --ttl "${TTL}ms" --renew "${RENEW}ms" \
        --settle "${SETTLE}ms" --log-format json
    echo "$PID" >"$CASE/$1.pid"
}
# One job for each of the hosts that follow each other: a job that a host ahead has run waits until its last instant is over.
tell_of_wrong_clocks() {
    # shellcheck disable=SC2016
    echo 'job missed=all @every 1s echo "$TENURE_JOB $TENURE_INSTANT" >>'"$CASE/runs" >"$CASE/tab"
    runner ahead +150s
    until_true 30 said ahead '"event":"clock_differs"' "ahead of the store's" '"level":"warn"'
    until_true 30 test -s "$CASE/runs"
    ahead_ms=$(sed -n 's/.*"event":"clock_differs".*"difference_ms":\([0-9]*\).*/\1/p' "$CASE/ahead.err" | head -n 1)
    between 'difference in ms' "$ahead_ms" 140000 153000
    halt ahead
    last=$(tail -n 1 "$CASE/runs" | cut -d' ' -f2)
    runner right +0s
    until_true 30 said right '"event":"lease_acquired"'
    pause_ms 2500
    same 'the last instant, which is still to come' "$(tail -n 1 "$CASE/runs" | cut -d' ' -f2)" "$last"
    halt right
    if said right '"event":"clock_differs"'; then fail 'a right clock is said to differ'; fi
    runner behind -150s
    until_true 30 said behind '"event":"clock_differs"' "behind the store's"
    halt behind
    cut -d' ' -f1,2 "$CASE/runs" | sort | uniq -d >"$CASE/twice"
    [ ! -s "$CASE/twice" ] || fail "ran twice: $(cat "$CASE/twice")"
}

it 'a clock that differs from the store'"'"'s by more than a minute is told; what a host ahead has run does not run again' \
    on_store tell_of_wrong_clocks
finish
