#!/bin/sh
# The commands around a fleet: nodes, status, plan and drain; and what agent refuses before it begins.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

json_lines() {
    printf '%s\n' "$OUT" | "$PYTHON" -c "
import json, sys
rows = [json.loads(line) for line in sys.stdin]
$1" || fail "not as expected: $1"
}

views() {
    targets 6
    for name in a b; do agent $name; done
    until_true 10 spread 3 3 a b
    a=$(instance_of a)
    b=$(instance_of b)
    exits 0 "$TENURE" nodes
    same 'lines of nodes' "$(printf '%s\n' "$OUT" | wc -l)" 2
    out_has "$a" "$b" live
    exits 0 "$TENURE" nodes --json
    json_lines "
assert [row['instance'] for row in rows] == ['$a', '$b'], rows
for row in rows:
    assert row['namespace'] == 'poll' and row['weight'] == 1 and row['held'] == 3 and row['planned'] == 3, row
    assert row['state'] == 'live' and 0 < row['remaining_ms'] <= $TTL, row"
    exits 0 "$TENURE" status
    same 'lines of status' "$(printf '%s\n' "$OUT" | wc -l)" 6
    out_has t-1 t-6 "$a" "$b"
    exits 0 "$TENURE" status --json
    json_lines "
assert [row['target'] for row in rows] == ['t-%d' % n for n in range(1, 7)], rows
for row in rows:
    assert row['instance'] == row['planned'] and row['instance'] in ('$a', '$b'), row
    assert row['state'] == 'held' and row['token'] >= 1 and 0 < row['remaining_ms'] <= $TTL, row
    assert row['acquired_at'][:19] <= row['renewed_at'][:22] + '9' and row['renewed_at'] < row['expires_at'], row"
    exits 0 "$TENURE" plan --json
    json_lines "
assert len(rows) == 6 and all(row['from'] == row['planned'] for row in rows), rows"
    exits 0 "$TENURE" plan --add 1 --json
    json_lines "
assert len([row for row in rows if row['planned'] not in ('$a', '$b')]) == 2, rows
assert 2 <= len(rows) <= 4, rows"
    exits 0 "$TENURE" plan --remove "$b" --json
    json_lines "
assert len(rows) == 3, rows
assert all(row['from'] == '$b' and row['planned'] == '$a' for row in rows), rows"
    run "$TENURE" plan --remove nobody-1-00000000
    [ "$STATUS" -ne 0 ] || fail 'removing an unknown instance is no mistake'
    # What the plan foretells of a join is what happens.
    exits 0 "$TENURE" nodes --json
    halt a b
    exits 0 "$TENURE" nodes
    out_is ''
    exits 0 "$TENURE" status --json
    json_lines "
assert len(rows) == 6 and all(row['state'] == 'free' and row['instance'] is None for row in rows), rows"
}

drained() {
    targets 6
    for name in a b; do agent $name; done
    until_true 10 spread 3 3 a b
    a=$(instance_of a)
    mark drain
    exits 0 "$TENURE" drain "$a"
    until_true 5 holds a 0
    until_true 5 holds b 6
    exits 0 "$TENURE" nodes --json
    json_lines "
row = [row for row in rows if row['instance'] == '$a'][0]
assert row['weight'] == 0 and row['held'] == 0 and row['planned'] == 0 and row['state'] == 'draining', row"
    until_true 5 said a '"event":"lease_released"' '"reason":"drain"'
    # It keeps running, and keeps being drained over its heartbeats.
    pause_ms "$((TTL + 500))"
    holds a 0 || fail 'a drained instance has taken targets again'
    kill -0 "$(warden_of a)" || fail 'a drained instance has ended'
    exits 0 "$TENURE" drain "$a" --undo
    until_true 5 spread 3 3 a b
    run "$TENURE" drain nobody-1-00000000
    [ "$STATUS" -eq 1 ] || fail 'draining an unknown instance is no mistake'
    halt a b
    sound --targets "$TARGETS" --bound 1400 --takeovers 3
}

