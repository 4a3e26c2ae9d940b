#!/bin/sh
# tenure lock: a lock, a semaphore, several locks at once. The commands write to the log, which is judged alone.
#     lock.sh [--seconds N]    how long the semaphore is under kills
SECONDS_OF_KILLS=${LOCK_SECONDS:-15}
if [ "${1:-}" = --seconds ]; then SECONDS_OF_KILLS=${2:?}; fi
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"
# shellcheck source=tests/lib/elect.sh
. "$TENURE_SOURCE/tests/lib/elect.sh"
# shellcheck disable=SC2016 # commands are for the shells under the lock

on_locks() {
    on_store :
    if [ "$FLEET_STORE" = redis ]; then redis_begin lock; fi
    LOG=$CASE/polls
    : >"$LOG"
    trap end_all EXIT
    "$@"
}
# hold NAME OPTION...: a lock that is held until NAME.go is there. Its tenure is $PID.
hold() {
    hold_name=$1
    shift
    background "$hold_name" "$TENURE" lock "$@" -- sh -c ': >"$0.has"; until [ -e "$0.go" ]; do sleep 0.02; done' \
        "$CASE/$hold_name"
    until_true 20 test -e "$CASE/$hold_name.has"
}
let_go() { : >"$CASE/$1.go"; }
# waits NAME: its tenure waits, and the others know.
waits() { until_true 20 is_announced "$1"; }
is_announced() { "$TENURE" nodes --namespace lock --json | grep -q "\"instance\":\"$1-"; }

# ---- the basics

passes_on() {
    exits 0 "$TENURE" lock web -- sh -c 'echo "$TENURE_ROLE ${TENURE_TOKEN:+token} ${TENURE_SLOT-none} ${TENURE_INSTANCE%%-*}"' me
    out_is "web token none $(hostname | tr -c 'A-Za-z0-9._\n-' '_' | sed 's/-.*//')"
    same 'standard error' "$ERR" ''
    # A lock inside of others says nothing about theirs.
    exits 0 "$TENURE" lock outer --count 2 -- "$TENURE" lock --all p q -- "$TENURE" lock inner -- \
        sh -c 'echo "$TENURE_ROLE ${TENURE_SLOT-none} ${TENURE_TOKENS-none}"'
    out_is 'inner none none'
    exits 7 "$TENURE" lock web -- sh -c 'exit 7'
    same 'standard error' "$ERR" ''
    exits 143 "$TENURE" lock web -- sh -c 'kill -TERM $$'
    same 'standard error' "$ERR" ''
    exits 127 "$TENURE" lock web -- "$CASE/none"
    err_has command_failed
    echo hello >"$CASE/in"
    exits 0 sh -c '"$0" lock web -- cat <"$1"' "$TENURE" "$CASE/in"
    out_is hello
}
not_had() {
    hold first web --ttl 20s
    exits 4 "$TENURE" lock web --no-wait -- echo never
    out_is ''
    same 'standard error' "$ERR" ''
    exits 4 "$TENURE" lock web --wait 200ms -- echo never
    out_is ''
    same 'standard error' "$ERR" ''
    exits 0 "$TENURE" lock other --no-wait -- echo other
    let_go first
    ended 0 "$PID"
    exits 0 "$TENURE" lock web --no-wait -- echo free
    out_is free
}
in_turn() {
    hold first web --ttl 20s
    held=$PID
    for i in 1 2 3 4 5; do
        background "w$i" "$TENURE" lock web --ttl 20s --name "w$i" -- sh -c 'echo "$1" >>"$0"' "$CASE/order" "$i"
        waits "w$i"
    done
    let_go first
    ended 0 "$held"
    # In which order is for the simulator to judge: a busy machine lets those who stand behind overtake.
    until_true 20 has_lines "$CASE/order" 5
    same 'those who had it' "$(sort "$CASE/order" | tr '\n' ' ')" '1 2 3 4 5 '
    until_true 20 nobody_waits
}
nobody_waits() { [ -z "$("$TENURE" nodes --namespace lock --json)" ]; }
has_lines() { [ "$(wc -l <"$1" 2>/dev/null || echo 0)" -ge "$2" ]; }
# Whoever is next and dies, with its warden, costs little.
dead_waiter() {
    hold first web --ttl 20s
    held=$PID
    for i in 1 2 3; do
        background "w$i" "$TENURE" lock web --ttl 20s --name "w$i" --log-level info -- sh -c 'echo "$1" >>"$0"' "$CASE/order" "$i"
        eval "w$i=$PID"
        waits "w$i"
    done
    # shellcheck disable=SC2046,SC2154 # its children are several words; w1 is set by eval
    kill -KILL "$w1" $(cat "/proc/$w1/task/$w1/children") || : # a child may have ended with it
    let_go first
    ended 0 "$held"
    # shellcheck disable=SC2154
    ended 0 "$w2"
    # shellcheck disable=SC2154
    ended 0 "$w3"
    same 'those who had it' "$(sort "$CASE/order" | tr '\n' ' ')" '2 3 '
}
asked_to_stop() {
    background first "$TENURE" lock web --ttl 20s -- sh -c 'trap "exit 3" TERM; : >"$0"; while :; do sleep 0.05; done' "$CASE/has"
    until_true 20 test -e "$CASE/has"
    kill -TERM "$PID"
    ended 3 "$PID"
    exits 0 "$TENURE" lock web --no-wait -- true
    hold holder web --ttl 20s
    held=$PID
    background waiter "$TENURE" lock web --ttl 20s --name waiter -- echo never
    waits waiter
    kill -TERM "$PID"
    ended 143 "$PID"
    let_go holder
    ended 0 "$held"
}

