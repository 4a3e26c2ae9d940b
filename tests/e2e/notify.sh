#!/bin/sh
# What the service manager hears: ready, stopping, and signs of life, from the main process alone.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

# manager NAME: listens there; the services started after it are told of it.
manager() {
    background manager setpriv --pdeathsig KILL python3 "$TENURE_SOURCE/tests/lib/notify_server.py" "$1"
    until_true 10 grep -q listening "$CASE/manager.out"
    NOTIFY_SOCKET=$1
    WATCHDOG_USEC=400000
    export NOTIFY_SOCKET WATCHDOG_USEC
}

# said PID MESSAGE: how often that process has said it.
said() { grep -c "^$1 $2\$" "$CASE/manager.out" || :; }
has_said() { [ "$(said "$1" "$2")" -ge "${3:-1}" ]; }
# only PID: nobody else spoke.
only() {
    if grep -v "^$1 \|^0 listening" "$CASE/manager.out"; then fail 'another process spoke for the service'; fi
}

agent() {
    "$TENURE" target add job-1
    background agent "$TENURE" agent --targets store --poll 'exec:env' --every 200ms --ttl 2s --publish -
    agent=$PID
}

worker_of() { cat "/proc/$1/task/$1/children"; }
beats_on() {
    beats=$(said "$1" WATCHDOG=1)
    until_true 5 has_said "$1" WATCHDOG=1 $((beats + 3))
}

agent_speaks() {
    manager "$CASE/notify"
    agent
    until_true 10 has_said "$agent" READY=1
    beats_on "$agent"
    until_true 5 grep -q '"ok":true' "$CASE/agent.out"
    ! grep -q 'NOTIFY_SOCKET\|WATCHDOG_USEC' "$CASE/agent.out" || fail 'a poll could speak for the service'
    same 'STOPPING=1' "$(said "$agent" STOPPING=1)" 0
    kill -s TERM "$agent"
    ended 0 "$agent"
    same 'READY=1' "$(said "$agent" READY=1)" 1
    same 'STOPPING=1' "$(said "$agent" STOPPING=1)" 1
    only "$agent"
}

# The service goes on with another worker: nothing to tell.
crash_is_no_news() {
    manager "$CASE/notify"
    agent
    until_true 10 has_said "$agent" READY=1
    kill -s KILL "$(worker_of "$agent" | cut -d ' ' -f 1)"
    until_true 5 grep -q worker_crashed "$CASE/agent.err"
    beats_on "$agent"
    same 'READY=1' "$(said "$agent" READY=1)" 1
    same 'STOPPING=1' "$(said "$agent" STOPPING=1)" 0
    kill -s TERM "$agent"
    ended 0 "$agent"
    only "$agent"
}

stopped_is_silent() {
    manager "$CASE/notify"
    agent
    until_true 10 has_said "$agent" WATCHDOG=1
    kill -s STOP "$agent"
    let_run 300
    beats=$(said "$agent" WATCHDOG=1)
    let_run 700
    same 'signs of life of a stopped warden' "$(said "$agent" WATCHDOG=1)" "$beats"
    kill -s CONT "$agent"
    beats_on "$agent"
    kill -s TERM "$agent"
    ended 0 "$agent"
}

leader_speaks() {
    manager "@tenure-notify-$$"
    background elect "$TENURE" elect role --ttl 2s -- sleep 60
    elect=$PID
    until_true 10 has_said "$elect" READY=1
    beats_on "$elect"
    kill -s TERM "$elect"
    ended 0 "$elect"
    has_said "$elect" STOPPING=1 || fail 'it did not say that it stops'
    only "$elect"
}

server_speaks() {
    "$TENURE" help | grep -q '^  serve ' || return 0
    manager "$CASE/notify"
    background serve "$TENURE" serve --listen "unix:$CASE/serve.sock"
    serve=$PID
    until_true 10 has_said "$serve" READY=1
    grep -q . "$CASE/serve.out" || fail 'it was ready before it listened'
    beats_on "$serve"
    kill -s TERM "$serve"
    ended 0 "$serve"
    same 'what it said at the end' "$(tail -n 1 "$CASE/manager.out")" "$serve STOPPING=1"
}

# A service that cannot start is never ready.
failure_is_not_ready() {
    manager "$CASE/notify"
    exits 3 "$TENURE" agent --store redis://127.0.0.1:1 --targets store --poll http --store-wait 0s
    ! grep -q READY "$CASE/manager.out" || fail 'it was ready without a store'
}

watchdog_of_another() {
    manager "$CASE/notify"
    WATCHDOG_PID=1
    export WATCHDOG_PID
    agent
    until_true 10 has_said "$agent" READY=1
    let_run 600
    same 'signs of life' "$(said "$agent" WATCHDOG=1)" 0
    kill -s TERM "$agent"
    ended 0 "$agent"
}

nobody_listens() {
    for NOTIFY_SOCKET in "$CASE/nobody" relative @ "/$(printf '%0300d' 0)"; do
        WATCHDOG_USEC=nonsense
        export NOTIFY_SOCKET WATCHDOG_USEC
        exits 0 "$TENURE" once role --at-least 0s -- true
    done
}

it 'an agent says when it is ready, that it lives, and that it stops; its polls cannot speak for it' agent_speaks
it 'a crashed worker is no news: the warden goes on' crash_is_no_news
it 'a stopped warden gives no sign of life' stopped_is_silent
it 'a candidate is ready when it campaigns, and speaks to an abstract socket' leader_speaks
it 'a server is ready when it listens' server_speaks
it 'an agent that cannot start is never ready' failure_is_not_ready
it 'the watchdog of another process is not ours' watchdog_of_another
it 'without a service manager, or with a wrong address, everything works as ever' nobody_listens
finish
