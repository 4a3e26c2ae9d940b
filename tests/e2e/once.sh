#!/bin/sh
# tenure once: a job on every replica, that one of them does. The job writes to the log; a term is a run.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"
# shellcheck disable=SC2016 # commands are for the shells of the replicas

# replica NAME OPTION...: with a job of $LASTS ms.
replica() {
    elect_name=$1
    shift
    # shellcheck disable=SC2086
    background "$elect_name" "$TENURE" once "$ROLE" --name "$elect_name" --ttl "${TTL}ms" --renew "${RENEW}ms" "$@" -- \
        "$POLLER" "$LOG" poll "$LASTS" $POLL_OPTIONS
    WARDEN=$PID
    echo "$PID" >"$CASE/$elect_name.pid"
}
# another OPTION...: one more replica, with a short job.
another() { run "$TENURE" once "$ROLE" --ttl "${TTL}ms" --renew "${RENEW}ms" "$@" -- "$POLLER" "$LOG" poll 1; }
# lost: it did not run it: 4, and not a word.
lost() {
    [ "$STATUS" -eq 4 ] || fail "exit code $STATUS instead of 4"
    out_is ''
    same 'standard error' "$ERR" ''
}
loses() {
    another
    lost
}
wins() {
    another "$@"
    [ "$STATUS" -eq 0 ] || fail "exit code $STATUS instead of 0"
}
# loses_until MS OPTION...: the same as loses, unless a busy machine has let it come later than that after the last
# start; then it may win, or even lose its lease (5), and the case is judged by what is in the log alone.
LATE=
loses_until() {
    lose_until=$1
    lose_before=$(began_ms)
    shift
    [ -z "$LATE" ] || return 0
    another "$@"
    if [ "$STATUS" -eq 5 ]; then
        LATE=yes
    elif [ "$STATUS" -eq 0 ] && [ $(($(began_ms) - lose_before)) -ge $((lose_until - LAUNCH)) ]; then
        LATE=yes
    else
        lost
    fi
}
# apart MS: no run began sooner than that after the one before, and there were two. The time counts from the election,
# and a busy machine starts the first of two jobs a while after that: so much sooner the second may seem to come.
LAUNCH=600
apart() {
    never_two 2
    awk -v least="$1" -v launch="$LAUNCH" '
        $3 != "start" { next }
        n++ && $1 - last < (least - launch) * 1000 { print "too soon: " $0; exit 1 }
        { last = $1 }' "$LOG" || fail "it was run again before $1 ms had passed"
    if [ -z "$LATE" ]; then same 'runs' "$(terms)" 2; fi
}
code_of() {
    until_true 30 is_gone "$1"
    code=0
    wait "$1" || code=$?
}
since() { echo $(($(boot_ms) - $1)); }
began_ms() { awk '$3 == "start" { at = $1 } END { printf "%d\n", at / 1000 }' "$LOG"; }
# wait_until MS: since the last job began.
wait_until() {
    left=$(($(began_ms) + $1 - $(boot_ms)))
    [ "$left" -le 0 ] || pause_ms "$left"
}

# Ten at once, and more that come later, with a job that is over at once.
fleet() {
    TTL=5000
    RENEW=1000
    LASTS=20
    names=$(seq -f 'r%g' 1 10)
    for name in $names; do replica "$name"; done
    won=0
    for name in $names; do
        code_of "$(warden_of "$name")"
        case $code in
        0) won=$((won + 1)) ;;
        4)
            [ ! -s "$CASE/$name.out" ] || fail "$name, which lost, says something"
            ! grep -v 'event=store_' "$CASE/$name.err" || fail "$name, which lost, says more than that the store is slow"
            ;;
        *) fail "$name ended with $code" ;;
        esac
    done
    same 'replicas that ran it' "$won" 1
    wait_until 1200
    loses_until 5000
    wait_until 2400
    loses_until 5000
    wait_until 5300
    wins
    apart 5000
}