# ---- a semaphore

slots() {
    hold a pool --count 2 --ttl 20s
    a=$PID
    hold b pool --count 2 --ttl 20s
    b=$PID
    exits 4 "$TENURE" lock pool --count 2 --no-wait -- echo never
    same 'standard error' "$ERR" ''
    # Its name alone is no target: each command says so.
    for command in 'show pool' 'release pool --force' 'resign pool --from x --force' 'resign pool --from x'; do
        # shellcheck disable=SC2086 # words
        exits 1 "$TENURE" $command --namespace lock
        err_has 'pool has slots: name one of them, such as pool/0'
    done
    background c "$TENURE" lock pool --count 2 --ttl 20s --name c -- sh -c 'echo "$TENURE_ROLE $TENURE_SLOT"'
    c=$PID
    waits c
    OUT=$("$TENURE" ls --held --namespace lock --json)
    out_has '"target":"pool/0"' '"target":"pool/1"'
    let_go a
    ended 0 "$a"
    ended 0 "$c"
    OUT=$(cat "$CASE/c.out")
    case $OUT in 'pool 0' | 'pool 1') ;; *) fail "it says '$OUT'" ;; esac
    let_go b
    ended 0 "$b"
}
kills() {
    "$PYTHON" "$TENURE_SOURCE/tests/lib/semaphore.py" "$TENURE" "$POLLER" "$LOG" 3 "$SECONDS_OF_KILLS" ||
        fail 'too little has happened, or a slot was not used'
    sound --terms $((SECONDS_OF_KILLS / 2))
}
elects() {
    for i in 1 2 3 4; do
        background "e$i" "$TENURE" elect pool --count 2 --name "e$i" --ttl 20s --restart always --log-format json -- \
            sh -c 'echo "$TENURE_SLOT" >>"$0"; exec sleep 1000' "$CASE/slots"
        eval "e$i=$PID"
    done
    until_true 20 has_lines "$CASE/slots" 2
    for i in 1 2 3 4; do until_true 20 knows "e$i"; done
    same 'slots' "$(sort "$CASE/slots" | tr '\n' ' ')" '0 1 '
    grep -h '"event":"lease_acquired"' "$CASE"/e*.err | grep '"target":"pool"' | grep -q '"slot":[01]' || fail 'no slot in the log'
    holder=$("$TENURE" show pool/0 --namespace leader --json | sed -n 's/.*"instance":"\([^"]*\)".*/\1/p')
    exits 0 "$TENURE" resign pool/0 --from "$holder"
    until_true 20 has_lines "$CASE/slots" 3
    for i in 1 2 3 4; do
        eval "pid=\$e$i"
        kill -TERM "$pid"
        ended 0 "$pid"
    done
}

# ---- several at once