weights() {
    targets 9
    agent a --weight 2
    agent b
    until_true 10 holds a 6
    until_true 10 holds b 3
    halt a b
    sound
}

other_ttl() {
    targets 2
    agent a
    until_true 10 all_polled
    begin=$(boot_ms)
    exits 2 "$TENURE" agent --name b --targets store --poll exec:true --ttl 5s --renew 1s
    err_has TTL
    took 'ms until the refusal' "$(($(boot_ms) - begin))" 0 3000
    # Another namespace is another fleet.
    bare_agent c --namespace other --targets store --poll 'exec:echo 1' --ttl 5s --renew 1s
    pause_ms 1000
    kill -0 "$WARDEN" || fail 'a fleet of another namespace was refused'
    halt a c
    sound
}

# refused TEXT OPTION...: exit code 2 with TEXT, and nothing was made.
refused() {
    text=$1
    shift
    exits 2 "$TENURE" agent "$@"
    err_has "$text"
    [ -z "$OUT" ] || fail 'something was written to standard output'
    nothing_written
}

bad_options() {
    refused '--targets' --poll exec:true
    refused '--poll' --targets store
    refused 'target source' --targets nowhere --poll exec:true
    refused 'target source' --targets file: --poll exec:true
    refused 'poller' --targets store --poll telepathy
    refused 'poller' --targets store --poll exec:
    refused 'sink' --targets store --poll exec:true --publish nowhere
    refused 'sink' --targets store --poll exec:true --publish - --publish file:
    refused '--weight' --targets store --poll exec:true --weight 0
    refused '--weight' --targets store --poll exec:true --weight -1
    refused '--weight' --targets store --poll exec:true --weight lots
    refused '--every' --targets store --poll exec:true --every 0s
    refused '--every' --targets store --poll exec:true --every 10
    refused '--timeout' --targets store --poll exec:true --timeout 0s
    refused 'argument' --targets store --poll exec:true extra
}

unsafe_timing() {
    refused 'renew' --targets store --poll exec:true --ttl 1s --renew 500ms
    refused 'TTL' --targets store --poll exec:true --ttl 50ms --renew 10ms
    refused 'margin' --targets store --poll exec:true --ttl 1s --renew 100ms --margin 900ms
    refused 'margin' --targets store --poll exec:true --ttl 1s --renew 100ms --margin 1ms
    refused 'grace' --targets store --poll exec:true --ttl 1s --renew 200ms --grace 900ms
    refused 'grace' --targets store --poll exec:true --ttl 1s --renew 200ms --grace 1ms
    refused '' --targets store --poll exec:true --ttl 0s
}

# On a terminal: the summary, then each target; again at each change, until it is stopped.
live_view() {
    targets 3
    agent a
    until_true 10 holds a 3
    # shellcheck disable=SC2086 # `status --watch` is its former name
    background screen script -qefc "$TENURE $1" "$CASE/screen"
    screen=$PID
    until_true 10 grep -q 'poll: 3 targets, 0 unowned, 1 instances' "$CASE/screen"
    until_true 10 grep -Eq 't-3 +held +a [0-9a-f]{4}' "$CASE/screen"
    "$TENURE" target add t-4
    until_true 10 grep -q 'poll: 4 targets, 0 unowned, 1 instances' "$CASE/screen"
    kill -TERM "$screen"
    wait "$screen" || :
    halt a
}

it 'nodes, status and plan show the fleet, also as JSON' on_store views
it 'drain empties an instance that keeps running, and --undo fills it again' on_store drained
it 'an instance of twice the weight holds twice as much' on_store weights
it 'an instance with another TTL is refused with exit code 2' on_store other_ttl
it 'top draws the fleet, and again when it changes' on_store live_view top
on_sqlite || finish
it 'status --watch opens top' on_store live_view 'status --watch'
it 'bad options are refused with exit code 2 before anything is made' bad_options
it 'timing that cannot be safe is refused with exit code 2' unsafe_timing
finish
