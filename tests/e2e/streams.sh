#!/bin/sh
# Closed, full and blocked standard streams. Lease work goes on without a log; a token that nobody can read is given
# back; and nothing that was meant for a stream lands in the store's files.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

store_is_whole() {
    same 'the integrity check' "$(sqlite3 "$CASE/store.db" 'PRAGMA integrity_check')" ok
    exits 0 "$TENURE" acquire afterwards
    exits 0 "$TENURE" doctor
    exits 0 "$TENURE" release afterwards --token 1
}

# with_shell CODE COMMAND: runs a shell line, which has the redirections.
with_shell() {
    expected=$1
    shift
    exits "$expected" timeout 120 sh -c "$@"
}

closed_stdout() {
    with_shell 1 '"$TENURE" acquire job-1 >&-'
    err_has 'cannot write the token' 'was released'
    same 'the state' "$(state_of job-1)" free
    store_is_whole
}

full_stdout() {
    with_shell 1 '"$TENURE" acquire job-1 >/dev/full'
    err_has 'cannot write the token' 'was released'
    same 'the state' "$(state_of job-1)" free
    with_shell 1 '"$TENURE" show job-1 --json >/dev/full'
    with_shell 1 '"$TENURE" ls >/dev/full'
    with_shell 1 '"$TENURE" version >/dev/full'
    with_shell 1 '"$TENURE" --help >/dev/full'
}

reader_gone() {
    with_shell 0 '{ "$TENURE" acquire job-1; echo $? >"$CASE/code"; } | true'
    # `true` may still have been there when the token was written.
    case $(cat "$CASE/code") in
    0) exits 0 "$TENURE" release job-1 --token 1 ;;
    1) ;;
    *) fail "exit code $(cat "$CASE/code")" ;;
    esac
    same 'the state' "$(state_of job-1)" free
}

closed_stderr() {
    with_shell 0 '"$TENURE" acquire job-1 2>&-'
    out_is 1
    with_shell 0 '"$TENURE" renew job-1 --token 1 2>&-'
    with_shell 4 '"$TENURE" acquire job-1 2>&-'
    with_shell 4 '"$TENURE" acquire job-1 --wait 500ms --log-level debug 2>&-'
    store_is_whole
}

closed_stdin() {
    with_shell 0 '"$TENURE" acquire job-1 <&-'
    out_is 1
    store_is_whole
}

all_closed() {
    with_shell 1 '"$TENURE" acquire job-1 <&- >&- 2>&-'
    same 'the state' "$(state_of job-1)" free
    with_shell 0 '"$TENURE" acquire job-2 2>&- <&-'
    out_is 1
    store_is_whole
}

full_stderr() {
    with_shell 0 '"$TENURE" acquire job-1 2>/dev/full'
    out_is 1
    with_shell 0 '"$TENURE" release job-1 --token 1 2>/dev/full'
}

# A pipe that is full and that nobody reads, although somebody has it open: a log collector that hangs.
blocked_stderr() {
    mkfifo "$CASE/pipe"
    start=$(now_ms)
    with_shell 0 'exec 3<>"$CASE/pipe"
        dd if=/dev/zero bs=4096 count=256 of="$CASE/pipe" oflag=nonblock 2>/dev/null
        "$TENURE" acquire job-1 2>"$CASE/pipe"'
    out_is 1
    took 'ms with a log that hangs' "$(($(now_ms) - start))" 0 4000
    same 'the state' "$(state_of job-1)" held
}

export TENURE CASE
{
    it 'a closed standard output gives the lease back and exits 1' closed_stdout
    it 'a full standard output gives the lease back and exits 1' full_stdout
    it 'a reader that has gone leaves no lease that nobody knows of' reader_gone
    it 'a closed standard error does not fail acquire' closed_stderr
    it 'a closed standard input does not matter' closed_stdin
    it 'with all streams closed nothing is written where it does not belong' all_closed
    it 'a full standard error does not fail acquire' full_stderr
    it 'a standard error that blocks does not block acquire' blocked_stderr
}
finish
