#!/bin/sh
# The library of the tests in shell: a case that fails leaves no process behind, which would disturb others.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"

nothing_left() {
    # shellcheck disable=SC2016 # for the test inside
    printf '%s\n' '. "$TENURE_SOURCE/tests/lib/tap.sh"' \
        'left() { setsid sleep 1000 & echo $! >"$NOTED"; fail "on purpose"; }' 'it "fails" left' 'finish' >"$CASE/inner.sh"
    NOTED=$CASE/process
    export NOTED
    exits 1 sh "$CASE/inner.sh"
    out_has 'not ok 1 - fails' 'FAILED: on purpose'
    process=$(cat "$NOTED")
    until_true 5 is_gone "$process"
}
is_gone() { ! grep -aqs sleep "/proc/$1/cmdline"; } # a zombie has none

it 'what a case that failed has started is ended, also if nothing on its command line tells of the case' nothing_left
finish
