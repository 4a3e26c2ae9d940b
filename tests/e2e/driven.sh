#!/bin/sh
# A program with an event loop of its own (examples/driven.c) holds 1,000 leases on Redis, without a thread, while the
# server restarts; and says so when an outage was longer than the TTL.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

driven=${TENURE_EXAMPLES:?}/driven
leases=1000

# start TTL_MS: the program holds everything.
start() {
    redis_store --appendonly yes
    background alice "$driven" "$TENURE_STORE" alice "$1" "$leases"
    alice=$PID
    until_true 20 says "held $leases, valid $leases, lost 0, failed 0, threads 1"
    same 'leases in the store' "$(held_in_store)" "$leases"
    # Until the end of the case: each number of threads that the process has had.
    background threads watch_threads "$alice"
}
watch_threads() {
    while [ -d "/proc/$1/task" ]; do
        set -- "$1" /proc/"$1"/task/*
        [ $# -eq 2 ] || echo "$(($# - 1)) threads"
        set -- "$1"
        sleep 0.02
    done
}
one_thread() {
    [ ! -s "$CASE/threads.out" ] || fail "it had $(sort -u "$CASE/threads.out" | tr '\n' ' ')"
    ! grep -q 'threads [02-9]' "$CASE/alice.out" || fail 'it says that it had other threads'
}

says() { grep -qF "alice: $1" "$CASE/alice.out"; }
# says_now TEXT: in its last line of counts.
says_now() { grep 'alice: held' "$CASE/alice.out" | tail -n 1 | grep -qF "$1"; }
held_in_store() { "$TENURE" ls --json | grep -c '"state":"held"' || :; }

stop() {
    kill -s TERM "$alice"
    ended 0 "$alice"
    says 'released everything' || fail 'it did not say that it released everything'
    same 'leases in the store at the end' "$(held_in_store)" 0
    one_thread
}

restarted_in_time() {
    start 12000
    before=$(redis_pid)
    redis_stop
    until_true 10 says 'the store is down'
    redis_start_again
    [ "$(redis_pid)" != "$before" ] || fail 'the server was not restarted'
    until_true 20 says 'the store is up'
    until_true 20 says_now "held $leases, valid $leases, lost 0, failed 0"
    # Over the end of what was granted before the restart.
    let_run 13000
    says_now "held $leases, valid $leases, lost 0, failed 0" || fail 'not everything was kept'
    ! grep -q 'lost [1-9]' "$CASE/alice.out" || fail 'something was lost meanwhile'
    stop
}

stopped_for_too_long() {
    start 3000
    redis_stop
    until_true 10 says 'the store is down'
    until_true 10 says_now "held 0, valid 0, lost $leases, failed 0"
    # What was lost does not come back with the store.
    redis_start_again
    let_run 3000
    says_now "held 0, valid 0, lost $leases, failed 0" || fail 'a lease came back'
    stop
}

it '1,000 leases outlive a restart of Redis in one thread, and SIGTERM releases them' restarted_in_time
it 'an outage of Redis beyond the TTL loses them, and the program says so' stopped_for_too_long
finish
