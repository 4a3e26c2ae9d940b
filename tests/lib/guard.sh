# Messages, and a guard that runs, for the end-to-end tests; sourced after tap.sh.
# shellcheck shell=sh disable=SC2034 # GUARD is for the tests

PYTHON=${PYTHON:-python3}

# take TARGET: a lease on it that nobody renews; hand_over TARGET: the next one, with the next token.
take() { "$TENURE" acquire "$1" --ttl "${GUARD_LEASE:-60s}" --log-level error >"token.$1"; }
hand_over() {
    "$TENURE" release "$1" --token "$(cat "token.$1")" --log-level error
    take "$1"
}

# message TARGET TOKEN
message() { printf '{"target":"%s","_version":%s}\n' "$1" "$2"; }

# guard_text OPTION...: standard input through a guard, to ./out and ./err.
guard_text() { "$TENURE" guard "$@" >out 2>err; }

# guard_start OPTION...: one that reads a pipe, which is descriptor 3 of the test. $GUARD is its process; its output is in
# guard.out and guard.err.
guard_start() {
    mkfifo pipe
    background guard "$TENURE" guard --in pipe "$@"
    GUARD=$PID
    exec 3>pipe
}
say() { message "$1" "$2" >&3; }
guard_ends() {
    exec 3>&-
    ended 0 "$GUARD"
}

has_lines() { [ "$(grep -c . "$1")" -ge "$2" ]; }
# passed_is COUNT: that many messages pass, and no more.
passed_is() {
    until_true 10 has_lines guard.out "$1"
    same 'messages that passed' "$(grep -c . guard.out)" "$1"
}
# until_refused TARGET TOKEN: says it until it is refused.
until_refused() {
    guard_refused=$(grep -c stale_refused guard.err || :)
    until_true 15 say_and_look "$1" "$2"
}
say_and_look() {
    say "$1" "$2"
    sleep 0.05
    [ "$(grep -c stale_refused guard.err)" -gt "$guard_refused" ]
}
