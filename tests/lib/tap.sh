# A small TAP library for the end-to-end tests, in POSIX sh. A test file sources it, writes each case as a function,
# runs them with `it "a sentence about behaviour" function`, and ends with `finish`.
#
# Each case runs in a subshell with `set -e`, in a directory of its own ($CASE) and with a store of its own
# (TENURE_STORE), so the order of cases does not matter. What it prints is shown only when it fails. Processes that it
# started with `background` are killed, by their ids, when it ends.
# shellcheck shell=sh disable=SC2034 # OUT, ERR and STATUS are for the tests

TENURE=${TENURE:?the path of the program under test}

# The test runs anew in a known state: no signal ignored, nothing of the user's own settings, state or store.
if [ -z "${TAP_STARTED:-}" ]; then
    tap_python=/usr/bin/python3 # the one that Debian's packages are for
    [ -x "$tap_python" ] || tap_python=python3
    exec "$tap_python" -I "${TENURE_SOURCE:?}/tests/lib/machine.py" sh "$0" "$@"
fi
unset TAP_STARTED

TAP_DIR=$(mktemp -d "${TMPDIR:-/tmp}/tenure-e2e.XXXXXX") || exit 1
TAP_COUNT=0
TAP_FAILED=0
trap 'rm -rf "$TAP_DIR"' EXIT
trap 'exit 1' HUP INT TERM

# ---- cases

# it SENTENCE FUNCTION [ARGUMENT...]
it() {
    tap_sentence=$1
    shift
    TAP_COUNT=$((TAP_COUNT + 1))
    CASE=$TAP_DIR/$TAP_COUNT
    mkdir -p "$CASE/home"
    : >"$CASE/pids"
    TAP_STALLED=$(stalled_ms)
    (
        set -eu
        cd "$CASE"
        HOME=$CASE/home
        TENURE_STORE=sqlite:$CASE/store.db
        export HOME TENURE_STORE
        "$@"
    ) >"$CASE/log" 2>&1 </dev/null
    tap_status=$?
    while read -r tap_pid; do
        tap_kill "$tap_pid"
    done <"$CASE/pids"
    tap_end_rest
    if [ "$tap_status" -eq 0 ]; then
        echo "ok $TAP_COUNT - $tap_sentence"
    else
        TAP_FAILED=$((TAP_FAILED + 1))
        echo "not ok $TAP_COUNT - $tap_sentence"
        sed 's/^/# /' "$CASE/log"
    fi
    cd / && rm -rf "$CASE"
}

# tap_kill PID: if that is still a process of the case. Where many tests run, the number of one that has ended soon comes
# again. A subshell is recognised by its directory.
tap_kill() {
    if grep -aqsF "$CASE/" "/proc/$1/cmdline" "/proc/$1/environ" || [ "$(readlink "/proc/$1/cwd")" = "$CASE" ]; then
        kill -KILL "$1" 2>/dev/null || :
    fi
}

