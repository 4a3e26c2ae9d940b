#!/bin/sh
# Waiting and watching: two shells that compete, signals, and the stream of changes.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

# ---- waiting

eight_shells() {
    for shell in 1 2 3 4 5 6 7 8; do
        background "shell$shell" sh -c '
            for round in 1 2 3; do
                token=$("$TENURE" acquire job-1 --wait 600s --log-level error) || exit
                echo "$token"
                "$TENURE" release job-1 --token "$token" --log-level error || exit
            done'
    done
    while read -r pid; do ended 0 "$pid"; done <"$CASE/pids"
    same 'all tokens' "$(sort -n "$CASE"/shell*.out | tr '\n' ' ')" "$(seq 1 24 | tr '\n' ' ')"
}

woken_by_release() {
    exits 0 "$TENURE" acquire job-1 --ttl 60s
    background waiter "$TENURE" acquire job-1 --wait 30s
    waiter=$PID
    let_run 500
    kill -0 "$waiter" || fail 'the waiter did not wait'
    start=$(now_ms)
    exits 0 "$TENURE" release job-1 --token 1
    ended 0 "$waiter"
    took 'ms from the release to the end of the waiter' "$(($(now_ms) - start))" 0 2000
    same 'its token' "$(cat "$CASE/waiter.out")" 2
}

woken_by_expiry() {
    exits 0 "$TENURE" acquire job-1 --ttl 1500ms
    start=$(now_ms)
    left=$(remaining_of job-1)
    exits 0 "$TENURE" acquire job-1 --wait 60s
    out_is 2
    took 'ms of waiting' "$(($(now_ms) - start))" "$left" "$((left + 2000))"
}

wait_elapses() {
    exits 0 "$TENURE" acquire job-1
    start=$(now_ms)
    exits 4 "$TENURE" acquire job-1 --wait 700ms
    took 'ms of waiting' "$(($(now_ms) - start))" 690 3000
    out_is ''
    err_has 'job-1 is held by'
}

# interrupted SIGNAL CODE
interrupted() {
    exits 0 "$TENURE" acquire job-1
    background waiter "$TENURE" acquire job-1 --wait 30s
    waiter=$PID
    let_run 500
    start=$(now_ms)
    kill -s "$1" "$waiter"
    ended "$2" "$waiter"
    took 'ms from the signal to the end' "$(($(now_ms) - start))" 0 2000
    same 'its output' "$(cat "$CASE/waiter.out")" ''
    same 'the token' "$(token_of job-1)" 1
}

killed_waiter() {
    exits 0 "$TENURE" acquire job-1 --ttl 600s
    background waiter "$TENURE" acquire job-1 --wait 600s
    waiter=$PID
    let_run 300
    kill -s KILL "$waiter"
    wait "$waiter" || :
    exits 0 "$TENURE" release job-1 --token 1
    exits 0 "$TENURE" acquire job-1 --wait 60s
    out_is 2
}

# ---- watching

# start_watch ARGUMENT...: a watch that is known to see what comes after.
start_watch() {
    exits 0 "$TENURE" target add probe
    background watch "$TENURE" watch "$@"
    watch=$PID
    tries=0
    until [ -s "$CASE/watch.out" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || fail 'the watch sees nothing'
        "$TENURE" target add "probe-$tries" --log-level error
        sleep 0.1
    done
}

watch_shows_changes() {
    start_watch --json
    exits 0 "$TENURE" acquire job-1 --name other
    exits 0 "$TENURE" release job-1 --token 1
    exits 0 "$TENURE" acquire job-1
    exits 0 "$TENURE" release job-1 --force --now
    until_true 5 grep -q '"reason":"forced"' "$CASE/watch.out"
    all_json "$CASE/watch.out"
    same 'the events of job-1' "$(python3 -c '
import json, sys
for line in open(sys.argv[1]):
    change = json.loads(line)
    assert {"at", "event", "namespace", "cursor"} <= set(change), change
    if change.get("target") == "job-1":
        print(change["event"], change["token"], change.get("reason", "-"))' "$CASE/watch.out")" \
        'lease_acquired 1 -
lease_released 1 done
lease_acquired 2 -
lease_released 2 forced'
    kill -s TERM "$watch"
    ended 0 "$watch"
}

watch_in_words() {
    start_watch
    exits 0 "$TENURE" acquire job-1 --name other
    until_true 5 grep -q 'lease_acquired  *job-1  other-.*  token 1' "$CASE/watch.out"
    kill -s INT "$watch"
    ended 0 "$watch"
}

watch_into_head() {
    exits 0 "$TENURE" target add probe
    background pipeline sh -c '"$TENURE" watch | head -n 1'
    pipeline=$PID
    tries=0
    while kill -0 "$pipeline" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || fail 'watch | head -n 1 does not end'
        "$TENURE" target add "probe-$tries" --log-level error
        sleep 0.1
    done
    ended 0 "$pipeline"
    same 'number of lines' "$(wc -l <"$CASE/pipeline.out")" 1
}

watch_with_nohup() {
    exits 0 "$TENURE" target add probe
    background watch nohup "$TENURE" watch
    watch=$PID
    let_run 500
    kill -s HUP "$watch"
    let_run 300
    kill -0 "$watch" || fail 'a watch under nohup ended with the terminal'
    kill -s TERM "$watch"
    ended 0 "$watch"
}

export TENURE
it 'eight shells that compete get every token exactly once' eight_shells
it 'a waiter wakes on release, long before the lease would have ended' woken_by_release
it 'a waiter enters when the lease ends' woken_by_expiry
it 'a wait that elapses exits 4' wait_elapses
it 'SIGINT ends a waiting acquire with 130' interrupted INT 130
it 'SIGTERM ends a waiting acquire with 143' interrupted TERM 143
it 'a waiter that was killed leaves nothing behind' killed_waiter
it 'watch prints the changes of other processes and ends with 0 on SIGTERM' watch_shows_changes
it 'watch in words names the event, the target, the holder and the token' watch_in_words
it 'watch ends when its reader has gone' watch_into_head
it 'watch under nohup outlives its terminal' watch_with_nohup
finish
