#!/bin/sh
# A store that is down when a command starts: who runs for long waits for it, the others as long as they are told to.
# What no waiting repairs is an error at once.
# shellcheck source=tests/lib/tap.sh
. "$TENURE_SOURCE/tests/lib/tap.sh"
# shellcheck source=tests/lib/redis.sh
. "$TENURE_SOURCE/tests/lib/redis.sh"

# A Redis that is down, and whose port is known. Sets REDIS_PORT.
down() {
    TENURE_TTL=1s # a Redis that was restarted lets nobody in for one TTL
    export TENURE_TTL
    redis_store
    redis_stop
}

# waits NAME COMMAND...: it says whom it waits for, and why.
waits() {
    name=$1
    shift
    background "$name" "$@"
    eval "PID_$name=$PID"
    until_true 10 grep -q "event=store_waiting .*127.0.0.1:$REDIS_PORT.*Connection refused" "$CASE/$name.err"
}

services() {
    down
    echo 'tick @every 1s true' >"$CASE/crontab"
    waits agent "$TENURE" agent --targets store --poll exec:true
    waits elect "$TENURE" elect web -- sh -c "echo led >$CASE/led; exec sleep 1000"
    waits serve "$TENURE" serve --listen 127.0.0.1:0
    waits cron "$TENURE" cron "$CASE/crontab"
    waits lock "$TENURE" lock one --log-level warn -- touch "$CASE/locked"
    redis_start_again
    until_true 20 test -s "$CASE/led"
    until_true 20 test -s "$CASE/serve.out"
    until_true 20 test -e "$CASE/locked"
    until_true 20 sh -c "[ \"\$('$TENURE' nodes --store '$TENURE_STORE' | wc -l)\" -eq 1 ]"
    until_true 20 sh -c "[ \"\$('$TENURE' nodes --namespace cron --store '$TENURE_STORE' | wc -l)\" -eq 1 ]"
}

stopped() {
    down
    for name in agent serve elect; do
        case $name in
        agent) waits agent "$TENURE" agent --targets store --poll exec:true ;;
        serve) waits serve "$TENURE" serve --listen 127.0.0.1:0 ;;
        elect) waits elect "$TENURE" elect web -- true ;;
        esac
        kill -TERM "$PID"
        status=0
        wait "$PID" || status=$?
        same "exit code of $name" "$status" 0
    done
}

bounded() {
    down
    exits 3 "$TENURE" elect web --store-wait 300ms -- touch "$CASE/ran"
    err_has 'Connection refused'
    exits 3 "$TENURE" serve --listen 127.0.0.1:0 --store-wait 0s
    exits 3 "$TENURE" agent --targets store --poll exec:true --store-wait 0s
    exits 3 "$TENURE" once web -- touch "$CASE/ran"
    exits 3 "$TENURE" once web --wait 300ms -- touch "$CASE/ran"
    exits 3 "$TENURE" lock web --wait 300ms -- touch "$CASE/ran"
    exits 3 "$TENURE" acquire web --wait 300ms
    [ ! -e "$CASE/ran" ] || fail 'it ran without a store'
}

verbs_wait() {
    down
    background once "$TENURE" once web --wait 60s -- touch "$CASE/once"
    background acquire "$TENURE" acquire job --wait 60s
    sleep 0.5
    redis_start_again
    until_true 30 test -e "$CASE/once"
    until_true 30 test -s "$CASE/acquire.out"
}

at_once() {
    background serve "$TENURE" serve --listen 127.0.0.1:0 --store "sqlite:$CASE/served.db"
    until_true 10 test -s "$CASE/serve.out"
    other=$(cat "$CASE/serve.out")
    redis_store
    for url in "redis://:wrong@127.0.0.1:$REDIS_PORT" "etcd://$other" "sqlite:$CASE/none/store.db" \
        "reddis://127.0.0.1" "redis://$other" "postgres://127.0.0.1:$REDIS_PORT/x?timeout=1s" \
        "etcd://127.0.0.1:$REDIS_PORT"; do
        run timeout 60 "$TENURE" elect web --store "$url" --log-level error -- touch "$CASE/ran"
        case $STATUS in
        0 | 124) fail "with $url the exit code is $STATUS" ;;
        esac
        [ -n "$ERR" ] || fail "with $url it says nothing"
    done
    # What answers there is named, by commands that would wait and by others.
    exits 3 "$TENURE" agent --targets store --poll exec:true --store "redis://$other"
    err_has 'an HTTP server answers there'
    exits 3 "$TENURE" ls --store "etcd://127.0.0.1:$REDIS_PORT"
    err_has 'a Redis server answers there'
    # A server of the right kind that is slow is waited for.
    kill -STOP "$REDIS"
    exits 3 "$TENURE" ls --store "redis://127.0.0.1:$REDIS_PORT?timeout=200ms"
    err_lacks 'answers there'
    kill -CONT "$REDIS"
}

it 'a store that is down at the start is waited for by agent, elect, serve, cron and lock' services
it 'who waits for the store can be stopped, with exit code 0' stopped
it 'a limit of the waiting is kept' bounded
it 'once and acquire wait for the store within their --wait' verbs_wait
it 'a wrong password, scheme, path or kind of server is an error at once' at_once
finish