# What a case that failed has left behind: processes whose command line or environment (HOME) names the directory of the
# case.
tap_end_rest() {
    for tap_file in $(grep -alF "$CASE/" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null); do
        tap_process=${tap_file#/proc/}
        tap_process=${tap_process%/*}
        if [ "$tap_process" -ne "$$" ]; then tap_kill "$tap_process"; fi # not the one that looks
    done
}

finish() {
    echo "1..$TAP_COUNT"
    [ "$TAP_FAILED" -eq 0 ] || exit 1
    exit 0
}

# Most cases wait most of the time. So those that are started by `also` run at the same time, a few of them, and
# `gather` waits for them all and tells what came of them, in their order.
TAP_AT_ONCE=${TAP_AT_ONCE:-6}
TAP_CASES= # numbers of cases, with their processes
TAP_RUNNING= # numbers of those that may still run

# also SENTENCE FUNCTION [ARGUMENT...]
also() {
    until tap_has_room; do sleep 0.05; done
    TAP_COUNT=$((TAP_COUNT + 1))
    (
        TAP_COUNT=$((TAP_COUNT - 1))
        TAP_FAILED=0
        it "$@" >"$TAP_DIR/told-$((TAP_COUNT + 1))"
        : >"$TAP_DIR/done-$TAP_COUNT"
        exit "$TAP_FAILED"
    ) &
    TAP_CASES="$TAP_CASES $TAP_COUNT:$!"
    TAP_RUNNING="$TAP_RUNNING $TAP_COUNT"
}
tap_has_room() {
    tap_still=
    tap_many=0
    for tap_each in $TAP_RUNNING; do
        if [ ! -e "$TAP_DIR/done-$tap_each" ]; then
            tap_still="$tap_still $tap_each"
            tap_many=$((tap_many + 1))
        fi
    done
    TAP_RUNNING=$tap_still
    [ "$tap_many" -lt "$TAP_AT_ONCE" ]
}
gather() {
    for tap_each in $TAP_CASES; do
        wait "${tap_each#*:}" || TAP_FAILED=$((TAP_FAILED + 1))
        cat "$TAP_DIR/told-${tap_each%:*}"
    done
}

# ---- inside a case

fail() {
    echo "FAILED: $*"
    exit 1
}

# run COMMAND...: runs it; STATUS, OUT and ERR are what came of it. Never ends the case by itself.
run() {
    echo "\$ $*"
    STATUS=0
    "$@" >"$CASE/out" 2>"$CASE/err" || STATUS=$?
    OUT=$(cat "$CASE/out")
    ERR=$(cat "$CASE/err")
    sed 's/^/  out: /' "$CASE/out"
    sed 's/^/  err: /' "$CASE/err"
    echo "  exit code: $STATUS"
}

# exits CODE COMMAND...: as run, and the exit code must be CODE.
exits() {
    tap_expected=$1
    shift
    run "$@"
    [ "$STATUS" -eq "$tap_expected" ] || fail "exit code $STATUS instead of $tap_expected: $*"
}

out_is() {
    [ "$OUT" = "$1" ] || fail "standard output is '$OUT' instead of '$1'"
}

out_has() {
    for tap_text in "$@"; do
        case $OUT in
        *"$tap_text"*) ;;
        *) fail "standard output has no '$tap_text'" ;;
        esac
    done
}

out_lacks() {
    case $OUT in
    *"$1"*) fail "standard output has '$1'" ;;
    esac
}

err_lacks() {
    case $ERR in
    *"$1"*) fail "standard error has '$1'" ;;
    esac
}

err_has() {
    for tap_text in "$@"; do
        case $ERR in
        *"$tap_text"*) ;;
        *) fail "standard error has no '$tap_text'" ;;
        esac
    done
}

# same WHAT FOUND EXPECTED
same() {
    [ "$2" = "$3" ] || fail "$1 is '$2' instead of '$3'"
}

# between WHAT NUMBER LEAST MOST
between() {
    echo "$1: $2 (between $3 and $4 expected)"
    if [ "$2" -lt "$3" ] || [ "$2" -gt "$4" ]; then fail "$1 is $2, which is not between $3 and $4"; fi
}

# stalled_ms: for how long since the machine started some process had to wait for a processor, a disk or memory (and what
# the host of a virtual machine took). Empty where the kernel does not tell.
stalled_ms() {
    cat /proc/pressure/cpu /proc/pressure/io /proc/pressure/memory /proc/stat 2>/dev/null | awk '
        $1 == "some" { sub(/.*=/, "", $5); sum += $5 / 1000; known = 1 }
        $1 == "cpu" { sum += $9 * 10 }
        END { if (known) printf "%d\n", sum }'
}
# late_ms: by how much anything that this case waits for may be late, because the machine was busy.
late_ms() {
    tap_now=$(stalled_ms)
    if [ -n "$TAP_STALLED" ] && [ -n "$tap_now" ]; then echo $((tap_now - TAP_STALLED)); else echo 20000; fi
}

# took WHAT MS LEAST MOST: a time that was measured. Two clocks were rounded for it, and what happened too late by no more
# than this machine has kept processes waiting says nothing about the program; nor does what came too soon by as much, for
# what it is counted from may have been late.
took() {
    tap_late=$(late_ms)
    tap_least=$(($3 <= 0 ? $3 : $3 > tap_late ? $3 - tap_late : 0))
    echo "$1: $2 ms (between $3 and $4 expected, and $tap_late off on a machine as busy as this one)"
    if [ "$2" -lt "$((tap_least - 10))" ] || [ "$2" -gt "$(($4 + tap_late))" ]; then
        fail "$1 is $2 ms, which is not between $3 and $4, nor late because of others ($tap_late)"
    fi
}

# repeated WHAT NUMBER LEAST MOST EVERY: what happens every so many ms, in a time that was waited for. A busy machine makes
# both the pauses and the wait longer.
repeated() {
    tap_off=$(($(late_ms) / $5 + 1))
    tap_least=$(($3 > tap_off ? $3 - tap_off : 1))
    between "$1" "$2" "$tap_least" "$(($4 + tap_off))"
}

# nothing_written: no store was made, nor anything else in the state directories; and no command has made the file `ran`.
nothing_written() {
    tap_found=$(find "$CASE" -name '*.db*' -o -name 'tenure' -o -name ran)
    [ -z "$tap_found" ] || fail "files were made: $tap_found"
}

# refuses "part of the message|another" ARGUMENT...: exit code 2, nothing on standard output, and nothing was made.
refuses() {
    tap_parts=$1
    shift
    exits 2 "$TENURE" "$@"
    out_is ''
    while [ -n "$tap_parts" ]; do
        err_has "${tap_parts%%|*}"
        case $tap_parts in
        *'|'*) tap_parts=${tap_parts#*|} ;;
        *) tap_parts= ;;
        esac
    done
    err_has 'tenure: '
    nothing_written
}

# background COMMAND...: starts it with its output in $CASE/NAME.out and .err, where NAME is $1. Its id is $PID.
background() {
    tap_name=$1
    shift
    echo "\$ $* &"
    "$@" >"$CASE/$tap_name.out" 2>"$CASE/$tap_name.err" &
    PID=$!
    echo "$PID" >>"$CASE/pids"
}

# ended CODE PID: waits for a background process, which must end with CODE.
ended() {
    tap_status=0
    wait "$2" || tap_status=$?
    [ "$tap_status" -eq "$1" ] || {
        tail -n 20 "$CASE"/*.out "$CASE"/*.err
        fail "process $2 ended with $tap_status instead of $1"
    }
}

# until_true SECONDS COMMAND...: looks twenty times a second. The seconds are what it takes at most on a machine that is
# not busy. They only end a case that hangs, so that there are at least sixty.
until_true() {
    tap_limit=$(($1 > 60 ? $1 : 60))
    shift
    tap_wait "$((tap_limit * 1000))" "$@" || tap_never "$@"
}
# soon_true SECONDS COMMAND...: the same where it matters that it comes soon. The time in which this machine has kept
# processes waiting does not count.
soon_true() {
    tap_limit=$(($1 * 1000))
    shift
    tap_before=$(late_ms)
    tap_wait "$tap_limit" "$@" || tap_wait "$(($(late_ms) - tap_before))" "$@" || tap_never "$@"
}
tap_wait() {
    tap_end=$(($(now_ms) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$(now_ms)" -ge "$tap_end" ]; then
            "$@" >/dev/null 2>&1 # the last look is after the end, however long the one before took
            return
        fi
        sleep 0.05
    done
}
tap_never() {
    echo "this did not come true: $*"
    tail -n 12 "$CASE"/*.out "$CASE"/*.err
    exit 1
}

# freeze PID...: stops processes, and returns when none of their threads runs. A signal only asks: on a busy machine a
# process that was sent STOP may answer one more request.
freeze() {
    kill -STOP "$@" || return
    for tap_pid in "$@"; do tap_wait 60000 tap_frozen "$tap_pid" || fail "process $tap_pid does not stop"; done
}
tap_frozen() {
    for tap_thread in /proc/"$1"/task/*/stat; do
        read -r tap_stat 2>/dev/null <"$tap_thread" || continue # it is gone
        case ${tap_stat##*) } in [TtZX]*) ;; *) return 1 ;; esac
    done
}

# let_run MS: long enough for another process to have had so much time of its own, also on a busy machine.
let_run() {
    tap_before=$(late_ms)
    tap_sleep "$1"
    tap_more=$(($(late_ms) - tap_before))
    if [ "$tap_more" -gt 0 ]; then tap_sleep "$((tap_more > 5000 ? 5000 : tap_more))"; fi
}
tap_sleep() { sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }

now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

# field KEY: of the one JSON object in OUT; numbers and strings as they are, null as null.
field() {
    printf '%s\n' "$OUT" | python3 -c '
import json, sys
value = json.load(sys.stdin)[sys.argv[1]]
print("null" if value is None else str(value).lower() if isinstance(value, bool) else value)' "$1"
}

# all_json: each line of OUT (or of the file $1) is one JSON object.
all_json() {
    if [ $# -gt 0 ]; then cat "$1"; else printf '%s\n' "$OUT"; fi | python3 -c '
import json, sys
lines = sys.stdin.read().splitlines()
assert lines, "no line at all"
for line in lines:
    assert isinstance(json.loads(line), dict), line' || fail "not one JSON object a line"
}

# remaining_of / token_of / holder_of / state_of TARGET: as the store sees it.
shown() {
    OUT=$("$TENURE" show "$2" --json)
    field "$1"
}
remaining_of() { shown remaining_ms "$1"; }
token_of() { shown token "$1"; }
holder_of() { shown instance "$1"; }
state_of() { shown state "$1"; }
is_held() { [ "$(state_of "$1")" = held ]; }
token_is_above() { [ "$(token_of "$1")" -gt "$2" ]; }