all_or_none() {
    exits 0 "$TENURE" lock --all b a c -- sh -c 'echo "$TENURE_ROLE; $TENURE_TOKENS; $TENURE_TOKEN"'
    case $OUT in "a b c; a="*" b="*" c="*"; "*) ;; *) fail "it says '$OUT'" ;; esac
    hold b b --ttl 20s
    held=$PID
    exits 4 "$TENURE" lock --all c a b --no-wait -- echo never
    same 'standard error' "$ERR" ''
    background all "$TENURE" lock --all c a b --ttl 20s -- sh -c ': >"$0.has"; sleep 1000' "$CASE/all"
    all=$PID
    # Nothing is held while it waits: others get the rest.
    for i in 1 2 3; do exits 0 "$TENURE" lock --all a c --wait 20s -- true; done
    [ ! -e "$CASE/all.has" ] || fail 'it runs without b'
    let_go b
    ended 0 "$held"
    until_true 20 test -e "$CASE/all.has"
    for name in a b c; do exits 4 "$TENURE" lock "$name" --no-wait -- echo never; done
    kill -TERM "$all"
    ended 143 "$all"
    for name in a b c; do exits 0 "$TENURE" lock "$name" --no-wait -- true; done
}
# Without --now nobody enters before the command has ended: it is asked to, and has time for it.
forced() {
    background first "$TENURE" lock web --ttl 20s -- sh -c \
        'trap "echo asked; sleep 0.3; echo ended; exit 7" TERM; : >"$0"; while :; do sleep 0.05; done' "$CASE/has"
    until_true 20 test -e "$CASE/has"
    exits 0 "$TENURE" release web --namespace lock --force
    ended 5 "$PID"
    same 'what the command said' "$(cat "$CASE/first.out")" "$(printf 'asked\nended')"
    grep -q 'lease on web was lost' "$CASE/first.err" || fail 'it does not say why'
    grep -q 'event=command_ending.*reason=forced' "$CASE/first.err" || fail 'it is not logged why'
    exits 0 "$TENURE" lock web --no-wait -- true
    exits 0 "$TENURE" history web --namespace lock --json
    same 'ends of the first token' "$(printf '%s\n' "$OUT" | grep -F '"event":"lease_' | grep -vcF '"event":"lease_acquired"')" 2
}
all_forced() {
    background all "$TENURE" lock --all a b c --ttl 20s -- sh -c ': >"$0.has"; exec sleep 1000' "$CASE/all"
    until_true 20 test -e "$CASE/all.has"
    exits 0 "$TENURE" release b --namespace lock --force
    ended 5 "$PID"
    grep -q 'event=lease_lost .*target=b .*reason=forced' "$CASE/all.err" || fail "the lock that was forced is not named"
    for name in a b c; do exits 0 "$TENURE" lock "$name" --no-wait -- true; done
}
all_lost() {
    background all "$TENURE" lock --all a b c --ttl 2s --renew 500ms --kill-after 100ms -- sh -c ': >"$0.has"; sleep 1000' "$CASE/all"
    until_true 20 test -e "$CASE/all.has"
    exits 0 "$TENURE" release b --namespace lock --force --now
    ended 5 "$PID"
    for name in a b c; do exits 0 "$TENURE" lock "$name" --wait 10s -- true; done
}
# Five philosophers: each wants its neighbours' forks, too. Nobody starves, and no fork is in two hands.
philosophers() {
    for i in 0 1 2 3 4; do
        background "p$i" sh -c 'for meal in 1 2 3 4; do
            "$1" lock --all "fork$3" "fork$4" --ttl 20s -- \
                sh -c "TENURE_ROLE=fork$3 exec \"\$0\" \"\$@\"" "$2" "$5" poll 20 || exit 1
        done' philosopher "$TENURE" "$POLLER" "$i" $(((i + 1) % 5)) "$LOG"
        lockers="${lockers:-} $PID"
    done
    for pid in $lockers; do ended 0 "$pid"; done
    never_two 20
    # Neighbours never eat at the same time: judged for each fork, by both who use it.
    for i in 0 1 2 3 4; do
        awk -v i="$i" -v next="$(((i + 1) % 5))" '$4 == "fork" i || $4 == "fork" next { $4 = "fork" next; print }' "$LOG" |
            awk '$3 == "start" { if (n++) { print "two at a time: " $0; exit 1 } } $3 == "end" { n-- }' ||
            fail "neighbours of fork $i ate at the same time"
    done
}

# ---- docs/MIGRATING.md: as flock(1) and etcdctl lock do it

