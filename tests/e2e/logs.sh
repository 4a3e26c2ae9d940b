#!/bin/sh
# The log as people meet it: in words on a terminal, logfmt elsewhere; each failure once; nothing when all went well.
# shellcheck source=tests/lib/tap.sh
. "$TENURE_SOURCE/tests/lib/tap.sh"

# Both streams of a command that has a terminal. Sets OUT.
on_terminal() {
    OUT=$(python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$@" \
        </dev/null | tr -d '\r')
    printf '%s\n' "$OUT"
}
has() { printf '%s\n' "$OUT" | grep -Eq -- "$1" || fail "no line matches: $1"; }

words_on_a_terminal() {
    on_terminal "$TENURE" elect web --name host-a -- true
    has '^[0-9][0-9]:[0-9][0-9]:[0-9][0-9] host-a [0-9a-f]{4} web: acquired \(token 1\)$'
    has 'web: the command ended \(token 1, done, exit status 0\)$'
    case $OUT in *ts=*) fail 'it is logfmt' ;; esac
}
logfmt_in_a_pipe() {
    exits 0 "$TENURE" elect web -- true
    err_has 'level=info event=lease_acquired' 'event=command_ended' 'exit_status=0'
    exits 0 "$TENURE" elect web --log-format human --name host-a -- true
    err_has 'web: acquired (token 2)'
}

nothing_on_success() {
    for command in "once a --at-least 0s" "lock b"; do
        exits 0 "$TENURE" $command -- true
        same 'standard error' "$ERR" ''
        exits 0 "$TENURE" $command -v -- true
        err_has event=lease_acquired
    done
}
quiet() {
    exits 0 "$TENURE" elect web -q -- true
    same 'standard error' "$ERR" ''
    exits 0 "$TENURE" target add one two --quiet
    same 'standard error' "$ERR" ''
    exits 3 "$TENURE" ls -q --store redis://127.0.0.1:1
    err_has 'Connection refused'
    exits 2 "$TENURE" ls -q -v
}

once_each() {
    exits 0 "$TENURE" acquire job
    exits 4 "$TENURE" acquire job
    same 'lines' "$(printf '%s\n' "$ERR" | wc -l)" 1
    exits 5 "$TENURE" renew job --token 7
    same 'lines' "$(printf '%s\n' "$ERR" | wc -l)" 1
    exits 0 "$TENURE" release job --force
    same 'lines' "$(printf '%s\n' "$ERR" | wc -l)" 1
}

# Who waits says for whom, and does not call it a failure.
standby() {
    background a "$TENURE" elect web --name host-a -- sleep 1000
    until_true 10 grep -q event=lease_acquired "$CASE/a.err"
    background b "$TENURE" elect web --name host-b --log-format human -- sleep 1000
    until_true 10 grep -Eq 'web: waiting: held by host-a [0-9a-f]{4} for another [0-9.]+s$' "$CASE/b.err"
    ! grep -Eiq 'fail|error|warn' "$CASE/b.err" || fail 'it calls that a failure'
}

# The agent tries when the lease that it has listed would have expired: by then it was renewed.
agent_waits() {
    exits 0 "$TENURE" target add job
    background lock "$TENURE" lock job --namespace poll --ttl 3s -v -- sleep 1000
    until_true 10 grep -q event=lease_acquired "$CASE/lock.err"
    background a "$TENURE" agent --targets store --poll exec:true --ttl 3s --settle 200ms --log-level debug
    until_true 20 grep -q 'level=debug event=lease_acquire_failed .*target=job' "$CASE/a.err"
    ! grep -Eq 'level=(warn|error|info) event=lease_acquire_failed' "$CASE/a.err" || fail 'it calls that a failure'
}

# The first of each lease at info, the others at debug.
renewals() {
    background a "$TENURE" elect web --ttl 600ms --log-level debug -- sleep 1000
    background b "$TENURE" elect other --ttl 600ms -- sleep 1000
    until_true 10 has_renewals a debug 3
    until_true 10 has_renewals b info 1
    same 'the renewals of a at info' "$(grep -c 'level=info event=lease_renewed' "$CASE/a.err")" 1
    let_run 500
    same 'the renewals of b' "$(grep -c 'event=lease_renewed' "$CASE/b.err")" "$(grep -c 'event=lease_acquired' "$CASE/b.err")"
}
has_renewals() { [ "$(grep -c "level=$2 event=lease_renewed" "$CASE/$1.err")" -ge "$3" ]; }

it 'on a terminal the log is in words, with short ids' words_on_a_terminal
it 'in a pipe the log is logfmt, unless told otherwise' logfmt_in_a_pipe
it 'once and lock say nothing when all went well, and more with -v' nothing_on_success
it '-q leaves errors only, of every command' quiet
it 'a command that fails says it in one line' once_each
it 'a standby says whom it waits for, and not that it failed' standby
it 'an agent that waits for a target of another does not call that a failure' agent_waits
it 'the first renewal of a lease is logged at info, the others at debug' renewals
finish
