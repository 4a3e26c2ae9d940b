#!/bin/sh
# tenure elect: the process of the command, which a candidate makes while another leads. It runs nothing before its
# candidate leads, nor after the lease was lost on the way; it ends with its candidate, and is replaced when it is gone.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"
# shellcheck disable=SC2016 # commands are for the shells of the candidates

children_of() { cat /proc/"$1"/task/*/children 2>/dev/null || :; }
# ready_of NAME: the prepared process of a candidate: a child of its worker, or of the first process of a namespace.
ready_of() {
    for ready_child in $(children_of "$(worker_of "$1")"); do
        for ready_each in $ready_child $(children_of "$ready_child"); do
            if grep -qx tenure-ready "/proc/$ready_each/comm" 2>/dev/null; then echo "$ready_each"; fi
        done
    done
}
is_ready() { [ -n "$(ready_of "$1")" ]; }
is_unready() { [ -z "$(ready_of "$1")" ]; }

# both: a leads, b waits and is ready.
both() {
    candidate a --pid-namespace "$NAMESPACE"
    until_true 10 somebody_leads
    candidate b --pid-namespace "$NAMESPACE" "$@"
    until_true 10 is_ready b
    READY=$(ready_of b)
}

# The command that runs is the process that was prepared, or was made by it.
takes_over() {
    TTL=20000
    both
    is_unready a || fail 'the leader has a prepared process, too'
    ls -l "/proc/$READY/fd" >"$CASE/fds"
    ! grep -q -e socket: -e '\.db' "$CASE/fds" || fail "it holds a connection of its worker's: $(cat "$CASE/fds")"
    mark stop
    stop a
    until_true 10 leads b
    same 'its process' "$(pollers)" "$READY"
    same 'its token' "$(term)" 2
    is_unready b || fail 'the leader has a prepared process'
    stop b
    never_two 2
    soon_true 3 no_pollers
}

# Nothing is left of it, and nothing has run.
is_nowhere() { is_gone "$READY"; }
ends_with() {
    TTL=20000
    both
    "$@"
    until_true 5 is_nowhere
    same 'commands that began' "$(terms)" 1
    halt a b
    soon_true 3 no_pollers
}
kill_warden_of_b() { kill -KILL "$(warden_of b)"; }
kill_worker_of_b() { kill -KILL "$(worker_of b)"; }
stop_b() { stop b; }

# It is stopped when its candidate is elected, and goes on when the lease is lost. Its worker is stopped, too: so it is the
# warden, the first process of its namespace or its own look at the deadline that keeps it from running.
late() {
    TTL=3000
    RENEW=500
    both
    kill -STOP "$READY"
    stop a
    until_true 5 said b '"event":"lease_acquired"'
    worker=$(worker_of b)
    freeze "$worker"
    pause_ms "$TTL"
    kill -CONT "$READY" 2>/dev/null || :
    until_true 10 is_nowhere
    kill -CONT "$worker" 2>/dev/null || :
    # It, or the worker that follows it, leads again with another process.
    until_true 15 has_terms 2
    awk '$3 == "start" && $5 == 2 { found = 1 } END { exit found }' "$LOG" || fail 'the command ran under the lost lease'
    halt b
    never_two 2
}

# Killed by somebody, it costs time, and no term.
is_killed() {
    TTL=20000
    both
    kill -KILL "$READY"
    until_true 5 is_nowhere
    stop a
    until_true 10 leads b
    halt b
    never_two 2
}

# After a run that failed, another one is made.
again() {
    TTL=20000
    both --restart on-failure
    stop a
    until_true 10 leads b
    candidate c --pid-namespace "$NAMESPACE"
    until_true 10 is_ready c
    kill -KILL "$READY"
    until_true 10 has_terms 3
    if leads c; then # else the machine was so busy that b leads again, with another process
        until_true 10 is_ready b
        [ "$(ready_of b)" != "$READY" ] || fail 'it is the same process'
    fi
    halt b c
    never_two 3
}

# The environment is that of the term, and a signal that came before it means nothing.
environment() {
    TTL=20000
    elect a --pid-namespace "$NAMESPACE" -- sleep 600
    until_true 10 said a '"event":"lease_acquired"'
    RESTART=never
    elect b --pid-namespace "$NAMESPACE" -- sh -c 'env >"$0"' "$CASE/env"
    until_true 10 is_ready b
    kill -USR1 "$(ready_of b)"
    kill -HUP "$(ready_of b)"
    stop a
    ended 0 "$(warden_of b)"
    for wanted in "TENURE_ROLE=$ROLE" TENURE_TOKEN=2 TENURE_REASON=; do
        grep -qx "$wanted" "$CASE/env" || fail "the command has no $wanted: $(grep TENURE "$CASE/env")"
    done
    grep -q '^TENURE_INSTANCE=b-' "$CASE/env" || fail 'the command does not know its instance'
}

NAMESPACE=auto
also "a candidate's command becomes the process that was prepared" on_store_of_roles takes_over
also 'its environment is that of its term' on_store_of_roles environment
also 'it never runs when the lease is lost before it starts' on_store_of_roles late
also 'it ends with its worker' on_store_of_roles ends_with kill_worker_of_b
also 'it ends with its warden' on_store_of_roles ends_with kill_warden_of_b
also 'it ends when its candidate is told to stop' on_store_of_roles ends_with stop_b
also 'without it the command is started all the same' on_store_of_roles is_killed
also 'after a failed run another one is made' on_store_of_roles again
NAMESPACE=off
also 'the same without isolation: the command becomes the process that was prepared' on_store_of_roles takes_over
also 'it never runs when the lease is lost before it starts' on_store_of_roles late
also 'it ends with its warden' on_store_of_roles ends_with kill_warden_of_b
gather
finish