# --at-least is what counts, shorter or longer than the TTL.
at_least() {
    TTL=$1
    RENEW=$(($1 / 4))
    LASTS=1
    replica a --at-least "${2}ms"
    ended 0 "$WARDEN"
    left=$(role_is remaining_ms)
    [ "$(since "$(began_ms)")" -ge "$2" ] || between 'ms left' "$left" 1 "$2"
    loses_until "$2" --at-least "${2}ms"
    wait_until "$(($2 - 700))"
    loses_until "$2"
    wait_until "$(($2 + 400))"
    [ -n "$LATE" ] || wins
    apart "$2"
}
# ... also after a job that failed, or was killed.
after_failure() {
    TTL=8000
    RENEW=2000
    exits 9 "$TENURE" once "$ROLE" --ttl 8s -- sh -c 'exit 9'
    loses
    ROLE=other
    exits 137 "$TENURE" once "$ROLE" --ttl 8s -- sh -c 'kill -KILL $$'
    loses
    ROLE=third
    exits 7 "$TENURE" once "$ROLE" --ttl 8s --pid-namespace off -- sh -c 'exit 7'
    loses
}
# Nothing has run: another replica may be able to. The message says what is wrong.
not_started() {
    # not_run CODE WORDS OPTION... CMD...: with its own least time, which is not kept.
    not_run() {
        not_run_code=$1
        not_run_words=$2
        shift 2
        exits "$not_run_code" "$TENURE" once "$ROLE" --at-least 1h "$@"
        err_has command_failed "$not_run_words"
        role_is_free || fail 'the role is kept'
    }
    not_run 127 'command=no-such-command-anywhere error="there is no such command in PATH"' -- no-such-command-anywhere
    not_run 127 'there is no such file on this host' --pid-namespace off -- "$CASE/none"
    printf '#!%s/none\n' "$CASE" >"$CASE/interpreted"
    not_run 126 'the file is not executable; chmod +x allows it' -- "$CASE/interpreted"
    chmod +x "$CASE/interpreted"
    not_run 127 'the interpreter that the file names is not on this host' -- "$CASE/interpreted"
    not_run 126 'it is a directory' --pid-namespace off -- "$CASE"
    # What the shell reports is what has run.
    exits 127 "$TENURE" once "$ROLE" --at-least 1h -- sh -c 'exit 127'
    loses
}
# ... also after the death of the worker, and of both processes, whether that is longer than the TTL or not.
after_kill() {
    TTL=1600
    RENEW=400
    AT_LEAST=$2
    POLL_OPTIONS=detach
    replica a --at-least "${AT_LEAST}ms"
    until_true 10 somebody_leads
    worker=$(worker_of a)
    case $1 in
    worker) kill -KILL "$worker" ;;
    both) kill -KILL "$(warden_of a)" "$worker" ;;
    esac
    code_of "$WARDEN"
    [ "$code" -ne 0 ] || fail 'a job that was killed was a success'
    soon_true 3 no_pollers
    loses_until "$AT_LEAST"
    wait_until "$((AT_LEAST - 700))"
    loses_until "$AT_LEAST"
    # No longer than that time and a TTL.
    wait_until "$((AT_LEAST + TTL + 400))"
    [ -n "$LATE" ] || wins
    apart "$AT_LEAST"
}
# With --at-least 0s there is nothing to keep: the next one follows at once.
after_kill_at_once() {
    TTL=20000
    RENEW=5000
    replica a --at-least 0s
    until_true 10 somebody_leads
    replica b --at-least 0s --wait 20s
    pause_ms 300
    mark kill
    kill -KILL "$(worker_of a)"
    until_true 8 has_terms 2
    takeover kill a-
    took 'ms until the other ran it' "$FIRST" 0 3000
    kill -TERM "$(warden_of b)"
    never_two 2
}

long_job() {
    TTL=1200
    RENEW=300
    LASTS=4000
    replica a
    until_true 10 somebody_leads
    for _ in 1 2 3 4; do
        pause_ms 600
        loses_until "$LASTS"
    done
    ended 0 "$WARDEN"
    # It has lasted longer than it is kept: the role is free.
    [ -n "$LATE" ] || wins
    apart "$LASTS"
}

not_elected_exit() {
    TTL=600000
    LASTS=1
    replica a
    ended 0 "$WARDEN"
    exits 0 "$TENURE" once "$ROLE" --not-elected-exit 0 -- false
    same 'standard error' "$ERR" ''
    exits 75 "$TENURE" once "$ROLE" --not-elected-exit 75 -- false
    exits 2 "$TENURE" once "$ROLE" --not-elected-exit 256 -- false
    exits 2 "$TENURE" once "$ROLE" --not-elected-exit x -- false
    same 'runs' "$(terms)" 1
}