beside_flock() {
    command -v flock >/dev/null || fail 'there is no flock(1)'
    for tool in "flock $CASE/lockfile" "$TENURE lock report --"; do
        # shellcheck disable=SC2086 # its words
        exits 7 $tool sh -c 'exit 7'
        # shellcheck disable=SC2086
        exits 0 $tool echo had
        out_is had
        same 'standard error' "$ERR" ''
    done
    hold first report --ttl 20s
    held=$PID
    background flock flock "$CASE/lockfile" sh -c ': >"$0.has"; until [ -e "$0.go" ]; do sleep 0.02; done' "$CASE/flock"
    until_true 20 test -e "$CASE/flock.has"
    exits 1 flock -n "$CASE/lockfile" echo never
    exits 4 "$TENURE" lock report --no-wait -- echo never
    exits 1 flock -w 0.2 "$CASE/lockfile" echo never
    exits 4 "$TENURE" lock report --wait 200ms -- echo never
    let_go flock
    ended 0 "$PID"
    let_go first
    ended 0 "$held"
}
beside_etcdctl() {
    command -v etcdctl >/dev/null || fail 'there is no etcdctl'
    endpoint=${TENURE_STORE#etcd://}
    endpoint=${endpoint%%[/?]*}
    run env ETCDCTL_API=3 etcdctl --endpoints "$endpoint" lock report -- sh -c 'exit 7'
    [ "$STATUS" -ne 0 ] || fail 'etcdctl passes a failure off as success'
    exits 7 "$TENURE" lock report -- sh -c 'exit 7'
    exits 0 env ETCDCTL_API=3 etcdctl --endpoints "$endpoint" lock report -- echo had
    out_is had
    exits 0 "$TENURE" lock report -- echo had
    out_is had
}

# ---- mistakes

mistakes() {
    refuses 'NAME is missing' lock
    refuses 'no command' lock web
    refuses 'no command' lock web --
    refuses 'NAME is missing before --' lock -- touch "$CASE/ran"
    refuses "'b'" lock a b -- touch "$CASE/ran"
    for name in '' '..' 'a//b' 'a b' 'ä'; do
        refuses 'is not valid: ' lock "$name" -- touch "$CASE/ran"
    done
    for count in 0 1001 -1 x 1.5 ''; do
        refuses --count lock web --count "$count" -- touch "$CASE/ran"
    done
    refuses bytes lock "$(printf 'r%.0s' $(seq 250))" --count 2 -- touch "$CASE/ran"
    refuses '--count|--all' lock --all a b --count 2 -- touch "$CASE/ran"
    refuses twice lock --all a a -- touch "$CASE/ran"
    refuses '--|--' lock --all a b
    refuses '' lock --all -- touch "$CASE/ran"
    refuses 'is not valid: ' lock --all a 'b c' -- touch "$CASE/ran"
    # shellcheck disable=SC2046 # as many words
    refuses 64 lock --all $(seq 65) -- touch "$CASE/ran"
    refuses --wait lock web --wait 5s --no-wait -- touch "$CASE/ran"
    refuses 5s lock web --wait 5 -- touch "$CASE/ran"
    refuses '' lock web --ttl 50ms -- touch "$CASE/ran"
}

also 'it runs the command, and passes its exit code, its standard input and its environment on' on_locks passes_on
also 'a lock that another has is not had: 4, and not a word' on_locks not_had
also 'those who wait get it one after the other, and leave' on_locks in_turn
also 'a waiter that dies with its warden keeps nobody waiting' on_locks dead_waiter
also 'a lock that is forced asks the command to end, and is free as soon as that has ended: 5' on_locks forced
also 'of several locks the one that was forced is named, and all are free when the command has ended' on_locks all_forced
also 'told to stop, it ends the command, or its waiting' on_locks asked_to_stop
also 'a semaphore has as many holders as slots, and each knows its slot' on_locks slots
also 'a semaphore of 3 under kills never has a slot twice' on_locks kills
also 'elect --count has as many leaders as slots' on_locks elects
also 'several locks are had all together, or none of them' on_locks all_or_none
also 'of several locks one is taken away: the command ends, and the others are released' on_locks all_lost
also 'five philosophers with a fork between each two of them all eat' on_locks philosophers
if on_sqlite; then also 'flock(1) and lock do the same, as docs/MIGRATING.md says' on_locks beside_flock; fi
if [ "$FLEET_STORE" = etcd ]; then also 'etcdctl lock and lock do the same' on_locks beside_etcdctl; fi
if on_sqlite; then also 'mistakes are told, and nothing runs' mistakes; fi
gather
finish
