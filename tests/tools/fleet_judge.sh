#!/bin/sh
# The judge of all tests of fleets (tests/lib/fleet_check.py) is judged: it sees what is wrong with a log, and nothing in one
# that is well.
# shellcheck source=tests/lib/tap.sh
. "${TENURE_SOURCE:?}/tests/lib/tap.sh"
# shellcheck source=tests/lib/fleet.sh
. "$TENURE_SOURCE/tests/lib/fleet.sh"

# judged WHAT OPTION...: the judge refuses the log on its standard input, and says WHAT.
judged() {
    cat >"$CASE/polls"
    what=$1
    shift
    run "$PYTHON" "$CHECK" "$CASE/polls" check "$@"
    [ "$STATUS" -eq 1 ] || fail "the judge does not see it: $what"
    out_has "$what"
}
judge() {
    printf '%s\n' '1000 1 start t 1 a' '9000 1 beat t 1 a' '5000 2 start t 2 b' '8000 2 end t 2 b' | judged 'polled twice'
    printf '%s\n' '1000 1 start t 1 a' '9000 1 beat t 1 a' '2000 2 start t 1 a' '3000 2 end t 1 a' '5000 3 start t 2 b' |
        judged 'polled twice for 1 ms at 2:'
    printf '%s\n' '1000 1 start t 2 a' '2000 1 end t 2 a' '3000 2 start t 1 b' '4000 2 end t 1 b' | judged 'token 1 of b after 2'
    printf '%s\n' '1000 1 start t 1 a' '2000 1 end t 1 a' '3000 2 start t 1 b' '4000 2 end t 1 b' | judged 'of both a and b'
    printf '%s\n' '1000 1 start t 1 a' '2000 1 end t 1 a' '903000 2 start t 1 a' | judged 'not polled for 901 ms' --bound 900
    printf '%s\n' '1000 1 start t 1 a' '2000 1 end t 1 a' '999000 - mark end - -' | judged 'not polled for 997 ms' --bound 900 --until end
    printf '%s\n' '1000 1 start t 1 a' | judged 'never polled' --bound 900 --targets t,u
    printf '%s\n' '1000 1 start t 1 a' | judged 'proves too little' --polls 2
    printf '%s\n' '1000 1 start web 1 a' '2000 1 beat web 1 a' '5000 2 start web 1 a' '8000 2 end web 1 a' |
        judged 'token 1 of a after 1' --terms 2
    # Somebody who is not ours has no token, but ours change over it; of ours each has one.
    printf '%s\n' '1000 1 start t 5 a' '2000 1 end t 5 a' '3000 2 start t - seed-1' '4000 2 end t - seed-1' '5000 3 start t 5 a' |
        judged 'token 5 of a after 5'
    printf '%s\n' '1000 1 start t 5 a' '2000 1 end t 5 a' '3000 2 start t - b' >"$CASE/polls"
    exits 1 "$PYTHON" "$CHECK" "$CASE/polls" check
    # And what is well is well: one poll after another, also when the first was killed between two beats.
    printf '%s\n' '1000 1 start t 1 a' '2000 1 beat t 1 a' '3000 2 start t 2 b' '4000 2 end t 2 b' >"$CASE/polls"
    exits 0 "$PYTHON" "$CHECK" "$CASE/polls" check --bound 1 --takeovers 1
}

it 'the judge sees overlaps, lower and shared tokens, pauses, and runs that prove too little' judge
finish