waits() {
    TTL=4000
    RENEW=1000
    LASTS=1
    replica a
    ended 0 "$WARDEN"
    began=$(boot_ms)
    loses_until "$TTL" --wait 300ms
    took 'ms that it waited' "$(since "$began")" 250 3500
    [ -n "$LATE" ] || wins --wait 20s
    apart "$TTL"
}
one_after_another() {
    TTL=20000
    RENEW=5000
    LASTS=150
    names='a b c d e'
    for name in $names; do replica $name --at-least 0s --wait 60s; done
    for name in $names; do ended 0 "$(warden_of $name)"; done
    same 'runs' "$(terms)" 5
    never_two 5
    took=$(awk '
        $3 == "start" && !first { first = $1 }
        $3 == "end" { last = $1 }
        END { printf "%d\n", (last - first) / 1000 }' "$LOG")
    took 'ms of all of them' "$took" 750 5000
    role_is_free || fail 'the role was not released'
}

taken_away() {
    TTL=3000
    RENEW=500
    POLL_OPTIONS='stubborn detach'
    replica a
    until_true 10 somebody_leads
    mark taken
    # shellcheck disable=SC2086
    exits 0 "$TENURE" resign "$ROLE" --from "$(leader)" --force $1
    code_of "$WARDEN"
    same 'its code' "$code" 5
    grep -q lost "$CASE/a.err" || fail 'it does not say that the lease was lost'
    took 'ms of the last sign of the job' "$(last_of taken a-)" -100 "$((TTL * 7 / 8 + 100))"
    soon_true 3 no_pollers
    never_two 1
}

# The job is ended, and its end is what it ends with; what is kept is kept.
stopped() {
    TTL=8000
    RENEW=2000
    replica a
    until_true 10 somebody_leads
    kill -TERM "$WARDEN"
    code_of "$WARDEN"
    echo "code $code"
    same 'its code' "$code" 143
    soon_true 3 no_pollers
    loses
    never_two 1
    # A job that ends in order has its own say.
    ROLE=other
    background b "$TENURE" once "$ROLE" --ttl 4s -- sh -c 'trap "exit 6" TERM; echo ready; while :; do sleep 0.02; done'
    until_true 10 grep -q ready "$CASE/b.out"
    kill -TERM "$PID"
    ended 6 "$PID"
}
stopped_while_waiting() {
    TTL=20000
    RENEW=5000
    replica a
    until_true 10 somebody_leads
    replica b --wait 60s
    pause_ms 500
    kill -TERM "$WARDEN"
    code_of "$WARDEN"
    same 'its code' "$code" 143
    kill -TERM "$(warden_of a)"
    never_two 1
}

also 'ten replicas at once, and more that come seconds later: one runs the job, the others exit with 4 and not a word' \
    on_store_of_roles fleet
also '--at-least longer than the TTL is kept after a short job' on_store_of_roles at_least 1000 3500
also '--at-least shorter than the TTL is kept after a short job, and no longer' \
    on_store_of_roles at_least 20000 2500
also 'a job that failed is not run again before its time, and its code is passed on' on_store_of_roles after_failure
also 'a job that could not be started leaves the role to others, and the log says why' on_store_of_roles not_started
also 'the worker was killed: not again before --at-least, beyond the TTL' on_store_of_roles after_kill worker 3500
also 'the worker was killed: not again before --at-least, below the TTL' on_store_of_roles after_kill worker 1200
if has_namespaces; then
    also 'worker and warden were killed: not again before --at-least, beyond the TTL' \
        on_store_of_roles after_kill both 3500
fi
also 'the worker was killed, with --at-least 0s: another runs it at once' on_store_of_roles after_kill_at_once
also 'a job longer than the TTL keeps its lease and runs once' on_store_of_roles long_job
also '--not-elected-exit is the code of those that lose' on_store_of_roles not_elected_exit
also '--wait waits for the role, and no longer than it says' on_store_of_roles waits
also '--at-least 0s with --wait: every replica runs it, one after the other' on_store_of_roles one_after_another
also 'a lease that is taken away ends the job: 5' on_store_of_roles taken_away --now
also 'a lease that is barred ends the job before it ends: 5' on_store_of_roles taken_away ''
also 'SIGTERM ends the job, whose code it is, and keeps what is to be kept' on_store_of_roles stopped
also 'SIGTERM while it waits is 143' on_store_of_roles stopped_while_waiting
gather
finish
